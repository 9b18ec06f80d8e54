"""Sweeps: every combination once, a finished cell never again, and one cell's failure is not the others'."""

import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars
import pytest
from scipy.sparse import csr_array

import tacit
from simulation.cases import PURE, Hears, Stops, Unknown, po, same, small_world, vi
from tacit import Joint, NonPrivate
from tacit.learners import NothingLearnt
from tacit.mdp import Bernoulli, EpisodeSpec, LinearMDP, LinearMixtureMDP, TabularMDP
from tacit.online import UCBPO, UCBVI
from tacit.privatizers import PrivatizationError
from tacit.simulation import Cell, Result, Serial, grid, simulate, sweep, sweeps
from tacit.simulation import run as running
from tacit.simulation.identity import fingerprint

TESTS = Path(__file__).resolve().parents[1]


def cells(world, epsilons=(10, 50, 100)):
    return grid(UCBVI, world, privacy=[Joint(epsilon=e) for e in epsilons], episodes=40, privacy_scale=0.0)


@pytest.fixture
def calls(monkeypatch):
    """Which simulations have been begun."""
    begun, own = [], sweeps.simulate

    def counted(agent, world, **options):
        begun.append(agent)
        return own(agent, world, **options)

    monkeypatch.setattr(sweeps, "simulate", counted)
    return begun


@pytest.fixture
def small_pieces(monkeypatch):
    monkeypatch.setattr(running, "_STEPS_AT_A_TIME", 7 * small_world().spec.horizon)
    monkeypatch.setattr(running, "_SECONDS_BETWEEN_REPORTS", -1.0)


# Grids


def test_a_grid_is_every_combination_once():
    worlds = [small_world(seed=1), small_world(seed=2)]
    privacy = [NonPrivate(), Joint(epsilon=1), Joint(epsilon=10)]
    made = grid([UCBVI, UCBPO], worlds, privacy=privacy, episodes=[30, 50], confidence=0.2)
    found = {
        (type(c.agent), worlds.index(c.world), privacy.index(c.agent.privacy), c.agent.episodes, c.agent.confidence)
        for c in made
    }
    assert found == {
        (kind, w, p, K, 0.2) for kind in (UCBVI, UCBPO) for w in (0, 1) for p in (0, 1, 2) for K in (30, 50)
    }
    assert len(made) == 24
    assert len({cell.name for cell in made}) == 24
    assert all(cell.agent.spec == cell.world.spec for cell in made)
    assert made[0].labels == {
        "agent": "UCBVI",
        "world": "random 3×2",
        "privacy": "no privacy",
        "episodes": "30",
    }
    assert made[-1].labels["world"] == "random 3×2 (2)"  # two of one name


def test_labels_name_only_what_differs():
    (only,) = grid(UCBVI, small_world(), privacy=[PURE], episodes=40)
    assert only.labels == {}
    assert only.name == "UCBVI"
    assert [c.labels for c in grid(UCBVI, small_world(), privacy=PURE, episodes=[3, 4])] == [
        {"episodes": "3"},
        {"episodes": "4"},
    ]


def test_impossible_combinations_raise_what_the_agent_raises():
    with pytest.raises(PrivatizationError, match='published calibration is for schedule="every-episode"'):
        grid(UCBVI, small_world(), privacy=PURE, episodes=40, calibration=["exact", "published"])
    with pytest.raises(TypeError, match="eta_scale"):
        grid([UCBPO, UCBVI], small_world(), privacy=PURE, episodes=40, eta_scale=[1.0, 2.0])


# Sweeps


def test_each_cell_is_the_simulation_by_itself(tmp_path):
    world = small_world()
    found = sweep(cells(world), folder=tmp_path, runs=2, seed=3, engine=1)
    assert found.unfinished == 0
    for cell, result in zip(found.cells, found.results, strict=True):
        alone = simulate(cell.agent, world, runs=2, seed=3)
        assert np.array_equal(result.values, alone.values)
        assert result.statement == alone.statement
    kept = sorted(path.suffix for path in tmp_path.iterdir())
    assert kept == [".csv"] + [".json"] * 3 + [".parquet"] * 3


def test_processes_give_what_one_process_gives(tmp_path):
    world, heard = small_world(), Hears()
    alone = sweep(cells(world), folder=tmp_path / "one", runs=2, engine=Serial())
    apart = sweep(cells(world), folder=tmp_path / "two", runs=2, engine=2, progress=heard)
    assert all(same(*pair) for pair in zip(alone.results, apart.results, strict=True))
    assert heard.shares[-1] == pytest.approx(1.0)
    assert heard.shares == sorted(heard.shares)
    names = [{path.name for path in (tmp_path / folder).iterdir()} for folder in ("one", "two")]
    assert names[0] == names[1]


