"""Learners read releases, plan, and return policies. They never see a trajectory.

The room's rule is enforced by import-linter: `tacit.releases`, `tacit.mdp.spec` and `tacit.mdp.planning` may be
imported here; statistics, privatizers, mechanisms and worlds may not.
"""

from tacit.learners._regression import LinearPlan
from tacit.learners.apvi import APVI, PessimisticPlan
from tacit.learners.linear import LinearPVI
from tacit.learners.optimism import Optimism, Widths
from tacit.learners.pevi import PEVI
from tacit.learners.protocol import Learner, LearnerState, NothingLearnt, Policy, Uniforms
from tacit.learners.ucbpo import UCBPO, PolicyState
from tacit.learners.ucbvi import UCBVI, ValueState
from tacit.learners.vapvi import VAPVI

__all__ = [
    "APVI",
    "PEVI",
    "UCBPO",
    "UCBVI",
    "VAPVI",
    "Learner",
    "LearnerState",
    "LinearPVI",
    "LinearPlan",
    "NothingLearnt",
    "Optimism",
    "PessimisticPlan",
    "Policy",
    "PolicyState",
    "Uniforms",
    "ValueState",
    "Widths",
]
