"""Plain arrays, `.npz` files, rollouts and Minari data sets: episodes that come one after the other, without tables."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacit.offline.parts import DatasetError, Part
from tacit.offline.schema import Schema
from tacit.statistics.reading import silence

__all__ = ["Arrays", "minari_episodes", "npz_arrays"]

_ROWS = 1_000_000


class _Columns(NamedTuple):
    """Some episodes as rows, and where each begins."""

    starts: NDArray[np.int64]
    steps: NDArray[np.int32]
    states: NDArray[np.int32]
    actions: NDArray[np.int32]
    rewards: NDArray[np.float64]
    next_states: NDArray[np.int32] | None


class Arrays:
    """States (n, L) or (n, L+1), actions and rewards (n, L); or lists of n episodes of any lengths.

    As arrays they have a shape, which is no single person's, and has to fit. In lists every episode stands for itself:
    what is none is ⊥.
    """

    def __init__(self, states: Any, actions: Any, rewards: Any, schema: Schema, *, name: str) -> None:
        if schema.unit == "user":
            raise DatasetError(f"{name} do not tell users apart, and the schema bounds the episodes of each")
        if schema.encodings:
            raise DatasetError(f"{name} hold the numbers of states and actions; encodings are for columns of tables")
        columns = {"states": states, "actions": actions, "rewards": rewards}
        self.schema, self.name = schema, name
        self._ragged = any(not isinstance(each, np.ndarray) or each.dtype.kind == "O" for each in columns.values())
        try:
            sizes = {len(each) for each in columns.values()}
        except TypeError:
            raise DatasetError(f"{name}: states, actions and rewards are arrays or lists of episodes") from None
        if len(sizes) != 1:
            raise DatasetError(f"{name}: states, actions and rewards must be of as many episodes")
        (self.units,) = sizes
        if not self.units:
            raise DatasetError(f"{name} are empty: there are no episodes")
        self._columns = (states, actions, rewards)
        if not self._ragged:
            self._check_shapes()

    def parts(self, *, raw: bool = False) -> Iterator[Part]:
        """All episodes, each once."""
        length = self.schema.spec.horizon if self._ragged else self._columns[1].shape[1]
        size = max(1, _ROWS // max(length, 1))
        for first in range(0, self.units, size):
            some = [column[first : first + size] for column in self._columns]
            with silence():
                columns = _of_lists(some) if self._ragged else _of_arrays(some)
            number = len(columns.starts) - 1
            yield Part(
                units=np.arange(number),
                slots=np.zeros(number, dtype=np.int64),
                number=number,
                raw=first if raw else None,  # the number of its first episode
                **columns._asdict(),
            )

    def _check_shapes(self) -> None:
        H = self.schema.spec.horizon
        names = ("states", "actions", "rewards")
        for name, column in zip(names, self._columns, strict=True):
            if column.ndim != 2:
                raise DatasetError(f"{self.name}: {name} must have the axes episodes and steps; got {column.shape}")
            if column.dtype.kind not in "biuf":
                raise DatasetError(f"{self.name}: {name} must be numbers; got {column.dtype}")
        told, length, paid = (column.shape[1] for column in self._columns)
        if paid != length or told not in (length, length + 1):
            raise DatasetError(
                f"{self.name}: there must be as many rewards as actions, and as many states or one more; "
                f"got {told} states, {length} actions, {paid} rewards"
            )
        if self.schema.end_state is None and told < H + 1:
            raise DatasetError(
                f"{self.name}: episodes have {length} actions and {told} states; {H} and {H + 1} are wanted, "
                "or an end_state in the schema"
            )


def npz_arrays(path: Path) -> tuple[Any, Any, Any]:
    """States, actions and rewards of a file that `numpy.savez` wrote."""
    names = ("states", "actions", "rewards")
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            missing = [name for name in names if name not in archive.files]
            if missing:
                raise DatasetError(f"{path} has no array {missing[0]!r}; it has {', '.join(archive.files)}")
            return archive["states"], archive["actions"], archive["rewards"]
    except DatasetError:
        raise
    except OSError as error:
        raise DatasetError(f"{path} cannot be read: {error.strerror or 'it is no .npz file'}") from None
    except Exception:  # zipfile, zlib and NumPy have many ways to say so
        raise DatasetError(f"{path} cannot be read: it is cut off, damaged, or no .npz file of numbers") from None


def minari_episodes(dataset: Any, schema: Schema) -> tuple[list[Any], list[Any], list[Any]]:
    """States, actions and rewards of a Minari data set with Discrete spaces, or of one by its name."""
    if isinstance(dataset, str):
        try:
            minari = import_module("minari")
        except ImportError:
            raise DatasetError("Minari is not installed: pip install minari") from None
        dataset = minari.load_dataset(dataset)
    spaces = (dataset.observation_space, dataset.action_space)
    declared = (schema.spec.states, schema.spec.actions)
    firsts = []
    for what, space, count in zip(("observations", "actions"), spaces, declared, strict=True):
        if not isinstance(getattr(space, "n", None), int | np.integer):
            raise DatasetError(f"the {what} of this data set are no Discrete space, but {space}")
        own = count - (1 if what == "observations" and schema.end_state is not None else 0)
        if int(space.n) not in (own, count):
            raise DatasetError(f"this data set has {space.n} {what}, and the schema declares {count}")
        firsts.append(int(getattr(space, "start", 0)))
    states, actions, rewards = [], [], []
    for episode in dataset.iterate_episodes():
        states.append(_shifted(episode.observations, firsts[0]))
        actions.append(_shifted(episode.actions, firsts[1]))
        rewards.append(episode.rewards)
    return states, actions, rewards


def _shifted(values: Any, first: int) -> Any:
    with contextlib.suppress(Exception):  # it will be ⊥
        return np.asarray(values) - first
    return None


def _of_arrays(columns: Sequence[NDArray[Any]]) -> _Columns:
    states, actions, rewards = columns
    number, length = actions.shape
    told = states.shape[1] > length
    return _Columns(
        starts=np.arange(number + 1, dtype=np.int64) * length,
        steps=np.tile(np.arange(length, dtype=np.int32), number),
        states=_codes(states[:, :length]),
        actions=_codes(actions),
        rewards=np.ascontiguousarray(rewards, dtype=np.float64).ravel(),
        next_states=_codes(states[:, 1:]) if told else None,
    )


def _of_lists(columns: Sequence[Any]) -> _Columns:
    found = [_episode(*each) for each in zip(*columns, strict=True)]
    starts = np.concatenate([[0], np.cumsum([len(steps) for steps, *_ in found])])
    steps, states, actions, rewards, after = (np.concatenate(column) for column in zip(*found, strict=True))
    return _Columns(starts.astype(np.int64), steps, states, actions, rewards, after)


_BOTTOM = (
    np.array([-1], dtype=np.int32),
    np.array([-1], dtype=np.int32),
    np.array([-1], dtype=np.int32),
    np.array([np.nan]),
    np.array([-1], dtype=np.int32),
)
"""One row that makes an episode ⊥."""


def _episode(states: Any, actions: Any, rewards: Any) -> tuple[NDArray[Any], ...]:
    """One episode's rows, whatever it is."""
    try:
        visited, chosen, paid = (np.asarray(each) for each in (states, actions, rewards))
        if any(each.ndim != 1 or each.dtype.kind not in "biuf" for each in (visited, chosen, paid)):
            return _BOTTOM
        length = len(chosen)
        if not length or len(paid) != length or len(visited) not in (length, length + 1):
            return _BOTTOM
        after = np.full(length, -2, dtype=np.int32)
        after[: len(visited) - 1] = _codes(visited[1:])
        steps = np.arange(length, dtype=np.int32)
        return steps, _codes(visited[:length]), _codes(chosen), paid.astype(np.float64), after
    except Exception:  # anything may have been sent, and no one may notice
        return _BOTTOM


def _codes(values: NDArray[Any]) -> NDArray[np.int32]:
    """Whole numbers from 0 on as they are, anything else −1."""
    good = (values >= 0) & (values <= np.iinfo(np.int32).max)
    if values.dtype.kind == "f":
        good &= values == np.floor(values)
    whole = np.where(good, values, 0).astype(np.int32)
    return np.ascontiguousarray(np.where(good, whole, -1), dtype=np.int32).ravel()
