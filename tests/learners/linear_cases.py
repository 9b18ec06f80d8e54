"""What tests of the learners of linear worlds share: people's data, training, and what a plan loses."""

import numpy as np

from tacit.mdp import Streams, linear_random_behaviour
from tacit.privacy import SimulationNoise
from tacit.privatizers import AdaptivePrivatizer, converse


def behaviour(world):
    S, A, horizon = world.spec.states, world.spec.actions, world.spec.horizon
    return linear_random_behaviour(horizon=horizon) if A == 100 else np.full((1, horizon, S, A), 1.0 / A)


def logged(world, episodes, *, runs=1, seed=0):
    return world.rollout(behaviour(world), episodes=episodes, streams=Streams(seed, runs=runs))


def uniforms(seed, runs=1):
    generators = [np.random.default_rng([seed, run]) for run in range(runs)]
    return lambda shape: np.stack([generator.random(shape) for generator in generators])


def trained(learner, people, guarantee, *, seed=0, **settings):
    runs, episodes = people.rewards.shape[:2]
    privatizer = AdaptivePrivatizer(
        learner.spec, learner.features, guarantee, episodes=episodes, runs=runs, noise=SimulationNoise(seed), **settings
    )
    privatizer.observe(people)
    return converse(learner.plan(uniforms(seed, runs)), privatizer), privatizer


def gap(world, plan):
    tabular = world.tabular()
    return tabular.optimal_value - tabular.policy_values(plan.policy)
