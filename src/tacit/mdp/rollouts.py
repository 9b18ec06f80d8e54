"""Rolling out policies: random streams, what anything that can be rolled out offers, and the walk itself.

A run has three generators of its own, for the world's dynamics, for rewards and for the policy's choices. An
episode consumes a fixed number of uniforms from each, so that n episodes in one call are the same as in n
calls, runs do not disturb each other, and another reward law or policy meets the same chances in the
dynamics.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, Self, overload, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit.mdp.planning import Kernel, as_policy
from tacit.mdp.spec import EpisodeSpec
from tacit.mdp.trajectories import Trajectories

if TYPE_CHECKING:
    from tacit.mdp.rewards import RewardLaw

__all__ = ["Draws", "RolloutSource", "Streams", "TransitionRows", "check_policy", "roll_out"]

# Uniforms are drawn for about this many steps at a time: 8 MB per stream.
_STEPS_AT_A_TIME = 1 << 20

# Uniforms that a run's generator is read ahead by: a call costs as much as some hundred of them.
_AHEAD = 4096


class Draws(Sequence[np.random.Generator]):
    """One generator for each run, and its uniforms in the order in which it makes them.

    Few uniforms at a time are served from what was read ahead, so that an episode by itself costs little more than one
    of many. That moves the generators themselves ahead of what was taken.

    Examples
    --------
    >>> draws = Draws([np.random.default_rng(7)])
    >>> bool((np.append(draws.take((2,)), draws.take((3,))) == np.random.default_rng(7).random(5)).all())
    True
    """

    def __init__(self, generators: Sequence[np.random.Generator]) -> None:
        self._generators = tuple(generators)
        self._runs = np.arange(len(self._generators))  # places in the store
        self._store = _Ahead(len(self._generators))

    @overload
    def __getitem__(self, index: int) -> np.random.Generator: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[np.random.Generator]: ...
    def __getitem__(self, index: int | slice) -> np.random.Generator | Sequence[np.random.Generator]:
        return self._generators[index]

    def __len__(self) -> int:
        return len(self._generators)

    def part(self, runs: NDArray[np.integer]) -> Draws:
        """Some of the runs, which go on where they are: taking from the part takes from the whole."""
        chosen = object.__new__(type(self))
        chosen._generators = tuple(self._generators[run] for run in runs)
        chosen._runs, chosen._store = self._runs[runs], self._store
        return chosen

    def take(self, shape: tuple[int, ...]) -> NDArray[np.float64]:
        """The next U[0, 1) of every run: (R, *shape), C-contiguous."""
        count, store = math.prod(shape), self._store
        if not count:
            return np.empty((len(self), *shape))
        if store.even and 4 * count <= _AHEAD and len(self) == len(store.used):
            begin = int(store.used[0])
            if begin + count > _AHEAD:
                begin = store.refill(self._generators)
            store.used[:] = begin + count
            return store.uniforms[:, begin : begin + count].copy().reshape(len(self), *shape)
        store.even = False  # from now on, run by run: what was read ahead first
        taken = np.empty((len(self), count))
        for generator, run, row in zip(self._generators, self._runs, taken, strict=True):
            left = store.uniforms[run, store.used[run] :][:count]
            row[: len(left)] = left
            store.used[run] += len(left)
            generator.random(out=row[len(left) :])
        store.even = bool((store.used == _AHEAD).all())
        return taken.reshape(len(self), *shape)

    def state(self) -> list[dict[str, Any]]:
        """For each run, its generator's state and what was read ahead and not taken, as plain values."""
        return [
            {
                "generator": generator.bit_generator.state,
                "ahead": self._store.uniforms[run, self._store.used[run] :].tolist(),
            }
            for generator, run in zip(self._generators, self._runs, strict=True)
        ]

    def restore(self, state: list[dict[str, Any]]) -> None:
        """Go on from what `state` returned."""
        for generator, run, saved in zip(self._generators, self._runs, state, strict=True):
            generator.bit_generator.state = saved["generator"]
            self._store.used[run] = _AHEAD - len(saved["ahead"])
            self._store.uniforms[run, self._store.used[run] :] = saved["ahead"]
        self._store.even = len(set(self._store.used.tolist())) == 1


