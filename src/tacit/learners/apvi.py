"""DP-APVI (001, Algorithm 1), APVI (Yin & Wang 2021) where releases are exact, and a rule for the sizes people have.

**The theorem's rule.** With n' the released counts, clipped at 0, and E/2 a bound of all their errors at once, equation
(3) makes ñ(s,a,s') ≥ 0 and ñ = Σ ñ(s,a,s') of them (`reconcile`); P̃ = ñ(s,a,s')/ñ where ñ > E, else uniform. For
h = H, …, 1: Γ = C₁√(Var_P̃(V)·ι/(ñ−E)) + C₂SHEι/ñ where ñ > E, else CH, with ι = ln(HSA/β);
Q = clip(r + P̃V − Γ, 0, H−h+1); greedy. Hoeffding's pessimism has C₁H√(ι/(ñ−E)) for the first term (001, after
equation 7). The proof is for counts per step, where V_{h+1} and P̃_h come of different counts; of pooled counts the
same formulas are computed, and nothing is proven.

*Unknown rewards* (not in 001). With R' = Σ r released within E_R, and n ≥ ñ − E visits,
|R'/ñ − R/n| ≤ |R'−R|/ñ + (R/n)|ñ−n|/ñ ≤ (E_R+E)/ñ since R ≤ n, and |R/n − r| ≤ √(ln(2HSA/β)/(2(ñ−E))) for all cells
together with probability 1 − β (Hoeffding; sums tell nothing of the variance). Both join Γ, at r̃ = clip(R'/ñ, 0, 1),
and r̃ = 0 where ñ ≤ E. Where r − ½ was summed, half the error of the visits, E/4 at most, joins E_R.

*E.* `precision="published"`: E = 2√2·σ√ln(4HS²A/β) for Gaussian noise (Lemma D.2; at σ² = 2H/ρ that is the paper's
4√(H ln(4HS²A/β)/ρ)); 001 leaves Laplace noise open, and twice the quantile at β/(2HS²A) is (8H/ε)ln(2HS²A/β) for its
Lap(4H/ε). `"exact"`: twice the larger of the two laws' quantiles at β over the number of released counts.

**The practical rule** is that of `tacit.learners._practical`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacit.learners._practical import Model, practical_model
from tacit.learners.protocol import Uniforms
from tacit.mdp.spec import EpisodeSpec, SpecError
from tacit.releases import Error, TabularRelease

__all__ = ["APVI", "PessimisticPlan", "reconcile"]

Array = NDArray[np.float64]

_TOLERANCE = 1e-9


class PessimisticPlan(NamedTuple):
    """A policy and why; the leading axis is that of runs. NaN where the release was broken.

    `policy` (R, H, S, A) are probabilities; `q` (R, H, S, A) and `values` (R, H, S) are pessimistic; `penalty` is Γ;
    `evidence` (R, H, S, A) are visits in units of what noise alone would make; and where `deferred` (R, H, S), the
    fallback is followed.
    """

    policy: Array
    q: Array
    values: Array
    penalty: Array
    evidence: Array
    deferred: NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True, eq=False)
class APVI:
    """Adaptive pessimistic value iteration on released counts.

    Parameters
    ----------
    spec
        The public shape of an episode.
    rewards
        Known mean rewards (H|1, S, A), scaled to [0, 1] from the declared range. By default they are read from the
        release.
    rule
        `"practical"`, or `"theorem"`: Algorithm 1 as printed.
    pessimism
        `"bernstein"`: by the variance of V. `"hoeffding"`: by its range instead.
    pessimism_scale
        A factor on Γ but for C·H; 1 is the theorem's, and the practical rule's.
    confidence
        β of the theorem's rule (the paper's δ): each of its bounds fails with that probability at most.
    precision
        Where E comes from, of the theorem's rule.
    C1, C2, C
        Of the theorem's rule: √2 and 16 are the paper's; of C it says only that it is above 1, and any such C makes Q 0
        for unseen pairs.
    fallback
        Probabilities (H|1, S, A) to follow where there is no evidence. By default, with the practical rule, the
        behaviour policy's shares of the released visits, shrunk to those of all steps and to uniform ones; with the
        theorem's, nothing: as printed, Q = 0 everywhere, and an action is drawn.
    """

    spec: EpisodeSpec
    rewards: Array | None = None
    rule: Literal["practical", "theorem"] = "practical"
    pessimism: Literal["bernstein", "hoeffding"] = "bernstein"
    pessimism_scale: float = 1.0
    confidence: float = 0.1
    precision: Literal["exact", "published"] = "exact"
    C1: float = math.sqrt(2.0)
    C2: float = 16.0
    C: float = 2.0
    fallback: Array | None = None

    def __post_init__(self) -> None:
        for name, choices in (
            ("rule", ("practical", "theorem")),
            ("pessimism", ("bernstein", "hoeffding")),
            ("precision", ("exact", "published")),
        ):
            if getattr(self, name) not in choices:
                raise SpecError(f"{name} must be one of {choices}; got {getattr(self, name)!r}")
        if not 0.0 < self.confidence < 1.0:
            raise SpecError(f"confidence is a failure probability, between 0 and 1; got {self.confidence}")
        for name in ("pessimism_scale", "C1", "C2", "C"):
            if not 0.0 <= getattr(self, name) < math.inf:
                raise SpecError(f"{name} is a factor of at least 0; got {getattr(self, name)}")
        if self.rewards is None and not isinstance(self.spec.rewards, tuple):
            raise SpecError("unknown rewards need a declared range, which heavy tails have not")
        if self.rewards is not None:
            object.__setattr__(self, "rewards", self._declared("rewards", self.rewards))
        if self.fallback is not None:
            fallback = self._declared("fallback", self.fallback)
            if not (np.abs(fallback.sum(axis=-1) - 1.0) <= 1e-6).all():
                raise SpecError("fallback must be probabilities that sum to 1 over actions")
            object.__setattr__(self, "fallback", fallback)

    def plan(self, release: TabularRelease, uniforms: Uniforms) -> PessimisticPlan:
        """Plan on a release of counts, per step or pooled; ties are broken by `uniforms`."""
        from tacit.learners._pessimistic_kernels import pessimistic_backups

        self._check(release)
        H, S, A = self.spec.horizon, self.spec.states, self.spec.actions
        model = self._theorem(release) if self.rule == "theorem" else self._practical(release)
        runs, steps = model.evidence.shape[:2]
        q, policy, penalty = (np.empty((runs, H, S, A)) for _ in range(3))
        values = np.empty((runs, H, S))
        pessimistic_backups(
            *(np.ascontiguousarray(array) for array in model[:6]),
            self.rule == "practical",
            np.ascontiguousarray(model.fallback),
            np.ascontiguousarray(model.deferred),
            np.ascontiguousarray(uniforms((H, S))),
            q,
            values,
            policy,
            penalty,
        )
        every = 1 if steps == H else H
        return PessimisticPlan(
            policy, q, values, penalty, np.repeat(model.evidence, every, 1), np.repeat(model.deferred, every, 1)
        )

    def precision_level(self, release: TabularRelease) -> float:
        """E: twice a bound that the errors of all counts keep to, with probability 1 − β."""
        H, S, A = self.spec.horizon, self.spec.states, self.spec.actions
        laws = (release.errors["visits"], release.errors["transitions"])
        if self.precision == "published":
            return max(_published(law, 2.0 * H * S * S * A, self.confidence) for law in laws)
        return 2.0 * max(law.quantile(self.confidence / _released(release)) for law in laws)

    def _theorem(self, release: TabularRelease) -> Model:
        H, S, A = self.spec.horizon, self.spec.states, self.spec.actions
        E = self.precision_level(release)
        kernel, seen = reconcile(release.transitions, release.visits, E)
        unseen = seen <= E
        divisor = np.where(unseen, 1.0, seen)
        kernel /= divisor[..., None]
        kernel[unseen] = 1.0 / S
        left = np.where(unseen, 1.0, seen - E)
        iota = math.log(H * S * A / self.confidence)
        sampled = self.C1 * np.sqrt(iota / left)
        fixed = self.C2 * S * H * E * iota / divisor
        if self.pessimism == "hoeffding":
            fixed += H * sampled
            sampled = np.zeros_like(sampled)
        if self.rewards is None:
            bound = release.errors["rewards"].quantile(self.confidence / release.visits[0].size)
            bound += 0.25 * E if release.centred else 0.0
            rewards = np.clip(release.reward_sums / divisor, 0.0, 1.0)
            rewards[unseen] = 0.0
            fixed += np.sqrt(math.log(2.0 * H * S * A / self.confidence) / (2.0 * left)) + (bound + E) / divisor
        else:
            rewards = self.rewards[None]
        nothing = np.zeros_like(seen)
        unknown: NDArray[np.bool_] = np.logical_and.reduce(unseen, axis=-1)
        return Model(
            kernel=kernel,
            rewards=rewards,
            by_spread=np.where(unseen, 0.0, self.pessimism_scale * sampled),
            fixed=np.where(unseen, self.C * H, self.pessimism_scale * fixed),
            by_norm=nothing,
            by_span=nothing,
            evidence=seen / max(E, 1.0),
            deferred=unknown if self.fallback is not None else np.zeros_like(unknown),
            fallback=np.full((1, 1, S, A), 1.0 / A) if self.fallback is None else self.fallback[None],
        )

    def _practical(self, release: TabularRelease) -> Model:
        hoeffding = self.pessimism == "hoeffding"
        return practical_model(self.spec, release, self.rewards, self.fallback, self.pessimism_scale, hoeffding)

    def _declared(self, name: str, given: Array) -> Array:
        """A public table (H|1, S, A) of numbers in [0, 1]."""
        H, S, A = self.spec.horizon, self.spec.states, self.spec.actions
        table = np.array(given, dtype=np.float64, order="C")
        if table.ndim != 3 or table.shape[0] not in (1, H) or table.shape[1:] != (S, A):
            raise SpecError(f"{name} must be (H|1, S, A) = ({H}|1, {S}, {A}); got {table.shape}")
        if not (table.min() >= -_TOLERANCE and table.max() <= 1.0 + _TOLERANCE):  # written so that NaN fails
            raise SpecError(f"{name} must lie in [0, 1]; rewards are scaled to that from their declared range")
        table.flags.writeable = False
        return table

    def _check(self, release: TabularRelease) -> None:
        """A release of another world would be read as something else."""
        H, S, A = self.spec.horizon, self.spec.states, self.spec.actions
        steps = release.transitions.shape[1:2]
        cells = {"transitions": (*steps, S, A, S), "visits": (*steps, S, A)}
        if self.rewards is None:
            if release.rewards is None:
                raise ValueError("rewards are not among the families that were released: declare them, or count them")
            cells["rewards"] = (*steps, S, A)
        for name, shape in cells.items():
            found = getattr(release, name).shape[1:]
            if found != shape or steps[0] not in (1, H):
                raise ValueError(f"released {name} are (R, H|1, …) = (R, {H}|1, …); got (R, {found})")


def reconcile(transitions: Array, visits: Array, precision: float) -> tuple[Array, Array]:
    """Equation (3) of 001 for transitions (…, S) and visits (…) as released: ñ(s,a,s') and ñ(s,a); E is `precision`."""
    from tacit.learners._pessimistic_kernels import reconcile as compiled

    counts, totals = np.empty(transitions.shape), np.empty(visits.shape)
    states = transitions.shape[-1]
    compiled(
        np.ascontiguousarray(transitions).reshape(-1, states),
        np.ascontiguousarray(visits).reshape(-1),
        precision / 2.0,
        counts.reshape(-1, states),
        totals.reshape(-1),
    )
    return counts, totals


def _released(release: TabularRelease) -> int:
    """How many visits and transitions were released of one run."""
    return int(release.visits[0].size + release.transitions[0].size)


def _published(law: Error, events: float, confidence: float) -> float:
    """E as 001 prints it for Gaussian noise, and the like for other laws."""
    if law.to_json().get("law") == "Gaussian":
        return 2.0 * math.sqrt(2.0) * law.std * math.sqrt(math.log(2.0 * events / confidence))
    return 2.0 * law.quantile(confidence / events)
