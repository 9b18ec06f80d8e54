"""What others in this field got wrong (DESIGN.md), done on purpose: the conformance suite must catch each."""

import dataclasses
import logging
import math
import warnings

import numpy as np
import pytest

from tacit.mdp.spec import EpisodeSpec
from tacit.privacy import Joint, Local, SimulationNoise
from tacit.privacy.counters import Tree, binary_tree, doubling
from tacit.privatizers import CentralPrivatizer, LocalPrivatizer
from tacit.privatizers.codecs import OneStepCodec, Report
from tacit.statistics import TabularStatistic
from tacit.testing import CHECKS, ConformanceError, Subject, TabularPeople, check_privatizer

SPEC = EpisodeSpec(states=2, actions=2, horizon=2)
STATISTIC = TabularStatistic(spec=SPEC)


def maker(kind=CentralPrivatizer, statistic=STATISTIC, counter=binary_tree):
    def make(*, episodes, runs, noise, epsilon):
        guarantee = Joint(epsilon=epsilon or 1.0)
        design = counter(max(episodes - 1, 1))
        return kind(statistic, guarantee, episodes=episodes, runs=runs, noise=noise, counter=design)

    return make


def caught(check, make, message):
    with pytest.raises(ConformanceError, match=message):
        CHECKS[check](Subject(make, TabularPeople(SPEC)))


class OnePriceForAllLevels(Tree):
    """A tree calibrated as if each user were in one node: the missing log K."""

    def participation(self, norm):
        return 1.0


class RedrawnEveryTime(Tree):
    """Fresh noise on the same counts at every release, priced as if it were drawn once."""

    def parent(self, time):
        return 0

    def children_after(self, time):
        return list(range(1, self.length + 1)) if time == 0 else []

    def participation(self, norm):
        return 1.0

    def memory(self):
        return self.length + 2


class DrawnOnce(CentralPrivatizer):
    """One noise for all cells of a family."""

    def __init__(self, *args, noise, **kwargs):
        super().__init__(*args, noise=OneForAll(noise), **kwargs)


class OneForAll:
    def __init__(self, source):
        self.source = source

    def __getattr__(self, name):
        return getattr(self.source, name)

    def laplace(self, *, scale, runs, size, terms=1):
        return np.repeat(self.source.laplace(scale=scale, runs=runs, size=1, terms=terms), size, axis=1)


class Scaled(TabularStatistic):
    """Claims to move by a multiple of what it does."""

    factor = 1.0

    def sensitivity(self, neighbours="replace-one"):
        true = super().sensitivity(neighbours)
        return dataclasses.replace(true, l1=self.factor * true.l1)


class WithoutHorizon(Scaled):
    """The missing H."""

    factor = 1.0 / SPEC.horizon


class TwiceTheNoise(Scaled):
    factor = 2.0


class PrintedOnly(CentralPrivatizer):
    """ε is printed, and no noise is added."""

    def _stream_settings(self, family):
        return {**super()._stream_settings(family), "scale": 1e-12}


class Forgetful(CentralPrivatizer):
    """Draws its noise again after a restart."""

    @classmethod
    def from_state(cls, arrays, meta):
        self = super().from_state(arrays, meta)
        for stream in self._streams.values():
            for accumulator in stream._accumulators.values():
                accumulator += SimulationNoise(99).laplace(scale=1.0, runs=1, size=accumulator.size)
        return self


class Talkative(CentralPrivatizer):
    """Warns of what one user sent."""

    def observe(self, episodes):
        if any(person is None for person in episodes):
            warnings.warn("an episode is missing", stacklevel=2)
        super().observe(episodes)


class Logging(CentralPrivatizer):
    def observe(self, episodes):
        if any(person is None for person in episodes):
            logging.getLogger("tacit").debug("an episode is missing")
        super().observe(episodes)


class Strict(CentralPrivatizer):
    """Raises on a reward that is not a number."""

    def observe(self, episodes):
        for person in episodes:
            if (
                person is not None
                and isinstance(person, tuple)
                and np.isnan(np.asarray(person[2], dtype=object).astype(float)).any()
            ):
                raise ValueError("a reward is not a number")
        super().observe(episodes)


