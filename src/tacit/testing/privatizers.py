"""A conformance suite for privatizers, ours and yours.

    def make(*, episodes, runs, noise, epsilon):      # epsilon=None: the guarantee that you mean
        return MyPrivatizer(..., episodes=episodes, runs=runs, noise=noise)

    check_privatizer(make, TabularPeople(spec))       # spec: two states, two actions, horizon 2

Every check is a function in `CHECKS`; `check_privatizer` runs them all and tells everything that failed. They need a
tiny world: the first one goes through all pairs of trajectories.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tacit.privacy.noise import NoiseSource, SecureNoise, SimulationNoise
from tacit.privacy.statements import Statement
from tacit.privatizers import BudgetExhausted, PrivatizationError, Privatizer, VaultError
from tacit.testing.failures import ConformanceError, raises, require
from tacit.testing.hearing import overheard
from tacit.testing.people import People
from tacit.testing.probe import ProbeNoise, noise_depends_on_data, worst_loss
from tacit.testing.sampling import told_apart, told_apart_by_one_number

__all__ = ["CHECKS", "Subject", "check_privatizer"]

LENGTHS = (1, 2, 3, 4, 5, 8)


class Make(Protocol):
    """Makes the privatizer under test."""

    def __call__(self, *, episodes: int, runs: int, noise: NoiseSource, epsilon: float | None) -> Privatizer:
        """`epsilon` replaces the guarantee's, where it is not None."""
        ...


@dataclass(frozen=True)
class Subject:
    """A privatizer's maker, and the people who come to it.

    `additive`: it adds noise (otherwise, randomized responses). `tightness`: how much of the guarantee a worst pair of
    people must really use up.
    """

    make: Make
    people: Any
    additive: bool = True
    tightness: float = 0.8
    load: Callable[[Path], Privatizer] | None = None
    lengths: tuple[int, ...] = field(default=LENGTHS)


def check_privatizer(make: Make, people: People, **options: Any) -> None:
    """Run every check; raise `ConformanceError` with all that failed."""
    subject = Subject(make, people, **options)
    failures = []
    for name, check in CHECKS.items():
        try:
            check(subject)
        except ConformanceError as failure:
            failures.append(f"{name}: {failure}")
    if failures:
        raise ConformanceError("\n".join(failures))


