"""The central model: one trusted server counts, and releases noisy prefixes (000, CENTRAL-PRIVATIZER; 003; 001)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tacit.privacy import counters
from tacit.privacy.calibration import Calibration, calibrate
from tacit.privacy.counters import CounterDesign, CounterStream, Extent, Mechanism
from tacit.privacy.errors import ErrorLaw, NoError
from tacit.privacy.guarantees import Central, Guarantee, Joint, NonPrivate
from tacit.privacy.noise import NoiseSource, NoNoise, SecureNoise, lattice_scale, restored
from tacit.privacy.statements import Statement, guarantee_from_json
from tacit.privatizers import published, vault
from tacit.privatizers.protocol import BudgetExhausted, PrivatizationError, check_unit
from tacit.releases import Release
from tacit.statistics import Statistic, statistic_from_json

__all__ = ["COUNTERS", "CentralPrivatizer", "design_for"]

# Episodes of all runs that are counted together: few enough for a processor's cache.
_AT_A_TIME = 1024

COUNTERS = ("doubling", "tree", "k-ary", "toeplitz", "blt", "once")


def design_for(name: str, *, episodes: int) -> CounterDesign:
    """A counter by its short name, for K episodes: the releases before episodes 2, …, K, or one after all of them."""
    length = max(episodes - 1, 1)  # after the last episode nobody is left to use a release
    match name:
        case "doubling":
            return counters.doubling(length)
        case "tree":
            return counters.binary_tree(length)
        case "k-ary":
            return counters.balanced_tree(length)
        case "toeplitz":
            return counters.sqrt_toeplitz(length)
        case "blt":
            return counters.blt(length)
        case "once":
            return counters.single(episodes)
    raise PrivatizationError(f"counter must be one of {COUNTERS}, or a design; got {name!r}")


class CentralPrivatizer:
    """Noisy prefix counts under a central or joint guarantee; exact ones under `NonPrivate`.

    Parameters
    ----------
    statistic
        What is counted.
    guarantee
        `Central`, `Joint` or `NonPrivate`.
    episodes
        K: how many users will come, at most.
    counter
        A name from `COUNTERS`, or a design of `tacit.privacy.counters`.
    calibration
        `"exact"`: the least noise that keeps the guarantee. `"published"`: 000's constants; the statement says what
        they spend.
    mechanism
        `"laplace"`, `"gaussian"`, or `"auto"`: the quieter of those that the guarantee allows.
    noise
        `SecureNoise()` unless given. A simulation says so: `SimulationNoise(seed)`.
    runs
        Independent runs side by side, for simulations.
    episodes_per_user
        If the guarantee's unit is "user": how many of the episodes may be one user's. Noise is for all of them, and
        there is one release, after all episodes.

    Examples
    --------
    >>> from tacit.mdp.spec import EpisodeSpec
    >>> from tacit.statistics import TabularStatistic
    >>> spec = EpisodeSpec(states=6, actions=2, horizon=20)
    >>> privatizer = CentralPrivatizer(TabularStatistic(spec=spec), Joint(epsilon=1), episodes=20_000)
    >>> privatizer.until_release()
    40
    >>> print(privatizer.statement)  # doctest: +ELLIPSIS
    Guaranteed: ε = 1 joint differential privacy (pure).
    ...
    """

    def __init__(
        self,
        statistic: Statistic,
        guarantee: Guarantee,
        *,
        episodes: int,
        counter: str | CounterDesign = "doubling",
        calibration: Literal["exact", "published"] = "exact",
        mechanism: Mechanism | Literal["auto"] = "auto",
        noise: NoiseSource | None = None,
        runs: int = 1,
        episodes_per_user: int | None = None,
    ) -> None:
        if not isinstance(guarantee, Central | Joint | NonPrivate):
            raise PrivatizationError(f"a central privatizer keeps Central or Joint guarantees, not {guarantee}")
        check_unit(guarantee, episodes_per_user=episodes_per_user)
        if episodes < 1 or runs < 1:
            raise PrivatizationError(f"episodes and runs must be at least 1; got {episodes} and {runs}")
        self.statistic = statistic
        self.guarantee: Guarantee = guarantee
        self.episodes = episodes = int(episodes)
        self.runs = runs = int(runs)
        self.counter = design_for(counter, episodes=episodes) if isinstance(counter, str) else counter
        self.episodes_per_user = episodes_per_user
        if episodes_per_user is not None and (calibration != "exact" or self.counter != counters.single(episodes)):
            raise PrivatizationError(
                'users with several episodes are for one exactly calibrated release: counter="once"'
            )
        if self.counter.length > episodes:
            raise PrivatizationError(f"the counter releases after {self.counter.length} of {episodes} episodes")
        if any(episodes * (statistic.largest(f) / statistic.unit(f)) > 2.0**62 for f in statistic.families):
            raise PrivatizationError(f"sums of {episodes:,} users do not fit 64 bits on so fine a grid")
        self.calibrations = self._calibrated(calibration, mechanism)
        private = guarantee.kind != "none"
        self.noise: NoiseSource = (noise or SecureNoise()) if private else NoNoise()
        self.users = 0
        self.releases = 0
        self._closed = False
        self._streams: dict[str, CounterStream] = {
            family: self.counter.start(
                noise=self.noise, runs=runs, cells=statistic.cells(family), **self._stream_settings(family)
            )
            for family in statistic.families
        }

    def until_release(self) -> int | None:
        """See `Privatizer`."""
        upcoming = self.counter.next_release(self.users)
        return None if upcoming is None else upcoming - self.users

    def observe(self, episodes: Any) -> None:
        """See `Privatizer`. A batch that reaches over a release is split there."""
        self._check_open()
        batch = self.statistic.read(episodes)
        if batch.runs != self.runs:
            raise PrivatizationError(f"{self.runs} runs were declared, and episodes of {batch.runs} came")
        if self.users + batch.number > self.episodes:
            raise BudgetExhausted(f"{self.episodes:,} users were declared; the guarantee covers no more")
        first = 0
        self._closed = True  # and so it stays if this is interrupted: nobody may be taken in twice
        while first < batch.number:
            to_release = self.until_release()
            last = min(batch.number, first + max(1, _AT_A_TIME // self.runs))
            last = last if to_release is None else min(last, first + to_release)
            released = False
            for family, contribution in self.statistic.contributions(batch.part(first, last)).items():
                released = self._streams[family].add(contribution, items=last - first)
            self.releases += released
            self.users += last - first
            first = last
        self._closed = False

    def release(self) -> Release:
        """See `Privatizer`."""
        self._check_open()
        fields = {family: self._in_real_units(family) for family in self._streams}
        errors = {family: self.error(family) for family in self.statistic.families}
        return self.statistic.release(self._released_at, fields, errors)

    def error(self, family: str, episodes: int | None = None) -> ErrorLaw:
        """The law of a family's error in the latest release, or after so many episodes: known before any data."""
        time = self._released_at if episodes is None else episodes
        calibration = self._calibration_of(family)
        if calibration.mechanism == "none" or time == 0:
            return NoError()
        law = counters.error_at(
            self.counter,
            time,
            mechanism="laplace" if calibration.mechanism == "laplace" else "gaussian",
            scale=calibration.scale,
            unit=self.statistic.unit(family),
        )
        return published.printed(law, calibration, terms=math.log2(max(self.episodes, 2)))

    @property
    def statement(self) -> Statement:
        """See `Privatizer`."""
        return Statement(
            guarantee=self.guarantee,
            calibrations=dict(self.calibrations) if self.guarantee.kind != "none" else {},
            noise=self.noise.name,
            protects=self.noise.protects,
            rule=next(iter(self.calibrations.values())).rule,
            users=self.users,
            users_declared=self.episodes,
            releases=self.releases,
            notes=(
                f"Counter: {self.counter.name} for each number; the last release is of the first "
                f"{self.counter.length:,}.",
                "Rewards are clamped to the declared range; an episode that cannot be read counts as empty.",
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

    def state(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """Arrays and JSON from which `from_state` goes on, once; this object is closed. As secret as the data."""
        self._check_open()
        arrays = {
            f"{family}/{name}": array
            for family, stream in self._streams.items()
            for name, array in stream.arrays().items()
        }
        meta = {
            "kind": "central",
            "statistic": self.statistic.to_json(),
            "guarantee": {"model": self.guarantee.model, **vars(self.guarantee)},
            "episodes": self.episodes,
            "runs": self.runs,
            "counter": self.counter.to_json(),
            "episodes_per_user": self.episodes_per_user,
            "calibrations": {name: calibration.to_json() for name, calibration in self.calibrations.items()},
            "noise": self.noise.state(),
            "users": self.users,
            "releases": self.releases,
        }
        self._closed = True  # what is released must have one future only
        return arrays, meta

    @classmethod
    def from_state(cls, arrays: dict[str, NDArray[Any]], meta: Mapping[str, Any]) -> CentralPrivatizer:
        """The privatizer that `state` described; it draws nothing that was drawn before. `arrays` is emptied: two
        privatizers that went on from it would release the same noise.
        """
        if not arrays:
            raise PrivatizationError("this state has gone on already, and has one future only")
        self = cls.__new__(cls)
        self.statistic = statistic_from_json(meta["statistic"])
        self.guarantee = guarantee_from_json(meta["guarantee"])
        self.episodes, self.runs = meta["episodes"], meta["runs"]
        self.counter = counters.design_from_json(meta["counter"])
        self.calibrations = {name: Calibration.from_json(data) for name, data in meta["calibrations"].items()}
        self.noise = restored(meta["noise"])
        self.users, self.releases = meta["users"], meta["releases"]
        self.episodes_per_user = meta["episodes_per_user"]
        self._closed = False
        self._streams = {}
        for family in self.statistic.families:
            own = {name.split("/")[1]: array for name, array in arrays.items() if name.startswith(f"{family}/")}
            self._streams[family] = self.counter.resume(own, noise=self.noise, **self._stream_settings(family))
        arrays.clear()
        return self

    def save(self, path: Path | str) -> None:
        """See `Privatizer`; `load` goes on from the file."""
        arrays, meta = self.state()
        try:
            vault.store(path, arrays, meta)
        except Exception:  # nothing was written
            self._closed = False
            raise
        self._streams.clear()

    @classmethod
    def load(cls, path: Path | str) -> CentralPrivatizer:
        """Go on from a saved state, and take its file away: it can be loaded once."""
        return cls.from_state(*vault.consume(path, kind="central"))

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Neither copied nor pickled: two copies would release the same noise under different data."""
        raise PrivatizationError("a privatizer cannot be copied: make another, or move it with save and load")

    def _in_real_units(self, family: str) -> NDArray[np.float64]:
        released, unit = self._streams[family].released, self.statistic.unit(family)
        if unit == 1.0 and released.dtype == np.float64:
            released = released.view()
            released.flags.writeable = False  # the counter goes on from it
            return released
        return np.multiply(released, unit, dtype=np.float64)

    @property
    def _released_at(self) -> int:
        return next(iter(self._streams.values())).released_at

    def _calibrated(self, calibration: str, mechanism: Mechanism | Literal["auto"]) -> dict[str, Calibration]:
        if calibration == "published":
            return published.central(self.statistic, self.guarantee, self.counter, self.episodes)
        if calibration != "exact":
            raise PrivatizationError(f'calibration must be "exact" or "published"; got {calibration!r}')
        sensitivity = self.statistic.sensitivity(self.guarantee.neighbours).times(self.episodes_per_user or 1)
        together = " and ".join(self.statistic.families)
        return {together: calibrate(self.guarantee, sensitivity, counter=self.counter, mechanism=mechanism)}

    def _calibration_of(self, family: str) -> Calibration:
        return self.calibrations.get(family) or next(iter(self.calibrations.values()))

    def _stream_settings(self, family: str) -> dict[str, Any]:
        """Scale and extent of a family's counter, in its lattice units."""
        calibration, unit = self._calibration_of(family), self.statistic.unit(family)
        neighbours = self.guarantee.neighbours
        # The families' shares of Δ₂² are free as long as they add up to it.
        share = self.statistic.sensitivity(neighbours).l2 / len(self.statistic.families) ** 0.5
        return {
            "mechanism": "laplace" if calibration.mechanism == "laplace" else "gaussian",
            "scale": lattice_scale(calibration.scale, unit),
            "extent": Extent(
                support=self.statistic.family_sensitivity(family, neighbours).l0,
                norm=share / unit,
                largest=self.statistic.largest(family) / unit,
            ),
        }

    def _check_open(self) -> None:
        if self._closed:
            raise PrivatizationError("this privatizer was saved (load the file to go on), or interrupted in mid-batch")
