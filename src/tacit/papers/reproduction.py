"""What a reproduction leaves behind."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

__all__ = ["Reproduction"]


@dataclass(frozen=True, kw_only=True)
class Reproduction:
    """Files, what to tell people, and the same as plain values."""

    files: list[Path]
    lines: list[str]
    data: dict[str, Any] = field(repr=False)
    unfinished: int = 0
    """Simulations that are still to be run, after an interrupt."""
