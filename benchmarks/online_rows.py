"""The rows of issue 3: whole simulations of the agents of 000, against what bounds them from below and above."""

import os
import subprocess
import sys
import tempfile
import time
import tracemalloc
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks import references
from benchmarks.measure import FASTER, MEMORY, SECONDS, TIMES, Row, best_times
from tacit import simulate
from tacit.mdp import TabularMDP, riverswim
from tacit.online import UCBVI
from tacit.privacy import Joint, NonPrivate
from tacit.simulation import Cell, Processes, sweep


@dataclass(frozen=True)
class Sizes:
    """How much of everything. Where cost is linear in K, and a row of its own shows that, less than the paper's K."""

    runs: int = 20
    states: int = 6
    many_states: int = 96
    horizon: int = 20
    episodes: int = 20_000
    planned: int = 2_000
    slow: int = 300
    few: int = 60
    shared: int = 10_000
    repeats: int = 5
    fresh: bool = True


FULL = Sizes()
TINY = Sizes(
    runs=2, many_states=9, horizon=3, episodes=300, planned=20, slow=10, few=4, shared=20, repeats=1, fresh=False
)


def non_private(sizes: Sizes) -> list[Row]:
    """UCB-VI, replanning after every episode, against NumPy, one seed at a time: episodes of all runs per second."""
    world, episodes = _world(sizes), sizes.planned
    agent = _agent(world, episodes, NonPrivate(), schedule="every-episode", pooled=False)
    learner = agent.learner()
    width = learner.value_widths(agent.privatizer().release()).statistical
    kernel, mean, start = world.kernel[0], world.rewards.mean[0], world.start

    def ours():
        _played(agent, world, sizes.runs)

    def theirs():
        for seed in range(2):
            generator = np.random.default_rng(seed)
            references.ucbvi(kernel, mean, start, sizes.horizon, sizes.slow, width, generator)

    mine, slow = best_times(ours, theirs, repeats=sizes.repeats)
    ratio = (slow / (2 * sizes.slow)) / (mine / (sizes.runs * episodes))
    what = f"UCB-VI without privacy, plan after every episode, {sizes.runs} runs: an episode of a run"
    return [Row(what, "vectorised NumPy UCB-VI, one seed at a time", ratio, FASTER, "40")]


def joint_tree(sizes: Sizes) -> list[Row]:
    """Private-UCB-VI with a tree over every (h,s,a,s') and (h,s,a), a release after every episode."""
    world, episodes = _world(sizes), sizes.planned
    agent = _agent(world, episodes, Joint(epsilon=1), schedule="every-episode", counter="tree", pooled=False)
    statistic = agent.statistic
    cells = sum(statistic.cells(family) for family in statistic.families)
    buffer = np.empty((sizes.runs, cells))
    generators = [np.random.default_rng(seed) for seed in range(sizes.runs)]
    times = episodes - 1  # one noise for each release: `tree_every_episode` counts them
    one_call, a_call_each, mine = best_times(
        lambda: references.exponentials(generators[:1], buffer.reshape(1, -1), times),
        lambda: references.exponentials(generators, buffer, times),
        lambda: _played(agent, world, sizes.runs),
        repeats=sizes.repeats,
    )
    what = f"Private-UCB-VI, joint, tree, {sizes.runs} runs × {episodes:,}: the whole simulation"
    return [
        Row(what, f"standard_exponential(out=), its {times * buffer.size:,} draws", mine / one_call, TIMES, "2"),
        Row(what, "the same, by a generator for every run", mine / a_call_each, TIMES),
    ]


def joint_doubling(sizes: Sizes) -> list[Row]:
    """Private-UCB-VI with doubling batches against UCB-VI with the same schedule."""
    world = _world(sizes)
    private, exact = (_agent(world, sizes.episodes, privacy) for privacy in (Joint(epsilon=1), NonPrivate()))
    mine, theirs = best_times(
        lambda: _played(private, world, sizes.runs), lambda: _played(exact, world, sizes.runs), repeats=sizes.repeats
    )
    what = f"Private-UCB-VI, joint, doubling, {sizes.runs} runs × {sizes.episodes:,}"
    return [Row(what, "the same without privacy", mine / theirs, TIMES, "1.3")]


