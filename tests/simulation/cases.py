"""Worlds, agents and interrupts, and the whole simulation done again slowly: what `simulate` is checked against."""

import functools
import itertools
import signal
from dataclasses import dataclass

import numpy as np

import tacit
from tacit.mdp import Streams, TabularMDP
from tacit.mdp.worlds.random_worlds import random_mdp
from tacit.online import UCBPO, UCBVI
from tacit.simulation import Result

PURE = tacit.Joint(epsilon=50)


def small_world(*, stationary=True, seed=4):
    """Small enough to list every trajectory."""
    return random_mdp(states=3, actions=2, horizon=3, seed=seed, stationary=stationary)


def vi(world, episodes=60, privacy=PURE, privacy_scale=0.0, **settings):
    """Bonuses of noise are left out, so that something is learnt from a few episodes."""
    return UCBVI(world.spec, episodes=episodes, privacy=privacy, privacy_scale=privacy_scale, **settings)


def po(world, episodes=200, privacy=PURE, bonus_scale=0.0, **settings):
    """No bonuses at all, and more episodes: the first two policies are uniform."""
    return UCBPO(world.spec, episodes=episodes, privacy=privacy, bonus_scale=bonus_scale, **settings)


@dataclass(frozen=True, kw_only=True)
class Unknown:
    """A world that can only be rolled out."""

    inner: TabularMDP

    @property
    def spec(self):
        return self.inner.spec

    def rollout(self, policy, *, episodes, streams):
        return self.inner.rollout(policy, episodes=episodes, streams=streams)


def value_by_listing(world, policy):
    """Expected return: every trajectory's probability times what it pays. Policy (H, S) or (H, S, A)."""
    S, A, H = world.spec.states, world.spec.actions, world.spec.horizon
    shares = np.eye(A)[policy] if policy.ndim == 2 else policy
    total = 0.0
    for states in itertools.product(range(S), repeat=H):
        for actions in itertools.product(range(A), repeat=H):
            chance, paid = world.start[states[0]], 0.0
            for h in range(H):
                P, r = world.kernel[h % len(world.kernel)], world.rewards.mean[h % len(world.rewards.mean)]
                chance *= shares[h, states[h], actions[h]]
                if h + 1 < H:
                    chance *= P[states[h], actions[h], states[h + 1]]
                paid += r[states[h], actions[h]]
            total += chance * paid
    return total


def best_by_listing(world):
    """The best of all deterministic policies."""
    S, A, H = world.spec.states, world.spec.actions, world.spec.horizon
    policies = (np.reshape(actions, (H, S)) for actions in itertools.product(range(A), repeat=H * S))
    return max(value_by_listing(world, policy) for policy in policies)


def replayed(agent, world, *, runs, seed, piece=1):
    """A few episodes after the other through the public session: policies followed, (K, R, …), and returns, (R, K)."""
    streams = Streams(seed, runs)
    session = agent.session(noise=tacit.SimulationNoise(seed), runs=runs, uniforms=streams.policy.take)
    policies, returns = [], []
    while len(policies) < agent.episodes:
        number = min(piece, session.due - len(policies))
        policies += [session.policy.copy()] * number
        episodes = world.rollout(session.policy, episodes=number, streams=streams)
        returns += list(episodes.rewards.sum(axis=2).T)
        session.observe(episodes)
    return np.array(policies), np.array(returns).T


def regret_by_replay(world, policies):
    """Cumulative regret (R, K): each episode's policy valued by listing, each gap added by itself."""

    @functools.cache
    def value(told):
        return value_by_listing(world, np.frombuffer(told, policies.dtype).reshape(policies.shape[2:]))

    best, regret = best_by_listing(world), np.zeros(policies.shape[1::-1])
    for run, k in np.ndindex(*regret.shape):
        regret[run, k] = (regret[run, k - 1] if k else 0.0) + best - value(policies[k, run].tobytes())
    return regret


def random_result(seed, *, runs=None, episodes=None, optimal=3.0, agent_episodes=None):
    """Policies that change at random times; and the regret of every episode, added up one by one."""
    rng = np.random.default_rng(seed)
    runs = runs or int(rng.integers(1, 6))
    episodes = episodes or int(rng.integers(1, 40))
    changes = np.union1d([0], rng.integers(0, episodes, rng.integers(0, 10)))
    values = rng.random((runs, len(changes))) * 3
    agent = {"episodes": agent_episodes or episodes}
    result = Result(
        changes=changes,
        values=values,
        episodes=episodes,
        optimal=optimal,
        settings={"agent": agent, "runs": runs},
        statement="simulated: no privacy",
    )
    followed = np.empty((runs, episodes))
    for k in range(episodes):
        followed[:, k] = values[:, max(c for c in range(len(changes)) if changes[c] <= k)]
    return result, followed


class Hears:
    """A progress bar that remembers."""

    def __init__(self):
        self.shares, self.entered, self.left = [], 0, 0

    def update(self, share):
        self.shares.append(share)

    def __enter__(self):
        self.entered += 1
        return self

    def __exit__(self, *error):
        self.left += 1


class Stops(Hears):
    """A progress bar at which somebody presses Ctrl-C, or whose own button does it, once so much is done."""

    def __init__(self, share, *, how="Ctrl-C"):
        super().__init__()
        self._share, self._how, self.pressed = share, how, False

    def update(self, share):
        super().update(share)
        if share >= self._share and not self.pressed:
            self.pressed = True
            if self._how == "button":
                raise KeyboardInterrupt
            signal.raise_signal(signal.SIGINT)


def same(one, other):
    """Results of the same episodes."""
    return (
        np.array_equal(one.changes, other.changes)
        and np.array_equal(one.values, other.values)
        and (one.episodes, one.optimal, one.statement) == (other.episodes, other.optimal, other.statement)
        and one.settings == other.settings
    )
