"""Factorizations against exact fractions, 60 digits and adversarial neighbours; and what integer noise leaks."""

import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from counter_oracles import impulses, integers, run, silent, start, table
from scipy import stats

from tacit.privacy.counters import Entries, Extent, Filter, StreamError, blt, error_at, sqrt_toeplitz, worst_error
from tacit.privacy.counters.filters import SLACK, FilterStream, _History, _Recursion, residues
from tacit.privacy.counters.table import BLT
from tacit.privacy.noise import SecureNoise, SimulationNoise

SMALL = [sqrt_toeplitz(n) for n in (1, 2, 3, 16, 33)] + [
    blt(n, buffers=d) for d in (1, 2, 4) for n in (1, 2, 3, 16, 33)
]
CELLS = 6


def named(design):
    return f"{design.name}-{design.length}"


def exact_encoder(design):
    """C's first column in exact fractions: binomials, or the power series of the product of the factors."""
    n = design.length
    if not design.poles:
        return [Fraction(math.comb(2 * k, k), 4**k) for k in range(n)]
    return series(design.poles, design.zeros, n)


def series(poles, zeros, n):
    """Π(1 − zero x)/Π(1 − pole x), one factor after the other."""
    column = [Fraction(1)] + [Fraction(0)] * (n - 1)
    for zero in map(Fraction, zeros):
        column = [column[k] - (zero * column[k - 1] if k else 0) for k in range(n)]
    for pole in map(Fraction, poles):
        for k in range(1, n):
            column[k] += pole * column[k - 1]
    return column


def inverse(column):
    """First column of the inverse of a lower-triangular Toeplitz matrix."""
    result = [1 / column[0]]
    for k in range(1, len(column)):
        result.append(-sum(column[i] * result[k - i] for i in range(1, k + 1)) / column[0])
    return result


def cumulated(column):
    total, sums = Fraction(0), []
    for value in column:
        total += value
        sums.append(total)
    return sums


def product(a, b):
    return [sum(a[i] * b[k - i] for i in range(k + 1)) for k in range(len(a))]


def error(design):
    """Largest prefix standard deviation, ‖c‖₂·‖b‖₂."""
    return math.sqrt(float(design.encoder @ design.encoder) * design.variance(design.worst_time()))


