"""The compiled loops of the privacy room against plain Python."""

import numpy as np
import pytest

from tacit.privacy._kernels import add_entries, apply_signs


@pytest.mark.parametrize("size", [0, 1, 63, 64, 65, 128, 200])
def test_every_number_gets_its_own_bit_as_sign(size):
    rng = np.random.default_rng(size)
    words = rng.integers(2**64, size=-(-size // 64), dtype=np.uint64)
    noise = rng.exponential(size=size)
    bits = [(int(words[i // 64]) >> (i % 64)) & 1 for i in range(size)]
    expected = [3.0 * value * (-1 if bit else 1) for value, bit in zip(noise, bits, strict=True)]
    apply_signs(noise, words, 3.0)
    np.testing.assert_allclose(noise, expected, rtol=1e-15)


def test_entries_reach_every_live_accumulator_and_no_other():
    pool = np.zeros((3, 2, 4), dtype=np.int64)
    cells = np.array([[0, 3, -1], [2, 2, -1]])
    values = np.array([[5, 7, 99], [1, 10, 99]])
    add_entries(pool, np.array([0, 2]), cells, values)
    expected = [[5, 0, 0, 7], [0, 0, 11, 0]]
    np.testing.assert_array_equal(pool, [expected, np.zeros((2, 4)), expected])
