"""Where a guarantee meets a mechanism: the quieter one, the right errors, and prices that can be derived again."""

import json
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.privacy import Calibration, Central, GuaranteeError, Joint, Loss, NonPrivate, Sensitivity, calibrate, price
from tacit.privacy.accounting import delta_of_rho, mu_of_approximate, rho_of_approximate
from tacit.privacy.counters import balanced_tree, binary_tree, blt, doubling, single, sqrt_toeplitz

fixed = settings(derandomize=True, max_examples=80, deadline=None)


def log_uniform(low, high):
    return st.floats(math.log10(low), math.log10(high)).map(lambda exponent: 10.0**exponent)


def counts(horizon, families=1.0):
    return Sensitivity(l0=2 * horizon, l1=2.0 * horizon * families, l2_squared=2.0 * horizon * families)


def pooled(horizon):
    return Sensitivity(l0=2 * horizon, l1=2.0 * horizon, l2_squared=2.0 * horizon**2)


# participation in L1 and L2, by hand
COUNTERS = [
    (binary_tree(19_999), 15, 15),
    (doubling(19_999), 1, 1),
    (single(19_999), 1, 1),
    (sqrt_toeplitz(100), math.inf, sum((math.comb(2 * k, k) / 4**k) ** 2 for k in range(100)) * (1 + 2.0**-12) ** 2),
]


@pytest.mark.parametrize(("counter", "l1", "l2"), COUNTERS, ids=[counter.name for counter, _, _ in COUNTERS])
@pytest.mark.parametrize("size", [counts(20), pooled(20), counts(1)], ids=["per step", "pooled", "one step"])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 8.0])
def test_auto_takes_the_smaller_standard_deviation(counter, l1, l2, size, epsilon):
    delta = 1e-6
    laplace = l1 * size.l1 / epsilon * math.sqrt(2.0)
    gauss = math.sqrt(l2 * size.l2_squared / (2.0 * rho_of_approximate(epsilon, delta)))
    chosen = calibrate(Central(epsilon=epsilon, delta=delta), size, counter=counter)
    assert chosen.mechanism == ("laplace" if laplace <= gauss else "gaussian")
    assert chosen.scale == pytest.approx(min(laplace / math.sqrt(2.0), gauss) if laplace <= gauss else gauss, rel=1e-9)
    assert chosen.participation == pytest.approx(l1 if laplace <= gauss else l2, rel=1e-12)
    assert chosen.rule == "exact"


def test_auto_really_decides_both_ways():
    guarantee = Central(epsilon=1, delta=1e-6)
    assert calibrate(guarantee, counts(20), counter=single(10)).mechanism == "gaussian"
    # pooled over the horizon L1 = 2H beats L2² = 2H²: ALGORITHMS §8
    assert calibrate(guarantee, pooled(20), counter=single(10)).mechanism == "laplace"


@fixed
@given(log_uniform(1e-3, 30.0), log_uniform(1e-12, 0.3), st.integers(1, 100), st.integers(1, 3), st.integers(1, 5000))
def test_a_calibration_keeps_its_guarantee_and_its_price_is_derived_again(epsilon, delta, horizon, families, length):
    size = counts(horizon, families)
    for guarantee in (Central(epsilon=epsilon), Joint(epsilon=epsilon, delta=delta), Central(rho=epsilon**2)):
        for counter in (binary_tree(length), doubling(length), balanced_tree(min(length, 50))):
            calibration = calibrate(guarantee, size, counter=counter)
            assert calibration.loss.keeps(guarantee)
            assert calibration.recomputed() == calibration.loss
            assert calibration.sensitivity == size
            # less noise by one in a million would not do
            less = price(
                calibration.mechanism,
                calibration.scale * (1 - 1e-6),
                size,
                participation=calibration.participation,
                rule="",
            )
            assert not less.loss.keeps(guarantee)


@fixed
@given(log_uniform(1e-2, 10.0), log_uniform(1e-10, 0.1), st.sampled_from([sqrt_toeplitz(300), blt(300)]))
def test_filters_get_gaussian_noise_by_rho(epsilon, delta, counter):
    calibration = calibrate(Central(epsilon=epsilon, delta=delta), counts(20), counter=counter)
    assert calibration.mechanism == "gaussian"
    rho = counter.participation("l2") * 40 / (2 * calibration.scale**2)
    assert delta_of_rho(rho, epsilon) <= delta
    assert rho == pytest.approx(rho_of_approximate(epsilon, delta), rel=1e-9)


