"""A batch of well-formed trajectories: what worlds make. (What people send is read in `tacit.statistics`.)"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["Trajectories"]


class Trajectories(NamedTuple):
    """States (…, H+1), actions (…, H) and rewards (…, H); the leading axes are runs and episodes.

    `states[..., h + 1]` is where step h led to, so the last column is the state after the last action.
    """

    states: NDArray[np.int32]
    actions: NDArray[np.int32]
    rewards: NDArray[np.float64]

    @property
    def horizon(self) -> int:
        """H."""
        return int(self.actions.shape[-1])

    @property
    def batch(self) -> tuple[int, ...]:
        """The leading axes: (runs, episodes)."""
        return tuple(int(n) for n in self.actions.shape[:-1])
