"""Figures. Matplotlib is loaded when one is made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from tacit.simulation.results import Result

__all__ = ["PALETTE", "STYLE", "new_figure", "plot_panels", "plot_regret"]

PALETTE = ("#4c4c4c", "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#8c6bb1", "#a6761d")
"""Colours that most colour-blind people tell apart (Okabe & Ito, and two more)."""

STYLE: Any = {
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e6e6e6",
    "grid.linewidth": 0.8,
    "font.size": 9.5,
    "axes.titlesize": 10.5,
    "legend.frameon": False,
    "legend.fontsize": 8.5,
    "savefig.dpi": 160,
    "figure.dpi": 110,
}

_POINTS = 400


def new_figure(rows: int = 1, columns: int = 1, *, width: float = 4.2, height: float = 3.3, **options: Any) -> Any:
    """A figure without a window, and its axes (rows, columns)."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    with rc_context(STYLE):
        figure = Figure(figsize=(width * columns, height * rows), layout="constrained")
        axes = figure.subplots(rows, columns, squeeze=False, **options)
    return figure, axes


def plot_regret(
    result: Result,
    *,
    ax: Axes | None = None,
    label: str | None = None,
    **line: Any,
) -> Axes:
    """Mean cumulative regret, and one standard deviation over runs to either side."""
    from matplotlib.ticker import MaxNLocator, StrMethodFormatter

    if ax is None:
        ax = new_figure()[1][0, 0]
    if result.optimal is None:
        raise ValueError("the optimal value of this world is not known, so there is no regret to plot")
    times = np.unique(np.linspace(0, result.episodes, _POINTS).astype(np.int64))
    regret = result.regret_at(times)
    mean = regret.mean(axis=0)
    spread = regret.std(axis=0, ddof=1) if result.runs > 1 else np.zeros_like(mean)
    (drawn,) = ax.plot(times, mean, label=label, **{"linewidth": 1.6, **line})
    ax.fill_between(times, mean - spread, mean + spread, color=drawn.get_color(), alpha=0.15, linewidth=0)
    ax.set_xlabel("episodes")
    ax.set_ylabel("cumulative regret")
    ax.set_xlim(0, None, auto=None)  # as it is: limits have to grow with the next curve
    ax.set_ylim(0, None, auto=None)
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_locator(MaxNLocator(5))
        axis.set_major_formatter(StrMethodFormatter("{x:,.0f}" if max(axis.get_view_interval()) >= 5 else "{x:g}"))
    return ax


def plot_panels(
    panels: Mapping[str, Mapping[str, Result]],
    *,
    columns: int | None = None,
    colours: Mapping[str, str] | None = None,
    worst: bool = True,
    title: str | None = None,
    notes: Mapping[str, Sequence[str]] | None = None,
) -> Figure:
    """One panel for each group of results, side by side; a curve has the same look in every panel.

    Panels share their scale, unless there is five times more to lose in one than in another.

    Parameters
    ----------
    panels
        Title of a panel → label of a curve → result.
    columns
        Panels in a row; by default all of them up to three, and four are two by two.
    colours
        Label → colour, where the palette's order will not do.
    worst
        Show, dotted, the regret of never being paid anything.
    title
        Of the figure.
    notes
        Lines below a panel's title.
    """
    if not any(panels.values()):
        raise ValueError("there is no result to plot")
    across = columns or (2 if len(panels) == 4 else min(len(panels), 3))
    down = -(-len(panels) // across)
    losses = [result.episodes * (result.optimal or 0.0) for curves in panels.values() for result in curves.values()]
    figure, axes = new_figure(down, across, sharey="row" if max(losses) <= 5.0 * min(losses) else False)
    labels: list[str] = list(dict.fromkeys(label for curves in panels.values() for label in curves))
    looks = {label: _look(place) for place, label in enumerate(labels)}
    for label, colour in (colours or {}).items():
        looks[label] = {"color": colour}
    handles: dict[str, Any] = {}
    for place, (name, curves) in enumerate(panels.items()):
        ax = axes[place // across, place % across]
        if worst and curves:
            longest = max(curves.values(), key=lambda result: result.episodes)
            best = longest.optimal or 0.0
            (dotted,) = ax.plot(
                [0, longest.episodes], [0, best * longest.episodes], ":", color="#999999", linewidth=1.0
            )
            handles[_WORST] = dotted
        for label, result in curves.items():
            plot_regret(result, ax=ax, label=label, **looks[label])
        if place % across:
            ax.set_ylabel("")
        lines = (notes or {}).get(name, ())
        ax.set_title("\n".join([name, *lines]), loc="left")
    for place in range(len(panels), down * across):
        axes[place // across, place % across].set_axis_off()
    for ax in axes.flat:
        handles |= {label: handle for handle, label in zip(*ax.get_legend_handles_labels(), strict=True)}
    told = [*labels, *([_WORST] if worst else [])]
    room = max(1, int(figure.get_figwidth() / (0.5 + _INCHES_A_LETTER * max(map(len, told)))))
    figure.legend([handles[label] for label in told], told, loc="outside lower center", ncols=min(len(told), room, 4))
    needed = 0.6 + _INCHES_A_LETTER * max(map(len, told))
    if needed > figure.get_figwidth():
        figure.set_figwidth(needed)
    if title:
        figure.suptitle(title, x=0.01, ha="left", fontsize=12)
    return figure  # type: ignore[no-any-return]


_WORST = "never paid anything"
_INCHES_A_LETTER = 0.075


def _look(place: int) -> dict[str, str]:
    """Where colours are used up, lines are broken."""
    styles = ("-", "--", "-.")
    return {"color": PALETTE[place % len(PALETTE)], "linestyle": styles[place // len(PALETTE) % len(styles)]}
