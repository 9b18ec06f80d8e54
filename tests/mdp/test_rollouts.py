"""Rollouts against a literal walk on the same uniforms, exact laws, and each other."""

import itertools
import json
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.sparse import csr_array

from tacit.mdp import rollouts
from tacit.mdp.rewards import Bernoulli, Deterministic, Gaussian, RewardLaw, StudentT
from tacit.mdp.rollouts import Draws, RolloutSource, Streams, TransitionRows, check_policy
from tacit.mdp.spec import EpisodeSpec, MomentBound
from tacit.mdp.tabular import TabularMDP

LAWS = {
    "deterministic": lambda mean: Deterministic(mean=mean),
    "bernoulli": lambda mean: Bernoulli(mean=mean),
    "student": lambda mean: StudentT(mean=mean, df=3.0),
}


def make(S=3, A=2, H=4, *, seed=0, per_step=False, sparse=False, law="bernoulli", zeros=0.3):
    """A random world; about a share `zeros` of its transitions is impossible."""
    rng = np.random.default_rng(seed)
    steps = H if per_step else 1
    kernel = rng.dirichlet(np.ones(S), size=(steps, S, A)) * (rng.random((steps, S, A, S)) >= zeros)
    kernel[..., 0] += kernel.sum(axis=-1) == 0
    kernel /= kernel.sum(axis=-1, keepdims=True)
    spec = EpisodeSpec(
        states=S,
        actions=A,
        horizon=H,
        stationary=not per_step,
        rewards=MomentBound(order=2.0, bound=10.0, mean=1.0) if law == "student" else (0.0, 1.0),
    )
    return TabularMDP(
        spec=spec,
        kernel=csr_array(kernel.reshape(S * A, S)) if sparse else kernel,
        rewards=LAWS[law](rng.random((steps, S, A))),
        start=rng.dirichlet(np.ones(S)),
    )


def random_policy(world, runs, *, stochastic, seed=0):
    spec, rng = world.spec, np.random.default_rng(seed)
    if not stochastic:
        return rng.integers(spec.actions, size=(runs, spec.horizon, spec.states))
    shares = rng.dirichlet(np.ones(spec.actions), size=(runs, spec.horizon, spec.states))
    shares *= rng.random(shares.shape) > 0.3  # some actions are never taken
    shares[..., -1] += shares.sum(axis=-1) == 0
    return shares / shares.sum(axis=-1, keepdims=True)


def pick(law, uniform):
    """The inverse of a distribution function: the smallest index whose cumulative probability is above."""
    total = 0.0
    for index, probability in enumerate(law):
        total += probability
        if uniform < total:
            return index
    return int(np.flatnonzero(law)[-1])


def literal_walk(world, policy, *, episodes, streams):
    """The same episodes, a step at a time, without any of the machinery."""
    spec, runs = world.spec, streams.runs
    S, A, H = spec.states, spec.actions, spec.horizon
    kernel = world.kernel if isinstance(world.kernel, np.ndarray) else world.kernel.toarray()
    kernel = np.broadcast_to(kernel.reshape(-1, S, A, S), (H, S, A, S))
    states = np.zeros((runs, episodes, H + 1), int)
    actions = np.zeros((runs, episodes, H), int)
    rewards = np.zeros((runs, episodes, H))
    for run, episode in itertools.product(range(runs), range(episodes)):
        chances = [streams.dynamics[run].random() for _ in range(H + 1)]
        state = pick(world.start, chances[0])
        states[run, episode, 0] = state
        for h in range(H):
            choice = policy[run % policy.shape[0], h, state]
            action = pick(choice, streams.policy[run].random()) if policy.ndim == 4 else choice
            state = pick(kernel[h, state, action], chances[h + 1])
            actions[run, episode, h] = action
            states[run, episode, h + 1] = state
            rewards[run, episode, h] = world.rewards.sample(
                np.array([streams.rewards[run].random() for _ in range(world.rewards.uniforms)]),
                step=np.array(h),
                state=states[run, episode, h],
                action=np.array(action),
                next_state=np.array(state),
            )
    return states, actions, rewards


def assert_same(batch, other):
    for array, reference in zip(batch, other, strict=True):
        np.testing.assert_array_equal(array, reference)