def test_no_guarantee_no_noise():
    for guarantee in (NonPrivate(), Central(epsilon=math.inf), Joint(rho=math.inf)):
        calibration = calibrate(guarantee, counts(20), counter=sqrt_toeplitz(10))
        assert (calibration.mechanism, calibration.scale) == ("none", 0.0)
        assert calibration.loss == Loss(epsilon=math.inf, rho=math.inf) == calibration.recomputed()
        assert not calibration.loss.keeps(Central(epsilon=1e9))


def test_a_large_delta_lets_pure_noise_spend_more_than_epsilon():
    """(0.1, 0.1): ρ of it allows ε' = √(2ρ) > 0.1 for Laplace noise, which 50 digits of δ(ρ, ε) allow as well."""
    guarantee = Central(epsilon=0.1, delta=0.1)
    calibration = calibrate(guarantee, counts(1), counter=single(1), mechanism="laplace")
    assert calibration.loss.epsilon > 0.1
    assert delta_of_rho(calibration.loss.rho, 0.1) <= 0.1
    # the exact δ of one whole-numbered Laplace release (randomized response is no better): (e^ε' − e^ε)/(e^ε' + 1)
    spent = calibration.loss.epsilon
    assert (math.exp(spent) - math.exp(0.1)) / (math.exp(spent) + 1) <= 0.1


def test_a_mechanism_may_be_asked_for():
    guarantee = Central(epsilon=1, delta=1e-6)
    for mechanism in ("laplace", "gaussian"):
        assert calibrate(guarantee, pooled(20), counter=doubling(100), mechanism=mechanism).mechanism == mechanism


@pytest.mark.parametrize(
    ("guarantee", "counter", "mechanism", "message"),
    [
        (Central(epsilon=1), doubling(99), "gaussian", "keeps no pure guarantee.*allow a delta.*or take the Laplace"),
        (Central(epsilon=1), sqrt_toeplitz(99), "auto", "keeps no pure guarantee.*ε = 1.*allow a delta"),
        (Central(epsilon=1), sqrt_toeplitz(99), "laplace", "square-root Toeplitz works with Gaussian noise only; take"),
        (Central(epsilon=1, delta=1e-6), blt(99), "laplace", "BLT-4 works with Gaussian noise only; take batches or a"),
        (Central(epsilon=1), doubling(99), "lapalce", '"auto", "laplace" or "gaussian"; got \'lapalce\''),
        (NonPrivate(), doubling(99), "exponential", "got 'exponential'"),
        (
            Central(rho=1),
            balanced_tree(99, radix=3, levels=3),
            "gaussian",
            "works with Laplace noise only; take batches or a",
        ),
    ],
)
def test_what_does_not_fit_says_what_does(guarantee, counter, mechanism, message):
    with pytest.raises(GuaranteeError, match=message):
        calibrate(guarantee, counts(20), counter=counter, mechanism=mechanism)


def test_price_of_an_unknown_mechanism():
    with pytest.raises(ValueError, match="no privacy map is known for 'dice'"):
        price("dice", 1.0, counts(1), participation=1.0, rule="")


def test_price_of_subset_selection_is_its_own_loss():
    """d = 145 symbols at ε = 1: the likelihood ratio of the rounded probabilities, a little below e."""
    symbols = Sensitivity(l0=145, l1=2.0, l2_squared=2.0)
    calibration = price("subset selection", 1.0, symbols, participation=1.0, rule="exact")
    assert 1 - 1e-9 < calibration.loss.epsilon <= 1.0
    assert calibration.recomputed() == calibration.loss


@pytest.mark.parametrize(
    "calibration",
    [
        calibrate(Central(epsilon=1), counts(20), counter=binary_tree(100)),
        calibrate(Central(rho=0.1), counts(20), counter=blt(100)),
        calibrate(NonPrivate(), counts(20), counter=single(1)),
        price("subset selection", 2.0, Sensitivity(l0=9, l1=2.0, l2_squared=2.0), participation=1.0, rule="exact"),
    ],
    ids=lambda calibration: calibration.mechanism,
)
def test_calibrations_survive_json(calibration):
    again = Calibration.from_json(json.loads(json.dumps(calibration.to_json())))
    assert again == calibration
    assert again.recomputed() == calibration.loss


