"""A conformance suite for agents, ours and yours.

    def make(spec, episodes, privacy):
        return MyAgent(spec, episodes=episodes, privacy=privacy)

    check_agent(make, privacies=[tacit.NonPrivate(), tacit.Joint(epsilon=1), tacit.Local(epsilon=1)])

Every check is a function in `AGENT_CHECKS`; `check_agent` runs them all under each privacy and tells everything that
failed. What is compared is compared under the same seeds: noise, tie-breaking and devices do not depend on who comes.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import itertools
import json
import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tacit.learners import NothingLearnt
from tacit.online import Ticket, agent_from_json
from tacit.privacy.guarantees import Guarantee, Joint, Local, NonPrivate
from tacit.privacy.noise import NoiseSource, NoNoise, SimulationNoise
from tacit.privacy.statements import Statement
from tacit.privatizers import BudgetExhausted, Device, PrivatizationError, Privatizer, Report
from tacit.testing.failures import ConformanceError, raises, require
from tacit.testing.hearing import overheard
from tacit.testing.people import TabularPeople
from tacit.testing.privatizers import Subject, check_privacy_loss
from tacit.testing.service import (
    AgentSubject,
    MakeAgent,
    Service,
    Uniforms,
    additive,
    played,
    possible,
    proper,
    same_course,
    snapshots,
    streams,
    with_epsilon,
)

__all__ = ["AGENT_CHECKS", "AgentSubject", "check_agent"]

PRIVACIES = (NonPrivate(), Joint(epsilon=1), Local(epsilon=1))
VAST = 1e9  # an ε at which additive noise is far below one visit


def check_agent(make: MakeAgent, *, privacies: Sequence[Guarantee] = PRIVACIES, **options: Any) -> None:
    """Run every check under every privacy; raise `ConformanceError` with all that failed."""
    failures = []
    for privacy in privacies:
        for name, check in AGENT_CHECKS.items():
            try:
                check(AgentSubject(make, privacy, **options))
            except ConformanceError as failure:
                failures.append(f"{name}, {privacy}: {failure}")
            except Exception as error:
                failures.append(f"{name}, {privacy}: {type(error).__name__}: {error}")
    if failures:
        raise ConformanceError("\n".join(failures))


def check_policy(subject: AgentSubject) -> None:
    """Everybody is told something that she can do, in every state and at every step."""
    spec, service = subject.spec, Service(subject)
    for person in subject.people.some(subject.episodes, seed=1):
        ticket = service.agent.begin()
        proper(ticket.policy[None], spec)
        action = ticket.action(spec.horizon - 1, spec.states - 1)
        require(action in range(spec.actions), f"a ticket says to take action {action!r}")
        service.agent.observe(ticket, service.answer(ticket, person))
    for policy in snapshots(subject, subject.people.some(subject.episodes, seed=1), runs=3):
        require(len(policy) == 3, f"three runs have {len(policy)} policies")


def check_relabelling(subject: AgentSubject) -> None:
    """Whoever numbers states and actions otherwise is served alike: no number is better than another.

    Exactly, where noise can be left out: the actions that may be taken are those of the world as it was, with their
    new names. With noise, and with ties, on average over runs (six standard errors).
    """
    spec, people = subject.spec, subject.people.some(subject.episodes, seed=2)
    rng = np.random.default_rng(3)
    people = [(states, actions, rng.uniform(*spec.reward_range, size=spec.horizon)) for states, actions, _ in people]
    s, a = np.roll(np.arange(spec.states), 1), np.arange(spec.actions)[::-1]
    others = [(s[states], a[actions], rewards) for states, actions, rewards in people]
    if additive(subject):
        vast = with_epsilon(subject.privacy, VAST)
        before, after = (snapshots(subject, who, privacy=vast, noise=NoNoise(), runs=64) for who in (people, others))
        for update, (old, new) in enumerate(zip(before, after, strict=True)):
            same = np.allclose(possible(old), possible(new)[:, s][..., a], atol=1e-9)
            require(same, f"other names for states and actions make another policy after {update} releases")
    runs = 1000
    before, after = (snapshots(subject, who, seed=seed, runs=runs) for seed, who in enumerate((people, others)))
    for update, (old, new) in enumerate(zip(before, after, strict=True)):
        new = new[:, :, s][..., a]
        error = 6.0 * np.sqrt((old.var(axis=0) + new.var(axis=0)) / runs) + 0.02
        apart = float((np.abs(old.mean(axis=0) - new.mean(axis=0)) - error).max())
        require(apart <= 0, f"some action is preferred for its number or its state's, after {update} releases")


def check_infinite_epsilon(subject: AgentSubject) -> None:
    """Privacy is the only difference: where nothing is asked for, policies are those of the agent without privacy.

    At ε = ∞ they are the same; at ε = 10⁹ with additive noise the same but for ties. A device that tells one step only
    leaves the world's chances in: at ε = 40 it must at least learn, on average, what is plain to see.
    """
    people = subject.people.some(subject.episodes, seed=4)
    exact = snapshots(subject, people, privacy=NonPrivate(), runs=64)
    if not subject.local:
        unlimited = snapshots(subject, people, privacy=with_epsilon(subject.privacy, math.inf), runs=64)
        same = len(exact) == len(unlimited) and all(map(np.array_equal, exact, unlimited))
        require(same, "at ε = ∞ policies are not those without privacy")
    if additive(subject):
        vast = snapshots(subject, people, privacy=with_epsilon(subject.privacy, VAST), runs=64)
        for update, (want, got) in enumerate(zip(exact, vast, strict=True)):
            tied = (want != want[:1]).any(axis=(0, 3))
            apart = float(np.where(tied[None, :, :, None], 0.0, np.abs(want - got)).max())
            require(apart < 1e-3, f"at ε = 10⁹ the policy after {update} releases is off by {apart:.3g}")
        return
    many, (low, high) = replace(subject, episodes=2_000), subject.spec.reward_range
    walks = subject.people.some(many.episodes, seed=5)
    people = [
        (states, acts, [high if act else low for act in acts]) for states, acts, _ in walks
    ]  # action 0 never pays
    want, got = (
        1.0 - snapshots(many, people, privacy=privacy, runs=4)[-1][..., 0].mean()
        for privacy in (NonPrivate(), with_epsilon(subject.privacy, 40.0))
    )
    chance = 1.0 - 1.0 / subject.spec.actions
    require(
        got >= chance + (want - chance) / 4, f"at ε = 40 what pays is done in {got:.0%}, without privacy in {want:.0%}"
    )


def check_budget(subject: AgentSubject) -> None:
    """As many people are let in as were declared; whoever comes then is refused, and changes nothing."""
    for episodes in (1, 2, subject.episodes):
        service = Service(replace(subject, episodes=episodes))
        tickets = [service.agent.begin() for _ in range(episodes)]
        before = (service.numbers(), service.agent.statement)
        for _ in range(2):
            raises(BudgetExhausted, service.agent.begin, f"user {episodes + 1} of {episodes} was let in")
        require(np.array_equal(before[0], service.numbers()), "a refused user changed the release")
        require(before[1] == service.agent.statement, "a refused user changed the statement")
        service.agent.observe(tickets[-1], service.answer(tickets[-1], subject.people.some(1, seed=0)[0]))


def check_restart(subject: AgentSubject) -> None:
    """Saved and loaded in the middle, it goes on as if nothing had happened, and there is one of it.

    Tickets handed out before are still good, and what was taken in is not taken in twice.
    """
    visits = streams(subject)["here twice"]
    straight = played(subject, visits)
    ends = [seen.due for seen in straight]
    for place in sorted({0, ends[0] - 1, ends[0], ends[subject.episodes // 2] - 1, subject.episodes - 1}):
        for is_open in (False, True):
            same_course(played(subject, visits, restart=(place, is_open)), straight, f"a restart at user {place + 1}")
    people = subject.people.some(subject.episodes, seed=6)
    for cut in sorted({1, ends[0] - 1, ends[0], ends[subject.episodes // 2]}):
        # Both break the batch in two: a simulated device draws for a part of a batch at once.
        whole, broken = (snapshots(subject, people, runs=2, cut=cut, moved=moved) for moved in (False, True))
        same = len(whole) == len(broken) and all(map(np.array_equal, whole, broken))
        require(same, f"a session that was moved after {cut} episodes went another way")


def check_schedule(subject: AgentSubject) -> None:
    """When the policy changes is public: whoever comes, and whoever stays away, comes late or twice, or sends nonsense.

    Between two of these moments everybody follows the same policy.
    """
    seen = {name: played(subject, visits) for name, visits in streams(subject).items()}
    public = [one[:3] for one in seen["as it should be"]]
    for name, trace in seen.items():
        require([one[:3] for one in trace] == public, f"tickets or releases come otherwise if people are {name}")
        for one, other in itertools.pairwise(trace):
            same = np.array_equal(one.policy, other.policy)
            require(same or one.updates != other.updates, "the policy changed without a release")
    require(public[-1][1] > 0, "there is no release at all: take more episodes")


def check_silence(subject: AgentSubject) -> None:
    """Whatever people send, nothing is raised, warned, logged or printed. (`NothingLearnt` is told of releases.)"""
    for name, visits in streams(subject).items():
        with overheard(but=(NothingLearnt,)) as heard:
            played(subject, visits)
        require(not heard, f"people who are {name} can be heard: {'; '.join(heard)}")


def check_absence(subject: AgentSubject) -> None:
    """Missing, late, a second time, unreadable: whatever is wrong with somebody, for all others she was absent.

    Releases and policies are the same to the last bit, at the same places. The order in which the people of a batch
    come back makes no difference, either.
    """
    visits = streams(subject)
    base = played(subject, visits["absent"])
    for name in ("malformed", "late", "here twice"):
        same_course(played(subject, visits[name]), base, f"people who are {name}, not absent,")
    ordinary = visits["as it should be"]
    want, got = (played(subject, ordinary, backwards=backwards)[-1].numbers for backwards in (False, True))
    require(np.allclose(want, got, atol=1e-6), "the order in which people come back changes a release")


def check_releases_only(subject: AgentSubject) -> None:
    """Policies are made of releases and of chance: a learner that gets nothing else makes the same ones."""
    agent, people = subject.agent(), subject.people.some(subject.episodes, seed=12)
    session = agent.session(noise=SimulationNoise(0), runs=1, uniforms=Uniforms(0))
    learner, uniforms = subject.agent().learner(), Uniforms(0)
    state, updates = learner.start(session.source.release(), uniforms), 0
    for person in [None, *people]:
        if person is not None:
            session.observe(subject.people.batch([person], 1))
        if session.updates > updates:
            updates = session.updates
            state = learner.update(state, session.source.release(), uniforms)
        same = np.array_equal(session.policy, state.policy)
        require(same, f"after {session.source.users} users the policy is none that the learner makes of the releases")


def check_loss(subject: AgentSubject) -> None:
    """What stands between people and the learner loses what the statement says, over all pairs in a tiny world."""
    if subject.privacy.kind == "none":
        return
    tiny = replace(subject.spec, states=2, actions=2, horizon=min(subject.spec.horizon, 2), start="unknown")

    def make(*, episodes: int, runs: int, noise: NoiseSource, epsilon: float | None) -> Privatizer:
        privacy = subject.privacy if epsilon is None else with_epsilon(subject.privacy, epsilon)
        return subject.make(tiny, episodes, privacy).privatizer(noise=noise, runs=runs)

    options: dict[str, Any] = {"additive": additive(subject), "tightness": 0.0, "lengths": (1, 3)}
    check_privacy_loss(Subject(make, TabularPeople(tiny), **options))


def check_tickets(subject: AgentSubject) -> None:
    """A ticket is a place in the stream: numbered by who comes, sent as JSON, and worth nothing if it is forged."""
    service, person = Service(subject), subject.people.some(1, seed=7)[0]
    ticket = service.agent.begin()
    require(ticket.number == 0, f"the first ticket has number {ticket.number}")
    back = Ticket.from_json(ticket.to_json())
    same = (back.number, back.token) == (ticket.number, ticket.token) and np.array_equal(back.policy, ticket.policy)
    require(same and back.policy.dtype == ticket.policy.dtype, "a ticket does not survive JSON")
    answer, foreign = service.answer(ticket, person), Service(subject).agent.begin()
    changes: list[dict[str, Any]] = [{"number": 1}, {"number": "0"}, {"number": None}, {"token": "é"}, {"token": None}]
    for forged in (*(replace(ticket, **change) for change in changes), foreign, None, answer):
        raises(ValueError, functools.partial(service.agent.observe, forged, answer), "a forged ticket was taken")
    service.agent.observe(back, answer)
    before = service.session.policy.copy()
    with contextlib.suppress(ValueError):  # it may be read-only
        ticket.policy[...] = 9
    require(np.array_equal(before, service.session.policy), "a ticket holds the agent's own policy, not a copy")


def check_halves(subject: AgentSubject) -> None:
    """Locally, what leaves a device is all that the server gets: one user's report, and never a trajectory."""
    agent = subject.agent()
    if not subject.local:
        raises(PrivatizationError, lambda: agent.client, "an agent that is trusted with trajectories has a device")
        return
    agreement = json.loads(json.dumps(agent.client.to_json()))
    elsewhere = Device.from_json(agreement)
    require(json.loads(json.dumps(elsewhere.to_json())) == agreement, "a device elsewhere keeps another agreement")
    require(elsewhere.noise.protects and agent.client.noise.protects, "a device's noise protects nobody")
    person, source = subject.people.some(1, seed=8)[0], agent._desk()._session.source
    for count, device in enumerate((agent.client, elsewhere), start=1):
        report = device.report([person])
        again = Report.from_json(report.to_json())
        same = again.users == 1 and all(np.array_equal(again.sums[name], told) for name, told in report.sums.items())
        require(same, "a report does not survive JSON")
        agent.observe(agent.begin(), again)
        require(source.reports == count, "a report of the agent's own device is not taken in")
    for what in (person, [person], elsewhere.report([person] * 2)):
        agent.observe(agent.begin(), what)
        require(source.reports == 2, "the server took in what is not one user's report")


