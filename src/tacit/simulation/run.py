"""`simulate`: an agent in a world, many independent runs, exact regret.

The policy changes only with a release, so between two releases all episodes of all runs are rolled out at once, and a
policy is evaluated once, exactly. What is kept is one number per run and policy.
"""

from __future__ import annotations

import contextlib
import glob
import itertools
import json
import re
import sys
import time
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.learners import NothingLearnt
from tacit.mdp.rollouts import RolloutSource, Streams
from tacit.online import Agent, Session
from tacit.privacy.noise import SimulationNoise
from tacit.privatizers import vault
from tacit.simulation.engines import Engine, Report, engine_of, results_of
from tacit.simulation.identity import settings_of
from tacit.simulation.progress import Progress, progress_of
from tacit.simulation.results import Result

__all__ = ["forget_checkpoint", "play", "simulate"]

# Episodes of a run that are rolled out at once. It depends on H alone, so that a result does not depend on how many
# runs there are beside.
_STEPS_AT_A_TIME = 1 << 14

# Actions or probabilities of policies that are valued at once.
_NUMBERS_AT_A_TIME = 1 << 17

_SECONDS_BETWEEN_REPORTS = 0.2


def simulate(
    agent: Agent,
    world: RolloutSource,
    *,
    runs: int = 20,
    seed: int = 0,
    engine: Engine | int | None = None,
    progress: bool | Progress | None = None,
    checkpoint: Path | str | None = None,
    checkpoint_every: float = 60.0,
    keep_checkpoint: bool = False,
) -> Result:
    """Play an agent's settings in a world; the agent itself, and its users, stay as they are.

    Parameters
    ----------
    agent
        Its settings are copied; noise is simulated.
    world
        A `TabularMDP`, in which regret is exact, or anything that policies can be rolled out in.
    runs
        Independent runs. Run i depends on the seed and on i, not on how many there are or where they run.
    seed
        Of world, noise and policy, each of which has streams of its own.
    engine
        This process by default. A number shares the runs out among so many processes; or an `Engine`.
    progress
        A bar with an estimate of the time left, on stderr; by default where that is a terminal.
    checkpoint, checkpoint_every
        A file to go on from, should this be cut short; saved every `checkpoint_every` seconds and on Ctrl-C, and
        removed at the end. A simulation cut in two gives the same result as one in one piece.
    keep_checkpoint
        Leave the file where it is, for a caller who calls `forget_checkpoint` once the result is safe.

    Returns
    -------
    The result; after Ctrl-C that of the episodes played so far, with a word on stderr.

    Examples
    --------
    >>> import tacit
    >>> world = tacit.mdp.riverswim(states=4, horizon=8)
    >>> agent = tacit.online.UCBVI(world.spec, episodes=500, privacy=tacit.Joint(epsilon=1))
    >>> result = tacit.simulate(agent, world, runs=3, seed=1)
    >>> result.regret.shape
    (3, 500)
    """
    if not isinstance(agent, Agent) or not hasattr(world, "rollout"):
        raise TypeError(
            "simulate takes an agent, such as UCBVI(world.spec, …), and then a world; "
            f"got {agent if isinstance(agent, type) else type(agent)} and {type(world)}"
        )
    if agent.spec != world.spec:
        raise ValueError(f"the agent was made for {agent.spec}, and the world is {world.spec}")
    runs, seed = whole("runs", runs, least=1), whole("seed", seed, least=0)
    chosen = engine_of(engine)
    bounds = _bounds(runs, chosen.workers, None if checkpoint is None else Path(checkpoint))
    parts = len(bounds) - 1
    tasks = [
        _Part(
            agent=agent,
            world=world,
            seed=seed,
            first=first,
            runs=last - first,
            checkpoint=None if checkpoint is None else _part_of(Path(checkpoint), first, last, runs),
            every=checkpoint_every,
            keep=keep_checkpoint,
        )
        for first, last in itertools.pairwise(bounds)
    ]
    settings = settings_of(agent, world, runs=runs, seed=seed)
    done: dict[int, Result] = {}
    interrupted = False
    shares = np.zeros(parts)
    with progress_of(progress, f"{type(agent).__name__} in {getattr(world, 'name', 'a world')}") as bar:

        def heard(part: int, share: float) -> None:
            shares[part] = share
            bar.update(float(shares @ [task.runs for task in tasks]) / runs)

        try:
            with results_of(chosen, play, tasks, heard) as results:
                done.update(results)
        except KeyboardInterrupt:
            interrupted = True
            if len(done) < parts:
                raise
    joined = Result.joined([done[number] for number in range(parts)], settings)
    if interrupted:
        kept = "" if checkpoint is None or not joined.interrupted else f"; {checkpoint} goes on from there"
        sys.stderr.write(
            f"Stopped after {joined.episodes:,} of {agent.episodes:,} episodes: the result covers these{kept}.\n"
        )
    untaught = [done[n].settings["nothing learnt"] for n in range(parts)]
    if all(untaught):
        warnings.warn(untaught[0], NothingLearnt, stacklevel=2)
    return joined


