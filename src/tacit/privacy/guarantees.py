"""What is promised, as values: whom, against which neighbours, and how much.

A guarantee is pure (ε), approximate (ε, δ) or zero-concentrated (ρ). It promises; what a mechanism really
costs is a `Loss` (`tacit.privacy.accounting`), and the two meet in a `Calibration`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

__all__ = [
    "Central",
    "Guarantee",
    "GuaranteeError",
    "Joint",
    "Local",
    "Neighbours",
    "NonPrivate",
    "Shuffle",
    "exactly",
]

Neighbours = Literal["replace-one", "add-or-remove-one"]


class GuaranteeError(ValueError):
    """A promise that nothing can keep, or that is no promise."""


@dataclass(frozen=True, kw_only=True)
class Guarantee:
    """One promise. Use `Central`, `Joint`, `Local`, `Shuffle` or `NonPrivate`.

    Parameters
    ----------
    epsilon, delta
        ε > 0 (infinity is allowed, and promises nothing), 0 ≤ δ < 1. δ = 0 is pure differential privacy.
    rho
        ρ > 0 for zero-concentrated differential privacy, instead of ε and δ.
    neighbours
        `"replace-one"` (default; what the papers' definitions say): one unit's data are replaced by any other.
        `"add-or-remove-one"`: one unit's data become empty, or the other way round; its index stays.
    unit
        How an episode is called, whose data that is. Privatizers take one episode as one unit, and refuse other names.
    """

    epsilon: float | None = None
    delta: float = 0.0
    rho: float | None = None
    neighbours: Neighbours = "replace-one"
    unit: str = "episode"

    model: ClassVar[str]
    promise: ClassVar[str]

    def __post_init__(self) -> None:
        if self.neighbours not in get_args(Neighbours):
            raise GuaranteeError(f"neighbours must be one of {get_args(Neighbours)}; got {self.neighbours!r}")
        if self.rho is not None:
            if self.epsilon is not None or self.delta != 0.0:
                raise GuaranteeError("give either rho, or epsilon with an optional delta; not both")
            object.__setattr__(self, "rho", _positive("rho", self.rho))
            return
        if self.epsilon is None:
            raise GuaranteeError("a guarantee needs epsilon (with an optional delta) or rho")
        object.__setattr__(self, "epsilon", _positive("epsilon", self.epsilon))
        delta = _number("delta", self.delta)
        if not 0.0 <= delta < 1.0:
            raise GuaranteeError(
                f"delta is the probability with which epsilon may fail: 0 ≤ delta < 1, and well below one over "
                f"the number of users; got {delta}"
            )
        object.__setattr__(self, "delta", delta)

    @property
    def kind(self) -> Literal["pure", "approximate", "zero-concentrated", "none"]:
        """Which of the definitions is meant; "none" for ε = ∞."""
        if self.rho is not None:
            return "none" if math.isinf(self.rho) else "zero-concentrated"
        assert self.epsilon is not None
        if math.isinf(self.epsilon):
            return "none"
        return "approximate" if self.delta > 0 else "pure"

    def __str__(self) -> str:
        if self.kind == "none":
            return "no privacy"
        if self.rho is not None:
            return f"ρ = {exactly(self.rho)} zero-concentrated {self.promise}"
        assert self.epsilon is not None
        if self.delta == 0:
            return f"ε = {exactly(self.epsilon)} {self.promise} (pure)"
        return f"(ε, δ) = ({exactly(self.epsilon)}, {exactly(self.delta)}) {self.promise}"


class Central(Guarantee):
    """What is released is differentially private in the data set of trajectories.

    Examples
    --------
    >>> print(Central(epsilon=1, delta=1e-6))
    (ε, δ) = (1, 1e-06) differential privacy
    """

    model = "central"
    promise = "differential privacy"


class Joint(Guarantee):
    """Joint differential privacy: everything that the *other* users ever see is differentially private in one's data.

    Examples
    --------
    >>> Joint(epsilon=0)
    Traceback (most recent call last):
        ...
    tacit.privacy.guarantees.GuaranteeError: epsilon must be positive: at 0 nothing can be learnt; got 0.0
    """

    model = "joint"
    promise = "joint differential privacy"


class Local(Guarantee):
    """Local differential privacy: a user's own device randomizes; whatever leaves it keeps the promise."""

    model = "local"
    promise = "local differential privacy"


@dataclass(frozen=True, kw_only=True)
class Shuffle(Guarantee):
    """Devices randomize with `local_epsilon`, a shuffler permutes batches, and the server's view keeps (ε, δ)."""

    local_epsilon: float | None = None

    model = "shuffle"
    promise = "shuffle differential privacy"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.rho is not None or self.delta == 0.0:
            raise GuaranteeError(
                "amplification by shuffling is an (epsilon, delta) guarantee: give epsilon and delta > 0"
            )
        if self.local_epsilon is not None:
            object.__setattr__(self, "local_epsilon", _positive("local_epsilon", self.local_epsilon))


class NonPrivate(Guarantee):
    """No promise at all: exact statistics, for comparison."""

    model = "none"
    promise = "no privacy"

    def __init__(self) -> None:
        super().__init__(epsilon=math.inf)


def exactly(value: float) -> str:
    """As short as it can be without being another number."""
    short = f"{value:g}"
    return short if float(short) == value else repr(value)


def _number(name: str, value: object) -> float:
    try:
        return float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        raise GuaranteeError(f"{name} must be a number; got {value!r}") from None


def _positive(name: str, value: object) -> float:
    number = _number(name, value)
    if math.isnan(number) or number <= 0:
        raise GuaranteeError(f"{name} must be positive: at 0 nothing can be learnt; got {number}")
    return number
