"""Off-policy evaluation: what a policy would have earned, from trajectories of people who followed another one.

Trajectories are **raw data**: an estimate made of them is not private unless it is asked for with a guarantee. Then the
clipped per-decision estimates of all episodes are averaged under noise, and the statement says what that spends.

Methods (Precup, Sutton & Singh 2000; Jiang & Li 2016; Thomas & Brunskill 2016), ρ_t = Π_{i≤t} π(a_i|s_i)/μ(a_i|s_i):

* `"is"`: mean of ρ_H Σ r_t;
* `"wis"`: the same over mean ρ_H: biased, bounded by the best return seen, far less noisy;
* `"pdis"`: mean of Σ ρ_t r_t: unbiased, and what comes late weighs on nothing that came before;
* `"wpdis"`: each ρ_t over its own mean;
* `"fqe"`: fitted Q: the value of π in the model of counts; what nobody did is worth `unseen`;
* `"dr"`: doubly robust: V̂(s_0) + Σ ρ_t (r_t + V̂(s_{t+1}) − Q̂(s_t, a_t)), Q̂ fitted on the other half of the episodes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit.mdp.spec import EpisodeSpec, MomentBound, SpecError
from tacit.mdp.trajectories import Trajectories
from tacit.offline.policy import OfflinePolicy
from tacit.privacy.calibration import calibrate
from tacit.privacy.counters import error_at, single
from tacit.privacy.guarantees import Central, NonPrivate
from tacit.privacy.noise import NoiseSource, SecureNoise, lattice_scale
from tacit.privacy.sensitivity import Sensitivity
from tacit.privacy.statements import Statement
from tacit.privatizers import PrivatizationError
from tacit.privatizers.protocol import check_unit
from tacit.statistics.reading import Episodes, read, silence

__all__ = ["METHODS", "Estimate", "evaluate"]

Array = NDArray[np.float64]
Method = Literal["is", "wis", "pdis", "wpdis", "dr", "fqe"]
METHODS: tuple[Method, ...] = ("is", "wis", "pdis", "wpdis", "dr", "fqe")


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """A value with an interval, and whether it may be shown.

    `low` and `high` are a bootstrap percentile interval over episodes; for a private estimate they also allow for its
    noise. `effective` is how many episodes the weights are worth, (Σρ)²/Σρ²: a few mean that the interval is a guess.
    """

    value: float
    low: float
    high: float
    level: float
    method: str
    episodes: int
    effective: float
    private: bool
    statement: Statement | None = None
    note: str = ""

    def __str__(self) -> str:
        shown = "private" if self.private else "NOT PRIVATE: for the owner of the data only"
        text = f"{self.value:.4g}, {self.level:.0%} between {self.low:.4g} and {self.high:.4g} ({self.method}; {shown})"
        return f"{text}. {self.note}" if self.note else text


def evaluate(
    policy: OfflinePolicy | ArrayLike,
    data: Trajectories | Iterable[Trajectories],
    *,
    spec: EpisodeSpec,
    method: Method = "wpdis",
    behaviour: ArrayLike | None = None,
    level: float = 0.95,
    resamples: int = 200,
    seed: int = 0,
    unseen: float = 0.0,
    privacy: Central | NonPrivate | None = None,
    clip: float | None = None,
    noise: NoiseSource | None = None,
    episodes_per_user: int | None = None,
) -> Estimate:
    """Estimate what a policy would have earned.

    Parameters
    ----------
    policy
        (H, S) or (H, S, A), or an `OfflinePolicy`.
    data
        Trajectories of one run, or batches of them, such as `dataset.batches()`.
    spec
        The public shape of an episode. Rewards are clamped to its range.
    method
        See above.
    behaviour
        What people followed, (H, S) or (H, S, A). If None, it is estimated from the data; the note says so.
    level, resamples, seed
        Of the bootstrap.
    unseen
        The value of a (step, state, action) that nobody tried, for `"fqe"` and `"dr"`.
    privacy, clip, noise
        With `Central(...)` the estimate is private: `"pdis"`, each episode's clipped to [0, clip] (after rewards are
        scaled to [0, 1]), and a declared `behaviour`. `clip` is public, and H by default. It is the mean over all
        places: whoever is ⊥ counts as earning the least there is.
    episodes_per_user
        m, where the guarantee's unit is "user": so many places in a row are one user's, as in `Dataset.batches()`.

    Examples
    --------
    >>> import tacit
    >>> world = tacit.mdp.riverswim(states=3, horizon=5)
    >>> at_random = np.full((5, 3, 2), 0.5)
    >>> people = world.rollout(at_random[None], episodes=2000, streams=tacit.mdp.Streams(0, runs=1))
    >>> right = np.ones((5, 3), dtype=int)
    >>> found = evaluate(right, people, spec=world.spec, behaviour=at_random)
    >>> bool(found.low < world.policy_values(right[None])[0] < found.high)
    True
    """
    if privacy is not None and not isinstance(privacy, Central | NonPrivate):
        raise PrivatizationError(f"an estimate keeps a Central guarantee, or none; got {privacy}")
    if method not in METHODS:
        raise ValueError(f"method is one of {METHODS}; got {method!r}")
    if isinstance(spec.rewards, MomentBound):
        raise SpecError("evaluation needs a declared range of rewards")
    if not 0.0 < level < 1.0 or resamples < 1:
        raise ValueError(f"level is in (0, 1) and resamples at least 1; got {level} and {resamples}")
    target = policy if isinstance(policy, OfflinePolicy) else OfflinePolicy(spec, policy)
    if target.spec.states != spec.states or target.probabilities.shape != (spec.horizon, spec.states, spec.actions):
        raise ValueError(f"the policy is for {target.spec}, and the data are of {spec}")
    episodes = _all(data, spec)
    if isinstance(privacy, Central) and privacy.kind != "none":
        check_unit(privacy, episodes_per_user=episodes_per_user)
        m = episodes_per_user or 1
        return _private(target, episodes, spec, behaviour, privacy, clip, noise, level, method, m)
    log = _Log.of(episodes, spec)
    if not log.number:
        raise ValueError("there is no readable episode to evaluate with")
    notes = []
    if behaviour is None:
        mu = log.behaviour(spec)
        notes.append("The behaviour policy was estimated from the same data.")
    else:
        mu = OfflinePolicy(spec, behaviour).probabilities
    ratios = log.ratios(target.probabilities, mu)
    estimator = _estimator(method, log, ratios, target.probabilities, spec, unseen)
    every = np.ones(log.number)
    value = estimator(every)
    rng = np.random.default_rng(seed)
    again = np.array(
        [estimator(rng.multinomial(log.number, every / log.number).astype(np.float64)) for _ in range(resamples)]
    )
    low, high = np.quantile(again, [(1.0 - level) / 2.0, (1.0 + level) / 2.0])
    weights = ratios[:, -1]
    effective = float(weights.sum() ** 2 / max(float((weights**2).sum()), 1e-300)) if weights.any() else 0.0
    if method != "fqe" and effective < 30:
        notes.append(f"The weights are worth {effective:.1f} episodes: the policy is too far from what people did.")
    return Estimate(
        value=value,
        low=float(low),
        high=float(high),
        level=level,
        method=method,
        episodes=log.number,
        effective=effective,
        private=False,
        note=" ".join(notes),
    )


@dataclass(frozen=True)
class _Log:
    """Readable episodes: states (n, H+1), actions and rewards in real units (n, H)."""

    states: NDArray[np.int64]
    actions: NDArray[np.int64]
    rewards: Array

    @classmethod
    def of(cls, episodes: Episodes, spec: EpisodeSpec) -> _Log:
        low, high = spec.reward_range
        good = episodes.readable[0]
        rewards = low + (high - low) * episodes.rewards[0, good]
        return cls(episodes.states[0, good], episodes.actions[0, good], rewards)

    @property
    def number(self) -> int:
        return len(self.actions)

    def at_steps(self, table: Array) -> Array:
        """Entries (n, H) of a table (H, S, A) along the episodes."""
        return table[np.arange(table.shape[0]), self.states[:, :-1], self.actions]

    def ratios(self, policy: Array, behaviour: Array) -> Array:
        """ρ_t, (n, H). What people can't have done, they did: then the behaviour policy is not theirs."""
        did = self.at_steps(behaviour)
        if (did == 0).any():
            raise ValueError(
                "people did what the declared behaviour policy never does: it is not the one they followed"
            )
        return np.asarray(np.cumprod(self.at_steps(policy) / did, axis=1), dtype=np.float64)

    def behaviour(self, spec: EpisodeSpec) -> Array:
        """Shares of actions: of each step, or pooled where the world is stationary; uniform where nobody was."""
        counts = np.zeros((spec.horizon, spec.states, spec.actions))
        np.add.at(counts, (np.arange(spec.horizon), self.states[:, :-1], self.actions), 1.0)
        if spec.stationary:
            counts[...] = counts.sum(axis=0)
        total = counts.sum(axis=-1, keepdims=True)
        return np.where(total > 0, counts / np.maximum(total, 1.0), 1.0 / spec.actions)


