"""Who may come: every trajectory of a tiny world, strangers who send nonsense, and literal counts of what they did."""

from __future__ import annotations

import itertools
import math
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from tacit.mdp.spec import EpisodeSpec
from tacit.mdp.trajectories import Trajectories
from tacit.releases import GramRelease, TabularRelease
from tacit.statistics import GramStatistic, Regressors

__all__ = ["GramPeople", "People", "TabularPeople", "all_trajectories"]

Array = NDArray[np.float64]


class People(Protocol):
    """What the conformance suite needs to know about a privatizer's input and output."""

    def everybody(self) -> list[Any]:
        """All people between whom the guarantee is checked, ⊥ among them; the more extreme, the better."""
        ...

    def strangers(self) -> list[Any]:
        """People who send nonsense, and must be told from nobody."""
        ...

    def between(self) -> list[Any]:
        """People whose numbers lie on no coarse grid."""
        ...

    def nobody(self) -> Any:
        """⊥."""
        ...

    def some(self, number: int, seed: int) -> list[Any]:
        """Ordinary people."""
        ...

    def batch(self, people: list[Any], runs: int) -> Any:
        """What `observe` takes: the same people in every run."""
        ...

    def numbers(self, release: Any) -> Array:
        """A release as (runs, numbers)."""
        ...

    def counted(self, release: Any, people: list[Any]) -> Array:
        """What `numbers(release)` would be without noise, by literal counting."""
        ...


class TabularPeople:
    """Trajectories of a spec, rewards at both ends of the range. A person is (states, actions, rewards)."""

    def __init__(self, spec: EpisodeSpec) -> None:
        self.spec = spec

    def everybody(self) -> list[Any]:
        """See `People`: all trajectories."""
        low, high = self.spec.reward_range
        return [*all_trajectories(self.spec, rewards=(low, high)), self.nobody()]

    def strangers(self) -> list[Any]:
        """See `People`: each has one thing wrong that makes the episode unreadable."""
        H = self.spec.horizon
        states, actions, rewards = [0] * (H + 1), [0] * H, [0.0] * H
        return [
            (states, actions, [math.nan] * H),
            ([self.spec.states, *states[1:]], actions, rewards),
            (states, [-1, *actions[1:]], rewards),
            ([0.5, *states[1:]], actions, rewards),
            (states[:-1], actions, rewards),
            (states, actions, [*rewards, 0.0]),
            (states, actions, "not at all"),
            ([math.inf, *states[1:]], actions, rewards),
            None,
            42,
            {},
            ([None] * (H + 1), actions, rewards),
            (states, actions, np.full(H, 1j)),
            (states, actions, [np.ma.masked] * H),
            ([[0], *states[1:]], actions, rewards),
            (5, actions, rewards),
            (states, actions, 0.5),
            ([[0]] * 5, [[[]]], rewards),
        ]

    def clamped(self) -> list[tuple[Any, Any]]:
        """People who send rewards outside the range, and whom they must be told from by nobody."""
        low, high = self.spec.reward_range
        H = self.spec.horizon
        wild = (
            (math.inf, high),
            (-math.inf, low),
            (1e300, high),
            (-1e300, low),
            (high + 1.0, high),
            (np.longdouble("1e999"), high),
        )
        return [(([0] * (H + 1), [0] * H, [sent] * H), ([0] * (H + 1), [0] * H, [read] * H)) for sent, read in wild]

    def between(self) -> list[Any]:
        """See `People`: rewards that no power of two divides."""
        low, high = self.spec.reward_range
        H = self.spec.horizon
        return [([0] * (H + 1), [0] * H, [low + part * (high - low)] * H) for part in (0.3, 1 / 7)]

    def nobody(self) -> Any:
        """See `People`."""
        return None

    def some(self, number: int, seed: int) -> list[Any]:
        """See `People`."""
        rng = np.random.default_rng(seed)
        spec, (low, high) = self.spec, self.spec.reward_range
        return [
            (
                rng.integers(spec.states, size=spec.horizon + 1).tolist(),
                rng.integers(spec.actions, size=spec.horizon).tolist(),
                rng.choice([low, high, (low + high) / 2], size=spec.horizon).tolist(),
            )
            for _ in range(number)
        ]

    def batch(self, people: list[Any], runs: int) -> Any:
        """See `People`."""
        if runs == 1:
            return people
        H = self.spec.horizon
        columns = [np.full((1, len(people), length), np.nan) for length in (H + 1, H, H)]
        for position, person in enumerate(people):
            if person is not None:
                for column, values in zip(columns, person, strict=True):
                    column[0, position] = values
        return Trajectories(*(np.repeat(column, runs, axis=0) for column in columns))

    def numbers(self, release: TabularRelease) -> Array:
        """See `People`."""
        fields = (release.transitions, release.visits, release.rewards, release.starts)
        return np.concatenate([field.reshape(len(field), -1) for field in fields if field is not None], axis=1)

    def counted(self, release: TabularRelease, people: list[Any]) -> Array:
        """See `People`."""
        low, high = self.spec.reward_range
        transitions = np.zeros(release.transitions.shape[1:])
        visits, rewards = np.zeros(release.visits.shape[1:]), np.zeros(release.visits.shape[1:])
        starts = np.zeros(self.spec.states)
        for states, actions, received in (person for person in people if person is not None):
            starts[states[0]] += 1
            for h in range(self.spec.horizon):
                row = h if len(transitions) > 1 else 0
                reward = (min(max(received[h], low), high) - low) / (high - low)
                transitions[row, states[h], actions[h], states[h + 1]] += 1
                visits[row, states[h], actions[h]] += 1
                rewards[row, states[h], actions[h]] += reward - 0.5 if release.centred else reward
        fields: list[Array] = [transitions, visits]
        fields += [rewards] if release.rewards is not None else []
        fields += [starts] if release.starts is not None else []
        return np.concatenate([field.reshape(1, -1) for field in fields], axis=1)


