"""Two doors for what people send: `read` in private paths, `check` for the owner of the raw data.

`read` never raises, logs or counts anything that depends on a value. Rewards are clamped to the declared range (±∞
included). An episode that cannot be read is ⊥, the empty contribution, and keeps its index: wrong lengths, states or
actions that are no whole numbers in their range, a reward that is not a number. `check` tells the owner, outside of any
guarantee, which rows those are.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacit.mdp.spec import EpisodeSpec, MomentBound
from tacit.mdp.trajectories import Trajectories

__all__ = ["Episodes", "Problem", "check", "numbers", "read", "silence"]


class Episodes(NamedTuple):
    """Readable trajectories: states (runs, n, H+1), actions and rewards (runs, n, H), and which are not ⊥.

    Rewards are scaled to [0, 1] where the spec declares a range. ⊥ holds zeros.
    """

    states: NDArray[np.int64]
    actions: NDArray[np.int64]
    rewards: NDArray[np.float64]
    readable: NDArray[np.bool_]

    @property
    def runs(self) -> int:
        """The first axis."""
        return int(self.readable.shape[0])

    @property
    def number(self) -> int:
        """Episodes of each run, ⊥ included."""
        return int(self.readable.shape[1])

    def part(self, first: int, last: int) -> Episodes:
        """Episodes first, …, last − 1."""
        if last - first == self.number:
            return self
        some = slice(first, last)
        return Episodes(self.states[:, some], self.actions[:, some], self.rewards[:, some], self.readable[:, some])


class Problem(NamedTuple):
    """One thing wrong in raw data: where, and what becomes of it."""

    run: int
    episode: int
    column: str
    step: int | None
    what: str

    def __str__(self) -> str:
        at = f"episode {self.episode}, {self.column}"
        return f"{at}: {self.what}" if self.step is None else f"{at}, step {self.step}: {self.what}"


def read(raw: Trajectories | Sequence[Any], spec: EpisodeSpec) -> Episodes:
    """Trajectories (runs, episodes, …), or one run's episodes, each (states, actions, rewards) or None."""
    if isinstance(raw, Trajectories) and _is_as_rolled_out(raw, spec):
        return _clean(raw, spec)
    with silence():
        columns = _columns(raw, spec)
        if columns is None:
            columns = tuple(column[None] for column in _filled(raw, spec))  # type: ignore[assignment]
        return _clean(columns, spec)  # type: ignore[arg-type]


def check(raw: Trajectories | Sequence[Any], spec: EpisodeSpec) -> list[Problem]:
    """Everything that `read` would clamp or drop. **Outside the guarantee**: for the owner of the raw data only."""
    with silence():
        columns = _columns(raw, spec)
    if columns is not None:
        return [
            problem
            for run in range(columns[0].shape[0])
            for episode in range(columns[0].shape[1])
            for problem in _problems(tuple(column[run, episode] for column in columns), spec, run, episode)
        ]
    found: list[Problem] = []
    for episode, item in enumerate(raw):
        found.extend(_problems_of_one(item, spec, episode))
    return found


_Columns = tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]


def _columns(raw: Trajectories | Sequence[Any], spec: EpisodeSpec) -> _Columns | None:
    """A well-shaped batch as numbers; None if it has to be looked at episode by episode."""
    if not isinstance(raw, Trajectories):
        return None
    lengths = (spec.horizon + 1, spec.horizon, spec.horizon)
    try:
        columns = tuple(_floats(column) for column in raw)
    except Exception:  # ragged, or no numbers: whosever fault it is, the others are read
        return _one_by_one(raw, spec)
    batch = columns[1].shape[:2]
    if any(column.ndim != 3 for column in columns):
        if any(isinstance(column, np.ndarray) and column.dtype.kind in "biuf" and column.ndim != 3 for column in raw):
            raise ValueError(_AXES)
        return _one_by_one(raw, spec)  # lists: the outer two levels are the caller's, and what is inside a person's
    if any(column.shape[:2] != batch for column in columns):
        raise ValueError(_SAME)
    if any(column.shape[2] != length for column, length in zip(columns, lengths, strict=True)):
        return tuple(np.full((*batch, length), np.nan) for length in lengths)  # type: ignore[return-value]
    return columns  # type: ignore[return-value]


_AXES = "a batch of trajectories has the axes runs, episodes and steps"
_SAME = "states, actions and rewards of a batch must be of the same runs and episodes"


def _one_by_one(raw: Trajectories, spec: EpisodeSpec) -> _Columns:
    """A batch that is no array of numbers: what one person sent makes nobody else unreadable, and nothing raise."""
    try:
        sizes = {tuple(len(run) for run in column) for column in raw}
    except TypeError:
        raise ValueError(_AXES) from None
    if len(sizes) != 1 or len(set(next(iter(sizes)))) != 1:
        raise ValueError(_SAME)
    people = [episode for runs in zip(*raw, strict=True) for episode in zip(*runs, strict=True)]
    (runs,) = sizes
    return tuple(column.reshape(len(runs), runs[0], -1) for column in _filled(people, spec))  # type: ignore[return-value]


@contextlib.contextmanager
def silence() -> Iterator[None]:
    """No warning is given of what somebody sent, whatever the process wants to hear otherwise."""
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        yield


