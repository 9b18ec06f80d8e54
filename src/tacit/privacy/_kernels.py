"""Compiled loops of this room; imported when first needed, since compiling takes seconds."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

__all__ = ["add_entries", "invert_laplace"]


# Division must not raise: a loop that may be left half-way is not vectorised.
@njit(cache=True, nogil=True, error_model="numpy")
def invert_laplace(uniforms: NDArray[np.float64], scale: float) -> None:
    """Turn uniforms (n,) in [0, 1), multiples of 2⁻⁵³, into Laplace variables, in place: ±scale·log(1 − |2u − 1|).

    The logarithm is that of fdlibm (Sun, 1993), exact to one unit in the last place and the same on every machine;
    written out, since a call per variable would take five times as long.
    """
    for i in range(uniforms.size):
        folded = 2.0 * uniforms[i] - 1.0
        tail = (1.0 - abs(folded)) + 2.0**-53  # the middle of the step, so that it is never 0
        # tail = 2^exponent · (1 + f), with 1 + f between √½ and √2
        bits = np.float64(tail).view(np.int64) + np.int64(0x0009_5F62_0000_0000)
        exponent = np.float64(np.int32(bits >> 52) - 1023)
        mantissa = (bits & np.int64(0x000F_FFFF_FFFF_FFFF)) + np.int64(0x3FE6_A09E_0000_0000)
        f = np.int64(mantissa).view(np.float64) - 1.0
        s = f / (2.0 + f)
        z, half = s * s, 0.5 * f * f
        # log(1 + f) = f − f²/2 + s·(f²/2 + rest), rest a polynomial in s²
        rest = 1.531383769920937332e-01 + z * 1.479819860511658591e-01
        rest = 2.222219843214978396e-01 + z * (1.818357216161805012e-01 + z * rest)
        rest = z * (
            6.666666666666735130e-01 + z * (3.999999999940941908e-01 + z * (2.857142874366239149e-01 + z * rest))
        )
        correction = s * (half + rest) + exponent * 1.90821492927058770002e-10
        log = exponent * 6.93147180369123816490e-01 - ((half - correction) - f)
        uniforms[i] = log * (-scale if folded < 0.0 else scale)


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
