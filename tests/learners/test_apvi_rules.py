"""The practical rule: against its description, what it does with evidence, and that it learns.

Statistical tests have a false-alarm rate of at most 1e-6 each. Seeded ones never raise a false alarm once they pass.
"""

import math
from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from learners.cases import counts_of, relabelled, run_of, uniforms_of, world_of
from learners.literal_apvi import nearest, practical_rule
from tacit.learners import APVI
from tacit.learners._pessimistic_kernels import on_simplices
from tacit.learners._practical import _SAMPLING
from tacit.mdp import Streams, chain, random_mdp, riverswim
from tacit.mdp.spec import EpisodeSpec
from tacit.privacy import Central, NonPrivate
from tacit.privacy.noise import SimulationNoise
from tacit.privatizers import CentralPrivatizer
from tacit.releases import TabularRelease
from tacit.statistics import TabularStatistic

relaxed = settings(deadline=None, derandomize=True)  # the first call compiles
seeds = st.integers(0, 2**32)


@dataclass(frozen=True)
class Normal:
    """The sum of so many normal variables."""

    std: float

    def quantile(self, beta):
        return float(norm.isf(beta / 2)) * self.std

    def to_json(self):
        return {"law": "Gaussian", "std": self.std}


def release_of(transitions, *, noise, rng, rewards=None, counted=False):
    """Exact counts (R, H|1, S, A, S) with normal noise; visits are sums, unless counted."""
    S = transitions.shape[-1]
    noisy = transitions + noise * rng.normal(size=transitions.shape)
    exact = transitions.sum(axis=-1)
    visits = exact + noise * rng.normal(size=exact.shape) if counted else noisy.sum(axis=-1)
    return TabularRelease(
        episodes=int(exact[0].sum() / exact.shape[1]),
        transitions=noisy,
        visits=visits,
        rewards=None if rewards is None else rewards + noise * rng.normal(size=rewards.shape),
        centred=False,
        starts=None,
        errors={
            "transitions": Normal(noise),
            "visits": Normal(noise if counted else noise * math.sqrt(S)),
            "rewards": Normal(noise),
        },
    )


def planned(release, *, seed=0, **own):
    return APVI(**own).plan(release, uniforms_of(np.random.default_rng(seed), len(release.transitions)))


def fitted(world, behaviour, *, episodes, privacy, runs, seed, pooled=True, known=True, **own):
    """Gaps (R,) of plans on the privatized rollouts of a behaviour policy (H, S, A), and the plan."""
    families = ("transitions",) if known else ("transitions", "rewards")
    statistic = TabularStatistic(spec=own.get("spec", world.spec), families=families, pooled=pooled)
    privatizer = CentralPrivatizer(
        statistic, privacy, episodes=episodes, counter="once", noise=SimulationNoise(seed), runs=runs
    )
    streams = Streams(seed + 1, runs)
    privatizer.observe(world.rollout(behaviour[None], episodes=episodes, streams=streams))
    own = {"spec": world.spec, **own, "rewards": world.rewards.mean if known else None}
    plan = APVI(**own).plan(privatizer.release(), streams.policy.take)
    return world.optimal_value - world.policy_values(plan.policy), plan


def uniform(world):
    spec = world.spec
    return np.full((spec.horizon, spec.states, spec.actions), 1 / spec.actions)


# Against its description


@pytest.mark.parametrize("mass", [0.0, 0.5, 7.0, 1e6])
def test_the_nearest_table_is_the_nearest(mass):
    """Karush, Kuhn and Tucker: x = (y − t)⁺ for one t; and it is what bisection finds."""
    rows = np.random.default_rng(0).normal(0, 10, (200, 7))
    found = np.empty_like(rows)
    on_simplices(rows, np.full(200, mass), found, np.empty(200))
    assert (found >= 0).all()
    np.testing.assert_allclose(found.sum(axis=-1), mass, atol=1e-9 * max(1, mass))
    for row, x in zip(rows, found, strict=True):
        np.testing.assert_allclose(x, nearest(row.tolist(), mass), atol=1e-8 * max(1, mass))


