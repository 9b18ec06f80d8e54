"""Pessimistic value iteration in linear worlds under the noise that privacy needs: the rule that works (ours).

001's Algorithm 2 asks five questions about each step, on features of any shape, with targets in [0, H]. This asks one:

* Ṽ_{h+1} is a release, so its range is public: y = r + Ṽ − mid with |y| ≤ B = (1 + span Ṽ)/2, whatever H. (1 lies in
  the span of the features of every linear MDP, so mid is added again; where it does not, mid = 0.)
* features in the public coordinates in which they are as spread as can be (`g_optimal`), of norm 1 at most;
* Gram and k·vector under one noise, k = 1.2: near √2 the Gram matrix is free (`tacit.statistics.gram`);
* no weighting: σ̃² = max(1, Var) is 1 wherever Ṽ spans 2 or less, and estimating it costs more than half of the budget.

The Gram matrix is projected on the cone, a ridge keeps noise from being inverted, and the penalty is what noise and
data leave open.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tacit.learners._regression import Asking, LinearPlan, Solved, declared, g_optimal, greedy, solved
from tacit.learners.protocol import Uniforms
from tacit.mdp.spec import EpisodeSpec, SpecError
from tacit.releases import GramRelease, Query, Target

__all__ = ["LinearPVI"]

Array = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, eq=False)
class LinearPVI:
    """One regression for each step, h = H, …, 1, each with 1/H of the budget.

    Parameters
    ----------
    spec
        The public shape of an episode.
    declared_features
        φ (S, A, d). What is regressed on, and what a privatizer is given, is `features`.
    ridge
        Ridge without noise, in units of features of norm 1.
    noise_ridge
        What noise adds to the ridge, in multiples of σ√(2d), its largest eigenvalue or so.
    noise_penalty
        Standard deviations of φᵀΛ⁻¹z, z the vector's noise.
    data_penalty
        Times B‖φ‖_{Λ⁻¹}: what the chance in people's data leaves open.
    vector_weight
        k of the joint release. From √2 on the vector has the least noise, 2/√(2ρ₀), and the Gram matrix k times that;
        at 1.2 the vector has 1 % more and the Gram matrix 14 % less.
    fallback
        Probabilities (H|1, S, A) of what to do where nothing is known to be better. An action is then taken for what it
        gains on the fallback, less the penalty of that difference; where none gains, the fallback is followed. As the
        best of A differences is looked for, noise counts √(2 ln 10A) standard deviations there at least.
    """

    spec: EpisodeSpec
    declared_features: Array
    ridge: float = 1.0
    noise_ridge: float = 2.0
    noise_penalty: float = 2.0
    data_penalty: float = 0.1
    vector_weight: float = 1.2
    fallback: Array | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "declared_features", declared(self.spec, self.declared_features))
        factors = (self.noise_ridge, self.noise_penalty, self.data_penalty)
        if not (0 < self.ridge < math.inf and all(0 <= factor < math.inf for factor in factors)):
            raise SpecError("the ridge is positive, and its factor and those of the penalties are at least 0")
        if not 2.0**-10 <= self.vector_weight <= 2.0**10:
            raise SpecError(f"the vector's weight lies in [2^-10, 2^10]; got {self.vector_weight}")
        if self.fallback is not None:
            spec, table = self.spec, np.array(self.fallback, dtype=np.float64)
            if table.ndim != 3 or table.shape[1:] != (spec.states, spec.actions) or len(table) not in (1, spec.horizon):
                raise SpecError(f"the fallback is (H|1, S, A) probabilities; got shape {table.shape}")
            if not ((table >= 0).all() and (np.abs(table.sum(axis=-1) - 1.0) <= 1e-9).all()):
                raise SpecError("each row of the fallback must be probabilities that sum to 1")
            object.__setattr__(self, "fallback", table)

    @cached_property
    def features(self) -> Array:
        """The features (S, A, rank) that privatizers are given: declared ones in public coordinates of norm 1."""
        return g_optimal(self.declared_features)

    @cached_property
    def constant(self) -> bool:
        """Whether 1 is a combination of the features."""
        rows = self.features.reshape(-1, self.features.shape[-1])
        ones = np.ones(len(rows))
        return bool(np.abs(rows @ np.linalg.lstsq(rows, ones, rcond=None)[0] - ones).max() < 1e-8)

    def plan(self, uniforms: Uniforms) -> Asking:
        """Queries to yield and releases to be sent, and at last the plan."""
        spec = self.spec
        H = spec.horizon
        ahead, plan = np.zeros((1, spec.states)), None
        for h in range(H - 1, -1, -1):
            low, high = ahead.min(axis=-1), 1.0 + ahead.max(axis=-1)
            middle = (low + high) / 2.0 if self.constant else np.zeros_like(low)
            bound = (high - low) / 2.0 if self.constant else high
            target = Target(
                reward=1.0,
                values=ahead - middle[:, None],
                low=-bound if self.constant else 0.0 * bound,
                high=bound,
            )
            release = yield Query(step=h, share=1.0 / H, target=target, vector_weight=self.vector_weight)
            found, ridge = self._solved(release, bound)
            if plan is None:
                plan = LinearPlan.blank(len(found.weights), spec, self.features.shape[-1])
            mean = middle[:, None, None] + found.predicted(self.features)
            penalty = self._penalty(found, release, bound, self.features)
            q = np.clip(mean - penalty, 0.0, float(H - h))
            plan.q[:, h], plan.penalty[:, h], plan.weights[:, h] = q, penalty, found.weights
            plan.evidence[:, h] = found.evidence(self.features, ridge)
            self._choose(plan, h, mean, found, release, bound, uniforms)
            plan.values[:, h] = ahead = (plan.policy[:, h] * q).sum(axis=-1)
        assert plan is not None
        return plan

    def _solved(self, release: GramRelease, bound: Array) -> tuple[Solved, float]:
        assert release.gram is not None
        assert release.vector is not None
        spread = math.sqrt(2.0 * self.features.shape[-1]) * release.errors["gram"].std
        ridge = self.ridge + self.noise_ridge * spread
        vector = bound[:, None] * release.vector[:, 0]
        return solved(release.gram[:, 0], vector, added=ridge, floor=ridge, project=True), ridge

    def _penalty(
        self, found: Solved, release: GramRelease, bound: Array, features: Array, *, of_best: bool = False
    ) -> Array:
        std = release.errors["vector"].std / release.vector_weight
        best = math.sqrt(2.0 * math.log(10.0 * self.spec.actions)) if of_best else 0.0
        left = max(self.noise_penalty, best) * std * found.noise(features) + self.data_penalty * found.widths(features)
        return np.asarray(bound[:, None, None] * left)

    def _choose(
        self,
        plan: LinearPlan,
        h: int,
        mean: Array,
        found: Solved,
        release: GramRelease,
        bound: Array,
        uniforms: Uniforms,
    ) -> None:
        """The policy at one step."""
        actions = np.arange(self.spec.actions)
        if self.fallback is None:
            plan.policy[:, h] = greedy(plan.q[:, h], uniforms)[..., None] == actions
            return
        usual = self.fallback[h if len(self.fallback) > 1 else 0]
        difference = self.features - np.einsum("sa,sad->sd", usual, self.features)[:, None]
        gain = mean - (usual * mean).sum(axis=-1, keepdims=True)
        gain -= self._penalty(found, release, bound, difference, of_best=True)
        deferred = gain.max(axis=-1) <= 0.0
        plan.deferred[:, h] = deferred
        chosen = greedy(gain, uniforms)[..., None] == actions
        plan.policy[:, h] = np.where(deferred[..., None], usual, chosen)
