"""Samplers: their laws, their independence, their low bits.

Statistical tests have a false-alarm rate of at most 1e-6 each. Seeded ones never raise a false alarm once they pass;
those of the secure source, which has no seed, may do so once in a million runs.
"""

import itertools
import json
import math

import numpy as np
import pytest
from scipy import stats

from tacit.privacy import NoiseSource, NoNoise, SecureNoise, SimulationNoise
from tacit.privacy.noise import lattice_scale, restored

FALSE_ALARM = 1e-6


def discrete_laplace(scale, reach):
    """P(k) ∝ e^(−|k|/scale), |k| ≤ reach, by its closed form."""
    p = math.exp(-1.0 / scale)
    return (1.0 - p) / (1.0 + p) * p ** np.abs(np.arange(-reach, reach + 1))


def discrete_gaussian(scale, reach):
    """P(k) ∝ e^(−k²/(2 scale²)), normalised by summing."""
    weight = np.exp(-(np.arange(-reach, reach + 1) ** 2) / (2.0 * scale**2))
    return weight / weight.sum()


LAWS = {"laplace": discrete_laplace, "gaussian": discrete_gaussian}


def chi_square(draws, law):
    """The p-value of whole-numbered draws; neighbouring outcomes are pooled until 20 are expected in each."""
    reach = (len(law) - 1) // 2
    assert np.abs(draws).max() <= reach
    counts = np.bincount(draws + reach, minlength=len(law))
    expected = law * len(draws)
    observed_bins, expected_bins, seen, hoped = [], [], 0.0, 0.0
    for count, mean in zip(counts, expected, strict=True):
        seen, hoped = seen + count, hoped + mean
        if hoped >= 20.0:
            observed_bins.append(seen)
            expected_bins.append(hoped)
            seen = hoped = 0.0
    observed_bins[-1] += seen
    expected_bins[-1] += hoped + (len(draws) - expected.sum())
    return stats.chisquare(observed_bins, expected_bins).pvalue


# ---------------------------------------------------------------------------------------------- secure noise


@pytest.mark.parametrize("scale", [0.3, 0.9, 1.0, 3.7, 25.0, 400.0])
@pytest.mark.parametrize("law", ["laplace", "gaussian"])
def test_secure_noise_has_the_exact_discrete_law(law, scale):
    draws = getattr(SecureNoise(), law)(scale=scale, runs=2, size=10_000)
    assert draws.dtype == np.int64
    assert draws.shape == (2, 10_000)
    assert chi_square(draws.reshape(-1), LAWS[law](scale, math.ceil(60 * scale) + 1)) > FALSE_ALARM


@pytest.mark.parametrize("law", ["laplace", "gaussian"])
def test_sums_of_secure_noise_have_the_convolved_law(law):
    draws = getattr(SecureNoise(), law)(scale=2.5, runs=1, size=10_000, terms=4)[0]
    one = LAWS[law](2.5, 100)
    four = np.convolve(np.convolve(one, one), np.convolve(one, one))
    assert chi_square(draws, four) > FALSE_ALARM


@pytest.mark.parametrize("law", ["laplace", "gaussian"])
def test_secure_noise_at_the_largest_scale(law):
    """KS on a scale where the lattice is far finer than the sample can see."""
    scale = 2.0**52
    draws = getattr(SecureNoise(), law)(scale=scale, runs=1, size=3000)[0] / scale
    assert stats.kstest(draws, "laplace" if law == "laplace" else "norm").pvalue > FALSE_ALARM


@pytest.mark.parametrize("scale", [-1.0, math.nan, math.inf, 2.0**53])
@pytest.mark.parametrize("law", ["laplace", "gaussian"])
def test_a_scale_that_is_none_is_an_error_and_not_silence(law, scale):
    with pytest.raises(ValueError, match="noise scale lies between 0 and"):
        getattr(SecureNoise(), law)(scale=scale, runs=1, size=1)


def test_secure_noise_of_scale_zero_and_of_no_size():
    source = SecureNoise()
    assert not source.laplace(scale=0.0, runs=2, size=3).any()
    assert source.gaussian(scale=1.0, runs=2, size=0).shape == (2, 0)
    assert source.words(runs=2, size=0).shape == (2, 0)


