"""Tacit: decision policies from people's trajectories, under a differential-privacy guarantee that holds.

Examples
--------
>>> import tacit
>>> world = tacit.mdp.riverswim(states=6, horizon=20)
>>> print(tacit.Joint(epsilon=1))
ε = 1 joint differential privacy (pure)
"""

from __future__ import annotations

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tacit import learners, mdp, privacy, privatizers, releases, statistics, testing
    from tacit.privacy import Central, Joint, Local, NonPrivate, SecureNoise, Shuffle, SimulationNoise, Statement

__version__ = version("tacit")

__all__ = [
    "Central",
    "Joint",
    "Local",
    "NonPrivate",
    "SecureNoise",
    "Shuffle",
    "SimulationNoise",
    "Statement",
    "__version__",
    "learners",
    "mdp",
    "privacy",
    "privatizers",
    "releases",
    "statistics",
    "testing",
]

_ROOMS = frozenset({"learners", "mdp", "privacy", "privatizers", "releases", "statistics", "testing"})


def __getattr__(name: str) -> Any:
    """Rooms and common names are loaded when first used, so that `import tacit` costs nothing."""
    if name in _ROOMS:
        return import_module(f"tacit.{name}")
    if name in __all__:
        return getattr(import_module("tacit.privacy"), name)
    raise AttributeError(f"module 'tacit' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
