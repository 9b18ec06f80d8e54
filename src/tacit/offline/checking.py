"""What becomes of a table's rows, told to their owner. **Outside the guarantee**: it quotes what people sent."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from tacit.mdp.spec import MomentBound
from tacit.offline.parts import Part, Read, assembled
from tacit.offline.schema import Schema

if TYPE_CHECKING:
    from tacit.offline.arrays import Arrays
    from tacit.offline.tables import Table

__all__ = ["Problem", "problems"]

_EMPTY = "; the episode counts as empty"
_AT_A_TIME = 10_000


class Problem(NamedTuple):
    """One thing in raw data that is not read as it is: where, and what becomes of it.

    `row` counts from 0, over all files in their order; None for arrays. `column` is the table's own name.
    """

    kind: Literal["clamped", "cut", "completed", "dropped"]
    row: int | None
    episode: Any
    column: str
    what: str

    def __str__(self) -> str:
        where = f"episode {self.episode}, {self.column}"
        return f"{where}: {self.what}" if self.row is None else f"row {self.row}, {where}: {self.what}"


def problems(source: Table | Arrays) -> Iterator[Problem]:
    """Everything in a table or arrays that is clamped, cut, completed or dropped."""
    for part in source.parts(raw=True):
        owner = _Owner(part, source.schema, getattr(source, "roles", None))
        yield from owner.left_out()
        for found in assembled(part, source.schema, at_a_time=_AT_A_TIME):
            yield from owner.problems(found)


@dataclass(frozen=True, eq=False)
class _Owner:
    """A part as its owner knows it."""

    part: Part
    schema: Schema
    roles: Mapping[str, tuple[str, ...]] | None

    def left_out(self) -> Iterator[Problem]:
        """Runs that take no place."""
        column = self._column("episode")
        for run in np.flatnonzero(self.part.slots < 0).tolist():
            low, high = self._rows(run)
            if self._label(low) is None or self._frame["unit"][low] is None:
                what = f"{high - low} rows belong to nobody and are left out"
            else:
                m = self.schema.max_episodes_per_user
                what = f"user {self._frame['unit'][low]} has more than {m} episodes; this one is left out"
            yield Problem("dropped", self._number(low), self._label(low), column, what)

    def problems(self, found: Read) -> Iterator[Problem]:
        """Of episodes that take one."""
        from tacit.offline._kernels import COMPLETED, CUT, EMPTY

        rewards = found.trajectories.rewards[0]
        bounded = not isinstance(self.schema.spec.rewards, MomentBound)
        low, high = self.schema.spec.reward_range if bounded else (-np.inf, np.inf)
        outside = ((rewards < low) | (rewards > high)).any(axis=1)
        for place in np.flatnonzero(outside | (found.outcome != 0)):
            run, flags = found.runs[place], found.outcome[place]
            if run < 0:
                continue  # the user has fewer episodes
            if flags & EMPTY:
                yield from self._reasons(run)
                continue
            if flags & CUT:
                yield self._cut(run)
            if flags & COMPLETED:
                yield self._completed(run)
            yield from self._clamped(run, low, high)

    def _reasons(self, run: int) -> Iterator[Problem]:
        """Why an episode is ⊥."""
        H, S, A = self.schema.spec.horizon, self.schema.spec.states, self.schema.spec.actions
        part, seen, told = self.part, dict[int, int](), False
        low, high = self._rows(run)
        for row in range(low, high):
            step = int(part.steps[row])
            if step < 0:
                yield self._at(row, "step", f"is no whole number of at least {self.schema.first_step}")
                told = True
                continue
            if step > H:
                continue
            if step in seen:
                yield self._at(row, "step", f"is there twice, in row {self._number(seen[step])}, too", quote=False)
                told = True
            seen.setdefault(step, row)
            wrong = [("state", part.states, S)] + [("action", part.actions, A)] * (step < H)
            for role, values, count in wrong:
                if not 0 <= values[row] < count:
                    yield self._at(row, role, self._outside(role, count))
                    told = True
            if step < H and np.isnan(part.rewards[row]):
                yield self._at(row, "reward", "is not a number")
                told = True
            after = -2 if step == H or part.next_states is None else int(part.next_states[row])
            if self.roles is None and row < high - 1:
                after = -2  # in arrays it is the next row's state itself
            if after != -2 and not 0 <= after < S:
                yield self._at(row, "next_state", self._outside("next_state", S))
                told = True
        if not told:
            yield from self._reasons_between(seen, low)

    def _reasons_between(self, seen: dict[int, int], first: int) -> Iterator[Problem]:
        """Why rows that are each in order make no episode."""
        part, H = self.part, self.schema.spec.horizon
        present = sorted(step for step in seen if step < H)
        beyond = bool((part.steps[first : self._end(first)] >= H).any())
        for step in range(H if beyond else len(present)):
            if step not in seen:
                yield self._said(first, "step", f"{self.schema.first_step + step} is missing")
                return
        for step in present:
            if part.next_states is None:
                break
            row, after = seen[step], int(part.next_states[seen[step]])
            following = seen.get(step + 1)
            if following is not None and after == -2:
                yield self._said(row, "next_state", "is missing in mid-episode")
                return
            if following is not None and part.states[following] != after:
                yield self._at(row, "next_state", f"is not the state of row {self._number(following)}")
                return
        if len(present) < H:
            yield self._said(first, "step", f"there are {len(present)} of {H} steps, and no end_state is declared")
        else:
            yield self._said(seen[present[-1]], "next_state", "where the last step led is not told")

    def _cut(self, run: int) -> Problem:
        low, high = self._rows(run)
        H = self.schema.spec.horizon
        behind = [row for row in range(low, high) if self.part.steps[row] >= H]
        what = f"{len(behind)} rows from step {self.schema.first_step + H} on are cut"
        return Problem("cut", self._number(behind[0]), self._label(low), self._column("step"), what)

    def _completed(self, run: int) -> Problem:
        low, high = self._rows(run)
        steps, H = self.part.steps[low:high], self.schema.spec.horizon
        what = f"{high - low} of {H} steps; completed with the end state"
        return Problem(
            "completed", self._number(low + int(steps.argmax())), self._label(low), self._column("step"), what
        )

    def _clamped(self, run: int, low: float, high: float) -> Iterator[Problem]:
        for row in range(*self._rows(run)):
            reward = self.part.rewards[row]
            if self.part.steps[row] < self.schema.spec.horizon and not low <= reward <= high:
                what = f"{reward:g} is outside [{low:g}, {high:g}] and will be clamped"
                yield Problem("clamped", self._number(row), self._label(row), self._column("reward"), what)

    # Names

    @property
    def _frame(self) -> Any:
        return self.part.raw

    def _rows(self, run: int) -> tuple[int, int]:
        return int(self.part.starts[run]), int(self.part.starts[run + 1])

    def _end(self, first: int) -> int:
        return int(self.part.starts[np.searchsorted(self.part.starts, first, side="right")])

    def _number(self, row: int) -> int | None:
        return None if self.roles is None else int(self._frame["row"][row])

    def _label(self, row: int) -> Any:
        if self.roles is not None:
            return self._frame["episode"][row]
        return self.part.raw + int(np.searchsorted(self.part.starts, row, side="right")) - 1

    def _column(self, role: str) -> str:
        if self.roles is None:
            return {"step": "episode", "next_state": "states"}.get(role, f"{role}s")
        return ", ".join(self.roles.get(role, (role,)))

    def _outside(self, role: str, count: int) -> str:
        columns = () if self.roles is None else self.roles[role]
        encoded = any(self.schema.encoding(role, column) for column in columns)
        return "has no code in the schema" if encoded else f"is none of 0..{count - 1}"

    def _said(self, row: int, role: str, what: str) -> Problem:
        return Problem("dropped", self._number(row), self._label(row), self._column(role), what + _EMPTY)

    def _at(self, row: int, role: str, what: str, *, quote: bool = True) -> Problem:
        """With what is in that row; of arrays, at which step."""
        if not quote:
            return self._said(row, role, what)
        if self.roles is None:
            return self._said(row, role, f"what is at step {self.part.steps[row] + (role == 'next_state')} {what}")
        held = [self._frame[f"raw:{name}"][row] for name in self.roles[role]]
        return self._said(row, role, f"{', '.join('nothing' if each is None else str(each) for each in held)} {what}")
