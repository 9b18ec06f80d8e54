"""The papers' experiments: one folder for each, with its settings, how it is run, and what is wrong in the text.

`tacit reproduce 000` on the command line, or `reproduce("000", out="tacit-out")` here.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from tacit.papers.reproduction import Reproduction
from tacit.simulation import Engine
from tacit.simulation.progress import Progress

__all__ = ["PAPERS", "Reproduction", "reproduce"]

PAPERS = {
    "000": "Private regret minimization in episodic MDPs, Figure 2: UCB-VI and UCB-PO in RiverSwim",
    "001": "Offline reinforcement learning with differential privacy, Figure 1: PEVI, VAPVI, DP-VAPVI; and DP-APVI",
}
"""What can be reproduced: number → what it is."""


def reproduce(
    number: str,
    *,
    out: Path | str = "tacit-out",
    quick: bool = False,
    seed: int = 0,
    engine: Engine | int | None = None,
    progress: bool | Progress | None = None,
) -> Reproduction:
    """Run a paper's experiment, and write its figures and data.

    Parameters
    ----------
    number
        One of `PAPERS`.
    out
        A folder; finished cells that are there are not run again.
    quick
        Fewer runs of fewer episodes, in under two minutes on two cores: the same code, other numbers.
    seed
        Of all simulations.
    engine
        All cores by default.
    progress
        A bar on stderr; by default where that is a terminal.
    """
    if number not in PAPERS:
        raise ValueError(f"{number!r} is none of the papers that can be reproduced: {', '.join(PAPERS)}")
    paper = import_module(f"tacit.papers.p{number}")
    found: Reproduction = paper.run(out=Path(out), quick=quick, seed=seed, engine=engine, progress=progress)
    return found
