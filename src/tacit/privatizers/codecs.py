"""How a device randomizes a trajectory, and how a server undoes that on average (000, LOCAL-PRIVATIZER; 002; 004).

* **Additive** (000; 004, Remark 6.9): noise on every cell of the statistic. `"published"` is 000's 3H/ε on three
  families, which spends 2ε; `"exact"` is Δ₁/ε, or Gaussian.
* **One step** (default, tabular): a public uniform step h for each user; the device tells the symbol (s, a, s', b) of
  that step alone, b ~ Ber(r), or ⊥, by subset selection with the whole ε; the server multiplies by H. Unbiased. At
  ε = 1, S = 6, A = 2, H = 20 the noise on a symbol has variance 1,447 per user, against 7,200 for Laplace noise on
  pooled counts and 144,000 for Laplace noise on every step, pooled afterwards.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from tacit.privacy.calibration import Calibration, calibrate, price
from tacit.privacy.counters import single
from tacit.privacy.errors import Bernstein, ErrorLaw, LaplaceSum, NoError, Normal, gaussian_moves
from tacit.privacy.guarantees import Guarantee, Local
from tacit.privacy.mechanisms.responses import SubsetSelection
from tacit.privacy.noise import NoiseSource, lattice_scale
from tacit.privacy.sensitivity import Sensitivity
from tacit.privacy.statements import guarantee_from_json
from tacit.privatizers import published
from tacit.privatizers.protocol import PrivatizationError, check_unit
from tacit.releases import Release
from tacit.statistics import Batch, Episodes, Statistic, TabularStatistic, exact, statistic_from_json

__all__ = ["AdditiveCodec", "Codec", "OneStepCodec", "Report", "codec_from_json", "local_codec"]

Sums = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class Report:
    """What left the devices of `users` users, already randomized and summed up; of one device if `users` is 1."""

    users: int
    sums: Sums

    def to_json(self) -> str:
        """To be sent to the server."""
        return json.dumps({"users": self.users, "sums": {name: array.tolist() for name, array in self.sums.items()}})

    @classmethod
    def from_json(cls, text: str) -> Report:
        """What `to_json` wrote; whether a device can have sent it is for `LocalServer.collect` to say."""
        data = json.loads(text)
        return cls(data["users"], {name: np.array(numbers) for name, numbers in data["sums"].items()})


class Codec(Protocol):
    """The public agreement between devices and server: how to randomize, and how to undo it on average."""

    @property
    def statistic(self) -> Statistic:
        """What is estimated."""
        ...

    @property
    def guarantee(self) -> Guarantee:
        """What is promised."""
        ...

    @property
    def calibrations(self) -> Mapping[str, Calibration]:
        """What keeps it."""
        ...

    def randomize(self, batch: Any, noise: NoiseSource) -> Report:
        """On the device, of what the statistic has read."""
        ...

    def shapes(self, runs: int) -> dict[str, tuple[int, ...]]:
        """Of a report's arrays."""
        ...

    def possible(self, report: Report) -> bool:
        """Whether devices can have sent these numbers; their shapes are right, and they are finite."""
        ...

    def decode(self, sums: Sums, *, users: int, reports: int) -> Release:
        """On the server; of `users` users so many have sent a report, and the others are ⊥."""
        ...

    def to_json(self) -> dict[str, Any]:
        """The agreement as plain values; `codec_from_json` reads it."""
        ...


