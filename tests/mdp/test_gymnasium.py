"""Gymnasium both ways: toy-text tables, wrapped environments, and worlds that pass Gymnasium's own checker."""

from __future__ import annotations

import warnings
from dataclasses import replace

import gymnasium
import literal
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import tacit.mdp as mdp

TOY_TEXT = ["FrozenLake-v1", "Taxi-v4", "CliffWalking-v1", "CliffWalkingSlippery-v1"]


@pytest.fixture(scope="module")
def exact_worlds():
    return {name: mdp.from_gymnasium(gymnasium.make(name), horizon=30) for name in TOY_TEXT}


def table_value(env, horizon):
    """Value iteration on the environment's own table, where a terminated step has no future."""
    table, states = env.unwrapped.P, env.observation_space.n
    values = np.zeros(states)
    for _ in range(horizon):
        values = np.array(
            [
                max(
                    sum(p * (r + (0.0 if done else values[t])) for p, t, r, done in outcomes)
                    for outcomes in table[s].values()
                )
                for s in range(states)
            ]
        )
    return float(values @ env.unwrapped.initial_state_distrib)


@pytest.mark.parametrize("name", TOY_TEXT)
def test_toy_text_has_the_values_of_its_table(exact_worlds, name):
    world, env = exact_worlds[name], gymnasium.make(name)
    assert isinstance(world, mdp.TabularMDP)
    assert world.spec.states == env.observation_space.n + 1
    assert world.spec.stationary
    assert world.optimal_value == pytest.approx(table_value(env, 30), rel=1e-9)


def test_toy_text_shapes(exact_worlds):
    frozen, taxi, cliff = (exact_worlds[name] for name in TOY_TEXT[:3])
    assert frozen.spec.reward_range == (0.0, 1.0)
    assert frozen.spec.start == 0
    assert taxi.spec.reward_range == (-10.0, 20.0)
    assert not isinstance(taxi.kernel, np.ndarray)  # 501 states, one successor each: sparse
    assert sum(p > 0 for p in taxi.spec.start) == 300
    assert cliff.spec.reward_range == (-100.0, 0.0)
    assert cliff.spec.start == 36
    assert cliff.optimal_value == pytest.approx(-13.0)  # the shortest way along the cliff


def test_frozen_lake_over_a_long_horizon():
    """Without slipping the goal is 6 steps away; with it 0.824 of 4x4's episodes arrive in the end."""
    straight = gymnasium.make("FrozenLake-v1", is_slippery=False)
    assert mdp.from_gymnasium(straight, horizon=6).optimal_value == pytest.approx(1.0)
    assert mdp.from_gymnasium(straight, horizon=5).optimal_value == 0.0
    slippery = mdp.from_gymnasium(gymnasium.make("FrozenLake-v1"), horizon=2000)
    assert slippery.optimal_value == pytest.approx(14 / 17, abs=1e-6)


def test_end_state_absorbs_and_pays_nothing(exact_worlds):
    for world in exact_worlds.values():
        kernel, mean = literal.kernel_and_mean(world)
        assert (kernel[0, -1, :, -1] == 1.0).all()
        assert (mean[0, -1] == 0.0).all()
        end, policy = world.spec.states - 1, np.full((1, 30, world.spec.states, world.spec.actions), 0.0)
        policy[..., :] = 1 / world.spec.actions
        states, _, rewards = world.rollout(policy, episodes=50, streams=mdp.Streams(0, 1))
        over = states[..., :-1] == end
        assert (states[..., 1:][over] == end).all()
        assert (rewards[over] == 0.0).all()


def test_rewards_follow_the_next_state(exact_worlds):
    """Beside the goal a slip decides between 0 and 1, and from both hole and goal one goes to the end state."""
    states, actions, rewards = exact_worlds["CliffWalkingSlippery-v1"].rollout(
        np.full((1, 30, 49, 4), 0.25), episodes=200, streams=mdp.Streams(1, 1)
    )
    fell = rewards == -100
    assert fell.any()
    assert (states[..., 1:][fell] == 36).all()
    moved = (states[..., :-1] != 48) & ~fell
    assert (rewards[moved] == -1).all()
    assert actions.max() == 3