def _is_as_rolled_out(raw: Trajectories, spec: EpisodeSpec) -> bool:
    """Whether there is nothing to convert, as in what worlds hand over: then NumPy cannot have anything to say."""
    if any(type(column) is not np.ndarray for column in raw):
        return False
    (states, actions, rewards), H = raw, spec.horizon
    if states.dtype != np.int32 or actions.dtype != np.int32 or rewards.dtype != np.float64:
        return False
    batch = rewards.shape[:2]
    return states.shape == (*batch, H + 1) and actions.shape == (*batch, H) and rewards.shape == (*batch, H)


def _floats(values: Any) -> NDArray[np.float64]:
    """Real numbers, or an exception; NumPy alone would take the real part of complex ones."""
    array = np.asarray(values)
    if array.dtype.kind not in "biufOSU":
        raise TypeError(f"{array.dtype} is no real number")
    return np.asarray(array, dtype=np.float64)


def numbers(column: Any, shape: tuple[int, ...]) -> NDArray[np.float64]:
    """People's arrays of this shape as numbers, (runs, episodes, *shape); who sends anything else becomes NaN.

    An array of numbers is taken as a whole. Of lists, the outer two levels are the caller's, the rest is a person's.
    """
    if isinstance(column, np.ndarray) and column.dtype.kind in "biuf":
        return np.asarray(column, dtype=np.float64)
    try:
        runs = [list(run) for run in column]
    except TypeError:
        raise ValueError(_AXES) from None
    if len({len(run) for run in runs}) != 1:
        raise ValueError(_SAME)
    found = np.full((len(runs), len(runs[0]), *shape), np.nan)
    for run, people in enumerate(runs):
        for episode, sent in enumerate(people):
            with contextlib.suppress(Exception):
                array = _floats(sent)
                if array.shape == shape:
                    found[run, episode] = array
    return found


def _clean(columns: _Columns | Trajectories, spec: EpisodeSpec) -> Episodes:
    from tacit.statistics._kernels import clean

    states, actions, rewards = (np.ascontiguousarray(column) for column in columns)
    scaled = not isinstance(spec.rewards, MomentBound)
    low, high = (-np.inf, np.inf) if isinstance(spec.rewards, MomentBound) else spec.rewards
    episodes = Episodes(
        np.empty(states.shape, dtype=np.int64),
        np.empty(actions.shape, dtype=np.int64),
        np.empty(rewards.shape),
        np.empty(rewards.shape[:2], dtype=np.bool_),
    )
    clean(states, actions, rewards, spec.states, spec.actions, low, high, scaled, *episodes)
    return episodes


def _filled(people: Sequence[Any], spec: EpisodeSpec) -> _Columns:
    """(people, steps) of each column; NaN for whoever cannot be read."""
    lengths = (spec.horizon + 1, spec.horizon, spec.horizon)
    batch = tuple(np.full((len(people), length), np.nan) for length in lengths)
    for episode, item in enumerate(people):
        parts = _parts(item)
        if parts is None or any(part.shape != (length,) for part, length in zip(parts, lengths, strict=True)):
            continue
        for column, part in zip(batch, parts, strict=True):
            column[episode] = part
    return batch  # type: ignore[return-value]


def _parts(item: Any) -> _Columns | None:
    """An episode's columns as numbers, whatever was sent; None if that cannot be."""
    try:
        states, actions, rewards = item
        return _floats(states), _floats(actions), _floats(rewards)
    except Exception:  # anything at all may have been sent, and no one may notice
        return None


def _whole(values: NDArray[np.float64], count: int) -> NDArray[np.bool_]:
    return np.asarray((values >= 0) & (values < count) & (values == np.floor(values)))


def _problems_of_one(item: Any, spec: EpisodeSpec, episode: int) -> list[Problem]:
    with silence():
        parts = _parts(item)
    if parts is None:
        return [
            Problem(0, episode, "episode", None, "is not (states, actions, rewards) in numbers; it counts as empty")
        ]
    names = ("states", "actions", "rewards")
    lengths = (spec.horizon + 1, spec.horizon, spec.horizon)
    wrong = [
        Problem(
            0, episode, name, None, f"has shape {part.shape} where ({length},) is declared; the episode counts as empty"
        )
        for name, part, length in zip(names, parts, lengths, strict=True)
        if part.shape != (length,)
    ]
    return wrong or _problems(parts, spec, 0, episode)


def _problems(parts: tuple[NDArray[np.float64], ...], spec: EpisodeSpec, run: int, episode: int) -> list[Problem]:
    found = []
    for column, values, count in zip(("states", "actions"), parts, (spec.states, spec.actions), strict=False):
        with np.errstate(invalid="ignore"):
            bad = np.flatnonzero(~_whole(values, count))
        for step in bad:
            what = f"{values[step]:g} is none of 0..{count - 1}; the episode counts as empty"
            found.append(Problem(run, episode, column, int(step), what))
    rewards = parts[2]
    what = "is not a number; the episode counts as empty"
    found.extend(Problem(run, episode, "rewards", int(step), what) for step in np.flatnonzero(np.isnan(rewards)))
    if not isinstance(spec.rewards, MomentBound):
        low, high = spec.rewards
        outside = np.flatnonzero((rewards < low) | (rewards > high))
        what = f"is outside [{low:g}, {high:g}] and will be clamped"
        found.extend(Problem(run, episode, "rewards", int(step), f"{rewards[step]:g} {what}") for step in outside)
    return found
