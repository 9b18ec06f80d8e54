"""Private-UCB-PO (000, Algorithm 1), and OPPO (Efroni et al. 2020) where releases are exact."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacit.learners.optimism import Optimism
from tacit.learners.protocol import Uniforms
from tacit.mdp.spec import SpecError
from tacit.releases import TabularRelease

__all__ = ["UCBPO", "PolicyState"]


class PolicyState(NamedTuple):
    """A stochastic policy (R, H, S, A) ∝ exp(logits), and its optimistic action values, since `episodes` episodes."""

    policy: NDArray[np.float64]
    logits: NDArray[np.float64]
    q: NDArray[np.float64]
    informative: NDArray[np.bool_]
    episodes: int


@dataclass(frozen=True, kw_only=True)
class UCBPO(Optimism):
    """Optimistic policy optimisation on private counts; rewards are maximised where the paper minimises costs.

    Algorithm 1: line 1 starts from the uniform policy, line 7 is r̃ and P̃ (1), line 8 the bonus of Lemma 3.1, line 9
    Q = clip(r̃ + P̃V + β, 0, H−h+1), line 10 V = ⟨Q, π⟩, line 13 π ← π·exp(ηQ), normalised.

    Where the policy was fixed for m episodes, because nothing was released, line 13 takes its m steps at once: ηmQ. For
    releases after every episode m = 1, and that is the paper's algorithm.

    Parameters
    ----------
    eta_scale
        A factor on η = √(2 ln A/(H²K)) (Theorem 3.2), which the papers' experiments tune, too.
    """

    eta_scale: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0.0 <= self.eta_scale < math.inf:
            raise SpecError(f"eta_scale is a factor of at least 0; got {self.eta_scale}")

    @property
    def eta(self) -> float:
        """The learning rate η."""
        return self.eta_scale * math.sqrt(2.0 * math.log(self.spec.actions) / (self.spec.horizon**2 * self.episodes))

    def start(self, release: TabularRelease, uniforms: Uniforms) -> PolicyState:
        """See `Learner`: line 1, and lines 5 to 10 on zero counts."""
        spec, runs = self.spec, len(release.transitions)
        logits = np.zeros((runs, spec.horizon, spec.states, spec.actions))
        return self._evaluated(logits, release)

    def update(self, state: PolicyState, release: TabularRelease, uniforms: Uniforms) -> PolicyState:
        """See `Learner`: line 13 for the episodes since the last release, then lines 5 to 10."""
        if release.episodes < state.episodes:
            raise ValueError(f"the release after {state.episodes} episodes was taken in already")
        logits = state.logits + self.eta * (release.episodes - state.episodes) * state.q
        logits -= logits.max(axis=-1, keepdims=True)
        return self._evaluated(logits, release)

    def restored(self, fields: dict[str, Any]) -> PolicyState:
        """See `Learner`."""
        return PolicyState(**{**fields, "episodes": int(fields["episodes"])})

    def _evaluated(self, logits: NDArray[np.float64], release: TabularRelease) -> PolicyState:
        from tacit.learners._kernels import policy_backups, softmax

        self.check(release)
        runs, actions = len(logits), self.spec.actions
        policy, q = np.empty_like(logits), np.empty_like(logits)
        informative = np.empty(runs, dtype=np.bool_)
        softmax(logits.reshape(-1, actions), policy.reshape(-1, actions))
        policy_backups(*release.counts(), *self.policy_widths(release), policy, q, informative)
        return PolicyState(policy, logits, q, informative, release.episodes)
