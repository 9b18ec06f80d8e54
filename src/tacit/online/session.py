"""A learner and a privatizer put together: episodes in, policies out, for independent runs side by side."""

from __future__ import annotations

import warnings
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tacit.learners import Learner, NothingLearnt, Policy, Uniforms
from tacit.privacy.statements import Statement
from tacit.privatizers import CentralPrivatizer, LocalPrivatizer, LocalServer
from tacit.releases import Release

__all__ = ["Session", "Source"]


class Source(Protocol):
    """What a session needs of a privatizer, or of a server that collects reports."""

    @property
    def users(self) -> int:
        """Users accounted for, those who sent nothing included."""
        ...

    @property
    def statement(self) -> Statement:
        """See `Privatizer`."""
        ...

    def until_release(self) -> int | None:
        """See `Privatizer`."""
        ...

    def release(self) -> Release:
        """See `Privatizer`."""
        ...

    def state(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """Arrays and JSON from which `from_state` goes on, once; the object is closed."""
        ...


_SOURCES = {"central": CentralPrivatizer, "local": LocalPrivatizer, "local server": LocalServer}


class Session:
    """The policy is computed from releases alone, and changes only when there is a new one.

    Parameters
    ----------
    learner
        Public settings and pure functions.
    source
        What releases.
    uniforms
        What the learner breaks ties with.
    episodes
        K, by which nothing learnt at half-time is told (once).
    """

    def __init__(self, learner: Learner[Any], source: Any, uniforms: Uniforms, *, episodes: int) -> None:
        self.source: Any = source
        self.updates = 0
        self._learner = learner
        self._uniforms = uniforms
        self._episodes = episodes
        self._told = False
        self._due = self._next()
        self._state = learner.start(source.release(), uniforms)

    @property
    def policy(self) -> Policy:
        """What the next users follow: actions (R, H, S) or probabilities (R, H, S, A)."""
        return self._state.policy  # type: ignore[no-any-return]

    @property
    def learner_state(self) -> Any:
        """What the learner knows: made of releases, so it may be looked at."""
        return self._state

    @property
    def due(self) -> int:
        """The user after whom the policy changes; K if it does not any more."""
        return self._episodes if self._due is None else self._due

    def observe(self, episodes: Any) -> None:
        """Take the next episodes in, at most up to `due`: the policy is that of their time."""
        self.source.observe(episodes)
        self.refresh()

    def refresh(self) -> None:
        """Plan again, if there is a new release."""
        if self._due is None or self.source.users < self._due:
            return
        self._state = self._learner.update(self._state, self.source.release(), self._uniforms)
        self.updates += 1
        self._due = self._next()
        if not self._told and 2 * self.source.users >= self._episodes:
            self._told = True
            if not self._state.informative.any():
                warnings.warn(
                    f"nothing has been learnt from {self.source.users:,} of {self._episodes:,} users: with these "
                    "bonuses every value is at its ceiling, and all actions look the same. Take a smaller "
                    "bonus_scale, a larger epsilon or more users",
                    NothingLearnt,
                    stacklevel=4,
                )

    def state(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """Arrays and JSON from which `resumed` goes on, once; this object is closed."""
        arrays, source = self.source.state()
        found = {f"source/{name}": array for name, array in arrays.items()}
        plain = {}
        for name, value in self._state._asdict().items():
            if isinstance(value, np.ndarray):
                found[f"learner/{name}"] = value
            else:
                plain[name] = value
        meta = {"source": source, "learner": plain, "updates": self.updates, "due": self._due, "told": self._told}
        return found, meta

    @classmethod
    def resumed(
        cls,
        arrays: dict[str, NDArray[Any]],
        meta: dict[str, Any],
        *,
        learner: Learner[Any],
        uniforms: Uniforms,
        episodes: int,
        kind: Any = None,
    ) -> Session:
        """The session that `state` described. `arrays` is emptied: what is released must have one future only.

        `kind` is the source's class, if it is none of ours.
        """
        self = cls.__new__(cls)
        fields = {name[8:]: array for name, array in arrays.items() if name.startswith("learner/")}
        own = {name[7:]: array for name, array in arrays.items() if name.startswith("source/")}
        arrays.clear()
        kind = kind or _SOURCES[meta["source"]["kind"]]
        self.source = kind.from_state(own, meta["source"])
        self.updates, self._told = meta["updates"], meta["told"]
        self._due = meta["due"]  # the source may have made a release that was not yet planned with
        self._learner, self._uniforms, self._episodes = learner, uniforms, episodes
        self._state = learner.restored({**fields, **meta["learner"]})
        return self

    def _next(self) -> int | None:
        ahead = self.source.until_release()
        return None if ahead is None else self.source.users + ahead
