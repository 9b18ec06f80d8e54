"""Compiled loops of this room; imported when first needed, since compiling takes seconds."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

__all__ = ["add_entries"]


@njit(cache=True, nogil=True)
def add_entries(accumulator: NDArray[Any], cells: NDArray[np.int64], values: NDArray[np.int64]) -> None:
    """Add the entries (runs, m) to an accumulator (runs, cells); cell −1 is nothing."""
    for run in range(cells.shape[0]):
        for entry in range(cells.shape[1]):
            cell = cells[run, entry]
            if cell >= 0:
                accumulator[run, cell] += values[run, entry]
