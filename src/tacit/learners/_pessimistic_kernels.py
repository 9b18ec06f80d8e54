"""Compiled parts of pessimistic value iteration. Imported when first needed; signatures are explicit, as in `_kernels`.

Choices are written so that NaN comes through: a broken release must not look like a value.
"""

from __future__ import annotations

import math

import numpy as np
from numba import boolean, float64, njit, void
from numpy.typing import NDArray

from tacit._signatures import readable, writable

__all__ = ["mix_steps", "on_simplices", "pessimistic_backups", "reconcile"]

_Floats = NDArray[np.float64]

_NO_VISITS = 1e-9  # stands for none in a denominator


@njit(float64(readable(float64, 1), float64), cache=True, nogil=True, error_model="numpy")
def _level(values: _Floats, mass: float) -> float:
    """The t with Σ (values − t)⁺ = mass ≥ 0: as if nothing were below it, and again without what is (Michelot 1986)."""
    total = 0.0
    for value in values:
        total += value
    count = values.size
    level = (total - mass) / count
    while True:
        total, above = 0.0, 0
        for value in values:
            if value > level:
                total += value
                above += 1
        if above in (count, 0):
            return level
        count = above
        level = (total - mass) / count


@njit(
    void(readable(float64, 2), readable(float64, 1), float64, writable(float64, 2), writable(float64, 1)),
    cache=True,
    nogil=True,
    error_model="numpy",
)
def reconcile(transitions: _Floats, visits: _Floats, half: float, counts: _Floats, totals: _Floats) -> None:
    """Equation (3) of 001 for rows (n, S), in closed form: counts ñ(s'), and ñ = Σ ñ(s'), with half = E/2.

    Minimise max |x − n'| over x ≥ 0 with |Σ x − n'_{sa}| ≤ E/2. If Σ n' is too small, all entries rise by the same; if
    it is too large, all fall by the same but for those that reach 0. Nothing does with a smaller change of the entry
    that changes most: raising the sum by Δ needs one of S entries to rise by Δ/S; and if no entry falls by more than
    t, the sum is at least Σ (n' − t)⁺.
    """
    rows, states = transitions.shape
    for row in range(rows):
        total = 0.0
        for state in range(states):
            count = transitions[row, state]
            count = 0.0 if count < 0.0 else count
            counts[row, state] = count
            total += count
        seen = visits[row]
        seen = 0.0 if seen < 0.0 else seen
        if total < seen - half:
            counts[row] += (seen - half - total) / states
        elif total > seen + half:
            level = _level(counts[row], seen + half)
            for state in range(states):
                count = counts[row, state] - level
                counts[row, state] = 0.0 if count < 0.0 else count
        total = 0.0
        for state in range(states):
            total += counts[row, state]
        totals[row] = np.nan if np.isnan(seen) else total


@njit(
    void(readable(float64, 2), readable(float64, 1), writable(float64, 2), writable(float64, 1)),
    cache=True,
    nogil=True,
    error_model="numpy",
)
def on_simplices(values: _Floats, masses: _Floats, nearest: _Floats, levels: _Floats) -> None:
    """The points (values − level)⁺ of {x ≥ 0, Σ x = mass} that are nearest to the rows; ∞ is the level of nothing."""
    rows, cells = values.shape
    for row in range(rows):
        if masses[row] <= 0.0:
            nearest[row] = 0.0
            levels[row] = np.inf
            continue
        level = _level(values[row], masses[row])
        levels[row] = level
        for cell in range(cells):
            value = values[row, cell] - level
            nearest[row, cell] = 0.0 if value < 0.0 else value


