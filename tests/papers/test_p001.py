"""001's experiment: its settings, what its noise spends, what is done without data, its figure and its numbers."""

import itertools
import json

import numpy as np
import pytest

from tacit.offline import APVI, PEVI, VAPVI, LinearPVI
from tacit.papers import PAPERS, reproduce
from tacit.papers.p001 import cells as training
from tacit.papers.p001 import figure
from tacit.papers.p001.cells import Cell, baselines, behaviour, features, tabular, trained
from tacit.papers.p001.settings import DEMONSTRATION_RHO, EPSILONS, FULL, PANELS, QUICK, RHOS, WORLDS, Size

PRINTED, SCALED, EXACT, OURS, RIVER, RANDOM = PANELS


def curve(title, name):
    (found,) = (each for each in PANELS[title][1] if each.name == name)
    return found


def gaps(title, name, episodes, *, runs=5, seed=7):
    return np.array(trained(Cell(PANELS[title][0], curve(title, name), episodes, runs, seed)).gaps)


# Settings


def test_the_papers_sizes():
    """K = 5 to 1,000, five runs; and we go on to 100,000."""
    assert {5, 1_000, 100_000} <= set(FULL.episodes)
    assert FULL.runs >= QUICK.runs >= 5
    assert min(FULL.episodes) == min(QUICK.episodes) == 5
    assert max(QUICK.episodes) >= 1_000


def test_the_papers_world_written_out_again():
    world, phi = tabular("linear"), features("linear", scaled=False)
    assert (world.spec.states, world.spec.actions, world.spec.horizon) == (2, 100, 20)
    assert world.start.tolist() == [0.5, 0.5]
    for s, a in itertools.product(range(2), range(100)):
        delta = int((s == 0) == (a == 0))
        assert phi[s, a].tolist() == [*map(int, f"{a:08b}"), delta, 1 - delta]
    # Of r only one number is unknown in each step, and of P two.
    kernel, reward = world.kernel, world.rewards.mean
    r = 2.0 * (reward[:, 0, 0])  # φ(0, 0) = (0, …, 0, 1, 0), and θ's ninth is r/2
    bits = np.array([[int(bit) for bit in f"{a:08b}"] for a in range(100)])
    for h in range(20):
        theta = np.array([r[h] / 8, 0, r[h] / 8, 0.5 - r[h] / 2, r[h] / 8, 0, r[h] / 8, 0])
        for s in range(2):
            delta = np.array([(s == 0) == (a == 0) for a in range(100)])
            last = np.where(delta, r[h] / 2, 0.5 - r[h] / 2)
            assert np.allclose(reward[h, s], bits @ theta + last)
            assert np.allclose(kernel[h, s, :, 0], np.where(delta, kernel[h, 0, 0, 0], kernel[h, 0, 1, 0]))


def test_the_papers_behaviour():
    logged = behaviour("linear")
    assert logged.shape == (1, 20, 2, 100)
    assert np.allclose(logged[..., 0], 0.6)
    assert np.allclose(logged[..., 1:], 0.4 / 99)
    assert np.allclose(behaviour("river")[..., 1], 0.6)  # the one who logs swims


def test_what_is_compared():
    for title, version in ((PRINTED, "published"), (SCALED, "published"), (EXACT, None)):
        for each in PANELS[title][1]:
            if each.privacy.kind == "none":
                assert each.trainer in (PEVI, VAPVI)
                assert each.settings.get("options", {}).get("split", False) is False
            else:
                assert each.trainer is VAPVI
                assert each.settings.get("calibration") == version
                assert each.settings["options"].get("apart", False) == (version is not None)
                assert each.scaled == (title == SCALED)
    asked = {title: [each.privacy.rho for each in curves if each.privacy.rho] for title, (_, curves) in PANELS.items()}
    assert asked[PRINTED] == [*RHOS, DEMONSTRATION_RHO]
    assert asked[SCALED] == asked[EXACT] == asked[OURS] == list(RHOS)
    assert all(each.trainer is LinearPVI for each in PANELS[OURS][1] if each.privacy.kind != "none")
    for title in (RIVER, RANDOM):
        assert all(each.trainer is APVI for each in PANELS[title][1])
        practical = [each for each in PANELS[title][1] if "rule" not in each.settings]
        assert [each.privacy.epsilon for each in practical[1:]] == list(EPSILONS)


# What it spends


