"""Progress goes to stderr, tells how long it still takes, and is silent when told or when nobody looks."""

import io
import re
import subprocess
import sys
import time
from pathlib import Path

import pytest

from simulation.cases import Hears, po, same, small_world, vi
from tacit.simulation import Cell, progress, simulate, sweep
from tacit.simulation import run as running
from tacit.simulation.progress import Bar, Silent, progress_of


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture
def small_pieces(monkeypatch):
    monkeypatch.setattr(running, "_STEPS_AT_A_TIME", 7 * small_world().spec.horizon)
    monkeypatch.setattr(running, "_SECONDS_BETWEEN_REPORTS", -1.0)


@pytest.fixture
def at_once(monkeypatch):
    monkeypatch.setattr(progress, "_MOMENT", 0.0)


def plain(text):
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", text)


def begin_both(folder, **options):
    world = small_world()
    simulate(vi(world), world, runs=2, **options)
    sweep([Cell(agent=vi(world), world=world, labels={})], folder=folder, runs=2, engine=1, **options)


@pytest.mark.usefixtures("small_pieces", "at_once")
def test_a_bar_is_on_stderr_only(capfd, tmp_path):
    begin_both(tmp_path, progress=True)
    told = capfd.readouterr()
    assert told.out == ""
    assert "UCBVI in random 3×2" in told.err
    assert "1 of 1 cells" in told.err
    assert "100%" in told.err


@pytest.mark.usefixtures("small_pieces", "at_once")
def test_nothing_is_said_when_told_or_when_stderr_is_no_terminal(capfd, tmp_path):
    begin_both(tmp_path / "a", progress=False)
    begin_both(tmp_path / "b")
    told = capfd.readouterr()
    assert (told.out, told.err) == ("", "")


@pytest.mark.usefixtures("small_pieces", "at_once")
def test_by_default_there_is_a_bar_where_stderr_is_a_terminal(monkeypatch, capsys):
    terminal, world = Terminal(), small_world()
    monkeypatch.setattr(sys, "stderr", terminal)
    simulate(vi(world), world, runs=2)
    assert "UCBVI in random 3×2" in plain(terminal.getvalue())
    terminal.truncate(0)
    simulate(vi(world), world, runs=2, progress=False)
    assert terminal.getvalue() == ""
    assert capsys.readouterr().out == ""


@pytest.mark.usefixtures("at_once")
@pytest.mark.parametrize("before", [0.0, 0.6], ids=["from the start", "from a checkpoint"])
def test_a_bar_estimates_the_time_left_from_what_was_done_since_it_began(before, monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    with Bar("work") as bar:
        bar.update(before)
        began = time.monotonic()
        for hundredth in range(1, 6):
            time.sleep(0.1)
            bar.update(before + hundredth / 100)
        task, per_hundredth = bar._bar.tasks[0], (time.monotonic() - began) / 5
        expected = (95 - 100 * before) * per_hundredth
        assert expected / 2 <= task.time_remaining <= 2 * expected
    text = plain(sys.stderr.getvalue())
    assert re.search(r"work .*\d%.*\d:\d\d:\d\d so far, .*\d:\d\d:\d\d to go", text)


def test_what_is_over_in_a_moment_shows_no_bar(monkeypatch, capfd):
    clock = [1000.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: clock[0])
    with Bar("work") as bar:
        for share in (0.1, 0.5, 1.0):
            clock[0] += 0.15
            bar.update(share)
    assert capfd.readouterr().err == ""


@pytest.mark.usefixtures("small_pieces")
def test_shares_grow_from_more_than_nothing_to_all():
    world = small_world()
    heard = Hears()
    simulate(vi(world), world, runs=2, progress=heard)
    assert heard.shares == sorted(heard.shares)
    assert heard.shares[-1] == 1.0
    assert heard.shares[:3] == pytest.approx([7 / 60, 14 / 60, 21 / 60])
    assert (heard.entered, heard.left) == (1, 1)


def test_progress_is_left_after_an_error_too(monkeypatch):
    world, heard = small_world(), Hears()
    monkeypatch.setattr(type(world), "rollout", lambda *_, **__: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        simulate(vi(world), world, runs=2, progress=heard)
    assert (heard.entered, heard.left) == (1, 1)


@pytest.mark.usefixtures("small_pieces")
def test_who_watches_changes_nothing(tmp_path):
    world = small_world()
    alone = simulate(po(world), world, runs=2, progress=False)
    assert same(simulate(po(world), world, runs=2, progress=Hears()), alone)
    assert same(simulate(po(world), world, runs=2, progress=True), alone)


@pytest.mark.usefixtures("small_pieces")
def test_in_a_sweep_a_cell_counts_as_much_as_it_costs(tmp_path):
    world, heard = small_world(), Hears()
    cells = [Cell(agent=vi(world, K), world=world, labels={"K": str(K)}) for K in (60, 120, 20)]
    sweep(cells, folder=tmp_path, runs=2, engine=1, progress=heard)
    assert heard.shares == sorted(heard.shares)
    assert heard.shares[-1] == pytest.approx(1.0)
    for done in (120, 180):  # the longest first
        assert any(share == pytest.approx(done / 200) for share in heard.shares)


def test_a_bar_is_what_is_asked_for(monkeypatch):
    own = Hears()
    assert progress_of(own, "x") is own
    assert isinstance(progress_of(True, "x"), Bar)
    assert isinstance(progress_of(False, "x"), Silent)
    monkeypatch.setattr(sys, "stderr", Terminal())
    assert isinstance(progress_of(None, "x"), Bar)
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    assert isinstance(progress_of(None, "x"), Silent)


def test_a_program_that_simulates_prints_what_it_prints_and_nothing_else():
    script = "import tacit; from simulation.cases import *; w = small_world(); print(tacit.simulate(vi(w), w).runs)"
    command, tests = [sys.executable, "-c", script], Path(__file__).resolve().parents[1]
    done = subprocess.run(command, cwd=tests, capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("20\n", "")
