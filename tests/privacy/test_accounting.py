"""Conversions and composition, against 50 digits, OpenDP and dp-accounting; never on the optimistic side."""

import math
from fractions import Fraction

import mpmath as mp
import opendp.prelude as dp
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.privacy import Central, GuaranteeError, Loss, NonPrivate, budget_of, compose
from tacit.privacy.accounting import (
    delta_of_mu,
    delta_of_rho,
    epsilon_of_mu,
    epsilon_of_rho,
    mu_of_approximate,
    rho_of_approximate,
    rho_of_pure,
    round_down,
    round_up,
)

dp.enable_features("contrib", "honest-but-curious")


def log_uniform(low, high):
    return st.floats(math.log10(low), math.log10(high)).map(lambda exponent: 10.0**exponent)


EPSILONS = log_uniform(1e-3, 30.0)
DELTAS = log_uniform(1e-12, 0.3)
fixed = settings(derandomize=True, max_examples=60, deadline=None)


def exact_delta_of_rho(rho, epsilon):
    """The infimum over α itself, by golden-section search over ln(α−1) with 50 digits; no derivative is used."""
    with mp.workdps(50):
        rho, epsilon = mp.mpf(rho), mp.mpf(epsilon)

        def log_bound(y):
            excess = mp.exp(y)
            alpha = 1 + excess
            return excess * (alpha * rho - epsilon) + alpha * mp.log(1 - 1 / alpha) - y

        golden = (mp.sqrt(5) - 1) / 2
        low, high = mp.mpf(-60), mp.mpf(40)
        left, right = high - golden * (high - low), low + golden * (high - low)
        at_left, at_right = log_bound(left), log_bound(right)
        for _ in range(130):  # to 1e-25 in ln(α−1), and so to 1e-45 or so in the bound
            if at_left < at_right:
                high, right, at_right = right, left, at_left
                left = high - golden * (high - low)
                at_left = log_bound(left)
            else:
                low, left, at_left = left, right, at_right
                right = low + golden * (high - low)
                at_right = log_bound(right)
        return mp.exp(min(at_left, at_right, mp.mpf(0)))


def exact_delta_of_mu(mu, epsilon):
    with mp.workdps(60):
        mu, epsilon = mp.mpf(mu), mp.mpf(epsilon)
        return mp.ncdf(mu / 2 - epsilon / mu) - mp.exp(epsilon) * mp.ncdf(-mu / 2 - epsilon / mu)


def rho_with_distance(epsilon, z):
    """ρ at which ε is z standard deviations above the mean of the privacy loss: (ε − ρ)/√(2ρ) = z."""
    root = (-z * math.sqrt(2.0) + math.sqrt(2.0 * z * z + 4.0 * epsilon)) / 2.0
    return root * root


# ---------------------------------------------------------------------------------------------- zero-concentrated


@fixed
@given(EPSILONS, st.floats(-1.0, 8.0))
def test_delta_of_rho_is_the_infimum_and_never_below_it(epsilon, z):
    rho = rho_with_distance(epsilon, z)
    exact, ours = exact_delta_of_rho(rho, epsilon), mp.mpf(delta_of_rho(rho, epsilon))
    assert exact <= ours <= exact * (1 + mp.mpf(1e-10))


@pytest.mark.parametrize(
    ("epsilon", "delta"), [(1e-3, 1e-12), (1e-3, 1e-9), (2.2e-2, 5e-7), (1e-2, 1e-300), (1e-6, 0.01)]
)
def test_delta_of_rho_is_not_optimistic_at_huge_orders(epsilon, delta):
    """α goes into the 100,000s here; ln(1−1/α)·α by subtraction of logarithms was 1e-11 too small."""
    rho = rho_of_approximate(epsilon, delta)
    for factor in (0.97, 0.99, 1.0):
        exact, ours = exact_delta_of_rho(factor * rho, epsilon), mp.mpf(delta_of_rho(factor * rho, epsilon))
        assert exact <= ours <= exact * (1 + mp.mpf(1e-9))


@fixed
@given(EPSILONS, DELTAS)
def test_rho_of_approximate_is_the_largest_that_keeps_delta(epsilon, delta):
    rho = rho_of_approximate(epsilon, delta)
    assert exact_delta_of_rho(rho, epsilon) <= delta
    assert exact_delta_of_rho(rho * (1 + 1e-9), epsilon) > delta