def test_a_finished_cell_is_never_run_again(tmp_path, calls):
    world = small_world()
    first = sweep(cells(world), folder=tmp_path, runs=2, engine=1)
    assert len(calls) == 3
    before = {path: path.stat().st_mtime_ns for path in tmp_path.iterdir() if path.suffix != ".csv"}
    again = sweep(cells(small_world()), folder=tmp_path, runs=2, engine=1)
    assert len(calls) == 3
    assert all(same(*pair) for pair in zip(first.results, again.results, strict=True))
    assert {path: path.stat().st_mtime_ns for path in before} == before
    more = grid([UCBVI, UCBPO], world, privacy=[Joint(epsilon=e) for e in (100, 7, 10)], episodes=40, privacy_scale=0.0)
    wider = sweep(more, folder=tmp_path, runs=2, engine=1)  # other labels, another order, more cells
    assert len(calls) == 3 + 4
    assert np.array_equal(wider.results[0].values, first.results[2].values)
    assert np.array_equal(wider.results[2].values, first.results[0].values)
    assert {path: path.stat().st_mtime_ns for path in before} == before


@pytest.mark.parametrize("change", ["runs", "seed", "world", "setting"])
def test_a_changed_setting_is_another_cell_beside_the_old_one(change, tmp_path, calls):
    world = small_world()
    sweep([Cell(agent=vi(world), world=world)], folder=tmp_path, runs=2, engine=1)
    changed = {
        "runs": (vi(world), world, {"runs": 3}),
        "seed": (vi(world), world, {"seed": 1}),
        "world": (vi(world), small_world(seed=9), {}),
        "setting": (vi(world, confidence=0.2), world, {}),
    }
    agent, where, options = changed[change]
    options = {"runs": 2, "seed": 0, **options}
    found = sweep([Cell(agent=agent, world=where)], folder=tmp_path, engine=1, **options)
    assert len(calls) == 2
    assert np.array_equal(found.results[0].values, simulate(agent, where, **options).values)
    assert len(list(tmp_path.glob("*.parquet"))) == 2


def test_the_same_cell_twice_is_run_once_and_shown_twice(tmp_path, calls):
    world = small_world()
    found = sweep([*cells(world, [10]), *cells(world, [10])], folder=tmp_path, runs=2, engine=1)
    assert len(calls) == 1
    assert same(*found.results)


@pytest.mark.usefixtures("small_pieces")
@pytest.mark.parametrize("how", ["Ctrl-C", "button"])
def test_an_interrupted_sweep_keeps_what_is_finished_and_goes_on_from_there(how, tmp_path, calls, capsys):
    world = small_world()
    whole = sweep(cells(world), folder=tmp_path / "whole", runs=2, engine=1)
    calls.clear()
    part = sweep(cells(world), folder=tmp_path / "cut", runs=2, engine=1, progress=Stops(0.5, how=how))
    assert len(calls) == 2
    assert (len(part.results), part.unfinished) == (1, 2)
    assert capsys.readouterr().err == "Stopped: 1 of 3 cells are finished; the same call goes on from there.\n"
    assert len(list((tmp_path / "cut").glob("*.checkpoint"))) == 1
    assert len(part.table) == 1
    finished = sweep(cells(world), folder=tmp_path / "cut", runs=2, engine=1)
    assert len(calls) == 4
    assert all(same(*pair) for pair in zip(finished.results, whole.results, strict=True))
    assert {path.name for path in (tmp_path / "cut").iterdir()} == {
        path.name for path in (tmp_path / "whole").iterdir()
    }


@pytest.mark.usefixtures("small_pieces")
def test_a_cell_that_was_begun_goes_on_under_other_labels_and_another_name_of_its_world(tmp_path):
    world = small_world()
    sweep(cells(world, [10]), folder=tmp_path, runs=2, engine=1, progress=Stops(0.5))
    assert len(list(tmp_path.glob("*.checkpoint"))) == 1
    parts = {name: getattr(world, name) for name in ("spec", "kernel", "rewards", "start")}
    found = sweep(cells(TabularMDP(**parts, name="new"), [50, 10]), folder=tmp_path, runs=2, engine=1)
    assert same(found.results[1], sweep(cells(world, [10]), folder=tmp_path, runs=2, engine=1).results[0])
    assert list(tmp_path.glob("*.checkpoint")) == []


