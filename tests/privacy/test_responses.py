"""Subset selection: its law by enumerating every set, its bias and variance, its rounding, its sampler."""

import itertools
import math
from fractions import Fraction

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from tacit.privacy import GuaranteeError, NoNoise, SecureNoise, SimulationNoise
from tacit.privacy.mechanisms.responses import SubsetSelection, binary_response

fixed = settings(derandomize=True, max_examples=150, deadline=None)
FALSE_ALARM = 1e-6


def log_uniform(low, high):
    return st.floats(math.log10(low), math.log10(high)).map(lambda exponent: 10.0**exponent)


def sets_of(response):
    return list(itertools.combinations(range(response.symbols), response.width))


def law(response, symbol):
    """P(set | symbol), exactly: with probability `truth` the symbol and w−1 uniform others, else w uniform others."""
    truth, others, w = Fraction(response.truth), response.symbols - 1, response.width
    inside = truth / math.comb(others, w - 1)
    outside = (1 - truth) / math.comb(others, w)
    return [inside if symbol in chosen else outside for chosen in sets_of(response)]


SMALL = [(0.1, 2, 1), (1.0, 2, 1), (1.0, 4, 2), (1.0, 5, 4), (2.0, 6, 2), (0.5, 7, 3), (5.0, 5, 1), (12.0, 4, 3)]


@pytest.mark.parametrize(("epsilon", "symbols", "width"), SMALL)
def test_every_likelihood_ratio_by_enumeration(epsilon, symbols, width):
    response = SubsetSelection(epsilon, symbols, width)
    laws = [law(response, symbol) for symbol in range(symbols)]
    assert all(sum(one) == 1 for one in laws)
    worst = max(p / q for one in laws for other in laws for p, q in zip(one, other, strict=True))
    with mp.workdps(40):
        exact = mp.log(mp.mpf(worst.numerator) / worst.denominator)
        assert exact <= response.loss.epsilon <= epsilon
        # what the rounding of probabilities gives away
        assert exact >= epsilon * (1 - 1e-10)


@fixed
@given(log_uniform(1e-6, 100.0), st.integers(2, 100_000), st.floats(0.0, 1.0))
def test_the_rounded_ratio_never_exceeds_epsilon(epsilon, symbols, where):
    width = 1 + int(where * (symbols - 2))
    response = SubsetSelection(epsilon, symbols, width)
    truth = Fraction(response.truth)
    ratio = truth * (symbols - width) / (width * (1 - truth))
    assert ratio > 1
    with mp.workdps(40):
        exact = mp.log(mp.mpf(ratio.numerator) / ratio.denominator)
        assert exact <= response.loss.epsilon <= epsilon
        # The lie is moved up by 2⁻⁵⁰ of itself and to a multiple of 2⁻⁵³; that moves its log-odds by this much at most
        lie = float(1 - truth)
        moved = (2.0**-50 * lie + 2.0**-53) / min(lie, float(truth)) * 2.0
        left = min(epsilon, 40.0) * (1 - 1e-10) - 2.0 * moved - 12.0 * symbols / 2**64  # the last for ties
        assert exact >= left or lie == 2.0**-53


@pytest.mark.parametrize("epsilon", [15.0, 16.0, 18.0, 20.0, 25.0, 30.0, 34.0, 35.0, 36.0, 37.0, 40.0, 80.0])
@pytest.mark.parametrize("symbols", [2, 3, 4, 7, 145, 1000])
def test_large_epsilons_are_rounded_against_us_too(epsilon, symbols):
    """The truth's probability is near 1, where doubles are coarse: rounding it to the nearest spent 34.03 for 34."""
    response = SubsetSelection(epsilon, symbols)
    assert response.loss.epsilon <= epsilon
    assert response.truth < 1.0


def test_what_is_drawn_has_exactly_the_probability_that_the_map_is_told():
    """A word is below the threshold with probability `truth`: an even whole number over 2⁶⁴."""
    for epsilon, symbols in ((0.01, 2), (1.0, 145), (30.0, 3)):
        response = SubsetSelection(epsilon, symbols)
        assert Fraction(response.truth) * 2**64 == response._threshold
        assert response._threshold % 2 == 0


