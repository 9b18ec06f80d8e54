"""Adaptive queries: literal answers, accounts, noise, printed constants, and what people may send."""

import copy
import math
import pickle
import warnings

import numpy as np
import pytest

from tacit.mdp import Streams, Trajectories, riverswim
from tacit.mdp.spec import EpisodeSpec, MomentBound, SpecError
from tacit.privacy import Central, Joint, Local, NonPrivate, SecureNoise, SimulationNoise, Statement
from tacit.privatizers import AdaptivePrivatizer, BudgetExhausted, PrivatizationError
from tacit.releases import Query, Target
from tacit.statistics.gram import to_svec
from tacit.statistics.regression import Grid, RegressionTable

SPEC = EpisodeSpec(states=2, actions=2, horizon=2)
FEATURES = np.array([[[1.0, 0.2, 0.0], [0.5, -0.5, 1.0]], [[0.0, 2.0, -1.0], [0.3, 0.3, 0.3]]])
R_PLUS_V = Target(reward=1.0, values=np.array([[0.0, 1.0]]), low=0.0, high=2.0)
CENTRED = Target(reward=1.0, values=np.array([[-1.0, 0.0]]), low=-1.0, high=1.0)


def private(guarantee=None, *, episodes=4, spec=SPEC, features=FEATURES, **settings):
    noise = settings.pop("noise", SimulationNoise(0))
    return AdaptivePrivatizer(spec, features, guarantee or Central(rho=1), episodes=episodes, noise=noise, **settings)


@pytest.fixture(scope="module")
def people():
    world = riverswim(states=2, horizon=2)
    return world.rollout(np.full((1, 2, 2, 2), 0.5), episodes=60, streams=Streams(3, runs=2))


