"""What commands share: options, where they write, how they give examples, and how they say that something cannot be.

Commands are imported for every `tacit --help`. So nothing slow is imported here, or at the top of a command's module.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["Json", "Mistake", "examples", "print_json", "progress_console", "result_console"]

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document, and nothing else, to stdout.")]

_WIDE = 160


class Mistake(ValueError):
    """The caller asked for what cannot be. The message says what to do; `app` tells it in one line, exit code 2."""


def examples(*pairs: tuple[str, str]) -> str:
    """A command's epilog, from (what one wants to know, the command that tells it). Tests run them all.

    A line has at most 76 characters: in a terminal of 80 columns nothing is broken.
    """
    return "\n".join(["Examples", *(f"\n{purpose}\n  $ {command}" for purpose, command in pairs)])


def result_console() -> Console:
    """Standard output, for the table that a command is asked for. Not cut to 80 columns where it goes to a file."""
    from rich.console import Console

    console = Console(highlight=False, markup=False)
    return console if console.is_terminal else Console(highlight=False, markup=False, width=_WIDE)


def progress_console() -> Console:
    """Standard error, for progress and remarks."""
    from rich.console import Console

    return Console(highlight=False, markup=False, stderr=True)


def print_json(document: dict[str, Any]) -> None:
    """The result of `--json`. Infinities and NaN are no JSON, and raise."""
    typer.echo(json.dumps(document, indent=1, allow_nan=False))
