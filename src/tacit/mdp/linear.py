"""Worlds that are linear in known features: linear MDPs (001) and linear mixture MDPs (004)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit.mdp.rewards import Deterministic, RewardLaw
from tacit.mdp.spec import EpisodeSpec, SpecError
from tacit.mdp.tabular import TabularMDP

if TYPE_CHECKING:
    from tacit.mdp.rollouts import Streams
    from tacit.mdp.trajectories import Trajectories

__all__ = ["LawOfMean", "LinearMDP", "LinearMixtureMDP", "deterministic"]

LawOfMean: TypeAlias = Callable[[NDArray[np.float64]], RewardLaw]
"""What noise lies on the mean rewards (H|1, S, A): a function from means to a law."""

_ROUNDING = 1e-9
"""Products of features may leave [0, 1] by rounding; by more than this they are an error."""


def deterministic(mean: NDArray[np.float64]) -> RewardLaw:
    """The law without noise: every reward is its mean."""
    return Deterministic(mean=mean)


@dataclass(frozen=True, kw_only=True, eq=False)
class LinearMDP:
    """P_h(s'|s,a) = ⟨φ(s,a), ν_h(s')⟩ and r_h(s,a) = ⟨φ(s,a), θ_h⟩ (Jin et al. 2020; 001, Section 2).

    Parameters
    ----------
    spec
        The declared shape; stationary only if ν and θ are.
    phi
        Features (S, A, d), known to learners.
    nu, theta
        Measures (H|1, d, S) and reward weights (H|1, d), unknown to learners; without the first axis they are
        read as the same at every step.
    start
        S probabilities of the first state.
    rewards
        From mean rewards (H|1, S, A) to their law; without noise by default.

    Nothing is rescaled: `feature_norm` says what privacy has to pay for (001 assumes 1).
    """

    spec: EpisodeSpec
    phi: NDArray[np.float64]
    nu: NDArray[np.float64]
    theta: NDArray[np.float64]
    start: NDArray[np.float64]
    rewards: LawOfMean = field(default=deterministic)
    name: str = "linear MDP"

    def __post_init__(self) -> None:
        S, A, H = self.spec.states, self.spec.actions, self.spec.horizon
        phi = _array("phi", self.phi, shape=(S, A, None), axes="(S, A, d)")
        d = phi.shape[-1]
        nu = _stepwise("nu", self.nu, horizon=H, shape=(d, S), axes="(H|1, d, S)")
        theta = _stepwise("theta", self.theta, horizon=H, shape=(d,), axes="(H|1, d)")
        _check_stationary(self.spec, nu=nu, theta=theta)
        for name, value in (("phi", phi), ("nu", nu), ("theta", theta)):
            object.__setattr__(self, name, value)
        object.__setattr__(self, "start", _array("start", self.start, shape=(S,), axes="(S,)"))
        _ = self._tabular  # the kernel's rows must be distributions: find out now, not at the first rollout

    @classmethod
    def one_hot(cls, world: TabularMDP) -> LinearMDP:
        """Any tabular world as a linear MDP of dimension S·A: φ(s,a) is the indicator of (s,a).

        Rewards are paid at their mean.
        """
        S, A = world.spec.states, world.spec.actions
        kernel = dense_kernel(world)
        return cls(
            spec=world.spec,
            phi=np.eye(S * A).reshape(S, A, S * A),
            nu=kernel.reshape(kernel.shape[0], S * A, S),
            theta=world.rewards.mean.reshape(-1, S * A),
            start=world.start,
            name=f"{world.name}, one-hot",
        )

    @property
    def dimension(self) -> int:
        """The number of features, d."""
        return int(self.phi.shape[-1])

    @cached_property
    def feature_norm(self) -> float:
        """The largest ‖φ(s,a)‖₂."""
        return float(np.linalg.norm(self.phi, axis=-1).max())

    @cached_property
    def measure_norm(self) -> float:
        """The largest ‖ν_h(S)‖₂; 001 assumes at most √d."""
        return float(np.linalg.norm(self.nu.sum(axis=-1), axis=-1).max())

    @cached_property
    def theta_norm(self) -> float:
        """The largest ‖θ_h‖₂; 001 assumes at most √d."""
        return float(np.linalg.norm(self.theta, axis=-1).max())

    def tabular(self) -> TabularMDP:
        """The same world as arrays over states: for exact values and rollouts."""
        return self._tabular

    def rollout(self, policy: ArrayLike, *, episodes: int, streams: Streams) -> Trajectories:
        """Episodes (runs, episodes, …) under a policy (R|1, H, S[, A])."""
        return self._tabular.rollout(policy, episodes=episodes, streams=streams)

    @cached_property
    def _tabular(self) -> TabularMDP:
        kernel = np.einsum("sad,hdt->hsat", self.phi, self.nu, optimize=True)
        mean = np.einsum("sad,hd->hsa", self.phi, self.theta, optimize=True)
        return _tabular(self, kernel=kernel, mean=mean)


@dataclass(frozen=True, kw_only=True, eq=False)
class LinearMixtureMDP:
    """P_h(s'|s,a) = ⟨ψ(s,a,s'), θ_{h,p}⟩ and r_h(s,a) = ⟨φ_r(s,a), θ_{h,r}⟩ (004, Assumption 1).

    Parameters
    ----------
    spec
        The declared shape; stationary only if both θ are.
    psi, phi_r
        Features (S, A, S, d1) of transitions and (S, A, d2) of rewards, known to learners.
    theta_p, theta_r
        Weights (H|1, d1) and (H|1, d2), unknown to learners; without the first axis the same at every step.
    start
        S probabilities of the first state.
    rewards
        From mean rewards (H|1, S, A) to their law; without noise by default.
    """

    spec: EpisodeSpec
    psi: NDArray[np.float64]
    theta_p: NDArray[np.float64]
    phi_r: NDArray[np.float64]
    theta_r: NDArray[np.float64]
    start: NDArray[np.float64]
    rewards: LawOfMean = field(default=deterministic)
    name: str = "linear mixture MDP"

    def __post_init__(self) -> None:
        S, A, H = self.spec.states, self.spec.actions, self.spec.horizon
        psi = _array("psi", self.psi, shape=(S, A, S, None), axes="(S, A, S, d1)")
        phi_r = _array("phi_r", self.phi_r, shape=(S, A, None), axes="(S, A, d2)")
        theta_p = _stepwise("theta_p", self.theta_p, horizon=H, shape=(psi.shape[-1],), axes="(H|1, d1)")
        theta_r = _stepwise("theta_r", self.theta_r, horizon=H, shape=(phi_r.shape[-1],), axes="(H|1, d2)")
        _check_stationary(self.spec, theta_p=theta_p, theta_r=theta_r)
        for name, value in (("psi", psi), ("phi_r", phi_r), ("theta_p", theta_p), ("theta_r", theta_r)):
            object.__setattr__(self, name, value)
        object.__setattr__(self, "start", _array("start", self.start, shape=(S,), axes="(S,)"))
        _ = self._tabular

    @classmethod
    def one_hot(cls, world: TabularMDP) -> LinearMixtureMDP:
        """Any tabular world as a linear mixture: ψ(s,a,s') is the indicator of (s,a,s'), φ_r that of (s,a).

        Then d1 = S²A, so ψ has S⁴A² entries: for small worlds only. Rewards are paid at their mean.
        """
        S, A = world.spec.states, world.spec.actions
        kernel = dense_kernel(world)
        return cls(
            spec=world.spec,
            psi=np.eye(S * A * S).reshape(S, A, S, S * A * S),
            theta_p=kernel.reshape(kernel.shape[0], S * A * S),
            phi_r=np.eye(S * A).reshape(S, A, S * A),
            theta_r=world.rewards.mean.reshape(-1, S * A),
            start=world.start,
            name=f"{world.name}, one-hot mixture",
        )

    @property
    def transition_dimension(self) -> int:
        """The number of transition features, d1."""
        return int(self.psi.shape[-1])

    @property
    def reward_dimension(self) -> int:
        """The number of reward features, d2."""
        return int(self.phi_r.shape[-1])

    @cached_property
    def reward_feature_norm(self) -> float:
        """The largest ‖φ_r(s,a)‖₂; 004 assumes at most 1."""
        return float(np.linalg.norm(self.phi_r, axis=-1).max())

    @cached_property
    def value_feature_norm(self) -> float:
        """A bound of ‖φ_V(s,a)‖₂ over all V in [0,1]^S, exact where ψ has no negative entry.

        Values in [0, H] have H times this norm; 004 assumes at most √d1·H.
        """
        # Coordinate by coordinate the extremes are the sums of the positive and of the negative entries. They
        # need not be taken by the same V: hence a bound, and the triangle inequality is another one.
        positive = np.maximum(self.psi, 0.0).sum(axis=2)
        negative = np.maximum(-self.psi, 0.0).sum(axis=2)
        by_coordinate = np.linalg.norm(np.maximum(positive, negative), axis=-1)
        by_triangle = np.linalg.norm(self.psi, axis=-1).sum(axis=-1)
        return float(np.minimum(by_coordinate, by_triangle).max())

    @cached_property
    def theta_norm(self) -> float:
        """The largest norm of any θ_{h,p} and θ_{h,r}; 004 assumes at most √d1 and √d2."""
        return float(max(np.linalg.norm(theta, axis=-1).max() for theta in (self.theta_p, self.theta_r)))

    def value_features(self, values: ArrayLike) -> NDArray[np.float64]:
        """φ_V(s,a) = Σ_s' ψ(s,a,s')·V(s') for V of shape (…, S): an array (…, S, A, d1)."""
        values = np.asarray(values, dtype=np.float64)
        S, A = self.spec.states, self.spec.actions
        if values.ndim < 1 or values.shape[-1] != S:
            raise SpecError(f"values must have the {S} states on their last axis; got shape {values.shape}")
        product = values.reshape(-1, S) @ self._psi_by_next_state
        return product.reshape(*values.shape[:-1], S, A, self.transition_dimension)

    def tabular(self) -> TabularMDP:
        """The same world as arrays over states: for exact values and rollouts."""
        return self._tabular

    def rollout(self, policy: ArrayLike, *, episodes: int, streams: Streams) -> Trajectories:
        """Episodes (runs, episodes, …) under a policy (R|1, H, S[, A])."""
        return self._tabular.rollout(policy, episodes=episodes, streams=streams)

    @cached_property
    def _psi_by_next_state(self) -> NDArray[np.float64]:
        S = self.spec.states
        return np.ascontiguousarray(np.moveaxis(self.psi, 2, 0)).reshape(S, -1)

    @cached_property
    def _tabular(self) -> TabularMDP:
        kernel = np.einsum("satd,hd->hsat", self.psi, self.theta_p, optimize=True)
        mean = np.einsum("sad,hd->hsa", self.phi_r, self.theta_r, optimize=True)
        return _tabular(self, kernel=kernel, mean=mean)


def _tabular(
    world: LinearMDP | LinearMixtureMDP, *, kernel: NDArray[np.float64], mean: NDArray[np.float64]
) -> TabularMDP:
    """The world over states, with what rounding did to the kernel and the means undone."""
    sums = kernel.sum(axis=-1)
    smallest, error = float(kernel.min()), float(np.abs(sums - 1.0).max())
    if not (smallest >= -_ROUNDING and error <= _ROUNDING):
        raise SpecError(
            "the features and weights do not give transition probabilities: the smallest is "
            f"{smallest:.3g} and the sums over next states miss 1 by up to {error:.3g}"
        )
    kernel = np.maximum(kernel, 0.0)
    kernel /= kernel.sum(axis=-1, keepdims=True)
    if isinstance(world.spec.rewards, tuple):
        low, high = world.spec.rewards
        if not (mean.min() >= low - _ROUNDING and mean.max() <= high + _ROUNDING):
            raise SpecError(
                f"mean rewards lie in [{mean.min():.6g}, {mean.max():.6g}], outside the declared range "
                f"[{low:g}, {high:g}]"
            )
        mean = np.clip(mean, low, high)
    return TabularMDP(spec=world.spec, kernel=kernel, rewards=world.rewards(mean), start=world.start, name=world.name)


def _array(name: str, value: ArrayLike, *, shape: tuple[int | None, ...], axes: str) -> NDArray[np.float64]:
    array = np.array(value, dtype=np.float64)
    fits = array.ndim == len(shape) and all(
        want is None or have == want for have, want in zip(array.shape, shape, strict=True)
    )
    if not fits or array.size == 0:
        raise SpecError(f"{name} must have the axes {axes}; got shape {array.shape}")
    if not np.isfinite(array).all():
        raise SpecError(f"{name} has entries that are not finite")
    array.setflags(write=False)
    return array


def _stepwise(name: str, value: ArrayLike, *, horizon: int, shape: tuple[int, ...], axes: str) -> NDArray[np.float64]:
    array = np.asarray(value, dtype=np.float64)
    if array.ndim == len(shape):
        array = array[None]
    array = _array(name, array, shape=(None, *shape), axes=axes)
    if len(array) not in (1, horizon):
        raise SpecError(f"{name} must be given once or for each of the {horizon} steps; got {len(array)}")
    return array


def _check_stationary(spec: EpisodeSpec, **stepwise: NDArray[np.float64]) -> None:
    for name, array in stepwise.items():
        if spec.stationary and len(array) > 1:
            raise SpecError(f"{name} is given step by step, but the spec declares a stationary world")


def dense_kernel(world: TabularMDP) -> NDArray[np.float64]:
    """A world's kernel as an array (H|1, S, A, S), however it is stored."""
    if isinstance(world.kernel, np.ndarray):
        return world.kernel
    S, A = world.spec.states, world.spec.actions
    return np.asarray(world.kernel.toarray(), dtype=np.float64).reshape(1, S, A, S)
