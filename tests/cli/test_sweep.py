"""`tacit sweep`: every combination that means something, once; what is finished stays and is never run again."""

import json

import numpy as np
import polars
import pytest
from commands import assert_mistake, document, invoke, remarks, rollouts, simulated

import tacit
from tacit.cli.grids import split
from tacit.simulation import Result, sweeps

WORLD = ("-w", "riverswim(states=3, horizon=5)")
SMALL = (*WORLD, "-K", "100", "--runs", "2")
THREE = (*SMALL, "--epsilon", "1,2,4")


def sweep(out, *arguments):
    return invoke("sweep", *arguments, "--jobs", "1", "--out", out)


def contents(folder):
    """Of the results; what is drawn and tabulated from all of them may change."""
    return {file.name: file.read_bytes() for file in folder.iterdir() if not file.name.startswith("sweep.")}


def settings(told):
    return [cell["settings"] for cell in told["cells"]]


# The grid


def test_every_combination_is_the_librarys_own_simulation(tmp_path):
    told = document(sweep(tmp_path, *SMALL, "-a", "ucbvi,ucbpo", "-p", "none,joint", "--epsilon", "2", "--json"))
    world = tacit.mdp.riverswim(states=3, horizon=5)
    found = {(cell["settings"]["agent"], cell["settings"]["privacy"]): cell for cell in told["cells"]}
    assert len(told["cells"]) == len(found) == 4
    for agent, kind in {"ucbvi": tacit.online.UCBVI, "ucbpo": tacit.online.UCBPO}.items():
        for name, privacy in {"none": tacit.NonPrivate(), "joint": tacit.Joint(epsilon=2)}.items():
            expected = tacit.simulate(kind(world.spec, episodes=100, privacy=privacy), world, runs=2)
            assert found[agent, name]["summary"] == expected.summary()
            assert found[agent, name]["statement"] == expected.statement
            assert ("epsilon" in found[agent, name]["settings"]) == (name == "joint")


def test_what_means_nothing_is_left_out_and_a_combination_is_there_once(tmp_path):
    call = ("-p", "none,joint,local", "--epsilon", "1,2", "--rho", "3", "--randomizer", "additive", "-K", "10")
    told = document(sweep(tmp_path, *WORLD, "-R", "1", *call, "--json"))
    budgets = [{"epsilon": 1.0}, {"epsilon": 2.0}, {"rho": 3.0}]
    wanted = [{"privacy": "none"}, *({"privacy": "joint"} | budget for budget in budgets)]
    wanted += [{"privacy": "local", "randomizer": "additive"} | budget for budget in budgets]
    common = {"agent": "ucbvi", "world": WORLD[1], "episodes": 10}
    assert sorted(settings(told), key=str) == sorted(({**common, **own} for own in wanted), key=str)


def test_lists_are_commas_or_repeated_options_and_a_worlds_own_commas_are_no_list(tmp_path):
    worlds = ("-w", "riverswim(states=3, horizon=5),chain(states=3, horizon=4)", "-w", "riverswim(states=2)")
    told = document(sweep(tmp_path, *worlds, "-K", "10", "-K", "20", "-R", "1", "-p", "none", "--json"))
    names = ("riverswim(states=3, horizon=5)", "chain(states=3, horizon=4)", "riverswim(states=2)")
    pairs = {(cell["world"], cell["episodes"]) for cell in settings(told)}
    assert pairs == {(world, episodes) for world in names for episodes in (10, 20)}


def test_splitting_respects_brackets_and_quotes():
    assert split("a,b(c=[1,2], d='x,)'),e") == ["a", "b(c=[1,2], d='x,)')", "e"]
    assert split(" 1, 2,,") == ["1", "2"]


def test_a_file_lists_the_same_and_options_go_before_it(tmp_path):
    grid = tmp_path / "grid.toml"
    grid.write_text(
        'world = "riverswim(states=3, horizon=5)"\nprivacy = ["none", "joint"]\nepsilon = [1, 2]\n'
        "episodes = 20\nruns = 3\nseed = 5\nbonus-scale = 0.1\n"
    )
    told = document(sweep(tmp_path / "out", "--file", grid, "--epsilon", "4", "--json"))
    assert [cell.get("epsilon") for cell in settings(told)] == [None, 4.0]
    assert (told["runs"], told["seed"]) == (3, 5)
    assert {cell["bonus_scale"] for cell in settings(told)} == {0.1}
    call = (*WORLD, "-p", "none,joint", "--epsilon", "4", "-K", "20", "-R", "3", "--seed", "5", "--bonus-scale", "0.1")
    by_options = document(sweep(tmp_path / "same", *call, "--json"))
    assert by_options["cells"] == told["cells"]


