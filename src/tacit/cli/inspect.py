"""`tacit inspect`: what is in a policy's file, a statement's, a schema's, or a table's."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from tacit.cli.data import policy_in
from tacit.cli.shared import Json, Mistake, examples, print_json, result_console

__all__ = ["EXAMPLES", "command"]

EXAMPLES = examples(
    ("Made data:", "tacit datasets make riverswim -n 1000 --out tacit-out/river.parquet"),
    ("What is in the table?", "tacit inspect tacit-out/river.parquet"),
    ("And in its schema?", "tacit inspect tacit-out/river.schema.json"),
)


def command(
    path: Annotated[
        Path, typer.Argument(help="A policy (.npz), a statement or schema (.json), a table (.parquet, .csv)")
    ],
    as_json: Json = False,
) -> None:
    """Say what is in a file: of a table its columns and number of rows, and nothing that anybody sent."""
    if not path.exists():
        raise Mistake(f"there is no file {path}")
    told = {".npz": _policy, ".json": _words, ".parquet": _table, ".csv": _table}.get(path.suffix.lower())
    if told is None:
        raise Mistake(f"{path} ends in none of .npz, .json, .parquet, .csv")
    found, lines = told(path)
    if as_json:
        print_json(found)
    else:
        result_console().print(*lines, sep="\n", soft_wrap=True)


def _policy(path: Path) -> tuple[dict[str, Any], list[str]]:
    from tacit.offline import Report
    from tacit.privacy import Statement

    policy, notes = policy_in(path)
    H, S, A = policy.probabilities.shape
    certain = float((policy.probabilities.max(axis=-1) == 1.0).mean())
    lines = [f"A policy for H = {H}, S = {S}, A = {A}; one action is certain in {certain:.0%} of (step, state)."]
    found: dict[str, Any] = {"policy": {"horizon": H, "states": S, "actions": A, "certain": certain}}
    if "report" in notes:
        found["report"] = notes["report"]
        lines += ["", str(Report(**notes["report"]))]
    if "statement" in notes:
        statement = Statement.from_json(notes["statement"])
        found["statement"] = json.loads(statement.to_json())
        lines += ["", str(statement)]
    return found, lines


def _words(path: Path) -> tuple[dict[str, Any], list[str]]:
    from tacit.offline import Schema
    from tacit.privacy import Statement

    text = path.read_text(encoding="utf-8")
    try:
        statement = Statement.from_json(text)
    except ValueError:
        schema = Schema.load(path)
        lines = [str(schema.spec), f"The unit of privacy is one {schema.unit}."]
        lines += [f"{role}: {', '.join(names)}" for role, names in schema.roles.items()]
        return {"schema": schema.to_json()}, lines
    return {"statement": json.loads(statement.to_json())}, [str(statement)]


def _table(path: Path) -> tuple[dict[str, Any], list[str]]:
    import polars

    try:
        lazy = polars.scan_parquet(path) if path.suffix.lower() == ".parquet" else polars.scan_csv(path)
        columns = {name: str(kind) for name, kind in lazy.collect_schema().items()}
        rows = int(lazy.select(polars.len()).collect().item())
    except Exception as error:  # polars has a dozen of them
        raise Mistake(f"{path} cannot be read as a table: {type(error).__name__}") from None
    return {"rows": rows, "columns": columns}, [
        f"{rows:,} rows",
        *(f"  {name}: {kind}" for name, kind in columns.items()),
    ]
