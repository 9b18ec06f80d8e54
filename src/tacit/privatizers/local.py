"""The local model in two halves: a device that randomizes, and a server that never sees a trajectory (000, 002).

What devices say and how it is undone is their *codec* (`tacit.privatizers.codecs`), which is public. Every report is
used in every later prefix sum at no further cost: there is no counter, a release may be made at any time, and a
schedule only says when a new policy is worth while.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tacit.privacy import counters
from tacit.privacy.guarantees import Guarantee
from tacit.privacy.noise import NoiseSource, SecureNoise, restored
from tacit.privacy.statements import AGREED, Statement
from tacit.privatizers import published, vault
from tacit.privatizers.codecs import Codec, Report, codec_from_json, local_codec
from tacit.privatizers.protocol import BudgetExhausted, PrivatizationError
from tacit.releases import Release
from tacit.statistics import Statistic

__all__ = ["Device", "LocalPrivatizer", "LocalSchedule", "LocalServer"]

LocalSchedule = Literal["every-episode", "doubling"]


class Device:
    """The half that runs where the trajectory is: it holds the randomizer, and lets nothing else out."""

    def __init__(self, codec: Codec, *, noise: NoiseSource | None = None) -> None:
        self._codec = codec
        self._noise: NoiseSource = noise or SecureNoise()

    @classmethod
    def from_json(cls, agreement: Mapping[str, Any]) -> Device:
        """A device elsewhere that keeps the agreement of `Device.to_json`."""
        return cls(codec_from_json(agreement))

    def to_json(self) -> dict[str, Any]:
        """The agreement: all that a device must know, and nothing secret."""
        return self._codec.to_json()

    @property
    def noise(self) -> NoiseSource:
        """Where its randomness comes from."""
        return self._noise

    def report(self, episodes: Any) -> Report:
        """Randomize. Whatever the episode is, a report of the same kind comes out.

        Once for each episode: every call spends the guarantee again. If a report was lost, send the same one.
        """
        return self._codec.randomize(self._codec.statistic.read(episodes), self._noise)


class LocalServer:
    """The half that collects reports and releases estimates; it has no method that takes a trajectory.

    Parameters
    ----------
    codec
        The agreement with the devices.
    episodes
        K: how many users will come, at most.
    schedule
        When a new policy is worth while: after `"every-episode"`, or whenever users have doubled (`"doubling"`).
    runs
        Independent runs side by side, for simulations.
    devices
        Where the devices' noise comes from, if that is known; if not, the statement names the agreement.
    """

    def __init__(
        self,
        codec: Codec,
        *,
        episodes: int,
        schedule: LocalSchedule = "every-episode",
        runs: int = 1,
        devices: NoiseSource | None = None,
    ) -> None:
        if episodes < 1 or runs < 1:
            raise PrivatizationError(f"episodes and runs must be at least 1; got {episodes} and {runs}")
        if schedule not in ("every-episode", "doubling"):
            raise PrivatizationError(f'schedule must be "every-episode" or "doubling"; got {schedule!r}')
        self.codec = codec
        self.episodes = int(episodes)
        self.schedule: LocalSchedule = schedule
        self.runs = int(runs)
        self.users = 0
        self.reports = 0
        self._devices = devices
        self._batches = counters.doubling(max(self.episodes - 1, 1)) if schedule == "doubling" else None
        self._sums = {name: np.zeros(shape) for name, shape in codec.shapes(self.runs).items()}
        self._closed = False

    def until_release(self) -> int | None:
        """See `Privatizer`; a release may be made before it is due."""
        if self._batches is None:
            return 1 if self.users < max(self.episodes - 1, 1) else None  # nobody is left to use the last one
        upcoming = self._batches.next_release(self.users)
        return None if upcoming is None else upcoming - self.users

    def collect(self, report: Report) -> None:
        """Add a report. One that no device of this agreement can have sent is refused, and leaves no trace."""
        self._check_open()
        if {name: np.shape(array) for name, array in report.sums.items()} != self.codec.shapes(self.runs):
            raise PrivatizationError("this report belongs to another agreement: its arrays have other shapes")
        whole = isinstance(report.users, int | np.integer) and report.users >= 1
        arrays = [np.asarray(array) for array in report.sums.values()]
        if not whole or not all(array.dtype.kind in "iuf" and np.isfinite(array).all() for array in arrays):
            raise PrivatizationError("this report is malformed: it holds finite numbers, of one user at least")
        if not self.codec.possible(report):
            raise PrivatizationError("this report is none that a device of this agreement sends")
        self._count(int(report.users))
        for name, array in report.sums.items():
            self._sums[name] += array
        self.reports += int(report.users)

    def absent(self, users: int) -> None:
        """So many users have sent nothing, or nothing readable: they are ⊥, and hold their places in the stream."""
        self._check_open()
        if users < 0:
            raise PrivatizationError(f"a number of users is at least 0; got {users}")
        self._count(users)

    def release(self) -> Release:
        """The estimate from all reports so far."""
        self._check_open()
        release = self.codec.decode(self._sums, users=self.users, reports=self.reports)
        calibration = next(iter(self.codec.calibrations.values()))
        if calibration.rule == "exact":
            return release
        laws = {
            family: published.printed(law, calibration, terms=self.episodes)  # type: ignore[arg-type]
            for family, law in release.errors.items()
        }
        return replace(release, errors=laws)

    @property
    def statement(self) -> Statement:
        """See `Privatizer`."""
        calibrations = dict(self.codec.calibrations)
        return Statement(
            guarantee=self.codec.guarantee,
            calibrations=calibrations,
            noise=AGREED if self._devices is None else self._devices.name,
            protects=self._devices is None or self._devices.protects,
            rule=next(iter(calibrations.values())).rule,
            users=self.users,
            users_declared=self.episodes,
            releases=self.users,
            notes=(
                "Rewards are clamped to the declared range; an episode that cannot be read counts as empty.",
                "A device randomizes an episode once; whatever it sends again is the same report.",
                "Whether a device reports is not hidden: let all of them report, those without an episode as well.",
            ),
        )

    def state(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """Arrays and JSON from which `from_state` goes on; this object is closed."""
        self._check_open()
        meta = {
            "kind": "local server",
            "agreement": self.codec.to_json(),
            "episodes": self.episodes,
            "schedule": self.schedule,
            "runs": self.runs,
            "users": self.users,
            "reports": self.reports,
            "devices": None if self._devices is None else self._devices.state(),
        }
        self._closed = True
        return {name: array.copy() for name, array in self._sums.items()}, meta

    @classmethod
    def from_state(cls, arrays: Mapping[str, NDArray[Any]], meta: Mapping[str, Any]) -> LocalServer:
        """The server that `state` described."""
        self = cls(
            codec_from_json(meta["agreement"]),
            episodes=meta["episodes"],
            schedule=meta["schedule"],
            runs=meta["runs"],
            devices=None if meta["devices"] is None else restored(meta["devices"]),
        )
        self._sums = {name: np.array(array) for name, array in arrays.items()}
        self.users, self.reports = meta["users"], meta["reports"]
        return self

    def _count(self, users: int) -> None:
        if self.users + users > self.episodes:
            raise BudgetExhausted(f"{self.episodes:,} users were declared; no more are taken in")
        self.users += users

    def _check_open(self) -> None:
        if self._closed:
            raise PrivatizationError("this was saved: load the file to go on")


class LocalPrivatizer:
    """Devices and server in one process: for simulations, and for data that one party holds but wants to treat so.

    Parameters are those of `local_codec`, `LocalServer` and `CentralPrivatizer`.
    """

    def __init__(
        self,
        statistic: Statistic,
        guarantee: Guarantee,
        *,
        episodes: int,
        randomizer: Literal["one-step", "additive"] = "one-step",
        calibration: Literal["exact", "published"] = "exact",
        schedule: LocalSchedule = "every-episode",
        noise: NoiseSource | None = None,
        runs: int = 1,
    ) -> None:
        codec = local_codec(statistic, guarantee, randomizer=randomizer, calibration=calibration)
        self.device = Device(codec, noise=noise)
        self.server = LocalServer(codec, episodes=episodes, schedule=schedule, runs=runs, devices=self.device.noise)

    @property
    def codec(self) -> Codec:
        """How devices randomize."""
        return self.server.codec

    @property
    def statistic(self) -> Statistic:
        """What is estimated."""
        return self.codec.statistic

    @property
    def users(self) -> int:
        """See `Privatizer`."""
        return self.server.users

    def until_release(self) -> int | None:
        """See `Privatizer`."""
        return self.server.until_release()

    def observe(self, episodes: Any) -> None:
        """See `Privatizer`."""
        self.server._check_open()
        batch = self.statistic.read(episodes)
        if batch.runs != self.server.runs:
            raise PrivatizationError(f"{self.server.runs} runs were declared, and episodes of {batch.runs} came")
        if self.users + batch.number > self.server.episodes:
            raise BudgetExhausted(f"{self.server.episodes:,} users were declared; no more are taken in")
        if batch.number:
            self.server.collect(self.codec.randomize(batch, self.device.noise))

    def release(self) -> Release:
        """See `Privatizer`."""
        return self.server.release()

    @property
    def statement(self) -> Statement:
        """See `Privatizer`."""
        return self.server.statement

    def state(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """Arrays and JSON from which `from_state` goes on; this object is closed."""
        arrays, meta = self.server.state()
        return arrays, {**meta, "kind": "local"}

    @classmethod
    def from_state(cls, arrays: Mapping[str, NDArray[Any]], meta: Mapping[str, Any]) -> LocalPrivatizer:
        """The privatizer that `state` described."""
        self = cls.__new__(cls)
        self.server = LocalServer.from_state(arrays, meta)
        self.device = Device(self.server.codec, noise=self.server._devices)
        return self

    def save(self, path: Path | str) -> None:
        """See `Privatizer`."""
        arrays, meta = self.state()
        try:
            vault.store(path, arrays, meta)
        except Exception:  # nothing was written
            self.server._closed = False
            raise

    @classmethod
    def load(cls, path: Path | str) -> LocalPrivatizer:
        """Go on from a saved state, and take its file away."""
        return cls.from_state(*vault.consume(path, kind="local"))
