"""DeepSea, the exploration problem of bsuite (Osband et al. 2020)."""

from __future__ import annotations

import numpy as np

from tacit.mdp.outcomes import outcome_world
from tacit.mdp.spec import EpisodeSpec, SpecError
from tacit.mdp.tabular import TabularMDP

__all__ = ["deep_sea"]


def deep_sea(
    *, size: int = 10, move_cost: float = 0.01, slip: float = 0.0, mapping_seed: int | None = None
) -> TabularMDP:
    """A diver sinks one row per step through size × size cells and finds treasure only by always going right.

    State row·size + column; she starts at the top left, and the horizon is `size`, so that the dynamics are
    stationary. Right costs move_cost/size and leads one column right (fails with probability `slip`: then she
    sinks straight down); left is free. Right in the last column pays 1 more: the treasure. Of the 2^size action
    sequences one finds it: V* = 1 − move_cost without slip. From the last row one returns to the top, which no
    episode is long enough to see.

    Parameters
    ----------
    size
        Rows, columns and horizon.
    move_cost
        What going right all the way costs.
    slip
        bsuite's stochastic variant has 1/size (its noise on the final reward is left out).
    mapping_seed
        Which action is "right" in a cell is drawn at random from this seed; None: action 1 everywhere.

    Examples
    --------
    >>> round(deep_sea(size=10).optimal_value, 6)
    0.99
    """
    if size < 1:
        raise SpecError(f"size must be at least 1; got {size}")
    if not 0.0 <= slip <= 1.0:
        raise SpecError(f"slip is a probability; got {slip}")
    if not 0.0 <= move_cost < np.inf:
        raise SpecError(f"move_cost must be finite and at least 0; got {move_cost}")
    cells = size * size
    cost = move_cost / size
    spec = EpisodeSpec(states=cells, actions=2, horizon=size, rewards=(-cost, 1.0), start=0)
    cell = np.arange(cells)
    column = cell % size
    right = np.ones(cells, dtype=np.int64)
    if mapping_seed is not None:
        right = np.random.default_rng(mapping_seed).integers(2, size=cells)
    below = np.where(cell < cells - size, cell - column + size, 0)
    stays = below + np.where(cell < cells - size, column, 0)
    moves = below + np.where(cell < cells - size, np.minimum(column + 1, size - 1), 0)
    drifts = below + np.where(cell < cells - size, np.maximum(column - 1, 0), 0)
    pays = np.where(column == size - 1, 1.0, 0.0) - cost
    ones = np.ones(cells)
    columns = (
        (cell, right, moves, ones * (1.0 - slip), pays),
        (cell, right, stays, ones * slip, pays),
        (cell, 1 - right, drifts, ones, ones * 0.0),
    )
    state, action, next_state, probability, reward = (np.concatenate(c) for c in zip(*columns, strict=True))
    return outcome_world(
        spec=spec,
        start=cell == 0,
        state=state,
        action=action,
        next_state=next_state,
        probability=probability,
        reward=reward,
        name=f"DeepSea {size}",
    )
