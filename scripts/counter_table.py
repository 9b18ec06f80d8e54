"""How much noise each counter carries: prints the tables, and writes docs/tables/counters.md (`make tables`)."""

import math
from functools import cache
from pathlib import Path
from typing import NamedTuple

from tacit.privacy.accounting import mu_of_approximate
from tacit.privacy.calibration import calibrate
from tacit.privacy.counters import CounterDesign, balanced_tree, binary_tree, blt, doubling, sqrt_toeplitz
from tacit.privacy.guarantees import Joint
from tacit.privacy.sensitivity import Sensitivity

TARGET = Path(__file__).parent.parent / "docs" / "tables" / "counters.md"
EPSILON, DELTA, HORIZON = 1.0, 1e-5, 20


class Row(NamedTuple):
    """A line of the first table; `laplace` and `gaussian` are per unit of Δ₁/ε and of Δ₂·σ (σ = 1/μ or 1/√(2ρ))."""

    counter: str
    laplace: float | None
    gaussian: float | None
    memory: int
    releases: int


class Cost(NamedTuple):
    """A line of the second table: largest standard deviation per cell; `page` is what `reference` should be."""

    setting: str
    reference: float
    used: float
    page: float


@cache
def designs(episodes: int) -> dict[str, CounterDesign]:
    """The counters, for the releases before episodes 2, …, K."""
    length = episodes - 1
    return {
        "binary tree": binary_tree(length),
        "k-ary subtraction tree": balanced_tree(length),
        "square-root Toeplitz": sqrt_toeplitz(length),
        **{f"BLT-{buffers}": blt(length, buffers=buffers) for buffers in (1, 2, 3, 4, 5)},
        "doubling batches": doubling(length),
    }


# ALGORITHMS.md §2: of Laplace noise for the k-ary tree and (second number) the binary tree, else Gaussian.
PAGE = {
    (2**14, "binary tree"): (74.1, 14.0),
    (2**14, "k-ary subtraction tree"): (28.8, None),
    (2**14, "square-root Toeplitz"): (None, 4.155),
    (2**14, "BLT-1"): (None, 6.06),
    (2**14, "BLT-2"): (None, 4.43),
    (2**14, "BLT-3"): (None, 4.203),
    (2**14, "BLT-4"): (None, 4.163),
    (20_000, "binary tree"): (79.4, 14.49),
    (20_000, "k-ary subtraction tree"): (29.4, None),
    (20_000, "square-root Toeplitz"): (None, 4.22),
}


def releases_of(design: CounterDesign) -> int:
    """How many there are."""
    count = time = 0
    while (upcoming := design.next_release(time)) is not None:
        count, time = count + 1, upcoming
    return count


@cache
def per_unit(episodes: int) -> list[Row]:
    """The first table for one K."""
    rows = []
    for design in designs(episodes).values():
        variance = design.variance(design.worst_time())
        laplace = design.participation("l1") * math.sqrt(2.0 * variance)
        gaussian = math.sqrt(design.participation("l2") * variance)
        rows.append(
            Row(
                design.name,
                laplace if math.isfinite(laplace) else None,
                gaussian if math.isfinite(gaussian) else None,
                design.memory(),
                releases_of(design),
            )
        )
    return rows


def comparisons() -> list[tuple[int, str, float, float]]:
    """(K, counter, ours, ALGORITHMS.md) for every number of that page about one unit."""
    found = []
    for (episodes, name), pages in PAGE.items():
        row = per_unit(episodes)[list(designs(episodes)).index(name)]
        for ours, page in zip((row.laplace, row.gaussian), pages, strict=True):
            if page is not None:
                assert ours is not None
                found.append((episodes, name, ours, page))
    return found


