"""000's experiment: its settings, three versions of it, what each spends, its figure and its numbers."""

import itertools
import json
import math
import warnings

import numpy as np
import pytest

import tacit
from tacit.learners import NothingLearnt
from tacit.online import UCBPO, UCBVI
from tacit.papers import PAPERS, reproduce
from tacit.papers.p000 import figure
from tacit.papers.p000.authors import AuthorsUCBPO, AuthorsUCBVI
from tacit.papers.p000.settings import FULL, LEARNERS, PRIVACY, QUICK, VERSIONS, Size, world
from tacit.privacy import Joint, NonPrivate, SimulationNoise
from tacit.simulation import Result, sweeps

THEOREM, EXACT, AUTHORS = (version.name for version in VERSIONS)
FAMILIES = ("transitions", "rewards", "visits")


# Settings


def test_the_papers_settings():
    assert (FULL.episodes, FULL.runs) == (20_000, 20)
    assert QUICK.episodes < FULL.episodes
    assert QUICK.runs < FULL.runs
    assert tuple(LEARNERS) == ("UCB-VI", "UCB-PO")
    asked = [(privacy.model, privacy.epsilon) for privacy in PRIVACY.values() if privacy.kind != "none"]
    assert sorted(asked) == [(model, epsilon) for model in ("joint", "local") for epsilon in (0.1, 1, 10)]
    assert all(privacy.kind == "pure" for name, privacy in PRIVACY.items() if name != "no privacy")
    assert isinstance(PRIVACY["no privacy"], NonPrivate)


def test_the_papers_river():
    place = world()
    assert (place.spec.states, place.spec.actions, place.spec.horizon, place.spec.start) == (6, 2, 20, 0)
    expected = np.zeros((6, 2, 6))
    for s in range(6):
        expected[s, 0, max(s - 1, 0)] = 1.0
        for step, chance in ((1, 0.35), (0, 0.6), (-1, 0.05)) if 0 < s < 5 else ():
            expected[s, 1, s + step] = chance
    expected[0, 1, [0, 1]] = 0.4, 0.6
    expected[5, 1, [5, 4]] = 0.6, 0.4
    assert np.allclose(np.broadcast_to(place.kernel, (*place.kernel.shape[:-3], 6, 2, 6)), expected)
    paid = {(s, a): place.rewards.mean[..., s, a].max() for s in range(6) for a in range(2)}
    assert {pair: mean for pair, mean in paid.items() if mean} == {(0, 0): 0.005, (5, 1): 1.0}


def test_every_version_runs_both_learners_under_every_guarantee():
    assert (THEOREM, EXACT, AUTHORS) == ("theorem's constants", "exact calibration", "authors' public code")
    told = figure.cells(FULL)
    assert {(cell.labels["learner"], cell.labels["version"], cell.labels["privacy"]) for cell in told} == set(
        itertools.product(LEARNERS, (THEOREM, EXACT, AUTHORS), PRIVACY)
    )
    assert len(told) == 42
    for cell in told:
        agent, labels = cell.agent, cell.labels
        assert agent.episodes == 20_000
        assert agent.privacy == PRIVACY[labels["privacy"]]
        assert isinstance(agent, UCBVI if labels["learner"] == "UCB-VI" else UCBPO)
        assert isinstance(agent, AuthorsUCBVI | AuthorsUCBPO) == (labels["version"] == AUTHORS)
        assert agent.schedule == ("doubling" if labels["version"] == EXACT else "every-episode")
        assert agent.calibration == ("published" if labels["version"] == THEOREM else "exact")
        assert agent.statistic.pooled == (labels["version"] != THEOREM)
        if labels["version"] == THEOREM:
            assert agent.bonus_scale == 1.0
            assert getattr(agent, "eta_scale", 1.0) == 1.0


# What they spend


@pytest.mark.parametrize("epsilon", [0.1, 1, 10])
def test_the_theorems_constants_are_the_papers_and_cost_twice_what_they_say(epsilon):
    """Lemmas 5.1 and 5.4: 3H·log K/ε and 3H/ε on three families; each moves by 2H in bit_length(K − 1) nodes."""
    H, K = 20, 20_000
    spent = {cell.labels["privacy"]: (cell.agent, figure._spent(cell)) for cell in figure.cells(FULL)[:7]}
    agent, price = spent[f"joint, ε = {epsilon}"]
    calibrations = agent.privatizer(noise=SimulationNoise(0)).statement.calibrations
    assert sorted(calibrations) == sorted(FAMILIES)
    assert [each.scale for each in calibrations.values()] == pytest.approx([3 * H * math.log2(K) / epsilon] * 3)
    assert price == pytest.approx(3 * (2 * H) * 15 / (3 * H * math.log2(K) / epsilon))
    assert price / epsilon == pytest.approx(2.10, abs=5e-3)
    agent, price = spent[f"local, ε = {epsilon}"]
    calibrations = agent.privatizer(noise=SimulationNoise(0)).statement.calibrations
    assert [each.scale for each in calibrations.values()] == pytest.approx([3 * H / epsilon] * 3)
    assert price / epsilon == pytest.approx(2.0)


def test_the_exact_calibration_spends_what_is_asked_and_not_more():
    for cell in figure.cells(FULL):
        if cell.labels["version"] == EXACT and cell.agent.privacy.kind != "none":
            assert figure._spent(cell) <= cell.agent.privacy.epsilon == pytest.approx(figure._spent(cell), rel=1e-9)


