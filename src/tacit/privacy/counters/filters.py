"""Counters that noise an encoded stream: square-root Toeplitz and buffered linear Toeplitz (BLT), Gaussian only.

The prefix-sum matrix A (all ones on and below the diagonal) is factored into A = B C with lower-triangular Toeplitz
B and C. What is noised is the *encoded* stream y = C x + z, z ~ N(0, σ²); the prefixes A C⁻¹ y = A x + B z are
post-processing of y. One user changes y by ‖c‖₂·Δ₂ in all (`participation`), c being C's first column, and the
prefix at t has noise σ·√(b_0² + … + b_{t−1}²) (`variance`).

* square-root Toeplitz (Fichtenberger, Henzinger & Upadhyay 2023): B = C, c_k = c_{k−1}(2k−1)/(2k). Optimal but for a
  constant, and needs the whole history: O(K) memory.
* BLT (McMahan, Pillutla, Steinke & Thakurta 2024): C's generating function is Π(1−θ̂_i x)/Π(1−θ_i x), and so encoder and
  decoder are recursions over d numbers each.

Two things that the usual form A x + B z with whole-numbered z gets wrong or leaves out:

* **Low bits.** With whole x and z the noise B z does not cover all low bits: (A x + B z) at times 1 and 2 with b_1 = ½
  gives x_1 modulo 2 away. Here y itself is rounded to a public grid and gets noise on that grid, so that y is
  an ordinary discrete Gaussian release (`docs/proofs/filters.md`). The rounding costs a factor 1 + `SLACK` in σ.
* **Memory.** The encoder's state is a filtered sum of exact contributions. It is as secret as the data.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tacit.privacy.counters.protocol import Array, Entries, Extent, Mechanism, StreamError, check_step
from tacit.privacy.noise import NoiseSource

__all__ = ["SLACK", "Filter", "FilterStream", "blt", "filter_coefficients", "sqrt_toeplitz"]

SLACK = 2.0**-12
"""What rounding y to a grid may add to ‖C(x − x')‖₂, relative to ‖c‖₂Δ₂."""


@dataclass(frozen=True)
class Filter:
    """C and B by their generating functions' poles: C has poles θ and zeros θ̂, C⁻¹ the other way round.

    Empty poles and zeros mean the square root of the prefix-sum matrix.
    """

    length: int
    poles: tuple[float, ...] = ()
    zeros: tuple[float, ...] = ()
    name: str = field(default="square-root Toeplitz")

    def __post_init__(self) -> None:
        if self.length < 1:
            raise ValueError(f"a counter needs at least one item; got length {self.length}")
        if len(self.poles) != len(self.zeros):
            raise ValueError("a buffered filter has as many zeros as poles")
        inside = all(0 <= value < 1 for value in (*self.poles, *self.zeros))
        if not inside or len({*self.poles, *self.zeros}) < 2 * len(self.poles):
            raise ValueError("poles and zeros must be distinct and in [0, 1)")

    @cached_property
    def encoder(self) -> NDArray[np.float64]:
        """The first column of C."""
        return filter_coefficients(self.poles, self.zeros, self.length) if self.poles else _binomial(self.length)

    @cached_property
    def decoder(self) -> NDArray[np.float64]:
        """The first column of B = A C⁻¹."""
        if not self.poles:
            return self.encoder
        return np.cumsum(filter_coefficients(self.zeros, self.poles, self.length))

    def next_release(self, time: int) -> int | None:
        """See `CounterDesign`."""
        return time + 1 if time < self.length else None

    def participation(self, norm: Literal["l1", "l2"]) -> float:
        """(1 + SLACK)²·‖c‖₂² for Gaussian noise; a filter has no useful pure guarantee."""
        if norm == "l1":
            return math.inf
        return (1.0 + SLACK) ** 2 * float(self.encoder @ self.encoder)

    def terms(self, time: int) -> int:
        """Every noise so far."""
        return time

    def variance(self, time: int) -> float:
        """See `CounterDesign`."""
        return float(self.decoder[:time] @ self.decoder[:time])

    def slack(self, time: int, *, scale: float, unit: float) -> float:
        """1¼ SLACK·std, whatever the unit: the grid is so fine that rounding and discreteness do not add up to more."""
        return 1.25 * SLACK * scale * math.sqrt(self.variance(time)) if unit else 0.0

    def moved(self, time: int, *, scale: float, unit: float) -> float:
        """Always: the grid is far finer than the noise."""
        return 1.0

    def worst_time(self) -> int:
        """The last: variances grow."""
        return self.length

    def memory(self) -> int:
        """Encoder's and decoder's buffers, and the release; without poles the whole history, at the end."""
        return 2 * (len(self.poles) or self.length) + 1

    def start(
        self, *, noise: NoiseSource, mechanism: Mechanism, scale: float, runs: int, cells: int, extent: Extent
    ) -> FilterStream:
        """See `CounterDesign`."""
        if mechanism != "gaussian":
            raise StreamError(f"{self.name} is a Gaussian counter")
        return FilterStream(self, noise=noise, scale=scale, shape=(runs, cells), extent=extent)

    def resume(
        self,
        arrays: dict[str, Array],
        *,
        noise: NoiseSource,
        mechanism: Mechanism,
        scale: float,
        extent: Extent,
    ) -> FilterStream:
        """See `CounterDesign`."""
        runs, cells = arrays["released"].shape
        stream = self.start(noise=noise, mechanism=mechanism, scale=scale, runs=runs, cells=cells, extent=extent)
        stream.restore(arrays)
        return stream

    def to_json(self) -> dict[str, Any]:
        """See `CounterDesign`."""
        return {
            "counter": "filter",
            "name": self.name,
            "length": self.length,
            "poles": list(self.poles),
            "zeros": list(self.zeros),
        }


def sqrt_toeplitz(length: int) -> Filter:
    """The square-root factorization for `length` releases."""
    return Filter(length)


def blt(length: int, *, buffers: int = 4) -> Filter:
    """A BLT from the shipped table (`scripts/optimise_blt.py`): the entry for the next power of √2 above `length`."""
    from tacit.privacy.counters.table import BLT

    if buffers not in BLT:
        raise ValueError(f"the table has BLTs with {sorted(BLT)} buffers; got {buffers}")
    for reach, poles, zeros in BLT[buffers]:
        if reach >= length:
            return Filter(length, poles, zeros, name=f"BLT-{buffers}")
    raise ValueError(
        f"the BLT table ends at {BLT[buffers][-1][0]} releases; got {length}. "
        "Run scripts/optimise_blt.py for a longer one, or use batches."
    )


def residues(poles: tuple[float, ...], zeros: tuple[float, ...]) -> NDArray[np.float64]:
    """V with Π(1−zero_i x)/Π(1−pole_i x) = 1 + Σ v_i x/(1−pole_i x)."""
    p, z = np.asarray(poles), np.asarray(zeros)
    differences = p[:, None] - p[None, :]
    np.fill_diagonal(differences, 1.0)
    return np.asarray(np.prod(p[:, None] - z[None, :], axis=1) / np.prod(differences, axis=1))


def filter_coefficients(poles: tuple[float, ...], zeros: tuple[float, ...], length: int) -> NDArray[np.float64]:
    """The first `length` coefficients of Π(1−zero_i x)/Π(1−pole_i x)."""
    powers = np.asarray(poles)[:, None] ** np.arange(max(length - 1, 0))
    return np.concatenate([[1.0], residues(poles, zeros) @ powers])


def _binomial(length: int) -> NDArray[np.float64]:
    """Coefficients of (1 − x)^(−1/2)."""
    k = np.arange(1, length)
    return np.concatenate([[1.0], np.cumprod((2 * k - 1) / (2 * k))])


class FilterStream:
    """The memory of a `Filter`."""

    def __init__(
        self, design: Filter, *, noise: NoiseSource, scale: float, shape: tuple[int, int], extent: Extent
    ) -> None:
        self.design = design
        self.time = 0
        self.released: Array = np.zeros(shape)
        self._noise, self._scale = noise, scale
        self._encode = _operator(design.poles, design.zeros, design.encoder, shape)
        self._decode = _operator(design.zeros, design.poles, design.decoder, shape)
        self._grid = 0.0
        if noise.dtype.kind == "i":
            self._grid = _grid(design, extent, scale)
            if self._encode.rounding(extent.largest) > self._grid:
                raise StreamError(
                    f"double precision cannot carry {design.name} over {design.length} items as exactly as its privacy "
                    "asks for; use batches or a tree"
                )
            if scale / self._grid > 2.0**52:
                raise StreamError(
                    f"noise of scale {scale:g} is too coarse for whole numbers on the grid {self._grid:g}"
                )

    @property
    def released_at(self) -> int:
        """See `CounterStream`."""
        return min(self.time, self.design.length)

    def add(self, contribution: Entries | Array, *, items: int = 1) -> bool:
        """See `CounterStream`."""
        check_step(self.design, self.time, items)
        if self.design.next_release(self.time) is None:
            self.time += items
            return False
        encoded = self._encode.push(_dense(contribution, self.released.shape))
        runs, cells = self.released.shape
        scale = self._scale / self._grid if self._grid else self._scale
        z = self._noise.gaussian(scale=scale, runs=runs, size=cells)
        y = self._grid * (np.rint(encoded / self._grid).astype(np.int64) + z) if self._grid else encoded + z
        decoded = self._decode.push(y)
        # A recursion decodes C⁻¹y, the history B y itself.
        self.released = self.released + decoded if self.design.poles else decoded
        self.time += 1
        return True

    def arrays(self) -> dict[str, Array]:
        """See `CounterStream`."""
        return {
            "time": np.asarray([self.time]),
            "released": self.released.copy(),
            "encoder": self._encode.saved(),
            "decoder": self._decode.saved(),
        }

    def restore(self, arrays: dict[str, Array]) -> None:
        """Go on from what `arrays` saved."""
        self.time = int(arrays["time"][0])
        self.released = np.array(arrays["released"])
        self._encode.load(arrays["encoder"])
        self._decode.load(arrays["decoder"])


class _Recursion:
    """One application of Π(1−zero x)/Π(1−pole x) to a stream, with a buffer for each pole."""

    def __init__(self, poles: tuple[float, ...], zeros: tuple[float, ...], shape: tuple[int, int]) -> None:
        self._poles = np.asarray(poles)[:, None, None]
        self._residues = residues(poles, zeros)
        self._buffers = np.zeros((len(poles), *shape))

    def push(self, item: Array) -> Array:
        """The next output."""
        output: Array = np.array(item, dtype=np.float64)
        for residue, buffer in zip(self._residues, self._buffers, strict=True):
            output += residue * buffer  # one by one: a product of matrices rounds otherwise with other runs beside
        self._buffers *= self._poles
        self._buffers += item
        return output

    def rounding(self, largest: float) -> float:
        """The error of an output in double precision, at most, if no item exceeds `largest`.

        A buffer is at most largest/(1−pole); each step rounds it twice, and the errors decay as it does.
        """
        reach = 1.0 / (1.0 - self._poles.reshape(-1))
        unit = np.finfo(np.float64).eps
        per_buffer = 2.0 * reach**2 + (len(reach) + 2.0) * reach
        additions = max(1.0, len(reach) / 2.0)  # of the item, one for each buffer
        return float(unit * largest * (additions + np.abs(self._residues) @ per_buffer))

    def saved(self) -> Array:
        """All there is to save."""
        return self._buffers.copy()

    def load(self, saved: Array) -> None:
        """Go on from what `saved` returned."""
        self._buffers = np.array(saved)


class _History:
    """One application of a lower-triangular Toeplitz matrix, with all earlier items kept."""

    def __init__(self, column: Array, shape: tuple[int, int]) -> None:
        self._column = column
        self._shape = shape
        self._items = np.zeros((min(64, len(column)), shape[0] * shape[1]))
        self._count = 0

    def push(self, item: Array) -> Array:
        """The next output."""
        if self._count == len(self._items):
            more = min(max(self._count, 64), len(self._column) - self._count)
            self._items = np.concatenate([self._items, np.zeros((more, self._items.shape[1]))])
        self._items[self._count] = item.reshape(-1)
        self._count += 1
        weights = self._column[: self._count][::-1]
        return np.asarray(weights @ self._items[: self._count]).reshape(self._shape)

    def rounding(self, largest: float) -> float:
        """See `_Recursion.rounding`; of a dot product."""
        return float(np.finfo(np.float64).eps * largest * len(self._column) * np.abs(self._column).sum())

    def saved(self) -> Array:
        """All there is to save."""
        return self._items[: self._count].copy()

    def load(self, saved: Array) -> None:
        """Go on from what `saved` returned."""
        self._count = len(saved)
        self._items = np.array(saved)


def _operator(
    poles: tuple[float, ...], zeros: tuple[float, ...], column: Array, shape: tuple[int, int]
) -> _Recursion | _History:
    return _Recursion(poles, zeros, shape) if poles else _History(column, shape)


def _dense(contribution: Entries | Array, shape: tuple[int, int]) -> Array:
    if not isinstance(contribution, Entries):
        return np.broadcast_to(np.asarray(contribution, dtype=np.float64), shape)
    from tacit.privacy._kernels import add_entries

    dense = np.zeros(shape)
    add_entries(dense, *contribution)
    return dense


def _grid(design: Filter, extent: Extent, scale: float) -> float:
    """The public grid (a power of two) that y is rounded to.

    One user changes at most `support` cells, in each of n steps, by at most 3 grids more than C(x − x') does: one for
    rounding to the grid, two for double precision. 3·grid·√(n·support) ≤ SLACK·‖c‖₂·Δ₂ (`docs/proofs/filters.md`).

    For accuracy, 2·grid·√n ≤ SLACK·σ: an encoded release is off by at most 1½ grids of rounding and 1 of discreteness,
    and Σ|b_k| ≤ √n·‖b‖₂ of them make at most 1¼ SLACK standard deviations of a prefix.
    """
    norm = math.sqrt(float(design.encoder @ design.encoder))
    bound = norm * extent.norm / (3.0 * math.sqrt(design.length * extent.support))
    if scale > 0:
        bound = min(bound, scale / (2.0 * math.sqrt(design.length)))
    return 2.0 ** math.floor(math.log2(SLACK * bound))
