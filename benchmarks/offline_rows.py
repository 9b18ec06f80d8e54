"""The rows of issue 4: training on logged trajectories."""

from dataclasses import dataclass

import numpy as np

from benchmarks import references
from benchmarks.measure import FASTER, Row, best_times
from tacit.learners.apvi import reconcile


@dataclass(frozen=True)
class Sizes:
    """How much of everything; `solved` of the cells are given to the solver, and its time is per cell."""

    states: int = 100
    actions: int = 10
    horizon: int = 20
    solved: int = 20
    repeats: int = 5


FULL = Sizes()
TINY = Sizes(states=5, actions=2, horizon=3, solved=3, repeats=1)


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


ALL = (equation_3,)