def test_no_two_secure_draws_are_shared():
    """At scale 2⁴⁰ two independent draws agree with probability 2⁻⁴²; 4,000 of them all differ but for 2e-6·½."""
    drawn = []
    for source in (SecureNoise(), SecureNoise()):
        for law in ("laplace", "gaussian"):
            drawn.append(getattr(source, law)(scale=2.0**40, runs=5, size=100))
            drawn.append(getattr(source, law)(scale=2.0**40, runs=5, size=100))
    everything = np.concatenate([draw.reshape(-1) for draw in drawn])
    assert len(np.unique(np.abs(everything))) == everything.size


def test_secure_sources_have_no_state_to_repeat():
    assert SecureNoise().state() == {"source": "secure"}
    one, two = (restored(SecureNoise().state()) for _ in range(2))
    assert (one.words(runs=1, size=4) != two.words(runs=1, size=4)).all()


# ---------------------------------------------------------------------------------------------- simulated noise


@pytest.mark.parametrize("scale", [1e-3, 1.0, 250.0])
@pytest.mark.parametrize(("law", "reference"), [("laplace", stats.laplace), ("gaussian", stats.norm)])
def test_simulated_noise_has_the_continuous_law(law, reference, scale):
    draws = getattr(SimulationNoise(1), law)(scale=scale, runs=3, size=20_001)
    assert draws.dtype == np.float64
    for run in draws:
        assert stats.kstest(run, reference(scale=scale).cdf).pvalue > FALSE_ALARM
    assert stats.kstest(np.abs(draws).reshape(-1), lambda x: 2 * reference(scale=scale).cdf(x) - 1).pvalue > FALSE_ALARM


@pytest.mark.parametrize("terms", [2, 5, 300])
def test_sums_of_simulated_noise_against_literal_sums(terms):
    literal = np.random.default_rng(99).laplace(scale=3.0, size=(terms, 5000)).sum(axis=0)
    draws = SimulationNoise(2).laplace(scale=3.0, runs=1, size=5000, terms=terms)[0]
    assert stats.ks_2samp(draws, literal).pvalue > FALSE_ALARM
    normal = SimulationNoise(2).gaussian(scale=3.0, runs=1, size=5000, terms=terms)[0]
    assert stats.kstest(normal, stats.norm(scale=3.0 * math.sqrt(terms)).cdf).pvalue > FALSE_ALARM


def test_simulated_signs_are_fair_coins_of_their_own():
    """64 signs come from one word: each position is fair, neighbours don't agree, and size doesn't depend on sign."""
    size = 64 * 500 + 7
    noise = SimulationNoise(4).laplace(scale=1.0, runs=4, size=size)
    positive = noise > 0
    by_position = positive[:, : 64 * 500].reshape(4 * 500, 64).sum(axis=0)
    assert stats.binom.cdf(by_position.min(), 2000, 0.5) > FALSE_ALARM / 64
    assert stats.binom.sf(by_position.max() - 1, 2000, 0.5) > FALSE_ALARM / 64
    for lag in (1, 2, 31, 63, 64, 65):
        agree = (positive[:, lag:] == positive[:, :-lag]).sum()
        assert stats.binomtest(int(agree), 4 * (size - lag)).pvalue > FALSE_ALARM
    assert stats.ks_2samp(noise[positive], -noise[~positive]).pvalue > FALSE_ALARM


@pytest.mark.parametrize("law", ["laplace", "gaussian"])
def test_cells_runs_and_calls_are_uncorrelated_and_never_equal(law):
    source = SimulationNoise(5)
    calls = np.concatenate([getattr(source, law)(scale=1.0, runs=4, size=5) for _ in range(4000)], axis=1)
    cells = calls.reshape(4, 4000, 5).transpose(0, 2, 1).reshape(20, 4000)  # (run, cell) × calls
    assert len(np.unique(np.abs(calls))) == calls.size
    for values in (cells, np.abs(cells), calls.reshape(4, -1)):
        correlation = np.corrcoef(values) - np.eye(len(values))
        # 5.7 standard errors: at most 190 pairs at 1.2e-8 each
        assert np.abs(correlation).max() < 5.7 / math.sqrt(values.shape[1])
    for run in calls:
        for lag in (1, 5, 64):
            assert abs(np.corrcoef(run[:-lag], run[lag:])[0, 1]) < 5.7 / math.sqrt(run.size)