@njit(
    void(
        readable(float64, 5),
        readable(float64, 5),
        readable(float64, 4),
        readable(float64, 4),
        readable(float64, 3),
        float64,
        float64,
        float64,
        boolean,
        writable(float64, 5),
        writable(float64, 4),
        writable(float64, 4),
    ),
    cache=True,
    nogil=True,
    error_model="numpy",
)
def mix_steps(
    released: _Floats,
    own: _Floats,
    seen: _Floats,
    pool: _Floats,
    pooled: _Floats,
    noise: float,
    felt: float,
    prior: float,
    stationary: bool,
    kernel: _Floats,
    effective: _Floats,
    relative: _Floats,
) -> None:
    """Rows of P̃: each step's own counts, mixed with those of all steps as far as the steps look alike.

    Let d_h = Y_h − N_h P̄ with Y_h the released row of step h, N_h its sum and P̄ the row of all steps. If all steps had
    the row P̄, E‖d_h‖² would be that of noise and of sampling; what Σ_h ‖d_h‖² exceeds its expectation by, and one
    standard deviation more, over Σ N_h², is δ², the squared distance of a step's row from P̄ that has to be reckoned
    with. Own row and pool are then weighed by their mean squared errors: (Sσ² + n)/n², and δ² plus the like.

    `noise` is σ, `felt` the same but at least 1, `prior` the mass of the uniform law that is mixed in, in units of
    `felt`. `effective` are visits worth as much as the mixture, and `relative` its noise per visit.
    """
    runs, steps, states, actions, _ = released.shape
    many, squares = prior * felt, noise * noise
    wide = math.sqrt(steps) * felt
    row = np.zeros(states)
    for run in range(runs):
        for state in range(states):
            for action in range(actions):
                distance, all_seen, pool_error = 0.0, pooled[run, state, action], 0.0
                if steps > 1:
                    length = 0.0
                    for after in range(states):
                        row[after] = (pool[run, state, action, after] + prior * wide / states) / (
                            all_seen + prior * wide
                        )
                        length += row[after] * row[after]
                    all_seen = _NO_VISITS if all_seen < _NO_VISITS else all_seen
                    excess, sampled, weight = 0.0, 0.0, 0.0
                    for step in range(steps):
                        total = 0.0
                        for after in range(states):
                            total += released[run, step, state, action, after]
                        for after in range(states):
                            off = released[run, step, state, action, after] - total * row[after]
                            excess += off * off
                        count = seen[run, step, state, action]
                        excess -= squares * (states - 2.0 + states * length) + count * (1.0 - length)
                        sampled += count * count
                        weight += total * total - states * squares
                    excess += squares * math.sqrt(2.0 * steps * states) + math.sqrt(2.0 * sampled / states)
                    excess = 0.0 if excess < 0.0 else excess
                    weight = _NO_VISITS if weight < _NO_VISITS else weight
                    distance = excess / weight
                    distance = 2.0 if distance > 2.0 else distance
                    distance = 0.0 * distance if stationary else distance
                    pool_error = (states * steps * squares + all_seen) / (all_seen * all_seen) + distance
                for step in range(steps):
                    count = seen[run, step, state, action]
                    floored = _NO_VISITS if count < _NO_VISITS else count
                    away = 0.0
                    if steps > 1:
                        error = (states * squares + floored) / (floored * floored)
                        away = error / (error + pool_error)
                    for after in range(states):
                        mean = (own[run, step, state, action, after] + many / states) / (count + many)
                        kernel[run, step, state, action, after] = (1.0 - away) * mean + away * row[after]
                    here, there = (1.0 - away) / floored, 0.0
                    variance = here * here * felt * felt
                    if steps > 1:
                        there = away / all_seen
                        variance += there * there * wide * wide + away * away * distance / states
                    effective[run, step, state, action] = 1.0 / (here * (1.0 - away) + there * away)
                    relative[run, step, state, action] = math.sqrt(variance)