def test_what_the_experiment_spends_in_the_authors_code():
    for cell in figure.cells(FULL):
        if cell.labels["version"] == AUTHORS:
            model, epsilon = cell.agent.privacy.model, cell.agent.privacy.epsilon
            expected = {"joint": 6 * 20 * 19_999 * epsilon, "local": math.inf}.get(model)
            spent = figure._spent(cell)
            assert spent is None if cell.agent.privacy.kind == "none" else spent == pytest.approx(expected)


# The figure, and all of it


@pytest.fixture
def tiny(monkeypatch):
    monkeypatch.setattr(figure, "QUICK", Size(episodes=12, runs=2))


@pytest.fixture
def drawn(monkeypatch):
    figures, plot_panels = [], figure.plot_panels

    def kept(*arguments, **named):
        figures.append(plot_panels(*arguments, **named))
        return figures[-1]

    monkeypatch.setattr(figure, "plot_panels", kept)
    return figures


def test_it_writes_figure_and_data_and_runs_nothing_twice(tiny, tmp_path, monkeypatch):
    done = reproduce("000", quick=True, out=tmp_path, engine=1)
    image, table = done.files
    assert image.read_bytes().startswith(b"\x89PNG\r\n")
    rows = json.loads(table.read_text(), parse_constant=pytest.fail)
    assert (len(rows), done.unfinished) == (42, 0)
    kept = {file.name: file.read_bytes() for file in (tmp_path / "000-quick").glob("*-*")}
    regrets = [Result.load(tmp_path / "000-quick" / name).final_regret.mean() for name in kept if "parquet" in name]
    assert sorted(regrets) == pytest.approx(sorted(row["regret"] for row in rows))
    monkeypatch.setattr(sweeps, "simulate", pytest.fail)
    again = reproduce("000", quick=True, out=tmp_path, engine=1)
    assert again == done
    assert {file.name: file.read_bytes() for file in (tmp_path / "000-quick").glob("*-*")} == kept


def test_the_figure_tells_every_price_and_cuts_none_off(tiny, tmp_path, drawn):
    done = reproduce("000", quick=True, out=tmp_path, engine=1)
    (found,) = drawn
    found.canvas.draw()
    titles = {ax.get_title(loc="left"): ax for ax in found.axes}
    assert len(titles) == 6
    theorem = 3 * 40 * (12 - 1).bit_length() / (60 * math.log2(12))
    prices = {
        THEOREM: (f"joint, really spent: {theorem:.3g}·ε", "local, really spent: 2·ε"),
        EXACT: ("joint, really spent: ε", "local, really spent: ε"),
        AUTHORS: (f"joint, really spent: {6 * 20 * 11:.3g}·ε", "local, really spent: no guarantee (ε = ∞)"),
    }
    for learner, (version, price) in itertools.product(LEARNERS, prices.items()):
        ax = titles["\n".join([f"{learner}, {version}", *price])]
        box = ax._left_title.get_window_extent()
        assert 0 <= box.x0 < box.x1 <= found.bbox.x1
        assert box.y1 <= found.bbox.y1
        assert {line.get_label() for line in ax.lines if not line.get_label().startswith("_")} == set(PRIVACY)
    for version, lines in prices.items():
        assert [line for line in done.lines if line.startswith(f"{version}: ")] == [f"{version}: {p}" for p in lines]


def test_at_full_size_the_figure_says_millions():
    rows = [{"version": AUTHORS, "privacy": "joint, ε = 1", "epsilon asked": 1, "epsilon spent": 2_399_880.0}]
    assert figure._notes(rows, AUTHORS) == ["joint, really spent: 2.4 million·ε"]


def test_another_number_is_no_paper_of_ours(tmp_path):
    assert "000" in PAPERS
    with pytest.raises(ValueError, match="none of the papers"):
        reproduce("0", out=tmp_path)
    assert list(tmp_path.iterdir()) == []


# Its numbers


def regret(kind, privacy, **settings):
    agent = kind(world().spec, episodes=2_000, privacy=privacy, **settings)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NothingLearnt)
        return tacit.simulate(agent, world(), runs=20, seed=11).final_regret.mean()


def test_privacy_costs_regret_and_more_privacy_costs_more():
    """2,000 episodes, 20 runs; neighbours lie seven standard errors apart at least."""
    costs = [regret(UCBVI, privacy) for privacy in (NonPrivate(), Joint(epsilon=10), Joint(epsilon=1))]
    assert costs == sorted(costs)


@pytest.mark.slow
def test_the_quick_experiment_says_what_the_paper_does_not(tmp_path):
    """The theorem's constants learn nothing; the authors' code learns because it keeps no guarantee (Figure 2)."""
    done = reproduce("000", quick=True, out=tmp_path)
    found = {(row["learner"], row["version"], row["privacy"]): row for row in done.data["rows"]}
    assert len(found) == 42
    for (_, version, _), row in found.items():
        if version == THEOREM:
            assert row["share of the worst"] > 0.97
    lost = {key[1:]: row["regret"] for key, row in found.items() if key[0] == "UCB-VI"}
    for version in (EXACT, AUTHORS):
        assert lost[version, "no privacy"] < lost[version, "joint, ε = 1"]
        assert lost[version, "no privacy"] < lost[version, "local, ε = 0.1"]
    assert lost[AUTHORS, "joint, ε = 1"] < lost[AUTHORS, "joint, ε = 0.1"]
    assert lost[AUTHORS, "joint, ε = 1"] < 0.5 * lost[EXACT, "joint, ε = 1"]
