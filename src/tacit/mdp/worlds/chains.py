"""The chain of Dearden, Friedman & Russell (1998) and Strens (2000)."""

from __future__ import annotations

import numpy as np

from tacit.mdp.outcomes import outcome_world
from tacit.mdp.spec import EpisodeSpec, SpecError
from tacit.mdp.tabular import TabularMDP

__all__ = ["chain"]


def chain(
    *, states: int = 5, horizon: int = 20, slip: float = 0.2, small: float = 0.2, large: float = 1.0
) -> TabularMDP:
    """A chain on which patience pays: action 1 leads one state on, action 0 back to the first.

    Going back pays `small` at once; going on pays nothing, except at the far end, where it pays `large` and one
    stays there. With probability `slip` the other action's effect takes place, its reward included, so that the
    reward depends on where the step leads. The literature's rewards 2 and 10 are scaled to [0, 1] by default.

    Examples
    --------
    >>> chain(states=5, horizon=20).spec.start
    0
    """
    if states < 2:
        raise SpecError(f"a chain needs at least 2 states; got {states}")
    if not 0.0 <= slip <= 1.0:
        raise SpecError(f"slip is a probability; got {slip}")
    low, high = min(0.0, small, large), max(small, large)
    spec = EpisodeSpec(states=states, actions=2, horizon=horizon, rewards=(low, high), start=0)
    every = np.arange(states)
    leads_to = {0: np.zeros(states, dtype=np.int64), 1: np.minimum(every + 1, states - 1)}
    pays = {0: np.full(states, small), 1: np.where(every == states - 1, large, 0.0)}
    columns = [
        (every, np.full(states, action), leads_to[effect], np.full(states, chance), pays[effect])
        for action in (0, 1)
        for effect, chance in ((action, 1.0 - slip), (1 - action, slip))
    ]
    state, action, next_state, probability, reward = (np.concatenate(c) for c in zip(*columns, strict=True))
    return outcome_world(
        spec=spec,
        start=every == 0,
        state=state,
        action=action,
        next_state=next_state,
        probability=probability,
        reward=reward,
        name=f"chain {states}",
    )