@settings(deadline=None, max_examples=60)
@given(
    S=st.integers(1, 4),
    A=st.integers(1, 3),
    H=st.integers(1, 4),
    runs=st.integers(1, 3),
    episodes=st.integers(0, 5),
    shared_policy=st.booleans(),
    stochastic=st.booleans(),
    kind=st.sampled_from(["stationary", "per step", "sparse"]),
    law=st.sampled_from(sorted(LAWS)),
    seed=st.integers(0, 2**32),
)
def test_rollouts_equal_the_literal_walk(S, A, H, runs, episodes, shared_policy, stochastic, kind, law, seed):
    world = make(S, A, H, seed=seed, per_step=kind == "per step", sparse=kind == "sparse", law=law)
    policy = random_policy(world, 1 if shared_policy else runs, stochastic=stochastic, seed=seed)
    batch = world.rollout(policy, episodes=episodes, streams=Streams(seed, runs))
    states, actions, rewards = literal_walk(world, policy, episodes=episodes, streams=Streams(seed, runs))
    assert batch.batch == (runs, episodes)
    np.testing.assert_array_equal(batch.states, states)
    np.testing.assert_array_equal(batch.actions, actions)
    np.testing.assert_allclose(batch.rewards, rewards, rtol=1e-13)
    assert (batch.states.dtype, batch.actions.dtype, batch.rewards.dtype) == (np.int32, np.int32, np.float64)


@pytest.mark.parametrize("sparse", [False, True])
def test_long_rows_are_searched_by_halving_and_short_ones_from_the_front(sparse):
    world = make(S=40, A=2, H=6, zeros=0.5, sparse=sparse)
    lengths = np.diff(world._rows.bounds)
    assert lengths.max() > 12
    world_of_short_rows = make(S=40, A=2, H=6, zeros=0.85, sparse=sparse)
    assert np.diff(world_of_short_rows._rows.bounds).min() < 6
    for each in (world, world_of_short_rows):
        policy = random_policy(each, 2, stochastic=False)
        batch = each.rollout(policy, episodes=50, streams=Streams(1, 2))
        assert_same(batch, literal_walk(each, policy, episodes=50, streams=Streams(1, 2)))


@settings(deadline=None, max_examples=40)
@given(
    split=st.lists(st.integers(0, 6), min_size=1, max_size=6),
    steps_at_a_time=st.integers(1, 60),
    stochastic=st.booleans(),
    law=st.sampled_from(sorted(LAWS)),
)
def test_any_split_into_calls_and_chunks_gives_the_same_episodes(split, steps_at_a_time, stochastic, law):
    world = make(law=law)
    policy = random_policy(world, 3, stochastic=stochastic)
    whole = world.rollout(policy, episodes=sum(split), streams=Streams(5, 3))
    streams = Streams(5, 3)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rollouts, "_STEPS_AT_A_TIME", steps_at_a_time)
        parts = [world.rollout(policy, episodes=n, streams=streams) for n in split]
    assert_same([np.concatenate(arrays, axis=1) for arrays in zip(*parts, strict=True)], whole)


def test_a_run_does_not_depend_on_how_many_there_are():
    world = make()
    policy = random_policy(world, 4, stochastic=True)
    many = world.rollout(policy, episodes=30, streams=Streams(6, 4))
    few = world.rollout(policy[:2], episodes=30, streams=Streams(6, 2))
    assert_same([array[:2] for array in many], few)


def test_runs_and_purposes_have_streams_of_their_own():
    streams = Streams(0, 5)
    generators = [*streams.dynamics, *streams.rewards, *streams.policy]
    first = [generator.random() for generator in generators]
    assert len(set(first)) == 15
    again = Streams(0, 5)
    assert [g.random() for g in (*again.dynamics, *again.rewards, *again.policy)] == first
    assert Streams(1, 1).dynamics[0].random() != Streams(0, 1).dynamics[0].random()


def test_dynamics_do_not_notice_rewards_or_what_the_policy_is_made_of():
    plain, noisy = make(law="deterministic"), make(law="student")
    policy = random_policy(plain, 2, stochastic=False)
    batch = plain.rollout(policy, episodes=20, streams=Streams(7, 2))
    other = noisy.rollout(np.eye(2)[policy], episodes=20, streams=Streams(7, 2))
    assert_same(batch[:2], other[:2])


def test_seed_sequences_are_spawned_from():
    assert Streams(np.random.SeedSequence(3), 2).rewards[1].random() == Streams(3, 2).rewards[1].random()
    sequence = np.random.SeedSequence(3)
    first, second = Streams(sequence, 2), Streams(sequence, 2)
    assert first.dynamics[0].random() != second.dynamics[0].random()


@pytest.mark.parametrize("seed", [-1, 1.0, None, "0", True])
def test_other_seeds_are_refused(seed):
    with pytest.raises(ValueError, match="seed"):
        Streams(seed, 1)


@pytest.mark.parametrize("runs", [0, -1, 1.0, None, True])
def test_runs_are_a_whole_number_from_1(runs):
    with pytest.raises(ValueError, match="runs"):
        Streams(0, runs)


