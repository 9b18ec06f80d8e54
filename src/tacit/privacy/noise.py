"""Where noise comes from: OpenDP's exact discrete samplers for people's data, a seeded generator for simulations.

Both speak the same protocol, in **lattice units**: whatever is released is a whole number of some public unit (a
visit is 1, a reward is a multiple of its grid), and a scale is given in that unit. `SecureNoise` returns whole
numbers, so what is added to a whole number leaves nothing in the low bits. `SimulationNoise` returns real numbers
of the same scale: faster, reproducible, and no privacy at all, which every statement it touches says.
"""

from __future__ import annotations

import math
import os
from functools import lru_cache
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

__all__ = ["NoNoise", "NoiseSource", "SecureNoise", "SimulationNoise"]

Array = NDArray[Any]

LARGEST_SCALE = 2.0**52
"""Of secure noise: 2⁶³ is then 2048 scales away, and what is noisy does not reach the end of the whole numbers."""


@runtime_checkable
class NoiseSource(Protocol):
    """What draws noise. Every call draws afresh, into an array of the caller's; nothing is ever drawn twice."""

    @property
    def name(self) -> str:
        """How a statement calls it."""
        ...

    @property
    def protects(self) -> bool:
        """Whether a guarantee may be claimed for what it adds."""
        ...

    @property
    def dtype(self) -> np.dtype[Any]:
        """Of what it returns: int64 on a lattice, float64 in simulation."""
        ...

    def laplace(self, *, scale: float, runs: int, size: int, terms: int = 1) -> Array:
        """Laplace variables, density ∝ exp(−|x|/scale), of shape (runs, size); each the sum of `terms` independent
        ones, which is what so many devices add together.
        """
        ...

    def gaussian(self, *, scale: float, runs: int, size: int, terms: int = 1) -> Array:
        """Gaussian variables, density ∝ exp(−x²/(2 scale²)); otherwise as `laplace`."""
        ...

    def words(self, *, runs: int, size: int) -> NDArray[np.uint64]:
        """Independent uniform 64-bit words, shape (runs, size): what randomized responses flip their coins with."""
        ...

    def state(self) -> dict[str, Any]:
        """What a restart needs, as JSON."""
        ...


class SecureNoise:
    """Discrete Laplace and discrete Gaussian noise by OpenDP: exact samplers, operating-system entropy, no seed."""

    name = "OpenDP discrete samplers, operating-system entropy"
    protects = True
    dtype = np.dtype(np.int64)

    def laplace(self, *, scale: float, runs: int, size: int, terms: int = 1) -> Array:
        """See `NoiseSource`. ε = Δ₁/scale for whole-numbered queries, exactly."""
        return self._draw("laplace", scale, runs, size, terms)

    def gaussian(self, *, scale: float, runs: int, size: int, terms: int = 1) -> Array:
        """See `NoiseSource`. ρ = Δ₂²/(2 scale²) for whole-numbered queries (Canonne, Kamath & Steinke 2020)."""
        return self._draw("gaussian", scale, runs, size, terms)

    def words(self, *, runs: int, size: int) -> NDArray[np.uint64]:
        """See `NoiseSource`; from the operating system."""
        return np.frombuffer(bytearray(os.urandom(8 * runs * size)), dtype=np.uint64).reshape(runs, size)

    def state(self) -> dict[str, Any]:
        """Nothing: what was drawn cannot be drawn again."""
        return {"source": "secure"}

    def _draw(self, law: str, scale: float, runs: int, size: int, terms: int) -> Array:
        if not 0 <= scale <= LARGEST_SCALE:
            raise ValueError(f"a noise scale lies between 0 and 2^52 lattice units; got {scale}")
        total = np.zeros(runs * size, dtype=self.dtype)
        if scale > 0 and total.size > 0:
            for _ in range(terms):
                total = np.asarray(_measurement(law, float(scale))(total), dtype=self.dtype)
        return total.reshape(runs, size)

    def __repr__(self) -> str:
        return "SecureNoise()"


@lru_cache(maxsize=64)
def _measurement(law: str, scale: float) -> Any:
    """OpenDP's measurement on vectors of whole numbers; it also knows its privacy map."""
    import opendp.prelude as dp

    dp.enable_features("contrib")
    domain = dp.vector_domain(dp.atom_domain(T="i64"))
    if law == "laplace":
        return dp.m.make_laplace(domain, dp.l1_distance(T="i64"), scale=scale)
    return dp.m.make_gaussian(domain, dp.l2_distance(T="f64"), scale=scale)


_NOISE_STREAM = 0x6E6F6973  # so that no world or policy that is given the same seed has the same stream


