"""An agent at work before people of every kind: what `tacit.testing.agents` compares.

All chances are seeded, so that two courses of the same agent differ in nothing but who comes.
"""

from __future__ import annotations

import functools
import json
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tacit.mdp.spec import EpisodeSpec
from tacit.mdp.trajectories import Trajectories
from tacit.online import Agent, Session, Ticket, load
from tacit.privacy.guarantees import Guarantee, Local, NonPrivate
from tacit.privacy.noise import NoiseSource, NoNoise, SimulationNoise
from tacit.privatizers import Device, PrivatizationError, Report, VaultError
from tacit.testing.failures import raises, require
from tacit.testing.people import TabularPeople

__all__ = [
    "AgentSubject",
    "Service",
    "Uniforms",
    "additive",
    "played",
    "possible",
    "proper",
    "same_course",
    "snapshots",
    "streams",
    "with_epsilon",
]


SPEC = EpisodeSpec(states=3, actions=2, horizon=2)

MakeAgent = Callable[[EpisodeSpec, int, Guarantee], Agent]
Array = NDArray[np.float64]


@dataclass(frozen=True)
class AgentSubject:
    """An agent's maker, the privacy that is asked of it, and how many people come to which world.

    `episodes` must be enough for several releases; the doubling schedule's first ones are after 40 and 80 users.
    """

    make: MakeAgent
    privacy: Guarantee
    spec: EpisodeSpec = SPEC
    episodes: int = 84

    @property
    def people(self) -> TabularPeople:
        """Who may come."""
        return TabularPeople(self.spec)

    @property
    def local(self) -> bool:
        """Whether people's devices randomize."""
        return isinstance(self.privacy, Local)

    def agent(self, privacy: Guarantee | None = None) -> Agent:
        """A new one, without users."""
        return self.make(self.spec, self.episodes, self.privacy if privacy is None else privacy)


class Uniforms:
    """Seeded, and a stream for each run."""

    def __init__(self, seed: int, *, runs: int = 1, first: int = 0) -> None:
        self._runs = [np.random.default_rng([seed, first + run]) for run in range(runs)]

    def __call__(self, shape: tuple[int, ...]) -> Array:
        """See `tacit.learners.Uniforms`."""
        return np.stack([run.random(shape) for run in self._runs])


class Service:
    """An agent at work, all its chances seeded, and those of people's devices, too."""

    def __init__(self, subject: AgentSubject) -> None:
        self.agent = agent = subject.agent()
        self._uniforms = Uniforms(0)
        self._codec = agent.server().codec if subject.local else None
        if subject.local:
            session = Session(agent.learner(), agent.server(), self._uniforms, episodes=agent.episodes)
        else:
            session = agent.session(noise=SimulationNoise(0), runs=1, uniforms=self._uniforms)
        agent._serve(session)

    @property
    def session(self) -> Session:
        """Behind the desk."""
        return self.agent._desk()._session

    def numbers(self) -> Array:
        """All that is released."""
        release = self.session.source.release()
        told = (getattr(release, field.name) for field in fields(release))
        return np.concatenate([array.reshape(-1) for array in told if isinstance(array, np.ndarray)])

    def answer(self, ticket: Ticket, person: Any) -> Any:
        """What she sends; the same for the same ticket and person."""
        if self._codec is None:
            return person
        noise = SimulationNoise(np.random.SeedSequence(0, spawn_key=(ticket.number,)))
        return Device(self._codec, noise=noise).report([person])

    def restart(self) -> None:
        """Save it, and go on from the file."""
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "agent.npz"
            self.agent.save(path)
            raises(PrivatizationError, self.agent.begin, "a saved agent let somebody in")
            self.agent = load(path)
            raises(VaultError, lambda: load(path), "a file was loaded twice")
        self.session._uniforms = self._uniforms


class Visit(NamedTuple):
    """What somebody sends at once, and what after the next release; each is made of her ticket."""

    now: Sequence[Callable[[Service, Ticket], Any]] = ()
    late: Sequence[Callable[[Service, Ticket], Any]] = ()


class Seen(NamedTuple):
    """What a ticket shows, and what has been released by then."""

    number: int
    updates: int
    due: int
    policy: NDArray[Any]
    numbers: Array


