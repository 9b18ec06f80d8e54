"""Planning against literal loops and against the enumeration of all trajectories and policies."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.sparse import csr_array, csr_matrix

from tacit.mdp import planning
from tacit.mdp.planning import as_policy, evaluate, expected_values, greedy, occupancies, optimal

relaxed = settings(deadline=None)  # the first call compiles


def one_or(n):
    return st.sampled_from(sorted({1, n}))


@st.composite
def problems(draw, distributions=False):
    """(kernel, rewards, policy, sizes): the axes R|1 and H|1 in every mixture, kernels that need not be laws."""
    R, H = draw(st.integers(1, 3)), draw(st.integers(1, 4))
    S, A = draw(st.integers(1, 4)), draw(st.integers(1, 3))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    kernel = rng.normal(size=(draw(one_or(R)), draw(one_or(H)), S, A, S))
    if distributions:
        kernel = rng.dirichlet(np.ones(S), size=kernel.shape[:-1])
    rewards = rng.normal(size=(draw(one_or(R)), draw(one_or(H)), S, A))
    policy_runs = draw(one_or(R))
    if draw(st.booleans()):
        policy = rng.integers(A, size=(policy_runs, H, S))
    else:
        policy = rng.dirichlet(np.ones(A), size=(policy_runs, H, S))
    runs = max(kernel.shape[0], rewards.shape[0], policy_runs)
    return kernel, rewards, policy, (runs, H, S, A)


def at(array, run, step):
    return array[run if array.shape[0] > 1 else 0, step if array.shape[1] > 1 else 0]


def as_probabilities(policy, A):
    return policy if policy.ndim == 4 else np.eye(A)[policy]


def slow_q(kernel, rewards, run, step, after, S, A):
    q = np.zeros((S, A))
    for s, a in itertools.product(range(S), range(A)):
        q[s, a] = at(rewards, run, step)[s, a]
        for s2 in range(S):
            q[s, a] += at(kernel, run, step)[s, a, s2] * after[s2]
    return q


def slow_optimal(kernel, rewards, sizes, clip=None):
    R, H, S, A = sizes
    values, q = np.zeros((R, H + 1, S)), np.zeros((R, H, S, A))
    for run in range(R):
        for step in reversed(range(H)):
            q[run, step] = slow_q(kernel, rewards, run, step, values[run, step + 1], S, A)
            if clip is not None:
                q[run, step] = np.minimum(np.maximum(q[run, step], clip[0][step]), clip[1][step])
            for s in range(S):
                values[run, step, s] = max(q[run, step, s])
    return values, q


def slow_evaluate(kernel, rewards, policy, sizes):
    R, H, S, A = sizes
    values = np.zeros((R, H + 1, S))
    shares = as_probabilities(policy, A)
    for run in range(R):
        for step in reversed(range(H)):
            q = slow_q(kernel, rewards, run, step, values[run, step + 1], S, A)
            for s in range(S):
                values[run, step, s] = sum(at(shares, run, step)[s, a] * q[s, a] for a in range(A))
    return values


@pytest.fixture(params=["compiled", "BLAS"])
def path(request, monkeypatch):
    monkeypatch.setattr(planning, "_COMPILED_UP_TO", 10**9 if request.param == "compiled" else 0)


both_paths = pytest.mark.parametrize("limit", [10**9, 0], ids=["compiled", "BLAS"])


@both_paths
@relaxed
@given(problem=problems())
def test_optimal_equals_the_literal_loop(limit, problem):
    kernel, rewards, _, (_, H, S, A) = problem
    runs = max(kernel.shape[0], rewards.shape[0])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(planning, "_COMPILED_UP_TO", limit)
        solution = optimal(kernel, rewards, horizon=H)
    values, q = slow_optimal(kernel, rewards, (runs, H, S, A))
    assert solution.values.shape == (runs, H + 1, S)
    assert solution.q.shape == (runs, H, S, A)
    np.testing.assert_allclose(solution.values, values, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(solution.q, q, rtol=1e-12, atol=1e-12)
    assert not solution.values[:, H].any()


@both_paths
@relaxed
@given(problem=problems())
def test_clipping_at_every_step(limit, problem):
    kernel, rewards, _, (_, H, S, A) = problem
    runs = max(kernel.shape[0], rewards.shape[0])
    low, high = np.full(H, -0.3), np.arange(H, 0, -1.0) / 2
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(planning, "_COMPILED_UP_TO", limit)
        solution = optimal(kernel, rewards, horizon=H, clip=(-0.3, high))
    values, q = slow_optimal(kernel, rewards, (runs, H, S, A), clip=(low, high))
    np.testing.assert_allclose(solution.values, values, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(solution.q, q, rtol=1e-12, atol=1e-12)


@both_paths
@relaxed
@given(problem=problems())
def test_evaluate_equals_the_literal_loop(limit, problem):
    kernel, rewards, policy, sizes = problem
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(planning, "_COMPILED_UP_TO", limit)
        values = evaluate(kernel, rewards, policy)
    np.testing.assert_allclose(values, slow_evaluate(kernel, rewards, policy, sizes), rtol=1e-12, atol=1e-12)


def all_trajectories(kernel, policy, start):
    """Every (states, actions) of one run with its probability: no recursion over values anywhere."""
    H, S, A = policy.shape
    for states in itertools.product(range(S), repeat=H + 1):
        for actions in itertools.product(range(A), repeat=H):
            probability = start[states[0]]
            for h in range(H):
                probability *= policy[h, states[h], actions[h]]
                probability *= kernel[h, states[h], actions[h], states[h + 1]]
            yield states, actions, probability


def test_optimal_is_the_best_of_all_policies_by_enumeration(path):
    rng = np.random.default_rng(1)
    S, A, H = 2, 2, 3
    kernel, rewards = rng.dirichlet(np.ones(S), size=(H, S, A)), rng.random((H, S, A))
    start = np.array([0.3, 0.7])
    returns = []
    for choice in itertools.product(range(A), repeat=H * S):
        policy = np.eye(A)[np.reshape(choice, (H, S))]
        returns.append(
            sum(
                probability * sum(rewards[h, states[h], actions[h]] for h in range(H))
                for states, actions, probability in all_trajectories(kernel, policy, start)
            )
        )
    solution = optimal(kernel[None], rewards[None], horizon=H)
    assert start @ solution.values[0, 0] == pytest.approx(max(returns), rel=1e-12)
    best = greedy(solution.q)
    assert start @ evaluate(kernel[None], rewards[None], best)[0, 0] == pytest.approx(max(returns), rel=1e-12)
    assert max(returns) - sorted(returns)[-2] > 1e-3  # the test can tell the best from the second best


def test_occupancies_by_enumeration():
    rng = np.random.default_rng(2)
    S, A, H = 3, 2, 3
    kernel, start = rng.dirichlet(np.ones(S), size=(H, S, A)), rng.dirichlet(np.ones(S))
    policy = rng.dirichlet(np.ones(A), size=(H, S))
    expected = np.zeros((H, S, A))
    for states, actions, probability in all_trajectories(kernel, policy, start):
        for h in range(H):
            expected[h, states[h], actions[h]] += probability
    np.testing.assert_allclose(occupancies(kernel[None], start, policy[None])[0], expected, rtol=1e-12)


@relaxed
@given(problem=problems(distributions=True), per_run=st.booleans(), seed=st.integers(0, 2**32))
def test_occupancies_sum_to_1_and_give_the_value(problem, per_run, seed):
    kernel, rewards, policy, (_, H, S, A) = problem
    runs = max(kernel.shape[0], policy.shape[0])
    start = np.random.default_rng(seed).dirichlet(np.ones(S), size=(runs,) if per_run else ())
    occupancy = occupancies(kernel, start, policy)
    assert occupancy.shape == (runs, H, S, A)
    np.testing.assert_allclose(occupancy.sum(axis=(2, 3)), 1.0, rtol=1e-12)
    values = evaluate(kernel, rewards, policy)
    returns = (values[:, 0] * start).sum(axis=-1)
    np.testing.assert_allclose((occupancy * rewards).sum(axis=(1, 2, 3)), returns, rtol=1e-9, atol=1e-12)


def sparse_problem(S=30, A=4, H=5, R=3, seed=0):
    rng = np.random.default_rng(seed)
    dense = rng.random((S * A, S)) * (rng.random((S * A, S)) < 0.1)
    return dense, rng.random((R, 1, S, A)), rng.integers(A, size=(R, H, S)), rng.dirichlet(np.ones(S))


@pytest.mark.parametrize("form", [csr_array, csr_matrix])
def test_csr_and_dense_agree(form):
    S, A, H, R = 30, 4, 5, 3
    flat, rewards, policy, start = sparse_problem(S, A, H, R)
    dense, sparse = flat.reshape(1, 1, S, A, S), form(flat)
    values_next = np.random.default_rng(3).random((R, S))
    stochastic = np.random.default_rng(4).dirichlet(np.ones(A), size=(R, H, S))
    np.testing.assert_allclose(
        expected_values(sparse, values_next), expected_values(dense[0], values_next), rtol=1e-12, atol=1e-14
    )
    for array, reference in zip(optimal(sparse, rewards, horizon=H), optimal(dense, rewards, horizon=H), strict=True):
        np.testing.assert_allclose(array, reference, rtol=1e-12)
    for pi in (policy, stochastic):
        np.testing.assert_allclose(evaluate(sparse, rewards, pi), evaluate(dense, rewards, pi), rtol=1e-12, atol=1e-14)
        np.testing.assert_allclose(
            occupancies(sparse, start, pi), occupancies(dense, start, pi), rtol=1e-12, atol=1e-14
        )


@pytest.mark.parametrize(("kernel_runs", "value_runs"), [(1, 1), (1, 4), (4, 4), (4, 1)])
def test_expected_values_is_the_sum_over_next_states(kernel_runs, value_runs):
    rng = np.random.default_rng(5)
    kernel, values = rng.normal(size=(kernel_runs, 5, 3, 5)), rng.normal(size=(value_runs, 5))
    expected = (kernel * values[:, None, None, :]).sum(axis=-1)
    result = expected_values(kernel, values)
    assert result.shape == (max(kernel_runs, value_runs), 5, 3)
    np.testing.assert_allclose(result, expected, rtol=1e-12, atol=1e-13)


def test_slices_of_larger_arrays_and_read_only_arrays_will_do(path):
    rng = np.random.default_rng(6)
    wide = rng.random((2, 8, 4, 3, 8))
    kernel, rewards = wide[:, ::2, :, :, ::2], rng.random((2, 4, 4, 6))[..., ::2]
    policy = rng.integers(3, size=(2, 4, 8))[..., ::2]
    fresh = [np.ascontiguousarray(a) for a in (kernel, rewards, policy)]
    for array in fresh:
        array.flags.writeable = False
    # BLAS may add up strided memory in another order.
    np.testing.assert_allclose(evaluate(kernel, rewards, policy), evaluate(*fresh), rtol=1e-13)
    solution, reference = optimal(kernel, rewards, horizon=4), optimal(fresh[0], fresh[1], horizon=4)
    np.testing.assert_allclose(solution.q, reference.q, rtol=1e-13)


def test_a_small_run_does_not_depend_on_the_others():
    """To the last bit, where the compiled path is taken: it is chosen by S and A alone."""
    rng = np.random.default_rng(7)
    kernel, rewards = rng.random((5, 1, 6, 2, 6)), rng.random((5, 1, 6, 2))
    together = optimal(kernel, rewards, horizon=20)
    for run in range(5):
        alone = optimal(kernel[run : run + 1], rewards[run : run + 1], horizon=20)
        assert np.array_equal(alone.q[0], together.q[run])


def test_nan_is_not_hidden(path):
    kernel = np.full((1, 1, 2, 2, 2), 0.5)
    rewards = np.array([[[[np.nan, 1.0], [1.0, np.nan]]]])
    assert np.isnan(optimal(kernel, rewards, horizon=1).values[0, 0]).all()
    assert np.isnan(optimal(kernel, rewards, horizon=1, clip=(0.0, 1.0)).values[0, 0]).all()


def test_minus_infinity_forbids_an_action(path):
    kernel = np.full((1, 1, 2, 2, 2), 0.5)
    rewards = np.array([[[[-np.inf, 1.0], [2.0, -np.inf]]]])
    solution = optimal(kernel, rewards, horizon=2)
    np.testing.assert_allclose(solution.values[0], [[2.5, 3.5], [1.0, 2.0], [0.0, 0.0]])
    assert greedy(solution.q).tolist() == [[[1, 0], [1, 0]]]


GOOD = {"kernel": np.full((1, 1, 2, 3, 2), 0.5), "rewards": np.zeros((1, 1, 2, 3))}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"kernel": np.zeros((1, 2, 3, 2))}, "dense kernel"),
        ({"kernel": np.zeros((1, 1, 2, 2, 2))}, "dense kernel"),
        ({"kernel": np.zeros((1, 3, 2, 3, 2))}, "horizon"),
        ({"kernel": np.zeros((4, 1, 2, 3, 2)), "rewards": np.zeros((3, 1, 2, 3))}, "runs do not fit"),
        ({"kernel": csr_array(np.zeros((2, 6)))}, "sparse kernel"),
        ({"kernel": csr_array(np.zeros((6, 2))).tocoo()}, "sparse kernel"),
        ({"kernel": "kernel"}, "sparse kernel"),
        ({"rewards": np.zeros((1, 2, 3))}, "rewards are"),
        ({"rewards": np.zeros((1, 4, 2, 3))}, "horizon"),
        ({"horizon": 0}, "horizon"),
        ({"clip": (1.0, 0.0)}, "clip"),
        ({"clip": (0.0, np.nan)}, "clip"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(arguments, message):
    everything = {**GOOD, "horizon": 2, **arguments}
    kernel, rewards = everything.pop("kernel"), everything.pop("rewards")
    with pytest.raises(ValueError, match=message):
        optimal(kernel, rewards, **everything)


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        (np.full((1, 2, 2), 3), "actions are 0..2"),
        (np.full((1, 2, 2), -1), "actions are 0..2"),
        (np.zeros((1, 2, 3), int), "deterministic policy"),
        (np.zeros((2, 2), int), "deterministic policy"),
        (np.full((1, 2, 2, 2), 0.5), "stochastic policy"),
        (np.full((2, 2, 3), 1 / 3), "stochastic policy"),
        (np.full((1, 2, 2, 3), 0.3), "sum to 1"),
        (np.tile([1.5, -0.5, 0.0], (1, 2, 2, 1)), "sum to 1"),
        (np.full((1, 2, 2, 3), np.nan), "sum to 1"),
        (np.full((1, 2, 2), True), "dtype"),
        (np.full((1, 2, 2), "left"), "dtype"),
    ],
)
def test_impossible_policies_are_refused(policy, message):
    with pytest.raises(ValueError, match=message):
        evaluate(GOOD["kernel"], GOOD["rewards"], policy)
    with pytest.raises(ValueError, match=message):
        occupancies(GOOD["kernel"], np.array([0.5, 0.5]), policy)


def test_policies_for_another_number_of_runs_or_steps_are_refused():
    kernel = np.zeros((3, 1, 2, 3, 2))
    with pytest.raises(ValueError, match="runs do not fit"):
        evaluate(kernel, GOOD["rewards"], np.zeros((2, 4, 2), int))
    with pytest.raises(ValueError, match=r"\(R, 5, 2\)"):
        as_policy(np.zeros((2, 4, 2), int), states=2, actions=3, horizon=5)
    with pytest.raises(ValueError, match=r"\(R, 5, 2, 3\)"):
        as_policy(np.full((2, 4, 2, 3), 1 / 3), states=2, actions=3, horizon=5)


def test_greedy_takes_the_first_of_the_best_without_a_generator():
    q = np.array([[[[0.0, 1.0, 1.0], [2.0, 1.0, 2.0]]]])
    assert greedy(q).tolist() == [[[1, 0]]]
    assert greedy(q).dtype == np.int32
    assert greedy(q, tolerance=1.0).tolist() == [[[0, 0]]]
    assert greedy(q, tolerance=0.999).tolist() == [[[1, 0]]]


def test_ties_are_broken_uniformly():
    q = np.tile([1.0, 3.0, 3.0 - 1e-12, -np.inf, 3.0], (40, 25, 30, 1))
    chosen = greedy(q, rng=np.random.default_rng(8), tolerance=1e-9)
    counts = np.bincount(chosen.ravel(), minlength=5)
    assert counts[0] == counts[3] == 0
    assert stats.chisquare(counts[[1, 2, 4]]).pvalue > 1e-6
    exact = greedy(q, rng=np.random.default_rng(8))
    assert set(np.unique(exact)) == {1, 4}


def test_without_ties_a_generator_changes_nothing():
    q = np.random.default_rng(9).random((3, 4, 5, 6))
    assert np.array_equal(greedy(q, rng=np.random.default_rng(0)), q.argmax(axis=-1))


def test_a_runs_ties_do_not_depend_on_the_other_runs():
    q = np.zeros((4, 20, 6, 3))
    together = greedy(q, rng=[np.random.default_rng(seed) for seed in range(4)])
    for run in range(4):
        alone = greedy(q[run : run + 1], rng=[np.random.default_rng(run)])
        assert np.array_equal(alone[0], together[run])
    q[1:] = np.arange(3.0)  # other runs stop tying: run 0 does not notice
    assert np.array_equal(greedy(q, rng=[np.random.default_rng(s) for s in range(4)])[0], together[0])


def test_greedy_draws_the_same_number_of_uniforms_whether_or_not_there_are_ties():
    after = []
    for q in (np.zeros((2, 3, 4, 2)), np.random.default_rng(1).random((2, 3, 4, 2))):
        rng = np.random.default_rng(10)
        greedy(q, rng=rng)
        after.append(rng.random())
    assert after[0] == after[1]


def test_all_forbidden_is_a_tie_and_nan_is_an_error():
    q = np.full((1, 1, 200, 3), -np.inf)
    assert set(np.unique(greedy(q, rng=np.random.default_rng(0)))) == {0, 1, 2}
    with pytest.raises(ValueError, match="NaN"):
        greedy(np.array([[[[0.0, np.nan]]]]))
    for tolerance in (-1e-9, np.nan):
        with pytest.raises(ValueError, match="tolerance"):
            greedy(np.zeros((1, 1, 1, 2)), tolerance=tolerance)
    with pytest.raises(ValueError, match="one generator per run"):
        greedy(np.zeros((2, 1, 1, 2)), rng=[np.random.default_rng(0)])


def test_the_largest_uniform_still_picks_an_action_that_ties():
    class Top(np.random.Generator):
        def random(self, size=None):
            return np.full(size, 1 - 2.0**-53)

    for actions in range(1, 300):
        assert greedy(np.zeros((1, 1, 1, actions)), rng=Top(np.random.PCG64(0))).item() == actions - 1
