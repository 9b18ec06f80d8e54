"""Continual counters behind one protocol (`protocol`): trees and batches (`trees`), factorizations (`filters`)."""

from __future__ import annotations

from typing import Any

from tacit.privacy.counters.filters import Filter, blt, sqrt_toeplitz
from tacit.privacy.counters.protocol import (
    CounterDesign,
    CounterStream,
    Entries,
    Extent,
    Mechanism,
    StreamError,
    error_at,
    worst_error,
)
from tacit.privacy.counters.trees import Batches, Tree, balanced_tree, binary_tree, doubling, running_sum, single

__all__ = [
    "Batches",
    "CounterDesign",
    "CounterStream",
    "Entries",
    "Extent",
    "Filter",
    "Mechanism",
    "StreamError",
    "Tree",
    "balanced_tree",
    "binary_tree",
    "blt",
    "design_from_json",
    "doubling",
    "error_at",
    "running_sum",
    "single",
    "sqrt_toeplitz",
    "worst_error",
]


def design_from_json(data: dict[str, Any]) -> CounterDesign:
    """The design that `to_json` described."""
    match data["counter"]:
        case "tree":
            return Tree(data["length"], tuple(data["radices"]), name=data["name"])
        case "batches":
            return Batches(tuple(data["ends"]), name=data["name"])
        case "filter":
            return Filter(data["length"], tuple(data["poles"]), tuple(data["zeros"]), name=data["name"])
    raise ValueError(f"no counter is called {data['counter']!r}")
