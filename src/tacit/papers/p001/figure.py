"""Run the experiment and draw the figure."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import Any

import numpy as np

from tacit.papers.p001.cells import Cell, Found, baselines, run_cells
from tacit.papers.p001.settings import FULL, PANELS, QUICK, WORLDS, Curve, Size
from tacit.papers.reproduction import Reproduction
from tacit.simulation import Engine
from tacit.simulation.plots import PALETTE, STYLE, new_figure
from tacit.simulation.progress import Progress

__all__ = ["cells", "run"]

Row = dict[str, Any]

# Without privacy grey and green; the darker the blue, the more private; the theorem's rule orange.
_COLOURS = {
    "PEVI, c = 0.001": "#9a9a9a",
    "PEVI, c = 0.01": "#c9c9c9",
    "VAPVI": "#2b2b2b",
    "APVI": "#2b2b2b",
    "APVI, theorem's rule": "#f6b67f",
    "DP-APVI, theorem's rule, ε = 10": "#c4570b",
}
_BLUES = ("#0b3c6f", "#2f86c5", "#8fc1e3", PALETTE[4])
_TABLE = (100, 1_000, 10_000, 100_000)
"""K of the printed table, as far as they were run."""


def cells(size: Size, seed: int = 0) -> list[tuple[str, Cell]]:
    """All trainings of the figure, and the panel that each is in; baselines are in several."""
    return [
        (title, Cell(place, curve, episodes, size.runs, seed))
        for title, (place, curves) in PANELS.items()
        for curve in curves
        for episodes in size.episodes
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
    size = QUICK if quick else FULL
    name = "001-quick" if quick else "001"
    wanted = cells(size, seed)
    found, interrupted = run_cells((cell for _, cell in wanted), out / name, engine=engine, progress=progress)
    total = len({cell.file for _, cell in wanted})
    if interrupted:
        sys.stderr.write(f"Stopped: {len(found)} of {total} cells are finished; the same call goes on from there.\n")
    rows = [_row(title, cell, found[cell.file]) for title, cell in wanted if cell.file in found]
    gaps = {place: baselines(place) for place in WORLDS}
    data = {"paper": "001", "runs": size.runs, "seed": seed, "baselines": gaps, "rows": rows}
    figure, table = out / f"{name}.png", out / f"{name}.json"
    if rows:
        _draw(rows, gaps, size, figure)
        text = json.dumps(data, indent=1, ensure_ascii=False, allow_nan=False)
        table.write_text(text + "\n", encoding="utf-8")
    return Reproduction(
        files=[figure, table] if rows else [],
        lines=_lines(rows, gaps, size),
        data=data,
        unfinished=total - len(found),
    )


def _row(title: str, cell: Cell, found: Found) -> Row:
    privacy, unit = cell.curve.privacy, _unit(cell.curve)
    asked = {"rho": privacy.rho, "epsilon": privacy.epsilon}.get(unit)
    spent = {"rho": found.rho, "epsilon": found.epsilon}.get(unit)
    return {
        "panel": title,
        "world": cell.place,
        "curve": cell.curve.name,
        "episodes": cell.episodes,
        "gap": float(np.mean(found.gaps)),
        "std": float(np.std(found.gaps, ddof=1)) if len(found.gaps) > 1 else 0.0,
        "unit": unit,
        "asked": asked,
        "spent": "∞" if spent == math.inf else spent,
    }


def _unit(curve: Curve) -> str:
    """What its guarantee is in."""
    if curve.privacy.kind == "none":
        return ""
    return "epsilon" if curve.privacy.rho is None else "rho"


def _spent(rows: list[Row], title: str) -> str:
    """What a panel's guarantees are worth, as a factor on what was asked for; the same for all of them."""
    factors = {
        (row["unit"], float(f"{row['spent'] / row['asked']:.3g}"))
        for row in rows
        if row["panel"] == title and row["unit"] and row["spent"] != "∞"
    }
    symbols = {"rho": "ρ", "epsilon": "ε"}
    told = [symbols[unit] if factor == 1.0 else f"{factor:.3g}·{symbols[unit]}" for unit, factor in sorted(factors)]
    return f"really spent: {', '.join(told)}" if told else ""


