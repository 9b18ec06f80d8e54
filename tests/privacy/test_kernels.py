"""The compiled inversion behind simulated Laplace noise, against NumPy's logarithm."""

import numpy as np

from tacit.privacy._kernels import invert_laplace

STEP = 2.0**-53


def inverted(uniforms, scale=1.0):
    values = np.array(uniforms, dtype=np.float64)
    invert_laplace(values, scale)
    return values


def test_inversion_is_exact_to_the_last_place():
    uniforms = np.concatenate([np.random.default_rng(0).random(100_000), 2.0 ** -np.arange(2, 54)])
    folded = 2.0 * uniforms - 1.0
    expected = np.where(folded < 0, -1.0, 1.0) * np.log((1.0 - np.abs(folded)) + STEP)
    np.testing.assert_allclose(inverted(uniforms), expected, rtol=3e-16, atol=0)


def test_inversion_is_monotone_symmetric_and_finite_at_both_ends():
    uniforms = np.array([0.0, STEP, 0.25, 0.5 - STEP, 0.5, 0.5 + STEP, 0.75, 1.0 - STEP])
    values = inverted(uniforms, scale=2.0)
    assert np.isfinite(values).all()
    assert (np.diff(values) <= 0).all()
    assert values[4] == 0.0
    np.testing.assert_array_equal(inverted(1.0 - uniforms[1:4], 2.0), -values[1:4])
    assert abs(values[0]) <= 2.0 * 53 * np.log(2.0) * (1 + 1e-15)


def test_lengths_that_fill_no_vector_are_done_to_the_end():
    uniforms = np.random.default_rng(1).random(67)
    whole = inverted(uniforms)
    for size in range(68):
        np.testing.assert_array_equal(inverted(uniforms[:size]), whole[:size])
