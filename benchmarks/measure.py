"""Timing in turns, and the table."""

import time
from collections.abc import Callable
from typing import NamedTuple

TIMES, FASTER, MEMORY, SECONDS = "× the time", "× as fast", "× the memory", "s"


class Row(NamedTuple):
    """One line of the table; `ratio` is None where nothing could be measured, and `unit` says why."""

    what: str
    reference: str
    ratio: float | None
    unit: str
    target: str = ""


def best_times(*actions: Callable[[], object], repeats: int) -> list[float]:
    """Processor seconds of each action, the best of `repeats`, taken in turns after one run to warm up.

    Processor time, so that a busy machine matters little and a hidden second thread is paid for. An action that
    returns a float has timed itself.
    """
    best = [float("inf")] * len(actions)
    for turn in range(repeats + 1):
        for place, action in enumerate(actions):
            begin = time.process_time()
            own = action()
            seconds = own if isinstance(own, float) else time.process_time() - begin
            if turn:
                best[place] = min(best[place], seconds)
    return best


def table(rows: list[Row]) -> str:
    """As text, in columns."""
    heads = ("what", "reference", "ratio", "target")
    lines = [(row.what, row.reference, _ratio(row), row.target) for row in rows]
    widths = [max(len(line[column]) for line in (heads, *lines)) for column in range(4)]
    ruled = [heads, tuple("─" * width for width in widths), *lines]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in ruled
    )


def _ratio(row: Row) -> str:
    if row.ratio is None:
        return row.unit
    number = f"{row.ratio:,.0f}" if row.ratio >= 100 else f"{row.ratio:.1f}" if row.ratio >= 10 else f"{row.ratio:.2f}"
    return f"{number:>6} {row.unit}"
