"""What one trajectory contributes to the regressions of linear models: Σ φφᵀ and Σ φ y, at every step.

Features are normalised by their declared norm N and targets by their declared bound B, so that ‖φ‖ ≤ 1 and |y| ≤ 1;
whoever sends more is clipped (a feature shrunk to the ball, a target clamped). Weighted regressions
(DP-VAPVI's 1/σ̃² ≤ 1) send √w·φ and √w·y, which are within the same bounds.

A symmetric matrix is stored as svec(M): its diagonal and √2 times its upper triangle, d(d+1)/2 numbers, so that L2 is
the Frobenius norm. Equal noise on svec has half the variance off the diagonal of M, for free.

Sensitivity of one step, replace-one, with (φ, y) and (ψ, y'), c = ⟨φ,ψ⟩, and the vector weighted by k:

* Gram alone: ‖φφᵀ − ψψᵀ‖_F² = ‖φ‖⁴ + ‖ψ‖⁴ − 2c² ≤ 2, attained by orthogonal unit vectors (so d ≥ 2; for d = 1 it is 1).
* Jointly: 2 − 2c² + k²‖φy − ψy'‖², largest at y = −y' = 1, which gives 2 − 2c² + k²(2 + 2c); over c ∈ [0, 1] that is
  2 + 2k² + k⁴/2 at c = k²/2 if k² ≤ 2, and 4k² (c = 1) beyond. At k = √2 both are 8 = 4k²: the Gram is free.
  (For a fixed angle the expression, as a function of ‖φ‖, falls and then rises, so its maximum is at 0 or 1.)
* L1 by Cauchy–Schwarz over the number of cells, √cells·Δ₂; 2k√d for the vector alone is exact.

Add/remove: 1 + k² in L2²; 1 + (d−1)/√2 and k√d in L1. All steps together: L1 × H, L2² × H.

Rounding to the public grid u moves a difference by at most u per cell: Δ₂ + u√cells, Δ₁ + u·cells.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tacit.mdp.spec import SpecError
from tacit.privacy.guarantees import Neighbours
from tacit.privacy.sensitivity import Sensitivity

__all__ = ["GramStatistic", "from_svec", "to_svec"]

Array = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class GramStatistic:
    """Gram matrix and, unless `vector_weight` is 0, regression vector of `steps` steps.

    Parameters
    ----------
    dimension
        d.
    steps
        How many regressions one episode takes part in, with one (φ, y) each: H, or 1 where steps are released one by
        one.
    norm, target_bound
        N and B: what features and targets are divided by, and clipped to.
    vector_weight
        k: the vector is noised as k·Σ φ y. √2 makes the Gram free.
    unit
        The public grid, a power of two.

    Examples
    --------
    >>> GramStatistic(dimension=8, vector_weight=0.0).sensitivity().l2
    1.4143...
    """

    dimension: int
    steps: int = 1
    norm: float = 1.0
    target_bound: float = 1.0
    vector_weight: float = math.sqrt(2.0)
    unit: float = 2.0**-20

    def __post_init__(self) -> None:
        if self.dimension < 1 or self.steps < 1:
            raise SpecError(f"dimension and steps must be at least 1; got {self.dimension} and {self.steps}")
        if not (self.norm > 0 and self.target_bound > 0 and math.isfinite(self.norm * self.target_bound)):
            raise SpecError("norm and target_bound are declared, positive and finite")
        if not 0 <= self.vector_weight < math.inf:
            raise SpecError(f"the vector's weight must be at least 0 and finite; got {self.vector_weight}")
        if math.frexp(self.unit)[0] != 0.5:
            raise SpecError(f"the grid must be a power of two; got {self.unit}")

    @property
    def gram_cells(self) -> int:
        """Of one step: d(d+1)/2."""
        return self.dimension * (self.dimension + 1) // 2

    @property
    def cells(self) -> int:
        """Of all steps."""
        return self.steps * (self.gram_cells + (self.dimension if self.vector_weight else 0))

    @property
    def largest(self) -> float:
        """The largest absolute contribution of an episode to a cell, the grid's rounding included."""
        return max(1.0, self.vector_weight) + self.unit

    def contributions(self, features: Array, targets: Array | None = None) -> NDArray[np.int64]:
        """Features (runs, n, steps, d) and targets (runs, n, steps) → summed contributions (runs, cells), on the grid.

        An episode with a number that is none is ⊥. Each episode is rounded before the sum is taken.
        """
        phi, y = self._normalised(features, targets)
        upper = np.triu_indices(self.dimension)
        weights = np.where(upper[0] == upper[1], 1.0, math.sqrt(2.0))
        parts = [phi[..., upper[0]] * phi[..., upper[1]] * weights]
        if self.vector_weight:
            parts.append(self.vector_weight * phi * y[..., None])
        each = np.rint(np.concatenate(parts, axis=-1) / self.unit).astype(np.int64)
        return np.asarray(each.sum(axis=1).reshape(phi.shape[0], -1))

    def matrices(self, values: NDArray[np.float64]) -> tuple[Array, Array]:
        """Cells (runs, cells) in real units → (runs, steps, d, d) and (runs, steps, d), of normalised (φ, y)."""
        by_step = values.reshape(len(values), self.steps, -1)
        gram = from_svec(by_step[..., : self.gram_cells])
        if not self.vector_weight:
            return gram, np.zeros((*by_step.shape[:2], 0))
        return gram, by_step[..., self.gram_cells :] / self.vector_weight

    def sensitivity(self, neighbours: Neighbours = "replace-one") -> Sensitivity:
        """Of all steps as one vector; derived above."""
        d, k = self.dimension, self.vector_weight
        cells = self.cells // self.steps
        if neighbours == "add-or-remove-one":
            l1, l2 = 1.0 + (d - 1) / math.sqrt(2.0) + k * math.sqrt(d), math.sqrt(1.0 + k * k)
        else:
            l2 = math.sqrt(2.0 + 2.0 * k**2 + k**4 / 2.0 if k * k <= 2.0 else 4.0 * k**2)
            if d == 1 and k == 0:
                l2 = 1.0
            gram_alone = 1.0 if d == 1 else math.sqrt(2.0 * self.gram_cells)
            l1 = min(math.sqrt(cells) * l2, gram_alone + 2.0 * k * math.sqrt(d))
        return Sensitivity(
            l0=self.cells,
            l1=self.steps * (l1 + self.unit * cells),
            l2_squared=self.steps * (l2 + self.unit * math.sqrt(cells)) ** 2,
        )

    def _normalised(self, features: Array, targets: Array | None) -> tuple[Array, Array]:
        phi = np.asarray(features, dtype=np.float64) / self.norm
        y = np.zeros(phi.shape[:-1]) if targets is None else np.asarray(targets, dtype=np.float64) / self.target_bound
        if phi.ndim != 4 or phi.shape[2:] != (self.steps, self.dimension) or y.shape != phi.shape[:-1]:
            shape = f"(runs, episodes, {self.steps}, {self.dimension})"
            raise ValueError(f"features are {shape}, and targets the same without the last axis")
        readable = np.asarray(~(np.isnan(phi).any(axis=(2, 3)) | np.isnan(y).any(axis=2)))[..., None]
        phi = np.where(readable[..., None], np.clip(phi, -1e150, 1e150), 0.0)
        length = np.linalg.norm(phi, axis=-1, keepdims=True)
        # Divided a little too much, so that rounding leaves nobody outside the ball.
        return phi / np.maximum(1.0, length * (1.0 + 1e-15)), np.where(readable, np.clip(y, -1.0, 1.0), 0.0)


def to_svec(matrix: Array) -> Array:
    """Symmetric (…, d, d) → (…, d(d+1)/2), with Frobenius as L2 norm."""
    rows, columns = np.triu_indices(matrix.shape[-1])
    return np.asarray(matrix[..., rows, columns] * np.where(rows == columns, 1.0, math.sqrt(2.0)))


def from_svec(vector: Array) -> Array:
    """The symmetric matrices whose `to_svec` this is."""
    d = int((math.isqrt(8 * vector.shape[-1] + 1) - 1) // 2)
    rows, columns = np.triu_indices(d)
    matrix = np.zeros((*vector.shape[:-1], d, d))
    matrix[..., rows, columns] = vector / np.where(rows == columns, 1.0, math.sqrt(2.0))
    matrix[..., columns, rows] = matrix[..., rows, columns]
    return matrix
