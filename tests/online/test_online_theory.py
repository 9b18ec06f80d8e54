"""What privacy costs, and where the theorem's bonus teaches something: regret of whole simulations."""

import warnings

import numpy as np
import pytest

import tacit
from tacit import Joint, Local, NonPrivate
from tacit.learners import NothingLearnt
from tacit.online import UCBPO, UCBVI

RIVER = tacit.mdp.riverswim(states=4, horizon=8)
DOUBLING, TREE = {"schedule": "doubling"}, {"schedule": "every-episode", "counter": "tree"}
KARY, BLT, TOEPLITZ = (TREE | {"counter": counter} for counter in ("k-ary", "blt", "toeplitz"))
DELTA = {"delta": 1e-6}


def regret(kind, privacy, *, world=RIVER, episodes=2000, runs=10, seed=0, **options):
    agent = kind(world.spec, episodes=episodes, privacy=privacy, **options)
    return tacit.simulate(agent, world, runs=runs, seed=seed).regret


def without_privacy(kind, options, **settings):
    return regret(kind, NonPrivate(), schedule=options["schedule"], **settings)


@pytest.mark.parametrize("options", [DOUBLING, TREE], ids=["doubling", "tree"])
@pytest.mark.parametrize("kind", [UCBVI, UCBPO])
def test_without_a_bound_on_epsilon_the_course_is_that_without_privacy(kind, options):
    exact = without_privacy(kind, options, episodes=500)
    for privacy in (Joint(epsilon=np.inf), Joint(rho=np.inf)):
        np.testing.assert_array_equal(regret(kind, privacy, episodes=500, **options), exact)


# ε = 10⁶: no noise is as large as one visit, in any release, and bonuses do not allow for any. It still breaks ties,
# though: with wider bonuses than by default regret is less a matter of luck, and ten runs can tell 1 %.
WIDE = {"statistical_scale": 0.1}


@pytest.mark.parametrize(
    ("kind", "settings", "options"),
    [
        pytest.param(UCBVI, {}, DOUBLING, id="UCBVI, pure, doubling"),
        pytest.param(UCBVI, DELTA, DOUBLING, id="UCBVI, approximate, doubling"),
        pytest.param(UCBVI, {}, TREE, id="UCBVI, pure, tree"),
        pytest.param(UCBVI, {}, KARY, id="UCBVI, pure, k-ary"),
        pytest.param(UCBVI, DELTA, BLT, id="UCBVI, approximate, blt"),
        pytest.param(UCBVI, DELTA, TOEPLITZ, id="UCBVI, approximate, toeplitz", marks=pytest.mark.slow),
        pytest.param(UCBPO, {}, DOUBLING, id="UCBPO, pure, doubling"),
        pytest.param(UCBPO, DELTA, DOUBLING, id="UCBPO, approximate, doubling"),
        pytest.param(UCBPO, {}, TREE, id="UCBPO, pure, tree"),
        pytest.param(UCBPO, {}, KARY, id="UCBPO, pure, k-ary"),
        pytest.param(UCBPO, DELTA, BLT, id="UCBPO, approximate, blt"),
        pytest.param(UCBPO, DELTA, TOEPLITZ, id="UCBPO, approximate, toeplitz", marks=pytest.mark.slow),
    ],
)
def test_an_epsilon_of_a_million_costs_less_than_one_percent(kind, settings, options):
    private = regret(kind, Joint(epsilon=1e6, **settings), **options, **WIDE)[:, -1].mean()
    assert private == pytest.approx(without_privacy(kind, options, **WIDE)[:, -1].mean(), rel=0.01)


@pytest.mark.parametrize("schedule", ["doubling", pytest.param("every-episode", marks=pytest.mark.slow)])
@pytest.mark.parametrize("kind", [UCBVI, UCBPO])
def test_devices_that_noise_every_count_cost_less_than_one_percent_at_an_epsilon_of_a_million(kind, schedule):
    options = {"schedule": schedule}
    private = regret(kind, Local(epsilon=1e6), randomizer="additive", **options, **WIDE)[:, -1].mean()
    assert private == pytest.approx(without_privacy(kind, options, **WIDE)[:, -1].mean(), rel=0.01)


@pytest.mark.parametrize("kind", [UCBVI, UCBPO])
def test_a_device_that_tells_one_step_pays_for_it_however_large_epsilon_is(kind):
    # By design: it says one of H steps, so the server has a sample of H times the variance.
    private = regret(kind, Local(epsilon=1e6))[:, -1].mean()
    assert private > 1.05 * without_privacy(kind, DOUBLING)[:, -1].mean()


TWO_STATES = tacit.mdp.riverswim(states=2, horizon=2)


@pytest.mark.parametrize("privacy", [NonPrivate(), Joint(epsilon=10)], ids=str)
@pytest.mark.parametrize("kind", [UCBVI, UCBPO])
def test_the_theorem_s_bonus_teaches_in_a_tiny_world_and_many_episodes(kind, privacy):
    with warnings.catch_warnings():
        warnings.simplefilter("error", NothingLearnt)
        short, long = (
            regret(kind, privacy, world=TWO_STATES, episodes=episodes, runs=10, bonus_scale=1.0).mean(axis=0)
            for episodes in (2**14, 2**17)
        )
    first, whole = long[long.size // 2 - 1], long[-1]
    assert whole - first < 0.6 * first
    # Sub-linear in K, too: eight times the episodes cost far less than eight times the regret.
    assert whole < 0.6 * 8 * short[-1]


@pytest.mark.parametrize(
    "options", [{}, {"schedule": "every-episode", "calibration": "published"}], ids=["doubling", "published"]
)
@pytest.mark.parametrize("kind", [UCBVI, UCBPO])
def test_the_theorem_s_bonus_at_epsilon_one_teaches_nothing_in_riverswim_and_says_so_once(kind, options):
    world = tacit.mdp.riverswim(states=6, horizon=20)
    episodes = 2_000 if options else 20_000
    with pytest.warns(NothingLearnt, match="nothing has been learnt from .* of .* users") as told:
        found = regret(kind, Joint(epsilon=1), world=world, episodes=episodes, runs=10, bonus_scale=1.0, **options)
    assert len(told) == 1
    mean, tenth = found.mean(axis=0), episodes // 10
    assert mean[-1] - mean[-1 - tenth] == pytest.approx(mean[tenth - 1], rel=0.03)
    # Near the most that can be lost.
    assert mean[-1] > 0.95 * episodes * world.optimal_value


@pytest.mark.slow
@pytest.mark.parametrize("kind", [UCBVI, UCBPO])
def test_the_published_agent_of_20_000_episodes_is_linear(kind):
    world = tacit.mdp.riverswim(states=6, horizon=20)
    options = {"schedule": "every-episode", "calibration": "published", "bonus_scale": 1.0}
    with pytest.warns(NothingLearnt):
        found = regret(kind, Joint(epsilon=1), world=world, episodes=20_000, runs=2, **options)
    mean = found.mean(axis=0)
    assert mean[-1] - mean[-2001] == pytest.approx(mean[1999], rel=0.03)
