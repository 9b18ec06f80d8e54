"""The raw columns of a table as codes: Polars expressions, made of the schema and the columns' types alone.

Nothing here can fail on a value. What cannot be read becomes −1, a reward NaN; a next state that is missing becomes −2.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from tacit.offline.encodings import Bins, Categories, Encoding
from tacit.offline.parts import DatasetError
from tacit.offline.schema import Schema

if TYPE_CHECKING:
    import polars

__all__ = ["ROW", "Codes", "told"]

ROW = "tacit:row"
"""The number of a row, in tables that have it."""

_BLANK = ("", "nan", "null", "none", "na", "<na>")
"""How a missing next state is written in text."""


@contextlib.contextmanager
def told(name: str) -> Iterator[None]:
    """What Polars says about a file may quote it, so it is said in words of ours."""
    import polars

    errors = polars.exceptions
    try:
        yield
    except OSError as error:
        raise DatasetError(f"{name} cannot be read: {error.strerror or 'no such file'}") from None
    except (errors.PolarsError, errors.PanicException):
        raise DatasetError(
            f"{name} cannot be read: it is cut off, damaged, of another format, or made of files that differ in columns"
        ) from None


class Codes:
    """Expressions for `unit`, `step`, `state`, `action`, `reward`, and where there are any `episode`, `next_state`.

    `types` are the table's columns and their types; an error tells what does not fit. Columns in `untyped` may hold
    anything.
    """

    def __init__(
        self, types: Mapping[str, polars.DataType], schema: Schema, *, untyped: Collection[str], name: str
    ) -> None:
        import polars

        self._pl, self._types, self._schema, self._untyped, self._name = polars, types, schema, untyped, name
        roles = dict(schema.roles)
        if schema.next_state_optional and not set(roles.get("next_state", ())) <= set(types):
            roles.pop("next_state", None)
        self.roles = roles
        for role, columns in roles.items():
            for column in columns:
                if column not in types:
                    raise DatasetError(
                        f"{name} has no column {column!r}, where the schema finds the {role.replace('_', ' ')}; "
                        f"it has {', '.join(repr(each) for each in types)}"
                    )
        self.owner = roles["user" if "user" in roles else "episode"][0]
        (self._episode,) = roles["episode"]
        self.unit = self._label(self.owner).alias("unit")
        found = {"step": self._step(), "reward": self._reward()}
        for role in ("state", "action", "next_state"):
            if role in roles:
                found[role] = self._code(role)
        self._codes = found

    @property
    def names(self) -> tuple[str, ...]:
        """The codes that there are."""
        return tuple(self._codes)

    @property
    def episode_order(self) -> list[Any]:
        """What a user's episodes are sorted by: numbers by size, text by length first, so that 9 comes before 10."""
        episode = self._pl.col("episode")
        if self._is_text(self._episode):
            return [episode.str.len_bytes(), episode]
        return [episode]

    def expressions(self, raw: bool) -> list[Any]:
        """All of it; `raw` adds the row's number, and the columns as they are under the names `raw:…`."""
        found = [self.unit, *(code.alias(name) for name, code in self._codes.items())]
        if raw or self._schema.unit == "user":
            found.append(self._label(self._episode).alias("episode"))
        if raw:
            found += [self._pl.col(ROW).alias("row"), *(self._pl.col(each).alias(f"raw:{each}") for each in self.raw)]
        return found

    @property
    def raw(self) -> list[str]:
        """The columns that hold states, actions, rewards and steps."""
        roles = ("step", "state", "action", "reward", "next_state")
        return [column for role in roles for column in self.roles.get(role, ())]

    # Types

    def _is_text(self, column: str) -> bool:
        pl = self._pl
        return column in self._untyped or self._types[column] in (pl.String, pl.Categorical, pl.Enum)

    def _refuse(self, column: str, wanted: str) -> DatasetError:
        held = self._types[column]
        return DatasetError(f"{self._name}: column {column!r} holds {held}, and the schema wants {wanted} there")

    def _number(self, column: str, *, what: str) -> Any:
        """A column of numbers, as it is or out of text; unreadable text is null."""
        held, pl = self._types[column], self._pl
        if column in self._untyped:
            text = pl.col(column).cast(pl.String, strict=False).str.strip_chars().str.to_lowercase()
            flags = pl.when(text == "true").then(1.0).when(text == "false").then(0.0)
            return flags.otherwise(text.cast(pl.Float64, strict=False))
        if held == pl.Null:
            return pl.col(column).cast(pl.Float64)
        if held == pl.Boolean:
            return pl.col(column).cast(pl.Int32)
        if not held.is_numeric():
            raise self._refuse(column, what)
        return pl.col(column).cast(pl.Float64) if held.is_decimal() else pl.col(column)

    def _is_float(self, column: str) -> bool:
        held = self._types[column]
        return column in self._untyped or held == self._pl.Null or held.is_float() or held.is_decimal()

    def _label(self, column: str) -> Any:
        """Whose a row is; null and NaN are nobody."""
        held, pl = self._types[column], self._pl
        if self._is_text(column):
            return pl.col(column).cast(pl.String)
        if held.is_float():
            return pl.col(column).fill_nan(None)
        if held.is_integer() or held.is_temporal() or held in (pl.Boolean, pl.Null):
            return pl.col(column)
        raise self._refuse(column, "numbers or text that tell episodes or users apart")

    # Codes

    def _step(self) -> Any:
        (column,), H = self.roles["step"], self._schema.spec.horizon
        pl, first = self._pl, self._schema.first_step
        step = self._number(column, what="whole numbers")
        if self._is_float(column):
            step = pl.when(step == step.floor()).then(step)  # NaN is cast to null below
        held = step.clip(first - 1, first + H + 1) - first
        if not self._is_float(column):
            held = step.cast(pl.Int64, strict=False).clip(first - 1, first + H + 1) - first
        return held.cast(pl.Int32, strict=False).fill_null(-1)

    def _reward(self) -> Any:
        reward = self._number(self.roles["reward"][0], what="numbers")
        return reward.cast(self._pl.Float64).fill_null(float("nan"))

    def _code(self, role: str) -> Any:
        """The state's or the action's number, made up of all its columns."""
        columns = self.roles[role]
        code = None
        for column in columns:
            encoding = self._schema.encoding(role, column)
            digit = self._whole(column) if encoding is None else self._encoded(column, encoding)
            code = digit if code is None or encoding is None else code * encoding.size + digit
        assert code is not None
        code = code.fill_null(-1)
        if role != "next_state":
            return code
        code = self._pl.when(code < 0).then(self._pl.lit(-1, self._pl.Int32)).otherwise(code)  # −2 has a meaning below
        missing = self._pl.all_horizontal([self._missing(column) for column in columns])
        return self._pl.when(missing).then(self._pl.lit(-2, self._pl.Int32)).otherwise(code)

    def _whole(self, column: str) -> Any:
        value = self._number(column, what="whole numbers from 0 on, or a declared encoding of it")
        if self._is_float(column):
            value = self._pl.when(value == value.floor()).then(value)
        return value.cast(self._pl.Int32, strict=False)

    def _encoded(self, column: str, encoding: Encoding) -> Any:
        pl = self._pl
        if isinstance(encoding, Bins):
            value = self._number(column, what="numbers, for its encoding is bins")
            value = value.cast(pl.Float64).fill_nan(None)
            return pl.sum_horizontal([(value >= edge).cast(pl.Int32) for edge in encoding.edges], ignore_nulls=False)
        value, kinds = self._category(column, encoding)
        numbers = list(range(encoding.size))
        return value.replace_strict(list(kinds), numbers, default=None, return_dtype=pl.Int32)

    def _category(self, column: str, encoding: Categories) -> tuple[Any, list[Any]]:
        pl, held = self._pl, self._types[column]
        null = held == pl.Null
        if encoding.kind == "text":
            if not (self._is_text(column) or null):
                raise self._refuse(column, "text, as its categories are")
            return pl.col(column).cast(pl.String), list(encoding.values)
        if encoding.kind == "flag" and not (column in self._untyped or null or held == pl.Boolean):
            raise self._refuse(column, "true and false, as its categories are")
        value = self._number(column, what="numbers, as its categories are").cast(pl.Float64)
        return value, [float(each) for each in encoding.values]

    def _missing(self, column: str) -> Any:
        pl = self._pl
        found = pl.col(column).is_null()
        if column in self._untyped:
            text = pl.col(column).cast(pl.String, strict=False).str.strip_chars().str.to_lowercase()
            encoding = self._schema.encoding("next_state", column)
            known = {str(each).lower() for each in encoding.values} if isinstance(encoding, Categories) else set()
            return found | text.is_in([blank for blank in _BLANK if blank not in known])
        return found | pl.col(column).is_nan() if self._types[column].is_float() else found
