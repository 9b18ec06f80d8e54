"""Reward laws against SciPy's distributions, numerical integrals and characteristic functions."""

import itertools
import math
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, stats

from tacit.mdp.rewards import (
    Bernoulli,
    Deterministic,
    Gaussian,
    Pareto,
    RewardLaw,
    StudentT,
    SymmetricStable,
)
from tacit.mdp.spec import SpecError

S, A, H = 3, 2, 4
MEAN = np.arange(H * S * A).reshape(H, S, A) / 30.0  # in [0, 0.77]

LAWS = [
    Deterministic(mean=MEAN),
    Bernoulli(mean=MEAN),
    Bernoulli(mean=MEAN, low=-1.0, high=np.linspace(1, 2, A)),
    Gaussian(mean=MEAN, sd=np.linspace(0.5, 1, S)[:, None]),
    SymmetricStable(mean=MEAN, alpha=1.5, scale=0.3),
    SymmetricStable(mean=MEAN, alpha=np.linspace(1.2, 2, A), scale=1.0),
    StudentT(mean=MEAN, df=2.5, scale=0.7),
    Pareto(mean=MEAN, shape=1.8, scale=0.5),
]
every_law = pytest.mark.parametrize("law", LAWS, ids=repr)


def draw(law, n, seed=0, *, step=0, state=0, action=0):
    chances = np.random.default_rng(seed).random((n, law.uniforms))
    cell = {
        name: np.full(n, value)
        for name, value in (("step", step), ("state", state), ("action", action), ("next_state", 0))
    }
    return law.sample(chances, **cell)


def one_cell(law_type, **parameters):
    return law_type(mean=[[parameters.pop("mean", 0.0)]], **parameters)


# --- the laws' distributions -------------------------------------------------------------------------------

REFERENCES = [
    (one_cell(Gaussian, mean=1.0, sd=2.0), stats.norm(1.0, 2.0)),
    (one_cell(SymmetricStable, mean=1.0, alpha=2.0, scale=1.5), stats.norm(1.0, 1.5 * math.sqrt(2))),
    (one_cell(StudentT, mean=-1.0, df=1.3, scale=2.0), stats.t(1.3, -1.0, 2.0)),
    (one_cell(StudentT, mean=0.5, df=30.0, scale=0.1), stats.t(30.0, 0.5, 0.1)),
    (one_cell(Pareto, mean=2.0, shape=1.5, scale=3.0), stats.pareto(1.5, 2.0 - 9.0, 3.0)),
    (one_cell(Bernoulli, mean=0.3), None),
]


@pytest.mark.parametrize(("law", "reference"), REFERENCES[:-1], ids=lambda x: repr(x)[:30])
def test_the_distribution_is_the_one_named(law, reference):
    sample = draw(law, 200_000, seed=1)
    assert stats.kstest(sample, reference.cdf).pvalue > 1e-6
    assert reference.mean() == pytest.approx(law.mean.item(), abs=1e-12)  # the exact mean, by another hand


@pytest.mark.parametrize("alpha", [1.1, 1.5, 1.9, 2.0])
def test_stable_noise_has_the_stable_characteristic_function(alpha):
    n, mean, scale = 400_000, 0.7, 1.3
    sample = draw(one_cell(SymmetricStable, mean=mean, alpha=alpha, scale=scale), n, seed=2)
    for t in (0.1, 0.3, 1.0, 2.0):
        expected = math.exp(-((scale * t) ** alpha))
        centred = t * (sample - mean)
        assert np.cos(centred).mean() == pytest.approx(expected, abs=5 / math.sqrt(2 * n))
        assert np.sin(centred).mean() == pytest.approx(0.0, abs=5 / math.sqrt(2 * n))


def test_bernoulli_takes_two_values_with_the_right_chance():
    law = one_cell(Bernoulli, mean=0.1, low=-1.0, high=3.0)
    sample = draw(law, 100_000)
    assert set(np.unique(sample)) == {-1.0, 3.0}
    assert stats.binomtest(int((sample == 3.0).sum()), 100_000, 1.1 / 4).pvalue > 1e-6


