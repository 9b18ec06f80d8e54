"""`tacit simulate`: the library's own numbers, files that hold them, and what becomes of mistakes and of Ctrl-C."""

import os
import pty
import subprocess
import sys

import numpy as np
import polars
import pytest
from commands import assert_mistake, document, invoke, remarks, rollouts

import tacit
from tacit.simulation import Result

SMALL = ("-w", "riverswim(states=3, horizon=5)", "-K", "200", "--runs", "3")
PRIVATE = (*SMALL, "--epsilon", "2")


def simulate(out, *arguments):
    return invoke("simulate", *arguments, "--out", out)


def loaded(told):
    (table,) = [file for file in told["files"] if file.endswith(".parquet")]
    return Result.load(table)


def without_files(told):
    return {name: value for name, value in told.items() if name != "files"}


# Its numbers


@pytest.mark.parametrize(
    ("arguments", "privacy"),
    [
        (("--privacy", "none"), tacit.NonPrivate()),
        (("--epsilon", "2"), tacit.Joint(epsilon=2)),
        (("--epsilon", "2", "--delta", "1e-5"), tacit.Joint(epsilon=2, delta=1e-5)),
        (("-p", "local", "--epsilon", "3"), tacit.Local(epsilon=3)),
        (("--rho", "0.5"), tacit.Joint(rho=0.5)),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
@pytest.mark.parametrize("agent", ["ucbvi", "ucbpo"])
def test_it_is_the_librarys_own_simulation(tmp_path, agent, arguments, privacy):
    world = tacit.mdp.riverswim(states=3, horizon=5)
    kind = {"ucbvi": tacit.online.UCBVI, "ucbpo": tacit.online.UCBPO}[agent]
    told = document(simulate(tmp_path, "-a", agent, *SMALL, *arguments, "--seed", "4", "--json"))
    expected = tacit.simulate(kind(world.spec, episodes=200, privacy=privacy), world, runs=3, seed=4)
    assert np.array_equal(loaded(told).regret, expected.regret)
    assert told["summary"] == expected.summary()
    assert told["statement"] == expected.statement
    assert told["interrupted"] is False


def test_the_summary_is_what_the_table_says_added_up_by_hand(tmp_path):
    told = document(simulate(tmp_path, *PRIVATE, "--json"))
    (table,) = tmp_path.glob("*.parquet")
    final = []
    for run in range(3):
        rows = polars.read_parquet(table).filter(polars.col("run") == run).sort("episode").rows(named=True)
        ends = [row["episode"] for row in rows[1:]] + [200]
        paid = sum(row["value"] * (end - row["episode"]) for row, end in zip(rows, ends, strict=True))
        final.append(200 * told["summary"]["optimal value"] - paid)
    assert told["summary"]["regret"] == pytest.approx(np.mean(final), rel=1e-12)
    assert told["summary"]["std"] == pytest.approx(np.std(final, ddof=1), rel=1e-9)
    worst = 200 * tacit.mdp.riverswim(states=3, horizon=5).optimal_value
    assert told["summary"]["share of worst"] == pytest.approx(np.mean(final) / worst, rel=1e-12)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--schedule", "every-episode"), {"schedule": "every-episode", "calibration": "exact"}),
        (("--schedule", "every-episode", "--counter", "tree"), {"counter": "tree"}),
        (("--schedule", "every-episode", "--calibration", "published"), {"calibration": "published"}),
        (("--per-step",), {"pooled": False}),
        (("--pooled",), {"pooled": True}),
        (("-p", "local", "--randomizer", "additive"), {"randomizer": "additive"}),
        (("--confidence", "0.3"), {"confidence": 0.3}),
        (("--bonus-scale", "0.05"), {"bonus_scale": 0.05}),
        (("--statistical-scale", "0.2", "--privacy-scale", "0"), {"statistical_scale": 0.2, "privacy_scale": 0.0}),
        (("-a", "ucbpo", "--eta-scale", "7"), {"eta_scale": 7.0, "agent": "UCBPO"}),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_every_option_reaches_the_agent(tmp_path, arguments, told):
    outcome = simulate(tmp_path, *SMALL[:2], "-K", "20", "-R", "1", "--epsilon", "2", *arguments, "--json")
    agent = document(outcome)["settings"]["agent"]
    assert {name: agent[name] for name in told} == told


def test_without_privacy_less_is_lost(tmp_path):
    """Means of five runs lie nineteen standard errors apart."""
    means = {}
    for name, privacy in {"none": ("-p", "none"), "joint": ("--epsilon", "1")}.items():
        told = document(simulate(tmp_path, "-K", "3000", "-R", "5", *privacy, "--json"))
        means[name] = told["summary"]["regret"]
    assert means["none"] < means["joint"]


@pytest.mark.parametrize("jobs", [1, 2])
def test_the_same_seed_gives_the_same_and_another_one_another(tmp_path, jobs):
    first, again, other = (
        document(simulate(tmp_path / name, *PRIVATE, "--seed", seed, "--jobs", many, "--json"))
        for name, seed, many in (("first", 7, 1), ("again", 7, jobs), ("other", 8, 1))
    )
    assert without_files(first) == without_files(again)
    assert np.array_equal(loaded(first).values, loaded(again).values)
    assert first["summary"]["regret"] != other["summary"]["regret"]


# What it writes and says


def test_it_writes_table_facts_and_figure_and_nothing_else(tmp_path):
    told = document(simulate(tmp_path / "new" / "folder", *PRIVATE, "--json"))
    assert sorted(told["files"]) == sorted(map(str, (tmp_path / "new" / "folder").iterdir()))
    assert sorted(name.rpartition(".")[2] for name in told["files"]) == ["json", "parquet", "png"]
    (figure,) = (tmp_path / "new" / "folder").glob("*.png")
    assert figure.read_bytes().startswith(b"\x89PNG\r\n")


def test_no_other_settings_overwrite_a_result(tmp_path):
    asked = [PRIVATE, (*PRIVATE, "--seed", "1"), (*PRIVATE, "--confidence", "0.2"), (*PRIVATE, "--runs", "2")]
    asked += [(*SMALL, "--privacy", "none"), (*PRIVATE, "-w", "riverswim(states=3, horizon=6)")]
    for arguments in [*asked, PRIVATE]:
        assert simulate(tmp_path, *arguments).exit_code == 0
    assert len(list(tmp_path.glob("*.parquet"))) == len(asked)


def test_people_get_a_table_and_the_names_of_the_files(tmp_path):
    outcome = simulate(tmp_path, *PRIVATE)
    assert outcome.exit_code == 0
    assert remarks(outcome) == []
    assert outcome.stdout.startswith("UCBVI in RiverSwim 3, H = 5, joint ε = 2\nSimulated: no privacy.")
    summary = loaded({"files": [str(file) for file in tmp_path.glob("*.parquet")]}).summary()
    rows = dict(line.rsplit(maxsplit=1) for line in outcome.stdout.splitlines() if line.startswith(("regret", "runs")))
    assert rows["runs"] == "3"
    assert float(rows["regret"]) == pytest.approx(summary["regret"], rel=1e-3)
    for file in tmp_path.iterdir():
        assert f"  {file}\n" in outcome.stdout


def test_a_warning_is_a_line_on_stderr_beside_the_document(tmp_path):
    outcome = simulate(tmp_path, *PRIVATE, "--bonus-scale", "1", "--json")
    document(outcome)
    (line,) = remarks(outcome)
    assert line.startswith("tacit: ")
    assert "bonus" in line
    assert ".py" not in line


def test_progress_is_shown_in_a_terminal_on_stderr_only(tmp_path):
    ours, theirs = pty.openpty()
    command = ["simulate", "--epsilon", "1", "-K", "15000", "--schedule", "every-episode", "--json", "--out", tmp_path]
    with subprocess.Popen(
        [sys.executable, "-m", "tacit", *map(str, command)], stdout=subprocess.PIPE, stderr=theirs, text=True
    ) as process:
        os.close(theirs)
        shown = b""
        while chunk := _read(ours):
            shown += chunk
        stdout = process.stdout.read()
    os.close(ours)
    assert process.returncode == 0
    assert "UCBVI in RiverSwim 6" in shown.decode()
    assert "to go" in shown.decode()
    assert stdout.startswith("{")
    assert "to go" not in stdout
    assert "\x1b" not in stdout


def _read(terminal):
    try:
        return os.read(terminal, 4096)
    except OSError:  # the other end is closed
        return b""


# Mistakes


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("-w", "nowhere"), "no world is called 'nowhere'"),
        (("-w", "riverswim(states=1)"), "at least 2 states"),
        (("-w", "riverswim(depth=3)"), "riverswim(depth=3) cannot be made"),
        (("-w", "riverswim(6)"), "names and literals"),
        (("-w", "riverswim(states=int('6'))"), "names and literals"),
        (("-w", "gym:Nonsense-v0(horizon=3)"), "gym:Nonsense-v0 cannot be made"),
        (("-w", "gym:FrozenLake-v1"), "say how long an episode is"),
        (("--epsilon", "0"), "epsilon must be positive"),
        (("--epsilon", "-1"), "epsilon must be positive"),
        (("--epsilon", "nan"), "epsilon must be positive"),
        (("--delta", "1"), "0 ≤ delta < 1"),
        (("--rho", "1"), "rho"),
        (("-K", "0"), "episodes must be a whole number of at least 1"),
        (("-K", "many"), "'--episodes'"),
        (("--runs", "0"), "'--runs'"),
        (("--seed", "-1"), "'--seed'"),
        (("--jobs", "0"), "'--jobs'"),
        (("--agent", "sarsa"), "'--agent'"),
        (("--confidence", "0.95"), "confidence is the probability that a bound fails, 0.05 and not 0.95"),
        (("--privacy-scale", "-1"), "privacy_scale is a factor of at least 0"),
        (("--privacy", "none"), "--epsilon is for --privacy joint or local"),
        (("--counter", "tree"), "--counter is for --schedule every-episode"),
        (("--randomizer", "additive"), "--randomizer is for --privacy local"),
        (("--eta-scale", "2"), "--eta-scale is for --agent ucbpo"),
        (("--schedule", "every-episode", "--counter", "blt"), "allow a delta"),
        (("--calibration", "published"), 'for schedule="every-episode"'),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_what_cannot_be_is_one_line_and_leaves_nothing_behind(tmp_path, arguments, said):
    assert_mistake(simulate(tmp_path / "out", "--epsilon", "1", "-K", "50", "-R", "2", *arguments), said)
    assert not (tmp_path / "out").exists()


def test_a_guarantee_is_never_made_up():
    assert_mistake(invoke("simulate", "-K", "50"), "say how private it is")


def test_a_file_where_the_folder_should_be_is_a_mistake(tmp_path):
    (tmp_path / "taken").write_text("mine")
    assert_mistake(simulate(tmp_path / "taken", *PRIVATE), "taken")
    assert (tmp_path / "taken").read_text() == "mine"


# Ctrl-C


def test_ctrl_c_writes_what_was_done_and_says_so(tmp_path, monkeypatch):
    whole = loaded(document(simulate(tmp_path / "whole", *PRIVATE, "--json")))
    rollouts(monkeypatch, interrupt=3)
    outcome = simulate(tmp_path / "cut", *PRIVATE, "--json")
    told = document(outcome, code=130)
    assert told["interrupted"] is True
    kept = loaded(told)
    assert 0 < kept.episodes < 200
    assert remarks(outcome) == [f"Stopped after {kept.episodes} of 200 episodes: the result covers these."]
    assert np.array_equal(kept.regret, whole.regret[:, : kept.episodes])
    assert all("interrupted" in name for name in told["files"])


def test_after_ctrl_c_the_same_call_goes_on_from_its_checkpoint(tmp_path, monkeypatch):
    whole = loaded(document(simulate(tmp_path / "whole", *PRIVATE, "--json")))
    checkpoint = tmp_path / "saved" / "point"
    call = (*PRIVATE, "--checkpoint", checkpoint, "--json")
    with monkeypatch.context() as patch:
        rollouts(patch, interrupt=3)
        cut = simulate(tmp_path / "cut", *call)
    assert cut.exit_code == 130
    assert f"{checkpoint} goes on from there" in cut.stderr
    assert checkpoint.exists()
    assert_mistake(simulate(tmp_path / "other", *call, "--seed", "1"), "is of another simulation")
    assert checkpoint.exists()
    calls = rollouts(monkeypatch)
    told = document(simulate(tmp_path / "cut", *call))
    done = len(calls)
    assert np.array_equal(loaded(told).values, whole.values)
    assert told["interrupted"] is False
    assert not checkpoint.exists()
    simulate(tmp_path / "again", *PRIVATE)
    assert done < len(calls) - done  # than from the start
