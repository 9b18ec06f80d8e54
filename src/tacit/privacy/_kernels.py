"""Compiled loops of this room; imported when first needed, since compiling takes seconds."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

__all__ = ["add_entries", "apply_signs"]


@njit(cache=True, nogil=True)
def apply_signs(noise: NDArray[np.float64], signs: NDArray[np.uint64], scale: float) -> None:
    """Multiply by ±scale, one bit of `signs` each."""
    runs, size = noise.shape
    for run in range(runs):
        for block in range(signs.shape[1]):
            bits = signs[run, block]
            first = 64 * block
            for position in range(first, min(first + 64, size)):
                noise[run, position] *= scale if bits & np.uint64(1) else -scale
                bits >>= np.uint64(1)


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
