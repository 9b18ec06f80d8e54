"""UCB-VI and UCB-PO against the paper's lines, and what must hold of any release.

Statistical tests have a false-alarm rate of at most 1e-6 each. Seeded ones never raise a false alarm once they pass.
"""

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from learners.cases import EXACT, no_uniforms, problem, relabelled, run_of, uniforms_of, zeros
from learners.literal import algorithm_1, algorithm_2
from tacit.learners import UCBPO, UCBVI
from tacit.mdp.spec import EpisodeSpec
from tacit.releases import TabularRelease

relaxed = settings(deadline=None)  # the first call compiles
problems = st.integers(0, 2**32).map(problem)
seeds = st.integers(0, 2**32)
NO_BONUS = {"statistical_scale": 0.0, "privacy_scale": 0.0}


def states_of(learner, releases, uniforms):
    """After each release."""
    found = [learner.start(releases[0], uniforms)]
    for release in releases[1:]:
        found.append(learner.update(found[-1], release, uniforms))
    return found


def both(problem, seed=0):
    """(learner, states) of UCB-VI and UCB-PO."""
    for learner in (problem.vi(), problem.po()):
        yield learner, states_of(learner, problem.releases, uniforms_of(np.random.default_rng(seed), problem.runs))


def ceilings(q):
    return np.arange(q.shape[1], 0, -1.0)[:, None, None]


def same(state, other):
    fields = zip(state._asdict().items(), other._asdict().items(), strict=True)
    return type(state) is type(other) and all(
        name == name2 and type(value) is type(value2) and np.array_equal(value, value2)
        for (name, value), (name2, value2) in fields
    )


def tied(means, runs=1):
    """8 visits of each pair with these mean rewards (steps, S, A), and state 0 next: sums and ties are exact."""
    steps, S, A = np.shape(means)
    visits = np.full((runs, steps, S, A), 8.0)
    transitions = np.zeros((runs, steps, S, A, S))
    transitions[..., 0] = 8.0
    return TabularRelease(
        episodes=8,
        transitions=transitions,
        visits=visits,
        rewards=visits * means,
        centred=False,
        starts=None,
        errors=EXACT,
    )


# Against the paper


@relaxed
@given(problem=problems, seed=seeds)
def test_ucb_vi_is_algorithm_2(problem, seed):
    uniforms = uniforms_of(np.random.default_rng(seed), problem.runs)
    for release, state in zip(problem.releases, states_of(problem.vi(), problem.releases, uniforms), strict=True):
        for run in range(problem.runs):
            expected = algorithm_2(problem.theorem, release, run)
            np.testing.assert_allclose(state.q[run], expected, rtol=0, atol=1e-10)
        chosen = np.take_along_axis(state.q, state.policy[..., None], axis=-1)[..., 0]
        assert np.array_equal(chosen, state.q.max(axis=-1))  # line 10


@relaxed
@given(problem=problems)
def test_ucb_po_is_algorithm_1(problem):
    states = states_of(problem.po(), problem.releases, no_uniforms)
    for run in range(problem.runs):
        expected = algorithm_1(problem.theorem, problem.releases, run, problem.eta_scale)
        for release, state, (policy, q) in zip(problem.releases, states, expected, strict=True):
            assert state.episodes == release.episodes
            np.testing.assert_allclose(state.policy[run], policy, rtol=0, atol=1e-10)
            np.testing.assert_allclose(state.q[run], q, rtol=0, atol=1e-10)


def test_the_random_problems_are_seldom_all_clipped():
    """Or the two tests above would compare ceilings; policies, too, must have left the uniform one."""
    inside, policies = [], []
    for seed in range(300):
        for _, states in both(problem(seed)):
            q = states[-1].q
            inside.append(((q > 0) & (q < ceilings(q))).any())
            policies.append(states[-1].policy)
    assert np.mean(inside) > 0.4
    moved = [np.ptp(policy, axis=-1).max() > 0.01 for policy in policies[1::2]]
    assert np.mean(moved) > 0.1


