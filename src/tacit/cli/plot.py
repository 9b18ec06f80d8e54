"""`tacit plot`: results that were kept, in one figure."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tacit.cli.shared import Json, Mistake, examples, folder, print_json

if TYPE_CHECKING:
    from tacit.simulation import Result

__all__ = ["EXAMPLES", "command"]

EXAMPLES = examples(
    ("Everything that simulate wrote:", "tacit plot tacit-out"),
    ("A sweep, for a paper:", "tacit plot tacit-out/sweep --out privacy.pdf --title RiverSwim"),
)


def command(
    results: Annotated[
        list[Path], typer.Argument(metavar="RESULTS…", help="Parquet files, or folders: all results in them")
    ],
    out: Annotated[Path, typer.Option(help="The figure: .png, .pdf, .svg")] = Path("tacit-out/figure.png"),
    title: Annotated[str | None, typer.Option(help="Of the figure")] = None,
    label: Annotated[
        list[str] | None,
        typer.Option(help="Of a curve; once for each file. By default, what makes the results differ"),
    ] = None,
    as_json: Json = False,
) -> None:
    """One figure of results that simulate or sweep wrote: mean regret, and its standard deviation over runs.

    There is a panel for each agent and world, all on one scale, and a curve for each result.
    """
    from tacit.cli.figures import draw

    files = _files(results)
    if label and len(label) != len(files):
        raise Mistake(f"--label is given once for each result: there are {len(files)}, and {len(label)} labels")
    loaded = [_loaded(file) for file in files]
    folder(out.parent)
    figure = draw(loaded, out, labels=label or None, title=title)
    if as_json:
        print_json({"results": [str(file) for file in files], "files": [str(figure)]})
    else:
        typer.echo(figure)


def _files(given: Sequence[Path]) -> list[Path]:
    found = []
    for path in given:
        inside = sorted(path.glob("*.parquet")) if path.is_dir() else [path]
        whole = [file for file in inside if not path.is_dir() or file.with_suffix(".json").exists()]
        if not whole:
            raise Mistake(f"there are no results in {path}: simulate or sweep write them")
        found += whole
    return found


def _loaded(file: Path) -> Result:
    from polars.exceptions import PolarsError

    from tacit.simulation import Result

    try:
        return Result.load(file)
    except OSError as error:
        if file.exists() and error.filename:  # the JSON file beside it, that is
            raise Mistake(f"{file} holds no results of Tacit's: {error.filename}: {error.strerror}") from None
        raise Mistake(f"{file} cannot be read: {error.strerror or error}") from None
    except (ValueError, LookupError, TypeError, AttributeError, PolarsError) as error:
        raise Mistake(f"{file} holds no results of Tacit's: {type(error).__name__} {error}") from None
