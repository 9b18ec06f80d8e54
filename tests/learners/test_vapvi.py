"""VAPVI, PEVI and the linear rule: against literal transcriptions, without noise and with recorded noise."""

import math

import numpy as np
import pytest

from learners.linear_cases import logged, trained, uniforms
from tacit.learners import PEVI, VAPVI, LinearPVI
from tacit.learners._regression import greedy, solved
from tacit.mdp import LinearMDP, linear_random
from tacit.mdp.spec import EpisodeSpec, SpecError
from tacit.privacy import Central, NonPrivate
from tacit.privatizers import AdaptivePrivatizer, BudgetExhausted, converse
from tacit.releases import GramRelease, Query

H = 6


@pytest.fixture(scope="module")
def world():
    return linear_random(seed=1, horizon=H, scaled=True)


@pytest.fixture(scope="module")
def steep():
    """A world in which variances exceed 1, so that weights matter: rewards of 1 for ever, or 0, by a coin at first."""
    kernel = np.zeros((1, 3, 2, 3))
    kernel[0, 0, 0], kernel[0, 0, 1] = [0.2, 0.4, 0.4], [0.1, 0.7, 0.2]
    kernel[0, 1, :, 1] = kernel[0, 2, :, 2] = 1.0
    theta = np.zeros((3, 2))
    theta[1] = [1.0, 0.9]
    spec = EpisodeSpec(states=3, actions=2, horizon=8, start=(1.0, 0.0, 0.0))
    return LinearMDP(
        spec=spec,
        phi=np.eye(6).reshape(3, 2, 6) * 0.8,
        nu=kernel.reshape(1, 6, 3) / 0.8,
        theta=theta.reshape(1, 6) / 0.8,
        start=np.array([1.0, 0.0, 0.0]),
    )


# Algorithm 2 line by line, with everything that is drawn set to 0.


def regression(phi, states, actions, y, weights, ridge):
    d = phi.shape[-1]
    matrix, vector = ridge * np.eye(d), np.zeros(d)
    for s, a, target in zip(states, actions, y, strict=True):
        matrix += np.outer(phi[s, a], phi[s, a]) / weights[s, a]
        vector += phi[s, a] * target / weights[s, a]
    return matrix, np.linalg.solve(matrix, vector)


