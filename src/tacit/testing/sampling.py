"""Lower bounds on ε from samples of what two people's randomized data release (99.9999 % confidence)."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

__all__ = ["told_apart", "told_apart_by_one_number"]


def told_apart_by_one_number(samples: Sequence[NDArray[np.float64]]) -> float:
    """Over all pairs of people, released numbers and values of them: how much likelier the one's are (Clopper-Pearson).

    `samples` (runs, numbers), one for each person.
    """
    from scipy.stats import beta

    runs = len(samples[0])
    tables = [
        [dict(zip(*np.unique(column, return_counts=True), strict=True)) for column in values.T] for values in samples
    ]
    alpha = 1e-6 / (len(samples) ** 2 * len(tables[0]) * 4)
    worst = 0.0
    for one in tables:
        for other in tables:
            for left, right in zip(one, other, strict=True):
                for value, count in left.items():
                    low = float(beta.ppf(alpha, count, runs - count + 1))
                    high = float(beta.ppf(1 - alpha, right.get(value, 0) + 1, runs - right.get(value, 0)))
                    worst = max(worst, math.log(max(low, 1e-300) / high))
    return worst


def told_apart(one: NDArray[np.float64], other: NDArray[np.float64], thresholds: int = 40) -> float:
    """A lower bound on ε from both people's releases: along the difference of their means (found on one half), how much
    likelier the one is to lie beyond a threshold (on the other half).
    """
    from scipy.stats import beta

    half = len(one) // 2
    direction = one[:half].mean(axis=0) - other[:half].mean(axis=0)
    left, right = (np.round(values[half:] @ direction, 6) for values in (one, other))
    grid = np.unique(np.quantile(left, np.linspace(0.0, 0.999, thresholds)))
    counts = [len(values) - np.searchsorted(np.sort(values), grid) for values in (left, right)]
    alpha = 1e-6 / (36 * thresholds)
    low = beta.ppf(alpha, counts[0], len(left) - counts[0] + 1)
    high = beta.ppf(1.0 - alpha, counts[1] + 1, np.maximum(len(right) - counts[1], 1e-9))
    return float(np.log(np.maximum(low, 1e-300) / high).max())
