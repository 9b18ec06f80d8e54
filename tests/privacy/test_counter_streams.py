"""What all counters share: restarts, schedules, errors, JSON; and the table of their noise."""

import importlib.util
import io
import json
import math
from pathlib import Path

import numpy as np
import pytest
from counter_oracles import EXTENT, Recorded, impulses, integers, run, schedule, start

from tacit.privacy.counters import (
    Batches,
    Entries,
    StreamError,
    Tree,
    balanced_tree,
    binary_tree,
    blt,
    design_from_json,
    doubling,
    error_at,
    single,
    sqrt_toeplitz,
    worst_error,
)
from tacit.privacy.errors import LaplaceSum, Normal
from tacit.privacy.noise import NoNoise, SecureNoise, SimulationNoise, restored

DESIGNS = [
    binary_tree(1),
    binary_tree(21),
    binary_tree(16),
    balanced_tree(40),
    Tree(20, (3, 3)),
    Tree(26, (5, 2)),
    Batches((3, 4, 20)),
    doubling(25, first=3),
    single(7),
    sqrt_toeplitz(1),
    sqrt_toeplitz(20),
    blt(20),
    blt(20, buffers=1),
    blt(100, buffers=3),
]
ROOT = Path(__file__).parents[2]


def named(design):
    return f"{design.name}-{design.length}"


def mechanism_of(design):
    return "laplace" if math.isfinite(design.participation("l1")) else "gaussian"


def through_a_file(arrays):
    """As `np.savez` writes and reads them, without pickle."""
    file = io.BytesIO()
    np.savez(file, **arrays)
    file.seek(0)
    with np.load(file, allow_pickle=False) as loaded:
        return {name: loaded[name] for name in loaded.files}


def resumed(design, stream, noise, *, scale=1.0, extent=EXTENT):
    return design.resume(
        through_a_file(stream.arrays()), noise=noise, mechanism=mechanism_of(design), scale=scale, extent=extent
    )