@fixed
@given(log_uniform(1e-8, 20.0), DELTAS)
def test_epsilon_of_rho_is_the_smallest_that_keeps_delta(rho, delta):
    epsilon = epsilon_of_rho(rho, delta)
    assert exact_delta_of_rho(rho, epsilon) <= delta
    if epsilon > 0:
        assert exact_delta_of_rho(rho, epsilon * (1 - 1e-9)) > delta
    # the classical conversion (Bun & Steinke 2016) is a bound from above
    assert epsilon <= rho + 2.0 * math.sqrt(rho * math.log(1.0 / delta)) * (1 + 1e-9)


@fixed
@given(EPSILONS, DELTAS)
def test_rho_and_epsilon_invert_each_other(epsilon, delta):
    rho = rho_of_approximate(epsilon, delta)
    assert epsilon_of_rho(rho, delta) <= epsilon
    # a relative error in δ of 1e-10 is one of 1e-10/(z·slope) in ε; 1e-7 is far above it
    assert epsilon_of_rho(rho, delta) == pytest.approx(epsilon, rel=1e-7)


@fixed
@given(log_uniform(0.2, 200.0), DELTAS)
def test_against_opendps_conversion(scale, delta):
    measurement = dp.m.make_gaussian(dp.vector_domain(dp.atom_domain(T="i64")), dp.l2_distance(T="f64"), scale=scale)
    profile = dp.c.make_zCDP_to_approxDP(measurement).map(1.0)
    rho = 0.5 / scale**2
    assert measurement.map(1.0) == pytest.approx(rho, rel=1e-12)
    theirs = profile.epsilon(delta)
    assert epsilon_of_rho(rho, delta) == pytest.approx(theirs, rel=1e-7, abs=1e-12)
    for epsilon in (0.5 * rho, 0.01, 0.1, 1.0, theirs):
        # OpenDP looks at orders above 1.01 only, and so says more where δ is near 1
        assert delta_of_rho(rho, epsilon) <= profile.delta(epsilon) * (1 + 1e-9)
        if 1e-250 < profile.delta(epsilon) < 0.3:
            assert delta_of_rho(rho, epsilon) == pytest.approx(profile.delta(epsilon), rel=1e-8)


@fixed
@given(EPSILONS, st.floats(-1.0, 8.0))
def test_the_zcdp_bound_covers_the_gaussian_that_has_this_rho(epsilon, z):
    """Whatever the conversion: a real ρ-zCDP mechanism's exact δ may not exceed it."""
    rho = rho_with_distance(epsilon, z)
    assert exact_delta_of_mu(math.sqrt(2.0 * rho), epsilon) <= delta_of_rho(rho, epsilon)


@fixed
@given(log_uniform(1e-3, 8.0), st.floats(0.0, 1.0))
def test_the_conversions_chained_cover_randomized_response(epsilon, fraction):
    """ε-DP → ρ → δ at a smaller ε: the exact δ of randomized response is (e^ε − e^ε')/(e^ε + 1)."""
    smaller = fraction * epsilon
    with mp.workdps(50):
        exact = (mp.exp(epsilon) - mp.exp(smaller)) / (mp.exp(epsilon) + 1)
    assert exact <= delta_of_rho(rho_of_pure(epsilon), smaller) * (1 + 1e-15)


def test_the_ends_of_the_scale():
    assert delta_of_rho(0.0, 1.0) == 0.0
    assert delta_of_rho(math.inf, 1.0) == 1.0
    assert delta_of_rho(1.0, math.inf) == 0.0
    assert delta_of_rho(5e307, 1.0) == 1.0
    assert delta_of_rho(1e-320, 1.0) == 0.0
    assert epsilon_of_rho(0.0, 1e-6) == 0.0
    assert epsilon_of_rho(math.inf, 1e-6) == math.inf
    assert epsilon_of_rho(1e-9, 0.3) == 0.0
    assert epsilon_of_rho(1e305, 1e-5) >= 1e305
    assert rho_of_approximate(math.inf, 1e-6) == math.inf
    assert 0 < rho_of_approximate(1e-9, 1e-170) < 1e-19
    for convert in (epsilon_of_rho, rho_of_approximate, mu_of_approximate, epsilon_of_mu):
        for delta in (0.0, 1.0, -1e-9, math.nan):
            with pytest.raises(GuaranteeError, match="0 < delta < 1"):
                convert(1.0, delta)


