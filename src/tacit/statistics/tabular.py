"""What one trajectory contributes to tabular counts, and exactly how much two trajectories may differ.

Families (ALGORITHMS.md §1): `transitions` N[h,s,a,s'], `rewards` Σ r or the centred Σ (r − ½), `visits` N[h,s,a] and
`starts` (one-hot s_1); r is scaled to [0, 1] first. Pooled statistics sum over h. Visits can be had from the
transitions, and need a family of their own only where there are many states.

Sensitivity. Let n_v, n'_v be the visits of pair v = (s,a) (and step, unless pooled) in two trajectories, and Φ the
largest value of Σ n_v²: H per step; H² pooled; with at most m visits counted per pair, q m² + r² with H = q m + r.

Add/remove (one of the two is ⊥): L1 sums 1, 1 (½ centred), 1 per step over transitions, rewards, visits; L2² sums
1, 1 (¼), 1 times Φ. Attained by a trajectory that stays in one pair.

Replace-one, L1: 2, 2 (1), 2 per step. In different pairs everything adds up; in the same pair the visits
cancel and rewards differ by at most 1, so nothing is larger.

Replace-one, L2²: Σ_v (n_v² + n'_v²) ≤ 2Φ bounds the transitions. Visits (n_v − n'_v)² and raw rewards, which are in
[0, n_v], are within the same; centred rewards, in ±n_v/2, are within (n_v + n'_v)²/4. Adding up:

* centred rewards alone: Φ, attained on one and the same path with r = 0 and r = 1;
* everything else but the next item: the sum over families of 2, 2 (½), 2, times Φ, attained in different pairs. (The
  cross term of the centred rewards, +n n'/2, is outweighed by that of the visits, −2 n n'.)
* transitions with centred rewards and no visits: two trajectories in the *same* pair that go to different states
  with opposite rewards give 2 + 1 = 3 > 2½.
  Per step, they are in different states at the next step, so 3 and 2½ alternate: 2½H + ½⌈H/2⌉. (If s_1 is counted as
  well, starting apart is worth more: 2 + 2½H + ½⌊H/2⌋.)
  Pooled, all steps in one pair with different next states is impossible for H ≥ 2: a pair that is left has to be
  come back to, which takes time. Counting that time (`docs/proofs/tabular-sensitivity.md`) gives 2½H², attained in
  different pairs; for H = 1 it is 3. With a cap, visits over the cap give the time to come back: 3Φ, at most
  20 % above what is attained (2½Φ in different pairs).

⊥ is a possible value too; it never gives more, except in a world of one single pair.

All of this is attained where there are two states and, under a cap, enough pairs (S·A ≥ 2⌈H/m⌉); smaller worlds move
less than is declared.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tacit.mdp.spec import EpisodeSpec, MomentBound, SpecError
from tacit.mdp.trajectories import Trajectories
from tacit.privacy.counters import Entries
from tacit.privacy.errors import Bernstein, ErrorLaw
from tacit.privacy.guarantees import Neighbours
from tacit.privacy.sensitivity import Sensitivity
from tacit.releases import TabularRelease
from tacit.statistics.reading import Episodes, read

__all__ = ["Family", "TabularStatistic"]

Family = Literal["transitions", "rewards", "visits", "starts"]
_ORDER: tuple[Family, ...] = ("transitions", "rewards", "visits", "starts")


@dataclass(frozen=True, kw_only=True)
class TabularStatistic:
    """Counts of states, actions and rewards.

    Parameters
    ----------
    spec
        The public shape of an episode.
    families
        Which counts. Default: transitions and rewards.
    pooled
        Sum over steps; by default where the world is stationary.
    centred
        Count r − ½ instead of r: the sensitivity of transitions and rewards falls from 4H to 3H.
    cap
        Count at most this many visits of a pair per episode (pooled statistics only).
    reward_unit
        The public grid, a power of two, that scaled rewards are rounded to.

    Examples
    --------
    >>> spec = EpisodeSpec(states=6, actions=2, horizon=20)
    >>> TabularStatistic(spec=spec).sensitivity()
    Sensitivity(l0=80, l1=60.0, l2_squared=1000.0)
    >>> TabularStatistic(spec=spec, pooled=False).sensitivity().l2_squared
    55.0
    """

    spec: EpisodeSpec
    families: tuple[str, ...] = ("transitions", "rewards")
    pooled: bool | None = None
    centred: bool = True
    cap: int | None = None
    reward_unit: float = 2.0**-10

    def __post_init__(self) -> None:
        unknown = set(self.families) - set(_ORDER)
        if unknown or not self.families:
            raise SpecError(f"families are a choice of {_ORDER}; got {self.families}")
        object.__setattr__(self, "families", tuple(f for f in _ORDER if f in self.families))
        if self.pooled is None:
            object.__setattr__(self, "pooled", self.spec.stationary)
        if self.pooled and not self.spec.stationary:
            raise SpecError("counts may be pooled over steps only where the spec declares the world stationary")
        if self.cap is not None and (not self.pooled or self.cap < 1):
            raise SpecError("a cap counts visits per episode: it is at least 1, and only for pooled counts")
        if "rewards" in self.families and isinstance(self.spec.rewards, MomentBound):
            raise SpecError("rewards without a declared range need a truncated statistic")
        if math.frexp(self.reward_unit)[0] != 0.5 or self.reward_unit > 0.5:
            raise SpecError(f"the grid of rewards must be a power of two, at most 1/2; got {self.reward_unit}")
        if self.spec.horizon / self.reward_unit > 2.0**42:
            raise SpecError("the grid of rewards must be coarser: sums of many people would not fit 64 bits")

    def to_json(self) -> dict[str, Any]:
        """Plain values; `from_json` reads them."""
        return {"statistic": "tabular", **asdict(self), "spec": self.spec.to_json()}

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> TabularStatistic:
        """The statistic that `to_json` described."""
        fields = {name: value for name, value in data.items() if name != "statistic"}
        return cls(**{**fields, "spec": EpisodeSpec.from_json(data["spec"]), "families": tuple(data["families"])})

    def shape(self, family: str) -> tuple[int, ...]:
        """Axes of a family: steps (1 if pooled), states, actions[, next states]; states only for starts."""
        S, A, H = self.spec.states, self.spec.actions, self.spec.horizon
        steps = 1 if self.pooled else H
        return {
            "transitions": (steps, S, A, S),
            "rewards": (steps, S, A),
            "visits": (steps, S, A),
            "starts": (S,),
        }[family]

    def cells(self, family: str) -> int:
        """How many numbers a family has."""
        return math.prod(self.shape(family))

    def unit(self, family: str) -> float:
        """The lattice that a family's contributions are multiples of."""
        return self.reward_unit if family == "rewards" else 1.0

    def largest(self, family: str) -> float:
        """The largest absolute contribution of an episode to a cell."""
        visits = 1.0 if family == "starts" else float(self._visits)
        return visits * (0.5 if family == "rewards" and self.centred else 1.0)

    def read(self, raw: Trajectories | Sequence[Any]) -> Episodes:
        """See `tacit.statistics.reading`."""
        return read(raw, self.spec)

    def contributions(self, batch: Episodes) -> dict[str, Entries | NDArray[np.int64]]:
        """See `Statistic`; one entry for each step and family."""
        from tacit.statistics._kernels import number_cells

        S, A, H = self.spec.states, self.spec.actions, self.spec.horizon
        states, actions, readable = (np.ascontiguousarray(a) for a in (batch.states, batch.actions, batch.readable))
        pairs, transitions = np.empty(actions.shape, dtype=np.int64), np.empty(actions.shape, dtype=np.int64)
        number_cells(states, actions, readable, S, A, bool(self.pooled), self.cap or H, pairs, transitions)
        flat = (batch.runs, -1)
        found: dict[str, Entries | NDArray[np.int64]] = {}
        for family in self.families:
            if family == "starts":
                cells = np.where(readable, states[..., 0], -1)
            else:
                cells = (transitions if family == "transitions" else pairs).reshape(flat)
            if family == "rewards":
                values = self._on_grid(batch.rewards).reshape(flat)
            else:
                values = np.ones(cells.shape, dtype=np.int64)
            found[family] = Entries(cells, values)
        return found

    def release(
        self, episodes: int, fields: Mapping[str, NDArray[np.float64]], errors: Mapping[str, ErrorLaw]
    ) -> TabularRelease:
        """See `Statistic`. Visits are summed up from transitions unless they were counted."""
        if "transitions" not in fields:
            raise SpecError("a release for learners needs the transitions among its families")
        shaped = {family: fields[family].reshape(-1, *self.shape(family)) for family in self.families}
        laws = dict(errors)
        if "visits" not in shaped:
            shaped["visits"] = _summed(shaped["transitions"])
            law = errors["transitions"]
            if not isinstance(law, Bernstein):  # answers about symbols are not independent: their codec tells the law
                laws["visits"] = law.summed(self.spec.states)
        return TabularRelease(
            episodes=episodes,
            transitions=shaped["transitions"],
            visits=shaped["visits"],
            rewards=shaped.get("rewards"),
            centred=self.centred,
            starts=shaped.get("starts"),
            errors=laws,
        )

    def sensitivity(self, neighbours: Neighbours = "replace-one") -> Sensitivity:
        """Of all families as one vector; derived above."""
        return self._sensitivity(self.families, neighbours)

    def family_sensitivity(self, family: str, neighbours: Neighbours = "replace-one") -> Sensitivity:
        """Of one family alone: what a paper that noises families one by one has to compose."""
        return self._sensitivity((family,), neighbours)

    @property
    def _visits(self) -> int:
        """m: counted visits of one cell per episode, at most."""
        if not self.pooled:
            return 1
        return min(self.cap or self.spec.horizon, self.spec.horizon)

    @property
    def _squares(self) -> int:
        """Φ."""
        total, m = self._counted, self._visits
        return total if not self.pooled else (total // m) * m * m + (total % m) ** 2

    @property
    def _counted(self) -> int:
        """Counted steps of an episode, at most: all, unless a cap fills every pair."""
        return (
            min(self.spec.horizon, self._visits * self.spec.states * self.spec.actions)
            if self.pooled
            else self.spec.horizon
        )

    def _on_grid(self, rewards: NDArray[np.float64]) -> NDArray[np.int64]:
        centred = rewards - 0.5 if self.centred else rewards
        return np.rint(centred / self.reward_unit).astype(np.int64)

    def _sensitivity(self, families: tuple[str, ...], neighbours: Neighbours) -> Sensitivity:
        H, phi = self._counted, self._squares
        counts = [family for family in families if family != "starts"]
        start = 1 if "starts" in families else 0
        reach = {"transitions": 1.0, "rewards": 0.5 if self.centred else 1.0, "visits": 1.0}
        removed = Sensitivity(
            l0=H * len(counts) + start,
            l1=H * sum(reach[family] for family in counts) + start,
            l2_squared=phi * sum(reach[family] ** 2 for family in counts) + start,
        )
        if neighbours == "add-or-remove-one":
            return removed
        if self.spec.states * self.spec.actions == 1:  # all trajectories visit the one pair: only rewards differ
            some = 1 if "rewards" in counts else 0
            return Sensitivity(
                l0=removed.l0, l1=max(removed.l1, H * some), l2_squared=max(removed.l2_squared, phi * some)
            )
        doubled = 2.0 * removed.l2_squared
        if counts == ["rewards"] and self.centred:
            doubled = float(phi) + 2.0 * start
        elif counts == ["transitions", "rewards"] and self.centred:
            doubled = self._same_pair(start)
        return Sensitivity(l0=2 * removed.l0, l1=2.0 * removed.l1, l2_squared=doubled)

    def _same_pair(self, start: int) -> float:
        """Transitions with centred rewards, where the same pair may give 3 in place of 2½."""
        H = self.spec.horizon
        if not self.pooled:
            return 2.0 * start + 2.5 * H + 0.5 * (H // 2 if start else -(-H // 2))
        if H == 1:
            return 2.0 * start + (2.5 if start else 3.0)
        return 2.0 * start + min(3.0 * self._squares, 2.5 * H * H)


def _summed(transitions: NDArray[np.float64]) -> NDArray[np.float64]:
    """Over next states: (…, S) → (…)."""
    from tacit.statistics._kernels import sum_rows

    sums = np.empty(transitions.shape[:-1])
    sum_rows(np.ascontiguousarray(transitions).reshape(-1, transitions.shape[-1]), sums.reshape(-1))
    return sums
