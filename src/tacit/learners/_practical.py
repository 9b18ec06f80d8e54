"""The practical rule of pessimistic value iteration: what `APVI` plans in by default.

With the theorem's constants nothing is learnt on RiverSwim below some 10⁹ episodes (ρ = 1). Here nothing is proven, and
what was chosen was chosen for many worlds at once: RiverSwim, chains and random worlds, stationary or not, with good
and bad behaviour policies. σ is the standard deviation of a transition count, and at least 1.

1. Every step has as many transitions as there were episodes, so the mean over steps of Σ Y is a step's mass; 0 where
   the sum is below three standard deviations. The nearest table x ≥ 0 of that mass replaces Y (projected as one vector:
   row by row, noise that nobody visited would keep its mass). n = Σ x; or visits that were counted by themselves.
2. P̃ = (x + σ/2S)/(n + σ/2). Counts per step are mixed with those of all steps as far as steps look alike (`mix_steps`);
   wholly, where the world is declared stationary.
3. Γ = ½√(Var_P̃(V)/n) + z·‖V−mid‖₂/10 + 2z²·span V with z = σ/n: sampling, noise, and that there may be no evidence at
   all. P̃V − Γ is at least min V, which no law of the next state can undercut.
4. Unknown rewards: R/(n + σ/2), less ½√(r̃(1−r̃)/n) + ½σ_R/n; mixed over steps like the rows.
5. Noise leaves (ξ − t)⁺ in a cell that nobody visited, t being what the projection took from each. `evidence` is n over
   what it leaves in a row: the mean and .35 standard deviations. Where the mean of a state's visits and of arrivals
   there is below what noise leaves in all the state's rows, the fallback is followed: in most of the states that nobody
   visited, and rarely elsewhere. (Higher thresholds defer more of the former, and cost more than they protect.)
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacit.mdp.spec import EpisodeSpec
from tacit.releases import TabularRelease

__all__ = ["Model", "practical_model"]

Array = NDArray[np.float64]

# The practical rule's constants, in units of what they multiply.
_PRIOR = 0.5  # of the uniform law in a row, in σ
_SAMPLING, _NOISE, _NO_EVIDENCE = 0.5, 0.1, 2.0
_REWARD_NOISE = 0.5
_DEVIATIONS = 0.35  # standard deviations above the mean of what noise leaves, there is evidence
_NO_VISITS = 1e-9  # stands for none in a denominator


class Model(NamedTuple):
    """What is planned in; axes R, H|1, S, A[, S]."""

    kernel: Array
    rewards: Array
    by_spread: Array
    fixed: Array
    by_norm: Array
    by_span: Array
    evidence: Array
    deferred: NDArray[np.bool_]
    fallback: Array


def practical_model(
    spec: EpisodeSpec,
    release: TabularRelease,
    rewards: Array | None,
    fallback: Array | None,
    scale: float,
    hoeffding: bool,
) -> Model:
    """What the practical rule plans in; rewards and fallback are declared, or None."""
    from tacit.learners._pessimistic_kernels import mix_steps

    S, A = spec.states, spec.actions
    released = np.ascontiguousarray(release.transitions)
    steps = released.shape[1]
    noise = release.errors["transitions"].std
    felt = max(noise, 1.0)
    sums = released.sum(axis=(1, 2, 3, 4))
    sums = np.where(sums <= 3.0 * noise * math.sqrt(steps * S * S * A), 0.0, sums)
    mass = np.repeat(sums / steps, steps)
    counted = release.errors["visits"].std < 0.99 * noise * math.sqrt(S)
    leftover = release.errors["visits"].std if counted else noise
    own, seen, levels = _projected(released, mass, release.visits if counted else None)
    left = _left(leftover, levels, 1 if counted else S).reshape(2, -1, steps)
    pool, pooled = own, seen
    if steps > 1:
        visits = release.visits.sum(axis=1, keepdims=True) if counted else None
        pool, pooled, levels = _projected(released.sum(axis=1, keepdims=True), sums, visits)
        of_all = _left(math.sqrt(steps) * leftover, levels, 1 if counted else S)[..., None]
        left = np.maximum(left, of_all / np.array([math.sqrt(steps), float(steps)])[:, None, None])
    kernel, effective, relative = np.empty_like(own), np.empty_like(seen), np.empty_like(seen)
    mix_steps(
        *(released, own, seen, pool[:, 0], pooled[:, 0], noise, felt, _PRIOR, spec.stationary),
        *(kernel, effective, relative),
    )
    by_spread, by_span = _SAMPLING / np.sqrt(effective), _NO_EVIDENCE * relative**2
    if hoeffding:  # no law has more than a quarter of the squared range as its variance
        by_spread, by_span = np.zeros_like(by_spread), by_span + 0.5 * by_spread
    visits = felt / relative  # worth as much as what was mixed, in visits of one step
    arrivals = pool.sum(axis=(2, 3)) / math.sqrt(steps)
    alone = np.maximum(_above(left), 1.0)[..., None, None]
    deferred = 0.5 * (visits.sum(axis=-1) + arrivals) < np.maximum(_above(A * left), 1.0)[..., None]
    return Model(
        kernel=kernel,
        rewards=_reward_estimates(spec, release, seen, pooled, scale) if rewards is None else rewards[None],
        by_spread=scale * by_spread,
        fixed=np.zeros_like(seen),
        by_norm=scale * _NOISE * relative,
        by_span=scale * by_span,
        evidence=visits / alone,
        deferred=deferred,
        fallback=_shares(seen, pooled, felt) if fallback is None else fallback[None],
    )


def _reward_estimates(spec: EpisodeSpec, release: TabularRelease, seen: Array, pooled: Array, scale: float) -> Array:
    """Pessimistic mean rewards: own ones of each step, mixed with those of all steps as rows are."""
    assert release.rewards is not None
    steps, S = seen.shape[1], spec.states
    half = 0.5 if release.centred else 0.0
    noise, counted = release.errors["rewards"].std, release.errors["transitions"].std
    felt = max(counted, 1.0)

    def mean(sums: Array, visits: Array, wide: float) -> Array:
        prior = _PRIOR * wide * felt
        estimate: Array = np.clip((sums + half * visits) / (visits + prior), 0.0, 1.0)
        return estimate

    own, visits = mean(release.rewards, seen, 1.0), np.maximum(seen, _NO_VISITS)
    sampled, noisy = own * (1.0 - own) / visits, (noise / visits) ** 2
    if steps > 1:
        everything = np.maximum(pooled, _NO_VISITS)
        pool = mean(release.rewards.sum(axis=1, keepdims=True), pooled, math.sqrt(steps))
        spread = pool * (1.0 - pool)
        squares = noise**2 + (pool - half) ** 2 * S * counted**2
        total = release.transitions.sum(axis=-1)
        excess = ((release.rewards - total * (pool - half)) ** 2 - squares - seen * spread).sum(axis=1)
        excess += math.sqrt(2.0 * steps) * squares[:, 0] + np.sqrt(2.0 * ((seen * spread) ** 2).sum(axis=1))
        weight = np.maximum((total**2).sum(axis=1) - steps * S * counted**2, _NO_VISITS)
        distance = np.minimum(np.maximum(excess, 0.0) / weight, 0.25)[:, None]
        distance = 0.0 * distance if spec.stationary else distance
        own_error = (squares + visits * spread) / visits**2
        pool_error = (steps * squares + everything * spread) / everything**2 + distance
        away = own_error / np.maximum(own_error + pool_error, _NO_VISITS)
        own = (1.0 - away) * own + away * pool
        sampled = own * (1.0 - own) * ((1.0 - away) ** 2 / visits + away**2 / everything)
        noisy = (1.0 - away) ** 2 * noisy + away**2 * (steps * (noise / everything) ** 2 + distance)
    less = scale * (_SAMPLING * np.sqrt(sampled) + _REWARD_NOISE * np.sqrt(noisy))
    estimates: Array = np.maximum(own - less, 0.0)
    return estimates


def _projected(released: Array, mass: Array, visits: Array | None) -> tuple[Array, Array, Array]:
    """The nearest tables (R, T, S, A, S) of that mass, their visits (first, if they were counted), and levels."""
    own, levels = _on_simplices(released, (2, 3, 4), mass)
    if visits is None:
        return own, own.sum(axis=-1), levels
    seen, levels = _on_simplices(visits, (2, 3), mass)
    return _on_simplices(released, (4,), seen.reshape(-1))[0], seen, levels


def _on_simplices(values: Array, axes: tuple[int, ...], mass: Array) -> tuple[Array, Array]:
    from tacit.learners._pessimistic_kernels import on_simplices

    cells = math.prod(values.shape[axis] for axis in axes)
    nearest, levels = np.empty(values.shape), np.empty(len(mass))
    rows = np.ascontiguousarray(values).reshape(-1, cells)
    on_simplices(rows, np.ascontiguousarray(mass), nearest.reshape(-1, cells), levels)
    return nearest, levels


def _left(noise: float, levels: Array, cells: int) -> Array:
    """Mean and variance (2, …) of what noise leaves above a level in so many cells that nobody visited.

    As if it were Laplace noise, whose E(ξ−t)⁺ = (b/2)e^{−t/b} and E((ξ−t)⁺)² = b²e^{−t/b}: normal noise leaves as much,
    within 13 % at t = 0 and 9 % at 0.7σ.
    """
    scale = max(noise, _NO_VISITS) / math.sqrt(2.0)
    beyond = np.exp(-np.maximum(levels, 0.0) / scale)
    mean = 0.5 * scale * beyond
    return cells * np.stack([mean, scale * scale * beyond - mean * mean])


def _above(left: Array) -> Array:
    """What visits have to be above to be evidence."""
    level: Array = left[0] + _DEVIATIONS * np.sqrt(left[1])
    return level


def _shares(seen: Array, pooled: Array, felt: float) -> Array:
    """The behaviour policy as far as it can be seen: a step's visits, those of all steps, and the uniform law."""
    S, A = seen.shape[-2:]
    weight = felt * math.sqrt(S * A)
    wide = weight * math.sqrt(seen.shape[1])
    everywhere = (pooled + wide / A) / (pooled.sum(axis=-1, keepdims=True) + wide)
    shares: Array = (seen + weight * everywhere) / (seen.sum(axis=-1, keepdims=True) + weight)
    return shares
