"""The Gaussian mechanism: noise ↔ guarantee, by zero-concentrated differential privacy.

Gaussian noise of standard deviation σ has Rényi divergence α‖d‖²/(2σ²) between neighbours that differ by d: ρ-zCDP with
ρ = Δ₂²/(2σ²). The discrete Gaussian on a lattice that contains d satisfies the same (Canonne, Kamath & Steinke 2020,
Thm. 4 and Cor. 16), cell by cell and so for vectors, also with a unit per cell. The analytic
calibration of the *continuous* Gaussian would allow 1/1.084 of this σ at (1, 1e-5); it is not proven for the
discrete one, so σ comes from ρ everywhere, and simulation carries the noise that deployment does.
"""

from __future__ import annotations

import math

from tacit.privacy.accounting import Loss, round_up
from tacit.privacy.sensitivity import Sensitivity

__all__ = ["loss_of", "scale_for"]

_ULPS = 1.0 + 2.0**-50


def scale_for(rho: float, sensitivity: Sensitivity, *, participation: float = 1.0) -> float:
    """The smallest σ that keeps ρ, rounded up; `participation` multiplies Δ₂²."""
    return round_up(math.sqrt(participation * sensitivity.l2_squared / (2.0 * rho)))


def loss_of(scale: float, sensitivity: Sensitivity, *, participation: float = 1.0) -> Loss:
    """What noise of standard deviation σ costs."""
    moved = participation * sensitivity.l2_squared
    if moved == 0 or scale == 0:
        return Loss.concentrated(math.inf if moved else 0.0)
    return Loss.concentrated(moved / (2.0 * scale * scale) * _ULPS)
