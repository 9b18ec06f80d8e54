"""What commands share: options, where they write, how they give examples, and how they say that something cannot be.

Commands are imported for every `tacit --help`. So nothing slow is imported here, or at the top of a command's module.
"""

from __future__ import annotations

import json
import math
import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from rich.console import Console

__all__ = [
    "INTERRUPTED",
    "Jobs",
    "Json",
    "Mistake",
    "Out",
    "Runs",
    "Seed",
    "examples",
    "folder",
    "number",
    "plain_warnings",
    "print_json",
    "progress_console",
    "result_console",
    "tell",
]

INTERRUPTED = 130
"""The exit code after Ctrl-C, also where what was done by then has been written."""

Out = Annotated[Path, typer.Option(metavar="DIR", help="Where files are written")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON document, and nothing else, to stdout.")]
Runs = Annotated[int, typer.Option("--runs", "-R", min=1, help="Independent runs")]
Seed = Annotated[int, typer.Option(min=0, help="The same seed gives the same result.")]
Jobs = Annotated[int | None, typer.Option("--jobs", "-j", min=1, help="Processes side by side")]

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


def tell(message: str) -> None:
    """One line on standard error."""
    typer.echo("tacit: " + " ".join(message.split()), err=True)


def folder(path: Path) -> Path:
    """A folder to write to. It is made and looked at before work that may take hours."""
    path.mkdir(parents=True, exist_ok=True)
    if not os.access(path, os.W_OK | os.X_OK):
        raise Mistake(f"nothing can be written to {path}")
    return path


@contextmanager
def plain_warnings() -> Iterator[None]:
    """Warnings for users, such as that nothing was learnt, become one line each, without the place in our code."""
    with warnings.catch_warnings(record=True) as said:
        warnings.filterwarnings("always", category=UserWarning)
        try:
            yield
        finally:
            for message in dict.fromkeys(str(warning.message) for warning in said):
                tell(message)


def print_json(document: dict[str, Any]) -> None:
    """The result of `--json`. JSON has no infinity: it is "∞", as in statements. NaN would be a bug, and raises."""
    typer.echo(json.dumps(_told(document), indent=1, allow_nan=False))


def _told(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _told(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_told(item) for item in value]
    return "∞" if isinstance(value, float) and math.isinf(value) else value


def number(value: float) -> str:
    """As a table shows it."""
    return f"{value:,.0f}" if 1e3 <= abs(value) < 1e9 else f"{value:.4g}"
