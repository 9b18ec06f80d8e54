"""The rows of issue 4: training on logged trajectories."""

import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks import references
from benchmarks.measure import FASTER, TIMES, Row, best_times
from tacit.learners.apvi import reconcile
from tacit.mdp import EpisodeSpec, Trajectories
from tacit.offline import APVI, VAPVI, Dataset
from tacit.offline.samples import as_table
from tacit.privacy import Central, SimulationNoise


@dataclass(frozen=True)
class Sizes:
    """How much of everything; `solved` of the cells are given to the solver, and its time is per cell."""

    states: int = 100
    actions: int = 10
    horizon: int = 20
    solved: int = 20
    episodes: int = 500_000
    regressed: int = 200_000
    dimension: int = 10
    repeats: int = 5


FULL = Sizes()
TINY = Sizes(states=5, actions=2, horizon=3, solved=3, episodes=50, regressed=60, dimension=3, repeats=1)


def equation_3(sizes: Sizes) -> list[Row]:
    """Equation (3) of 001 for all (h, s, a), in closed form, against one `linprog` call per cell."""
    rng = np.random.default_rng(0)
    cells = (sizes.horizon, sizes.states, sizes.actions)
    exact = rng.poisson(rng.choice([0.0, 5.0, 200.0], (*cells, sizes.states)))
    noise, precision = 20.0, 200.0
    transitions = exact + noise * rng.normal(size=exact.shape)
    visits = exact.sum(axis=-1) + noise * rng.normal(size=cells)
    rows, totals = transitions.reshape(-1, sizes.states), visits.reshape(-1)
    some = rng.choice(len(rows), sizes.solved, replace=False)
    mine, solver = best_times(
        lambda: reconcile(transitions, visits, precision),
        lambda: [references.reconcile(rows[cell], totals[cell], precision) for cell in some],
        repeats=sizes.repeats,
    )
    what = f"eq. (3) for all (h,s,a), S = {sizes.states}, A = {sizes.actions}, H = {sizes.horizon}"
    return [Row(what, "one linprog call per cell", (solver / len(some)) / (mine / len(rows)), FASTER, "1,000")]


def training(sizes: Sizes) -> list[Row]:
    """From a Parquet file to a policy, against a bare Polars group-by of the same columns; by the clock."""
    import polars

    spec = EpisodeSpec(states=sizes.states, actions=sizes.actions, horizon=sizes.horizon)
    rng = np.random.default_rng(0)
    people = Trajectories(
        rng.integers(sizes.states, size=(1, sizes.episodes, sizes.horizon + 1), dtype=np.int32),
        rng.integers(sizes.actions, size=(1, sizes.episodes, sizes.horizon), dtype=np.int32),
        rng.random((1, sizes.episodes, sizes.horizon)),
    )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "people.parquet"
        as_table(people).write_parquet(path)
        trainer = APVI(spec, privacy=Central(epsilon=1))

        def ours():
            begin = time.perf_counter()
            trainer.fit(Dataset.open(path, spec), noise=SimulationNoise(0))
            return time.perf_counter() - begin

        def bare():
            begin = time.perf_counter()
            cells = polars.scan_parquet(path).group_by("state", "action", "next_state")
            cells.agg(polars.len(), polars.col("reward").sum()).collect(engine="streaming")
            return time.perf_counter() - begin

        mine, theirs = best_times(ours, bare, repeats=sizes.repeats)
    steps = sizes.episodes * sizes.horizon
    what = f"DP-APVI from Parquet, {steps:,} transitions, S = {sizes.states}, A = {sizes.actions}, pooled"
    return [Row(what, "Polars group_by, by the clock", mine / theirs, TIMES, "1.5")]


def regressions(sizes: Sizes) -> list[Row]:
    """DP-VAPVI, planning included, against the matrix products of its five statistics for every step."""
    d, n, H = sizes.dimension, sizes.regressed, sizes.horizon
    spec = EpisodeSpec(states=2, actions=50, horizon=H)
    rng = np.random.default_rng(0)
    features = rng.normal(size=(2, 50, d))
    features /= np.linalg.norm(features, axis=-1, keepdims=True)
    people = Trajectories(
        rng.integers(2, size=(1, n, H + 1), dtype=np.int32),
        rng.integers(50, size=(1, n, H), dtype=np.int32),
        rng.random((1, n, H)),
    )
    phi, y = rng.normal(size=(n, d)), rng.normal(size=n)

    def products():
        for _ in range(H):
            for _ in range(2):  # the plain and the weighted Gram matrix
                phi.T @ phi
            for _ in range(3):
                phi.T @ y

    mine, theirs = best_times(
        lambda: VAPVI(spec, features=features, privacy=Central(rho=1)).fit(people, noise=SimulationNoise(0)),
        products,
        repeats=sizes.repeats,
    )
    what = f"DP-VAPVI, K = {n:,}, d = {d}, H = {H}, data in and policy out"
    return [Row(what, "the matrix products that it needs", mine / theirs, TIMES, "2")]


ALL = (equation_3, training, regressions)
