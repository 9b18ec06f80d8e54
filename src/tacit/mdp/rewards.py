"""Reward laws: how a step's reward is distributed, with its exact mean.

A law turns uniforms into rewards, by inverting a distribution function or by an exact transformation, and
holds no generator: what an episode pays depends on its own uniforms alone, not on how episodes are batched.

Parameters are numbers or arrays that broadcast against `mean`, which is (H|1, S, A); (S, A) is read as (1, S,
A).
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit.mdp import _moments
from tacit.mdp.spec import SpecError

__all__ = [
    "Bernoulli",
    "Deterministic",
    "Gaussian",
    "Pareto",
    "RewardLaw",
    "StudentT",
    "SymmetricStable",
]

# Generators draw multiples of 2^-53 in [0, 1). Zero stands for [0, 2^-53), whose middle has a finite
# quantile.
_SMALLEST_UNIFORM = 2.0**-54


class RewardLaw(ABC):
    """What a step pays. Subclass it for laws of your own, such as one that depends on the next state."""

    @property
    @abstractmethod
    def mean(self) -> NDArray[np.float64]:
        """The exact mean reward, (H|1, S, A); averaged over the next state where the law depends on it."""

    @property
    @abstractmethod
    def uniforms(self) -> int:
        """How many U(0, 1) one reward consumes."""

    @property
    @abstractmethod
    def support(self) -> tuple[float, float]:
        """The smallest and largest reward of all steps, states and actions; infinite where there is none."""

    @abstractmethod
    def sample(
        self,
        uniforms: NDArray[np.float64],
        *,
        step: NDArray[np.integer],
        state: NDArray[np.integer],
        action: NDArray[np.integer],
        next_state: NDArray[np.integer],
    ) -> NDArray[np.float64]:
        """Turn uniforms in [0, 1), (…, self.uniforms), into rewards (…); the indices broadcast to (…)."""

    @abstractmethod
    def moment_bound(self, order: float) -> float:
        """Bound E|r|^order over all steps, states and actions; order in (1, 2], SpecError if infinite."""

    @abstractmethod
    def relabel(self, *, states: NDArray[np.integer], actions: NDArray[np.integer]) -> RewardLaw:
        """Rename: state s is called states[s] in the new law, and action a actions[a]."""


class _CellLaw(RewardLaw):
    """A law given by parameters per step, state and action, whatever the next state.

    They are stored read-only: the mean as (H|1, S, A), others too, or as (1, 1, 1) where they are the same
    everywhere, which needs no look-up.
    """

    def __init__(self, **parameters: ArrayLike) -> None:
        given = {name: np.asarray(value, dtype=np.float64) for name, value in parameters.items()}
        mean = given["mean"]
        if mean.ndim not in (2, 3) or 0 in mean.shape:
            raise SpecError(f"mean rewards are (H|1, S, A) or (S, A); got shape {mean.shape}")
        for name, value in given.items():
            if not np.isfinite(value).all():
                raise SpecError(f"the rewards' {name} must be finite")
        shapes = {name: value.shape for name, value in given.items()}
        try:
            shape = np.broadcast_shapes((1, 1, 1), *shapes.values())
        except ValueError:
            raise SpecError(f"the reward law's parameters do not fit together: {shapes}") from None
        if len(shape) != 3 or shape[1:] != mean.shape[-2:]:
            raise SpecError(f"the reward law's parameters must broadcast against the mean: {shapes}")
        self._parameters: dict[str, NDArray[np.float64]] = {}
        for name, value in given.items():
            constant = value.size == 1 and name != "mean"
            stored = np.array(value.reshape(1, 1, 1) if constant else np.broadcast_to(value, shape))
            stored.flags.writeable = False
            self._parameters[name] = stored
        self._check(**self._parameters)

    def _check(self, **parameters: NDArray[np.float64]) -> None:
        """Raise SpecError where the parameters make no law."""

    @property
    def parameters(self) -> Mapping[str, NDArray[np.float64]]:
        """The law's parameters by name, each (H|1, S, A) or, where it is the same everywhere, (1, 1, 1)."""
        return MappingProxyType(self._parameters)

    @property
    def mean(self) -> NDArray[np.float64]:
        """The exact mean reward, (H|1, S, A)."""
        return self._parameters["mean"]

    def sample(
        self,
        uniforms: NDArray[np.float64],
        *,
        step: NDArray[np.integer],
        state: NDArray[np.integer],
        action: NDArray[np.integer],
        next_state: NDArray[np.integer],
    ) -> NDArray[np.float64]:
        """Turn uniforms in [0, 1), (…, self.uniforms), into rewards (…); the indices broadcast to (…)."""
        steps, states, actions = self.mean.shape
        cells = np.multiply(state, actions, dtype=np.intp)
        cells += action
        if steps > 1:
            cells = cells + np.multiply(step, states * actions, dtype=np.intp)
        # A parameter of one number broadcasts; the others are looked up.
        values = {
            name: value.reshape(()) if value.size == 1 else value.ravel().take(cells)
            for name, value in self._parameters.items()
        }
        drawn = self._draw(uniforms, **values)
        if drawn.shape == cells.shape == uniforms.shape[:-1]:
            return drawn
        return np.broadcast_to(drawn, np.broadcast_shapes(cells.shape, uniforms.shape[:-1]))

    @abstractmethod
    def _draw(self, uniforms: NDArray[np.float64], **parameters: NDArray[np.float64]) -> NDArray[np.float64]:
        """Turn uniforms into rewards, given each one's parameters."""

    def moment_bound(self, order: float) -> float:
        """Bound E|r|^order over all steps, states and actions; order in (1, 2], SpecError if infinite."""
        if not 1.0 < order <= 2.0:
            raise SpecError(f"a moment bound's order is in (1, 2]; got {order}")
        # Many cells share their parameters: each combination counts once.
        columns = [np.broadcast_to(value, self.mean.shape).ravel() for value in self._parameters.values()]
        return max(
            self._moment(order, **dict(zip(self._parameters, map(float, row), strict=True)))
            for row in np.unique(np.stack(columns, axis=-1), axis=0)
        )

    @abstractmethod
    def _moment(self, order: float, **parameters: float) -> float:
        """Bound E|r|^order of one cell."""

    def relabel(self, *, states: NDArray[np.integer], actions: NDArray[np.integer]) -> Self:
        """Rename: state s is called states[s] in the new law, and action a actions[a]."""
        old_states, old_actions = np.argsort(states)[:, None], np.argsort(actions)
        renamed: dict[str, Any] = {
            name: value if value.shape == (1, 1, 1) else value[:, old_states, old_actions]
            for name, value in self._parameters.items()
        }
        return type(self)(**renamed)

    def __repr__(self) -> str:
        def shown(value: NDArray[np.float64]) -> str:
            return f"{value.item():g}" if value.size == 1 else f"<{' x '.join(map(str, value.shape))}>"

        inside = ", ".join(f"{name}={shown(value)}" for name, value in self._parameters.items())
        return f"{type(self).__name__}({inside})"


