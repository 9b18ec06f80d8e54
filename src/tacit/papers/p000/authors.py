"""What 000's public code does, written from ALGORITHMS.md §3. **It keeps no guarantee**: it is for comparison.

Counts are pooled over steps. Under joint privacy, every episode's release is the full counts with *fresh* noise
Laplace(1/ε) on every cell: neither 3H nor log K, and whoever came first is in all K − 1 releases, each of which costs
6H·ε (three families, each of which she moves by 2H). Under local privacy, each user adds one number, drawn from
Laplace(1/ε), to all cells of a family: the difference of two cells is exact, so that nothing is promised at all. (The
description says "one noise vector shared by all cells". We read it as one number for each user so far.)

The description does not tell their bonus, which is here the learner's own, from the law of that noise.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.learners import Uniforms
from tacit.online import UCBPO, UCBVI, OptimisticAgent, Session
from tacit.privacy.calibration import Calibration, price
from tacit.privacy.errors import ErrorLaw, LaplaceSum, NoError
from tacit.privacy.guarantees import Guarantee, Local
from tacit.privacy.noise import NoiseSource, restored
from tacit.privacy.sensitivity import Sensitivity
from tacit.privacy.statements import Statement, guarantee_from_json
from tacit.privatizers import LocalServer, PrivatizationError, Privatizer
from tacit.releases import Release
from tacit.statistics import TabularStatistic, exact, statistic_from_json

__all__ = ["AuthorsCounts", "AuthorsUCBPO", "AuthorsUCBVI", "authors_price"]


def authors_price(statistic: TabularStatistic, guarantee: Guarantee, episodes: int) -> Calibration:
    """What these settings really cost."""
    assert guarantee.epsilon is not None
    sensitivity, scale = statistic.sensitivity(), 1.0 / guarantee.epsilon
    if isinstance(guarantee, Local):  # two cells that share their noise: their difference has none
        sensitivity = Sensitivity(l0=sensitivity.l0, l1=math.inf, l2_squared=math.inf)
    return price("laplace", scale, sensitivity, participation=max(episodes - 1, 1), rule="the authors' public code")


class AuthorsCounts:
    """Exact counts in memory, and noise that is drawn again for every release."""

    def __init__(
        self, statistic: TabularStatistic, guarantee: Guarantee, *, episodes: int, noise: NoiseSource, runs: int
    ) -> None:
        if noise.protects:
            raise PrivatizationError("these settings protect nobody; they can be simulated, and nothing else")
        self.statistic, self.guarantee, self.episodes, self.runs = statistic, guarantee, episodes, runs
        self.users = 0
        self._noise = noise
        self._totals = {family: np.zeros((runs, statistic.cells(family))) for family in statistic.families}
        self._shared = np.zeros((runs, len(statistic.families)))  # local: the sum of what all users have added

    def until_release(self) -> int | None:
        """See `Privatizer`: every episode, as long as somebody comes after it."""
        return 1 if self.users < self.episodes - 1 else None

    def observe(self, episodes: Any) -> None:
        """See `Privatizer`."""
        batch = self.statistic.read(episodes)
        for family, total in exact(self.statistic, batch).items():
            self._totals[family] += total
        if isinstance(self.guarantee, Local):
            families, terms = len(self.statistic.families), max(batch.number, 1)
            drawn = self._noise.laplace(scale=self._scale, runs=self.runs, size=families, terms=terms)
            self._shared += drawn / self._units
        self.users += batch.number

    def release(self) -> Release:
        """See `Privatizer`."""
        families = self.statistic.families
        error: ErrorLaw
        if self.users == 0:
            noisy, error = dict(self._totals), NoError()
        elif isinstance(self.guarantee, Local):
            noisy = {family: self._totals[family] + self._shared[:, [n]] for n, family in enumerate(families)}
            error = LaplaceSum(scale=self._scale, terms=self.users, unit=0.0)
        else:
            draw = self._noise.laplace
            noisy = {
                family: total + draw(scale=self._scale, runs=self.runs, size=total.shape[1]) / unit
                for (family, total), unit in zip(self._totals.items(), self._units, strict=True)
            }
            error = LaplaceSum(scale=self._scale, terms=1, unit=0.0)
        fields = {family: noisy[family] * self.statistic.unit(family) for family in families}
        return self.statistic.release(self.users, fields, dict.fromkeys(families, error))

    @property
    def statement(self) -> Statement:
        """See `Privatizer`: not kept, and by how much."""
        calibration = authors_price(self.statistic, self.guarantee, self.episodes)
        return Statement(
            guarantee=self.guarantee,
            calibrations={"all counts, in every release": calibration},
            noise=self._noise.name,
            protects=False,
            rule=calibration.rule,
            users=self.users,
            users_declared=self.episodes,
            releases=self.users,
        )

    def state(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """See `tacit.online.session.Source`."""
        meta = {
            "kind": "the authors' public code",
            "statistic": self.statistic.to_json(),
            "guarantee": {"model": self.guarantee.model, **vars(self.guarantee)},
            "episodes": self.episodes,
            "runs": self.runs,
            "users": self.users,
            "noise": self._noise.state(),
        }
        return {**self._totals, "shared": self._shared}, meta

    @classmethod
    def from_state(cls, arrays: Mapping[str, NDArray[Any]], meta: Mapping[str, Any]) -> AuthorsCounts:
        """What `state` described."""
        self = cls(
            statistic_from_json(meta["statistic"]),  # type: ignore[arg-type]
            guarantee_from_json(meta["guarantee"]),
            episodes=meta["episodes"],
            noise=restored(meta["noise"]),
            runs=meta["runs"],
        )
        self.users = meta["users"]
        self._totals = {family: np.array(arrays[family]) for family in self._totals}
        self._shared = np.array(arrays["shared"])
        return self

    @property
    def _units(self) -> NDArray[np.float64]:
        """Totals are whole numbers of these."""
        return np.array([self.statistic.unit(family) for family in self.statistic.families])

    @property
    def _scale(self) -> float:
        assert self.guarantee.epsilon is not None
        return 1.0 / self.guarantee.epsilon


class _Authors(OptimisticAgent):
    """For simulations only."""

    @property
    def statistic(self) -> TabularStatistic:
        """Three families, pooled, with rewards as they are."""
        families = ("transitions", "rewards", "visits")
        return TabularStatistic(spec=self.spec, families=families, centred=False, pooled=True)

    def privatizer(self, *, noise: NoiseSource | None = None, runs: int = 1) -> Privatizer:
        """See `Agent`."""
        if self.privacy.kind == "none":
            return super().privatizer(noise=noise, runs=runs)
        if noise is None:
            raise PrivatizationError("these settings protect nobody; they can be simulated, and nothing else")
        return AuthorsCounts(  # type: ignore[return-value]
            self.statistic, self.privacy, episodes=self.episodes, noise=noise, runs=runs
        )

    def server(self) -> LocalServer:
        """There is none: see `privatizer`."""
        raise PrivatizationError("these settings protect nobody; they can be simulated, and nothing else")

    def resumed_session(self, arrays: dict[str, NDArray[Any]], meta: dict[str, Any], uniforms: Uniforms) -> Session:
        """See `Agent`."""
        ours = None if self.privacy.kind == "none" else AuthorsCounts
        return Session.resumed(
            arrays, meta, learner=self.learner(), uniforms=uniforms, episodes=self.episodes, kind=ours
        )

    def _check(self) -> None:
        """There is no guarantee that these settings could miss."""


@dataclass(frozen=True, kw_only=True, eq=False)
class AuthorsUCBVI(_Authors, UCBVI):
    """UCB-VI as in the authors' public code."""


@dataclass(frozen=True, kw_only=True, eq=False)
class AuthorsUCBPO(_Authors, UCBPO):
    """UCB-PO as in the authors' public code."""
