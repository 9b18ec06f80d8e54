"""Losses, their conversions and their composition; every number is rounded against us.

A `Loss` is what a mechanism costs: pure (ε) or zero-concentrated (ρ). The conversions are

* pure → zCDP: ρ = ε²/2 (Bun & Steinke 2016, Prop. 1.4);
* zCDP → (ε, δ): δ = inf_{α>1} exp((α−1)(αρ−ε)) · (1−1/α)^α / (α−1) (Canonne, Kamath & Steinke 2020, Prop. 12).
  Every α gives a valid bound, so the search for the best one cannot break the guarantee;
* Gaussian with continuous noise: δ = Φ(μ/2−ε/μ) − e^ε Φ(−μ/2−ε/μ) (Balle & Wang 2018), for reference only: the
  secure sampler is discrete and is calibrated by its ρ.

"Rounded against us" means: a bound is evaluated with its rounding error added, a search returns the safe one of two
neighbouring numbers, and a closed form is moved by a relative `MARGIN`, far above the error of double precision
(tests compare with 50 digits) and far below anything that matters.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache

from tacit.privacy.guarantees import Guarantee, GuaranteeError

__all__ = [
    "MARGIN",
    "Loss",
    "budget_of",
    "compose",
    "delta_of_mu",
    "delta_of_rho",
    "epsilon_of_mu",
    "epsilon_of_rho",
    "mu_of_approximate",
    "rho_of_approximate",
    "rho_of_pure",
    "round_down",
    "round_up",
]

MARGIN = 2.0**-38


def round_up(value: float) -> float:
    """A little more than `value` ≥ 0."""
    return value * (1.0 + MARGIN)


def round_down(value: float) -> float:
    """A little less than `value` ≥ 0."""
    return value * (1.0 - MARGIN)


@dataclass(frozen=True, kw_only=True)
class Loss:
    """What was spent: `rho` always bounds it, `epsilon` is None where no finite pure ε does.

    Examples
    --------
    >>> Loss.pure(1.0).epsilon_at(0.0)
    1.0
    >>> round(Loss.concentrated(0.04).epsilon_at(1e-5), 3)
    1.158
    """

    epsilon: float | None
    rho: float

    @staticmethod
    def pure(epsilon: float) -> Loss:
        """An ε-differentially private step."""
        return Loss(epsilon=epsilon, rho=rho_of_pure(epsilon))

    @staticmethod
    def concentrated(rho: float) -> Loss:
        """A ρ-zCDP step."""
        return Loss(epsilon=0.0 if rho == 0 else None, rho=rho)

    def epsilon_at(self, delta: float) -> float:
        """The smallest ε that we can prove at this δ; infinite if there is none."""
        through_rho = epsilon_of_rho(self.rho, delta) if delta > 0 else math.inf
        return min(math.inf if self.epsilon is None else self.epsilon, through_rho)

    def keeps(self, guarantee: Guarantee) -> bool:
        """Whether what was spent is within what was promised."""
        if guarantee.rho is not None:
            return self.rho <= guarantee.rho
        assert guarantee.epsilon is not None
        if math.isinf(guarantee.epsilon) or (self.epsilon is not None and self.epsilon <= guarantee.epsilon):
            return True
        return guarantee.delta > 0 and delta_of_rho(self.rho, guarantee.epsilon) <= guarantee.delta


def compose(losses: Iterable[Loss]) -> Loss:
    """Everything together, adaptively: ε adds up, ρ adds up. (Disjoint people: take the largest instead.)"""
    total = list(losses)
    pure = [loss.epsilon for loss in total]
    return Loss(
        epsilon=None if None in pure else math.fsum(e for e in pure if e is not None),
        rho=math.fsum(loss.rho for loss in total),
    )


def budget_of(guarantee: Guarantee) -> Loss:
    """The largest ρ (and pure ε, if promised) that the guarantee allows."""
    if guarantee.rho is not None:
        return Loss(epsilon=None, rho=guarantee.rho)
    assert guarantee.epsilon is not None
    if guarantee.delta == 0:
        return Loss.pure(guarantee.epsilon)
    return Loss(epsilon=guarantee.epsilon, rho=rho_of_approximate(guarantee.epsilon, guarantee.delta))


def rho_of_pure(epsilon: float) -> float:
    """ρ such that every ε-DP mechanism is ρ-zCDP."""
    return round_up(0.5 * epsilon * epsilon)


def delta_of_rho(rho: float, epsilon: float) -> float:
    """δ such that every ρ-zCDP mechanism is (ε, δ)-DP."""
    if rho <= 0:
        return 0.0
    if math.isinf(rho):
        return 1.0
    if math.isinf(epsilon):
        return 0.0
    alpha_minus_1 = _best_order(rho, epsilon)
    return math.exp(min(0.0, _log_delta(rho, epsilon, alpha_minus_1)))


def epsilon_of_rho(rho: float, delta: float) -> float:
    """The smallest ε such that every ρ-zCDP mechanism is (ε, δ)-DP."""
    _check_delta(delta)
    if rho <= 0:
        return 0.0
    if math.isinf(rho):
        return math.inf
    if delta_of_rho(rho, 0.0) <= delta:
        return 0.0
    # ρ + 2√(ρ ln 1/δ) is the classical, looser conversion: an upper end.
    upper = round_up(rho + 2.0 * math.sqrt(rho * math.log(1.0 / delta)))
    return _boundary(lambda epsilon: delta_of_rho(rho, epsilon) > delta, 0.0, upper)[1]


@lru_cache(maxsize=4096)
def rho_of_approximate(epsilon: float, delta: float) -> float:
    """The largest ρ such that every ρ-zCDP mechanism is (ε, δ)-DP."""
    _check_delta(delta)
    if math.isinf(epsilon):
        return math.inf
    upper = 1.0
    while delta_of_rho(upper, epsilon) <= delta:
        upper *= 2.0
    lower = upper
    while delta_of_rho(lower, epsilon) > delta:
        lower /= 2.0
    return _boundary(lambda rho: delta_of_rho(rho, epsilon) <= delta, lower, upper)[0]


def delta_of_mu(mu: float, epsilon: float) -> float:
    """δ of the continuous Gaussian mechanism with σ = Δ₂/μ."""
    from scipy.special import log_ndtr

    if mu <= 0:
        return 0.0
    above = float(log_ndtr(mu / 2.0 - epsilon / mu))
    below = float(log_ndtr(-mu / 2.0 - epsilon / mu))
    # The two terms may nearly cancel: the margin is on their difference, not on the result.
    slack = 1e-14 * (1.0 + epsilon + abs(above) + abs(below))
    return min(1.0, max(0.0, math.exp(above) * -math.expm1(min(0.0, epsilon + below - above - slack))))


def mu_of_approximate(epsilon: float, delta: float) -> float:
    """The largest μ at which continuous Gaussian noise is (ε, δ)-DP: μ(1, 1e-5) = 0.26805."""
    _check_delta(delta)
    if math.isinf(epsilon):
        return math.inf
    upper = 1.0
    while delta_of_mu(upper, epsilon) <= delta:
        upper *= 2.0
    return _boundary(lambda mu: delta_of_mu(mu, epsilon) <= delta, 0.0, upper)[0]


def epsilon_of_mu(mu: float, delta: float) -> float:
    """The smallest ε at which continuous Gaussian noise with σ = Δ₂/μ is (ε, δ)-DP."""
    _check_delta(delta)
    if delta_of_mu(mu, 0.0) <= delta:
        return 0.0
    upper = 1.0
    while delta_of_mu(mu, upper) > delta:
        upper *= 2.0
    return _boundary(lambda epsilon: delta_of_mu(mu, epsilon) > delta, 0.0, upper)[1]


def _log_delta(rho: float, epsilon: float, excess: float) -> float:
    """Ln of the bound at the order α = 1 + excess, moved up by its rounding error."""
    alpha = 1.0 + excess
    exponent = excess * (alpha * rho - epsilon)
    # ln((1 − 1/α)^α), accurate for tiny and for huge excess
    shape = -alpha * math.log1p(1.0 / excess)
    terms = (exponent, shape, -math.log(excess))
    return math.fsum(terms) + 1e-15 * (1.0 + excess * (alpha * rho + epsilon) + abs(shape) + abs(terms[2]))


def _best_order(rho: float, epsilon: float) -> float:
    """α − 1 where the bound's derivative (2α−1)ρ − ε + ln(1−1/α), which increases in α, vanishes."""

    def too_large(log_excess: float) -> bool:
        excess = math.exp(log_excess)
        return (1.0 + 2.0 * excess) * rho - epsilon - math.log1p(1.0 / excess) > 0

    low, high = -700.0, 1.0
    while high < 700.0 and not too_large(high):
        high += 10.0
    return math.exp(_boundary(lambda x: not too_large(x), low, high)[0])


def _boundary(holds: Callable[[float], bool], low: float, high: float) -> tuple[float, float]:
    """Bisection to the last bit: `holds` is true at the first of the returned neighbours and false at the second."""
    while True:
        middle = 0.5 * (low + high)
        if not low < middle < high:
            return low, high
        if holds(middle):
            low = middle
        else:
            high = middle


def _check_delta(delta: float) -> None:
    if not 0.0 < delta < 1.0:
        raise GuaranteeError(f"this conversion needs 0 < delta < 1; got {delta}")
