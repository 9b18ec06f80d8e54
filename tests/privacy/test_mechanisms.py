"""Laplace and Gaussian maps in both directions, against OpenDP's maps, dp-accounting and exact sums."""

import math
from fractions import Fraction

import mpmath as mp
import opendp.prelude as dp
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.privacy import Sensitivity
from tacit.privacy.accounting import Loss, delta_of_rho, rho_of_approximate
from tacit.privacy.counters import Batches, balanced_tree, binary_tree, blt, doubling, sqrt_toeplitz
from tacit.privacy.mechanisms import gaussian, laplace
from tacit.privacy.noise import lattice_scale

dp.enable_features("contrib")

fixed = settings(derandomize=True, max_examples=80, deadline=None)


def log_uniform(low, high):
    return st.floats(math.log10(low), math.log10(high)).map(lambda exponent: 10.0**exponent)


EPSILONS = log_uniform(1e-3, 30.0)
DELTAS = log_uniform(1e-12, 0.3)
HORIZONS = st.integers(1, 200)
EPISODES = st.integers(1, 100_000)
FAMILIES = st.sampled_from([1, 2, 3])


def sensitivity(horizon, families):
    """Of so many families of per-step counts, replace-one: each 2H in L1 and in squared L2."""
    return Sensitivity(l0=2 * horizon * families, l1=2.0 * horizon * families, l2_squared=2.0 * horizon * families)


def opendp_laplace(scale):
    return dp.m.make_laplace(dp.vector_domain(dp.atom_domain(T="i64")), dp.l1_distance(T="i64"), scale=scale)


def opendp_gaussian(scale):
    return dp.m.make_gaussian(dp.vector_domain(dp.atom_domain(T="i64")), dp.l2_distance(T="f64"), scale=scale)


# ---------------------------------------------------------------------------------------------- Laplace


@fixed
@given(EPSILONS, HORIZONS, EPISODES, FAMILIES)
def test_laplace_against_opendps_map(epsilon, horizon, episodes, families):
    levels = max(episodes - 1, 1).bit_length()
    participation = binary_tree(max(episodes - 1, 1)).participation("l1")
    assert participation == levels
    size = sensitivity(horizon, families)
    scale = laplace.scale_for(epsilon, size, participation=participation)
    loss = laplace.loss_of(scale, size, participation=participation)
    moved = 2 * horizon * families * levels
    theirs = opendp_laplace(scale).map(moved)
    assert theirs <= epsilon
    assert loss.epsilon <= epsilon
    # the exact quotient of the doubles is never understated, and 1e-9 less noise would not do
    assert Fraction(moved) / Fraction(scale) <= Fraction(loss.epsilon)
    assert loss.epsilon == pytest.approx(theirs, rel=1e-9)
    assert opendp_laplace(scale * (1 - 1e-9)).map(moved) > epsilon


@fixed
@given(EPSILONS, HORIZONS, st.integers(0, 20))
def test_laplace_on_a_grid_of_rewards_against_opendps_map(epsilon, horizon, bits):
    """In lattice units both the scale and Δ₁ are 2^bits times as large: the same ε."""
    unit = 2.0**-bits
    size = Sensitivity(l0=2 * horizon, l1=horizon, l2_squared=horizon)
    scale = laplace.scale_for(epsilon, size)
    assert opendp_laplace(lattice_scale(scale, unit)).map(horizon * 2**bits) <= epsilon


@fixed
@given(log_uniform(1e-2, 20.0), HORIZONS, EPISODES)
def test_laplace_against_dp_accounting(epsilon, horizon, episodes):
    pld = pytest.importorskip("dp_accounting.pld.privacy_loss_mechanism")
    size = sensitivity(horizon, 3)
    participation = balanced_tree(min(episodes, 500)).participation("l1")
    scale = laplace.scale_for(epsilon, size, participation=participation)
    theirs = pld.LaplacePrivacyLoss(scale, sensitivity=participation * size.l1)
    assert theirs.get_delta_for_epsilon(laplace.loss_of(scale, size, participation=participation).epsilon) == 0.0
    assert theirs.get_delta_for_epsilon(epsilon * (1 - 1e-6)) > 0.0


