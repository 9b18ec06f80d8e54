"""Regret is exact: the same simulation, again one episode at a time, every policy valued by listing trajectories."""

import math
import tracemalloc

import numpy as np
import pytest

import tacit
from simulation.cases import Unknown, po, regret_by_replay, replayed, small_world, vi
from tacit import Joint, Local, NonPrivate
from tacit.mdp import TabularMDP
from tacit.simulation import run as running
from tacit.simulation import simulate

AGENTS = {
    "doubling": lambda world: vi(world),
    "every episode": lambda world: vi(world, episodes=30, schedule="every-episode"),
    "policy optimisation": lambda world: po(world),
    "no privacy": lambda world: vi(world, privacy=NonPrivate()),
    "Gaussian": lambda world: po(world, privacy=Joint(epsilon=5, delta=1e-6)),
    "local": lambda world: vi(world, privacy=Local(epsilon=10)),
}


@pytest.mark.parametrize("stationary", [True, False], ids=["stationary", "per step"])
@pytest.mark.parametrize("kind", AGENTS)
def test_regret_after_every_episode_is_that_of_a_slow_replay(kind, stationary, monkeypatch):
    world = small_world(stationary=stationary)
    agent = AGENTS[kind](world)
    monkeypatch.setattr(running, "_STEPS_AT_A_TIME", 7 * world.spec.horizon)  # pieces that end within batches
    piece = 7 if kind == "local" else 1  # a device's draws do depend on who comes together
    policies, _ = replayed(agent, world, runs=3, seed=11, piece=piece)
    expected = regret_by_replay(world, policies)
    result = simulate(agent, world, runs=3, seed=11)
    assert len(np.unique(expected[:, -1])) == 3  # runs do differ
    np.testing.assert_allclose(result.regret, expected, rtol=0, atol=1e-10)
    np.testing.assert_allclose(result.final_regret, expected[:, -1], rtol=0, atol=1e-10)
    assert (np.diff(result.regret, axis=1, prepend=0) >= -1e-12).all()


@pytest.mark.parametrize("kind", sorted({*AGENTS} - {"local"}))
def test_how_many_episodes_are_rolled_out_at_once_changes_nothing(kind, monkeypatch):
    world = small_world()
    agent = AGENTS[kind](world)
    values = simulate(agent, world, runs=2, seed=3).values
    monkeypatch.setattr(running, "_STEPS_AT_A_TIME", 1)
    assert np.array_equal(simulate(agent, world, runs=2, seed=3).values, values)


@pytest.mark.parametrize("kind", AGENTS)
def test_a_policy_is_valued_when_it_changes_and_only_then(kind, monkeypatch):
    world = small_world()
    agent = AGENTS[kind](world)
    valued, own = [], TabularMDP.policy_values
    monkeypatch.setattr(TabularMDP, "policy_values", lambda self, policy: valued.extend(policy) or own(self, policy))
    monkeypatch.setattr(running, "_STEPS_AT_A_TIME", 1)
    result = simulate(agent, world, runs=2, seed=3)
    policies, _ = replayed(agent, world, runs=2, seed=3)
    changed = [k for k in range(1, len(policies)) if not np.array_equal(policies[k], policies[k - 1])]
    assert {0, *changed} <= set(result.changes.tolist())
    assert len(valued) == result.values.size  # one for each run and change


def test_in_a_world_that_is_not_known_values_are_mean_returns_of_the_episodes_played(monkeypatch):
    inner = small_world()
    monkeypatch.setattr(running, "_STEPS_AT_A_TIME", 7 * inner.spec.horizon)
    agent = po(inner)
    result = simulate(agent, Unknown(inner=inner), runs=2, seed=5)
    _, returns = replayed(agent, inner, runs=2, seed=5)
    assert np.diff(result.changes).max() == 7
    for place, (first, last) in enumerate(zip(result.changes, [*result.changes[1:], agent.episodes], strict=True)):
        np.testing.assert_allclose(result.values[:, place], returns[:, first:last].mean(axis=1), atol=1e-12)
    assert result.optimal is None
    assert result.summary()["mean value"] == pytest.approx(returns.mean())
    assert "regret" not in result.summary()
    with pytest.raises(ValueError, match="optimal value of this world is not known"):
        result.regret_at([1])


@pytest.mark.parametrize("privacy", [NonPrivate(), Joint(epsilon=50), Local(epsilon=10)], ids=str)
def test_with_doubling_there_are_as_many_policies_as_K_has_bits(privacy):
    world = small_world()
    for K in (1, 2, 3, 64, 1000, 1024, 20_000):
        result = simulate(vi(world, episodes=K, privacy=privacy), world, runs=2)
        assert len(result.changes) <= math.log2(K) + 2
        assert result.values.shape == (2, len(result.changes))


def test_with_a_release_after_every_episode_one_number_is_kept_for_each():
    world = small_world()
    result = simulate(vi(world, episodes=40, schedule="every-episode"), world, runs=2)
    assert result.changes.tolist() == list(range(40))


def test_memory_does_not_grow_with_the_number_of_episodes():
    world = small_world()

    def most(K):
        agent = vi(world, episodes=K, privacy=NonPrivate())
        tracemalloc.start()
        try:
            simulate(agent, world, runs=2).summary()
            return tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()

    most(1000)  # whatever is imported, compiled and kept
    assert most(160_000) < 1.2 * most(20_000)


def test_the_agent_and_its_users_stay_as_they_are():
    world = small_world()
    agent = vi(world)
    tickets = [agent.begin() for _ in range(3)]
    agent.observe(tickets[0], None)
    before = agent.statement
    simulate(agent, world, runs=2)
    assert agent.statement == before
    assert agent.statement.users == 3
    assert agent.begin().number == 3


def test_the_statement_says_that_nobody_is_protected():
    world = small_world()
    for agent in (vi(world), vi(world, privacy=Local(epsilon=10)), po(world, privacy=Joint(rho=1))):
        assert "no privacy" in simulate(agent, world, runs=1).statement.splitlines()[0]


def test_settings_tell_how_to_have_the_result_again():
    world = small_world()
    agent = po(world, eta_scale=2.5)
    settings = simulate(agent, world, runs=2, seed=9).settings
    again = tacit.online.agent_from_json(dict(settings["agent"]))
    assert again.to_json() == agent.to_json()
    assert (settings["runs"], settings["seed"], settings["world"]["name"]) == (2, 9, world.name)
    assert settings["versions"]["tacit"] == tacit.__version__
    assert settings["versions"]["numpy"] == np.__version__
