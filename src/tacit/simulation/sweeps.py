"""Grids of simulations: side by side over the cores, and a finished cell is never run again.

A cell is an agent, a world, a number of runs and a seed. Its files are named by a fingerprint of exactly that, and are
only there once it is finished: a sweep that was cut short, extended or changed goes on from what is there.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import sys
import traceback
import warnings
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from tacit.learners import NothingLearnt
from tacit.mdp.rollouts import RolloutSource
from tacit.online import Agent
from tacit.simulation.engines import Engine, Report, Serial, engine_of, results_of
from tacit.simulation.identity import settings_of
from tacit.simulation.progress import Progress, progress_of
from tacit.simulation.results import Result
from tacit.simulation.run import simulate, whole

if TYPE_CHECKING:
    import polars
    from matplotlib.figure import Figure

__all__ = ["Cell", "Sweep", "grid", "sweep"]


@dataclass(frozen=True, kw_only=True)
class Cell:
    """One simulation of a sweep; `labels` say how it differs from the others."""

    agent: Agent
    world: RolloutSource
    labels: Mapping[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The labels in one line."""
        return ", ".join(self.labels.values()) or type(self.agent).__name__


def grid(
    agents: Callable[..., Agent] | Sequence[Callable[..., Agent]],
    worlds: RolloutSource | Sequence[RolloutSource],
    **settings: Any,
) -> list[Cell]:
    """All combinations. A setting that is a list is one axis of the grid; anything else holds for all of it.

    Combinations that cannot be, such as a pure guarantee with Gaussian noise only, raise what the agent raises.

    Examples
    --------
    >>> import tacit
    >>> from tacit.simulation import grid
    >>> world = tacit.mdp.riverswim(states=6, horizon=20)
    >>> privacy = [tacit.NonPrivate(), tacit.Joint(epsilon=1), tacit.Joint(epsilon=10)]
    >>> cells = grid([tacit.online.UCBVI, tacit.online.UCBPO], world, privacy=privacy, episodes=1000)
    >>> len(cells), cells[1].name
    (6, 'UCBVI, ε = 1 joint differential privacy (pure)')
    """
    kinds = list(agents) if isinstance(agents, Sequence) else [agents]
    places = list(worlds) if isinstance(worlds, Sequence) else [worlds]
    called: list[str] = []
    for world in places:
        called.append(_another(str(getattr(world, "name", world)), called))
    axes = {name: value for name, value in settings.items() if isinstance(value, list)}
    fixed = {name: value for name, value in settings.items() if name not in axes}
    cells = []
    for kind, (world, name), values in itertools.product(
        kinds, zip(places, called, strict=True), itertools.product(*axes.values())
    ):
        chosen = dict(zip(axes, values, strict=True))
        labels = {"agent": kind.__name__} if len(kinds) > 1 else {}
        if len(places) > 1:
            labels["world"] = name
        labels |= {name: str(value) for name, value in chosen.items() if len(axes[name]) > 1}
        cells.append(Cell(agent=kind(world.spec, **fixed, **chosen), world=world, labels=labels))
    return cells


@dataclass(frozen=True, kw_only=True)
class Sweep:
    """The finished cells of a sweep, in its order; so many of them were in the folder already."""

    cells: Sequence[Cell]
    results: Sequence[Result]
    unfinished: int = 0
    reused: int = 0

    @property
    def table(self) -> polars.DataFrame:
        """One row for each cell: its labels, and what came of it."""
        import polars

        rows = [{**cell.labels, **result.summary()} for cell, result in zip(self.cells, self.results, strict=True)]
        return polars.DataFrame(rows, infer_schema_length=None)

    def panels(self, by: str | Sequence[str] | None = None) -> dict[str, dict[str, Result]]:
        """Results grouped by some labels (by default, the agent and world), named by the others."""
        chosen = ("agent", "world") if by is None else ((by,) if isinstance(by, str) else tuple(by))
        found: dict[str, dict[str, Result]] = {}
        for cell, result in zip(self.cells, self.results, strict=True):
            panel = ", ".join(cell.labels[name] for name in chosen if name in cell.labels)
            curve = ", ".join(value for name, value in cell.labels.items() if name not in chosen)
            curves = found.setdefault(panel, {})
            curves[_another(curve or type(cell.agent).__name__, curves)] = result
        return found

    def plot(self, *, by: str | Sequence[str] | None = None, **options: Any) -> Figure:
        """A panel for each value of the labels `by`; options are those of `plots.plot_panels`."""
        from tacit.simulation.plots import plot_panels

        return plot_panels(self.panels(by), **options)


