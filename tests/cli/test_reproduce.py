"""`tacit reproduce`: what it lists, runs, keeps and says. The experiments themselves: `tests/papers`."""

import pytest
from commands import assert_mistake, document, invoke, remarks, rollouts, simulated

from tacit.papers import PAPERS
from tacit.papers.p000 import figure
from tacit.papers.p000.settings import Size


@pytest.fixture
def tiny(monkeypatch):
    """Seven cells, not 42, of very few episodes."""
    cells = figure.cells
    monkeypatch.setattr(figure, "QUICK", Size(episodes=12, runs=2))
    monkeypatch.setattr(figure, "cells", lambda size: cells(size)[14:21])


def reproduce(out, *arguments):
    return invoke("reproduce", "000", "--quick", "--jobs", "1", "--out", out, *arguments)


def test_it_lists_the_papers_that_it_has():
    assert document(invoke("reproduce", "--json")) == {"papers": PAPERS}
    outcome = invoke("reproduce")
    assert outcome.exit_code == 0
    assert outcome.stdout.splitlines() == [f"{number}  {title}" for number, title in PAPERS.items()]


def test_json_is_one_document_with_every_cell(tiny, tmp_path):
    outcome = reproduce(tmp_path, "--json", "--seed", "3")
    told = document(outcome)
    assert remarks(outcome) == []
    assert (told["paper"], told["episodes"], told["runs"], told["seed"]) == ("000", 12, 2, 3)
    assert (len(told["rows"]), told["unfinished"]) == (7, 0)
    assert told["files"] == [str(tmp_path / "000-quick.png"), str(tmp_path / "000-quick.json")]
    assert (tmp_path / "000-quick.png").read_bytes().startswith(b"\x89PNG\r\n")


def test_people_get_the_table_and_what_was_spent(tiny, tmp_path):
    outcome = reproduce(tmp_path)
    assert outcome.exit_code == 0
    assert remarks(outcome) == []
    for text in ("after 12 episodes", "joint, ε = 0.1", "really spent", str(tmp_path / "000-quick.png")):
        assert text in outcome.stdout


def test_the_same_seed_gives_the_same_and_another_one_another(tiny, tmp_path):
    first, again, other = (
        document(reproduce(tmp_path / name, "--seed", seed, "--json"))["rows"]
        for name, seed in (("first", 1), ("again", 1), ("other", 2))
    )
    assert first == again
    assert [row["regret"] for row in first] != [row["regret"] for row in other]


def test_ctrl_c_keeps_what_is_finished_and_the_same_call_goes_on(tiny, tmp_path, monkeypatch):
    whole = document(reproduce(tmp_path / "whole", "--json"))
    with monkeypatch.context() as patch:
        rollouts(patch, interrupt=6)
        outcome = reproduce(tmp_path / "cut", "--json")
    told = document(outcome, code=130)
    finished = len(told["rows"])
    assert 0 < finished < 7
    assert told["unfinished"] == 7 - finished
    assert remarks(outcome) == [f"Stopped: {finished} of 7 cells are finished; the same call goes on from there."]
    assert all(row in whole["rows"] for row in told["rows"])
    cells = simulated(monkeypatch)
    assert document(reproduce(tmp_path / "cut", "--json"))["rows"] == whole["rows"]
    assert len(cells) == 7 - finished
    assert document(reproduce(tmp_path / "cut", "--json"))["rows"] == whole["rows"]
    assert len(cells) == 7 - finished


@pytest.mark.parametrize("form", [(), ("--json",)])
def test_ctrl_c_before_anything_is_finished_writes_no_figure(tiny, tmp_path, monkeypatch, form):
    rollouts(monkeypatch, interrupt=1)
    outcome = reproduce(tmp_path, *form)
    assert outcome.exit_code == 130
    assert remarks(outcome) == ["Stopped: 0 of 7 cells are finished; the same call goes on from there."]
    assert list(tmp_path.glob("*.*")) == []
    if form:
        told = document(outcome, code=130)
        assert (told["rows"], told["files"], told["unfinished"]) == ([], [], 7)
    else:
        assert outcome.stdout == ""


def test_what_cannot_be_is_a_mistake(tmp_path):
    (tmp_path / "taken").write_text("mine")
    assert_mistake(invoke("reproduce", "999", "--out", tmp_path / "new"), "there is no paper '999' here; there are 000")
    assert_mistake(reproduce(tmp_path / "new", "--seed", "-1"), "'--seed'")
    assert_mistake(reproduce(tmp_path / "new", "--jobs", "0"), "'--jobs'")
    assert_mistake(reproduce(tmp_path / "taken"), "taken")
    assert [file.name for file in tmp_path.iterdir()] == ["taken"]