def _all(data: Trajectories | Iterable[Trajectories], spec: EpisodeSpec) -> Episodes:
    parts = [read(part, spec) for part in ([data] if isinstance(data, Trajectories) else data)]
    if any(part.runs != 1 for part in parts):
        raise ValueError("evaluate one run's trajectories at a time")
    if not parts:
        raise ValueError("there are no episodes to evaluate with")
    return Episodes(*(np.concatenate(columns, axis=1) for columns in zip(*parts, strict=True)))


def _estimator(
    method: Method, log: _Log, ratios: Array, policy: Array, spec: EpisodeSpec, unseen: float
) -> Callable[[Array], float]:
    """The estimate, given how often each episode counts."""
    returns, steps = log.rewards.sum(axis=1), ratios * log.rewards
    last = ratios[:, -1]
    if method == "is":
        each = last * returns
        return lambda weights: float(weights @ each / weights.sum())
    if method == "pdis":
        each = steps.sum(axis=1)
        return lambda weights: float(weights @ each / weights.sum())
    if method == "wis":
        return lambda weights: _over(float(weights @ (last * returns)), float(weights @ last))
    if method == "wpdis":
        return lambda weights: sum(map(_over, weights @ steps, weights @ ratios))
    model = _Model(log, policy, spec, unseen)
    if method == "fqe":
        return lambda weights: model.fitted(weights)[2]
    halves = np.arange(log.number) % 2
    before = np.concatenate([np.ones((log.number, 1)), ratios[:, :-1]], axis=1)

    def doubly_robust(weights: Array) -> float:
        """Σ_t ρ_{t−1} V̂(s_t) + ρ_t (r_t − Q̂(s_t, a_t)): the sum above, ordered by t."""
        total = 0.0
        for half in (0, 1):
            q, values, _ = model.fitted(weights * (halves != half))
            at = values[np.arange(spec.horizon), log.states[:, :-1]]
            each = (before * at + ratios * (log.rewards - log.at_steps(q))).sum(axis=1)
            total += float((weights * (halves == half)) @ each)
        return total / float(weights.sum())

    return doubly_robust


