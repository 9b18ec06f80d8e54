"""A data set of logged episodes: whatever it was kept in, batches of trajectories come out."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from tacit.mdp.spec import EpisodeSpec
from tacit.mdp.trajectories import Trajectories
from tacit.offline.arrays import Arrays, minari_episodes, npz_arrays
from tacit.offline.parts import DatasetError, ahead, assembled
from tacit.offline.schema import Schema
from tacit.offline.tables import ROWS, Table
from tacit.statistics.reading import silence

if TYPE_CHECKING:
    from tacit.offline.checking import Problem

__all__ = ["Dataset"]

_SUFFIXES = (".parquet", ".csv", ".npz")
_STEPS_AT_A_TIME = 500_000


class Dataset:
    """Episodes of people, and what their owner declares about them.

    Made by `open`, `from_frame`, `from_arrays`, `from_trajectories` or `from_minari`. That fails on what is no single
    person's doing: a missing file or column, columns of another type, a container that cannot be read, no rows at all.
    Everything else is read in one way, silently:

    - rows may be in any order, within a file and over files;
    - steps from H on are cut; the state at step H tells where step H − 1 led;
    - shorter episodes are completed with the schema's end state, wherever their last row says they led;
    - `next_state` has to be the next row's state; it may be missing in an episode's last row. Where it is, and no row
      of step H is there, an episode of H steps led to the end state;
    - an episode is ⊥, the empty contribution, and keeps its place, if one of its rows below step H has a state or
      action outside the schema or a reward that is not a number, if a step is there twice or left out, if next states
      contradict, and if it is short, or its last next state unknown, without an end state. So without one, and without
      a column of next states, episodes need H + 1 rows;
    - rewards stay as they are: statistics clamp them.

    `check` tells the owner, outside of any guarantee, where that happens.

    The column `episode` tells whose a row is, or `user` if the schema bounds the episodes of each; then an episode is a
    user's own, whatever other users call theirs. It is the owner's numbering: how many there are is public, and nobody
    else's rows may carry it. Rows without belong to nobody, and are left out. Of a user's episodes the first m in the
    order of `episode` are read: that looks at no value, and at nobody else, so what one user sends changes her own m
    places at most.

    **The order of places follows everybody's rows**: one person's can move all others'. A sum over all places does not
    mind. Whatever does mind, such as a counter that releases prefixes, or halves of the data, has no guarantee on a
    data set; give it trajectories in an order that no person can change.

    A CSV file must have been written by a program that quotes: one cell with a quotation mark that is never closed
    swallows the rows of others, or makes the file unreadable.

    Examples
    --------
    >>> import polars
    >>> frame = polars.DataFrame({
    ...     "episode": ["ann", "ann", "bob", "bob"], "step": [0, 1, 1, 0], "state": [0, 1, 1, 0],
    ...     "action": [1, 0, 0, 9], "reward": [0.0, 1.0, 0.5, 0.5], "next_state": [1, 0, 1, 1],
    ... })
    >>> data = Dataset.from_frame(frame, Schema(spec=EpisodeSpec(states=2, actions=2, horizon=2)))
    >>> batch = next(data.batches())
    >>> batch.states[0].tolist()
    [[0, 1, 0], [-1, -1, -1]]
    >>> print(*data.check())
    row 3, episode bob, action: 9 is none of 0..1; the episode counts as empty
    """

    def __init__(self, source: Table | Arrays, *, identity: str | None = None) -> None:
        self._source, self._identity = source, identity

    @classmethod
    def open(
        cls, path: Path | str | Sequence[Path | str], schema: Schema | EpisodeSpec, *, rows_at_a_time: int = ROWS
    ) -> Dataset:
        """A file by its suffix: `.parquet`, `.csv` or `.npz` (states, actions, rewards); several, or a folder, as one.

        Parquet is read part by part, so it may be larger than memory. Of a CSV file the codes are kept in memory.
        """
        paths = _files(path)
        name, schema = str(paths[0]) if len(paths) == 1 else f"{len(paths)} files", _schema(schema)
        suffix = paths[0].suffix.lower()
        if suffix == ".npz":
            if len(paths) > 1:
                raise DatasetError("several .npz files cannot be opened as one")
            own = _identity(paths, schema, 0)
            return cls(Arrays(*npz_arrays(paths[0]), schema, name=f"the arrays of {name}"), identity=own)
        own = _identity(paths, schema, rows_at_a_time)
        return cls(_table(paths, suffix, schema, name, rows_at_a_time), identity=own)

    @classmethod
    def from_frame(cls, frame: Any, schema: Schema | EpisodeSpec, *, rows_at_a_time: int = ROWS) -> Dataset:
        """A frame of Polars (a lazy one, too), of pandas, or anything that streams Arrow, such as a PyArrow table."""
        import polars

        from tacit.offline.columns import told

        schema = _schema(schema)
        untyped: Sequence[str] = ()
        if not isinstance(frame, polars.LazyFrame):
            with told("the frame"):
                frame, untyped = _as_polars(frame, schema)
        return cls(Table(frame.lazy(), schema, name="the frame", untyped=untyped, rows=rows_at_a_time))

    @classmethod
    def from_arrays(cls, states: Any, actions: Any, rewards: Any, schema: Schema | EpisodeSpec) -> Dataset:
        """States (n, H+1), actions and rewards (n, H), or lists of n episodes of any lengths."""
        return cls(Arrays(states, actions, rewards, _schema(schema), name="the arrays"))

    @classmethod
    def from_trajectories(cls, trajectories: Trajectories, schema: Schema | EpisodeSpec) -> Dataset:
        """Rollouts (runs, episodes, …); the episodes of all runs are one data set."""
        if any(np.ndim(column) != 3 for column in trajectories):
            raise DatasetError("trajectories have the axes runs, episodes and steps")
        states, actions, rewards = (np.reshape(column, (-1, np.shape(column)[-1])) for column in trajectories)
        return cls.from_arrays(states, actions, rewards, schema)

    @classmethod
    def from_minari(cls, dataset: Any, schema: Schema | EpisodeSpec) -> Dataset:
        """A Minari data set with Discrete spaces, or one by its name (that needs `pip install minari`)."""
        declared = _schema(schema)
        return cls(Arrays(*minari_episodes(dataset, declared), declared, name="the episodes"))

    @property
    def schema(self) -> Schema:
        """What is declared."""
        return self._source.schema

    @property
    def spec(self) -> EpisodeSpec:
        """The public shape of an episode."""
        return self.schema.spec

    @property
    def unit(self) -> Literal["episode", "user"]:
        """Whose privacy is at stake."""
        return "user" if self.schema.unit == "user" else "episode"

    @property
    def identity(self) -> str | None:
        """What tells these files from others, and from themselves after a change; None for what is no file.

        The order of places is the same for the same identity.
        """
        return self._identity

    @property
    def per_user(self) -> int | None:
        """m, the places of each user; None where the unit is the episode."""
        return self.schema.max_episodes_per_user

    @property
    def units(self) -> int:
        """How many users there are, or episodes, if these are the units. Tables are looked through for it once."""
        return self._source.units

    @property
    def episodes(self) -> int:
        """How many places there are: one for each episode, or m for each user."""
        return self.units * (self.per_user or 1)

    def batches(self, size: int | None = None) -> Iterator[Trajectories]:
        """All places, `size` at a time or fewer, (1, n, …): int32 with −1, and NaN rewards, where an episode is ⊥.

        The m places of a user follow each other, in one batch.
        """
        for part in ahead(self._source.parts()):
            for found in assembled(part, self.schema, at_a_time=size or max(1, _STEPS_AT_A_TIME // self.spec.horizon)):
                yield found.trajectories

    def check(self, limit: int | None = None) -> list[Problem]:
        """What is clamped, cut, completed or dropped, up to `limit`. **Outside the guarantee**, for the owner only."""
        from itertools import islice

        from tacit.offline.checking import problems

        return list(islice(problems(self._source), limit))

    def __repr__(self) -> str:
        return f"Dataset({self._source.name}: {self.spec})"


def _identity(paths: list[Path], schema: Schema, rows: int) -> str:
    """Names, sizes and times of files, how they are read, and by which Polars: its hashes order the places."""
    import polars

    files = [(str(path.resolve()), path.stat().st_size, path.stat().st_mtime_ns) for path in paths]
    told = json.dumps([files, schema.to_json(), rows, polars.__version__])
    return hashlib.sha256(told.encode()).hexdigest()


def _schema(schema: Schema | EpisodeSpec) -> Schema:
    return Schema(spec=schema) if isinstance(schema, EpisodeSpec) else schema


def _files(path: Path | str | Sequence[Path | str]) -> list[Path]:
    """The files, all of one kind."""
    given = [Path(path)] if isinstance(path, Path | str) else [Path(each) for each in path]
    found: list[Path] = []
    for each in given:
        if not each.exists():
            raise DatasetError(f"there is no file {each}")
        found += (
            sorted(file for file in each.iterdir() if file.suffix.lower() in _SUFFIXES) if each.is_dir() else [each]
        )
    if not found:
        raise DatasetError(
            f"there are no {', '.join(_SUFFIXES)} files in {', '.join(map(str, given)) or 'an empty list'}"
        )
    suffixes = {file.suffix.lower() for file in found}
    if len(suffixes) != 1 or not suffixes <= set(_SUFFIXES):
        raise DatasetError(
            f"files must be all of one kind out of {', '.join(_SUFFIXES)}; got {', '.join(sorted(suffixes))}"
        )
    return found


def _table(paths: list[Path], suffix: str, schema: Schema, name: str, rows: int) -> Table:
    import polars

    from tacit.offline.columns import told

    with told(name):
        if suffix == ".parquet":
            return Table(polars.scan_parquet(paths, glob=False), schema, name=name, rows=rows)
        files = [
            polars.scan_csv(
                file,
                infer_schema=False,
                truncate_ragged_lines=True,
                encoding="utf8-lossy",
                glob=False,
                raise_if_empty=False,
            )
            for file in paths
        ]
        columns = list(files[0].collect_schema())
        if not columns:
            raise DatasetError(f"{name} is empty: it has no columns")
        lazy = polars.concat([file.select(columns) for file in files])
        return Table(lazy, schema, name=name, untyped=columns, kept=True, rows=rows)


def _as_polars(frame: Any, schema: Schema) -> tuple[Any, Sequence[str]]:
    """A frame of whatever kind as Polars's, and which columns may hold anything."""
    import polars

    if isinstance(frame, polars.DataFrame):
        return frame, ()
    if type(frame).__module__.split(".")[0] == "pandas":
        return _of_pandas(frame, schema)
    if hasattr(frame, "__arrow_c_stream__"):
        return polars.DataFrame(frame), ()
    raise DatasetError(f"a frame is Polars's, pandas's or Arrow's; got {type(frame).__name__}")