@relaxed
@given(seed=seeds)
def test_the_practical_rule_is_what_is_described(seed):
    rng = np.random.default_rng(seed)
    S, A, H, runs = (int(n) for n in rng.integers(1, 5, 4))
    noise = float(rng.choice([0.0, 2.0, 50.0]))
    counts = rng.poisson(rng.choice([0.0, 3.0, 1e4], p=[0.2, 0.2, 0.6]) * rng.random((runs, 1, S, A, S)))
    release = release_of(counts, noise=noise, rng=rng)
    rewards, fallback = rng.random((H, S, A)), rng.dirichlet(np.ones(A), (1, S))
    spec = EpisodeSpec(states=S, actions=A, horizon=H)
    plan = planned(release, spec=spec, rewards=rewards, fallback=fallback)
    for run in range(runs):
        q, deferred = practical_rule(S, A, H, rewards.tolist(), release.transitions, noise, run, fallback[0].tolist())
        np.testing.assert_allclose(plan.q[run], q, rtol=1e-7, atol=1e-7)
        assert (plan.deferred[run] == deferred).all()
        np.testing.assert_array_equal(
            plan.policy[run][plan.deferred[run]], np.tile(fallback, (H, 1, 1))[deferred * np.ones((H, 1), bool)]
        )


def rows_of(name, rng):
    """Rows of P per step: the same at all steps, or drawn anew for each."""
    H, S, A = 8, 4, 2
    row = rng.dirichlet(np.ones(S), (1 if name == "alike" else H, S, A))
    return np.tile(row, (H, 1, 1, 1)) if name == "alike" else row


@pytest.mark.parametrize("name", ["alike", "different"])
def test_steps_are_mixed_as_far_as_they_look_alike(name):
    """Alike, they learn from each other (and as much as if that was declared, nearly); different ones lose little."""
    rng = np.random.default_rng(3)
    kernel = rows_of(name, rng)
    H, S, A = kernel.shape[:3]
    counts = rng.multinomial(np.full((20, H, S, A), 300), kernel)
    release = release_of(counts, noise=30.0, rng=rng)
    found = {}
    for declared in (False, True):
        spec = EpisodeSpec(states=S, actions=A, horizon=H, stationary=declared)
        model = APVI(spec=spec, rewards=np.zeros((1, S, A)))._practical(release)
        found[declared] = np.sqrt(((model.kernel - kernel) ** 2).sum(axis=-1).mean())
    single = np.sqrt(30**2 * S + 300) / 300  # the error of a step's own counts, before they are made a law
    if name == "alike":
        assert found[False] < 0.6 * single
        assert found[True] < found[False]
    else:
        assert found[False] < 1.1 * single
        assert found[True] > 1.3 * single  # what is declared is believed


@pytest.mark.parametrize("name", ["alike", "different"])
def test_unknown_rewards_are_mixed_like_rows_and_pessimistic(name):
    rng = np.random.default_rng(4)
    H, S, A, n, noise = 8, 4, 2, 3000, 200.0
    counts = np.full((20, H, S, A, S), n / S)
    mean = np.broadcast_to(rng.random((1 if name == "alike" else H, S, A)), (H, S, A))
    release = release_of(counts, noise=noise, rng=rng, rewards=rng.binomial(n, mean, (20, H, S, A)).astype(float))
    spec = EpisodeSpec(states=S, actions=A, horizon=H, stationary=False)
    found = APVI(spec=spec, pessimism_scale=0.0)._practical(release).rewards - mean
    single = np.sqrt(noise**2 + mean**2 * S * noise**2 + n * mean * (1 - mean)).mean() / n
    off = np.sqrt((found**2).mean()) / single
    assert off < (0.8 if name == "alike" else 1.2)
    below = [(APVI(spec=spec, pessimism_scale=c)._practical(release).rewards < mean).mean() for c in (0.0, 1.0, 3.0)]
    assert below[0] + 0.1 < below[1] < below[2]
    assert below[2] > 0.85


