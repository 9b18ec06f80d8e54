"""Laplace variables for simulations: a ziggurat on counters. Imported when first needed, since compiling takes seconds.

The i-th word of a run is SplitMix64's function of key + i·γ (Steele, Lea & Flood 2014): no state but a count, so a
run's noise does not depend on the runs beside it, and words need not wait for one another. A word's bits choose a
layer (8), a sign (1) and a place (53) of the ziggurat of Marsaglia & Tsang (2000) for e^{−x} with 256 layers of equal
area; in 1.1 % of cases the place is not wholly below the curve, and words derived from this one decide. That is half
the time of NumPy's exponentials without signs (`docs/decisions/006-simulated-laplace.md`).
"""

from __future__ import annotations

import math

import numpy as np
from numba import float64, njit, types, uint64, void
from numpy.typing import NDArray

__all__ = ["EDGES", "draw_laplace", "draw_words", "mixed"]

_GAMMA = 0x9E3779B97F4A7C15  # 2^64 / golden ratio, odd

_TAIL = 7.69711747013104972
"""Where the lowest layer's rectangle ends and the tail begins."""


def _edges() -> NDArray[np.float64]:
    """Right edges of the layers, from the top (0: none) down to the lowest, which stands for its rectangle and tail."""
    area = (_TAIL + 1.0) * math.exp(-_TAIL)
    edges = np.zeros(257)
    edges[256], edges[255] = area * math.exp(_TAIL), _TAIL
    for layer in range(254, 0, -1):
        edges[layer] = -math.log(math.exp(-edges[layer + 1]) + area / edges[layer + 1])
    return edges


EDGES = _edges()
_WIDTHS = EDGES[1:] * 2.0**-53
_INSIDE = (EDGES[:-1] / EDGES[1:] * 2.0**53).astype(np.int64)  # places below this are wholly under the curve
_HEIGHTS = np.exp(-EDGES)

# Words made in one go: few enough to stay in a processor's nearest cache.
_AT_A_TIME = 256


@njit(uint64(uint64), cache=True, nogil=True)
def mixed(counter: int) -> int:
    """SplitMix64's finaliser."""
    z = np.uint64(counter)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))  # type: ignore[return-value]


@njit(float64(uint64), cache=True, nogil=True, error_model="numpy")
def _exponential(word: int) -> float:
    """An exponential variable from a word, and from others derived from it where the layers' shape asks for more."""
    while True:
        layer, place = np.int64(word & np.uint64(255)), np.int64(word >> np.uint64(11))
        x = place * _WIDTHS[layer]
        if place < _INSIDE[layer]:
            return x  # type: ignore[no-any-return]
        word = mixed(word + np.uint64(_GAMMA))
        uniform = np.float64(np.int64(word >> np.uint64(11))) * 2.0**-53
        if layer == 255:
            return _TAIL - math.log1p(-uniform)  # memoryless
        if _HEIGHTS[layer + 1] + (_HEIGHTS[layer] - _HEIGHTS[layer + 1]) * uniform < math.exp(-x):
            return x  # type: ignore[no-any-return]
        word = mixed(word + np.uint64(_GAMMA))


@njit(void(uint64, types.Array(uint64, 1, "C")), cache=True, nogil=True)
def _fill(counter: int, words: NDArray[np.uint64]) -> None:
    """SplitMix64's next outputs. Nothing but arithmetic, so that a processor takes several at a time."""
    for i in range(words.size):
        words[i] = mixed(np.uint64(counter) + np.uint64(i) * np.uint64(_GAMMA))


@njit(
    void(types.Array(uint64, 1, "C"), uint64, float64, types.Array(float64, 2, "C")),
    cache=True,
    nogil=True,
    error_model="numpy",
)
def draw_laplace(keys: NDArray[np.uint64], first: int, scale: float, noise: NDArray[np.float64]) -> None:
    """Fill noise (runs, n) with Laplace variables of this scale, from words first, first + 1, … of each run's key."""
    widths = np.concatenate((_WIDTHS, -_WIDTHS)) * scale  # by layer and sign, the word's lowest nine bits
    buffer = np.empty(_AT_A_TIME, dtype=np.uint64)
    undecided = np.empty(_AT_A_TIME, dtype=np.int64)
    for run in range(noise.shape[0]):
        for begin in range(0, noise.shape[1], _AT_A_TIME):
            row = noise[run, begin : begin + _AT_A_TIME]
            words = buffer[: row.size]
            _fill(keys[run] + np.uint64(first + begin) * np.uint64(_GAMMA), words)
            count = 0  # of the places that are not wholly below the curve: looked at later, not to halt the others
            for i in range(row.size):
                word = words[i]
                place = np.int64(word >> np.uint64(11))
                row[i] = place * widths[np.int64(word & np.uint64(511))]
                undecided[count] = i
                count += place >= _INSIDE[np.int64(word & np.uint64(255))]
            for i in undecided[:count]:
                row[i] = math.copysign(_exponential(words[i]) * scale, row[i])


@njit(void(types.Array(uint64, 1, "C"), uint64, types.Array(uint64, 2, "C")), cache=True, nogil=True)
def draw_words(keys: NDArray[np.uint64], first: int, words: NDArray[np.uint64]) -> None:
    """Fill words (runs, n) with words first, first + 1, … of each run's key."""
    for run in range(words.shape[0]):
        _fill(keys[run] + np.uint64(first) * np.uint64(_GAMMA), words[run])
