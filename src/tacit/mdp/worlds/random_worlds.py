"""Random tabular worlds of given sparsity."""

from __future__ import annotations

import numpy as np

from tacit.mdp.rewards import Bernoulli
from tacit.mdp.spec import EpisodeSpec, SpecError
from tacit.mdp.tabular import TabularMDP

__all__ = ["random_mdp"]


def random_mdp(
    *,
    states: int,
    actions: int,
    horizon: int,
    seed: int | np.random.SeedSequence,
    successors: int | None = None,
    rewarding: float = 1.0,
    stationary: bool = True,
    start: int = 0,
) -> TabularMDP:
    """A world drawn at random: each (s, a) leads to `successors` different states.

    Which states is uniform, their probabilities are uniform on the simplex (Dirichlet(1, …, 1)). Rewards are
    Bernoulli; their means are uniform on [0, 1] and, except for a random share `rewarding` of the pairs (s, a), 0.

    Parameters
    ----------
    states, actions, horizon
        S, A and H.
    seed
        Of everything that is drawn; the same seed gives the same world.
    successors
        Number of possible next states, the same for all (s, a); None: all of them.
    rewarding
        The share of pairs that pay; at least one pays.
    stationary
        One draw for all steps, or one for each.
    start
        The state that episodes start in.
    """
    spec = EpisodeSpec(states=states, actions=actions, horizon=horizon, stationary=stationary, start=start)
    successors = states if successors is None else successors
    if not 1 <= successors <= states:
        raise SpecError(f"successors must lie in 1..{states}; got {successors}")
    if not 0.0 < rewarding <= 1.0:
        raise SpecError(f"rewarding must lie in (0, 1]; got {rewarding}")
    rng = np.random.default_rng(seed)
    steps = 1 if stationary else horizon
    cells = (steps, states, actions)
    # The `successors` smallest of S uniforms are at a uniformly random subset.
    chosen = np.argpartition(rng.random((*cells, states)), successors - 1, axis=-1)[..., :successors]
    kernel = np.zeros((*cells, states))
    np.put_along_axis(kernel, chosen, rng.dirichlet(np.ones(successors), size=cells), axis=-1)
    mean = rng.random(cells)
    paying = max(1, round(rewarding * states * actions))
    order = rng.random((steps, states * actions)).argsort(axis=-1).argsort(axis=-1)
    mean = np.where(order.reshape(cells) < paying, mean, 0.0)
    law = np.zeros(states)
    law[start] = 1.0
    return TabularMDP(
        spec=spec, kernel=kernel, rewards=Bernoulli(mean=mean), start=law, name=f"random {states}×{actions}"
    )
