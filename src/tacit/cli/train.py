"""`tacit train`: logged trajectories in, a private policy and its statement out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Literal

import typer

from tacit.cli.data import Data, Delta, Epsilon, Horizon, Rho, SchemaFile, central, opened
from tacit.cli.shared import Json, Mistake, examples, folder, plain_warnings, print_json, result_console

__all__ = ["EXAMPLES", "command"]

EXAMPLES = examples(
    ("Made data to try it with:", "tacit datasets make riverswim -n 5000 --out tacit-out/river.parquet"),
    ("A policy under ε = 1:", "tacit train tacit-out/river.parquet --epsilon 1 --out tacit-out/river.npz"),
    (
        "Approximate privacy, and a file to go on from after Ctrl-C:",
        "tacit train tacit-out/river.parquet --epsilon 1 --delta 1e-6 \\\n"
        "      --checkpoint tacit-out/river.state --out tacit-out/approximate.npz",
    ),
    ("What is in it?", "tacit inspect tacit-out/river.npz"),
)


def command(
    data: Data,
    schema: SchemaFile = None,
    privacy: Annotated[
        Literal["central", "none"], typer.Option("--privacy", "-p", help="none: exact counts, to compare with")
    ] = "central",
    epsilon: Epsilon = None,
    delta: Delta = None,
    rho: Rho = None,
    horizon: Horizon = None,
    pooled: Annotated[
        bool | None,
        typer.Option("--pooled/--per-step", help="Count over all steps (default: where the schema says stationary)"),
    ] = None,
    rule: Annotated[
        Literal["practical", "theorem"], typer.Option(help="What works, or 001's Algorithm 1 with its constants")
    ] = "practical",
    pessimism_scale: Annotated[float, typer.Option(min=0.0, help="A factor on the penalties")] = 1.0,
    checkpoint: Annotated[
        Path | None, typer.Option(help="A file to go on from after Ctrl-C; as secret as the data")
    ] = None,
    out: Annotated[Path, typer.Option(metavar="FILE", help="The policy, .npz")] = Path("tacit-out/policy.npz"),
    as_json: Json = False,
) -> None:
    """Train a policy on logged trajectories, under a guarantee.

    Noise is secure and cannot be seeded: training again spends the guarantee again, and gives another policy. What a
    person's rows hold never makes it fail; look at them before with `tacit check`.
    """
    if out.suffix != ".npz":
        raise Mistake(f"--out is the policy's file, .npz; got {out} (tacit convert makes tables of it)")
    guarantee = central(epsilon, delta, rho, private=privacy == "central")
    folder(out.parent)
    with plain_warnings():
        from tacit.cli.kernels import compiling_is_told

        with compiling_is_told():
            from tacit.offline import APVI
            from tacit.simulation.progress import progress_of

            source = opened(data, schema, horizon)
            trainer = APVI(source.spec, privacy=guarantee, pooled=pooled, rule=rule, pessimism_scale=pessimism_scale)
            with progress_of(None, f"reading {source.episodes:,} episodes") as bar:
                fit = trainer.fit(
                    source, progress=lambda done, total: bar.update(done / max(total, 1)), checkpoint=checkpoint
                )
    notes = fit.to_json()
    path = fit.policy.save(out, **notes, rule=rule, pessimism_scale=pessimism_scale)
    statement = out.with_suffix(".statement.json")
    statement.write_text(notes["statement"] + "\n", encoding="utf-8")
    if as_json:
        print_json({**notes, "statement": json.loads(notes["statement"]), "files": [str(path), str(statement)]})
        return
    console = result_console()
    console.print(str(fit.report()), "", str(fit.statement), "", "Files", sep="\n", soft_wrap=True)
    console.print(f"  {path}", f"  {statement}", sep="\n", soft_wrap=True)
