"""Linear and linear mixture worlds: against loops over the definitions, and the papers' worlds by number."""

from __future__ import annotations

import itertools
from dataclasses import replace

import literal
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tacit.mdp as mdp


def random_linear(seed, *, states=4, actions=3, horizon=3, features=3, steps=None):
    """Features on the simplex and measures that are distributions: any such world is a linear MDP."""
    rng = np.random.default_rng(seed)
    steps = horizon if steps is None else steps
    return {
        "spec": mdp.EpisodeSpec(states=states, actions=actions, horizon=horizon, stationary=steps == 1),
        "phi": rng.dirichlet(np.ones(features), size=(states, actions)),
        "nu": rng.dirichlet(np.ones(states), size=(steps, features)),
        "theta": rng.random((steps, features)),
        "start": rng.dirichlet(np.ones(states)),
    }


def random_mixture(seed, *, states=4, actions=3, horizon=3, d1=3, d2=2, steps=None):
    rng = np.random.default_rng(seed)
    steps = horizon if steps is None else steps
    return {
        "spec": mdp.EpisodeSpec(states=states, actions=actions, horizon=horizon, stationary=steps == 1),
        "psi": np.moveaxis(rng.dirichlet(np.ones(states), size=(states, actions, d1)), 2, 3),
        "theta_p": rng.dirichlet(np.ones(d1), size=steps),
        "phi_r": rng.random((states, actions, d2)) / d2,
        "theta_r": rng.random((steps, d2)),
        "start": rng.dirichlet(np.ones(states)),
    }


@settings(max_examples=25, deadline=None)
@given(
    states=st.integers(1, 5),
    actions=st.integers(1, 3),
    horizon=st.integers(1, 3),
    features=st.integers(1, 4),
    stationary=st.booleans(),
    seed=st.integers(0, 10_000),
)
def test_linear_world_is_its_definition(states, actions, horizon, features, stationary, seed):
    steps = 1 if stationary else horizon
    parts = random_linear(seed, states=states, actions=actions, horizon=horizon, features=features, steps=steps)
    parts["spec"] = replace(parts["spec"], stationary=stationary)
    world = mdp.LinearMDP(**parts)
    tabular = world.tabular()
    for h, s, a in itertools.product(range(steps), range(states), range(actions)):
        for t in range(states):
            expected = sum(world.phi[s, a, i] * world.nu[h, i, t] for i in range(features))
            assert tabular.kernel[h, s, a, t] == pytest.approx(expected, abs=1e-14)
        expected = sum(world.phi[s, a, i] * world.theta[h, i] for i in range(features))
        assert tabular.rewards.mean[h, s, a] == pytest.approx(expected, abs=1e-14)
    assert tabular.optimal_value == pytest.approx(literal.optimal_value(tabular), rel=1e-10)
    assert world.dimension == features
    norms = [np.sqrt((row**2).sum()) for row in world.phi.reshape(-1, features)]
    assert world.feature_norm == pytest.approx(max(norms))


