"""What learners are given here: laws of errors, random releases, and counts of a world that is known."""

import math
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from learners.literal import Theorem
from tacit.learners import UCBPO, UCBVI
from tacit.mdp.spec import EpisodeSpec
from tacit.releases import TabularRelease


@dataclass(frozen=True)
class Laplace:
    """One Laplace variable."""

    scale: float

    @property
    def std(self):
        return math.sqrt(2) * self.scale

    def quantile(self, beta):
        return self.scale * math.log(1 / beta)

    def to_json(self):
        return {"law": "Laplace", "scale": self.scale}


@dataclass(frozen=True)
class AtMost:
    """Any error of at most this size."""

    largest: float

    @property
    def std(self):
        return self.largest

    def quantile(self, beta):
        return self.largest

    def to_json(self):
        return {"law": "at most", "largest": self.largest}


EXACT = {"visits": AtMost(0.0), "rewards": AtMost(0.0), "transitions": AtMost(0.0)}


class Problem(NamedTuple):
    """A theorem, releases of a stream of episodes, and η's factor."""

    theorem: Theorem
    releases: tuple[TabularRelease, ...]
    eta_scale: float

    @property
    def settings(self) -> dict[str, Any]:
        """For a learner."""
        S, A, H, K, beta, statistical, privacy = self.theorem
        spec = EpisodeSpec(states=S, actions=A, horizon=H)
        scales = {"statistical_scale": statistical, "privacy_scale": privacy}
        return {"spec": spec, "episodes": K, "confidence": beta, **scales}

    def vi(self):
        return UCBVI(**self.settings)

    def po(self):
        return UCBPO(**self.settings, eta_scale=self.eta_scale)

    @property
    def runs(self):
        return len(self.releases[0].transitions)


def problem(seed):
    """Everything at random, and read-only; counts may be negative, and add up to nothing."""
    rng = np.random.default_rng(seed)
    S, A, H = rng.integers(1, 5), rng.integers(1, 4), rng.integers(1, 5)
    pooled, centred, runs = rng.random() < 0.5, rng.random() < 0.5, rng.integers(1, 4)
    size, noise = rng.choice([1.0, 100.0, 10_000.0]), rng.choice([0.1, 3.0, 100.0])
    theorem = Theorem(
        S=int(S),
        A=int(A),
        H=int(H),
        K=int(rng.choice([1, 7, 1000, 20_000])),
        beta=rng.uniform(0.001, 0.5),
        statistical=rng.choice([0.0, 0.02, 1.0, 1.7]),
        privacy=rng.choice([0.0, 0.02, 1.0, 1.7]),
    )
    errors = {family: Laplace(noise * rng.uniform(0.1, 2)) for family in ("visits", "rewards", "transitions")}
    shape = (runs, 1 if pooled else H, S, A)
    releases = [zeros(shape, centred)]
    for gap in rng.choice([1, 2, 30], size=rng.integers(1, 4)):
        visits = rng.uniform(0, size, shape)
        rewards = visits * (rng.random(shape) - (0.5 if centred else 0.0))
        transitions = visits[..., None] * rng.dirichlet(np.ones(S), size=shape)
        visits, rewards, transitions = (a + noise * rng.normal(size=a.shape) for a in (visits, rewards, transitions))
        for array in (visits, rewards, transitions):
            array.flags.writeable = False
        releases.append(
            TabularRelease(
                episodes=int(releases[-1].episodes + gap),
                transitions=transitions,
                visits=visits,
                rewards=rewards,
                centred=centred,
                starts=None,
                errors=errors,
            )
        )
    return Problem(theorem, tuple(releases), rng.choice([0.0, 1.0, 20.0]))


def zeros(shape, centred=False):
    """The first release, (R, steps, S, A): nobody came, and that is known exactly."""
    return TabularRelease(
        episodes=0,
        transitions=np.zeros((*shape, shape[2])),
        visits=np.zeros(shape),
        rewards=np.zeros(shape),
        centred=centred,
        starts=None,
        errors=EXACT,
    )


def relabelled(release, states, actions):
    """State s is called states[s], and action a actions[a]."""
    s, a = np.argsort(states), np.argsort(actions)
    return replace(
        release,
        transitions=release.transitions[:, :, s][:, :, :, a][..., s],
        visits=release.visits[:, :, s][..., a],
        rewards=release.rewards[:, :, s][..., a],
    )


def run_of(release, run):
    """One run alone."""
    alone = slice(run, run + 1)
    return replace(
        release, transitions=release.transitions[alone], visits=release.visits[alone], rewards=release.rewards[alone]
    )


def uniforms_of(rng, runs):
    return lambda shape: rng.random((runs, *shape))


def no_uniforms(shape):
    raise AssertionError("this learner has nothing to draw")


class World(NamedTuple):
    """P (H, S, A, S), mean rewards in [0, 1] (H, S, A), and the start law."""

    kernel: np.ndarray
    rewards: np.ndarray
    start: np.ndarray

    @property
    def spec(self):
        H, S, A = self.rewards.shape
        return EpisodeSpec(states=S, actions=A, horizon=H)


def world_of(rng, *, H=3, S=3, A=2, stationary=False):
    steps = 1 if stationary else H
    kernel, rewards = rng.dirichlet(np.ones(S), size=(steps, S, A)), rng.random((steps, S, A))
    repeat = H if stationary else 1
    return World(np.tile(kernel, (repeat, 1, 1, 1)), np.tile(rewards, (repeat, 1, 1)), rng.dirichlet(np.ones(S)))


def counts_of(world, rng, *, episodes, runs):
    """Transitions, visits and Bernoulli rewards of episodes that follow the uniform policy, drawn as sums."""
    H, S, A = world.rewards.shape
    transitions = np.empty((runs, H, S, A, S))
    visits, rewards = np.empty((runs, H, S, A)), np.empty((runs, H, S, A))
    here = rng.multinomial(episodes, world.start, size=runs)
    for h in range(H):
        visits[:, h] = taken = rng.multinomial(here, np.full(A, 1 / A))
        transitions[:, h] = gone = rng.multinomial(taken, world.kernel[h])
        rewards[:, h] = rng.binomial(taken, world.rewards[h])
        here = gone.sum(axis=(1, 2))
    return transitions, visits, rewards
