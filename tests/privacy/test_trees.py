"""Trees and batches against literal loops, exact linear algebra, and scripted noise."""

import math
from itertools import pairwise

import numpy as np
import pytest
from counter_oracles import (
    EXTENT,
    columns,
    impulses,
    integers,
    literal_factors,
    literal_nodes,
    run,
    schedule,
    silent,
    start,
    table,
)
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.privacy.accounting import rho_of_approximate
from tacit.privacy.calibration import calibrate
from tacit.privacy.counters import (
    Batches,
    StreamError,
    Tree,
    balanced_tree,
    binary_tree,
    doubling,
    single,
)
from tacit.privacy.guarantees import GuaranteeError, Joint
from tacit.privacy.noise import NoNoise, SecureNoise, SimulationNoise
from tacit.privacy.sensitivity import Sensitivity

LENGTHS = (1, 2, 3, 4, 7, 8, 15, 16, 17, 26, 63, 64, 65, 100)
RADICES = ((), (3,), (4,), (13,), (2, 3), (3, 2), (2, 5, 3), (3, 3, 3), (6, 4))


def valid_trees():
    for length in LENGTHS:
        for radices in {*RADICES, binary_tree(length).radices, balanced_tree(length).radices}:
            try:
                yield Tree(length, radices)
            except ValueError:
                continue


TREES = sorted(valid_trees(), key=lambda tree: (tree.length, tree.radices))


def named(tree):
    return f"{tree.length}-{tree.radices}"


@st.composite
def trees(draw):
    radices = tuple(draw(st.lists(st.integers(2, 9), max_size=4)))
    size = math.prod(radices)
    return Tree(draw(st.integers(size, 3 * size + 7)), radices)


