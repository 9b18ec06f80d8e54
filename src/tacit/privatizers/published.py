"""The papers' published constants, as they are printed, and what noise they give.

They are here to be compared with, and a statement of theirs names the ε that they really spend.
"""

from __future__ import annotations

import math
from typing import get_args

from tacit.privacy.calibration import Calibration, price
from tacit.privacy.counters import CounterDesign, Tree
from tacit.privacy.guarantees import Guarantee
from tacit.privatizers.protocol import PrivatizationError
from tacit.statistics.tabular import Family, TabularStatistic

__all__ = ["central_000", "local_000"]

_FAMILIES: tuple[Family, ...] = get_args(Family)[:3]


def central_000(
    statistic: TabularStatistic, guarantee: Guarantee, counter: CounterDesign, episodes: int
) -> dict[str, Calibration]:
    """000 Lemma 5.1: binary-tree counters with Laplace noise 3H·log₂K/ε for each of transitions, rewards and visits.

    (The paper writes log; the natural logarithm would spend 3.03ε instead of 2.10ε at K = 20,000.) Replacing a user
    moves each family by 2H, not H, in each of bit_length(K−1) nodes.
    """
    epsilon = _pure(guarantee, "000 Lemma 5.1")
    if not isinstance(counter, Tree) or set(counter.radices) - {2}:
        raise PrivatizationError('the published calibration of 000 is for binary trees: counter="tree"')
    scale = 3.0 * statistic.spec.horizon * math.log2(max(episodes, 2)) / epsilon
    return _price_each(statistic, guarantee, scale, counter.participation("l1"), "published (000 Lemma 5.1)")


def local_000(statistic: TabularStatistic, guarantee: Guarantee) -> dict[str, Calibration]:
    """000 Lemma 5.4 (local randomizer): Laplace noise 3H/ε on every cell of three families, each moved by 2H."""
    epsilon = _pure(guarantee, "000's local randomizer")
    return _price_each(statistic, guarantee, 3.0 * statistic.spec.horizon / epsilon, 1.0, "published (000, local)")


def _pure(guarantee: Guarantee, source: str) -> float:
    if guarantee.kind != "pure" or guarantee.epsilon is None:
        raise PrivatizationError(f"{source} is stated for a pure guarantee; {guarantee} is none")
    return guarantee.epsilon


def _price_each(
    statistic: TabularStatistic, guarantee: Guarantee, scale: float, participation: float, rule: str
) -> dict[str, Calibration]:
    if statistic.families[:3] != _FAMILIES or len(statistic.families) != 3 or statistic.centred or statistic.pooled:
        raise PrivatizationError(
            "the published calibration is for transitions, rewards (not centred) and visits, per step: "
            'TabularStatistic(families=("transitions", "rewards", "visits"), centred=False, pooled=False)'
        )
    return {
        family: price(
            "laplace",
            scale,
            statistic.family_sensitivity(family, guarantee.neighbours),
            participation=participation,
            rule=rule,
        )
        for family in statistic.families
    }
