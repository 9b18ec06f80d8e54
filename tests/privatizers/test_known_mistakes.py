"""What others in this field got wrong (DESIGN.md), done on purpose: the conformance suite must catch each."""

import dataclasses
import logging
import math
import warnings

import numpy as np
import pytest

from tacit.mdp.spec import EpisodeSpec
from tacit.privacy import Joint, SimulationNoise
from tacit.privacy.counters import Tree, binary_tree
from tacit.privatizers import CentralPrivatizer
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
            stream._pool += SimulationNoise(99).laplace(scale=1.0, runs=1, size=stream._pool[0].size)
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