def whole(name: str, value: Any, *, least: int) -> int:
    """An argument that is a number, checked."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < least:
        raise ValueError(f"{name} must be a whole number of at least {least}; got {value!r}")
    return int(value)


def _bounds(runs: int, workers: int, checkpoint: Path | None) -> list[int]:
    """Where the runs are cut into parts: as they were before, if there are files to go on from."""
    if checkpoint is not None:
        named = re.compile(re.escape(checkpoint.name) + r"\.(\d+)-(\d+)")
        saved = [named.fullmatch(file.name) for file in checkpoint.parent.glob("*.*")]
        ends = {int(end) for match in saved if match for end in match.groups()}
        if ends or checkpoint.exists():
            if max(ends, default=0) > runs:
                raise ValueError(f"{checkpoint} is of another simulation; name another checkpoint, or remove it")
            return sorted({0, runs, *(() if checkpoint.exists() else ends)})
    parts = min(workers, runs)
    return [round(runs * part / parts) for part in range(parts + 1)]


def forget_checkpoint(checkpoint: Path | str) -> None:
    """Remove a checkpoint that was kept, and those of its parts."""
    path = Path(checkpoint)
    path.unlink(missing_ok=True)
    for file in path.parent.glob(f"{glob.escape(path.name)}.*-*"):
        if re.fullmatch(re.escape(path.name) + r"\.\d+-\d+", file.name):
            file.unlink()


def _part_of(checkpoint: Path, first: int, last: int, runs: int) -> Path:
    return checkpoint if last - first == runs else checkpoint.with_name(f"{checkpoint.name}.{first}-{last}")


@dataclass(frozen=True, kw_only=True)
class _Part:
    """Some of the runs."""

    agent: Agent
    world: RolloutSource
    seed: int
    first: int
    runs: int
    checkpoint: Path | None = None
    every: float = 60.0
    keep: bool = False


def play(part: _Part, report: Report) -> Result:
    """Play some runs from the first episode, or from a checkpoint, to the last, or to an interrupt."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always", NothingLearnt)
        game = _Game(part)
        if game.play(report):
            game.forget()
        else:
            game.save()
    nothing = [str(warning.message) for warning in said if issubclass(warning.category, NothingLearnt)]
    for warning in said:
        if not issubclass(warning.category, NothingLearnt):
            warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)
    return game.result(nothing[0] if nothing else "")


