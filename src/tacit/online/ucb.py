"""The agents of 000: Private-UCB-VI and Private-UCB-PO, and without privacy UCB-VI and OPPO."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

from tacit import learners
from tacit.mdp.spec import SpecError
from tacit.online.agent import Agent
from tacit.privacy import counters
from tacit.privacy.calibration import calibrate
from tacit.privacy.counters import CounterDesign
from tacit.privacy.guarantees import Joint, Local, NonPrivate
from tacit.privacy.noise import NoiseSource
from tacit.privatizers import (
    CentralPrivatizer,
    LocalPrivatizer,
    LocalServer,
    PrivatizationError,
    Privatizer,
    design_for,
    local_codec,
    published,
)
from tacit.statistics import TabularStatistic

__all__ = ["UCBPO", "UCBVI", "OptimisticAgent"]

Schedule = Literal["doubling", "every-episode"]


@dataclass(frozen=True, kw_only=True, eq=False)
class OptimisticAgent(Agent):
    """What the agents of 000 share.

    Parameters
    ----------
    spec, episodes, privacy
        See `Agent`.
    calibration
        `"exact"`: the least noise that keeps the guarantee, and precision levels E in bonuses from its exact law.
        `"published"`: noise and E as 000 prints them; the statement names the ε that they really spend.
    schedule
        `"doubling"`: a new policy whenever the number of users has doubled, noise independent of K's logarithm;
        `"every-episode"`, as 000 does.
    counter
        With `"every-episode"`, how prefixes are released: `"tree"` (binary, 000's), `"k-ary"` (Laplace noise only),
        `"toeplitz"`, `"blt"` (not for pure guarantees). By default the quietest for the guarantee; the published
        calibration is for trees. A design of `tacit.privacy.counters` brings a schedule of its own, such as
        `doubling(episodes - 1, growth=1.1)`: more policies, for more noise.
    pooled
        Count over all steps; by default where the world is stationary. The published calibration counts per step.
    randomizer
        For `Local`: `"one-step"` (a device tells one step of its episode) or `"additive"` (noise on every count).
    confidence
        β, the probability that a bound fails.
    bonus_scale
        A factor on the whole bonus. 1 is the theorem's, with which nothing is learnt unless K is very large (the agent
        says so). By default the practical `statistical_scale` and `privacy_scale` below.
    statistical_scale, privacy_scale
        Factors on the bonus's two parts, each in place of `bonus_scale`: the widths of a count's sampling error, and of
        its noise.
    """

    calibration: Literal["exact", "published"] = "exact"
    schedule: Schedule = "doubling"
    counter: str | CounterDesign | None = None
    pooled: bool | None = None
    randomizer: Literal["one-step", "additive"] = "one-step"
    confidence: float = 0.1
    bonus_scale: float | None = None
    statistical_scale: float | None = None
    privacy_scale: float | None = None

    def __post_init__(self) -> None:
        if self.bonus_scale is not None and not 0.0 <= self.bonus_scale < math.inf:
            raise SpecError(f"bonus_scale is a factor of at least 0; got {self.bonus_scale}")
        if self.schedule not in ("doubling", "every-episode"):
            raise PrivatizationError(f'schedule must be "doubling" or "every-episode"; got {self.schedule!r}')
        if self.schedule == "doubling" and isinstance(self.counter, str):
            raise PrivatizationError('a counter is named for schedule="every-episode"; "doubling" has its own')
        if isinstance(self.privacy, Local) and self.counter is not None:
            raise PrivatizationError("local agents need no counter: every report is used in every later sum")
        if self.calibration == "published" and self.schedule != "every-episode":
            raise PrivatizationError('the published calibration is for schedule="every-episode"')
        if self.calibration == "published" and self.pooled:
            raise PrivatizationError("the published calibration counts per step: pooled=False")
        super().__post_init__()
        self._check()

    @property
    def statistic(self) -> TabularStatistic:
        """What is counted of an episode."""
        if self.calibration == "published":
            families = ("transitions", "rewards", "visits")
            return TabularStatistic(spec=self.spec, families=families, centred=False, pooled=False)
        return TabularStatistic(spec=self.spec, pooled=self.pooled)

    def privatizer(self, *, noise: NoiseSource | None = None, runs: int = 1) -> Privatizer:
        """See `Agent`."""
        if isinstance(self.privacy, Local):
            return LocalPrivatizer(
                self.statistic,
                self.privacy,
                episodes=self.episodes,
                randomizer=self.randomizer,
                calibration=self.calibration,
                schedule=self.schedule,
                noise=noise,
                runs=runs,
            )
        return CentralPrivatizer(
            self.statistic,
            self.privacy,
            episodes=self.episodes,
            counter=self._counter(),
            calibration="exact" if self.privacy.kind == "none" else self.calibration,
            noise=noise,
            runs=runs,
        )

    def server(self) -> LocalServer:
        """See `Agent`."""
        codec = local_codec(self.statistic, self.privacy, randomizer=self.randomizer, calibration=self.calibration)
        return LocalServer(codec, episodes=self.episodes, schedule=self.schedule)

    def _check(self) -> None:
        """Whatever devices, server or privatizer would refuse, they refuse now."""
        _ = self.statistic
        if isinstance(self.privacy, Local):
            self.server()
        else:
            self._check_central()

    def _check_central(self) -> None:
        """What `CentralPrivatizer` would refuse, without drawing noise. A short counter stands in for a long one."""
        if not isinstance(self.privacy, Joint | NonPrivate):
            raise PrivatizationError(f"privacy is Joint, Local or NonPrivate; got {self.privacy!r}")
        if self.calibration not in ("exact", "published"):
            raise PrivatizationError(f'calibration must be "exact" or "published"; got {self.calibration!r}')
        chosen = self._counter()
        design = design_for(chosen, episodes=min(self.episodes, 64)) if isinstance(chosen, str) else chosen
        if design.length > self.episodes:
            raise PrivatizationError(f"the counter releases after {design.length} of {self.episodes} episodes")
        if self.calibration == "published" and self.privacy.kind != "none":
            published.central(self.statistic, self.privacy, design, self.episodes)
        else:
            calibrate(self.privacy, self.statistic.sensitivity(self.privacy.neighbours), counter=design)

    def _counter(self) -> str | CounterDesign:
        if self.counter is not None:
            return self.counter
        if self.schedule == "doubling":
            return "doubling"
        if self.calibration == "published":
            return "tree"
        if self.privacy.kind == "none":
            return counters.running_sum(max(self.episodes - 1, 1))
        return "k-ary" if self.privacy.kind == "pure" else "blt"

    def _optimism(self) -> dict[str, Any]:
        statistical = STATISTICAL_SCALE if self.bonus_scale is None else self.bonus_scale
        privacy = PRIVACY_SCALE if self.bonus_scale is None else self.bonus_scale
        return {
            "spec": self.spec,
            "episodes": self.episodes,
            "confidence": self.confidence,
            "statistical_scale": statistical if self.statistical_scale is None else self.statistical_scale,
            "privacy_scale": privacy if self.privacy_scale is None else self.privacy_scale,
        }


STATISTICAL_SCALE = 0.03
PRIVACY_SCALE = 0.003
"""The default factors on the bonuses' two parts: `docs/guides/bonuses.md` has the sweep that they come from."""