def test_the_learning_rate_is_that_of_theorem_3_2():
    spec = EpisodeSpec(states=6, actions=2, horizon=20)
    assert UCBPO(spec=spec, episodes=20_000).eta == pytest.approx(math.sqrt(2 * math.log(2) / (400 * 20_000)))
    assert UCBPO(spec=spec, episodes=20_000, eta_scale=7.0).eta == pytest.approx(7 * math.sqrt(2 * math.log(2) / 8e6))


@relaxed
@given(problem=problems, factor=st.floats(0, 5), m=st.integers(1, 40))
def test_eta_scale_and_the_episodes_in_between_multiply_the_step(problem, factor, m):
    """From one Q: a step η·factor over m episodes has the odds exp(η·factor·m·Q)."""
    last = problem.releases[-1]
    plain = replace(problem.po(), eta_scale=1.0)
    scaled = replace(plain, eta_scale=factor)
    state = plain.start(last, no_uniforms)
    after = scaled.update(state, replace(last, episodes=last.episodes + m), no_uniforms).policy
    odds = np.log(after) - np.log(after[..., :1])
    np.testing.assert_allclose(odds, plain.eta * factor * m * (state.q - state.q[..., :1]), rtol=1e-9, atol=1e-9)


def test_a_very_large_step_is_greedy_and_finite():
    release = tied(np.array([[[1.0, 3.0, 2.0], [3.0, 1.0, 3.0]]]) / 4)
    learner = UCBPO(spec=EpisodeSpec(states=2, actions=3, horizon=1), episodes=9, **NO_BONUS, eta_scale=1e9)
    state = learner.update(learner.start(release, no_uniforms), replace(release, episodes=9), no_uniforms)
    np.testing.assert_array_equal(state.policy[0, 0], [[0, 1, 0], [0.5, 0, 0.5]])


def test_one_state_one_action_one_step():
    spec = EpisodeSpec(states=1, actions=1, horizon=1)
    release = replace(zeros((1, 1, 1, 1)), visits=np.full((1, 1, 1, 1), 8.0), rewards=np.full((1, 1, 1, 1), 2.0))
    first = uniforms_of(np.random.default_rng(0), 1)
    for learner in (UCBVI(spec=spec, episodes=9, **NO_BONUS), UCBPO(spec=spec, episodes=9, **NO_BONUS)):
        state = learner.update(learner.start(release, first), replace(release, episodes=8), first)
        assert state.q.tolist() == [[[[0.25]]]]
        assert state.policy.tolist() == ([[[0]]] if isinstance(learner, UCBVI) else [[[[1.0]]]])
        assert state.informative.tolist() == [True]


# Ties


def every_subset_ties(A=4):
    """One state for each non-empty set of actions, which are the best ones there: (sets, means (1, S, A))."""
    sets = [s for size in range(1, A + 1) for s in itertools.combinations(range(A), size)]
    means = np.tile(np.arange(A) / 16, (1, len(sets), 1))
    for state, best in enumerate(sets):
        means[0, state, list(best)] = 0.5
    return sets, means


def test_ties_are_broken_uniformly_among_the_best():
    sets, means = every_subset_ties()
    spec = EpisodeSpec(states=len(sets), actions=4, horizon=2)
    learner = UCBVI(spec=spec, episodes=8, **NO_BONUS)
    runs = 4000
    state = learner.start(tied(means, runs), uniforms_of(np.random.default_rng(0), runs))
    for number, best in enumerate(sets):
        chosen = state.policy[:, :, number]
        assert set(np.unique(chosen)) == set(best)
        if len(best) > 1:
            counts = [np.bincount(chosen[:, step], minlength=4)[list(best)] for step in range(2)]
            together = np.bincount(4 * chosen[:, 0] + chosen[:, 1], minlength=16).reshape(4, 4)[np.ix_(best, best)]
            for table in (*counts, together):  # each step, and the two steps independently
                assert stats.chisquare(np.ravel(table)).pvalue > 1e-8