# ---------------------------------------------------------------------------------------------- analytic Gaussian


@fixed
@given(EPSILONS, st.floats(-1.0, 8.0))
def test_delta_of_mu_is_the_formula_and_never_below_it(epsilon, z):
    mu = math.sqrt(2.0 * rho_with_distance(epsilon, z))
    exact, ours = exact_delta_of_mu(mu, epsilon), mp.mpf(delta_of_mu(mu, epsilon))
    # the two terms of δ agree in all but a fraction of about μ·z of their size: 1e-13/1e-5
    assert exact <= ours <= exact * (1 + mp.mpf(1e-6))


@fixed
@given(EPSILONS, DELTAS)
def test_mu_of_approximate_is_the_largest_that_keeps_delta(epsilon, delta):
    mu = mu_of_approximate(epsilon, delta)
    assert exact_delta_of_mu(mu, epsilon) <= delta
    assert exact_delta_of_mu(mu * (1 + 1e-7), epsilon) > delta


@fixed
@given(log_uniform(1e-3, 10.0), DELTAS)
def test_epsilon_of_mu_is_the_smallest_that_keeps_delta(mu, delta):
    epsilon = epsilon_of_mu(mu, delta)
    assert exact_delta_of_mu(mu, epsilon) <= delta
    if epsilon > 0:
        assert exact_delta_of_mu(mu, epsilon * (1 - 1e-6)) > delta


@fixed
@given(log_uniform(0.01, 30.0), log_uniform(1e-9, 0.3))
def test_against_dp_accountings_gaussian(epsilon, delta):
    pld = pytest.importorskip("dp_accounting.pld.privacy_loss_mechanism")
    common = pytest.importorskip("dp_accounting.pld.common")
    mu = mu_of_approximate(epsilon, delta)
    theirs = pld.GaussianPrivacyLoss.from_privacy_guarantee(common.DifferentialPrivacyParameters(epsilon, delta))
    # its search stops at a relative width of about 1e-7, on the safe side
    assert 1.0 / theirs.standard_deviation == pytest.approx(mu, rel=1e-6)
    assert 1.0 / theirs.standard_deviation <= mu * (1 + 1e-12)
    exactly = pld.GaussianPrivacyLoss(1.0 / mu)
    # it subtracts two probabilities: good to 1e-16/δ or 1e-16/μ
    assert exactly.get_delta_for_epsilon(epsilon) == pytest.approx(delta, rel=1e-6)


def test_published_constants_of_the_algorithms_page():
    mu = mu_of_approximate(1.0, 1e-5)
    assert mu == pytest.approx(0.26805, abs=5e-6)
    # σ by zCDP over σ by the analytic calibration
    assert mu / math.sqrt(2.0 * rho_of_approximate(1.0, 1e-5)) == pytest.approx(1.084, abs=5e-4)


def test_the_ends_of_mu():
    assert delta_of_mu(0.0, 1.0) == 0.0
    assert delta_of_mu(1e-4, 30.0) == 0.0
    assert mu_of_approximate(math.inf, 1e-5) == math.inf
    assert epsilon_of_mu(1e-3, 0.3) == 0.0


# ---------------------------------------------------------------------------------------------- pure, composition


@pytest.mark.parametrize("epsilon", [0.01, 0.1, 0.5, 1.0, 2.0, 5.0, 10.0])
def test_pure_to_zcdp_bounds_the_renyi_divergence_of_randomized_response(epsilon):
    """Randomized response is the worst ε-DP mechanism: its D_α ≤ αρ for all α, with little to spare at small ε."""
    rho, tightest = mp.mpf(rho_of_pure(epsilon)), mp.mpf(0)
    with mp.workdps(50):
        p = mp.exp(epsilon) / (1 + mp.exp(epsilon))
        q = 1 - p
        for exponent in range(-40, 41):
            alpha = 1 + mp.mpf(10) ** (mp.mpf(exponent) / 8)
            divergence = mp.log(p**alpha * q ** (1 - alpha) + q**alpha * p ** (1 - alpha)) / (alpha - 1)
            assert divergence <= alpha * rho
            tightest = max(tightest, divergence / (alpha * rho))
    # sup D_α/(αρ) is at α → 1, where it is tanh(ε/2)/(ε/2)
    assert float(tightest) == pytest.approx(math.tanh(epsilon / 2) / (epsilon / 2), rel=1e-3)