KILLED = """
import os, signal, sys
from simulation.cases import Hears, small_world
from simulation.test_sweeps import cells
from tacit.simulation import sweep

class Dies(Hears):
    def update(self, share):
        if share > 0.6:
            os.kill(os.getpid(), signal.SIGKILL)

sweep(cells(small_world()), folder=sys.argv[1], runs=2, engine=1, progress=Dies())
"""


def test_a_killed_sweep_goes_on_from_the_cells_that_were_finished(tmp_path, calls):
    died = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], cwd=TESTS, capture_output=True, check=False)
    assert died.returncode == -9, died.stderr
    finished = list(tmp_path.glob("*.json"))
    assert len(finished) == 1
    before = finished[0].stat().st_mtime_ns
    found = sweep(cells(small_world()), folder=tmp_path, runs=2, engine=1)
    assert len(calls) == 2
    assert finished[0].stat().st_mtime_ns == before
    assert found.unfinished == 0


@pytest.mark.parametrize("missing", [".json", ".parquet"])
def test_a_cell_of_which_only_one_file_was_written_is_run_again(missing, tmp_path, calls):
    whole = sweep(cells(small_world()), folder=tmp_path, runs=2, engine=1)
    next(tmp_path.glob(f"*{missing}")).unlink()
    again = sweep(cells(small_world()), folder=tmp_path, runs=2, engine=1)
    assert len(calls) == 4
    assert all(same(*pair) for pair in zip(again.results, whole.results, strict=True))


@dataclass(frozen=True, kw_only=True)
class Broken(Unknown):
    """A world in which something goes wrong."""

    def rollout(self, policy, *, episodes, streams):
        raise LookupError("the bridge is out")


@pytest.mark.parametrize("engine", [1, 2])
def test_a_cell_that_fails_is_named_and_the_others_are_kept(engine, tmp_path):
    world = small_world()
    good, bad = cells(world), Cell(agent=vi(world), world=Broken(inner=world), labels={"world": "the broken one"})
    with pytest.raises(
        RuntimeError, match=r"1 of 4 cells failed, the others are kept.*broken one.*bridge is out"
    ) as error:
        sweep([good[0], bad, *good[1:]], folder=tmp_path, runs=2, engine=engine)
    assert "Traceback" in error.value.__notes__[0]
    assert len(list(tmp_path.glob("*.json"))) == 3
    assert len(polars.read_csv(tmp_path / "sweep.csv")) == 3
    whole = sweep(good, folder=tmp_path, runs=2, engine=1)
    assert whole.unfinished == 0


def test_an_agent_in_a_world_of_another_shape_fails_alone(tmp_path):
    world = small_world()
    wrong = Cell(agent=vi(tacit.mdp.riverswim(states=4, horizon=8)), world=world, labels={"agent": "wrong"})
    with pytest.raises(RuntimeError, match=r"1 of 2 cells failed.*wrong: ValueError: the agent was made for"):
        sweep([wrong, *cells(world, [10])], folder=tmp_path, runs=2, engine=1)
    assert len(list(tmp_path.glob("*.json"))) == 1


def test_a_damaged_file_is_named(tmp_path):
    world = small_world()
    sweep(cells(world, [10]), folder=tmp_path, runs=2, engine=1)
    (damaged,) = tmp_path.glob("*.parquet")
    damaged.write_bytes(b"PAR1")
    with pytest.raises(ValueError, match=f"{damaged.name} holds no result of Tacit's"):
        sweep(cells(world, [10]), folder=tmp_path, runs=2, engine=1)


@pytest.mark.parametrize(
    ("options", "message"),
    [({"runs": 0}, "runs must be"), ({"runs": 2.5}, "runs must be"), ({"seed": -1}, "seed must be")],
    ids=str,
)
def test_bad_arguments_are_named_before_anything_is_run(options, message, tmp_path, calls):
    with pytest.raises(ValueError, match=message):
        sweep(cells(small_world()), folder=tmp_path / "new", engine=1, **options)
    assert calls == []


def test_cells_in_which_nothing_is_learnt_are_named_once(tmp_path):
    world = small_world()
    hopeless = grid(UCBVI, world, privacy=[Joint(epsilon=1), Joint(epsilon=2)], episodes=40, bonus_scale=1.0)
    with pytest.warns(NothingLearnt, match=r"nothing was learnt in 2 cells: .*ε = . joint.*; .*ε = . joint") as said:
        sweep(hopeless, folder=tmp_path, runs=2, engine=1)
    assert len(said) == 1


# What comes out