def test_certain_bernoulli_rewards_are_certain():
    for mean, low, high in ((0.0, 0.0, 1.0), (1.0, 0.0, 1.0), (-0.1, -0.1, 0.2), (0.2, -0.1, 0.2)):
        assert np.array_equal(np.unique(draw(one_cell(Bernoulli, mean=mean, low=low, high=high), 10_000)), [mean])


@pytest.mark.parametrize(
    "law",
    [
        one_cell(Bernoulli, mean=0.3, low=-1.0, high=2.0),
        one_cell(Gaussian, mean=1.5, sd=2.0),
        one_cell(Pareto, mean=0.5, shape=3.0, scale=2.0),
    ],
    ids=repr,
)
def test_laws_of_one_uniform_integrate_to_their_mean(law):
    n = 2_000_000
    grid = (np.arange(n)[:, None] + 0.5) / n
    zeros = np.zeros(n, int)
    sample = law.sample(grid, step=zeros, state=zeros, action=zeros, next_state=zeros)
    # Rounding the grid costs at most the tail above 1 - 1/n, about n^(1/3 - 1) for the Pareto law.
    assert sample.mean() == pytest.approx(law.mean.item(), abs=2e-4)


@every_law
def test_the_extreme_uniforms_give_finite_rewards(law):
    last = 1 - 2.0**-53
    corners = np.array(list(itertools.product([0.0, 2.0**-53, 0.5, last], repeat=law.uniforms)))
    zeros = np.zeros(len(corners), int)
    rewards = law.sample(corners, step=zeros, state=zeros, action=zeros, next_state=zeros)
    assert np.isfinite(rewards).all()
    assert (rewards >= law.support[0]).all()
    assert (rewards <= law.support[1]).all()


@every_law
def test_a_reward_depends_on_its_own_uniforms_and_cell_only(law):
    rng = np.random.default_rng(3)
    shape = (5, 7, H)
    chances = rng.random((*shape, law.uniforms))
    state, action = rng.integers(S, size=shape), rng.integers(A, size=shape)
    step, next_state = np.arange(H), rng.integers(S, size=shape)
    together = law.sample(chances, step=step, state=state, action=action, next_state=next_state)
    assert together.shape == shape
    for i, j, h in np.ndindex(*shape):
        alone = law.sample(
            chances[i, j, h],
            step=np.array(h),
            state=state[i, j, h],
            action=action[i, j, h],
            next_state=next_state[i, j, h],
        )
        # Vectorised transcendental functions may differ from scalar ones in the last bit.
        assert alone == pytest.approx(together[i, j, h], rel=1e-13)


@every_law
def test_each_cell_has_its_own_parameters(law):
    """A cell of the law of everything is the law of that cell alone."""
    for h, s, a in ((0, 0, 0), (1, 2, 1), (3, 1, 0)):
        alone = type(law)(
            **{name: [[np.broadcast_to(value, law.mean.shape)[h, s, a]]] for name, value in law.parameters.items()}
        )
        sample = draw(law, 100, step=h, state=s, action=a)
        np.testing.assert_allclose(sample, draw(alone, 100), rtol=1e-13)
        assert alone.mean.item() == MEAN[h, s, a]


@every_law
def test_relabelling_moves_every_cell(law):
    states, actions = np.array([2, 0, 1]), np.array([1, 0])
    renamed = law.relabel(states=states, actions=actions)
    assert type(renamed) is type(law)
    for s in range(S):
        for a in range(A):
            np.testing.assert_array_equal(
                draw(law, 50, step=1, state=s, action=a),
                draw(renamed, 50, step=1, state=states[s], action=actions[a]),
            )
            assert renamed.mean[1, states[s], actions[a]] == law.mean[1, s, a]