@relaxed
@given(seed=seeds)
def test_names_do_not_matter(seed):
    rng = np.random.default_rng(seed)
    S, A, H = (int(n) for n in rng.integers(1, 5, 3))
    steps = int(rng.choice([1, H]))
    counts = rng.poisson(100 * rng.random((2, steps, S, A, S)))
    visits = counts.sum(axis=-1)
    release = release_of(
        counts, noise=5.0, rng=rng, rewards=visits * rng.random(visits.shape), counted=rng.random() < 0.3
    )
    spec = EpisodeSpec(states=S, actions=A, horizon=H, stationary=bool(rng.random() < 0.5))
    states, actions = rng.permutation(S), rng.permutation(A)
    s, a = np.argsort(states), np.argsort(actions)
    plan, other = planned(release, spec=spec), planned(relabelled(release, states, actions), spec=spec)
    for mine, theirs in ((plan.q, other.q), (plan.penalty, other.penalty), (plan.evidence, other.evidence)):
        np.testing.assert_allclose(theirs, mine[:, :, s][..., a], rtol=1e-7, atol=1e-7)
    assert (other.deferred == plan.deferred[:, :, s]).all()
    ordered = np.sort(plan.q, axis=-1)
    clear = (ordered[..., -1] - ordered[..., -2] > 1e-6) if A > 1 else np.ones(plan.values.shape, bool)
    np.testing.assert_allclose(other.policy[clear[:, :, s]], plan.policy[:, :, s][..., a][clear[:, :, s]], atol=1e-9)


def test_runs_do_not_disturb_each_other():
    rng = np.random.default_rng(8)
    world = world_of(rng)
    transitions, _, rewards = counts_of(world, rng, episodes=300, runs=3)
    release = release_of(transitions, noise=4.0, rng=rng, rewards=rewards)
    together = planned(release, spec=world.spec)
    ties = np.random.default_rng(0).random((3, *together.values.shape[1:]))
    for run in range(3):
        alone = APVI(spec=world.spec).plan(run_of(release, run), lambda shape, run=run: ties[run : run + 1])
        for mine, theirs in zip(alone, together, strict=True):
            np.testing.assert_array_equal(mine[0], theirs[run])


def test_without_noise_it_is_the_plan_on_exact_counts():
    rng = np.random.default_rng(9)
    world = world_of(rng)
    for known in (True, False):
        transitions, _, rewards = counts_of(world, rng, episodes=500, runs=5)
        mean = world.rewards if known else None
        exact = planned(release_of(transitions, noise=0.0, rng=rng, rewards=rewards), spec=world.spec, rewards=mean)
        nearly = planned(release_of(transitions, noise=1e-9, rng=rng, rewards=rewards), spec=world.spec, rewards=mean)
        np.testing.assert_allclose(nearly.q, exact.q, atol=1e-6)
        np.testing.assert_array_equal(nearly.deferred, exact.deferred)
        np.testing.assert_array_equal(nearly.policy, exact.policy)


def test_no_penalty_is_larger_than_the_worst_that_can_come():
    """Q ≥ r + min V, for any counts; and a larger scale never makes Q larger."""
    rng = np.random.default_rng(10)
    counts = rng.poisson(30 * rng.random((4, 3, 3, 2, 3)))
    release = release_of(counts, noise=40.0, rng=rng)
    rewards = rng.random((3, 3, 2))
    spec = EpisodeSpec(states=3, actions=2, horizon=3, stationary=False)
    before = None
    for scale in (0.0, 0.5, 1.0, 1e6):
        plan = planned(release, spec=spec, rewards=rewards, pessimism_scale=scale, fallback=np.full((1, 3, 2), 0.5))
        after = np.concatenate([plan.values[:, 1:], np.zeros((4, 1, 3))], axis=1)
        floor = rewards + after.min(axis=-1)[..., None, None]
        assert (plan.q >= floor - 1e-12).all()
        assert (plan.penalty >= 0).all()
        if before is not None:
            assert (plan.q <= before + 1e-12).all()
        before = plan.q
    np.testing.assert_allclose(before, floor, atol=1e-9)  # scale 1e6: nothing is believed


