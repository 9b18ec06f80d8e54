"""Figures show what they should: mean, spread, labels, and every curve within the axes."""

import numpy as np
import pytest

from simulation.cases import Unknown, random_result, small_world, vi
from tacit.simulation import Result, simulate
from tacit.simulation.plots import PALETTE, plot_panels


def constant(gap, episodes, runs=3):
    values = np.full((runs, 1), 1.0 - gap)
    return Result(changes=np.zeros(1, int), values=values, episodes=episodes, optimal=1.0, settings={}, statement="")


def curves(ax):
    return {line.get_label(): line for line in ax.get_lines() if not line.get_label().startswith("_")}


def within(ax, x, y):
    (left, right), (bottom, top) = ax.get_xlim(), ax.get_ylim()
    return left <= x <= right and bottom <= y <= top


@pytest.mark.parametrize("runs", [1, 5])
def test_a_curve_is_the_mean_and_its_band_one_standard_deviation_to_either_side(runs):
    result, followed = random_result(4, runs=runs, episodes=30)
    regret = np.concatenate([np.zeros((runs, 1)), np.cumsum(3.0 - followed, axis=1)], axis=1)
    ax = result.plot(label="mine", linestyle="--")
    line = curves(ax)["mine"]
    np.testing.assert_array_equal(line.get_xdata(), np.arange(31))
    np.testing.assert_allclose(line.get_ydata(), regret.mean(axis=0), atol=1e-12)
    assert line.get_linestyle() == "--"
    spread = regret.std(axis=0, ddof=1) if runs > 1 else np.zeros(31)
    band = ax.collections[0].get_paths()[0].vertices
    for k in range(31):
        at = band[band[:, 0] == k, 1]
        np.testing.assert_allclose([at.min(), at.max()], regret.mean(axis=0)[k] + [-spread[k], spread[k]], atol=1e-12)
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("episodes", "cumulative regret")


def test_a_long_result_is_drawn_with_few_points_that_begin_and_end_with_it():
    line = curves(constant(0.5, 1_000_000).plot(label="long"))["long"]
    assert len(line.get_xdata()) <= 400
    assert (line.get_xdata()[0], line.get_xdata()[-1]) == (0, 1_000_000)
    assert line.get_ydata()[-1] == pytest.approx(500_000)


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_several_results_fit_in_one_figure_whichever_comes_first(order):
    results = [constant(0.1, 100), constant(0.9, 1000)]
    ax = None
    for place in order:
        ax = results[place].plot(ax=ax, label=str(place))
    assert set(curves(ax)) == {"0", "1"}
    assert within(ax, 100, 10)
    assert within(ax, 1000, 900)
    assert (ax.get_xlim()[0], ax.get_ylim()[0]) == (0, 0)


def test_figures_are_written_without_a_window(tmp_path):
    world = small_world()
    ax = simulate(vi(world), world, runs=2).plot(label="UCB-VI")
    for kind in ("png", "pdf"):
        ax.figure.savefig(tmp_path / f"r.{kind}")
        assert (tmp_path / f"r.{kind}").stat().st_size > 1000


def test_panels_have_titles_notes_one_legend_and_the_same_colour_for_the_same_label():
    small, large = constant(0.1, 100), constant(0.9, 100)
    panels = {"VI": {"quiet": small, "loud": large}, "PO": {"loud": small, "other": large}}
    figure = plot_panels(panels, title="both", notes={"PO": ["a note"]}, colours={"other": "#123456"})
    left, right = figure.axes
    assert [ax.get_title(loc="left") for ax in (left, right)] == ["VI", "PO\na note"]
    assert curves(left)["loud"].get_color() == curves(right)["loud"].get_color() == PALETTE[1]
    assert curves(left)["quiet"].get_color() == PALETTE[0]
    assert curves(right)["other"].get_color() == "#123456"
    assert [text.get_text() for text in figure.legends[0].get_texts()] == [
        "quiet",
        "loud",
        "other",
        "never paid anything",
    ]
    assert figure.get_suptitle() == "both"
    assert left.get_ylim() == right.get_ylim()
    for ax in (left, right):
        assert within(ax, 100, 90)


@pytest.mark.parametrize("worst", [True, False])
def test_a_panel_holds_all_of_its_curves_and_the_worst_regret_if_wanted(worst):
    figure = plot_panels({"": {"small": constant(0.1, 100), "large": constant(0.5, 300)}}, worst=worst)
    (ax,) = figure.axes
    assert within(ax, 300, 150)
    dotted = [line for line in ax.get_lines() if line.get_linestyle() == ":"]
    assert len(dotted) == worst
    if worst:
        assert (dotted[0].get_xdata()[-1], dotted[0].get_ydata()[-1]) == (300, 300.0)
        assert within(ax, 300, 300)
    assert (ax.get_xlim()[0], ax.get_ylim()[0]) == (0, 0)


def test_panels_are_broken_into_rows_and_empty_places_stay_blank():
    figure = plot_panels({str(n): {"one": constant(0.1, 10)} for n in range(5)}, columns=2)
    assert [ax.get_title(loc="left") for ax in figure.axes] == ["0", "1", "2", "3", "4", ""]
    assert [ax.axison for ax in figure.axes] == [True] * 5 + [False]


def test_what_cannot_be_drawn_is_said():
    inner = small_world()
    with pytest.raises(ValueError, match="no regret to plot"):
        simulate(vi(inner), Unknown(inner=inner), runs=1).plot()
    for nothing in ({}, {"a panel": {}}):
        with pytest.raises(ValueError, match="no result to plot"):
            plot_panels(nothing)
