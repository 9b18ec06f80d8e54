"""Compiled backups for small dense kernels, where NumPy's overhead per call would outweigh the arithmetic.

Imported by `planning` when first needed, so that `import tacit.mdp` does not load Numba. Signatures are
explicit: read-only and writable arrays share one compiled version, and a wrong dtype is an error instead of a
recompilation.
"""

from __future__ import annotations

import numpy as np
from numba import float64, int32, njit, void
from numpy.typing import NDArray

from tacit._signatures import readable, writable

_Floats = NDArray[np.float64]


@njit(
    void(
        readable(float64, 5),
        readable(float64, 4),
        readable(float64, 1),
        readable(float64, 1),
        writable(float64, 3),
        writable(float64, 4),
    ),
    cache=True,
    nogil=True,
)
def optimal_backups(
    kernel: _Floats, rewards: _Floats, lows: _Floats, highs: _Floats, values: _Floats, q: _Floats
) -> None:
    """Fill q, clipped to [lows[h], highs[h]], and values[:, :H] backwards; values[:, H] holds zeros."""
    runs, horizon, states, actions = q.shape
    for run in range(runs):
        kernel_run = run if kernel.shape[0] > 1 else 0
        reward_run = run if rewards.shape[0] > 1 else 0
        for step in range(horizon - 1, -1, -1):
            dynamics = kernel[kernel_run, step if kernel.shape[1] > 1 else 0]
            reward = rewards[reward_run, step if rewards.shape[1] > 1 else 0]
            after = values[run, step + 1]
            for state in range(states):
                best = -np.inf
                for action in range(actions):
                    row = dynamics[state, action]
                    total = 0.0
                    for next_state in range(states):
                        total += row[next_state] * after[next_state]
                    total += reward[state, action]
                    if total < lows[step]:
                        total = lows[step]
                    elif total > highs[step]:
                        total = highs[step]
                    q[run, step, state, action] = total
                    # NaN wins, as it does in NumPy's max: a broken input must not look like a value.
                    if total > best or np.isnan(total):
                        best = total
                values[run, step, state] = best


@njit(
    void(readable(float64, 5), readable(float64, 4), readable(int32, 3), writable(float64, 3)),
    cache=True,
    nogil=True,
)
def deterministic_backups(kernel: _Floats, rewards: _Floats, policy: NDArray[np.int32], values: _Floats) -> None:
    """Fill values[:, :H] backwards under a policy (R|1, H, S) of actions."""
    runs, states = values.shape[0], values.shape[2]
    for run in range(runs):
        kernel_run = run if kernel.shape[0] > 1 else 0
        reward_run = run if rewards.shape[0] > 1 else 0
        policy_run = run if policy.shape[0] > 1 else 0
        for step in range(policy.shape[1] - 1, -1, -1):
            dynamics = kernel[kernel_run, step if kernel.shape[1] > 1 else 0]
            reward = rewards[reward_run, step if rewards.shape[1] > 1 else 0]
            after = values[run, step + 1]
            for state in range(states):
                action = policy[policy_run, step, state]
                row = dynamics[state, action]
                total = 0.0
                for next_state in range(states):
                    total += row[next_state] * after[next_state]
                values[run, step, state] = total + reward[state, action]


@njit(
    void(readable(float64, 5), readable(float64, 4), readable(float64, 4), writable(float64, 3)),
    cache=True,
    nogil=True,
)
def stochastic_backups(kernel: _Floats, rewards: _Floats, policy: _Floats, values: _Floats) -> None:
    """Fill values[:, :H] backwards under a policy (R|1, H, S, A) of probabilities."""
    runs, states, actions = values.shape[0], values.shape[2], policy.shape[3]
    for run in range(runs):
        kernel_run = run if kernel.shape[0] > 1 else 0
        reward_run = run if rewards.shape[0] > 1 else 0
        policy_run = run if policy.shape[0] > 1 else 0
        for step in range(policy.shape[1] - 1, -1, -1):
            dynamics = kernel[kernel_run, step if kernel.shape[1] > 1 else 0]
            reward = rewards[reward_run, step if rewards.shape[1] > 1 else 0]
            after = values[run, step + 1]
            for state in range(states):
                value = 0.0
                for action in range(actions):
                    row = dynamics[state, action]
                    total = 0.0
                    for next_state in range(states):
                        total += row[next_state] * after[next_state]
                    value += policy[policy_run, step, state, action] * (total + reward[state, action])
                values[run, step, state] = value