@pytest.mark.parametrize("chosen", [[True, False, True, False], [0, 2], np.array([0, 2])])
def test_selected_runs_go_on_where_they_were(chosen):
    world = make()
    policy = random_policy(world, 4, stochastic=True)
    whole = world.rollout(policy, episodes=10, streams=Streams(8, 4))
    streams = Streams(8, 4)
    world.rollout(policy, episodes=3, streams=streams)
    part = streams.select(chosen)
    assert part.runs == 2
    batch = world.rollout(policy[[0, 2]], episodes=4, streams=part)
    assert_same([array[[0, 2], 3:7] for array in whole], batch)
    rest = world.rollout(policy, episodes=1, streams=streams)  # the others have not moved
    assert_same([array[[1, 3], 3:4] for array in whole], [array[[1, 3]] for array in rest])


@pytest.mark.parametrize("chosen", [[0, 0], [], [False] * 3, 1, [[0, 1]], [0, -3]])
def test_a_run_is_selected_once(chosen):
    with pytest.raises(ValueError, match="select"):
        Streams(0, 3).select(np.array(chosen, dtype=int) if chosen == [] else chosen)


@pytest.mark.parametrize("counts", [[3, 5, 2], [900, 1000, 1000, 1000, 700], [3, 5000, 4, 4096, 1], [1024] * 9])
def test_uniforms_come_in_the_generators_order_however_many_at_a_time(counts):
    draws = Draws([np.random.default_rng(seed) for seed in range(3)])
    taken = np.concatenate([draws.take((count, 1))[..., 0] for count in counts], axis=1)
    for row, seed in zip(taken, range(3), strict=True):
        np.testing.assert_array_equal(row, np.random.default_rng(seed).random(sum(counts)))
    assert draws.take((4, 0)).shape == (3, 4, 0)


def test_parts_and_restarts_of_draws_go_on_where_they_were():
    expected = [np.random.default_rng(seed).random(9000) for seed in range(3)]
    draws = Draws([np.random.default_rng(seed) for seed in range(3)])
    draws.take((7,))
    part = draws.part(np.array([2, 0]))
    first = part.take((6000,))
    np.testing.assert_array_equal(first, [expected[2][7:6007], expected[0][7:6007]])
    np.testing.assert_array_equal(draws.take((5,)), [expected[0][6007:6012], expected[1][7:12], expected[2][6007:6012]])
    again = Draws([np.random.default_rng(9) for _ in range(3)])
    again.restore(json.loads(json.dumps(draws.state())))
    np.testing.assert_array_equal(again.take((800,)), draws.take((800,)))
    np.testing.assert_array_equal(again.take((4000,)), draws.take((4000,)))


@pytest.mark.parametrize("stochastic", [False, True])
@pytest.mark.parametrize("kind", ["stationary", "per step", "sparse"])
def test_frequencies_are_the_exact_occupancies(stochastic, kind):
    world = make(S=4, A=3, H=3, seed=2, per_step=kind == "per step", sparse=kind == "sparse")
    policy = random_policy(world, 2, stochastic=stochastic, seed=3)
    n = 100_000
    batch = world.rollout(policy, episodes=n, streams=Streams(9, 2))
    expected = world.occupancies(policy)
    for run, h in np.ndindex(2, 3):
        seen = np.zeros((4, 3))
        np.add.at(seen, (batch.states[run, :, h], batch.actions[run, :, h]), 1)
        possible = expected[run, h] > 0
        assert not seen[~possible].any()
        assert stats.chisquare(seen[possible], n * expected[run, h][possible]).pvalue > 1e-6
    returns = batch.rewards.sum(axis=-1)
    error = returns.std(axis=1) / np.sqrt(n)
    assert (np.abs(returns.mean(axis=1) - world.policy_values(policy)) < 5 * error).all()


def test_what_cannot_happen_does_not_even_at_the_extreme_uniforms():
    """A row whose cumulative probabilities round below 1 has no state behind its last possible one."""
    shares = np.array([0.0, *[0.1] * 10, 0.0])
    assert shares.cumsum()[-1] < 1
    world = TabularMDP(
        spec=EpisodeSpec(states=12, actions=12, horizon=1, start="unknown"),
        kernel=np.broadcast_to(shares, (12, 12, 12)),
        rewards=Deterministic(mean=np.zeros((12, 12))),
        start=shares,
    )

    class Fixed(np.random.Generator):
        chance = 0.0

        def random(self, out):
            out[...] = self.chance

    for chance, expected in ((0.0, 1), (1 - 2.0**-53, 10)):
        generator = Fixed(np.random.PCG64(0))
        generator.chance = chance
        streams = Streams(0, 1)
        streams.dynamics = streams.rewards = streams.policy = Draws((generator,))
        batch = world.rollout(np.broadcast_to(shares, (1, 1, 12, 12)), episodes=1, streams=streams)
        assert batch.states.ravel().tolist() == [expected, expected]
        assert batch.actions.ravel().tolist() == [expected]


