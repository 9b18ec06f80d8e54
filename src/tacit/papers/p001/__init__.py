"""001: *Offline Reinforcement Learning with Differential Privacy*, Figure 1 (Appendix G), and its tabular twin.

PEVI, VAPVI and DP-VAPVI in the linear MDP of Appendix G, with noise as Algorithm 2 prints it and exactly calibrated, on
up to a hundred times the paper's episodes, beside the rule that we would use. The paper has no experiment for DP-APVI:
ours is RiverSwim and a random world. `docs/papers/001.md` says what holds of the paper and what does not.
"""

from tacit.papers.p001.figure import run

__all__ = ["run"]