def test_one_table_has_a_row_for_each_cell(tmp_path):
    world = small_world()
    found = sweep(cells(world), folder=tmp_path, runs=2, engine=1)
    table, written = found.table, polars.read_csv(tmp_path / "sweep.csv")
    assert (
        table["privacy"].to_list() == [cell.labels["privacy"] for cell in found.cells] == written["privacy"].to_list()
    )
    for row, result in zip(table.rows(named=True), found.results, strict=True):
        assert row["regret"] == pytest.approx(result.final_regret.mean())
        assert (row["runs"], row["episodes"]) == (2, 40)
    np.testing.assert_allclose(written["regret"], table["regret"])


def test_cells_with_other_labels_and_without_regret_share_a_table(tmp_path):
    world = small_world()
    mixed = [Cell(agent=vi(world), world=world, labels={"a": "x"}), Cell(agent=vi(world), world=Unknown(inner=world))]
    table = sweep(mixed, folder=tmp_path, runs=2, engine=1).table
    assert table["a"].to_list() == ["x", None]
    assert table["regret"].is_null().to_list() == [False, True]


def test_one_figure_has_a_panel_for_each_agent_and_world_and_a_curve_for_each_cell(tmp_path):
    worlds = [small_world(seed=1), small_world(seed=2)]
    privacy = [Joint(epsilon=50), Joint(epsilon=100)]
    found = sweep(
        grid(UCBVI, worlds, privacy=privacy, episodes=40, privacy_scale=0.0), folder=tmp_path, runs=2, engine=1
    )
    figure = found.plot(title="all")
    assert [ax.get_title(loc="left") for ax in figure.axes] == ["random 3×2", "random 3×2 (2)"]
    assert [text.get_text() for text in figure.legends[0].get_texts()[:-1]] == [str(p) for p in privacy]
    by_privacy = found.panels("privacy")
    assert list(by_privacy) == [str(p) for p in privacy]
    assert by_privacy[str(privacy[1])]["random 3×2 (2)"] is found.results[3]
    assert found.panels(["world", "privacy"]).keys() == {f"{w}, {p}" for w in found.panels() for p in privacy}
    assert all(len(curves) == 1 for curves in found.panels(["world", "privacy"]).values())


def test_curves_of_one_label_are_all_drawn(tmp_path):
    world = small_world()
    twins = [
        Cell(agent=vi(world), world=world),
        Cell(agent=po(world), world=world),
        Cell(agent=vi(world, 50), world=world),
    ]
    found = sweep(twins, folder=tmp_path, runs=2, engine=1)
    assert list(found.panels()[""]) == ["UCBVI", "UCBPO", "UCBVI (2)"]


def test_an_empty_sweep_is_empty(tmp_path):
    found = sweep([], folder=tmp_path)
    assert (list(found.results), len(found.table)) == ([], 0)
    with pytest.raises(ValueError, match="no result to plot"):
        found.plot()


# Fingerprints: what a finished cell is found by


def large_world(mean):
    S = 600
    spec = EpisodeSpec(states=S, actions=2, horizon=3, start=0)
    kernel = csr_array((np.ones(2 * S), (np.arange(2 * S), np.arange(2 * S) // 2)), shape=(2 * S, S))
    return TabularMDP(spec=spec, kernel=kernel, rewards=Bernoulli(mean=mean), start=np.eye(S)[0])


@pytest.mark.parametrize("change", [0.1, 1e-12])
def test_every_mean_reward_counts_to_its_last_digit(change):
    mean = np.full((600, 2), 0.5)
    other = mean.copy()
    other[300, 1] += change  # in the midst of what NumPy does not print
    assert fingerprint(large_world(mean)) == fingerprint(large_world(mean.copy()))
    assert fingerprint(large_world(mean)) != fingerprint(large_world(other))


@pytest.mark.parametrize("kind", [LinearMDP, LinearMixtureMDP])
def test_linear_worlds_are_told_apart_by_what_they_are_and_not_where_they_lie(kind):
    script = f"""
from simulation.cases import small_world
from tacit.mdp import {kind.__name__}
from tacit.simulation.identity import fingerprint
print(fingerprint({kind.__name__}.one_hot(small_world())))
"""
    elsewhere = subprocess.run([sys.executable, "-c", script], cwd=TESTS, capture_output=True, text=True, check=True)
    world = small_world()
    assert fingerprint(kind.one_hot(world)) == elsewhere.stdout.strip()
    assert fingerprint(kind.one_hot(world)) != fingerprint(kind.one_hot(small_world(seed=5)))
    assert fingerprint(kind.one_hot(world)) != fingerprint(world)  # in which regret is known


def test_results_can_be_loaded_by_themselves(tmp_path):
    found = sweep(cells(small_world(), [10]), folder=tmp_path, runs=2, engine=1)
    (file,) = tmp_path.glob("*.parquet")
    assert same(Result.load(file), found.results[0])
