"""The rows of the table. Every function measures one thing against its reference, at the sizes that it is given."""

import itertools
import time
import tracemalloc
from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from benchmarks import references
from benchmarks.measure import FASTER, MEMORY, TIMES, Row, best_times
from tacit.mdp import Streams, TabularMDP, Trajectories, planning, riverswim
from tacit.privacy import Joint, NonPrivate, SecureNoise, SimulationNoise
from tacit.privatizers import CentralPrivatizer
from tacit.statistics import TabularStatistic


@dataclass(frozen=True)
class Sizes:
    """How much of everything. The world is RiverSwim with two actions, and rows name what else they fix."""

    runs: int = 20
    states: int = 6
    many_states: int = 96
    horizon: int = 20
    episodes: int = 1_000
    batched: int = 5_000
    draws: int = 1_680
    lengths: tuple[int, int] = (2_000, 20_000)
    repeats: int = 5


FULL = Sizes()
TINY = Sizes(runs=2, many_states=9, horizon=3, episodes=9, batched=90, draws=70, lengths=(8, 64), repeats=1)


def noise(sizes: Sizes) -> list[Row]:
    """Simulated Laplace noise against NumPy's samplers."""
    runs, size, calls = sizes.runs, sizes.draws, 100
    source, generators, buffer = SimulationNoise(0), _generators(sizes), np.empty((runs, size))

    def ours():
        for _ in range(calls):
            source.laplace(scale=2.0, runs=runs, size=size)

    def theirs():
        for _ in range(calls):
            references.laplaces(generators, runs, size, 2.0)

    mine, exponential, laplace = best_times(
        ours, lambda: references.exponentials(generators, buffer, calls), theirs, repeats=sizes.repeats
    )
    what = f"SimulationNoise.laplace, {runs} runs × {size:,} draws"
    return [
        Row(what, "standard_exponential(out=), as many", mine / exponential, TIMES),
        Row(what, "Generator.laplace, as many", laplace / mine, FASTER),
    ]


def tree_every_episode(sizes: Sizes) -> list[Row]:
    """The central privatizer with a binary tree, a release after every episode, against drawing its noise."""
    statistic, people = _per_step(sizes), _one_by_one(sizes)
    counted = _Counting(0)
    _feed(_central(statistic, sizes, noise=counted), people)
    cells = sum(statistic.cells(family) for family in statistic.families)
    times, rest = divmod(counted.drawn, sizes.runs * cells)
    assert rest == 0, "every noise of a tree is one vector of all cells, for every run"
    generators, buffer = _generators(sizes), np.empty((sizes.runs, cells))
    mine, exponential = best_times(
        lambda: _feed(_central(statistic, sizes, noise=SimulationNoise(0)), people),
        lambda: references.exponentials(generators, buffer, times),
        repeats=sizes.repeats,
    )
    what = f"privatizer, tree, per step, {sizes.runs} runs: {sizes.episodes:,} × (observe, release)"
    reference = f"standard_exponential(out=), its {counted.drawn:,} draws"
    return [Row(what, reference, mine / exponential, TIMES, "2, the simulation included (issue 3)")]


def doubling_batches(sizes: Sizes) -> list[Row]:
    """Doubling batches, fed batch by batch, against rolling the same episodes out."""
    statistic, world, policy = _per_step(sizes), _world(sizes), _policy(sizes)
    spent = {"rollout": float("inf"), "private": float("inf")}

    def simulated(guarantee):
        privatizer = CentralPrivatizer(
            statistic, guarantee, episodes=sizes.batched, runs=sizes.runs, noise=SimulationNoise(0)
        )
        streams, rolled, observed = Streams(1, sizes.runs), 0.0, 0.0
        while privatizer.users < sizes.batched:
            begin = time.process_time()
            batch = privatizer.until_release() or sizes.batched - privatizer.users
            people = world.rollout(policy, episodes=batch, streams=streams)
            middle = time.process_time()
            privatizer.observe(people)
            privatizer.release()
            rolled, observed = rolled + middle - begin, observed + time.process_time() - middle
        if guarantee.kind != "none":
            spent["rollout"], spent["private"] = min(spent["rollout"], rolled), min(spent["private"], observed)
        return rolled + observed

    private, exact = best_times(
        lambda: simulated(Joint(epsilon=1)), lambda: simulated(NonPrivate()), repeats=sizes.repeats
    )
    what = f"privatizer, doubling, {sizes.runs} runs × {sizes.batched:,} episodes"
    return [
        Row(what, "the rollout of the same episodes", spent["private"] / spent["rollout"], TIMES),
        Row(f"rollout and {what}", "the same without privacy", private / exact, TIMES, "1.3"),
    ]