@settings(max_examples=25, deadline=None)
@given(
    states=st.integers(1, 4),
    actions=st.integers(1, 3),
    horizon=st.integers(1, 3),
    d1=st.integers(1, 4),
    d2=st.integers(1, 3),
    stationary=st.booleans(),
    seed=st.integers(0, 10_000),
)
def test_mixture_is_its_definition(states, actions, horizon, d1, d2, stationary, seed):
    steps = 1 if stationary else horizon
    parts = random_mixture(seed, states=states, actions=actions, horizon=horizon, d1=d1, d2=d2, steps=steps)
    parts["spec"] = replace(parts["spec"], stationary=stationary)
    world = mdp.LinearMixtureMDP(**parts)
    tabular = world.tabular()
    for h, s, a in itertools.product(range(steps), range(states), range(actions)):
        for t in range(states):
            expected = sum(world.psi[s, a, t, i] * world.theta_p[h, i] for i in range(d1))
            assert tabular.kernel[h, s, a, t] == pytest.approx(expected, abs=1e-14)
        expected = sum(world.phi_r[s, a, i] * world.theta_r[h, i] for i in range(d2))
        assert tabular.rewards.mean[h, s, a] == pytest.approx(expected, abs=1e-14)
    values = np.random.default_rng(seed).normal(size=(2, 3, states))
    features = world.value_features(values)
    assert features.shape == (2, 3, states, actions, d1)
    for index in np.ndindex(*features.shape):
        *lead, s, a, i = index
        expected = sum(world.psi[s, a, t, i] * values[(*lead, t)] for t in range(states))
        assert features[index] == pytest.approx(expected, abs=1e-12)
    # ⟨φ_V, θ_p⟩ is the expected value: what 004 regresses on.
    np.testing.assert_allclose(
        features @ world.theta_p[0], np.einsum("sat,xyt->xysa", tabular.kernel[0], values), atol=1e-12
    )
    assert world.transition_dimension == d1
    assert world.reward_dimension == d2


def largest_value_feature(psi):
    """max over V in [0, 1]^S of ‖φ_V(s,a)‖: the norm is convex, so some V in {0, 1}^S attains it."""
    S = psi.shape[2]
    return max(
        np.linalg.norm(psi[s, a].T @ np.array(vertex))
        for s, a in itertools.product(*map(range, psi.shape[:2]))
        for vertex in itertools.product((0.0, 1.0), repeat=S)
    )


def test_value_feature_norm_is_exact_for_probabilities():
    world = mdp.LinearMixtureMDP(**random_mixture(3, states=5))
    assert world.value_feature_norm == pytest.approx(largest_value_feature(world.psi), rel=1e-12)
    assert world.value_feature_norm == pytest.approx(np.sqrt(3), rel=1e-12)  # simulators: V = 1 gives (1, 1, 1)


@pytest.mark.parametrize("seed", range(5))
def test_value_feature_norm_bounds_signed_features(seed):
    parts = random_mixture(seed, states=4, steps=1, d1=3)
    # Signed features of the same kernel: an invertible change of the features and its inverse on θ.
    turn = np.random.default_rng(seed).normal(size=(3, 3))
    parts["psi"] = parts["psi"] @ turn
    parts["theta_p"] = parts["theta_p"] @ np.linalg.inv(turn).T
    world = mdp.LinearMixtureMDP(**parts)
    largest = largest_value_feature(world.psi)
    assert (world.psi < 0).any()
    assert largest <= world.value_feature_norm * (1 + 1e-12)
    assert world.value_feature_norm <= np.sqrt(3) * largest * (1 + 1e-12)  # coordinates are each attained


def test_one_hot_worlds_are_the_world():
    world = mdp.riverswim(states=3, horizon=5)
    linear, mixture = mdp.LinearMDP.one_hot(world), mdp.LinearMixtureMDP.one_hot(world)
    for other in (linear.tabular(), mixture.tabular()):
        np.testing.assert_allclose(other.kernel, world.kernel, atol=1e-15)
        np.testing.assert_allclose(other.rewards.mean, world.rewards.mean, atol=1e-15)
        assert other.optimal_value == pytest.approx(world.optimal_value, rel=1e-12)
    assert linear.dimension == 6
    assert linear.feature_norm == 1.0
    assert mixture.transition_dimension == 18
    assert mixture.reward_feature_norm == 1.0
    assert mixture.value_feature_norm == pytest.approx(np.sqrt(3))
    stepwise = mdp.random_mdp(states=3, actions=2, horizon=4, seed=1, stationary=False)
    again = mdp.LinearMDP.one_hot(stepwise)
    assert again.tabular().optimal_value == pytest.approx(stepwise.optimal_value, rel=1e-12)
    sparse = mdp.deep_sea(size=21)
    assert not isinstance(sparse.kernel, np.ndarray)
    assert mdp.LinearMDP.one_hot(mdp.deep_sea(size=3)).tabular().optimal_value == pytest.approx(0.99)


