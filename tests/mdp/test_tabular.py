"""Tabular worlds: what is refused, and what is exact."""

import dataclasses
import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import coo_array, csr_array, csr_matrix

from tacit.mdp.planning import greedy
from tacit.mdp.rewards import Bernoulli, Deterministic, Gaussian, SymmetricStable
from tacit.mdp.rollouts import RolloutSource, Streams
from tacit.mdp.spec import EpisodeSpec, MomentBound, SpecError
from tacit.mdp.tabular import TabularMDP


def make(S=3, A=2, H=4, *, seed=0, per_step=False, **replaced):
    """A random world; keyword arguments replace what TabularMDP is given."""
    rng = np.random.default_rng(seed)
    steps = H if per_step else 1
    kernel = rng.dirichlet(np.full(S, 0.5), size=(steps, S, A))
    given = {
        "spec": EpisodeSpec(states=S, actions=A, horizon=H, stationary=not per_step),
        "kernel": kernel,
        "rewards": Bernoulli(mean=rng.random((steps, S, A))),
        "start": rng.dirichlet(np.ones(S)),
    }
    return TabularMDP(**(given | replaced))


def returns_by_enumeration(world, policy):
    """The expected return of one stochastic policy (H, S, A), trajectory by trajectory."""
    S, A, H = world.spec.states, world.spec.actions, world.spec.horizon
    kernel = np.broadcast_to(world.kernel, (H, S, A, S))
    mean = np.broadcast_to(world.rewards.mean, (H, S, A))
    total = 0.0
    for states in itertools.product(range(S), repeat=H):
        for actions in itertools.product(range(A), repeat=H):
            probability = world.start[states[0]] * policy[0, states[0], actions[0]]
            for h in range(1, H):
                probability *= kernel[h - 1, states[h - 1], actions[h - 1], states[h]]
                probability *= policy[h, states[h], actions[h]]
            total += probability * sum(mean[h, states[h], actions[h]] for h in range(H))
    return total


@pytest.mark.parametrize("per_step", [False, True])
def test_policy_values_by_enumeration(per_step):
    world = make(S=2, A=2, H=4, seed=3, per_step=per_step)
    rng = np.random.default_rng(1)
    stochastic = rng.dirichlet(np.ones(2), size=(3, 4, 2))
    deterministic = rng.integers(2, size=(3, 4, 2))
    for policy, shares in ((stochastic, stochastic), (deterministic, np.eye(2)[deterministic])):
        values = world.policy_values(policy)
        assert values.shape == (3,)
        np.testing.assert_allclose(values, [returns_by_enumeration(world, p) for p in shares], rtol=1e-12)


def test_the_optimal_value_is_the_best_of_all_policies():
    world = make(S=2, A=2, H=3, seed=4, per_step=True)
    every = np.array(list(itertools.product(range(2), repeat=6))).reshape(-1, 3, 2)
    assert world.optimal_value == pytest.approx(world.policy_values(every).max(), rel=1e-12)
    assert world.policy_values(greedy(world.optimal.q)) == pytest.approx(world.optimal_value, rel=1e-12)


@pytest.mark.parametrize("form", [csr_array, csr_matrix, coo_array])
def test_sparse_and_dense_worlds_are_the_same(form):
    dense = make(S=5, A=3, H=6)
    sparse = make(S=5, A=3, H=6, kernel=form(dense.kernel.reshape(15, 5)))
    assert sparse.kernel.format == "csr"
    policy = np.random.default_rng(0).dirichlet(np.ones(3), size=(2, 6, 5))
    assert sparse.optimal_value == pytest.approx(dense.optimal_value, rel=1e-12)
    np.testing.assert_allclose(sparse.policy_values(policy), dense.policy_values(policy), rtol=1e-12)
    np.testing.assert_allclose(sparse.occupancies(policy), dense.occupancies(policy), rtol=1e-12)


def test_duplicate_sparse_entries_add_up():
    kernel = coo_array(([0.5, 0.5, 1.0], ([0, 0, 1], [1, 1, 0])), shape=(2, 2))
    world = make(S=2, A=1, H=2, kernel=kernel)
    assert world.kernel.toarray().tolist() == [[0.0, 1.0], [1.0, 0.0]]


def test_sparse_rows_are_brought_into_one_form():
    kernel = csr_array(([0.5, 0.25, 0.25, 1.0], [1, 0, 0, 0], [0, 3, 4]), shape=(2, 2))
    world = make(S=2, A=1, H=2, kernel=kernel)
    assert world.kernel.nnz == 3
    assert world.kernel.has_canonical_format
    assert kernel.nnz == 4  # the caller's own is left alone


def test_the_smallest_world():
    world = TabularMDP(
        spec=EpisodeSpec(states=1, actions=1, horizon=1, start=0),
        kernel=np.ones((1, 1, 1)),
        rewards=Deterministic(mean=[[0.25]]),
        start=np.ones(1),
    )
    assert world.optimal_value == 0.25
    assert world.occupancies(np.zeros((1, 1, 1), int)).tolist() == [[[[1.0]]]]
    batch = world.rollout(np.zeros((1, 1, 1), int), episodes=3, streams=Streams(0, 2))
    assert batch.batch == (2, 3)
    assert batch.horizon == 1
    assert not batch.states.any()
    assert (batch.rewards == 0.25).all()


