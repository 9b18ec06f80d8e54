"""DP-APVI on logged trajectories (001, Algorithm 1), and APVI where nothing is private: data in, a policy out."""

from __future__ import annotations

import contextlib
import hashlib
import signal
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit import learners
from tacit.mdp.spec import EpisodeSpec
from tacit.mdp.trajectories import Trajectories
from tacit.offline.fit import Fit
from tacit.privacy.guarantees import Central, Guarantee, NonPrivate
from tacit.privacy.noise import NoiseSource, NoNoise, SecureNoise
from tacit.privatizers import CentralPrivatizer, PrivatizationError, vault
from tacit.statistics import TabularStatistic

if TYPE_CHECKING:
    from tacit.offline.dataset import Dataset

__all__ = ["APVI", "Progress", "source_of", "system_uniforms"]

Progress = Callable[[int, int], None]
"""Told after every batch: episodes read so far, and all of them."""


@dataclass(frozen=True, kw_only=True, eq=False)
class APVI:
    """Pessimistic value iteration on private counts of logged trajectories.

    Parameters
    ----------
    spec
        The public shape of an episode.
    privacy
        `Central`, or `NonPrivate` to compare with.
    rewards
        Known mean rewards in [0, 1], (H|1, S, A): then rewards are not counted, and noise is less. By default they are
        counted with the transitions.
    pooled
        Count over all steps; by default where the world is stationary. The theorem's rule counts per step.
    rule
        `"practical"`: the rule that works at sizes that people have. `"theorem"`: 001's Algorithm 1 with its constants.
    fallback
        What to do where there is no evidence, (H|1, S, A) probabilities. By default the behaviour policy as far as it
        can be seen in the release.
    options
        Further settings of `tacit.learners.APVI`.

    Examples
    --------
    >>> import tacit
    >>> world = tacit.mdp.riverswim(states=3, horizon=5)
    >>> people = world.rollout(np.full((1, 5, 3, 2), 0.5), episodes=200, streams=tacit.mdp.Streams(0, runs=1))
    >>> fit = APVI(spec=world.spec, privacy=Central(epsilon=5)).fit(people)
    >>> fit.policy.probabilities.shape
    (5, 3, 2)
    >>> fit.statement.holds
    True
    """

    spec: EpisodeSpec = field(kw_only=False)
    privacy: Guarantee
    rewards: ArrayLike | None = None
    pooled: bool | None = None
    rule: Literal["practical", "theorem"] = "practical"
    fallback: ArrayLike | None = None
    confidence: float = 0.1
    pessimism_scale: float = 1.0
    options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.privacy, Central | NonPrivate):
            raise PrivatizationError(f"offline training keeps Central guarantees, or none; got {self.privacy}")
        if self.rule == "theorem" and self.pooled:
            raise PrivatizationError("the theorem's rule counts per step: pooled=False")
        _ = self.learner, self.statistic

    @property
    def learner(self) -> learners.APVI:
        """What plans; it sees releases only."""
        known = None if self.rewards is None else np.asarray(self.rewards, dtype=np.float64)
        fallback = None if self.fallback is None else np.asarray(self.fallback, dtype=np.float64)
        return learners.APVI(
            spec=self.spec,
            rewards=known,
            rule=self.rule,
            fallback=fallback,
            confidence=self.confidence,
            pessimism_scale=self.pessimism_scale,
            **self.options,
        )

    @property
    def statistic(self) -> TabularStatistic:
        """What is counted of an episode: 001 counts visits as well."""
        families = ("transitions",) + (() if self.rewards is not None else ("rewards",))
        if self.rule == "theorem":
            return TabularStatistic(spec=self.spec, families=(*families, "visits"), pooled=False)
        return TabularStatistic(spec=self.spec, families=families, pooled=self.pooled)

    def fit(
        self,
        data: Dataset | Trajectories,
        *,
        noise: NoiseSource | None = None,
        uniforms: Callable[[tuple[int, ...]], NDArray[np.float64]] | None = None,
        progress: Progress | None = None,
        checkpoint: Path | str | None = None,
    ) -> Fit:
        """Train on a data set, or on trajectories (runs, episodes, …); one policy for each run.

        Parameters
        ----------
        data
            Read once, batch by batch. Where its schema bounds the episodes of a user, she is the guarantee's unit.
        noise
            Secure unless given; a simulation says so.
        uniforms
            What ties are broken with, shape → (R, *shape); the operating system's entropy unless given.
        progress
            Told after every batch.
        checkpoint
            A file to go on from, should this be cut short: as secret as the data, and gone at the end. It knows which
            files it has read, and refuses others, or the same after a change.
        """
        runs, total, batches, per_user = source_of(data, self.spec)
        privacy = self.privacy if per_user is None else replace(self.privacy, unit="user")
        state = None if checkpoint is None else _Checkpoint(Path(checkpoint), data)
        privatizer = None if state is None else state.loaded()
        if privatizer is None:
            privatizer = CentralPrivatizer(
                self.statistic,
                privacy,
                episodes=total,
                counter="once",
                noise=noise,
                runs=runs,
                episodes_per_user=per_user,
            )
        else:
            found = (privatizer.statistic, privatizer.guarantee, privatizer.episodes, privatizer.episodes_per_user)
            asked = (self.statistic, privacy, total, per_user)
            if found != asked or privatizer.noise.name != _named(privacy, noise):
                assert state is not None
                state.keep(privatizer)
                raise PrivatizationError(f"{checkpoint} is of another training; name another checkpoint, or remove it")
        done = privatizer.users
        try:
            for batch in _after(batches, done):
                with _patience(state is not None):
                    privatizer.observe(batch)
                if progress is not None:
                    progress(privatizer.users, total)
        except BaseException:
            if state is not None and 0 < privatizer.users < total:
                state.keep(privatizer)
            raise
        release: Any = privatizer.release()
        plan = self.learner.plan(release, uniforms or system_uniforms(runs))
        return Fit(spec=self.spec, plan=plan, release=release, statement=privatizer.statement)


