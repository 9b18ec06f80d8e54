"""Regressions on declared features: sensitivities by brute force and by optimisation, and sums that are exact."""

import itertools
import math

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit

from tacit.mdp.spec import EpisodeSpec
from tacit.releases import Query, Target
from tacit.statistics import GramStatistic, read
from tacit.statistics.gram import to_svec
from tacit.statistics.regression import Grid, LoggedSteps, RegressionTable

SPEC = EpisodeSpec(states=2, actions=2, horizon=2)
FEATURES = np.array([[[1.0, 0.2, 0.0], [0.5, -0.5, 1.0]], [[0.0, 2.0, -1.0], [0.3, 0.3, 0.3]]])
R_PLUS_V = Target(reward=1.0, values=np.array([[0.0, 1.0]]), low=0.0, high=2.0)
CENTRED = Target(reward=1.0, values=np.array([[-1.0, 0.0]]), low=-1.0, high=1.0)


def everybody(spec=SPEC, rewards=(0.0, 0.5, 1.0)):
    """Every first step that an episode can have: the rest of it does not matter there."""
    for s, a, ahead, r in itertools.product(range(spec.states), range(spec.actions), range(spec.states), rewards):
        yield [s, ahead, 0], [a, 0], [r, 0.0]


def contribution(person, query, grid, spec=SPEC, features=FEATURES):
    """What one person adds to what is noised, in normalised units; through the code that releases."""
    log = LoggedSteps(spec, RegressionTable(features), episodes=1, runs=1)
    log.add(read([person], spec))
    found = log.sums(query, 0, grid)
    units = {"gram": grid.gram, "vector": grid.vector}
    return np.concatenate([np.asarray(sums, dtype=float) * units[family] for family, sums in found.items()])


@pytest.mark.parametrize("neighbours", ["replace-one", "add-or-remove-one"])
@pytest.mark.parametrize(
    ("families", "target"),
    [
        (("gram",), None),
        (("vector",), R_PLUS_V),
        (("vector",), CENTRED),
        (("gram", "vector"), R_PLUS_V),
        (("gram", "vector"), CENTRED),
    ],
)
@pytest.mark.parametrize("grid", [Grid(2.0**-40, 2.0**-20, 2.0**-20), Grid(2.0**-4, 2.0**-3, 2.0**-2)])
def test_no_two_people_differ_by_more_than_is_declared_and_some_do_by_that(families, target, neighbours, grid):
    """All pairs of people, ⊥ among them; with weights of 1 the bound is attained, and with any others it holds."""
    rng = np.random.default_rng(0)
    table = RegressionTable(FEATURES)
    low, high = (0.0, 0.0) if target is None else (target.low / target.scale[0], target.high / target.scale[0])
    fine = grid.gram < 2.0**-20
    for k in (0.7, math.sqrt(2.0), 3.0):
        declared = table.sensitivity(families, weight=k, low=low, high=high, neighbours=neighbours, grid=grid)
        worst = np.zeros(2)
        for weights in (None, *rng.random((4, 1, 2, 2))):
            query = Query(step=0, share=1, gram="gram" in families, target=target, weights=weights, vector_weight=k)
            people = [contribution(person, query, grid) for person in (*everybody(), None)]
            others = people[-1:] if neighbours == "add-or-remove-one" else people
            for one, other in itertools.product(people, others):
                difference = np.abs(one - other)
                assert np.linalg.norm(difference) <= declared.l2 + 1e-12
                assert difference.sum() <= declared.l1 + 1e-12
                if weights is None:
                    worst = np.maximum(worst, [np.linalg.norm(difference), difference.sum()])
        if fine:
            np.testing.assert_allclose(worst, [declared.l2, declared.l1], rtol=1e-5)


def test_an_optimiser_over_weights_and_targets_finds_nothing_worse():
    """Weights and targets vary continuously; the declared maximum is over their extremes only."""
    rng = np.random.default_rng(1)
    table = RegressionTable(FEATURES)
    for k, low in itertools.product((0.5, 1.2, 2.5), (-1.0, 0.0, 0.4)):
        declared = table.sensitivity(("gram", "vector"), weight=k, low=low, high=1.0)
        for first, second in itertools.product(table.rows, table.rows):

            def negative(x, first=first, second=second, k=k, low=low):
                w, z = expit(x[:2]), low + (1.0 - low) * expit(x[2:])
                parts = [
                    np.concatenate([weight * to_svec(np.outer(phi, phi)), k * weight * y * phi])
                    for phi, weight, y in ((first, w[0], z[0]), (second, w[1], z[1]))
                ]
                return -np.linalg.norm(parts[0] - parts[1])

            assert -minimize(negative, 3 * rng.normal(size=4), method="Nelder-Mead").fun <= declared.l2 + 1e-9


def test_a_table_is_never_worse_than_the_whole_ball():
    rng = np.random.default_rng(2)
    for d in (1, 2, 4):
        table = RegressionTable(rng.normal(size=(3, 4, d)))
        for k, neighbours in itertools.product((0.8, 1.2, 2.0), ("replace-one", "add-or-remove-one")):
            ball = GramStatistic(dimension=d, vector_weight=k, grid=2.0**-38).sensitivity(neighbours)
            own = table.sensitivity(("gram", "vector"), weight=k, neighbours=neighbours)
            assert own.l2 <= ball.l2 + 1e-9
            assert own.l1 <= ball.l1 + 1e-9


def test_a_large_table_has_a_bound_of_l1_that_holds(monkeypatch):
    table = RegressionTable(FEATURES)
    exact = table.sensitivity(("gram", "vector"))
    monkeypatch.setattr("tacit.statistics.regression._L1_PAIRS", 0)
    bound = RegressionTable(FEATURES).sensitivity(("gram", "vector"))
    assert exact.l1 <= bound.l1 <= 3 * exact.l1
    assert bound.l2 == exact.l2


def test_sums_of_any_size_are_exact():
    """More than 64 bits hold: whole numbers without end."""
    table = np.array([[2.0**30, 3.0], [1.0, -(2.0**30)]])
    sums = np.array([2**45, 2**45 + 1])
    found = LoggedSteps._weighed(table, sums, 2.0**-10, 2**46)
    assert [int(value) for value in found] == [2**85 + (2**45 + 1) * 2**10, 3 * 2**55 - (2**45 + 1) * 2**40]


@pytest.mark.parametrize("episodes", [1, 1000, 10**9])
@pytest.mark.parametrize("scale", [1e-9, 1.0, 1e6])
def test_a_grid_is_far_below_the_noise_and_sums_of_targets_stay_exact(scale, episodes):
    grid = Grid.below(scale, episodes=episodes)
    assert grid.gram <= max(scale * 2.0**-39, 2.0**-52)
    assert scale * 2.0**-43 <= grid.vector <= max(scale * 2.0**-39, grid.target * 2.0**-45)
    assert episodes / grid.target <= 2.0**53
    for unit in (grid.gram, grid.feature, grid.target):
        assert math.frexp(unit)[0] == 0.5