def check_statement(subject: AgentSubject) -> None:
    """In deployment it says what was asked for, protects, and counts tickets; simulated, that nobody is safe."""
    agent, private = subject.agent(), subject.privacy.kind != "none"
    for users in range(3):
        statement = agent.statement
        require(statement.guarantee == subject.privacy, f"{subject.privacy} was asked for, not {statement.guarantee}")
        require(statement.protects == private, f"a deployed agent's statement says protects={statement.protects}")
        require(statement.holds == (private and statement.rule == "exact"), "a statement claims what does not hold")
        told = (statement.users, statement.users_declared)
        require(told == (users, subject.episodes), f"after {users} tickets the statement tells {told} users")
        require(Statement.from_json(statement.to_json()) == statement, "a statement does not survive JSON")
        ticket = agent.begin()
        if users:  # the first one does not come back, and is counted all the same
            agent.observe(ticket, None)
    session = subject.agent().session(noise=SimulationNoise(0), runs=1, uniforms=Uniforms(0))
    simulated: Statement = session.source.statement
    require(not simulated.protects, "a simulation claims to protect")
    require("no privacy" in str(simulated).split("\n")[0].lower(), "a simulation's headline misleads")
    service = Service(subject)
    ticket = service.agent.begin()
    service.agent.observe(ticket, service.answer(ticket, subject.people.some(1, seed=9)[0]))
    spent = service.agent.statement.spent.rho > 0  # locally, by what has left the device; otherwise, by a release
    require(spent == subject.local, "what is spent is told too early, or too late")


