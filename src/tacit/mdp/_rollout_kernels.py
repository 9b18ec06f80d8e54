"""The compiled walk through a world. Imported by `rollouts` when first needed, like `_planning_kernels`.

A world's laws come as compressed rows, the same for dense and sparse worlds: row (h·S + s)·A + a holds the
states that can follow, in ascending order, and the cumulative probabilities up to each.
"""

from __future__ import annotations

import numpy as np
from numba import boolean, float64, int32, int64, njit, void
from numpy.typing import NDArray

from tacit._signatures import readable, writable

_Floats = NDArray[np.float64]
_Ints = NDArray[np.int32]

# Rows up to this long are searched from the front: guessing branches right is then cheaper than halving.
_SHORT = 12


@njit(int64(readable(float64, 1), int64, int64, float64), cache=True, nogil=True)
def first_above(cumulative: _Floats, begin: int, end: int, uniform: float) -> int:
    """Find the first position in begin..end-1 whose cumulative probability is above the uniform.

    The last one stands for all that rounding may have left out.
    """
    if end - begin <= _SHORT:
        while begin < end - 1 and cumulative[begin] <= uniform:
            begin += 1
        return begin
    last = end - 1
    while begin < last:
        middle = (begin + last) >> 1
        if cumulative[middle] <= uniform:
            begin = middle + 1
        else:
            last = middle
    return begin


@njit(void(readable(int64, 1), readable(float64, 1), writable(float64, 1)), cache=True, nogil=True)
def accumulate_rows(bounds: NDArray[np.int64], probabilities: _Floats, cumulative: _Floats) -> None:
    """Fill in each row's cumulative probabilities."""
    for row in range(bounds.size - 1):
        total = 0.0
        for position in range(bounds[row], bounds[row + 1]):
            total += probabilities[position]
            cumulative[position] = total


@njit(
    void(
        readable(int64, 1),
        readable(int32, 1),
        readable(float64, 1),
        boolean,
        readable(int32, 1),
        readable(float64, 1),
        readable(int32, 3),
        readable(float64, 4),
        boolean,
        readable(float64, 3),
        readable(float64, 3),
        int64,
        writable(int32, 3),
        writable(int32, 3),
    ),
    cache=True,
    nogil=True,
)
def walk(
    bounds: NDArray[np.int64],
    successors: _Ints,
    cumulative: _Floats,
    per_step: bool,
    start_states: _Ints,
    start_cumulative: _Floats,
    actions_table: _Ints,
    probabilities: _Floats,
    stochastic: bool,
    dynamics_uniforms: _Floats,
    policy_uniforms: _Floats,
    first_episode: int,
    states: _Ints,
    actions: _Ints,
) -> None:
    """Fill in episodes first_episode, first_episode + 1, … of states (R, n, H+1) and actions (R, n, H).

    Episode by episode there are H + 1 uniforms for the dynamics, the first for the start, and H for the
    policy, which only a stochastic one uses.
    """
    runs, episodes = dynamics_uniforms.shape[0], dynamics_uniforms.shape[1]
    horizon = actions.shape[2]
    policy_runs = probabilities.shape[0] if stochastic else actions_table.shape[0]
    state_count = probabilities.shape[2] if stochastic else actions_table.shape[2]
    action_count = (bounds.size - 1) // (state_count * (horizon if per_step else 1))
    for run in range(runs):
        policy_run = run if policy_runs > 1 else 0
        for episode in range(episodes):
            into = first_episode + episode
            draw = dynamics_uniforms[run, episode, 0]
            state = start_states[first_above(start_cumulative, 0, start_cumulative.size, draw)]
            states[run, into, 0] = state
            for step in range(horizon):
                if stochastic:
                    chance = policy_uniforms[run, episode, step]
                    action = 0
                    total = 0.0
                    for candidate in range(action_count):
                        share = probabilities[policy_run, step, state, candidate]
                        if share > 0.0:
                            # Should rounding leave the total below the uniform, the last possible action is
                            # it.
                            action = candidate
                            total += share
                            if total > chance:
                                break
                else:
                    action = actions_table[policy_run, step, state]
                row = ((step if per_step else 0) * state_count + state) * action_count + action
                position = first_above(
                    cumulative, bounds[row], bounds[row + 1], dynamics_uniforms[run, episode, step + 1]
                )
                state = successors[position]
                actions[run, into, step] = action
                states[run, into, step + 1] = state