@njit(
    void(
        readable(float64, 5),
        readable(float64, 4),
        readable(float64, 4),
        readable(float64, 4),
        readable(float64, 4),
        readable(float64, 4),
        boolean,
        readable(float64, 4),
        readable(boolean, 3),
        readable(float64, 3),
        writable(float64, 4),
        writable(float64, 3),
        writable(float64, 4),
        writable(float64, 4),
    ),
    cache=True,
    nogil=True,
    error_model="numpy",
)
def pessimistic_backups(
    kernel: _Floats,
    rewards: _Floats,
    by_spread: _Floats,
    fixed: _Floats,
    by_norm: _Floats,
    by_span: _Floats,
    bounded: bool,
    fallback: _Floats,
    deferred: NDArray[np.bool_],
    ties: _Floats,
    q: _Floats,
    values: _Floats,
    policy: _Floats,
    penalty: _Floats,
) -> None:
    """Pessimistic value iteration: Q = r + P̃V − Γ, greedy, or the fallback where that is followed.

    Γ = by_spread·√Var_P̃(V) + fixed + by_norm·‖V − mid‖₂ + by_span·(max V − min V), mid being the middle of V's range.
    As printed, Q is clipped to [0, H − h + 1]. Where `bounded`, what comes next is worth min V at least instead:
    P̃V − Γ is raised to that, and Γ lowered. Among the best actions, `ties` in [0, 1) chooses uniformly.
    """
    runs, horizon, states, actions = q.shape
    after, centred = np.zeros(states), np.zeros(states)
    for run in range(runs):
        after[:] = 0.0
        paid = run if rewards.shape[0] > 1 else 0
        for step in range(horizon - 1, -1, -1):
            table = step if kernel.shape[1] > 1 else 0
            pays = step if rewards.shape[1] > 1 else 0
            falls = step if fallback.shape[1] > 1 else 0
            lowest, highest = after[0], after[0]
            for state in range(1, states):
                lowest = after[state] if after[state] < lowest else lowest
                highest = after[state] if after[state] > highest else highest
            middle, norm = 0.5 * (lowest + highest), 0.0
            for state in range(states):
                centred[state] = after[state] - middle
                norm += centred[state] * centred[state]
            norm = math.sqrt(norm)
            for state in range(states):
                best = -np.inf
                for action in range(actions):
                    mean, variance = 0.0, 0.0
                    for following in range(states):
                        mean += kernel[run, table, state, action, following] * centred[following]
                    for following in range(states):  # not the mean square less the squared mean: digits would be lost
                        off = centred[following] - mean
                        variance += kernel[run, table, state, action, following] * off * off
                    less = by_spread[run, table, state, action] * math.sqrt(variance) + fixed[run, table, state, action]
                    less += by_norm[run, table, state, action] * norm
                    less += by_span[run, table, state, action] * (highest - lowest)
                    ahead = middle + mean
                    if bounded:
                        kept = ahead - less
                        kept = lowest if kept < lowest else kept
                        less = ahead - kept
                        value = rewards[paid, pays, state, action] + kept
                    else:
                        value = rewards[paid, pays, state, action] + ahead - less
                        value = 0.0 if value < 0.0 else value
                        value = horizon - step if value > horizon - step else value
                    q[run, step, state, action] = value
                    penalty[run, step, state, action] = less
                    best = value if (value > best) | np.isnan(value) else best
                if np.isnan(best):
                    policy[run, step, state] = np.nan
                    values[run, step, state] = np.nan
                elif deferred[run, table, state]:
                    value = 0.0
                    for action in range(actions):
                        share = fallback[run if fallback.shape[0] > 1 else 0, falls, state, action]
                        policy[run, step, state, action] = share
                        value += share * q[run, step, state, action]
                    values[run, step, state] = value
                else:
                    tied = 0
                    for action in range(actions):
                        tied += q[run, step, state, action] == best
                    wanted = int(ties[run, step, state] * tied)
                    for action in range(actions):
                        equal = q[run, step, state, action] == best
                        policy[run, step, state, action] = 1.0 if equal & (wanted == 0) else 0.0
                        wanted -= equal
                    values[run, step, state] = best
            after[:] = values[run, step]