def played(
    subject: AgentSubject, visits: list[Visit], *, restart: tuple[int, bool] | None = None, backwards: bool = False
) -> list[Seen]:
    """One ticket after the other; at last, where things stand at the end.

    `restart`: at which ticket, and whether before she answers, or after her first answer. `backwards`: the people of a
    batch answer at its end, the last one first.
    """
    service, seen, waiting = Service(subject), [], []
    late: list[tuple[int, Ticket, Visit]] = []
    for place, visit in enumerate(visits):
        ticket, updates = service.agent.begin(), service.session.updates
        seen.append(Seen(ticket.number, updates, service.session.due, ticket.policy, service.numbers()))
        for of in [one for one in late if one[0] < updates]:
            late.remove(of)
            for what in of[2].late:
                service.agent.observe(of[1], what(service, of[1]))
        late.append((updates, ticket, visit))
        waiting.append((ticket, visit))
        if restart == (place, True):
            service.restart()
        if backwards and place + 1 < min(service.session.due, len(visits)):
            continue
        for one, hers in reversed(waiting):
            for count, what in enumerate(hers.now):
                service.agent.observe(one, what(service, one))
                if restart == (place, False) and count == 0:
                    service.restart()
        waiting = []
    session = service.session
    seen.append(Seen(len(visits), session.updates, session.due, session.policy[0].copy(), service.numbers()))
    return seen


def same_course(found: list[Seen], expected: list[Seen], what: str) -> None:
    """Places, releases and policies are the same to the last bit."""
    for one, other in zip(found, expected, strict=True):
        require(one[:3] == other[:3], f"{what} changed a place or the schedule: {one[:3]}, not {other[:3]}")
        require(np.array_equal(one.numbers, other.numbers), f"{what} changed a release, at user {one.number + 1}")
        require(np.array_equal(one.policy, other.policy), f"{what} changed a policy, at user {one.number + 1}")


