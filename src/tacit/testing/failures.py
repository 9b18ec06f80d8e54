"""How a check says what is wrong."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

__all__ = ["ConformanceError", "raises", "require"]


class ConformanceError(AssertionError):
    """What a privatizer got wrong."""


def require(holds: bool | np.bool_, message: str) -> None:
    """Or else it is a failure, and this is what is said."""
    if not holds:
        raise ConformanceError(message)


def raises(expected: type[Exception], action: Callable[[], Any], message: str) -> None:
    """An error is what is right."""
    try:
        action()
    except expected:
        return
    raise ConformanceError(message)