def test_transition_rows_list_what_can_follow():
    kernel = np.array([[[0.0, 1.0]], [[0.25, 0.75]]])[None]
    start = np.array([1.0, 0.0])
    with_zeros = csr_array(([0.0, 1.0, 0.75, 0.25], [0, 1, 1, 0], [0, 2, 4]), shape=(2, 2))
    for given_kernel in (kernel, with_zeros):
        rows = TransitionRows.of(given_kernel, start)
        assert rows.bounds.tolist() == [0, 1, 3]
        assert rows.successors.tolist() == [1, 0, 1]
        assert rows.cumulative.tolist() == [1.0, 0.25, 1.0]
        assert rows.start_states.tolist() == [0]
        assert not rows.per_step
    assert with_zeros.nnz == 4  # the caller's array is left alone


class PaidOnArrival(RewardLaw):
    """Pays the number of the next state, so its mean depends on the kernel."""

    def __init__(self, kernel):
        self._mean = (kernel * np.arange(kernel.shape[-1])).sum(axis=-1)

    mean = property(lambda self: self._mean)
    uniforms = property(lambda self: 0)
    support = property(lambda self: (0.0, 2.0))

    def sample(self, uniforms, *, step, state, action, next_state):
        return next_state.astype(float)

    def moment_bound(self, order):
        return 2.0**order

    def relabel(self, *, states, actions):
        raise NotImplementedError


def test_rewards_may_depend_on_the_next_state():
    world = make()
    paid = TabularMDP(
        spec=EpisodeSpec(states=3, actions=2, horizon=4, rewards=(0.0, 2.0)),
        kernel=world.kernel,
        rewards=PaidOnArrival(world.kernel),
        start=world.start,
    )
    policy = random_policy(world, 1, stochastic=True)
    batch = paid.rollout(policy, episodes=50_000, streams=Streams(10, 1))
    np.testing.assert_array_equal(batch.rewards, batch.states[..., 1:])
    returns = batch.rewards.sum(axis=-1)[0]
    assert abs(returns.mean() - paid.policy_values(policy)[0]) < 5 * returns.std() / np.sqrt(50_000)


def test_no_two_rewards_share_their_noise():
    world = make()
    noisy = TabularMDP(
        spec=EpisodeSpec(states=3, actions=2, horizon=4, rewards=MomentBound(order=2, bound=1.0, mean=1.0)),
        kernel=world.kernel,
        rewards=Gaussian(mean=np.zeros((3, 2)), sd=1.0),
        start=world.start,
    )
    batch = noisy.rollout(random_policy(world, 1, stochastic=False), episodes=200, streams=Streams(0, 3))
    assert np.unique(batch.rewards).size == batch.rewards.size


@pytest.mark.parametrize("episodes", [-1, 1.0, None, True])
def test_episodes_are_a_whole_number(episodes):
    world = make()
    with pytest.raises(ValueError, match="episodes"):
        world.rollout(np.zeros((1, 4, 3), int), episodes=episodes, streams=Streams(0, 1))


def test_policies_for_other_runs_are_refused():
    world = make()
    with pytest.raises(ValueError, match="3 runs, the streams are for 2"):
        world.rollout(np.zeros((3, 4, 3), int), episodes=1, streams=Streams(0, 2))
    assert check_policy(np.zeros((3, 4, 3), int), world.spec, runs=3).dtype == np.int32
    assert check_policy(np.full((1, 4, 3, 2), 0.5, np.float32), world.spec, runs=3).dtype == np.float64


def test_a_rollout_source_is_known_by_what_it_offers():
    class Source:
        spec = EpisodeSpec(states=1, actions=1, horizon=1)

        def rollout(self, policy, *, episodes, streams):
            raise NotImplementedError

    assert isinstance(Source(), RolloutSource)
    assert not isinstance(Streams(0, 1), RolloutSource)


def test_nothing_heavy_is_imported_before_it_is_used():
    code = (
        "import sys, tacit.mdp.tabular, tacit.mdp.rollouts, tacit.mdp.rewards, tacit.mdp.planning\n"
        "heavy = {'numba', 'scipy', 'gymnasium', 'matplotlib', 'opendp'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
