"""Counters whose every release has one fresh noise: binary tree, k-ary subtraction tree, batches.

Write the release at time t as X_t + N_t: the exact prefix and its noise. In all of these counters

    N_t = N_parent(t) + z_t,      N_0 = 0,

with one fresh z_t per release, and the counters differ in nothing but `parent`:

* batches: the parent is the release before;
* a tree with radices k_0, k_1, …: write t in *balanced* mixed radix, digits from −⌊(k−1)/2⌋ to ⌊k/2⌋, and move the
  lowest digit that is not zero one towards zero. A negative digit makes a parent in the future: the noise of a node
  that isn't full yet is taken, and those of its right children are subtracted (Andersson et al. 2024, "Count on your
  elders"). With all radices 2 there are no negative digits: the binary tree of Chan, Shi & Song 2011 and Dwork
  et al. 2010.

So z_t is the noise of the node "all items between t and its parent", a user is in as many nodes as there are
levels (`participation`), and a release sums as many noises as its digits add up to (`terms`).

Streaming: an *accumulator* for time t is X_now + N_t, and starts with its noise. When a release t is made, those of
the times whose parent is t start from it (it is public); those with a parent in the future are split off from that
parent's accumulator when they are due. Memory thus holds noisy sums only.

Adaptivity: let item j of two streams differ by d, which may depend on all releases before j, as may every item. If
the noises that made the releases y in the one stream are changed by d·(1[parent(t) ≥ j] − 1[t ≥ j]), they make the
same y in the other. At most one z_t per level changes, none of this moves a release before j, and the map is one to
one and keeps volume (or the lattice): so the Laplace mechanism's bound holds noise by noise. For Gaussian noise the
argument needs those z_t to be fresh when d is chosen, which they are if no parent lies in the future. With parents in
the future some have been seen in part: continuous Gaussian noise would not mind, but the discrete one, given a sum of
two noises, is centred off its lattice, and its divergence can exceed ρ (`tests/privacy/test_trees.py` plays that
game). Trees with radices above 2 are therefore for Laplace noise only.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tacit.privacy.counters.protocol import Array, Extent, Mechanism, StreamError
from tacit.privacy.counters.tree_stream import TreeStream
from tacit.privacy.errors import gaussian_moves
from tacit.privacy.noise import NoiseSource

__all__ = ["Batches", "Tree", "balanced_tree", "binary_tree", "doubling", "running_sum", "single"]


@dataclass(frozen=True)
class Tree:
    """A release after every item, noise by a tree. `radices` are those of the lower levels; the top has no limit."""

    length: int
    radices: tuple[int, ...]
    name: str = "tree"

    def __post_init__(self) -> None:
        if self.length < 1:
            raise ValueError(f"a counter needs at least one item; got length {self.length}")
        if any(radix < 2 for radix in self.radices):
            raise ValueError(f"radices must be at least 2; got {self.radices}")
        lowest = sum((radix - 1) // 2 * size for radix, size in zip(self.radices, self.node_sizes, strict=False))
        if self.length < self.node_sizes[-1] - lowest:
            raise ValueError(
                f"radices {self.radices} make nodes that {self.length} items never need; leave the last out"
            )

    @cached_property
    def node_sizes(self) -> tuple[int, ...]:
        """Items in a node of each level."""
        sizes = [1]
        for radix in self.radices:
            sizes.append(sizes[-1] * radix)
        return tuple(sizes)

    def digits(self, time: int) -> tuple[int, ...]:
        """Balanced mixed-radix digits, lowest first."""
        return _digits(time, self.radices)

    @cached_property
    def _radix_of(self) -> dict[int, int]:
        """Nodes of this size make one of the next level; the top has none."""
        return {**dict(zip(self.node_sizes, self.radices, strict=False)), self.node_sizes[-1]: self.length + 1}

    def parent(self, time: int) -> int:
        """The release whose noise this one's continues."""
        rest = time
        for radix, size in zip(self.radices, self.node_sizes, strict=False):
            rest, digit = divmod(rest, radix)
            if digit:
                return time - size if digit <= radix // 2 else time + size
        if not rest:
            raise StreamError("the empty prefix has no parent")
        return time - self.node_sizes[-1]

    def next_release(self, time: int) -> int | None:
        """See `CounterDesign`."""
        return time + 1 if time < self.length else None

    def children_after(self, time: int) -> Sequence[int]:
        """The later releases whose noise continues that of `time`."""
        # A node more is a digit 1 at the levels where `time` has none; one level above, it raises the lowest digit.
        children, below = [], True
        for size in self.node_sizes:
            if not below or time + size > self.last_needed:
                break
            below = time % (size * self._radix_of[size]) == 0
            if below or self.parent(time + size) == time:
                children.append(time + size)
        return children

    @cached_property
    def last_needed(self) -> int:
        """The last time that is released or lends its noise to one that is."""
        last = time = self.length
        while time:
            time = self.parent(time)
            last = max(last, time)
        return last

    def participation(self, norm: Literal["l1", "l2"]) -> float:
        """One node per level; no slack: the first item is in all of them. Infinite for "l2" with future parents."""
        return math.inf if norm == "l2" and self.looks_ahead else float(len(self.node_sizes))

    @cached_property
    def looks_ahead(self) -> bool:
        """Whether there may be parents in the future: digits are negative for radices above 2 only."""
        return any(radix > 2 for radix in self.radices)

    def terms(self, time: int) -> int:
        """The sum of the digits' absolute values."""
        return sum(map(abs, self.digits(time)))

    def variance(self, time: int) -> float:
        """See `CounterDesign`."""
        return float(self.terms(time))

    def slack(self, time: int, *, scale: float, unit: float) -> float:
        """Half a unit for each noise."""
        return self.terms(time) * unit / 2.0

    def moved(self, time: int, *, scale: float, unit: float) -> float:
        """Any of the noises."""
        return min(1.0, self.terms(time) * gaussian_moves(scale, unit))

    @cached_property
    def _worst(self) -> tuple[int, int]:
        return _largest_digit_sum(self.length, self.radices)

    def worst_time(self) -> int:
        """See `CounterDesign`."""
        return self._worst[1]

    def memory(self) -> int:
        """The release, and the accumulators that may be alive at once: of each level one that continues the past, or
        else a chain of those with parents in the future.
        """
        return sum(max(1, (radix - 1) // 2) for radix in self.radices) + 1 + 1

    def start(
        self, *, noise: NoiseSource, mechanism: Mechanism, scale: float, runs: int, cells: int, extent: Extent
    ) -> TreeStream:
        """See `CounterDesign`."""
        if mechanism == "gaussian" and self.looks_ahead and noise.dtype.kind == "i":
            raise StreamError(f"{self.name} is a Laplace counter: its nodes may outlast the items that they depend on")
        return TreeStream(self, noise=noise, mechanism=mechanism, scale=scale, runs=runs, cells=cells)

    def resume(
        self,
        arrays: dict[str, Array],
        *,
        noise: NoiseSource,
        mechanism: Mechanism,
        scale: float,
        extent: Extent,
    ) -> TreeStream:
        """See `CounterDesign`."""
        return TreeStream.restored(self, arrays, noise=noise, mechanism=mechanism, scale=scale)

    def to_json(self) -> dict[str, Any]:
        """See `CounterDesign`."""
        return {"counter": "tree", "name": self.name, "length": self.length, "radices": list(self.radices)}


@dataclass(frozen=True)
class Batches:
    """Releases at the ends of disjoint batches: every item is in one node, and release m sums m noises."""

    ends: tuple[int, ...]
    name: str = "batches"

    def __post_init__(self) -> None:
        if not self.ends or any(b <= a for a, b in zip((0, *self.ends), self.ends, strict=False)):
            raise ValueError(f"batch ends must increase from at least 1; got {self.ends}")

    @property
    def length(self) -> int:
        """See `CounterDesign`."""
        return self.ends[-1]

    @cached_property
    def _ends(self) -> NDArray[np.int64]:
        return np.asarray(self.ends, dtype=np.int64)

    def parent(self, time: int) -> int:
        """The release before."""
        position = self.terms(time) - 1
        if position < 0 or self.ends[position] != time:
            raise StreamError(f"there is no release at {time}")
        return self.ends[position - 1] if position else 0

    def next_release(self, time: int) -> int | None:
        """See `CounterDesign`."""
        position = self.terms(time)
        return self.ends[position] if position < len(self.ends) else None

    def children_after(self, time: int) -> list[int]:
        """The next release."""
        upcoming = self.next_release(time)
        return [] if upcoming is None else [upcoming]

    def participation(self, norm: Literal["l1", "l2"]) -> float:
        """1: batches are disjoint."""
        return 1.0

    def terms(self, time: int) -> int:
        """The number of batches that have ended."""
        return int(np.searchsorted(self._ends, time, side="right"))

    def variance(self, time: int) -> float:
        """See `CounterDesign`."""
        return float(self.terms(time))

    def slack(self, time: int, *, scale: float, unit: float) -> float:
        """Half a unit for each noise."""
        return self.terms(time) * unit / 2.0

    def moved(self, time: int, *, scale: float, unit: float) -> float:
        """Any of the noises."""
        return min(1.0, self.terms(time) * gaussian_moves(scale, unit))

    def worst_time(self) -> int:
        """The last release."""
        return self.ends[-1]

    def memory(self) -> int:
        """The running batch's accumulator."""
        return 1 + 1

    def start(
        self, *, noise: NoiseSource, mechanism: Mechanism, scale: float, runs: int, cells: int, extent: Extent
    ) -> TreeStream:
        """See `CounterDesign`."""
        return TreeStream(self, noise=noise, mechanism=mechanism, scale=scale, runs=runs, cells=cells)

    def resume(
        self,
        arrays: dict[str, Array],
        *,
        noise: NoiseSource,
        mechanism: Mechanism,
        scale: float,
        extent: Extent,
    ) -> TreeStream:
        """See `CounterDesign`."""
        return TreeStream.restored(self, arrays, noise=noise, mechanism=mechanism, scale=scale)

    def to_json(self) -> dict[str, Any]:
        """See `CounterDesign`."""
        return {"counter": "batches", "name": self.name, "ends": list(self.ends)}


def binary_tree(length: int) -> Tree:
    """The binary tree for `length` releases: bit_length(length) levels."""
    return Tree(length, (2,) * (length.bit_length() - 1), name="binary tree")


def running_sum(length: int) -> Tree:
    """A release after every item and one noise for each: a tree of one level. For exact counts, which have none."""
    return Tree(length, (), name="running sum")


def balanced_tree(length: int, *, radix: int | None = None, levels: int | None = None) -> Tree:
    """The subtraction tree with the least noise in its noisiest release under pure ε.

    All lower levels have the same radix; `radix` and `levels` are searched unless given.
    """
    best: tuple[float, Tree] | None = None
    for depth in [levels] if levels else range(1, length.bit_length() + 1):
        for k in [radix] if radix else range(2, 3 if depth == 1 else 2 * length + 2):
            try:
                tree = Tree(length, (k,) * (depth - 1), name=f"{k}-ary subtraction tree")
            except ValueError:
                break
            loss = depth * np.sqrt(tree.variance(tree.worst_time()))
            if best is None or loss < best[0]:
                best = (loss, tree)
    if best is None:
        raise ValueError(f"no subtraction tree of radix {radix} and {levels} levels fits {length} items")
    return best[1]


def doubling(length: int, *, first: int = 40, growth: float = 2.0) -> Batches:
    """Batches that end at first, first·growth, first·growth², … ≤ length."""
    if first < 1 or growth <= 1:
        raise ValueError(f"the first batch has at least one item, and batches grow; got first={first}, growth={growth}")
    ends, end = [], float(first)
    while round(end) <= length:
        ends.append(round(end))
        end = max(end * growth, ends[-1] + 1.0)
    return Batches(
        tuple(ends) or (length,),
        name="doubling batches" if growth == 2 else f"batches growing {growth:g}-fold",
    )


def single(length: int) -> Batches:
    """One release, after all items: what offline training needs."""
    return Batches((length,), name="one release")


@lru_cache(maxsize=64)  # one time is asked for by every family
def _digits(time: int, radices: tuple[int, ...]) -> tuple[int, ...]:
    digits, rest = [], time
    for radix in radices:
        digit = rest % radix
        if digit > radix // 2:
            digit -= radix
        digits.append(digit)
        rest = (rest - digit) // radix
    return (*digits, rest)


@lru_cache(maxsize=256)
def _largest_digit_sum(length: int, radices: tuple[int, ...]) -> tuple[int, int]:
    """Max over 1 ≤ t ≤ length of Σ|digits of t|, and a t that attains it; from the top digit down."""
    sizes = [1]
    for radix in radices:
        sizes.append(sizes[-1] * radix)
    lows = [-((radix - 1) // 2) for radix in radices]
    highs = [radix // 2 for radix in radices]
    reach_down, reach_up, free = (
        [0],
        [0],
        [(0, 0)],
    )  # what the levels below can add, and their best sum if unbounded
    for size, low, high in zip(sizes, lows, highs, strict=False):
        reach_down.append(reach_down[-1] + low * size)
        reach_up.append(reach_up[-1] + high * size)
        best = (high, high * size) if high >= -low else (-low, low * size)
        free.append((free[-1][0] + best[0], free[-1][1] + best[1]))

    def best_below(level: int, limit: int) -> tuple[int, int]:
        """Best (sum, time) with the digits of levels ≤ `level` and value ≤ limit."""
        if level < 0:
            return (0, 0)
        size = sizes[level]
        low = lows[level] if level < len(radices) else 0
        high = highs[level] if level < len(radices) else (limit - reach_down[level]) // size
        found = (-1, 0)
        # Only a few digits near the limit need a search below them; the others leave the levels below free.
        for digit in sorted({low, low + 1, 0, *range(max(low, high - 3), high + 1)} | _near(limit, size, low, high)):
            rest = limit - digit * size
            if digit < low or digit > high or rest < reach_down[level]:
                continue
            below = free[level] if rest >= free[level][1] else best_below(level - 1, rest)
            if below[0] >= 0:
                found = max(found, (abs(digit) + below[0], digit * size + below[1]))
        return found

    return best_below(len(radices), length)


def _near(limit: int, size: int, low: int, high: int) -> set[int]:
    return {digit for digit in range(limit // size - 2, limit // size + 3) if low <= digit <= high}