class _Game:
    """The loop, and all that it remembers."""

    def __init__(self, part: _Part) -> None:
        agent, world = part.agent, part.world
        self._part = part
        self._exact = hasattr(world, "policy_values")
        self._chunk = max(1, _STEPS_AT_A_TIME // agent.spec.horizon)
        self._streams = Streams(part.seed, part.runs, first=part.first)
        self._played = 0
        self._changes: list[int] = []
        self._values: list[NDArray[np.float64]] = []
        self._unvalued: list[NDArray[Any]] = []  # policies whose values come next
        self._valued = -1  # the update after which a policy was last valued
        saved = part.checkpoint is not None and part.checkpoint.exists()
        self._session: Session = self._resumed() if saved else self._started()
        self._saved_at = time.monotonic()

    def play(self, report: Report) -> bool:
        """Whole batches, each rolled out in pieces, to the last episode; False if told to stop by `report`.

        There, nothing is half done. An interrupt anywhere else goes up, and what was saved before stays.
        """
        agent, world, session, streams = self._part.agent, self._part.world, self._session, self._streams
        total, chunk = agent.episodes, self._chunk
        heard = time.monotonic()
        while self._played < total:
            policy, due = session.policy, session.due
            if self._exact and self._valued != session.updates:  # once, also if it is resumed in the batch's middle
                self._valued = session.updates
                self._changes.append(self._played)
                self._unvalued.append(policy)
                if len(self._unvalued) * policy.size >= _NUMBERS_AT_A_TIME:
                    self._value()
            while self._played < due:
                number = min(chunk, due - self._played)
                episodes = world.rollout(policy, episodes=number, streams=streams)
                if not self._exact:
                    self._changes.append(self._played)
                    self._values.append(episodes.rewards.sum(axis=2).mean(axis=1))
                session.observe(episodes)
                self._played += number
                now = time.monotonic()
                if now - heard > _SECONDS_BETWEEN_REPORTS:
                    heard = now
                    try:
                        report(self._played / total)
                    except KeyboardInterrupt:
                        return self._played == total
                    if self._part.checkpoint is not None and now - self._saved_at > self._part.every:
                        session = self._session = self.save()
        with contextlib.suppress(KeyboardInterrupt):  # too late
            report(1.0)
        return True

    def result(self, nothing_learnt: str) -> Result:
        """Of the episodes played."""
        optimal = getattr(self._part.world, "optimal_value", None) if self._exact else None
        changes, values = self._curve()
        return Result(
            changes=changes,
            values=values,
            episodes=self._played,
            optimal=None if optimal is None else float(optimal),
            settings={"agent": {"episodes": self._part.agent.episodes}, "nothing learnt": nothing_learnt},
            statement=str(self._session.source.statement),
        )

    def save(self) -> Session:
        """To the checkpoint, if there is one; the session goes on as another object, since it has one future only."""
        path = self._part.checkpoint
        if path is None:
            return self._session
        arrays, session = self._session.state()
        changes, values = self._curve()
        meta = {
            "kind": "simulation",
            "settings": self._settings(),
            "session": session,
            "streams": self._streams.state(),
            "played": self._played,
            "valued": self._valued,
        }
        partial = path.with_name(f"{path.name}.partial")
        partial.unlink(missing_ok=True)
        path.parent.mkdir(parents=True, exist_ok=True)
        vault.store(partial, {**arrays, "curve/changes": changes, "curve/values": values}, meta)
        partial.replace(path)
        self._saved_at = time.monotonic()
        own = {name: np.array(array) for name, array in arrays.items()}
        self._session = self._part.agent.resumed_session(own, session, self._streams.policy.take)
        return self._session

    def forget(self) -> None:
        """The end has been reached."""
        if self._part.checkpoint is not None and not self._part.keep:
            self._part.checkpoint.unlink(missing_ok=True)

    def _started(self) -> Session:
        part = self._part
        noise = SimulationNoise(part.seed, first=part.first)
        return part.agent.session(noise=noise, runs=part.runs, uniforms=self._streams.policy.take)

    def _resumed(self) -> Session:
        path = self._part.checkpoint
        assert path is not None
        arrays, meta = vault.consume(path, kind="simulation")
        vault.store(path, arrays, meta)  # until the next one
        if meta["settings"] != self._settings():
            raise ValueError(f"{path} is of another simulation; name another checkpoint, or remove it")
        self._streams.restore(meta["streams"])
        self._played, self._valued = meta["played"], meta["valued"]
        self._changes = [int(change) for change in arrays.pop("curve/changes")]
        self._values = list(arrays.pop("curve/values").T)
        return self._part.agent.resumed_session(arrays, meta["session"], self._streams.policy.take)

    def _settings(self) -> dict[str, Any]:
        part = self._part
        settings = settings_of(part.agent, part.world, runs=part.runs, seed=part.seed)
        settings["world"].pop("name")
        return json.loads(json.dumps({**settings, "first": part.first}))  # type: ignore[no-any-return]

    def _value(self) -> None:
        """Of all policies since the last time, at once: a policy by itself costs more in calls than in work."""
        if self._unvalued:
            policies = np.concatenate(self._unvalued)
            values: NDArray[np.float64] = self._part.world.policy_values(policies)  # type: ignore[attr-defined]
            self._values.extend(values.reshape(len(self._unvalued), -1))
            self._unvalued.clear()

    def _curve(self) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        self._value()
        if not self._values:
            return np.zeros(1, dtype=np.int64), np.zeros((self._part.runs, 1))
        return np.array(self._changes, dtype=np.int64), np.stack(self._values, axis=1)
