"""What every agent is: settings, a learner, a privatizer, and the service that they run."""

from __future__ import annotations

import abc
import threading
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from tacit.learners import Learner, Uniforms
from tacit.mdp.spec import EpisodeSpec
from tacit.online.desk import Desk, Ticket
from tacit.online.session import Session
from tacit.privacy import counters
from tacit.privacy.guarantees import Guarantee, Local
from tacit.privacy.noise import NoiseSource
from tacit.privacy.statements import Statement, guarantee_from_json
from tacit.privatizers import Device, LocalServer, PrivatizationError, Privatizer, vault

__all__ = ["Agent", "agent_from_json", "load"]


@dataclass(frozen=True, kw_only=True, eq=False)
class Agent(abc.ABC):
    """A learner and a privatizer put together. Subclasses are dataclasses that say which.

    An agent is its settings. They are checked when it is made, and do not change. The first `begin` opens its service:
    from then on it also holds a stream of users, which `save` moves to a file. `tacit.simulate` copies the settings and
    leaves the service alone.

    Parameters
    ----------
    spec
        The public shape of an episode.
    episodes
        K: how many users will come, at most.
    privacy
        `Joint`, `Local` or `NonPrivate`.
    """

    spec: EpisodeSpec = field(kw_only=False)
    episodes: int
    privacy: Guarantee

    _kinds: ClassVar[dict[str, type[Agent]]] = {}

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        Agent._kinds[cls.__name__] = cls

    def __post_init__(self) -> None:
        if isinstance(self.episodes, bool) or not isinstance(self.episodes, int | np.integer) or self.episodes < 1:
            raise PrivatizationError(f"episodes must be a whole number of at least 1; got {self.episodes!r}")
        object.__setattr__(self, "episodes", int(self.episodes))
        object.__setattr__(self, "_open", None)
        object.__setattr__(self, "_opening", threading.Lock())
        self.learner()  # whatever they cannot do, they say now

    # What a subclass says

    @abc.abstractmethod
    def learner(self) -> Learner[Any]:
        """What plans."""

    @abc.abstractmethod
    def privatizer(self, *, noise: NoiseSource | None = None, runs: int = 1) -> Privatizer:
        """What stands between users and the learner; local ones hold devices and server in one process."""

    def server(self) -> LocalServer:
        """For local agents: what collects reports."""
        raise PrivatizationError(f"{type(self).__name__} has no local half")

    # The service

    def begin(self) -> Ticket:
        """Let the next user in: a ticket fixes her place in the stream, and says what to do in every state.

        The first ticket of a batch closes the batch before it: whoever has not been observed by then never is. After
        `episodes` tickets: `BudgetExhausted`.
        """
        return self._desk().begin()

    def observe(self, ticket: Ticket, what: Any) -> None:
        """Take back what came of a ticket: (states, actions, rewards), or from a local agent's device, its report.

        Values never raise: what cannot be read is ⊥, the empty episode. What comes late or a second time is ignored. A
        ticket of another agent's is a `ValueError`.
        """
        self._desk().observe(ticket, what)

    @property
    def client(self) -> Device:
        """The half that runs on a user's device and holds the randomizer; for local agents only."""
        if not isinstance(self.privacy, Local):
            raise PrivatizationError(f"only local agents have a client; here users trust the server: {self.privacy}")
        return Device(self.server().codec)

    @property
    def statement(self) -> Statement:
        """What is guaranteed, by which noise, and what is spent."""
        return self._desk().statement

    def save(self, path: Path | str) -> None:
        """Move the service to a new file; `tacit.load` goes on from it, once. As secret as the data."""
        arrays, meta = self._desk().state()
        try:
            vault.store(path, arrays, {"kind": "agent", "agent": self.to_json(), "desk": meta})
        except Exception:  # nothing was written
            self._go_on(arrays, meta)
            raise

    # For simulations

    def session(self, *, noise: NoiseSource | None, runs: int, uniforms: Uniforms) -> Session:
        """Learner and privatizer on independent runs, from the start; the agent's own service stays as it is."""
        source = self.privatizer(noise=noise, runs=runs)
        return Session(self.learner(), source, uniforms, episodes=self.episodes)

    def resumed_session(self, arrays: dict[str, NDArray[Any]], meta: dict[str, Any], uniforms: Uniforms) -> Session:
        """The session that `Session.state` described."""
        return Session.resumed(arrays, meta, learner=self.learner(), uniforms=uniforms, episodes=self.episodes)

    # Settings

    def with_settings(self, **changes: Any) -> Self:
        """A new agent with other settings, and no users."""
        return replace(self, **changes)

    def to_json(self) -> dict[str, Any]:
        """All settings, as plain values; `agent_from_json` reads them."""
        told: dict[str, Any] = {"agent": type(self).__name__}
        for setting in fields(self):
            value = getattr(self, setting.name)
            if isinstance(value, Guarantee):
                value = {"model": value.model, **vars(value)}
            elif hasattr(value, "to_json"):
                value = value.to_json()
            told[setting.name] = value
        return told

    def __reduce__(self) -> Any:
        """A copy is a copy of the settings: a stream of users has one future only."""
        return _copied, (type(self), self.to_json())

    def _desk(self) -> Desk:
        with self._opening:  # type: ignore[attr-defined]
            if self._open is None:  # type: ignore[attr-defined]
                source = self.server() if isinstance(self.privacy, Local) else self.privatizer()
                self._serve(Session(self.learner(), source, _system_uniforms, episodes=self.episodes))
            return self._open  # type: ignore[attr-defined, no-any-return]

    def _serve(self, session: Session) -> None:
        """Open the service. `tacit.testing` does so with sessions whose noise is seeded."""
        object.__setattr__(self, "_open", Desk(session, episodes=self.episodes))

    def _go_on(self, arrays: dict[str, NDArray[Any]], meta: dict[str, Any]) -> None:
        """From what `Desk.state` told, once."""
        session = self.resumed_session(arrays, meta["session"], _system_uniforms)
        object.__setattr__(self, "_open", Desk.resumed(session, meta, episodes=self.episodes))


def agent_from_json(data: dict[str, Any]) -> Agent:
    """The agent that `to_json` described, without its users."""
    kind = data["agent"]
    if kind not in Agent._kinds:
        raise ValueError(f"no agent is called {kind!r}; import the module that defines it first")
    return _copied(Agent._kinds[kind], data)


def _copied(kind: type[Agent], data: dict[str, Any]) -> Agent:
    told = {name: value for name, value in data.items() if name != "agent"}
    told["spec"] = EpisodeSpec.from_json(told["spec"])
    told["privacy"] = guarantee_from_json(told["privacy"])
    if isinstance(told.get("counter"), dict):
        told["counter"] = counters.design_from_json(told["counter"])
    return kind(**told)


def load(path: Path | str) -> Agent:
    """Go on from a saved agent, and take its file away: it can be loaded once."""
    arrays, meta = vault.consume(path, kind="agent")
    try:
        agent = agent_from_json(meta["agent"])
    except Exception:  # its class is not known, say; nothing has gone on yet
        vault.store(path, arrays, meta)
        raise
    agent._go_on(arrays, meta["desk"])
    return agent


def _system_uniforms(shape: tuple[int, ...]) -> NDArray[np.float64]:
    """From the operating system: nobody can foresee how ties are broken, and nothing has to be saved."""
    return np.random.default_rng().random((1, *shape))
