"""`tacit check`: what would become of a table's rows; for its owner only."""

from __future__ import annotations

from collections import Counter
from typing import Annotated

import typer

from tacit.cli.data import Data, Horizon, SchemaFile, opened
from tacit.cli.shared import Json, examples, print_json, result_console, tell

__all__ = ["EXAMPLES", "command"]

EXAMPLES = examples(
    ("Made data, which are in order:", "tacit datasets make riverswim -n 100 --out tacit-out/river.csv"),
    ("Is everything read as it is meant?", "tacit check tacit-out/river.csv --schema tacit-out/river.schema.json"),
)


def command(
    data: Data,
    schema: SchemaFile = None,
    horizon: Horizon = None,
    limit: Annotated[int, typer.Option(min=1, help="How many problems are shown")] = 20,
    as_json: Json = False,
) -> None:
    """Name every row that training would clamp, cut, complete or drop.

    Outside of any guarantee: it quotes what people sent. For the owner of the data, and nobody else. Exit code 1 if
    there is anything to name.
    """
    tell("outside of any guarantee: what follows quotes people's data")
    source = opened(data, schema, horizon)
    found = source.check()
    kinds = dict(Counter(problem.kind for problem in found))
    if as_json:
        shown = [{**problem._asdict(), "episode": str(problem.episode)} for problem in found[:limit]]
        print_json({"episodes": source.episodes, "problems": len(found), "kinds": kinds, "first": shown})
    else:
        console = result_console()
        told = ", ".join(f"{count:,} {kind}" for kind, count in kinds.items()) or "everything is read as it is"
        console.print(f"{source.episodes:,} episodes: {told}.", *map(str, found[:limit]), sep="\n", soft_wrap=True)
        if len(found) > limit:
            console.print(f"… and {len(found) - limit:,} more (--limit)")
    if found:
        raise typer.Exit(1)
