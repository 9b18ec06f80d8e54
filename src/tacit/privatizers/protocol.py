"""What every privatizer is: trajectories in, releases out, and a statement of what that guarantees."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

from tacit.privacy.guarantees import Guarantee
from tacit.privacy.statements import Statement
from tacit.releases import Release

__all__ = ["BudgetExhausted", "PrivatizationError", "Privatizer", "check_unit"]


class PrivatizationError(ValueError):
    """A configuration that cannot be: the caller's mistake, whatever the data."""


class BudgetExhausted(RuntimeError):
    """More users came than were declared; the guarantee does not cover them."""


def check_unit(guarantee: Guarantee, *, episodes_per_user: int | None = None) -> None:
    """A statement repeats the unit's name, and what is calibrated for is one episode, or a user's so many."""
    if episodes_per_user is not None:
        if episodes_per_user < 1:
            raise PrivatizationError(f"episodes_per_user must be at least 1; got {episodes_per_user}")
        if guarantee.unit != "user":
            raise PrivatizationError(
                f"with episodes_per_user the guarantee's unit is a user, not one {guarantee.unit!r}"
            )
        return
    if guarantee.unit != "episode":
        raise PrivatizationError(
            f"the unit is one episode, not one {guarantee.unit!r}: whoever has several is protected less, and the "
            "statement says by how much"
        )


class Privatizer(Protocol):
    """Between people and a learner."""

    @property
    def users(self) -> int:
        """Episodes taken in, of each run."""
        ...

    @property
    def statement(self) -> Statement:
        """What is guaranteed, by what, and what has been spent."""
        ...

    def until_release(self) -> int | None:
        """How many more episodes make the next release; None if there is none to come."""
        ...

    def observe(self, episodes: Any) -> None:
        """Take the next episodes in: whatever the statistic reads, trajectories or regressors.

        Never raises on values; raises `BudgetExhausted` on too many.
        """
        ...

    def release(self) -> Release:
        """The latest release; zeros before the first."""
        ...

    def save(self, path: Path | str) -> None:
        """Move everything to a file and close this object: what is released must have one future only."""
        ...