def streams(subject: AgentSubject) -> dict[str, list[Visit]]:
    """The same places, taken by all kinds of people; two of three may be missed."""
    people, others = (subject.people.some(subject.episodes, seed=seed) for seed in (10, 11))
    mine, hers = ([functools.partial(Service.answer, person=person) for person in who] for who in (people, others))
    ordinary, nonsense = [Visit(now=[answer]) for answer in mine], _nonsense(subject)

    def but_for_some(visit: Callable[[int], Visit], rest: list[Visit] = ordinary) -> list[Visit]:
        return [visit(place) if place % 3 else usual for place, usual in enumerate(rest)]

    return {
        "as it should be": ordinary,
        "others": [Visit(now=[answer]) for answer in hers],
        "nowhere": [Visit()] * subject.episodes,
        "absent": but_for_some(lambda place: Visit()),
        "malformed": but_for_some(lambda place: Visit(now=[nonsense[(place - place // 3 - 1) % len(nonsense)]])),
        "late": but_for_some(lambda place: Visit(late=[mine[place]])),
        "here twice": but_for_some(lambda place: Visit(), [Visit(now=both) for both in zip(mine, hers, strict=True)]),
    }


class _Broken:
    """Raises whatever is asked of it."""

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError("broken")

    __array__ = __len__ = __iter__ = __eq__ = __ne__ = __float__ = __getattr__  # type: ignore[assignment]
    __hash__ = object.__hash__


def _plain(what: Any, *service_and_ticket: Any) -> Any:
    return what


def _nonsense(subject: AgentSubject) -> list[Callable[[Service, Ticket], Any]]:
    """What no device and no reader understands, and what the other half would."""
    H = subject.spec.horizon
    walk: Any = ([0] * (H + 1), [0] * H, [0.0] * H)
    sent: list[Any] = [*subject.people.strangers(), _Broken(), (walk[0], walk[1], _Broken()), "none", b"", [[[]]]]
    sent += [(walk[0], walk[1], [10**400] * H), Report(1, {"told": np.ones((1, 1))})]
    if not subject.local:
        return [functools.partial(_plain, what) for what in sent]
    users = [0, -1, 2, 1.5, "1", None, np.array([1, 1]), _Broken()]
    sums = [np.nan, np.inf, 1j, "1", None, _Broken(), [[1]], [[1], [1, 2]]]

    def report(change: dict[str, Any], service: Service, ticket: Ticket) -> Report:
        told: Report = service.answer(ticket, walk)
        return replace(told, **change)

    def spoilt(value: Any, service: Service, ticket: Ticket) -> Report:
        told = service.answer(ticket, walk)
        return Report(
            1, {name: np.full(array.shape, value) if np.isscalar(value) else value for name, array in told.sums.items()}
        )

    empty: list[Any] = [{}, None, [], _Broken(), {"told": 1}]
    whole: list[Any] = [functools.partial(report, {"users": number}) for number in users]
    whole += [functools.partial(report, {"sums": what}) for what in empty]
    whole += [functools.partial(spoilt, value) for value in sums]
    return [*whole, *(functools.partial(_plain, what) for what in [*sent, walk, [walk]])]


def snapshots(
    subject: AgentSubject,
    *crowds: list[Any],
    privacy: Guarantee | None = None,
    noise: NoiseSource | None = None,
    runs: int = 1,
    first: int = 0,
    seed: int = 0,
    cut: int | None = None,
    moved: bool = True,
) -> list[Array]:
    """The policies that somebody follows as probabilities (runs, H, S, A): the first, and each after a release.

    One crowd comes in every run, or each run has its own. At `cut` a batch is broken in two, and the session is moved.
    """
    agent, uniforms = subject.agent(privacy), Uniforms(seed, runs=runs, first=first)
    session = agent.session(noise=noise or SimulationNoise(seed, first=first), runs=runs, uniforms=uniforms)
    columns = [np.array([[person[column] for person in crowd] for crowd in crowds]) for column in range(3)]
    whole = [np.repeat(column, runs // len(crowds), axis=0) for column in columns]
    found, played = [proper(session.policy, subject.spec)], 0
    while played < len(crowds[0]):
        until = session.due if cut is None or played >= cut else min(session.due, cut)
        due = session.due
        session.observe(Trajectories(*(column[:, played:until] for column in whole)))
        played = until
        if played == cut and moved:
            arrays, meta = session.state()
            own = {name: array.copy() for name, array in arrays.items()}
            session = agent.resumed_session(own, json.loads(json.dumps(meta)), uniforms)
        if played == due < len(crowds[0]):
            found.append(proper(session.policy, subject.spec))
    return found


def proper(policy: NDArray[Any], spec: EpisodeSpec) -> Array:
    """As probabilities, (R, H, S, A)."""
    shape = (len(policy), spec.horizon, spec.states)
    if policy.dtype.kind == "i":
        require(policy.shape == shape, f"a policy has shape {policy.shape}, not {shape}")
        require(bool(((policy >= 0) & (policy < spec.actions)).all()), "a policy takes actions that there are not")
        return np.asarray(policy[..., None] == np.arange(spec.actions), dtype=np.float64)
    require(policy.shape == (*shape, spec.actions), f"a policy has shape {policy.shape}, not {(*shape, spec.actions)}")
    sums = policy.sum(axis=-1)
    require(bool((policy >= 0).all() and np.allclose(sums, 1.0, atol=1e-9)), "a policy's chances are none")
    return np.asarray(policy, dtype=np.float64)


def possible(choices: Array) -> Array:
    """Of runs that differ in tie-breaking only: how probable an action is at most, in any of them."""
    return np.asarray(choices.max(axis=0), dtype=np.float64)


def additive(subject: AgentSubject) -> bool:
    """Whether noise is all that privacy adds, and can be left out."""
    source = subject.agent().session(noise=NoNoise(), runs=1, uniforms=Uniforms(0)).source
    return all(one.mechanism in ("none", "laplace", "gaussian") for one in source.statement.calibrations.values())


def with_epsilon(guarantee: Guarantee, epsilon: float) -> Guarantee:
    """The same promise with another budget."""
    if isinstance(guarantee, NonPrivate):
        return guarantee
    return replace(guarantee, epsilon=epsilon) if guarantee.rho is None else replace(guarantee, rho=epsilon)
