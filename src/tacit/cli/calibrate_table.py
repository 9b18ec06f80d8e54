"""The table of `tacit calibrate`, for people."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from tacit.cli.calibrate_answer import Answer, Model, Question, Row, guarantee_of
from tacit.cli.shared import number

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["show"]

_NOISE = {"laplace": "Laplace", "gaussian": "Gaussian", "subset selection": "subsets"}


def show(given: Answer, console: Console) -> None:
    """A table for each model, and what its columns mean."""
    from rich import box
    from rich.table import Table

    question = given.question
    S, A, H, K = question.states, question.actions, question.horizon, question.episodes
    lines = [f"S = {S}, A = {A}, H = {H}, K = {K:,}; replace-one"]
    for model in dict.fromkeys(row.model for row in given.rows):
        lines.append(f"\n{model.title()} model: {_asked(model, question)}")
        console.print("\n".join(lines), soft_wrap=True)
        lines.clear()
        between = 1 if console.width >= 100 else 0
        table = Table(box=box.SIMPLE_HEAD, padding=(0, between, 0, 0), show_edge=False, pad_edge=False)
        table.add_column("counter" if model == "joint" else "randomizer", overflow="fold", min_width=11)
        table.add_column("noise", no_wrap=True)
        for heading in ("scale", "max\nstd", "last\nstd", "E", "releases", "memory"):
            table.add_column(heading, justify="right", no_wrap=True)
        table.add_column("spends", min_width=11)
        for row in given.rows:
            if row.model == model:
                table.add_row(*_cells(row, question))
        console.print(table, crop=False)
    console.print("", *_remarks(given), sep="\n", soft_wrap=True)


def _asked(model: Model, question: Question) -> str:
    if question.scale is None:
        return str(guarantee_of(model, question))
    return f"noise of scale {question.scale:g}" + (f", δ = {question.delta:g}" if question.delta else "")


def _cells(row: Row, question: Question) -> list[str]:
    return [
        row.name + (", published" if _is_published(row) else ""),
        _NOISE[row.noise],
        *("" if size is None else number(size) for size in (row.scale, row.max_std, row.last_std, row.bound)),
        f"{row.releases:,}",
        number(row.memory),
        _spent(row, question),
    ]


def _is_published(row: Row) -> bool:
    return row.rule not in ("exact", "given")


def _spent(row: Row, question: Question) -> str:
    pure = None if row.epsilon is None else f"ε = {row.epsilon:.4g}"
    at_delta = None if row.epsilon_at_delta is None else f"ε = {row.epsilon_at_delta:.4g} at δ"
    if question.epsilon is not None:
        enough = row.epsilon is not None and row.epsilon in (min(row.epsilon, question.epsilon), row.epsilon_at_delta)
        return (pure if enough else at_delta) or "no finite ε"
    if question.rho is None and pure:
        return pure
    return ", ".join(part for part in (f"ρ = {row.rho:.4g}" if row.rho else "no finite ρ", pure or at_delta) if part)


def _remarks(given: Answer) -> Iterator[str]:
    question, moved = given.question, given.sensitivity
    counted = next((row.statistic for row in given.rows if not _is_published(row)), None)
    if counted:
        yield f"Counted: {counted}; rewards centred. One user moves all by {moved.l1:g} in L1, {moved.l2:.4g} in L2."
    for row in given.rows:
        if _is_published(row):
            yield f"{row.rule[:1].upper()}{row.rule[1:]}: {row.statistic}."
    yield (
        "std: of one released count of transitions, in the noisiest and in the last release. "
        f"E: no such count in any release is off by more, but with probability {question.confidence:g}."
    )
    yield "memory: numbers held for each count. spends: what all releases together cost a user."
    shown = {(row.model, row.name) for row in given.rows}
    missing = [left for left in given.left_out if (left.model, left.name) not in shown]
    for why in dict.fromkeys(left.why for left in missing):
        yield f"Left out: {why}."
    if question.delta * question.episodes >= 1:
        yield f"WARNING: δ is not below 1/{question.episodes:,}: it would allow to publish somebody outright."
