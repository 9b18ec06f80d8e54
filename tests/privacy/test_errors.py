"""Laws of the noise in a release: exact tails by mpmath and by convolution, safe ones never below the truth."""

import json
import math

import mpmath as mp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from tacit.privacy.errors import (
    Bernstein,
    LaplaceSum,
    NoError,
    Normal,
    PrintedSum,
    chan_bound,
    gaussian_moves,
    laplace_moves,
    laplace_sum_quantile,
    laplace_sum_tail,
)
from tacit.privacy.mechanisms.responses import SubsetSelection

fixed = settings(derandomize=True, max_examples=80, deadline=None)
BETAS = st.floats(-15.0, math.log10(0.9)).map(lambda exponent: 10.0**exponent)


def density_of_the_algorithms_page(n, x):
    """§2, literally; x > 0."""
    total = mp.mpf(0)
    for k in range(n):
        top = mp.factorial(n - 1 + k) * x ** (n - 1 - k)
        total += top / (mp.factorial(k) * mp.factorial(n - 1 - k) * mp.mpf(2) ** k)
    return mp.exp(-x) / (mp.factorial(n - 1) * mp.mpf(2) ** n) * total


def bessel_density(n, x):
    """The variance-gamma density: the inverse Fourier transform of (1 + t²)^(−n)."""
    order = mp.mpf(n) - mp.mpf(1) / 2
    return mp.mpf(x) ** order * mp.besselk(order, x) / (mp.sqrt(mp.pi) * mp.gamma(n) * mp.mpf(2) ** order)


def exact_tail(n, x):
    """P(|S| > x) with 40 digits: Gamma tails as Poisson sums, binomial weights by recurrence."""
    with mp.workdps(40):
        x = mp.mpf(x)
        poisson, gamma_tails = mp.exp(-x), [mp.mpf(0)]
        for j in range(n):
            gamma_tails.append(gamma_tails[-1] + poisson)
            poisson *= x / (j + 1)
        weight, total = mp.mpf(2) ** -n, mp.mpf(0)
        for k in range(n):
            total += weight * gamma_tails[n - k]
            weight *= mp.mpf(n + k) / (2 * (k + 1))
        return 2 * total


# ---------------------------------------------------------------------------------------------- Laplace sums


@pytest.mark.parametrize("n", [1, 2, 3, 8, 14])
def test_the_density_of_the_algorithms_page_is_right_and_our_tail_is_its_integral(n):
    with mp.workdps(30):
        for x in (0.3, 2.0, 11.0):
            assert mp.almosteq(density_of_the_algorithms_page(n, mp.mpf(x)), bessel_density(n, x), 1e-20)
        for x in (0.0, 0.5, 4.0, 20.0):
            cuts = [x, x + 5, x + 20, x + 60, mp.inf]
            integral = 2 * mp.quad(lambda y: density_of_the_algorithms_page(n, y), cuts)
            assert laplace_sum_tail(n, x) == pytest.approx(float(integral), rel=1e-12)
            assert mp.almosteq(exact_tail(n, x), integral, 1e-15)


@fixed
@given(st.integers(1, 400), st.floats(0.0, 12.0))
def test_tail_against_40_digits(n, deviations):
    x = deviations * math.sqrt(2.0 * n)
    assert laplace_sum_tail(n, x) == pytest.approx(float(exact_tail(n, x)), rel=1e-11)


@pytest.mark.parametrize("n", [1000, 20_000])
@pytest.mark.parametrize("deviations", [0.5, 3.0, 6.0, 9.0])
def test_tail_of_very_many_terms(n, deviations):
    """ln Γ(40,000) is 4e5 and carries an absolute error of about 1e-10."""
    x = deviations * math.sqrt(2.0 * n)
    assert laplace_sum_tail(n, x) == pytest.approx(float(exact_tail(n, x)), rel=1e-9)


def test_quantiles_of_the_algorithms_page():
    for terms, value in ((1, 18.79), (8, 30.44), (14, 36.86)):
        assert laplace_sum_quantile(terms, 6.9e-9) == pytest.approx(value, abs=0.005)
        assert LaplaceSum(scale=60.0, terms=terms).quantile(6.9e-9) == pytest.approx(60 * value, abs=0.3)


