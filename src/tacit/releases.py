"""The vocabulary between privatizers and learners: what was released, and how wrong it may be.

A learner imports this and nothing of privacy; a privatizer fills it in. (`Query` and `Offer`, with which a learner
asks for what it needs, come with the first learner that asks.)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = ["Error", "GramRelease", "Release", "TabularRelease"]

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

    `errors["gram"]` is the law on the diagonal, and √2 times that off it; `errors["vector"]` is that of
    `vector_weight`·vector.
    """

    episodes: int
    gram: Array
    vector: Array | None
    vector_weight: float
    errors: Mapping[str, Error]


Release: TypeAlias = TabularRelease | GramRelease