def test_epsilon_too_small_for_the_coins_is_refused():
    with pytest.raises(GuaranteeError, match=r"too small .* take a larger one"):
        SubsetSelection(1e-18, 5, 2)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((0.0, 5), "0 < epsilon < ∞; got 0"),
        ((-1.0, 5), "0 < epsilon < ∞"),
        ((math.inf, 5), "0 < epsilon < ∞"),
        ((math.nan, 5), "0 < epsilon < ∞"),
        ((1.0, 1), "nothing to hide among 1 symbol"),
        ((1.0, 0), "nothing to hide"),
        ((1.0, 5, 5), r"width must be in 1\.\.4; got 5"),
        ((1.0, 5, -1), r"width must be in 1\.\.4; got -1"),
    ],
)
def test_bad_settings(arguments, message):
    with pytest.raises(GuaranteeError, match=message):
        SubsetSelection(*arguments)


# ---------------------------------------------------------------------------------------------- estimates


def moments(response, symbol, weights):
    """Mean and variance of Σ c_j·estimate_j for one user with this symbol, over every set."""
    probabilities = np.array([float(p) for p in law(response, symbol)])
    values = []
    for chosen in sets_of(response):
        counts = np.isin(np.arange(response.symbols), chosen).astype(float)
        values.append(response.estimate(counts, 1) @ weights)
    values = np.array(values)
    mean = probabilities @ values
    return mean, probabilities @ (values - mean) ** 2


@pytest.mark.parametrize(("epsilon", "symbols", "width"), SMALL)
def test_unbiased_and_the_variance_by_enumeration(epsilon, symbols, width):
    response = SubsetSelection(epsilon, symbols, width)
    rng = np.random.default_rng(11)
    indicator = np.eye(symbols)[0]
    two = np.array([1.0, 1.0] + [0.0] * (symbols - 2))
    for weights in (indicator, two, -indicator, rng.normal(size=symbols), np.ones(symbols)):
        by_symbol = [moments(response, symbol, weights) for symbol in range(symbols)]
        for symbol, (mean, _) in enumerate(by_symbol):
            assert mean == pytest.approx(weights[symbol], abs=1e-9)
        worst = max(variance for _, variance in by_symbol)
        assert response.variance(weights) == pytest.approx(worst, rel=1e-9, abs=1e-9)
    short = response.variance((1.0,))
    assert short == response.variance() == pytest.approx(response.variance(indicator), rel=1e-12)


def test_other_is_the_probability_of_any_other_symbol():
    for epsilon, symbols, width in SMALL:
        response = SubsetSelection(epsilon, symbols, width)
        inside = sum(p for p, chosen in zip(law(response, 0), sets_of(response), strict=True) if 1 in chosen)
        assert response.other == pytest.approx(float(inside), rel=1e-14)


def test_sample_one_step_variance_of_the_algorithms_page():
    """§4: 1,447 per pooled cell and user at ε = 1, S = 6, A = 2, H = 20: H² times that of a symbol not the user's.

    Where the symbol is hers, it is H² more; `variance` is the worst of both, 1,847.
    """
    response = SubsetSelection(1.0, 2 * 6 * 2 * 6 + 1)
    truth, other = response.truth, response.other
    not_hers = 400 * other * (1 - other) / (truth - other) ** 2
    hers = 400 * truth * (1 - truth) / (truth - other) ** 2
    assert not_hers == pytest.approx(1447, abs=0.5)
    assert hers == pytest.approx(1847, abs=0.5)
    assert 400 * response.variance() == pytest.approx(hers, rel=1e-12)
    # near the limit 4e^ε/(e^ε − 1)² of many symbols
    assert not_hers / 400 == pytest.approx(4 * math.e / (math.e - 1) ** 2, rel=0.02)


@pytest.mark.parametrize("epsilon", [0.1, 0.5, 1.0, 2.0, 3.0, 5.0])
def test_the_default_width_has_the_least_total_variance(epsilon):
    def total(response):
        truth, other = response.truth, response.other
        return (truth * (1 - truth) + (response.symbols - 1) * other * (1 - other)) / (truth - other) ** 2

    for symbols in (2, 3, 4, 5, 8, 13, 21, 40, 60):
        best = min(total(SubsetSelection(epsilon, symbols, width)) for width in range(1, symbols))
        assert total(SubsetSelection(epsilon, symbols)) == pytest.approx(best, rel=1e-12)