@fixed
@given(st.integers(1, 400), BETAS)
def test_quantiles_are_exact_and_safe(n, beta):
    quantile = laplace_sum_quantile(n, beta)
    assert exact_tail(n, quantile) <= beta
    assert exact_tail(n, quantile * (1 - 1e-8)) > beta
    assert quantile <= chan_bound(n, beta)


@pytest.mark.parametrize("beta", [1e-12, 6.9e-9, 0.05])
def test_quantiles_of_very_many_terms(beta):
    quantile = laplace_sum_quantile(20_000, beta)
    assert exact_tail(20_000, quantile) <= beta
    assert exact_tail(20_000, quantile * (1 - 1e-8)) > beta


def test_quantiles_of_very_many_terms_are_a_little_too_large_where_their_number_is_rounded_up():
    beta = 6.9e-9
    quantile = laplace_sum_quantile(20_001, beta)
    assert exact_tail(20_001, quantile) <= beta
    assert exact_tail(20_001, quantile * (1 - 3e-4)) > beta
    assert laplace_sum_quantile(4095, beta) < laplace_sum_quantile(4096, beta) < laplace_sum_quantile(4097, beta)


def test_the_bound_as_000_uses_it_is_invalid_for_few_terms_and_loose_for_many():
    """√(8 n l), l = ln(2/β) = 19.5: Chan et al. prove it for n ≥ l, and for few terms the error really exceeds it."""
    beta = 6.9e-9
    log = math.log(2.0 / beta)
    assert 19 < log < 20
    for n in (1, 2, 3):
        assert exact_tail(n, math.sqrt(8 * n * log)) > beta
    assert exact_tail(1, math.sqrt(8 * log)) > 400 * beta
    for n in (20, 50, 200):  # n ≥ l
        assert exact_tail(n, math.sqrt(8 * n * log)) <= beta
        assert math.sqrt(8 * n * log) > 1.2 * laplace_sum_quantile(n, beta)


@fixed
@given(st.integers(1, 2000), BETAS)
def test_the_closed_form_is_safe(n, beta):
    log = math.log(2.0 / beta)
    assert chan_bound(n, beta) == pytest.approx(2 * math.sqrt(n * log) + log, rel=1e-15)
    assert exact_tail(n, chan_bound(n, beta)) <= beta


# ---------------------------------------------------------------------------------------------- on a lattice


def discrete_sum(one, terms):
    law = one
    for _ in range(terms - 1):
        law = np.convolve(law, one)
    return law


def exceeds(law, quantile, unit):
    """P(|unit·k| > quantile)."""
    k = np.arange(len(law)) - len(law) // 2
    return law[np.abs(k) * unit > quantile].sum()


def discrete_laplace(scale):
    reach = math.ceil(45 * scale) + 2
    p = math.exp(-1.0 / scale)
    return (1.0 - p) / (1.0 + p) * p ** np.abs(np.arange(-reach, reach + 1))


def discrete_gaussian(scale):
    reach = math.ceil(12 * scale) + 2
    weight = np.exp(-(np.arange(-reach, reach + 1) ** 2) / (2.0 * scale**2))
    return weight / weight.sum()


QUANTILE_LEVELS = (0.6, 0.2, 0.05, 1e-3, 1e-6, 1e-9)


@pytest.mark.parametrize("scale", [0.1, 0.4, 1.0, 3.3, 20.0])
@pytest.mark.parametrize("terms", [1, 2, 5, 12])
@pytest.mark.parametrize("unit", [1.0, 2.0**-7])
def test_discrete_laplace_sums_stay_within_the_quantile(scale, terms, unit):
    law = discrete_sum(discrete_laplace(scale), terms)
    for beta in QUANTILE_LEVELS:
        quantile = LaplaceSum(scale=scale * unit, terms=terms, unit=unit).quantile(beta)
        assert exceeds(law, quantile, unit) <= beta * (1 + 1e-9)
        assert quantile <= LaplaceSum(scale=scale * unit, terms=terms).quantile(beta) + terms * unit / 2


@pytest.mark.parametrize("sigma", [0.1, 0.3, 0.5, 1.0, 2.7, 15.0])
@pytest.mark.parametrize("terms", [1, 2, 5, 12])
@pytest.mark.parametrize("unit", [1.0, 2.0**-7])
def test_discrete_gaussian_sums_stay_within_the_quantile(sigma, terms, unit):
    law = discrete_sum(discrete_gaussian(sigma), terms)
    for beta in QUANTILE_LEVELS:
        error = Normal(std=sigma * unit * math.sqrt(terms), slack=terms * unit / 2)
        assert exceeds(law, error.quantile(beta), unit) <= beta * (1 + 1e-9)