def _of_pandas(frame: Any, schema: Schema) -> tuple[Any, Sequence[str]]:
    """Numbers as they are, anything else as text: what pandas calls a column depends on every value in it."""
    import polars

    wanted = {column for names in schema.roles.values() for column in names}
    # Whose a row is is always text: pandas would make it numbers or objects by what everybody sent.
    labels = {column for role in ("episode", "user") for column in schema.roles.get(role, ())}
    columns: dict[str, Any] = {}
    untyped: list[str] = []
    for name in frame.columns:
        if name not in wanted or name in columns:
            continue
        values = frame[name].to_numpy()
        if values.ndim != 1:
            raise DatasetError(f"the frame has several columns {name!r}")
        if values.dtype.kind in "biuf" and values.dtype.itemsize <= 8 and name not in labels:
            columns[name] = polars.Series(
                name, values.astype(np.float64) if values.dtype.kind == "f" else np.ascontiguousarray(values)
            )
        else:
            with silence():
                columns[name] = polars.Series(name, [_text(value) for value in values], dtype=polars.String)
            untyped.append(name)
    return polars.DataFrame(list(columns.values())), untyped


def _text(value: Any) -> str | None:
    """A value as text; None if it is missing, or cannot be written."""
    try:
        missing = value is None or value != value or type(value).__name__ in ("NAType", "NaTType")
        text = None if missing else str(value)
        if text is not None:
            text.encode()
        return text
    except Exception:  # anything may be in there, and no one may notice
        return None
