"""The command line as a whole: exit codes, one line for a mistake, help whose examples run, a light start."""

import json
import subprocess
import sys

import pytest
import typer.main
from commands import examples, invoke

import tacit
from tacit.cli import calibrate
from tacit.cli.app import app
from tacit.cli.shared import Mistake
from tacit.mdp.spec import SpecError
from tacit.papers.p000 import figure
from tacit.papers.p000.settings import Size
from tacit.privacy import GuaranteeError
from tacit.privatizers import PrivatizationError

COMMANDS = sorted(typer.main.get_command(app).commands)
HEAVY = ("numpy", "scipy", "numba", "opendp", "polars", "matplotlib", "gymnasium", "tacit.privacy", "tacit.mdp")


@pytest.mark.parametrize("command", COMMANDS)
def test_help_teaches_by_examples_that_run(command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(figure, "QUICK", Size(episodes=10, runs=2))
    if command == "plot":  # what its examples are drawn from
        invoke("simulate", "--privacy", "none", "-K", "20", "-R", "2")
        invoke("sweep", "--epsilon", "1,2", "-K", "20", "-R", "2", "--jobs", "1")
    shown = examples(command)
    assert 2 <= len(shown) <= 4
    assert command in [words[0] for words in shown]
    for words in shown:
        outcome = invoke(*words)
        assert outcome.exit_code == 0, (words, outcome.stderr)
        assert outcome.stdout


def test_the_first_page_names_every_command_and_its_examples_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert invoke().stdout == invoke("--help").stdout
    assert all(f" {command} " in invoke().stdout for command in COMMANDS)
    shown = examples()
    assert shown
    assert all(invoke(*words).exit_code == 0 for words in shown)


@pytest.mark.parametrize("start", [["-m", "tacit"], ["-c", "from tacit.cli import main; main()"]])
def test_version_from_a_shell(start):
    outcome = subprocess.run([sys.executable, *start, "--version"], capture_output=True, text=True, check=True)
    assert outcome.stdout == f"tacit {tacit.__version__}\n"
    assert outcome.stderr == ""


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nonsense"], "No such command"),
        (["--nonsense"], "No such option"),
        (["calibrate", "--nonsense"], "tacit calibrate --help"),
        (["calibrate", "--epsilon", "much"], "'--epsilon'"),
        (["calibrate", "--epsilon", "1", "--model", "central"], "'--model'"),
        (["calibrate"], "give --epsilon"),
        (["calibrate", "--epsilon", "0"], "at 0 nothing can be learnt"),
    ],
)
def test_a_mistake_is_one_line_on_stderr_and_exit_code_2(arguments, said):
    outcome = invoke(*arguments)
    assert outcome.exit_code == 2
    assert outcome.stdout == ""
    assert outcome.stderr.startswith("tacit: ")
    assert outcome.stderr.count("\n") == 1
    assert said in outcome.stderr


@pytest.mark.parametrize("mistake", [Mistake, SpecError, GuaranteeError, PrivatizationError])
def test_each_kind_of_mistake_in_the_house_is_told_as_one(monkeypatch, mistake):
    monkeypatch.setattr(calibrate, "answer", raising(mistake("this cannot be:\n  say that")))
    outcome = invoke("calibrate", "--epsilon", "1")
    assert outcome.exit_code == 2
    assert outcome.stderr == "tacit: this cannot be: say that\n"


@pytest.mark.parametrize("error", [ValueError("shapes do not match"), KeyError("x"), AssertionError()])
def test_an_error_of_ours_shows_its_traceback_and_exit_code_1(monkeypatch, error):
    monkeypatch.setattr(calibrate, "answer", raising(error))
    outcome = invoke("calibrate", "--epsilon", "1", "--json")
    assert outcome.exit_code == 1
    assert outcome.stdout == ""
    assert "Traceback" in outcome.stderr
    assert type(error).__name__ in outcome.stderr


def test_ctrl_c_is_exit_code_130_without_a_traceback(monkeypatch):
    monkeypatch.setattr(calibrate, "answer", raising(KeyboardInterrupt()))
    outcome = invoke("calibrate", "--epsilon", "1")
    assert outcome.exit_code == 130
    assert "Traceback" not in outcome.stderr


def test_a_reader_that_leaves_early_is_no_error():
    shell = f"{sys.executable} -m tacit calibrate -K 100 --epsilon 1 | head -1"
    outcome = subprocess.run(["bash", "-c", shell], capture_output=True, text=True, check=True)
    assert "K = 100" in outcome.stdout
    assert outcome.stderr == ""


def test_help_loads_nothing_slow():
    code = (
        "import json, sys\nfrom tacit.cli import main\nsys.argv = ['tacit', 'calibrate', '--help']\n"
        "try:\n    main()\nexcept SystemExit:\n"
        f"    print(json.dumps([m for m in {HEAVY} if m in sys.modules]), file=sys.stderr)"
    )
    outcome = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert json.loads(outcome.stderr) == []


def raising(error):
    def instead(*_):
        raise error

    return instead
