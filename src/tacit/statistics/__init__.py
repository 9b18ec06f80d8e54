"""What a trajectory contributes to a release, and its exact sensitivity."""

from tacit.statistics.gram import GramStatistic
from tacit.statistics.reading import Episodes, Problem, check, read
from tacit.statistics.tabular import TabularStatistic

__all__ = ["Episodes", "GramStatistic", "Problem", "TabularStatistic", "check", "read"]
