"""The service: who comes gets a ticket with a policy, and what comes back is counted at the ticket's place.

A batch is the tickets between two releases. It is closed by the first ticket of the next one: a public moment, at
which everybody who has not come back is ⊥, the empty contribution. What comes later or twice changes nothing. So
nobody's place, batch or policy depends on what anybody else sends, or whether (ALGORITHMS.md §0).
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import secrets
import threading
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from tacit.learners import Policy
from tacit.privacy.statements import Statement
from tacit.privatizers import BudgetExhausted, LocalServer, PrivatizationError, Report
from tacit.statistics.reading import silence

if TYPE_CHECKING:
    from tacit.online.session import Session

__all__ = ["Desk", "Ticket"]

# Absent users that are accounted for together: as many as fit a processor's cache, however long the batch.
_AT_A_TIME = 1024


@dataclass(frozen=True, eq=False)
class Ticket:
    """A user's place in the stream, and the policy that she follows.

    The policy holds an action for each step and state, (H, S), or probabilities, (H, S, A). The token shows that the
    ticket is the desk's own.
    """

    number: int
    policy: Policy = field(repr=False)
    token: str = field(repr=False)

    def action(self, step: int, state: int) -> int:
        """What to do in a state at a step (the first is 0); drawn from the operating system's entropy if by chance."""
        choice = self.policy[step, state]
        if choice.ndim == 0:
            return int(choice)
        chance = secrets.randbits(53) * 2.0**-53
        return int(min(np.searchsorted(np.cumsum(choice), chance, side="right"), choice.size - 1))

    def to_json(self) -> str:
        """To be sent to whoever acts; `from_json` reads it."""
        return json.dumps({"number": self.number, "policy": self.policy.tolist(), "token": self.token})

    @classmethod
    def from_json(cls, text: str) -> Ticket:
        """The ticket that `to_json` wrote."""
        data = json.loads(text)
        policy = np.array(data["policy"])
        typed: Policy = policy.astype(np.int32) if policy.ndim == 2 else policy.astype(np.float64)
        return cls(int(data["number"]), typed, str(data["token"]))


class Desk:
    """Hands out tickets and takes back what belongs to them; safe to be used by several threads."""

    def __init__(self, session: Session, *, episodes: int) -> None:
        self._session = session
        self._episodes = episodes
        self._secret = secrets.token_bytes(32)
        self._issued = 0
        self._first = 0  # the number of the open batch's first ticket
        self._back: set[int] = set()  # of the open batch, who has come back
        self._closed = False
        self._lock = threading.Lock()

    def begin(self) -> Ticket:
        """See `Agent.begin`."""
        with self._lock:
            self._check_open()
            if self._issued == self._episodes:
                raise BudgetExhausted(f"{self._episodes:,} users were declared; the guarantee covers no more")
            if self._issued == self._session.due:
                self._close_batch()
            number = self._issued
            self._issued += 1
            return Ticket(number, self._session.policy[0].copy(), self._token(number))

    def observe(self, ticket: Ticket, what: Any) -> None:
        """See `Agent.observe`."""
        if not self._issued_here(ticket):
            raise ValueError("this ticket was not issued here: pass the one that begin() returned")
        with self._lock:
            self._check_open()
            if ticket.number < self._first or ticket.number in self._back:
                return
            self._back.add(ticket.number)  # first, so that an interrupted one is not taken in twice
            source = self._session.source
            if isinstance(source, LocalServer):
                _collect(source, what)
            else:
                source.observe([what])

    @property
    def statement(self) -> Statement:
        """See `Agent.statement`: users are the tickets issued, whoever came back."""
        source = self._session.source
        of_source: Statement = source.statement
        # What leaves a local agent's device is spent at once, whenever a policy is made of it.
        releases = of_source.releases if isinstance(source, LocalServer) else self._session.updates
        return replace(of_source, users=self._issued, releases=releases)

    def state(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
        """Arrays and JSON from which `resumed` goes on, once; this object is closed."""
        with self._lock:
            self._check_open()
            self._closed = True  # or two services would hand out the same places
            arrays, session = self._session.state()
            return arrays, {
                "session": session,
                "issued": self._issued,
                "first": self._first,
                "back": sorted(self._back),
                "secret": self._secret.hex(),
            }

    @classmethod
    def resumed(cls, session: Session, meta: dict[str, Any], *, episodes: int) -> Desk:
        """The desk that `state` described; tickets issued before are still good."""
        self = cls(session, episodes=episodes)
        self._secret = bytes.fromhex(meta["secret"])
        self._issued, self._first, self._back = meta["issued"], meta["first"], set(meta["back"])
        return self

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Neither copied nor pickled: two desks would hand out the same places."""
        raise PrivatizationError("a desk cannot be copied: its places are handed out once")

    def _close_batch(self) -> None:
        """Whatever interrupts this, the next call goes on from there: who is missing is what the source has not got."""
        source = self._session.source
        self._first = self._issued
        self._back.clear()
        while (missing := min(self._issued - source.users, _AT_A_TIME)) > 0:
            if isinstance(source, LocalServer):
                source.absent(missing)
            else:
                source.observe([None] * missing)
        self._session.refresh()

    def _issued_here(self, ticket: Any) -> bool:
        if not isinstance(ticket, Ticket) or type(ticket.number) is not int:
            return False
        token = str(ticket.token).encode(errors="replace")
        return hmac.compare_digest(token, self._token(ticket.number).encode())

    def _check_open(self) -> None:
        if self._closed:
            raise PrivatizationError("this agent was saved: load the file to go on")

    def _token(self, number: int) -> str:
        return hmac.new(self._secret, str(number).encode(), hashlib.sha256).hexdigest()[:32]


def _collect(server: LocalServer, what: Any) -> None:
    """One user's report; whatever else it is, it is as if nothing had come, and she is absent when the batch closes."""
    with contextlib.suppress(Exception), silence():  # a device that is not ours may send anything at all
        if isinstance(what, Report) and what.users == 1:
            server.collect(what)
