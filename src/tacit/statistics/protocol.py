"""What every statistic is: what an episode contributes, on which lattice, and how far that can move."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tacit.privacy.counters import Entries
from tacit.privacy.errors import ErrorLaw
from tacit.privacy.guarantees import Neighbours
from tacit.privacy.sensitivity import Sensitivity
from tacit.releases import Release

__all__ = ["Batch", "Statistic", "exact"]


class Batch(Protocol):
    """What was sent, read: a number of episodes of each run, some of which may be ⊥."""

    @property
    def runs(self) -> int:
        """Independent runs."""
        ...

    @property
    def number(self) -> int:
        """Episodes of each run, ⊥ included."""
        ...

    def part(self, first: int, last: int) -> Batch:
        """Episodes first, …, last − 1."""
        ...


class Statistic(Protocol):
    """One or more families of numbers, each a sum of contributions on a lattice."""

    @property
    def families(self) -> tuple[str, ...]:
        """Their names; noise is calibrated for all of them as one vector."""
        ...

    def cells(self, family: str) -> int:
        """How many numbers a family has."""
        ...

    def unit(self, family: str) -> float:
        """The lattice of its contributions: a power of two."""
        ...

    def largest(self, family: str) -> float:
        """The largest absolute contribution of an episode to a cell."""
        ...

    def read(self, raw: Any) -> Any:
        """A `Batch` of whatever was sent; never raises on values."""
        ...

    def contributions(self, batch: Any) -> dict[str, Entries | NDArray[np.int64]]:
        """The sum over a batch's episodes in lattice units, sparse or (runs, cells)."""
        ...

    def sensitivity(self, neighbours: Neighbours = "replace-one") -> Sensitivity:
        """Of all families as one vector."""
        ...

    def family_sensitivity(self, family: str, neighbours: Neighbours = "replace-one") -> Sensitivity:
        """Of one family alone."""
        ...

    def release(
        self, episodes: int, fields: Mapping[str, NDArray[np.float64]], errors: Mapping[str, ErrorLaw]
    ) -> Release:
        """Families (runs, cells) in real units, put together for a learner."""
        ...

    def to_json(self) -> dict[str, Any]:
        """Plain values; `tacit.statistics.from_json` reads them."""
        ...


def exact(statistic: Statistic, batch: Batch) -> dict[str, NDArray[np.int64]]:
    """The sum of all contributions, (runs, cells), in lattice units. **Not private.**"""
    totals: dict[str, NDArray[np.int64]] = {}
    for family, contribution in statistic.contributions(batch).items():
        if isinstance(contribution, Entries):
            total = np.zeros((batch.runs, statistic.cells(family)), dtype=np.int64)
            for run in range(batch.runs):
                some = contribution.cells[run] >= 0
                np.add.at(total[run], contribution.cells[run][some], contribution.values[run][some])
            totals[family] = total
        else:
            totals[family] = contribution
    return totals