def test_before_anything_is_known_every_action_is_as_likely():
    """With all values at the ceiling the first action would always win, and UCB-VI would never leave it."""
    spec, runs = EpisodeSpec(states=2, actions=3, horizon=2), 4000
    state = UCBVI(spec=spec, episodes=100).start(zeros((runs, 1, 2, 3)), uniforms_of(np.random.default_rng(1), runs))
    assert not state.informative.any()
    joint = np.zeros((3,) * 4)
    np.add.at(joint, tuple(state.policy.reshape(runs, 4).T), 1)
    assert stats.chisquare(joint.ravel()).pvalue > 1e-6


def test_the_smallest_and_the_largest_uniform_choose_the_first_and_the_last():
    largest = 1 - 2.0**-53
    for actions in range(1, 200):
        learner = UCBVI(spec=EpisodeSpec(states=1, actions=actions, horizon=1), episodes=1)
        release = zeros((1, 1, 1, actions))
        assert learner.start(release, lambda shape: np.zeros((1, *shape))).policy.item() == 0
        assert learner.start(release, lambda shape: np.full((1, *shape), largest)).policy.item() == actions - 1


@relaxed
@given(problem=problems, seed=seeds)
def test_the_uniforms_choose_among_ties_and_do_nothing_else(problem, seed):
    learner, release = problem.vi(), problem.releases[-1]
    first, second = (
        learner.start(release, uniforms_of(np.random.default_rng([seed, i]), problem.runs)) for i in (0, 1)
    )
    assert np.array_equal(first.q, second.q)
    assert np.array_equal(first.informative, second.informative)
    alone = (first.q == first.q.max(axis=-1, keepdims=True)).sum(axis=-1) == 1
    assert np.array_equal(first.policy[alone], second.policy[alone])


# Names, runs, memory


@relaxed
@given(problem=problems, seed=seeds)
def test_new_names_for_states_and_actions_change_only_the_names(problem, seed):
    rng = np.random.default_rng(seed)
    names, acts = rng.permutation(problem.theorem.S), rng.permutation(problem.theorem.A)
    renamed = problem._replace(releases=tuple(relabelled(release, names, acts) for release in problem.releases))
    for (learner, states), (_, others) in zip(both(problem), both(renamed), strict=True):
        for before, after in zip(states, others, strict=True):
            np.testing.assert_allclose(after.q[:, :, names][..., acts], before.q, rtol=0, atol=1e-10)
            if isinstance(learner, UCBPO):
                np.testing.assert_allclose(after.policy[:, :, names][..., acts], before.policy, rtol=0, atol=1e-10)
            else:
                rivals = (before.q > before.q.max(axis=-1, keepdims=True) - 1e-9).sum(axis=-1)
                clear = rivals == 1
                assert np.array_equal(after.policy[:, :, names][clear], acts[before.policy][clear])


@relaxed
@given(problem=problems)
def test_runs_are_independent_to_the_last_bit(problem):
    drawn = np.random.default_rng(0).random((problem.runs, problem.theorem.H, problem.theorem.S))
    for learner in (problem.vi(), problem.po()):
        together = states_of(learner, problem.releases, lambda _: drawn)
        for run in range(problem.runs):
            mine = drawn[run : run + 1]
            alone = states_of(
                learner, [run_of(release, run) for release in problem.releases], lambda _, mine=mine: mine
            )
            for many, one in zip(together, alone, strict=True):
                for field, value in one._asdict().items():
                    theirs = getattr(many, field)
                    assert np.array_equal(value[0], theirs[run]) if isinstance(value, np.ndarray) else value == theirs


