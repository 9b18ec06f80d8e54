"""Seeds, and where simulations run: a run is the same wherever and beside whatever it is played."""

import os
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

import tacit
from simulation.cases import Hears, Unknown, po, same, small_world, vi
from tacit import Joint, Local
from tacit.simulation import Processes, Serial, simulate
from tacit.simulation.engines import engine_of, results_of


class Turns:
    """A cluster of our own: more workers than it has, one after the other, the last first."""

    def __init__(self, workers):
        self.workers, self.sizes = workers, []

    def map(self, function, tasks, *, heard=None):
        for number, task in reversed(list(enumerate(tasks))):
            self.sizes.append(task.runs)
            yield number, function(task, lambda share, n=number: heard(n, share))


AGENTS = {
    "Laplace": lambda world: vi(world),
    "Gaussian, every episode": lambda world: vi(
        world, episodes=40, privacy=Joint(epsilon=5, delta=1e-6), schedule="every-episode"
    ),
    "choices by chance": lambda world: po(world),
    "local": lambda world: vi(world, privacy=Local(epsilon=10)),
    "local, additive": lambda world: vi(world, privacy=Local(epsilon=10), randomizer="additive"),
}
kinds = pytest.mark.parametrize("kind", AGENTS)


@kinds
def test_the_same_seed_gives_the_same_result_and_another_another(kind):
    world = small_world()
    agent = AGENTS[kind](world)
    result = simulate(agent, world, runs=3, seed=8)
    assert same(simulate(AGENTS[kind](world), small_world(), runs=3, seed=8), result)
    assert not np.array_equal(simulate(agent, world, runs=3, seed=9).values, result.values)


@kinds
def test_a_run_does_not_depend_on_how_many_there_are(kind):
    world = small_world()
    agent = AGENTS[kind](world)
    five = simulate(agent, world, runs=5, seed=8).values
    assert len(np.unique(five, axis=0)) == 5
    for runs in (1, 2, 4):
        assert np.array_equal(simulate(agent, world, runs=runs, seed=8).values, five[:runs])


@kinds
@pytest.mark.parametrize("workers", [2, 3, 4, 5, 9])
def test_how_runs_are_shared_out_changes_nothing(kind, workers):
    world = small_world()
    agent, engine = AGENTS[kind](world), Turns(workers)
    assert same(simulate(agent, world, runs=5, seed=8, engine=engine), simulate(agent, world, runs=5, seed=8))
    assert sum(engine.sizes) == 5
    assert len(engine.sizes) == min(workers, 5)
    assert max(engine.sizes) - min(engine.sizes) <= 1


def test_processes_give_what_one_process_gives():
    inner = small_world()
    agent = po(inner)
    for world in (inner, Unknown(inner=inner)):
        heard = Hears()
        apart = simulate(agent, world, runs=3, seed=8, engine=2, progress=heard)
        assert same(apart, simulate(agent, world, runs=3, seed=8, engine=Serial()))
        assert heard.shares == sorted(heard.shares)


def test_the_seed_of_the_world_is_not_the_seed_of_the_noise():
    """With noise or without, people meet the same chances until policies differ: in the first batch."""
    inner = small_world()
    world = Unknown(inner=inner)
    noisy = simulate(vi(inner), world, runs=3, seed=8).values[:, 0]
    quiet = simulate(vi(inner, privacy=tacit.NonPrivate()), world, runs=3, seed=8).values[:, 0]
    assert np.array_equal(noisy, quiet)


# Engines by themselves


def doubled(task, report):
    report(0.5)
    return 2 * task


def fails_at_two(task, report):
    if task == 2:
        raise LookupError("task two")
    for _ in range(200):  # until it is told to stop
        time.sleep(0.05)
        report(0.5)
    return task


def waits_to_be_stopped(task, report):
    try:
        for _ in range(600):
            time.sleep(0.05)
            report(0.1)
    except KeyboardInterrupt:
        return "stopped"
    return "not stopped"


ENGINES = [Serial(), Processes(2)]
engines = pytest.mark.parametrize("engine", ENGINES, ids=lambda engine: type(engine).__name__)


@engines
def test_every_task_is_run_once_and_heard(engine):
    heard = []
    results = dict(engine.map(doubled, [3, 1, 4, 1, 5], heard=lambda n, share: heard.append((n, share))))
    assert results == {0: 6, 1: 2, 2: 8, 3: 2, 4: 10}
    assert set(heard) <= {(n, 0.5) for n in range(5)}
    assert list(engine.map(doubled, [])) == []
    assert dict(engine.map(doubled, [7])) == {0: 14}


