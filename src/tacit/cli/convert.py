"""`tacit convert`: a policy as a table, a table in another format."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tacit.cli.data import policy_in
from tacit.cli.shared import Json, Mistake, examples, folder, print_json, result_console

__all__ = ["EXAMPLES", "command"]

EXAMPLES = examples(
    ("Made data, as CSV:", "tacit datasets make riverswim -n 1000 --out tacit-out/river.csv"),
    ("As Parquet, which is read faster:", "tacit convert tacit-out/river.csv tacit-out/river.parquet"),
)

_TABLES = (".csv", ".parquet")


def command(
    source: Annotated[Path, typer.Argument(help="A policy (.npz), or a table (.csv, .parquet)")],
    target: Annotated[Path, typer.Argument(help="A table (.csv, .parquet)")],
    as_json: Json = False,
) -> None:
    """Write a policy as a table (step, state, action, probability), or a table in the other format, as it is."""
    if not source.exists():
        raise Mistake(f"there is no file {source}")
    if target.suffix.lower() not in _TABLES or source.suffix.lower() not in (".npz", *_TABLES):
        raise Mistake(f"a policy or table becomes a table, .csv or .parquet; got {source} and {target}")
    folder(target.parent)
    if source.suffix.lower() == ".npz":
        policy_in(source)[0].save(target)
    else:
        _copied(source, target)
    if as_json:
        print_json({"files": [str(target)]})
    else:
        result_console().print("Files", f"  {target}", sep="\n", soft_wrap=True)


def _copied(source: Path, target: Path) -> None:
    import polars

    partial = target.with_name(f"{target.name}.partial")
    try:
        lazy = polars.scan_parquet(source) if source.suffix.lower() == ".parquet" else polars.scan_csv(source)
        if target.suffix.lower() == ".parquet":
            lazy.sink_parquet(partial)
        else:
            lazy.sink_csv(partial)
    except Exception as error:  # polars has a dozen of them
        partial.unlink(missing_ok=True)
        raise Mistake(f"{source} cannot be read as a table: {type(error).__name__}") from None
    partial.replace(target)
