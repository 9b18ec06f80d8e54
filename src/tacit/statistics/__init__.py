"""What a trajectory contributes to a release, and its exact sensitivity."""

from __future__ import annotations

from typing import Any

from tacit.statistics.gram import GramStatistic, Regressors
from tacit.statistics.protocol import Batch, Statistic, exact
from tacit.statistics.reading import Episodes, Problem, check, read
from tacit.statistics.tabular import TabularStatistic

__all__ = [
    "Batch",
    "Episodes",
    "GramStatistic",
    "Problem",
    "Regressors",
    "Statistic",
    "TabularStatistic",
    "check",
    "exact",
    "read",
    "statistic_from_json",
]


def statistic_from_json(data: dict[str, Any]) -> Statistic:
    """The statistic that `to_json` described."""
    match data["statistic"]:
        case "tabular":
            return TabularStatistic.from_json(data)
        case "gram":
            return GramStatistic.from_json(data)
    raise ValueError(f"no statistic is called {data['statistic']!r}")
