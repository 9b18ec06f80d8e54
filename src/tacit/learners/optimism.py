"""How wrong private estimates may be: the bonuses of 000, Lemmas 3.1 and 4.1.

With counts Ñ (visits), Ñ(s,a,s') and R̃ that are within E_N, E_P and E_R of the true ones, all at once with probability
1 − β (Assumption 1), and D = max(1, Ñ(s,a) + E_N):

* |r̃ − r| ≤ L_c/√D + (E_R + 2E_N)/D with r̃ = R̃/D and L_c = √(2 ln(4n/β));
* |(P̃ − P)V*| ≤ H·L_c/√D + H(S·E_P + 2E_N)/D (Lemma 4.1: one function V*, so no union over next states);
* ‖P̃ − P‖₁ ≤ L_p/√D + (S·E_P + 2E_N)/D with L_p = √(4S ln(6n/β)) (Lemma 3.1: any function).

n counts the events of the union bound: S·A·H times the visits that a cell can have, which is the paper's SAT for counts
per step, and H times as many for pooled ones. E_N, E_R and E_P are quantiles of the release's own error laws at β/(3m),
β/(3m) and β/(3mS), m being the cells in all of K releases: the paper's SAT, again, for counts per step, and S·A·K for
pooled ones. They are the paper's E₁, E₁ and E₂ where the law is its own. Where visits were not counted by themselves,
or rewards were centred, the laws say so and nothing changes here but the sum R̃ = Σ(r−½) + ½Ñ.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from tacit.mdp.spec import EpisodeSpec, SpecError
from tacit.releases import TabularRelease

__all__ = ["Optimism", "Widths"]


class Widths(NamedTuple):
    """β = statistical/√D + privacy/D with D = max(1, Ñ + offset); all three are public numbers."""

    offset: float
    statistical: float
    privacy: float


@dataclass(frozen=True, kw_only=True)
class Optimism:
    """Settings that the optimistic learners share.

    Parameters
    ----------
    spec
        The public shape of an episode.
    episodes
        K.
    confidence
        β: all bounds hold together with probability 1 − 3β at least (000, Lemma 4.1).
    statistical_scale, privacy_scale
        Factors on L_c and L_p, and on E_N, E_R and E_P wherever these stand. 1 and 1 are the theorem's.
    """

    spec: EpisodeSpec
    episodes: int
    confidence: float = 0.1
    statistical_scale: float = 1.0
    privacy_scale: float = 1.0

    def __post_init__(self) -> None:
        if not isinstance(self.spec, EpisodeSpec):
            raise SpecError(
                f"spec is the public shape of an episode, such as world.spec; got {type(self.spec).__name__}"
            )
        if not 0.0 < self.confidence <= 0.5:
            raise SpecError(
                f"confidence is the probability that a bound fails, 0.05 and not 0.95; got {self.confidence}"
            )
        if isinstance(self.episodes, bool) or not isinstance(self.episodes, int | np.integer) or self.episodes < 1:
            raise SpecError(f"episodes must be a whole number of at least 1; got {self.episodes!r}")
        for name in ("statistical_scale", "privacy_scale"):
            if not 0.0 <= getattr(self, name) < math.inf:
                raise SpecError(f"{name} is a factor of at least 0; got {getattr(self, name)}")
        if not isinstance(self.spec.rewards, tuple):
            raise SpecError("this learner is for rewards with a declared range; heavy tails need another one")

    def value_widths(self, release: TabularRelease) -> Widths:
        """Lemma 4.1, for value iteration: β = β_c + β_pv."""
        return self._widths(release, self._reward_log(release))

    def policy_widths(self, release: TabularRelease) -> Widths:
        """Lemma 3.1, for policy optimisation: β = β_c + H·β_p."""
        return self._widths(
            release, math.sqrt(4.0 * self.spec.states * math.log(6.0 * self._events(release) / self.confidence))
        )

    def check(self, release: TabularRelease) -> None:
        """A release of another world would be read as something else."""
        S, A, steps = self.spec.states, self.spec.actions, release.transitions.shape[1:2]
        if release.rewards is None:
            raise ValueError("rewards are not among the families that were released")
        cells = {"transitions": (*steps, S, A, S), "visits": (*steps, S, A), "rewards": (*steps, S, A)}
        for name, shape in cells.items():
            found = getattr(release, name).shape[1:]
            if found != shape or steps[0] not in (1, self.spec.horizon):
                raise ValueError(f"released {name} are (R, H|1, …) = (R, {self.spec.horizon}|1, …); got (R, {found})")

    def _widths(self, release: TabularRelease, transition_log: float) -> Widths:
        S, H = self.spec.states, self.spec.horizon
        one = self.confidence / (3.0 * S * self.spec.actions * release.transitions.shape[1] * self.episodes)
        each = one / S
        errors = release.errors
        visits = self.privacy_scale * errors["visits"].quantile(one)
        rewards = self.privacy_scale * errors["rewards"].quantile(one) + (0.5 * visits if release.centred else 0.0)
        transitions = self.privacy_scale * errors["transitions"].quantile(each)
        return Widths(
            offset=visits,
            statistical=self.statistical_scale * (self._reward_log(release) + H * transition_log),
            privacy=(rewards + 2.0 * visits) + H * (S * transitions + 2.0 * visits),
        )

    def _reward_log(self, release: TabularRelease) -> float:
        return math.sqrt(2.0 * math.log(4.0 * self._events(release) / self.confidence))

    def _events(self, release: TabularRelease) -> float:
        """S·A·H times the visits that a cell can have."""
        S, A, H = self.spec.states, self.spec.actions, self.spec.horizon
        largest = self.episodes * (H if release.transitions.shape[1] == 1 else 1)
        return float(S * A * H * largest)