def test_linear_worlds_roll_out():
    for world in (mdp.LinearMDP(**random_linear(1)), mdp.LinearMixtureMDP(**random_mixture(1))):
        assert isinstance(world, mdp.RolloutSource)
        policy = np.full((1, 3, 4, 3), 1 / 3)
        trajectories = world.rollout(policy, episodes=20_000, streams=mdp.Streams(0, 2))
        assert trajectories.batch == (2, 20_000)
        returns = trajectories.rewards.sum(axis=-1)
        expected = literal.policy_value(world.tabular(), policy[0])
        assert abs(returns.mean() - expected) < 5 * returns.std() / np.sqrt(returns.size)


def test_linear_worlds_take_a_reward_law():
    parts = random_linear(2)
    world = mdp.LinearMDP(**parts, rewards=lambda mean: mdp.Bernoulli(mean=mean))
    rewards = world.rollout(np.full((1, 3, 4, 3), 1 / 3), episodes=50, streams=mdp.Streams(0, 1)).rewards
    assert set(np.unique(rewards)) == {0.0, 1.0}
    assert world.tabular().optimal_value == mdp.LinearMDP(**parts).tabular().optimal_value


def test_arrays_are_copied_and_read_only():
    parts = random_linear(0)
    world = mdp.LinearMDP(**parts)
    before = world.phi[0, 0, 0]
    parts["phi"][0, 0, 0] = 7.0
    assert world.phi[0, 0, 0] == before
    with pytest.raises(ValueError, match="read-only"):
        world.phi[0, 0, 0] = 1.0


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("phi", lambda x: x[0], "must have the axes"),
        ("phi", lambda x: x * np.nan, "not finite"),
        ("phi", lambda x: x * 1.01, "transition probabilities"),
        ("nu", lambda x: x[:2], "for each of the 3 steps"),
        ("nu", lambda x: x[..., :-1], "must have the axes"),
        ("nu", lambda x: x - [[[0.5, -0.5, 0.0, 0.0]]], "transition probabilities"),
        ("theta", lambda x: x[:, :2], "must have the axes"),
        ("theta", lambda x: x + 1.0, "outside the declared range"),
        ("start", lambda x: x[:2], "must have the axes"),
        ("start", lambda x: x * 0.5, "start"),
        ("spec", lambda x: replace(x, stationary=True), "stationary"),
        ("spec", lambda x: replace(x, states=5), "must have the axes"),
    ],
)
def test_linear_worlds_refuse(name, change, message):
    parts = random_linear(0)
    with pytest.raises(mdp.SpecError, match=message):
        mdp.LinearMDP(**{**parts, name: change(parts[name])})


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("psi", lambda x: x[:, :, :2], "must have the axes"),
        ("theta_p", lambda x: x * 0.9, "transition probabilities"),
        ("theta_p", lambda x: x[:2], "for each of the 3 steps"),
        ("phi_r", lambda x: x[..., :1], "must have the axes"),
        ("theta_r", lambda x: x + 2.0, "outside the declared range"),
        ("theta_r", lambda x: -x, "outside the declared range"),
        ("spec", lambda x: replace(x, stationary=True), "stationary"),
    ],
)
def test_mixtures_refuse(name, change, message):
    parts = random_mixture(0)
    with pytest.raises(mdp.SpecError, match=message):
        mdp.LinearMixtureMDP(**{**parts, name: change(parts[name])})


def test_value_features_refuse_other_shapes():
    world = mdp.LinearMixtureMDP(**random_mixture(0))
    with pytest.raises(mdp.SpecError, match="4 states"):
        world.value_features(np.zeros((4, 3)))
    with pytest.raises(mdp.SpecError, match="4 states"):
        world.value_features(0.0)


# The linear MDP of 001, Appendix G