def sensitivities(phi):
    """‖φφᵀ − φ'φ'ᵀ‖² and, for targets in [0, 1], ‖φy − φ'y'‖² at their largest: convex, so in the corners."""
    rows = phi.reshape(-1, phi.shape[-1])
    inner = rows @ rows.T
    norms = np.diag(inner)
    gram = norms[:, None] ** 2 + norms[None] ** 2 - 2 * inner**2
    return max(gram.max(), (norms**2).max()), max(norms.max(), (norms[:, None] + norms[None] - 2 * inner).max())


@pytest.mark.parametrize("title", [PRINTED, SCALED])
@pytest.mark.parametrize("rho", RHOS)
def test_what_the_printed_noise_really_spends(title, rho):
    """ρ₀ = ρ/(5H); svec(K) has variance 1/(2ρ₀), φ₁ 2H⁴/ρ₀, φ₂ and φ₃ 2H²/ρ₀; V_{h+1} ≤ H − h at step h = 1, …, H."""
    H = 20
    gram, vector = sensitivities(features("linear", scaled=title == SCALED))
    ahead = np.arange(H)
    per_step = 2 * gram + vector * ((ahead / H) ** 4 + (ahead / H) ** 2 + ((ahead + 1) / H) ** 2) / 4
    found = trained(Cell("linear", curve(title, f"DP-VAPVI, ρ = {rho:g}"), 5, 1, 0))
    assert found.rho == pytest.approx(rho / (5 * H) * per_step.sum(), rel=1e-4)
    assert found.rho / rho == pytest.approx({PRINTED: 23.2, SCALED: 0.52}[title], rel=5e-3)


def test_exact_calibrations_spend_what_is_asked_and_not_more():
    for title, unit in ((EXACT, "rho"), (OURS, "rho"), (RIVER, "epsilon")):
        for each in PANELS[title][1]:
            found = trained(Cell(PANELS[title][0], each, 5, 1, 0))
            if each.privacy.kind == "none":
                assert (found.rho, found.epsilon) == (None, None)
            else:
                asked = getattr(each.privacy, unit)
                assert getattr(found, unit) <= asked * (1 + 1e-9)
                assert getattr(found, unit) == pytest.approx(asked, rel=1e-6)


# Without data


@pytest.mark.parametrize("place", WORLDS)
def test_baselines_are_exact(place):
    """By plain backward induction, state by state."""
    world, logged = tabular(place), behaviour(place)[0]
    S, A, H = world.spec.states, world.spec.actions, world.spec.horizon
    kernel = np.broadcast_to(world.kernel, (H, S, A, S))
    reward = np.broadcast_to(world.rewards.mean, (H, S, A))
    low, high = world.spec.rewards
    assert (low, high) == (0.0, 1.0)
    best, own, even, lowest = (np.zeros(S) for _ in range(4))
    for h in reversed(range(H)):
        q = [reward[h] + kernel[h] @ values for values in (best, own, even, lowest)]
        best, own, even, lowest = q[0].max(axis=1), (q[1] * logged[h]).sum(axis=1), q[2].mean(axis=1), q[3][:, 0]
    told = baselines(place)
    for name, values in (("behaviour", own), ("uniform", even), ("lowest", lowest)):
        assert told[name] == pytest.approx(float(world.start @ (best - values)), rel=1e-12)


# The figure, and all of it


@pytest.fixture
def tiny(monkeypatch):
    monkeypatch.setattr(figure, "QUICK", Size(episodes=(5, 20), runs=2))


def kept(folder):
    return {file.name: file.read_bytes() for file in (folder / "001-quick").iterdir()}


def test_it_writes_figure_and_data_and_runs_nothing_twice(tiny, tmp_path, monkeypatch):
    assert "001" in PAPERS
    done = reproduce("001", quick=True, out=tmp_path, engine=1)
    image, table = done.files
    assert image.read_bytes().startswith(b"\x89PNG\r\n")
    told = json.loads(table.read_text(), parse_constant=pytest.fail)
    assert told == done.data
    wanted = 2 * sum(len(curves) for _, curves in PANELS.values())
    assert (len(told["rows"]), done.unfinished) == (wanted, 0)
    files = kept(tmp_path)
    assert len(files) == wanted - 2 * 3 * 3  # three baselines are in four panels, and run once
    for text in files.values():
        cell = json.loads(text, parse_constant=pytest.fail)
        assert len(cell["gaps"]) == 2
    monkeypatch.setattr(training, "trained", pytest.fail)
    assert reproduce("001", quick=True, out=tmp_path, engine=1) == done
    assert kept(tmp_path) == files


