"""Logged episodes behind a counter: public queries in, noisy regressions out, until the budget is spent (001, §4).

A learner that regresses backwards in time (h = H, …, 1) chooses what it asks for by what was released before: its
weights and targets are functions of earlier releases. Each `Query` has its own share of the budget and is answered once
with fresh noise. This is adaptive composition: ε and ρ add up, also where queries were chosen by looking at answers
(ρ-zCDP: Bun & Steinke 2016, Lemma 2.3; pure: the likelihood ratios multiply). For (ε, δ) the shares are of the largest
ρ that gives it.

Sensitivities are exact for the declared features, weights in [0, 1] and targets in their declared range
(`tacit.statistics.regression`), under replace-one and add/remove; the Gram matrix is noised in svec coordinates, on a
lattice of its own. Halves are the first and the second half of the places, which nobody may be able to move others
between (`tacit.offline.Dataset` cannot promise that); the account adds them up, as 001 does.
"""

from __future__ import annotations

import math
from collections.abc import Generator
from dataclasses import replace
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit.mdp.spec import EpisodeSpec
from tacit.privacy.accounting import Loss, budget_of, compose
from tacit.privacy.calibration import Calibration, calibrate, price
from tacit.privacy.counters import single
from tacit.privacy.errors import ErrorLaw, LaplaceSum, NoError, Normal, gaussian_moves
from tacit.privacy.guarantees import Central, Guarantee, NonPrivate
from tacit.privacy.noise import NoiseSource, NoNoise, SecureNoise, lattice_scale
from tacit.privacy.sensitivity import Sensitivity
from tacit.privacy.statements import Statement
from tacit.privatizers.protocol import BudgetExhausted, PrivatizationError, check_unit
from tacit.releases import GramRelease, Query, Target
from tacit.statistics import read
from tacit.statistics.gram import from_svec
from tacit.statistics.regression import Grid, LoggedSteps, RegressionTable

__all__ = ["AdaptivePrivatizer", "converse"]

Plan = TypeVar("Plan")