@dataclass(frozen=True)
class AdditiveCodec:
    """Noise on every cell of a statistic, by every device: Laplace, or Gaussian where that is allowed and quieter."""

    statistic: Statistic
    guarantee: Guarantee
    calibrations: Mapping[str, Calibration]

    def randomize(self, batch: Batch, noise: NoiseSource) -> Report:
        """See `Codec`."""
        sums: Sums = {}
        for family, total in exact(self.statistic, batch).items():
            calibration = self._of(family)
            draw = noise.laplace if calibration.mechanism == "laplace" else noise.gaussian
            scale = lattice_scale(calibration.scale, self.statistic.unit(family))
            sums[family] = total + draw(scale=scale, runs=batch.runs, size=total.shape[1], terms=batch.number)
        return Report(batch.number, sums)

    def shapes(self, runs: int) -> dict[str, tuple[int, ...]]:
        """See `Codec`."""
        return {family: (runs, self.statistic.cells(family)) for family in self.statistic.families}

    def possible(self, report: Report) -> bool:
        """See `Codec`. Noise beyond 100 scales has a probability below 1e-40: it is no honest device's.

        One such number would stay in the sums for ever.
        """
        return all(
            (np.abs(np.asarray(report.sums[family], dtype=np.float64)) <= self._most(family, report.users)).all()
            for family in self.statistic.families
        )

    def decode(self, sums: Sums, *, users: int, reports: int) -> Release:
        """See `Codec`."""
        fields = {family: sums[family] * self.statistic.unit(family) for family in self.statistic.families}
        return self.statistic.release(users, fields, {family: self._error(family, reports) for family in fields})

    def to_json(self) -> dict[str, Any]:
        """See `Codec`."""
        rule = next(iter(self.calibrations.values())).rule
        return _agreement(self, randomizer="additive", calibration="exact" if rule == "exact" else "published")

    def _error(self, family: str, reports: int) -> ErrorLaw:
        unit, calibration = self.statistic.unit(family), self._of(family)
        if reports == 0:
            return NoError()
        if calibration.mechanism == "laplace":
            return LaplaceSum(scale=calibration.scale, terms=reports, unit=unit)
        moved = min(1.0, reports * gaussian_moves(calibration.scale, unit))
        return Normal(std=calibration.scale * math.sqrt(reports), slack=reports * unit / 2.0, moved=moved)

    def _most(self, family: str, users: int) -> float:
        """What so many devices add to a number, at most, in lattice units."""
        unit = self.statistic.unit(family)
        return users * ((self.statistic.largest(family) + 100.0 * self._of(family).scale) / unit + 100.0)

    def _of(self, family: str) -> Calibration:
        return self.calibrations.get(family) or next(iter(self.calibrations.values()))


@dataclass(frozen=True)
class OneStepCodec:
    """The symbol (s, a, s', b) of one public step per user, by subset selection.

    Rows are steps of the statistic (one, if pooled); a symbol's number is 2((s·A + a)·S + s') + b, and ⊥ is the last. A
    symbol depends on the user alone, so the guarantee is the selection's, and composes with nothing.
    """

    statistic: TabularStatistic
    guarantee: Guarantee
    selection: SubsetSelection

    @property
    def calibrations(self) -> Mapping[str, Calibration]:
        """See `Codec`."""
        symbols = self.selection.symbols
        calibration = price(
            "subset selection",
            self.selection.epsilon,
            Sensitivity(l0=symbols, l1=2.0, l2_squared=2.0),
            participation=1.0,
            rule="exact",
        )
        return {"one step of each user": calibration}

    def randomize(self, episodes: Episodes, noise: NoiseSource) -> Report:
        """See `Codec`. A word modulo H is uniform up to H/2⁶⁴."""
        spec, runs = self.statistic.spec, episodes.runs
        words = noise.words(runs=runs, size=2 * episodes.number).reshape(runs, 2, episodes.number)
        h = (words[:, 0] % np.uint64(spec.horizon)).astype(np.int64)

        def at(values: NDArray[Any]) -> NDArray[Any]:
            return np.take_along_axis(values, h[..., None], axis=-1)[..., 0]

        reward = (words[:, 1] >> np.uint64(11)).astype(np.float64) * 2.0**-53 < at(episodes.rewards)
        pair = at(episodes.states[..., :-1]) * spec.actions + at(episodes.actions)
        symbol = 2 * (pair * spec.states + at(episodes.states[..., 1:])) + reward
        symbol = np.where(episodes.readable, symbol, self.selection.symbols - 1)
        sets = self.selection.randomize(symbol, noise)
        rows = np.zeros_like(h) if self.statistic.pooled else h
        one_hot = (rows[..., None] == np.arange(self._rows)).astype(np.int64)
        told = np.einsum("knr,knd->krd", one_hot, sets.astype(np.int64))
        return Report(episodes.number, {"told": told, "asked": one_hot.sum(axis=1)})

    def shapes(self, runs: int) -> dict[str, tuple[int, ...]]:
        """See `Codec`."""
        return {"told": (runs, self._rows, self.selection.symbols), "asked": (runs, self._rows)}

    def possible(self, report: Report) -> bool:
        """See `Codec`: every user was asked about one step, and told a set of `width` symbols."""
        told, asked = np.asarray(report.sums["told"]), np.asarray(report.sums["asked"])
        return bool(
            (asked >= 0).all()
            and (asked <= report.users).all()  # so that no sum wraps around
            and (asked.sum(axis=1) == report.users).all()
            and (told >= 0).all()
            and (told <= asked[..., None]).all()
            and (told.sum(axis=2) == asked * self.selection.width).all()
        )

    def to_json(self) -> dict[str, Any]:
        """See `Codec`."""
        return _agreement(self, randomizer="one-step", calibration="exact")

    def decode(self, sums: Sums, *, users: int, reports: int) -> Release:
        """See `Codec`."""
        spec = self.statistic.spec
        found = self.selection.estimate(sums["told"], sums["asked"][..., None])[..., :-1]
        cells = spec.horizon * found.reshape(*found.shape[:2], spec.states, spec.actions, spec.states, 2)
        transitions = cells.sum(axis=-1)
        rewards = cells[..., 1].sum(axis=-1)
        if self.statistic.centred:
            rewards = rewards - 0.5 * transitions.sum(axis=-1)
        sign = [-0.5, 0.5] if self.statistic.centred else [0.0, 1.0]
        errors = {
            "transitions": self._error(reports, [1.0, 1.0]),
            "rewards": self._error(reports, sign * spec.states),
            "visits": self._error(reports, [1.0, 1.0] * spec.states),
        }
        return self.statistic.release(users, {"transitions": transitions, "rewards": rewards}, errors)

    @property
    def _rows(self) -> int:
        return 1 if self.statistic.pooled else self.statistic.spec.horizon

    def _error(self, reports: int, weights: list[float]) -> ErrorLaw:
        """Of a weighted sum of symbol counts: the randomizer's noise, and that of which step was asked about.

        A report adds H·ŵ, ŵ estimating the weight w of the symbol told. Pooled, w ranges over her H steps: its variance
        is at most a quarter of its squared range. Per step, she adds to one row of H: H·E[ŵ²] at most.
        """
        if reports == 0:
            return NoError()
        H, selection = self.statistic.spec.horizon, self.selection
        span = max(*weights, 0.0) - min(*weights, 0.0)
        size = max(abs(weight) for weight in weights)
        noise = selection.variance(weights)
        variance = H * H * (noise + span**2 / 4.0) if self.statistic.pooled else H * (noise + size**2)
        largest = H * (float(np.abs(weights).sum()) / (selection.truth - selection.other) + size)
        return Bernstein(std=math.sqrt(reports * variance), largest=largest)