# What it writes and says


def test_table_and_figure_are_of_all_cells(tmp_path):
    told = document(sweep(tmp_path, *THREE, "--json"))
    assert told["files"] == [str(tmp_path / "sweep.csv"), str(tmp_path / "sweep.png")]
    table = polars.read_csv(tmp_path / "sweep.csv")
    assert table["epsilon"].to_list() == [1.0, 2.0, 4.0]
    assert table["regret"].to_list() == pytest.approx([cell["summary"]["regret"] for cell in told["cells"]])
    assert (tmp_path / "sweep.png").read_bytes().startswith(b"\x89PNG\r\n")
    assert len(list(tmp_path.glob("*.parquet"))) == 3


def test_people_get_a_row_for_each_cell_by_what_makes_it_differ(tmp_path):
    outcome = sweep(tmp_path, *THREE)
    assert outcome.exit_code == 0
    assert remarks(outcome) == []
    assert outcome.stdout.startswith("3 of 3 cells, 2 runs each")
    for epsilon in (1, 2, 4):
        assert f"joint ε = {epsilon} " in outcome.stdout
    assert "riverswim" not in outcome.stdout  # it is the same for all


def test_a_warning_is_one_line_on_stderr_beside_the_document(tmp_path):
    outcome = sweep(tmp_path, *THREE, "--bonus-scale", "1", "--json")
    document(outcome)
    (line,) = remarks(outcome)
    assert line.startswith("tacit: nothing was learnt in 3 cells: joint ε = 1; joint ε = 2; joint ε = 4")


def test_the_same_seed_gives_the_same_on_any_number_of_processes(tmp_path):
    one, two, other = (
        document(invoke("sweep", *THREE, "--seed", seed, "--jobs", jobs, "--out", tmp_path / name, "--json"))["cells"]
        for name, seed, jobs in (("one", 3, 1), ("two", 3, 2), ("other", 4, 1))
    )
    assert one == two
    assert all(a["summary"]["regret"] != b["summary"]["regret"] for a, b in zip(one, other, strict=True))


# Once and never again


def test_finished_cells_are_not_run_again(tmp_path, monkeypatch):
    first = document(sweep(tmp_path, *THREE, "--json"))
    before = contents(tmp_path)
    cells = simulated(monkeypatch)
    assert document(sweep(tmp_path, *THREE, "--json")) == first
    assert cells == []
    wider = document(sweep(tmp_path, *SMALL, "-p", "none,joint", "--epsilon", "1,2,4,8", "--json"))
    assert len(wider["cells"]) == 5
    assert sorted(str(agent.privacy.epsilon) for agent in cells) == ["8.0", "inf"]
    assert contents(tmp_path).items() >= before.items()


@pytest.mark.parametrize("change", [("--seed", "1"), ("--runs", "3"), ("--confidence", "0.2"), ("-K", "101")])
def test_other_settings_are_other_cells(tmp_path, monkeypatch, change):
    document(sweep(tmp_path, *SMALL, "--epsilon", "1", "--json"))
    cells = simulated(monkeypatch)
    told = document(
        sweep(tmp_path, *WORLD, "--epsilon", "1", *_changed({"-K": "100", "--runs": "2"}, change), "--json")
    )
    assert len(cells) == len(told["cells"]) == 1


def _changed(options, change):
    return [text for pair in (options | {change[0]: change[1]}).items() for text in pair]


def test_half_a_result_is_none(tmp_path, monkeypatch):
    document(sweep(tmp_path, *THREE, "--json"))
    whole = contents(tmp_path)
    facts = {_epsilon(file): file for file in tmp_path.glob("*.json")}
    facts[2.0].unlink()
    cells = simulated(monkeypatch)
    document(sweep(tmp_path, *THREE, "--json"))
    assert [agent.privacy.epsilon for agent in cells] == [2.0]
    assert contents(tmp_path) == whole


def _epsilon(facts):
    return json.loads(facts.read_text())["settings"]["agent"]["privacy"]["epsilon"]


def test_one_failed_cell_is_not_the_others(tmp_path, monkeypatch):
    simulate = sweeps.simulate

    def fragile(agent, *arguments, **named):
        if agent.privacy.epsilon == 2:
            raise ArithmeticError("broken for once")
        return simulate(agent, *arguments, **named)

    with monkeypatch.context() as patch:
        patch.setattr(sweeps, "simulate", fragile)
        outcome = sweep(tmp_path, *THREE, "--json")
    assert outcome.exit_code == 1
    assert outcome.stdout == ""
    assert "1 of 3 cells failed" in outcome.stderr
    assert "joint ε = 2: ArithmeticError: broken for once" in outcome.stderr
    cells = simulated(monkeypatch)
    document(sweep(tmp_path, *THREE, "--json"))
    assert [agent.privacy.epsilon for agent in cells] == [2.0]