class AdaptivePrivatizer:
    """Answers public regression queries about logged episodes, each with its share of one budget.

    Parameters
    ----------
    spec
        The public shape of an episode.
    features
        φ (S, A, d), declared. Releases are of features divided by `norm`, the largest of their norms.
    guarantee
        `Central`, or `NonPrivate`.
    episodes
        K, how many there are; whoever of them does not come is ⊥. Public.
    calibration
        `"exact"`: the least noise that keeps each share. `"published"`: 001's Algorithm 2; the statement says what that
        spends on these features.
    noise
        `SecureNoise()` unless given. A simulation says so: `SimulationNoise(seed)`.
    runs
        Independent runs side by side, for simulations.
    episodes_per_user
        If the guarantee's unit is "user": how many of the episodes may be one user's. Noise is for all of them.

    Examples
    --------
    >>> spec = EpisodeSpec(states=2, actions=2, horizon=3)
    >>> privatizer = AdaptivePrivatizer(spec, np.eye(4).reshape(2, 2, 4), Central(rho=1), episodes=2)
    >>> privatizer.observe([([0, 1, 1, 0], [1, 0, 1], [0.0, 0.5, 1.0]), None])
    >>> release = privatizer.ask(Query(step=2, share=0.5))
    >>> release.gram.shape, privatizer.asked
    ((1, 1, 4, 4), 0.5)
    """

    def __init__(
        self,
        spec: EpisodeSpec,
        features: ArrayLike,
        guarantee: Guarantee,
        *,
        episodes: int,
        calibration: Literal["exact", "published"] = "exact",
        noise: NoiseSource | None = None,
        runs: int = 1,
        episodes_per_user: int | None = None,
    ) -> None:
        if not isinstance(guarantee, Central | NonPrivate):
            raise PrivatizationError(f"logged data are released under Central guarantees, not {guarantee}")
        check_unit(guarantee, episodes_per_user=episodes_per_user)
        if episodes < 1 or runs < 1:
            raise PrivatizationError(f"episodes and runs must be at least 1; got {episodes} and {runs}")
        if calibration not in ("exact", "published"):
            raise PrivatizationError(f'calibration must be "exact" or "published"; got {calibration!r}')
        if calibration == "published" and guarantee.kind == "pure":
            raise PrivatizationError("001's Algorithm 2 is for rho or (epsilon, delta); a pure guarantee is neither")
        self.spec, self.guarantee, self.calibration = spec, guarantee, calibration
        self.episodes, self.runs, self.episodes_per_user = int(episodes), int(runs), episodes_per_user
        self.table = RegressionTable(np.asarray(features, dtype=np.float64))
        private = guarantee.kind != "none"
        self.noise: NoiseSource = (noise or SecureNoise()) if private else NoNoise()
        self.calibrations: dict[str, Calibration] = {}
        self.releases = 0
        self._shares: list[float] = []
        self._log = LoggedSteps(spec, self.table, episodes=self.episodes, runs=self.runs)

    @property
    def users(self) -> int:
        """Episodes taken in, of each run."""
        return self._log.taken

    @property
    def asked(self) -> float:
        """The shares of all queries so far, added up."""
        return math.fsum(self._shares)

    def observe(self, episodes: Any) -> None:
        """Take the next episodes in, as `read` reads them; before the first query.

        Never raises on values; raises `BudgetExhausted` on too many episodes.
        """
        if self._shares:
            raise PrivatizationError("queries were answered already: whoever comes now would be in some of them only")
        batch = read(episodes, self.spec)
        if batch.runs != self.runs:
            raise PrivatizationError(f"{self.runs} runs were declared, and episodes of {batch.runs} came")
        if self.users + batch.number > self.episodes:
            raise BudgetExhausted(f"{self.episodes:,} episodes were declared; the guarantee covers no more")
        self._log.add(batch)

    def ask(self, query: Query) -> GramRelease:
        """The answer: normalised Gram (R, 1, d, d) and vector (R, 1, d), as far as they were asked for.

        Raises `BudgetExhausted` where the query costs more than is left, and `PrivatizationError` for a query that is
        none. Queries are public, so neither tells anything about people.
        """
        self._check(query)
        families = tuple(name for name, asked in (("gram", query.gram), ("vector", query.target is not None)) if asked)
        found = self._calibrated(query, families)
        total = math.fsum([*self._shares, query.share])
        if total > 1.0 + 1e-9:
            raise BudgetExhausted(f"this query's share of the budget is {query.share:g}, and {self.asked:g} is spent")
        together = {**self.calibrations, **{self._name(query, part): entry for part, (entry, _) in found.items()}}
        losses = [calibration.loss for calibration in together.values()]
        if self._keeps and found and not compose(losses).keeps(self.guarantee):
            raise BudgetExhausted("this query and those before it would cost more than the guarantee allows")
        # Spent from here on, whatever interrupts what follows.
        self._shares.append(query.share)
        self.calibrations = together
        self.releases += 1
        fields: dict[str, NDArray[np.float64]] = {}
        errors: dict[str, ErrorLaw] = {}
        for part, families_of_part in _parts(families, found):
            calibration, grid = found.get(part, (None, None))
            for family in families_of_part:
                sums = np.stack([self._log.sums(_only(query, family), run, grid)[family] for run in range(self.runs)])
                fields[family], errors[family] = self._noised(family, sums, calibration, grid)
        return self._release(query, fields, errors)

    @property
    def statement(self) -> Statement:
        """What is guaranteed, by what, and what has been spent; each query's share is an entry."""
        private = self.guarantee.kind != "none"
        return Statement(
            guarantee=self.guarantee,
            calibrations=(dict(self.calibrations) or {"nothing asked yet": _nothing()}) if private else {},
            noise=self.noise.name,
            protects=self.noise.protects,
            rule="exact" if self._keeps or not private else "published (001, Algorithm 2)",
            users=self.users,
            users_declared=self.episodes,
            releases=self.releases,
            notes=(
                f"Queries were chosen by earlier answers; the shares add up to {min(self.asked, 1.0):.6g}.",
                "Features and rewards are of declared ranges; an episode that cannot be read counts as empty.",
                *(
                    (f"A user has {self.episodes_per_user} of the episodes at most; the noise hides all of them.",)
                    if self.episodes_per_user is not None
                    else ()
                ),
                *(
                    (f"Runs: {self.runs}, each of other people. Somebody in several pays for each.",)
                    * (self.runs > 1 and self.noise.protects)
                ),
            ),
        )

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Neither copied nor pickled: two copies would spend the same budget twice."""
        raise PrivatizationError("a privatizer cannot be copied: make another, with a budget of its own")

    @property
    def _keeps(self) -> bool:
        return self.calibration == "exact"

    def _check(self, query: Query) -> None:
        """A query is the learner's, and public: what is wrong with it is told."""
        spec = self.spec
        if not 0 <= query.step < spec.horizon or query.half not in (None, 0, 1):
            raise PrivatizationError(
                f"steps are 0..{spec.horizon - 1} and halves 0 and 1; got {query.step}, {query.half}"
            )
        if not 0.0 < query.share <= 1.0:
            raise PrivatizationError(f"a query's share lies in (0, 1]; got {query.share}")
        if not query.gram and query.target is None:
            raise PrivatizationError("a query asks for a Gram matrix, a target, or both")
        if query.weights is not None:
            weights = np.asarray(query.weights, dtype=np.float64)
            if weights.shape not in ((self.runs, spec.states, spec.actions), (1, spec.states, spec.actions)):
                raise PrivatizationError(f"weights are (R|1, S, A); got {weights.shape}")
            if not ((weights >= 0) & (weights <= 1)).all():
                raise PrivatizationError("weights lie in [0, 1]")
        if query.target is None:
            return
        values, bounds = np.asarray(query.target.values), (np.asarray(query.target.low), np.asarray(query.target.high))
        if values.shape not in ((self.runs, spec.states), (1, spec.states)) or not _moderate(values):
            raise PrivatizationError(f"a target's values are finite numbers (R|1, S); got shape {values.shape}")
        if any(bound.shape not in ((), (1,), (self.runs,)) or not _moderate(bound) for bound in bounds):
            raise PrivatizationError("a target's bounds are finite numbers, one or one for each run")
        if not ((bounds[0] <= bounds[1]).all() and _moderate(query.target.reward)):
            raise PrivatizationError("a target has low ≤ high, and a finite coefficient of the reward")
        if not 2.0**-10 <= query.vector_weight <= 2.0**10:
            raise PrivatizationError(f"a vector's weight lies in [2^-10, 2^10]; got {query.vector_weight}")

    def _calibrated(self, query: Query, families: tuple[str, ...]) -> dict[str, tuple[Calibration, Grid]]:
        """By the name of what is noised as one vector; nothing without privacy."""
        if self.guarantee.kind == "none":
            return {}
        if self._keeps:
            return {" and ".join(families): self._exact(query, families)}
        return {family: self._published(query, family) for family in families}

    def _exact(self, query: Query, families: tuple[str, ...]) -> tuple[Calibration, Grid]:
        """The least noise for the share, on a grid far below it."""
        if self.guarantee.kind == "pure":
            assert self.guarantee.epsilon is not None
            share: Guarantee = Central(epsilon=query.share * self.guarantee.epsilon)
        else:
            share = Central(rho=query.share * budget_of(self.guarantee).rho)
        # Laplace noise within a ρ has the standard deviation Δ₁/√ρ, never below the Gaussian's Δ₂/√(2ρ).
        mechanism: Literal["laplace", "gaussian"] = "laplace" if share.kind == "pure" else "gaussian"

        def noise(grid: Grid | None) -> Calibration:
            size = self._sensitivity(query, families, grid)
            return calibrate(share, size, counter=single(self.episodes), mechanism=mechanism)

        grid = Grid.below(noise(None).scale, episodes=self.episodes)
        return noise(grid), grid

    def _published(self, query: Query, family: str) -> tuple[Calibration, Grid]:
        """Algorithm 2, line 2, with ρ₀ the share: Z_ij ~ N(0, 1/(4ρ₀)), so that svec(K) has variance 1/(2ρ₀); φ₁, φ₂,
        φ₃ ~ N(0, 2B²/ρ₀), B = H² or H. In units of normalised sums, and 2⁻³⁰ more, for the rounding to the grid.
        """
        rho = query.share * budget_of(self.guarantee).rho * (1.0 - 2.0**-29)
        scale = 1.0 / math.sqrt(2.0 * rho) / self.table.norm**2
        if family == "vector":
            assert query.target is not None
            divided = float(query.target.scale.max())
            bound = divided if query.target.printed is None else query.target.printed
            scale = query.vector_weight * math.sqrt(2.0 / rho) * bound / (self.table.norm * divided)
        grid = Grid.below(scale, episodes=self.episodes)
        size = self._sensitivity(query, (family,), grid)
        return price("gaussian", scale, size, participation=1.0, rule="published (001, Algorithm 2)"), grid

    def _sensitivity(self, query: Query, families: tuple[str, ...], grid: Grid | None) -> Sensitivity:
        low, high = _range(query.target)
        return self.table.sensitivity(
            families,
            weight=query.vector_weight,
            low=low,
            high=high,
            neighbours=self.guarantee.neighbours,
            grid=grid,
            exact_l1=self.guarantee.kind == "pure",
        ).times(self.episodes_per_user or 1)

    def _noised(
        self, family: str, sums: NDArray[Any], calibration: Calibration | None, grid: Grid | None
    ) -> tuple[NDArray[np.float64], ErrorLaw]:
        if calibration is None or grid is None:
            return np.asarray(sums, dtype=np.float64), NoError()
        unit = grid.gram if family == "gram" else grid.vector
        draw = self.noise.laplace if calibration.mechanism == "laplace" else self.noise.gaussian
        noise = draw(scale=lattice_scale(calibration.scale, unit), runs=self.runs, size=sums.shape[1])
        exact_sum = noise.dtype.kind == "i" or sums.dtype == object
        whole = sums.astype(object) + noise.astype(object) if exact_sum else sums + noise
        noisy = np.asarray(whole, dtype=np.float64) * unit
        if calibration.mechanism == "laplace":
            return noisy, LaplaceSum(scale=calibration.scale, terms=1, unit=unit)
        moved = gaussian_moves(calibration.scale, unit)
        return noisy, Normal(std=calibration.scale, slack=unit / 2.0, moved=moved)

    def _release(
        self, query: Query, fields: dict[str, NDArray[np.float64]], errors: dict[str, ErrorLaw]
    ) -> GramRelease:
        vector = fields["vector"] / query.vector_weight if "vector" in fields else None
        return GramRelease(
            episodes=self.users,
            gram=from_svec(fields["gram"])[:, None] if "gram" in fields else None,
            vector=None if vector is None else vector[:, None],
            vector_weight=query.vector_weight if vector is not None else 0.0,
            errors=errors,
        )

    def _name(self, query: Query, part: str) -> str:
        of = "" if query.half is None else f" of the {('first', 'second')[query.half]} half"
        return f"query {self.releases + 1} (step {query.step + 1}, {query.share:.4g} of the budget), {part}{of}"


