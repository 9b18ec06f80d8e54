"""What can be heard from outside while people's data are taken in."""

from __future__ import annotations

import contextlib
import io
import logging
import warnings
from collections.abc import Iterator

import numpy as np

__all__ = ["overheard"]


@contextlib.contextmanager
def overheard(*, but: tuple[type[Warning], ...] = ()) -> Iterator[list[str]]:
    """Exceptions, warnings `but` for some kinds, log records, and what is printed."""
    heard: list[str] = []
    listener = logging.Handler(level=0)
    listener.emit = lambda record: heard.append(record.getMessage())  # type: ignore[method-assign]
    root, printed = logging.getLogger(), io.StringIO()
    level = root.level
    root.addHandler(listener)
    root.setLevel(0)
    with warnings.catch_warnings(record=True) as warned, np.errstate(all="warn"):
        warnings.simplefilter("always")
        try:
            with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
                yield heard
        except Exception as error:
            heard.append(f"{type(error).__name__}: {error}")
        finally:
            root.removeHandler(listener)
            root.setLevel(level)
    heard.extend(str(one.message) for one in warned if not issubclass(one.category, but))
    heard.extend(line for line in printed.getvalue().split("\n") if line)