def literal(people, run, query, features=FEATURES):
    """Σ w φφᵀ/N² and Σ w φ y/(N·scale), person by person."""
    norm, d = np.linalg.norm(features, axis=-1).max(), features.shape[-1]
    gram, vector, number = np.zeros((d, d)), np.zeros(d), people.rewards.shape[1]
    chosen = {None: range(number), 0: range(number // 2), 1: range(number // 2, number)}[query.half]
    for i in chosen:
        s, a = people.states[run, i, query.step], people.actions[run, i, query.step]
        w = 1.0 if query.weights is None else query.weights[run % len(query.weights), s, a]
        phi = features[s, a] / norm
        gram += w * np.outer(phi, phi)
        if query.target is not None:
            target = query.target
            y = target.reward * people.rewards[run, i, query.step]
            y += target.values[run % len(target.values), people.states[run, i, query.step + 1]]
            vector += w * phi * np.clip(y, target.low, target.high) / target.scale[0]
    return gram, vector


@pytest.mark.parametrize("half", [None, 0, 1])
def test_answers_are_literal_sums(people, half):
    rng = np.random.default_rng(4)
    target = Target(reward=1.0, values=rng.random((2, 2)), low=0.1, high=1.4)
    query = Query(step=1, share=0.5, target=target, weights=rng.random((2, 2, 2)), half=half)
    exact = private(NonPrivate(), episodes=60, runs=2)
    near = private(Central(rho=1e18), episodes=60, runs=2)
    secure = private(Central(rho=1e18), episodes=60, runs=2, noise=SecureNoise())
    for privatizer, tolerance in ((exact, 1e-12), (near, 1e-6), (secure, 1e-6)):
        privatizer.observe(people)
        release = privatizer.ask(query)
        for run in range(2):
            gram, vector = literal(people, run, query)
            np.testing.assert_allclose(release.gram[run, 0], gram, atol=tolerance)
            np.testing.assert_allclose(release.vector[run, 0], vector, atol=tolerance)


def test_what_was_not_asked_for_is_not_there(people):
    privatizer = private(episodes=60, runs=2)
    privatizer.observe(people)
    gram = privatizer.ask(Query(step=0, share=0.1))
    vector = privatizer.ask(Query(step=0, share=0.1, gram=False, target=CENTRED))
    assert gram.vector is None
    assert vector.gram is None
    assert set(gram.errors) == {"gram"}
    assert set(vector.errors) == {"vector"}
    assert gram.episodes == 60


@pytest.mark.parametrize(
    "guarantee",
    [
        Central(rho=0.3),
        Central(epsilon=1, delta=1e-6),
        Central(epsilon=2),
        Central(rho=0.3, neighbours="add-or-remove-one"),
    ],
)
def test_the_account_adds_up_to_the_promise_and_no_further(guarantee):
    privatizer = private(guarantee, noise=SecureNoise())
    assert privatizer.statement.holds
    assert privatizer.statement.committed.rho == 0
    for number in range(10):
        query = Query(step=number % 2, share=0.1, target=CENTRED if number % 3 else None)
        privatizer.ask(query)
        statement = privatizer.statement
        assert statement.holds
        assert len(statement.calibrations) == statement.releases == number + 1
    assert privatizer.asked == pytest.approx(1.0)
    committed = statement.committed
    if guarantee.kind == "pure":
        assert committed.epsilon == pytest.approx(2.0, rel=1e-9)
    else:
        shares = {calibration.loss.rho for calibration in statement.calibrations.values()}
        assert max(shares) == pytest.approx(min(shares), rel=1e-9)
        assert committed.keeps(guarantee)
        assert committed.rho * 1.001 > (0.3 if guarantee.rho else 0)
    again = Statement.from_json(statement.to_json())
    assert again.committed == committed
    assert again.holds
    for share in (1e-3, 0.5):
        with pytest.raises(BudgetExhausted):
            privatizer.ask(Query(step=0, share=share))
    assert privatizer.releases == 10
    assert privatizer.statement.committed == committed


def test_every_share_is_named(people):
    privatizer = private(Central(rho=1), episodes=60, runs=2)
    privatizer.observe(people)
    privatizer.ask(Query(step=1, share=0.25, target=CENTRED, half=1))
    privatizer.ask(Query(step=0, share=0.5))
    first, second = privatizer.statement.calibrations.items()
    assert first[0] == "query 1 (step 2, 0.25 of the budget), gram and vector of the second half"
    assert second[0] == "query 2 (step 1, 0.5 of the budget), gram"
    assert first[1].loss.rho == pytest.approx(0.25)
    assert second[1].loss.rho == pytest.approx(0.5)
    text = str(privatizer.statement)
    assert "step 2, 0.25 of the budget" in text
    assert "60 of 60 users taken in, 2 releases made; spent: ρ = 0.75" in text


def test_somebody_with_several_episodes_is_hidden_with_all_of_them():
    one, three = private(), private(Central(rho=1, unit="user"), episodes_per_user=3)
    for privatizer in (one, three):
        privatizer.ask(Query(step=0, share=1.0))
    scales = [next(iter(p.calibrations.values())).scale for p in (one, three)]
    assert scales[1] == pytest.approx(3 * scales[0])
    assert "3 of the episodes" in str(three.statement)


@pytest.mark.parametrize(("guarantee", "law"), [(Central(rho=0.5), "gaussian"), (Central(epsilon=1), "laplace")])
@pytest.mark.parametrize("source", ["simulation", "secure"])
def test_the_noise_is_what_the_release_says(guarantee, law, source):
    """500 queries of nobody: moments within 6 of their own standard deviations (false alarms below 1e-6)."""
    grams, vectors = [], []
    for run in range(500):
        noise = SimulationNoise(run) if source == "simulation" else SecureNoise()
        privatizer = private(guarantee, noise=noise)
        release = privatizer.ask(Query(step=0, share=1.0, target=CENTRED, vector_weight=1.3))
        grams.append(to_svec(release.gram[0, 0]))
        vectors.append(1.3 * release.vector[0, 0])
        np.testing.assert_array_equal(release.gram, np.swapaxes(release.gram, -1, -2))
    kurtosis = 3.0 if law == "gaussian" else 6.0
    for found, family in ((np.array(grams), "gram"), (np.array(vectors), "vector")):
        std = release.errors[family].std
        values = found.ravel() / std
        # The variance of z² is kurtosis − 1.
        assert abs((values**2).mean() - 1) < 6 * math.sqrt((kurtosis - 1) / values.size)
        assert abs(values.mean()) < 6 / math.sqrt(values.size)
        between = np.corrcoef(found.T)[np.triu_indices(found.shape[1], 1)]
        assert np.abs(between).max() < 6 / math.sqrt(500)
    (calibration,) = privatizer.calibrations.values()
    assert calibration.mechanism == law
    assert release.errors["gram"].std == pytest.approx(calibration.scale * (1 if law == "gaussian" else math.sqrt(2)))
    size = RegressionTable(FEATURES).sensitivity(("gram", "vector"), weight=1.3)
    assert calibration.scale == pytest.approx(size.l2 if law == "gaussian" else size.l1, rel=1e-5)


def test_secure_answers_lie_on_a_lattice(people):
    privatizer = private(Central(rho=1), episodes=60, runs=2, noise=SecureNoise())
    privatizer.observe(people)
    release = privatizer.ask(Query(step=0, share=1.0, target=CENTRED, vector_weight=1.0))
    grid = Grid.below(next(iter(privatizer.calibrations.values())).scale, episodes=60)
    for values, unit in ((release.vector, grid.vector), (np.diagonal(release.gram[:, 0], axis1=1, axis2=2), grid.gram)):
        np.testing.assert_array_equal(values / unit, np.rint(values / unit))


def test_noise_is_for_the_run_whose_targets_range_furthest():
    """One scale for all runs: y in [0, 1] in one and in [−1, 1] in the other, both normalised."""
    scales = []
    for low, high in (([0.0, -3.0], [5.0, 3.0]), ([0.0, 0.0], [5.0, 3.0])):
        privatizer = private(Central(rho=1), runs=2)
        target = Target(reward=1.0, values=np.zeros((1, 2)), low=np.array(low), high=np.array(high))
        np.testing.assert_array_equal(target.scale, [5.0, 3.0])
        privatizer.ask(Query(step=0, share=1.0, gram=False, target=target))
        scales.append(next(iter(privatizer.calibrations.values())).scale)
    table = RegressionTable(FEATURES)
    for scale, low in zip(scales, (-1.0, 0.0), strict=True):
        size = table.sensitivity(("vector",), weight=math.sqrt(2), low=low, high=1.0)
        assert scale == pytest.approx(size.l2 / math.sqrt(2), rel=1e-5)
    assert scales[0] > 1.2 * scales[1]


def test_two_answers_share_no_noise():
    privatizer = private(runs=3)
    query = Query(step=0, share=0.2, target=CENTRED)
    first, second = privatizer.ask(query), privatizer.ask(query)
    assert not (first.gram == second.gram).any()
    assert not (first.vector == second.vector).any()
    assert len({float(x) for x in first.gram[:, 0, 0, 0]}) == 3


def test_same_seed_same_answers_whatever_runs_beside(people):
    query = Query(step=1, share=0.4, target=CENTRED)
    answers = []
    for runs in (1, 2, 2):
        privatizer = private(episodes=60, runs=runs, noise=SimulationNoise(8))
        privatizer.observe(Trajectories(*(column[:runs] for column in people)))
        answers.append(privatizer.ask(query))
    np.testing.assert_array_equal(answers[1].gram, answers[2].gram)
    np.testing.assert_array_equal(answers[0].vector[0], answers[1].vector[0])


NONSENSE = [
    None,
    "nobody",
    ([0, 1], [0, 0], [0.0, 0.0]),
    ([0, 1, 2], [0, 0], [0.0, 0.0]),
    ([0, 1, 0], [0, -1], [0.0, 0.0]),
    ([0, 1, 0], [0, 0.5], [0.0, 0.0]),
    ([0, 1, 0], [0, 0], [math.nan, 0.0]),
    ([0, 1, 0], [0, 0], ["much", 0.0]),
    ([math.inf, 1, 0], [0, 0], [0.0, 0.0]),
]


@pytest.mark.parametrize("sent", NONSENSE)
def test_nonsense_counts_as_empty_and_nobody_hears_of_it(sent):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        privatizer, nobody = private(NonPrivate()), private(NonPrivate())
        good = ([0, 1, 1], [1, 0], [0.3, 0.4])
        privatizer.observe([good, sent])
        nobody.observe([good, None])
        query = Query(step=0, share=0.5, target=CENTRED)
        found, expected = privatizer.ask(query), nobody.ask(query)
    np.testing.assert_array_equal(found.gram, expected.gram)
    np.testing.assert_array_equal(found.vector, expected.vector)
    assert np.trace(found.gram[0, 0]) > 0


def test_nobodys_tiny_reward_is_heard_of():
    target = Target(reward=1e-300, values=np.zeros((1, 2)), low=0.0, high=1.0)
    with np.errstate(all="raise"):
        privatizer = private(NonPrivate())
        privatizer.observe([([0, 1, 1], [1, 0], [1e-300, 5e-324])])
        assert np.isfinite(privatizer.ask(Query(step=0, share=1.0, target=target)).vector).all()


def test_rewards_are_clamped():
    answers = []
    for reward in (1.0, 1e300, math.inf):
        privatizer = private(NonPrivate())
        privatizer.observe([([0, 1, 1], [1, 0], [reward, 0.0])])
        answers.append(privatizer.ask(Query(step=0, share=1.0, target=R_PLUS_V)).vector)
    np.testing.assert_array_equal(answers[0], answers[1])
    np.testing.assert_array_equal(answers[0], answers[2])


def test_printed_noise_is_001s_and_the_statement_prices_it():
    """Algorithm 2, line 2; with features of norm 1 and orthogonal the Gram costs 2 times its share."""
    spec, features = EpisodeSpec(states=2, actions=2, horizon=5), np.eye(4).reshape(2, 2, 4)
    privatizer = private(Central(rho=2), spec=spec, features=features, calibration="published", noise=SecureNoise())
    rho0, H = 2 * 0.04, 5
    square = Target(reward=0, values=np.zeros((1, 2)), low=0.0, high=4.0, printed=float(H * H))
    privatizer.ask(Query(step=2, share=0.04))
    release = privatizer.ask(Query(step=2, share=0.04, gram=False, target=square, vector_weight=1.0))
    gram, vector = privatizer.calibrations.values()
    assert gram.scale == pytest.approx(math.sqrt(1 / (2 * rho0)))  # svec of (Z + Zᵀ)/√2, Z ~ N(0, 1/(4ρ₀))
    assert vector.scale * 4.0 == pytest.approx(math.sqrt(2 * H**4 / rho0))
    assert release.errors["vector"].std == vector.scale
    assert gram.loss.rho == pytest.approx(2 * rho0)
    assert vector.loss.rho == pytest.approx(2 * 16 / (2 * 2 * H**4 / rho0), rel=1e-4)  # orthogonal, y up to 4
    for _ in range(23):
        privatizer.ask(Query(step=0, share=0.04))
    assert not privatizer.statement.holds
    assert "NOT KEPT: ρ = 2 " in str(privatizer.statement)
    with pytest.raises(BudgetExhausted):
        privatizer.ask(Query(step=0, share=0.04))


def test_printed_noise_keeps_add_or_remove_one():
    features = FEATURES / np.linalg.norm(FEATURES, axis=-1).max()
    privatizer = private(
        Central(rho=1, neighbours="add-or-remove-one"), features=features, calibration="published", noise=SecureNoise()
    )
    for _ in range(5):
        privatizer.ask(Query(step=0, share=0.2))
    assert privatizer.statement.holds
    assert privatizer.statement.committed.rho == pytest.approx(1, rel=1e-6)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"guarantee": Local(epsilon=1)}, "Central"),
        ({"guarantee": Joint(rho=1)}, "Central"),
        ({"episodes": 0}, "at least 1"),
        ({"runs": 0}, "at least 1"),
        ({"calibration": "guessed"}, "exact"),
        ({"calibration": "published", "guarantee": Central(epsilon=1)}, "pure"),
        ({"guarantee": Central(rho=1, unit="user")}, "unit"),
    ],
)
def test_impossible_settings_are_told_at_once(settings, message):
    with pytest.raises(PrivatizationError, match=message):
        private(**settings)


