"""The worlds: their constructions against tables and simulators written out by hand, their known values."""

from __future__ import annotations

import itertools
import subprocess
import sys
from dataclasses import replace

import literal
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tacit.mdp as mdp

LEFT, RIGHT = 0, 1


def always(action, world):
    return np.full((1, world.spec.horizon, world.spec.states), action)


def uniform_policy(world):
    S, A, H = world.spec.states, world.spec.actions, world.spec.horizon
    return np.full((1, H, S, A), 1.0 / A)


# RiverSwim


def test_riverswim_is_the_papers_table():
    world = mdp.riverswim(states=6, horizon=20)
    right = np.array(
        [
            [0.40, 0.60, 0.00, 0.00, 0.00, 0.00],
            [0.05, 0.60, 0.35, 0.00, 0.00, 0.00],
            [0.00, 0.05, 0.60, 0.35, 0.00, 0.00],
            [0.00, 0.00, 0.05, 0.60, 0.35, 0.00],
            [0.00, 0.00, 0.00, 0.05, 0.60, 0.35],
            [0.00, 0.00, 0.00, 0.00, 0.40, 0.60],
        ]
    )
    left = np.array([[1, 0, 0, 0, 0, 0], [1, 0, 0, 0, 0, 0], *np.eye(6)[1:5].tolist()])
    kernel, mean = literal.kernel_and_mean(world)
    np.testing.assert_array_equal(kernel[0, :, RIGHT], right)
    np.testing.assert_array_equal(kernel[0, :, LEFT], left)
    expected = np.zeros((1, 6, 2))
    expected[0, 0, LEFT], expected[0, 5, RIGHT] = 0.005, 1.0
    np.testing.assert_array_equal(mean, expected)
    assert world.spec == mdp.EpisodeSpec(states=6, actions=2, horizon=20, rewards=(0.0, 1.0), start=0)


def test_riverswim_values_of_the_design_page():
    world = mdp.riverswim(states=6, horizon=20)
    K = 20_000
    assert round(K * world.optimal_value) == 67_945
    left = world.policy_values(always(LEFT, world))[0]
    assert left == pytest.approx(0.1, abs=1e-12)
    assert round(K * (world.optimal_value - left)) == 65_945
    assert world.optimal_value == pytest.approx(literal.optimal_value(world), rel=1e-12)
    assert world.policy_values(uniform_policy(world))[0] == pytest.approx(
        literal.policy_value(world, uniform_policy(world)[0]), rel=1e-12
    )


@pytest.mark.parametrize(
    ("states", "right"),
    [(2, [[0.4, 0.6], [0.4, 0.6]]), (3, [[0.4, 0.6, 0.0], [0.05, 0.6, 0.35], [0.0, 0.4, 0.6]])],
)
def test_short_rivers(states, right):
    kernel, _ = literal.kernel_and_mean(mdp.riverswim(states=states, horizon=1))
    np.testing.assert_array_equal(kernel[0, :, RIGHT], right)


def test_riverswim_with_noise_keeps_means_and_values():
    world = mdp.riverswim(
        rewards=lambda mean: mdp.SymmetricStable(mean=mean, alpha=2.0, scale=1.0),
        declared=mdp.MomentBound(order=2.0, bound=3.0, mean=1.0),  # N(1, 2): 1 + 2
    )
    assert world.optimal_value == mdp.riverswim().optimal_value
    trajectories = world.rollout(always(RIGHT, world), episodes=500, streams=mdp.Streams(3, 2))
    noise = trajectories.rewards - world.rewards.mean[0][trajectories.states[..., :-1], trajectories.actions]
    assert noise.std() == pytest.approx(np.sqrt(2.0), rel=0.03)


def test_riverswim_refuses_what_cannot_be():
    with pytest.raises(mdp.SpecError, match="two banks"):
        mdp.riverswim(states=1)
    with pytest.raises(mdp.SpecError):  # an unbounded law under a declared range
        mdp.riverswim(rewards=lambda mean: mdp.Gaussian(mean=mean, sd=1.0))


# Chain


