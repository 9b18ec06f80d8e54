"""Progress on stderr: a bar with an estimate of the time left, for work that takes longer than a moment."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Any, Protocol, Self

__all__ = ["Bar", "Progress", "Silent", "progress_of"]

_MOMENT = 0.5


class Progress(Protocol):
    """Hears which part of the work is done; entered before it and left after it."""

    def update(self, share: float) -> None:
        """So much is done, between 0 and 1."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool | None: ...


class Silent:
    """Says nothing."""

    def update(self, share: float) -> None:
        """See `Progress`."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        return None


class Bar:
    """A bar on stderr, once the work has lasted half a second."""

    def __init__(self, label: str) -> None:
        self._label = label
        self._began = time.monotonic()
        self._bar: Any = None
        self._task: Any = None

    def update(self, share: float) -> None:
        """See `Progress`."""
        if self._bar is None:
            if time.monotonic() - self._began < _MOMENT:
                return
            self._open()
        self._bar.update(self._task, completed=share)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    def _open(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
        from rich.progress import Progress as Bars

        self._bar = Bars(
            TextColumn("{task.description}"),
            BarColumn(),
            TaskProgressColumn(),
            TextColumn("·"),
            TimeElapsedColumn(),
            TextColumn("so far,"),
            TimeRemainingColumn(),
            TextColumn("to go"),
            console=Console(stderr=True),
        )
        self._task = self._bar.add_task(self._label, total=1.0)
        self._bar.start()


def progress_of(progress: bool | Progress | None, label: str) -> Progress:
    """A bar, silence, or whatever is given; by default a bar where stderr is a terminal."""
    if progress is None:
        progress = sys.stderr.isatty()
    if isinstance(progress, bool):
        return Bar(label) if progress else Silent()
    return progress