def growth(sizes: Sizes) -> list[Row]:
    """How the cost of the tree grows: with S against S²A, with K and with runs; and what memory K takes."""
    settings: dict[str, Any] = {"schedule": "every-episode", "counter": "tree", "pooled": False}

    def timed(states: int, episodes: int, runs: int) -> Any:
        world = riverswim(states=states, horizon=sizes.horizon)
        agent = _agent(world, episodes, Joint(epsilon=1), **settings)
        return lambda: _played(agent, world, runs)

    S, more, K, runs, few = sizes.states, sizes.many_states, sizes.planned // 4, max(sizes.runs // 4, 1), sizes.few
    small, large = best_times(timed(S, K, 1), timed(more, few, 1), repeats=sizes.repeats)
    base, longer, wider = best_times(
        timed(S, K, runs), timed(S, 4 * K, runs), timed(S, K, 4 * runs), repeats=sizes.repeats
    )
    found = [
        Row(
            f"tree, S = {more}: an episode, over S²A",
            f"S = {S}, over S²A",
            (large / few / more**2) / (small / K / S**2),
            TIMES,
            "1",
        ),
        Row(f"tree, K = {4 * K:,}: an episode", f"K = {K:,}", longer / base / 4, TIMES, "1"),
        Row(f"tree, {4 * runs} runs: an episode of a run", f"{runs} runs", wider / base / 4, TIMES, "1"),
    ]
    world = _world(sizes)
    held = []
    for episodes in (sizes.episodes // 8, sizes.episodes // 8, sizes.episodes):  # the first only warms up
        agent = _agent(world, episodes, Joint(epsilon=1))
        tracemalloc.start()
        _played(agent, world, sizes.runs)
        held.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    what = f"doubling, K = {sizes.episodes:,}: peak memory ({held[2] / 1e6:.1f} MB)"
    return [*found, Row(what, f"K = {sizes.episodes // 8:,}", held[2] / held[1], MEMORY, "1")]


def two_cores(sizes: Sizes) -> list[Row]:
    """Two processes, by the clock: it needs a machine with nothing else to do. Their start is paid for."""
    world = _world(sizes)
    agent = _agent(world, sizes.shared, Joint(epsilon=1), schedule="every-episode", counter="tree", pooled=False)
    cells = [Cell(agent=agent.with_settings(privacy=Joint(epsilon=n)), world=world) for n in range(1, 9)]
    what = [
        f"a sweep of {len(cells)} × {sizes.runs} runs × {sizes.shared:,}, joint, tree; two processes",
        f"one simulation of {sizes.runs} runs × {sizes.shared:,}, joint, tree; two processes",
    ]
    if len(os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else range(os.cpu_count() or 1)) < 2:
        return [Row(one, "one process", None, "skipped: needs two cores") for one in what]

    def swept(engine):
        with tempfile.TemporaryDirectory() as folder:
            return sweep(cells, folder=folder, runs=sizes.runs, engine=engine, progress=False)

    found = []
    for name, action in (
        (what[0], swept),
        (what[1], lambda engine: simulate(agent, world, runs=sizes.runs, engine=engine, progress=False)),
    ):
        seconds = []
        for engine in (1, Processes(2)):
            begin = time.perf_counter()
            action(engine)
            seconds.append(time.perf_counter() - begin)
        found.append(Row(name, "one process, by the clock", seconds[0] / seconds[1], FASTER, "1.8"))
    return found


_FIRST = """
import tacit
world = tacit.mdp.riverswim(states=6, horizon=20)
agent = tacit.online.UCBVI(world.spec, episodes=100, privacy=tacit.Joint(epsilon=1))
tacit.simulate(agent, world, runs=2, progress=False)
"""


_FIRST_OF_ALL = "simulate --epsilon 1 --episodes 100 --runs 2"


def first_call(sizes: Sizes) -> list[Row]:
    """A fresh process, from its start to the end of a small simulation: with compiled code in the cache, and without.

    The cold one is the command line's, which says what it waits for; half a minute is too long for `TINY`.
    """
    if not sizes.fresh:
        return []
    with tempfile.TemporaryDirectory() as cache:
        environment = {**os.environ, "NUMBA_CACHE_DIR": cache}
        command = [sys.executable, "-m", "tacit", *_FIRST_OF_ALL.split(), "--out", cache]
        begin = time.perf_counter()
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        cold = time.perf_counter() - begin
        told = next((line for line in done.stderr.splitlines() if "compiling" in line), "says nothing")
        warm = float("inf")
        for _ in range(sizes.repeats):
            begin = time.perf_counter()
            subprocess.run([sys.executable, "-c", _FIRST], env=environment, check=True, capture_output=True)
            warm = min(warm, time.perf_counter() - begin)
    return [
        Row("first simulation of a fresh process, compiled before", "the clock", warm, SECONDS, "2"),
        Row(f'… not compiled before: "{told.strip()}"', "the clock", cold, SECONDS, "30"),
    ]


ALL = (non_private, joint_tree, joint_doubling, growth, two_cores, first_call)


def _world(sizes: Sizes) -> TabularMDP:
    return riverswim(states=sizes.states, horizon=sizes.horizon)


def _agent(world: TabularMDP, episodes: int, privacy: Any, **settings: Any) -> UCBVI:
    return UCBVI(world.spec, episodes=episodes, privacy=privacy, **settings)


def _played(agent: UCBVI, world: TabularMDP, runs: int) -> None:
    simulate(agent, world, runs=runs, progress=False)
