"""One training, many times over: what it costs against the optimum, kept in a small file and never run again."""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.mdp import LinearMDP, Streams, TabularMDP, linear_random, random_mdp, riverswim
from tacit.offline import APVI
from tacit.papers.p001.settings import WORLDS, Curve
from tacit.privacy.guarantees import NonPrivate
from tacit.privacy.noise import SimulationNoise
from tacit.simulation.engines import Engine, Processes, Report, Serial, engine_of, results_of
from tacit.simulation.progress import Progress, progress_of

__all__ = ["Cell", "Found", "baselines", "behaviour", "features", "run_cells", "tabular", "trained"]

Array = NDArray[np.float64]

_EPISODES_AT_A_TIME = 250_000
_VERSION = 1
"""Of what a cell's file means; another number runs everything again."""


@dataclass(frozen=True)
class Cell:
    """A way to train, in a world, on so many episodes, in runs 0, 1, …"""

    place: str
    curve: Curve
    episodes: int
    runs: int
    seed: int

    def settings(self) -> dict[str, Any]:
        """All that its outcome depends on, as plain values."""
        curve, place = self.curve, WORLDS[self.place]
        privacy = {"kind": curve.privacy.kind, "epsilon": _plain(curve.privacy.epsilon), "rho": curve.privacy.rho}
        return {
            "version": _VERSION,
            "world": {"kind": place.kind, **place.settings, "favourite": place.favourite, "first": place.first},
            "trainer": curve.trainer.__name__,
            "privacy": privacy,
            "settings": dict(curve.settings),
            "scaled": curve.scaled,
            "episodes": self.episodes,
            "runs": self.runs,
            "seed": self.seed,
        }

    @property
    def file(self) -> str:
        """By the fingerprint of the settings."""
        text = json.dumps(self.settings(), sort_keys=True, allow_nan=False)
        kept = "".join(letter if letter.isalnum() and letter.isascii() else "-" for letter in self.curve.name.lower())
        slug = "-".join(part for part in kept.split("-") if part)
        return f"{self.place}-{slug}-{self.episodes}-{hashlib.sha256(text.encode()).hexdigest()[:12]}.json"


@dataclass(frozen=True)
class Found:
    """Of a cell: v* − v^π̂ of each run, exact, and what the noise really spends (None: nothing is private)."""

    gaps: tuple[float, ...]
    rho: float | None = None
    epsilon: float | None = None


@lru_cache(maxsize=8)
def _world(place: str, scaled: bool = False) -> LinearMDP | TabularMDP:
    told = WORLDS[place]
    if told.kind == "linear":
        return linear_random(**told.settings, scaled=scaled)
    return riverswim(**told.settings) if told.kind == "river" else random_mdp(**told.settings)


def tabular(place: str) -> TabularMDP:
    """The world, to be rolled out and evaluated."""
    world = _world(place)
    return world.tabular() if isinstance(world, LinearMDP) else world


def features(place: str, *, scaled: bool) -> Array:
    """What linear learners are given, (S, A, d)."""
    world = _world(place, scaled)
    assert isinstance(world, LinearMDP)
    return world.phi


def behaviour(place: str) -> Array:
    """The policy of the logged episodes, (1, H, S, A)."""
    told, spec = WORLDS[place], tabular(place).spec
    policy = np.full((1, spec.horizon, spec.states, spec.actions), (1.0 - told.first) / (spec.actions - 1))
    policy[..., told.favourite] = told.first
    return policy


def baselines(place: str) -> dict[str, float]:
    """The exact gap of what can be done without data."""
    world, logged = tabular(place), behaviour(place)
    lowest = np.zeros_like(logged)
    lowest[..., 0] = 1.0
    policies = {"uniform": np.full_like(logged, 1.0 / world.spec.actions), "behaviour": logged, "lowest": lowest}
    return {name: float(world.optimal_value - world.policy_values(policy)[0]) for name, policy in policies.items()}


