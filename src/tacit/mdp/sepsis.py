"""ICU-Sepsis (Choudhary, Gupta & Thomas 2024): treating sepsis in intensive care, from MIMIC-III data."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacit.mdp.outcomes import OutcomeRewards
from tacit.mdp.spec import EpisodeSpec, SpecError
from tacit.mdp.tabular import TabularMDP

if TYPE_CHECKING:
    from tacit.mdp.planning import Kernel

__all__ = ["Sepsis", "icu_sepsis"]

_TERMINAL = (713, 714, 715)
"""Death, survival, and the absorbing state that follows both."""


class Sepsis(NamedTuple):
    """The world, the clinicians' policy (1, H, S, A), and which actions (S, A) the data speak about.

    An action that is not admissible was taken too rarely for an estimate; in the world it has the mean
    transition probabilities of the admissible ones ("mean", the package's default). The package says that the
    policy leaves out such actions, but it has them: 16 % of its probability, averaged over states, and about one
    per episode of 20 steps.
    """

    world: TabularMDP
    behaviour: NDArray[np.float64]
    admissible: NDArray[np.bool_]


def icu_sepsis(*, horizon: int = 20) -> Sepsis:
    """The 716 × 25 MDP of ICU-Sepsis with its clinicians' policy; needs `pip install tacit[sepsis]`.

    States 0…712 are patients' conditions, 713 is death, 714 survival, 715 what follows both; arriving at 714
    pays 1, all else 0. Action 5·i + j is the package's pair (i, j). Numbers are read from the package's files
    without importing it, for its import needs the legacy `gym`. Over its 500 steps V* = .88 and the clinicians
    earn .78, as published; within 20 steps fewer patients have been discharged: V* = .792, clinicians .692.

    The policy of the clinicians is uniform in the terminal states, where the package has none.
    """
    assets = _assets()
    with np.load(assets / "dynamics.npz") as archive:
        transitions, rewards = archive["tx_mat"], archive["r_mat"]
        start, expert = archive["d_0"], archive["expert_policy"]
    S, A = expert.shape
    if transitions.shape != (S, A, S) or rewards.shape != (S, A, S) or start.shape != (S,) or _TERMINAL[-1] != S - 1:
        raise SpecError(f"the files of icu-sepsis have changed: expected 716 states, got {transitions.shape}")
    start = start / start.sum()
    state, action, next_state = np.nonzero((rewards != 0) & (transitions > 0))
    paying = (state, action, next_state)
    law = OutcomeRewards(
        states=S,
        actions=A,
        state=state,
        action=action,
        next_state=next_state,
        probability=transitions[paying],
        reward=rewards[paying],
    )
    world = TabularMDP(
        spec=EpisodeSpec(states=S, actions=A, horizon=horizon, rewards=(0.0, 1.0), start=tuple(start.tolist())),
        kernel=_sparse(transitions),  # 12 % of the entries; one backup takes .6 ms instead of 2.5
        rewards=law,
        start=start,
        name="ICU-Sepsis",
    )
    expert = expert.copy()
    expert[list(_TERMINAL)] = 1.0 / A
    expert /= expert.sum(axis=-1, keepdims=True)
    behaviour = np.ascontiguousarray(np.broadcast_to(expert, (1, horizon, S, A)))
    return Sepsis(world=world, behaviour=behaviour, admissible=_admissible(assets, states=S, actions=A))


def _assets() -> Path:
    """Where the package keeps its files. Finding a package does not import it."""
    package = find_spec("icu_sepsis")
    if package is None or not package.submodule_search_locations:
        raise ImportError("icu_sepsis needs the package icu-sepsis: pip install tacit[sepsis]")
    assets = Path(package.submodule_search_locations[0]) / "envs" / "assets"
    for name in ("dynamics.npz", "admissible_actions.txt"):
        if not (assets / name).is_file():
            raise ImportError(f"the package icu-sepsis has no {assets / name}: pip install tacit[sepsis]")
    return assets


def _admissible(assets: Path, *, states: int, actions: int) -> NDArray[np.bool_]:
    """The mask (S, A): the file's first line counts the actions of every state, then a line lists each one's."""
    counts, *lines = (assets / "admissible_actions.txt").read_text().splitlines()
    listed = [[int(action) for action in line.split()] for line in lines[:states]]
    if [len(row) for row in listed] != [int(count) for count in counts.split()] or len(listed) != states:
        raise SpecError("the file of admissible actions is not what icu-sepsis 2.0 has")
    mask = np.zeros((states, actions), dtype=np.bool_)
    for state, row in enumerate(listed):
        mask[state, row] = True
    return mask


def _sparse(transitions: NDArray[np.float64]) -> Kernel:
    from scipy.sparse import csr_array

    S, A = transitions.shape[:2]
    return csr_array(transitions.reshape(S * A, S))
