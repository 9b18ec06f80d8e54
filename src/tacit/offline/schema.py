"""What the caller declares about a table: the episode, the columns, their codes. Public, and never learnt from data."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, asdict, dataclass, field, fields
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from tacit.mdp.spec import EpisodeSpec, SpecError
from tacit.offline.encodings import Encoding, Features, SchemaError, encoding_from_json

__all__ = ["EndState", "Schema"]

_FORMAT = 1
_ALWAYS = ("episode", "step", "state", "action", "reward")
_SOMETIMES = ("next_state", "user")
_SEVERAL = ("state", "action", "next_state")
"""Roles that several raw columns may make up together."""


@dataclass(frozen=True, kw_only=True)
class EndState:
    """Where an episode stays that is over before step H: it takes `action` there, and earns 0.

    `state` is the last one, S − 1, unless it is named, as in worlds from `tacit.mdp.from_gymnasium`.
    """

    state: int | None = None
    action: int = 0


@dataclass(frozen=True, kw_only=True)
class Schema:
    """A table of episodes in words of its owner.

    Parameters
    ----------
    spec
        The public shape of an episode.
    columns
        The table's own name of each role: `episode`, `step`, `state`, `action`, `reward`, and where there are any
        `next_state` and `user`. A role that is not named has its own name; `next_state` is then read if the table has
        it, and `user` if `max_episodes_per_user` is declared. `next_state=None`: it is not read. State and action may
        be made up of several columns, each with an encoding: the last one counts fastest.
    encodings
        For each raw column by its name, `Categories` or `Bins`. A column without holds the numbers themselves. The
        columns of `next_state` take the encodings of the state's where they have none of their own.
    features
        For linear models: numeric columns, how they are scaled, and the norm a row is clipped to.
    end_state
        Completes episodes of fewer than H steps. Without one they cannot be read.
    first_step
        The number of an episode's first step in the table.
    max_episodes_per_user
        m: of each user m episodes are read, and the unit of privacy is the user.

    Examples
    --------
    >>> from tacit.offline import Bins
    >>> spec = EpisodeSpec(states=3, actions=2, horizon=4)
    >>> schema = Schema(spec=spec, columns={"episode": "stay", "state": "age"}, encodings={"age": Bins([40, 65])})
    >>> schema.roles["reward"], schema.roles["state"], schema.next_state_optional
    (('reward',), ('age',), True)
    """

    spec: EpisodeSpec
    columns: Mapping[str, str | Sequence[str] | None] = field(default_factory=dict)
    encodings: Mapping[str, Encoding] = field(default_factory=dict)
    features: Features | None = None
    end_state: EndState | None = None
    first_step: int = 0
    max_episodes_per_user: int | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.spec, EpisodeSpec):
            raise SchemaError(f"spec must be an EpisodeSpec; got {self.spec!r}")
        if not _is_whole(self.first_step):
            raise SchemaError(f"first_step must be a whole number; got {self.first_step!r}")
        if self.max_episodes_per_user is not None and (
            not _is_whole(self.max_episodes_per_user) or self.max_episodes_per_user < 1
        ):
            raise SchemaError(
                f"max_episodes_per_user must be a whole number of at least 1; got {self.max_episodes_per_user!r}"
            )
        object.__setattr__(self, "columns", self._checked_columns())
        self._check_roles()
        object.__setattr__(self, "encodings", self._checked_encodings())
        if self.features is not None and not isinstance(self.features, Features):
            raise SchemaError(f"features must be Features; got {self.features!r}")
        object.__setattr__(self, "end_state", self._checked_end())
        self._check_sizes()

    # What readers ask

    @cached_property
    def roles(self) -> dict[str, tuple[str, ...]]:
        """The columns of each role that is read; several only for `state`, `action` and `next_state`."""
        found = {role: _several(self.columns.get(role, role)) for role in _ALWAYS}
        if "next_state" in self.columns:
            found["next_state"] = _several(self.columns["next_state"])
        elif len(found["state"]) == 1:
            found["next_state"] = ("next_state",)
        bounded = self.max_episodes_per_user is not None
        found["user"] = _several(self.columns.get("user", "user" if bounded else None))
        return {role: names for role, names in found.items() if names}

    @property
    def next_state_optional(self) -> bool:
        """Whether a table without a column of next states fits: it was not asked for by name."""
        return "next_state" not in self.columns

    @property
    def unit(self) -> str:
        """Whose privacy is at stake: `"user"` where the schema bounds her episodes, else `"episode"`."""
        return "episode" if self.max_episodes_per_user is None else "user"

    def encoding(self, role: str, column: str) -> Encoding | None:
        """How a raw column of a role is encoded; None: it holds the numbers themselves."""
        if column in self.encodings:
            return self.encodings[column]
        if role == "next_state":
            return self.encodings.get(self.roles["state"][self.roles["next_state"].index(column)])
        return None

    # Files

    def to_json(self) -> dict[str, Any]:
        """Plain values; `from_json` reads them."""
        return {
            "format": _FORMAT,
            "spec": self.spec.to_json(),
            "columns": {role: list(name) if isinstance(name, tuple) else name for role, name in self.columns.items()},
            "encodings": {column: encoding.to_json() for column, encoding in self.encodings.items()},
            "features": None if self.features is None else self.features.to_json(),
            "end_state": None if self.end_state is None else asdict(self.end_state),
            "first_step": self.first_step,
            "max_episodes_per_user": self.max_episodes_per_user,
        }

    @classmethod
    def from_json(cls, data: Any) -> Schema:
        """The schema that `to_json` described, or that somebody wrote by hand; only `spec` has to be there."""
        if not isinstance(data, Mapping):
            raise SchemaError(f"a schema is an object with the fields {_names(cls)}; got {data!r}")
        told = dict(data)
        if told.pop("format", _FORMAT) != _FORMAT:
            raise SchemaError(f"format must be {_FORMAT}; got {data['format']!r}")
        unknown = sorted(set(told) - set(_names(cls)))
        if unknown:
            raise SchemaError(f"{unknown[0]!r} is no field of a schema; there are {_names(cls)}")
        if "spec" not in told:
            raise SchemaError("spec is missing: states, actions and horizon of an episode")
        told["spec"] = _spec(told["spec"])
        for name in ("columns", "encodings"):
            if not isinstance(told.setdefault(name, {}), Mapping):
                raise SchemaError(f"{name} must be an object; got {told[name]!r}")
        if told.get("features") is not None:
            told["features"] = _in_field("features", Features.from_json, told["features"])
        if told.get("end_state") is not None:
            told["end_state"] = _end(told["end_state"])
        return cls(**told)

    def save(self, path: Path | str) -> Path:
        """Write a JSON file; return its path."""
        target = Path(path)
        target.write_text(json.dumps(self.to_json(), indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        return target

    @classmethod
    def load(cls, path: Path | str) -> Schema:
        """Read a JSON file."""
        source = Path(path)
        try:
            data = json.loads(source.read_text(encoding="utf-8"))
        except OSError as error:
            raise SchemaError(f"{source} cannot be read: {error.strerror}") from None
        except ValueError as error:
            raise SchemaError(f"{source} is no JSON file: {error}") from None
        try:
            return cls.from_json(data)
        except SchemaError as error:
            raise SchemaError(f"{source}: {error}") from None

    # Checks

    def _checked_columns(self) -> dict[str, str | tuple[str, ...] | None]:
        told: Any = self.columns
        if not isinstance(told, Mapping):
            raise SchemaError(f"columns must name a column for each role; got {told!r}")
        for role in told:
            if role not in (*_ALWAYS, *_SOMETIMES):
                raise SchemaError(f"columns: {role!r} is no role; there are {(*_ALWAYS, *_SOMETIMES)}")
        return {
            role: None if name is None and role in _SOMETIMES else _column(role, name) for role, name in told.items()
        }

    def _check_roles(self) -> None:
        bounded, roles = self.max_episodes_per_user is not None, self.roles
        if "user" in roles and not bounded:
            raise SchemaError("max_episodes_per_user must be declared where columns name the user")
        if "user" not in roles and bounded:
            raise SchemaError("columns: user must be named where max_episodes_per_user is declared")
        if "next_state" in self.columns and len(roles.get("next_state", roles["state"])) != len(roles["state"]):
            raise SchemaError(
                f"columns: next_state must have as many columns as state, {len(roles['state'])}; "
                f"got {self.columns['next_state']!r}"
            )
        used = [column for names in roles.values() for column in names]
        twice = next((column for column in used if used.count(column) > 1), None)
        if twice is not None:
            raise SchemaError(f"columns: {twice!r} is named twice")

    def _checked_encodings(self) -> dict[str, Encoding]:
        encodings: Any = self.encodings
        if not isinstance(encodings, Mapping):
            raise SchemaError(f"encodings must say for columns how they are encoded; got {encodings!r}")
        coded = [column for role in _SEVERAL for column in self.roles.get(role, ())]
        for column in encodings:
            if column not in coded:
                raise SchemaError(f"encodings: {column!r} is no column of a state or an action; these are {coded}")
        return {
            column: _in_field(f"encodings: {column!r}", encoding_from_json, told) for column, told in encodings.items()
        }

    def _checked_end(self) -> EndState | None:
        end, S, A = self.end_state, self.spec.states, self.spec.actions
        if end is None:
            return None
        if not isinstance(end, EndState):
            raise SchemaError(f"end_state must be an EndState or None; got {end!r}")
        state = S - 1 if end.state is None else end.state
        if not _is_whole(state) or not 0 <= state < S:
            raise SchemaError(f"end_state: state must be in 0..{S - 1}; got {state!r}")
        if not _is_whole(end.action) or not 0 <= end.action < A:
            raise SchemaError(f"end_state: action must be in 0..{A - 1}; got {end.action!r}")
        return EndState(state=int(state), action=int(end.action))

    def _check_sizes(self) -> None:
        """Encoded columns make just the numbers that the spec declares; an end state may be one more."""
        for role in _SEVERAL:
            columns = self.roles.get(role, ())
            encodings = [self.encoding(role, column) for column in columns]
            if all(encoding is None for encoding in encodings) and len(columns) <= 1:
                continue
            for column, encoding in zip(columns, encodings, strict=True):
                if encoding is None:
                    raise SchemaError(f"encodings: {column!r} must have one, for {role} is made up of {columns}")
            made = math.prod(encoding.size for encoding in encodings if encoding is not None)
            thing, declared = ("actions", self.spec.actions) if role == "action" else ("states", self.spec.states)
            end = self.end_state.state if self.end_state is not None and role != "action" else None
            if made != declared and not (made == declared - 1 and end == made):
                raise SchemaError(
                    f"encodings of {role} ({', '.join(columns)}) make {made} {thing}, and spec declares {declared}"
                    + (" with the end state" if end is not None else "")
                )


def _names(cls: type[Schema]) -> list[str]:
    return [each.name for each in fields(cls)]


def _is_whole(value: Any) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def _column(role: str, name: Any) -> str | tuple[str, ...]:
    """A column's name, or a tuple of names where there may be several."""
    if isinstance(name, str) and name:
        return name
    listed = isinstance(name, Sequence) and bool(name) and all(isinstance(each, str) and each for each in name)
    if role not in _SEVERAL or not listed:
        raise SchemaError(
            f"columns: {role} must be the name of a column{' or a list of names' * (role in _SEVERAL)}; got {name!r}"
        )
    return tuple(name)