def _over(part: float, whole: float) -> float:
    return float(part / whole) if whole > 0 else 0.0


class _Model:
    """The model of weighted counts, per step, or pooled where the world is stationary; and a policy's values in it."""

    def __init__(self, log: _Log, policy: Array, spec: EpisodeSpec, unseen: float) -> None:
        S, A, H = spec.states, spec.actions, spec.horizon
        self._spec, self._policy, self._unseen, self._start = spec, policy, unseen, log.states[:, 0]
        self._steps = 1 if spec.stationary else H
        step = np.zeros(H, dtype=np.int64) if spec.stationary else np.arange(H)
        self._cells = ((step * S + log.states[:, :-1]) * A + log.actions).reshape(-1)
        self._next = self._cells * S + log.states[:, 1:].reshape(-1)
        self._rewards = log.rewards.reshape(-1)

    def fitted(self, weights: Array) -> tuple[Array, Array, float]:
        """Q (H, S, A), V (H+1, S), and the mean value of the first states."""
        spec, each = self._spec, np.repeat(weights, self._spec.horizon)
        S, A, H, cells = spec.states, spec.actions, spec.horizon, self._steps * spec.states * spec.actions
        counts = np.bincount(self._cells, each, cells)
        seen = np.maximum(counts, 1e-300)
        rewards = (np.bincount(self._cells, each * self._rewards, cells) / seen).reshape(-1, S, A)
        kernel = (np.bincount(self._next, each, cells * S).reshape(cells, S) / seen[:, None]).reshape(-1, S, A, S)
        tried = (counts > 0).reshape(-1, S, A)
        q, values = np.empty((H, S, A)), np.zeros((H + 1, S))
        for h in range(H - 1, -1, -1):
            row = h if self._steps > 1 else 0
            q[h] = np.where(tried[row], rewards[row] + kernel[row] @ values[h + 1], self._unseen)
            values[h] = (q[h] * self._policy[h]).sum(axis=-1)
        return q, values, _over(float(weights @ values[0, self._start]), float(weights.sum()))


