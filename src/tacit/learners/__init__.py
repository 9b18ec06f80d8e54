"""Learners read releases, plan, and return policies. They never see a trajectory.

The room's rule is enforced by import-linter: `tacit.releases`, `tacit.mdp.spec` and `tacit.mdp.planning` may be
imported here; statistics, privatizers, mechanisms and worlds may not.
"""

from tacit.learners.optimism import Optimism, Widths
from tacit.learners.protocol import Learner, LearnerState, NothingLearnt, Policy, Uniforms
from tacit.learners.ucbpo import UCBPO, PolicyState
from tacit.learners.ucbvi import UCBVI, ValueState

__all__ = [
    "UCBPO",
    "UCBVI",
    "Learner",
    "LearnerState",
    "NothingLearnt",
    "Optimism",
    "Policy",
    "PolicyState",
    "Uniforms",
    "ValueState",
    "Widths",
]
