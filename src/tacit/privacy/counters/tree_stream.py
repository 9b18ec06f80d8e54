"""The memory of the counters whose every release has one fresh noise (`trees`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tacit.privacy.counters.protocol import Array, Entries, Mechanism, check_step
from tacit.privacy.noise import NoiseSource

if TYPE_CHECKING:
    from tacit.privacy.counters.trees import Batches, Tree

__all__ = ["TreeStream"]


class TreeStream:
    """The memory of a `Tree` or of `Batches`: one noisy accumulator for each release in the making."""

    def __init__(
        self,
        design: Tree | Batches,
        *,
        noise: NoiseSource,
        mechanism: Mechanism,
        scale: float,
        runs: int,
        cells: int,
    ) -> None:
        self.design = design
        self.time = 0
        self.released_at = 0
        self.released: Array = np.zeros((runs, cells), dtype=noise.dtype)
        self._noise, self._mechanism, self._scale = noise, mechanism, scale
        self._accumulators: dict[int, Array] = {}  # by the time of their release
        self._start_children()

    def add(self, contribution: Entries | Array, *, items: int = 1) -> bool:
        """See `CounterStream`."""
        check_step(self.design, self.time, items)
        upcoming = self.design.next_release(self.time)
        if upcoming is not None:  # nothing that comes after the last release is stored
            self._due(upcoming)
            if isinstance(contribution, Entries):
                from tacit.privacy._kernels import add_entries

                for accumulator in self._accumulators.values():
                    add_entries(accumulator, *contribution)
            else:
                for accumulator in self._accumulators.values():
                    accumulator += contribution
        self.time += items
        if self.time != upcoming:
            return False
        self.released = self._accumulators.pop(self.time)  # nothing is added to it from now on
        self.released_at = self.time
        self._start_children()
        return True

    def _start_children(self) -> None:
        for time in self.design.children_after(self.released_at):
            self._open(time, self.released)

    def _due(self, time: int) -> None:
        """Split off the accumulator of a time whose parent lies in its future, and those between."""
        if time in self._accumulators:
            return
        parent = self.design.parent(time)
        self._due(parent)
        self._open(time, self._accumulators[parent])

    def _open(self, time: int, start: Array) -> None:
        """An accumulator starts with its noise."""
        if self._scale == 0:  # exact counts
            self._accumulators[time] = start.copy()
            return
        draw = self._noise.laplace if self._mechanism == "laplace" else self._noise.gaussian
        runs, cells = self.released.shape
        accumulator = draw(scale=self._scale, runs=runs, size=cells)
        accumulator += start
        self._accumulators[time] = accumulator

    def arrays(self) -> dict[str, Array]:
        """See `CounterStream`."""
        times = sorted(self._accumulators)
        none = np.zeros((0, *self.released.shape), dtype=self.released.dtype)
        return {
            "time": np.asarray([self.time, self.released_at]),
            "released": self.released.copy(),
            "due": np.asarray(times, dtype=np.int64),
            "accumulators": np.stack([self._accumulators[time] for time in times]) if times else none,
        }

    @classmethod
    def restored(
        cls,
        design: Tree | Batches,
        arrays: dict[str, Array],
        *,
        noise: NoiseSource,
        mechanism: Mechanism,
        scale: float,
    ) -> TreeStream:
        """See `CounterDesign.resume`: nothing is drawn that was drawn before."""
        stream = cls.__new__(cls)
        stream.design = design
        stream.time, stream.released_at = (int(value) for value in arrays["time"])
        stream.released = np.array(arrays["released"])
        stream._noise, stream._mechanism, stream._scale = noise, mechanism, scale
        stream._accumulators = {
            int(time): accumulator.copy()
            for time, accumulator in zip(arrays["due"], arrays["accumulators"], strict=True)
        }
        return stream
