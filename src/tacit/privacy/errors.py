"""Laws of the noise in a release: standard deviation and exact quantiles (the E of Assumption 1 in 000 and 003)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeAlias

from tacit.privacy.accounting import round_up

__all__ = [
    "ErrorLaw",
    "LaplaceSum",
    "NoError",
    "Normal",
    "PrintedSum",
    "chan_bound",
    "gaussian_moves",
    "laplace_moves",
    "laplace_sum_quantile",
    "laplace_sum_tail",
]


@dataclass(frozen=True)
class NoError:
    """Exact."""

    std: float = 0.0

    def quantile(self, beta: float) -> float:
        """E with P(|error| > E) ≤ beta: 0."""
        return 0.0

    def summed(self, cells: int) -> NoError:
        """Of the sum of so many cells."""
        return self

    def to_json(self) -> dict[str, Any]:
        """For statements and files."""
        return {"law": "none"}


@dataclass(frozen=True)
class LaplaceSum:
    """The sum of `terms` independent Laplace variables of scale `scale`, on a lattice of unit `unit` (0: continuous).

    A discrete Laplace variable is less spread than a continuous one rounded to its lattice, and so the sum's
    quantile exceeds the continuous one by at most terms·unit/2 (`docs/proofs/noise.md`). Where noise is far below the
    unit, none of them is ever anything but 0: with probability 1 − β at least, there is no error at all.
    """

    scale: float
    terms: int
    unit: float = 0.0

    @property
    def std(self) -> float:
        """√(2·terms)·scale."""
        return self.scale * math.sqrt(2.0 * self.terms)

    def quantile(self, beta: float) -> float:
        """Exact, by the negative-binomial mixture of Gamma tails."""
        if self.terms == 0 or self.scale == 0:
            return 0.0
        felt = self.terms * laplace_moves(self.scale, self.unit) > beta
        return self.scale * laplace_sum_quantile(self.terms, beta) + (self.terms * self.unit / 2.0 if felt else 0.0)

    def summed(self, cells: int) -> LaplaceSum:
        """Of the sum of so many cells, whose noises are independent."""
        return LaplaceSum(scale=self.scale, terms=self.terms * cells, unit=self.unit)

    def to_json(self) -> dict[str, Any]:
        """For statements and files."""
        return {"law": "sum of Laplace", "scale": self.scale, "terms": self.terms, "unit": self.unit}


@dataclass(frozen=True)
class PrintedSum(LaplaceSum):
    """A sum of Laplace variables with the precision level that 000 prints for it: b√(8 n ln(2/β)), at any time.

    That is Chan, Shi & Song's bound with n = `printed`. It holds for n ≥ ln(2/β) only, and is loose for large n.
    """

    printed: float = 0.0

    def quantile(self, beta: float) -> float:
        """As printed, valid or not."""
        _check_beta(beta)
        return self.scale * math.sqrt(8.0 * self.printed * math.log(2.0 / beta))

    def summed(self, cells: int) -> PrintedSum:
        """Of the sum of so many cells, whose noises are independent."""
        return PrintedSum(scale=self.scale, terms=self.terms * cells, unit=self.unit, printed=self.printed * cells)

    def to_json(self) -> dict[str, Any]:
        """For statements and files."""
        return {**super().to_json(), "printed": self.printed}


@dataclass(frozen=True)
class Normal:
    """Gaussian error; `slack` is what a lattice may add to a quantile (half a unit for each noise summed).

    `moved` bounds the probability that any of these noises is not 0 on its lattice, where that is known.
    """

    std: float
    slack: float = 0.0
    moved: float = 1.0

    def quantile(self, beta: float) -> float:
        """Exact for the continuous law."""
        from scipy.special import ndtri

        _check_beta(beta)
        if self.std == 0:
            return 0.0
        return round_up(self.std * -float(ndtri(beta / 2.0))) + (self.slack if self.moved > beta else 0.0)

    def summed(self, cells: int) -> Normal:
        """Of the sum of so many cells, whose noises are independent."""
        return Normal(std=self.std * math.sqrt(cells), slack=self.slack * cells, moved=min(1.0, self.moved * cells))

    def to_json(self) -> dict[str, Any]:
        """For statements and files."""
        return {"law": "Gaussian", "std": self.std, "slack": self.slack, "moved": self.moved}


@dataclass(frozen=True)
class Bernstein:
    """A centred sum of independent terms, each at most `largest` in size: what randomized responses leave."""

    std: float
    largest: float

    def quantile(self, beta: float) -> float:
        """By Bernstein's inequality: safe, not exact."""
        _check_beta(beta)
        log = math.log(2.0 / beta)
        third = self.largest * log / 3.0
        return third + math.sqrt(third * third + 2.0 * self.std * self.std * log)

    def to_json(self) -> dict[str, Any]:
        """For statements and files."""
        return {"law": "Bernstein", "std": self.std, "largest": self.largest}


