"""Compiled optimistic backups. Imported when first needed; signatures are explicit, as in `mdp._planning_kernels`.

What an algorithm divides by D is divided here: the model P̃ = Ñ(s,a,s')/D is never written down, since
r̃ + P̃V + a/√D + b/D = (R̃ + Σ Ñ(s,a,s') V(s') + b)/D + a/√D.
"""

from __future__ import annotations

import math

import numpy as np
from numba import boolean, float64, int32, njit, types, void
from numpy.typing import NDArray

from tacit._signatures import readable, writable

__all__ = ["greedy_backups", "policy_backups", "softmax"]

_Floats = NDArray[np.float64]


@njit(
    types.UniTuple(writable(float64, 4), 2)(
        readable(float64, 4), readable(float64, 4), float64, float64, float64, float64
    ),
    cache=True,
    nogil=True,
    error_model="numpy",
)
def _apart_from_next(
    visits: _Floats, rewards: _Floats, half: float, offset: float, statistical: float, privacy: float
) -> tuple[_Floats, _Floats]:
    """What of Q does not depend on V, (R̃ + b)/D + a/√D, and 1/D: of all cells at once, several at a time."""
    fixed, share = np.empty(visits.shape), np.empty(visits.shape)
    seen, paid = visits.reshape(visits.size), rewards.reshape(visits.size)
    flat_fixed, flat_share = fixed.reshape(visits.size), share.reshape(visits.size)
    for cell in range(seen.size):
        divisor = seen[cell] + offset
        divisor = 1.0 if divisor < 1.0 else divisor
        flat_share[cell] = 1.0 / divisor
        flat_fixed[cell] = (paid[cell] + half * seen[cell] + privacy) / divisor + statistical / math.sqrt(divisor)
    return fixed, share


@njit(
    void(
        readable(float64, 3),
        readable(float64, 2),
        readable(float64, 2),
        readable(float64, 1),
        float64,
        writable(float64, 2),
    ),
    cache=True,
    nogil=True,
    error_model="numpy",
    fastmath={"reassoc", "contract"},  # sums in any order; infinities and NaN stay what they are
)
def _one_step(transitions: _Floats, fixed: _Floats, share: _Floats, after: _Floats, ceiling: float, q: _Floats) -> None:
    """Q = clip(r̃ + P̃V + β, 0, ceiling) of one run and step.

    Choices without branches: noise would make the processor guess wrong half of the time. Written so that NaN comes
    through: a broken release must not look like a value.
    """
    states, actions = q.shape
    for state in range(states):
        for action in range(actions):
            ahead = 0.0
            for next_state in range(states):
                ahead += transitions[state, action, next_state] * after[next_state]
            value = fixed[state, action] + share[state, action] * ahead
            value = 0.0 if value < 0.0 else value
            value = ceiling if value > ceiling else value
            q[state, action] = value


@njit(
    void(
        readable(float64, 5),
        readable(float64, 4),
        readable(float64, 4),
        float64,
        float64,
        float64,
        float64,
        readable(float64, 3),
        writable(float64, 4),
        writable(int32, 3),
        writable(boolean, 1),
    ),
    cache=True,
    nogil=True,
    error_model="numpy",
)
def greedy_backups(
    transitions: _Floats,
    visits: _Floats,
    rewards: _Floats,
    half: float,
    offset: float,
    statistical: float,
    privacy: float,
    ties: _Floats,
    q: _Floats,
    policy: NDArray[np.int32],
    informative: NDArray[np.bool_],
) -> None:
    """Optimistic value iteration: V = max_a Q; among the best actions, `ties` in [0, 1) chooses uniformly."""
    runs, horizon, states, actions = q.shape
    values = np.zeros(states)
    fixed, share = _apart_from_next(visits, rewards, half, offset, statistical, privacy)
    for run in range(runs):
        below = False
        values[:] = 0.0
        for step in range(horizon - 1, -1, -1):
            table = step if transitions.shape[1] > 1 else 0
            ceiling = float(horizon - step)
            _one_step(transitions[run, table], fixed[run, table], share[run, table], values, ceiling, q[run, step])
            for state in range(states):
                best = q[run, step, state, 0]
                for action in range(1, actions):
                    value = q[run, step, state, action]
                    best = value if (value > best) | np.isnan(value) else best
                tied = 0
                for action in range(actions):
                    value = q[run, step, state, action]
                    tied += value == best
                    below |= value < ceiling
                wanted = int(ties[run, step, state] * tied)
                chosen = 0
                for action in range(actions):
                    equal = q[run, step, state, action] == best
                    chosen = action if equal & (wanted == 0) else chosen
                    wanted -= equal
                policy[run, step, state] = chosen
                values[state] = best
        informative[run] = below


@njit(
    void(
        readable(float64, 5),
        readable(float64, 4),
        readable(float64, 4),
        float64,
        float64,
        float64,
        float64,
        readable(float64, 4),
        writable(float64, 4),
        writable(boolean, 1),
    ),
    cache=True,
    nogil=True,
    error_model="numpy",
)
def policy_backups(
    transitions: _Floats,
    visits: _Floats,
    rewards: _Floats,
    half: float,
    offset: float,
    statistical: float,
    privacy: float,
    policy: _Floats,
    q: _Floats,
    informative: NDArray[np.bool_],
) -> None:
    """Optimistic policy evaluation: V = ⟨Q, π⟩."""
    runs, horizon, states, actions = q.shape
    values = np.zeros(states)
    fixed, share = _apart_from_next(visits, rewards, half, offset, statistical, privacy)
    for run in range(runs):
        below = False
        values[:] = 0.0
        for step in range(horizon - 1, -1, -1):
            table = step if transitions.shape[1] > 1 else 0
            ceiling = float(horizon - step)
            _one_step(transitions[run, table], fixed[run, table], share[run, table], values, ceiling, q[run, step])
            for state in range(states):
                value = 0.0
                for action in range(actions):
                    below |= q[run, step, state, action] < ceiling
                    value += q[run, step, state, action] * policy[run, step, state, action]
                values[state] = value
        informative[run] = below


@njit(void(readable(float64, 2), writable(float64, 2)), cache=True, nogil=True, error_model="numpy")
def softmax(logits: _Floats, probabilities: _Floats) -> None:
    """Each row's distribution ∝ exp(logits), whose largest is 0."""
    for row in range(logits.shape[0]):
        total = 0.0
        for action in range(logits.shape[1]):
            probabilities[row, action] = math.exp(logits[row, action])
            total += probabilities[row, action]
        for action in range(logits.shape[1]):
            probabilities[row, action] /= total