def source_of(data: Dataset | Trajectories, spec: EpisodeSpec) -> tuple[int, int, Iterable[Trajectories], int | None]:
    """Runs, episodes of each, batches, and how many episodes one user may have."""
    if isinstance(data, Trajectories):
        runs, total = np.shape(data.rewards)[:2]
        return runs, total, [data], None
    if data.spec != spec:
        raise ValueError(f"training was set up for {spec}, and the data set is of {data.spec}")
    return 1, data.episodes, data.batches(), data.per_user


def _after(batches: Iterable[Trajectories], done: int) -> Iterator[Trajectories]:
    """What comes after so many episodes."""
    for batch in batches:
        number = np.shape(batch.rewards)[1]
        if done < number:
            states, actions, rewards = (column[:, done:] for column in batch)
            yield Trajectories(states, actions, rewards)  # type: ignore[arg-type]
        done = max(0, done - number)


class _Checkpoint:
    """A privatizer in a file, and which data it has read so far: of other data, or in another order, it would count
    some people twice.
    """

    def __init__(self, path: Path, data: Dataset | Trajectories) -> None:
        self._path = path
        if isinstance(data, Trajectories):
            digest = hashlib.sha256()
            for column in data:
                digest.update(np.ascontiguousarray(column).tobytes())
            self._data = digest.hexdigest()
        elif data.identity is None:
            raise PrivatizationError("a checkpoint needs data in files, which can be told from others")
        else:
            self._data = data.identity

    def loaded(self) -> CentralPrivatizer | None:
        """What was kept, once; None if there is nothing."""
        if not self._path.exists():
            return None
        arrays, meta = vault.consume(self._path, kind="training")
        if meta["data"] != self._data:
            vault.store(self._path, arrays, meta)
            raise PrivatizationError(
                f"{self._path} has read other data, or these before they changed: name another checkpoint, or remove it"
            )
        return CentralPrivatizer.from_state(arrays, meta["privatizer"])

    def keep(self, privatizer: CentralPrivatizer) -> None:
        """To a new file; the privatizer is closed."""
        with contextlib.suppress(PrivatizationError):  # it was interrupted in mid-batch, and cannot go on
            arrays, meta = privatizer.state()
            vault.store(self._path, arrays, {"kind": "training", "data": self._data, "privatizer": meta})


@contextlib.contextmanager
def _patience(needed: bool) -> Iterator[None]:
    """Ctrl-C waits until a batch is in: half of it could not be told from the whole."""
    if not needed or threading.current_thread() is not threading.main_thread():
        yield
        return
    pressed: list[int] = []
    before = signal.signal(signal.SIGINT, lambda number, frame: pressed.append(number))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if pressed:
        raise KeyboardInterrupt


def _named(privacy: Guarantee, noise: NoiseSource | None) -> str:
    return NoNoise.name if privacy.kind == "none" else (noise or SecureNoise()).name


def system_uniforms(runs: int) -> Callable[[tuple[int, ...]], NDArray[np.float64]]:
    """By the operating system's entropy: nobody can foresee how ties are broken."""
    generator = np.random.default_rng()
    return lambda shape: generator.random((runs, *shape))
