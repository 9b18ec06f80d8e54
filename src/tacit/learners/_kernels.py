"""Compiled optimistic backups. Imported when first needed; signatures are explicit, as in `mdp._planning_kernels`.

What an algorithm divides by D is divided here: the model P̃ = Ñ(s,a,s')/D is never written down, since
r̃ + P̃V + a/√D + b/D = (R̃ + Σ Ñ(s,a,s') V(s') + b)/D + a/√D.
"""

from __future__ import annotations

import math

import numpy as np
from numba import boolean, float64, int32, njit, types, void
from numpy.typing import NDArray

__all__ = ["greedy_backups", "policy_backups", "softmax"]

_Floats = NDArray[np.float64]


def _input(dtype: object, dimensions: int) -> object:
    return types.Array(dtype, dimensions, "C", readonly=True)


def _output(dtype: object, dimensions: int) -> object:
    return types.Array(dtype, dimensions, "C")


@njit(
    void(
        _input(float64, 3),
        _input(float64, 2),
        _input(float64, 2),
        float64,
        float64,
        float64,
        float64,
        _input(float64, 1),
        float64,
        _output(float64, 2),
    ),
    cache=True,
    nogil=True,
    error_model="numpy",
    fastmath={"reassoc", "contract"},  # sums in any order; infinities and NaN stay what they are
)
def _one_step(
    transitions: _Floats,
    visits: _Floats,
    rewards: _Floats,
    half: float,
    offset: float,
    statistical: float,
    privacy: float,
    after: _Floats,
    ceiling: float,
    q: _Floats,
) -> None:
    """Q = clip(r̃ + P̃V + β, 0, ceiling) of one run and step."""
    states, actions = q.shape
    for state in range(states):
        for action in range(actions):
            row = transitions[state, action]
            ahead = 0.0
            for next_state in range(states):
                ahead += row[next_state] * after[next_state]
            seen = visits[state, action]
            divisor = max(1.0, seen + offset)
            value = (rewards[state, action] + half * seen + ahead + privacy) / divisor
            value += statistical / math.sqrt(divisor)
            # Written so that NaN comes through: a broken release must not look like a value.
            if value < 0.0:
                value = 0.0
            elif value > ceiling:
                value = ceiling
            q[state, action] = value


@njit(
    void(
        _input(float64, 5),
        _input(float64, 4),
        _input(float64, 4),
        float64,
        float64,
        float64,
        float64,
        _input(float64, 3),
        _output(float64, 4),
        _output(int32, 3),
        _output(boolean, 1),
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
    for run in range(runs):
        informative[run] = False
        values[:] = 0.0
        for step in range(horizon - 1, -1, -1):
            table = step if transitions.shape[1] > 1 else 0
            ceiling = float(horizon - step)
            _one_step(
                transitions[run, table],
                visits[run, table],
                rewards[run, table],
                half,
                offset,
                statistical,
                privacy,
                values,
                ceiling,
                q[run, step],
            )
            for state in range(states):
                best, tied, first = -np.inf, 0, 0
                for action in range(actions):
                    value = q[run, step, state, action]
                    informative[run] |= value < ceiling
                    if value > best or np.isnan(value):
                        best, tied, first = value, 1, action
                    elif value == best:
                        tied += 1
                chosen = first
                if tied == actions - first:  # as it is where nothing is known: no branch that chance decides
                    chosen = first + int(ties[run, step, state] * tied)
                elif tied > 1:
                    wanted = int(ties[run, step, state] * tied)
                    for action in range(first, actions):
                        if q[run, step, state, action] == best:
                            if wanted == 0:
                                chosen = action
                                break
                            wanted -= 1
                policy[run, step, state] = chosen
                values[state] = best


@njit(
    void(
        _input(float64, 5),
        _input(float64, 4),
        _input(float64, 4),
        float64,
        float64,
        float64,
        float64,
        _input(float64, 4),
        _output(float64, 4),
        _output(boolean, 1),
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
    for run in range(runs):
        informative[run] = False
        values[:] = 0.0
        for step in range(horizon - 1, -1, -1):
            table = step if transitions.shape[1] > 1 else 0
            ceiling = float(horizon - step)
            _one_step(
                transitions[run, table],
                visits[run, table],
                rewards[run, table],
                half,
                offset,
                statistical,
                privacy,
                values,
                ceiling,
                q[run, step],
            )
            for state in range(states):
                value = 0.0
                for action in range(actions):
                    informative[run] |= q[run, step, state, action] < ceiling
                    value += q[run, step, state, action] * policy[run, step, state, action]
                values[state] = value


@njit(void(_input(float64, 2), _output(float64, 2)), cache=True, nogil=True, error_model="numpy")
def softmax(logits: _Floats, probabilities: _Floats) -> None:
    """Each row's distribution ∝ exp(logits), whose largest is 0."""
    for row in range(logits.shape[0]):
        total = 0.0
        for action in range(logits.shape[1]):
            probabilities[row, action] = math.exp(logits[row, action])
            total += probabilities[row, action]
        for action in range(logits.shape[1]):
            probabilities[row, action] /= total