def test_a_spec_may_declare_less_than_is_true():
    world = make()
    humble = EpisodeSpec(states=3, actions=2, horizon=4, rewards=(-5.0, 5.0), stationary=False)
    assert make(spec=humble).optimal_value == world.optimal_value


def test_a_declared_start_must_be_the_worlds():
    law = np.array([0.2, 0.3, 0.5])
    for declared, start in ((tuple(law), law), (1, np.eye(3)[1]), ("unknown", law)):
        spec = dataclasses.replace(SPEC, start=declared)
        np.testing.assert_array_equal(make(spec=spec, start=start).start, start)
    for declared in (0, (0.2, 0.5, 0.3)):
        with pytest.raises(SpecError, match="starts otherwise"):
            make(spec=dataclasses.replace(SPEC, start=declared), start=law)


SPEC = EpisodeSpec(states=3, actions=2, horizon=4)


def bad_rows(change):
    kernel = np.full((1, 3, 2, 3), 1 / 3)
    kernel[0, 2, 1] = change
    return kernel


@pytest.mark.parametrize(
    ("replaced", "message"),
    [
        ({"spec": None}, "EpisodeSpec"),
        ({"rewards": np.zeros((3, 2))}, "RewardLaw"),
        ({"kernel": np.full((1, 3, 2, 2), 0.5)}, r"kernel must be \(H\|1, S, A, S\)"),
        ({"kernel": np.full((3, 3), 1 / 3)}, "kernel must be"),
        ({"kernel": np.full((2, 3, 2, 3), 1 / 3)}, "kernel must be"),
        ({"kernel": np.full((4, 3, 2, 3), 1 / 3)}, "says stationary, but the kernel"),
        ({"kernel": csr_array(np.full((3, 3), 1 / 3))}, "sparse kernel must be"),
        ({"kernel": bad_rows([0.5, 0.6, -0.1])}, "at least 0"),
        ({"kernel": bad_rows([0.5, 0.5, 1e-6])}, "1 do not, the first at step 0, state 2, action 1"),
        ({"kernel": bad_rows([0.5, np.nan, 0.5])}, "at least 0"),
        ({"kernel": bad_rows([0.5, np.inf, 0.5])}, "sum to 1"),
        ({"kernel": bad_rows([0.0, 0.0, 0.0])}, "sum to 1"),
        ({"kernel": csr_array(bad_rows([0.5, 0.5, 1e-6]).reshape(6, 3))}, "state 2, action 1"),
        ({"kernel": csr_array(bad_rows([0.0, 0.0, 0.0]).reshape(6, 3))}, "state 2, action 1"),
        ({"kernel": csr_array(bad_rows([1.5, -0.5, 0.0]).reshape(6, 3))}, "at least 0"),
        ({"kernel": csr_array((6, 3))}, "6 do not"),
        ({"rewards": Deterministic(mean=np.zeros((3, 3)))}, "mean rewards must be"),
        ({"rewards": Deterministic(mean=np.zeros((2, 3, 2)))}, "mean rewards must be"),
        ({"rewards": Deterministic(mean=np.zeros((4, 3, 2)))}, "says stationary, but the reward law"),
        ({"rewards": Deterministic(mean=np.full((3, 2), 1.5))}, "widen the range"),
        ({"rewards": Deterministic(mean=np.full((3, 2), -0.1))}, "widen the range"),
        ({"rewards": Bernoulli(mean=np.zeros((3, 2)), high=2.0)}, "widen the range"),
        ({"rewards": Gaussian(mean=np.zeros((3, 2)), sd=0.1)}, "MomentBound"),
        ({"start": np.array([0.5, 0.5])}, "3 probabilities"),
        ({"start": np.array([0.5, 0.6, -0.1])}, "3 probabilities"),
        ({"start": np.array([0.5, 0.4, 0.0])}, "3 probabilities"),
        ({"start": np.array([0.5, np.nan, 0.5])}, "3 probabilities"),
    ],
)
def test_worlds_that_cannot_be_are_refused(replaced, message):
    with pytest.raises(SpecError, match=message):
        make(**replaced)


def test_rounding_does_not_leave_the_range():
    make(rewards=Deterministic(mean=np.full((3, 2), 1 + 1e-12)))
    with pytest.raises(SpecError, match="widen the range"):
        make(rewards=Deterministic(mean=np.full((3, 2), 1 + 1e-8)))


def heavy(**bound):
    spec = dataclasses.replace(SPEC, rewards=MomentBound(**({"order": 1.2, "bound": 10, "mean": 0.5} | bound)))
    return make(spec=spec, rewards=SymmetricStable(mean=np.full((3, 2), -0.5), alpha=1.5))


