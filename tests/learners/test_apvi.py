"""DP-APVI against 001's lines, equation (3) against a solver, and what must hold of any release.

Statistical tests have a false-alarm rate of at most 1e-6 each. Seeded ones never raise a false alarm once they pass.
"""

import math
from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog
from scipy.stats import norm

from learners.cases import EXACT, Laplace, counts_of, relabelled, run_of, uniforms_of, world_of, zeros
from learners.literal_apvi import Settings, algorithm_1
from tacit.learners import APVI
from tacit.learners.apvi import reconcile
from tacit.mdp.spec import EpisodeSpec, MomentBound, SpecError
from tacit.releases import TabularRelease

relaxed = settings(deadline=None, derandomize=True)  # the first call compiles
seeds = st.integers(0, 2**32)


@dataclass(frozen=True)
class Gaussian:
    """One normal variable."""

    std: float

    def quantile(self, beta):
        return float(norm.isf(beta / 2)) * self.std

    def to_json(self):
        return {"law": "Gaussian", "std": self.std}


def case(seed, known=None, noise=None):
    """(Settings, the learner's own, a release): everything at random; counts may be negative, and add up to nothing."""
    rng = np.random.default_rng(seed)
    S, A, H = (int(n) for n in rng.integers(1, 5, 3))
    steps, runs, centred = int(rng.choice([1, H])), int(rng.integers(1, 4)), bool(rng.random() < 0.5)
    noise = rng.choice([0.0, 0.01, 3.0]) if noise is None else noise
    size = rng.choice([1.0, 100.0, 1e5, 1e8])
    law = EXACT["visits"] if noise == 0 else (Laplace, Gaussian)[rng.integers(2)](float(noise))
    visits = rng.uniform(0, size, (runs, steps, S, A)).round()
    transitions = np.round(visits[..., None] * rng.dirichlet(np.full(S, 0.5), visits.shape))
    if noise == 0:
        visits = transitions.sum(axis=-1)
    rewards = visits * (rng.random(visits.shape) - (0.5 if centred else 0.0))
    noisy = [x + noise * rng.normal(size=x.shape) for x in (transitions, visits, rewards)]
    for array in noisy:
        array.flags.writeable = False
    release = TabularRelease(
        episodes=int(size),
        transitions=noisy[0],
        visits=noisy[1],
        rewards=noisy[2],
        centred=centred,
        starts=None,
        errors=dict.fromkeys(("visits", "rewards", "transitions"), law),
    )
    mean = rng.random((int(rng.choice([1, H])), S, A)) if (rng.random() < 0.5 if known is None else known) else None
    literal = Settings(
        S=S,
        A=A,
        H=H,
        beta=float(rng.uniform(0.001, 0.9)),
        rewards=None if mean is None else np.broadcast_to(mean, (H, S, A)).tolist(),
        hoeffding=bool(rng.random() < 0.5),
        published=bool(rng.random() < 0.5),
        C1=float(rng.choice([math.sqrt(2), 0.1])),
        C2=float(rng.choice([16.0, 0.001])),
        C=float(rng.uniform(1, 3)),
        scale=float(rng.choice([0.1, 1.0])),
    )
    own = {
        "spec": EpisodeSpec(states=S, actions=A, horizon=H),
        "rewards": mean,
        "rule": "theorem",
        "confidence": literal.beta,
        "pessimism": "hoeffding" if literal.hoeffding else "bernstein",
        "precision": "published" if literal.published else "exact",
        "pessimism_scale": literal.scale,
        "C1": literal.C1,
        "C2": literal.C2,
        "C": literal.C,
    }
    return literal, own, release


def planned(own, release, seed=0):
    return APVI(**own).plan(release, uniforms_of(np.random.default_rng(seed), len(release.transitions)))


# Equation (3)


