"""`tacit datasets make`: sample data with their schema."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from tacit.cli.shared import Json, Mistake, Seed, examples, folder, print_json, result_console

__all__ = ["EXAMPLES", "make"]

EXAMPLES = examples(
    ("RiverSwim, people who act at random:", "tacit datasets make riverswim -n 2000 --out tacit-out/river.csv"),
    (
        "Any world that `tacit simulate` knows:",
        'tacit datasets make "chain(states=5)" -n 500 --out tacit-out/chain.parquet',
    ),
)


def make(
    world: Annotated[str, typer.Argument(help='riverswim, sepsis, linear, or a call such as "chain(states=5)"')],
    episodes: Annotated[int, typer.Option("--episodes", "-n", min=1, help="How many people")] = 10_000,
    horizon: Annotated[int, typer.Option("--horizon", "-H", min=1, help="Of sepsis and linear")] = 20,
    seed: Seed = 0,
    out: Annotated[Path, typer.Option(metavar="FILE", help="Where to; .parquet or .csv")] = Path(
        "tacit-out/data.parquet"
    ),
    as_json: Json = False,
) -> None:
    """Write sample data of a made world as a long table, and its schema beside it."""
    if out.suffix.lower() not in (".parquet", ".csv"):
        raise Mistake(f"--out ends in .parquet or .csv; got {out}")
    folder(out.parent)
    from tacit.offline import write_sample

    place, behaviour = _place(world, horizon)
    sample = write_sample(place, episodes=episodes, path=out, seed=seed, behaviour=behaviour)
    files = [str(file) for file in sample]
    if as_json:
        print_json({"episodes": episodes, "world": getattr(place, "name", world), "files": files})
        return
    result_console().print(
        f"{episodes:,} episodes of {getattr(place, 'name', world)}, H = {place.spec.horizon}",
        "",
        "Files",
        *(f"  {file}" for file in files),
        sep="\n",
        soft_wrap=True,
    )


def _place(text: str, horizon: int) -> tuple[Any, Any]:
    """A world, and who acts in it (None: at random)."""
    from tacit.cli.worlds import world_of

    if text == "sepsis":
        from tacit.mdp import icu_sepsis

        try:
            sepsis = icu_sepsis(horizon=horizon)
        except ImportError:
            raise Mistake("sepsis needs an extra: pip install 'tacit[sepsis]'") from None
        return sepsis.world, sepsis.behaviour[0]
    if text == "linear":
        from tacit.mdp import linear_random, linear_random_behaviour

        world = linear_random(horizon=horizon, seed=0)
        return world.tabular(), linear_random_behaviour(horizon=horizon)[0]
    return world_of(text), None
