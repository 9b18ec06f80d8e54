"""The two doors: `read` is silent and the same for everybody, `check` names what is wrong."""

import math
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tacit.mdp.spec import EpisodeSpec, MomentBound
from tacit.mdp.trajectories import Trajectories
from tacit.statistics import check, read

SPEC = EpisodeSpec(states=3, actions=2, horizon=2, rewards=(-1.0, 1.0))
GOOD = ([0, 1, 2], [0, 1], [-1.0, 0.5])


def test_a_good_episode_is_read_and_scaled():
    episodes = read([GOOD], SPEC)
    assert episodes.readable.tolist() == [[True]]
    np.testing.assert_array_equal(episodes.states[0, 0], [0, 1, 2])
    np.testing.assert_allclose(episodes.rewards[0, 0], [0.0, 0.75])
    assert (episodes.runs, episodes.number) == (1, 1)
    assert check([GOOD], SPEC) == []


@pytest.mark.parametrize(
    ("episode", "column", "step", "what"),
    [
        (([3, 1, 2], [0, 1], [0.0, 0.0]), "states", 0, "3 is none of 0..2"),
        (([0, 1.5, 2], [0, 1], [0.0, 0.0]), "states", 1, "1.5 is none of 0..2"),
        (([0, math.nan, 2], [0, 1], [0.0, 0.0]), "states", 1, "nan is none of 0..2"),
        (([0, 1, 2], [0, -1], [0.0, 0.0]), "actions", 1, "-1 is none of 0..1"),
        (([0, 1, 2], [0, 1], [0.0, math.nan]), "rewards", 1, "is not a number"),
        (([0, 1], [0, 1], [0.0, 0.0]), "states", None, "where (3,) is declared"),
        (([0, 1, 2], [0, 1, 0], [0.0, 0.0]), "actions", None, "where (2,) is declared"),
        (([0, 1, 2], [0, 1], 0.0), "rewards", None, "where (2,) is declared"),
        ("nonsense", "episode", None, "is not (states, actions, rewards)"),
        (None, "episode", None, "is not (states, actions, rewards)"),
        (([0, 1, 2], [0, 1], ["a", "b"]), "episode", None, "is not (states, actions, rewards)"),
    ],
)
def test_an_unreadable_episode_is_empty_keeps_its_index_and_is_named_by_check(episode, column, step, what):
    episodes = read([GOOD, episode, GOOD], SPEC)
    assert episodes.readable.tolist() == [[True, False, True]]
    assert not episodes.states[0, 1].any()
    (problem,) = check([GOOD, episode, GOOD], SPEC)
    assert (problem.episode, problem.column, problem.step) == (1, column, step)
    assert what in str(problem)


@pytest.mark.parametrize(("sent", "kept"), [(math.inf, 1.0), (-math.inf, 0.0), (7.0, 1.0), (-1e300, 0.0)])
def test_rewards_out_of_range_are_clamped_and_named_by_check(sent, kept):
    episode = ([0, 1, 2], [0, 1], [sent, 0.0])
    assert read([episode], SPEC).rewards[0, 0, 0] == kept
    (problem,) = check([episode], SPEC)
    assert (problem.column, problem.step) == ("rewards", 0)
    assert "will be clamped" in str(problem)


def test_heavy_tails_are_not_clamped_here():
    spec = EpisodeSpec(states=3, actions=2, horizon=2, rewards=MomentBound(order=1.5, bound=2.0, mean=1.0))
    assert read([([0, 1, 2], [0, 1], [50.0, -9.0])], spec).rewards[0, 0].tolist() == [50.0, -9.0]


def test_batches_of_runs_are_read_as_arrays():
    states = np.array([[[0, 1, 2], [0, 9, 2]], [[2, 2, 2], [1, 1, 1]]])
    batch = Trajectories(states, np.zeros((2, 2, 2), dtype=int), np.zeros((2, 2, 2)))
    assert read(batch, SPEC).readable.tolist() == [[True, False], [True, True]]
    assert [(problem.run, problem.episode) for problem in check(batch, SPEC)] == [(0, 1)]


@pytest.mark.parametrize("horizon", [1, 3])
def test_a_batch_of_another_horizon_is_all_empty(horizon):
    """Its length may be one person's data, so it is no reason to raise."""
    batch = Trajectories(
        np.zeros((1, 2, horizon + 1), dtype=int), np.zeros((1, 2, horizon), dtype=int), np.zeros((1, 2, horizon))
    )
    assert not read(batch, SPEC).readable.any()


def test_a_batch_that_is_none_is_the_callers_mistake():
    with pytest.raises(ValueError, match="axes runs, episodes and steps"):
        read(Trajectories(np.zeros((2, 3)), np.zeros((2, 2)), np.zeros((2, 2))), SPEC)
    with pytest.raises(ValueError, match="same runs and episodes"):
        read(Trajectories(np.zeros((1, 2, 3)), np.zeros((1, 3, 2)), np.zeros((1, 3, 2))), SPEC)


anything = st.recursive(
    st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=3) | st.binary(max_size=3),
    lambda inner: st.lists(inner, max_size=4) | st.tuples(inner, inner, inner),
    max_leaves=12,
)


@given(st.lists(anything, max_size=4))
def test_whatever_is_sent_is_read_without_an_exception_and_as_many(people):
    episodes = read(people, SPEC)
    assert episodes.number == len(people)
    assert np.isfinite(episodes.rewards).all()
    assert ((episodes.states >= 0) & (episodes.states < 3)).all()
    assert len({problem.episode for problem in check(people, SPEC)}) >= (~episodes.readable).sum()


