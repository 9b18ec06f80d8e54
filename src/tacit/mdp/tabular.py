"""Tabular worlds: a kernel, a reward law and a start law, with everything about them exact."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit.mdp import planning
from tacit.mdp.planning import Kernel, Solution
from tacit.mdp.rewards import RewardLaw
from tacit.mdp.rollouts import Streams, TransitionRows, check_policy, roll_out
from tacit.mdp.spec import EpisodeSpec, MomentBound, SpecError
from tacit.mdp.trajectories import Trajectories

__all__ = ["TabularMDP"]

# How far probabilities may be from summing to 1: rounding of a sum, not of single-precision data.
_TOLERANCE = 1e-9


@dataclass(frozen=True, kw_only=True, eq=False)
class TabularMDP:
    """A finite world that is known exactly. It is data: nothing here is to be overridden.

    Parameters
    ----------
    spec
        What is public about the world. Everything it declares must be true: the reward range or moment bound,
        and stationarity, which means one kernel and one reward law for all steps (leading axis 1, or CSR). It
        may declare less than is true: an unknown start law, or steps that may differ although they do not.
    kernel
        P(s' | s, a): dense (H|1, S, A, S) or (S, A, S), or a SciPy sparse array (S·A, S), whose row s·A + a
        is the law after (s, a); it is stored read-only, as (H|1, S, A, S) or CSR.
    rewards
        The law of rewards.
    start
        The law of the first state, S probabilities.
    name
        For tables and figures.

    Examples
    --------
    >>> from tacit.mdp.rewards import Deterministic
    >>> lamp = TabularMDP(
    ...     spec=EpisodeSpec(states=2, actions=2, horizon=3, start=0),
    ...     kernel=[[[1.0, 0.0], [0.1, 0.9]], [[0.0, 1.0], [1.0, 0.0]]],
    ...     rewards=Deterministic(mean=[[0.0, 0.0], [1.0, 0.0]]),
    ...     start=[1.0, 0.0],
    ... )
    >>> round(lamp.optimal_value, 10)
    1.89
    """

    spec: EpisodeSpec
    kernel: Kernel = field(repr=False)
    rewards: RewardLaw
    start: NDArray[np.float64] = field(repr=False)
    name: str = "world"

    def __post_init__(self) -> None:
        if not isinstance(self.spec, EpisodeSpec):
            raise SpecError(f"spec must be an EpisodeSpec; got {type(self.spec).__name__}")
        if not isinstance(self.rewards, RewardLaw):
            raise SpecError(
                f"rewards must be a RewardLaw, such as Deterministic(mean=...); got {type(self.rewards).__name__}"
            )
        object.__setattr__(self, "kernel", _read_only_kernel(self.kernel, self.spec))
        object.__setattr__(self, "start", _read_only_start(self.start, self.spec))
        self._check_rewards()

    def _check_rewards(self) -> None:
        spec, mean = self.spec, self.rewards.mean
        if mean.shape[1:] != (spec.states, spec.actions) or mean.shape[0] not in (1, spec.horizon):
            raise SpecError(
                f"mean rewards must be (H|1, S, A) = ({spec.horizon}|1, {spec.states}, {spec.actions}); "
                f"got {mean.shape}"
            )
        if spec.stationary and mean.shape[0] > 1:
            raise SpecError(
                "the spec says stationary, but the reward law has one mean per step; "
                "give the law once, (1, S, A), or declare stationary=False"
            )
        if isinstance(spec.rewards, MomentBound):
            self._check_moments(spec.rewards)
            return
        low, high = self.rewards.support
        slack = _TOLERANCE * (spec.rewards[1] - spec.rewards[0])  # means are often products, and rounded
        if not (spec.rewards[0] - slack <= low and high <= spec.rewards[1] + slack):
            raise SpecError(
                f"rewards lie in [{low:g}, {high:g}], the spec declares the range {spec.rewards}; "
                "widen the range, or declare a MomentBound where there is none"
            )

    def _check_moments(self, declared: MomentBound) -> None:
        largest_mean = float(np.abs(self.rewards.mean).max())
        moment = self.rewards.moment_bound(declared.order)
        if largest_mean > declared.mean * (1 + _TOLERANCE):
            raise SpecError(f"a mean reward of size {largest_mean:g} exceeds the declared bound {declared.mean:g}")
        if moment > declared.bound * (1 + _TOLERANCE):
            raise SpecError(
                f"the bound of E|r|^{declared.order:g} known for this law is {moment:g}, "
                f"above the declared {declared.bound:g}"
            )

    @cached_property
    def optimal(self) -> Solution:
        """The optimal values (1, H+1, S) and action values (1, H, S, A)."""
        kernel, mean = self._kernel_of_one_run, self.rewards.mean[None]
        solution = planning.optimal(kernel, mean, horizon=self.spec.horizon)
        for array in solution:
            array.flags.writeable = False
        return solution

    @cached_property
    def optimal_value(self) -> float:
        """The optimal expected return of an episode, from the start law."""
        return float(self.start @ self.optimal.values[0, 0])

    def policy_values(self, policy: ArrayLike) -> NDArray[np.float64]:
        """Compute the exact expected return (R,) of policies, (R, H, S) or (R, H, S, A)."""
        kernel, mean = self._kernel_of_one_run, self.rewards.mean[None]
        values = planning.evaluate(kernel, mean, policy, horizon=self.spec.horizon)
        returns: NDArray[np.float64] = values[:, 0] @ self.start
        return returns

    def occupancies(self, policy: ArrayLike) -> NDArray[np.float64]:
        """Compute the probability (R, H, S, A) of each state and action at each step."""
        return planning.occupancies(self._kernel_of_one_run, self.start, check_policy(policy, self.spec))

    def rollout(self, policy: ArrayLike, *, episodes: int, streams: Streams) -> Trajectories:
        """Roll out a policy, (R|1, H, S) or (R|1, H, S, A), where R = streams.runs; batch (R, episodes)."""
        table = check_policy(policy, self.spec, runs=streams.runs)
        return roll_out(self._rows, self.rewards, table, episodes=episodes, streams=streams)

    def relabel(self, *, states: ArrayLike | None = None, actions: ArrayLike | None = None) -> TabularMDP:
        """Rename states and actions: state s is called states[s] in the new world, and action a actions[a].

        The world stays the same, so nothing a learner is worth may depend on it; ties broken towards action 0
        do.
        """
        S, A = self.spec.states, self.spec.actions
        new_states, new_actions = _permutation(states, S, "states"), _permutation(actions, A, "actions")
        old_states, old_actions = np.argsort(new_states), np.argsort(new_actions)
        kernel: Kernel
        if isinstance(self.kernel, np.ndarray):
            kernel = self.kernel[:, old_states][:, :, old_actions][..., old_states]
        else:
            kernel = self.kernel[(old_states[:, None] * A + old_actions).ravel()][:, old_states]
        spec = self.spec
        if isinstance(spec.start, int):
            spec = replace(spec, start=int(new_states[spec.start]))
        elif isinstance(spec.start, tuple):
            spec = replace(spec, start=tuple(spec.start[s] for s in old_states))
        return TabularMDP(
            spec=spec,
            kernel=kernel,
            rewards=self.rewards.relabel(states=new_states, actions=new_actions),
            start=self.start[old_states],
            name=self.name,
        )

    @property
    def _kernel_of_one_run(self) -> Kernel:
        return self.kernel[None] if isinstance(self.kernel, np.ndarray) else self.kernel

    @cached_property
    def _rows(self) -> TransitionRows:
        return TransitionRows.of(self.kernel, self.start)


def _read_only_kernel(given: Kernel, spec: EpisodeSpec) -> Kernel:
    """Check that every row is a distribution and return the kernel in its canonical form."""
    S, A, H = spec.states, spec.actions, spec.horizon
    if hasattr(given, "tocsr"):
        from scipy.sparse import csr_array

        kernel = csr_array(given, dtype=np.float64, copy=True)
        kernel.sum_duplicates()
        if kernel.shape != (S * A, S):
            raise SpecError(f"a sparse kernel must be (S·A, S) = ({S * A}, {S}); got {kernel.shape}")
        _check_rows(kernel.data, np.asarray(kernel.sum(axis=1)).reshape(1, S, A))
        kernel.data.flags.writeable = False
        return kernel
    dense = np.array(given, dtype=np.float64, order="C", ndmin=4)
    if dense.shape[1:] != (S, A, S) or dense.shape[0] not in (1, H):
        raise SpecError(f"the kernel must be (H|1, S, A, S) = ({H}|1, {S}, {A}, {S}); got {np.shape(given)}")
    if spec.stationary and dense.shape[0] > 1:
        raise SpecError(
            "the spec says stationary, but the kernel has one law per step; "
            "give it once, (1, S, A, S), or declare stationary=False"
        )
    _check_rows(dense, dense.sum(axis=-1))
    dense.flags.writeable = False
    return dense


def _check_rows(probabilities: NDArray[np.float64], totals: NDArray[np.float64]) -> None:
    # Both written so that NaN fails.
    if probabilities.size and not probabilities.min() >= 0:
        raise SpecError("transition probabilities must be at least 0")
    wrong = ~(np.abs(totals - 1) <= _TOLERANCE)
    if wrong.any():
        step, state, action = (int(index) for index in np.argwhere(wrong)[0])
        raise SpecError(
            f"transition probabilities must sum to 1 in every row; {int(wrong.sum())} do not, the first at "
            f"step {step}, state {state}, action {action}: {totals[step, state, action]}"
        )


def _read_only_start(given: ArrayLike, spec: EpisodeSpec) -> NDArray[np.float64]:
    start = np.array(given, dtype=np.float64)
    if start.shape != (spec.states,) or not (start.min() >= 0 and abs(start.sum() - 1) <= _TOLERANCE):
        raise SpecError(f"the start law must be {spec.states} probabilities that sum to 1")
    declared = spec.start_law
    if declared is not None and np.abs(declared - start).max() > _TOLERANCE:
        raise SpecError('the world starts otherwise than its spec declares; declare that law, or "unknown"')
    start.flags.writeable = False
    return start


def _permutation(given: ArrayLike | None, size: int, name: str) -> NDArray[np.intp]:
    if given is None:
        return np.arange(size)
    permutation = np.asarray(given)
    if permutation.dtype.kind not in "iu" or not np.array_equal(np.sort(permutation), np.arange(size)):
        raise ValueError(f"{name} must be a permutation of 0..{size - 1}; got {given!r}")
    return permutation.astype(np.intp)
