"""Linear worlds: the linear MDP of 001's experiment, mixtures of simulators, populations of patient types."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit.mdp.linear import LawOfMean, LinearMDP, LinearMixtureMDP, dense_kernel, deterministic
from tacit.mdp.rewards import Deterministic
from tacit.mdp.spec import EpisodeSpec, SpecError
from tacit.mdp.tabular import TabularMDP
from tacit.mdp.worlds.random_worlds import random_mdp

__all__ = ["linear_random", "linear_random_behaviour", "patient_types", "simulator_mixture"]


def linear_random(
    *,
    seed: int | np.random.SeedSequence,
    horizon: int = 20,
    scaled: bool = False,
    rewards: LawOfMean = deterministic,
) -> LinearMDP:
    """The linear MDP of 001's experiment (Appendix G): 2 states, 100 actions, 10 features.

    φ(s,a) = (the 8 bits of a, δ, 1−δ), δ = 1 iff (s = 0) = (a = 0); ν_h(0) = (0,…,0,α_{h1},α_{h2}), ν_h(1) likewise
    with 1−α; θ_h = (r/8, 0, r/8, ½−r/2, r/8, 0, r/8, 0, r/2, ½−r/2); α and r are uniform on [0, 1] for each step.
    The first state is uniform. Bits are written most significant first (the paper does not say): then V* is
    about 14 at H = 20, and the first feature is always 0.

    Parameters
    ----------
    seed
        Of α and r.
    horizon
        H; the paper's is 20.
    scaled
        The printed features have norm up to √7, while 001 assumes at most 1. True divides φ by √7 and
        multiplies ν and θ by it: the same world. (Then ‖ν_h(S)‖ = √14 exceeds the √d = √10 that 001 also
        assumes: no scaling of these features meets both.)
    rewards
        From mean rewards (H, 2, 100) to their law; without noise by default.
    """
    actions, features = 100, 10
    spec = EpisodeSpec(states=2, actions=actions, horizon=horizon, stationary=False, start=(0.5, 0.5))
    rng = np.random.default_rng(seed)
    alpha = rng.random((horizon, 2))
    r = rng.random(horizon)
    bits = (np.arange(actions)[:, None] >> np.arange(7, -1, -1)) & 1
    delta = (np.arange(2) == 0)[:, None] == (np.arange(actions) == 0)[None, :]
    phi = np.zeros((2, actions, features))
    phi[:, :, :8] = bits
    phi[:, :, 8] = delta
    phi[:, :, 9] = ~delta
    nu = np.zeros((horizon, features, 2))
    nu[:, 8:, 0], nu[:, 8:, 1] = alpha, 1.0 - alpha
    none, half = np.zeros(horizon), 0.5 - r / 2
    theta = np.stack([r / 8, none, r / 8, half, r / 8, none, r / 8, none, r / 2, half], axis=-1)
    factor = np.sqrt(7.0) if scaled else 1.0
    return LinearMDP(
        spec=spec,
        phi=phi / factor,
        nu=nu * factor,
        theta=theta * factor,
        start=np.array([0.5, 0.5]),
        rewards=rewards,
        name="001 Appendix G" + (", features scaled to norm 1" if scaled else ""),
    )


def linear_random_behaviour(*, horizon: int = 20, first: float = 0.6) -> NDArray[np.float64]:
    """The behaviour policy of 001's experiment, (1, H, 2, 100): action 0 with probability `first`, else uniform."""
    if not 0.0 <= first <= 1.0:
        raise SpecError(f"first is a probability; got {first}")
    policy = np.full((1, horizon, 2, 100), (1.0 - first) / 99)
    policy[..., 0] = first
    return policy


def simulator_mixture(
    *, simulators: Sequence[TabularMDP], weights: ArrayLike, rewards: LawOfMean = deterministic
) -> LinearMixtureMDP:
    """P_h = Σ_i w_{h,i} P_i: known simulators, mixed with weights that a learner does not know (004).

    Every step is made by a simulator drawn anew, so this is the MDP of a population only as far as one step of a
    person does not tell her type. ψ_i = P_i. Reward features are the simulators' means: one feature if they
    agree, else all of them divided by √d, so that ‖φ_r‖ ≤ 1 for rewards in [−1, 1].

    Parameters
    ----------
    simulators
        Stationary worlds of one shape, reward range and start law; kept as dense arrays (S, A, S, d).
    weights
        (d,) or (H, d): probabilities.
    rewards
        From mean rewards (H|1, S, A) to their law; without noise by default, whatever the simulators' laws are.
    """
    if not simulators:
        raise SpecError("a mixture needs at least one simulator")
    first, d = simulators[0], len(simulators)
    for world in simulators:
        if not world.spec.stationary:
            raise SpecError(f"a mixture's simulators must be stationary; {world.name!r} is not")
        if world.spec != first.spec or not np.allclose(world.start, first.start, rtol=0, atol=1e-12):
            raise SpecError("a mixture's simulators must share their spec and their start law")
    shares = np.asarray(weights, dtype=np.float64)
    if shares.ndim not in (1, 2) or shares.shape[-1] != d:
        raise SpecError(f"weights must be (d,) or (H, d) for d = {d} simulators; got shape {shares.shape}")
    if not ((shares >= 0).all() and np.allclose(shares.sum(axis=-1), 1.0, rtol=0, atol=1e-9)):
        raise SpecError("weights must be probabilities: at least 0, with sum 1")
    means = np.concatenate([world.rewards.mean for world in simulators])
    agree = bool((means == means[:1]).all())
    return LinearMixtureMDP(
        spec=replace(first.spec, stationary=shares.ndim == 1 or len(shares) == 1),
        psi=np.concatenate([dense_kernel(world) for world in simulators]).transpose(1, 2, 3, 0),
        theta_p=shares,
        phi_r=means[0][..., None] if agree else means.transpose(1, 2, 0) / np.sqrt(d),
        theta_r=np.ones(1) if agree else shares * np.sqrt(d),
        start=first.start,
        rewards=rewards,
        name=f"mixture of {d} simulators",
    )


def patient_types(
    *,
    types: int = 4,
    states: int = 10,
    actions: int = 3,
    horizon: int = 10,
    seed: int | np.random.SeedSequence,
    successors: int | None = 3,
    weights: ArrayLike | None = None,
) -> LinearMixtureMDP:
    """A population of random patient types: each type is a random world, and all are paid alike.

    Weights are uniform on the simplex unless given. The types share their rewards (what health is worth does not
    depend on the type) and start in state 0.
    """
    if types < 1:
        raise SpecError(f"types must be at least 1; got {types}")
    # A copy, for spawning changes the sequence: the same one must give the same world again.
    given = seed if isinstance(seed, np.random.SeedSequence) else np.random.SeedSequence(seed)
    sequence = np.random.SeedSequence(given.entropy, spawn_key=given.spawn_key, pool_size=given.pool_size)
    own, *seeds = sequence.spawn(types + 1)
    rng = np.random.default_rng(own)
    health = Deterministic(mean=rng.random((1, states, actions)))
    drawn = rng.dirichlet(np.ones(types))
    simulators = [
        replace(
            random_mdp(states=states, actions=actions, horizon=horizon, successors=successors, seed=child),
            rewards=health,
            name=f"patient type {i}",
        )
        for i, child in enumerate(seeds)
    ]
    world = simulator_mixture(simulators=simulators, weights=drawn if weights is None else weights)
    return replace(world, name=f"{types} patient types")