def converse(asking: Generator[Query, GramRelease, Plan], privatizer: AdaptivePrivatizer) -> Plan:
    """Let a learner ask until it has its plan: it yields queries, and is sent releases."""
    try:
        query = next(asking)
        while True:
            query = asking.send(privatizer.ask(query))
    except StopIteration as finished:
        plan: Plan = finished.value
        return plan


def _parts(families: tuple[str, ...], found: dict[str, Any]) -> list[tuple[str, tuple[str, ...]]]:
    """What is noised as one vector, and the families in it."""
    together = " and ".join(families)
    if not found or together in found:
        return [(together, families)]
    return [(family, (family,)) for family in families]


def _only(query: Query, family: str) -> Query:
    return replace(query, gram=True, target=None) if family == "gram" else replace(query, gram=False)


def _range(target: Target | None) -> tuple[float, float]:
    """[low, high] divided by the scale: the widest over all runs, so that all have the same noise."""
    if target is None:
        return 0.0, 0.0
    low, high = np.atleast_1d(target.low) / target.scale, np.atleast_1d(target.high) / target.scale
    return float(low.min()), float(high.max())


def _moderate(values: ArrayLike) -> bool:
    """Finite, and far from where sums overflow: no one's reward may make NumPy say anything."""
    return bool((np.abs(np.asarray(values, dtype=np.float64)) <= 2.0**256).all())


def _nothing() -> Calibration:
    size = Sensitivity(l0=0.0, l1=0.0, l2_squared=0.0)
    return Calibration(
        mechanism="gaussian",
        scale=math.inf,
        sensitivity=size,
        participation=1.0,
        loss=Loss(epsilon=0.0, rho=0.0),
        rule="exact",
    )