def costs() -> list[Cost]:
    """The second table: K = 20,000, H = 20, (1, 0) or (1, 1e-5), every cell of a per-step table."""
    length, H = 19_999, HORIZON
    mu = mu_of_approximate(EPSILON, DELTA)
    three = Sensitivity(l0=6 * H, l1=6.0 * H, l2_squared=6.0 * H)
    centred = Sensitivity(l0=4 * H, l1=3.0 * H, l2_squared=3.0 * H)
    found = []
    for counter, statistic, sensitivity, mechanism, page in (
        (binary_tree(length), "three families", three, "laplace", 9525),
        (binary_tree(length), "centred", centred, "laplace", 4762),
        (balanced_tree(length), "centred", centred, "laplace", None),
        (doubling(length), "centred", centred, "laplace", 255),
        (binary_tree(length), "centred", centred, "gaussian", 419),
        (sqrt_toeplitz(length), "centred", centred, "gaussian", 122),
        (blt(length), "centred", centred, "gaussian", None),
        (doubling(length), "centred", centred, "gaussian", 87),
    ):
        guarantee = Joint(epsilon=EPSILON, delta=0.0 if mechanism == "laplace" else DELTA)
        used = calibrate(guarantee, sensitivity, counter=counter, mechanism=mechanism).scale
        variance = counter.variance(counter.worst_time())
        if mechanism == "laplace":
            scale = counter.participation("l1") * sensitivity.l1 / EPSILON
            variance *= 2.0
        else:
            scale = math.sqrt(counter.participation("l2") * sensitivity.l2_squared) / mu
        root = math.sqrt(variance)
        name = f"{counter.name}, {mechanism.title()}, {statistic}"
        found.append(Cost(name, scale * root, used * root, page if page is not None else math.nan))
    return found


def text() -> str:
    """Both tables."""
    lines = [
        "# Noise of the continual counters",
        "",
        "Made by `make tables` (`scripts/counter_table.py`); `tests/privacy/test_counter_streams.py` checks it.",
        "",
        "Largest standard deviation of a released prefix, with the releases before episodes 2, …, K. Laplace: in units",
        "of Δ₁/ε. Gaussian: in units of Δ₂·σ, with σ = 1/√(2ρ) (what is used) or 1/μ (the continuous reference).",
        "State: numbers in memory for each cell and run. Trees with radices above 2 are for Laplace noise, filters for",
        "Gaussian noise.",
    ]
    for episodes in (2**14, 20_000):
        lines += [
            "",
            f"## K = {episodes:,}",
            "",
            "| counter | Laplace | ALGORITHMS.md | Gaussian | ALGORITHMS.md | state per cell | releases |",
            "|---|--:|--:|--:|--:|--:|--:|",
        ]
        for key, row in zip(designs(episodes), per_unit(episodes), strict=True):
            pages = PAGE.get((episodes, key), (None, None))
            cells = [row.counter, _number(row.laplace), _page(pages[0]), _number(row.gaussian), _page(pages[1])]
            lines.append("| " + " | ".join([*cells, f"{row.memory:,}", f"{row.releases:,}"]) + " |")
    lines += [
        "",
        "The k-ary tree at 2^14 is better than the page's 28.8: `docs/decisions/004-k-ary-tree.md`.",
        "",
        f"## Per cell: K = 20,000, H = {HORIZON}, ε = {EPSILON:g} (Gaussian: δ = {DELTA:g})",
        "",
        'Replace-one. "Three families": visits, transitions, rewards in [0, 1], Δ₁ = 6H. "Centred": transitions and',
        'rewards less ½, Δ₁ = 3H, Δ₂² = 3H. "Reference" takes the continuous Gaussian\'s μ; "used" is what `calibrate`',
        "gives: for Gaussian noise by ρ-zCDP, which the discrete sampler is proven for.",
        "",
        "| counter, noise, statistic | reference | ALGORITHMS.md | used |",
        "|---|--:|--:|--:|",
    ]
    for cost in costs():
        page = "" if math.isnan(cost.page) else f"{cost.page:g}"
        lines.append(f"| {cost.setting} | {cost.reference:.1f} | {page} | {cost.used:.1f} |")
    return "\n".join(lines) + "\n"


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"


def _page(value: float | None) -> str:
    return "" if value is None else f"{value:g}"


if __name__ == "__main__":
    TARGET.parent.mkdir(parents=True, exist_ok=True)
    TARGET.write_text(text(), encoding="utf-8")
    print(text())
    print(f"written to {TARGET}")