objects = st.sampled_from([0, 1, 2, 3, -1, 0.5, None, "x", math.nan, math.inf])


@given(
    st.lists(objects, min_size=3, max_size=3),
    st.lists(objects, min_size=2, max_size=2),
    st.lists(objects, min_size=2, max_size=2),
)
def test_arrays_of_objects_are_read_like_lists(states, actions, rewards):
    columns = [np.array(column, dtype=object)[None, None] for column in (states, actions, rewards)]
    episodes = read(Trajectories(*columns), SPEC)
    good = [
        all(
            isinstance(v, int | float) and 0 <= v < n and v == int(v)
            for v in column
            if v is not None and v == v and v != math.inf
        )
        and all(isinstance(v, int | float) and math.isfinite(v) for v in column)
        for column, n in ((states, 3), (actions, 2))
    ]
    numbers = all(isinstance(v, int | float) and v == v for v in rewards)
    assert episodes.readable[0, 0] == (all(good) and numbers)


class Refuses:
    def __float__(self):
        raise RuntimeError("no")


STRANGE = {
    "an integer beyond all floats": [10**400, 0],
    "complex numbers": np.array([1j, 0]),
    "complex numbers that are real": np.array([1, 0], dtype=complex),
    "masked numbers": [np.ma.masked, 0],
    "an object that raises": [Refuses(), 0],
    "arrays in arrays": np.array([np.array([1.0]), None], dtype=object),
    "dates": np.array(["2020", "2021"], dtype="M8[Y]"),
    "durations": np.array([1, 2], dtype="m8[s]"),
    "records": np.zeros(2, dtype=[("a", float)]),
    "two axes": [[0.0], [0.0]],
    "none": None,
}


@pytest.mark.parametrize("what", STRANGE)
@pytest.mark.parametrize("batched", [False, True])
def test_strange_numbers_are_nobody_without_a_sound_and_the_neighbour_is_read(what, batched):
    """Even where the process turns warnings into errors: an exception about one user is a release of its own."""
    people = [GOOD, (GOOD[0], GOOD[1], STRANGE[what]), GOOD]
    sent = Trajectories(*([[person[i] for person in people]] for i in range(3))) if batched else people
    with warnings.catch_warnings(), np.errstate(all="raise"):
        warnings.simplefilter("error")
        assert read(sent, SPEC).readable.tolist() == [[True, False, True]]


def test_a_number_too_large_for_a_double_is_clamped_like_any_other():
    rewards = np.array(["1e999", "-1e999"], dtype=np.longdouble)
    with warnings.catch_warnings(), np.errstate(all="raise"):
        warnings.simplefilter("error")
        for sent in ([(GOOD[0], GOOD[1], rewards)], Trajectories([[GOOD[0]]], [[GOOD[1]]], rewards[None, None])):
            assert read(sent, SPEC).rewards[0, 0].tolist() == [1.0, 0.0]


def test_one_short_episode_in_a_batch_is_hers_alone():
    states, actions, rewards = ([[GOOD[i], GOOD[i]], [GOOD[i], GOOD[i]]] for i in range(3))
    states[1][0] = [0, 1]
    assert read(Trajectories(states, actions, rewards), SPEC).readable.tolist() == [[True, True], [False, True]]
    shapes = [[np.zeros((2, 2)), np.zeros((2, 3))]]  # NumPy refuses to make one array of these, even of objects
    assert not read(Trajectories(shapes, [[GOOD[1]] * 2], [[GOOD[2]] * 2]), SPEC).readable.any()


def test_a_ragged_batch_that_is_none_is_the_callers_mistake():
    with pytest.raises(ValueError, match="axes runs, episodes and steps"):
        read(Trajectories([[0, 1], None], [0, 1], [0.0]), SPEC)
    with pytest.raises(ValueError, match="same runs and episodes"):
        read(Trajectories([[GOOD[0], "short"]], [[GOOD[1]]], [[GOOD[2]]]), SPEC)


@pytest.mark.parametrize("sent", [5, [[0]] * 5, [], None, "x", [[[]]]])
def test_who_sends_another_shape_is_nobody_also_if_everybody_does(sent):
    """What is inside the outer two levels is a person's: nobody decides whether others hear an exception."""
    for others in (GOOD, (sent, GOOD[1], GOOD[2])):
        people = [(sent, GOOD[1], GOOD[2]), others]
        batch = read(Trajectories(*([[person[column] for person in people]] for column in range(3))), SPEC)
        assert batch.readable.tolist() == [[False, others is GOOD]]


def test_what_worlds_hand_over_is_read_like_anything_else():
    """32-bit columns have a path of their own, on which nothing is converted."""
    states, actions, rewards = (np.array([[column, column]]) for column in GOOD)
    states[0, 1, 0] = 99
    fast = read(Trajectories(states.astype(np.int32), actions.astype(np.int32), rewards.astype(float)), SPEC)
    slow = read(Trajectories(states.tolist(), actions.tolist(), rewards.tolist()), SPEC)
    for mine, other in zip(fast, slow, strict=True):
        assert mine.dtype == other.dtype
        np.testing.assert_array_equal(mine, other)
    assert fast.readable.tolist() == [[True, False]]
