"""The settings of a simulation, as the options of `simulate`, `sweep` and a grid's file name them."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from types import NoneType
from typing import TYPE_CHECKING, Any, Literal, get_args, get_origin, get_type_hints

import typer

from tacit.cli.shared import Mistake

if TYPE_CHECKING:
    from tacit.mdp.tabular import TabularMDP
    from tacit.online import OptimisticAgent
    from tacit.privacy import Guarantee

__all__ = ["AgentName", "Calibration", "Counter", "Privacy", "Randomizer", "Schedule", "Settings", "option", "short"]

AgentName = Literal["ucbvi", "ucbpo"]
Privacy = Literal["none", "joint", "local"]
Schedule = Literal["doubling", "every-episode"]
Counter = Literal["tree", "k-ary", "toeplitz", "blt"]
Calibration = Literal["exact", "published"]
Randomizer = Literal["one-step", "additive"]

_WHAT, _ASKED, _HOW, _BONUS = "What is simulated", "The guarantee", "How it is kept", "The learner"

_OPTIONS: dict[str, tuple[str, str, str]] = {
    "agent": ("-a", _WHAT, "Value iteration or policy optimisation"),
    "world": ("-w", _WHAT, 'A call such as "riverswim(states=6, horizon=20)" or "gym:FrozenLake-v1(horizon=100)"'),
    "episodes": ("-K", _WHAT, "K, users"),
    "privacy": ("-p", _ASKED, "Who is trusted: the server (joint), nobody (local), everybody (none)"),
    "epsilon": ("", _ASKED, "ε"),
    "delta": ("", _ASKED, "δ; 0 is pure privacy"),
    "rho": ("", _ASKED, "ρ, in place of ε and δ"),
    "schedule": ("", _HOW, "When the policy changes (default: doubling)"),
    "counter": ("", _HOW, "Joint, every episode: how counts are released (default: the quietest)"),
    "calibration": ("", _HOW, "The least noise, or 000's constants (default: exact)"),
    "pooled": ("", _HOW, "Count over all steps, or each apart (default: pooled where the world allows it)"),
    "randomizer": ("", _HOW, "Local: tell one step, or noise on every count (default: one-step)"),
    "confidence": ("", _BONUS, "β, the probability that a bound fails (default: 0.1)"),
    "bonus_scale": ("", _BONUS, "A factor on the bonus; 1 is the theorem's"),
    "statistical_scale": ("", _BONUS, "A factor on its part for sampling error"),
    "privacy_scale": ("", _BONUS, "A factor on its part for noise"),
    "eta_scale": ("", _BONUS, "UCB-PO: a factor on the learning rate (default: 1)"),
}

_ONLY: dict[str, dict[str, tuple[str, ...]]] = {
    "epsilon": {"privacy": ("joint", "local")},
    "delta": {"privacy": ("joint", "local")},
    "rho": {"privacy": ("joint", "local")},
    "counter": {"privacy": ("joint",), "schedule": ("every-episode",)},
    "randomizer": {"privacy": ("local",)},
    "eta_scale": {"agent": ("ucbpo",)},
}
"""Settings that mean something only where another one has one of these values."""


def option(name: str, *, listed: bool = False) -> Any:
    """The option for a setting; `listed` if it takes several values."""
    letter, panel, said = _OPTIONS[name]
    flags = [f"--{name.replace('_', '-')}", *([letter] if letter else [])]
    if name == "pooled" and not listed:
        flags = ["--pooled/--per-step"]
    return typer.Option(*flags, help=said, rich_help_panel=panel, metavar=_metavar(name) if listed else None)


def _metavar(name: str) -> str:
    choices = _choices(name)
    return f"[{'|'.join(choices)}],…" if choices else f"{'CALL' if name == 'world' else 'NUMBER'},…"


@dataclass(frozen=True, kw_only=True)
class Settings:
    """One simulation, but for runs and seed; None leaves a setting to the agent."""

    agent: AgentName = "ucbvi"
    world: str = "riverswim"
    episodes: int = 20_000
    privacy: Privacy = "joint"
    epsilon: float | None = None
    delta: float | None = None
    rho: float | None = None
    schedule: Schedule | None = None
    counter: Counter | None = None
    calibration: Calibration | None = None
    pooled: bool | None = None
    randomizer: Randomizer | None = None
    confidence: float | None = None
    bonus_scale: float | None = None
    statistical_scale: float | None = None
    privacy_scale: float | None = None
    eta_scale: float | None = None

    @property
    def given(self) -> dict[str, Any]:
        """All that is not left to the agent."""
        return {field.name: value for field in fields(self) if (value := getattr(self, field.name)) is not None}

    def misplaced(self) -> dict[str, str]:
        """Settings that mean nothing here, and where they would."""
        found = {}
        for name, conditions in _ONLY.items():
            for other, values in conditions.items():
                if getattr(self, name) is not None and getattr(self, other) not in values:
                    found[name] = f"--{other} {' or '.join(values)}"
        return found

    def reduced(self) -> Settings:
        """Without what means nothing here: what a grid makes of a combination."""
        nothing: dict[str, Any] = dict.fromkeys(self.misplaced())
        return replace(self, **nothing)

    def check(self) -> None:
        """One simulation is taken at its word: a setting that means nothing is a mistake."""
        for name, where in self.misplaced().items():
            raise Mistake(f"--{name.replace('_', '-')} is for {where}: leave it out, or say so")

    def guarantee(self) -> Guarantee:
        """What the agent promises."""
        from tacit.privacy import Joint, Local, NonPrivate

        if self.privacy == "none":
            return NonPrivate()
        if self.epsilon is None and self.rho is None:
            raise Mistake("say how private it is: --epsilon (and --delta) or --rho; or --privacy none")
        kind = Joint if self.privacy == "joint" else Local
        return kind(epsilon=self.epsilon, delta=self.delta or 0.0, rho=self.rho)

    def agent_in(self, world: TabularMDP) -> OptimisticAgent:
        """The agent."""
        from tacit import online

        apart = ("agent", "world", "episodes", "privacy", "epsilon", "delta", "rho")
        chosen = {name: value for name, value in self.given.items() if name not in apart}
        kind = online.UCBVI if self.agent == "ucbvi" else online.UCBPO
        return kind(world.spec, episodes=self.episodes, privacy=self.guarantee(), **chosen)

    @classmethod
    def read(cls, name: str, text: str) -> Any:
        """The value of a setting, from text."""
        choices, kind = _choices(name), _kind(name)
        try:
            if choices and text not in choices:
                raise ValueError
            if kind is bool:
                return {"true": True, "false": False}[text.lower()]
            return kind(text)
        except (ValueError, KeyError):
            wanted = " or ".join(choices) or {int: "whole numbers", float: "numbers", bool: "true or false"}[kind]
            raise Mistake(f"{name.replace('_', '-')} takes {wanted}; got {text!r}") from None


def _hints(name: str) -> list[Any]:
    hint = get_type_hints(Settings)[name]
    if get_origin(hint) is Literal or isinstance(hint, type):
        return [hint]
    return [kind for kind in get_args(hint) if kind is not NoneType]


def _choices(name: str) -> tuple[str, ...]:
    (hint,) = _hints(name)
    return get_args(hint)


def _kind(name: str) -> Any:
    (hint,) = _hints(name)
    return str if get_args(hint) else hint


def short(guarantee: Guarantee) -> str:
    """A guarantee as a curve is called."""
    if guarantee.kind == "none":
        return "no privacy"
    if guarantee.rho is not None:
        return f"{guarantee.model} ρ = {guarantee.rho:g}"
    delta = f", δ = {guarantee.delta:g}" if guarantee.delta else ""
    return f"{guarantee.model} ε = {guarantee.epsilon:g}{delta}"
