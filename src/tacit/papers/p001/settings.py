"""Constants only: the experiment of 001, Appendix G, and its tabular twin."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Literal

from tacit.offline import APVI, PEVI, VAPVI, LinearPVI
from tacit.privacy.guarantees import Central, Guarantee, NonPrivate

__all__ = ["DEMONSTRATION_RHO", "EPSILONS", "FULL", "PANELS", "QUICK", "RHOS", "WORLDS", "Curve", "Place", "Size"]


@dataclass(frozen=True)
class Size:
    """How much is run: data sets of so many episodes, each of them so many times."""

    episodes: tuple[int, ...]
    runs: int


FULL = Size(
    episodes=(5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000),
    runs=20,
)
"""The paper's K is 5 to 1,000, and its runs are 5."""
QUICK = Size(episodes=(5, 20, 100, 300, 1_000, 3_000, 10_000), runs=5)

HORIZON = 20
"""The paper's."""


@dataclass(frozen=True)
class Place:
    """A world and who logged it: one action is taken with the probability `first`, and the others alike."""

    kind: Literal["linear", "river", "random"]
    name: str
    settings: Mapping[str, Any]
    favourite: int
    first: float = 0.6
    """Appendix G's p."""


WORLDS: Mapping[str, Place] = MappingProxyType(
    {
        # The paper says how α and r are drawn, and not what they were.
        "linear": Place("linear", "Appendix G", {"seed": 0, "horizon": HORIZON}, favourite=0),
        "river": Place("river", "RiverSwim, S = 6, A = 2", {"states": 6, "horizon": HORIZON}, favourite=1),
        "random": Place(
            "random",
            "random, S = 10, A = 4",
            {"states": 10, "actions": 4, "horizon": HORIZON, "successors": 3, "seed": 0},
            favourite=0,
        ),
    }
)

RHOS = (0.2, 1.0, 5.0)
"""The paper does not say which ρ it draws."""
DEMONSTRATION_RHO = 1_000.0
"""A ρ at which the printed noise behaves as in the paper's figure."""
EPSILONS = (0.1, 1.0, 10.0)


@dataclass(frozen=True)
class Curve:
    """A way to train."""

    name: str
    trainer: type[APVI | PEVI | VAPVI | LinearPVI]
    privacy: Guarantee
    settings: Mapping[str, Any] = field(default_factory=dict)
    scaled: bool = False
    """Features divided by √7, so that their norm is 1 at most."""


# 001 leaves all constants open. C of VAPVI's C√d·‖φ‖ and c of PEVI's c·dH·‖φ‖: .316·‖φ‖ and .2·‖φ‖ here; the
# theorem's c is above 1. D = 0, λ = 1, and E/2 = √2·σ√(2d) in units of the noise that is drawn.
VAPVI_OPTIONS = {"bonus": 0.1, "offset": 0.0, "ridge": 1.0}
PEVI_BONUSES = (0.001, 0.01)
_PRINTED = {"calibration": "published", "options": {**VAPVI_OPTIONS, "apart": True}}

_BASELINES = (
    *(Curve(f"PEVI, c = {c:g}", PEVI, NonPrivate(), {"options": {"bonus": c, "ridge": 1.0}}) for c in PEVI_BONUSES),
    Curve("VAPVI", VAPVI, NonPrivate(), {"options": VAPVI_OPTIONS}),
)


def _private(
    name: str,
    trainer: type[VAPVI | LinearPVI],
    settings: Mapping[str, Any],
    *,
    scaled: bool = False,
    rhos: tuple[float, ...] = RHOS,
) -> tuple[Curve, ...]:
    return tuple(Curve(f"{name}, ρ = {rho:,g}", trainer, Central(rho=rho), settings, scaled) for rho in rhos)


_TABULAR = (
    Curve("APVI", APVI, NonPrivate()),
    *(Curve(f"DP-APVI, ε = {epsilon:g}", APVI, Central(epsilon=epsilon)) for epsilon in EPSILONS),
    Curve("APVI, theorem's rule", APVI, NonPrivate(), {"rule": "theorem"}),
    Curve(f"DP-APVI, theorem's rule, ε = {EPSILONS[-1]:g}", APVI, Central(epsilon=EPSILONS[-1]), {"rule": "theorem"}),
)

PANELS: Mapping[str, tuple[str, tuple[Curve, ...]]] = MappingProxyType(
    {
        "DP-VAPVI, noise as printed": (
            "linear",
            (*_BASELINES, *_private("DP-VAPVI", VAPVI, _PRINTED, rhos=(*RHOS, DEMONSTRATION_RHO))),
        ),
        "DP-VAPVI, printed noise, scaled φ": (
            "linear",
            (*_BASELINES, *_private("DP-VAPVI", VAPVI, _PRINTED, scaled=True)),
        ),
        "DP-VAPVI, exact calibration": (
            "linear",
            (*_BASELINES, *_private("DP-VAPVI", VAPVI, {"options": VAPVI_OPTIONS})),
        ),
        "LinearPVI (ours), exact calibration": ("linear", (*_BASELINES, *_private("LinearPVI", LinearPVI, {}))),
        "RiverSwim, practical and theorem's rule": ("river", _TABULAR),
        "Random world, practical and theorem's rule": ("random", _TABULAR),
    }
)
"""Title → the world, and what is trained there. Baselines in several panels are run once."""
