"""`tacit evaluate`: what a policy is worth, in a known world or from logged trajectories."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from tacit.cli.data import Delta, Epsilon, Horizon, Rho, SchemaFile, behaviour_of, central, opened, policy_in
from tacit.cli.shared import Json, Mistake, Seed, examples, plain_warnings, print_json, result_console

__all__ = ["EXAMPLES", "command"]

EXAMPLES = examples(
    ("Made data, and a policy:", "tacit datasets make riverswim -n 3000 --out tacit-out/river.parquet"),
    ("(…)", "tacit train tacit-out/river.parquet --epsilon 5 --out tacit-out/river.npz"),
    ("What is it worth in the world that it is for?", "tacit evaluate tacit-out/river.npz --world riverswim"),
    (
        "And as far as people's data can tell? (Not private: for their owner.)",
        "tacit evaluate tacit-out/river.npz tacit-out/river.parquet \\\n      --behaviour uniform --method fqe",
    ),
)


def command(
    policy: Annotated[Path, typer.Argument(help="What `tacit train` wrote, .npz")],
    data: Annotated[list[Path] | None, typer.Argument(metavar="[DATA…]", help="Logged trajectories")] = None,
    schema: SchemaFile = None,
    horizon: Horizon = None,
    world: Annotated[str | None, typer.Option("--world", "-w", help="A known world: the exact value")] = None,
    method: Annotated[
        Literal["is", "wis", "pdis", "wpdis", "dr", "fqe"], typer.Option(help="How the data are weighed")
    ] = "wpdis",
    behaviour: Annotated[
        str, typer.Option("--behaviour", "-b", help="What people followed: uniform, a policy's .npz, or estimate")
    ] = "estimate",
    level: Annotated[float, typer.Option(help="Of the interval")] = 0.95,
    clip: Annotated[
        float | None, typer.Option(help="Private estimates: each episode's is at most this (default: H)")
    ] = None,
    epsilon: Epsilon = None,
    delta: Delta = None,
    rho: Rho = None,
    seed: Seed = 0,
    as_json: Json = False,
) -> None:
    """What a policy is worth: exactly in a known world, or estimated from people's data.

    An estimate from data is for their owner only, unless --epsilon or --rho asks for a private one, which spends budget
    of its own.
    """
    if (world is None) == (not data):
        raise Mistake("say either --world, or the data to estimate from")
    found, _ = policy_in(policy)
    console = result_console()
    if world is not None:
        from tacit.cli.worlds import world_of

        place = world_of(world)
        if place.spec.states != found.spec.states or place.spec.actions != found.spec.actions:
            raise Mistake(f"the policy is for {found.spec}, and the world is {place.spec}")
        if place.spec.horizon != found.spec.horizon:
            raise Mistake(f"the policy has H = {found.spec.horizon}, and the world {place.spec.horizon}")
        value, best = float(place.policy_values(found.probabilities[None])[0]), place.optimal_value
        if as_json:
            print_json({"value": value, "optimal": best, "world": place.name})
        else:
            console.print(f"{value:.4g} in {place.name}; the best policy earns {best:.4g}", soft_wrap=True)
        return
    from tacit.offline import evaluate

    source = opened(data or [], schema, horizon)
    private = (epsilon, delta, rho) != (None, None, None)
    if private and method not in ("wpdis", "pdis"):
        raise Mistake(f"a private estimate is made by pdis, not by {method}")
    options: dict[str, Any] = {}
    if private:
        privacy = central(epsilon, delta, rho, private=True)
        privacy = privacy if source.per_user is None else replace(privacy, unit="user")
        options = {"privacy": privacy, "episodes_per_user": source.per_user, "method": "pdis"}
    with plain_warnings():
        try:
            estimate = evaluate(
                found,
                source.batches(),
                spec=source.spec,
                behaviour=behaviour_of(behaviour, source.spec),
                **{"method": method, "level": level, "seed": seed, "clip": clip, **options},
            )
        except ValueError as error:
            raise Mistake(str(error)) from None
    if as_json:
        statement = estimate.statement
        print_json({**asdict(estimate), "statement": None if statement is None else statement.to_json()})
        return
    console.print(
        str(estimate), *([] if estimate.statement is None else ["", str(estimate.statement)]), sep="\n", soft_wrap=True
    )