def test_a_declared_moment_bound_must_hold():
    law = heavy().rewards
    moment = law.moment_bound(1.2)
    heavy(bound=moment)
    with pytest.raises(SpecError, match="above the declared"):
        heavy(bound=moment * 0.999)
    with pytest.raises(SpecError, match=r"mean reward of size 0\.5 exceeds"):
        heavy(mean=0.49)
    with pytest.raises(SpecError, match="infinite"):
        heavy(order=1.5, bound=1e9)


def test_worlds_are_read_only():
    kernel, start = np.full((1, 3, 2, 3), 1 / 3), np.full(3, 1 / 3)
    world = make(kernel=kernel, start=start)
    value = world.optimal_value
    kernel[:] = start[:] = 7.0  # the caller's arrays are the caller's
    assert world.kernel.max() < 0.5
    assert world.start.max() < 0.5
    for array in (world.kernel, world.start, world.optimal.values, world.optimal.q):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1.0
    with pytest.raises(ValueError, match="read-only"):
        make(kernel=csr_array(np.full((6, 3), 1 / 3))).kernel.data[0] = 1.0
    with pytest.raises(dataclasses.FrozenInstanceError):
        world.name = "other"
    assert world.optimal_value == value


def test_printing_a_world_does_not_print_its_arrays():
    assert repr(make(name="lamp")) == (
        "TabularMDP(spec=EpisodeSpec(states=3, actions=2, horizon=4, rewards=(0.0, 1.0), stationary=True, "
        "start='unknown'), rewards=Bernoulli(mean=<1 x 3 x 2>, low=0, high=1), name='lamp')"
    )


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        (np.zeros((1, 5, 3), int), r"\(R, 4, 3\)"),
        (np.zeros((1, 4, 2), int), r"\(R, 4, 3\)"),
        (np.full((1, 4, 3, 3), 1 / 3), r"\(R, 4, 3, 2\)"),
        (np.full((1, 4, 3), 2), r"actions are 0\.\.1"),
    ],
)
def test_policies_must_fit(policy, message):
    world = make()
    for use in (
        world.policy_values,
        world.occupancies,
        lambda given: world.rollout(given, episodes=1, streams=Streams(0, 1)),
    ):
        with pytest.raises(ValueError, match=message):
            use(policy)


def as_dense(world):
    return world.kernel if isinstance(world.kernel, np.ndarray) else world.kernel.toarray()


@settings(deadline=None, max_examples=40)
@given(
    S=st.integers(1, 5),
    A=st.integers(1, 4),
    H=st.integers(1, 4),
    kind=st.sampled_from(["stationary", "per step", "sparse"]),
    seed=st.integers(0, 2**32),
)
def test_relabelling_changes_names_and_nothing_else(S, A, H, kind, seed):
    world = make(S, A, H, seed=seed, per_step=kind == "per step")
    if kind == "sparse":
        world = make(S, A, H, seed=seed, kernel=csr_array(world.kernel.reshape(S * A, S)))
    rng = np.random.default_rng(seed)
    states, actions = rng.permutation(S), rng.permutation(A)
    renamed = world.relabel(states=states, actions=actions)

    old, new = (w.kernel if kind != "sparse" else as_dense(w).reshape(1, S, A, S) for w in (world, renamed))
    for s, a, s2 in np.ndindex(S, A, S):
        assert np.array_equal(new[:, states[s], actions[a], states[s2]], old[:, s, a, s2])
        assert np.array_equal(renamed.rewards.mean[:, states[s], actions[a]], world.rewards.mean[:, s, a])
        assert renamed.start[states[s]] == world.start[s]
    assert renamed.optimal_value == pytest.approx(world.optimal_value, rel=1e-12)

    policy = rng.integers(A, size=(1, H, S))
    same_policy = np.empty_like(policy)
    same_policy[..., states] = actions[policy]
    np.testing.assert_allclose(renamed.policy_values(same_policy), world.policy_values(policy), rtol=1e-12)

    back = renamed.relabel(states=np.argsort(states), actions=np.argsort(actions))
    np.testing.assert_array_equal(as_dense(back), as_dense(world))
    np.testing.assert_array_equal(back.rewards.mean, world.rewards.mean)


@pytest.mark.parametrize("start", [2, (0.2, 0.3, 0.5), "unknown"])
def test_relabelling_moves_the_declared_start(start):
    law = {2: [0.0, 0.0, 1.0]}.get(start, [0.2, 0.3, 0.5])
    world = make(spec=dataclasses.replace(SPEC, start=start), start=np.array(law))
    renamed = world.relabel(states=[1, 2, 0])
    assert renamed.start.tolist() == [law[2], law[0], law[1]]
    assert renamed.spec.start == {2: 0, "unknown": "unknown"}.get(start, (0.5, 0.2, 0.3))


@pytest.mark.parametrize("states", [[0, 1], [0, 0, 1], [1, 2, 3], [0.0, 1.0, 2.0], [[0, 1, 2]], "abc"])
def test_relabelling_needs_a_permutation(states):
    with pytest.raises(ValueError, match=r"permutation of 0\.\.2"):
        make().relabel(states=states)


def test_a_world_is_a_rollout_source():
    assert isinstance(make(), RolloutSource)
