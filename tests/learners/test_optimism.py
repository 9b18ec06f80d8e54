"""The bonuses: the published constants, and that they bound what they say."""

import itertools
import math
from dataclasses import dataclass, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from learners.cases import EXACT, AtMost, Laplace, counts_of, no_uniforms, problem, uniforms_of, world_of, zeros
from tacit.learners import UCBPO, UCBVI, Optimism
from tacit.mdp import planning
from tacit.mdp.spec import EpisodeSpec, MomentBound, SpecError
from tacit.privacy.errors import LaplaceSum
from tacit.releases import TabularRelease

relaxed = settings(deadline=None)  # the first call compiles
SPEC = EpisodeSpec(states=6, actions=2, horizon=20)
FAMILIES = ("visits", "rewards", "transitions")

# The published constants


@dataclass(frozen=True)
class Published:
    """000's precision levels, factor·√(8·terms·ln(2/β)): E₁ at β/(3SAT), E₂ at β/(3S²AT)."""

    factor: float
    terms: float

    std = math.nan

    def quantile(self, beta):
        return self.factor * math.sqrt(8 * self.terms * math.log(2 / beta))

    def to_json(self):
        return {}


LEMMAS = {"5.1 (central)": math.log(20_000) ** 3, "5.4 (local)": 20_000.0}


@pytest.mark.parametrize("terms", LEMMAS.values(), ids=LEMMAS)
@pytest.mark.parametrize(("epsilon", "beta"), [(1.0, 0.1), (0.2, 0.01)])
def test_the_theorems_constants(terms, epsilon, beta):
    """ALGORITHMS §3 with 000's E: three families per step, rewards not centred, scales 1."""
    S, A, H, K = 6, 2, 20, 20_000
    T = K * H
    E1 = 3 * H / epsilon * math.sqrt(8 * terms * math.log(6 * S * A * T / beta))
    E2 = 3 * H / epsilon * math.sqrt(8 * terms * math.log(6 * S**2 * A * T / beta))
    L_c = math.sqrt(2 * math.log(4 * S * A * T / beta))
    L_p = math.sqrt(4 * S * math.log(6 * S * A * T / beta))
    release = replace(zeros((1, H, S, A)), errors=dict.fromkeys(FAMILIES, Published(3 * H / epsilon, terms)))
    optimism = Optimism(spec=SPEC, episodes=K, confidence=beta)
    privacy = 3 * E1 + H * (S * E2 + 2 * E1)
    np.testing.assert_allclose(optimism.value_widths(release), (E1, L_c + H * L_c, privacy), rtol=1e-12)
    np.testing.assert_allclose(optimism.policy_widths(release), (E1, L_c + H * L_p, privacy), rtol=1e-12)


@pytest.mark.parametrize("terms", LEMMAS.values(), ids=LEMMAS)
def test_with_the_published_constants_nothing_is_ever_learnt(terms):
    """ALGORITHMS §3, ε = 1, K = 20,000, H = 20: bonuses exceed all ceilings, were all episodes in each cell."""
    K, H = 20_000, 20
    release = replace(
        zeros((1, H, 6, 2)),
        episodes=K,
        visits=np.full((1, H, 6, 2), float(K)),
        errors=dict.fromkeys(FAMILIES, Published(3 * H, terms)),
    )
    for learner in (UCBVI(spec=SPEC, episodes=K), UCBPO(spec=SPEC, episodes=K)):
        state = learner.start(release, uniforms_of(np.random.default_rng(0), 1))
        assert not state.informative.any()
        assert learner.value_widths(release).offset > K


@pytest.mark.parametrize("centred", [False, True])
@pytest.mark.parametrize("steps", [1, 20])
def test_pooled_counts_have_other_numbers_of_events_and_cells_and_centred_rewards_half_a_visits_error(steps, centred):
    S, A, H, K, beta = 6, 2, 20, 1000, 0.05
    n = S * A * K * H * (H if steps == 1 else 1)
    errors = {"visits": Laplace(5.0), "rewards": Laplace(3.0), "transitions": Laplace(2.0)}
    release = replace(zeros((1, steps, S, A), centred), errors=errors)
    m = S * A * K * steps
    E_N, E_P = 5 * math.log(3 * m / beta), 2 * math.log(3 * m * S / beta)
    E_R = 3 * math.log(3 * m / beta) + (E_N / 2 if centred else 0)
    L_c, L_p = math.sqrt(2 * math.log(4 * n / beta)), math.sqrt(4 * S * math.log(6 * n / beta))
    optimism = Optimism(spec=SPEC, episodes=K, confidence=beta)
    privacy = E_R + 2 * E_N + H * (S * E_P + 2 * E_N)
    np.testing.assert_allclose(optimism.value_widths(release), (E_N, (1 + H) * L_c, privacy), rtol=1e-12)
    np.testing.assert_allclose(optimism.policy_widths(release), (E_N, L_c + H * L_p, privacy), rtol=1e-12)