def trained(cell: Cell, report: Report = lambda share: None) -> Found:
    """Roll out, train and evaluate. Noise is simulated and seeded: nothing here protects anybody."""
    world, gaps, loss = tabular(cell.place), [], None
    trainer = _trainer(cell)
    side_by_side = max(1, _EPISODES_AT_A_TIME // cell.episodes)
    for first in range(0, cell.runs, side_by_side):
        report(first / cell.runs)
        runs = min(side_by_side, cell.runs - first)
        people = world.rollout(
            behaviour(cell.place), episodes=cell.episodes, streams=Streams(cell.seed, runs=runs, first=first)
        )
        # Other noise for other sizes, and the same people: 1,000 episodes are the first 1,000 of 10,000.
        noise = SimulationNoise(np.random.SeedSequence([cell.seed, cell.episodes, 1]), first=first)
        ties = [np.random.default_rng([cell.seed, cell.episodes, 2, run]) for run in range(first, first + runs)]
        fit = trainer.fit(people, noise=noise, uniforms=_uniforms(ties))
        gaps += (world.optimal_value - world.policy_values(fit.plan.policy)).tolist()
        loss = fit.statement.committed
    if isinstance(cell.curve.privacy, NonPrivate) or loss is None:
        return Found(tuple(gaps))
    return Found(tuple(gaps), rho=loss.rho, epsilon=loss.epsilon)


def _uniforms(generators: list[np.random.Generator]) -> Callable[[tuple[int, ...]], Array]:
    return lambda shape: np.stack([generator.random(shape) for generator in generators])


def _trainer(cell: Cell) -> Any:
    curve, world = cell.curve, tabular(cell.place)
    if issubclass(curve.trainer, APVI):  # 001 knows the rewards
        return curve.trainer(world.spec, privacy=curve.privacy, rewards=world.rewards.mean, **curve.settings)
    phi = features(cell.place, scaled=curve.scaled)
    return curve.trainer(world.spec, features=phi, privacy=curve.privacy, **curve.settings)


def run_cells(
    cells: Iterable[Cell],
    folder: Path,
    *,
    engine: Engine | int | None = None,
    progress: bool | Progress | None = None,
) -> tuple[dict[str, Found], bool]:
    """What was found, by a cell's file, and whether Ctrl-C cut it short: what is in the folder is not run again."""
    folder.mkdir(parents=True, exist_ok=True)
    wanted = {cell.file: cell for cell in cells}
    found = {name: known for name, cell in wanted.items() if (known := _kept(folder / name, cell)) is not None}
    tasks = sorted(
        ((cell, folder / name) for name, cell in wanted.items() if name not in found),
        key=lambda task: task[0].episodes,
        reverse=True,
    )  # the longest first, so that none is left alone at the end
    if engine is None:
        engine = Processes() if len(tasks) > 1 else Serial()
    cost = [cell.episodes + 100.0 for cell, _ in tasks]
    shares = [0.0] * len(tasks)
    interrupted = False
    with progress_of(progress, f"{len(tasks)} of {len(wanted)} trainings") as bar:

        def heard(number: int, share: float) -> None:
            shares[number] = share
            bar.update(float(np.dot(shares, cost)) / sum(cost))

        try:
            with results_of(engine_of(engine), _run, tasks, heard) as results:
                for number, outcome in results:
                    found[tasks[number][0].file] = outcome
                    heard(number, 1.0)
        except KeyboardInterrupt:
            interrupted = True
            for name, cell in wanted.items():  # what was finished while it was told to stop
                if name not in found and (known := _kept(folder / name, cell)) is not None:
                    found[name] = known
    return {name: found[name] for name in wanted if name in found}, interrupted


def _run(task: tuple[Cell, Path], report: Report) -> Found:
    cell, path = task
    found = trained(cell, report)
    told = {
        "settings": cell.settings(),
        "gaps": list(found.gaps),
        "spent": {"rho": _plain(found.rho), "epsilon": _plain(found.epsilon)},
    }
    text = json.dumps(told, indent=1, ensure_ascii=False, allow_nan=False)
    unfinished = path.with_suffix(f".{os.getpid()}.part")
    unfinished.write_text(text + "\n", encoding="utf-8")
    unfinished.replace(path)  # it is there whole or not at all
    return found


def _kept(path: Path, cell: Cell) -> Found | None:
    try:
        told = json.loads(path.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):  # there is none, or somebody has broken it
        return None
    if told.get("settings") != cell.settings():
        return None
    spent = {name: math.inf if value == "∞" else value for name, value in told["spent"].items()}
    return Found(tuple(told["gaps"]), **spent)


def _plain(value: float | None) -> float | str | None:
    """JSON has no infinity: it is "∞", as in results and statements."""
    return "∞" if value == math.inf else value
