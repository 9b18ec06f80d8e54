"""What is guaranteed to whom, in words and as JSON: the page for a privacy officer."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from typing import Any

from tacit.privacy.accounting import Loss, compose, epsilon_of_rho
from tacit.privacy.calibration import Calibration
from tacit.privacy.guarantees import Central, Guarantee, Joint, Local, NonPrivate, Shuffle, exactly
from tacit.privacy.mechanisms.responses import SubsetSelection
from tacit.privacy.noise import SecureNoise

__all__ = ["AGREED", "Statement"]

AGREED = f"as agreed with the devices: {SecureNoise.name}"
"""What a server that has seen nothing but reports calls the devices' noise."""

_MODELS: dict[str, type[Guarantee]] = {kind.model: kind for kind in (Central, Joint, Local, Shuffle)}

_WHO = {
    "central": (
        "Each {unit} is protected from everybody who sees what is released. Whoever runs this software sees the data."
    ),
    "joint": (
        "Each {unit} is protected from all other users together, and from everybody who sees what is released to "
        "them. Whoever runs this software sees the data."
    ),
    "local": (
        "Each {unit} is protected from everybody, the server included: what leaves the device is already randomized."
    ),
    "shuffle": "Each {unit} is protected from the server, as long as the shuffler permutes and forgets.",
    "none": "Nobody is protected.",
}


_NEIGHBOURS = {
    "replace-one": "replace-one (that {unit} had been any other)",
    "add-or-remove-one": "add-or-remove-one (that {unit} had been empty)",
}


@dataclass(frozen=True, kw_only=True)
class Statement:
    """A guarantee, the mechanisms that keep it, and what they spend.

    `calibrations` are named by what they noise; their losses add up. Families that were calibrated as one vector are
    one entry.
    """

    guarantee: Guarantee
    calibrations: dict[str, Calibration]
    noise: str
    protects: bool
    rule: str = "exact"
    users: int = 0
    users_declared: int = 0
    releases: int = 0
    notes: tuple[str, ...] = field(default=())
    software: str = field(default_factory=lambda: f"tacit {version('tacit')}, opendp {version('opendp')}")

    @property
    def committed(self) -> Loss:
        """What all releases together cost each unit, by the mechanisms' privacy maps."""
        losses = [calibration.loss for calibration in self.calibrations.values()]
        if not losses:
            return Loss(epsilon=math.inf, rho=math.inf)
        return compose(losses)

    @property
    def spent(self) -> Loss:
        """What has been spent so far: nothing before the first release, all of it afterwards."""
        return self.committed if self.releases else Loss(epsilon=0.0, rho=0.0)

    @property
    def holds(self) -> bool:
        """Whether the guarantee is really kept: by the losses, and by noise that protects."""
        return self.protects and self.guarantee.kind != "none" and self.committed.keeps(self.guarantee)

    def __str__(self) -> str:
        unit = self.guarantee.unit
        lines = [self._headline(), ""]
        neighbours = f"Unit: one {unit}. Neighbours: {_NEIGHBOURS[self.guarantee.neighbours].format(unit=unit)}."
        if self.protects and self.guarantee.kind != "none":
            lines.append(_WHO[self.guarantee.model].format(unit=unit))
            neighbours += self._several()
        lines.append(neighbours)
        lines.extend(f"{_upper(name)}: {_noise_line(calibration)}" for name, calibration in self.calibrations.items())
        lines.append(f"Noise: {self.noise}.")
        lines.append(f"Calibration: {self.rule}. All releases together cost {_loss(self.committed, self.guarantee)}.")
        made = f"{self.releases:,} release{'' if self.releases == 1 else 's'} made"
        spent = _loss(self.spent, self.guarantee)
        who = "users" if unit == "episode" else "episodes"
        lines.append(f"So far: {self.users:,} of {self.users_declared:,} {who} taken in, {made}; spent: {spent}.")
        lines.append(f"Software: {self.software}.")
        lines.extend(self.notes)
        if 0 < self.users_declared * self.guarantee.delta >= 1 and self.protects:
            lines.append(
                f"WARNING: δ is not below 1/{self.users_declared:,}: it would allow to publish somebody outright."
            )
        return "\n".join(lines)

    def _headline(self) -> str:
        if self.guarantee.kind == "none":
            return "No privacy: exact statistics."
        kept = self.committed.keeps(self.guarantee)
        really = f"{self.guarantee} was asked for, and this noise gives {_loss(self.committed, self.guarantee)}"
        if self.protects:
            return f"Guaranteed: {self.guarantee}." if kept else f"NOT KEPT: {really}."
        named = self.noise if "no privacy" in self.noise else f"no privacy: noise is {self.noise}"
        return f"{_upper(named)}. (With secure noise: {self.guarantee if kept else 'NOT KEPT: ' + really}.)"

    def _several(self) -> str:
        """What somebody with m units is left with. Under (ε, δ), m times ε would be wrong: δ grows as well."""
        loss, guarantee = self.committed, self.guarantee
        if guarantee.unit != "episode":  # whoever it is, she is one of them
            return ""
        less = f" Somebody with m {guarantee.unit}s is protected less: "
        if guarantee.rho is not None or (loss.epsilon is None and guarantee.delta == 0):
            return f"{less}m² times ρ = {_up(loss.rho)}."
        if loss.epsilon is not None:
            return f"{less}m times ε = {_up(loss.epsilon)}" + (", with δ = 0." if guarantee.delta else ".")
        two, five = (_up(epsilon_of_rho(m * m * loss.rho, guarantee.delta)) for m in (2, 5))
        at = f"at δ = {exactly(guarantee.delta)}"
        return f"{less}m² times ρ = {_up(loss.rho)}, which {at} is ε = {two} for m = 2, and ε = {five} for m = 5."

    def to_json(self) -> str:
        """Everything, as JSON; `from_json` reads it."""
        guarantee = {"model": self.guarantee.model, **asdict(self.guarantee)}
        data = {
            "guarantee": guarantee,
            "calibrations": {name: calibration.to_json() for name, calibration in self.calibrations.items()},
            "noise": self.noise,
            "protects": self.protects,
            "rule": self.rule,
            "users": self.users,
            "users_declared": self.users_declared,
            "releases": self.releases,
            "notes": list(self.notes),
            "software": self.software,
            "committed": asdict(self.committed),
            "spent": asdict(self.spent),
            "holds": self.holds,
        }
        return json.dumps(_each(data, _told), indent=1, allow_nan=False)

    @classmethod
    def from_json(cls, text: str) -> Statement:
        """The statement that `to_json` wrote.

        What can be derived is derived again, not believed: losses from the noise, and protection from its source. A
        statement is not signed; whoever can write the file can still write another scale or source.
        """
        try:
            data: dict[str, Any] = _each(json.loads(text), _heard)
            for derived in ("committed", "spent", "holds"):
                data.pop(derived, None)
            data["protects"] = data["noise"] in (SecureNoise.name, AGREED)
            data["guarantee"] = guarantee_from_json(data["guarantee"])
            data["calibrations"] = {
                name: Calibration.from_json(calibration) for name, calibration in data["calibrations"].items()
            }
            data["notes"] = tuple(data["notes"])
            return cls(**data)
        except (KeyError, TypeError, AttributeError, json.JSONDecodeError) as error:
            raise ValueError(f"this is no statement of Tacit's: {type(error).__name__} {error}") from None


