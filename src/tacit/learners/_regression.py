"""What the learners of linear worlds share: plans, solving, ties, and public facts about features."""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import replace
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit.learners.protocol import Uniforms
from tacit.mdp.spec import EpisodeSpec, MomentBound, SpecError
from tacit.releases import GramRelease, Query

__all__ = [
    "Asking",
    "LinearPlan",
    "Solved",
    "asked",
    "declared",
    "g_optimal",
    "greedy",
    "norm_of",
    "regressed",
    "solved",
]

Array = NDArray[np.float64]


class LinearPlan(NamedTuple):
    """What was planned, run by run: a policy, and how pessimistic it is about what it promises.

    `policy` (R, H, S, A) probabilities; `q` and `penalty` (R, H, S, A), `values` (R, H, S), in rewards scaled to
    [0, 1]; `evidence` (R, H, S, A): the visits to the direction of φ(s,a) that data and ridge together are worth, over
    those of the ridge alone, less one; `deferred` (R, H, S): the fallback is followed there; `weights` (R, H, d).
    """

    policy: Array
    q: Array
    values: Array
    penalty: Array
    evidence: Array
    deferred: NDArray[np.bool_]
    weights: Array

    @classmethod
    def blank(cls, runs: int, spec: EpisodeSpec, dimension: int) -> LinearPlan:
        """Zeros, to be filled in step by step."""
        shape = (runs, spec.horizon, spec.states)
        tables = [np.zeros((*shape, spec.actions)) for _ in range(4)]
        return cls(
            policy=tables[0],
            q=tables[1],
            values=np.zeros(shape),
            penalty=tables[2],
            evidence=tables[3],
            deferred=np.zeros(shape, dtype=np.bool_),
            weights=np.zeros((runs, spec.horizon, dimension)),
        )

    def take(
        self, h: int, found: Solved, penalty: Array, features: Array, *, ridge: float, uniforms: Uniforms
    ) -> Array:
        """Step h: Q = clip(φᵀw − Γ, 0, H−h+1) and the greedy policy, ties broken at random; returns V (R, S)."""
        horizon, actions = self.q.shape[1], self.q.shape[-1]
        q = np.clip(found.predicted(features) - penalty, 0.0, float(horizon - h))
        self.policy[:, h] = greedy(q, uniforms)[..., None] == np.arange(actions)
        self.q[:, h], self.penalty[:, h], self.weights[:, h] = q, penalty, found.weights
        self.evidence[:, h] = found.evidence(features, ridge)
        self.values[:, h] = q.max(axis=-1)
        return np.asarray(self.values[:, h])


Asking: TypeAlias = Generator[Query, GramRelease, LinearPlan]
"""A learner that asks: it yields queries, is sent releases, and returns its plan."""


def asked(query: Query, *, apart: bool) -> Generator[Query, GramRelease, GramRelease]:
    """The answer to a query for a Gram matrix and a vector; apart, each is asked for alone, with half of the share."""
    if not apart:
        return (yield query)
    gram = yield replace(query, target=None, share=query.share / 2.0)
    vector = yield replace(query, gram=False, share=query.share / 2.0)
    return replace(
        gram,
        vector=vector.vector,
        vector_weight=vector.vector_weight,
        errors={**gram.errors, **vector.errors},
    )


class Solved(NamedTuple):
    """A ridge regression: Λ (R, d, d) and its inverse, and weights Λ⁻¹u (R, d)."""

    matrix: Array
    inverse: Array
    weights: Array

    def predicted(self, features: Array) -> Array:
        """φᵀw, (R, S, A)."""
        return np.asarray(np.einsum("sad,rd->rsa", features, self.weights))

    def widths(self, features: Array) -> Array:
        """‖φ‖ in the norm of Λ⁻¹, (R, S, A)."""
        squared = np.einsum("sad,rde,sae->rsa", features, self.inverse, features, optimize=True)
        return np.asarray(np.sqrt(np.maximum(squared, 0.0)))

    def noise(self, features: Array) -> Array:
        """‖Λ⁻¹φ‖, (R, S, A): the standard deviation of φᵀΛ⁻¹z for z of unit variance."""
        return np.asarray(np.linalg.norm(np.einsum("rde,sae->rsad", self.inverse, features), axis=-1))

    def evidence(self, features: Array, ridge: float) -> Array:
        """See `LinearPlan`: (‖φ‖²/ridge) / (φᵀΛ⁻¹φ) − 1, and 0 for no feature at all."""
        squared, alone = self.widths(features) ** 2, (features**2).sum(axis=-1) / ridge
        return np.where(squared > 0, alone / np.where(squared > 0, squared, 1.0) - 1.0, 0.0)