class TestRestart:
    @pytest.mark.parametrize("design", DESIGNS, ids=named)
    def test_stopping_anywhere_changes_nothing(self, design):
        items = np.random.default_rng(1).integers(-5, 6, (design.length, 2, 3))
        straight, interrupted = integers(2), integers(2)
        a = start(design, straight, runs=2, cells=3)
        b = start(design, interrupted, runs=2, cells=3)
        for item in items:
            before = len(interrupted.drawn)
            b = resumed(design, b, interrupted)
            assert len(interrupted.drawn) == before  # a restart draws nothing
            assert a.add(item) == b.add(item)
            assert (a.released == b.released).all()
            assert (a.time, a.released_at) == (b.time, b.released_at)
        assert len(straight.drawn) == len(interrupted.drawn)
        assert a.released.dtype == b.released.dtype

    @pytest.mark.parametrize("design", DESIGNS, ids=named)
    def test_secure_noise_is_never_drawn_again(self, design):
        # All that was drawn before and after the restart, each once, explains all releases.
        items = np.random.default_rng(3).integers(-5, 6, (design.length, 1, 4))
        noise = Recorded(SecureNoise())
        stream = start(design, noise, cells=4, scale=20.0)
        releases = []
        for t, item in enumerate(items):
            if t == design.length // 2:
                stream = resumed(design, stream, noise, scale=20.0)
            if stream.add(item):
                releases.append(stream.released.copy())
        probe = impulses()
        draws = len(noise.drawn)
        B = run(start(design, probe, runs=draws), np.zeros((design.length, draws, 1)))[:, :, 0]
        assert len(probe.drawn) == draws
        grid = getattr(stream, "_grid", 1.0)
        noises = np.einsum("tn,nrc->trc", B, grid * np.asarray(noise.drawn, dtype=float))
        exact = np.cumsum(items, axis=0)[[t - 1 for t in schedule(design)]]
        # Filters round to a grid; trees and batches do not.
        assert np.abs(np.asarray(releases) - exact - noises).max() <= (
            0.02 if mechanism_of(design) == "gaussian" else 0
        )
        assert SecureNoise().state() == {"source": "secure"}

    @pytest.mark.parametrize("design", DESIGNS, ids=named)
    def test_a_simulation_goes_on_as_if_it_had_not_stopped(self, design):
        items = np.random.default_rng(4).normal(size=(design.length, 2, 3))
        whole = run(start(design, SimulationNoise(5), runs=2, cells=3), items)
        noise = SimulationNoise(5)
        stream = start(design, noise, runs=2, cells=3)
        first = run(stream, items[: design.length // 2])
        state = json.loads(json.dumps(noise.state()))
        second = run(resumed(design, stream, restored(state)), items[design.length // 2 :])
        parts = [part for part in (first, second) if len(part)]
        assert (np.concatenate(parts) == whole).all()

    @pytest.mark.parametrize("design", DESIGNS, ids=named)
    def test_what_was_saved_is_a_copy(self, design):
        stream = start(design, integers(6), cells=2)
        arrays = stream.arrays()
        before = {name: array.copy() for name, array in arrays.items()}
        stream.add(np.ones((1, 2), dtype=np.int64))
        assert all((arrays[name] == before[name]).all() for name in arrays)


class TestStreams:
    @pytest.mark.parametrize("design", DESIGNS, ids=named)
    def test_without_noise_it_is_exact(self, design):
        items = np.random.default_rng(7).integers(-9, 10, (design.length, 2, 3))
        stream = start(design, NoNoise(), runs=2, cells=3, scale=0.0)
        assert (stream.released == 0).all()
        assert stream.released_at == 0
        exact = np.cumsum(items, axis=0)[[t - 1 for t in schedule(design)]]
        np.testing.assert_allclose(run(stream, items), exact, rtol=0, atol=1e-9)

    @pytest.mark.parametrize("design", DESIGNS, ids=named)
    def test_entries_are_added_at_their_cells(self, design):
        stream = start(design, NoNoise(), runs=2, cells=3, scale=0.0)
        entries = Entries(np.array([[0, 2, -1], [1, 1, 1]]), np.array([[4, 5, 77], [1, 2, 3]]))
        for _ in range(design.length):
            stream.add(entries)
        expected = stream.released_at * np.array([[4.0, 0.0, 5.0], [0.0, 6.0, 0.0]])
        np.testing.assert_allclose(stream.released, expected, rtol=0, atol=1e-9)

    @pytest.mark.parametrize("design", DESIGNS, ids=named)
    def test_a_run_is_the_same_whatever_the_runs_beside_it(self, design):
        items = np.random.default_rng(8).normal(size=(design.length, 3, 2))
        three = run(start(design, SimulationNoise(9), runs=3, cells=2), items)
        one = run(start(design, SimulationNoise(9), runs=1, cells=2), items[:, :1])
        np.testing.assert_allclose(three[:, :1], one, rtol=0, atol=1e-12)

    @pytest.mark.parametrize("design", DESIGNS, ids=named)
    def test_runs_cells_and_times_have_noises_of_their_own(self, design):
        releases = run(start(design, SimulationNoise(10), runs=4, cells=50), np.zeros((design.length, 4, 50)))
        assert len(np.unique(releases)) == releases.size

    @pytest.mark.parametrize("design", DESIGNS, ids=named)
    def test_steps_keep_to_the_schedule(self, design):
        stream = start(design, integers(11))
        for items in (0, -3):
            with pytest.raises(StreamError, match=f"at least one item; got {items}"):
                stream.add(np.zeros((1, 1), dtype=np.int64), items=items)
        upcoming = design.next_release(0)
        with pytest.raises(
            StreamError,
            match=f"after item {upcoming} comes first: at most {upcoming} items may be added now, not 99999",
        ):
            stream.add(np.zeros((1, 1), dtype=np.int64), items=99_999)
        assert stream.time == 0
        run(stream, np.zeros((design.length, 1, 1), dtype=np.int64))
        assert design.next_release(stream.time) is None
        last = stream.released.copy()
        assert stream.add(np.full((1, 1), 5), items=99_999) is False
        assert (stream.released == last).all()
        assert stream.time == design.length + 99_999
        assert stream.released_at == design.length


class TestDesigns:
    @pytest.mark.parametrize("design", DESIGNS, ids=named)
    def test_json_round_trip(self, design):
        again = design_from_json(json.loads(json.dumps(design.to_json())))
        assert again == design
        assert again.name == design.name
        assert [again.variance(t) for t in schedule(again)] == [design.variance(t) for t in schedule(design)]

    def test_unknown_json(self):
        with pytest.raises(ValueError, match="no counter is called 'abacus'"):
            design_from_json({"counter": "abacus"})

    @pytest.mark.parametrize("design", DESIGNS, ids=named)
    def test_errors(self, design):
        mechanism = mechanism_of(design)
        worst = worst_error(design, mechanism=mechanism, scale=3.0, unit=0.25)
        for t in schedule(design):
            law = error_at(design, t, mechanism=mechanism, scale=3.0, unit=0.25)
            if mechanism == "laplace":
                assert law == LaplaceSum(scale=3.0, terms=design.terms(t), unit=0.25)
                assert law.std == pytest.approx(3.0 * math.sqrt(2 * design.variance(t)))
            else:
                assert isinstance(law, Normal)
                assert law.std == pytest.approx(3.0 * math.sqrt(design.variance(t)))
            for beta in (0.3, 1e-3, 1e-9):
                assert law.quantile(beta) <= worst.quantile(beta)

    def test_gaussian_errors_of_trees_carry_half_a_unit_for_each_noise(self):
        law = error_at(binary_tree(100), 63, mechanism="gaussian", scale=2.0, unit=0.5)
        assert law == Normal(std=2.0 * math.sqrt(6), slack=1.5)

    @pytest.mark.slow
    @pytest.mark.parametrize("design", [binary_tree(63), balanced_tree(63), doubling(63, first=1), blt(63)], ids=named)
    def test_lattice_quantiles_hold(self, design):
        # 8,000 cells with secure noise of a small scale: P(|error| > E) ≤ β. The number of exceedances is at most
        # Binomial(8000, β): above 8000β + 5·√(8000β) with probability < 1e-6.
        mechanism, cells = mechanism_of(design), 8000
        stream = start(design, SecureNoise(), cells=cells, scale=1.5)
        time = design.worst_time()
        while stream.released_at < time:
            stream.add(np.zeros((1, cells), dtype=np.int64))
        law = error_at(design, time, mechanism=mechanism, scale=1.5, unit=1.0)
        for beta in (0.2, 0.02):
            exceeded = int((abs(stream.released) > law.quantile(beta)).sum())
            assert exceeded <= cells * beta + 5 * math.sqrt(cells * beta)


@pytest.fixture(scope="module")
def table():
    spec = importlib.util.spec_from_file_location("counter_table", ROOT / "scripts" / "counter_table.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class TestTable:
    def test_agrees_with_the_page_within_half_a_percent(self, table):
        found = table.comparisons()
        assert len(found) == 12
        for episodes, name, ours, page in found:
            if (episodes, name) == (2**14, "k-ary subtraction tree"):
                assert ours == pytest.approx(4 * math.sqrt(2 * 25))  # docs/decisions/004-k-ary-tree.md
                assert ours < page
            else:
                assert ours == pytest.approx(page, rel=0.005), (episodes, name)

    def test_cost_of_a_cell_agrees_with_the_page(self, table):
        compared = 0
        for cost in table.costs():
            if not math.isnan(cost.page):
                assert cost.reference == pytest.approx(cost.page, rel=0.005), cost.setting
                compared += 1
            # What is used is never less than the reference: zCDP takes 1.084 times the continuous Gaussian's noise.
            ratio = 1.084 if "Gaussian" in cost.setting else 1.0
            assert cost.used == pytest.approx(ratio * cost.reference, rel=0.0005)
            assert cost.used >= cost.reference
        assert compared == 6

    def test_the_written_table_is_the_one_that_is_computed(self, table):
        assert table.TARGET.read_text(encoding="utf-8") == table.text()

    def test_doubling_is_nine_releases(self, table):
        rows = {row.counter: row for row in table.per_unit(20_000)}
        assert rows["doubling batches"].releases == 9
        assert rows["binary tree"].releases == rows["BLT-4"].releases == 19_999