def test_visits_that_were_counted_are_used():
    rng = np.random.default_rng(11)
    counts = rng.multinomial(np.full((200, 1, 20, 2), 400), np.full(20, 1 / 20))
    spec = EpisodeSpec(states=20, actions=2, horizon=3)
    off = {}
    for counted in (False, True):
        model = APVI(spec=spec, rewards=np.zeros((1, 20, 2)))._practical(
            release_of(counts, noise=20.0, rng=rng, counted=counted)
        )
        off[counted] = np.sqrt(((_SAMPLING / model.by_spread) ** 2 - 400).var())
    assert off[True] < 0.5 * off[False]


# Evidence, and the fallback where there is none


@pytest.mark.parametrize("pooled", [True, False])
@pytest.mark.parametrize("noise", [0.0, 30.0])
def test_no_data_is_no_evidence(pooled, noise):
    """Nearly everything is deferred (noise alone passes the test of the whole table with probability 0.0013)."""
    rng = np.random.default_rng(12)
    S, A, H, runs = 5, 3, 6, 300
    release = release_of(np.zeros((runs, 1 if pooled else H, S, A, S)), noise=noise, rng=rng)
    spec = EpisodeSpec(states=S, actions=A, horizon=H, stationary=pooled)
    fallback = rng.dirichlet(np.ones(A), (H, S))
    plan = planned(release, spec=spec, rewards=rng.random((1, S, A)), fallback=fallback)
    assert (~plan.deferred.all(axis=(1, 2))).sum() <= (0 if noise == 0 else 6)  # of 300: 0.4 are expected
    followed = np.broadcast_to(fallback, plan.policy.shape)
    np.testing.assert_array_equal(plan.policy[plan.deferred], followed[plan.deferred])
    np.testing.assert_allclose(plan.values, (plan.q * plan.policy).sum(axis=-1), atol=1e-12)


@pytest.mark.parametrize("pooled", [True, False])
def test_much_data_is_evidence_everywhere(pooled):
    rng = np.random.default_rng(13)
    counts = np.full((20, 1 if pooled else 6, 5, 3, 5), 2000.0)
    plan = planned(
        release_of(counts, noise=30.0, rng=rng),
        spec=EpisodeSpec(states=5, actions=3, horizon=6, stationary=pooled),
        rewards=rng.random((1, 5, 3)),
        fallback=np.full((1, 5, 3), 1 / 3),
    )
    assert not plan.deferred.any()
    assert plan.evidence.min() > 10
    assert np.isin(plan.policy, (0.0, 1.0)).all()


def test_a_state_that_nobody_visited_is_deferred_and_others_are_not():
    """The test is one of means, so that more than half of the unvisited ones are found; their evidence is near 1."""
    rng = np.random.default_rng(14)
    counts = np.full((400, 1, 8, 2, 8), 500.0)
    counts[:, :, 3] = counts[..., 3] = 0
    spec = EpisodeSpec(states=8, actions=2, horizon=5)
    plan = planned(release_of(counts, noise=30.0, rng=rng), spec=spec, rewards=rng.random((1, 8, 2)))
    others = np.arange(8) != 3
    assert not plan.deferred[:, :, others].any()
    assert plan.deferred[:, :, 3].mean() > 0.5
    assert 0.7 < plan.evidence[:, :, 3].mean() < 1.3
    assert plan.evidence[:, :, others].min() > 10


def test_the_fallback_is_the_behaviour_policy_as_seen():
    """Shares of the visits, each step's own mixed with those of all; uniform if there are none."""
    rng = np.random.default_rng(15)
    behaviour = rng.dirichlet(np.ones(3), (1, 4, 5))
    counts = 3000.0 * behaviour[..., None] * np.ones((2, 1, 1, 1, 5))
    spec = EpisodeSpec(states=5, actions=3, horizon=4, stationary=False)
    for noise, tolerance in ((0.0, 0.01), (20.0, 0.05)):
        model = APVI(spec=spec, rewards=np.zeros((1, 5, 3)))._practical(release_of(counts, noise=noise, rng=rng))
        np.testing.assert_allclose(model.fallback, np.tile(behaviour, (2, 1, 1, 1)), atol=tolerance)
        np.testing.assert_allclose(model.fallback.sum(axis=-1), 1.0)
    nothing = release_of(np.zeros_like(counts), noise=0.0, rng=rng)
    np.testing.assert_allclose(planned(nothing, spec=spec, rewards=np.zeros((1, 5, 3))).policy, 1 / 3)


