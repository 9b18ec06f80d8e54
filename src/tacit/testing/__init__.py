"""Conformance suites for privatizers (and later agents), ours and third parties'."""

from tacit.testing.people import GramPeople, People, TabularPeople, all_trajectories
from tacit.testing.privatizers import CHECKS, ConformanceError, Subject, check_privatizer
from tacit.testing.probe import ProbeNoise, worst_loss

__all__ = [
    "CHECKS",
    "ConformanceError",
    "GramPeople",
    "People",
    "ProbeNoise",
    "Subject",
    "TabularPeople",
    "all_trajectories",
    "check_privatizer",
    "worst_loss",
]
