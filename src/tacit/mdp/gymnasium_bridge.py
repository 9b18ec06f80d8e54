"""Gymnasium environments as worlds, and worlds as Gymnasium environments."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit.mdp.outcomes import outcome_world
from tacit.mdp.rollouts import check_policy
from tacit.mdp.spec import EpisodeSpec, MomentBound, SpecError
from tacit.mdp.tabular import TabularMDP
from tacit.mdp.trajectories import Trajectories

if TYPE_CHECKING:
    import gymnasium
    from gymnasium.spaces import Discrete

    from tacit.mdp.rollouts import Streams

__all__ = ["GymnasiumSource", "from_gymnasium", "to_gymnasium"]

_TRANSPARENT = frozenset({"OrderEnforcing", "PassiveEnvChecker", "TimeLimit", "RecordEpisodeStatistics", "Autoreset"})
"""Wrappers that leave dynamics and rewards as they are (but for the time limit, which the horizon replaces)."""


@overload
def from_gymnasium(
    env: gymnasium.Env[Any, Any],
    *,
    horizon: int,
    rewards: tuple[float, float] | MomentBound | None = None,
    exact: Literal[True],
) -> TabularMDP: ...
@overload
def from_gymnasium(
    env: gymnasium.Env[Any, Any],
    *,
    horizon: int,
    rewards: tuple[float, float] | MomentBound | None = None,
    exact: Literal[False],
) -> GymnasiumSource: ...
@overload
def from_gymnasium(
    env: gymnasium.Env[Any, Any],
    *,
    horizon: int,
    rewards: tuple[float, float] | MomentBound | None = None,
    exact: None = None,
) -> TabularMDP | GymnasiumSource: ...
def from_gymnasium(
    env: gymnasium.Env[Any, Any],
    *,
    horizon: int,
    rewards: tuple[float, float] | MomentBound | None = None,
    exact: bool | None = None,
) -> TabularMDP | GymnasiumSource:
    """Read an environment with Discrete spaces.

    Where the environment tells its dynamics, as the toy-text ones do (`P` and `initial_state_distrib`:
    FrozenLake, Taxi, CliffWalking), the result is a `TabularMDP` with exact values. Otherwise it is a
    `GymnasiumSource`, which can only be rolled out.

    Both have one state more than the environment: an end state, the last number. A step that terminates the
    episode leads there (also from an environment that goes on to name a state of its own), pays its reward, and
    every later step stays there and pays 0.

    Parameters
    ----------
    env
        The environment; a source keeps it and uses it.
    horizon
        Episodes have so many steps. It replaces the environment's time limit, which the exact world ignores
        and a source reads as the end.
    rewards
        The declared range or moment bound. If None, it is read from `P` (with the end state's 0); a source cannot
        know it and asks.
    exact
        True insists on `P`, False ignores it, None uses it if it can be trusted: not beneath wrappers that
        may change what the agent sees, and not for Taxi's fickle passengers, who are not in it.

    Examples
    --------
    >>> import gymnasium
    >>> world = from_gymnasium(gymnasium.make("FrozenLake-v1"), horizon=100)
    >>> world.spec.states, round(world.optimal_value, 4)
    (17, 0.7442)
    """
    states, actions = _discrete(env.observation_space, "observation"), _discrete(env.action_space, "action")
    obstacle = _why_not_exact(env)
    if exact or (exact is None and obstacle is None):
        if obstacle is not None:
            raise SpecError(f"{_name(env)} cannot be read exactly: {obstacle}")
        return _read_table(env, states=int(states.n), actions=int(actions.n), horizon=horizon, rewards=rewards)
    if rewards is None:
        raise SpecError(f"the reward range of {_name(env)} is not known: declare it, rewards=(low, high)")
    spec = EpisodeSpec(states=int(states.n) + 1, actions=int(actions.n), horizon=horizon, rewards=rewards)
    return GymnasiumSource(env=env, spec=spec)


@dataclass(frozen=True, kw_only=True, eq=False)
class GymnasiumSource:
    """An environment with Discrete spaces that can be rolled out, and of which nothing else is known.

    Its last state is the end state: see `from_gymnasium`. Every episode is reset with a seed of its own, drawn
    from its run's stream, so that trajectories depend on the seed alone as long as the environment's do. Runs
    and episodes go through the one environment one after the other.
    """

    env: gymnasium.Env[Any, Any]
    spec: EpisodeSpec

    def rollout(self, policy: ArrayLike, *, episodes: int, streams: Streams) -> Trajectories:
        """Episodes (runs, episodes, …) under a policy (R|1, H, S[, A])."""
        runs, horizon = streams.runs, self.spec.horizon
        table = check_policy(policy, self.spec, runs=runs)
        states = np.empty((runs, episodes, horizon + 1), dtype=np.int32)
        actions = np.empty((runs, episodes, horizon), dtype=np.int32)
        rewards = np.zeros((runs, episodes, horizon), dtype=np.float64)
        for run in range(runs):
            own = table[run if len(table) > 1 else 0]
            for episode in range(episodes):
                seed = int(streams.dynamics[run].integers(2**31))
                # One uniform per step, needed or not: an early end must not shift the next episode's draws.
                uniforms = streams.policy[run].random(horizon)
                self._episode(own, seed, uniforms, states[run, episode], actions[run, episode], rewards[run, episode])
        return Trajectories(states=states, actions=actions, rewards=rewards)

    def _episode(
        self,
        policy: NDArray[np.generic],
        seed: int,
        uniforms: NDArray[np.float64],
        states: NDArray[np.int32],
        actions: NDArray[np.int32],
        rewards: NDArray[np.float64],
    ) -> None:
        """Fill in one episode."""
        end = self.spec.states - 1
        first_action = int(_discrete(self.env.action_space, "action").start)
        observation, _ = self.env.reset(seed=seed)
        state = self._state(observation)
        for step in range(self.spec.horizon):
            states[step] = state
            action = _draw(policy[step, state], uniforms[step])
            actions[step] = action
            if state == end:
                continue
            observation, reward, terminated, truncated, _ = self.env.step(first_action + action)
            rewards[step] = float(reward)
            state = end if terminated or truncated else self._state(observation)
        states[-1] = state

    def _state(self, observation: Any) -> int:
        state = int(observation) - int(_discrete(self.env.observation_space, "observation").start)
        if not 0 <= state < self.spec.states - 1:
            raise SpecError(f"{_name(self.env)} made the observation {observation}, outside its own space")
        return state


def to_gymnasium(world: TabularMDP, *, observe_step: bool = False) -> gymnasium.Env[Any, Any]:
    """A world as an environment with Discrete spaces, terminated after H steps; it passes `check_env`.

    Parameters
    ----------
    world
        Any tabular world; of a linear one its `tabular()`.
    observe_step
        False: observations are states; `info["step"]` says how many steps are over. True: they are
        step·S + state, out of S·(H+1), so that the optimal policy is a function of the observation.

    Examples
    --------
    >>> from tacit.mdp import riverswim
    >>> env = to_gymnasium(riverswim())
    >>> state, info = env.reset(seed=0)
    >>> int(state), info
    (0, {'step': 0})
    """
    from tacit.mdp._gymnasium_world import WorldEnv

    return WorldEnv(world, observe_step=observe_step)


def _read_table(
    env: gymnasium.Env[Any, Any],
    *,
    states: int,
    actions: int,
    horizon: int,
    rewards: tuple[float, float] | MomentBound | None,
) -> TabularMDP:
    table: Any = getattr(env.unwrapped, "P")  # noqa: B009  # not an attribute of every Env
    end = states
    try:
        rows = [
            (state, action, end if terminated else int(next_state), float(probability), float(reward))
            for state in range(states)
            for action in range(actions)
            for probability, next_state, reward, terminated in table[state][action]
        ]
    except (LookupError, TypeError, ValueError) as error:
        raise SpecError(
            f"P of {_name(env)} is not P[state][action] = [(probability, next state, reward, terminated), …]: "
            f"{error!r}. Pass exact=False to do without it."
        ) from error
    rows += [(end, action, end, 1.0, 0.0) for action in range(actions)]
    state, action, next_state, probability, reward = (np.array(column) for column in zip(*rows, strict=True))
    # Probabilities may miss 1 by rounding (FrozenLake's thirds); by more, TabularMDP objects.
    cell = state * actions + action
    total = np.bincount(cell, weights=probability, minlength=(states + 1) * actions)[cell]
    probability = np.where(np.abs(total - 1.0) < 1e-9, probability / np.where(total > 0, total, 1.0), probability)
    if rewards is None:
        low, high = float(reward.min()), float(reward.max())  # with the end state's 0
        rewards = (low, high) if low < high else (0.0, 1.0)
    start = np.zeros(states + 1)
    start[:states] = getattr(env.unwrapped, "initial_state_distrib")  # noqa: B009
    start /= start.sum()
    sure = np.flatnonzero(start == 1.0)
    return outcome_world(
        spec=EpisodeSpec(
            states=states + 1,
            actions=actions,
            horizon=horizon,
            rewards=rewards,
            start=int(sure[0]) if len(sure) else tuple(start.tolist()),
        ),
        start=start,
        state=state,
        action=action,
        next_state=next_state,
        probability=probability,
        reward=reward,
        name=_name(env),
    )


def _why_not_exact(env: gymnasium.Env[Any, Any]) -> str | None:
    """Why `P` cannot be used for this environment; None if it can."""
    import gymnasium

    inner = env.unwrapped
    if getattr(inner, "P", None) is None or getattr(inner, "initial_state_distrib", None) is None:
        return "it has no P and initial_state_distrib"
    if getattr(inner, "fickle_passenger", False):
        return "its fickle passengers change their minds outside of P"
    if any(
        space.start != 0
        for space in (_discrete(env.observation_space, "observation"), _discrete(env.action_space, "action"))
    ):
        return "its states or actions do not begin at 0"
    layer: Any = env
    while isinstance(layer, gymnasium.Wrapper):
        if type(layer).__name__ not in _TRANSPARENT:
            return f"the wrapper {type(layer).__name__} may change what P says"
        layer = layer.env
    return None


def _discrete(space: Any, role: str) -> Discrete[Any]:
    from gymnasium.spaces import Discrete

    if not isinstance(space, Discrete):
        raise SpecError(f"the {role} space must be Discrete; got {space}. Wrap the environment to make it so.")
    return space


def _draw(choice: NDArray[np.generic] | np.generic, uniform: float) -> int:
    """An action: the number itself, or drawn from its probabilities."""
    if np.ndim(choice) == 0:
        return int(choice)
    cumulative = np.cumsum(choice)
    # Scaled by the last sum, so that rounding never leads to an action of probability 0.
    return int(np.searchsorted(cumulative, uniform * cumulative[-1], side="right"))


def _name(env: gymnasium.Env[Any, Any]) -> str:
    return env.spec.id if env.spec is not None else type(env.unwrapped).__name__
