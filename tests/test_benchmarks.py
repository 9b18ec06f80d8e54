"""The benchmarks run, at tiny sizes and without looking at a clock, and their references compute what they claim to."""

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))  # benchmarks/ is not installed

from benchmarks import measure, offline_rows, online_rows, references, rows

import tacit
from tacit.learners import UCBVI
from tacit.learners.apvi import reconcile
from tacit.mdp import Streams, planning, riverswim
from tacit.statistics import TabularStatistic

NUMBER_OF_ROWS = {
    "noise": 2,
    "tree_every_episode": 1,
    "doubling_batches": 2,
    "rollouts": 1,
    "plans": 4,
    "sepsis": 1,
    "counters": 4,
    "memory": 1,
    "secure": 2,
    "non_private": 1,
    "joint_tree": 2,
    "joint_doubling": 1,
    "growth": 4,
    "two_cores": 2,
    "first_call": 0,  # half a minute, but for the tiny size
    "equation_3": 1,
    "training": 1,
    "regressions": 1,
}


@pytest.mark.filterwarnings("ignore::tacit.learners.NothingLearnt")
@pytest.mark.parametrize(
    ("row", "sizes"),
    [(row, module.TINY) for module in (rows, online_rows, offline_rows) for row in module.ALL],
    ids=lambda part: getattr(part, "__name__", ""),
)
def test_every_benchmark_makes_its_rows(row, sizes):
    found = row(sizes)
    assert len(found) == NUMBER_OF_ROWS[row.__name__]
    for line in found:
        assert line.what
        assert line.reference
        assert line.ratio is None or line.ratio > 0
        assert line.ratio is not None or "skipped" in line.unit


def test_a_missing_extra_is_a_line_of_the_table(monkeypatch):
    def missing(**_):
        raise ImportError

    monkeypatch.setattr("tacit.mdp.sepsis.icu_sepsis", missing)
    (row,) = rows.sepsis(rows.TINY)
    assert "skipped: needs tacit[sepsis]" in measure.table([row])


def test_the_reference_rollout_is_the_same_rollout():
    world, policy = riverswim(states=4, horizon=6), np.random.default_rng(0).integers(0, 2, (3, 6, 4))
    ours = world.rollout(policy, episodes=50, streams=Streams(5, 3))
    for run, generator in enumerate(Streams(5, 3).dynamics):
        theirs = references.rollout(world.kernel[0], world.rewards.mean[0], world.start, policy[run], 50, 6, generator)
        for mine, other in zip(ours, theirs, strict=True):
            np.testing.assert_array_equal(mine[run], other)


@pytest.mark.parametrize("states", [3, 50])  # compiled loops, and NumPy's products
def test_the_reference_plans_are_the_same_plans(states):
    rng = np.random.default_rng(1)
    kernel = rng.dirichlet(np.ones(states), (2, 4, states, 2))
    rewards, policy = rng.random((2, 4, states, 2)), rng.integers(0, 2, (2, 4, states))
    best = planning.optimal(kernel, rewards, horizon=4).values
    values = planning.evaluate(kernel, rewards, policy)
    for run in range(2):
        np.testing.assert_allclose(references.optimal(kernel[run], rewards[run]), best[run], rtol=1e-12)
        np.testing.assert_allclose(references.evaluate(kernel[run], rewards[run], policy[run]), values[run], rtol=1e-12)


def test_the_reference_learner_plans_as_ours_does():
    """On the same counts, with the same width: the same optimistic values, and a policy that is greedy for them."""
    world = riverswim(states=4, horizon=5)
    statistic = TabularStatistic(spec=world.spec, pooled=False)
    private = tacit.privatizers.CentralPrivatizer(statistic, tacit.NonPrivate(), episodes=50, counter="once", runs=2)
    private.observe(world.rollout(np.ones((1, 5, 4), np.int32), episodes=50, streams=Streams(0, 2)))
    release, learner = private.release(), UCBVI(spec=world.spec, episodes=50, statistical_scale=0.1)
    ours = learner.start(release, Streams(1, 2).policy.take)
    width = learner.value_widths(release).statistical
    for run in range(2):
        counts = release.visits[run], release.transitions[run], release.reward_sums[run]
        q, policy = references.optimistic(*counts, width, np.random.default_rng(0))
        np.testing.assert_allclose(q, ours.q[run], rtol=1e-12)
        assert (np.take_along_axis(q, policy[..., None], axis=-1)[..., 0] == q.max(axis=-1)).all()


def test_the_reference_learner_learns():
    world = riverswim(states=3, horizon=6)
    values = references.ucbvi(
        world.kernel[0], world.rewards.mean[0], world.start, 6, 3000, 3.0, np.random.default_rng(0)
    )
    assert values[-50:].mean() > 0.9 * world.optimal_value > 2 * values[:5].mean()


def test_the_reference_solver_solves_the_same_equation():
    rng = np.random.default_rng(3)
    rows, seen = rng.normal(5, 10, (30, 6)), rng.normal(30, 40, 30)
    ours, _ = reconcile(rows, seen, 8.0)
    for row, visits, mine in zip(rows, seen, ours, strict=True):
        np.testing.assert_allclose(references.reconcile(row, visits, 8.0), mine, atol=1e-7)


def test_the_tree_s_draws_are_counted_exactly():
    """One noise per cell and run for each release that is or lends noise: 8 of 8 for 9 episodes."""
    (row,) = rows.tree_every_episode(rows.TINY)
    cells = 3 * 6 * 2 * (6 + 1)
    assert f"its {8 * 2 * cells:,} draws" in row.reference


def test_times_are_taken_in_turns_and_actions_may_time_themselves():
    order = []
    best = measure.best_times(lambda: order.append("a"), lambda: order.append("b") or 0.5, repeats=2)
    assert order == ["a", "b"] * 3
    assert best[0] >= 0
    assert best[1] == 0.5


def test_the_table_has_a_line_for_each_row_and_aligned_columns():
    text = measure.table(
        [
            measure.Row("one", "slow", 0.5, measure.TIMES, "2"),
            measure.Row("another", "slower", 1234.0, measure.FASTER),
        ]
    ).splitlines()
    assert len(text) == 4
    assert "0.50 × the time" in text[2]
    assert "1,234 × as fast" in text[3]
    assert len({line.index(word) for line, word in zip(text[2:], ("slow", "slower"), strict=True)}) == 1
