"""Types of compiled functions' arguments, for whichever room compiles some. Imported by kernels only: Numba is slow."""

from __future__ import annotations

from typing import Any

from numba import types

__all__ = ["readable", "writable"]


def readable(dtype: Any, dimensions: int) -> Any:
    """A C-contiguous array that is read, and may be read-only."""
    return types.Array(dtype, dimensions, "C", readonly=True)


def writable(dtype: Any, dimensions: int) -> Any:
    """A C-contiguous array that is written to."""
    return types.Array(dtype, dimensions, "C")