def solved(gram: Array, vector: Array, *, added: float, floor: float, project: bool = False) -> Solved:
    """Λ = gram + added·I with no eigenvalue below `floor` > 0; projected, those of the Gram itself are at least 0.

    Post-processing of a release: how it is made invertible depends on nothing else.
    """
    eigenvalues, axes = np.linalg.eigh(gram)
    if project:
        eigenvalues = np.maximum(eigenvalues, 0.0)
    eigenvalues = np.maximum(eigenvalues + added, floor)
    turned = np.swapaxes(axes, -1, -2)
    inverse = (axes / eigenvalues[:, None, :]) @ turned
    return Solved((axes * eigenvalues[:, None, :]) @ turned, inverse, np.einsum("rde,re->rd", inverse, vector))


def regressed(
    matrix: GramRelease, vector: GramRelease, *, norm: float, scale: Array, ridge: float, shift: float
) -> Solved:
    """A regression in its own units on releases normalised by `norm` (features) and `scale` (targets, one a run).

    `shift` is added to the ridge in multiples of σ√(2d), the size of the noise matrix's largest eigenvalue; whatever
    the noise, no eigenvalue is taken to be less than the ridge.
    """
    assert matrix.gram is not None
    assert vector.vector is not None
    spread = math.sqrt(2.0 * matrix.gram.shape[-1]) * matrix.errors["gram"].std * norm**2
    return solved(
        norm**2 * matrix.gram[:, 0],
        norm * scale[:, None] * vector.vector[:, 0],
        added=ridge + shift * spread,
        floor=ridge,
    )


def declared(spec: EpisodeSpec, features: ArrayLike) -> Array:
    """Features (S, A, d) that fit the spec, whose rewards have a range."""
    table = np.array(features, dtype=np.float64)
    if table.ndim != 3 or table.shape[:2] != (spec.states, spec.actions) or not np.isfinite(table).all():
        raise SpecError(f"features are finite numbers ({spec.states}, {spec.actions}, d); got shape {table.shape}")
    if not table.any():
        raise SpecError("all features are 0: nothing can be learnt from them")
    if isinstance(spec.rewards, MomentBound):
        raise SpecError("these learners need rewards of a declared range")
    return table


def norm_of(features: Array) -> float:
    """N, what releases are normalised by: the largest ‖φ(s,a)‖."""
    return float(np.linalg.norm(features, axis=-1).max())


def greedy(q: Array, uniforms: Uniforms) -> NDArray[np.int64]:
    """Best actions (R, S); ties, up to rounding, are broken uniformly at random."""
    tied = q >= q.max(axis=-1, keepdims=True) - 1e-12
    rank = np.cumsum(tied, axis=-1)
    wanted = np.floor(uniforms((q.shape[1],)) * rank[..., -1])
    return np.asarray((rank > wanted[..., None]).argmax(axis=-1))


def g_optimal(features: Array, *, rounds: int = 1000, tolerance: float = 0.01) -> Array:
    """Features of the same span, (S, A, rank), of norm 1 at most and as spread as they can be.

    The design p on the rows that maximises det Σ p φφᵀ makes max φᵀ(Σ p φφᵀ)⁻¹φ = d (Kiefer & Wolfowitz 1960): with
    φ̃ = (Σ p φφᵀ)^{-1/2} φ / √d all directions that features have at all are visible above noise of equal size. p by
    multiplicative updates, until max ≤ (1 + tolerance)·d. Only the declared table is looked at.
    """
    rows = np.unique(features.reshape(-1, features.shape[-1]), axis=0)
    _, sizes, axes = np.linalg.svd(rows / np.abs(rows).max(), full_matrices=False)
    span = axes[sizes > sizes[0] * 1e-9].T
    points, d = rows @ span, span.shape[1]
    p = np.full(len(points), 1.0 / len(points))
    for _ in range(rounds):
        spread = np.einsum("ni,ni->n", points @ np.linalg.inv((points.T * p) @ points), points)
        if spread.max() <= (1.0 + tolerance) * d:
            break
        p *= spread / d
        p /= p.sum()
    eigenvalues, turn = np.linalg.eigh((points.T * p) @ points)
    found = features @ span @ (turn / np.sqrt(eigenvalues))
    return np.asarray(found / norm_of(found))
