"""Worlds given as lists of outcomes (state, action, next state, probability, reward).

In such worlds the reward may depend on where a step leads, so a law that draws rewards from (s, a) alone would
get their joint law with the next state wrong.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit.mdp.rewards import RewardLaw
from tacit.mdp.spec import EpisodeSpec, SpecError
from tacit.mdp.tabular import TabularMDP

if TYPE_CHECKING:
    from tacit.mdp.planning import Kernel

__all__ = ["OutcomeRewards", "outcome_world"]

_DENSE_ENTRIES = 2**16
"""A kernel of at most so many entries is stored densely whatever it looks like: half a megabyte."""

_SPARSE_DENSITY = 0.1
"""A larger kernel is stored sparsely if at most this share of its entries is not zero."""


@dataclass(frozen=True, kw_only=True, eq=False)
class OutcomeRewards(RewardLaw):
    """Rewards with finitely many values, drawn from their law given (s, a, s'); the same at every step.

    Parameters
    ----------
    states, actions
        S and A.
    state, action, next_state
        Where each outcome belongs: whole numbers (n,).
    probability
        The probability of next state and reward together, given (s, a): (n,). Over the outcomes of one (s, a, s')
        they sum to P(s'|s, a); a transition that is not listed pays nothing.
    reward
        What each outcome pays: (n,).
    """

    states: int
    actions: int
    state: NDArray[np.int64]
    action: NDArray[np.int64]
    next_state: NDArray[np.int64]
    probability: NDArray[np.float64]
    reward: NDArray[np.float64]

    def __post_init__(self) -> None:
        S, A = self.states, self.actions
        state = _indices("state", self.state, below=S)
        action = _indices("action", self.action, below=A)
        next_state = _indices("next_state", self.next_state, below=S)
        probability = np.array(self.probability, dtype=np.float64)
        reward = np.array(self.reward, dtype=np.float64)
        columns = (state, action, next_state, probability, reward)
        if any(column.shape != state.shape for column in columns):
            raise SpecError(f"outcomes need columns of one length; got {[column.shape for column in columns]}")
        if not (np.isfinite(probability).all() and (probability >= 0).all()):
            raise SpecError("probabilities of outcomes must be finite and at least 0")
        if not np.isfinite(reward).all():
            raise SpecError("rewards of outcomes must be finite")
        for name, column in zip(("state", "action", "next_state", "probability", "reward"), columns, strict=True):
            column.setflags(write=False)
            object.__setattr__(self, name, column)

    @cached_property
    def mean(self) -> NDArray[np.float64]:
        """(1, S, A)."""
        return self._expected(self.probability * self.reward)

    @property
    def uniforms(self) -> int:
        """0 where (s, a, s') settles the reward, else 1."""
        return 0 if len(self._keys) == len(self._rewards) else 1

    @cached_property
    def support(self) -> tuple[float, float]:
        """The smallest and the largest reward that can be paid."""
        values = self.reward[self.probability > 0]
        unlisted = 1.0 - self._expected(self.probability)
        if len(values) == 0 or (unlisted > 1e-9).any():  # 1e-9: the rounding that kernels are allowed
            values = np.append(values, 0.0)
        return float(values.min()), float(values.max())

    def sample(
        self,
        uniforms: NDArray[np.float64],
        *,
        step: NDArray[np.integer],
        state: NDArray[np.integer],
        action: NDArray[np.integer],
        next_state: NDArray[np.integer],
    ) -> NDArray[np.float64]:
        """By the inverse distribution function of the rewards of (s, a, s')."""
        state = np.asarray(state, dtype=np.int64)
        key = (state * self.actions + action) * self.states + next_state
        key, _ = np.broadcast_arrays(key, step)
        if len(self._keys) == 0:
            return np.zeros(key.shape)
        rank = np.minimum(np.searchsorted(self._keys, key), len(self._keys) - 1)
        listed = self._keys[rank] == key
        if self.uniforms == 0:
            position = rank
        else:
            # rank + u may round up to rank + 1, hence the bound.
            position = np.searchsorted(self._edges, rank + np.asarray(uniforms)[..., 0], side="right")
            position = np.minimum(position, self._last[rank])
        return np.where(listed, self._rewards[position], 0.0)

    def moment_bound(self, order: float) -> float:
        """The largest E|r|^order over all (s, a), exact."""
        if not 1.0 < order <= 2.0:
            raise SpecError(f"the moment's order must lie in (1, 2]; got {order}")
        return float(self._expected(self.probability * np.abs(self.reward) ** order).max())

    def relabel(self, *, states: NDArray[np.integer], actions: NDArray[np.integer]) -> OutcomeRewards:
        """The same law where state s is now called states[s] and action a actions[a]."""
        return OutcomeRewards(
            states=self.states,
            actions=self.actions,
            state=np.asarray(states, dtype=np.int64)[self.state],
            action=np.asarray(actions, dtype=np.int64)[self.action],
            next_state=np.asarray(states, dtype=np.int64)[self.next_state],
            probability=self.probability,
            reward=self.reward,
        )

    def _expected(self, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """(1, S, A): the weights of the outcomes, summed over the outcomes of each (s, a)."""
        total = np.zeros(self.states * self.actions)
        np.add.at(total, self.state * self.actions + self.action, weights)
        return total.reshape(1, self.states, self.actions)

    @cached_property
    def _table(
        self,
    ) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64], NDArray[np.int64]]:
        """What `sample` searches: see the properties below."""
        possible = self.probability > 0
        key = ((self.state * self.actions + self.action) * self.states + self.next_state)[possible]
        reward, probability = self.reward[possible], self.probability[possible]
        if len(key) == 0:
            return np.empty(0, np.int64), np.empty(0), np.empty(0), np.empty(0, np.int64)
        order = np.lexsort((reward, key))
        key, reward, probability = key[order], reward[order], probability[order]
        first = np.flatnonzero(np.append(True, (np.diff(key) != 0) | (np.diff(reward) != 0)))
        key, reward, probability = key[first], reward[first], np.add.reduceat(probability, first)
        keys, start = np.unique(key, return_index=True)
        last = np.append(start[1:], len(key)) - 1
        group = np.repeat(np.arange(len(keys)), last - start + 1)
        total = np.add.reduceat(probability, start)
        cumulative = np.cumsum(probability)
        before = cumulative[start] - probability[start]
        edges = group + (cumulative - before[group]) / total[group]
        edges[last] = np.arange(len(keys)) + 1.0
        return keys, reward, edges, last

    @property
    def _keys(self) -> NDArray[np.int64]:
        """The listed transitions, as ascending numbers (s·A + a)·S + s'."""
        return self._table[0]

    @property
    def _rewards(self) -> NDArray[np.float64]:
        """The distinct rewards of each listed transition, in order of transition and value."""
        return self._table[1]

    @property
    def _edges(self) -> NDArray[np.float64]:
        """Rank of the transition plus the distribution function of its rewards: ascending throughout."""
        return self._table[2]

    @property
    def _last(self) -> NDArray[np.int64]:
        """The position of each transition's largest reward."""
        return self._table[3]


def outcome_world(
    *,
    spec: EpisodeSpec,
    start: ArrayLike,
    state: ArrayLike,
    action: ArrayLike,
    next_state: ArrayLike,
    probability: ArrayLike,
    reward: ArrayLike,
    name: str = "world",
) -> TabularMDP:
    """A stationary world from its outcomes: five columns (n,) that broadcast together.

    Kernel and reward law come from the same list, so that they agree. The kernel is dense where it is small
    and sparse (CSR) where it is large and mostly empty.
    """
    state, action, next_state, probability, reward = np.broadcast_arrays(
        *(np.atleast_1d(column) for column in (state, action, next_state, probability, reward))
    )
    law = OutcomeRewards(
        states=spec.states,
        actions=spec.actions,
        state=state,
        action=action,
        next_state=next_state,
        probability=probability,
        reward=reward,
    )
    return TabularMDP(spec=spec, kernel=_kernel(law), rewards=law, start=np.asarray(start, dtype=np.float64), name=name)


def _kernel(law: OutcomeRewards) -> Kernel:
    S, A = law.states, law.actions
    row = law.state * A + law.action
    if S * A * S > _DENSE_ENTRIES:
        from scipy.sparse import coo_array

        sparse = coo_array((law.probability, (row, law.next_state)), shape=(S * A, S)).tocsr()
        sparse.eliminate_zeros()
        if sparse.nnz <= _SPARSE_DENSITY * S * A * S:
            return sparse
    dense = np.bincount(row * S + law.next_state, weights=law.probability, minlength=S * A * S)
    return dense.reshape(1, S, A, S)


def _indices(name: str, value: ArrayLike, *, below: int) -> NDArray[np.int64]:
    array = np.asarray(value)
    if array.ndim != 1 or not np.issubdtype(array.dtype, np.integer):
        raise SpecError(f"{name} must be a list of whole numbers; got {array.dtype} of shape {array.shape}")
    if array.size and not (array.min() >= 0 and array.max() < below):
        raise SpecError(f"{name} must lie in 0..{below - 1}; got {array.min()}..{array.max()}")
    return array.astype(np.int64)