@relaxed
@given(problem=problems)
def test_releases_and_states_may_be_read_only_and_releases_strided(problem):
    strided = []
    for release in problem.releases:
        wide = {name: np.repeat(getattr(release, name), 2, axis=-1) for name in ("transitions", "visits", "rewards")}
        strided.append(replace(release, **{name: array[..., ::2] for name, array in wide.items()}))
    for learner in (problem.vi(), problem.po()):
        draws = [uniforms_of(np.random.default_rng(0), problem.runs) for _ in range(2)]
        frozen = learner.start(problem.releases[0], draws[0])
        for release in problem.releases[1:]:
            for value in frozen:
                if isinstance(value, np.ndarray):
                    value.flags.writeable = False
            frozen = learner.update(frozen, release, draws[0])
        assert same(states_of(learner, strided, draws[1])[-1], frozen)


@relaxed
@given(problem=problems)
def test_a_restored_state_is_the_state_and_goes_on_as_it(problem):
    for learner, states in both(problem):
        fields = states[-2]._asdict()
        assert same(learner.restored(fields), states[-2])
        numbers = {k: v if isinstance(v, np.ndarray) else np.int64(v) for k, v in fields.items()}  # as files give them
        assert same(learner.restored(numbers), states[-2])
        draws = [uniforms_of(np.random.default_rng(3), problem.runs) for _ in range(2)]
        went_on = learner.update(states[-2], problem.releases[-1], draws[0])
        assert same(learner.update(learner.restored(numbers), problem.releases[-1], draws[1]), went_on)


# What must be told


@relaxed
@given(problem=problems)
def test_informative_says_whether_any_value_is_below_its_ceiling(problem):
    for _, states in both(problem):
        for state in states:
            assert np.array_equal(state.informative, (state.q < ceilings(state.q)).any(axis=(1, 2, 3)))


@pytest.mark.parametrize("kind", [UCBVI, UCBPO])
def test_one_value_in_one_run_is_enough_to_be_informative(kind):
    learner = kind(spec=EpisodeSpec(states=2, actions=2, horizon=2), episodes=8, **NO_BONUS)
    cells = list(np.ndindex(2, 2, 2))
    release = tied(np.ones((2, 2, 2)), runs=1 + len(cells))
    for run, cell in enumerate(cells):
        release.rewards[1 + run][cell] -= 2.0**-40
    state = learner.start(release, uniforms_of(np.random.default_rng(0), 1 + len(cells)))
    assert state.informative.tolist() == [False] + [True] * len(cells)


@pytest.mark.parametrize("kind", [UCBVI, UCBPO])
@pytest.mark.parametrize("centred", [False, True])
@pytest.mark.parametrize("pooled", [False, True])
@pytest.mark.parametrize("field", ["visits", "rewards", "transitions"])
def test_nan_is_not_hidden(field, pooled, centred, kind):
    """In its cell and in all values before it; later steps and other runs are as they were."""
    steps, bad = (1, 0) if pooled else (3, 1)
    learner = kind(spec=EpisodeSpec(states=2, actions=2, horizon=3), episodes=8, **NO_BONUS)
    draw = uniforms_of(np.random.default_rng(0), 2)
    clean = replace(tied(np.random.default_rng(0).integers(1, 5, (steps, 2, 2)) / 8, runs=2), centred=centred)
    good = learner.start(clean, draw)
    for cell in np.ndindex(2, 2, 2):
        poisoned = getattr(clean, field).copy()
        poisoned[(1, bad, *(cell if field == "transitions" else cell[:2]))] = np.nan
        state = learner.start(replace(clean, **{field: poisoned}), draw)
        places = [0, 1, 2] if pooled else [1]
        assert np.isnan(state.q[1, places, cell[0], cell[1]]).all()
        assert np.isnan(state.q[1, : max(places)]).all()
        assert np.array_equal(state.q[1, 1 + max(places) :], good.q[1, 1 + max(places) :])
        assert np.array_equal(state.q[0], good.q[0])
        if kind is UCBPO:
            after = learner.update(state, replace(clean, episodes=9), draw)
            assert np.isnan(after.policy[np.isnan(state.q).any(axis=-1)]).all()
            assert np.isfinite(after.policy[0]).all()