METHODS = ("laplace", "gaussian")


def some_calls(source, runs):
    found = []
    for law, size, terms in itertools.product(METHODS, (1, 70), (1, 3)):
        found.append(getattr(source, law)(scale=2.0, runs=runs, size=size, terms=terms))
    found.append(source.words(runs=runs, size=5))
    return found


def test_a_seed_reproduces_and_another_does_not():
    for one, same, other in zip(
        some_calls(SimulationNoise(8), 2),
        some_calls(SimulationNoise(8), 2),
        some_calls(SimulationNoise(9), 2),
        strict=True,
    ):
        np.testing.assert_array_equal(one, same)
        assert (one != other).all()


def test_a_run_does_not_depend_on_the_runs_beside_it():
    for few, many in zip(some_calls(SimulationNoise(8), 2), some_calls(SimulationNoise(8), 7), strict=True):
        np.testing.assert_array_equal(few, many[:2])
        assert len(np.unique(many[:, 0])) == 7


def test_a_run_that_comes_later_is_the_same_run():
    early, late = SimulationNoise(8), SimulationNoise(8)
    late.gaussian(scale=1.0, runs=1, size=10)
    np.testing.assert_array_equal(
        early.laplace(scale=1.0, runs=2, size=10)[1], late.laplace(scale=1.0, runs=2, size=10)[1]
    )


def test_seed_sequences_are_seeds_and_their_children_are_others():
    root = np.random.SeedSequence(8)
    np.testing.assert_array_equal(SimulationNoise(root).words(runs=2, size=3), SimulationNoise(8).words(runs=2, size=3))
    one, two = (SimulationNoise(child).words(runs=2, size=3) for child in root.spawn(2))
    own = SimulationNoise(root).words(runs=2, size=3)
    assert len(np.unique(np.concatenate([one, two, own]))) == 18


@pytest.mark.parametrize("runs_before", [0, 1, 3])
def test_a_saved_source_goes_on_where_it_stopped(runs_before):
    source = SimulationNoise(np.random.SeedSequence(6, spawn_key=(2,)))
    if runs_before:
        some_calls(source, runs_before)
    copy = restored(json.loads(json.dumps(source.state())))
    assert copy.name == source.name
    for one, other in zip(some_calls(source, 3), some_calls(copy, 3), strict=True):
        np.testing.assert_array_equal(one, other)


def test_simulation_has_no_default_seed():
    with pytest.raises(TypeError):
        SimulationNoise()


# ---------------------------------------------------------------------------------------------- words


@pytest.mark.parametrize("source", [SecureNoise(), SimulationNoise(12)], ids=["secure", "simulation"])
def test_words_are_uniform_in_every_byte_and_below_every_threshold(source):
    words = source.words(runs=2, size=20_000)
    assert words.dtype == np.uint64
    assert words.shape == (2, 20_000)
    for byte in words.view(np.uint8).reshape(-1, 8).T:
        assert stats.chisquare(np.bincount(byte, minlength=256)).pvalue > FALSE_ALARM
    for share in (2.0**-8, 0.3, 0.9):
        below = int((words < np.uint64(int(share * 2.0**64))).sum())
        assert stats.binomtest(below, words.size, share).pvalue > FALSE_ALARM
    assert len(np.unique(words)) == words.size  # 40,000² / 2⁶⁵ = 4e-11


# ---------------------------------------------------------------------------------------------- low bits


def privacy_loss_of_low_bits(one, other):
    """A lower bound (confidence 1 − 1e-6) of the privacy loss between two samples of releases, from low bits alone.

    The events: "y is a whole multiple of 2⁻ʲ", its complement, and "bit j of y is set", j = −3 … 62. Each has a
    probability p under one data set and p' under the other, and ε-privacy asks that |ln(p/p')| ≤ ε. Mironov (2012):
    adding a number to a double changes which doubles can come out, which is such an event.
    """
    one, other = (np.asarray(sample, dtype=np.float64) for sample in (one, other))

    def events(y):
        for j in range(-3, 63):
            scaled = np.ldexp(y, j)
            multiple = scaled == np.floor(scaled)
            odd = np.floor(scaled) % 2.0 == 1.0
            yield from (multiple, ~multiple, odd, ~odd)

    alarm, worst = FALSE_ALARM / (4 * 4 * 66), 0.0
    for first, second in zip(events(one), events(other), strict=True):
        for hits, trials, others, their_trials in (
            (first.sum(), first.size, second.sum(), second.size),
            (second.sum(), second.size, first.sum(), first.size),
        ):
            low = stats.beta.ppf(alarm, hits, trials - hits + 1) if hits else 0.0
            high = stats.beta.ppf(1 - alarm, others + 1, their_trials - others) if others < their_trials else 1.0
            if low > high:
                worst = max(worst, math.log(low / high))
    return worst