def sweep(
    cells: Iterable[Cell],
    *,
    folder: Path | str,
    runs: int = 20,
    seed: int = 0,
    engine: Engine | int | None = None,
    progress: bool | Progress | None = None,
) -> Sweep:
    """Run the cells whose results are not in `folder` yet, side by side.

    In a script, call it under `if __name__ == "__main__":`, since processes that run cells import the script; or take
    `engine=1`.

    Parameters
    ----------
    cells
        From `grid`, or made by hand.
    folder
        Where results are kept: for each cell a Parquet and a JSON file (`Result.load`), for all of them `sweep.csv`.
    runs, seed
        See `simulate`; the same for every cell, so that cells meet the same chances.
    engine
        All cores by default.
    progress
        A bar on stderr; by default where that is a terminal.

    Returns
    -------
    The finished cells: all of them, or after Ctrl-C those that were finished, with a word on stderr.

    Raises
    ------
    RuntimeError
        Cells have failed: it names them and says why. The others have been run all the same, and are kept.
    """
    wanted, home = list(cells), Path(folder)
    runs, seed = whole("runs", runs, least=1), whole("seed", seed, least=0)
    home.mkdir(parents=True, exist_ok=True)
    prints = [_fingerprint(cell, runs, seed) for cell in wanted]
    named = {own: _file(home, cell, own) for own, cell in reversed(list(zip(prints, wanted, strict=True)))}
    files = [named[own] for own in prints]
    missing = {
        file: _Task(cell, runs, seed, file) for cell, file in zip(wanted, files, strict=True) if not _is_whole(file)
    }
    tasks = sorted(
        missing.values(), key=_cost, reverse=True
    )  # the longest first, so that none is left alone at the end
    if engine is None:
        from tacit.simulation.engines import Processes

        engine = Processes() if len(tasks) > 1 else Serial()
    total = sum(map(_cost, tasks)) or 1.0
    shares = dict.fromkeys(range(len(tasks)), 0.0)
    untaught: list[str] = []
    failed: list[tuple[str, str]] = []
    interrupted = False
    with progress_of(progress, f"{len(tasks)} of {len(wanted)} cells") as bar:

        def heard(number: int, share: float) -> None:
            shares[number] = share
            bar.update(sum(_cost(tasks[n]) * part for n, part in shares.items()) / total)

        try:
            with results_of(engine_of(engine), _run, tasks, heard) as results:
                for number, outcome in results:
                    heard(number, 1.0)
                    if outcome.nothing_learnt:
                        untaught.append(tasks[number].cell.name)
                    if outcome.error:
                        failed.append((tasks[number].cell.name, outcome.error))
        except KeyboardInterrupt:
            interrupted = True
    finished = [(cell, file) for cell, file in zip(wanted, files, strict=True) if _is_whole(file)]
    found = Sweep(
        cells=[cell for cell, _ in finished],
        results=[Result.load(file) for _, file in finished],
        unfinished=len(wanted) - len(finished),
        reused=sum(file not in missing for file in files),
    )
    if finished:
        found.table.write_csv(home / "sweep.csv")
    if interrupted:
        sys.stderr.write(
            f"Stopped: {len(finished)} of {len(wanted)} cells are finished; the same call goes on from there.\n"
        )
    if untaught:
        warnings.warn(
            f"nothing was learnt in {len(untaught)} cells: {'; '.join(untaught)}", NothingLearnt, stacklevel=2
        )
    if failed:
        reasons = "; ".join(f"{name}: {error.strip().splitlines()[-1]}" for name, error in failed)
        error = RuntimeError(f"{len(failed)} of {len(wanted)} cells failed, the others are kept. {reasons}")
        for name, trace in failed:
            error.add_note(f"In {name}:\n{trace}")
        raise error
    return found


@dataclass(frozen=True)
class _Task:
    cell: Cell
    runs: int
    seed: int
    file: Path


class _Outcome(NamedTuple):
    """Of a cell, whose result is in its files."""

    nothing_learnt: bool = False
    error: str = ""


def _run(task: _Task, report: Report) -> _Outcome:
    """Run a cell to its end and write its files; an interrupted one leaves none, but a checkpoint."""
    try:
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always", NothingLearnt)
            result = simulate(
                task.cell.agent,
                task.cell.world,
                runs=task.runs,
                seed=task.seed,
                engine=_Here(report),
                progress=False,
                checkpoint=task.file.with_suffix(".checkpoint"),
            )
        if result.interrupted:
            raise KeyboardInterrupt
        result.to_parquet(task.file)
    except Exception:  # one cell's failure is not the others'
        return _Outcome(error=traceback.format_exc())
    for warning in said:
        if not issubclass(warning.category, NothingLearnt):
            warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)
    return _Outcome(nothing_learnt=any(issubclass(warning.category, NothingLearnt) for warning in said))


class _Here:
    """In this process, whose interrupts are somebody else's."""

    workers = 1

    def __init__(self, report: Report) -> None:
        self._report = report

    def map(self, function: Any, tasks: Any, *, heard: Any = None) -> Any:
        """See `Engine`."""
        for number, task in enumerate(tasks):
            yield number, function(task, self._report)


def _another(name: str, others: Container[str]) -> str:
    """The name, numbered if others have it already."""
    names = itertools.chain([name], (f"{name} ({number})" for number in itertools.count(2)))
    return next(each for each in names if each not in others)


def _cost(task: _Task) -> float:
    """A guess, for the order and the progress bar: what changes with every episode costs most."""
    agent = task.cell.agent
    often = 20.0 if getattr(agent, "schedule", "") == "every-episode" else 1.0
    return float(agent.episodes * task.runs * often)


def _file(home: Path, cell: Cell, fingerprint: str) -> Path:
    """By its fingerprint alone if it is there, or begun: labels change with the grid around a cell."""
    for suffix in (".json", ".checkpoint"):
        for known in sorted(home.glob(f"*{fingerprint}{suffix}")):
            return known.with_suffix(".parquet")
    return home / f"{_slug(cell.name)}-{fingerprint}.parquet"


def _fingerprint(cell: Cell, runs: int, seed: int) -> str:
    settings = settings_of(cell.agent, cell.world, runs=runs, seed=seed)
    settings["world"].pop("name")
    settings.pop("versions")
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()[:12]


def _slug(name: str) -> str:
    kept = "".join(letter if letter.isalnum() and letter.isascii() else "-" for letter in name.lower())
    return "-".join(part for part in kept.split("-") if part)[:60]


def _is_whole(file: Path) -> bool:
    """The JSON is written last."""
    return file.exists() and file.with_suffix(".json").exists()