class Deterministic(_CellLaw):
    """The mean itself, every time."""

    def __init__(self, *, mean: ArrayLike) -> None:
        super().__init__(mean=mean)

    @property
    def uniforms(self) -> int:
        """None are needed."""
        return 0

    @property
    def support(self) -> tuple[float, float]:
        """The smallest and largest mean."""
        return float(self.mean.min()), float(self.mean.max())

    def _draw(self, uniforms: NDArray[np.float64], **parameters: NDArray[np.float64]) -> NDArray[np.float64]:
        return parameters["mean"]

    def _moment(self, order: float, **parameters: float) -> float:
        return float(abs(parameters["mean"]) ** order)


class Bernoulli(_CellLaw):
    """Either `low` or `high`, with the probabilities that give the mean."""

    def __init__(self, *, mean: ArrayLike, low: ArrayLike = 0.0, high: ArrayLike = 1.0) -> None:
        super().__init__(mean=mean, low=low, high=high)

    def _check(self, **parameters: NDArray[np.float64]) -> None:
        mean, low, high = parameters["mean"], parameters["low"], parameters["high"]
        if not (low < high).all():
            raise SpecError("a Bernoulli reward needs low < high")
        if not ((low <= mean) & (mean <= high)).all():
            raise SpecError("a Bernoulli reward's mean lies between low and high")

    @property
    def uniforms(self) -> int:
        """One per reward."""
        return 1

    @property
    def support(self) -> tuple[float, float]:
        """The smallest `low` and the largest `high`, even where their probability is 0."""
        return float(self._parameters["low"].min()), float(self._parameters["high"].max())

    def _draw(self, uniforms: NDArray[np.float64], **parameters: NDArray[np.float64]) -> NDArray[np.float64]:
        mean, low, high = parameters["mean"], parameters["low"], parameters["high"]
        return np.where(uniforms[..., 0] < (mean - low) / (high - low), high, low)

    def _moment(self, order: float, **parameters: float) -> float:
        low, high = parameters["low"], parameters["high"]
        share = (parameters["mean"] - low) / (high - low)
        return float(share * abs(high) ** order + (1 - share) * abs(low) ** order)


class _NoisyLaw(_CellLaw):
    """Mean plus noise on the whole line, scaled by the parameter named `_scale`, which may be 0."""

    _scale = "scale"

    def _check(self, **parameters: NDArray[np.float64]) -> None:
        if (parameters[self._scale] < 0).any():
            raise SpecError(f"the {self._scale} of a reward's noise must be at least 0")

    @property
    def support(self) -> tuple[float, float]:
        """The whole line, unless there is no noise at all."""
        if self._parameters[self._scale].any():
            return -math.inf, math.inf
        return float(self.mean.min()), float(self.mean.max())


class Gaussian(_NoisyLaw):
    """N(mean, sd²)."""

    _scale = "sd"

    def __init__(self, *, mean: ArrayLike, sd: ArrayLike) -> None:
        super().__init__(mean=mean, sd=sd)

    @property
    def uniforms(self) -> int:
        """One per reward."""
        return 1

    def _draw(self, uniforms: NDArray[np.float64], **parameters: NDArray[np.float64]) -> NDArray[np.float64]:
        from scipy.special import ndtri

        noise: NDArray[np.float64] = ndtri(np.maximum(uniforms[..., 0], _SMALLEST_UNIFORM))
        return parameters["mean"] + parameters["sd"] * noise

    def _moment(self, order: float, **parameters: float) -> float:
        return _moments.gaussian_moment(order, **parameters)


