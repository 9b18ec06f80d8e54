"""Run the experiment and draw the figure."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

from tacit.papers.p000.authors import authors_price
from tacit.papers.p000.settings import FULL, LEARNERS, PRIVACY, QUICK, VERSIONS, Size, world
from tacit.papers.reproduction import Reproduction
from tacit.simulation import Cell, Engine, Sweep, sweep
from tacit.simulation.plots import plot_panels
from tacit.simulation.progress import Progress

__all__ = ["cells", "run"]

# Without privacy grey; joint blue; local orange; the darker, the more private.
_COLOURS = dict(
    zip(PRIVACY, ("#3f3f3f", "#8fc1e3", "#2f86c5", "#0b3c6f", "#f6b67f", "#e07b26", "#8f3d04"), strict=True)
)


def cells(size: Size) -> list[Cell]:
    """All simulations of the figure."""
    place = world()
    return [
        Cell(
            agent=version.agents[kind](
                place.spec,
                episodes=size.episodes,
                privacy=privacy,
                **version.settings,
                **version.learner_settings[kind],
            ),
            world=place,
            labels={"learner": kind, "version": version.name, "privacy": name},
        )
        for version in VERSIONS
        for kind in LEARNERS
        for name, privacy in PRIVACY.items()
    ]


def run(
    *,
    out: Path,
    quick: bool = False,
    seed: int = 0,
    engine: Engine | int | None = None,
    progress: bool | Progress | None = None,
) -> Reproduction:
    """See `tacit.papers.reproduce`."""
    import warnings

    from tacit.learners import NothingLearnt

    size = QUICK if quick else FULL
    name = "000-quick" if quick else "000"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NothingLearnt)  # that is the point of the first column
        done = sweep(cells(size), folder=out / name, runs=size.runs, seed=seed, engine=engine, progress=progress)
    figure, table = out / f"{name}.png", out / f"{name}.json"
    rows = _rows(done)
    if rows:
        _draw(done, size, figure)
        text = json.dumps([_told(row) for row in rows], indent=1, ensure_ascii=False, allow_nan=False)
        table.write_text(text + "\n", encoding="utf-8")
    return Reproduction(
        files=[figure, table] if rows else [],
        lines=_lines(rows, size),
        data={"paper": "000", "episodes": size.episodes, "runs": size.runs, "seed": seed, "rows": rows},
        unfinished=done.unfinished,
    )


def _rows(done: Sweep) -> list[dict[str, Any]]:
    rows = []
    for cell, result in zip(done.cells, done.results, strict=True):
        final = result.final_regret
        rows.append(
            {
                **cell.labels,
                "regret": float(final.mean()),
                "std": float(final.std(ddof=1)),
                "share of the worst": float(final.mean() / ((result.optimal or math.nan) * result.episodes)),
                "epsilon asked": cell.agent.privacy.epsilon,
                "epsilon spent": _spent(cell),
            }
        )
    return rows


def _told(row: dict[str, Any]) -> dict[str, Any]:
    """JSON has no infinity: it is "∞", as in results and statements."""
    return {name: "∞" if value == math.inf else value for name, value in row.items()}


def _spent(cell: Cell) -> float | None:
    """The ε that the noise really costs; None without privacy."""
    agent = cell.agent
    if agent.privacy.kind == "none":
        return None
    if cell.labels["version"].startswith("authors"):
        return authors_price(agent.statistic, agent.privacy, agent.episodes).loss.epsilon  # type: ignore[attr-defined]
    source = agent.server() if agent.privacy.model == "local" else agent.privatizer()
    return source.statement.committed.epsilon


def _notes(rows: list[dict[str, Any]], version: str) -> list[str]:
    """What the guarantee of a version is worth, in lines short enough for a panel's width."""
    notes = []
    for model in ("joint", "local"):
        factors = {
            row["epsilon spent"] / row["epsilon asked"]
            for row in rows
            if row["version"] == version and row["privacy"].startswith(model)
        }
        if factors:
            notes.append(f"{model}, really spent: {_factor(max(factors))}")
    return notes


def _factor(factor: float) -> str:
    if math.isinf(factor):
        return "no guarantee (ε = ∞)"
    if abs(factor - 1.0) < 1e-6:
        return "ε"
    return f"{factor:.3g}·ε" if factor < 1e4 else f"{factor / 1e6:.2g} million·ε"


def _draw(done: Sweep, size: Size, path: Path) -> None:
    rows = _rows(done)
    panels, notes = {}, {}
    for kind in LEARNERS:
        for version in VERSIONS:
            title = f"{kind}, {version.name}"
            panels[title] = {
                cell.labels["privacy"]: result
                for cell, result in zip(done.cells, done.results, strict=True)
                if (cell.labels["learner"], cell.labels["version"]) == (kind, version.name)
            }
            notes[title] = _notes(rows, version.name)
    figure = plot_panels(
        panels,
        columns=len(VERSIONS),
        colours=_COLOURS,
        notes=notes,
        title=f"RiverSwim, S = 6, A = 2, H = 20: mean ± std of {size.runs} runs",
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)


def _lines(rows: list[dict[str, Any]], size: Size) -> list[str]:
    """A table for people: cumulative regret after all episodes."""
    lines = [f"Cumulative regret after {size.episodes:,} episodes, mean ± std of {size.runs} runs:"]
    for kind in LEARNERS:
        lines += ["", kind, f"  {'':<16}" + "".join(f"{version.name:>26}" for version in VERSIONS)]
        for privacy in PRIVACY:
            found = {row["version"]: row for row in rows if (row["learner"], row["privacy"]) == (kind, privacy)}
            texts = [
                f"{row['regret']:,.0f} ± {row['std']:,.0f}" if (row := found.get(version.name)) else "—"
                for version in VERSIONS
            ]
            lines.append(f"  {privacy:<16}" + "".join(f"{text:>26}" for text in texts))
    lines += [""]
    for version in VERSIONS:
        lines += [f"{version.name}: {note}" for note in _notes(rows, version.name)]
    return lines
