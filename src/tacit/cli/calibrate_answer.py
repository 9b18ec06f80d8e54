"""What `tacit calibrate` answers: the library's own numbers side by side. Nothing is computed here."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from tacit.cli.shared import Mistake

if TYPE_CHECKING:
    from tacit.privacy.accounting import Loss
    from tacit.privacy.calibration import Calibration
    from tacit.privacy.counters import CounterDesign
    from tacit.privacy.guarantees import Guarantee
    from tacit.privacy.sensitivity import Sensitivity
    from tacit.privatizers.codecs import Codec
    from tacit.releases import Error
    from tacit.statistics import TabularStatistic

__all__ = ["Answer", "LeftOut", "Model", "Noise", "Question", "Row", "answer", "guarantee_of"]

Model = Literal["joint", "local"]
Noise = Literal["laplace", "gaussian"]

_MOST = 2**24  # where the table of BLTs ends; other designs of this length take minutes, too
_SMALL, _LARGE = 1e-100, 1e100  # what is squared stays a number


@dataclass(frozen=True, kw_only=True)
class Question:
    """The public facts of a world, and either a guarantee (`epsilon` with `delta`, or `rho`) or a noise's `scale`.

    With a `scale`, `delta` is where the ε of a Gaussian is read off. `mechanism` leaves one kind of noise; `confidence`
    is the β of `Row.bound`.
    """

    states: int = 6
    actions: int = 2
    horizon: int = 20
    episodes: int = 20_000
    epsilon: float | None = None
    delta: float = 0.0
    rho: float | None = None
    scale: float | None = None
    mechanism: Noise | None = None
    model: Literal["joint", "local", "both"] = "both"
    pooled: bool = True
    published: bool = False
    confidence: float = 0.1

    def __post_init__(self) -> None:
        if not 1 <= self.episodes <= _MOST:
            raise Mistake(f"episodes must be in 1..{_MOST:,}; got {self.episodes:,}")
        if not 0.0 < self.confidence < 1.0:
            raise Mistake(f"confidence is a probability of failure between 0 and 1; got {self.confidence}")
        if self.published and self.mechanism == "gaussian":
            raise Mistake("published constants are of Laplace noise: leave --mechanism gaussian out")
        if self.scale is None:
            if self.epsilon is None and self.rho is None:
                raise Mistake(
                    "give --epsilon (and --delta) or --rho for the noise that it costs, or --scale for the "
                    "guarantee that a noise keeps"
                )
            if max(self.epsilon or 0.0, self.rho or 0.0) > _LARGE or 0.0 < (self.epsilon or self.rho or 0.0) < _SMALL:
                raise Mistake(
                    f"a budget between {_SMALL:g} and {_LARGE:g} is needed; infinity asks for no noise at all"
                )
            return
        if self.epsilon is not None or self.rho is not None:
            raise Mistake("--scale asks for the guarantee that a noise keeps: leave --epsilon and --rho out")
        if self.published:
            raise Mistake("published constants follow from --epsilon; --scale has none")
        if not _SMALL <= self.scale <= _LARGE:
            raise Mistake(f"scale must be positive, between {_SMALL:g} and {_LARGE:g}; got {self.scale:g}")
        if not 0.0 <= self.delta < 1.0:
            raise Mistake(f"delta must be at least 0 and below 1; got {self.delta}")


@dataclass(frozen=True, kw_only=True)
class Row:
    """One mechanism. Standard deviations and bound are those of one released count of transitions.

    Attributes
    ----------
    name, noise, rule
        The counter or randomizer; `"laplace"`, `"gaussian"` or `"subset selection"`; `"exact"`, `"given"`, or which
        publication.
    statistic
        What is counted.
    scale
        Of the noise, in the library's sense (Laplace b, Gaussian σ); None for subset selection.
    max_std, last_std
        In the noisiest and in the last release.
    bound
        E: with probability 1 − confidence no count of any release is off by more. Exact for Laplace and Gaussian noise
        up to the union bound over counts and releases; by Bernstein's inequality for subset selection.
    epsilon, rho, epsilon_at_delta
        What is really spent: pure ε, ρ, and ε at the δ asked for; None where no finite one holds.
    last_release
        How many users the last release covers.
    memory
        Numbers held per released count.
    """

    model: Model
    name: str
    noise: str
    rule: str
    statistic: str
    scale: float | None
    max_std: float
    last_std: float
    bound: float
    epsilon: float | None
    rho: float | None
    epsilon_at_delta: float | None
    releases: int
    last_release: int
    memory: float


@dataclass(frozen=True, kw_only=True)
class LeftOut:
    """A mechanism that cannot do what was asked."""

    model: Model
    name: str
    noise: str
    why: str


@dataclass(frozen=True, kw_only=True)
class Answer:
    """Rows, the quietest of each model first, and what is missing among them; `sensitivity` is that of exact rows."""

    question: Question
    sensitivity: Sensitivity
    rows: tuple[Row, ...]
    left_out: tuple[LeftOut, ...]

    def to_json(self) -> dict[str, Any]:
        """Plain values."""
        from tacit import __version__

        return {**asdict(self), "software": f"tacit {__version__}"}


def answer(question: Question) -> Answer:
    """Every mechanism's row, or why it has none. If none has one, that is the caller's mistake."""
    from tacit.mdp.spec import EpisodeSpec
    from tacit.statistics import TabularStatistic

    spec = EpisodeSpec(states=question.states, actions=question.actions, horizon=question.horizon)
    statistic = TabularStatistic(spec=spec, pooled=question.pooled)
    if question.scale is None:
        guarantee_of("joint", question)  # what nothing can keep is told at once
    found: list[Row | LeftOut] = []
    if question.model != "local":
        found += _joint(question, statistic)
    if question.model != "joint":
        found += _local(question, statistic)
    if question.published:
        # 000 counts three families, at every step
        three = TabularStatistic(spec=spec, families=("transitions", "rewards", "visits"), centred=False, pooled=False)
        found += _published(question, three)
    rows = [row for row in found if isinstance(row, Row)]
    left_out = [row for row in found if isinstance(row, LeftOut)]
    if not rows:
        raise Mistake(left_out[0].why)
    rows.sort(key=lambda row: (row.model, row.max_std))
    return Answer(question=question, sensitivity=statistic.sensitivity(), rows=tuple(rows), left_out=tuple(left_out))


def _joint(question: Question, statistic: TabularStatistic) -> Iterator[Row | LeftOut]:
    from tacit.privatizers import COUNTERS, design_for

    def row(counter: CounterDesign, noise: Noise) -> Row:
        calibration = _calibrated("joint", question, statistic, counter, noise)
        return _counter_row(question, statistic, counter, calibration, calibration.loss)

    for short in COUNTERS:
        if short != "once":  # that is for data sets
            counter = design_for(short, episodes=question.episodes)
            for noise in _noises(question):
                yield _or_left_out(partial(row, counter, noise), "joint", counter.name, noise)


def _local(question: Question, statistic: TabularStatistic) -> Iterator[Row | LeftOut]:
    from tacit.privacy.counters import single
    from tacit.privatizers.codecs import AdditiveCodec, OneStepCodec, local_codec

    def one_step() -> Row:
        if question.scale is not None:
            raise Mistake("one step of each user is told by subset selection, which --epsilon calibrates and no scale")
        codec = local_codec(statistic, guarantee_of("local", question))
        assert isinstance(codec, OneStepCodec)
        name = f"one step, {codec.selection.width} of {codec.selection.symbols} symbols"
        return _codec_row(question, statistic, codec, name)

    def additive(noise: Noise) -> Row:
        calibration = _calibrated("local", question, statistic, single(1), noise)
        kept = guarantee_of("local", question) if question.scale is None else _kept_by(calibration.loss)
        codec = AdditiveCodec(statistic, kept, {" and ".join(statistic.families): calibration})
        return _codec_row(question, statistic, codec, "noise on every count")

    if question.mechanism is None:
        yield _or_left_out(one_step, "local", "one step", "subset selection")
    for noise in _noises(question):
        yield _or_left_out(partial(additive, noise), "local", "noise on every count", noise)


def _published(question: Question, statistic: TabularStatistic) -> Iterator[Row | LeftOut]:
    """000's constants are for a pure ε; a δ that is allowed besides does not change them."""
    from tacit.privacy.accounting import compose
    from tacit.privatizers import design_for, local_codec, published

    def central() -> Row:
        counter = design_for("tree", episodes=question.episodes)
        guarantee = guarantee_of("joint", question, delta=0.0)
        calibrations = published.central(statistic, guarantee, counter, question.episodes)
        spent = compose(calibration.loss for calibration in calibrations.values())
        return _counter_row(question, statistic, counter, calibrations["transitions"], spent)

    def local() -> Row:
        codec = local_codec(statistic, guarantee_of("local", question, delta=0.0), calibration="published")
        return _codec_row(question, statistic, codec, "noise on every count")

    for model, row in (("joint", central), ("local", local)):
        if question.model in (model, "both"):
            yield _or_left_out(row, "joint" if model == "joint" else "local", "as published (000)", "laplace")