# ---------------------------------------------------------------------------------------------- published constants


def test_the_published_tree_spends_more_than_it_says():
    """000 Lemma 5.1 at K = 20,000, H = 20: 3 families × 15 nodes × 2H over 3H·log K/ε."""
    for log, spent in ((math.log2, 2.10), (math.log, 3.03)):
        scale = 3 * 20 * log(20_000)
        each = price("laplace", scale, counts(20), participation=15.0, rule="published").loss
        assert 3 * each.epsilon == pytest.approx(spent, abs=0.005)


def test_exact_tree_scales_of_the_algorithms_page():
    """b = 6HL/ε for three families, 3HL/ε for transitions and centred rewards; 6H/ε and 3H/ε in the local model."""
    horizon, levels = 20, 15
    centred = Sensitivity(l0=3 * horizon, l1=3.0 * horizon, l2_squared=3.0 * horizon)
    for size, factor in ((counts(horizon, 3), 6), (centred, 3)):
        tree = calibrate(Joint(epsilon=1), size, counter=binary_tree(19_999))
        assert tree.scale == pytest.approx(factor * horizon * levels, rel=1e-10)
        assert calibrate(Joint(epsilon=1), size, counter=single(1)).scale == pytest.approx(factor * horizon, rel=1e-10)


@pytest.mark.parametrize(
    ("size", "counter", "delta", "deviation", "tolerance"),
    [
        (counts(20, 3), binary_tree(19_999), 0.0, 9525, 1),
        (Sensitivity(l0=60, l1=60.0, l2_squared=60.0), binary_tree(19_999), 0.0, 4762, 1),
        (Sensitivity(l0=60, l1=60.0, l2_squared=60.0), doubling(19_999), 0.0, 255, 1),
        # the page's Gaussian figures are for continuous noise; by zCDP they are 1.084 times as large
        (Sensitivity(l0=60, l1=60.0, l2_squared=60.0), binary_tree(19_999), 1e-5, 419 * 1.084, 1),
        (Sensitivity(l0=60, l1=60.0, l2_squared=60.0), sqrt_toeplitz(19_999), 1e-5, 122 * 1.084, 0.7),
        (Sensitivity(l0=60, l1=60.0, l2_squared=60.0), doubling(19_999), 1e-5, 87 * 1.084, 0.7),
    ],
)
def test_worst_standard_deviations_of_the_algorithms_page(size, counter, delta, deviation, tolerance):
    """§2, K = 2e4, H = 20, ε = 1, per (h, s, a) cell."""
    mechanism = "gaussian" if delta else "laplace"
    found = calibrate(Joint(epsilon=1, delta=delta), size, counter=counter, mechanism=mechanism)
    one = found.scale * (1.0 if delta else math.sqrt(2.0))
    assert one * math.sqrt(counter.variance(counter.worst_time())) == pytest.approx(deviation, abs=tolerance)


def test_004s_noise_is_3_7_times_what_its_nominal_guarantee_needs():
    """§7, K = 1e4, H = 5, (1, 1e-5): H·√(32 m ln(4H/δ)) over √(12HL)/μ, and 1.084 less over what zCDP asks for."""
    horizon, m = 5, 14
    published = horizon * math.sqrt(32 * m * math.log(4 * horizon / 1e-5))
    size = Sensitivity(l0=1, l1=1.0, l2_squared=12.0 * horizon)
    ours = calibrate(Joint(epsilon=1, delta=1e-5), size, counter=binary_tree(9_999), mechanism="gaussian")
    continuous = math.sqrt(12 * horizon * m) / mu_of_approximate(1.0, 1e-5)
    assert published / continuous == pytest.approx(3.7, abs=0.05)
    assert ours.scale / continuous == pytest.approx(1.084, abs=5e-4)
    assert price("gaussian", published, size, participation=float(m), rule="").loss.epsilon_at(1e-5) < 0.3