def test_without_the_slack_a_lattice_does_exceed_the_quantile():
    """So the slack is no ornament: some discrete sum is outside the continuous quantile with more than β."""
    laplace = [
        exceeds(discrete_sum(discrete_laplace(scale), 2), LaplaceSum(scale=scale, terms=2).quantile(beta), 1.0) > beta
        for scale in (0.4, 1.0, 3.3)
        for beta in QUANTILE_LEVELS
    ]
    gauss = [
        exceeds(discrete_sum(discrete_gaussian(sigma), 2), Normal(std=sigma * math.sqrt(2)).quantile(beta), 1.0) > beta
        for sigma in (0.5, 1.0, 2.7)
        for beta in QUANTILE_LEVELS
    ]
    assert any(laplace)
    assert any(gauss)


# ---------------------------------------------------------------------------------------------- the other laws


@fixed
@given(st.floats(1e-3, 1e6), BETAS)
def test_normal_quantiles_against_50_digits(std, beta):
    quantile = Normal(std=std).quantile(beta)
    with mp.workdps(50):
        assert mp.erfc(mp.mpf(quantile) / (mp.mpf(std) * mp.sqrt(2))) <= beta
        assert mp.erfc(mp.mpf(quantile) * (1 - mp.mpf(1e-9)) / (mp.mpf(std) * mp.sqrt(2))) > beta
    assert Normal(std=std, slack=2.5).quantile(beta) == pytest.approx(quantile + 2.5)


@pytest.mark.parametrize("users", [1, 10, 100, 3000])
@pytest.mark.parametrize("p", [0.01, 0.2, 0.5, 0.9])
def test_bernstein_bounds_a_binomial(users, p):
    """The exact binomial tail on both sides."""
    law = Bernstein(std=math.sqrt(users * p * (1 - p)), largest=max(p, 1 - p))
    for beta in (*QUANTILE_LEVELS, 1e-12):
        quantile = law.quantile(beta)
        above = stats.binom.sf(math.floor(users * p + quantile), users, p)
        below = stats.binom.cdf(math.ceil(users * p - quantile) - 1, users, p)
        assert above + below <= beta


def test_bernstein_solves_bernsteins_inequality():
    law = Bernstein(std=7.0, largest=3.0)
    for beta in QUANTILE_LEVELS:
        t = law.quantile(beta)
        assert 2 * math.exp(-(t**2) / (2 * (49.0 + 3.0 * t / 3.0))) == pytest.approx(beta, rel=1e-12)


def test_bernstein_bounds_the_estimates_of_subset_selection():
    """1,000 users of another symbol: the count in their sets is Bin(1000, q), the estimate a line of it."""
    selection, users = SubsetSelection(1.0, 145), 1000
    gap = selection.truth - selection.other
    law = Bernstein(std=math.sqrt(users * selection.variance()), largest=1.0 / gap)
    for beta in QUANTILE_LEVELS:
        reach = law.quantile(beta) * gap
        mean = users * selection.other
        outside = stats.binom.sf(math.floor(mean + reach), users, selection.other)
        outside += stats.binom.cdf(math.ceil(mean - reach) - 1, users, selection.other)
        assert outside <= beta


def test_standard_deviations_against_samples():
    draws = np.random.default_rng(0).laplace(scale=3.0, size=(7, 200_000)).sum(axis=0)
    # the relative error of a sample's standard deviation is below 0.2 % here; 1 % is six of those
    assert LaplaceSum(scale=3.0, terms=7).std == pytest.approx(draws.std(), rel=0.01)


def test_sums_over_independent_cells():
    assert LaplaceSum(scale=2.0, terms=3, unit=0.5).summed(4) == LaplaceSum(scale=2.0, terms=12, unit=0.5)
    assert Normal(std=2.0, slack=0.5).summed(9) == Normal(std=6.0, slack=4.5)
    assert NoError().summed(5) == NoError()


def test_no_error_and_no_noise():
    assert NoError().std == NoError().quantile(1e-9) == 0.0
    assert LaplaceSum(scale=0.0, terms=3).quantile(0.1) == 0.0
    assert LaplaceSum(scale=1.0, terms=0, unit=1.0).quantile(0.1) == 0.0
    assert Normal(std=0.0).quantile(0.1) == 0.0