class SimulationNoise:
    """Seeded noise for simulations: fast, reproducible, **no privacy**.

    Each run has a generator of its own, so run i is the same whatever the number of runs beside it. Runs are counted
    from `first`, so that several processes can share them out.

    Parameters
    ----------
    seed
        A number or a `SeedSequence`; there is no default, since a forgotten seed would look like privacy.
    first
        The number of the first run.

    Examples
    --------
    >>> SimulationNoise(7).laplace(scale=2.0, runs=1, size=3).shape
    (1, 3)
    """

    name = "simulated: no privacy"
    protects = False
    dtype = np.dtype(np.float64)

    def __init__(self, seed: int | np.random.SeedSequence, *, first: int = 0) -> None:
        self._seed = seed if isinstance(seed, np.random.SeedSequence) else np.random.SeedSequence(seed)
        self._first = first
        self._generators: list[np.random.Generator] = []
        self._keys = np.zeros(0, dtype=np.uint64)
        self._words = 0  # of each run's key, used so far

    def laplace(self, *, scale: float, runs: int, size: int, terms: int = 1) -> Array:
        """See `NoiseSource`: by a ziggurat of our own, in a fifth of the time of `Generator.laplace`; sums as the
        difference of two Gamma variables.
        """
        generators, noise = self._of(runs), np.empty((runs, size))
        if terms > 1:
            for run, generator in enumerate(generators):
                noise[run] = generator.standard_gamma(terms, size) - generator.standard_gamma(terms, size)
            noise *= scale
            return noise
        from tacit.privacy._ziggurat import draw_laplace

        draw_laplace(self._keys[:runs], self._words, scale, noise)
        self._words += size
        return noise

    def gaussian(self, *, scale: float, runs: int, size: int, terms: int = 1) -> Array:
        """See `NoiseSource`."""
        noise = np.empty((runs, size))
        for run, generator in enumerate(self._of(runs)):
            generator.standard_normal(out=noise[run])
        noise *= scale * math.sqrt(terms)
        return noise

    def words(self, *, runs: int, size: int) -> NDArray[np.uint64]:
        """See `NoiseSource`."""
        from tacit.privacy._ziggurat import draw_words

        self._of(runs)
        words = np.empty((runs, size), dtype=np.uint64)
        draw_words(self._keys[:runs], self._words, words)
        self._words += size
        return words

    def state(self) -> dict[str, Any]:
        """The generators' states: a simulation restarted from them goes on as if it had not stopped."""
        return {
            "source": "simulation",
            "entropy": self._seed.entropy,
            "spawn_key": list(self._seed.spawn_key),
            "first": self._first,
            "generators": [generator.bit_generator.state for generator in self._generators],
            "words": self._words,
        }

    @classmethod
    def from_state(cls, state: dict[str, Any]) -> SimulationNoise:
        """The source as it was when `state` was taken."""
        noise = cls(np.random.SeedSequence(state["entropy"], spawn_key=tuple(state["spawn_key"])), first=state["first"])
        for generator, saved in zip(noise._of(len(state["generators"])), state["generators"], strict=True):
            generator.bit_generator.state = saved
        noise._words = state["words"]
        return noise

    def _of(self, runs: int) -> list[np.random.Generator]:
        while len(self._generators) < runs:
            key = (*self._seed.spawn_key, _NOISE_STREAM, self._first + len(self._generators))
            child = np.random.SeedSequence(self._seed.entropy, spawn_key=key)
            self._generators.append(np.random.Generator(np.random.PCG64DXSM(child)))
            (own,) = child.spawn(1)
            self._keys = np.append(self._keys, own.generate_state(1, np.uint64))
        return self._generators[:runs]

    def __repr__(self) -> str:
        return f"SimulationNoise({self._seed.entropy!r})"


class NoNoise:
    """No noise: what `NonPrivate` and ε = ∞ get."""

    name = "none"
    protects = False
    dtype = np.dtype(np.float64)

    def laplace(self, *, scale: float, runs: int, size: int, terms: int = 1) -> Array:
        """Zeros."""
        return np.zeros((runs, size))

    def gaussian(self, *, scale: float, runs: int, size: int, terms: int = 1) -> Array:
        """Zeros."""
        return np.zeros((runs, size))

    def words(self, *, runs: int, size: int) -> NDArray[np.uint64]:
        """Zeros: every coin says the truth."""
        return np.zeros((runs, size), dtype=np.uint64)

    def state(self) -> dict[str, Any]:
        """Nothing."""
        return {"source": "none"}

    def __repr__(self) -> str:
        return "NoNoise()"


def restored(state: dict[str, Any]) -> NoiseSource:
    """The noise source that a saved state names."""
    match state["source"]:
        case "secure":
            return SecureNoise()
        case "simulation":
            return SimulationNoise.from_state(state)
        case "none":
            return NoNoise()
    raise ValueError(f"no noise source is called {state['source']!r}")


def lattice_scale(scale: float, unit: float) -> float:
    """A scale in units of a lattice. The unit is a power of two, so that this division is exact."""
    if math.frexp(unit)[0] != 0.5:
        raise ValueError(f"a lattice's unit must be a power of two; got {unit}")
    return scale / unit
