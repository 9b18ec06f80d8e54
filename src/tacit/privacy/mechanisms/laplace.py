"""The Laplace mechanism: noise ↔ guarantee.

Adding independent noise of density ∝ exp(−|z|/b) to a vector changes the log-density of any outcome by at most Δ₁/b
between neighbours; so it is ε-DP with ε = Δ₁/b, and no smaller ε holds (take an outcome outside both). The same
sum holds for the discrete law on a lattice that contains all differences, with the same b, and for lattices of
different units in different cells. With a continual counter every unit takes part `participation` times.

Adaptivity: the guarantee holds for a stream whose later items depend on earlier releases
(`docs/proofs/continual-release.md`).
"""

from __future__ import annotations

import math

from tacit.privacy.accounting import Loss, round_up
from tacit.privacy.sensitivity import Sensitivity

__all__ = ["loss_of", "scale_for"]

_ULPS = 1.0 + 2.0**-50


def scale_for(epsilon: float, sensitivity: Sensitivity, *, participation: float = 1.0) -> float:
    """The smallest b that keeps ε, rounded up."""
    return round_up(participation * sensitivity.l1 / epsilon)


def loss_of(scale: float, sensitivity: Sensitivity, *, participation: float = 1.0) -> Loss:
    """What noise of scale b costs."""
    moved = participation * sensitivity.l1
    if moved == 0 or scale == 0:
        return Loss.pure(math.inf if moved else 0.0)
    return Loss.pure(moved / scale * _ULPS)