def test_appendix_g_by_hand():
    world = mdp.linear_random(seed=5)
    rng = np.random.default_rng(5)
    alpha, r = rng.random((20, 2)), rng.random(20)
    kernel, mean = literal.kernel_and_mean(world.tabular())
    weights = [0.125, 0.0, 0.125, None, 0.125, 0.0, 0.125, 0.0]
    for h, s, a in itertools.product((0, 7, 19), (0, 1), (0, 1, 58, 63, 99)):
        delta = (s == 0) == (a == 0)
        expected = r[h] / 2 if delta else 0.5 - r[h] / 2
        for bit, weight in zip(f"{a:08b}", weights, strict=True):
            expected += int(bit) * (0.5 - r[h] / 2 if weight is None else weight * r[h])
        assert mean[h, s, a] == pytest.approx(expected, abs=1e-12)
        assert kernel[h, s, a, 0] == pytest.approx(alpha[h, 0] if delta else alpha[h, 1], abs=1e-12)
    assert not world.spec.stationary
    np.testing.assert_array_equal(world.start, [0.5, 0.5])


def test_appendix_g_has_the_features_and_values_told_of_it():
    world = mdp.linear_random(seed=0)
    assert world.feature_norm == pytest.approx(np.sqrt(7))
    assert np.linalg.matrix_rank(world.phi.reshape(-1, 10)) == 9
    assert (world.phi[..., 0] == 0).all()
    worlds = [mdp.linear_random(seed=seed).tabular() for seed in range(20)]
    optimum = np.mean([w.optimal_value for w in worlds])
    assert optimum == pytest.approx(14, abs=0.4)
    # Ties at index 0 give a gap of about 9, acting at random about 5.
    lowest = np.mean([w.policy_values(np.zeros((1, 20, 2), dtype=int))[0] for w in worlds])
    uniform = np.mean([w.policy_values(np.full((1, 20, 2, 100), 0.01))[0] for w in worlds])
    assert optimum - lowest == pytest.approx(9, abs=0.5)
    assert optimum - uniform == pytest.approx(5, abs=0.5)


def test_appendix_g_scaled_is_the_same_world():
    printed, scaled = mdp.linear_random(seed=3), mdp.linear_random(seed=3, scaled=True)
    assert scaled.feature_norm == pytest.approx(1.0)
    np.testing.assert_allclose(scaled.tabular().kernel, printed.tabular().kernel, atol=1e-14)
    np.testing.assert_allclose(scaled.tabular().rewards.mean, printed.tabular().rewards.mean, atol=1e-14)
    assert printed.measure_norm == pytest.approx(np.sqrt(2))
    assert scaled.measure_norm == pytest.approx(np.sqrt(14))  # above √10: the paper's other normalisation fails
    assert scaled.theta_norm < np.sqrt(10)


def test_appendix_g_behaviour():
    policy = mdp.linear_random_behaviour(horizon=20)
    assert policy.shape == (1, 20, 2, 100)
    np.testing.assert_allclose(policy.sum(axis=-1), 1.0)
    np.testing.assert_array_equal(policy[..., 0], 0.6)
    np.testing.assert_allclose(policy[..., 1:], 0.4 / 99)
    with pytest.raises(mdp.SpecError):
        mdp.linear_random_behaviour(first=1.1)


# Mixtures of simulators


def simulators(count=3, **changes):
    make = {"states": 4, "actions": 2, "horizon": 5, "successors": 2, **changes}
    return [mdp.random_mdp(seed=seed, **make) for seed in range(count)]


def test_simulator_mixture_mixes():
    parts, weights = simulators(), np.array([0.2, 0.5, 0.3])
    world = mdp.simulator_mixture(simulators=parts, weights=weights)
    kernel = sum(w * literal.kernel_and_mean(part)[0] for w, part in zip(weights, parts, strict=True))
    mean = sum(w * part.rewards.mean for w, part in zip(weights, parts, strict=True))
    np.testing.assert_allclose(world.tabular().kernel, kernel, atol=1e-14)
    np.testing.assert_allclose(world.tabular().rewards.mean, mean, atol=1e-14)
    assert world.spec.stationary
    assert world.value_feature_norm == pytest.approx(np.sqrt(3))
    assert world.reward_feature_norm <= 1.0
    assert world.theta_norm <= np.sqrt(3)
    alone = mdp.simulator_mixture(simulators=parts, weights=[0.0, 1.0, 0.0])
    assert alone.tabular().optimal_value == pytest.approx(parts[1].optimal_value, rel=1e-12)