@pytest.mark.parametrize("part", range(4))
def test_equation_3_is_solved_as_by_a_solver(part):
    """1,000 instances: the optimal value is the solver's, and the constraints hold."""
    rng = np.random.default_rng(part)
    shifted = {-1: 0, 0: 0, 1: 0}
    for _ in range(250):
        S, scale = int(rng.integers(1, 9)), rng.choice([1.0, 30.0])
        E = float(rng.choice([0.0, 1.0, 5.0])) * scale
        raw = scale * rng.normal(1.0, 3.0, S)
        a, seen = np.maximum(raw, 0.0), float(np.maximum(raw.sum() + scale * rng.normal(0.0, 8.0), 0.0))
        (found,), (total,) = reconcile(raw[None], np.array([seen]), E)
        ones, diagonal = np.ones((S, 1)), np.eye(S)
        solved = linprog(
            np.r_[np.zeros(S), 1.0],
            A_ub=np.vstack(
                [
                    np.hstack([diagonal, -ones]),
                    np.hstack([-diagonal, -ones]),
                    np.r_[np.ones(S), 0.0],
                    np.r_[-np.ones(S), 0.0],
                ]
            ),
            b_ub=np.r_[a, -a, seen + E / 2, E / 2 - seen],
            method="highs",
        )
        assert solved.status == 0
        assert np.abs(found - a).max() == pytest.approx(solved.fun, abs=1e-9 * max(1.0, a.max()))
        assert found.min() >= 0
        assert total == pytest.approx(found.sum())
        assert abs(total - seen) <= E / 2 + 1e-9 * max(1.0, seen)
        shifted[int(np.sign(round(found.sum() - a.sum(), 9)))] += 1
    assert min(shifted.values()) >= 10  # all three cases were met


def test_equation_3_leaves_counts_that_add_up_alone():
    counts = np.array([[3.0, 0.0, 4.0]])
    for E in (0.0, 2.0):
        assert reconcile(counts, np.array([7.0]), E)[0].tolist() == counts.tolist()


def test_equation_3_of_nothing_is_nothing():
    counts, totals = reconcile(np.array([[2.0, 2.0, -1.0]]), np.array([-5.0]), 0.0)
    assert counts.tolist() == [[0.0, 0.0, 0.0]]
    assert totals.tolist() == [0.0]


@relaxed
@given(seed=seeds, broken=st.integers(0, 3))
def test_equation_3_never_hides_nan(seed, broken):
    rng = np.random.default_rng(seed)
    transitions, visits = rng.normal(2, 3, (5, 3)), rng.normal(6, 3, 5)
    if broken < 3:
        transitions[2, broken] = np.nan
    else:
        visits[2] = np.nan
    _, totals = reconcile(transitions, visits, float(rng.choice([0.0, 4.0])))
    assert np.isnan(totals).tolist() == [False, False, True, False, False]


# The precision level


def test_the_published_precision_is_the_paper_s():
    """Lemma D.2 with σ² = 2H/ρ, and its like for Lap(4H/ε)."""
    S, A, H, beta, rho, epsilon = 3, 2, 5, 0.1, 0.7, 0.4
    spec = EpisodeSpec(states=S, actions=A, horizon=H)
    own = {"spec": spec, "rewards": np.zeros((1, S, A)), "confidence": beta, "precision": "published"}
    law = Gaussian(math.sqrt(2 * H / rho))
    release = replace(zeros((1, H, S, A)), errors=dict.fromkeys(("visits", "transitions"), law))
    expected = 4 * math.sqrt(H * math.log(4 * H * S**2 * A / beta) / rho)
    assert APVI(**own).precision_level(release) == pytest.approx(expected, rel=1e-12)
    release = replace(release, errors=dict.fromkeys(("visits", "transitions"), Laplace(4 * H / epsilon)))
    expected = 8 * H / epsilon * math.log(2 * H * S**2 * A / beta)
    assert APVI(**own).precision_level(release) == pytest.approx(expected, rel=1e-12)


def test_the_exact_precision_bounds_all_errors_at_once():
    """Fails in at most β of the releases; the union bound's slack for independent errors is small."""
    S, A, H, beta = 3, 2, 4, 0.1
    spec = EpisodeSpec(states=S, actions=A, horizon=H)
    release = replace(zeros((1, H, S, A)), errors=dict.fromkeys(("visits", "transitions"), Gaussian(2.0)))
    E = APVI(spec=spec, rewards=np.zeros((1, S, A)), confidence=beta).precision_level(release)
    noise = 2.0 * np.random.default_rng(0).normal(size=(20_000, H * S * A * (S + 1)))
    failed = (np.abs(noise).max(axis=1) > E / 2).mean()
    assert 0.8 * beta < failed < beta  # 0.095 ± 0.002
    published = APVI(spec=spec, rewards=np.zeros((1, S, A)), confidence=beta, precision="published")
    assert published.precision_level(release) > E


# Algorithm 1


