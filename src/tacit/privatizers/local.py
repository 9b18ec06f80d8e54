"""The local model in two halves: a device that randomizes, and a server that never sees a trajectory (000, 002).

Two randomizers, as a device and the decoder of what it sends:

* **Additive** (000, LOCAL-PRIVATIZER; 004, Remark 6.9): noise on every cell of the statistic. `"published"` is 000's
  3H/ε on three families, which spends 2ε; `"exact"` is Δ₁/ε, or Gaussian.
* **One step** (default, tabular): a public uniform step h for each user; the device tells the symbol (s, a, s', b) of
  that step alone, b ~ Ber(r), or ⊥, by subset selection with the whole ε; the server multiplies by H. Unbiased. At
  ε = 1, S = 6, A = 2, H = 20 the noise on a symbol has variance 1,447 per user, against 7,200 for Laplace noise on
  pooled counts and 144,000 for Laplace noise on every step, pooled afterwards.

Every report is used in every later prefix sum at no further cost: there is no counter, and releases may be made at
any time.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray

from tacit.privacy.calibration import Calibration, calibrate, price
from tacit.privacy.counters import single
from tacit.privacy.errors import Bernstein, ErrorLaw, LaplaceSum, NoError, Normal
from tacit.privacy.guarantees import Guarantee, Local
from tacit.privacy.mechanisms.responses import SubsetSelection
from tacit.privacy.noise import NoiseSource, SecureNoise, lattice_scale, restored
from tacit.privacy.sensitivity import Sensitivity
from tacit.privacy.statements import Statement, guarantee_from_json
from tacit.privatizers import published, vault
from tacit.privatizers.protocol import BudgetExhausted, PrivatizationError
from tacit.releases import Release
from tacit.statistics import Batch, Episodes, Statistic, TabularStatistic, exact, statistic_from_json

__all__ = ["AdditiveCodec", "Device", "LocalPrivatizer", "LocalServer", "OneStepCodec", "Report", "local_codec"]

Sums = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class Report:
    """What left the devices of `users` users, already randomized and summed up; of one device if `users` is 1."""

    users: int
    sums: Sums


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

    def decode(self, sums: Sums, users: int) -> Release:
        """On the server."""
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
        """See `Codec`: noise has no bound."""
        return True

    def decode(self, sums: Sums, users: int) -> Release:
        """See `Codec`."""
        fields = {family: sums[family] * self.statistic.unit(family) for family in self.statistic.families}
        return self.statistic.release(users, fields, {family: self._error(family, users) for family in fields})

    def _error(self, family: str, users: int) -> ErrorLaw:
        unit, calibration = self.statistic.unit(family), self._of(family)
        if users == 0:
            return NoError()
        if calibration.mechanism == "laplace":
            return LaplaceSum(scale=calibration.scale, terms=users, unit=unit)
        return Normal(std=calibration.scale * math.sqrt(users), slack=users * unit / 2.0)

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
            and (asked.sum(axis=1) == report.users).all()
            and (told >= 0).all()
            and (told <= asked[..., None]).all()
            and (told.sum(axis=2) == asked * self.selection.width).all()
        )

    def decode(self, sums: Sums, users: int) -> Release:
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
            "transitions": self._error(users, [1.0, 1.0]),
            "rewards": self._error(users, sign * spec.states),
            "visits": self._error(users, [1.0, 1.0] * spec.states),
        }
        return self.statistic.release(users, {"transitions": transitions, "rewards": rewards}, errors)

    @property
    def _rows(self) -> int:
        return 1 if self.statistic.pooled else self.statistic.spec.horizon

    def _error(self, users: int, weights: list[float]) -> ErrorLaw:
        """Of a weighted sum of symbol counts: the randomizer's noise, and that of which step was asked about.

        A user adds H·ŵ, ŵ estimating the weight w of the symbol told. Pooled, w ranges over her H steps: its variance
        is at most a quarter of its squared range. Per step, she adds to one row of H: H·E[ŵ²] at most.
        """
        if users == 0:
            return NoError()
        H, selection = self.statistic.spec.horizon, self.selection
        span = max(*weights, 0.0) - min(*weights, 0.0)
        size = max(abs(weight) for weight in weights)
        noise = selection.variance(weights)
        variance = H * H * (noise + span**2 / 4.0) if self.statistic.pooled else H * (noise + size**2)
        largest = H * (float(np.abs(weights).sum()) / (selection.truth - selection.other) + size)
        return Bernstein(std=math.sqrt(users * variance), largest=largest)


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


class Device:
    """The half that runs where the trajectory is: it holds the randomizer, and lets nothing else out."""

    def __init__(self, codec: Codec, *, noise: NoiseSource | None = None) -> None:
        self._codec = codec
        self._noise: NoiseSource = noise or SecureNoise()

    @property
    def noise(self) -> NoiseSource:
        """Where its randomness comes from."""
        return self._noise

    def report(self, episodes: Any) -> Report:
        """Randomize. Whatever the episode is, a report of the same kind comes out."""
        return self._codec.randomize(self._codec.statistic.read(episodes), self._noise)


class LocalServer:
    """The half that collects reports and releases estimates; it has no method that takes a trajectory."""

    def __init__(self, codec: Codec, *, episodes: int, runs: int = 1) -> None:
        if episodes < 1 or runs < 1:
            raise PrivatizationError(f"episodes and runs must be at least 1; got {episodes} and {runs}")
        self.codec = codec
        self.episodes = episodes
        self.runs = runs
        self.users = 0
        self._sums: Sums = {name: np.zeros(shape) for name, shape in codec.shapes(runs).items()}

    def collect(self, report: Report) -> None:
        """Add a report. One that no device of this agreement can have sent is refused, and leaves no trace."""
        if {name: np.shape(array) for name, array in report.sums.items()} != self.codec.shapes(self.runs):
            raise PrivatizationError("this report belongs to another agreement: its arrays have other shapes")
        whole = isinstance(report.users, int | np.integer) and report.users >= 1
        arrays = [np.asarray(array) for array in report.sums.values()]
        if not whole or not all(array.dtype.kind in "iuf" and np.isfinite(array).all() for array in arrays):
            raise PrivatizationError("this report is malformed: it holds finite numbers, of one user at least")
        if not self.codec.possible(report):
            raise PrivatizationError("this report is none that a device of this agreement sends")
        if self.users + report.users > self.episodes:
            raise BudgetExhausted(f"{self.episodes:,} users were declared; no more are taken in")
        for name, array in report.sums.items():
            self._sums[name] += array
        self.users += report.users

    def release(self) -> Release:
        """The estimate from all reports so far."""
        return self.codec.decode(self._sums, self.users)


class LocalPrivatizer:
    """Devices and server in one process: for simulations, and for data that one party holds but wants to treat so.

    Parameters are those of `local_codec` and of `CentralPrivatizer`.
    """

    def __init__(
        self,
        statistic: Statistic,
        guarantee: Guarantee,
        *,
        episodes: int,
        randomizer: Literal["one-step", "additive"] = "one-step",
        calibration: Literal["exact", "published"] = "exact",
        noise: NoiseSource | None = None,
        runs: int = 1,
    ) -> None:
        self.codec: Codec = local_codec(statistic, guarantee, randomizer=randomizer, calibration=calibration)
        self.device = Device(self.codec, noise=noise)
        self.server = LocalServer(self.codec, episodes=episodes, runs=runs)
        self._settings: dict[str, Any] = {"randomizer": randomizer, "calibration": calibration}
        self._closed = False

    @property
    def statistic(self) -> Statistic:
        """What is estimated."""
        return self.codec.statistic

    @property
    def users(self) -> int:
        """See `Privatizer`."""
        return self.server.users

    def until_release(self) -> int | None:
        """See `Privatizer`: every report may be followed by a release."""
        return 1 if self.users < self.server.episodes else None

    def observe(self, episodes: Any) -> None:
        """See `Privatizer`."""
        self._check_open()
        batch = self.statistic.read(episodes)
        if batch.runs != self.server.runs:
            raise PrivatizationError(f"{self.server.runs} runs were declared, and episodes of {batch.runs} came")
        if self.users + batch.number > self.server.episodes:
            raise BudgetExhausted(f"{self.server.episodes:,} users were declared; no more are taken in")
        if batch.number:
            self.server.collect(self.codec.randomize(batch, self.device.noise))

    def release(self) -> Release:
        """See `Privatizer`."""
        self._check_open()
        return self.server.release()

    @property
    def statement(self) -> Statement:
        """See `Privatizer`."""
        return Statement(
            guarantee=self.codec.guarantee,
            calibrations=dict(self.codec.calibrations),
            noise=self.device.noise.name,
            protects=self.device.noise.protects,
            rule=next(iter(self.codec.calibrations.values())).rule,
            users=self.users,
            users_declared=self.server.episodes,
            releases=self.users,
            notes=("Rewards are clamped to the declared range; an episode that cannot be read counts as empty.",),
        )

    def state(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """Arrays and JSON from which `from_state` goes on; this object is closed."""
        self._check_open()
        guarantee = self.codec.guarantee
        meta = {
            "kind": "local",
            "statistic": self.statistic.to_json(),
            "guarantee": {"model": guarantee.model, **vars(guarantee)},
            "episodes": self.server.episodes,
            "runs": self.server.runs,
            "settings": self._settings,
            "noise": self.device.noise.state(),
            "users": self.users,
        }
        self._closed = True
        return {name: array.copy() for name, array in self.server._sums.items()}, meta

    @classmethod
    def from_state(cls, arrays: Mapping[str, NDArray[Any]], meta: Mapping[str, Any]) -> LocalPrivatizer:
        """The privatizer that `state` described."""
        self = cls(
            statistic_from_json(meta["statistic"]),
            guarantee_from_json(meta["guarantee"]),
            episodes=meta["episodes"],
            runs=meta["runs"],
            noise=restored(meta["noise"]),
            **meta["settings"],
        )
        self.server._sums = {name: np.array(array) for name, array in arrays.items()}
        self.server.users = meta["users"]
        return self

    def save(self, path: Path | str) -> None:
        """See `Privatizer`."""
        arrays, meta = self.state()
        try:
            vault.store(path, arrays, meta)
        except Exception:  # nothing was written
            self._closed = False
            raise

    @classmethod
    def load(cls, path: Path | str) -> LocalPrivatizer:
        """Go on from a saved state, and take its file away."""
        return cls.from_state(*vault.consume(path, kind="local"))

    def _check_open(self) -> None:
        if self._closed:
            raise PrivatizationError("this privatizer was saved: load the file to go on")
