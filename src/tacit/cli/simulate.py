"""`tacit simulate`: one agent in one world, many runs."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tacit.cli.settings import AgentName, Calibration, Counter, Privacy, Randomizer, Schedule, Settings, option
from tacit.cli.shared import (
    INTERRUPTED,
    Jobs,
    Json,
    Mistake,
    Out,
    Runs,
    Seed,
    examples,
    folder,
    number,
    plain_warnings,
    print_json,
    result_console,
    tell,
)

if TYPE_CHECKING:
    from tacit.simulation import Result

__all__ = ["EXAMPLES", "command"]

_LITTLE = 0.9

EXAMPLES = examples(
    ("How well does UCB-VI learn RiverSwim at ε = 1?", "tacit simulate --epsilon 1 --episodes 5000"),
    ("And without privacy?", "tacit simulate --privacy none --episodes 5000"),
    (
        "Nobody trusts the server, and a program reads the result:",
        "tacit simulate -a ucbpo -p local --epsilon 3 -K 5000 --runs 5 --json",
    ),
    (
        "A Gymnasium environment:",
        'tacit simulate -w "gym:FrozenLake-v1(horizon=30)" --rho 1 -K 1000 -R 5',
    ),
)


def command(
    agent: Annotated[AgentName, option("agent")] = "ucbvi",
    world: Annotated[str, option("world")] = "riverswim",
    episodes: Annotated[int, option("episodes")] = 20_000,
    privacy: Annotated[Privacy, option("privacy")] = "joint",
    epsilon: Annotated[float | None, option("epsilon")] = None,
    delta: Annotated[float | None, option("delta")] = None,
    rho: Annotated[float | None, option("rho")] = None,
    schedule: Annotated[Schedule | None, option("schedule")] = None,
    counter: Annotated[Counter | None, option("counter")] = None,
    calibration: Annotated[Calibration | None, option("calibration")] = None,
    pooled: Annotated[bool | None, option("pooled")] = None,
    randomizer: Annotated[Randomizer | None, option("randomizer")] = None,
    confidence: Annotated[float | None, option("confidence")] = None,
    bonus_scale: Annotated[float | None, option("bonus_scale")] = None,
    statistical_scale: Annotated[float | None, option("statistical_scale")] = None,
    privacy_scale: Annotated[float | None, option("privacy_scale")] = None,
    eta_scale: Annotated[float | None, option("eta_scale")] = None,
    runs: Runs = 20,
    seed: Seed = 0,
    jobs: Jobs = 1,
    checkpoint: Annotated[
        Path | None, typer.Option(help="A file to go on from after Ctrl-C or a crash; the same call goes on")
    ] = None,
    out: Out = Path("tacit-out"),
    as_json: Json = False,
) -> None:
    """An agent learns in a world: exact regret over many runs, its table and its figure.

    Noise is simulated, so nobody is protected by it: it is as large as the guarantee needs.
    Files are named after the settings. Ctrl-C writes what was done by then (exit code 130).
    """
    settings = Settings(
        agent=agent,
        world=world,
        episodes=episodes,
        privacy=privacy,
        epsilon=epsilon,
        delta=delta,
        rho=rho,
        schedule=schedule,
        counter=counter,
        calibration=calibration,
        pooled=pooled,
        randomizer=randomizer,
        confidence=confidence,
        bonus_scale=bonus_scale,
        statistical_scale=statistical_scale,
        privacy_scale=privacy_scale,
        eta_scale=eta_scale,
    )
    result = _played(settings, runs=runs, seed=seed, jobs=jobs, checkpoint=checkpoint, out=out)
    if result.episodes == 0:
        tell("stopped before the first episode: there is nothing to write")
        raise typer.Exit(INTERRUPTED)
    files = _written(result, settings, out)
    if checkpoint is not None and not result.interrupted:
        from tacit.simulation.run import forget_checkpoint

        forget_checkpoint(checkpoint)
    share = result.summary().get("share of worst") or 0.0
    if share > _LITTLE:
        tell(
            f"little was learnt: regret is {share:.0%} of that of never being paid anything. Try a larger epsilon, "
            "more episodes, or other factors on the bonuses (docs/guides/bonuses.md)"
        )
    if as_json:
        print_json(
            {
                "summary": result.summary(),
                "interrupted": result.interrupted,
                "statement": result.statement,
                "settings": result.settings,
                "files": [str(file) for file in files],
            }
        )
    else:
        _show(result, files)
    if result.interrupted:
        raise typer.Exit(INTERRUPTED)


def _played(
    settings: Settings, *, runs: int, seed: int, jobs: int | None, checkpoint: Path | None, out: Path
) -> Result:
    from tacit.cli.kernels import compiling_is_told
    from tacit.cli.worlds import world_of

    settings.check()
    world = world_of(settings.world)
    agent = settings.agent_in(world)
    folder(out)
    if checkpoint is not None:
        folder(checkpoint.parent)
    with plain_warnings(), compiling_is_told():
        from tacit.simulation import simulate

        try:
            return simulate(
                agent, world, runs=runs, seed=seed, engine=jobs, checkpoint=checkpoint, keep_checkpoint=True
            )
        except ValueError as error:
            if checkpoint is not None and str(error).startswith(str(checkpoint)):  # of another simulation
                raise Mistake(str(error)) from None
            raise


def _written(result: Result, settings: Settings, out: Path) -> list[Path]:
    """Table, JSON and figure, under a name that no other settings have."""
    from tacit.cli.figures import draw, facts

    own = {name: value for name, value in result.settings.items() if name != "versions"}
    digest = hashlib.sha256(json.dumps(own, sort_keys=True).encode()).hexdigest()[:8]
    told = facts(result)
    budget = [f"{name}-{settings.given[name]:g}" for name in ("epsilon", "delta", "rho") if name in settings.given]
    words = [told["agent"], told["world"], settings.privacy, *budget, f"K-{settings.episodes}", digest]
    name = "-".join(words + ["interrupted"] * result.interrupted).lower()
    safe = "".join(letter if letter.isascii() and (letter.isalnum() or letter == ".") else "-" for letter in name)
    table = result.to_parquet(out / f"{safe}.parquet")
    return [table, table.with_suffix(".json"), draw([result], table.with_suffix(".png"))]


def _show(result: Result, files: list[Path]) -> None:
    from rich import box
    from rich.table import Table

    from tacit.cli.figures import facts

    told, console = facts(result), result_console()
    console.print(
        f"{told['agent']} in {told['world']}, {told['horizon']}, {told['privacy']}",
        result.statement.splitlines()[0],
        "",
        sep="\n",
        soft_wrap=True,
    )
    table = Table(box=box.SIMPLE, show_header=False, show_edge=False, pad_edge=False)
    table.add_column()
    table.add_column(justify="right")
    for name, value in result.summary().items():
        share = name == "share of worst" and value is not None
        shown = "" if value is None else f"{value:.1%}" if share else number(value)
        table.add_row(name, f"{value:,}" if isinstance(value, int) else shown)
    console.print(table)
    console.print("\nFiles", *(f"  {file}" for file in files), sep="\n", soft_wrap=True)
