"""Worlds by name: `riverswim(states=6, horizon=20)`, `gym:FrozenLake-v1(horizon=100)`. Arguments are literals."""

from __future__ import annotations

import ast
import inspect
import pkgutil
import re
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any

from tacit.cli.shared import Mistake

if TYPE_CHECKING:
    from tacit.mdp.tabular import TabularMDP

__all__ = ["offered", "world_of"]

_CALL = re.compile(r"\s*(?P<gym>gym:)?(?P<name>[\w./:-]+)\s*(?P<arguments>\(.*\))?\s*", flags=re.DOTALL)


def world_of(text: str) -> TabularMDP:
    """The world that a call describes. Nothing is evaluated: names are looked up, and arguments are literals."""
    match = _CALL.fullmatch(text)
    if match is None:
        raise Mistake(f"{text!r} is no call of a world; {_known()}")
    name, arguments = match["name"], _arguments(text, match["arguments"] or "()")
    if match["gym"]:
        return _from_gymnasium(name, arguments)
    makers = offered()
    if name not in makers:
        raise Mistake(f"no world is called {name!r}; {_known()}")
    return _made(text, makers[name], arguments)


def offered() -> dict[str, Callable[..., TabularMDP]]:
    """What `tacit.mdp.worlds` makes of plain arguments: functions that return a `TabularMDP`, by name."""
    from tacit.mdp import worlds

    found = {}
    for module in pkgutil.iter_modules(worlds.__path__, f"{worlds.__name__}."):
        there = import_module(module.name)
        for name in there.__all__:
            maker = getattr(there, name)
            if inspect.isfunction(maker) and maker.__annotations__.get("return") == "TabularMDP":
                found[name] = maker
    return dict(sorted(found.items()))


def _known() -> str:
    calls = [f"{name}({', '.join(inspect.signature(maker).parameters)})" for name, maker in offered().items()]
    return f"worlds are {'; '.join(calls)}; and gym:ID(horizon, …), such as gym:FrozenLake-v1(horizon=100)"


def _arguments(text: str, written: str) -> dict[str, Any]:
    try:
        call = ast.parse(f"world{written}", mode="eval").body
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name) or call.args:
            raise ValueError
        return {_name(keyword): ast.literal_eval(keyword.value) for keyword in call.keywords}
    except (SyntaxError, ValueError, TypeError, MemoryError, RecursionError):
        raise Mistake(
            f"the arguments of a world are names and literals, as in riverswim(states=6, horizon=20); got {text!r}"
        ) from None


def _name(keyword: ast.keyword) -> str:
    if keyword.arg is None:
        raise ValueError
    return keyword.arg


def _made(text: str, maker: Callable[..., TabularMDP], arguments: dict[str, Any]) -> TabularMDP:
    try:
        inspect.signature(maker).bind(**arguments)
        return maker(**arguments)
    except (TypeError, ValueError, ArithmeticError, MemoryError) as error:
        takes = ", ".join(inspect.signature(maker).parameters)
        raise Mistake(f"{text} cannot be made: {error}. It takes ({takes})") from None


def _from_gymnasium(name: str, arguments: dict[str, Any]) -> TabularMDP:
    import gymnasium

    from tacit.mdp.gymnasium_bridge import from_gymnasium

    if "horizon" not in arguments:
        raise Mistake(f"say how long an episode is: gym:{name}(horizon=100)")
    horizon = arguments.pop("horizon")
    try:
        return from_gymnasium(gymnasium.make(name, **arguments), horizon=horizon, exact=True)
    except (gymnasium.error.Error, ImportError, TypeError, ValueError, LookupError) as error:
        raise Mistake(f"gym:{name} cannot be made: {error}") from None
