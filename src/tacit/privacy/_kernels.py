"""Compiled loops of this room; imported when first needed, since compiling takes seconds."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

__all__ = ["add_entries"]


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