def _or_left_out(row: Callable[[], Row], model: Model, name: str, noise: str) -> Row | LeftOut:
    from tacit.privacy.guarantees import GuaranteeError
    from tacit.privatizers import PrivatizationError

    try:
        return row()
    except (GuaranteeError, PrivatizationError, Mistake) as error:
        return LeftOut(model=model, name=name, noise=noise, why=str(error))


def _noises(question: Question) -> tuple[Noise, ...]:
    return ("laplace", "gaussian") if question.mechanism is None else (question.mechanism,)


def guarantee_of(model: Model, question: Question, *, delta: float | None = None) -> Guarantee:
    """What is asked for, in one of the models; `delta` in place of the question's."""
    from tacit.privacy.guarantees import Joint, Local

    kind = Joint if model == "joint" else Local
    return kind(epsilon=question.epsilon, delta=question.delta if delta is None else delta, rho=question.rho)


def _kept_by(loss: Loss) -> Guarantee:
    from tacit.privacy.guarantees import Local

    return Local(rho=loss.rho) if loss.epsilon is None else Local(epsilon=loss.epsilon)


def _calibrated(
    model: Model, question: Question, statistic: TabularStatistic, counter: CounterDesign, noise: Noise
) -> Calibration:
    """The least noise for a guarantee, or the price of the scale that was given."""
    from tacit.privacy.calibration import calibrate, price

    sensitivity = statistic.sensitivity()
    if question.scale is None:
        return calibrate(guarantee_of(model, question), sensitivity, counter=counter, mechanism=noise)
    participation = counter.participation("l1" if noise == "laplace" else "l2")
    if math.isinf(participation):
        raise Mistake(f"{counter.name} keeps no guarantee with {noise.title()} noise")
    return price(noise, question.scale, sensitivity, participation=participation, rule="given")