ErrorLaw: TypeAlias = NoError | LaplaceSum | Normal | Bernstein
"""The law of one cell's error; symmetric around zero, or bounded as if it were."""


def laplace_moves(scale: float, unit: float) -> float:
    """P(a discrete Laplace variable is not 0) = 2p/(1+p), p = e^{−unit/scale}; 1 without a lattice."""
    p = math.exp(-unit / scale) if scale else 0.0
    return round_up(2.0 * p / (1.0 + p))


def gaussian_moves(scale: float, unit: float) -> float:
    """P(a discrete Gaussian variable is not 0) ≤ 2Σ q^{k²} ≤ 2q/(1−q), q = e^{−unit²/(2 scale²)}; 1 at most."""
    ratio = unit / scale if scale else math.inf
    q = math.exp(-0.5 * ratio * ratio)
    return round_up(2.0 * q / (1.0 - q)) if 3.0 * q < 1.0 else 1.0


def laplace_sum_tail(terms: int, x: float) -> float:
    """P(|sum of `terms` standard Laplace variables| > x), x ≥ 0.

    The density e^{−x}/((n−1)! 2^n) Σ_k (n−1+k)! x^{n−1−k} / (k! (n−1−k)! 2^k) is Σ_k NB(k; n, ½)·Gamma(n−k) on
    x > 0: k failures before the n-th success cancel k of the n exponential steps. A Gamma(n−k) variable exceeds x if
    fewer than n−k points of a Poisson process lie below x; so the tail is Σ_j Poisson(j; x)·P(NB(n, ½) < n−j), all
    of whose terms are positive.
    """
    return _tail(*_uncancelled(terms, terms), x)


def laplace_sum_quantile(terms: int, beta: float) -> float:
    """X with P(|sum of `terms` standard Laplace variables| > x) = beta, rounded up: 18.79, 30.44, 36.86 at
    beta = 6.9e-9 for 1, 8 and 14 terms.

    Of 4,096 terms and more, the quantile of a number of terms with twelve significant bits that is not smaller, which
    is 0.03 % too large at most: independent terms more make a symmetric unimodal sum no less spread (Birnbaum 1948).
    """
    _check_beta(beta)
    if terms == 1:
        return round_up(-math.log(beta))
    shift = max(0, terms.bit_length() - 12)
    return _sum_quantile(-(-terms >> shift) << shift, beta)


@lru_cache(maxsize=1 << 16)
def _sum_quantile(terms: int, beta: float) -> float:
    from scipy.optimize import brentq

    upper = chan_bound(terms, beta)
    # What lies so far out has a probability below 1e-13 beta, and is added as a whole.
    reach = min(terms, math.ceil(_chan(terms, math.log(2.0) - math.log(beta) + 13.0 * math.log(10.0))))
    weights = _uncancelled(terms, reach)
    root = brentq(
        lambda x: math.log(max(_tail(*weights, x), 1e-320)) - math.log(beta), 0.0, upper, xtol=1e-10, rtol=1e-12
    )
    return float(root) * (1.0 + 1e-9)


def _uncancelled(terms: int, reach: int) -> tuple[Any, float]:
    """P(NB(n, ½) < n − j) for j = 0, …, reach − 1, but for NB < n − reach; and a bound of the probability of that.

    Weights by their ratios 2k/(n+k−1), from the largest down, and scaled so that all of them are ½, which is
    P(NB(n, ½) < n): those that are left out make the others a little too large.
    """
    import numpy as np

    first = terms - reach
    k = np.arange(terms - 1, first, -1)
    weight = np.concatenate([[1.0], np.cumprod(2.0 * k / (terms + k - 1.0))])[::-1]
    weight *= 0.5 / weight.sum()
    ratio = 2.0 * first / max(terms + first - 1.0, 1.0)  # of the weight before to the first; it falls further down
    return np.cumsum(weight)[::-1], float(weight[0] * ratio / (1.0 - ratio))


def _tail(uncancelled: Any, rest: float, x: float) -> float:
    import numpy as np
    from scipy.special import gammaln

    j = np.arange(len(uncancelled))
    poisson = np.exp(j * math.log(x) - x - gammaln(j + 1)) if x > 0 else (j == 0)
    return 2.0 * (float(poisson @ uncancelled) + rest)


def chan_bound(terms: int, beta: float) -> float:
    """The safe closed form 2√(n l) + l with l = ln(2/beta); √(8 n l), as 000 uses it, needs n ≥ l."""
    _check_beta(beta)
    return _chan(terms, math.log(2.0 / beta))


def _chan(terms: int, log: float) -> float:
    return 2.0 * math.sqrt(terms * log) + log


def _check_beta(beta: float) -> None:
    if not 0.0 < beta < 1.0:
        raise ValueError(f"a failure probability lies between 0 and 1; got {beta}")