class _Ahead:
    """What was read ahead: of run r, uniforms[r, used[r]:]."""

    def __init__(self, runs: int) -> None:
        self.uniforms = np.empty((runs, _AHEAD))
        self.used = np.full(runs, _AHEAD)
        self.even = True  # all runs have used as much

    def refill(self, generators: Sequence[np.random.Generator]) -> int:
        """Move what is left to the front, and read on; return where it begins: 0."""
        left = _AHEAD - int(self.used[0])
        self.uniforms[:, :left] = self.uniforms[:, _AHEAD - left :]
        for generator, row in zip(generators, self.uniforms, strict=True):
            generator.random(out=row[left:])
        return 0


class Streams:
    """Independent random generators for runs of a simulation: three per run, spawned from one seed.

    Run i's generators depend on the seed and on i only, not on how many runs there are; runs are counted from `first`,
    so that several processes can share them out. A seed given as a SeedSequence is spawned from, as NumPy does: giving
    the same object again gives other streams.

    Examples
    --------
    >>> two, three = Streams(7, runs=2), Streams(7, runs=3)
    >>> two.dynamics[1].random() == three.dynamics[1].random()
    True
    """

    dynamics: Draws
    rewards: Draws
    policy: Draws

    def __init__(self, seed: int | np.random.SeedSequence, runs: int, *, first: int = 0) -> None:
        if isinstance(runs, bool) or not isinstance(runs, int | np.integer) or runs < 1:
            raise ValueError(f"runs must be a whole number of at least 1; got {runs!r}")
        if not isinstance(seed, np.random.SeedSequence):
            if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
                raise ValueError(f"the seed must be a whole number of at least 0 or a SeedSequence; got {seed!r}")
            seed = np.random.SeedSequence(int(seed))
        own = seed.spawn(first + int(runs))[first:]
        per_run = [[np.random.default_rng(child) for child in run.spawn(3)] for run in own]
        self.dynamics, self.rewards, self.policy = (Draws(purpose) for purpose in zip(*per_run, strict=True))

    @property
    def runs(self) -> int:
        """R."""
        return len(self.dynamics)

    def select(self, runs: ArrayLike) -> Streams:
        """Take the streams of some runs, a mask or their numbers; the generators are shared with these."""
        numbers = np.arange(self.runs)[np.asarray(runs)]
        if numbers.ndim != 1 or len(set(numbers.tolist())) != numbers.size or not numbers.size:
            raise ValueError("select at least one run, and each run once: two runs must not share draws")
        chosen = object.__new__(type(self))
        for name in _PURPOSES:
            setattr(chosen, name, getattr(self, name).part(numbers))
        return chosen

    def state(self) -> dict[str, Any]:
        """Where all generators are, as plain values."""
        return {name: getattr(self, name).state() for name in _PURPOSES}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from what `state` returned."""
        for name in _PURPOSES:
            getattr(self, name).restore(state[name])


_PURPOSES = ("dynamics", "rewards", "policy")


@runtime_checkable
class RolloutSource(Protocol):
    """Anything that policies can be rolled out in: a tabular or linear world, a wrapped environment."""

    @property
    def spec(self) -> EpisodeSpec:
        """The public shape of an episode."""

    def rollout(self, policy: ArrayLike, *, episodes: int, streams: Streams) -> Trajectories:
        """Roll out a policy, (R|1, H, S) or (R|1, H, S, A), with R = streams.runs; batch (R, episodes)."""


def check_policy(
    policy: ArrayLike, spec: EpisodeSpec, *, runs: int | None = None
) -> NDArray[np.int32] | NDArray[np.float64]:
    """Check that a policy fits a spec and, where given, the runs; return it as `as_policy` does."""
    table = as_policy(policy, states=spec.states, actions=spec.actions, horizon=spec.horizon)
    if runs is not None and table.shape[0] not in (1, runs):
        raise ValueError(f"the policy is for {table.shape[0]} runs, the streams are for {runs}")
    return table


class TransitionRows(NamedTuple):
    """A world's laws, ready to be drawn from: row (h·S + s)·A + a is bounds[row]..bounds[row + 1] - 1.

    Only states that can follow are listed. Building it costs a pass over the kernel, so worlds keep it.
    """

    bounds: NDArray[np.int64]
    successors: NDArray[np.int32]
    cumulative: NDArray[np.float64]
    start_states: NDArray[np.int32]
    start_cumulative: NDArray[np.float64]
    per_step: bool

    @classmethod
    def of(cls, kernel: Kernel, start: NDArray[np.float64]) -> Self:
        """Compress a kernel of distributions, (H|1, S, A, S) or CSR (S·A, S), and the start law (S,)."""
        from tacit.mdp._rollout_kernels import accumulate_rows

        if isinstance(kernel, np.ndarray):
            flat = kernel.reshape(-1, kernel.shape[-1])
            rows, successors = np.nonzero(flat)
            probabilities = flat[rows, successors]
            lengths = np.bincount(rows, minlength=flat.shape[0])
            per_step = kernel.shape[0] > 1
        else:
            compact = kernel.copy()
            compact.eliminate_zeros()
            compact.sort_indices()
            probabilities, successors, lengths = compact.data, compact.indices, np.diff(compact.indptr)
            per_step = False
        bounds = np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
        cumulative = np.empty(probabilities.size)
        accumulate_rows(bounds, np.ascontiguousarray(probabilities, dtype=np.float64), cumulative)
        start_states = np.flatnonzero(start)
        start_cumulative = np.empty(start_states.size)
        accumulate_rows(np.array([0, start_states.size]), start[start_states], start_cumulative)
        return cls(
            bounds,
            successors.astype(np.int32),
            cumulative,
            start_states.astype(np.int32),
            start_cumulative,
            per_step,
        )


def roll_out(
    rows: TransitionRows,
    rewards: RewardLaw,
    policy: NDArray[np.int32] | NDArray[np.float64],
    *,
    episodes: int,
    streams: Streams,
) -> Trajectories:
    """Roll out a policy that `check_policy` has returned; `TabularMDP.rollout` is the front door."""
    from tacit.mdp._rollout_kernels import walk

    if isinstance(episodes, bool) or not isinstance(episodes, int | np.integer) or episodes < 0:
        raise ValueError(f"episodes must be a whole number of at least 0; got {episodes!r}")
    runs, horizon, stochastic = streams.runs, policy.shape[1], policy.ndim == 4
    table = np.empty((0, 0, 0), np.int32) if stochastic else policy
    probabilities = policy if stochastic else np.empty((0, 0, 0, 0))
    states = np.empty((runs, episodes, horizon + 1), np.int32)
    actions = np.empty((runs, episodes, horizon), np.int32)
    paid = np.empty((runs, episodes, horizon))
    chunk = max(1, _STEPS_AT_A_TIME // (runs * horizon))
    steps = np.arange(horizon)
    for first in range(0, episodes, chunk):
        size = min(chunk, episodes - first)
        part = slice(first, first + size)
        chances = streams.policy.take((size, horizon)) if stochastic else np.empty((0, 0, 0))
        walk(
            *rows[:3],
            rows.per_step,
            rows.start_states,
            rows.start_cumulative,
            table,
            probabilities,
            stochastic,
            streams.dynamics.take((size, horizon + 1)),
            chances,
            first,
            states,
            actions,
        )
        paid[:, part] = rewards.sample(
            streams.rewards.take((size, horizon, rewards.uniforms)),
            step=steps,
            state=states[:, part, :-1],
            action=actions[:, part],
            next_state=states[:, part, 1:],
        )
    return Trajectories(states, actions, paid)