@pytest.mark.parametrize("name", ["FrozenLake-v1", "CliffWalkingSlippery-v1"])
def test_source_and_table_agree(exact_worlds, name):
    """The environment itself, rolled out, earns what the exact world says of the same policy."""
    world = exact_worlds[name]
    source = mdp.from_gymnasium(gymnasium.make(name), horizon=30, rewards=world.spec.rewards, exact=False)
    assert isinstance(source, mdp.GymnasiumSource)
    assert isinstance(source, mdp.RolloutSource)
    assert (source.spec.states, source.spec.actions) == (world.spec.states, world.spec.actions)
    rng = np.random.default_rng(0)
    policy = rng.dirichlet(np.ones(4), size=(1, 30, world.spec.states))
    policy = 0.5 * policy + 0.5 * np.eye(4)[world.optimal.q.argmax(axis=-1)]
    trajectories = source.rollout(policy, episodes=1500, streams=mdp.Streams(2, 1))
    returns = trajectories.rewards.sum(axis=-1).ravel()
    expected = world.policy_values(policy)[0]
    assert abs(returns.mean() - expected) < 4.5 * returns.std() / np.sqrt(returns.size)
    # Not only the mean: every visited transition must be possible in the exact world.
    kernel, _ = literal.kernel_and_mean(world)
    s, a = trajectories.states, trajectories.actions
    assert (kernel[0, s[..., :-1], a, s[..., 1:]] > 0).all()


def test_source_does_not_depend_on_batching():
    source = mdp.from_gymnasium(gymnasium.make("FrozenLake-v1"), horizon=25, rewards=(0, 1), exact=False)
    policy = np.full((1, 25, 17, 4), 0.25)
    whole = source.rollout(policy, episodes=7, streams=mdp.Streams(5, 2))
    streams = mdp.Streams(5, 3)
    parts = [source.rollout(policy, episodes=n, streams=streams) for n in (1, 4, 2)]
    for field in range(3):
        joined = np.concatenate([part[field] for part in parts], axis=1)
        np.testing.assert_array_equal(joined[:2], whole[field])
    assert not np.array_equal(whole.states[0], whole.states[1])
    assert whole.states.dtype == np.int32


def test_source_takes_deterministic_policies_per_run():
    source = mdp.from_gymnasium(
        gymnasium.make("FrozenLake-v1", is_slippery=False), horizon=6, rewards=(0, 1), exact=False
    )
    way = np.zeros((2, 6, 17), dtype=int)
    way[1, :] = np.array([1, 1, 2, 2, 1, 2])[:, None]  # down, down, right, right, down, right
    states, actions, rewards = source.rollout(way, episodes=2, streams=mdp.Streams(0, 2))
    np.testing.assert_array_equal(rewards.sum(axis=-1), [[0, 0], [1, 1]])
    np.testing.assert_array_equal(states[1, 0], [0, 4, 8, 9, 10, 14, 16])
    np.testing.assert_array_equal(actions[1, 0], way[1, :, 0])
    with pytest.raises(ValueError):
        source.rollout(np.zeros((3, 6, 17), dtype=int), episodes=1, streams=mdp.Streams(0, 2))
    with pytest.raises(ValueError):
        source.rollout(np.zeros((1, 6, 16), dtype=int), episodes=1, streams=mdp.Streams(0, 2))


class Counter(gymnasium.Env):
    """Discrete spaces that do not begin at 0; ends by truncation after three steps."""

    observation_space = gymnasium.spaces.Discrete(5, start=10)
    action_space = gymnasium.spaces.Discrete(2, start=-1)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.seen = []
        return 10, {}

    def step(self, action):
        assert action in (-1, 0)
        self.seen.append(action)
        truncated = len(self.seen) == 3
        return 10 + len(self.seen), float(action), False, truncated, {}