@relaxed
@given(seed=st.integers(0, 2**32), factor=st.floats(0, 10), other=st.floats(0, 10))
def test_scales_are_factors_on_the_sampling_widths_and_on_all_precision_levels(seed, factor, other):
    given_problem = problem(seed)
    release = given_problem.releases[-1]
    plain = Optimism(**{**given_problem.settings, "statistical_scale": 1.0, "privacy_scale": 1.0})
    scaled = replace(plain, statistical_scale=factor, privacy_scale=other)
    smaller = replace(release, errors={name: Laplace(other * law.scale) for name, law in release.errors.items()})
    for widths in ("value_widths", "policy_widths"):
        offset, statistical, privacy = getattr(plain, widths)(smaller)
        expected = (offset, factor * statistical, privacy)
        np.testing.assert_allclose(getattr(scaled, widths)(release), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("kind", [Optimism, UCBVI, UCBPO])
@pytest.mark.parametrize(
    ("change", "message"),
    [
        *(({"confidence": value}, "confidence") for value in (0.0, 0.95, 1.0, -0.1, 1.5, math.nan, math.inf)),
        *(({"statistical_scale": value}, "statistical_scale") for value in (-1e-9, -1.0, math.nan, math.inf)),
        *(({"privacy_scale": value}, "privacy_scale") for value in (-1e-9, -1.0, math.nan, math.inf)),
        *(({"episodes": value}, "episode") for value in (0, -3)),
        ({"spec": replace(SPEC, rewards=MomentBound(order=1.5, bound=2.0, mean=1.0))}, "heavy tails"),
    ],
)
def test_settings_that_mean_nothing_are_refused(kind, change, message):
    with pytest.raises(SpecError, match=message):
        kind(**{"spec": SPEC, "episodes": 10, **change})


@pytest.mark.parametrize("eta_scale", [-1e-9, -1.0, math.nan, math.inf])
def test_a_learning_rate_that_means_nothing_is_refused(eta_scale):
    with pytest.raises(SpecError, match="eta_scale"):
        UCBPO(spec=SPEC, episodes=10, eta_scale=eta_scale)


# The bounds


def released(counts, errors, *, centred, pooled):
    """Exact counts per step as a release of episodes 1, …, which names these errors."""
    transitions, visits, rewards = (np.array(a, dtype=float) for a in counts)
    if centred:
        rewards = rewards - visits / 2
    if pooled:
        transitions, visits, rewards = (a.sum(axis=1, keepdims=True) for a in (transitions, visits, rewards))
    return TabularRelease(
        episodes=1,
        transitions=transitions,
        visits=visits,
        rewards=rewards,
        centred=centred,
        starts=None,
        errors=errors,
    )


def with_laplace_noise(release, rng, scale):
    """Noise on transitions and rewards, and on visits where these have a law of their own, else summed up."""
    own = release.errors["visits"] == Laplace(scale)
    transitions = release.transitions + rng.laplace(scale=scale, size=release.transitions.shape)
    rewards = release.rewards + rng.laplace(scale=scale, size=release.rewards.shape)
    visits = release.visits + rng.laplace(scale=scale, size=release.visits.shape) if own else transitions.sum(axis=-1)
    return replace(release, transitions=transitions, visits=visits, rewards=rewards)


def best_q(world):
    return planning.optimal(world.kernel[None], world.rewards[None], horizon=len(world.rewards)).q[0]


def below(q, reference):
    """Of each run, whether any value is below the reference."""
    return (q < reference - 1e-9).any(axis=(1, 2, 3))


LAYOUTS = {
    "per step, three families": (False, False, True),
    "pooled, centred, visits summed up": (True, True, False),
    "per step, centred, visits summed up": (False, True, False),
}
ROUNDS = 300


def simulated(layout, scale, episodes):
    pooled, centred, own = layout
    rng = np.random.default_rng(7)
    world = world_of(rng, stationary=pooled)
    visits = Laplace(scale) if own else LaplaceSum(scale=scale, terms=len(world.start))
    errors = {"visits": visits, "rewards": Laplace(scale), "transitions": Laplace(scale)}
    counts = counts_of(world, rng, episodes=episodes, runs=ROUNDS)
    return world, with_laplace_noise(released(counts, errors, centred=centred, pooled=pooled), rng, scale), rng


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
@pytest.mark.parametrize(("scale", "episodes"), [(0.01, 1_000_000), (2000.0, 50_000_000)], ids=["sampling", "noise"])
def test_values_are_optimistic(layout, scale, episodes):
    """Q ≥ Q* of UCB-VI, and Q ≥ Q^π of UCB-PO, in at least 1 − β of all draws; without bonuses in few."""
    world, release, rng = simulated(layout, scale, episodes)
    settings = {"spec": world.spec, "episodes": episodes, "confidence": 0.1}
    vi = UCBVI(**settings).start(release, uniforms_of(rng, ROUNDS))
    assert below(vi.q, best_q(world)).mean() <= 0.1
    po = UCBPO(**settings, eta_scale=100 * math.sqrt(episodes))
    state = po.update(po.start(release, no_uniforms), replace(release, episodes=2), no_uniforms)
    assert (np.abs(state.policy - 0.5) > 0.2).mean() > 0.5  # far from the uniform policy
    reached = planning.evaluate(world.kernel[None], world.rewards[None], state.policy)
    promised = (state.policy * state.q).sum(axis=-1)
    assert (promised < reached[:, :-1] - 1e-9).any(axis=(1, 2)).mean() <= 0.1
    for learnt in (vi, state):
        assert (learnt.q[:, 0] < len(world.rewards) - 0.2).mean() > 0.5  # not by standing at the ceiling
    bare = UCBVI(**settings, statistical_scale=0.0, privacy_scale=0.0)
    assert below(bare.start(release, uniforms_of(rng, ROUNDS)).q, best_q(world)).mean() > 0.5


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
@pytest.mark.parametrize(("scale", "episodes"), [(0.01, 1_000_000), (2000.0, 50_000_000)], ids=["sampling", "noise"])
def test_widths_bound_the_error_of_the_estimates(layout, scale, episodes):
    """Lemma 4.1: |r̃ − r| + |(P̃ − P)V*| ≤ β; Lemma 3.1: |r̃ − r| + H‖P̃ − P‖₁ ≤ β. Everywhere, in 1 − β of all draws."""
    world, release, _ = simulated(layout, scale, episodes)
    H = len(world.rewards)
    optimism = Optimism(spec=world.spec, episodes=episodes, confidence=0.1)
    value, policy = optimism.value_widths(release), optimism.policy_widths(release)
    D = np.maximum(1.0, release.visits + value.offset)
    off = np.abs(release.reward_sums / D - world.rewards)
    wrong = release.transitions / D[..., None] - world.kernel
    best = planning.optimal(world.kernel[None], world.rewards[None], horizon=H).values[0, 1:]
    ahead = np.abs((wrong * best[:, None, None]).sum(axis=-1))
    for error, widths in ((off + ahead, value), (off + H * np.abs(wrong).sum(axis=-1), policy)):
        bound = widths.statistical / np.sqrt(D) + widths.privacy / D
        assert (error > bound).any(axis=(1, 2, 3)).mean() <= 0.1
        assert (bound < H).mean() > 0.5


@relaxed
@given(
    seed=st.integers(0, 2**32),
    centred=st.booleans(),
    levels=st.tuples(*[st.sampled_from([0.0, 1.0, 30.0])] * 3),
    extreme=st.booleans(),
)
def test_no_error_within_the_precision_levels_makes_values_pessimistic(seed, centred, levels, extreme):
    """Sampling error aside: whatever signs the errors have, and however negative a count becomes.

    000 derives optimism from P̃V ≥ P̃V* for V ≥ V*, which needs P̃ ≥ 0. Where counts are negative the bound holds still,
    since the true counts N(s') ≥ 0 carry that step, and what is left of P̃V is within S·E₂·H/D.
    """
    rng = np.random.default_rng(seed)
    world = world_of(rng, H=rng.integers(1, 4), S=rng.integers(1, 4), A=rng.integers(1, 3))
    errors = {name: AtMost(level) for name, level in zip(FAMILIES, levels, strict=True)}
    visits = rng.uniform(1, 100, (5, *world.rewards.shape))
    exact = released(
        (visits[..., None] * world.kernel, visits, visits * world.rewards), errors, centred=centred, pooled=False
    )
    moved = {}
    for name in FAMILIES:
        array = getattr(exact, name)
        signs = rng.choice([-1.0, 1.0], array.shape) if extreme else rng.uniform(-1, 1, array.shape)
        moved[name] = array + errors[name].largest * signs
    settings = {"spec": world.spec, "episodes": 1000, "statistical_scale": 0.0}
    vi = UCBVI(**settings).start(replace(exact, **moved), uniforms_of(rng, 5))
    assert not below(vi.q, best_q(world)).any()
    po = UCBPO(**settings, eta_scale=1e3)
    state = po.update(po.start(replace(exact, **moved), no_uniforms), replace(exact, **moved, episodes=9), no_uniforms)
    reached = planning.evaluate(world.kernel[None], world.rewards[None], state.policy)
    assert ((state.policy * state.q).sum(axis=-1) >= reached[:, :-1] - 1e-9).all()


def test_the_precision_level_of_rewards_is_attained():
    """All else exact, R̃ = R − E_R: at the last step Q is r itself, and with a bonus 1 % smaller it is less."""
    world = world_of(np.random.default_rng(3))
    errors = {**EXACT, "rewards": AtMost(4.0)}
    visits = np.full((1, *world.rewards.shape), 64.0)
    counts = (visits[..., None] * world.kernel, visits, visits * world.rewards - 4.0)
    release = released(counts, errors, centred=False, pooled=False)
    q = [
        UCBVI(spec=world.spec, episodes=9, statistical_scale=0.0, privacy_scale=scale)
        .start(release, uniforms_of(np.random.default_rng(0), 1))
        .q
        for scale in (1.0, 0.99)
    ]
    np.testing.assert_allclose(q[0][0, -1], world.rewards[-1], rtol=1e-12)
    assert (q[1][0, -1] < world.rewards[-1] - 1e-4).any()


def test_exact_counts_without_bonus_give_the_optimal_values():
    world = world_of(np.random.default_rng(4))
    for centred in (False, True):
        visits = np.full((1, *world.rewards.shape), 50.0)
        counts = (visits[..., None] * world.kernel, visits, visits * world.rewards)
        release = released(counts, EXACT, centred=centred, pooled=False)
        learner = UCBVI(spec=world.spec, episodes=9, statistical_scale=0.0, privacy_scale=0.0)
        q = learner.start(release, uniforms_of(np.random.default_rng(0), 1)).q
        np.testing.assert_allclose(q[0], best_q(world), rtol=1e-12)


def test_values_come_down_to_the_optimal_ones_as_counts_grow():
    """With the theorem's bonus, noise and all, from above; without bonus from both sides, as fast as 1/√K."""
    rng = np.random.default_rng(5)
    world = world_of(rng)
    above, around = [], []
    for episodes in (10**4, 10**6, 10**8, 10**10, 10**12):
        counts = counts_of(world, rng, episodes=episodes, runs=20)
        errors = dict.fromkeys(FAMILIES, Laplace(10.0))
        noisy = with_laplace_noise(released(counts, errors, centred=False, pooled=False), rng, 10.0)
        learner = UCBVI(spec=world.spec, episodes=episodes)
        above.append((learner.start(noisy, uniforms_of(rng, 20)).q - best_q(world)).max())
        exact = released(counts, EXACT, centred=False, pooled=False)
        bare = replace(learner, statistical_scale=0.0, privacy_scale=0.0)
        around.append(np.abs(bare.start(exact, uniforms_of(rng, 20)).q - best_q(world)).max())
    assert above == sorted(above, reverse=True)
    assert above[-1] < 1e-3
    assert all(later < earlier / 4 for earlier, later in itertools.pairwise(around))  # a tenth, but for chance
    assert around[-1] < 1e-4