def literal_vapvi(world, people, run, learner):
    phi, horizon, d = world.phi, world.spec.horizon, world.phi.shape[-1]
    S, A = world.spec.states, world.spec.actions
    number = people.rewards.shape[1]
    first = slice(0, number // 2) if learner.split else slice(None)
    second = slice(number // 2, None) if learner.split else slice(None)
    ahead, q_all, values = np.zeros(S), np.zeros((horizon, S, A)), np.zeros((horizon, S))
    for h in range(horizon, 0, -1):
        one = np.ones((S, A))
        s, a = people.states[run, second, h - 1], people.actions[run, second, h - 1]
        onward = ahead[people.states[run, second, h]]
        _, beta = regression(phi, s, a, onward**2, one, learner.ridge)
        _, theta = regression(phi, s, a, onward, one, learner.ridge)
        top = horizon - h + 1
        sigma2 = np.maximum(1.0, np.clip(phi @ beta, 0, top**2) - np.clip(phi @ theta, 0, top) ** 2)
        s, a = people.states[run, first, h - 1], people.actions[run, first, h - 1]
        y = people.rewards[run, first, h - 1] + ahead[people.states[run, first, h]]
        matrix, w = regression(phi, s, a, y, sigma2, learner.ridge)
        for state in range(S):
            for action in range(A):
                feature = phi[state, action]
                width = math.sqrt(feature @ np.linalg.solve(matrix, feature))
                penalty = learner.bonus * math.sqrt(d) * width + learner.offset / number
                q_all[h - 1, state, action] = max(min(feature @ w - penalty, top), 0)
        values[h - 1] = ahead = q_all[h - 1].max(axis=1)
    return q_all, values


def literal_pevi(world, people, run, learner):
    phi, horizon, d = world.phi, world.spec.horizon, world.phi.shape[-1]
    ahead, q_all = np.zeros(world.spec.states), []
    for h in range(horizon, 0, -1):
        s, a = people.states[run, :, h - 1], people.actions[run, :, h - 1]
        y = people.rewards[run, :, h - 1] + ahead[people.states[run, :, h]]
        matrix, w = regression(phi, s, a, y, np.ones(phi.shape[:2]), learner.ridge)
        widths = np.sqrt(np.einsum("sad,de,sae->sa", phi, np.linalg.inv(matrix), phi))
        q_all.append(np.clip(phi @ w - learner.bonus * d * horizon * widths, 0, horizon - h + 1))
        ahead = q_all[-1].max(axis=1)
    return np.array(q_all[::-1])


def literal_linear(world, people, run, learner):
    phi, horizon = learner.features, world.spec.horizon
    ahead, q_all = np.zeros(world.spec.states), []
    for h in range(horizon, 0, -1):
        s, a = people.states[run, :, h - 1], people.actions[run, :, h - 1]
        middle, half = (1 + ahead.max() + ahead.min()) / 2, (1 + ahead.max() - ahead.min()) / 2
        y = people.rewards[run, :, h - 1] + ahead[people.states[run, :, h]] - middle
        assert np.abs(y).max() <= half + 1e-12
        matrix, w = regression(phi, s, a, y, np.ones(phi.shape[:2]), learner.ridge)
        widths = np.sqrt(np.einsum("sad,de,sae->sa", phi, np.linalg.inv(matrix), phi))
        q_all.append(np.clip(middle + phi @ w - learner.data_penalty * half * widths, 0, horizon - h + 1))
        ahead = q_all[-1].max(axis=1)
    return np.array(q_all[::-1])


@pytest.mark.parametrize("name", ["world", "steep"])
@pytest.mark.parametrize("split", [False, True])
@pytest.mark.parametrize("apart", [False, True])
def test_without_noise_vapvi_is_algorithm_2(name, split, apart, request):
    world = request.getfixturevalue(name)
    people = logged(world, 41, runs=2)
    learner = VAPVI(spec=world.spec, features=world.phi, split=split, apart=apart, bonus=0.3, offset=0.7, ridge=0.5)
    plan, privatizer = trained(learner, people, NonPrivate())
    for run in range(2):
        q, values = literal_vapvi(world, people, run, learner)
        np.testing.assert_allclose(plan.q[run], q, atol=1e-10)
        np.testing.assert_allclose(plan.values[run], values, atol=1e-10)
        assert (np.take_along_axis(q, plan.policy[run].argmax(-1)[..., None], -1)[..., 0] >= q.max(-1) - 1e-10).all()
    assert privatizer.releases == (5 * world.spec.horizon if apart else 3 * world.spec.horizon - 2)
    assert privatizer.asked == pytest.approx(1.0)


def test_weights_matter_in_a_steep_world(steep):
    """Otherwise the transcription could leave them out: somewhere σ̃² is well above 1."""
    people = logged(steep, 400)
    learner = VAPVI(spec=steep.spec, features=steep.phi, bonus=0.0)
    privatizer = AdaptivePrivatizer(steep.spec, steep.phi, NonPrivate(), episodes=400)
    privatizer.observe(people)
    weights = []

    def watched(asking):
        release = None
        while True:
            try:
                query = asking.send(release)
            except StopIteration as finished:
                return finished.value
            if query.weights is not None:
                weights.append(query.weights.min())
            release = yield query

    converse(watched(learner.plan(uniforms(0))), privatizer)
    assert min(weights) < 0.2


@pytest.mark.parametrize("apart", [False, True])
def test_without_noise_pevi_and_the_linear_rule_are_what_they_say(world, steep, apart):
    for place in (world, steep):
        people = logged(place, 41, runs=2)
        pevi = PEVI(spec=place.spec, features=place.phi, bonus=0.02, ridge=0.5, apart=apart)
        linear = LinearPVI(spec=place.spec, declared_features=place.phi, ridge=0.5)
        for learner, literal in ((pevi, literal_pevi), (linear, literal_linear)):
            plan, privatizer = trained(learner, people, NonPrivate())
            assert privatizer.asked == pytest.approx(1.0)
            for run in range(2):
                np.testing.assert_allclose(plan.q[run], literal(place, people, run, learner), atol=1e-10)


def makers(world):
    return (
        VAPVI(spec=world.spec, features=world.phi),
        VAPVI(spec=world.spec, features=world.phi, split=True, apart=True),
        PEVI(spec=world.spec, features=world.phi),
        LinearPVI(spec=world.spec, declared_features=world.phi),
    )


@pytest.mark.parametrize("calibration", ["exact", "published"])
def test_with_a_budget_without_end_nothing_is_lost(world, calibration):
    people = logged(world, 60)
    for learner in makers(world):
        exact, _ = trained(learner, people, NonPrivate())
        near, privatizer = trained(learner, people, Central(rho=1e16), calibration=calibration)
        np.testing.assert_allclose(near.q, exact.q, atol=1e-4)
        assert 0 < privatizer.asked <= 1 + 1e-9


def noisy_release(query, sums, errors, noise):
    gram = sums["gram"] + noise["gram"] if query.gram else None
    return GramRelease(episodes=30, gram=gram, vector=sums["vector"] + noise["vector"], vector_weight=1, errors=errors)


def test_algorithm_2_with_noise(world):
    """What is sent comes back in K and φ of lines 4 to 10: the plan for given noise, against the lines themselves."""

    class Law:
        def __init__(self, std):
            self.std = std

    rng = np.random.default_rng(5)
    people, phi, d = logged(world, 30), world.phi, world.phi.shape[-1]
    learner = VAPVI(spec=world.spec, features=phi, bonus=0.2, shift=1.5)
    exact = AdaptivePrivatizer(world.spec, phi, NonPrivate(), episodes=30)
    exact.observe(people)
    asking, noises = learner.plan(uniforms(0)), []
    query = next(asking)
    plan = None
    while plan is None:
        answer, drawn = exact.ask(Query(**{**vars(query), "share": 1e-6})), {}
        for name, shape in (("gram", (1, 1, d, d)), ("vector", (1, 1, d))):
            drawn[name] = 0.05 * rng.normal(size=shape)
        drawn["gram"] += np.swapaxes(drawn["gram"], -1, -2)
        noises.append((query, drawn))
        sums = {"gram": answer.gram, "vector": answer.vector}
        try:
            query = asking.send(noisy_release(query, sums, {"gram": Law(0.07), "vector": Law(0.05)}, drawn))
        except StopIteration as finished:
            plan = finished.value
    ahead = np.zeros(2)
    shift = 1.0 + 1.5 * 0.07 * math.sqrt(2 * d)  # the features' norm is 1
    remaining = list(noises)
    for h in range(H, 0, -1):
        top = H - h + 1
        s, a = people.states[0, :, h - 1], people.actions[0, :, h - 1]
        rows, onward = phi[s, a], ahead[people.states[0, :, h]]
        sigma2 = np.ones((2, 100))
        if h < H:
            (_, first), (_, second) = remaining.pop(0), remaining.pop(0)
            matrix = rows.T @ rows + first["gram"][0, 0] + shift * np.eye(d)
            beta = np.linalg.solve(matrix, rows.T @ onward**2 + (top - 1) ** 2 * first["vector"][0, 0])
            theta = np.linalg.solve(matrix, rows.T @ onward + (top - 1) * second["vector"][0, 0])
            sigma2 = np.maximum(1, np.clip(phi @ beta, 0, top**2) - np.clip(phi @ theta, 0, top) ** 2)
        _, third = remaining.pop(0)
        weighted = rows / sigma2[s, a][:, None]
        matrix = weighted.T @ rows + third["gram"][0, 0] + shift * np.eye(d)
        y = people.rewards[0, :, h - 1] + onward
        w = np.linalg.solve(matrix, weighted.T @ y + top * third["vector"][0, 0])
        widths = np.sqrt(np.einsum("sad,de,sae->sa", phi, np.linalg.inv(matrix), phi))
        q = np.clip(phi @ w - 0.2 * math.sqrt(d) * widths, 0, top)
        np.testing.assert_allclose(plan.q[0, h - 1], q, atol=1e-9)
        np.testing.assert_allclose(plan.weights[0, h - 1], w, atol=1e-8)
        ahead = q.max(axis=1)
    assert not remaining


def test_noise_larger_than_all_data_breaks_nothing(world):
    people = logged(world, 5, runs=3)
    for learner in makers(world):
        for guarantee in (Central(rho=1e-9), Central(epsilon=1e-3), Central(epsilon=0.01, delta=1e-9)):
            plan, privatizer = trained(learner, people, guarantee)
            for values in plan[:5]:
                assert np.isfinite(values).all()
            np.testing.assert_allclose(plan.policy.sum(axis=-1), 1.0)
            tops = np.arange(H, 0, -1.0)[:, None, None]
            assert (plan.q >= 0).all()
            assert (plan.q <= tops).all()
            assert privatizer.statement.committed.keeps(guarantee)
            with pytest.raises(BudgetExhausted):
                privatizer.ask(Query(step=0, share=0.01))


@pytest.mark.parametrize("project", [False, True])
def test_a_regression_is_solved_with_eigenvalues_above_the_floor(project):
    axes = np.linalg.qr(np.random.default_rng(0).normal(size=(4, 4)))[0]
    gram = (axes * [-9.0, -0.5, 0.2, 7.0]) @ axes.T
    found = solved(gram[None], np.ones((1, 4)), added=0.6, floor=0.3, project=project)
    expected = [0.6, 0.6, 0.8, 7.6] if project else [0.3, 0.3, 0.8, 7.6]
    np.testing.assert_allclose(np.linalg.eigvalsh(found.matrix[0]), expected)
    np.testing.assert_allclose(found.matrix[0] @ found.inverse[0], np.eye(4), atol=1e-12)
    np.testing.assert_allclose(found.matrix[0] @ found.weights[0], 1.0)
    features = np.random.default_rng(1).normal(size=(2, 3, 4))
    widths = [[math.sqrt(phi @ np.linalg.solve(found.matrix[0], phi)) for phi in row] for row in features]
    noise = [[np.linalg.norm(np.linalg.solve(found.matrix[0], phi)) for phi in row] for row in features]
    np.testing.assert_allclose(found.widths(features)[0], widths)
    np.testing.assert_allclose(found.noise(features)[0], noise)


def test_ties_are_broken_uniformly():
    """2,000 draws among 3 of 4 actions: each within 6 standard deviations of a third (false alarms below 1e-7)."""
    q = np.tile([1.0, 1.0, 0.5, 1.0], (1, 2000, 1))
    chosen = np.bincount(greedy(q, uniforms(0))[0], minlength=4)
    assert chosen[2] == 0
    assert np.abs(chosen[[0, 1, 3]] - 2000 / 3).max() < 6 * math.sqrt(2000 * 2 / 9)


def test_where_nothing_is_known_no_action_is_preferred(world):
    """Q = 0 throughout: 12 draws of 100 actions are not all alike, and hardly ever action 0."""
    learner = VAPVI(spec=world.spec, features=world.phi, bonus=1e6)
    plan, _ = trained(learner, logged(world, 20), NonPrivate())
    assert (plan.q == 0).all()
    assert len(set(plan.policy.argmax(axis=-1).ravel())) > 6


def test_same_seed_same_plan_whatever_runs_beside(world):
    for learner in makers(world):
        people = logged(world, 30, runs=3)
        one = trained(learner, type(people)(*(column[:1] for column in people)), Central(rho=1), seed=7)[0]
        three = trained(learner, people, Central(rho=1), seed=7)[0]
        again = trained(learner, people, Central(rho=1), seed=7)[0]
        np.testing.assert_array_equal(three.q, again.q)
        np.testing.assert_array_equal(three.policy, again.policy)
        np.testing.assert_allclose(one.q[0], three.q[0], atol=1e-9)
        assert not (trained(learner, people, Central(rho=1), seed=8)[0].q == three.q).all()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"bonus": -1.0}, "at least 0"),
        ({"offset": -1.0}, "at least 0"),
        ({"shift": -1.0}, "at least 0"),
        ({"ridge": 0.0}, "ridge"),
        ({"ridge": math.inf}, "ridge"),
        ({"features": np.ones((2, 3, 1))}, "features"),
        ({"features": np.zeros((2, 100, 1))}, "all features are 0"),
        ({"features": np.full((2, 100, 1), np.nan)}, "finite"),
    ],
)
def test_impossible_settings_are_told_at_once(world, settings, message):
    with pytest.raises(SpecError, match=message):
        VAPVI(**{"spec": world.spec, "features": world.phi, **settings})
    if "offset" not in settings:
        with pytest.raises(SpecError, match=message):
            PEVI(**{"spec": world.spec, "features": world.phi, **settings})