@pytest.mark.parametrize(
    ("spec", "features"),
    [
        (SPEC, np.zeros((2, 2, 3))),
        (SPEC, np.full((2, 2, 3), np.nan)),
        (SPEC, np.ones((2, 2))),
        (SPEC, np.ones((3, 2, 1))),
        (EpisodeSpec(states=2, actions=2, horizon=2, rewards=MomentBound(order=2, bound=1, mean=1)), FEATURES),
    ],
)
def test_features_must_fit(spec, features):
    with pytest.raises(SpecError):
        private(spec=spec, features=features)


@pytest.mark.parametrize(
    ("query", "message"),
    [
        (Query(step=2, share=0.1), "steps are 0..1"),
        (Query(step=0, share=0.0), "share"),
        (Query(step=0, share=1.5), "share"),
        (Query(step=0, share=math.nan), "share"),
        (Query(step=0, share=0.1, gram=False), "asks for"),
        (Query(step=0, share=0.1, weights=np.full((1, 2, 2), 1.1)), r"\[0, 1\]"),
        (Query(step=0, share=0.1, weights=np.full((1, 2, 2), np.nan)), r"\[0, 1\]"),
        (Query(step=0, share=0.1, weights=np.ones((2, 2))), "S, A"),
        (Query(step=0, share=0.1, target=Target(reward=1, values=np.ones(2), low=0, high=1)), "values"),
        (Query(step=0, share=0.1, target=Target(reward=1, values=np.full((1, 2), np.inf), low=0, high=1)), "values"),
        (Query(step=0, share=0.1, target=Target(reward=1, values=np.ones((1, 2)), low=0, high=np.inf)), "bounds"),
        (Query(step=0, share=0.1, target=Target(reward=1e300, values=np.ones((1, 2)), low=0, high=1)), "coefficient"),
        (Query(step=0, share=0.1, target=Target(reward=1, values=np.ones((1, 2)), low=2, high=1)), "low ≤ high"),
        (Query(step=0, share=0.1, target=CENTRED, vector_weight=0.0), "weight"),
        (Query(step=0, share=0.1, half=2), "halves"),
    ],
)
def test_a_query_that_is_none_costs_nothing(query, message):
    privatizer = private()
    with pytest.raises(PrivatizationError, match=message):
        privatizer.ask(query)
    assert privatizer.asked == 0
    assert privatizer.statement.committed.rho == 0


