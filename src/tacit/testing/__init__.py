"""Conformance suites for privatizers and agents, ours and third parties'."""

from tacit.testing.agents import AGENT_CHECKS, AgentSubject, check_agent
from tacit.testing.failures import ConformanceError
from tacit.testing.people import GramPeople, People, TabularPeople, all_trajectories
from tacit.testing.privatizers import CHECKS, Subject, check_privatizer
from tacit.testing.probe import ProbeNoise, worst_loss

__all__ = [
    "AGENT_CHECKS",
    "CHECKS",
    "AgentSubject",
    "ConformanceError",
    "GramPeople",
    "People",
    "ProbeNoise",
    "Subject",
    "TabularPeople",
    "all_trajectories",
    "check_agent",
    "check_privatizer",
    "worst_loss",
]