class DropsTheMissing(CentralPrivatizer):
    """A drop-out shifts everybody after her into another batch."""

    def observe(self, episodes):
        present = [person for person in episodes if person is not None]
        if present:
            super().observe(present)


class Boundless(CentralPrivatizer):
    """Takes in more users than were declared."""

    def observe(self, episodes):
        self.episodes = max(self.episodes, self.users + len(episodes))
        super().observe(episodes)


class Unseeded(CentralPrivatizer):
    def __init__(self, *args, noise, **kwargs):
        super().__init__(*args, noise=SimulationNoise(np.random.SeedSequence()), **kwargs)


class QuietWhereThereIsData(CentralPrivatizer):
    """Half the noise where somebody was: how much there is depends on the data."""

    def __init__(self, statistic, guarantee, **settings):
        super().__init__(statistic, guarantee, **settings)
        self.truth = CentralPrivatizer(statistic, Joint(epsilon=math.inf), **{**settings, "noise": None})

    def observe(self, episodes):
        self.truth.observe(episodes)
        super().observe(episodes)

    def release(self):
        noisy, true = super().release().transitions, self.truth.release().transitions
        mixed = np.where(true > 0, (noisy + true) / 2, noisy)
        return dataclasses.replace(super().release(), transitions=mixed)


class UntilEnoughCame(CentralPrivatizer):
    """003's threshold: the true count of one cell decides whether *others* are counted."""

    seen = 0

    def observe(self, episodes):
        batch = self.statistic.read(episodes)
        super().observe(episodes if self.seen < 1 else [None] * batch.number)
        self.seen += int((batch.readable[..., None] & (batch.states == 1)).sum())


class Impatient(CentralPrivatizer):
    """Between two releases it shows what the next one would be: the same noise on other counts."""

    def release(self):
        for stream in self._streams.values():
            if stream._accumulators:
                stream.released = stream._accumulators[min(stream._accumulators)].copy()
        return super().release()


class OffTheGrid(TabularStatistic):
    """Rewards are not rounded, but the noise is whole: the low bits are the data."""

    def _on_grid(self, rewards):
        return (rewards - 0.5) / self.reward_unit


class WholeNoiseOnFloats(CentralPrivatizer):
    def __init__(self, *args, noise, **kwargs):
        super().__init__(*args, noise=AsFloats(noise), **kwargs)


class AsFloats:
    dtype = np.dtype(np.float64)

    def __init__(self, source):
        self.source = source

    def __getattr__(self, name):
        return getattr(self.source, name)

    def laplace(self, **kwargs):
        return self.source.laplace(**kwargs).astype(self.dtype)


class LastFirst(CentralPrivatizer):
    """Whoever comes in one batch is taken in the wrong order, across a release."""

    def observe(self, episodes):
        super().observe(episodes[::-1])