def rollouts(sizes: Sizes) -> list[Row]:
    """All runs at once against NumPy, vectorised over episodes, one run at a time."""
    world, policy, episodes, horizon = _world(sizes), _policy(sizes), sizes.batched, sizes.horizon
    kernel, mean = world.kernel[0], world.rewards.mean[0]

    def one_by_one():
        generators = Streams(3, sizes.runs).dynamics
        return [
            references.rollout(kernel, mean, world.start, policy[run], episodes, horizon, generator)
            for run, generator in enumerate(generators)
        ]

    def together():
        return world.rollout(policy, episodes=episodes, streams=Streams(3, sizes.runs))

    for mine, theirs in zip(together(), zip(*one_by_one(), strict=True), strict=True):
        assert np.array_equal(mine, np.stack(theirs)), "the reference rolls out something else"
    slow, fast = best_times(one_by_one, together, repeats=sizes.repeats)
    return [
        Row(
            f"rollout, {sizes.runs} runs × {episodes:,} episodes",
            "NumPy over episodes, one run at a time",
            slow / fast,
            FASTER,
        )
    ]


def plans(sizes: Sizes) -> list[Row]:
    """Planning on a model per run, and evaluating a policy per run, against einsum, one run at a time."""
    found = []
    for states in (sizes.states, sizes.many_states):
        runs, horizon, rng = sizes.runs, sizes.horizon, np.random.default_rng(0)
        kernel = rng.random((runs, horizon, states, 2, states))
        kernel /= kernel.sum(axis=-1, keepdims=True)
        rewards = rng.random((runs, horizon, states, 2))
        policy = rng.integers(0, 2, (runs, horizon, states)).astype(np.int32)

        def all_optimal(kernel=kernel, rewards=rewards):
            return planning.optimal(kernel, rewards, horizon=sizes.horizon).values

        def each_optimal(kernel=kernel, rewards=rewards):
            return [references.optimal(*run) for run in zip(kernel, rewards, strict=True)]

        def all_evaluated(kernel=kernel, rewards=rewards, policy=policy):
            return planning.evaluate(kernel, rewards, policy)

        def each_evaluated(kernel=kernel, rewards=rewards, policy=policy):
            return [references.evaluate(*run) for run in zip(kernel, rewards, policy, strict=True)]

        for name, ours, theirs in (
            ("optimal", all_optimal, each_optimal),
            ("evaluate", all_evaluated, each_evaluated),
        ):
            assert np.allclose(ours(), theirs(), rtol=1e-10), f"the reference's {name} is something else"
            slow, fast = best_times(theirs, ours, repeats=sizes.repeats)
            what = f"planning.{name}, S = {states}, {runs} runs, kernels per run and step"
            found.append(Row(what, "NumPy einsum, one run at a time", slow / fast, FASTER))
    return found


def sepsis(sizes: Sizes) -> list[Row]:
    """ICU-Sepsis as CSR against the same world dense."""
    from tacit.mdp.sepsis import icu_sepsis

    what = f"ICU-Sepsis (716 × 25 × 716), H = {sizes.horizon}: planning.optimal, CSR"
    try:
        world = icu_sepsis(horizon=sizes.horizon).world
    except ImportError:
        return [Row(what, "the same kernel dense", None, "skipped: needs tacit[sepsis]")]
    shape = (1, 1, world.spec.states, world.spec.actions, world.spec.states)
    return [_sparse_row(what, world, world.kernel.toarray().reshape(shape), sizes)]


def _sparse_row(what: str, world: TabularMDP, dense: np.ndarray, sizes: Sizes) -> Row:
    mean = world.rewards.mean[None]

    def plan(kernel):
        return planning.optimal(kernel, mean, horizon=sizes.horizon).values

    assert np.allclose(plan(world.kernel), plan(dense), rtol=1e-10), "CSR and dense plan different things"
    fast, slow = best_times(lambda: plan(world.kernel), lambda: plan(dense), repeats=sizes.repeats)
    return Row(f"{what} ({fast:.2g} s)", "the same kernel dense", slow / fast, FASTER)


