"""The compiled loops of the privacy room against plain Python."""

import numpy as np
import pytest
from scipy import stats

from tacit.privacy._kernels import add_entries
from tacit.privacy._ziggurat import EDGES, draw_laplace, draw_words, mixed


def literal_word(counter):
    """SplitMix64's output function in Python's own integers."""
    z = counter % 2**64
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB % 2**64
    return z ^ (z >> 31)


def test_words_are_those_of_splitmix64():
    """The first outputs for seed 1234567, as published with the generator (Vigna's splitmix64.c)."""
    golden = 0x9E3779B97F4A7C15
    known = [6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431, 16408922859458223821]
    assert [literal_word(1234567 + (i + 1) * golden) for i in range(5)] == known
    assert [int(mixed(np.uint64((1234567 + (i + 1) * golden) % 2**64))) for i in range(5)] == known


@pytest.mark.parametrize("size", [0, 1, 65])
def test_words_of_a_key_are_counted(size):
    keys, first = np.random.default_rng(size).integers(2**64, size=2, dtype=np.uint64), 2**64 - 2  # wraps around
    words = np.empty((2, size), dtype=np.uint64)
    draw_words(keys, first, words)
    golden = 0x9E3779B97F4A7C15
    assert words.tolist() == [[literal_word(int(key) + (first + i) * golden) for i in range(size)] for key in keys]


def test_the_layers_of_the_ziggurat_have_equal_areas_and_fill_the_curve():
    """256 areas make 1, the integral of e^−x; the uppermost layer ends at height 1."""
    area = (EDGES[255] + 1.0) * np.exp(-EDGES[255])
    rectangles = EDGES[1:256] * (np.exp(-EDGES[:255]) - np.exp(-EDGES[1:256]))
    np.testing.assert_allclose(rectangles, area, rtol=1e-11)
    assert EDGES[0] == 0
    tail = np.exp(-EDGES[255])  # e^−x beyond the last edge
    under = EDGES[1:256] @ (np.exp(-EDGES[:255]) - np.exp(-EDGES[1:256])) + EDGES[255] * tail + tail
    np.testing.assert_allclose(under, 256 * area, rtol=1e-11)


@pytest.mark.slow
def test_the_ziggurat_is_laplace_in_the_bulk_the_wedges_and_the_tail():
    """10⁸ draws: KS, and a χ² over the layers' edges, where an error of shape would show; false alarm 1e-6."""
    keys = np.array([12345], dtype=np.uint64)
    bounds = np.concatenate([-EDGES[255:0:-1], [0.0], EDGES[1:256]])
    counts = np.zeros(len(bounds) + 1)
    noise = np.empty((1, 10**6))
    for part in range(100):
        draw_laplace(keys, part * noise.size, 1.0, noise)
        counts += np.bincount(np.searchsorted(bounds, noise[0]), minlength=len(counts))
    expected = np.diff(np.concatenate([[0.0], stats.laplace.cdf(bounds), [1.0]])) * counts.sum()
    assert stats.chisquare(counts, expected).pvalue > 1e-6
    assert stats.kstest(noise[0], "laplace").pvalue > 1e-6
    assert stats.kstest(np.abs(noise[0][np.abs(noise[0]) > EDGES[255]]) - EDGES[255], "expon").pvalue > 1e-6
    lagged = stats.spearmanr(noise[0][:-1], noise[0][1:]).pvalue
    assert lagged > 1e-6


def test_entries_reach_their_cells_as_often_as_they_are_named():
    accumulator = np.zeros((2, 4), dtype=np.int64)
    cells = np.array([[0, 3, -1], [2, 2, -1]])
    values = np.array([[5, 7, 99], [1, 10, 99]])
    add_entries(accumulator, cells, values)
    np.testing.assert_array_equal(accumulator, [[5, 0, 0, 7], [0, 0, 11, 0]])
