"""What every continual counter is: a design (public, immutable) and a stream (its memory).

A counter releases noisy prefix sums of a stream x_1, …, x_n of contributions, one per user. The prefixes of all
releases together are y = A x + B z with fresh noise z: `Tree` and `Batches` add it to partial sums, `Filter` to a
linearly encoded stream. A design knows, before any data,

* `participation`: by how much one user's L1 norm (resp. squared L2 norm) may be multiplied in all that is noised;
* `terms(t)` and `variance(t)`: how many noises the release at time t sums, and the squared L2 norm of its row of B.
"""

from __future__ import annotations

import math
from typing import Any, Literal, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from tacit.privacy.errors import ErrorLaw, LaplaceSum, Normal
from tacit.privacy.noise import NoiseSource

__all__ = [
    "CounterDesign",
    "CounterStream",
    "Entries",
    "Extent",
    "Mechanism",
    "StreamError",
    "error_at",
    "worst_error",
]

Mechanism = Literal["laplace", "gaussian"]
Array = NDArray[Any]


class StreamError(RuntimeError):
    """The stream was used against its public schedule: a mistake of the caller's, whatever the data."""


class Entries(NamedTuple):
    """A sparse contribution: `values` (runs, m) are added at `cells` (runs, m) of each run; cell −1 is nothing."""

    cells: NDArray[np.int64]
    values: NDArray[np.int64]


class Extent(NamedTuple):
    """How large one item may be, in lattice units: what a neighbour may change, and what arithmetic must hold."""

    support: float
    """Cells in which two neighbours differ, at most (L0)."""
    norm: float
    """Δ₂."""
    largest: float
    """Absolute value of an item in a cell, at most."""


class CounterDesign(Protocol):
    """The public half of a counter."""

    @property
    def name(self) -> str:
        """How statements and figures call it."""
        ...

    @property
    def length(self) -> int:
        """Items that any release covers; later ones are not stored at all."""
        ...

    def next_release(self, time: int) -> int | None:
        """The first release after `time`; None if there is none."""
        ...

    def participation(self, norm: Literal["l1", "l2"]) -> float:
        """The factor on Δ₁ ("l1") or on Δ₂² ("l2"). Infinite where the counter has no such guarantee."""
        ...

    def terms(self, time: int) -> int:
        """How many noises the release at `time` sums."""
        ...

    def variance(self, time: int) -> float:
        """The variance of the release at `time`, per unit of the noise's variance."""
        ...

    def slack(self, time: int, *, scale: float, unit: float) -> float:
        """What the lattice adds to a quantile of the Gaussian error of the release at `time`, at most."""
        ...

    def moved(self, time: int, *, scale: float, unit: float) -> float:
        """The probability that the lattice adds anything at all to the Gaussian error at `time`, at most."""
        ...

    def worst_time(self) -> int:
        """A release with the largest variance."""
        ...

    def memory(self) -> int:
        """Numbers held per cell."""
        ...

    def start(
        self, *, noise: NoiseSource, mechanism: Mechanism, scale: float, runs: int, cells: int, extent: Extent
    ) -> CounterStream:
        """An empty stream; `scale` and `extent` in lattice units."""
        ...

    def resume(
        self,
        arrays: dict[str, Array],
        *,
        noise: NoiseSource,
        mechanism: Mechanism,
        scale: float,
        extent: Extent,
    ) -> CounterStream:
        """The stream that `CounterStream.arrays` saved."""
        ...

    def to_json(self) -> dict[str, Any]:
        """The design as plain values; `counters.design_from_json` reads it."""
        ...


class CounterStream(Protocol):
    """The memory of a counter: as secret as the data."""

    @property
    def time(self) -> int:
        """Items taken so far."""
        ...

    @property
    def released_at(self) -> int:
        """The time of the latest release; 0 before the first."""
        ...

    @property
    def released(self) -> Array:
        """The latest release (runs, cells), in lattice units; zeros before the first, which is exact and public."""
        ...

    def add(self, contribution: Entries | Array, *, items: int = 1) -> bool:
        """Take the next `items` items' summed contribution; True if that made a release."""
        ...

    def arrays(self) -> dict[str, Array]:
        """All there is to save."""
        ...


def error_at(design: CounterDesign, time: int, *, mechanism: Mechanism, scale: float, unit: float = 0.0) -> ErrorLaw:
    """The law of a cell's error in the release at `time`; `scale` and `unit` as in `tacit.privacy.errors`."""
    if mechanism == "laplace":
        return LaplaceSum(scale=scale, terms=design.terms(time), unit=unit)
    return Normal(
        std=scale * math.sqrt(design.variance(time)),
        slack=design.slack(time, scale=scale, unit=unit),
        moved=design.moved(time, scale=scale, unit=unit),
    )


def worst_error(design: CounterDesign, *, mechanism: Mechanism, scale: float, unit: float = 0.0) -> ErrorLaw:
    """The law of the error in the noisiest release: valid (as an upper bound) for every release."""
    return error_at(design, design.worst_time(), mechanism=mechanism, scale=scale, unit=unit)


def check_step(design: CounterDesign, time: int, items: int) -> None:
    """A step may not jump over a release, and a stream has an end."""
    if items < 1:
        raise StreamError(f"a step takes at least one item; got {items}")
    upcoming = design.next_release(time)
    if upcoming is not None and time + items > upcoming:
        raise StreamError(
            f"the release after item {upcoming} comes first: "
            f"at most {upcoming - time} items may be added now, not {items}"
        )