@dataclass(frozen=True, kw_only=True, eq=False)
class UCBVI(OptimisticAgent):
    """Private-UCB-VI: optimistic value iteration (000, Algorithm 2; without privacy, Azar et al. 2017).

    Examples
    --------
    >>> import numpy as np
    >>> import tacit
    >>> world = tacit.mdp.riverswim(states=6, horizon=20)
    >>> agent = UCBVI(world.spec, episodes=20_000, privacy=tacit.Joint(epsilon=1))
    >>> ticket = agent.begin()
    >>> ticket.policy.shape
    (20, 6)
    >>> agent.observe(ticket, (np.zeros(21, int), np.zeros(20, int), np.zeros(20)))
    >>> agent.statement.users
    1
    """

    def learner(self) -> learners.UCBVI:
        """See `Agent`."""
        return learners.UCBVI(**self._optimism())


@dataclass(frozen=True, kw_only=True, eq=False)
class UCBPO(OptimisticAgent):
    """Private-UCB-PO: optimistic policy optimisation (000, Algorithm 1; without privacy, Efroni et al. 2020).

    Parameters
    ----------
    eta_scale
        A factor on the learning rate η = √(2 ln A/(H²K)).
    """

    eta_scale: float = 1.0

    def learner(self) -> learners.UCBPO:
        """See `Agent`."""
        return learners.UCBPO(**self._optimism(), eta_scale=self.eta_scale)