def chain_value(states, horizon, slip, small, large):
    """The chain's rules, not its matrices."""

    def effect(state, effective):
        if effective == 0:
            return 0, small
        return (state + 1, 0.0) if state < states - 1 else (state, large)

    values = [0.0] * states
    for _ in range(horizon):
        previous = values
        values = []
        for state in range(states):
            best = -np.inf
            for action in (0, 1):
                total = 0.0
                for effective, chance in ((action, 1 - slip), (1 - action, slip)):
                    to, reward = effect(state, effective)
                    total += chance * (reward + previous[to])
                best = max(best, total)
            values.append(best)
    return values[0]


@pytest.mark.parametrize(("states", "horizon", "slip"), [(5, 20, 0.2), (2, 7, 0.5), (4, 3, 0.0), (3, 9, 1.0)])
def test_chain_follows_its_rules(states, horizon, slip):
    world = mdp.chain(states=states, horizon=horizon, slip=slip)
    assert world.optimal_value == pytest.approx(chain_value(states, horizon, slip, 0.2, 1.0), rel=1e-12)


def test_chain_earns_what_the_literature_says():
    """3677 in 1000 steps is the optimal average that Dearden et al. (1998) and Strens (2000) print."""
    world = mdp.chain(states=5, horizon=400)
    values = world.optimal.values[0]
    gain = 10 * (values[0, 0] - values[1, 0])  # what one more step brings; rewards are 10 times ours
    assert gain * 1000 == pytest.approx(3677, abs=0.5)


def test_chain_pays_by_where_a_step_leads():
    world = mdp.chain(states=4, horizon=12)
    states, _, rewards = world.rollout(uniform_policy(world), episodes=200, streams=mdp.Streams(0, 1))
    here, there = states[..., :-1], states[..., 1:]
    expected = np.where(there == 0, 0.2, np.where((here == 3) & (there == 3), 1.0, 0.0))
    np.testing.assert_array_equal(rewards, expected)
    assert {0.0, 0.2, 1.0} == set(np.unique(rewards))


@pytest.mark.parametrize("wrong", [{"states": 1}, {"slip": 1.5}, {"slip": float("nan")}, {"small": 0.0, "large": 0.0}])
def test_chain_refuses(wrong):
    with pytest.raises(mdp.SpecError):
        mdp.chain(**wrong)


# DeepSea


def dive(size, actions, right_is):
    """bsuite's rules for one sequence of actions, without slip."""
    column = 0
    total = 0.0
    for row, action in enumerate(actions):
        if action == right_is[row * size + column]:
            total += (1.0 if column == size - 1 else 0.0) - 0.01 / size
            column = min(column + 1, size - 1)
        else:
            column = max(column - 1, 0)
    return total


@pytest.mark.parametrize("mapping_seed", [None, 0, 5])
def test_deep_sea_by_all_sequences(mapping_seed):
    size = 5
    world = mdp.deep_sea(size=size, mapping_seed=mapping_seed)
    right_is = np.argmin(world.rewards.mean[0] * np.where(world.rewards.mean[0] > 0, -1, 1), axis=-1)
    if mapping_seed is None:
        assert (right_is == 1).all()
    else:
        assert set(right_is) == {0, 1}
    returns = []
    for actions in itertools.product((0, 1), repeat=size):
        policy = np.repeat(np.array(actions)[None, :, None], size * size, axis=2)
        returns.append(world.policy_values(policy)[0])
        assert returns[-1] == pytest.approx(dive(size, actions, right_is), abs=1e-12)
    assert sum(value > 0 for value in returns) == 1
    assert world.optimal_value == pytest.approx(0.99)
    assert max(returns) == pytest.approx(0.99)


def test_deep_sea_with_slip():
    size, slip, cost = 4, 0.25, 0.01 / 4
    world = mdp.deep_sea(size=size, slip=slip)

    def value(row, column):
        if row == size:
            return 0.0
        paid = (1.0 if column == size - 1 else 0.0) - cost
        right = (1 - slip) * value(row + 1, min(column + 1, size - 1)) + slip * value(row + 1, column) + paid
        return max(right, value(row + 1, max(column - 1, 0)))

    assert world.optimal_value == pytest.approx(value(0, 0), rel=1e-12)
    assert world.optimal_value < 0.75**3