def test_source_shifts_spaces_and_ends_on_truncation():
    source = mdp.from_gymnasium(Counter(), horizon=5, rewards=(-1, 0))
    assert isinstance(source, mdp.GymnasiumSource)
    policy = np.zeros((1, 5, 6), dtype=int)
    policy[0, 1] = 1
    states, actions, rewards = source.rollout(policy, episodes=1, streams=mdp.Streams(0, 1))
    np.testing.assert_array_equal(states[0, 0], [0, 1, 2, 5, 5, 5])
    np.testing.assert_array_equal(actions[0, 0], [0, 1, 0, 0, 0])
    np.testing.assert_array_equal(rewards[0, 0], [-1, 0, -1, 0, 0])


def test_source_refuses_observations_outside_the_space():
    env = Counter()
    env.observation_space = gymnasium.spaces.Discrete(2, start=10)
    source = mdp.from_gymnasium(env, horizon=5, rewards=(-1, 0))
    with pytest.raises(mdp.SpecError, match="outside its own space"):
        source.rollout(np.zeros((1, 5, 3), dtype=int), episodes=1, streams=mdp.Streams(0, 1))


def test_from_gymnasium_refuses():
    with pytest.raises(mdp.SpecError, match="must be Discrete"):
        mdp.from_gymnasium(gymnasium.make("Blackjack-v1"), horizon=5, rewards=(-1, 1))
    with pytest.raises(mdp.SpecError, match="declare it"):
        mdp.from_gymnasium(Counter(), horizon=5)
    with pytest.raises(mdp.SpecError, match="no P"):
        mdp.from_gymnasium(Counter(), horizon=5, exact=True)
    with pytest.raises(mdp.SpecError, match="range"):  # P pays 1, outside what is declared
        mdp.from_gymnasium(gymnasium.make("FrozenLake-v1"), horizon=5, rewards=(0.0, 0.5))


def test_tables_beneath_other_wrappers_are_not_trusted():
    env = gymnasium.wrappers.TransformReward(gymnasium.make("FrozenLake-v1"), lambda reward: 5 * reward)
    source = mdp.from_gymnasium(env, horizon=5, rewards=(0, 5))
    assert isinstance(source, mdp.GymnasiumSource)
    with pytest.raises(mdp.SpecError, match="TransformReward"):
        mdp.from_gymnasium(env, horizon=5, exact=True)


def test_fickle_taxi_is_not_exact():
    env = gymnasium.make("Taxi-v4", fickle_passenger=True)
    with pytest.raises(mdp.SpecError, match="fickle"):
        mdp.from_gymnasium(env, horizon=5, exact=True)
    assert isinstance(mdp.from_gymnasium(env, horizon=5, rewards=(-10, 20)), mdp.GymnasiumSource)


def test_tables_of_another_shape_are_refused():
    env = gymnasium.make("FrozenLake-v1")
    del env.unwrapped.P[3]
    with pytest.raises(mdp.SpecError, match="exact=False"):
        mdp.from_gymnasium(env, horizon=5)
    env = gymnasium.make("FrozenLake-v1")
    env.unwrapped.P[3][1] = [(0.5, 2, 0.0, False)]
    with pytest.raises(mdp.SpecError, match="sum to 1"):
        mdp.from_gymnasium(env, horizon=5)
    shifted = Counter()
    shifted.P, shifted.initial_state_distrib = {}, [1.0]
    with pytest.raises(mdp.SpecError, match="begin at 0"):
        mdp.from_gymnasium(shifted, horizon=5, exact=True)


# Worlds as environments


def worlds():
    return {
        "RiverSwim": mdp.riverswim(horizon=8),
        "chain": mdp.chain(states=4, horizon=6),
        "stepwise": mdp.random_mdp(states=3, actions=2, horizon=4, seed=0, stationary=False),
        "sparse": mdp.deep_sea(size=21, slip=0.1),
        "heavy": mdp.riverswim(
            horizon=3,
            rewards=lambda mean: mdp.StudentT(mean=mean, df=1.5, scale=0.1),
            declared=mdp.MomentBound(order=1.2, bound=3.0, mean=1.0),
        ),
    }