@pytest.mark.parametrize(("b", "moved"), [(2.0, 3), (0.4, 1), (30.0, 7)])
def test_the_discrete_laplace_law_attains_its_epsilon_and_no_more(b, moved):
    """max_k |ln p(k)/p(k−d)| = d/b, from the law itself."""
    loss = laplace.loss_of(b, Sensitivity(l0=1, l1=moved, l2_squared=moved**2)).epsilon
    with mp.workdps(40):
        worst = max(abs(mp.mpf(abs(k - moved)) - abs(k)) / mp.mpf(b) for k in range(-50, 51))
        assert worst <= loss <= worst * (1 + mp.mpf(1e-12))


@fixed
@given(log_uniform(1e-3, 1e3), log_uniform(1e-3, 1e6))
def test_laplace_round_trip(epsilon, l1):
    size = Sensitivity(l0=1, l1=l1, l2_squared=l1**2)
    there_and_back = laplace.loss_of(laplace.scale_for(epsilon, size), size)
    assert epsilon * (1 - 1e-11) <= there_and_back.epsilon <= epsilon
    assert there_and_back.rho == pytest.approx(epsilon**2 / 2, rel=1e-10)


# ---------------------------------------------------------------------------------------------- Gaussian

COUNTERS = {
    "tree": binary_tree,
    "doubling": doubling,
    "toeplitz": sqrt_toeplitz,
    "blt": blt,
    "batches": lambda length: Batches((length,)),
}


@fixed
@given(EPSILONS, DELTAS, HORIZONS, st.integers(2, 20_000), FAMILIES, st.sampled_from(sorted(COUNTERS)))
def test_gaussian_against_opendps_map(epsilon, delta, horizon, episodes, families, counter):
    rho = rho_of_approximate(epsilon, delta)
    participation = COUNTERS[counter](episodes).participation("l2")
    size = sensitivity(horizon, families)
    scale = gaussian.scale_for(rho, size, participation=participation)
    loss = gaussian.loss_of(scale, size, participation=participation)
    assert loss.epsilon is None
    assert loss.rho <= rho
    # never below the exact quotient of the doubles
    exact = Fraction(participation) * Fraction(size.l2_squared) / (2 * Fraction(scale) ** 2)
    assert exact <= Fraction(loss.rho)
    moved = math.sqrt(participation * size.l2_squared)
    # OpenDP rounds the norm that we hand it, and its map, up: by a few units in the last place
    assert opendp_gaussian(scale).map(moved) == pytest.approx(loss.rho, rel=1e-9)
    assert opendp_gaussian(scale).map(moved) <= rho
    assert opendp_gaussian(scale * (1 - 1e-9)).map(moved) > rho


@fixed
@given(log_uniform(1e-2, 20.0), log_uniform(1e-9, 0.3), HORIZONS)
def test_gaussian_is_never_optimistic_by_dp_accountings_measure(epsilon, delta, horizon):
    """The continuous Gaussian of this σ has an exact δ below the promised one, by what the zCDP detour costs."""
    pld = pytest.importorskip("dp_accounting.pld.privacy_loss_mechanism")
    size = sensitivity(horizon, 2)
    participation = sqrt_toeplitz(1000).participation("l2")
    scale = gaussian.scale_for(rho_of_approximate(epsilon, delta), size, participation=participation)
    theirs = pld.GaussianPrivacyLoss(scale, sensitivity=math.sqrt(participation * size.l2_squared))
    assert theirs.get_delta_for_epsilon(epsilon) <= delta