@relaxed
@given(seed=seeds)
def test_the_theorem_s_rule_is_algorithm_1(seed):
    literal, own, release = case(seed)
    plan = planned(own, release)
    E = max(1.0, APVI(**own).precision_level(release))
    for run in range(len(release.transitions)):
        q, gamma, n = algorithm_1(literal, release, run)
        np.testing.assert_allclose(plan.q[run], q, rtol=0, atol=1e-10)
        np.testing.assert_allclose(plan.penalty[run], gamma, rtol=1e-10, atol=1e-10)
        np.testing.assert_allclose(plan.evidence[run] * E, n, rtol=1e-10, atol=1e-10)
    chosen = plan.policy.argmax(axis=-1)
    assert np.array_equal(plan.policy, np.eye(literal.A)[chosen])
    assert np.array_equal(np.take_along_axis(plan.q, chosen[..., None], -1)[..., 0], plan.q.max(axis=-1))  # line 8
    assert np.array_equal(plan.values, plan.q.max(axis=-1))
    assert not plan.deferred.any()


def test_the_cases_reach_every_branch():
    """Values that are not all at a bound, pairs that are valid and others that are not, in every kind of case."""
    inside, met = 0, set()
    for seed in range(800):
        literal, own, release = case(seed)
        plan = planned(own, release)
        E = max(1.0, APVI(**own).precision_level(release))
        inside += bool(((plan.q > 0) & (plan.q < np.arange(literal.H, 0, -1)[:, None, None])).any())
        pooled, noisy = release.transitions.shape[1] == 1 < literal.H, E > 1
        met.add((pooled, noisy, literal.rewards is None, literal.hoeffding, bool((plan.evidence > 1).any())))
    assert inside > 200
    assert len(met) == 32


@relaxed
@given(seed=seeds)
def test_without_noise_it_is_apvi(seed):
    """Releases of ever less error lead to Yin & Wang's plan on exact counts, where E = 0."""
    _, own, release = case(seed, noise=0.0)
    exact = planned(own, release)
    nearly = replace(release, errors=dict.fromkeys(release.errors, Gaussian(1e-13)))
    np.testing.assert_allclose(planned(own, nearly).q, exact.q, rtol=0, atol=1e-6)
    assert APVI(**own).precision_level(release) == 0
    visited = release.transitions.sum(axis=-1) > 0
    np.testing.assert_array_equal(exact.evidence > 0, np.broadcast_to(visited, exact.evidence.shape))