class TestFactors:
    @pytest.mark.parametrize("design", SMALL, ids=named)
    def test_exact_product_is_the_prefix_sum(self, design):
        c = exact_encoder(design)
        b = cumulated(inverse(c))
        if not design.poles:
            assert b == c
        assert product(b, c) == [1] * design.length
        assert design.encoder == pytest.approx([float(x) for x in c], rel=1e-9, abs=1e-13)
        assert design.decoder == pytest.approx([float(x) for x in b], rel=1e-9, abs=1e-13)
        assert design.participation("l2") == pytest.approx((1 + SLACK) ** 2 * float(sum(x * x for x in c)), rel=1e-11)
        assert design.participation("l1") == math.inf
        for t in range(1, design.length + 1):
            assert design.terms(t) == t
            assert design.variance(t) == pytest.approx(float(sum(x * x for x in b[:t])), rel=1e-9)
        assert design.worst_time() == design.length

    @pytest.mark.parametrize("design", SMALL, ids=named)
    def test_stream_is_taken_apart(self, design):
        n = design.length
        B = run(start(design, impulses(), runs=n), np.zeros((n, n, 1)))[:, :, 0]
        np.testing.assert_allclose(B, lower(cumulated(inverse(exact_encoder(design)))), rtol=0, atol=1e-12)
        A = run(start(design, silent(), runs=n), np.eye(n)[:, :, None])[:, :, 0]
        np.testing.assert_allclose(A, np.tri(n), rtol=0, atol=1e-12)

    @pytest.mark.parametrize("design", SMALL, ids=named)
    def test_what_is_noised_is_the_encoded_stream(self, design):
        n = design.length
        C, _ = encoded(start(design, silent(), runs=n), np.eye(n)[:, :, None])
        C = C[:, :, 0]
        np.testing.assert_allclose(C, lower(exact_encoder(design)), rtol=0, atol=1e-12)
        norms = (C * C).sum(axis=0)
        assert norms[0] == norms.max() == pytest.approx(design.participation("l2") / (1 + SLACK) ** 2, rel=1e-11)

    @pytest.mark.parametrize("design", SMALL, ids=named)
    def test_noise_is_fresh_in_every_release_run_and_cell(self, design):
        z = np.random.default_rng(1).standard_normal((design.length, 3, 4))
        noise = table(z)
        releases = run(start(design, noise, runs=3, cells=4), np.zeros_like(z))
        assert releases == pytest.approx(np.einsum("tn,nrc->trc", lower(exact_encoder_inverse(design)), z), abs=1e-10)
        assert noise.calls == [("gaussian", 1.0, 3, 4)] * design.length

    def test_sparse_and_dense_contributions_are_the_same(self):
        entries = Entries(np.array([[0, 2, -1], [2, 2, 1]]), np.array([[5, -3, 99], [1, 1, 4]]))
        dense = np.array([[5.0, 0.0, -3.0], [0.0, 4.0, 2.0]])
        for design in (blt(4), sqrt_toeplitz(4)):
            a, b = (start(design, silent(), runs=2, cells=3) for _ in range(2))
            for _ in range(4):
                a.add(entries)
                b.add(dense)
                assert (a.released == b.released).all()

    @pytest.mark.parametrize("design", [blt(200), sqrt_toeplitz(200), blt(3, buffers=2), sqrt_toeplitz(1)], ids=named)
    def test_memory_is_what_is_held(self, design):
        stream = start(design, silent(), runs=2, cells=5)
        run(stream, np.zeros((design.length, 2, 5)))
        held = stream.released.size
        for operator in (stream._encode, stream._decode):
            held += operator._buffers.size if design.poles else operator._items.size
        assert held / 10 == design.memory()

    @pytest.mark.parametrize(
        ("settings", "text"),
        [
            ((0,), "at least one item"),
            ((5, (0.5,), ()), "as many zeros as poles"),
            ((5, (1.0,), (0.5,)), "distinct and in"),
            ((5, (0.5,), (0.5,)), "distinct and in"),
            ((5, (0.5,), (-0.1,)), "distinct and in"),
            ((5, (0.5, 0.5), (0.1, 0.2)), "distinct and in"),
            ((5, (math.nan,), (0.5,)), "distinct and in"),
        ],
    )
    def test_impossible_filters(self, settings, text):
        with pytest.raises(ValueError, match=text):
            Filter(*settings)


def exact_encoder_inverse(design):
    return cumulated(inverse(exact_encoder(design)))


def lower(column):
    n = len(column)
    return np.array([[float(column[i - j]) if i >= j else 0.0 for j in range(n)] for i in range(n)])


def encoded(stream, items):
    """What leaves the noise, that is y, and all releases."""
    taken, push = [], stream._decode.push

    def watched(y):
        taken.append(np.array(y))
        return push(y)

    stream._decode.push = watched
    releases = run(stream, items)
    return np.asarray(taken), releases