def test_rounding_goes_the_way_its_name_says():
    for value in (5e-300, 0.1, 1.0, 3e300):
        assert round_down(value) < value < round_up(value)
        assert round_up(value) == pytest.approx(value, rel=1e-11)
    assert round_up(0.0) == round_down(0.0) == 0.0


@settings(derandomize=True)
@given(st.lists(log_uniform(1e-6, 10.0), max_size=12), st.lists(log_uniform(1e-9, 10.0), max_size=12))
def test_compose_adds_up(pure, concentrated):
    losses = [Loss.pure(epsilon) for epsilon in pure] + [Loss.concentrated(rho) for rho in concentrated]
    together = compose(losses)
    rho = sum((Fraction(loss.rho) for loss in losses), Fraction(0))
    assert Fraction(together.rho) == pytest.approx(rho, rel=2.0**-52)
    if concentrated:
        assert together.epsilon is None
    else:
        assert Fraction(together.epsilon) == pytest.approx(sum(map(Fraction, pure), Fraction(0)), rel=2.0**-52)
    assert compose(reversed(losses)) == together


def test_compose_of_special_cases():
    assert compose([]) == Loss(epsilon=0.0, rho=0.0)
    assert compose([Loss.concentrated(0.0), Loss.pure(1.0)]) == Loss.pure(1.0)
    assert compose([Loss.pure(math.inf), Loss.pure(1.0)]).epsilon == math.inf
    assert compose(loss for loss in [Loss.pure(0.5), Loss.pure(0.5)]).epsilon == 1.0


def test_epsilon_at_takes_the_better_of_pure_and_zcdp():
    many = compose([Loss.pure(0.01)] * 1000)
    assert many.epsilon_at(0.0) == pytest.approx(10.0)
    # ρ = 1000·0.01²/2 = 0.05: advanced composition
    assert many.epsilon_at(1e-6) == epsilon_of_rho(many.rho, 1e-6) < 1.6
    assert Loss.pure(0.1).epsilon_at(1e-9) == 0.1
    assert Loss.concentrated(0.1).epsilon_at(0.0) == math.inf


def test_loss_keeps():
    pure, gauss = Loss.pure(1.0), Loss.concentrated(0.03)
    assert pure.keeps(Central(epsilon=1))
    assert pure.keeps(Central(epsilon=1, delta=1e-12))
    assert not pure.keeps(Central(epsilon=0.999999))
    assert not pure.keeps(Central(rho=0.5))  # ε²/2, rounded up
    assert pure.keeps(Central(rho=0.5000001))
    assert not gauss.keeps(Central(epsilon=100.0))  # no pure ε at all
    assert gauss.keeps(Central(rho=0.03))
    assert not gauss.keeps(Central(rho=0.0299999))
    assert gauss.keeps(NonPrivate())
    assert Loss(epsilon=math.inf, rho=math.inf).keeps(NonPrivate())
    assert not Loss(epsilon=math.inf, rho=math.inf).keeps(Central(epsilon=100.0, delta=0.5))
    assert compose([Loss.pure(0.1)] * 100).keeps(Central(epsilon=6.5, delta=1e-6))
    assert not compose([Loss.pure(0.1)] * 100).keeps(Central(epsilon=6.5))


@fixed
@given(EPSILONS, DELTAS)
def test_a_zcdp_loss_keeps_what_50_digits_say_it_keeps(epsilon, delta):
    rho = rho_of_approximate(epsilon, delta)
    guarantee = Central(epsilon=epsilon, delta=delta)
    assert Loss.concentrated(rho).keeps(guarantee)
    assert not Loss.concentrated(rho * (1 + 1e-9)).keeps(guarantee)
    assert budget_of(guarantee) == Loss(epsilon=epsilon, rho=rho)


def test_budgets():
    assert budget_of(Central(epsilon=2)) == Loss.pure(2.0)
    assert budget_of(Central(rho=0.25)) == Loss(epsilon=None, rho=0.25)
    assert budget_of(NonPrivate()).rho == math.inf