def check_settings(subject: AgentSubject) -> None:
    """Settings survive JSON. A copy is one of the settings, without the people: their stream has one future."""
    service = Service(subject)
    service.agent.begin()
    settings = service.agent.to_json()
    again = agent_from_json(json.loads(json.dumps(settings)))
    for other in (again, copy.copy(service.agent), copy.deepcopy(service.agent), service.agent.with_settings()):
        require(type(other) is type(service.agent), "a copy is of another kind")
        require(other.to_json() == settings, "settings do not survive JSON or a copy")
        require(other.statement.users == 0, "a copy has taken the users along")
    require(service.agent.statement.users == 1, "a copy changed the original")


def check_runs(subject: AgentSubject) -> None:
    """Simulated runs are independent: a run goes the same way whoever runs beside it."""
    crowds = [subject.people.some(subject.episodes, seed=run) for run in range(3)]
    beside = snapshots(subject, *crowds, runs=3)
    for run, crowd in enumerate(crowds):
        alone = snapshots(subject, crowd, first=run, runs=1)
        same = all(np.array_equal(some[run], one[0]) for some, one in zip(beside, alone, strict=True))
        require(same, f"run {run + 1} depends on those beside it")


def _quietly(check: Callable[[AgentSubject], None]) -> Callable[[AgentSubject], None]:
    """Small worlds and few people teach little; that is not what is checked."""

    @functools.wraps(check)
    def checked(subject: AgentSubject) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", NothingLearnt)
            check(subject)

    return checked


AGENT_CHECKS: dict[str, Callable[[AgentSubject], None]] = {
    "policy": _quietly(check_policy),
    "relabelling": _quietly(check_relabelling),
    "infinite epsilon": _quietly(check_infinite_epsilon),
    "budget": _quietly(check_budget),
    "restart": _quietly(check_restart),
    "schedule": _quietly(check_schedule),
    "silence": _quietly(check_silence),
    "absence": _quietly(check_absence),
    "releases only": _quietly(check_releases_only),
    "loss": _quietly(check_loss),
    "tickets": _quietly(check_tickets),
    "halves": _quietly(check_halves),
    "statement": _quietly(check_statement),
    "settings": _quietly(check_settings),
    "runs": _quietly(check_runs),
}
