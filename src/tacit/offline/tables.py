"""Long tables, one row per step: Parquet and CSV files, and frames of Polars, pandas or Arrow. Read with Polars.

A table is read in parts of whole units, each row once and in the file's order if the rows of every unit stand
together. If they do not, units are shared out among as many passes as memory asks for. Which it is changes nothing in
what anybody contributes, only the order of people.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacit.offline.columns import ROW, Codes, told
from tacit.offline.parts import DatasetError, Part, slots
from tacit.offline.schema import Schema

if TYPE_CHECKING:
    import polars

__all__ = ["ROWS", "Table"]

ROWS = 1_000_000
"""Rows that are read at a time."""


class _Shape(NamedTuple):
    """Rows, units, and whether each unit's rows stand together."""

    rows: int
    units: int
    together: bool


class Table:
    """A lazy Polars table that fits a schema; anything else is an error on construction.

    Parameters
    ----------
    lazy
        The rows.
    schema
        What they mean.
    untyped
        Columns that may hold anything, as in CSV: what cannot be read there makes an episode ⊥, not an error.
    name
        What messages call the table.
    kept
        Read the table once and keep its codes, for files that cannot be read from the middle on.
    rows
        How many are read at a time.
    """

    def __init__(
        self,
        lazy: polars.LazyFrame,
        schema: Schema,
        *,
        name: str,
        untyped: Collection[str] = (),
        kept: bool = False,
        rows: int = ROWS,
    ) -> None:
        self.schema, self.name = schema, name
        self._lazy, self._at_a_time, self._kept = lazy, rows, kept
        with told(name):
            self._codes = Codes(dict(lazy.collect_schema()), schema, untyped=untyped, name=name)

    @property
    def roles(self) -> Mapping[str, tuple[str, ...]]:
        """The table's columns of each role, as far as it has them."""
        return self._codes.roles

    @property
    def units(self) -> int:
        """How many users or episodes there are."""
        return self._shape.units

    def parts(self, *, raw: bool = False) -> Iterator[Part]:
        """All units, each once; `raw` for the owner's check."""
        with told(self.name):
            frames = self._in_order(raw) if self._shape.together else self._shared_out(raw)
            for frame in frames:
                yield self._part(frame, raw)

    @cached_property
    def _shape(self) -> _Shape:
        """One pass over the one column that tells whose a row is."""
        import polars

        runs, nulls, descents, last = 0, 0, 0, None
        with told(self.name):
            owners = self._coded(False).select("unit")
            rows: int = owners.select(polars.len()).collect(engine="streaming").item()
            for first in range(0, rows, 4 * self._at_a_time):
                unit = owners.slice(first, 4 * self._at_a_time).collect()["unit"]
                runs += int((unit.ne_missing(unit.shift()) & unit.is_not_null()).sum())
                descents += int((unit < unit.shift()).sum() or 0)
                nulls += unit.null_count()
                if last is not None and unit[0] is not None:
                    runs -= unit[0] == last
                    descents += unit[0] < last
                last = unit[-1]
            units = runs
            if descents or nulls:  # else no unit can come twice
                counted = polars.col("unit").drop_nulls().n_unique()
                units = int(owners.select(counted).collect(engine="streaming").item())
        if not units:
            raise DatasetError(
                f"{self.name} is empty: it holds no rows" + f" with anything in {self._codes.owner!r}" * bool(rows)
            )
        return _Shape(rows, units, runs == units)

    def _coded(self, raw: bool) -> polars.LazyFrame:
        if not self._kept:
            lazy = self._lazy.with_row_index(ROW) if raw else self._lazy
            return lazy.select(self._codes.expressions(raw))
        return self._all_raw if raw else self._all

    @cached_property
    def _all(self) -> polars.LazyFrame:
        return self._lazy.select(self._codes.expressions(False)).collect(engine="streaming").lazy()

    @property
    def _all_raw(self) -> polars.LazyFrame:
        return self._lazy.with_row_index(ROW).select(self._codes.expressions(True)).collect().lazy()

    def _in_order(self, raw: bool) -> Iterator[polars.DataFrame]:
        """Slices of the file; a unit that a slice's end cuts is left to the next."""
        coded, first, size = self._coded(raw), 0, self._at_a_time
        while first < self._shape.rows:
            frame = coded.slice(first, size).collect()
            unit = frame["unit"]
            if first + size < self._shape.rows and unit[-1] is not None:
                last = int(unit.ne_missing(unit.shift()).arg_true()[-1])
                if last == 0:
                    size *= 2
                    continue
                frame = frame.slice(0, last)
            first, size = first + frame.height, self._at_a_time
            yield frame

    def _shared_out(self, raw: bool) -> Iterator[polars.DataFrame]:
        """One pass over the table for each of several shares of the units."""
        import polars

        shares, coded, unit = math.ceil(self._shape.rows / self._at_a_time), self._coded(raw), polars.col("unit")
        for share in range(shares):
            mine = unit.hash(0) % shares == share
            if not raw:
                mine &= unit.is_not_null()
            frame = coded.filter(mine).collect(engine="streaming")
            yield frame if self.schema.unit == "user" else frame.sort("unit", maintain_order=True)

    def _part(self, frame: polars.DataFrame, raw: bool) -> Part:
        if self.schema.unit == "user":
            frame = frame.sort(["unit", *self._codes.episode_order], maintain_order=True)
        unit = frame["unit"]
        new_unit = new_episode = _changes(unit)
        owned = unit.is_not_null()
        if self.schema.unit == "user":
            new_episode = new_unit | _changes(frame["episode"])
            owned &= frame["episode"].is_not_null()
        starts = np.flatnonzero(new_episode)
        first = new_unit[starts] & unit.is_not_null().to_numpy()[starts]
        units, places, number = slots(first, owned.to_numpy()[starts], self.schema.max_episodes_per_user or 1)
        columns = {
            name: np.ascontiguousarray(frame[name].to_numpy()) for name in self._codes.names if name in frame.columns
        }
        return Part(
            starts=np.append(starts, frame.height).astype(np.int64),
            units=units.astype(np.int64),
            slots=places.astype(np.int64),
            number=number,
            steps=columns["step"],
            states=columns["state"],
            actions=columns["action"],
            rewards=columns["reward"],
            next_states=columns.get("next_state"),
            raw=frame if raw else None,
        )


def _changes(column: polars.Series) -> NDArray[np.bool_]:
    """Where a sorted column's runs begin."""
    found = column.ne_missing(column.shift()).to_numpy().copy()
    found[:1] = True  # a null at the head is like the null before it
    return found
