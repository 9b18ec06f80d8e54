"""How far one unit's data can move a released vector: the only thing that mechanisms know of a statistic."""

from __future__ import annotations

import math
from dataclasses import dataclass

__all__ = ["Sensitivity"]


@dataclass(frozen=True, kw_only=True)
class Sensitivity:
    """Bounds over all neighbours: cells that differ (L0), L1 norm and squared L2 norm of the difference."""

    l0: float
    l1: float
    l2_squared: float

    @property
    def l2(self) -> float:
        """The L2 norm."""
        return math.sqrt(self.l2_squared)

    def scaled(self, factor: float) -> Sensitivity:
        """Of the statistic times `factor`: what H does to a sampled step, or a grid's unit to a count."""
        return Sensitivity(l0=self.l0, l1=factor * self.l1, l2_squared=factor**2 * self.l2_squared)

    def times(self, contributions: int) -> Sensitivity:
        """Of one user with so many episodes, all of which may change: L1 × m, L2² × m²."""
        return Sensitivity(
            l0=contributions * self.l0,
            l1=contributions * self.l1,
            l2_squared=contributions**2 * self.l2_squared,
        )