class TellsEveryStep(LocalPrivatizer):
    """The whole ε for each of the H steps: no single number shows it."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.server.codec = EveryStep(self.codec.statistic, self.codec.guarantee, self.codec.selection)


class EveryStep(OneStepCodec):
    def possible(self, report):
        return True

    def randomize(self, episodes, noise):
        parts = []
        for h in range(self.statistic.spec.horizon):
            words = noise.words(runs=episodes.runs, size=episodes.number)
            pair = episodes.states[..., h] * self.statistic.spec.actions + episodes.actions[..., h]
            symbol = 2 * (pair * self.statistic.spec.states + episodes.states[..., h + 1])
            symbol = symbol + ((words >> np.uint64(11)) * 2.0**-53 < episodes.rewards[..., h])
            symbol = np.where(episodes.readable, symbol, self.selection.symbols - 1)
            parts.append(self.selection.randomize(symbol, noise).sum(axis=1))
        told = np.stack(parts, axis=1)
        return Report(episodes.number, {"told": told, "asked": np.full(told.shape[:2], episodes.number)})


def test_noise_that_depends_on_the_data_is_caught():
    caught("privacy loss", maker(QuietWhereThereIsData), "the noise depends on the data")


def test_a_person_who_decides_whether_others_count_is_caught():
    caught("privacy loss", maker(UntilEnoughCame), "replacing user . costs|no noise covers")


def test_a_look_between_releases_is_caught():
    caught("privacy loss", maker(Impatient, counter=doubling), "no noise covers")


def test_whole_noise_on_numbers_off_the_grid_is_caught():
    caught("lattice", maker(WholeNoiseOnFloats, statistic=OffTheGrid(spec=SPEC)), "low bits")


def test_an_order_that_depends_on_the_batch_is_caught():
    caught("batches", maker(LastFirst), "one batch")


def test_a_report_on_every_step_at_the_price_of_one_is_caught():
    def make(*, episodes, runs, noise, epsilon):
        statistic = TabularStatistic(spec=SPEC, pooled=False)
        return TellsEveryStep(statistic, Local(epsilon=epsilon or 1.0), episodes=episodes, runs=runs, noise=noise)

    with pytest.raises(ConformanceError, match="tell two people apart"):
        CHECKS["privacy loss"](Subject(make, TabularPeople(SPEC), additive=False))


def test_a_missing_log_k_is_caught():
    caught(
        "privacy loss", maker(counter=lambda n: OnePriceForAllLevels(n, binary_tree(n).radices)), "costs 2, and .* 1"
    )


def test_noise_redrawn_on_the_same_counts_is_caught():
    caught("privacy loss", maker(counter=lambda n: RedrawnEveryTime(n, ())), "costs 2, and .* 1")


def test_one_noise_for_all_cells_is_caught():
    caught("privacy loss", maker(DrawnOnce), "no noise covers")
    caught("independence", maker(DrawnOnce), "correlated by 1.00")


def test_a_missing_horizon_is_caught():
    caught("privacy loss", maker(statistic=WithoutHorizon(spec=SPEC)), "costs 2, and .* 1")


def test_noise_that_is_only_printed_is_caught():
    caught("privacy loss", maker(PrintedOnly), "costs .*e.*, and the statement says 1")
    caught("errors", maker(PrintedOnly), "declared")
    caught("statement", maker(PrintedOnly), "was drawn, and the statement tells")


def test_more_noise_than_needed_is_caught():
    caught("privacy loss", maker(statistic=TwiceTheNoise(spec=SPEC)), "uses up only 50%")


def test_noise_drawn_again_after_a_restart_is_caught():
    caught("save and load", maker(Forgetful), "a restart changed")


@pytest.mark.parametrize("kind", [Talkative, Logging])
def test_a_word_about_one_user_is_caught(kind):
    caught("silence", maker(kind), "an episode is missing")


def test_an_exception_about_one_user_is_caught():
    caught("silence", maker(Strict), "a reward is not a number")


def test_a_drop_out_that_shifts_the_others_is_caught():
    caught("schedule", maker(DropsTheMissing), "the schedule depends on who comes")


def test_a_user_too_many_is_caught():
    caught("budget", maker(Boundless), "a user too many")


def test_a_forgotten_seed_is_caught():
    caught("seeds", maker(Unseeded), "the same seed")


def test_all_failures_are_told_at_once():
    with pytest.raises(ConformanceError) as failure:
        check_privatizer(maker(PrintedOnly), TabularPeople(SPEC))
    assert {"privacy loss", "errors", "statement"} <= {line.split(":")[0] for line in str(failure.value).splitlines()}


def test_a_sound_privatizer_passes():
    check_privatizer(maker(), TabularPeople(SPEC))


def test_the_loss_of_an_uncovered_move_is_infinite():
    with pytest.raises(ConformanceError, match="no noise covers"):
        CHECKS["privacy loss"](Subject(maker(DrawnOnce), TabularPeople(SPEC), lengths=(2,)))
    assert math.isinf(CentralPrivatizer(STATISTIC, Joint(epsilon=math.inf), episodes=2).statement.committed.rho)