class TestAgainstLiteralLoops:
    @pytest.mark.parametrize("tree", TREES, ids=named)
    def test_parents_terms_and_worst_time(self, tree):
        nodes = literal_nodes(tree.length, tree.radices)
        B, _ = literal_factors(tree.length, nodes)
        assert [tree.parent(t) for t in nodes] == [node.parent for node in nodes.values()]
        assert [tree.terms(t) for t in range(1, tree.length + 1)] == B.sum(axis=1).tolist()
        assert [tree.variance(t) for t in range(1, tree.length + 1)] == (B * B).sum(axis=1).tolist()
        assert 1 <= tree.worst_time() <= tree.length
        assert tree.terms(tree.worst_time()) == B.sum(axis=1).max()
        assert tree.last_needed == max(nodes)

    @pytest.mark.parametrize("tree", TREES, ids=named)
    def test_participation_is_attained_and_never_exceeded(self, tree):
        _, C = literal_factors(tree.length, literal_nodes(tree.length, tree.radices))
        assert tree.participation("l1") == np.abs(C).sum(axis=0).max() == np.abs(C).sum(axis=0)[0]
        if not tree.looks_ahead:
            assert tree.participation("l2") == (C * C).sum(axis=0).max()

    @pytest.mark.parametrize("tree", TREES, ids=named)
    def test_factors_multiply_to_the_prefix_sums(self, tree):
        B, C = literal_factors(tree.length, literal_nodes(tree.length, tree.radices))
        assert np.array_equal(B @ C, np.tri(tree.length))

    @given(trees())
    @settings(max_examples=60, deadline=None)
    def test_any_radices(self, tree):
        nodes = literal_nodes(tree.length, tree.radices)
        B, C = literal_factors(tree.length, nodes)
        assert [tree.parent(t) for t in nodes] == [node.parent for node in nodes.values()]
        assert tree.terms(tree.worst_time()) == B.sum(axis=1).max()
        assert tree.participation("l1") == np.abs(C).sum(axis=0).max()

    @pytest.mark.parametrize("length", [2**14 - 1, 2**14, 19_999, 20_000])
    @pytest.mark.parametrize("radices", [(2,) * 13, (13,) * 3, (3,) * 8, (13, 15, 14), (25, 32)])
    def test_worst_time_of_long_trees(self, length, radices):
        # The digit sums of all times at once, by division with remainder.
        rest, sums = np.arange(1, length + 1), np.zeros(length, dtype=np.int64)
        for radix in radices:
            digit = (rest + (radix - 1) // 2) % radix - (radix - 1) // 2
            sums += abs(digit)
            rest = (rest - digit) // radix
        tree = Tree(length, radices)
        assert tree.terms(tree.worst_time()) == (sums + abs(rest)).max()

    @pytest.mark.parametrize("length", LENGTHS)
    def test_the_binary_tree_is_the_one_everybody_knows(self, length):
        tree = binary_tree(length)
        assert tree.participation("l1") == tree.participation("l2") == length.bit_length()
        for t in range(1, length + 1):
            assert tree.parent(t) == t & (t - 1)
            assert tree.terms(t) == t.bit_count()

    @pytest.mark.parametrize(("episodes", "levels", "terms"), [(20_000, 15, 14), (2**14, 14, 14), (2**14 + 1, 15, 14)])
    def test_levels_for_so_many_episodes(self, episodes, levels, terms):
        tree = binary_tree(episodes - 1)  # the releases before episodes 2, …, K
        assert (tree.participation("l1"), tree.terms(tree.worst_time())) == (levels, terms)

    def test_a_tree_with_a_level_that_no_item_needs_is_refused(self):
        with pytest.raises(ValueError, match="nodes that 7 items never need"):
            Tree(7, (2, 2, 2))
        # Ternary, 2 items: the release at 2 lends the noise of the node of 3. With one item there's no such release.
        assert Tree(2, (3,)).last_needed == 3
        with pytest.raises(ValueError, match="nodes that 1 items never need"):
            Tree(1, (3,))

    @pytest.mark.parametrize(("settings_", "text"), [((0, ()), "at least one item"), ((5, (1,)), "at least 2")])
    def test_impossible_trees(self, settings_, text):
        with pytest.raises(ValueError, match=text):
            Tree(*settings_)

    @pytest.mark.parametrize("length", [1, 2, 3, 10, 63, 64, 200])
    def test_balanced_tree_is_the_best_of_all_equal_radices(self, length):
        best = math.inf
        for levels in range(1, 12):
            for radix in range(2, 2 * length + 2):
                try:
                    Tree(length, (radix,) * (levels - 1))
                except ValueError:
                    break
                B, _ = literal_factors(length, literal_nodes(length, (radix,) * (levels - 1)))
                best = min(best, levels * B.sum(axis=1).max() ** 0.5)
                if levels == 1:
                    break
        found = balanced_tree(length)
        assert found.participation("l1") * found.variance(found.worst_time()) ** 0.5 == pytest.approx(best)

    def test_a_search_that_finds_nothing_says_so(self):
        with pytest.raises(ValueError, match="no subtraction tree of radix 50 and 3 levels fits 10 items"):
            balanced_tree(10, radix=50, levels=3)


class TestStreamIsTakenApart:
    """Unit impulses for the noise, one in each run, give B; no noise gives A."""

    @pytest.mark.parametrize("dtype", [np.float64, np.int64])
    @pytest.mark.parametrize("tree", TREES, ids=named)
    def test_noise_matrix(self, tree, dtype):
        noise = impulses(dtype)
        stream = start(tree, noise, runs=3 * tree.length + 40)
        releases = run(stream, np.zeros((tree.length, *stream.released.shape), dtype=dtype))
        B, _ = literal_factors(tree.length, literal_nodes(tree.length, tree.radices))
        assert columns(releases[:, :, 0].astype(np.int64)) == columns(B)

    @pytest.mark.parametrize("dtype", [np.float64, np.int64])
    @pytest.mark.parametrize("tree", TREES, ids=named)
    def test_without_noise_it_counts(self, tree, dtype):
        items = np.random.default_rng(1).integers(-9, 10, (tree.length, 2, 3)).astype(dtype)
        stream = start(tree, silent(dtype), runs=2, cells=3)
        assert (run(stream, items) == np.cumsum(items, axis=0)).all()

    @pytest.mark.parametrize("tree", TREES, ids=named)
    def test_every_cell_of_every_run_has_noise_of_its_own(self, tree):
        noise = integers(2)
        stream = start(tree, noise, runs=3, cells=4)
        releases = run(stream, np.zeros((tree.length, 3, 4), dtype=np.int64))
        B = start_matrix(tree)[:, : len(noise.drawn)]
        assert (releases == np.einsum("tn,nrc->trc", B, np.asarray(noise.drawn))).all()

    def test_law_and_scale_are_passed_on(self):
        for mechanism in ("laplace", "gaussian"):
            noise = silent()
            run(start(binary_tree(7), noise, mechanism=mechanism, scale=2.5, runs=2, cells=3), np.zeros((7, 2, 3)))
            assert set(noise.calls) == {(mechanism, 2.5, 2, 3)}
            assert len(noise.calls) == 7  # one for each release

    @pytest.mark.parametrize("tree", TREES, ids=named)
    def test_memory_is_what_is_held(self, tree):
        stream = start(tree, integers(3), runs=1, cells=2)
        most = 0
        for _ in range(tree.length):
            stream.add(np.zeros((1, 2), dtype=np.int64))
            most = max(most, len(stream._accumulators))
        assert most + 1 <= tree.memory()  # and the latest release

    @pytest.mark.parametrize(
        ("length", "radices"), [(81, (3, 3, 3)), (1000, (5, 5, 5)), (63, (2,) * 5), (2000, (13, 13)), (90, (3, 7, 2))]
    )
    def test_memory_is_needed(self, length, radices):
        tree = Tree(length, radices)
        stream = start(tree, silent())
        most = len(stream._accumulators)
        for _ in range(length):
            upcoming = tree.next_release(stream.time)
            stream._due(upcoming)  # as `add` does first
            most = max(most, len(stream._accumulators))
            stream.add(np.zeros((1, 1)))
        assert most + 1 == tree.memory()

    def test_accumulators_never_hold_an_exact_sum(self):
        # Noise is far larger than the counts: any number held that is not noisy would be small.
        noise = integers(4, spread=10**9)
        for design in (binary_tree(64), balanced_tree(64), Tree(80, (5, 3)), doubling(64, first=4)):
            stream = start(design, noise, cells=5)
            for _ in range(design.length):
                stream.add(np.ones((1, 5), dtype=np.int64))
                assert all((abs(held) > 64).all() for held in stream._accumulators.values())

    def test_after_the_last_release_nothing_is_stored(self):
        for design in (binary_tree(5), Tree(7, (3,)), Batches((2, 5))):
            stream = start(design, integers(5))
            run(stream, np.ones((design.length, 1, 1), dtype=np.int64))
            before = {name: array.copy() for name, array in stream.arrays().items()}
            assert stream.add(np.full((1, 1), 10**6), items=9) is False
            after = stream.arrays()
            assert after["time"].tolist() == [design.length + 9, design.length]
            assert all((after[name] == before[name]).all() for name in before if name != "time")
            assert stream.released_at == design.length


def start_matrix(tree):
    """B with columns in the order of the draws, by impulses."""
    runs = 3 * tree.length + 40
    stream = start(tree, impulses(), runs=runs)
    return run(stream, np.zeros((tree.length, runs, 1)))[:, :, 0].astype(np.int64)


class TestAdaptivity:
    """Item j of two streams differs by d(y_1, …, y_{j−1}), all later items depend on all earlier releases."""

    @pytest.mark.parametrize("tree", [t for t in TREES if 1 < t.length <= 33], ids=named)
    def test_a_change_of_one_noise_per_level_hides_the_difference(self, tree):
        generator = np.random.default_rng(tree.length)
        B = start_matrix(tree)
        _, C = literal_factors(tree.length, nodes := literal_nodes(tree.length, tree.radices))
        literal_B, _ = literal_factors(tree.length, nodes)
        drawn_as = match(B, literal_B)
        for j in {1, 2, tree.length // 2 + 1, tree.length}:
            z = generator.integers(-50, 51, (B.shape[1], 1, 1))
            y, d = play(tree, z, j, other=False)
            moved = z.copy()
            moved[drawn_as, 0, 0] -= C[:, j - 1] * d
            assert np.count_nonzero(moved != z) <= tree.participation("l1")
            assert np.abs(moved - z).sum() <= tree.participation("l1") * abs(d)
            assert (play(tree, moved, j, other=True)[0] == y).all()

    @pytest.mark.parametrize("tree", TREES, ids=named)
    def test_releases_before_an_item_do_not_know_it(self, tree):
        items = np.random.default_rng(6).integers(0, 5, (tree.length, 1, 1))
        for j in range(1, tree.length + 1):
            other = items.copy()
            other[j - 1] += 100
            a, b = (run(start(tree, integers(7)), x) for x in (items, other))
            assert (a[: j - 1] == b[: j - 1]).all()
            assert (b[j - 1 :] - a[j - 1 :] == 100).all()

    def test_trees_that_look_ahead_offer_no_gaussian_guarantee(self):
        sensitivity = Sensitivity(l0=4, l1=6.0, l2_squared=6.0)
        tree = balanced_tree(1000)
        assert tree.looks_ahead
        assert tree.participation("l2") == math.inf
        assert calibrate(Joint(epsilon=1, delta=1e-5), sensitivity, counter=tree).mechanism == "laplace"
        with pytest.raises(GuaranteeError, match="works with Laplace noise only"):
            calibrate(Joint(epsilon=1, delta=1e-5), sensitivity, counter=tree, mechanism="gaussian")
        with pytest.raises(StreamError, match="is a Laplace counter"):
            start(tree, SecureNoise(), mechanism="gaussian")
        assert start(tree, NoNoise(), mechanism="gaussian", scale=0.0).time == 0

    def test_why_discrete_gaussian_noise_does_not_go_with_future_parents(self):
        # Ternary tree, 3 items: y_2 = x_1 + x_2 + z_2 + z_3 and y_3 = x_1 + x_2 + x_3 + z_3, two cells. Item 3 is in
        # two nodes, so that ρ would be 2·1²/(2σ²) for a difference of 1 in one cell. But the user may choose the
        # cell when y_2 is known, that is s = z_2 + z_3: one where s is odd, and z_3 given s is centred at s/2.
        assert literal_nodes(3, (3,))[2].parent == 3
        sigma, order = 0.5, 1.25
        z = np.arange(-40, 41)
        density = np.exp(-(z**2) / (2 * sigma**2))
        density /= density.sum()

        def inside(x):
            return np.where(abs(x) <= 40, density[np.clip(x + 40, 0, 80)], 0.0)

        mass, moment = {0: 0.0, 1: 0.0}, {0: 0.0, 1: 0.0}
        for s in range(-20, 21):
            p, q = inside(z) * inside(s - z), inside(z + 1) * inside(s - z - 1)
            both = (p > 0) & (q > 0)
            mass[s % 2] += p.sum()
            moment[s % 2] += (p[both] ** order * q[both] ** (1 - order)).sum()
        each = {parity: moment[parity] / mass[parity] for parity in mass}
        # The user takes an odd cell if there is one.
        adaptive = each[1] * (1 - mass[0] ** 2) + each[0] * mass[0] ** 2
        fixed = moment[0] + moment[1]
        bound = order * 2 / (2 * sigma**2)
        assert math.log(fixed) / (order - 1) <= bound * (1 + 1e-9)  # a difference fixed beforehand keeps ρ
        assert math.log(adaptive) / (order - 1) > 1.03 * bound  # this one doesn't


def match(B, literal_B):
    """For each literal column, a drawn column that equals it, each once."""
    free = {}
    for position, column in enumerate(B.T.tolist()):
        free.setdefault(tuple(column), []).append(position)
    return [free[tuple(column)].pop() for column in literal_B.T.tolist()]


def play(tree, z, j, *, other):
    """All releases of a stream whose items depend on all releases so far; and item j's difference d."""
    stream = start(tree, table(z, np.int64))
    releases, difference = [], 0
    for t in range(1, tree.length + 1):
        seen = sum((position + 3) * int(value) for position, value in enumerate(releases))
        item = seen % 11 - 5
        if t == j:
            difference = seen % 7 - 2 or 1
            item += difference if other else 0
        stream.add(np.full((1, 1), item))
        releases.append(stream.released[0, 0])
    return np.asarray(releases), difference


class TestBatches:
    @pytest.mark.parametrize(
        ("length", "options", "ends"),
        [
            (19_999, {}, (40, 80, 160, 320, 640, 1280, 2560, 5120, 10_240)),
            (40, {}, (40,)),
            (39, {}, (39,)),
            (1, {}, (1,)),
            (1, {"first": 1}, (1,)),
            (15, {"first": 1}, (1, 2, 4, 8)),
            (16, {"first": 1}, (1, 2, 4, 8, 16)),
            (8, {"first": 1, "growth": 1.1}, (1, 2, 3, 4, 5, 6, 7, 8)),
            (100, {"first": 10, "growth": 3}, (10, 30, 90)),
        ],
    )
    def test_ends(self, length, options, ends):
        assert doubling(length, **options).ends == ends

    @given(st.integers(1, 3000), st.integers(1, 50), st.floats(1.0001, 8.0))
    @settings(max_examples=100, deadline=None)
    def test_ends_increase_and_stay_inside(self, length, first, growth):
        ends = doubling(length, first=first, growth=growth).ends
        assert all(a < b for a, b in pairwise((0, *ends)))
        assert ends[-1] <= length

    @pytest.mark.parametrize("ends", [(1,), (5,), (1, 2), (3, 4, 9, 20)])
    def test_every_item_is_in_one_node(self, ends):
        batches = Batches(ends)
        stream = start(batches, impulses(), runs=len(ends))
        releases = run(stream, np.zeros((ends[-1], len(ends), 1)))[:, :, 0]
        assert (releases == np.tri(len(ends))).all()  # B
        C = np.array(
            [
                [1 if a < item <= b else 0 for item in range(1, ends[-1] + 1)]
                for a, b in zip((0, *ends), ends, strict=False)
            ]
        )
        prefixes = np.array([[1 if item <= end else 0 for item in range(1, ends[-1] + 1)] for end in ends])
        assert (releases @ C == prefixes).all()
        assert batches.participation("l1") == batches.participation("l2") == C.sum(axis=0).max() == 1
        for t in range(1, ends[-1] + 5):
            assert batches.terms(t) == sum(end <= t for end in ends) == batches.variance(t)
        assert batches.worst_time() == ends[-1]
        assert schedule(batches) == list(ends)
        assert len(start(batches, silent())._accumulators) + 1 == batches.memory()

    def test_counts_in_steps_of_any_size_up_to_the_release(self):
        batches = Batches((4, 6, 12))
        stream = start(batches, silent(np.int64), cells=2)
        taken, released = 0, []
        for items in (1, 3, 2, 5, 1, 7):
            if stream.add(np.full((1, 2), 10 * items), items=items):
                released.append((stream.released_at, stream.released[0].tolist()))
            taken += items
            assert stream.time == taken
        assert released == [(4, [40, 40]), (6, [60, 60]), (12, [120, 120])]

    def test_offline_training_needs_one_release(self):
        assert schedule(single(100)) == [100]
        assert single(100).variance(100) == 1.0

    @pytest.mark.parametrize("ends", [(), (0,), (-1, 3), (3, 3), (5, 4)])
    def test_impossible_ends(self, ends):
        with pytest.raises(ValueError, match="batch ends must increase from at least 1"):
            Batches(ends)

    @pytest.mark.parametrize("options", [{"first": 0}, {"growth": 1.0}, {"growth": 0.5}])
    def test_impossible_growth(self, options):
        with pytest.raises(ValueError, match="batches grow"):
            doubling(10, **options)

    def test_parents(self):
        batches = Batches((4, 6, 12))
        assert [batches.parent(end) for end in batches.ends] == [0, 4, 6]
        for time in (0, 3, 5, 13):
            with pytest.raises(StreamError, match=f"no release at {time}"):
                batches.parent(time)
        with pytest.raises(StreamError, match="empty prefix has no parent"):
            binary_tree(4).parent(0)


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", ["laplace", "gaussian"])
@pytest.mark.parametrize(
    "design", [binary_tree(1000), balanced_tree(1000), doubling(1000, first=2)], ids=lambda d: d.name
)
def test_streaming_standard_deviation(design, mechanism):
    # 60,000 cells: the relative error of a standard deviation is √((κ−1)/4N) ≤ 0.46 % (κ = 6 for one Laplace
    # variable), so that 2 % is more than 4 of them (< 2e-5 per comparison); for sums of Laplace variables more than 5.
    cells, scale = 60_000, 3.0
    stream = start(design, SimulationNoise(11), mechanism=mechanism, scale=scale, cells=cells)
    watched = {design.worst_time(), *np.linspace(1, design.length, 25).astype(int).tolist()}
    zeros, seen = np.zeros((1, cells)), 0
    for _ in range(design.length):
        if stream.add(zeros) and (stream.time in watched or isinstance(design, Batches)):
            unit = math.sqrt(2.0) if mechanism == "laplace" else 1.0
            assert stream.released.std() == pytest.approx(
                scale * unit * math.sqrt(design.variance(stream.time)), rel=0.02
            )
            seen += 1
    assert seen >= 9


def test_extent_is_of_no_concern_to_trees():
    stream = start(binary_tree(3), silent(np.int64), extent=EXTENT)
    assert stream.add(np.ones((1, 1), dtype=np.int64)) is True


def test_lattice_scale_for_pure_and_gaussian_trees():
    # What calibrate makes of a tree, by the formulas of ALGORITHMS.md §2.
    sensitivity = Sensitivity(l0=80, l1=60.0, l2_squared=60.0)
    pure = calibrate(Joint(epsilon=1), sensitivity, counter=binary_tree(19_999))
    assert pure.scale == pytest.approx(15 * 60.0, rel=1e-9)
    rho = rho_of_approximate(1.0, 1e-5)
    gauss = calibrate(Joint(epsilon=1, delta=1e-5), sensitivity, counter=binary_tree(19_999), mechanism="gaussian")
    assert gauss.scale == pytest.approx(math.sqrt(15 * 60 / (2 * rho)), rel=1e-9)
