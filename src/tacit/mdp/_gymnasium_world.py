"""The environment made by `to_gymnasium`; apart, because its class needs Gymnasium when it is defined."""

from __future__ import annotations

import re
from typing import Any

import gymnasium
import numpy as np
from gymnasium.envs.registration import EnvSpec
from gymnasium.error import ResetNeeded
from gymnasium.spaces import Discrete

from tacit.mdp.tabular import TabularMDP

__all__ = ["WorldEnv"]


class WorldEnv(gymnasium.Env[np.int64, np.int64]):
    """A tabular world, one episode of H steps at a time."""

    metadata = {"render_modes": []}  # noqa: RUF012  # declared so by gymnasium.Env

    def __init__(self, world: TabularMDP, *, observe_step: bool = False, render_mode: str | None = None) -> None:
        spec = world.spec
        self.world = world
        self.observe_step = observe_step
        self.render_mode = render_mode
        self.observation_space = Discrete(spec.states * (spec.horizon + 1 if observe_step else 1))
        self.action_space = Discrete(spec.actions)
        self.spec = EnvSpec(
            id=f"tacit/{re.sub(r'[^A-Za-z0-9]+', '-', world.name).strip('-') or 'world'}-v0",
            entry_point="tacit.mdp._gymnasium_world:WorldEnv",
            kwargs={"world": world, "observe_step": observe_step},
            order_enforce=False,
            disable_env_checker=True,
        )
        self._state = -1
        self._step = -1

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.int64, dict[str, Any]]:
        """Begin an episode: a first state from the world's start law."""
        super().reset(seed=seed)
        self._state = _draw(self.world.start, self.np_random.random())
        self._step = 0
        return self._observation(), {"step": 0}

    def step(self, action: np.int64) -> tuple[np.int64, float, bool, bool, dict[str, Any]]:
        """One step; the H-th terminates the episode, after which nothing more can be earned."""
        if not 0 <= self._step < self.world.spec.horizon:
            raise ResetNeeded("this episode has not begun or is over: call reset()")
        if not self.action_space.contains(action):
            raise ValueError(f"{action!r} is not an action of {self.action_space}")
        law, state, h = self.world.rewards, self._state, self._step
        self._state = _draw(self._row(h, state, int(action)), self.np_random.random())
        reward = law.sample(
            self.np_random.random(law.uniforms),
            step=np.asarray(h),
            state=np.asarray(state),
            action=np.asarray(action),
            next_state=np.asarray(self._state),
        )
        self._step = h + 1
        over = self._step == self.world.spec.horizon
        return self._observation(), float(reward), over, False, {"step": self._step}

    def _row(self, step: int, state: int, action: int) -> np.ndarray[Any, np.dtype[np.float64]]:
        """P_h(·|s,a)."""
        kernel = self.world.kernel
        if isinstance(kernel, np.ndarray):
            row: np.ndarray[Any, np.dtype[np.float64]] = kernel[step if len(kernel) > 1 else 0, state, action]
            return row
        cell = state * self.world.spec.actions + action
        row = np.zeros(self.world.spec.states)
        entries = slice(kernel.indptr[cell], kernel.indptr[cell + 1])
        row[kernel.indices[entries]] = kernel.data[entries]
        return row

    def _observation(self) -> np.int64:
        return np.int64(self._state + (self._step * self.world.spec.states if self.observe_step else 0))


def _draw(probabilities: np.ndarray[Any, np.dtype[np.float64]], uniform: float) -> int:
    cumulative = np.cumsum(probabilities)
    return int(np.searchsorted(cumulative, uniform * cumulative[-1], side="right"))
