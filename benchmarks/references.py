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


def optimistic(visits, transitions, rewards, width, generator):
    """UCB-VI's plan from counts (H, S, A) and (H, S, A, S): action values, and the greedy policy with random ties."""
    horizon, states, _ = visits.shape
    divisor = np.maximum(visits, 1.0)
    means, kernel, bonus = rewards / divisor, transitions / divisor[..., None], width / np.sqrt(divisor)
    q, values = np.empty_like(divisor), np.zeros(states)
    for step in reversed(range(horizon)):
        q[step] = np.clip(means[step] + kernel[step] @ values + bonus[step], 0.0, horizon - step)
        values = q[step].max(axis=-1)
    best = q == q.max(axis=-1, keepdims=True)
    return q, (best * generator.random(q.shape)).argmax(axis=-1)


def ucbvi(kernel, mean, start, horizon, episodes, width, generator):
    """The exact value of the policy of each episode, replanned after every one. Kernel (S, A, S), mean (S, A)."""
    states, actions = mean.shape
    visits, rewards = np.zeros((horizon, states, actions)), np.zeros((horizon, states, actions))
    transitions = np.zeros((horizon, states, actions, states))
    every_kernel, every_mean = np.broadcast_to(kernel, transitions.shape), np.broadcast_to(mean, visits.shape)
    cumulative, steps, found = np.cumsum(kernel, axis=-1), np.arange(horizon), np.empty(episodes)
    for episode in range(episodes):
        _, policy = optimistic(visits, transitions, rewards, width, generator)
        found[episode] = start @ evaluate(every_kernel, every_mean, policy)[0]
        path = np.empty(horizon + 1, dtype=np.int64)
        path[0] = generator.choice(states, p=start)
        for step, uniform in enumerate(generator.random(horizon)):
            state = path[step]
            path[step + 1] = np.searchsorted(cumulative[state, policy[step, state]], uniform, side="right")
        here, chosen = path[:-1], policy[steps, path[:-1]]
        visits[steps, here, chosen] += 1.0
        rewards[steps, here, chosen] += mean[here, chosen]
        transitions[steps, here, chosen, path[1:]] += 1.0
    return found


def reconcile(row, seen, precision):
    """Equation (3) of 001 for one cell, by a linear program: minimise t with |x − n'| ≤ t, x ≥ 0, |Σ x − n'| ≤ E/2."""
    from scipy.optimize import linprog

    counts, seen, states = np.maximum(row, 0.0), max(seen, 0.0), len(row)
    each, less, every = np.eye(states), -np.ones((states, 1)), np.ones(states)
    above = np.vstack([np.hstack([each, less]), np.hstack([-each, less]), np.r_[every, 0.0], np.r_[-every, 0.0]])
    bounds = np.r_[counts, -counts, seen + precision / 2, precision / 2 - seen]
    return linprog(np.r_[np.zeros(states), 1.0], A_ub=above, b_ub=bounds, method="highs").x[:-1]
