"""Grids: lists of settings, from options or a file, and the combinations that mean something."""

from __future__ import annotations

import itertools
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from tacit.cli.settings import Settings
from tacit.cli.shared import Mistake

__all__ = ["grid_of", "read_file", "split", "whole"]

_NAMES = tuple(field.name for field in fields(Settings))


def read_file(path: Path) -> dict[str, list[str]]:
    """What a TOML file lists, as texts: `epsilon = [0.1, 1]`, `world = "riverswim(states=6)"`, `runs = 20`."""
    try:
        with path.open("rb") as file:
            data = tomllib.load(file)
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise Mistake(f"{path} is no TOML: {error}") from None
    found = {}
    for key, value in data.items():
        name = key.replace("-", "_")
        if name not in (*_NAMES, "runs", "seed"):
            raise Mistake(f"{path}: there is no setting {key!r}; there are {', '.join(_NAMES)}, runs and seed")
        values = value if isinstance(value, list) else [value]
        if not values or any(isinstance(each, list | dict) for each in values):
            raise Mistake(f"{path}: {key} is one value or a list of them, as in epsilon = [0.1, 1, 10]")
        found[name] = [str(each) for each in values]
    return found


def whole(texts: Mapping[str, Sequence[str]], name: str, *, default: int, least: int) -> int:
    """A whole number that holds for the whole grid."""
    given = texts.get(name, [str(default)])
    if len(given) != 1 or not given[0].isdecimal() or int(given[0]) < least:
        raise Mistake(f"{name} is one whole number of at least {least} for the whole grid; got {', '.join(given)}")
    return int(given[0])


def grid_of(texts: Mapping[str, Sequence[str]]) -> list[Settings]:
    """Every combination, without what means nothing in it, and each once.

    Budgets are one axis: every ε with every δ, and every ρ.
    """
    axes = {
        name: [Settings.read(name, part) for text in texts[name] for part in split(text)]
        for name in _NAMES
        if name in texts
    }
    for name, values in axes.items():
        if not values:
            raise Mistake(f"--{name.replace('_', '-')} lists nothing")
    given = tuple(axes)
    epsilons, deltas, rhos = (axes.pop(name, []) for name in ("epsilon", "delta", "rho"))
    if deltas and not epsilons:
        raise Mistake("--delta comes with --epsilon")
    budgets: list[dict[str, Any]] = [
        {"epsilon": epsilon, "delta": delta} for epsilon in epsilons for delta in deltas or [None]
    ]
    budgets += [{"rho": rho} for rho in rhos]
    found: dict[Settings, None] = {}
    nowhere: dict[str, str] = {}
    for *values, budget in itertools.product(*axes.values(), budgets or [{}]):
        combination = Settings(**dict(zip(axes, values, strict=True)), **budget)
        nowhere |= combination.misplaced()
        found[combination.reduced()] = None
    for name in given:
        if all(getattr(settings, name) is None for settings in found):
            raise Mistake(f"--{name.replace('_', '-')} is for {nowhere[name]}, and no cell of this grid is that")
    return list(found)


def split(text: str) -> list[str]:
    """At commas, but not within the brackets or quotes of a call."""
    parts, depth, quote = [""], 0, ""
    for letter in text:
        if quote:
            quote = "" if letter == quote else quote
        elif letter in "\"'":
            quote = letter
        else:
            depth += (letter in "([{") - (letter in ")]}")
        if letter == "," and depth == 0 and not quote:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts if part.strip()]