def check_privacy_loss(subject: Subject) -> None:
    """Over all pairs of people at every place in the stream, the loss is what the statement says, and not much less.

    All others are ordinary people, whose part in the releases no one may change; the noise is the same whoever comes.
    """
    if not subject.additive:
        _check_loss_by_sampling(subject)
        return
    people = subject.people.everybody()
    for episodes in subject.lengths:
        statement = _make(subject, episodes, noise=ProbeNoise()).statement
        promised, removal = statement.committed, statement.guarantee.neighbours != "replace-one"
        largest = 0.0
        for place in range(episodes):

            def outputs(
                noise: ProbeNoise, person: Any, episodes: int = episodes, place: int = place
            ) -> NDArray[np.float64]:
                crowd = subject.people.some(episodes, seed=place)
                crowd[place] = person
                releases = _releases(subject, _make(subject, episodes, noise=noise), crowd)
                return np.concatenate([r.reshape(-1) for r in releases])

            loss, reach, draws = worst_loss(outputs, people, calm=people[-1], removal=removal)
            some = people[:: max(1, len(people) // 4)]
            require(
                not noise_depends_on_data(outputs, some, reach, draws), f"K = {episodes}: the noise depends on the data"
            )
            require(
                math.isfinite(loss.rho),
                f"K = {episodes}: replacing user {place + 1} moves releases in a way that no noise covers",
            )
            pure = promised.epsilon is not None and any(draw.law == "laplace" for draw in draws)
            spent, allowed = (loss.epsilon, promised.epsilon) if pure else (loss.rho, promised.rho)
            assert spent is not None
            assert allowed is not None
            require(
                spent <= allowed * (1 + 1e-9),
                f"K = {episodes}: replacing user {place + 1} costs {spent:.6g}, and the statement says {allowed:.6g}",
            )
            largest = max(largest, spent / allowed)
            _check_cells_apart(reach, subject)
        require(
            largest >= subject.tightness,
            f"K = {episodes}: the worst pair uses up only {largest:.0%} of the loss: more noise than is needed",
        )


def check_lattice(subject: Subject) -> None:
    """With whole noise, as secure noise is, nothing is left in the low bits: what people move is whole in its units."""
    if not subject.additive:
        return

    def outputs(noise: ProbeNoise, person: Any) -> NDArray[np.float64]:
        privatizer = _make(subject, 2, noise=noise)
        return next(_releases(subject, privatizer, [person])).reshape(-1)

    nobody = subject.people.nobody()
    probe = ProbeNoise(whole=True)
    quiet = outputs(probe, nobody)
    reach = np.stack([outputs(ProbeNoise(i, whole=True), nobody) - quiet for i in range(len(probe.draws))], axis=1)
    units = np.where(reach == 0.0, np.inf, np.abs(reach)).min(axis=1)
    for person in [*subject.people.between(), *subject.people.some(3, seed=5)]:
        steps = (outputs(ProbeNoise(whole=True), person) - quiet) / units
        require(
            bool((np.abs(steps - np.rint(steps)) < 1e-6).all()),
            "whole noise is added to numbers that are not whole: the low bits of a release are the data's",
        )


def check_batches(subject: Subject) -> None:
    """People who come in one batch are counted as if they had come one by one."""
    if not subject.additive:
        return
    for episodes in subject.lengths:
        people = subject.people.some(episodes, seed=6)
        single, batch = (
            subject.make(episodes=episodes, runs=1, noise=SimulationNoise(0), epsilon=1e9) for _ in range(2)
        )
        _feed(subject, single, people)
        batch.observe(subject.people.batch(people, 1))
        found, expected = (subject.people.numbers(privatizer.release()) for privatizer in (batch, single))
        require(
            np.allclose(found, expected, atol=1e-3), f"K = {episodes}: one batch is released otherwise than one by one"
        )


def check_infinite_epsilon(subject: Subject) -> None:
    """Without noise, releases are exact counts of the people so far."""
    people = subject.people.some(6, seed=1)
    privatizer = subject.make(episodes=7, runs=1, noise=SimulationNoise(0), epsilon=1e9)
    for person in people:
        privatizer.observe(subject.people.batch([person], 1))
    release = privatizer.release()
    expected = subject.people.counted(release, people[: release.episodes])
    found = subject.people.numbers(release)
    if subject.additive:
        require(
            np.allclose(found, expected, atol=1e-3), f"at ε = 10⁹ a release is off by {abs(found - expected).max()}"
        )
        return
    runs = 20_000
    privatizer = subject.make(episodes=7, runs=runs, noise=SimulationNoise(0), epsilon=None)
    privatizer.observe(subject.people.batch(people, runs))
    values = subject.people.numbers(privatizer.release())
    score = (values.mean(axis=0) - expected[0]) / (values.std(axis=0) / math.sqrt(runs) + 1e-12)
    require(abs(score).max() < 6.0, f"an estimate is biased: {abs(score).max():.1f} standard errors off")


def check_errors(subject: Subject) -> None:
    """The declared standard deviation is that of the releases, within 5 %; randomized responses stay below it."""
    runs = 4_000
    privatizer = subject.make(episodes=6, runs=runs, noise=SimulationNoise(3), epsilon=None)
    privatizer.observe(subject.people.batch([subject.people.nobody()] * 5, runs))
    release: Any = privatizer.release()
    for name, law in release.errors.items():
        values = getattr(release, name)
        if name == "gram":
            values = np.diagonal(values, axis1=-2, axis2=-1)
        if name == "vector":
            values = values * release.vector_weight
        spread = float(np.sqrt((values**2).mean()))
        require(spread <= 1.05 * law.std, f"{name}: declared std {law.std:.4g}, found {spread:.4g}")
        require(not subject.additive or spread >= 0.95 * law.std, f"{name}: declared {law.std:.4g}, found {spread:.4g}")


def check_independence(subject: Subject) -> None:
    """No two runs share noise, and no two cells either (six standard errors)."""
    runs = 600
    privatizer = subject.make(episodes=4, runs=runs, noise=SimulationNoise(2), epsilon=None)
    privatizer.observe(subject.people.batch([subject.people.nobody()] * 4, runs))
    values = subject.people.numbers(privatizer.release())
    require(len(np.unique(values, axis=0)) > 0.99 * runs, "two runs have the same noise")
    if subject.additive:
        first = values[:, : _independent_cells(subject, privatizer)]
        correlation = np.corrcoef(first.T) - np.eye(first.shape[1])
        require(abs(correlation).max() < 6 / math.sqrt(runs), f"cells are correlated by {abs(correlation).max():.2f}")


def check_seeds(subject: Subject) -> None:
    """The same seed gives the same releases, another seed others, and a run does not depend on its companions."""

    def released(seed: int, runs: int) -> NDArray[np.float64]:
        privatizer = subject.make(episodes=5, runs=runs, noise=SimulationNoise(seed), epsilon=None)
        privatizer.observe(subject.people.batch(subject.people.some(5, seed=0), runs))
        return np.asarray(subject.people.numbers(privatizer.release()))

    require(np.array_equal(released(5, 2), released(5, 2)), "the same seed gave two different releases")
    require(not np.allclose(released(5, 2), released(6, 2)), "two seeds gave the same release")
    require(np.array_equal(released(5, 1)[0], released(5, 3)[0]), "run 1 depends on how many runs there are")


def check_save_and_load(subject: Subject) -> None:
    """Saved in mid-stream and loaded, it goes on as if nothing had happened; a file can be loaded once."""
    load = subject.load or type(_make(subject, 2)).load  # type: ignore[attr-defined]
    people = subject.people.some(5, seed=4)
    for cut in range(5):
        straight, broken = (subject.make(episodes=6, runs=1, noise=SimulationNoise(8), epsilon=None) for _ in range(2))
        _feed(subject, straight, people)
        _feed(subject, broken, people[:cut])
        before = subject.people.numbers(broken.release())
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "state.npz"
            broken.save(path)
            raises(PrivatizationError, lambda b=broken: b.release(), "a saved privatizer went on")  # type: ignore[misc]
            loaded = load(path)
            raises(VaultError, lambda p=path: load(p), "a file was loaded twice")  # type: ignore[misc]
        require(np.array_equal(before, subject.people.numbers(loaded.release())), "loading changed what was released")
        _feed(subject, loaded, people[cut:])
        after = subject.people.numbers(loaded.release())
        require(np.array_equal(after, subject.people.numbers(straight.release())), "a restart changed later releases")
        require(loaded.statement == straight.statement, "a restart changed the statement")


def check_silence(subject: Subject) -> None:
    """Whatever people send, nothing is raised, warned, logged or printed, and unreadable is the same as nobody."""
    (ordinary,), empty = subject.people.some(1, seed=0), subject.people.nobody()
    for person in subject.people.strangers():
        for crowd, as_good_as in (([person, ordinary], [empty, ordinary]), ([person, person], [empty, empty])):
            heard, released = _overhear(subject, crowd)
            require(not heard, f"a strange episode could be heard: {heard}")
            _, nobody = _overhear(subject, as_good_as)
            require(np.array_equal(released, nobody), "an unreadable episode is told from an empty one")
    for sent, read in subject.people.clamped():
        heard, released = _overhear(subject, [sent, ordinary])
        require(not heard, f"a value out of range could be heard: {heard}")
        require(
            np.array_equal(released, _overhear(subject, [read, ordinary])[1]), "a value out of range is not clamped"
        )


def check_schedule(subject: Subject) -> None:
    """When releases come depends on nobody's data, and neither does the number of users."""
    for episodes in subject.lengths:

        def calendar(people: list[Any], episodes: int = episodes) -> list[tuple[int, int | None]]:
            privatizer = _make(subject, episodes)
            seen = []
            for person in people:
                privatizer.observe(subject.people.batch([person], 1))
                seen.append((privatizer.users, privatizer.until_release()))
            return seen

        ordinary = calendar(subject.people.some(episodes, seed=3))
        require(ordinary == calendar([subject.people.nobody()] * episodes), "the schedule depends on who comes")
        require([users for users, _ in ordinary] == list(range(1, episodes + 1)), "users are not counted one by one")


def check_budget(subject: Subject) -> None:
    """One user too many is refused, and changes nothing."""
    for episodes in subject.lengths:
        privatizer = _make(subject, episodes)
        _feed(subject, privatizer, subject.people.some(episodes, seed=0))
        before = subject.people.numbers(privatizer.release())
        person = subject.people.batch([subject.people.nobody()], 1)
        raises(BudgetExhausted, lambda p=privatizer, x=person: p.observe(x), "a user too many was taken in")  # type: ignore[misc]
        require(np.array_equal(before, subject.people.numbers(privatizer.release())), "a refused user left a trace")
        fresh = _make(subject, episodes)
        crowd = subject.people.batch([subject.people.nobody()] * (episodes + 1), 1)
        raises(BudgetExhausted, lambda p=fresh, x=crowd: p.observe(x), "a batch too large was taken in")  # type: ignore[misc]
        require(fresh.users == 0, "a refused batch was taken in part")


def check_statement(subject: Subject) -> None:
    """The statement's numbers come from its calibrations, survive JSON, and name the noise that is really drawn."""
    for noise in (SecureNoise(), SimulationNoise(0)):
        privatizer = subject.make(episodes=5, runs=1, noise=noise, epsilon=None)
        statement = privatizer.statement
        require(Statement.from_json(statement.to_json()) == statement, "a statement does not survive JSON")
        require(statement.protects == noise.protects, "a statement is wrong about who draws the noise")
        require(("no privacy" in str(statement).split("\n")[0]) == (not noise.protects), "a headline misleads")
        for name, calibration in statement.calibrations.items():
            require(calibration.recomputed() == calibration.loss, f"{name}: the loss is not that of the noise")
        exact = statement.rule == "exact"
        kept = statement.committed.keeps(statement.guarantee)
        require(kept or not exact, "the guarantee is not what the noise keeps")
        require(statement.holds == (kept and noise.protects), "a statement claims what does not hold")
        require(privatizer.statement.spent.rho == 0, "budget is spent before anything was released")
    if subject.additive:
        probe = ProbeNoise()
        privatizer = _make(subject, 5, noise=probe)
        _feed(subject, privatizer, [subject.people.nobody()] * 5)
        told = [calibration.scale for calibration in privatizer.statement.calibrations.values()]
        for draw in probe.draws:
            shifts = [math.log2(draw.scale / scale) for scale in told]
            require(
                any(abs(shift - round(shift)) < 1e-9 for shift in shifts),
                f"noise of scale {draw.scale} was drawn, and the statement tells {told}",
            )


CHECKS: dict[str, Callable[[Subject], None]] = {
    "privacy loss": check_privacy_loss,
    "lattice": check_lattice,
    "batches": check_batches,
    "infinite epsilon": check_infinite_epsilon,
    "errors": check_errors,
    "independence": check_independence,
    "seeds": check_seeds,
    "save and load": check_save_and_load,
    "silence": check_silence,
    "schedule": check_schedule,
    "budget": check_budget,
    "statement": check_statement,
}


def _make(subject: Subject, episodes: int, noise: NoiseSource | None = None) -> Privatizer:
    return subject.make(episodes=episodes, runs=1, noise=noise or SimulationNoise(0), epsilon=None)


def _feed(subject: Subject, privatizer: Privatizer, people: list[Any]) -> None:
    for person in people:
        privatizer.observe(subject.people.batch([person], 1))


def _releases(subject: Subject, privatizer: Privatizer, people: list[Any]) -> Iterator[NDArray[np.float64]]:
    """What can be seen after each person, whether a release was due or not."""
    for person in people:
        privatizer.observe(subject.people.batch([person], 1))
        yield np.asarray(subject.people.numbers(privatizer.release()))


def _independent_cells(subject: Subject, privatizer: Privatizer) -> int:
    """Released numbers that have a noise of their own: all but what is derived (visits, the mirrored Gram)."""
    release: Any = privatizer.release()
    return int(release.transitions[0].size) if hasattr(release, "transitions") else 1


def _check_cells_apart(reach: NDArray[np.float64], subject: Subject) -> None:
    """A noise that reaches two independent cells is shared between them."""
    privatizer = _make(subject, 2)
    numbers = subject.people.numbers(privatizer.release()).shape[1]
    own = _independent_cells(subject, privatizer)
    by_cell = np.abs(reach.reshape(-1, numbers, reach.shape[1])).sum(axis=0) if reach.shape[0] >= numbers else None
    if by_cell is not None and own > 1:
        require(bool(((by_cell[:own] > 1e-12).sum(axis=0) <= 1).all()), "one noise reaches several cells")


def _check_loss_by_sampling(subject: Subject, runs: int = 50_000) -> None:
    """Randomized responses: no released number tells two people apart better than ε allows (99.9999 % confidence)."""
    people = subject.people.everybody()
    rng = np.random.default_rng(0)
    chosen = [people[0], people[-1], *(people[i] for i in rng.integers(len(people), size=4))]
    promised = _make(subject, 1).statement.committed.epsilon
    assert promised is not None
    samples = []
    for seed, person in enumerate(chosen):
        privatizer = subject.make(episodes=1, runs=runs, noise=SimulationNoise(seed), epsilon=None)
        privatizer.observe(subject.people.batch([person], runs))
        samples.append(np.round(subject.people.numbers(privatizer.release()), 9))
    worst = told_apart_by_one_number(samples)
    require(
        worst <= promised,
        f"a single number tells two people apart by ε ≥ {worst:.3f}; the statement says {promised:.3f}",
    )
    worst = max(told_apart(one, other) for one in samples for other in samples if one is not other)
    require(
        worst <= promised,
        f"all numbers together tell two people apart by ε ≥ {worst:.3f}; the statement says {promised:.3f}",
    )


def _overhear(subject: Subject, people: list[Any]) -> tuple[str, NDArray[np.float64]]:
    """Everything that can be heard from outside while these people come, and what is released."""
    released = np.zeros(0)
    with overheard() as heard:
        privatizer = _make(subject, 3)
        _feed(subject, privatizer, people)
        released = subject.people.numbers(privatizer.release())
    return "; ".join(heard), released