def local_codec(
    statistic: Statistic,
    guarantee: Guarantee,
    *,
    randomizer: Literal["one-step", "additive"] = "one-step",
    calibration: Literal["exact", "published"] = "exact",
) -> AdditiveCodec | OneStepCodec:
    """The agreement between devices and server.

    Examples
    --------
    >>> from tacit.mdp.spec import EpisodeSpec
    >>> statistic = TabularStatistic(spec=EpisodeSpec(states=6, actions=2, horizon=20))
    >>> local_codec(statistic, Local(epsilon=1)).selection.symbols
    145
    """
    if not isinstance(guarantee, Local) or guarantee.kind == "none":
        raise PrivatizationError(f"a local privatizer keeps Local guarantees with a finite epsilon, not {guarantee}")
    check_unit(guarantee)
    if guarantee.neighbours != "replace-one":
        raise PrivatizationError("a local guarantee compares any two trajectories of a user: replace-one")
    if calibration == "published":
        return AdditiveCodec(statistic, guarantee, published.local(statistic, guarantee))
    if randomizer == "additive":
        together = " and ".join(statistic.families)
        noise = calibrate(guarantee, statistic.sensitivity(), counter=single(1))
        return AdditiveCodec(statistic, guarantee, {together: noise})
    if randomizer != "one-step":
        raise PrivatizationError(f'randomizer must be "one-step" or "additive"; got {randomizer!r}')
    if not isinstance(statistic, TabularStatistic) or statistic.families != ("transitions", "rewards") or statistic.cap:
        raise PrivatizationError('"one-step" tells transitions and rewards, without a cap; take randomizer="additive"')
    if guarantee.epsilon is None:
        raise PrivatizationError('"one-step" keeps a pure epsilon; take randomizer="additive" for rho')
    spec = statistic.spec
    symbols = 2 * spec.states * spec.actions * spec.states + 1
    return OneStepCodec(statistic, guarantee, SubsetSelection(guarantee.epsilon, symbols))


def codec_from_json(data: Mapping[str, Any]) -> AdditiveCodec | OneStepCodec:
    """The agreement that `Codec.to_json` described."""
    return local_codec(
        statistic_from_json(data["statistic"]),
        guarantee_from_json(data["guarantee"]),
        randomizer=data["randomizer"],
        calibration=data["calibration"],
    )


def _agreement(codec: Codec, *, randomizer: str, calibration: str) -> dict[str, Any]:
    return {
        "statistic": codec.statistic.to_json(),
        "guarantee": {"model": codec.guarantee.model, **vars(codec.guarantee)},
        "randomizer": randomizer,
        "calibration": calibration,
    }
