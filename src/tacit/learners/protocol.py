"""What every learner is: a state made of releases, and a policy read off it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

__all__ = ["Learner", "LearnerState", "NothingLearnt", "Policy", "Uniforms"]

Policy: TypeAlias = "NDArray[np.int32] | NDArray[np.float64]"
"""Actions (R, H, S) or probabilities (R, H, S, A)."""

Uniforms: TypeAlias = Callable[[tuple[int, ...]], NDArray[np.float64]]
"""Independent U[0, 1) of each run: shape → (R, *shape). What ties are broken with."""


class NothingLearnt(UserWarning):
    """Every value is at its ceiling: the bonuses are too wide for anything to be learnt."""


class LearnerState(Protocol):
    """A named tuple of arrays with a leading axis of runs, and of numbers; nothing else, so that it can be saved."""

    @property
    def policy(self) -> Policy:
        """What the next users follow."""
        ...

    @property
    def informative(self) -> NDArray[np.bool_]:
        """Of each run, whether any value is below its ceiling: where none is, nothing has been learnt."""
        ...

    def _asdict(self) -> dict[str, Any]: ...


State = TypeVar("State", bound=LearnerState)


class Learner(Protocol[State]):
    """Public settings and pure functions; it reads the kind of release that it is made for, and no trajectory."""

    def start(self, release: Any, uniforms: Uniforms) -> State:
        """Before anybody came; the release says zero, without error."""
        ...

    def update(self, state: State, release: Any, uniforms: Uniforms) -> State:
        """After a release: post-processing of it and of earlier ones."""
        ...

    def restored(self, fields: dict[str, Any]) -> State:
        """The state whose `_asdict` was saved."""
        ...
