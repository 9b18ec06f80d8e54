"""000: Chowdhury & Zhou, *Differentially Private Regret Minimization in Episodic Markov Decision Processes*, Figure 2.

Private-UCB-VI and Private-UCB-PO without privacy, under joint and under local privacy, in RiverSwim. The figure in the
paper comes from code that is no ε-private agent (ALGORITHMS.md §3), and its theorem's constants learn nothing in 20,000
episodes. So it is shown in three versions; `docs/papers/000.md` says what holds of the paper and what does not.
"""

from tacit.papers.p000.figure import run

__all__ = ["run"]
