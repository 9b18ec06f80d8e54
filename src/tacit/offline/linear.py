"""Linear worlds: pessimistic regression on declared features, with queries that follow from earlier answers (001)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit import learners
from tacit.mdp.spec import EpisodeSpec
from tacit.mdp.trajectories import Trajectories
from tacit.offline.fit import Fit
from tacit.offline.tabular import Progress, source_of, system_uniforms
from tacit.privacy.guarantees import Central, Guarantee, NonPrivate
from tacit.privacy.noise import NoiseSource
from tacit.privatizers import AdaptivePrivatizer, PrivatizationError, converse

if TYPE_CHECKING:
    from tacit.offline.dataset import Dataset

__all__ = ["PEVI", "VAPVI", "LinearPVI"]


@dataclass(frozen=True, kw_only=True, eq=False)
class _Linear:
    """What the linear trainers share.

    Parameters
    ----------
    spec
        The public shape of an episode.
    features
        φ(s, a), declared: (S, A, d).
    privacy
        `Central`, or `NonPrivate` to compare with.
    calibration
        `"exact"`, or `"published"`: noise as 001's Algorithm 2 prints it; the statement names what it really spends.
    options
        Further settings of the learner, in `tacit.learners`.
    """

    spec: EpisodeSpec = field(kw_only=False)
    features: ArrayLike
    privacy: Guarantee
    calibration: Literal["exact", "published"] = "exact"
    options: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.privacy, Central | NonPrivate):
            raise PrivatizationError(f"offline training keeps Central guarantees, or none; got {self.privacy}")
        _ = self.learner

    @property
    def learner(self) -> Any:
        """What asks and plans; it sees releases only."""
        raise NotImplementedError

    def fit(
        self,
        data: Dataset | Trajectories,
        *,
        noise: NoiseSource | None = None,
        uniforms: Callable[[tuple[int, ...]], NDArray[np.float64]] | None = None,
        progress: Progress | None = None,
    ) -> Fit:
        """Train on a data set, or on trajectories (runs, episodes, …); options are those of `APVI.fit`."""
        runs, total, batches, per_user = source_of(data, self.spec)
        if self.options.get("split") and not isinstance(data, Trajectories):
            raise PrivatizationError(
                "halves are told by place, and the places of a data set follow everybody's rows: give split=True "
                "trajectories in an order that no person can change"
            )
        learner = self.learner
        privatizer = AdaptivePrivatizer(
            self.spec,
            learner.features,
            self.privacy if per_user is None else replace(self.privacy, unit="user"),
            episodes=total,
            calibration=self.calibration,
            noise=noise,
            runs=runs,
            episodes_per_user=per_user,
        )
        for batch in batches:
            privatizer.observe(batch)
            if progress is not None:
                progress(privatizer.users, total)
        plan = converse(learner.plan(uniforms or system_uniforms(runs)), privatizer)
        return Fit(spec=self.spec, plan=plan, statement=privatizer.statement)


@dataclass(frozen=True, kw_only=True, eq=False)
class LinearPVI(_Linear):
    """The rule that works under the noise that privacy needs: one regression for each step.

    Examples
    --------
    >>> import tacit
    >>> world = tacit.mdp.linear_random(seed=0, horizon=4)
    >>> behaviour = tacit.mdp.linear_random_behaviour(horizon=4)
    >>> people = world.tabular().rollout(behaviour, episodes=500, streams=tacit.mdp.Streams(0, runs=1))
    >>> fit = LinearPVI(world.spec, features=world.phi, privacy=Central(rho=1)).fit(people)
    >>> fit.policy.probabilities.shape, fit.statement.holds
    ((4, 2, 100), True)
    """

    @property
    def learner(self) -> learners.LinearPVI:
        """See `tacit.learners`."""
        return learners.LinearPVI(
            spec=self.spec, declared_features=np.asarray(self.features, dtype=np.float64), **self.options
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class VAPVI(_Linear):
    """DP-VAPVI (001, Algorithm 2), and VAPVI where nothing is private."""

    @property
    def learner(self) -> learners.VAPVI:
        """See `tacit.learners`."""
        return learners.VAPVI(spec=self.spec, features=np.asarray(self.features, dtype=np.float64), **self.options)


@dataclass(frozen=True, kw_only=True, eq=False)
class PEVI(_Linear):
    """PEVI (Jin, Yang & Wang 2021), with noise where a guarantee is asked for: 001's baseline."""

    @property
    def learner(self) -> learners.PEVI:
        """See `tacit.learners`."""
        return learners.PEVI(spec=self.spec, features=np.asarray(self.features, dtype=np.float64), **self.options)
