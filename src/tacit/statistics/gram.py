"""What one trajectory contributes to the regressions of linear models: Σ φφᵀ and Σ φ y, at every step.

Features are normalised by their declared norm N and targets by their declared bound B, so that ‖φ‖ ≤ 1 and |y| ≤ 1;
whoever sends more is clipped (a feature shrunk to the ball, a target clamped). Weighted regressions
(DP-VAPVI's 1/σ̃² ≤ 1) send √w·φ and √w·y, which are within the same bounds.

A symmetric matrix is stored as svec(M): its diagonal and √2 times its upper triangle, d(d+1)/2 numbers, so that L2 is
the Frobenius norm. Equal noise on svec has half the variance off the diagonal of M, for free.

Sensitivity of one step, replace-one, with (φ, y) and (ψ, y'), c = ⟨φ,ψ⟩, and the vector weighted by k:

* Gram alone: ‖φφᵀ − ψψᵀ‖_F² = ‖φ‖⁴ + ‖ψ‖⁴ − 2c² ≤ 2, attained by orthogonal unit vectors (so d ≥ 2; for d = 1 it is 1).
* Jointly: with t = |c| ≤ 1 and y = −y' = ±1 it is at most 2 + 2k² + (2k²t − 2t²), and so 2 + 2k² + k⁴/2 (at t = k²/2)
  if k² ≤ 2, and 4k² (at t = 1) beyond. At k = √2 both are 8 = 4k²: the Gram is free.
* L1 by Cauchy–Schwarz over the number of cells, √cells·Δ₂; 2k√d for the vector alone is exact.

Add/remove: 1 + k² in L2²; 1 + (d−1)/√2 and k√d in L1. All steps together: L1 × H, L2² × H.

Rounding to the public grid u moves a difference by at most u per cell: Δ₂ + u√cells, Δ₁ + u·cells.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacit.mdp.spec import SpecError
from tacit.privacy.counters import Entries
from tacit.privacy.errors import ErrorLaw
from tacit.privacy.guarantees import Neighbours
from tacit.privacy.sensitivity import Sensitivity
from tacit.releases import GramRelease
from tacit.statistics.reading import numbers, silence

__all__ = ["GramStatistic", "Regressors", "from_svec", "to_svec"]

Array = NDArray[np.float64]


class Regressors(NamedTuple):
    """Features (runs, episodes, steps, d) and targets (runs, episodes, steps): one regression for each step."""

    features: Array
    targets: Array

    @property
    def runs(self) -> int:
        """The first axis."""
        return int(self.targets.shape[0])

    @property
    def number(self) -> int:
        """Episodes of each run."""
        return int(self.targets.shape[1])

    def part(self, first: int, last: int) -> Regressors:
        """Episodes first, …, last − 1."""
        return Regressors(self.features[:, first:last], self.targets[:, first:last])


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
    grid
        The public grid, a power of two.

    Examples
    --------
    >>> GramStatistic(dimension=8, vector_weight=0.0).sensitivity().l2
    1.4142...
    """

    dimension: int
    steps: int = 1
    norm: float = 1.0
    target_bound: float = 1.0
    vector_weight: float = math.sqrt(2.0)
    grid: float = 2.0**-20

    def __post_init__(self) -> None:
        if self.dimension < 1 or self.steps < 1:
            raise SpecError(f"dimension and steps must be at least 1; got {self.dimension} and {self.steps}")
        if not (self.norm > 0 and self.target_bound > 0 and math.isfinite(self.norm * self.target_bound)):
            raise SpecError("norm and target_bound are declared, positive and finite")
        if not 0 <= self.vector_weight < math.inf:
            raise SpecError(f"the vector's weight must be at least 0 and finite; got {self.vector_weight}")
        if math.frexp(self.grid)[0] != 0.5:
            raise SpecError(f"the grid must be a power of two; got {self.grid}")
        if max(1.0, self.vector_weight) / self.grid > 2.0**42:
            raise SpecError(
                "the grid must be coarser, or the weight smaller: sums of many people would not fit 64 bits"
            )

    @property
    def families(self) -> tuple[str, ...]:
        """See `Statistic`."""
        return ("gram", "vector") if self.vector_weight else ("gram",)

    def cells(self, family: str) -> int:
        """See `Statistic`: d(d+1)/2 and d for each step."""
        d = self.dimension
        return self.steps * (d * (d + 1) // 2 if family == "gram" else d)

    def unit(self, family: str) -> float:
        """See `Statistic`."""
        return self.grid

    def largest(self, family: str) -> float:
        """See `Statistic`; the rounding included."""
        return (1.0 if family == "gram" else self.vector_weight) + self.grid

    def read(self, raw: Regressors) -> Regressors:
        """Normalised and clipped; an episode with a number that is none is ⊥, all zeros."""
        with silence():
            features = numbers(raw.features, (self.steps, self.dimension))
            return self._read(features / self.norm, numbers(raw.targets, (self.steps,)) / self.target_bound)

    def _read(self, phi: Array, y: Array) -> Regressors:
        if phi.ndim != 4 or phi.shape[2:] != (self.steps, self.dimension) or y.shape != phi.shape[:-1]:
            shape = f"(runs, episodes, {self.steps}, {self.dimension})"
            raise ValueError(f"features are {shape}, and targets the same without the last axis")
        readable = np.asarray(~(np.isnan(phi).any(axis=(2, 3)) | np.isnan(y).any(axis=2)))[..., None]
        phi = np.where(readable[..., None], np.clip(phi, -1e150, 1e150), 0.0)
        length = np.linalg.norm(phi, axis=-1, keepdims=True)
        # Divided a little too much, so that rounding leaves nobody outside the ball.
        inside = phi / np.maximum(1.0, length * (1.0 + 1e-15))
        return Regressors(inside, np.where(readable, np.clip(y, -1.0, 1.0), 0.0))

    def contributions(self, batch: Regressors) -> dict[str, Entries | NDArray[np.int64]]:
        """See `Statistic`. Each episode is rounded to the grid before the sum is taken."""
        with np.errstate(all="ignore"):  # of tiny features, whatever the process wants to hear of underflow
            return self._contributions(batch)

    def _contributions(self, batch: Regressors) -> dict[str, Entries | NDArray[np.int64]]:
        phi, y = batch
        rows, columns = np.triu_indices(self.dimension)
        weights = np.where(rows == columns, 1.0, math.sqrt(2.0))
        found: dict[str, Entries | NDArray[np.int64]] = {
            "gram": self._summed(phi[..., rows] * phi[..., columns] * weights)
        }
        if self.vector_weight:
            found["vector"] = self._summed(self.vector_weight * phi * y[..., None])
        return found

    def release(
        self, episodes: int, fields: Mapping[str, NDArray[np.float64]], errors: Mapping[str, ErrorLaw]
    ) -> GramRelease:
        """See `Statistic`: (runs, steps, d, d) and (runs, steps, d) of normalised (φ, y)."""
        runs = len(fields["gram"])
        gram = from_svec(fields["gram"].reshape(runs, self.steps, -1))
        vector = None
        if self.vector_weight:
            vector = fields["vector"].reshape(runs, self.steps, self.dimension) / self.vector_weight
        return GramRelease(
            episodes=episodes, gram=gram, vector=vector, vector_weight=self.vector_weight, errors=dict(errors)
        )

    def sensitivity(self, neighbours: Neighbours = "replace-one") -> Sensitivity:
        """Of all families and steps as one vector; derived above."""
        d, k = self.dimension, self.vector_weight
        if neighbours == "add-or-remove-one":
            return self._rounded(
                1.0 + (d - 1) / math.sqrt(2.0) + k * math.sqrt(d), math.sqrt(1.0 + k * k), self.families
            )
        if k == 0:
            return self.family_sensitivity("gram", neighbours)
        l2 = math.sqrt(2.0 + 2.0 * k**2 + k**4 / 2.0 if k * k <= 2.0 else 4.0 * k**2)
        alone = sum(self.family_sensitivity(family, neighbours).l1 for family in self.families) / self.steps
        cells = sum(self.cells(family) for family in self.families) / self.steps
        return self._rounded(min(math.sqrt(cells) * l2, alone), l2, self.families)

    def family_sensitivity(self, family: str, neighbours: Neighbours = "replace-one") -> Sensitivity:
        """Of one family alone."""
        d, k = self.dimension, self.vector_weight
        removed = neighbours == "add-or-remove-one"
        if family == "vector":
            size = k if removed else 2.0 * k
            return self._rounded(size * math.sqrt(d), size, ("vector",))
        if removed or d == 1:
            return self._rounded(1.0 + (d - 1) / math.sqrt(2.0), 1.0, ("gram",))
        return self._rounded(math.sqrt(d * (d + 1)), math.sqrt(2.0), ("gram",))

    def to_json(self) -> dict[str, Any]:
        """See `Statistic`."""
        return {"statistic": "gram", **asdict(self)}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> GramStatistic:
        """The statistic that `to_json` described."""
        return cls(**{name: value for name, value in data.items() if name != "statistic"})

    def _summed(self, each: Array) -> NDArray[np.int64]:
        on_grid = np.rint(each / self.grid).astype(np.int64)
        return np.asarray(on_grid.sum(axis=1).reshape(len(each), -1))

    def _rounded(self, l1: float, l2: float, families: tuple[str, ...]) -> Sensitivity:
        """One step's bounds, the rounding added, for all steps."""
        cells = sum(self.cells(family) for family in families)
        per_step = cells / self.steps
        return Sensitivity(
            l0=cells,
            l1=self.steps * (l1 + self.grid * per_step),
            l2_squared=self.steps * (l2 + self.grid * math.sqrt(per_step)) ** 2,
        )


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
