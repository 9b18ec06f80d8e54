"""VAPVI (Yin et al. 2022) and DP-VAPVI (001, Algorithm 2): regressions weighted by an estimate of the variance of V."""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from tacit.learners._regression import Asking, LinearPlan, Solved, asked, declared, norm_of, regressed
from tacit.learners.protocol import Uniforms
from tacit.mdp.spec import EpisodeSpec, SpecError
from tacit.releases import GramRelease, Query, Target

__all__ = ["VAPVI"]

Array = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, eq=False)
class VAPVI:
    """Variance-aware pessimistic value iteration, for h = H, …, 1.

    Algorithm 2: line 4 Σ̃ = Σφφᵀ + λI + K₁; lines 5, 6 β̃ and θ̃ from V² and V; lines 7, 8 σ̃² = max(1, Var); line 9
    Λ̃ = Σφφᵀ/σ̃² + λI + K₂; line 10 w̃; line 11 Γ = C√d‖φ‖_{Λ̃⁻¹} + D/K; lines 12 to 14 clip to [0, H−h+1], and greedy,
    ties broken at random. Noise is the privatizer's; where it has none this is VAPVI.

    Parameters
    ----------
    spec, features
        Public: the shape of an episode, and φ (S, A, d) as declared.
    bonus, offset
        C and D, which 001 leaves open. D/K is the same everywhere: it changes no ranking until it drives Q to 0, and
        001's own D is infinite where some direction is never visited. So D = 0; C = 0.1.
    ridge
        λ.
    shift
        E/2 in multiples of σ√(2d), the size of the noise matrix's largest eigenvalue: √2 is 001's E without its
        logarithm. Whatever the noise, no eigenvalue of Σ̃ or Λ̃ is taken to be less than λ.
    split
        Variances from the second half of the episodes, weights from the first, as 001 proves it. Its experiment does
        not split, nor is that the default.
    apart
        Ask for the five statistics of a step one by one with ρ₀ = ρ/(5H), as printed, and as published noise needs it.
        Otherwise three questions, where a Gram matrix comes with its vector for little or nothing: a quarter of a
        step's budget for (Σφφᵀ, ΣφV²), a quarter for ΣφV and a half for the weighted regression.
    """

    spec: EpisodeSpec
    features: Array
    bonus: float = 0.1
    offset: float = 0.0
    ridge: float = 1.0
    shift: float = math.sqrt(2.0)
    split: bool = False
    apart: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "features", declared(self.spec, self.features))
        if not (self.bonus >= 0 and self.offset >= 0 and self.shift >= 0 and 0 < self.ridge < math.inf):
            raise SpecError("bonus, offset and shift are at least 0, and the ridge is positive")

    @cached_property
    def norm(self) -> float:
        """What releases are normalised by."""
        return norm_of(self.features)

    def plan(self, uniforms: Uniforms) -> Asking:
        """Queries to yield and releases to be sent, and at last the plan."""
        spec, features = self.spec, self.features
        H, d = spec.horizon, features.shape[-1]
        ahead, plan = np.zeros((1, spec.states)), None
        for h in range(H - 1, -1, -1):
            top = float(H - h)
            variance = yield from self._variance(h, ahead)
            query = Query(
                step=h,
                # After the last step nothing varies, and nothing needs to be asked about it.
                share=(0.4 if self.apart else 1.0 if h == H - 1 else 0.5) / H,
                target=Target(reward=1.0, values=ahead, low=0.0, high=top, printed=float(H)),
                weights=1.0 / np.maximum(1.0, variance),
                half=0 if self.split else None,
            )
            release = yield from asked(query, apart=self.apart)
            found = self._solved(release, release, query)
            penalty = self.bonus * math.sqrt(d) * found.widths(features) + self.offset / max(release.episodes, 1)
            plan = plan or LinearPlan.blank(len(penalty), spec, d)
            ahead = plan.take(h, found, penalty, features, ridge=self.ridge, uniforms=uniforms)
        assert plan is not None
        return plan

    def _variance(self, h: int, ahead: Array) -> Generator[Query, GramRelease, Array]:
        """Lines 4 to 8, without the maximum: Var V as far as it is known."""
        H, top = self.spec.horizon, float(self.spec.horizon - h)
        if h == H - 1 and not self.apart:  # what is printed asks, and adds its noise to zeros
            return np.zeros((1, self.spec.states, self.spec.actions))
        half: Literal[0, 1] | None = 1 if self.split else None
        square = Target(reward=0.0, values=ahead**2, low=0.0, high=(top - 1.0) ** 2, printed=float(H * H))
        plain = Target(reward=0.0, values=ahead, low=0.0, high=top - 1.0, printed=float(H))
        first = Query(step=h, share=(0.4 if self.apart else 0.25) / H, target=square, half=half)
        second = Query(step=h, share=(0.2 if self.apart else 0.25) / H, gram=False, target=plain, half=half)
        of_square = yield from asked(first, apart=self.apart)
        of_plain = yield second
        squares = self._solved(of_square, of_square, first).predicted(self.features)
        means = self._solved(of_square, of_plain, second).predicted(self.features)
        return np.asarray(np.clip(squares, 0.0, top**2) - np.clip(means, 0.0, top) ** 2)

    def _solved(self, matrix: GramRelease, vector: GramRelease, query: Query) -> Solved:
        """Lines 4 and 9, and a regression of the query's target, in its own units."""
        assert query.target is not None
        scale = query.target.scale
        return regressed(matrix, vector, norm=self.norm, scale=scale, ridge=self.ridge, shift=self.shift)
