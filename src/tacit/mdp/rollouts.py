"""Rolling out policies: random streams, what anything that can be rolled out offers, and the walk itself.

A run has three generators of its own, for the world's dynamics, for rewards and for the policy's choices. An
episode consumes a fixed number of uniforms from each, so that n episodes in one call are the same as in n
calls, runs do not disturb each other, and another reward law or policy meets the same chances in the
dynamics.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol, Self, runtime_checkable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit.mdp.planning import Kernel, as_policy
from tacit.mdp.spec import EpisodeSpec
from tacit.mdp.trajectories import Trajectories

if TYPE_CHECKING:
    from tacit.mdp.rewards import RewardLaw

__all__ = ["RolloutSource", "Streams", "TransitionRows", "check_policy", "roll_out", "uniforms"]

# Uniforms are drawn for about this many steps at a time: 8 MB per stream.
_STEPS_AT_A_TIME = 1 << 20


class Streams:
    """Independent random generators for runs of a simulation: three per run, spawned from one seed.

    Run i's generators depend on the seed and on i only, not on how many runs there are. A seed given as a
    SeedSequence is spawned from, as NumPy does: giving the same object again gives other streams.

    Examples
    --------
    >>> two, three = Streams(7, runs=2), Streams(7, runs=3)
    >>> two.dynamics[1].random() == three.dynamics[1].random()
    True
    """

    dynamics: tuple[np.random.Generator, ...]
    rewards: tuple[np.random.Generator, ...]
    policy: tuple[np.random.Generator, ...]

    def __init__(self, seed: int | np.random.SeedSequence, runs: int) -> None:
        if isinstance(runs, bool) or not isinstance(runs, int | np.integer) or runs < 1:
            raise ValueError(f"runs must be a whole number of at least 1; got {runs!r}")
        if not isinstance(seed, np.random.SeedSequence):
            if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
                raise ValueError(f"the seed must be a whole number of at least 0 or a SeedSequence; got {seed!r}")
            seed = np.random.SeedSequence(int(seed))
        per_run = [[np.random.default_rng(child) for child in run.spawn(3)] for run in seed.spawn(int(runs))]
        self.dynamics, self.rewards, self.policy = zip(*per_run, strict=True)

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
        for name in ("dynamics", "rewards", "policy"):
            generators = getattr(self, name)
            setattr(chosen, name, tuple(generators[number] for number in numbers))
        return chosen


def uniforms(generators: Sequence[np.random.Generator], shape: tuple[int, ...]) -> NDArray[np.float64]:
    """Draw U[0, 1) of shape (R, *shape), row i from the i-th generator."""
    drawn = np.empty((len(generators), *shape))
    for generator, row in zip(generators, drawn, strict=True):
        generator.random(out=row)
    return drawn


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
        chances = uniforms(streams.policy, (size, horizon)) if stochastic else np.empty((0, 0, 0))
        walk(
            *rows[:3],
            rows.per_step,
            rows.start_states,
            rows.start_cumulative,
            table,
            probabilities,
            stochastic,
            uniforms(streams.dynamics, (size, horizon + 1)),
            chances,
            first,
            states,
            actions,
        )
        paid[:, part] = rewards.sample(
            uniforms(streams.rewards, (size, horizon, rewards.uniforms)),
            step=steps,
            state=states[:, part, :-1],
            action=actions[:, part],
            next_state=states[:, part, 1:],
        )
    return Trajectories(states, actions, paid)
