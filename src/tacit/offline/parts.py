"""Rows that stand together become batches of trajectories, the same way whatever they were read from."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from tacit.mdp.trajectories import Trajectories
from tacit.offline.schema import Schema

__all__ = ["DatasetError", "Part", "Read", "ahead", "assembled", "slots"]

_T = TypeVar("_T")


class DatasetError(ValueError):
    """Data that cannot be read at all, for a reason that no single person's values are."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Part:
    """Rows of some whole units, sorted by unit and episode: a run of rows for each episode.

    Run i is rows starts[i], …, starts[i + 1] − 1; it is of unit `units[i]` (ascending, counted from 0) and takes place
    `slots[i]` among that unit's; −1 where it belongs to nobody, or is not among those that are read. Codes are as
    `_kernels.assemble` wants them. `raw` is what they were made of, for the owner's check.
    """

    starts: NDArray[np.int64]
    units: NDArray[np.int64]
    slots: NDArray[np.int64]
    number: int
    steps: NDArray[np.int32]
    states: NDArray[np.int32]
    actions: NDArray[np.int32]
    rewards: NDArray[np.float64]
    next_states: NDArray[np.int32] | None
    raw: Any = None


class Read(NamedTuple):
    """Trajectories of whole units, and of each place: the run that it holds (−1: none), and what became of it."""

    trajectories: Trajectories
    runs: NDArray[np.int64]
    outcome: NDArray[np.int8]


def assembled(part: Part, schema: Schema, *, at_a_time: int) -> Iterator[Read]:
    """The part's units in batches of about so many places; a place that nobody takes is ⊥."""
    from tacit.offline._kernels import EMPTY, assemble

    spec, per_unit, end = schema.spec, schema.max_episodes_per_user or 1, schema.end_state
    nothing = np.empty(0, dtype=np.int32)
    step = max(1, at_a_time // per_unit)
    for first in range(0, part.number, step):
        last = min(first + step, part.number)
        number = (last - first) * per_unit
        low, high = np.searchsorted(part.units, [first, last])
        chosen = slice(low, high)
        places = np.where(part.slots[chosen] < 0, -1, (part.units[chosen] - first) * per_unit + part.slots[chosen])
        states = np.full((number, spec.horizon + 1), -1, dtype=np.int32)
        actions = np.full((number, spec.horizon), -1, dtype=np.int32)
        rewards = np.full((number, spec.horizon), np.nan)
        outcome = np.full(number, EMPTY, dtype=np.int8)
        assemble(
            part.starts[low : high + 1],
            places,
            part.steps,
            part.states,
            part.actions,
            part.rewards,
            nothing if part.next_states is None else part.next_states,
            part.next_states is not None,
            spec.states,
            spec.actions,
            -1 if end is None or end.state is None else end.state,
            0 if end is None else end.action,
            states,
            actions,
            rewards,
            outcome,
        )
        runs = np.full(number, -1, dtype=np.int64)
        runs[places[places >= 0]] = low + np.flatnonzero(places >= 0)
        yield Read(Trajectories(states[None], actions[None], rewards[None]), runs, outcome)


def ahead(items: Iterator[_T]) -> Iterator[_T]:
    """The same, and while one is used the next is made in another thread."""
    end = object()
    with ThreadPoolExecutor(max_workers=1) as thread:
        upcoming = thread.submit(next, items, end)
        while (item := upcoming.result()) is not end:
            upcoming = thread.submit(next, items, end)
            yield item  # type: ignore[misc]


def slots(
    first_of_unit: NDArray[np.bool_], owned: NDArray[np.bool_], per_unit: int
) -> tuple[NDArray[np.int64], NDArray[np.int64], int]:
    """Of runs sorted by unit: which unit each is of, its place there, and how many units there are.

    `first_of_unit` marks where another unit begins, `owned` which runs count. A unit's first `per_unit` runs are read.
    """
    units = np.maximum(np.cumsum(first_of_unit) - 1, 0)
    counted = np.cumsum(owned)
    before = np.where(first_of_unit, counted - owned, 0)
    place = counted - 1 - np.maximum.accumulate(before)
    return units, np.where(owned & (place < per_unit), place, -1), int(first_of_unit.sum())
