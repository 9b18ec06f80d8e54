"""Learning from logged episodes: data sets and their schemas, training, and evaluation. Loaded when first used."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tacit.offline.checking import Problem
    from tacit.offline.dataset import Dataset
    from tacit.offline.encodings import Bins, Categories, FeatureColumn, Features, SchemaError
    from tacit.offline.evaluation import Estimate, evaluate
    from tacit.offline.fit import Fit, Report
    from tacit.offline.linear import PEVI, VAPVI, LinearPVI
    from tacit.offline.parts import DatasetError
    from tacit.offline.policy import OfflinePolicy
    from tacit.offline.samples import Sample, write_sample
    from tacit.offline.schema import EndState, Schema
    from tacit.offline.tabular import APVI

__all__ = [
    "APVI",
    "PEVI",
    "VAPVI",
    "Bins",
    "Categories",
    "Dataset",
    "DatasetError",
    "EndState",
    "Estimate",
    "FeatureColumn",
    "Features",
    "Fit",
    "LinearPVI",
    "OfflinePolicy",
    "Problem",
    "Report",
    "Sample",
    "Schema",
    "SchemaError",
    "evaluate",
    "write_sample",
]

_MODULES = {
    "checking": ("Problem",),
    "dataset": ("Dataset",),
    "encodings": ("Bins", "Categories", "FeatureColumn", "Features", "SchemaError"),
    "evaluation": ("Estimate", "evaluate"),
    "fit": ("Fit", "Report"),
    "linear": ("LinearPVI", "PEVI", "VAPVI"),
    "parts": ("DatasetError",),
    "policy": ("OfflinePolicy",),
    "samples": ("Sample", "write_sample"),
    "schema": ("EndState", "Schema"),
    "tabular": ("APVI",),
}
_HOME = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOME[name]}"), name)
    globals()[name] = value  # found directly from now on
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
