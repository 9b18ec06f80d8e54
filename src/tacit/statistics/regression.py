"""Regressions on declared features: what one episode adds to Σ w φφᵀ and Σ w φ y at one step, and how far that moves.

Features φ(s,a) are a public table, and weights w(s,a) ∈ [0, 1] and targets y = c·r + g(s') are public functions, also
where they were computed from earlier releases. So an episode's contribution is one of finitely many vectors, up to y:
with ‖φ‖ ≤ 1 and y ∈ [a, b] ⊂ [−1, 1] after normalising, and k the weight of the vector,

    x(s, a, y) = (w·svec(φφᵀ), k·w·φ·y),  or 0 for ⊥.

It is linear in w for fixed y, and in y for fixed w, and a norm is convex: the largest distance between two of them is
attained at w ∈ {0, 1} and y ∈ {a, b}. w = 0 is ⊥. Hence for *every* query, whatever its weights,

    Δ₂² = max over φ, φ' of the table and 0, and y, y' ∈ {a, b}, of ‖φ‖⁴ + ‖φ'‖⁴ − 2c² + k²(y²‖φ‖² + y'²‖φ'‖² − 2yy'c),

c = ⟨φ,φ'⟩: a maximum over pairs of rows, exact, and never more than the closed form for the unit ball
(`GramStatistic`). Add/remove: φ' = 0. Δ₁ is found in the same way. (Weights are the same in two neighbouring data sets:
they come from earlier releases, and those are what the two are compared at.)

On a lattice: w·svec(φφᵀ) is rounded to the unit u, k·w·φ to v and y to t, and φ·y is then a whole number of v·t. This
moves a Gram entry by u/2 at most, and an entry of the vector by v(1 + t)/2 + k|φ_i|t/2; twice that between neighbours.
Sums are taken over the cells (s, a): Σ x = Σ_{s,a} (how many) × (public whole numbers), the same sum in other order.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit.mdp.spec import EpisodeSpec, MomentBound, SpecError
from tacit.privacy.guarantees import Neighbours
from tacit.privacy.sensitivity import Sensitivity
from tacit.releases import Query, Target
from tacit.statistics.gram import to_svec
from tacit.statistics.reading import Episodes

__all__ = ["Grid", "LoggedSteps", "RegressionTable"]

Array = NDArray[np.float64]

_L1_PAIRS = 2**28
"""Numbers that are compared for an exact Δ₁; of larger tables a bound is taken."""


@dataclass(frozen=True)
class Grid:
    """Units of Gram entries (u), of k·w·φ (v) and of y (t), powers of two; 0 is no rounding."""

    gram: float
    feature: float
    target: float

    @property
    def vector(self) -> float:
        """Unit of the products φ·y."""
        return self.feature * self.target

    @classmethod
    def below(cls, scale: float, *, episodes: int) -> Grid:
        """2⁻⁴⁰ of the noise or so: what a sum of many is moved by is lost in it.

        y is kept coarse enough for sums of all episodes to be exact in double precision, and the others for 64 bits.
        """
        exponent = math.frexp(scale)[1] - 1 - 40
        target = min(max(exponent // 2, -40, math.ceil(math.log2(max(episodes, 2))) - 51), 0)
        return cls(2.0 ** max(exponent, -52), 2.0 ** max(exponent - target, -45), 2.0**target)


@dataclass(frozen=True, eq=False)
class RegressionTable:
    """Declared features φ (S, A, d), divided by the largest norm among them."""

    features: Array

    def __post_init__(self) -> None:
        features = np.array(self.features, dtype=np.float64)
        if features.ndim != 3 or 0 in features.shape or not np.isfinite(features).all():
            raise SpecError(f"features are finite numbers of shape (S, A, d); got shape {features.shape}")
        if not features.any():
            raise SpecError("all features are 0: nothing can be regressed on them")
        object.__setattr__(self, "features", features)

    @property
    def dimension(self) -> int:
        """The number of features."""
        return int(self.features.shape[-1])

    @cached_property
    def norm(self) -> float:
        """N, the largest ‖φ(s,a)‖, a little rounded up."""
        return float(np.linalg.norm(self.features, axis=-1).max()) * (1.0 + 2.0**-50)

    @cached_property
    def rows(self) -> Array:
        """φ/N, (S·A, d)."""
        return np.asarray(self.features.reshape(-1, self.dimension) / self.norm)

    @cached_property
    def products(self) -> Array:
        """svec(φφᵀ)/N², (S·A, d(d+1)/2)."""
        return to_svec(self.rows[:, :, None] * self.rows[:, None, :])

    def cells(self, family: str) -> int:
        """How many numbers a family has."""
        d = self.dimension
        return d * (d + 1) // 2 if family == "gram" else d

    def sensitivity(
        self,
        families: tuple[str, ...],
        *,
        weight: float = 1.0,
        low: float = -1.0,
        high: float = 1.0,
        neighbours: Neighbours = "replace-one",
        grid: Grid | None = None,
        exact_l1: bool = True,
    ) -> Sensitivity:
        """Of the families as one vector, for y in [low, high] and all weights in [0, 1]; derived above."""
        key = (families, weight, low, high, neighbours, exact_l1)
        if key not in self._found:
            self._found[key] = self._searched(*key)
        l1, l2 = self._found[key]
        cells = sum(self.cells(family) for family in families)
        if grid is not None:
            for family in families:
                d = self.cells(family)
                if family == "gram":
                    l1, l2 = l1 + grid.gram * d, l2 + grid.gram * math.sqrt(d)
                else:
                    rounded = grid.feature * (1.0 + grid.target)
                    l1 += rounded * d + weight * math.sqrt(d) * grid.target
                    l2 += rounded * math.sqrt(d) + weight * grid.target
        return Sensitivity(l0=cells, l1=l1, l2_squared=l2 * l2)

    @cached_property
    def _found(self) -> dict[Any, tuple[float, float]]:
        return {}

    def _searched(
        self, families: tuple[str, ...], k: float, low: float, high: float, neighbours: Neighbours, exact_l1: bool
    ) -> tuple[float, float]:
        """Δ₁ and Δ₂ without rounding, over all pairs of rows; a little rounded up."""
        rows = np.unique(self.rows, axis=0)
        rows = np.concatenate([np.zeros((1, self.dimension)), rows])
        others = rows[:1] if neighbours == "add-or-remove-one" else rows
        gram, ends = float("gram" in families), sorted({low, high}) if "vector" in families else [0.0]
        largest = 0.0
        for first in range(0, len(rows), 512):
            some = rows[first : first + 512]
            inner = some @ others.T
            p, q = (some**2).sum(axis=1)[:, None], (others**2).sum(axis=1)[None, :]
            matrices = gram * (p**2 + q**2 - 2.0 * inner**2)
            for y in ends:
                for z in ends:
                    pairs = matrices + k**2 * (y * y * p + z * z * q - 2.0 * y * z * inner)
                    largest = max(largest, float(pairs.max()))
        l2 = math.sqrt(largest) * (1.0 + 1e-12)
        cells = sum(self.cells(family) for family in families)
        if not exact_l1 or len(rows) * len(others) * cells * len(ends) ** 2 > _L1_PAIRS:
            return math.sqrt(cells) * l2, l2
        points = np.concatenate([self._contributions(families, rows, k, y) for y in ends])
        against = points if len(others) > 1 else np.zeros((1, cells))
        l1 = max(float(np.abs(against - point).sum(axis=1).max()) for point in points)
        return l1 * (1.0 + 1e-12), l2

    def _contributions(self, families: tuple[str, ...], rows: Array, k: float, y: float) -> Array:
        parts = []
        if "gram" in families:
            parts.append(to_svec(rows[:, :, None] * rows[:, None, :]))
        if "vector" in families:
            parts.append(k * y * rows)
        return np.concatenate(parts, axis=1)


class LoggedSteps:
    """People's steps as they were logged: the cell (s, a), the next state and the reward. As secret as they are.

    Whoever did not come, or could not be read, is ⊥: the cell after the last.
    """

    def __init__(self, spec: EpisodeSpec, table: RegressionTable, *, episodes: int, runs: int) -> None:
        if table.features.shape[:2] != (spec.states, spec.actions):
            raise SpecError(
                f"features are those of {spec.states} states and {spec.actions} actions; got {table.features.shape}"
            )
        if isinstance(spec.rewards, MomentBound):
            raise SpecError("regressions need rewards of a declared range")
        self.spec, self.table, self.episodes, self.runs = spec, table, episodes, runs
        self.taken = 0
        shape = (spec.horizon, runs, episodes)
        self._cells = np.full(shape, spec.states * spec.actions, dtype=np.int32)
        self._next = np.zeros(shape, dtype=np.int32)
        self._rewards = np.zeros(shape)

    def add(self, batch: Episodes) -> None:
        """The next episodes of each run."""
        some = slice(self.taken, self.taken + batch.number)
        cells = batch.states[..., :-1] * self.spec.actions + batch.actions
        cells = np.where(batch.readable[..., None], cells, self.spec.states * self.spec.actions)
        for column, values in (
            (self._cells, cells),
            (self._next, batch.states[..., 1:]),
            (self._rewards, batch.rewards),
        ):
            column[:, :, some] = np.moveaxis(values, -1, 0)
        self.taken += batch.number

    def sums(self, query: Query, run: int, grid: Grid | None) -> dict[str, NDArray[Any]]:
        """Σ x of one run, family by family: whole numbers of the grid's units, or real numbers without one."""
        chosen = self._half(query.half)
        cells, number = self._cells[query.step, run, chosen], self.spec.states * self.spec.actions
        found: dict[str, NDArray[Any]] = {}
        weights = np.ones(number) if query.weights is None else _of_run(query.weights, run).reshape(-1)
        if query.gram:
            counts = np.bincount(cells, minlength=number + 1)[:number]
            found["gram"] = self._weighed(
                self.table.products * weights[:, None], counts, None if grid is None else grid.gram, self.episodes
            )
        if query.target is not None:
            y = self._targets(query.target, query.step, run, chosen)
            if grid is not None:
                y = np.rint(y / grid.target)
            sums = np.bincount(cells, weights=y, minlength=number + 1)[:number]
            found["vector"] = self._weighed(
                query.vector_weight * self.table.rows * weights[:, None],
                sums if grid is None else sums.astype(np.int64),
                None if grid is None else grid.feature,
                0 if grid is None else math.ceil(self.episodes * (1.0 / grid.target + 1.0)),
            )
        return found

    def _targets(self, target: Target, step: int, run: int, chosen: slice) -> Array:
        scale = _number_of_run(target.scale, run)
        ahead = _of_run(target.values, run)
        with np.errstate(all="ignore"):  # of tiny rewards, whatever the process wants to hear of underflow
            y = target.reward * self._rewards[step, run, chosen] + ahead[self._next[step, run, chosen]]
            return np.asarray(np.clip(y, _number_of_run(target.low, run), _number_of_run(target.high, run)) / scale)

    @staticmethod
    def _weighed(table: Array, sums: NDArray[Any], unit: float | None, largest: int) -> NDArray[Any]:
        """Σ over cells of sums × rows; exact in whole numbers, of any size. `largest` bounds Σ |sums|."""
        if unit is None:
            return np.asarray(sums @ table)
        whole = np.rint(table / unit).astype(np.int64)
        if largest * (int(np.abs(whole).max()) + 1) < 2**62:
            return np.asarray(sums @ whole)
        return np.asarray(sums.astype(object) @ whole.astype(object))

    def _half(self, half: int | None) -> slice:
        middle = self.episodes // 2
        return slice(None) if half is None else slice(0, middle) if half == 0 else slice(middle, None)


def _of_run(array: ArrayLike, run: int) -> Array:
    """(R|1, …) at one run."""
    array = np.asarray(array, dtype=np.float64)
    return np.asarray(array[run if len(array) > 1 else 0])


def _number_of_run(value: ArrayLike, run: int) -> float:
    values = np.atleast_1d(np.asarray(value, dtype=np.float64))
    return float(values[run if len(values) > 1 else 0])
