"""What the caller declares about a world: public facts, never learnt from data."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

__all__ = ["EpisodeSpec", "MomentBound", "SpecError"]


class SpecError(ValueError):
    """A declaration that no world can meet."""


@dataclass(frozen=True, kw_only=True)
class MomentBound:
    """Rewards without a range: E|r|^order ≤ bound and |E r| ≤ mean (003, Assumption on heavy tails).

    `order` is the paper's 1 + v, so it lies in (1, 2].
    """

    order: float
    bound: float
    mean: float

    def __post_init__(self) -> None:
        if not 1.0 < self.order <= 2.0:
            raise SpecError(f"the moment's order is 1 + v with v in (0, 1], so it lies in (1, 2]; got {self.order}")
        if not (math.isfinite(self.bound) and self.bound > 0):
            raise SpecError(f"the moment's bound must be positive and finite; got {self.bound}")
        if not (math.isfinite(self.mean) and self.mean > 0):
            raise SpecError(f"the bound on |mean reward| must be positive and finite; got {self.mean}")


@dataclass(frozen=True, kw_only=True)
class EpisodeSpec:
    """The public shape of an episode.

    Parameters
    ----------
    states, actions, horizon
        S, A and H. States and actions are numbered from 0.
    rewards
        `(low, high)`, a declared range (private paths clamp to it), or a `MomentBound` for heavy tails.
    stationary
        Whether the dynamics are the same at every step; only then may statistics be pooled over steps.
    start
        The law of the first state: a state's number, S probabilities, or `"unknown"`. An unknown law has to
        be released like everything else, for a share of the budget.

    Examples
    --------
    >>> spec = EpisodeSpec(states=6, actions=2, horizon=20, start=0)
    >>> spec.start_law
    array([1., 0., 0., 0., 0., 0.])
    """

    states: int
    actions: int
    horizon: int
    rewards: tuple[float, float] | MomentBound = (0.0, 1.0)
    stationary: bool = True
    start: int | tuple[float, ...] | Literal["unknown"] = "unknown"

    def __post_init__(self) -> None:
        for name in ("states", "actions", "horizon"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
                raise SpecError(f"{name} must be a whole number of at least 1; got {value!r}")
            object.__setattr__(self, name, int(value))
        if not isinstance(self.stationary, bool | np.bool_):
            raise SpecError(f"stationary must be True or False; got {self.stationary!r}")
        object.__setattr__(self, "stationary", bool(self.stationary))
        if not isinstance(self.rewards, MomentBound):
            try:
                low, high = (float(value) for value in self.rewards)
            except (TypeError, ValueError):
                raise SpecError(f"rewards must be (low, high) or a MomentBound; got {self.rewards!r}") from None
            if not (math.isfinite(low) and math.isfinite(high) and low < high and math.isfinite(high - low)):
                raise SpecError(
                    f"the reward range must be finite, and its width too, with low < high; got ({low}, {high}). "
                    "Rewards without a range need a MomentBound."
                )
            object.__setattr__(self, "rewards", (low, high))
        self._check_start()

    def _check_start(self) -> None:
        wrong = SpecError(f'start must be a state, {self.states} probabilities or "unknown"; got {self.start!r}')
        if isinstance(self.start, str | bool):
            if self.start != "unknown":
                raise wrong
            return
        if isinstance(self.start, int | np.integer):
            if not 0 <= self.start < self.states:
                raise SpecError(f"the start state must be in 0..{self.states - 1}; got {self.start}")
            object.__setattr__(self, "start", int(self.start))
            return
        try:
            law = tuple(float(probability) for probability in self.start)
        except (TypeError, ValueError):
            raise wrong from None
        if len(law) != self.states or min(law) < 0 or not math.isclose(sum(law), 1.0, abs_tol=1e-9):
            raise SpecError(f"the start law must be {self.states} probabilities that sum to 1; got {law}")
        object.__setattr__(self, "start", law)

    @property
    def reward_range(self) -> tuple[float, float]:
        """(low, high); an error for heavy tails, which have none."""
        if isinstance(self.rewards, MomentBound):
            raise SpecError("this spec declares a moment bound, not a reward range")
        return self.rewards

    @property
    def start_law(self) -> NDArray[np.float64] | None:
        """The declared law of the first state as S probabilities; None where it is unknown."""
        if isinstance(self.start, str):
            return None
        if isinstance(self.start, int):
            law = np.zeros(self.states)
            law[self.start] = 1.0
            return law
        return np.asarray(self.start, dtype=np.float64)

    def to_json(self) -> dict[str, Any]:
        """Plain values; `from_json` reads them."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> EpisodeSpec:
        """The spec that `to_json` described."""
        fields = dict(data)
        rewards, start = fields["rewards"], fields["start"]
        fields["rewards"] = MomentBound(**rewards) if isinstance(rewards, dict) else tuple(rewards)
        fields["start"] = tuple(start) if isinstance(start, list) else start
        return cls(**fields)