def test_a_tasks_exception_is_raised_and_stops_the_others():
    began = time.monotonic()
    with pytest.raises((LookupError, KeyboardInterrupt), match="task two"):
        dict(Processes(2).map(fails_at_two, [1, 2, 3, 4]))
    assert time.monotonic() - began < 8


@engines
def test_after_an_interrupt_a_task_under_way_returns_what_it_has_and_others_never_begin(engine):
    found, tasks = {}, range(20)
    pressed = []

    def press(number, share):
        if not pressed:
            pressed.append(1)
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        found.update(engine.map(waits_to_be_stopped, list(tasks), heard=press))
    assert set(found.values()) == {"stopped"}
    assert len(found) < 10


def test_a_second_interrupt_does_not_wait():
    def stubborn(task, report):
        signal.raise_signal(signal.SIGINT)
        began.append(1)
        signal.raise_signal(signal.SIGINT)
        began.append(2)

    began = []
    with pytest.raises(KeyboardInterrupt):
        dict(Serial().map(stubborn, [1, 2]))
    assert began == [1]


def test_the_handler_of_interrupts_is_given_back():
    before = signal.getsignal(signal.SIGINT)
    for engine in ENGINES:
        dict(engine.map(doubled, [1]))
    with pytest.raises(ZeroDivisionError):
        dict(Serial().map(lambda task, report: 1 / 0, [1]))
    assert signal.getsignal(signal.SIGINT) is before


def test_in_another_thread_than_the_main_one_too():
    world, found = small_world(), []
    thread = threading.Thread(target=lambda: found.append(simulate(vi(world), world, runs=2, seed=8)))
    thread.start()
    thread.join()
    assert same(found[0], simulate(vi(world), world, runs=2, seed=8))


def test_an_engine_is_a_number_of_processes_or_an_object():
    own = Turns(3)
    assert isinstance(engine_of(None), Serial)
    assert isinstance(engine_of(1), Serial)
    assert isinstance(engine_of(3), Processes)
    assert engine_of(3).workers == 3
    assert engine_of(own) is own
    assert 1 <= Processes().workers <= os.cpu_count()


# Bad input


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"runs": 0}, "runs must be a whole number of at least 1; got 0"),
        ({"runs": -2}, "runs must be"),
        ({"runs": 2.0}, "runs must be"),
        ({"runs": True}, "runs must be"),
        ({"runs": "3"}, "runs must be"),
        ({"seed": -1}, "seed must be a whole number of at least 0; got -1"),
        ({"seed": None}, "seed must be"),
        ({"seed": 0.5}, "seed must be"),
        ({"engine": 0}, "at least one worker is needed; got 0"),
        ({"engine": -3}, "at least one worker"),
        ({"engine": "cluster"}, "engine is a number of processes, or an Engine; got 'cluster'"),
        ({"engine": 2.5}, "engine is a number"),
    ],
    ids=str,
)
def test_bad_arguments_are_named(arguments, message):
    world = small_world()
    with pytest.raises(ValueError, match=message):
        simulate(vi(world), world, **arguments)


def test_an_agent_for_another_world_is_refused():
    world, other = small_world(), tacit.mdp.riverswim(states=4, horizon=8)
    with pytest.raises(ValueError, match=r"the agent was made for .*states=4.*the world is .*states=3"):
        simulate(vi(other), world)


def test_numbers_of_numpy_will_do():
    world = small_world()
    result = simulate(vi(world), world, runs=np.int64(2), seed=np.uint8(3))
    assert same(result, simulate(vi(world), world, runs=2, seed=3))


def test_a_script_without_a_guard_is_told_what_is_missing(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import tacit\n"
        "world = tacit.mdp.riverswim(states=2, horizon=2)\n"
        "agent = tacit.online.UCBVI(world.spec, episodes=10, privacy=tacit.NonPrivate())\n"
        "tacit.simulate(agent, world, runs=2, engine=2, progress=False)\n"
    )
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "RuntimeError: a process ended before its task did. In a script," in done.stderr


def test_an_engine_that_nobody_listens_to_any_more_does_not_listen_to_ctrl_c():
    """Left in the middle, it would swallow the next one, wherever that is pressed."""
    before = signal.getsignal(signal.SIGINT)
    with results_of(Processes(2), doubled, [1, 2, 3], lambda number, share: None) as results:
        next(results)
        assert signal.getsignal(signal.SIGINT) is not before
        kept = results  # as a traceback keeps it
    assert signal.getsignal(signal.SIGINT) is before
    assert list(kept) == []
