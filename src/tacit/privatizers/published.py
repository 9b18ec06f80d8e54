"""The papers' published constants, as they are printed, and what noise they give.

They are here to be compared with, and a statement of theirs names the ε that they really spend.
"""

from __future__ import annotations

import math

from tacit.privacy.calibration import Calibration, price
from tacit.privacy.counters import CounterDesign, Tree
from tacit.privacy.errors import ErrorLaw, LaplaceSum, PrintedSum
from tacit.privacy.guarantees import Guarantee
from tacit.privatizers.protocol import PrivatizationError
from tacit.statistics import GramStatistic, Statistic, TabularStatistic

__all__ = ["central", "local", "printed"]


def central(
    statistic: Statistic, guarantee: Guarantee, counter: CounterDesign, episodes: int
) -> dict[str, Calibration]:
    """000 for tabular counts, 004 for regressions; both with binary trees.

    000 Lemma 5.1: Laplace noise 3H·log₂K/ε on each of transitions, rewards and visits. (The paper writes log; the
    natural logarithm would spend 3.03ε instead of 2.10ε at K = 20,000.) Replacing a user moves each family by 2H, not
    H, in each of bit_length(K−1) nodes.

    004 §6: Gaussian noise H/ε·√(32 m ln(4H/δ)), m = ⌈log₂K⌉, in units of each family's norm.
    """
    if not isinstance(counter, Tree) or set(counter.radices) - {2}:
        raise PrivatizationError('the published calibrations are for binary trees: counter="tree"')
    if isinstance(statistic, GramStatistic):
        if guarantee.kind != "approximate" or guarantee.epsilon is None:
            raise PrivatizationError(f"004's constants are for (epsilon, delta); {guarantee} is something else")
        H, m = statistic.steps, math.ceil(math.log2(max(episodes, 2)))
        scale = H / guarantee.epsilon * math.sqrt(32.0 * m * math.log(4.0 * H / guarantee.delta))
        once = counter.participation("l2")
        found = _each(statistic, guarantee, "gaussian", scale, once, "published (004)")
        if statistic.vector_weight:  # noised as k·Σ φ y, so that k times the noise is the paper's on Σ φ y
            sensitivity = statistic.family_sensitivity("vector", guarantee.neighbours)
            weighted = scale * statistic.vector_weight
            found["vector"] = price("gaussian", weighted, sensitivity, participation=once, rule="published (004)")
        return found
    scale = 3.0 * _horizon(statistic) * math.log2(max(episodes, 2)) / _pure(guarantee)
    return _each(statistic, guarantee, "laplace", scale, counter.participation("l1"), "published (000 Lemma 5.1)")


def local(statistic: Statistic, guarantee: Guarantee) -> dict[str, Calibration]:
    """000 Lemma 5.4: Laplace noise 3H/ε on every cell of three families, each of which a user moves by 2H."""
    scale = 3.0 * _horizon(statistic) / _pure(guarantee)
    return _each(statistic, guarantee, "laplace", scale, 1.0, "published (000 Lemma 5.4)")


def printed(law: ErrorLaw, calibration: Calibration, *, terms: float) -> ErrorLaw:
    """000's precision level for its own noise, E₁ and E₂ of Lemmas 5.1 and 5.4; other laws as they are.

    The paper's log K is log₂K here, as in its noise; the text leaves the base open.

    E₁ = (3H/ε)√(8 log³K ln(6SAT/β)) is b√(8 n ln(2/β')) with b = 3H log K/ε, n = log K and β' = β/(3SAT); devices have
    b = 3H/ε and n = K. E₂ has S times as many events.
    """
    if not calibration.rule.startswith("published (000") or not isinstance(law, LaplaceSum):
        return law
    return PrintedSum(scale=law.scale, terms=law.terms, unit=law.unit, printed=terms)


def _pure(guarantee: Guarantee) -> float:
    if guarantee.kind != "pure" or guarantee.epsilon is None:
        raise PrivatizationError(f"000's constants are for a pure guarantee; {guarantee} is none")
    return guarantee.epsilon


def _horizon(statistic: Statistic) -> int:
    """H, if this is the statistic that 000 counts."""
    three = {"transitions", "rewards", "visits"}
    if (
        not isinstance(statistic, TabularStatistic)
        or set(statistic.families) != three
        or statistic.centred
        or statistic.pooled
    ):
        raise PrivatizationError(
            "the published calibration is for transitions, rewards (not centred) and visits, per step: "
            'TabularStatistic(families=("transitions", "rewards", "visits"), centred=False, pooled=False)'
        )
    return statistic.spec.horizon


def _each(
    statistic: Statistic, guarantee: Guarantee, mechanism: str, scale: float, participation: float, rule: str
) -> dict[str, Calibration]:
    """Priced family by family: their losses add up."""
    return {
        family: price(
            mechanism,
            scale,
            statistic.family_sensitivity(family, guarantee.neighbours),
            participation=participation,
            rule=rule,
        )
        for family in statistic.families
    }
