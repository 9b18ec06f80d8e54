"""`tacit calibrate`: from a guarantee to the noise of every mechanism, and back."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from tacit.cli.calibrate_answer import Noise, Question, answer
from tacit.cli.shared import Json, examples, print_json, progress_console, result_console

__all__ = ["EXAMPLES", "command"]

EXAMPLES = examples(
    ("What noise does pure ε = 1 cost, by each mechanism?", "tacit calibrate --epsilon 1 --episodes 20000"),
    (
        "With a small δ, counting every step apart, beside 000's published constants:",
        "tacit calibrate --epsilon 1 --delta 1e-5 --per-step --published",
    ),
    ("What do people get whose devices add noise of scale 60?", "tacit calibrate --scale 60 --model local"),
    (
        "Another world, for a program to read:",
        "tacit calibrate -S 25 -A 4 -H 10 -K 3000 --rho 0.1 --model joint --json",
    ),
)

_WORLD, _ASKED, _SHOWN = "The world: public facts", "A guarantee, or a noise", "What is shown"


def command(
    states: Annotated[int, typer.Option("--states", "-S", help="S", rich_help_panel=_WORLD)] = 6,
    actions: Annotated[int, typer.Option("--actions", "-A", help="A", rich_help_panel=_WORLD)] = 2,
    horizon: Annotated[
        int, typer.Option("--horizon", "-H", help="H, steps of an episode", rich_help_panel=_WORLD)
    ] = 20,
    episodes: Annotated[int, typer.Option("--episodes", "-K", help="K, users", rich_help_panel=_WORLD)] = 20_000,
    epsilon: Annotated[float | None, typer.Option(help="ε", rich_help_panel=_ASKED)] = None,
    delta: Annotated[float, typer.Option(help="δ; 0 is pure privacy", rich_help_panel=_ASKED)] = 0.0,
    rho: Annotated[float | None, typer.Option(help="ρ, in place of ε and δ", rich_help_panel=_ASKED)] = None,
    scale: Annotated[
        float | None,
        typer.Option(help="The other way round: what does noise of this scale keep?", rich_help_panel=_ASKED),
    ] = None,
    mechanism: Annotated[Noise | None, typer.Option(help="This noise only", rich_help_panel=_SHOWN)] = None,
    model: Annotated[
        Literal["joint", "local", "both"],
        typer.Option(help="Who adds noise: a server, or every device", rich_help_panel=_SHOWN),
    ] = "both",
    pooled: Annotated[
        bool,
        typer.Option("--pooled/--per-step", help="Count over all steps, or each apart", rich_help_panel=_SHOWN),
    ] = True,
    published: Annotated[
        bool,
        typer.Option("--published", help="000's constants, too, with what they really spend", rich_help_panel=_SHOWN),
    ] = False,
    confidence: Annotated[
        float, typer.Option(help="β, the probability that E is exceeded", rich_help_panel=_SHOWN)
    ] = 0.1,
    as_json: Json = False,
) -> None:
    """Noise ↔ guarantee: what a guarantee costs by each mechanism, or what a noise keeps.

    Nothing is read and nothing is drawn: noise is known before any data.
    The world is RiverSwim as in 000 unless you say otherwise.
    """
    question = Question(
        states=states,
        actions=actions,
        horizon=horizon,
        episodes=episodes,
        epsilon=epsilon,
        delta=delta,
        rho=rho,
        scale=scale,
        mechanism=mechanism,
        model=model,
        pooled=pooled,
        published=published,
        confidence=confidence,
    )
    with progress_console().status("Calibrating …"):  # searching a k-ary tree takes a while where there are many users
        given = answer(question)
    if as_json:
        print_json(given.to_json())
    else:
        from tacit.cli.calibrate_table import show

        show(given, result_console())