def _private(
    policy: OfflinePolicy,
    episodes: Episodes,
    spec: EpisodeSpec,
    behaviour: ArrayLike | None,
    privacy: Central,
    clip: float | None,
    noise: NoiseSource | None,
    level: float,
    method: Method,
    per_unit: int,
) -> Estimate:
    """The mean of clipped per-decision estimates, under noise; ⊥ counts as 0, and n, the number of places, is public.

    Sensitivity: one episode's clipped estimate, rounded to a grid of clip·2⁻²⁰, moves the sum by at most `clip` and a
    grid step. Replacing an episode moves it by no more, since estimates are not negative.
    """
    if method not in ("pdis", "wpdis"):
        raise ValueError(f'a private estimate is made by "pdis"; got {method!r}')
    if behaviour is None:
        raise ValueError(
            "a private estimate needs the behaviour policy declared: estimating it would cost privacy, too"
        )
    bound = float(spec.horizon) if clip is None else float(clip)
    if not 0.0 < bound < math.inf:
        raise ValueError(f"clip is positive and finite; got {clip}")
    source = noise or SecureNoise()
    low, high = spec.reward_range
    mu = OfflinePolicy(spec, behaviour).probabilities
    steps = np.arange(spec.horizon)
    states, actions = episodes.states[0], episodes.actions[0]
    with silence():
        did = mu[steps, states[:, :-1], actions]
        # What the declared behaviour never does weighs nothing: an exception would tell that somebody did it.
        taken = policy.probabilities[steps, states[:, :-1], actions]
        ratio = np.where(did > 0, taken / np.where(did > 0, did, 1.0), 0.0)
        each = np.nan_to_num((np.cumprod(ratio, axis=1) * episodes.rewards[0]).sum(axis=1), nan=0.0, posinf=bound)
    each = np.where(episodes.readable[0], np.clip(each, 0.0, bound), 0.0)
    unit = 2.0 ** math.floor(math.log2(bound * 2.0**-20))
    total = np.rint(each / unit).astype(np.int64).sum()
    size = (math.floor(bound / unit) + 1) * unit
    design = single(max(len(each), 1))
    sensitivity = Sensitivity(l0=1, l1=size, l2_squared=size**2).times(per_unit)
    calibration = calibrate(privacy, sensitivity, counter=design)
    draw = source.laplace if calibration.mechanism == "laplace" else source.gaussian
    drawn = draw(scale=lattice_scale(calibration.scale, unit), runs=1, size=1)[0, 0]
    number = max(len(each), 1)
    mean = float(total + drawn) * unit / number
    mechanism: Any = "laplace" if calibration.mechanism == "laplace" else "gaussian"
    law = error_at(design, design.length, mechanism=mechanism, scale=calibration.scale, unit=unit)
    # Hoeffding for the sampling of units, the exact law for the noise, half of the failure probability each.
    failure = (1.0 - level) / 2.0
    width = bound * math.sqrt(math.log(2.0 / failure) * per_unit / (2.0 * number)) + law.quantile(failure) / number

    def real(value: float) -> float:
        return low * spec.horizon + (high - low) * value

    statement = Statement(
        guarantee=privacy,
        calibrations={"one mean": calibration},
        noise=source.name,
        protects=source.protects,
        users=number,
        users_declared=number,
        releases=1,
        notes=("Evaluation is an analysis of its own: what it spends comes on top of training on the same people.",),
    )
    return Estimate(
        value=real(mean),
        low=real(mean - width),
        high=real(mean + width),
        level=level,
        method="pdis, clipped",
        episodes=number,
        effective=float(number),
        private=source.protects,
        statement=statement,
        note="The mean over all places: clipped weights and empty places make it too small.",
    )