@every_law
def test_laws_are_read_only_print_and_pickle(law):
    with pytest.raises(ValueError, match="read-only"):
        law.mean[0] = 1.0
    with pytest.raises(TypeError):
        law.parameters["mean"] = 1.0
    assert repr(law).startswith(f"{type(law).__name__}(mean=<4 x 3 x 2>")
    copy = pickle.loads(pickle.dumps(law))
    np.testing.assert_array_equal(draw(copy, 20), draw(law, 20))


def test_the_callers_array_is_copied():
    mean = np.full((1, 2, 2), 0.5)
    law = Bernoulli(mean=mean)
    mean[:] = 0.0
    assert (law.mean == 0.5).all()


# --- shapes and impossible parameters ----------------------------------------------------------------------


def test_parameters_broadcast():
    law = Gaussian(mean=np.zeros((S, A)), sd=np.ones((H, 1, 1)))
    assert law.mean.shape == (H, S, A)  # a law that differs between steps, through its noise
    assert Gaussian(mean=np.zeros((S, A)), sd=1).parameters["sd"].shape == (1, 1, 1)
    assert Deterministic(mean=[[1, 2], [3, 4]]).mean.shape == (1, 2, 2)
    assert Deterministic(mean=[[7.0]]).mean.item() == 7.0
    law = Gaussian(mean=np.zeros((H, S, A)), sd=np.arange(S * A).reshape(S, A))
    assert (law.parameters["sd"][2] == np.arange(6).reshape(S, A)).all()


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Deterministic(mean=1.0), r"\(H\|1, S, A\)"),
        (lambda: Deterministic(mean=np.zeros(3)), r"\(H\|1, S, A\)"),
        (lambda: Deterministic(mean=np.zeros((1, 1, 2, 2))), r"\(H\|1, S, A\)"),
        (lambda: Deterministic(mean=np.zeros((0, 2))), r"\(H\|1, S, A\)"),
        (lambda: Deterministic(mean=[[np.nan]]), "mean must be finite"),
        (lambda: Gaussian(mean=[[0.0]], sd=np.inf), "sd must be finite"),
        (lambda: Gaussian(mean=np.zeros((2, 2)), sd=np.ones(3)), "fit together"),
        (lambda: Gaussian(mean=np.zeros((2, 1)), sd=np.ones((2, 3))), "broadcast against the mean"),
        (lambda: Gaussian(mean=np.zeros((2, 2)), sd=np.ones((2, 1, 2, 2))), "broadcast against the mean"),
        (lambda: Gaussian(mean=[[0.0]], sd=-1.0), "sd .* at least 0"),
        (lambda: Bernoulli(mean=[[1.1]]), "between low and high"),
        (lambda: Bernoulli(mean=[[-0.1]]), "between low and high"),
        (lambda: Bernoulli(mean=[[0.0]], low=0.0, high=0.0), "low < high"),
        (lambda: SymmetricStable(mean=[[0.0]], alpha=1.0), "alpha"),
        (lambda: SymmetricStable(mean=[[0.0]], alpha=2.1), "alpha"),
        (lambda: SymmetricStable(mean=[[0.0]], alpha=1.5, scale=-1), "scale"),
        (lambda: StudentT(mean=[[0.0]], df=1.0), "df > 1"),
        (lambda: StudentT(mean=[[0.0]], df=2.0, scale=-0.1), "scale"),
        (lambda: Pareto(mean=[[0.0]], shape=1.0), "shape > 1"),
        (lambda: Pareto(mean=[[0.0]], shape=2.0, scale=-0.1), "scale"),
    ],
)
def test_impossible_laws_are_refused(build, message):
    with pytest.raises(SpecError, match=message):
        build()


def test_supports():
    assert Deterministic(mean=MEAN).support == (0.0, MEAN.max())
    assert Bernoulli(mean=MEAN, low=-1.0, high=np.linspace(1, 2, A)).support == (-1.0, 2.0)
    assert Gaussian(mean=MEAN, sd=0.1).support == (-math.inf, math.inf)
    assert Gaussian(mean=MEAN, sd=0.0).support == (0.0, MEAN.max())
    assert Pareto(mean=MEAN, shape=3.0, scale=4.0).support == (-2.0, math.inf)
    assert Pareto(mean=MEAN, shape=3.0, scale=0.0).support == (0.0, MEAN.max())


