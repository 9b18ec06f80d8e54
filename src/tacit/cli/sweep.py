"""`tacit sweep`: a grid of simulations, side by side, of which a finished one is never run again."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tacit.cli.figures import apart
from tacit.cli.grids import grid_of, read_file, whole
from tacit.cli.settings import Settings, option, short
from tacit.cli.shared import (
    INTERRUPTED,
    Jobs,
    Json,
    Mistake,
    Out,
    examples,
    folder,
    number,
    plain_warnings,
    print_json,
    result_console,
    tell,
)

if TYPE_CHECKING:
    from tacit.simulation import Cell, Sweep

__all__ = ["EXAMPLES", "command"]

EXAMPLES = examples(
    (
        "What does privacy cost, and from which ε on? (No privacy is run once.)",
        "tacit sweep --privacy none,joint --epsilon 1,10,100 -K 5000",
    ),
    (
        "Go on after Ctrl-C, or add to it: what is there is not run again.",
        "tacit sweep --privacy none,joint --epsilon 1,10,100,1000 -K 5000",
    ),
    (
        "Both learners in two worlds, where users come and go:",
        'tacit sweep -a ucbvi,ucbpo -w "riverswim,chain(horizon=10)" --rho 1 \\\n'
        "      --episodes 1000,3000 --runs 5 --out tacit-out/worlds",
    ),
)

Listed = list[str] | None


def command(
    agent: Annotated[Listed, option("agent", listed=True)] = None,
    world: Annotated[Listed, option("world", listed=True)] = None,
    episodes: Annotated[Listed, option("episodes", listed=True)] = None,
    privacy: Annotated[Listed, option("privacy", listed=True)] = None,
    epsilon: Annotated[Listed, option("epsilon", listed=True)] = None,
    delta: Annotated[Listed, option("delta", listed=True)] = None,
    rho: Annotated[Listed, option("rho", listed=True)] = None,
    schedule: Annotated[Listed, option("schedule", listed=True)] = None,
    counter: Annotated[Listed, option("counter", listed=True)] = None,
    calibration: Annotated[Listed, option("calibration", listed=True)] = None,
    pooled: Annotated[Listed, option("pooled", listed=True)] = None,
    randomizer: Annotated[Listed, option("randomizer", listed=True)] = None,
    confidence: Annotated[Listed, option("confidence", listed=True)] = None,
    bonus_scale: Annotated[Listed, option("bonus_scale", listed=True)] = None,
    statistical_scale: Annotated[Listed, option("statistical_scale", listed=True)] = None,
    privacy_scale: Annotated[Listed, option("privacy_scale", listed=True)] = None,
    eta_scale: Annotated[Listed, option("eta_scale", listed=True)] = None,
    file: Annotated[
        Path | None, typer.Option(metavar="GRID.toml", help="The same names and lists in a file; options go before it")
    ] = None,
    runs: Annotated[int | None, typer.Option("--runs", "-R", min=1, help="Of each cell (default: 20)")] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="The same for each cell (default: 0)")] = None,
    jobs: Jobs = None,
    out: Out = Path("tacit-out/sweep"),
    as_json: Json = False,
) -> None:
    """A grid of simulations: every combination of what is listed, side by side over all cores.

    Options are those of simulate; lists are separated by commas, or an option is repeated. A setting that means
    nothing in a combination (ε without privacy, say) is left out of it, and the combination is there once. Results
    stay in the folder, and a finished cell is never run again. Ctrl-C keeps them (exit code 130).
    """
    given = {
        "agent": agent,
        "world": world,
        "episodes": episodes,
        "privacy": privacy,
        "epsilon": epsilon,
        "delta": delta,
        "rho": rho,
        "schedule": schedule,
        "counter": counter,
        "calibration": calibration,
        "pooled": pooled,
        "randomizer": randomizer,
        "confidence": confidence,
        "bonus_scale": bonus_scale,
        "statistical_scale": statistical_scale,
        "privacy_scale": privacy_scale,
        "eta_scale": eta_scale,
        "runs": None if runs is None else [str(runs)],
        "seed": None if seed is None else [str(seed)],
    }
    texts = {} if file is None else read_file(file)
    texts |= {name: listed for name, listed in given.items() if listed}
    runs, seed = whole(texts, "runs", default=20, least=1), whole(texts, "seed", default=0, least=0)
    grid = grid_of(texts)
    cells = _cells(grid)
    found = _swept(cells, out=out, runs=runs, seed=seed, jobs=jobs)
    settings_of = {id(cell): settings for cell, settings in zip(cells, grid, strict=True)}
    told = [settings_of[id(cell)] for cell in found.cells]
    files = _written(found, told, out)
    if as_json:
        print_json(
            {
                "cells": [
                    {"settings": settings.given, "summary": result.summary(), "statement": result.statement}
                    for settings, result in zip(told, found.results, strict=True)
                ],
                "unfinished": found.unfinished,
                "runs": runs,
                "seed": seed,
                "files": [str(file) for file in files],
            }
        )
    elif files:
        _show(found, files)
    if found.unfinished:
        raise typer.Exit(INTERRUPTED)


def _cells(grid: Sequence[Settings]) -> list[Cell]:
    """Agents and worlds; what cannot be is told before anything is run, and by its name."""
    from tacit.cli.worlds import world_of
    from tacit.simulation import Cell

    worlds = {settings.world: world_of(settings.world) for settings in grid}
    agents = []
    for settings in grid:
        try:
            agents.append(settings.agent_in(worlds[settings.world]))
        except ValueError as error:
            if type(error).__module__.partition(".")[0] != "tacit":
                raise
            where = ", ".join(f"{name} {value}" for name, value in settings.given.items())
            raise Mistake(f"{error} ({where})" if len(grid) > 1 else str(error)) from None
    told = [
        {
            name: str(value)
            for name, value in settings.given.items()
            if name not in ("privacy", "epsilon", "delta", "rho")
        }
        | {"privacy": short(agent.privacy)}
        for settings, agent in zip(grid, agents, strict=True)
    ]
    differ = apart(told)
    return [
        Cell(agent=agent, world=worlds[settings.world], labels={name: own[name] for name in differ if name in own})
        for settings, agent, own in zip(grid, agents, told, strict=True)
    ]


def _swept(cells: Sequence[Cell], *, out: Path, runs: int, seed: int, jobs: int | None) -> Sweep:
    from tacit.cli.kernels import compiling_is_told

    folder(out)
    with plain_warnings(), compiling_is_told():
        from tacit.simulation import sweep

        found = sweep(cells, folder=out, runs=runs, seed=seed, engine=jobs)
    if found.reused:
        tell(f"{found.reused} of {len(cells)} cells were in {out} already")
    return found


def _written(found: Sweep, told: Sequence[Settings], out: Path) -> list[Path]:
    """All settings and numbers as a table, and all curves as a figure."""
    import polars

    from tacit.cli.figures import draw

    if not found.cells:
        return []
    names = dict.fromkeys(name for settings in told for name in settings.given)
    rows = [
        {name: getattr(settings, name) for name in names} | result.summary()
        for settings, result in zip(told, found.results, strict=True)
    ]
    table = out / "sweep.csv"
    polars.DataFrame(rows, infer_schema_length=None).write_csv(table)
    return [table, draw(found.results, out / "sweep.png")]


def _show(found: Sweep, files: Sequence[Path]) -> None:
    from rich import box
    from rich.table import Table

    console = result_console()
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    labels = dict.fromkeys(name for cell in found.cells for name in cell.labels)
    shown = ("optimal value", "last value", "regret", "std", "share of worst")
    for name in labels:
        table.add_column(name.replace("_", " "), overflow="fold")
    for name in shown:
        table.add_column(name.replace(" ", "\n", 1), justify="right", no_wrap=True)
    for cell, result in zip(found.cells, found.results, strict=True):
        summary = result.summary()
        numbers = ["" if summary[name] is None else number(summary[name]) for name in shown[:-1]]
        share = summary[shown[-1]]
        table.add_row(
            *(cell.labels.get(name, "") for name in labels), *numbers, "" if share is None else f"{share:.1%}"
        )
    runs = found.results[0].runs
    console.print(
        f"{len(found.cells)} of {len(found.cells) + found.unfinished} cells, {runs} run{'s' * (runs > 1)} each; "
        "regret after the last episode, its mean and standard deviation over runs",
        "",
        sep="\n",
        soft_wrap=True,
    )
    console.print(table)
    console.print("\nFiles", *(f"  {file}" for file in files), sep="\n", soft_wrap=True)