@pytest.mark.parametrize("sigma", [0.4, 0.7, 1.0, 2.0, 5.3])
@pytest.mark.parametrize("moved", [1, 2, 3])
def test_the_discrete_gaussian_law_has_the_renyi_divergence_that_the_map_says(sigma, moved):
    """D_α by summing the law, 40 digits; ρα is attained at whole α·moved."""
    rho = gaussian.loss_of(sigma, Sensitivity(l0=1, l1=moved, l2_squared=moved**2)).rho
    with mp.workdps(40):
        reach = range(-120, 121)
        variance = mp.mpf(sigma) ** 2
        law = {k: mp.exp(-(mp.mpf(k) ** 2) / (2 * variance)) for k in range(-125, 126)}
        total = sum(law.values())
        ratios = []
        for alpha in (1.01, 1.1, 1.5, 2, 3, 4.5, 8):
            alpha = mp.mpf(alpha)
            moment = sum((law[k] / total) ** alpha * (law[k - moved] / total) ** (1 - alpha) for k in reach)
            ratios.append(mp.log(moment) / (alpha - 1) / alpha)
        assert max(ratios) <= rho
        assert max(ratios) >= rho * (1 - mp.mpf(1e-10))


@pytest.mark.parametrize("sigma", [0.6, 1.0, 3.0, 11.0])
@pytest.mark.parametrize("moved", [1, 2])
def test_discrete_gaussian_delta_by_dp_accounting_is_within_the_conversion(sigma, moved):
    pld = pytest.importorskip("dp_accounting.pld.privacy_loss_mechanism")
    theirs = pld.DiscreteGaussianPrivacyLoss(sigma, sensitivity=moved)
    rho = gaussian.loss_of(sigma, Sensitivity(l0=1, l1=moved, l2_squared=moved**2)).rho
    for epsilon in (0.01, 0.1, 0.5, 1.0, 2.0, 4.0):
        # it cuts the law's tails at 1e-15
        assert theirs.get_delta_for_epsilon(epsilon) <= delta_of_rho(rho, epsilon) + 1e-14


@fixed
@given(log_uniform(1e-12, 1e3), log_uniform(1e-6, 1e12))
def test_gaussian_round_trip(rho, l2_squared):
    size = Sensitivity(l0=1, l1=1, l2_squared=l2_squared)
    there_and_back = gaussian.loss_of(gaussian.scale_for(rho, size), size)
    assert rho * (1 - 1e-10) <= there_and_back.rho <= rho


# ---------------------------------------------------------------------------------------------- edges


def test_what_moves_nothing_costs_nothing_and_no_noise_costs_everything():
    nothing = Sensitivity(l0=0, l1=0.0, l2_squared=0.0)
    something = Sensitivity(l0=1, l1=1.0, l2_squared=1.0)
    for mechanism, budget in ((laplace, 1.0), (gaussian, 0.1)):
        assert mechanism.scale_for(budget, nothing) == 0.0
        assert mechanism.loss_of(0.0, nothing) == Loss(epsilon=0.0, rho=0.0)
        assert mechanism.loss_of(0.0, something).rho == math.inf
        assert mechanism.loss_of(0.0, something).epsilon in (None, math.inf)


@fixed
@given(st.integers(1, 50), log_uniform(1e-3, 1e3), st.integers(1, 9))
def test_sensitivities_scale_as_norms_do(cells, factor, contributions):
    """A literal vector with `cells` entries ±1, scaled; and m copies of it, the worst of m episodes."""
    size = Sensitivity(l0=cells, l1=cells, l2_squared=cells)
    assert size.l2 == math.sqrt(cells)
    scaled = size.scaled(factor)
    vector = [factor * (-1) ** i for i in range(cells)]
    assert scaled.l0 == cells
    assert scaled.l1 == pytest.approx(sum(map(abs, vector)))
    assert scaled.l2_squared == pytest.approx(sum(v * v for v in vector))
    many = size.times(contributions)
    same_cells = [contributions] * cells  # all m episodes move the same cells: the worst for L2
    assert many.l1 == sum(same_cells)
    assert many.l2_squared == sum(v * v for v in same_cells)
    assert many.l0 == contributions * cells  # or all different ones: the worst for L0