# --- moments -----------------------------------------------------------------------------------------------

orders = st.floats(1.001, 2.0)
means = st.floats(-3.0, 3.0)


def integral(density, order, points=()):
    """E|r|^order by adaptive quadrature on pieces of the line."""
    cuts = sorted({-math.inf, -50.0, -5.0, 0.0, 5.0, 50.0, math.inf, *points})
    return sum(
        integrate.quad(lambda x: abs(x) ** order * density(x), low, high, limit=400)[0]
        for low, high in itertools.pairwise(cuts)
    )


@settings(deadline=None, max_examples=25)
@given(order=orders, mean=means, sd=st.floats(0.3, 3.0))
def test_gaussian_moments_are_exact(order, mean, sd):
    law = one_cell(Gaussian, mean=mean, sd=sd)
    assert law.moment_bound(order) == pytest.approx(
        integral(stats.norm(mean, sd).pdf, order, (mean - sd, mean, mean + sd)), rel=1e-7
    )


@settings(deadline=None, max_examples=25)
@given(order=orders, mean=st.floats(-5, 5), shape=st.floats(2.2, 6.0), scale=st.floats(0.3, 3.0))
def test_pareto_moments_are_exact(order, mean, shape, scale):
    law = one_cell(Pareto, mean=mean, shape=shape, scale=scale)
    # Over the tail probability u: the reward is mean + scale (u^(-1/shape) - shape/(shape-1)).
    lowest = mean - scale / (shape - 1)
    kink = (1 - lowest / scale) ** -shape if lowest < 0 else None  # where the reward is 0
    pieces = sorted({0.0, 1e-6, 1e-3, 0.1, 1.0, *([kink] if kink else [])})
    expected = sum(
        integrate.quad(
            lambda u: abs(mean + scale * (u ** (-1 / shape) - shape / (shape - 1))) ** order,
            a,
            b,
            limit=400,
        )[0]
        for a, b in itertools.pairwise(pieces)
    )
    assert law.moment_bound(order) == pytest.approx(expected, rel=1e-6)


@settings(deadline=None, max_examples=25)
@given(order=orders, mean=means, df=st.floats(2.2, 30.0), scale=st.floats(0.3, 3.0))
def test_student_moments_are_bounded_and_exact_at_mean_0(order, mean, df, scale):
    exact = integral(stats.t(df, mean, scale).pdf, order, (mean - scale, mean, mean + scale))
    bound = one_cell(StudentT, mean=mean, df=df, scale=scale).moment_bound(order)
    assert exact * (1 - 1e-6) <= bound <= exact * 1.6
    centred = integral(stats.t(df, 0.0, scale).pdf, order, (-scale, scale))
    assert one_cell(StudentT, df=df, scale=scale).moment_bound(order) == pytest.approx(centred, rel=1e-5)


def stable_moment_by_fourier(order, mean, alpha, scale):
    """E|r|^order = c ∫_0^∞ (1 - cos(mean·t) exp(-(scale·t)^alpha)) t^(-order-1) dt, 0 < order < 2."""

    x = np.linspace(-400.0, math.log(200.0), 1_000_001)  # t = e^x: the integrand falls like t^(alpha - order)
    t = np.exp(x)
    exponent = -((scale * t) ** alpha)
    one_minus = -np.expm1(exponent) + np.exp(exponent) * 2 * np.sin(mean * t / 2) ** 2
    total = np.trapezoid(one_minus * t**-order, x) + t[-1] ** -order / order
    return total * 2 * math.gamma(1 + order) * math.sin(math.pi * order / 2) / math.pi