def counters(sizes: Sizes) -> list[Row]:
    """Counters with Gaussian noise, fed one episode at a time: time per episode and numbers held per cell."""
    statistic, people, guarantee = _per_step(sizes), _one_by_one(sizes), Joint(epsilon=1, delta=1e-6)
    names = ("tree", "blt", "doubling")

    def fed(name):
        return _feed(
            _central(
                statistic,
                sizes,
                counter=name,
                guarantee=guarantee,
                mechanism="gaussian",
                noise=SimulationNoise(0),
            ),
            people,
        )

    seconds = dict(
        zip(names, best_times(*(lambda n=name: fed(n) for name in names), repeats=sizes.repeats), strict=True)
    )
    designs = {
        name: _central(statistic, sizes, counter=name, guarantee=guarantee, noise=SimulationNoise(0)).counter
        for name in names
    }
    found = []
    for name in names[1:]:
        what = f"{designs[name].name}, K = {sizes.episodes:,}, {sizes.runs} runs"
        held = designs[name].memory() / designs["tree"].memory()
        found.append(Row(f"{what}: an episode", "binary tree, Gaussian", seconds[name] / seconds["tree"], TIMES))
        found.append(Row(f"{what}: {designs[name].memory()} numbers per cell", "binary tree, Gaussian", held, MEMORY))
    return found


def memory(sizes: Sizes) -> list[Row]:
    """The largest amount of memory that a tree privatizer of one run holds, for a short and a long stream."""
    held, alone = [], replace(sizes, runs=1)
    statistic = _per_step(alone)
    (person,) = _one_by_one(replace(alone, episodes=1))
    for length in (sizes.lengths[0], *sizes.lengths):  # the first only warms up
        tracemalloc.start()
        privatizer = _central(statistic, replace(alone, episodes=length), noise=SimulationNoise(0))
        _feed(privatizer, itertools.repeat(person, length))
        held.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    short, long = sizes.lengths
    levels = [(length - 1).bit_length() for length in sizes.lengths]
    return [
        Row(
            f"privatizer, tree, K = {long:,}: peak memory ({held[2] / 1e6:.2f} MB per run)",
            f"K = {short:,}",
            held[2] / held[1],
            MEMORY,
            f"{levels[1] / levels[0]:.2f}, growth of log K",
        )
    ]


def secure(sizes: Sizes) -> list[Row]:
    """A draw of OpenDP's exact samplers against a simulated one."""
    found = []
    for law in ("laplace", "gaussian"):
        exact, simulated = SecureNoise(), SimulationNoise(0)
        slow, fast = best_times(
            lambda law=law, source=exact: getattr(source, law)(scale=64.0, runs=1, size=sizes.draws),
            lambda law=law, source=simulated: getattr(source, law)(scale=64.0, runs=1, size=sizes.draws),
            repeats=sizes.repeats,
        )
        what = f"SecureNoise.{law} ({slow / sizes.draws * 1e6:.2g} µs a draw)"
        found.append(Row(what, f"SimulationNoise.{law}", slow / fast, TIMES))
    return found


ALL = (noise, tree_every_episode, doubling_batches, rollouts, plans, sepsis, counters, memory, secure)


class _Counting(SimulationNoise):
    """Counts its draws."""

    drawn = 0

    def laplace(self, *, scale, runs, size, terms=1):
        self.drawn += runs * size * terms
        return super().laplace(scale=scale, runs=runs, size=size, terms=terms)


def _generators(sizes: Sizes) -> list[np.random.Generator]:
    return [np.random.default_rng(seed) for seed in range(sizes.runs)]


def _world(sizes: Sizes) -> TabularMDP:
    return riverswim(states=sizes.states, horizon=sizes.horizon)


def _policy(sizes: Sizes) -> np.ndarray:
    """Another policy for every run, mostly upstream."""
    shape = (sizes.runs, sizes.horizon, sizes.states)
    return (np.random.default_rng(2).random(shape) < 0.8).astype(np.int32)


def _per_step(sizes: Sizes) -> TabularStatistic:
    """Transitions and centred rewards, for every step."""
    return TabularStatistic(spec=_world(sizes).spec, pooled=False)


def _one_by_one(sizes: Sizes) -> list[Trajectories]:
    """Episodes as a simulator hands them over that plans after each one."""
    rolled = _world(sizes).rollout(_policy(sizes), episodes=sizes.episodes, streams=Streams(0, sizes.runs))
    return [
        Trajectories(*(np.ascontiguousarray(column[:, k : k + 1]) for column in rolled)) for k in range(sizes.episodes)
    ]


def _central(statistic, sizes: Sizes, *, noise, counter="tree", guarantee=None, **options) -> CentralPrivatizer:
    return CentralPrivatizer(
        statistic,
        guarantee or Joint(epsilon=1),
        episodes=sizes.episodes,
        counter=counter,
        runs=sizes.runs,
        noise=noise,
        **options,
    )


def _feed(privatizer: CentralPrivatizer, people: Iterable[Trajectories]) -> None:
    for episode in people:
        privatizer.observe(episode)
        privatizer.release()