class TestTable:
    @pytest.mark.parametrize("buffers", sorted(BLT))
    def test_poles_and_zeros_interlace(self, buffers):
        reaches = [reach for reach, _, _ in BLT[buffers]]
        assert reaches == sorted(set(reaches))
        assert reaches[0] <= 2
        assert reaches[-1] >= 2**24
        for _, poles, zeros in BLT[buffers]:
            assert len(poles) == len(zeros) == buffers
            points = [point for pair in zip(poles, zeros, strict=True) for point in pair]
            assert all(a > b for a, b in zip((1.0, *points), (*points, 0.0), strict=True))

    @pytest.mark.parametrize(("buffers", "page"), [(4, 4.163), (3, 4.203), (2, 4.43), (1, 6.06)])
    def test_errors_of_the_page(self, buffers, page):
        assert error(blt(2**14, buffers=buffers)) == pytest.approx(page, rel=0.0005)
        assert error(blt(2**14, buffers=buffers)) > error(sqrt_toeplitz(2**14)) == pytest.approx(4.155, rel=0.0005)

    @pytest.mark.parametrize("buffers", [1, 2, 3, 4])
    def test_poles_of_the_page_are_no_better(self, buffers):
        # The page's parameters for d = 4, and random moves from ours.
        ours = blt(2**14, buffers=buffers)
        if buffers == 4:
            page = ((0.999935, 0.998584, 0.980034, 0.752368), (0.999642, 0.994642, 0.927089, 0.335444))
            assert error(ours) <= error(Filter(2**14, *page)) * (1 + 1e-6)
        generator = np.random.default_rng(buffers)
        for _ in range(30):
            moved = [
                1 - (1 - np.array(points)) * np.exp(generator.normal(0, 0.02, buffers))
                for points in (ours.poles, ours.zeros)
            ]
            assert error(Filter(2**14, *(tuple(points.tolist()) for points in moved))) >= error(ours) * (1 - 1e-7)

    @pytest.mark.parametrize(
        ("buffers", "loss"), [(1, 0.007), (2, 0.005), (3, 0.003), (4, 0.003), (5, 0.003), (6, 0.003)]
    )
    def test_between_two_entries_little_is_lost(self, buffers, loss):
        # Of the entries around, used at this length, the one that is taken is nearly the best.
        entries = BLT[buffers]
        for position in range(1, len(entries) - 1):
            reach = entries[position][0]
            if reach > 30_000:
                break
            below = entries[position - 1][0]
            for length in (below + 1, (below + reach) // 2, reach):
                taken = blt(length, buffers=buffers)
                assert taken.length == length
                around = [error(Filter(length, *entry[1:])) for entry in entries[max(0, position - 3) : position + 2]]
                assert error(taken) <= (1 + loss) * min(around)

    @pytest.mark.parametrize("buffers", sorted(BLT))
    def test_every_short_length_has_a_filter(self, buffers):
        for length in range(1, 100):
            best = error(sqrt_toeplitz(length))
            assert error(blt(length, buffers=buffers)) <= (1.06, 1.01, 1.002)[min(buffers, 3) - 1] * best

    def test_errors_that_name_the_way_out(self):
        with pytest.raises(ValueError, match=r"BLTs with \[1, 2, 3, 4, 5, 6\] buffers; got 7"):
            blt(10, buffers=7)
        with pytest.raises(ValueError, match="or use batches"):
            blt(2**24 + 1)


class TestLowBits:
    def test_the_naive_form_gives_low_bits_away(self):
        # A x + B z with whole z and b_1 = ½: 2 y_2 − y_1 = x_1 + 2(x_2 + z_2), whatever the scale of the noise.
        z = SecureNoise().gaussian(scale=1e6, runs=2, size=500)
        x = np.random.default_rng(2).integers(0, 2, (2, 500))
        y1 = x[0] + z[0]
        y2 = x[0] + x[1] + z[1] + z[0] / 2
        assert ((2 * y2 - y1) % 2 == x[0]).all()

    @pytest.mark.parametrize("design", [sqrt_toeplitz(4), blt(4, buffers=2)], ids=named)
    def test_the_lattice_form_does_not(self, design):
        # The same statistic, and the parity and residue mod 4 of both encoded releases, for x_1 = 0 and x_1 = 1.
        # Noise of scale σ ≫ 4 grids is uniform on residues to e^{−2π²(σ/4)²}. 12 tests at p > 1e-7.
        cells, scale = 5000, 3.0
        extent = Extent(support=1, norm=1.0, largest=1.0)
        seen = {}
        for bit in (0, 1):
            stream = start(design, SecureNoise(), scale=scale, cells=cells, extent=extent)
            items = np.zeros((2, 1, cells), dtype=np.int64)
            items[0] = bit
            y, released = encoded(stream, items)
            whole = y[:, 0] / stream._grid
            assert (whole == np.rint(whole)).all()
            b1 = design.decoder[1]
            seen[bit] = [(released[1, 0] - b1 * released[0, 0]) * 2 % 2, *(whole % 2), *(whole % 4)]
        assert stats.ks_2samp(seen[0][0], seen[1][0]).pvalue > 1e-7
        for bit in (0, 1):
            for residue, classes in zip(seen[bit][1:], (2, 2, 4, 4), strict=True):
                counts = np.bincount(residue.astype(int), minlength=classes)
                assert stats.chisquare(counts).pvalue > 1e-7

    @pytest.mark.parametrize("design", SMALL, ids=named)
    def test_everything_noised_is_on_a_public_grid(self, design):
        items = np.random.default_rng(3).uniform(-8, 8, (design.length, 2, 3))  # not even whole
        stream = start(design, integers(4), runs=2, cells=3, scale=50.0)
        y, _ = encoded(stream, items)
        assert math.frexp(stream._grid)[0] == 0.5
        assert ((y / stream._grid) % 1 == 0).all()
        other = start(design, integers(5), runs=2, cells=3, scale=50.0)
        assert other._grid == stream._grid  # no matter what the data are

    def test_scale_in_units_of_the_grid(self):
        stream = start(blt(100), noise := integers(6), scale=7.0)
        stream.add(np.zeros((1, 1)))
        assert noise.calls == [("gaussian", 7.0 / stream._grid, 1, 1)]

    @pytest.mark.parametrize("design", [sqrt_toeplitz(32), blt(32), blt(64, buffers=2)], ids=named)
    def test_releases_are_still_the_prefix_sums(self, design):
        items = np.random.default_rng(7).integers(-8, 9, (design.length, 2, 3))
        stream = start(design, silent(np.int64), runs=2, cells=3, scale=5.0)
        released = run(stream, items)
        # ½ grid of rounding in each encoded item; 1¼ SLACK standard deviations is what `slack` promises.
        wrong = abs(released - np.cumsum(items, axis=0)).max(axis=(1, 2))
        promised = [design.slack(t, scale=5.0, unit=1.0) for t in range(1, design.length + 1)]
        assert (wrong <= promised).all()
        assert (wrong > 0).any()


def neighbours(design, extent, seed, first=1):
    """Whole-numbered items, and a difference of norm Δ₂ = √support, ±1 in each cell, at item `first`."""
    generator = np.random.default_rng(seed)
    largest = int(extent.largest)
    items = generator.integers(-largest + 1, largest, (design.length, 1, CELLS)).astype(float)
    other = items.copy()
    other[first - 1] += generator.choice([-1.0, 1.0], (1, CELLS))
    return items, other


class TestRounding:
    """One user moves the rounded y by at most (1 + SLACK)‖c‖₂Δ₂."""

    EXTENT = Extent(support=CELLS, norm=math.sqrt(CELLS), largest=8.0)

    @pytest.mark.parametrize("design", [sqrt_toeplitz(64), blt(64), blt(1000), blt(1000, buffers=2)], ids=named)
    def test_random_neighbours(self, design):
        bound = math.sqrt(design.participation("l2")) * self.EXTENT.norm
        for seed in range(8):
            a, b = (
                encoded(start(design, silent(np.int64), cells=CELLS, extent=self.EXTENT), items)[0]
                for items in neighbours(design, self.EXTENT, seed, first=1 + seed % 3)
            )
            assert math.sqrt(((a - b) ** 2).sum()) <= bound

    @pytest.mark.parametrize("design", [sqrt_toeplitz(64), blt(64), blt(500)], ids=named)
    def test_adversarial_neighbours(self, design):
        # The two streams share all items but the first. Each later item is the one of 17 whose effect on the *next*
        # encoded item rounds most against us, cell by cell (at its own time a whole number moves no rounding).
        streams = [start(design, silent(np.int64), cells=CELLS, extent=self.EXTENT) for _ in range(2)]
        grid = streams[0]._grid
        signs = np.where(np.arange(CELLS) % 2, 1.0, -1.0)[None]
        candidates = np.arange(-7.0, 8.0)
        squares = 0.0
        for t in range(design.length):
            shifts = (np.zeros((1, CELLS)), signs if t == 0 else np.zeros((1, CELLS)))
            kept = [stream._encode.saved().copy() for stream in streams]
            moves = []
            for candidate in candidates:
                outputs = []
                for stream, shift, saved in zip(streams, shifts, kept, strict=True):
                    stream._encode.load(saved)
                    stream._encode.push(candidate + shift)
                    outputs.append(stream._encode.push(np.zeros((1, CELLS))) if t + 1 < design.length else shift)
                moves.append(abs(np.rint(outputs[1] / grid) - np.rint(outputs[0] / grid))[0])
            best = candidates[np.argmax(moves, axis=0)][None]
            outputs = []
            for stream, shift, saved in zip(streams, shifts, kept, strict=True):
                stream._encode.load(saved)
                outputs.append(np.rint(stream._encode.push(best + shift) / grid))
            squares += grid**2 * ((outputs[1] - outputs[0]) ** 2).sum()
        plain = float(np.linalg.norm(design.encoder)) * self.EXTENT.norm
        assert plain < math.sqrt(squares) <= math.sqrt(design.participation("l2")) * self.EXTENT.norm

    @pytest.mark.parametrize("design", [sqrt_toeplitz(40), blt(40), blt(500)], ids=named)
    def test_a_move_of_the_noise_hides_a_user_even_if_everything_adapts(self, design):
        generator = np.random.default_rng(8)
        z = generator.integers(-(10**6), 10**6, (design.length, 1, CELLS))
        for j in (1, design.length // 2, design.length):
            y, a = self.play(design, z, j, other=False)
            # Where the other stream's encoding differs, given the same releases: by running it on those items.
            items = a.copy()
            items[j - 1] += self.difference(y[: j - 1])
            plain, moved = (
                encoded(start(design, silent(np.int64), cells=CELLS, extent=self.EXTENT), x)[0] for x in (a, items)
            )
            grid = start(design, silent(np.int64), cells=CELLS, extent=self.EXTENT)._grid
            move = np.rint((moved - plain) / grid).astype(np.int64)
            assert not move[: j - 1].any()
            assert grid * np.linalg.norm(move) <= math.sqrt(design.participation("l2")) * self.EXTENT.norm
            again, _ = self.play(design, z - move, j, other=True)
            assert (again == y).all()

    def difference(self, releases):
        signs = np.sign(np.sum(releases, axis=0) + 0.5) if len(releases) else np.ones((1, CELLS))
        return np.asarray(signs).reshape(1, CELLS)

    def play(self, design, z, j, *, other):
        """Releases and items of a stream whose every item depends on all releases so far."""
        stream = start(design, table(z, np.int64), cells=CELLS, extent=self.EXTENT)
        releases, items = [], []
        for t in range(1, design.length + 1):
            item = np.floor(np.sum(releases, axis=0) % 7) if releases else np.zeros((1, CELLS))
            items.append(item)
            if other and t == j:
                item = item + self.difference(releases)
            stream.add(item)
            releases.append(stream.released.copy())
        return np.asarray(releases), np.asarray(items)

    @pytest.mark.parametrize(
        ("length", "buffers"),
        [(50, 1), (50, 4), (1000, 2), (1000, 4), (1000, 6), pytest.param(20_000, 4, marks=pytest.mark.slow)],
    )
    def test_recursion_error_is_bounded(self, length, buffers):
        # The operator that is run is the one with these poles and these (floating-point) residues; its exact outputs
        # by 60 digits. Streams: constant, alternating, random signs, random reals, blocks, and the worst-case signs.
        design, largest = blt(length, buffers=buffers), 7.0
        generator = np.random.default_rng(9)
        streams = np.array(
            [
                np.full(length, largest),
                largest * (-1.0) ** np.arange(length),
                largest * generator.choice([-1, 1], length),
                generator.uniform(-largest, largest, length),
                largest / 3 * np.sign(np.sin(np.arange(length) / 9) + 0.01),
            ]
        )
        for poles, zeros in ((design.poles, design.zeros), (design.zeros, design.poles)):
            recursion = _Recursion(poles, zeros, (1, len(streams)))
            outputs = np.array([recursion.push(item[None])[0] for item in streams.T])
            bound = recursion.rounding(largest)
            worst = 0.0
            with mpmath.workdps(60):
                exact_poles = [mpmath.mpf(pole) for pole in poles]
                weights = [mpmath.mpf(float(v)) for v in residues(poles, zeros)]
                for stream, got in zip(streams, outputs.T, strict=True):
                    buffers_ = [mpmath.mpf(0)] * len(poles)
                    for item, value in zip(stream, got, strict=True):
                        exact = mpmath.mpf(float(item)) + mpmath.fdot(weights, buffers_)
                        worst = max(worst, abs(float(exact - mpmath.mpf(float(value)))))
                        buffers_ = [p * b + mpmath.mpf(float(item)) for p, b in zip(exact_poles, buffers_, strict=True)]
            assert 0 < worst <= bound

    def test_history_error_is_bounded(self):
        length, largest = 300, 7.0
        column = sqrt_toeplitz(length).encoder
        streams = np.random.default_rng(10).uniform(-largest, largest, (length, 4))
        history = _History(column, (1, 4))
        outputs = np.array([history.push(item[None])[0] for item in streams])
        worst = 0.0
        for cell in range(4):
            items = [Fraction(float(value)) for value in streams[:, cell]]
            for t in (0, 1, 17, 100, length - 1):
                exact = sum(Fraction(float(column[t - j])) * items[j] for j in range(t + 1))
                worst = max(worst, abs(float(exact - Fraction(float(outputs[t, cell])))))
        assert 0 < worst <= history.rounding(largest)

    def test_the_operator_run_is_the_one_priced(self):
        # `participation` sums the coefficients of poles and residues: the impulse response of the recursion.
        for design in (blt(2000), blt(2000, buffers=6)):
            y, _ = encoded(start(design, silent()), np.eye(design.length, 1).reshape(-1, 1, 1))
            assert float((y**2).sum()) == pytest.approx(float(design.encoder @ design.encoder), rel=1e-12)

    def test_where_double_precision_ends(self):
        extent = Extent(support=40, norm=math.sqrt(40), largest=20.0)
        start(blt(20_000), SecureNoise(), scale=100.0, extent=extent)
        with pytest.raises(StreamError, match="double precision cannot carry BLT-6 over 1000000 items"):
            start(blt(10**6, buffers=6), SecureNoise(), scale=100.0, extent=extent)
        with pytest.raises(StreamError, match="too coarse for whole numbers on the grid"):
            start(blt(100), SecureNoise(), scale=1e15, extent=extent)
        assert start(blt(10**6, buffers=6), SimulationNoise(0), scale=1e15, extent=extent).time == 0

    def test_laplace_is_refused(self):
        with pytest.raises(StreamError, match="BLT-4 is a Gaussian counter"):
            start(blt(10), SecureNoise(), mechanism="laplace")


class TestError:
    def test_error_in_a_release(self):
        design = blt(1000)
        law = error_at(design, 10, mechanism="gaussian", scale=3.0)
        b = cumulated(inverse(series(design.poles, design.zeros, 10)))
        assert law.std == pytest.approx(3.0 * math.sqrt(float(sum(x * x for x in b))), rel=1e-9)
        worst = worst_error(design, mechanism="gaussian", scale=3.0, unit=1.0)
        for t in (1, 10, 999, 1000):
            each = error_at(design, t, mechanism="gaussian", scale=3.0, unit=1.0)
            assert worst.quantile(1e-6) >= each.quantile(1e-6) >= stats.norm.isf(5e-7) * each.std
        assert worst.quantile(1e-6) <= (stats.norm.isf(5e-7) + 1.25 * SLACK) * worst.std * (1 + 1e-9)

    @pytest.mark.parametrize("design", [sqrt_toeplitz(16), blt(16), blt(500, buffers=2)], ids=named)
    @pytest.mark.parametrize(
        "extent", [Extent(1, 1.0, 1.0), Extent(40, 6.0, 20.0), Extent(1, 1e3, 1e3), Extent(1, 1e-3, 1.0)], ids=str
    )
    @pytest.mark.parametrize("scale", [0.01, 1.0, 1e5])
    def test_the_grid_is_fine_enough_for_what_slack_promises(self, design, extent, scale):
        grid = start(design, integers(11), scale=scale, extent=extent)._grid
        assert (
            3 * grid * math.sqrt(design.length * extent.support) <= SLACK * np.linalg.norm(design.encoder) * extent.norm
        )
        for t in (1, design.length):
            # 1½ grids of rounding and ½ of discreteness in each encoded item
            assert 2 * grid * np.abs(design.decoder[:t]).sum() <= design.slack(t, scale=scale, unit=1.0)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("design", "cells"), [(sqrt_toeplitz(1000), 20_000), (blt(20_000), 20_000)], ids=["toeplitz", "blt"]
)
def test_streaming_standard_deviation(design, cells):
    # 20,000 cells: a standard deviation is within √(1/2N) = 0.5 % of its law, so that 2 % is four of them: 6e-5 for
    # each of the seven comparisons.
    scale = 3.0
    stream = start(design, SimulationNoise(12), scale=scale, cells=cells)
    watched = set(np.geomspace(1, design.length, 7).astype(int).tolist())
    zeros = np.zeros((1, cells))
    for _ in range(design.length):
        stream.add(zeros)
        if stream.time in watched:
            assert stream.released.std() == pytest.approx(scale * math.sqrt(design.variance(stream.time)), rel=0.02)
    assert stream.released_at == design.length


def test_lattice_and_simulation_carry_the_same_noise():
    # 4,000 cells: 1.1 %; 5 % is 4.5 of them (7e-6).
    for design in (blt(20), sqrt_toeplitz(20)):
        stream = start(design, SecureNoise(), scale=3.0, cells=4000)
        assert isinstance(stream, FilterStream)
        run(stream, np.zeros((20, 1, 4000)))
        assert stream.released.std() == pytest.approx(3.0 * math.sqrt(design.variance(20)), rel=0.05)
