"""Figures of results, whose curves are named by what makes them differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tacit.cli.settings import short
from tacit.cli.shared import Mistake

if TYPE_CHECKING:
    from tacit.simulation import Result

__all__ = ["apart", "draw", "facts"]

_PANELS = ("agent", "world", "horizon")
_UNNAMED = ("spec",)


def facts(result: Result) -> dict[str, str]:
    """What a result is of, in the words of a legend."""
    from tacit.privacy.statements import guarantee_from_json

    settings: Mapping[str, Any] = result.settings
    agent = settings["agent"]
    found = {
        "agent": str(agent["agent"]),
        "world": str(settings["world"]["name"]),
        "horizon": f"H = {agent['spec']['horizon']}",
        "privacy": short(guarantee_from_json(agent["privacy"])),
        "episodes": f"K = {agent['episodes']:,}",
    }
    for name, value in agent.items():
        if name not in found and name not in _UNNAMED:
            value = value.get("name", "own") if isinstance(value, Mapping) else value
            found[name] = "" if value is None else f"{name.replace('_', ' ')} {value}"
    found["stopped"] = f"stopped after {result.episodes:,}" if result.interrupted else ""
    found["seed"] = f"seed {settings['seed']}"
    found["fingerprint"] = f"world {settings['world']['fingerprint'][:6]}"  # of two with one name, say
    return found


def apart(several: Sequence[dict[str, str]]) -> list[str]:
    """The names of the facts that are not the same in all results that have them."""
    names = dict.fromkeys(name for told in several for name in told)
    differ = [name for name in names if len({told[name] for told in several if name in told}) > 1]
    return differ if differ == ["fingerprint"] else [name for name in differ if name != "fingerprint"]


def draw(
    results: Sequence[Result], target: Path, *, labels: Sequence[str] | None = None, title: str | None = None
) -> Path:
    """One figure of all results: a panel for each agent and world, and in it a curve for each result.

    `labels` name the curves, one for each result, in place of what makes them differ.
    """
    from matplotlib.figure import Figure

    from tacit.simulation.plots import STYLE, plot_panels

    kinds = Figure().canvas.get_supported_filetypes()
    if target.suffix[1:] not in kinds:
        raise Mistake(f"a figure's name ends in {', '.join(f'.{kind}' for kind in sorted(kinds))}; got {target}")
    told = [facts(result) for result in results]
    differ = apart(told)
    panels: dict[str, dict[str, Result]] = {}
    for place, (result, own) in enumerate(zip(results, told, strict=True)):
        panel = ", ".join(own[name] for name in _PANELS if name in differ) or ", ".join(own[n] for n in _PANELS)
        curve = ", ".join(own[name] for name in differ if name not in _PANELS and own.get(name)) or own["privacy"]
        if labels is not None:
            curve = labels[place]
        curves = panels.setdefault(panel, {})
        curves[curve if curve not in curves else f"{curve} ({len(curves) + 1})"] = result
    figure = plot_panels(panels, title=title)
    target.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(target, dpi=STYLE["savefig.dpi"])
    return target
