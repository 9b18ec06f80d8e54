"""Absolute moments E|r|^order, order in (1, 2], of the unbounded reward laws, in closed form.

Exact for the Gaussian and Pareto laws. For symmetric stable and Student-t noise around a mean m other than 0,
the bound |m|^order + E|noise|^order: by Clarkson's inequality the mean of |m + x|^order and |m - x|^order is
at most that for orders up to 2. It is exact at m = 0 and at order 2.
"""

from __future__ import annotations

import math

from tacit.mdp.spec import SpecError

__all__ = ["gaussian_moment", "pareto_moment", "stable_moment", "student_moment"]


def gaussian_moment(order: float, *, mean: float, sd: float) -> float:
    """Compute E|N(mean, sd²)|^order (Winkelbauer 2012, eq. 17)."""
    from scipy.special import hyp1f1

    if abs(mean) > 1e6 * sd:  # the noise adds less than 1e-12, and 1F1's argument would be huge
        return float((mean**2 + sd**2) ** (order / 2))  # an upper bound, by Jensen
    central = (math.sqrt(2) * sd) ** order * math.gamma((1 + order) / 2) / math.sqrt(math.pi)
    return float(central * hyp1f1(-order / 2, 0.5, -(mean**2) / (2 * sd**2)))


def stable_moment(order: float, *, mean: float, alpha: float, scale: float) -> float:
    """Bound E|mean + X|^order where E exp(itX) = exp(-|scale·t|^alpha)."""
    if scale == 0:
        return float(abs(mean) ** order)
    if alpha == 2:
        return gaussian_moment(order, mean=mean, sd=math.sqrt(2) * scale)
    if order >= alpha:
        raise _infinite(order, "symmetric stable", "alpha", alpha)
    # Samorodnitsky & Taqqu (1994), property 1.2.17, written with gamma functions.
    noise = (2 * scale) ** order * math.gamma((1 + order) / 2) * math.gamma(1 - order / alpha)
    return float(abs(mean) ** order + noise / (math.sqrt(math.pi) * math.gamma(1 - order / 2)))


def student_moment(order: float, *, mean: float, df: float, scale: float) -> float:
    """Bound E|mean + scale·T|^order where T is Student's t."""
    if scale == 0:
        return float(abs(mean) ** order)
    if order >= df:
        raise _infinite(order, "Student-t", "df", df)
    ratio = math.exp(math.lgamma((df - order) / 2) - math.lgamma(df / 2))
    noise = (scale * math.sqrt(df)) ** order * math.gamma((order + 1) / 2) / math.sqrt(math.pi) * ratio
    return float(abs(mean) ** order + noise)


def pareto_moment(order: float, *, mean: float, shape: float, scale: float) -> float:
    """Compute E|mean + scale·(X - shape/(shape-1))|^order where P(X > x) = x^-shape for x ≥ 1."""
    if scale == 0:
        return float(abs(mean) ** order)
    if order >= shape:
        raise _infinite(order, "Pareto", "shape", shape)
    # The reward is scale·(X - zero).
    zero = shape / (shape - 1) - mean / scale
    return float(scale**order * _pareto_moment_about(zero, order, shape))


def _pareto_moment_about(zero: float, order: float, shape: float) -> float:
    """Compute ∫_1^∞ |x - zero|^order · shape · x^(-shape-1) dx."""
    from scipy.special import beta, hyp2f1

    excess = shape - order
    if zero <= 1:
        # x = 1/y makes it Euler's integral for 2F1.
        return float(shape / excess * hyp2f1(-order, excess, excess + 1, zero))
    # Split at zero, scaled to 1: above it a beta integral, below it ∫_0^(zero-1) v^order (1 + v)^(excess-1)
    # dv.
    above = beta(excess, order + 1)
    below = (zero - 1) ** (order + 1) / (order + 1) * hyp2f1(1 - excess, order + 1, order + 2, 1 - zero)
    return float(shape * zero**-excess * (above + below))


def _infinite(order: float, law: str, parameter: str, value: float) -> SpecError:
    return SpecError(
        f"the moment of order {order:g} of a {law} law with {parameter} = {value:g} is infinite; "
        f"the order must be below {value:g}"
    )