@pytest.mark.parametrize("law", [LaplaceSum(scale=1.0, terms=2), Normal(std=1.0), Bernstein(std=1.0, largest=1.0)])
@pytest.mark.parametrize("beta", [0.0, 1.0, -0.1, 1.5, math.nan])
def test_a_failure_probability_is_between_0_and_1(law, beta):
    with pytest.raises(ValueError, match="failure probability lies between 0 and 1"):
        law.quantile(beta)


@pytest.mark.parametrize(
    "law",
    [LaplaceSum(scale=1.5, terms=2, unit=0.5), Normal(std=1.0, slack=0.25), Bernstein(std=1.0, largest=2.0), NoError()],
)
def test_laws_are_told_with_all_their_numbers(law):
    told = json.loads(json.dumps(law.to_json()))
    kind = told.pop("law")
    assert kind in {"sum of Laplace", "Gaussian", "Bernstein", "none"}
    if kind != "none":
        assert type(law)(**told) == law


@pytest.mark.parametrize("ratio", [0.02, 0.05, 0.1, 0.3, 1.0, 3.0])
def test_how_often_lattice_noise_is_felt_at_all_is_bounded_by_its_exact_law(ratio):
    for law, bound in ((discrete_laplace(ratio), laplace_moves), (discrete_gaussian(ratio), gaussian_moves)):
        exact = 1.0 - law[len(law) // 2]
        assert exact - 1e-15 <= bound(3.0 * ratio, 3.0)
        if ratio <= 0.3:
            assert bound(3.0 * ratio, 3.0) <= 1.1 * exact + 1e-15
    assert laplace_moves(0.0, 1.0) == gaussian_moves(0.0, 1.0) == 0.0
    assert laplace_moves(1.0, 0.0) >= 1.0 <= gaussian_moves(1.0, 0.0)


def test_noise_far_below_its_unit_widens_nothing():
    """At ε → ∞ precision levels vanish: all noises are 0 at once with probability 1 − β at least."""
    for law in (
        LaplaceSum(scale=1e-3, terms=9, unit=1.0),
        Normal(std=3e-3, slack=4.5, moved=9 * gaussian_moves(1e-3, 1.0)),
    ):
        assert law.quantile(1e-9) < 0.1
        assert law.summed(6).quantile(1e-9) < 0.2
    coarse = LaplaceSum(scale=0.05, terms=1, unit=1.0)  # felt once in 2.4e8 times
    assert coarse.quantile(1e-8) < 1.0 < coarse.quantile(1e-9)


def test_printed_precision_levels_are_those_of_000_and_the_noise_is_what_it_is():
    H, K, S, A, beta, epsilon = 20, 20_000, 6, 2, 0.1, 1.0
    b = 3 * H * math.log2(K) / epsilon
    law = PrintedSum(scale=b, terms=7, unit=1.0, printed=math.log2(K))
    SAT = S * A * K * H
    E = 3 * H / epsilon * math.sqrt(8 * math.log2(K) ** 3 * math.log(6 * SAT / beta))
    assert law.quantile(beta / (3 * SAT)) == pytest.approx(E, rel=1e-12)
    assert E > K  # so that nothing can be learnt with it
    assert law.std == LaplaceSum(scale=b, terms=7).std
    assert law.summed(4).quantile(1e-6) == pytest.approx(2 * law.quantile(1e-6))
    assert law.quantile(1e-6) > LaplaceSum(scale=b, terms=14, unit=1.0).quantile(1e-6)
    assert PrintedSum(scale=b, terms=1, printed=1.0).quantile(1e-9) < LaplaceSum(scale=b, terms=1).quantile(1e-9)


@pytest.mark.parametrize("beta", [1 - 1e-9, 0.99, 0.5, 1e-3])
def test_quantiles_of_a_million_terms_are_safe(beta):
    n = 999_936  # twelve significant bits
    assert laplace_sum_tail(n, laplace_sum_quantile(n, beta)) <= beta
    assert laplace_sum_tail(10**6, 0.0) == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize("beta", [1e-290, 1e-300, 5e-308])
def test_the_smallest_failure_probabilities_have_quantiles(beta):
    quantile = laplace_sum_quantile(14, beta)
    assert laplace_sum_quantile(14, 1e-280) < quantile <= chan_bound(14, beta)