def test_simulator_mixture_step_by_step():
    parts = simulators(2)
    weights = np.array([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5], [0.5, 0.5], [0.5, 0.5]])
    world = mdp.simulator_mixture(simulators=parts, weights=weights)
    assert not world.spec.stationary
    np.testing.assert_allclose(world.tabular().kernel[0], parts[0].kernel[0], atol=1e-14)
    np.testing.assert_allclose(world.tabular().rewards.mean[1], parts[1].rewards.mean[0], atol=1e-14)


def test_simulators_that_pay_alike_need_one_reward_feature():
    part = mdp.riverswim(states=4, horizon=5)
    world = mdp.simulator_mixture(simulators=[part, part], weights=[0.25, 0.75])
    assert world.reward_dimension == 1
    assert world.tabular().optimal_value == pytest.approx(part.optimal_value, rel=1e-12)


def test_simulator_mixture_reads_sparse_simulators():
    parts = [mdp.deep_sea(size=7, mapping_seed=seed) for seed in (1, 2)]
    large = mdp.simulator_mixture(simulators=parts, weights=[0.5, 0.5])
    expected = (literal.kernel_and_mean(parts[0])[0] + literal.kernel_and_mean(parts[1])[0]) / 2
    np.testing.assert_allclose(large.tabular().kernel, expected, atol=1e-14)


@pytest.mark.parametrize("weights", [[0.5, 0.5], [0.5, 0.6, -0.1], [0.3, 0.3, 0.3], [[[1, 0, 0]]]])
def test_simulator_mixture_refuses_weights(weights):
    with pytest.raises(mdp.SpecError):
        mdp.simulator_mixture(simulators=simulators(), weights=weights)


def test_simulator_mixture_refuses_simulators():
    with pytest.raises(mdp.SpecError, match="at least one"):
        mdp.simulator_mixture(simulators=[], weights=[])
    with pytest.raises(mdp.SpecError, match="stationary"):
        mdp.simulator_mixture(simulators=simulators(2, stationary=False), weights=[0.5, 0.5])
    with pytest.raises(mdp.SpecError, match="share"):
        mdp.simulator_mixture(simulators=[*simulators(1), *simulators(1, horizon=4)], weights=[0.5, 0.5])
    with pytest.raises(mdp.SpecError, match="share"):
        mdp.simulator_mixture(simulators=[*simulators(1), *simulators(1, start=2)], weights=[0.5, 0.5])


def test_patient_types():
    world = mdp.patient_types(types=4, states=6, actions=3, horizon=5, seed=8)
    assert world.transition_dimension == 4
    assert world.reward_dimension == 1
    assert ((world.psi > 0).sum(axis=2) == 3).all()
    for i, j in itertools.combinations(range(4), 2):
        assert not np.allclose(world.psi[..., i], world.psi[..., j])
    np.testing.assert_array_equal(world.psi, mdp.patient_types(types=4, states=6, actions=3, horizon=5, seed=8).psi)
    sequence = np.random.SeedSequence(8)
    for _ in range(2):
        again = mdp.patient_types(types=4, states=6, actions=3, horizon=5, seed=sequence)
        np.testing.assert_array_equal(world.psi, again.psi)
    pure = mdp.patient_types(types=2, states=6, actions=3, horizon=5, seed=8, weights=[1.0, 0.0])
    np.testing.assert_array_equal(pure.theta_p, [[1.0, 0.0]])
    with pytest.raises(mdp.SpecError):
        mdp.patient_types(types=0, seed=1)