def _several(name: str | Sequence[str] | None) -> tuple[str, ...]:
    return () if name is None else (name,) if isinstance(name, str) else tuple(name)


def _in_field(where: str, reader: Any, told: Any) -> Any:
    try:
        return reader(told)
    except SchemaError as error:
        raise SchemaError(f"{where}: {error}") from None


def _spec(told: Any) -> EpisodeSpec:
    if isinstance(told, EpisodeSpec):
        return told
    own = {each.name: each.default for each in fields(EpisodeSpec)}
    if not isinstance(told, Mapping):
        raise SchemaError(f"spec must be an object with {sorted(own)}; got {told!r}")
    for name in told:
        if name not in own:
            raise SchemaError(f"spec: {name!r} is no field of it; there are {sorted(own)}")
    for name, default in own.items():
        if default is MISSING and name not in told:
            raise SchemaError(f"spec: {name} is missing")
    try:
        return EpisodeSpec.from_json({**{name: value for name, value in own.items() if value is not MISSING}, **told})
    except SpecError as error:
        raise SchemaError(f"spec: {error}") from None
    except TypeError:
        raise SchemaError(
            f"spec: rewards must be [low, high] or a moment bound (order, bound, mean); got {told.get('rewards')!r}"
        ) from None


def _end(told: Any) -> EndState:
    if isinstance(told, EndState):
        return told
    if not isinstance(told, Mapping) or not set(told) <= {"state", "action"}:
        raise SchemaError(f'end_state must be {{"state": ..., "action": ...}}; got {told!r}')
    return EndState(**told)
