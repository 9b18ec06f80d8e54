"""Exact values by literal loops over the definition: what the library's arrays are checked against."""

from __future__ import annotations

import numpy as np


def kernel_and_mean(world):
    """Dense (H|1, S, A, S) and (H|1, S, A), whatever the world stores."""
    kernel = world.kernel
    if not isinstance(kernel, np.ndarray):
        S, A = world.spec.states, world.spec.actions
        kernel = kernel.toarray().reshape(1, S, A, S)
    return kernel, world.rewards.mean


def optimal_value(world):
    kernel, mean = kernel_and_mean(world)
    S, A, H = world.spec.states, world.spec.actions, world.spec.horizon
    values = [0.0] * S
    for h in reversed(range(H)):
        P, r = kernel[h if len(kernel) > 1 else 0], mean[h if len(mean) > 1 else 0]
        values = [max(r[s, a] + sum(P[s, a, t] * values[t] for t in range(S)) for a in range(A)) for s in range(S)]
    return sum(world.start[s] * values[s] for s in range(S))


def policy_value(world, policy):
    """Policy (H, S) of actions or (H, S, A) of probabilities."""
    kernel, mean = kernel_and_mean(world)
    S, A, H = world.spec.states, world.spec.actions, world.spec.horizon
    values = [0.0] * S
    for h in reversed(range(H)):
        P, r = kernel[h if len(kernel) > 1 else 0], mean[h if len(mean) > 1 else 0]
        q = [[r[s, a] + sum(P[s, a, t] * values[t] for t in range(S)) for a in range(A)] for s in range(S)]
        if policy.ndim == 2:
            values = [q[s][policy[h, s]] for s in range(S)]
        else:
            values = [sum(policy[h, s, a] * q[s][a] for a in range(A)) for s in range(S)]
    return sum(world.start[s] * values[s] for s in range(S))