def test_deep_sea_sinks_one_row_per_step():
    world = mdp.deep_sea(size=6, slip=0.3, mapping_seed=1)
    states, _, _ = world.rollout(uniform_policy(world), episodes=50, streams=mdp.Streams(1, 1))
    np.testing.assert_array_equal(states[..., :-1] // 6, np.broadcast_to(np.arange(6), (1, 50, 6)))
    assert (states[..., -1] == 0).all()


def test_deep_sea_sizes():
    assert mdp.deep_sea(size=1).optimal_value == pytest.approx(0.99)
    large = mdp.deep_sea(size=30)
    assert not isinstance(large.kernel, np.ndarray)  # sparse: 2 of 900 entries per row
    assert large.optimal_value == pytest.approx(0.99)
    for wrong in ({"size": 0}, {"slip": -0.1}, {"move_cost": float("inf")}):
        with pytest.raises(mdp.SpecError):
            mdp.deep_sea(**wrong)


# Random worlds


@settings(max_examples=30, deadline=None)
@given(
    states=st.integers(1, 7),
    actions=st.integers(1, 4),
    horizon=st.integers(1, 4),
    stationary=st.booleans(),
    data=st.data(),
)
def test_random_worlds_have_the_successors_asked_for(states, actions, horizon, stationary, data):
    successors = data.draw(st.integers(1, states))
    make = {
        "states": states,
        "actions": actions,
        "horizon": horizon,
        "successors": successors,
        "stationary": stationary,
    }
    world = mdp.random_mdp(**make, seed=4)
    kernel, mean = literal.kernel_and_mean(world)
    assert kernel.shape == (1 if stationary else horizon, states, actions, states)
    assert ((kernel > 0).sum(axis=-1) == successors).all()
    assert ((mean >= 0) & (mean <= 1)).all()
    np.testing.assert_array_equal(kernel, literal.kernel_and_mean(mdp.random_mdp(**make, seed=4))[0])
    assert world.optimal_value == pytest.approx(literal.optimal_value(world), rel=1e-12)


def test_random_worlds_vary():
    world = mdp.random_mdp(states=40, actions=25, horizon=2, successors=4, seed=1, rewarding=0.1)
    kernel, mean = literal.kernel_and_mean(world)
    assert (mean > 0).sum() == 100
    used = (kernel[0] > 0).sum(axis=(0, 1))
    # 1000 draws of 4 out of 40: each state 100 times, sd 9.5.
    assert used.sum() == 4000
    assert 55 < used.min() <= used.max() < 145
    positive = kernel[kernel > 0]
    # Dirichlet(1,1,1,1): mean 1/4, variance 3/80.
    assert positive.var() == pytest.approx(3 / 80, rel=0.1)
    other = mdp.random_mdp(states=40, actions=25, horizon=2, successors=4, seed=2, rewarding=0.1)
    assert not np.array_equal(other.kernel, world.kernel)
    stepwise, _ = literal.kernel_and_mean(mdp.random_mdp(states=4, actions=2, horizon=3, seed=1, stationary=False))
    assert not np.array_equal(stepwise[0], stepwise[1])


@pytest.mark.parametrize("wrong", [{"successors": 0}, {"successors": 6}, {"rewarding": 0.0}, {"start": 5}])
def test_random_worlds_refuse(wrong):
    with pytest.raises(mdp.SpecError):
        mdp.random_mdp(states=5, actions=2, horizon=3, seed=0, **wrong)


# The hard instances of 003


@pytest.mark.parametrize(("gamma", "v"), [(0.3, 1.0), (0.5, 0.4), (0.9, 0.05)])
def test_bandits_have_the_proofs_means_and_moments(gamma, v):
    best = (0, 2, 1)
    world = mdp.hard_instance_bandits(bandits=3, actions=3, gamma=gamma, v=v, best=best)
    delta = gamma**v / 5  # Appendix E.1: γ = (5Δ)^{1/v}
    expected = delta / 2 * np.array([[5, 3, 3], [5, 3, 7], [5, 7, 3]])
    np.testing.assert_allclose(world.rewards.mean[0, :3], expected, rtol=1e-12)
    np.testing.assert_array_equal(world.rewards.mean[0, 3:], 0.0)
    assert world.rewards.moment_bound(1 + v) == pytest.approx(0.7)
    assert world.optimal_value == pytest.approx(delta / 2 * (5 + 7 + 7) / 3)
    kernel, _ = literal.kernel_and_mean(world)
    assert kernel[0, 1, 2, 3] == pytest.approx(0.7 * gamma ** (1 + v))
    assert kernel[0, 1, 2, 4] == pytest.approx(1 - 0.7 * gamma ** (1 + v))
    np.testing.assert_array_equal(kernel[0, 3, :, 3], 1.0)
    np.testing.assert_array_equal(kernel[0, 4, :, 4], 1.0)
    np.testing.assert_allclose(world.start, [1 / 3, 1 / 3, 1 / 3, 0, 0])


def test_bandits_pay_exactly_at_plus():
    world = mdp.hard_instance_bandits(bandits=2, actions=2, gamma=0.8, v=1.0, best=1)
    states, _, rewards = world.rollout(uniform_policy(world), episodes=400, streams=mdp.Streams(2, 1))
    np.testing.assert_array_equal(rewards[..., 0], np.where(states[..., 1] == 2, 1 / 0.8, 0.0))
    assert set(np.unique(states[..., 1])) == {2, 3}


@pytest.mark.parametrize("paid", ["on arrival", "in state"])
@pytest.mark.parametrize(("depth", "actions"), [(1, 2), (2, 3), (3, 3), (4, 2)])
def test_tree_pays_twice_at_the_best_leaf(depth, actions, paid):
    gamma, v = 0.6, 0.7
    leaves = actions ** (depth - 1)
    best = (leaves // 2, actions - 1)
    world = mdp.hard_instance_tree(depth=depth, actions=actions, gamma=gamma, v=v, best=best, paid=paid)
    assert world.spec.states == sum(actions**level for level in range(depth)) + 2
    assert world.spec.horizon == depth + 1
    assert world.optimal_value == pytest.approx(gamma**v)
    # Every path of actions: the leaf's number is the path read in base A.
    for path in itertools.product(range(actions), repeat=depth):
        policy = np.zeros((1, depth + 1, world.spec.states), dtype=int)
        policy[0, :depth] = np.array(path)[:, None]
        leaf = sum(a * actions ** (depth - 2 - i) for i, a in enumerate(path[:-1]))
        expected = gamma**v if (leaf, path[-1]) == best else gamma**v / 2
        assert world.policy_values(policy)[0] == pytest.approx(expected, rel=1e-12)


def test_tree_of_figure_2_and_its_moments():
    world = mdp.hard_instance_tree(depth=3, actions=3, gamma=0.5, v=1.0)
    assert world.spec.states == 15
    assert world.rewards.moment_bound(2.0) == pytest.approx(1.0)
    printed = mdp.hard_instance_tree(depth=3, actions=3, gamma=0.5, v=1.0, paid="in state")
    assert printed.rewards.moment_bound(2.0) == pytest.approx(4.0)  # not "bounded by 1"
    assert printed.spec.rewards.bound == pytest.approx(4.0)
    without = mdp.hard_instance_tree(depth=3, actions=3, gamma=0.5, v=1.0, best=None)
    assert without.optimal_value == pytest.approx(0.25)
    assert without.policy_values(uniform_policy(without))[0] == pytest.approx(0.25)


@pytest.mark.parametrize(
    "wrong",
    [
        {"gamma": 1.0},
        {"gamma": 0.0},
        {"v": 0.0},
        {"v": 1.1},
        {"actions": 1},
    ],
)
def test_hard_instances_refuse(wrong):
    with pytest.raises(mdp.SpecError):
        mdp.hard_instance_bandits(**{"bandits": 2, "actions": 3, "gamma": 0.5, **wrong})
    with pytest.raises(mdp.SpecError):
        mdp.hard_instance_tree(**{"depth": 2, "actions": 3, "gamma": 0.5, **wrong})


def test_hard_instances_refuse_their_own():
    for wrong in ({"bandits": 0}, {"best": 3}, {"best": (0, 1)}, {"best": (0, -1, 0)}):
        with pytest.raises(mdp.SpecError):
            mdp.hard_instance_bandits(**{"bandits": 3, "actions": 3, "gamma": 0.5, **wrong})
    for wrong in ({"depth": 0}, {"gamma": 0.9}, {"best": (3, 0)}, {"best": (0, 3)}, {"paid": "later"}):
        with pytest.raises(mdp.SpecError):
            mdp.hard_instance_tree(**{"depth": 2, "actions": 3, "gamma": 0.5, **wrong})


# Worlds as lists of outcomes


outcome_lists = st.lists(
    st.tuples(
        st.integers(0, 2),
        st.integers(0, 1),
        st.integers(0, 2),
        st.integers(0, 5),
        st.sampled_from([-1.0, 0.0, 0.25, 2.0]),
    ),
    min_size=1,
    max_size=25,
)


@settings(max_examples=60, deadline=None)
@given(rows=outcome_lists, uniforms=st.lists(st.floats(0, 1, exclude_max=True), min_size=1, max_size=6))
def test_outcome_rewards_against_a_dictionary(rows, uniforms):
    for s, a in itertools.product(range(3), range(2)):  # every (s, a) leads somewhere
        rows = [*rows, (s, a, s, 1, 0.25)]
    totals = {}
    for s, a, _, weight, _ in rows:
        totals[s, a] = totals.get((s, a), 0) + weight
    columns = [np.array(column) for column in zip(*rows, strict=True)]
    columns[3] = columns[3] / np.array([totals[s, a] for s, a, *_ in rows])
    world = mdp.outcome_world(
        spec=mdp.EpisodeSpec(states=3, actions=2, horizon=2, rewards=(-1.0, 2.0)),
        start=[1.0, 0.0, 0.0],
        **dict(zip(("state", "action", "next_state", "probability", "reward"), columns, strict=True)),
    )
    kernel, mean = literal.kernel_and_mean(world)
    joint = {}
    for s, a, t, p, r in zip(*(column.tolist() for column in columns), strict=True):
        law = joint.setdefault((s, a, t), {})
        law[r] = law.get(r, 0.0) + p
    for s, a in itertools.product(range(3), range(2)):
        laws = {t: joint.get((s, a, t), {}) for t in range(3)}
        assert mean[0, s, a] == pytest.approx(sum(p * r for law in laws.values() for r, p in law.items()))
        for t, law in laws.items():
            mass = sum(law.values())
            assert kernel[0, s, a, t] == pytest.approx(mass)
            for u in uniforms:
                chance = np.full(world.rewards.uniforms, u)
                drawn = float(world.rewards.sample(chance, step=0, state=s, action=a, next_state=t))
                below = sum(p for r, p in law.items() if r < drawn) / mass if mass else 0.0
                upto = sum(p for r, p in law.items() if r <= drawn) / mass if mass else 1.0
                assert below - 1e-9 <= u <= upto + 1e-9
                assert drawn in {r for r, p in law.items() if p > 0} or (mass == 0 and drawn == 0.0)


def two_outcomes(**changes):
    columns = {
        "state": [0, 0, 0],
        "action": [0, 0, 0],
        "next_state": [0, 0, 1],
        "probability": [0.25, 0.25, 0.25],
        "reward": [1.0, 3.0, 5.0],
    }
    return mdp.OutcomeRewards(**{"states": 2, "actions": 1, **columns, **changes})


def test_outcome_rewards_by_hand():
    law = two_outcomes()
    np.testing.assert_allclose(law.mean, [[[2.25], [0.0]]])
    assert law.uniforms == 1
    assert law.support == (0.0, 5.0)  # a quarter of (0, 0), and all of (1, 0), is not listed and pays 0
    assert law.moment_bound(2.0) == pytest.approx((1 + 9 + 25) / 4)
    u = np.array([0.0, 0.49, 0.5, 1 - 2**-53])
    draw = law.sample(u[:, None], step=np.zeros(4, int), state=np.zeros(4, int), action=0, next_state=np.zeros(4, int))
    np.testing.assert_array_equal(draw, [1.0, 1.0, 3.0, 3.0])
    renamed = law.relabel(states=np.array([1, 0]), actions=np.array([0]))
    np.testing.assert_allclose(renamed.mean, [[[0.0], [2.25]]])
    draw = renamed.sample(np.array([0.9]), step=0, state=1, action=0, next_state=0)
    assert draw == 5.0


def test_outcome_rewards_at_the_end_of_a_long_table():
    """rank + u rounds up to the next rank for large ranks: the draw must still be of its own transition."""
    n = 3000
    law = mdp.OutcomeRewards(
        states=n,
        actions=1,
        state=np.repeat(np.arange(n), 2),
        action=np.zeros(2 * n, int),
        next_state=np.zeros(2 * n, int),
        probability=np.full(2 * n, 0.5),
        reward=np.arange(2 * n, dtype=float),
    )
    u = np.full((n, 1), 1 - 2**-53)
    state = np.arange(n)
    np.testing.assert_array_equal(
        law.sample(u, step=np.zeros(n, int), state=state, action=np.zeros(n, int), next_state=np.zeros(n, int)),
        2 * state + 1,
    )


def test_outcome_rewards_without_chance_consume_nothing():
    law = two_outcomes(reward=[1.0, 1.0, 5.0])
    assert law.uniforms == 0
    draw = law.sample(np.empty((2, 0)), step=0, state=np.zeros(2, int), action=0, next_state=np.array([0, 1]))
    np.testing.assert_array_equal(draw, [1.0, 5.0])


def test_relabelled_world_has_the_same_value():
    world = mdp.chain(states=4, horizon=6)
    renamed = world.relabel(states=np.array([2, 0, 3, 1]), actions=np.array([1, 0]))
    assert renamed.optimal_value == pytest.approx(world.optimal_value, rel=1e-12)
    states, _, rewards = renamed.rollout(uniform_policy(renamed), episodes=100, streams=mdp.Streams(0, 1))
    assert ((rewards == 0.2) == (states[..., 1:] == 2)).all()


@pytest.mark.parametrize(
    "wrong",
    [
        {"state": [0, 0, 2]},
        {"next_state": [0, 0, -1]},
        {"action": [0.0, 0.0, 0.0]},
        {"probability": [0.5, 0.5]},
        {"probability": [0.5, -0.5, 1.0]},
        {"reward": [0.0, np.nan, 0.0]},
    ],
)
def test_outcome_rewards_refuse(wrong):
    with pytest.raises(mdp.SpecError):
        two_outcomes(**wrong)
    with pytest.raises(mdp.SpecError, match="order"):
        two_outcomes().moment_bound(1.0)


def test_outcome_worlds_refuse_what_is_not_a_distribution():
    with pytest.raises(mdp.SpecError):
        mdp.outcome_world(
            spec=mdp.EpisodeSpec(states=1, actions=1, horizon=1),
            start=[1.0],
            state=0,
            action=0,
            next_state=0,
            probability=0.9,
            reward=1.0,
        )


# The package


def test_every_name_is_there():
    for name in mdp.__all__:
        assert getattr(mdp, name) is not None
        assert name in dir(mdp)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = mdp.nothing


def test_importing_is_light():
    """Gymnasium, matplotlib, numba and scipy are imported when they are needed, and not for RiverSwim's shape."""
    code = (
        "import sys, tacit.mdp; heavy = {'gymnasium', 'matplotlib', 'numba', 'scipy', 'opendp'}; "
        "assert not heavy & set(sys.modules), heavy & set(sys.modules); "
        "world = tacit.mdp.riverswim(); tacit.mdp.chain(); tacit.mdp.from_gymnasium; tacit.mdp.icu_sepsis; "
        "assert not heavy & set(sys.modules), heavy & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_spec_may_leave_the_start_unknown():
    world = mdp.riverswim()
    hidden = replace(world, spec=replace(world.spec, start="unknown"))
    assert hidden.spec.start_law is None
    assert hidden.optimal_value == world.optimal_value
