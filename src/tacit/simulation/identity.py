"""What a result must tell to be had again, and by which a sweep knows its cells."""

from __future__ import annotations

import contextlib
import hashlib
import inspect
import json
import sys
from collections.abc import Mapping
from dataclasses import is_dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

import tacit
from tacit.mdp.rollouts import RolloutSource
from tacit.mdp.tabular import TabularMDP
from tacit.online import Agent

__all__ = ["fingerprint", "settings_of"]


def settings_of(agent: Agent, world: RolloutSource, *, runs: int, seed: int) -> dict[str, Any]:
    """What a result must tell to be had again."""
    learner = agent.learner()
    return {
        "agent": agent.to_json(),
        # With what an agent takes by default: that may change from version to version.
        "learner": repr(learner) if is_dataclass(learner) else type(learner).__name__,
        "code": _code_of(agent, learner),
        "world": {"name": getattr(world, "name", type(world).__name__), "fingerprint": fingerprint(world)},
        "runs": int(runs),
        "seed": int(seed),
        "versions": {
            "tacit": tacit.__version__,
            "numpy": np.__version__,
            "python": ".".join(map(str, sys.version_info[:3])),
        },
    }


def _code_of(*things: Any) -> str:
    """Of classes that are not ours: a result of other code is another result. Ours has a version."""
    classes = {kind for thing in things for kind in type(thing).__mro__ if not kind.__module__.startswith("tacit.")}
    digest = hashlib.sha256()
    for kind in sorted(classes - {object}, key=lambda kind: f"{kind.__module__}.{kind.__qualname__}"):
        if kind.__module__ not in sys.stdlib_module_names:
            with contextlib.suppress(OSError, TypeError):  # typed in by hand, and nowhere to be read
                digest.update(inspect.getsource(kind).encode())
    return digest.hexdigest()[:16]


def fingerprint(world: RolloutSource) -> str:
    """The same for the same world, whatever it is called."""
    digest = hashlib.sha256(json.dumps(world.spec.to_json(), sort_keys=True).encode())
    if hasattr(world, "tabular"):  # a linear world, whose own description has functions in it
        digest.update(type(world).__name__.encode())
        world = world.tabular()
    if isinstance(world, TabularMDP):
        kernel: Any = world.kernel
        arrays = [kernel] if isinstance(kernel, np.ndarray) else [kernel.data, kernel.indices, kernel.indptr]
        for array in [*arrays, world.start, *_arrays_of(world.rewards)]:
            digest.update(f"{array.dtype}{array.shape}".encode())
            digest.update(np.ascontiguousarray(array).tobytes())
        digest.update(type(world.rewards).__name__.encode())
    else:
        digest.update(repr(world).encode())
        digest.update(repr(getattr(getattr(world, "env", None), "spec", None)).encode())  # with its keyword arguments
    return digest.hexdigest()[:16]


def _arrays_of(law: Any) -> list[NDArray[Any]]:
    """All that a reward law consists of, in the order of its names; not what it has computed from that."""
    own = {name: value for name, value in sorted(vars(law).items()) if not _is_cached(law, name)}
    return [array for value in own.values() for array in _flat(value)]


def _flat(value: Any) -> list[NDArray[Any]]:
    """The words for an array leave out its middle and its last digits: arrays are taken as they are."""
    if isinstance(value, Mapping):
        return [array for name in sorted(value) for array in (np.array(name), *_flat(value[name]))]
    if isinstance(value, list | tuple):
        return [np.array(len(value)), *(array for item in value for array in _flat(item))]
    return [value if isinstance(value, np.ndarray) else np.array(repr(value))]


def _is_cached(law: Any, name: str) -> bool:
    return isinstance(getattr(type(law), name, None), cached_property)
