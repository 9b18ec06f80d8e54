"""Backups and exact evaluation on given arrays, many runs at once.

The leading axis of every array is runs R; an axis written `R|1` or `H|1` may be 1, which then stands for all
runs or all steps. A kernel is dense, (R|1, H|1, S, A, S), or, for one stationary world, a SciPy CSR array of
shape (S·A, S) whose row s·A + a is the law of the next state. A policy is an integer array (R, H, S) of
actions or a float array (R, H, S, A) of probabilities.

Kernels need not hold probabilities: private estimates do not (000, Algorithm 1), and learners plan on them as
they are. Policies are checked, since an action that does not exist would be read as another one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

if TYPE_CHECKING:
    from scipy.sparse import csr_array

__all__ = [
    "Kernel",
    "Solution",
    "as_policy",
    "evaluate",
    "expected_values",
    "greedy",
    "occupancies",
    "optimal",
]

Kernel: TypeAlias = "NDArray[np.float64] | csr_array"

# Up to this many entries of one step's kernel, a compiled loop beats NumPy, whose overhead is 4 to 10 µs per
# step (RiverSwim, 20 runs, H = 20: 15 µs instead of 170). The choice depends on S and A alone, never on the
# number of runs, so that a small world's values do not depend, in their last bits, on how many runs are
# planned together.
_COMPILED_UP_TO = 4096

_POLICY_TOLERANCE = 1e-6
_NO_CLIP = (-np.inf, np.inf)


class Solution(NamedTuple):
    """The optimal values (R, H+1, S), with values[:, H] = 0, and action values q (R, H, S, A)."""

    values: NDArray[np.float64]
    q: NDArray[np.float64]


def expected_values(kernel: Kernel, values_next: NDArray[np.float64]) -> NDArray[np.float64]:
    """Compute (P V)(s, a) = Σ_s' P(s' | s, a) V(s'), the expected value of the next state.

    Parameters
    ----------
    kernel
        One step's kernel: dense (R|1, S, A, S) or CSR (S·A, S).
    values_next
        Values (R|1, S) of the states that the step leads to.

    Returns
    -------
    (R, S, A)
    """
    states = values_next.shape[-1]
    if not isinstance(kernel, np.ndarray):
        flat = (kernel @ values_next.T).T
        return np.ascontiguousarray(flat).reshape(values_next.shape[0], states, -1)
    actions = kernel.shape[2]
    rows = kernel.reshape(kernel.shape[0], states * actions, states)
    # One kernel for all runs is one matrix product; a kernel per run is a stack of matrix-vector products.
    flat = values_next @ rows[0].T if rows.shape[0] == 1 else np.matmul(rows, values_next[:, :, None])[..., 0]
    backed_up: NDArray[np.float64] = flat.reshape(flat.shape[0], states, actions)
    return backed_up


def optimal(
    kernel: Kernel,
    rewards: NDArray[np.float64],
    *,
    horizon: int,
    clip: tuple[ArrayLike, ArrayLike] | None = None,
) -> Solution:
    """Plan by backward induction: q = r + P V, V = max_a q.

    Parameters
    ----------
    kernel
        Dense (R|1, H|1, S, A, S) or CSR (S·A, S).
    rewards
        Mean rewards (R|1, H|1, S, A).
    horizon
        H, which the arrays do not tell where they hold for all steps.
    clip
        (low, high), numbers or arrays (H,): q is clipped to them step by step, as optimistic and pessimistic
        learners do with [0, H - h + 1] (000, Algorithms 2 and 3; 001, Algorithm 1).

    Examples
    --------
    >>> stay_or_go = np.eye(2)[[[0, 1], [1, 0]]][None, None]
    >>> solution = optimal(stay_or_go, np.array([[0.0, 0.0], [1.0, 0.0]])[None, None], horizon=3)
    >>> solution.values[0]
    array([[2., 3.],
           [1., 2.],
           [0., 1.],
           [0., 0.]])
    """
    runs, states, actions = _sizes(kernel, rewards, horizon)
    values = np.zeros((runs, horizon + 1, states))
    q = np.empty((runs, horizon, states, actions))
    low, high = _NO_CLIP if clip is None else clip
    lows, highs = np.full(horizon, low, dtype=np.float64), np.full(horizon, high, dtype=np.float64)
    if clip is not None and not (lows <= highs).all():
        raise ValueError("clip is (low, high) with low <= high at every step")
    if _is_compiled(kernel):
        from tacit.mdp import _planning_kernels

        _planning_kernels.optimal_backups(_contiguous(kernel), _contiguous(rewards), lows, highs, values, q)
        return Solution(values, q)
    for step in range(horizon - 1, -1, -1):
        ahead = expected_values(_kernel_at(kernel, step), values[:, step + 1])
        np.add(ahead, _at(rewards, step), out=q[:, step])
        if clip is not None:
            np.clip(q[:, step], lows[step], highs[step], out=q[:, step])
        q[:, step].max(axis=-1, out=values[:, step])
    return Solution(values, q)


def evaluate(
    kernel: Kernel, rewards: NDArray[np.float64], policy: ArrayLike, *, horizon: int | None = None
) -> NDArray[np.float64]:
    """Compute the exact values (R, H+1, S) of a policy, (R|1, H, S) or stochastic (R|1, H, S, A).

    Kernel and rewards are those of `optimal`; the horizon is the policy's, which must be `horizon` if that is given.
    """
    states, actions = rewards.shape[-2:]
    table = as_policy(policy, states=states, actions=actions, horizon=horizon)
    horizon = table.shape[1]
    runs, states, actions = _sizes(kernel, rewards, horizon, table.shape[0])
    values = np.zeros((runs, horizon + 1, states))
    deterministic = table.ndim == 3
    if _is_compiled(kernel):
        from tacit.mdp import _planning_kernels as compiled

        backups = compiled.deterministic_backups if deterministic else compiled.stochastic_backups
        backups(_contiguous(kernel), _contiguous(rewards), table, values)
        return values
    for step in range(horizon - 1, -1, -1):
        q = expected_values(_kernel_at(kernel, step), values[:, step + 1]) + _at(rewards, step)
        if deterministic:
            chosen = np.broadcast_to(table[:, step, :, None].astype(np.intp), (*q.shape[:2], 1))
            values[:, step] = np.take_along_axis(q, chosen, axis=-1)[..., 0]
        else:
            values[:, step] = np.einsum("rsa,rsa->rs", q, np.broadcast_to(table[:, step], q.shape))
    return values


def occupancies(kernel: Kernel, start: NDArray[np.float64], policy: ArrayLike) -> NDArray[np.float64]:
    """Compute the probability (R, H, S, A) of being in s at step h and taking a there.

    Parameters
    ----------
    kernel
        That of `optimal`.
    start
        The law of the first state, (S,) or (R|1, S).
    policy
        Deterministic (R|1, H, S) or stochastic (R|1, H, S, A).
    """
    first = np.atleast_2d(np.asarray(start, dtype=np.float64))
    states = first.shape[-1]
    actions = kernel.shape[-2] if isinstance(kernel, np.ndarray) else kernel.shape[0] // states
    probabilities = as_policy(policy, states=states, actions=actions)
    if probabilities.ndim == 3:
        probabilities = (probabilities[..., None] == np.arange(actions)).astype(np.float64)
    horizon = probabilities.shape[1]
    placeholder = np.empty((first.shape[0], 1, states, actions))  # brings the start law's runs and S into the check
    runs, states, actions = _sizes(kernel, placeholder, horizon, probabilities.shape[0])
    result = np.empty((runs, horizon, states, actions))
    here = np.broadcast_to(first, (runs, states))
    for step in range(horizon):
        np.multiply(here[:, :, None], probabilities[:, step], out=result[:, step])
        if step + 1 < horizon:
            here = _pushed_forward(_kernel_at(kernel, step), result[:, step].reshape(runs, states * actions))
    return result


def greedy(
    q: NDArray[np.float64],
    *,
    rng: np.random.Generator | Sequence[np.random.Generator] | None = None,
    tolerance: float = 0.0,
) -> NDArray[np.int32]:
    """Choose actions (…, S) that maximise q (…, S, A); actions within `tolerance` of the best tie.

    Optimistic values clipped at H - h + 1 tie all the time, and always taking the first action would bias a
    learner towards it: pass a generator to break ties uniformly at random. Each entry consumes one uniform,
    tied or not. A sequence of generators is one per run (the leading axis), so that a run's ties do not
    depend on the other runs. Actions of value -inf are never chosen while another is left.
    """
    if not tolerance >= 0:
        raise ValueError(f"the tolerance of ties must be at least 0; got {tolerance}")
    best = q.max(axis=-1, keepdims=True)
    if np.isnan(best).any():
        raise ValueError("q holds NaN: there is no best action")
    tied = q >= best - tolerance
    if rng is None:
        return _first(tied)
    if isinstance(rng, np.random.Generator):
        draws = rng.random(q.shape[:-1])
    else:
        if len(rng) != q.shape[0]:
            raise ValueError(f"one generator per run: q has {q.shape[0]} runs, got {len(rng)} generators")
        draws = np.stack([generator.random(q.shape[1:-1]) for generator in rng])
    rank = np.cumsum(tied, axis=-1)
    # A uniform is at most 1 - 2^-53, so that the product stays below the number of ties even after rounding.
    wanted = np.floor(draws * rank[..., -1])
    return _first(rank > wanted[..., None])


def as_policy(
    policy: ArrayLike, *, states: int, actions: int, horizon: int | None = None
) -> NDArray[np.int32] | NDArray[np.float64]:
    """Check a policy and return it as int32 (R|1, H, S) or float64 (R|1, H, S, A), C-contiguous.

    Raises
    ------
    ValueError
        Wrong shape or dtype, an action that does not exist, or rows that are not distributions.
    """
    given = np.asarray(policy)
    if given.dtype.kind in "iu":
        if given.ndim != 3 or given.shape[2] != states or horizon not in (None, given.shape[1]):
            raise ValueError(
                f"a deterministic policy is (R, H, S) = (R, {horizon or 'H'}, {states}); got {given.shape}"
            )
        if (
            given.size and not given.view(f"u{given.itemsize}").max() < actions
        ):  # no whole number below 0 is small there
            raise ValueError(f"actions are 0..{actions - 1}; the policy has {given.min()}..{given.max()}")
        return np.ascontiguousarray(given, dtype=np.int32)
    if given.dtype.kind != "f":
        raise ValueError(f"a policy holds actions (integers) or probabilities (floats); got dtype {given.dtype}")
    if given.ndim != 4 or given.shape[2:] != (states, actions) or horizon not in (None, given.shape[1]):
        raise ValueError(
            f"a stochastic policy is (R, H, S, A) = (R, {horizon or 'H'}, {states}, {actions}); got {given.shape}"
        )
    # Written so that NaN fails.
    if given.size and not (given.min() >= 0 and np.abs(given.sum(axis=-1) - 1).max() <= _POLICY_TOLERANCE):
        raise ValueError("each row of a stochastic policy must be probabilities that sum to 1")
    return np.ascontiguousarray(given, dtype=np.float64)


def _sizes(kernel: Kernel, rewards: NDArray[np.float64], horizon: int, policy_runs: int = 1) -> tuple[int, int, int]:
    """(R, S, A), once every array is known to fit."""
    if rewards.ndim != 4:
        raise ValueError(f"rewards are (R|1, H|1, S, A); got {rewards.shape}")
    reward_runs, reward_steps, states, actions = rewards.shape
    if isinstance(kernel, np.ndarray):
        if kernel.ndim != 5 or kernel.shape[2:] != (states, actions, states):
            raise ValueError(
                f"a dense kernel is (R|1, H|1, S, A, S), here (R|1, H|1, {states}, {actions}, {states}); "
                f"got {kernel.shape}"
            )
        kernel_runs, kernel_steps = kernel.shape[:2]
    else:
        if getattr(kernel, "format", None) != "csr" or kernel.shape != (states * actions, states):
            raise ValueError(
                f"a sparse kernel is a CSR array (S·A, S) = ({states * actions}, {states}); "
                f"got {type(kernel).__name__} of shape {getattr(kernel, 'shape', None)}"
            )
        kernel_runs = kernel_steps = 1
    if horizon < 1 or kernel_steps not in (1, horizon) or reward_steps not in (1, horizon):
        raise ValueError(
            f"the horizon is {horizon}, but the kernel has {kernel_steps} steps and the rewards have {reward_steps}"
        )
    runs = max(kernel_runs, reward_runs, policy_runs)
    if not {kernel_runs, reward_runs, policy_runs} <= {1, runs}:
        raise ValueError(
            f"runs do not fit: {kernel_runs} in the kernel, {reward_runs} in the rewards or start law, "
            f"{policy_runs} in the policy"
        )
    return runs, states, actions


def _first(mask: NDArray[np.bool_]) -> NDArray[np.int32]:
    return np.asarray(mask.argmax(axis=-1), dtype=np.int32)


def _is_compiled(kernel: Kernel) -> bool:
    return isinstance(kernel, np.ndarray) and kernel[0, 0].size <= _COMPILED_UP_TO


def _contiguous(array: Kernel) -> NDArray[np.float64]:
    return np.ascontiguousarray(array, dtype=np.float64)


def _at(array: NDArray[np.float64], step: int) -> NDArray[np.float64]:
    return array[:, step if array.shape[1] > 1 else 0]


def _kernel_at(kernel: Kernel, step: int) -> Kernel:
    return _at(kernel, step) if isinstance(kernel, np.ndarray) else kernel


def _pushed_forward(kernel: Kernel, occupancy: NDArray[np.float64]) -> NDArray[np.float64]:
    """Where one step leads: (R, S) from one step's kernel and occupancies (R, S·A)."""
    if not isinstance(kernel, np.ndarray):
        return np.ascontiguousarray((kernel.T @ occupancy.T).T)
    rows = kernel.reshape(kernel.shape[0], -1, kernel.shape[-1])
    moved: NDArray[np.float64] = (
        occupancy @ rows[0] if rows.shape[0] == 1 else np.matmul(occupancy[:, None, :], rows)[:, 0]
    )
    return moved