# Ctrl-C


def test_ctrl_c_keeps_what_is_finished_and_the_same_call_goes_on(tmp_path, monkeypatch):
    with monkeypatch.context() as patch:
        calls = rollouts(patch)
        whole = document(sweep(tmp_path / "whole", *THREE, "--json"))
    each = len(calls) // 3
    with monkeypatch.context() as patch:
        rollouts(patch, interrupt=each + 2)
        outcome = sweep(tmp_path / "cut", *THREE, "--json")
    told = document(outcome, code=130)
    assert (len(told["cells"]), told["unfinished"]) == (1, 2)
    assert remarks(outcome) == ["Stopped: 1 of 3 cells are finished; the same call goes on from there."]
    assert told["cells"][0] in whole["cells"]
    assert len(list((tmp_path / "cut").glob("*.parquet"))) == 1
    cells, calls = simulated(monkeypatch), rollouts(monkeypatch)
    rest = document(sweep(tmp_path / "cut", *THREE, "--json"))
    assert len(cells) == 2
    assert each < len(calls) < 2 * each  # one from the start, one from its checkpoint
    assert rest["cells"] == whole["cells"]
    for file in (tmp_path / "whole").glob("*.parquet"):
        assert np.array_equal(Result.load(tmp_path / "cut" / file.name).values, Result.load(file).values)
    assert {file.suffix for file in (tmp_path / "cut").iterdir()} == {".parquet", ".json", ".csv", ".png"}


def test_ctrl_c_before_anything_is_finished_says_that(tmp_path, monkeypatch):
    rollouts(monkeypatch, interrupt=1)
    outcome = sweep(tmp_path, *THREE)
    assert outcome.exit_code == 130
    assert outcome.stdout == ""
    assert remarks(outcome) == ["Stopped: 0 of 3 cells are finished; the same call goes on from there."]


# Mistakes


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("-w", "nowhere,riverswim", "--epsilon", "1"), "no world is called 'nowhere'"),
        (("--epsilon", "1,0"), "epsilon must be positive"),
        (("--epsilon", "0"), "epsilon must be positive"),
        (("--epsilon", "1,much"), "epsilon takes numbers; got 'much'"),
        (("--epsilon", ","), "--epsilon lists nothing"),
        (("--epsilon", "1", "--privacy", ""), "--privacy lists nothing"),
        (("--epsilon", "1", "-K", "0"), "episodes must be a whole number of at least 1"),
        (("--epsilon", "1", "-K", "1.5"), "episodes takes whole numbers; got '1.5'"),
        (("--epsilon", "1", "--runs", "0"), "'--runs'"),
        (("--epsilon", "1", "--pooled", "perhaps"), "pooled takes true or false"),
        (("--epsilon", "1", "-p", "joint,central"), "privacy takes none or joint or local; got 'central'"),
        (("--delta", "1e-5"), "--delta comes with --epsilon"),
        (("-p", "none", "--epsilon", "1"), "no cell of this grid is that"),
        (
            (
                "-p",
                "none,joint",
            ),
            "say how private it is",
        ),
        (("--epsilon", "1", "--schedule", "doubling", "--calibration", "exact,published"), "calibration published"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_what_cannot_be_is_one_line_before_anything_is_run(tmp_path, arguments, said):
    assert_mistake(sweep(tmp_path / "out", *arguments), said)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("epsilon = [", "is no TOML"),
        ("epsilonn = 1", "there is no setting 'epsilonn'"),
        ("epsilon = []", "one value or a list"),
        ("epsilon = [[1]]", "one value or a list"),
        ("epsilon = 1\nruns = 0", "runs is one whole number of at least 1"),
        ("epsilon = 1\nruns = [1, 2]", "runs is one whole number"),
        ("epsilon = 1\nseed = -1", "seed is one whole number of at least 0"),
    ],
)
def test_a_file_that_is_no_grid_is_a_mistake(tmp_path, text, said):
    (tmp_path / "grid.toml").write_text(text)
    assert_mistake(sweep(tmp_path / "out", "--file", tmp_path / "grid.toml"), said)
    assert not (tmp_path / "out").exists()


def test_a_missing_file_is_named(tmp_path):
    assert_mistake(sweep(tmp_path / "out", "--file", tmp_path / "none.toml"), f"{tmp_path / 'none.toml'}: No such file")
