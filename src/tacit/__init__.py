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
    from tacit import learners, mdp, offline, online, privacy, privatizers, releases, simulation, statistics, testing
    from tacit.online import load
    from tacit.privacy import Central, Joint, Local, NonPrivate, SecureNoise, Shuffle, SimulationNoise, Statement
    from tacit.simulation import Result, Sweep, simulate, sweep

__version__ = version("tacit")

__all__ = [
    "Central",
    "Joint",
    "Local",
    "NonPrivate",
    "Result",
    "SecureNoise",
    "Shuffle",
    "SimulationNoise",
    "Statement",
    "Sweep",
    "__version__",
    "learners",
    "load",
    "mdp",
    "offline",
    "online",
    "privacy",
    "privatizers",
    "releases",
    "simulate",
    "simulation",
    "statistics",
    "sweep",
    "testing",
]

_ROOMS = frozenset(
    {
        "learners",
        "mdp",
        "offline",
        "online",
        "privacy",
        "privatizers",
        "releases",
        "simulation",
        "statistics",
        "testing",
    }
)
_FROM = {
    "Result": "tacit.simulation",
    "Sweep": "tacit.simulation",
    "load": "tacit.online",
    "simulate": "tacit.simulation",
    "sweep": "tacit.simulation",
}


def __getattr__(name: str) -> Any:
    """Rooms and common names are loaded when first used, so that `import tacit` costs nothing."""
    if name in _ROOMS:
        return import_module(f"tacit.{name}")
    if name in __all__:
        return getattr(import_module(_FROM.get(name, "tacit.privacy")), name)
    raise AttributeError(f"module 'tacit' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