class GramPeople:
    """Features on a coarse grid of the ball, targets at both ends. A person is (features, targets) of all steps."""

    def __init__(self, statistic: GramStatistic, directions: int = 12) -> None:
        self.statistic = statistic
        self.directions = directions

    def everybody(self) -> list[Any]:
        """See `People`: one direction and target at all steps, and directions in between."""
        rng = np.random.default_rng(0)
        d, steps = self.statistic.dimension, self.statistic.steps
        axes = np.vstack([np.eye(d), rng.normal(size=(self.directions, d))])
        units: list[Array] = [self.statistic.norm * axis / np.linalg.norm(axis) for axis in axes]
        # With the first axis e and the vector's weight k, the angle whose cosine is k²/2 is the worst.
        cosine = min(1.0, self.statistic.vector_weight**2 / 2.0)
        if d > 1:
            units.append(self.statistic.norm * (cosine * np.eye(d)[0] + math.sqrt(1 - cosine**2) * np.eye(d)[1]))
        B = self.statistic.target_bound
        people = [(np.tile(unit, (steps, 1)), np.full(steps, y)) for unit in units for y in (-B, B)]
        return [*people, self.nobody()]

    def strangers(self) -> list[Any]:
        """See `People`."""
        d, steps = self.statistic.dimension, self.statistic.steps
        return [
            (np.full((steps, d), math.nan), np.zeros(steps)),
            (np.zeros((steps, d)), np.full(steps, math.nan)),
            (np.zeros((steps, d)), np.full(steps, "none", dtype=object)),
            (None, np.zeros(steps)),
            ([[0.1] * d] * steps + [[0.3] * (d + 1)], np.zeros(steps)),
            (np.zeros((steps, d)), 0.5),
        ]

    def clamped(self) -> list[tuple[Any, Any]]:
        """Whoever is outside the ball or the bound, and what is read."""
        d, steps, N, B = (
            self.statistic.dimension,
            self.statistic.steps,
            self.statistic.norm,
            self.statistic.target_bound,
        )
        e = np.tile(np.eye(d)[0], (steps, 1))
        most = np.full(steps, B)
        far = [np.where(e > 0, size, 0.0) for size in (1e300, 1.7e308, math.inf)]
        return [((features, np.full(steps, features.max())), (N * e, most)) for features in far]

    def between(self) -> list[Any]:
        """See `People`."""
        return self.some(2, seed=9)

    def nobody(self) -> Any:
        """See `People`."""
        return np.full((self.statistic.steps, self.statistic.dimension), math.nan), np.zeros(self.statistic.steps)

    def some(self, number: int, seed: int) -> list[Any]:
        """See `People`."""
        rng = np.random.default_rng(seed)
        d, steps = self.statistic.dimension, self.statistic.steps
        return [
            (
                self.statistic.norm * rng.uniform(-1, 1, size=(steps, d)) / math.sqrt(d),
                self.statistic.target_bound * rng.uniform(-1, 1, size=steps),
            )
            for _ in range(number)
        ]

    def batch(self, people: list[Any], runs: int) -> Any:
        """See `People`."""
        features, targets = ([person[part] for person in people] for part in (0, 1))
        return Regressors([features] * runs, [targets] * runs)  # type: ignore[arg-type]

    def numbers(self, release: GramRelease) -> Array:
        """See `People`."""
        assert release.gram is not None
        parts = [release.gram.reshape(len(release.gram), -1)]
        if release.vector is not None:
            parts.append(release.vector.reshape(len(release.gram), -1))
        return np.concatenate(parts, axis=1)

    def counted(self, release: GramRelease, people: list[Any]) -> Array:
        """See `People`."""
        d, steps = self.statistic.dimension, self.statistic.steps
        gram, vector = np.zeros((steps, d, d)), np.zeros((steps, d))
        for features, targets in people:
            for h in range(steps):
                phi, y = features[h] / self.statistic.norm, targets[h] / self.statistic.target_bound
                if not (np.isnan(features).any() or np.isnan(targets).any()):
                    phi = phi / max(1.0, float(np.linalg.norm(phi)))
                    gram[h] += np.outer(phi, phi)
                    vector[h] += phi * min(1.0, max(-1.0, float(y)))
        parts = [gram.reshape(1, -1)] + ([vector.reshape(1, -1)] if release.vector is not None else [])
        return np.concatenate(parts, axis=1)


def all_trajectories(spec: EpisodeSpec, *, rewards: tuple[float, ...] = (0.0, 1.0)) -> list[Any]:
    """Every (states, actions, rewards) of a spec with rewards among those given: S·(A·S·len(rewards))^H of them."""
    steps = list(itertools.product(range(spec.actions), rewards, range(spec.states)))
    return [
        ([first, *(then for _, _, then in path)], [a for a, _, _ in path], [r for _, r, _ in path])
        for first in range(spec.states)
        for path in itertools.product(steps, repeat=spec.horizon)
    ]
