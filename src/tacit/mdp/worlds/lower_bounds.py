"""The hard instances behind the lower bounds of 003 (Section 5, Figures 1 and 2)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from tacit.mdp.outcomes import outcome_world
from tacit.mdp.spec import EpisodeSpec, MomentBound, SpecError
from tacit.mdp.tabular import TabularMDP

__all__ = ["hard_instance_bandits", "hard_instance_tree"]


def hard_instance_bandits(
    *, bandits: int, actions: int, gamma: float, v: float = 1.0, best: int | Sequence[int] = 0
) -> TabularMDP:
    """Bandits side by side with rare, large rewards: hard under joint DP (003, Figure 1 and Theorem 8).

    An episode is one step in one of `bandits` start states, drawn uniformly; it leads to state + (number
    `bandits`), which pays 1/γ, or to state − (the last), which pays nothing. With Δ = γ^v/5, arm 0 has
    P(+) = γ^{1+v}/2 and the other arms 3γ^{1+v}/10; where the best arm is another one, that arm has 7γ^{1+v}/10.
    Means are 5Δ/2, 3Δ/2 and 7Δ/2, the (1+v)-th moments .5, .3 and .7.

    Section 5.1 prints 5/10 for the other arms too, and then arm 0 would not be best; the proof (Appendix E.1)
    has 3/10, which is what is built.

    Parameters
    ----------
    bandits, actions
        The paper's n and m; S = n + 2.
    gamma
        γ in (0, 1); the reward is 1/γ. The proof takes Δ = ((m−1)/(Kε))^{v/(1+v)} for K episodes per bandit.
    v
        Rewards have a finite moment of order 1 + v that is at most 1.
    best
        The best arm I_s of all bandits, or of each.

    Examples
    --------
    >>> world = hard_instance_bandits(bandits=3, actions=4, gamma=0.25, v=1.0, best=(0, 2, 3))
    >>> round(world.optimal_value, 6)  # γ·(.5 + .7 + .7)/3
    0.158333
    """
    if bandits < 1:
        raise SpecError(f"bandits must be at least 1; got {bandits}")
    if actions < 2:
        raise SpecError(f"a bandit needs at least 2 arms; got {actions}")
    _check_tail(gamma, v)
    arms = np.broadcast_to(np.asarray(best, dtype=np.int64), (bandits,)) if np.ndim(best) == 0 else np.asarray(best)
    if arms.shape != (bandits,) or arms.min() < 0 or arms.max() >= actions:
        raise SpecError(f"best must be one arm, or one for each of {bandits} bandits, in 0..{actions - 1}; got {best}")
    spec = EpisodeSpec(
        states=bandits + 2,
        actions=actions,
        horizon=1,
        rewards=MomentBound(order=1.0 + v, bound=1.0, mean=1.0),
        start=(*([1.0 / bandits] * bandits), 0.0, 0.0),
    )
    tenths = np.full((bandits, actions), 3.0)
    tenths[:, 0] = 5.0
    tenths[np.arange(bandits), arms] = np.where(arms == 0, 5.0, 7.0)
    success = np.zeros((bandits + 2, actions))
    success[:bandits] = tenths / 10.0 * gamma ** (1.0 + v)
    return _two_ends(
        spec,
        success=success,
        inner=bandits,
        pays_on_arrival=1.0 / gamma,
        name=f"003 Figure 1, {bandits} bandits of {actions} arms",
    )


def hard_instance_tree(
    *,
    depth: int,
    actions: int,
    gamma: float,
    v: float = 1.0,
    best: tuple[int, int] | None = (0, 0),
    paid: Literal["on arrival", "in state"] = "on arrival",
) -> TabularMDP:
    """A tree in which one action at one leaf is twice as good: hard under local DP (003, Figure 2, Theorem 9).

    A perfect tree with `actions` children per node; action a leads to child a with certainty. The root is state
    0, nodes are numbered level by level, and the leaves lie at depth − 1. At a leaf every action leads to +
    (number S−2) with probability γ^{1+v}/2 and else to − (the last); the best action of the best leaf has
    γ^{1+v}. Episodes have depth + 1 steps. V* = γ^v with a best leaf and γ^v/2 without.

    Parameters
    ----------
    depth
        The paper's d: + and − lie at this depth, and S = (A^d − 1)/(A − 1) + 2. Figure 2 shows depth 3, A = 3.
    actions
        A, at least 2.
    gamma, v
        γ^{1+v} must be at most 3/4; the reward is 1/γ. The proof takes γ^{1+v} = L·A/(32Kε²) for L leaves.
    best
        The best leaf (numbered from 0 among the leaves) and its action; None: the instance P_0 without one.
    paid
        "in state" is the construction as printed: 1/γ is paid at +, in the last step. Then the moment of order
        1 + v is γ^{−(1+v)} > 1 in the cells of +, against what the proof says ("for each state-action pair ...
        bounded by 1"). "on arrival" pays 1/γ for the step from a leaf to +: the same values, and moments of at
        most 1.

    Examples
    --------
    >>> world = hard_instance_tree(depth=3, actions=3, gamma=0.5)
    >>> world.spec.states, world.spec.horizon, world.optimal_value
    (15, 4, 0.5)
    """
    if depth < 1:
        raise SpecError(f"depth must be at least 1; got {depth}")
    if actions < 2:
        raise SpecError(f"a tree needs at least 2 actions; got {actions}")
    _check_tail(gamma, v)
    if gamma ** (1.0 + v) > 0.75:
        raise SpecError(f"gamma ** (1 + v) must be at most 3/4; got {gamma ** (1.0 + v):.6g}")
    if paid not in ("on arrival", "in state"):
        raise SpecError(f'paid must be "on arrival" or "in state"; got {paid!r}')
    leaves = actions ** (depth - 1)
    inner = (actions**depth - 1) // (actions - 1)
    in_state = paid == "in state"
    order = 1.0 + v
    spec = EpisodeSpec(
        states=inner + 2,
        actions=actions,
        horizon=depth + 1,
        rewards=MomentBound(
            order=order, bound=gamma**-order if in_state else 1.0, mean=1.0 / gamma if in_state else 1.0
        ),
        start=0,
    )
    success = np.zeros((inner + 2, actions))
    success[inner - leaves : inner] = 0.5 * gamma**order
    if best is not None:
        leaf, action = best
        if not (0 <= leaf < leaves and 0 <= action < actions):
            raise SpecError(f"best must be a leaf in 0..{leaves - 1} and an action in 0..{actions - 1}; got {best}")
        success[inner - leaves + leaf, action] = gamma**order
    return _two_ends(
        spec,
        success=success,
        inner=inner,
        branching=inner - leaves,
        pays_on_arrival=0.0 if in_state else 1.0 / gamma,
        pays_in_state=1.0 / gamma if in_state else 0.0,
        name=f"003 Figure 2, tree of depth {depth} with {actions} actions",
    )


def _two_ends(
    spec: EpisodeSpec,
    *,
    success: np.ndarray,
    inner: int,
    name: str,
    branching: int = 0,
    pays_on_arrival: float,
    pays_in_state: float = 0.0,
) -> TabularMDP:
    """A world whose first `branching` states form a tree, while the others up to `inner` lead to + or −."""
    A, plus, minus = spec.actions, inner, inner + 1
    state, action = (grid.ravel() for grid in np.indices((spec.states, A)))
    tree, last, end = state < branching, (state >= branching) & (state < inner), state >= inner
    chance = success[state, action]
    parts = (
        (tree, A * state + 1 + action, np.ones_like(chance), 0.0),
        (last, np.full_like(state, plus), chance, pays_on_arrival),
        (last, np.full_like(state, minus), 1.0 - chance, 0.0),
        (end, state, np.ones_like(chance), np.where(state == plus, pays_in_state, 0.0)),
    )
    columns = [
        (state[which], action[which], to[which], p[which], np.broadcast_to(reward, state.shape)[which])
        for which, to, p, reward in parts
    ]
    states, actions, next_states, probabilities, rewards = (
        np.concatenate(column) for column in zip(*columns, strict=True)
    )
    start = spec.start_law
    assert start is not None
    return outcome_world(
        spec=spec,
        start=start,
        state=states,
        action=actions,
        next_state=next_states,
        probability=probabilities,
        reward=rewards,
        name=name,
    )


def _check_tail(gamma: float, v: float) -> None:
    if not 0.0 < gamma < 1.0:
        raise SpecError(f"gamma must lie in (0, 1); got {gamma}")
    if not 0.0 < v <= 1.0:
        raise SpecError(f"v must lie in (0, 1]: the moments are of order 1 + v; got {v}")