def test_too_many_too_late_and_twice():
    privatizer = private(episodes=2)
    good = ([0, 1, 1], [1, 0], [0.3, 0.4])
    with pytest.raises(BudgetExhausted, match="2 episodes"):
        privatizer.observe([good] * 3)
    privatizer.observe([good])
    privatizer.ask(Query(step=0, share=0.5))
    with pytest.raises(PrivatizationError, match="answered already"):
        privatizer.observe([good])
    for attempt in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(PrivatizationError, match="copied"):
            attempt(privatizer)


def test_a_statement_without_privacy_says_so(people):
    privatizer = private(NonPrivate(), episodes=60, runs=2)
    privatizer.observe(people)
    assert privatizer.ask(Query(step=0, share=1.0)).errors["gram"].std == 0
    assert str(privatizer.statement).startswith("No privacy")
    simulated = private(Central(rho=1))
    simulated.ask(Query(step=0, share=1.0))
    assert str(simulated.statement).startswith("Simulated: no privacy")
    assert not simulated.statement.holds


def test_an_interrupted_answer_is_paid_for():
    class Broken(SimulationNoise):
        def gaussian(self, **settings):
            raise KeyboardInterrupt

    privatizer = private(noise=Broken(0))
    with pytest.raises(KeyboardInterrupt):
        privatizer.ask(Query(step=0, share=0.7))
    assert privatizer.asked == 0.7
    with pytest.raises(BudgetExhausted):
        privatizer.ask(Query(step=0, share=0.7))
