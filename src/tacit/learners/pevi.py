"""PEVI (Jin, Yang & Wang 2021): least-squares value iteration with a penalty; 001's baseline."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tacit.learners._regression import Asking, LinearPlan, asked, declared, norm_of, regressed
from tacit.learners.protocol import Uniforms
from tacit.mdp.spec import EpisodeSpec, SpecError
from tacit.releases import Query, Target

__all__ = ["PEVI"]


@dataclass(frozen=True, kw_only=True, eq=False)
class PEVI:
    """Pessimistic value iteration without weights, for h = H, …, 1.

    Algorithm 2 of Jin et al.: Λ = Σφφᵀ + λI, w = Λ⁻¹Σφ(r + V), Γ = c·d·H·‖φ‖_{Λ⁻¹}, Q clipped to [0, H−h+1], greedy,
    ties broken at random. 001 runs it on exact data; asked of a private privatizer it is private PEVI.

    Parameters
    ----------
    spec, features
        Public: the shape of an episode, and φ (S, A, d) as declared.
    bonus
        c. The theorem's is above 1, and with it Q is 0 until K is in the millions; 0.001 is VAPVI's default, roughly.
    ridge
        λ.
    shift
        Added to the diagonal, in multiples of σ√(2d); see `VAPVI`.
    """

    spec: EpisodeSpec
    features: NDArray[np.float64]
    bonus: float = 0.001
    ridge: float = 1.0
    shift: float = math.sqrt(2.0)
    apart: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "features", declared(self.spec, self.features))
        if not (self.bonus >= 0 and self.shift >= 0 and 0 < self.ridge < math.inf):
            raise SpecError("bonus and shift are at least 0, and the ridge is positive")

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
            target = Target(reward=1.0, values=ahead, low=0.0, high=top, printed=float(H))
            release = yield from asked(Query(step=h, share=1.0 / H, target=target), apart=self.apart)
            found = regressed(release, release, norm=self.norm, scale=target.scale, ridge=self.ridge, shift=self.shift)
            penalty = self.bonus * d * H * found.widths(features)
            plan = plan or LinearPlan.blank(len(penalty), spec, d)
            ahead = plan.take(h, found, penalty, features, ridge=self.ridge, uniforms=uniforms)
        assert plan is not None
        return plan