@relaxed
@given(seed=seeds)
def test_names_do_not_matter(seed):
    literal, own, release = case(seed)
    rng = np.random.default_rng(seed)
    states, actions = rng.permutation(literal.S), rng.permutation(literal.A)
    s, a = np.argsort(states), np.argsort(actions)
    renamed = {**own, "rewards": None if own["rewards"] is None else own["rewards"][:, s][:, :, a]}
    plan, other = planned(own, release), planned(renamed, relabelled(release, states, actions))
    for mine, theirs in ((plan.q, other.q), (plan.penalty, other.penalty), (plan.evidence, other.evidence)):
        np.testing.assert_allclose(theirs, mine[:, :, s][..., a], rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(other.values, plan.values[:, :, s], rtol=0, atol=1e-9)


@relaxed
@given(seed=seeds)
def test_runs_do_not_disturb_each_other(seed):
    _, own, release = case(seed)
    runs = len(release.transitions)
    together = planned(own, release)
    ties = np.random.default_rng(0).random((runs, *together.values.shape[1:]))
    for run in range(runs):
        alone = APVI(**own).plan(run_of(release, run), lambda shape, run=run: ties[run : run + 1])
        for mine, theirs in zip(alone, together, strict=True):
            np.testing.assert_array_equal(mine[0], theirs[run])


@relaxed
@given(seed=seeds, rule=st.sampled_from(["theorem", "practical"]), where=st.sampled_from(["transitions", "rewards"]))
def test_nan_never_looks_like_a_value(seed, rule, where):
    """Of a broken count nothing is said, nor of what can lead there; and no action is chosen."""
    literal, own, release = case(seed, known=False)
    rng = np.random.default_rng(seed)
    broken = getattr(release, where).copy()
    step = int(rng.integers(broken.shape[1]))
    broken[0, step, 0, 0] = np.nan
    broken_release = replace(release, **{where: broken})
    if where == "transitions":  # which visits sum up
        visits = release.visits.copy()
        visits[0, step, 0, 0] = np.nan
        broken_release = replace(broken_release, visits=visits)
    plan = planned({**own, "rule": rule}, broken_release)
    h = step if broken.shape[1] > 1 else literal.H - 1
    unseen = rule == "theorem" and where == "rewards" and plan.evidence[0, h, 0, 0] <= 1  # not looked at
    if rule == "practical" and where == "rewards" and literal.H > 1 and broken.shape[1] > 1:
        h = literal.H - 1  # all steps are looked at together
    if not unseen:
        assert np.isnan(plan.q[0, h, 0, 0])
        assert np.isnan(plan.policy[0, h, 0]).all()
        assert np.isnan(plan.values[0, h, 0])
        assert np.isnan(plan.values[0, :h]).all()
    if len(release.transitions) > 1:
        np.testing.assert_array_equal(plan.q[1:], planned({**own, "rule": rule}, release).q[1:])


def test_ties_are_broken_uniformly():
    """Nothing is known, so all actions tie in each of 40,000 places: 10,000 ± 87 for each of four."""
    spec = EpisodeSpec(states=4, actions=4, horizon=10)
    own = {"spec": spec, "rewards": np.zeros((1, 4, 4)), "rule": "theorem"}
    plan = planned(own, zeros((1000, 10, 4, 4)))
    assert (plan.q == 0).all()
    chosen = np.bincount(plan.policy.argmax(axis=-1).ravel(), minlength=4)
    assert np.abs(chosen - 10_000).max() < 5.2 * 87


def test_values_are_pessimistic_as_the_theorem_says():
    """Q ≤ Q^π of its own policy everywhere, in 50 of 50 data sets: β is the chance of a failure, and far from tight."""
    rng = np.random.default_rng(5)
    world = world_of(rng, H=4, S=3, A=2)
    transitions, visits, rewards = counts_of(world, rng, episodes=20_000, runs=50)
    release = TabularRelease(
        episodes=20_000,
        transitions=transitions + rng.normal(size=transitions.shape),
        visits=visits + rng.normal(size=visits.shape),
        rewards=rewards + rng.normal(size=rewards.shape),
        centred=False,
        starts=None,
        errors=dict.fromkeys(("visits", "rewards", "transitions"), Gaussian(1.0)),
    )
    from tacit.mdp import planning

    for mean in (world.rewards, None):
        for pessimism in ("bernstein", "hoeffding"):
            own = {"spec": world.spec, "rewards": mean, "rule": "theorem", "pessimism": pessimism, "C2": 0.5}
            plan = planned(own, release)
            assert (plan.evidence > 1).all()
            true = planning.evaluate(world.kernel[None], world.rewards[None], plan.policy)[:, :-1]
            assert (plan.values <= true + 1e-12).all()
            assert plan.values[:, 0].max() > 0.5  # and they say something


# Settings


@pytest.mark.parametrize(
    "wrong",
    [
        {"rule": "best"},
        {"pessimism": "none"},
        {"precision": "loose"},
        {"confidence": 0.0},
        {"confidence": 1.0},
        {"pessimism_scale": -1.0},
        {"C1": math.inf},
        {"C2": math.nan},
        {"rewards": np.zeros((3, 2))},
        {"rewards": np.full((1, 3, 2), 1.1)},
        {"rewards": np.full((1, 3, 2), np.nan)},
        {"rewards": np.zeros((2, 3, 2))},
        {"fallback": np.full((1, 3, 2), 0.4)},
        {"fallback": np.full((4, 2, 3), 0.5)},
    ],
)
def test_settings_that_cannot_be_are_refused(wrong):
    with pytest.raises(SpecError):
        APVI(spec=EpisodeSpec(states=3, actions=2, horizon=4), **wrong)


def test_rewards_without_a_range_have_to_be_known():
    spec = EpisodeSpec(states=3, actions=2, horizon=4, rewards=MomentBound(order=1.5, bound=2.0, mean=1.0))
    with pytest.raises(SpecError, match="range"):
        APVI(spec=spec)


def test_releases_of_other_worlds_are_refused():
    spec = EpisodeSpec(states=3, actions=2, horizon=4)
    for shape in ((1, 4, 2, 2), (1, 3, 3, 2), (1, 4, 3, 3)):
        with pytest.raises(ValueError, match="released"):
            planned({"spec": spec}, zeros(shape))
    with pytest.raises(ValueError, match="rewards"):
        planned({"spec": spec}, replace(zeros((1, 4, 3, 2)), rewards=None))
