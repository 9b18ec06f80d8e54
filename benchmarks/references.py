"""What one would write with NumPy and no more: straightforward, vectorised over episodes, one run at a time."""

import numpy as np


def rollout(kernel, mean, start, policy, episodes, horizon, generator):
    """Episodes of one run: states (n, H+1), actions (n, H), rewards (n, H). Kernel (S, A, S), policy (H, S)."""
    uniforms = generator.random((episodes, horizon + 1))
    cumulative = np.cumsum(kernel, axis=-1)
    states = np.empty((episodes, horizon + 1), dtype=np.int64)
    actions = np.empty((episodes, horizon), dtype=np.int64)
    rewards = np.empty((episodes, horizon))
    states[:, 0] = (uniforms[:, :1] >= np.cumsum(start)).sum(axis=-1)
    for step in range(horizon):
        state = states[:, step]
        action = policy[step, state]
        actions[:, step] = action
        rewards[:, step] = mean[state, action]
        states[:, step + 1] = (uniforms[:, step + 1 : step + 2] >= cumulative[state, action]).sum(axis=-1)
    return states, actions, rewards


def optimal(kernel, rewards):
    """Optimal values (H+1, S) of one run by backward induction. Kernel (H, S, A, S), rewards (H, S, A)."""
    values = np.zeros((len(kernel) + 1, kernel.shape[1]))
    for step in reversed(range(len(kernel))):
        values[step] = (rewards[step] + np.einsum("sat,t->sa", kernel[step], values[step + 1])).max(axis=-1)
    return values


def evaluate(kernel, rewards, policy):
    """Values (H+1, S) of a deterministic policy (H, S) of one run."""
    values = np.zeros((len(kernel) + 1, kernel.shape[1]))
    every = np.arange(kernel.shape[1])
    for step in reversed(range(len(kernel))):
        q = rewards[step] + np.einsum("sat,t->sa", kernel[step], values[step + 1])
        values[step] = q[every, policy[step]]
    return values


def exponentials(generators, buffer, times):
    """Draw buffer.size standard exponentials, so many times; row i of the buffer by generator i."""
    for _ in range(times):
        for generator, row in zip(generators, buffer, strict=True):
            generator.standard_exponential(out=row)


def laplaces(generators, runs, size, scale):
    """The Laplace variables that NumPy has."""
    return np.stack([generator.laplace(scale=scale, size=size) for generator in generators[:runs]])
