"""RiverSwim (Strehl & Littman 2008; Osband et al. 2013): the world of the experiments of 000 and 003."""

from __future__ import annotations

import numpy as np

from tacit.mdp.linear import LawOfMean, deterministic
from tacit.mdp.spec import EpisodeSpec, MomentBound, SpecError
from tacit.mdp.tabular import TabularMDP

__all__ = ["riverswim"]


def riverswim(
    *,
    states: int = 6,
    horizon: int = 20,
    rewards: LawOfMean = deterministic,
    declared: tuple[float, float] | MomentBound = (0.0, 1.0),
) -> TabularMDP:
    """A river against whose current one swims right (action 1) or drifts left (action 0).

    Left always succeeds. Right, at the left bank: stay .4, right .6; in the river: left .05, stay .6, right .35;
    at the right bank: left .4, stay .6. Going left at the left bank pays .005, swimming at the right bank 1.
    Episodes start at the left bank. With 6 states and 20 steps V* = 3.397, and always going left earns .1.

    Parameters
    ----------
    states
        The river's length, at least 2.
    horizon
        H.
    rewards
        From mean rewards (1, S, 2) to their law: no noise by default.
    declared
        What the spec declares of the rewards. An unbounded law needs a `MomentBound`.

    Examples
    --------
    The heavy tails of 003, Appendix F, with α = 1.5 instead of 2 (which is a Gaussian):

    >>> from tacit.mdp import MomentBound, SymmetricStable
    >>> world = riverswim(
    ...     rewards=lambda mean: SymmetricStable(mean=mean, alpha=1.5, scale=1.0),
    ...     declared=MomentBound(order=1.25, bound=6.0, mean=1.0),
    ... )
    >>> round(world.optimal_value, 3)
    3.397
    """
    if states < 2:
        raise SpecError(f"a river has two banks: it needs at least 2 states; got {states}")
    spec = EpisodeSpec(states=states, actions=2, horizon=horizon, rewards=declared, start=0)
    left, right, last = 0, 1, states - 1
    kernel = np.zeros((1, states, 2, states))
    middle = np.arange(1, last)
    kernel[0, np.arange(states), left, np.maximum(np.arange(states) - 1, 0)] = 1.0
    kernel[0, 0, right, [0, 1]] = 0.4, 0.6
    kernel[0, middle, right, middle - 1] = 0.05
    kernel[0, middle, right, middle] = 0.6
    kernel[0, middle, right, middle + 1] = 0.35
    kernel[0, last, right, [last - 1, last]] = 0.4, 0.6
    mean = np.zeros((1, states, 2))
    mean[0, 0, left], mean[0, last, right] = 0.005, 1.0
    start = np.zeros(states)
    start[0] = 1.0
    return TabularMDP(spec=spec, kernel=kernel, rewards=rewards(mean), start=start, name=f"RiverSwim {states}")