@pytest.mark.parametrize("alpha", [1.3, 1.5, 1.8])
@pytest.mark.parametrize("mean", [0.0, 0.5, -3.0])
def test_stable_moments_are_bounded_and_exact_at_mean_0(alpha, mean):
    for order in (1.05, 1.2, alpha - 0.06):
        exact = stable_moment_by_fourier(order, mean, alpha, 1.2)
        bound = one_cell(SymmetricStable, mean=mean, alpha=alpha, scale=1.2).moment_bound(order)
        assert exact * (1 - 1e-6) <= bound <= exact * 1.6
        if mean == 0:
            assert bound == pytest.approx(exact, rel=1e-6)


def test_moments_known_by_hand():
    assert one_cell(Deterministic, mean=-2.0).moment_bound(1.5) == pytest.approx(2**1.5)
    assert one_cell(Bernoulli, mean=0.3).moment_bound(1.7) == pytest.approx(0.3)
    assert one_cell(Bernoulli, mean=0.0, low=-2.0, high=2.0).moment_bound(2) == pytest.approx(4.0)
    assert one_cell(Gaussian, mean=3.0, sd=2.0).moment_bound(2) == pytest.approx(13.0)
    assert one_cell(SymmetricStable, mean=3.0, alpha=2, scale=1.0).moment_bound(2) == pytest.approx(11.0)
    assert one_cell(StudentT, mean=3.0, df=3.0, scale=1.0).moment_bound(2) == pytest.approx(12.0)
    assert one_cell(Pareto, mean=3.0, shape=3.0, scale=1.0).moment_bound(2) == pytest.approx(9.75)
    assert one_cell(Gaussian, mean=1e9, sd=1.0).moment_bound(1.5) == pytest.approx(1e9**1.5)
    assert one_cell(Pareto, mean=1e6, shape=3.0, scale=1.0).moment_bound(2) == pytest.approx(1e12)


@pytest.mark.parametrize(
    "law",
    [
        one_cell(Gaussian, mean=-2.0, sd=0.0),
        one_cell(SymmetricStable, mean=-2.0, alpha=1.2, scale=0.0),
        one_cell(StudentT, mean=-2.0, df=1.2, scale=0.0),
        one_cell(Pareto, mean=-2.0, shape=1.2, scale=0.0),
    ],
    ids=repr,
)
def test_without_noise_every_moment_is_the_means(law):
    assert law.moment_bound(1.9) == pytest.approx(2**1.9)
    assert (draw(law, 10) == -2.0).all()


def test_the_moment_bound_is_the_largest_of_all_cells():
    law = Gaussian(mean=MEAN, sd=np.linspace(0.5, 1, S)[:, None])
    each = [
        one_cell(Gaussian, mean=MEAN[h, s, a], sd=np.linspace(0.5, 1, S)[s]).moment_bound(1.5)
        for h, s, a in np.ndindex(H, S, A)
    ]
    assert law.moment_bound(1.5) == pytest.approx(max(each), rel=1e-12)


@pytest.mark.parametrize(
    ("law", "limit"),
    [
        (one_cell(SymmetricStable, alpha=1.5), 1.5),
        (one_cell(StudentT, df=1.5), 1.5),
        (one_cell(Pareto, shape=1.5), 1.5),
    ],
    ids=repr,
)
def test_infinite_moments_are_an_error(law, limit):
    assert law.moment_bound(limit - 0.01) > 10
    for order in (limit, 1.9, 2.0):
        with pytest.raises(SpecError, match=r"infinite; the order must be below 1\.5"):
            law.moment_bound(order)


@every_law
@pytest.mark.parametrize("order", [1.0, 2.1, math.nan])
def test_orders_outside_1_to_2_are_refused(law, order):
    with pytest.raises(SpecError, match="order"):
        law.moment_bound(order)


def test_a_law_of_ones_own_needs_everything():
    class Half(RewardLaw):
        mean = np.zeros((1, 1, 1))

    with pytest.raises(TypeError, match="abstract"):
        Half()
