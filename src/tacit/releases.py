"""The vocabulary between privatizers and learners: what was released, and how wrong it may be.

A learner imports this and nothing of privacy; a privatizer fills it in. A learner whose regressions depend on earlier
releases asks for them: a `Query` is public, computed from releases and declared facts alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = ["Error", "GramRelease", "Query", "Release", "TabularRelease", "Target"]

Array = NDArray[np.float64]


class Error(Protocol):
    """The law of the error in each cell of a release."""

    @property
    def std(self) -> float:
        """Standard deviation."""
        ...

    def quantile(self, beta: float) -> float:
        """E with P(|error| > E) ≤ beta: Assumption 1 of 000 and 003, for one cell."""
        ...

    def to_json(self) -> dict[str, Any]:
        """For files."""
        ...


@dataclass(frozen=True, kw_only=True)
class TabularRelease:
    """Noisy counts of the episodes 1, …, `episodes` of each run.

    Axes: runs, steps (1 if pooled), states, actions[, next states]. Counts may be negative, and need not add up.
    A reward r is in [0, 1], scaled from the declared range; `rewards` sums r − ½ where `centred`, else r. `errors`
    names the law of each field.
    """

    episodes: int
    transitions: Array
    visits: Array
    rewards: Array | None
    centred: bool
    starts: Array | None
    errors: Mapping[str, Error]

    @property
    def reward_sums(self) -> Array:
        """Σ r, whatever was centred: Σ (r − ½) + ½ visits."""
        if self.rewards is None:
            raise ValueError("rewards are not among the families that were released")
        return self.rewards + 0.5 * self.visits if self.centred else self.rewards

    def counts(self) -> tuple[Array, Array, Array, float]:
        """Transitions, visits and rewards, C-contiguous, and what of the visits is missing in the rewards: ½ or 0."""
        if self.rewards is None:
            raise ValueError("rewards are not among the families that were released")
        arrays = (np.ascontiguousarray(array) for array in (self.transitions, self.visits, self.rewards))
        return *arrays, 0.5 if self.centred else 0.0  # type: ignore[return-value]


@dataclass(frozen=True, kw_only=True)
class GramRelease:
    """Noisy Σ φφᵀ (runs, steps, d, d) and Σ φ y (runs, steps, d) of normalised features and targets.

    `errors["gram"]` is the law on the diagonal of Gram; off it the standard deviation is 1/√2 times that.
    `errors["vector"]` is that of `vector_weight`·vector. What was not asked for is None.
    """

    episodes: int
    gram: Array | None
    vector: Array | None
    vector_weight: float
    errors: Mapping[str, Error]


Release: TypeAlias = TabularRelease | GramRelease


@dataclass(frozen=True, kw_only=True)
class Target:
    """y = reward·r + values[s'], for a reward r in [0, 1] and a public function of the next state.

    Parameters
    ----------
    reward
        The coefficient of r: 1 or 0.
    values
        (R|1, S).
    low, high
        What y is clipped to, one number or one for each run. A release holds Σ φ y / `scale`.
    printed
        The bound that a paper's printed noise is for, where that is not `scale`; only published calibrations read it.
    """

    reward: float
    values: Array
    low: float | Array
    high: float | Array
    printed: float | None = None

    @property
    def scale(self) -> Array:
        """What y is divided by, for each run: the larger of |low| and |high|, or 1 where both are 0."""
        scale = np.maximum(np.abs(np.atleast_1d(self.low)), np.abs(np.atleast_1d(self.high)))
        return np.asarray(np.where(scale > 0, scale, 1.0), dtype=np.float64)


@dataclass(frozen=True, kw_only=True)
class Query:
    """A regression that a learner asks for: Σ w φφᵀ and Σ w φ y at one step, over all episodes or a half of them.

    Parameters
    ----------
    step
        h − 1: 0, …, H − 1.
    share
        Of the whole budget; shares add up to 1 at most.
    gram, target
        What is asked for, as one vector under one noise; at least one of the two.
    weights
        w, (R|1, S, A) in [0, 1], public; None is 1.
    vector_weight
        k: the vector is noised as k·Σ w φ y. At √2 a Gram matrix beside it is free.
    half
        The first (0) or second (1) half of the episodes by their index, or all (None).
    """

    step: int
    share: float
    gram: bool = True
    target: Target | None = None
    weights: Array | None = None
    vector_weight: float = 2.0**0.5
    half: Literal[0, 1] | None = None
