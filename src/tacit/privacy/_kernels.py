"""Compiled loops of this room; imported when first needed, since compiling takes seconds."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

__all__ = ["add_entries", "apply_signs"]


@njit(cache=True, nogil=True, error_model="numpy")
def apply_signs(noise: NDArray[np.float64], words: NDArray[np.uint64], scale: float) -> None:
    """Multiply noise (n,) by ±scale in place, one bit of `words` each."""
    for block in range(words.size):
        word = words[block]
        first = 64 * block
        if first + 64 <= noise.size:  # a constant length, so that the compiler makes it one vector operation
            for bit in range(64):
                noise[first + bit] *= scale * (
                    1.0 - 2.0 * np.float64(np.int64((word >> np.uint64(bit)) & np.uint64(1)))
                )
        else:
            for bit in range(noise.size - first):
                noise[first + bit] *= scale * (
                    1.0 - 2.0 * np.float64(np.int64((word >> np.uint64(bit)) & np.uint64(1)))
                )


@njit(cache=True, nogil=True)
def add_entries(
    pool: NDArray[Any], live: NDArray[np.int64], cells: NDArray[np.int64], values: NDArray[np.int64]
) -> None:
    """Add the entries (runs, m) to every live accumulator of the pool (slots, runs, cells); cell −1 is nothing."""
    for slot in live:
        for run in range(cells.shape[0]):
            for entry in range(cells.shape[1]):
                cell = cells[run, entry]
                if cell >= 0:
                    pool[slot, run, cell] += values[run, entry]
