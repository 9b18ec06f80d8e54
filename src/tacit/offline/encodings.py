"""How raw columns become numbers: categories, bins, whole numbers, features. All declared, nothing learnt from data."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

__all__ = ["Bins", "Categories", "Encoding", "FeatureColumn", "Features", "SchemaError", "encoding_from_json"]


class SchemaError(ValueError):
    """A declaration that no table can meet; the message names the field and what it should be."""


@dataclass(frozen=True)
class Categories:
    """A column's possible values, numbered from 0 in this order: all text, all numbers, or true and false.

    Examples
    --------
    >>> Categories(["home", "ward", "icu"]).size
    3
    """

    values: tuple[str, ...] | tuple[float, ...] | tuple[bool, ...]

    def __init__(self, values: Sequence[str] | Sequence[float] | Sequence[bool]) -> None:
        if isinstance(values, str) or not isinstance(values, Sequence) or not values:
            raise SchemaError(f"categories must be a list of at least one value; got {values!r}")
        plain = [value.item() if isinstance(value, np.generic) else value for value in values]
        kinds = {_kind(value) for value in plain}
        if len(kinds) != 1 or None in kinds:
            raise SchemaError(f"categories must be all text, all finite numbers, or all true/false; got {plain!r}")
        if len(set(plain)) != len(plain):
            raise SchemaError(f"categories must differ from each other; got {plain!r}")
        object.__setattr__(self, "values", tuple(plain))

    @property
    def size(self) -> int:
        """How many numbers there are."""
        return len(self.values)

    @property
    def kind(self) -> str:
        """`"text"`, `"number"` or `"flag"`."""
        return str(_kind(self.values[0]))

    def to_json(self) -> dict[str, Any]:
        """Plain values; `encoding_from_json` reads them."""
        return {"categories": list(self.values)}


@dataclass(frozen=True)
class Bins:
    """Intervals of a numeric column: below the first edge is 0, from the last edge on is the number of edges.

    An edge belongs to the interval above it. Infinities fall into the outer intervals.

    Examples
    --------
    >>> Bins([40, 65]).size  # x < 40, 40 ≤ x < 65, 65 ≤ x
    3
    """

    edges: tuple[float, ...]

    def __init__(self, edges: Sequence[float]) -> None:
        told: Any = edges
        if isinstance(told, str) or not isinstance(told, Sequence) or not told:
            raise SchemaError(f"bins must be a list of at least one edge; got {edges!r}")
        plain = [value.item() if isinstance(value, np.generic) else value for value in edges]
        if {_kind(value) for value in plain} != {"number"}:
            raise SchemaError(f"bin edges must be finite numbers; got {plain!r}")
        if any(low >= high for low, high in pairwise(plain)):
            raise SchemaError(f"bin edges must ascend; got {plain!r}")
        object.__setattr__(self, "edges", tuple(float(value) for value in plain))

    @property
    def size(self) -> int:
        """How many intervals there are."""
        return len(self.edges) + 1

    def to_json(self) -> dict[str, Any]:
        """Plain values; `encoding_from_json` reads them."""
        return {"bins": list(self.edges)}


Encoding = Categories | Bins


def encoding_from_json(data: Any) -> Encoding:
    """What `{"categories": [...]}` or `{"bins": [...]}` says."""
    if isinstance(data, Categories | Bins):
        return data
    if not isinstance(data, Mapping) or len(data) != 1 or next(iter(data)) not in ("categories", "bins"):
        raise SchemaError(f'must be {{"categories": [...]}} or {{"bins": [...]}}; got {data!r}')
    ((kind, values),) = data.items()
    return Categories(values) if kind == "categories" else Bins(values)


@dataclass(frozen=True, kw_only=True)
class FeatureColumn:
    """A numeric column of a linear model: (x − centre) / scale."""

    name: str
    centre: float = 0.0
    scale: float = 1.0

    def __post_init__(self) -> None:
        if not isinstance(self.name, str) or not self.name:
            raise SchemaError(f"a feature's name must be the name of a column; got {self.name!r}")
        if _kind(self.centre) != "number":
            raise SchemaError(f"centre of {self.name!r} must be a finite number; got {self.centre!r}")
        if _kind(self.scale) != "number" or self.scale <= 0:
            raise SchemaError(f"scale of {self.name!r} must be a positive number; got {self.scale!r}")


@dataclass(frozen=True, kw_only=True)
class Features:
    """The feature columns of a linear model, and the Euclidean norm that a row is clipped to."""

    columns: tuple[FeatureColumn, ...]
    norm: float = 1.0

    def __post_init__(self) -> None:
        if not self.columns or not all(isinstance(column, FeatureColumn) for column in self.columns):
            raise SchemaError(f"columns must be a list of at least one feature; got {self.columns!r}")
        names = [column.name for column in self.columns]
        if len(set(names)) != len(names):
            raise SchemaError(f"features must be columns that differ; got {names}")
        if _kind(self.norm) != "number" or self.norm <= 0:
            raise SchemaError(f"norm must be a positive number; got {self.norm!r}")
        object.__setattr__(self, "columns", tuple(self.columns))

    def to_json(self) -> dict[str, Any]:
        """Plain values; `from_json` reads them."""
        return {"columns": [dict(vars(column)) for column in self.columns], "norm": self.norm}

    @classmethod
    def from_json(cls, data: Any) -> Features:
        """What `to_json` described; a column may be given by its name alone."""
        if not isinstance(data, Mapping) or not set(data) <= {"columns", "norm"} or "columns" not in data:
            raise SchemaError(f'must be {{"columns": [...], "norm": ...}}; got {data!r}')
        if not isinstance(data["columns"], list):
            raise SchemaError(f"columns must be a list; got {data['columns']!r}")
        columns = []
        for column in data["columns"]:
            told = {"name": column} if isinstance(column, str) else column
            if not isinstance(told, Mapping) or not {"name"} <= set(told) <= {"name", "centre", "scale"}:
                raise SchemaError(f'a feature must be {{"name": ..., "centre": ..., "scale": ...}}; got {column!r}')
            columns.append(FeatureColumn(**told))
        return cls(columns=tuple(columns), **{"norm": data["norm"]} if "norm" in data else {})


def _kind(value: Any) -> str | None:
    if isinstance(value, bool):
        return "flag"
    if isinstance(value, str):
        return "text"
    if isinstance(value, int | float) and math.isfinite(value):
        return "number"
    return None
