"""Every built-in privatizer passes the suite; privatizers with the field's well-known mistakes do not."""

import pytest

from tacit.mdp.spec import EpisodeSpec
from tacit.privacy import Central, Joint, Local
from tacit.privacy.counters import doubling
from tacit.privatizers import CentralPrivatizer, LocalPrivatizer
from tacit.statistics import GramStatistic, TabularStatistic
from tacit.testing import CHECKS, GramPeople, Subject, TabularPeople

SPEC = EpisodeSpec(states=2, actions=2, horizon=2)
THREE = {"families": ("transitions", "rewards", "visits"), "centred": False, "pooled": False}


def guarantee_of(model, settings, epsilon):
    if epsilon is None:
        return model(**settings)
    if "rho" in settings:
        return model(rho=epsilon)
    return model(**{**settings, "epsilon": epsilon})


def central(settings, statistic=None, model=Joint, design=None, **options):
    statistic = statistic or TabularStatistic(spec=SPEC)

    def make(*, episodes, runs, noise, epsilon):
        guarantee = guarantee_of(model, settings, epsilon)
        chosen = {"counter": design(max(episodes - 1, 1))} if design else {}
        return CentralPrivatizer(statistic, guarantee, episodes=episodes, runs=runs, noise=noise, **options, **chosen)

    return make


def local(settings, statistic=None, **options):
    statistic = statistic or TabularStatistic(spec=SPEC)

    def make(*, episodes, runs, noise, epsilon):
        return LocalPrivatizer(
            statistic, guarantee_of(Local, settings, epsilon), episodes=episodes, runs=runs, noise=noise, **options
        )

    return make


PURE, APPROXIMATE, CONCENTRATED = {"epsilon": 1}, {"epsilon": 1.0, "delta": 1e-5}, {"rho": 0.1}
PEOPLE = TabularPeople(SPEC)
GRAM = GramStatistic(dimension=2, steps=2, norm=3.0, target_bound=0.5)
GRAM_PEOPLE = GramPeople(GRAM)

SUBJECTS = {
    "doubling, pure": Subject(central(PURE), PEOPLE),
    "doubling from 2, Gaussian": Subject(
        central(CONCENTRATED, mechanism="gaussian", design=lambda n: doubling(n, first=2)), PEOPLE
    ),
    "tree, pure": Subject(central(PURE, counter="tree"), PEOPLE),
    "tree, Gaussian": Subject(central(APPROXIMATE, counter="tree", mechanism="gaussian"), PEOPLE),
    "tree, per step": Subject(central(PURE, TabularStatistic(spec=SPEC, pooled=False), counter="tree"), PEOPLE),
    "tree, published": Subject(
        central(PURE, TabularStatistic(spec=SPEC, **THREE), counter="tree", calibration="published"), PEOPLE
    ),
    "k-ary, pure": Subject(central(PURE, counter="k-ary"), PEOPLE),
    "toeplitz": Subject(central(APPROXIMATE, counter="toeplitz"), PEOPLE),
    "blt": Subject(central(CONCENTRATED, counter="blt"), PEOPLE),
    "add or remove": Subject(central({**PURE, "neighbours": "add-or-remove-one"}), PEOPLE),
    "with starts": Subject(
        central(PURE, TabularStatistic(spec=SPEC, families=("transitions", "rewards", "starts"))), PEOPLE
    ),
    "capped": Subject(central(PURE, TabularStatistic(spec=SPEC, cap=1)), PEOPLE),
    "once": Subject(central(PURE, model=Central, counter="once"), PEOPLE),
    "once, Gram": Subject(central(CONCENTRATED, GRAM, model=Central, counter="once"), GRAM_PEOPLE),
    "tree, Gram": Subject(central(APPROXIMATE, GRAM, counter="tree", mechanism="gaussian"), GRAM_PEOPLE),
    "tree, Gram, published": Subject(
        central(APPROXIMATE, GRAM, counter="tree", calibration="published"), GRAM_PEOPLE, tightness=0.2
    ),
    "local, additive": Subject(local(PURE, randomizer="additive"), PEOPLE),
    "local, published": Subject(local(PURE, TabularStatistic(spec=SPEC, **THREE), calibration="published"), PEOPLE),
    "local, Gram": Subject(local(APPROXIMATE, GRAM, randomizer="additive"), GRAM_PEOPLE),
    "local, one step": Subject(local(PURE), PEOPLE, additive=False),
    "local, one step, per step": Subject(
        local(PURE, TabularStatistic(spec=SPEC, pooled=False)), PEOPLE, additive=False
    ),
}


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("subject", SUBJECTS)
def test_built_in_privatizers_conform(subject, check):
    CHECKS[check](SUBJECTS[subject])