@pytest.mark.parametrize("observe_step", [False, True])
@pytest.mark.parametrize("name", list(worlds()))
def test_worlds_pass_gymnasiums_checker(name, observe_step):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(mdp.to_gymnasium(worlds()[name], observe_step=observe_step))


def test_environment_walks_like_the_world():
    world = worlds()["chain"]
    env = mdp.to_gymnasium(world)
    transitions = np.zeros((4, 2, 4))
    returns = []
    rng = np.random.default_rng(0)
    for episode in range(1500):
        state, info = env.reset(seed=7) if episode == 0 else env.reset()
        assert state == 0
        assert info == {"step": 0}
        total, over, steps = 0.0, False, 0
        while not over:
            action = rng.integers(2)
            following, reward, over, truncated, info = env.step(action)
            steps += 1
            assert info == {"step": steps}
            assert not truncated
            expected = 0.2 if following == 0 else 1.0 if state == following == 3 else 0.0
            assert reward == expected
            transitions[state, action, following] += 1
            total, state = total + reward, following
        assert steps == 6
        returns.append(total)
    kernel, _ = literal.kernel_and_mean(world)
    visits = transitions.sum(axis=-1, keepdims=True)
    error = np.abs(transitions / visits - kernel[0])
    assert (error < 4.5 * np.sqrt(kernel[0] * (1 - kernel[0]) / visits) + 1e-12).all()
    expected = world.policy_values(np.full((1, 6, 4, 2), 0.5))[0]
    assert abs(np.mean(returns) - expected) < 4.5 * np.std(returns) / np.sqrt(1500)


def test_environment_uses_the_step():
    world = mdp.TabularMDP(
        spec=mdp.EpisodeSpec(states=2, actions=1, horizon=2, stationary=False, start=0),
        kernel=np.array([[[[0.0, 1.0]], [[0.0, 1.0]]], [[[1.0, 0.0]], [[1.0, 0.0]]]]),
        rewards=mdp.Deterministic(mean=np.array([[[0.25], [0.0]], [[0.0], [0.75]]])),
        start=np.array([1.0, 0.0]),
    )
    env = mdp.to_gymnasium(world, observe_step=True)
    assert env.observation_space.n == 6
    assert env.reset(seed=0)[0] == 0
    assert env.step(0)[:3] == (3, 0.25, False)  # step 1, state 1
    assert env.step(0)[:3] == (4, 0.75, True)  # step 2, state 0
    with pytest.raises(gymnasium.error.ResetNeeded):
        env.step(0)
    env.reset()
    with pytest.raises(ValueError, match="not an action"):
        env.step(1)


def test_environments_need_a_reset_first():
    with pytest.raises(gymnasium.error.ResetNeeded):
        mdp.to_gymnasium(mdp.riverswim()).step(0)


def test_there_and_back_again():
    """A world, made an environment, read as a source, earns what it should."""
    world = mdp.riverswim(states=4, horizon=10)
    source = mdp.from_gymnasium(mdp.to_gymnasium(world), horizon=10, rewards=(0, 1))
    policy = np.ones((1, 10, 5), dtype=int)
    trajectories = source.rollout(policy, episodes=1500, streams=mdp.Streams(0, 1))
    returns = trajectories.rewards.sum(axis=-1).ravel()
    expected = world.policy_values(policy[:, :, :4])[0]
    assert abs(returns.mean() - expected) < 4.5 * returns.std() / np.sqrt(1500)
    assert (trajectories.states[..., -1] == 4).all()  # the tenth step terminates


def test_unknown_start_is_only_a_declaration():
    world = mdp.riverswim(states=3, horizon=2)
    hidden = replace(world, spec=replace(world.spec, start="unknown"))
    assert mdp.to_gymnasium(hidden).reset(seed=0)[0] == 0
