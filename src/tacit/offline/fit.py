"""What comes of training: policies, a statement, and a report of how much they rest on; all made of releases."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tacit.learners import LinearPlan, PessimisticPlan
from tacit.mdp import planning
from tacit.mdp.spec import EpisodeSpec
from tacit.offline.policy import OfflinePolicy
from tacit.privacy.statements import Statement
from tacit.releases import TabularRelease

__all__ = ["Fit", "Report"]


@dataclass(frozen=True, kw_only=True)
class Report:
    """How much a policy rests on, in the model that was released. Nothing here costs privacy.

    `pessimistic_value` is what the plan is worth in its own pessimistic model, rewards scaled to [0, 1] (with the
    theorem's rule, a lower bound of what it earns);
    `deferred` the share of steps at which the fallback is followed; `cells_seen` of `cells` have more visits than noise
    alone makes.
    """

    pessimistic_value: float
    deferred: float
    cells: int
    cells_seen: int
    noise_std: float | None
    episodes: int

    def __str__(self) -> str:
        noise = (
            "" if self.noise_std is None else f"; the noise of a count has a standard deviation of {self.noise_std:.3g}"
        )
        return "\n".join(
            [
                f"{self.episodes:,} episodes{noise}.",
                f"{self.cells_seen:,} of {self.cells:,} (step, state, action) have more visits than noise makes.",
                f"The fallback is followed in {self.deferred:.0%} of the steps that the policy is expected to take.",
                f"In its own pessimistic model it earns {self.pessimistic_value:.4g} (rewards scaled to [0, 1]).",
            ]
        )


@dataclass(frozen=True, kw_only=True)
class Fit:
    """A trained policy for each run of the data; people's data are one run."""

    spec: EpisodeSpec
    plan: PessimisticPlan | LinearPlan
    statement: Statement
    release: TabularRelease | None = None

    @property
    def policy(self) -> OfflinePolicy:
        """What was learnt, if there is one run."""
        if len(self.plan.policy) != 1:
            raise ValueError(f"there are {len(self.plan.policy)} runs: say policies[i]")
        return self.policies[0]

    @cached_property
    def policies(self) -> list[OfflinePolicy]:
        """What was learnt, run by run."""
        return [OfflinePolicy(self.spec, table) for table in self.plan.policy]

    def report(self, run: int = 0) -> Report:
        """How much a run's policy rests on."""
        visited = self._occupancy(run)
        start = visited[0].sum(axis=1)
        return Report(
            pessimistic_value=float(start @ self.plan.values[run, 0]),
            deferred=float((visited.sum(axis=2) * self.plan.deferred[run]).sum() / self.spec.horizon),
            cells=self.plan.evidence[run].size,
            cells_seen=int((self.plan.evidence[run] > 1.0).sum()),
            noise_std=None if self.release is None else float(self.release.errors["transitions"].std),
            episodes=self.statement.users,
        )

    def to_json(self) -> dict[str, Any]:
        """The report and the statement, for files beside a policy."""
        return {"report": vars(self.report()), "statement": self.statement.to_json()}

    def _occupancy(self, run: int) -> NDArray[np.float64]:
        """Where the policy goes, (H, S, A), in the released model: rows of noisy counts, made distributions.

        Linear learners release no model: there all states are taken alike.
        """
        if self.release is None:
            return np.asarray(self.plan.policy[run] / self.spec.states)
        counts = np.clip(self.release.transitions[run : run + 1], 0.0, None)
        rows = counts + 1e-9 + self.release.errors["transitions"].std / counts.shape[-1]
        kernel = rows / rows.sum(axis=-1, keepdims=True)
        law = self.spec.start_law
        start = np.full(self.spec.states, 1.0 / self.spec.states) if law is None else law
        visited: NDArray[np.float64] = planning.occupancies(kernel, start, self.plan.policy[run : run + 1])[0]
        return visited
