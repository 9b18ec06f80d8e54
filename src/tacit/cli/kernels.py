"""Compiled code: load it before anything is run, and if it has to be compiled first, say so."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from tacit.cli.shared import tell

__all__ = ["KERNELS", "compiling_is_told"]

KERNELS = (
    "tacit.learners._kernels",
    "tacit.mdp._planning_kernels",
    "tacit.mdp._rollout_kernels",
    "tacit.privacy._kernels",
    "tacit.privacy._ziggurat",
    "tacit.statistics._kernels",
)


@contextmanager
def compiling_is_told() -> Iterator[None]:
    """A line on stderr as soon as Numba really compiles something of ours; nothing where its cache has it all.

    Loaded here, kernels are in the cache before other processes look for them.
    """
    from numba.core import event

    class Once(event.Listener):  # type: ignore[misc]  # numba has no types
        told = False

        def on_start(self, found: Any) -> None:
            if not self.told and found.data["dispatcher"].py_func.__module__.startswith("tacit."):
                self.told = True
                tell("compiling, once after an installation: this takes some seconds …")

        def on_end(self, found: Any) -> None:
            pass

    with event.install_listener("numba:compile", Once()):
        for module in KERNELS:
            import_module(module)
        yield