def test_the_prices_are_told(tiny, tmp_path):
    done = reproduce("001", quick=True, out=tmp_path, engine=1)
    assert f"{PRINTED}; really spent: 23.2·ρ" in done.lines
    assert f"{SCALED}; really spent: 0.52·ρ" in done.lines
    assert f"{EXACT}; really spent: ρ" in done.lines
    assert f"{RIVER}; really spent: ε" in done.lines


def test_ctrl_c_keeps_what_is_finished_and_the_same_call_goes_on(tiny, tmp_path, monkeypatch, capsys):
    calls = []

    def counted(cell, report):
        calls.append(cell)
        if len(calls) == 7:
            raise KeyboardInterrupt
        return trained(cell, report)

    monkeypatch.setattr(training, "trained", counted)
    stopped = reproduce("001", quick=True, out=tmp_path, engine=1)
    files = kept(tmp_path)
    assert len(files) == 6
    assert stopped.unfinished > 0
    assert "6 of" in capsys.readouterr().err
    json.loads(stopped.files[1].read_text(), parse_constant=pytest.fail)
    whole = reproduce("001", quick=True, out=tmp_path, engine=1)
    assert len(calls) == 1 + len(kept(tmp_path))
    assert files.items() <= kept(tmp_path).items()
    monkeypatch.setattr(training, "trained", trained)
    assert whole.data == reproduce("001", quick=True, out=tmp_path / "at once", engine=1).data


def test_a_broken_file_is_no_result(tmp_path):
    cell = Cell("river", curve(RIVER, "APVI"), 5, 2, 0)
    found, _ = training.run_cells([cell], tmp_path)
    (tmp_path / cell.file).write_text('{"gaps": [0.1')
    assert training.run_cells([cell], tmp_path)[0] == found


def test_another_seed_is_another_experiment():
    first, again, other = (gaps(EXACT, "DP-VAPVI, ρ = 1", 20, seed=seed) for seed in (1, 1, 2))
    assert (first == again).all()
    assert (first != other).any()


@pytest.mark.parametrize(
    ("title", "name"), [(RANDOM, "DP-APVI, ε = 10"), (PRINTED, "VAPVI"), (PRINTED, "DP-VAPVI, ρ = 1")]
)
def test_a_run_is_the_same_whoever_is_beside_it(title, name, monkeypatch):
    together = gaps(title, name, 100, runs=4)
    monkeypatch.setattr(training, "_EPISODES_AT_A_TIME", 300)
    assert np.allclose(gaps(title, name, 100, runs=4), together)


# Its numbers


def test_dp_vapvi_approaches_vapvi_as_episodes_grow():
    """Printed noise at ρ = 1,000: what privacy costs falls from 3 to .02, give or take .4 in a run."""
    costs = [
        gaps(PRINTED, f"DP-VAPVI, ρ = {DEMONSTRATION_RHO:,g}", number).mean() - gaps(PRINTED, "VAPVI", number).mean()
        for number in (100, 1_000, 10_000)
    ]
    assert costs == sorted(costs, reverse=True)
    assert costs[0] > 2.0
    assert costs[2] < 0.2


def test_the_printed_noise_teaches_nothing_at_the_papers_sizes_and_ours_does():
    uniform = baselines("linear")["uniform"]
    assert gaps(PRINTED, "DP-VAPVI, ρ = 1", 1_000).mean() > 0.6 * uniform
    assert gaps(OURS, "LinearPVI, ρ = 1", 1_000).mean() < 0.15 * uniform


def test_the_theorems_rule_learns_nothing_and_the_practical_one_does():
    uniform = baselines("random")["uniform"]
    assert gaps(RANDOM, "DP-APVI, theorem's rule, ε = 10", 1_000).mean() > 0.8 * uniform
    assert gaps(RANDOM, "DP-APVI, ε = 10", 1_000).mean() < 0.05 * uniform
    assert gaps(RANDOM, "APVI", 1_000).mean() < 0.01 * uniform


@pytest.mark.slow
def test_more_privacy_costs_more_in_the_whole_quick_experiment(tmp_path):
    done = reproduce("001", quick=True, out=tmp_path)
    assert done.unfinished == 0
    mean = {(row["panel"], row["curve"], row["episodes"]): row["gap"] for row in done.data["rows"]}
    for title, number in ((OURS, 100), (OURS, 1_000), (EXACT, 1_000)):
        name = "LinearPVI" if title == OURS else "DP-VAPVI"
        costs = [mean[title, f"{name}, ρ = {rho:g}", number] for rho in RHOS]
        assert costs == sorted(costs, reverse=True)
        assert costs[-1] > mean[title, "VAPVI", number]
