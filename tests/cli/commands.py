"""What the tests of commands share: how one is called, what it must look like, and a finger on Ctrl-C."""

import json
import re
import shlex
import signal
import time

from typer.testing import CliRunner

from tacit.cli.app import app
from tacit.mdp import TabularMDP
from tacit.simulation import sweeps


def invoke(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments], prog_name="tacit")


def document(outcome, code=0):
    """The one JSON document on standard output, by the standard: no NaN and no Infinity."""
    assert outcome.exit_code == code, outcome.stderr

    def refuse(word):
        raise AssertionError(f"{word} is no JSON")

    return json.loads(outcome.stdout, parse_constant=refuse)


def remarks(outcome):
    """What is said on standard error, but for compiling: that depends on who was here before."""
    return [line for line in outcome.stderr.splitlines() if not line.startswith("tacit: compiling")]


def assert_mistake(outcome, said):
    """One line that says so, exit code 2, and nothing else."""
    assert outcome.exit_code == 2, outcome.stderr
    assert outcome.stdout == ""
    (line,) = remarks(outcome)
    assert line.startswith("tacit: ")
    assert said in line
    assert " at 0x" not in line


def examples(*command):
    """The commands that a help text shows, as a shell reads them from a terminal of 80 columns."""
    outcome = CliRunner().invoke(app, [*command, "--help"], prog_name="tacit", env={"COLUMNS": "80"})
    assert outcome.exit_code == 0
    text = re.sub(r"\\ *\n *", "", outcome.stdout)
    return [shlex.split(line) for line in re.findall(r"^ *\$ tacit (.+?) *$", text, flags=re.MULTILINE)]


def rollouts(monkeypatch, *, interrupt=None):
    """A list that grows with every rollout in this process; Ctrl-C is pressed in the one of that number."""
    calls, rollout = [], TabularMDP.rollout

    def counted(self, *arguments, **named):
        calls.append(self)
        if len(calls) == interrupt:
            signal.raise_signal(signal.SIGINT)
            time.sleep(0.25)  # a simulation listens five times a second
        return rollout(self, *arguments, **named)

    monkeypatch.setattr(TabularMDP, "rollout", counted)
    return calls


def simulated(monkeypatch):
    """A list that grows with every cell which is really run in this process."""
    cells, simulate = [], sweeps.simulate

    def counted(agent, *arguments, **named):
        cells.append(agent)
        return simulate(agent, *arguments, **named)

    monkeypatch.setattr(sweeps, "simulate", counted)
    return cells