def guarantee_from_json(data: dict[str, Any]) -> Guarantee:
    """The guarantee that a statement's JSON names."""
    fields = dict(data)
    model = fields.pop("model")
    return NonPrivate() if model == "none" else _MODELS[model](**fields)


def _each(value: Any, change: Callable[[Any], Any]) -> Any:
    """Every leaf of nested dictionaries and lists, changed."""
    if isinstance(value, dict):
        return {key: _each(item, change) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_each(item, change) for item in value]
    return change(value)


def _told(value: Any) -> Any:
    """JSON has no word for infinity; Python's own is refused by other readers."""
    return "∞" if isinstance(value, float) and math.isinf(value) else value


def _heard(value: Any) -> Any:
    return math.inf if value == "∞" else value


def _noise_line(calibration: Calibration) -> str:
    if calibration.mechanism == "none":
        return "exact."
    size = calibration.sensitivity
    if calibration.mechanism == "subset selection":
        selection = SubsetSelection(calibration.scale, int(size.l0))
        return (
            f"subset selection: {selection.width} of {selection.symbols} symbols are reported, the true one among them "
            f"with probability {selection.truth:.6g}."
        )
    law, moved = (
        ("Laplace", f"{size.l1:g} in L1")
        if calibration.mechanism == "laplace"
        else ("Gaussian", f"{size.l2:.6g} in L2")
    )
    often = f", {calibration.participation:.6g} times over" if calibration.participation != 1 else ""
    noise = f"{law} noise of scale {calibration.scale:.6g} on each number"
    return f"{noise}; one unit moves all of them by {moved} at most{often}."


def _upper(text: str) -> str:
    return text[:1].upper() + text[1:]


def _up(value: float) -> str:
    """Four digits, rounded up: what is printed is never less than what is spent, but for 1e-9 of it."""
    if value == 0 or math.isinf(value):
        return f"{value:g}"
    last = max(10.0 ** (math.floor(math.log10(value)) - 3), 5e-324)
    return f"{math.ceil(value / last * (1.0 - 1e-9)) * last:.4g}"


def _loss(loss: Loss, guarantee: Guarantee) -> str:
    if loss.rho == 0:
        return "nothing"
    if math.isinf(loss.rho) and (loss.epsilon is None or math.isinf(loss.epsilon)):
        return "no finite ε"
    pure = None if loss.epsilon is None else f"ε = {_up(loss.epsilon)}"
    if guarantee.rho is not None:
        return f"ρ = {_up(loss.rho)}" + (f" ({pure}, pure)" if pure else "")
    if guarantee.delta > 0:
        epsilon = loss.epsilon_at(guarantee.delta)
        told = f"(ε, δ) = ({_up(epsilon)}, {exactly(guarantee.delta)})"
        return f"{pure} (pure, δ = 0)" if loss.epsilon == epsilon else told
    return pure or "no finite ε"
