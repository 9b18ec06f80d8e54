"""Counters by literal loops over their definitions, and scripted noise: what the streams are taken apart with."""

from typing import NamedTuple

import numpy as np

from tacit.privacy.counters import Extent

EXTENT = Extent(support=4.0, norm=2.0, largest=8.0)


class Node(NamedTuple):
    """The items after `start` up to `end`; its noise is added (sign 1) to the prefix that it makes longer, or
    taken from (sign −1) the one that it is cut off: `child` continues `parent`.
    """

    child: int
    parent: int
    start: int
    end: int


def literal_nodes(length, radices):
    """Every node of the tree that a release at 1, …, length needs, found block by block, without digits."""
    edges, size = {}, 1
    for radix in (*radices, None):
        period = None if radix is None else size * radix
        bases = [0] if period is None else range(0, 4 * length + 4 * period, period)
        for base in bases:
            right = 4 * length // size + 1 if radix is None else radix // 2
            left = 0 if radix is None else (radix - 1) // 2
            for step in range(1, right + 1):
                edges.setdefault(base + step * size, base + (step - 1) * size)
            for step in range(1, left + 1):
                if base - step * size > 0:
                    edges.setdefault(base - step * size, base - (step - 1) * size)
        size = size if period is None else period
    needed = set()
    for time in range(1, length + 1):
        while time and time not in needed:
            needed.add(time)
            time = edges[time]
    return {t: Node(t, edges[t], min(t, edges[t]), max(t, edges[t])) for t in sorted(needed)}


def literal_factors(length, nodes):
    """(B, C) over the nodes in order of `child`: releases sum noises up to the root, nodes sum items."""
    index = {child: column for column, child in enumerate(nodes)}
    B = np.zeros((length, len(nodes)), dtype=np.int64)
    for time in range(1, length + 1):
        at = time
        while at:
            B[time - 1, index[at]] += 1
            at = nodes[at].parent
    C = np.zeros((len(nodes), length), dtype=np.int64)
    for row, node in enumerate(nodes.values()):
        for item in range(1, length + 1):
            if node.start < item <= node.end:
                C[row, item - 1] = 1 if node.child > node.parent else -1
    return B, C


class Scripted:
    """Noise from `value(draw number, law, scale, runs, size)`; remembers all that it gave."""

    protects = False
    name = "scripted"

    def __init__(self, value, dtype=np.float64):
        self.value, self.dtype, self.drawn, self.calls = value, np.dtype(dtype), [], []

    def laplace(self, *, scale, runs, size, terms=1):
        return self._next("laplace", scale, runs, size, terms)

    def gaussian(self, *, scale, runs, size, terms=1):
        return self._next("gaussian", scale, runs, size, terms)

    def _next(self, law, scale, runs, size, terms):
        assert terms == 1
        noise = np.asarray(self.value(len(self.drawn), law, scale, runs, size), dtype=self.dtype)
        assert noise.shape == (runs, size)
        self.calls.append((law, scale, runs, size))
        self.drawn.append(noise.copy())
        return noise

    def words(self, *, runs, size):
        raise NotImplementedError

    def state(self):
        return {"source": "scripted"}


def silent(dtype=np.float64):
    return Scripted(lambda draw, law, scale, runs, size: np.zeros((runs, size)), dtype)


def impulses(dtype=np.float64):
    """Draw i is 1 in run i, and 0 elsewhere: run i's releases are column i of B."""

    def value(draw, law, scale, runs, size):
        assert draw < runs
        noise = np.zeros((runs, size))
        noise[draw] = 1.0
        return noise

    return Scripted(value, dtype)


def table(rows, dtype=np.float64):
    """Draw i is rows[i], (runs, cells)."""
    return Scripted(lambda draw, law, scale, runs, size: rows[draw].copy(), dtype)


def integers(seed, spread=1000):
    """Fresh whole numbers at every draw, of no particular law."""
    generator = np.random.default_rng(seed)
    return Scripted(
        lambda draw, law, scale, runs, size: generator.integers(-spread, spread + 1, (runs, size)), np.int64
    )


class Recorded:
    """Another source, with all that it drew."""

    def __init__(self, source):
        self.source, self.drawn = source, []
        self.name, self.protects, self.dtype = source.name, source.protects, source.dtype

    def laplace(self, **settings):
        self.drawn.append(self.source.laplace(**settings))
        return self.drawn[-1].copy().copy()

    def gaussian(self, **settings):
        self.drawn.append(self.source.gaussian(**settings))
        return self.drawn[-1].copy().copy()

    def words(self, **settings):
        return self.source.words(**settings)

    def state(self):
        return self.source.state()


def start(design, noise, *, mechanism=None, scale=1.0, runs=1, cells=1, extent=EXTENT):
    """A stream; Gaussian where Laplace is not offered."""
    mechanism = mechanism or ("laplace" if np.isfinite(design.participation("l1")) else "gaussian")
    return design.start(noise=noise, mechanism=mechanism, scale=scale, runs=runs, cells=cells, extent=extent)


def schedule(design):
    """The times of all releases."""
    times, time = [], 0
    while (time := design.next_release(time)) is not None:
        times.append(time)
    return times


def run(stream, items):
    """All releases (releases, runs, cells) of a stream that is given items (n, runs, cells) one at a time."""
    return np.asarray([stream.released.copy() for item in items if stream.add(item)])


def columns(matrix):
    """The columns that are not zero, as a sorted list: their order is nobody's business."""
    return sorted(tuple(column) for column in matrix.T.tolist() if any(column))