class SymmetricStable(_NoisyLaw):
    """Mean plus symmetric α-stable noise X, E exp(itX) = exp(-|scale·t|^alpha), with alpha in (1, 2].

    The noise of 003's experiment (there α = 2, β = 0, σ = 1). At alpha = 2 it is N(0, 2·scale²): no heavy
    tail. Below, moments of order alpha and above are infinite, so that a MomentBound needs order < alpha.
    """

    def __init__(self, *, mean: ArrayLike, alpha: ArrayLike, scale: ArrayLike = 1.0) -> None:
        super().__init__(mean=mean, alpha=alpha, scale=scale)

    def _check(self, **parameters: NDArray[np.float64]) -> None:
        super()._check(**parameters)
        alpha = parameters["alpha"]
        if not ((alpha > 1) & (alpha <= 2)).all():
            raise SpecError("a symmetric stable law that has a mean has alpha in (1, 2]")

    @property
    def uniforms(self) -> int:
        """Two per reward."""
        return 2

    def _draw(self, uniforms: NDArray[np.float64], **parameters: NDArray[np.float64]) -> NDArray[np.float64]:
        # Chambers, Mallows & Stuck (1976), for alpha > 1 without skew.
        alpha = parameters["alpha"]
        angle = math.pi * (uniforms[..., 0] - 0.5)
        exponential = -np.log1p(-uniforms[..., 1])
        noise = (
            np.sin(alpha * angle)
            * np.cos(angle) ** (-1 / alpha)
            * (exponential / np.cos((alpha - 1) * angle)) ** ((alpha - 1) / alpha)
        )
        return parameters["mean"] + parameters["scale"] * noise

    def _moment(self, order: float, **parameters: float) -> float:
        return _moments.stable_moment(order, **parameters)


class StudentT(_NoisyLaw):
    """Mean plus scale times Student's t with df > 1; moments of order df and above are infinite."""

    def __init__(self, *, mean: ArrayLike, df: ArrayLike, scale: ArrayLike = 1.0) -> None:
        super().__init__(mean=mean, df=df, scale=scale)

    def _check(self, **parameters: NDArray[np.float64]) -> None:
        super()._check(**parameters)
        if not (parameters["df"] > 1).all():
            raise SpecError("a Student-t law that has a mean has df > 1")

    @property
    def uniforms(self) -> int:
        """Two per reward."""
        return 2

    def _draw(self, uniforms: NDArray[np.float64], **parameters: NDArray[np.float64]) -> NDArray[np.float64]:
        # Bailey (1994), the polar method for the t distribution: exact, and as fast for any df.
        df = parameters["df"]
        radius = np.sqrt(df * np.expm1(-2 / df * np.log1p(-uniforms[..., 0])))
        noise: NDArray[np.float64] = radius * np.cos(2 * math.pi * uniforms[..., 1])
        return parameters["mean"] + parameters["scale"] * noise

    def _moment(self, order: float, **parameters: float) -> float:
        return _moments.student_moment(order, **parameters)


class Pareto(_CellLaw):
    """Mean plus centred Pareto noise: mean + scale·(X - shape/(shape-1)), P(X > x) = x^-shape for x ≥ 1.

    The shape is above 1. Only the upper tail is heavy: rewards start at mean - scale/(shape-1), and moments
    of order shape and above are infinite.
    """

    def __init__(self, *, mean: ArrayLike, shape: ArrayLike, scale: ArrayLike = 1.0) -> None:
        super().__init__(mean=mean, shape=shape, scale=scale)

    def _check(self, **parameters: NDArray[np.float64]) -> None:
        if not (parameters["shape"] > 1).all():
            raise SpecError("a Pareto law that has a mean has shape > 1")
        if (parameters["scale"] < 0).any():
            raise SpecError("the scale of a reward's noise must be at least 0")

    @property
    def uniforms(self) -> int:
        """One per reward."""
        return 1

    @property
    def support(self) -> tuple[float, float]:
        """From the lowest mean - scale/(shape-1), without an upper end unless there is no noise at all."""
        shape, scale = self._parameters["shape"], self._parameters["scale"]
        lowest = float((self.mean - scale / (shape - 1)).min())
        return lowest, math.inf if scale.any() else float(self.mean.max())

    def _draw(self, uniforms: NDArray[np.float64], **parameters: NDArray[np.float64]) -> NDArray[np.float64]:
        shape = parameters["shape"]
        # X - shape/(shape-1) is (X - 1) - 1/(shape-1); expm1 keeps the digits of X - 1.
        noise = np.expm1(-np.log1p(-uniforms[..., 0]) / shape) - 1 / (shape - 1)
        return parameters["mean"] + parameters["scale"] * noise

    def _moment(self, order: float, **parameters: float) -> float:
        return _moments.pareto_moment(order, **parameters)