def _counter_row(
    question: Question, statistic: TabularStatistic, counter: CounterDesign, calibration: Calibration, spent: Loss
) -> Row:
    from tacit.privacy.counters import error_at, worst_error

    noise: Noise = "laplace" if calibration.mechanism == "laplace" else "gaussian"
    scale, unit = calibration.scale, statistic.unit("transitions")
    releases = time = 0
    while (upcoming := counter.next_release(time)) is not None:
        releases, time = releases + 1, upcoming
    return _row(
        question,
        statistic,
        calibration,
        spent,
        model="joint",
        name=counter.name,
        worst=worst_error(counter, mechanism=noise, scale=scale, unit=unit),
        last=error_at(counter, time, mechanism=noise, scale=scale, unit=unit),
        releases=releases,
        last_release=time,
        memory=float(counter.memory()),
    )


def _codec_row(question: Question, statistic: TabularStatistic, codec: Codec, name: str) -> Row:
    """A release may be made after every user, and the last is the noisiest: every report brings its own noise."""
    import numpy as np

    from tacit.privacy.accounting import compose

    users = question.episodes
    nothing = {name: np.zeros(shape) for name, shape in codec.shapes(runs=0).items()}
    error = codec.decode(nothing, users=users, reports=users).errors["transitions"]  # known before any data
    held = sum(math.prod(shape) for shape in codec.shapes(runs=1).values())
    return _row(
        question,
        statistic,
        next(iter(codec.calibrations.values())),
        compose(calibration.loss for calibration in codec.calibrations.values()),
        model="local",
        name=name,
        worst=error,
        last=error,
        releases=users,
        last_release=users,
        memory=held / sum(statistic.cells(family) for family in statistic.families),
    )


def _row(
    question: Question,
    statistic: TabularStatistic,
    calibration: Calibration,
    spent: Loss,
    *,
    model: Model,
    name: str,
    worst: Error,
    last: Error,
    releases: int,
    last_release: int,
    memory: float,
) -> Row:
    return Row(
        model=model,
        name=name,
        noise=calibration.mechanism,
        rule=calibration.rule,
        statistic=f"{', '.join(statistic.families)}; {'pooled over steps' if statistic.pooled else 'per step'}",
        scale=None if calibration.mechanism == "subset selection" else calibration.scale,
        max_std=worst.std,
        last_std=last.std,
        bound=worst.quantile(question.confidence / (statistic.cells("transitions") * releases)),
        epsilon=_finite(spent.epsilon),
        rho=_finite(spent.rho),
        epsilon_at_delta=_finite(spent.epsilon_at(question.delta)),
        releases=releases,
        last_release=last_release,
        memory=memory,
    )


def _finite(value: float | None) -> float | None:
    return None if value is None or math.isinf(value) else value
