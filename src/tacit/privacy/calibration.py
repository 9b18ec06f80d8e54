"""Where a guarantee meets a mechanism: one `Calibration` says how much noise, why, and what it really costs.

Every number in a `Statement` comes from one of these, and `Calibration.recomputed` derives it again.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal, get_args

from tacit.privacy.accounting import Loss, budget_of
from tacit.privacy.counters.protocol import CounterDesign, Mechanism
from tacit.privacy.guarantees import Guarantee, GuaranteeError
from tacit.privacy.mechanisms import gaussian, laplace
from tacit.privacy.mechanisms.responses import SubsetSelection
from tacit.privacy.sensitivity import Sensitivity

__all__ = ["Calibration", "calibrate", "price"]


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """Noise of one mechanism: `scale` in real units, and the `loss` that it causes by its privacy map.

    `participation` multiplies Δ₁ (Laplace) or Δ₂² (Gaussian): how often one unit enters what is noised. For subset
    selection, `scale` is the ε asked for and `sensitivity.l0` the number of symbols.
    """

    mechanism: Mechanism | Literal["none", "subset selection"]
    scale: float
    sensitivity: Sensitivity
    participation: float
    loss: Loss
    rule: str

    def recomputed(self) -> Loss:
        """The loss, from mechanism, scale, sensitivity and participation alone."""
        return price(self.mechanism, self.scale, self.sensitivity, participation=self.participation, rule="").loss

    def to_json(self) -> dict[str, Any]:
        """Plain values; `from_json` reads them."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Calibration:
        """The calibration that `to_json` described; its loss is computed again, not believed."""
        fields = {
            **data,
            "sensitivity": Sensitivity(**data["sensitivity"]),
            "loss": Loss(epsilon=math.inf, rho=math.inf),
        }
        told = cls(**fields)
        return replace(told, loss=told.recomputed())


def calibrate(
    guarantee: Guarantee,
    sensitivity: Sensitivity,
    *,
    counter: CounterDesign,
    mechanism: Mechanism | Literal["auto"] = "auto",
) -> Calibration:
    """The least noise that keeps the guarantee.

    `"auto"` takes whichever of Laplace and Gaussian noise has the smaller standard deviation in the counter's noisiest
    release; pure guarantees allow Laplace only. An (ε, δ) or ρ guarantee may be kept by pure noise, too, and with
    few, long episodes that is often the better choice: L1 grows with H where squared L2 grows with H².
    """
    if mechanism not in ("auto", *get_args(Mechanism)):
        raise GuaranteeError(f'mechanism must be "auto", "laplace" or "gaussian"; got {mechanism!r}')
    if guarantee.kind == "none":
        return Calibration(
            mechanism="none",
            scale=0.0,
            sensitivity=sensitivity,
            participation=0.0,
            loss=Loss(epsilon=math.inf, rho=math.inf),
            rule="no noise",
        )
    options = _options(guarantee, sensitivity, counter)
    if mechanism != "auto":
        if mechanism not in options:
            raise GuaranteeError(_why_not(guarantee, counter, mechanism))
        return options[mechanism]
    if not options:
        raise GuaranteeError(
            _why_not(guarantee, counter, "gaussian" if counter.participation("l1") == math.inf else "laplace")
        )
    return min(
        options.values(),
        key=lambda option: _spread(option) * math.sqrt(counter.variance(counter.worst_time())),
    )


def price(mechanism: str, scale: float, sensitivity: Sensitivity, *, participation: float, rule: str) -> Calibration:
    """What noise of a *given* scale costs: for the papers' published constants."""
    base = Calibration(
        mechanism=mechanism,  # type: ignore[arg-type]
        scale=scale,
        sensitivity=sensitivity,
        participation=participation,
        loss=Loss(epsilon=math.inf, rho=math.inf),
        rule=rule,
    )
    match mechanism:
        case "laplace":
            return replace(base, loss=laplace.loss_of(scale, sensitivity, participation=participation))
        case "gaussian":
            return replace(base, loss=gaussian.loss_of(scale, sensitivity, participation=participation))
        case "subset selection":
            return replace(base, loss=SubsetSelection(scale, int(sensitivity.l0)).loss)
        case "none":
            return base
    raise ValueError(f"no privacy map is known for {mechanism!r} by its scale")


def _options(guarantee: Guarantee, sensitivity: Sensitivity, counter: CounterDesign) -> dict[Mechanism, Calibration]:
    budget = budget_of(guarantee)
    options: dict[Mechanism, Calibration] = {}
    # ε²/2 ≤ ρ: the largest pure ε within a ρ budget. A large δ may allow more than the ε that is promised with it.
    epsilon = max(budget.epsilon or 0.0, math.sqrt(2.0 * budget.rho) * (1.0 - 2.0**-37))
    participation = counter.participation("l1")
    if math.isfinite(participation):
        scale = laplace.scale_for(epsilon, sensitivity, participation=participation)
        options["laplace"] = price("laplace", scale, sensitivity, participation=participation, rule="exact")
    participation = counter.participation("l2")
    if guarantee.kind != "pure" and math.isfinite(participation):
        scale = gaussian.scale_for(budget.rho, sensitivity, participation=participation)
        options["gaussian"] = price("gaussian", scale, sensitivity, participation=participation, rule="exact")
    return options


def _spread(calibration: Calibration) -> float:
    return calibration.scale * (math.sqrt(2.0) if calibration.mechanism == "laplace" else 1.0)


def _why_not(guarantee: Guarantee, counter: CounterDesign, mechanism: str) -> str:
    if mechanism == "gaussian" and guarantee.kind != "pure":
        return f"{counter.name} works with Laplace noise only; take batches or a binary tree for Gaussian noise"
    if mechanism == "gaussian":
        return (
            f"Gaussian noise keeps no pure guarantee, and {guarantee} is pure: allow a delta (say 1e-6), "
            "or take the Laplace mechanism with batches or a tree"
        )
    return f"{counter.name} works with Gaussian noise only; take batches or a tree for Laplace noise"
