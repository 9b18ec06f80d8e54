"""A noise source that lets a privatizer be taken apart: which noise reaches which released number, and how much of it.

A privatizer that adds noise releases o = A x + B z, with z all the noise that it draws. Feeding unit impulses for z
gives B; feeding trajectories gives A x. If replacing one user moves A x by d, then B z' = B z + d has to be possible by
moving z, and what that costs is the privacy loss: Σ |moves|/scale for Laplace noise, Σ (moves/scale)²/2 for Gaussian
(`docs/proofs/continual-release.md`). Nothing is assumed of how the privatizer works inside: a noise vector that
is shared by cells, noise drawn afresh on old counts, or a forgotten level of a tree shows up as a loss that is too
large, or as a move that no noise covers.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacit.privacy.accounting import Loss, compose

__all__ = ["Draw", "ProbeNoise", "noise_depends_on_data", "worst_loss"]

Array = NDArray[np.float64]


class Draw(NamedTuple):
    """One scalar noise that was drawn."""

    law: str
    scale: float


class ProbeNoise:
    """Zeros, but for one unit impulse, or for `weights`; remembers every draw. One run only.

    `whole`: on a lattice, as secure noise is.
    """

    name = "a probe: no privacy"
    protects = False

    def __init__(self, impulse: int | None = None, *, weights: Array | None = None, whole: bool = False) -> None:
        self.impulse = impulse
        self.weights = weights
        self.dtype: np.dtype[Any] = np.dtype(np.int64 if whole else np.float64)
        self.draws: list[Draw] = []

    def laplace(self, *, scale: float, runs: int, size: int, terms: int = 1) -> Array:
        """See `NoiseSource`."""
        return self._draw("laplace", scale, runs, size, terms)

    def gaussian(self, *, scale: float, runs: int, size: int, terms: int = 1) -> Array:
        """See `NoiseSource`."""
        return self._draw("gaussian", scale, runs, size, terms)

    def words(self, *, runs: int, size: int) -> NDArray[np.uint64]:
        """Randomized responses are no additive noise."""
        raise NotImplementedError("a probe takes additive noise apart; randomized responses are checked by sampling")

    def state(self) -> dict[str, Any]:
        """Nothing to restart from."""
        return {"source": "probe"}

    def _draw(self, law: str, scale: float, runs: int, size: int, terms: int) -> Array:
        if runs != 1:
            raise ValueError("a probe is for one run")
        if terms != 1:
            raise ValueError("a probe is for one report at a time")
        values = np.zeros((1, size), dtype=self.dtype)
        first = len(self.draws)
        if self.weights is not None:
            some = self.weights[first : first + size]
            values[0, : len(some)] = some
        self.draws.extend([Draw(law, scale)] * size)
        if self.impulse is not None and first <= self.impulse < first + size:
            values[0, self.impulse - first] = 1
        return values


def worst_loss(
    outputs: Callable[[ProbeNoise, Any], Array], people: list[Any], *, calm: Any, removal: bool = False
) -> tuple[Loss, Array, list[Draw]]:
    """The largest loss over all pairs of `people`, what each noise reaches (outputs × draws), and the draws.

    `outputs(noise, person)` is everything ever released, as one vector, if this person takes part and everybody else
    does as always; `calm` is one of them, and the only one to be compared with in case of `removal`.
    """
    probe = ProbeNoise()
    quiet = outputs(probe, calm)
    draws = list(probe.draws)
    reach = np.stack([outputs(ProbeNoise(i), calm) - quiet for i in range(len(draws))], axis=1)
    moved = np.stack([outputs(ProbeNoise(), person) - quiet for person in people], axis=1)
    scales = np.asarray([draw.scale for draw in draws])
    weighted = reach * scales
    # The least-squares moves; where noise is wasted there may be cheaper ones, so this is an upper bound.
    moves = np.linalg.pinv(weighted, rcond=1e-12) @ moved
    if not np.allclose(weighted @ moves, moved, atol=1e-7 * max(1.0, float(np.abs(moved).max()))):
        return Loss(epsilon=math.inf, rho=math.inf), reach, draws
    laplace = np.asarray([draw.law == "laplace" for draw in draws])
    epsilon = _largest_distance(moves[laplace].T, 1, removal)
    rho = _largest_distance(moves[~laplace].T, 2, removal) ** 2 / 2.0
    parts = ([Loss.pure(epsilon)] if laplace.any() else []) + ([Loss.concentrated(rho)] if not laplace.all() else [])
    return compose(parts), reach, draws


def noise_depends_on_data(
    outputs: Callable[[ProbeNoise, Any], Array], people: list[Any], reach: Array, draws: list[Draw]
) -> bool:
    """Whether one of these people meets other draws than `draws`, or noise that reaches otherwise than `reach` says."""
    weights = np.random.default_rng(0).uniform(0.5, 1.5, size=len(draws))
    for person in people:
        probe = ProbeNoise(weights=weights)
        noise = outputs(probe, person) - outputs(ProbeNoise(), person)
        if probe.draws != draws or not np.allclose(noise, reach @ weights, atol=1e-7 * max(1.0, float(weights.sum()))):
            return True
    return False


def _largest_distance(points: Array, order: int, from_zero: bool) -> float:
    """Between any two rows, or from zero (where the calm one is) to any row."""
    if points.size == 0:
        return 0.0
    points = np.unique(np.round(points, 12), axis=0)
    centres = np.zeros((1, points.shape[1])) if from_zero else points
    return max(float(np.linalg.norm(points - centre, ord=order, axis=1).max()) for centre in centres)