def test_the_theorem_s_rule_follows_a_declared_fallback_where_nothing_is_valid():
    rng = np.random.default_rng(16)
    counts = np.zeros((3, 4, 3, 2, 3))
    counts[:, :, 0, 1] = 1e6
    fallback = rng.dirichlet(np.ones(2), (4, 3))
    own = {"spec": EpisodeSpec(states=3, actions=2, horizon=4), "rewards": rng.random((1, 3, 2)), "rule": "theorem"}
    plan = planned(release_of(counts, noise=5.0, rng=rng), **own, fallback=fallback)
    assert not plan.deferred[:, :, 0].any()
    assert plan.deferred[:, :, 1:].all()
    np.testing.assert_array_equal(plan.policy[:, :, 1:], np.tile(fallback[:, 1:], (3, 1, 1, 1)))


# It learns


@pytest.mark.parametrize("pooled", [True, False])
@pytest.mark.parametrize("known", [True, False])
def test_it_learns_riverswim_from_exact_counts(pooled, known):
    """The gap vanishes as data grow; always going left has a gap of 3.3."""
    world = riverswim(states=6, horizon=20)
    spec = replace(world.spec, stationary=pooled)
    found = [
        fitted(
            world,
            uniform(world),
            episodes=n,
            privacy=NonPrivate(),
            runs=10,
            seed=7,
            pooled=pooled,
            known=known,
            spec=spec,
        )[0].mean()
        for n in (30, 20_000)
    ]
    assert found[0] > 0.5
    assert found[1] < 0.005


@pytest.mark.slow
@pytest.mark.parametrize(
    ("privacy", "pooled", "episodes", "runs"),
    [(Central(epsilon=1), True, 30_000, 20), (Central(epsilon=1, delta=1e-6), False, 100_000, 10)],
)
def test_it_learns_riverswim_under_a_guarantee(privacy, pooled, episodes, runs):
    """Issue 4's targets, ≤ .05 and ≤ .15 with a uniform behaviour policy; the second one declared non-stationary."""
    world = riverswim(states=6, horizon=20)
    gaps, _ = fitted(
        world,
        uniform(world),
        episodes=episodes,
        privacy=privacy,
        runs=runs,
        seed=2026,
        pooled=pooled,
        spec=replace(world.spec, stationary=pooled),
    )
    assert gaps.mean() <= (0.05 if pooled else 0.15)


WORLDS = {
    "chain": lambda: chain(states=5, horizon=20),
    "random": lambda: random_mdp(states=8, actions=3, horizon=15, seed=5, successors=3, rewarding=0.15),
    "steps differ": lambda: random_mdp(
        states=6, actions=3, horizon=10, seed=11, successors=3, stationary=False, rewarding=0.3
    ),
}


@pytest.mark.parametrize("name", list(WORLDS))
@pytest.mark.parametrize("known", [True, False])
def test_it_learns_other_worlds_under_a_guarantee(name, known):
    """At most a tenth of V* is lost with 10,000 people and ε = 1 or (1, 1e-6); the behaviour policy loses half."""
    world = WORLDS[name]()
    pooled = world.spec.stationary
    privacy = Central(epsilon=1, delta=0 if pooled else 1e-6)
    gaps, plan = fitted(
        world, uniform(world), episodes=10_000, privacy=privacy, runs=10, seed=3, pooled=pooled, known=known
    )
    assert world.optimal_value - world.policy_values(uniform(world)[None])[0] > 0.3 * world.optimal_value
    assert gaps.mean() < 0.1 * world.optimal_value
    assert np.isfinite(plan.q).all()
