"""Worlds: their declared shape, exact planning, reward laws, rollouts, and Gymnasium in and out.

Names are imported when they are first used: learners need the shape of a world and not Gymnasium.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tacit.mdp import planning as planning
    from tacit.mdp.gymnasium_bridge import GymnasiumSource, from_gymnasium, to_gymnasium
    from tacit.mdp.linear import LawOfMean, LinearMDP, LinearMixtureMDP, deterministic
    from tacit.mdp.outcomes import OutcomeRewards, outcome_world
    from tacit.mdp.planning import Kernel, Solution, evaluate, expected_values, greedy, occupancies, optimal
    from tacit.mdp.rewards import Bernoulli, Deterministic, Gaussian, Pareto, RewardLaw, StudentT, SymmetricStable
    from tacit.mdp.rollouts import RolloutSource, Streams
    from tacit.mdp.sepsis import Sepsis, icu_sepsis
    from tacit.mdp.spec import EpisodeSpec, MomentBound, SpecError
    from tacit.mdp.tabular import TabularMDP
    from tacit.mdp.trajectories import Trajectories
    from tacit.mdp.worlds.chains import chain
    from tacit.mdp.worlds.linear_worlds import (
        linear_random,
        linear_random_behaviour,
        patient_types,
        simulator_mixture,
    )
    from tacit.mdp.worlds.lower_bounds import hard_instance_bandits, hard_instance_tree
    from tacit.mdp.worlds.random_worlds import random_mdp
    from tacit.mdp.worlds.river import riverswim
    from tacit.mdp.worlds.sea import deep_sea

__all__ = [
    "Bernoulli",
    "Deterministic",
    "EpisodeSpec",
    "Gaussian",
    "GymnasiumSource",
    "Kernel",
    "LawOfMean",
    "LinearMDP",
    "LinearMixtureMDP",
    "MomentBound",
    "OutcomeRewards",
    "Pareto",
    "RewardLaw",
    "RolloutSource",
    "Sepsis",
    "Solution",
    "SpecError",
    "Streams",
    "StudentT",
    "SymmetricStable",
    "TabularMDP",
    "Trajectories",
    "chain",
    "deep_sea",
    "deterministic",
    "evaluate",
    "expected_values",
    "from_gymnasium",
    "greedy",
    "hard_instance_bandits",
    "hard_instance_tree",
    "icu_sepsis",
    "linear_random",
    "linear_random_behaviour",
    "occupancies",
    "optimal",
    "outcome_world",
    "patient_types",
    "planning",
    "random_mdp",
    "riverswim",
    "simulator_mixture",
    "to_gymnasium",
]

_MODULES = {
    "gymnasium_bridge": ("GymnasiumSource", "from_gymnasium", "to_gymnasium"),
    "linear": ("LawOfMean", "LinearMDP", "LinearMixtureMDP", "deterministic"),
    "outcomes": ("OutcomeRewards", "outcome_world"),
    "planning": ("Kernel", "Solution", "evaluate", "expected_values", "greedy", "occupancies", "optimal"),
    "rewards": (
        "Bernoulli",
        "Deterministic",
        "Gaussian",
        "Pareto",
        "RewardLaw",
        "StudentT",
        "SymmetricStable",
    ),
    "rollouts": ("RolloutSource", "Streams"),
    "sepsis": ("Sepsis", "icu_sepsis"),
    "spec": ("EpisodeSpec", "MomentBound", "SpecError"),
    "tabular": ("TabularMDP",),
    "trajectories": ("Trajectories",),
    "worlds.chains": ("chain",),
    "worlds.linear_worlds": (
        "linear_random",
        "linear_random_behaviour",
        "patient_types",
        "simulator_mixture",
    ),
    "worlds.lower_bounds": ("hard_instance_bandits", "hard_instance_tree"),
    "worlds.random_worlds": ("random_mdp",),
    "worlds.river": ("riverswim",),
    "worlds.sea": ("deep_sea",),
}
_HOME = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name == "planning":
        return import_module("tacit.mdp.planning")
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    globals()[name] = value  # found directly from now on
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
