"""`tacit reproduce`: a paper's experiment, run again."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Annotated, Any

import typer

from tacit.cli.shared import (
    INTERRUPTED,
    Jobs,
    Json,
    Mistake,
    Out,
    Seed,
    examples,
    folder,
    plain_warnings,
    print_json,
    result_console,
)

__all__ = ["EXAMPLES", "command"]

EXAMPLES = examples(
    ("Which papers are there?", "tacit reproduce"),
    ("The figure of 000, in a minute or two instead of many:", "tacit reproduce 000 --quick"),
)


def command(
    paper: Annotated[str | None, typer.Argument(metavar="[NUMBER]", help="Of the paper; none lists them")] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Fewer runs and users: under two minutes on two cores")
    ] = False,
    seed: Seed = 0,
    jobs: Jobs = None,
    out: Out = Path("tacit-out"),
    as_json: Json = False,
) -> None:
    """Run a paper's experiment again: its figures and tables, and what really holds of them.

    Finished simulations stay in the folder, and are never run again. Ctrl-C keeps them (exit code 130).
    """
    papers: Any = import_module("tacit.papers")
    if paper is None:
        if as_json:
            print_json({"papers": dict(papers.PAPERS)})
        else:
            result_console().print(*(f"{number}  {title}" for number, title in papers.PAPERS.items()), sep="\n")
        return
    if paper not in papers.PAPERS:
        raise Mistake(f"there is no paper {paper!r} here; there are {', '.join(papers.PAPERS)}")
    folder(out)
    from tacit.cli.kernels import compiling_is_told

    with plain_warnings(), compiling_is_told():
        found = papers.reproduce(paper, out=out, quick=quick, seed=seed, engine=jobs, progress=None)
    if as_json:
        print_json({**found.data, "unfinished": found.unfinished, "files": [str(file) for file in found.files]})
    elif found.files:
        files = (f"  {file}" for file in found.files)
        result_console().print(*found.lines, "\nFiles", *files, sep="\n", soft_wrap=True)
    if found.unfinished:
        raise typer.Exit(INTERRUPTED)
