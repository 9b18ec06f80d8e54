"""Private-UCB-VI (000, Algorithm 2), and UCB-VI (Azar et al. 2017) where releases are exact."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacit.learners.optimism import Optimism
from tacit.learners.protocol import Uniforms
from tacit.releases import TabularRelease

__all__ = ["UCBVI", "ValueState"]


class ValueState(NamedTuple):
    """A greedy policy (R, H, S), and the optimistic action values (R, H, S, A) that it is greedy for."""

    policy: NDArray[np.int32]
    q: NDArray[np.float64]
    informative: NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True)
class UCBVI(Optimism):
    """Optimistic value iteration on private counts; rewards are maximised where the paper minimises costs.

    Algorithm 2: line 6 is r̃ = R̃/D and P̃ = Ñ(s,a,s')/D (1), line 7 the bonus of Lemma 4.1, line 8
    Q = clip(r̃ + P̃V + β, 0, H−h+1), line 9 V = max_a Q, line 10 the greedy policy, ties broken uniformly at random: with
    clipping all actions tie as long as nothing is known, and the first one would win.
    """

    def start(self, release: TabularRelease, uniforms: Uniforms) -> ValueState:
        """See `Learner`: lines 4 to 10 on zero counts."""
        return self._planned(release, uniforms)

    def update(self, state: ValueState, release: TabularRelease, uniforms: Uniforms) -> ValueState:
        """See `Learner`: lines 4 to 10."""
        return self._planned(release, uniforms)

    def restored(self, fields: dict[str, Any]) -> ValueState:
        """See `Learner`."""
        return ValueState(**fields)

    def _planned(self, release: TabularRelease, uniforms: Uniforms) -> ValueState:
        from tacit.learners._kernels import greedy_backups

        self.check(release)
        runs, spec = len(release.transitions), self.spec
        shape = (runs, spec.horizon, spec.states)
        policy = np.empty(shape, dtype=np.int32)
        q = np.empty((*shape, spec.actions))
        informative = np.empty(runs, dtype=np.bool_)
        widths = self.value_widths(release)
        greedy_backups(*release.counts(), *widths, uniforms(shape[1:]), q, policy, informative)
        return ValueState(policy, q, informative)