SAMPLES = 20_000
EPSILON = 1.0


def test_float_laplace_is_caught_by_its_low_bits():
    """Counts 0 and 1 with NumPy's Laplace noise, nominally ε = 1; and with this package's simulation noise."""
    numpy_noise = [np.random.default_rng(seed).laplace(scale=1.0 / EPSILON, size=SAMPLES) for seed in (1, 2)]
    assert privacy_loss_of_low_bits(0.0 + numpy_noise[0], 1.0 + numpy_noise[1]) > 3 * EPSILON
    ours = [SimulationNoise(seed).laplace(scale=1.0 / EPSILON, runs=1, size=SAMPLES)[0] for seed in (1, 2)]
    assert privacy_loss_of_low_bits(0.0 + ours[0], 1.0 + ours[1]) > 3 * EPSILON


@pytest.mark.parametrize("law", ["laplace", "gaussian"])
@pytest.mark.parametrize("unit", [1.0, 2.0**-10])
def test_lattice_releases_pass_the_same_test(law, unit):
    """Counts 0 and 1, in the unit in which they are released; Laplace of scale 1/ε, Gaussian of σ = 4/ε.

    The Gaussian's privacy loss at y is |y − ½|/16 · ε²: above ε only for y beyond four σ, which no event here needs.
    """
    scale = lattice_scale((1.0 if law == "laplace" else 4.0) / EPSILON, unit)
    source = SecureNoise()
    one, other = (
        unit * (round(count / unit) + getattr(source, law)(scale=scale, runs=1, size=SAMPLES)[0]) for count in (0, 1)
    )
    assert privacy_loss_of_low_bits(one, other) <= EPSILON


@pytest.mark.parametrize("law", ["laplace", "gaussian"])
def test_low_bits_of_a_lattice_release_are_uniform_whatever_the_data(law):
    """At scale 64 the lowest four bits are uniform to 1e-3 of χ²'s resolution here; joint table of data × low bits."""
    source = SecureNoise()
    tables = []
    for value in (0, 1, 5):
        release = value + getattr(source, law)(scale=64.0, runs=1, size=SAMPLES)[0]
        tables.append(np.bincount(release % 16, minlength=16))
        assert stats.chisquare(tables[-1]).pvalue > FALSE_ALARM
    assert stats.chi2_contingency(tables).pvalue > FALSE_ALARM


# ---------------------------------------------------------------------------------------------- the protocol


@pytest.mark.parametrize("source", [SecureNoise(), SimulationNoise(1), NoNoise()], ids=repr)
def test_every_source_speaks_the_protocol(source):
    assert isinstance(source, NoiseSource)
    assert source.protects is isinstance(source, SecureNoise)
    for draw in (source.laplace, source.gaussian):
        noise = draw(scale=1.0, runs=2, size=3, terms=2)
        assert noise.shape == (2, 3)
        assert noise.dtype == source.dtype
    assert type(restored(json.loads(json.dumps(source.state())))) is type(source)


def test_no_noise_is_none():
    source = NoNoise()
    assert not source.laplace(scale=5.0, runs=2, size=3).any()
    assert not source.gaussian(scale=5.0, runs=2, size=3).any()
    assert not source.words(runs=2, size=3).any()


def test_an_unknown_source_is_refused():
    with pytest.raises(ValueError, match="no noise source is called 'dice'"):
        restored({"source": "dice"})


def test_lattice_scales_are_exact():
    for unit in (1.0, 2.0**-20, 4.0):
        assert lattice_scale(0.1, unit) * unit == 0.1
    for unit in (0.1, 3.0, 0.0, -1.0, math.inf, math.nan):
        with pytest.raises(ValueError, match="power of two"):
            lattice_scale(1.0, unit)
