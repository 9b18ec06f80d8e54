"""Randomizers that a user's own device applies to one symbol: k-ary randomized response and subset selection.

Both are ε-local by their likelihood ratio, which is attained, so the maps between ε and their probabilities are exact.
Probabilities are rounded to multiples of 2⁻⁶³ **against us** (truth a little less likely), so that what is drawn, a
64-bit word compared with a threshold, has exactly the probability that the map is told.

* Randomized response over d symbols: the truth with probability e^ε/(e^ε+d−1), otherwise another, uniformly. With
  d = 2 and p = 2/(e^ε+1) this is 002's R_p: "with probability p replace the bit by a fair one".
* Subset selection (Ye & Barg 2018; Wang et al. 2016): a set of w of the d symbols; the truth is in it with probability
  w e^ε/(w e^ε+d−w), the rest is uniform. Likelihood ratio of any two symbols for any set: e^ε. w near d/(e^ε+1) has
  the least variance, close to 4e^ε/(e^ε−1)² per user for a symbol that is not hers, and 1 more for the one that is.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.privacy.accounting import Loss, round_up
from tacit.privacy.guarantees import GuaranteeError
from tacit.privacy.noise import NoiseSource

__all__ = ["SubsetSelection", "binary_response"]

_WORD = 2**64


@dataclass(frozen=True)
class SubsetSelection:
    """Subset selection of `width` out of `symbols` symbols; width 1 is randomized response.

    Parameters
    ----------
    epsilon
        The local guarantee asked for; `loss` is what the rounded probabilities give, never more.
    symbols
        d ≥ 2.
    width
        w; by default the one of least variance, summed over all symbols.
    """

    epsilon: float
    symbols: int
    width: int = 0

    def __post_init__(self) -> None:
        if not self.epsilon > 0 or math.isinf(self.epsilon):
            raise GuaranteeError(f"a randomizer needs 0 < epsilon < ∞; got {self.epsilon}")
        if self.symbols < 2:
            raise GuaranteeError(f"there is nothing to hide among {self.symbols} symbol(s): at least 2 are needed")
        if self.width == 0:
            object.__setattr__(self, "width", _best_width(self.epsilon, self.symbols))
        if not 1 <= self.width < self.symbols:
            raise GuaranteeError(f"the width must be in 1..{self.symbols - 1}; got {self.width}")
        if self._threshold * self.symbols <= self.width * _WORD:
            raise GuaranteeError(
                f"epsilon {self.epsilon} is too small for 64-bit coins among {self.symbols} symbols: take a larger one"
            )

    @cached_property
    def _threshold(self) -> int:
        """The truth is in the set if a 64-bit word is below this; even, so that the word is drawn once."""
        epsilon = min(self.epsilon, 40.0) * (1.0 - 2.0**-36) - 8.0 * self.symbols / _WORD  # more than `loss` adds
        odds = self.width * math.exp(epsilon) / (self.symbols - self.width)
        # The lie is what is rounded, and up: near 1 the truth itself would be too coarse.
        return _WORD - math.ceil(2.0**53 / (1.0 + odds) * (1.0 + 2.0**-50)) * 2**11

    @property
    def truth(self) -> float:
        """P(the true symbol is in the set)."""
        return self._threshold / _WORD

    @property
    def other(self) -> float:
        """P(a given other symbol is in the set)."""
        rest = self.symbols - 1
        return (self.truth * (self.width - 1) + (1.0 - self.truth) * self.width) / rest

    @property
    def loss(self) -> Loss:
        """The likelihood ratio truth·(d−w)/(w·(1−truth)), rounded up, and what ties of keys may add."""
        # Whole numbers: the ratio minus 1 is exact before its one division.
        lie = self.width * (_WORD - self._threshold)
        gain = self._threshold * (self.symbols - self.width) - lie
        return Loss.pure(round_up(math.log1p(gain / lie)) + 4.0 * self.symbols / _WORD)

    def variance(self, weights: Sequence[float] = (1.0,)) -> float:
        """Per user, of the unbiased estimate of Σ c_j [the symbol is j], whatever the true symbol.

        The default is one symbol's indicator. Given the coin T (the truth is in the set or not), the rest of the set
        is a uniform (w−T)-subset of the d−1 others: a finite-population variance; T's own variance comes on top.
        """
        c = np.zeros(self.symbols)
        c[: len(weights)] = weights
        others, worst = self.symbols - 1, 0.0
        for truth in np.unique(c):
            total, squares = c.sum() - truth, (c**2).sum() - truth**2
            spread = squares - total**2 / others
            within, means = 0.0, []
            for inside, probability in ((1, self.truth), (0, 1.0 - self.truth)):
                size = self.width - inside
                if others > 1:
                    within += probability * size * (1.0 - size / others) * spread / (others - 1)
                means.append(inside * truth + size * total / others)
            between = self.truth * (1.0 - self.truth) * (means[0] - means[1]) ** 2
            worst = max(worst, within + between)
        return worst / (self.truth - self.other) ** 2

    def randomize(self, symbol: NDArray[np.int64], noise: NoiseSource) -> NDArray[np.bool_]:
        """The set that each device reports, as bits: (runs, users) → (runs, users, d).

        The other members have the smallest random 63-bit keys: uniform up to ties, which `loss` accounts for
        (`docs/proofs/responses.md`).
        """
        runs, users = symbol.shape
        truth_in = noise.words(runs=runs, size=users) < np.uint64(self._threshold)
        keys = noise.words(runs=runs, size=users * self.symbols).reshape(runs, users, self.symbols)
        keys >>= np.uint64(1)
        np.put_along_axis(keys, symbol[..., None], np.uint64(_WORD - 1), axis=-1)  # the truth is out of their reach
        last = self.width - 1
        members = np.argpartition(keys, [max(last - 1, 0), last], axis=-1)[..., : self.width]
        members[..., last] = np.where(truth_in, symbol, members[..., last])
        report = np.zeros(keys.shape, dtype=np.bool_)
        np.put_along_axis(report, members, True, axis=-1)
        return report

    def estimate(self, counts: NDArray[Any], users: int | NDArray[Any]) -> NDArray[np.float64]:
        """How many users have each symbol, unbiased, from how often it is in their sets."""
        return np.asarray((counts - users * self.other) / (self.truth - self.other), dtype=np.float64)


def binary_response(epsilon: float) -> SubsetSelection:
    """Warner's randomized response: one bit, truth with probability e^ε/(e^ε+1)."""
    return SubsetSelection(epsilon, symbols=2, width=1)


def _best_width(epsilon: float, symbols: int) -> int:
    near = symbols / (math.exp(min(epsilon, 40.0)) + 1.0)
    candidates = sorted({min(max(1, round_to), symbols - 1) for round_to in (math.floor(near), math.ceil(near))})

    def all_symbols(width: int) -> float:
        response = SubsetSelection(epsilon, symbols, width)
        truth, other = response.truth, response.other
        return (truth * (1.0 - truth) + (symbols - 1) * other * (1.0 - other)) / (truth - other) ** 2

    return min(candidates, key=all_symbols)