def _draw(rows: list[Row], gaps: dict[str, dict[str, float]], size: Size, path: Path) -> None:
    from matplotlib import rc_context

    figure, axes = new_figure(2, 3, width=4.3, height=3.9)
    with rc_context(STYLE):
        for ax, (title, (place, curves)) in zip(axes.flat, PANELS.items(), strict=True):
            blues = iter(_BLUES)
            for curve in curves:
                own = sorted(
                    (row for row in rows if row["panel"] == title and row["curve"] == curve.name),
                    key=lambda row: row["episodes"],
                )
                colour = _COLOURS[curve.name] if curve.name in _COLOURS else next(blues)
                if own:
                    _line(ax, own, colour, curve)
            for name, style in (("uniform", ":"), ("behaviour", "--")):
                ax.axhline(gaps[place][name], color="#999999", linewidth=1.0, linestyle=style, label=f"{name} policy")
            if place == "linear" and max(size.episodes) > 1_000:
                ax.axvspan(1_000, max(size.episodes), color="#f6f3ea", zorder=0, linewidth=0)
            ax.set_xscale("log")
            ax.set_xlim(min(size.episodes), max(size.episodes))
            ax.set_ylim(0.0, 1.25 * max(gaps[place]["uniform"], gaps[place]["behaviour"]))
            ax.set_title("\n".join(part for part in (title, _spent(rows, title)) if part), loc="left")
            ax.set_xlabel("episodes K")
        for row in axes:
            row[0].set_ylabel("sub-optimality v* − v of the policy")
        _legends(figure, axes)
        shaded = "; shaded: beyond the paper's K" if max(size.episodes) > 1_000 else ""
        figure.suptitle(f"001, H = 20: mean ± std of {size.runs} runs{shaded}", x=0.01, ha="left", fontsize=12)
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path)


def _line(ax: Any, own: list[Row], colour: str, curve: Curve) -> None:
    sizes, mean, std = (np.array([row[name] for row in own], dtype=float) for name in ("episodes", "gap", "std"))
    style = "-" if curve.privacy.kind != "none" else (0, (4, 1.5))
    ax.plot(sizes, mean, color=colour, linewidth=1.7, linestyle=style, marker=".", markersize=4, label=curve.name)
    ax.fill_between(sizes, mean - std, mean + std, color=colour, alpha=0.13, linewidth=0)


def _legends(figure: Any, axes: Any) -> None:
    """One for the linear world, whose private curves differ in their learner only, and one for the tabular ones."""
    handles: dict[str, Any] = {}
    for ax in axes.flat:
        for handle, label in zip(*ax.get_legend_handles_labels(), strict=True):
            handles.setdefault(label.replace("DP-VAPVI, ρ", "ρ").replace("LinearPVI, ρ", "ρ"), handle)
    figure.legend(handles.values(), handles.keys(), loc="outside lower center", ncols=5)


def _lines(rows: list[Row], gaps: dict[str, dict[str, float]], size: Size) -> list[str]:
    """A table for people: sub-optimality by the number of episodes."""
    sizes = [number for number in size.episodes if number in _TABLE] or list(size.episodes[-4:])
    lines = [f"Sub-optimality v* − v after K episodes, mean ± std of {size.runs} runs:"]
    for title, (place, curves) in PANELS.items():
        spent = _spent(rows, title)
        head = f"{title}; {spent}" if spent else title
        lines += ["", head, f"  {'K =':<34}" + "".join(f"{number:>16,}" for number in sizes)]
        for curve in curves:
            own = {row["episodes"]: row for row in rows if (row["panel"], row["curve"]) == (title, curve.name)}
            texts = [f"{row['gap']:.3f} ± {row['std']:.3f}" if (row := own.get(number)) else "—" for number in sizes]
            lines.append(f"  {curve.name:<34}" + "".join(f"{text:>16}" for text in texts))
        told = ", ".join(f"{name} {gap:.3f}" for name, gap in gaps[place].items())
        lines.append(f"  without data: {told} (lowest: always action 0)")
    return lines
