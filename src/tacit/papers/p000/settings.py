"""Constants only: the experiment of 000, §6, in three versions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from tacit.mdp import TabularMDP, riverswim
from tacit.online import UCBPO, UCBVI, OptimisticAgent
from tacit.papers.p000.authors import AuthorsUCBPO, AuthorsUCBVI
from tacit.privacy.guarantees import Guarantee, Joint, Local, NonPrivate

__all__ = ["FULL", "LEARNERS", "PRIVACY", "QUICK", "VERSIONS", "Size", "Version", "world"]

Kind = Literal["UCB-VI", "UCB-PO"]


@dataclass(frozen=True)
class Size:
    """How much is run."""

    episodes: int
    runs: int


FULL = Size(episodes=20_000, runs=20)
"""The paper's."""
QUICK = Size(episodes=2_000, runs=8)

LEARNERS: tuple[Kind, ...] = ("UCB-VI", "UCB-PO")

PRIVACY: dict[str, Guarantee] = {
    "no privacy": NonPrivate(),
    "joint, ε = 10": Joint(epsilon=10),
    "joint, ε = 1": Joint(epsilon=1),
    "joint, ε = 0.1": Joint(epsilon=0.1),
    "local, ε = 10": Local(epsilon=10),
    "local, ε = 1": Local(epsilon=1),
    "local, ε = 0.1": Local(epsilon=0.1),
}


def world() -> TabularMDP:
    """RiverSwim with six states and 20 steps."""
    return riverswim(states=6, horizon=20)


@dataclass(frozen=True)
class Version:
    """One column of the figure."""

    name: str
    agents: dict[Kind, type[OptimisticAgent]]
    settings: dict[str, Any]
    learner_settings: dict[Kind, dict[str, Any]]


# The paper tunes η and the scaling of the confidence interval, and does not say to what. Ours were chosen once, without
# privacy for η, and are the same for every ε.
_TUNED_ETA = 30.0

VERSIONS = (
    Version(
        "theorem's constants",
        {"UCB-VI": UCBVI, "UCB-PO": UCBPO},
        {"calibration": "published", "schedule": "every-episode", "bonus_scale": 1.0},
        {"UCB-VI": {}, "UCB-PO": {}},
    ),
    Version(
        "exact calibration",
        {"UCB-VI": UCBVI, "UCB-PO": UCBPO},
        {"calibration": "exact", "schedule": "doubling"},
        {"UCB-VI": {}, "UCB-PO": {"eta_scale": _TUNED_ETA}},
    ),
    Version(
        "authors' public code",
        {"UCB-VI": AuthorsUCBVI, "UCB-PO": AuthorsUCBPO},
        {"schedule": "every-episode"},
        {"UCB-VI": {}, "UCB-PO": {"eta_scale": _TUNED_ETA}},
    ),
)