def test_widths_at_the_ends():
    assert SubsetSelection(1.0, 145).width == 39
    assert SubsetSelection(10.0, 145).width == 1
    assert SubsetSelection(1e-3, 10).width == 5
    assert SubsetSelection(1e-3, 2).width == 1


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
def test_binary_response_is_r_p_of_002(epsilon):
    """With probability p = 2/(e^ε+1) the bit is replaced by a fair one: it is kept with probability 1 − p/2."""
    response = binary_response(epsilon)
    p = 2.0 / (math.exp(epsilon) + 1.0)
    assert response.truth == pytest.approx(1.0 - p / 2.0, rel=1e-9)
    assert response.other == pytest.approx(p / 2.0, rel=1e-9)
    # (6), corrected: (ΣR − n·p/2)/(1 − p)
    assert response.estimate(np.array([30.0]), 100)[0] == pytest.approx((30 - 100 * p / 2) / (1 - p), rel=1e-8)


# ---------------------------------------------------------------------------------------------- the sampler


@pytest.mark.parametrize("noise", [SimulationNoise(5), SecureNoise()], ids=["simulation", "secure"])
@pytest.mark.parametrize(("symbols", "width"), [(2, 1), (4, 1), (4, 2), (4, 3), (5, 2)])
def test_the_sampler_draws_that_law(noise, symbols, width):
    """χ² over all sets, for each true symbol; false alarm 1e-6 each (the secure source has no seed)."""
    response, users = SubsetSelection(1.0, symbols, width), 20_000
    symbol = np.repeat(np.arange(symbols), users)[None]
    reports = response.randomize(symbol, noise)[0].reshape(symbols, users, symbols)
    codes = {sum(1 << j for j in chosen): i for i, chosen in enumerate(sets_of(response))}
    for true in range(symbols):
        assert (reports[true].sum(axis=1) == width).all()
        drawn = np.bincount([codes[code] for code in reports[true] @ (1 << np.arange(symbols))], minlength=len(codes))
        expected = np.array([float(p) for p in law(response, true)]) * users
        assert stats.chisquare(drawn, expected).pvalue > FALSE_ALARM


def test_estimates_of_many_users_are_right_and_as_spread_as_announced():
    response = SubsetSelection(1.0, 9)
    users, runs = 2000, 200
    symbol = np.tile(np.repeat([3, 7], [500, 1500]), (runs, 1))
    told = response.randomize(symbol, SimulationNoise(3)).sum(axis=1)
    found = response.estimate(told, users)
    truth = np.bincount(symbol[0], minlength=9)
    p, q = response.truth, response.other
    hers, not_hers = (x * (1 - x) / (p - q) ** 2 for x in (p, q))
    std = np.sqrt(truth * hers + (users - truth) * not_hers)
    # means of 200 runs: 6 standard errors are passed with probability 2e-9 per symbol
    assert (np.abs(found.mean(axis=0) - truth) < 6 * std / math.sqrt(runs)).all()
    # (n−1)s²/σ² is χ² with 199 degrees of freedom: within [0.55, 1.55] but for 1e-6
    assert (np.abs(found.var(axis=0, ddof=1) / std**2 - 1.05) < 0.5).all()


def test_two_users_with_the_same_symbol_report_differently():
    response = SubsetSelection(1.0, 40)
    reports = response.randomize(np.zeros((3, 200), dtype=np.int64), SimulationNoise(1)).reshape(600, 40)
    assert len(np.unique(reports, axis=0)) == 600  # about C(40, 11) = 2e9 sets: some pair agrees with probability 1e-4


def test_without_noise_the_truth_is_always_told():
    response = SubsetSelection(1.0, 6)
    symbol = np.arange(6)[None]
    reports = response.randomize(symbol, NoNoise())
    assert reports[0, symbol[0], symbol[0]].all()
    assert (reports.sum(axis=-1) == response.width).all()


@pytest.mark.parametrize(("symbols", "width"), [(3, 2), (4, 3), (5, 2)])
def test_the_true_symbol_is_never_counted_twice_whatever_the_keys(symbols, width):
    """With all keys the largest there are, it might be among the smallest, and the set one member short."""

    class Largest:
        def words(self, *, runs, size):
            return np.full((runs, size), 2**64 - 1 if size > 1 else 0, dtype=np.uint64)

    response = SubsetSelection(1.0, symbols, width)
    for symbol in range(symbols):
        report = response.randomize(np.array([[symbol]]), Largest())
        assert report.sum() == width
        assert report[0, 0, symbol]
