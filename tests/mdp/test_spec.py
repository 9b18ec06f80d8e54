import json
from dataclasses import FrozenInstanceError

import numpy as np
import pytest

from tacit.mdp.spec import EpisodeSpec, MomentBound, SpecError


def test_the_smallest_world_there_is():
    spec = EpisodeSpec(states=1, actions=1, horizon=1, start=0)
    assert (spec.states, spec.actions, spec.horizon) == (1, 1, 1)
    assert spec.start_law is not None
    assert spec.start_law.tolist() == [1.0]
    assert spec.reward_range == (0.0, 1.0)
    assert spec.stationary is True


@pytest.mark.parametrize("name", ["states", "actions", "horizon"])
@pytest.mark.parametrize("value", [0, -1, 2.0, "3", True, None, float("nan")])
def test_sizes_are_whole_numbers_from_1(name, value):
    sizes = {"states": 2, "actions": 2, "horizon": 2} | {name: value}
    with pytest.raises(SpecError, match=name):
        EpisodeSpec(**sizes)


def test_numpy_integers_are_sizes_and_become_int():
    spec = EpisodeSpec(states=np.int64(3), actions=np.int32(2), horizon=np.uint8(4), start=np.int16(2))
    assert all(type(value) is int for value in (spec.states, spec.actions, spec.horizon, spec.start))
    assert spec == EpisodeSpec(states=3, actions=2, horizon=4, start=2)


@pytest.mark.parametrize("rewards", [(0, 1), (-2.5, 2.5), [0.0, 3.0], np.array([0.0, 1.0])])
def test_a_reward_range_is_kept_as_floats(rewards):
    spec = EpisodeSpec(states=2, actions=2, horizon=2, rewards=rewards)
    assert spec.reward_range == tuple(float(r) for r in rewards)
    assert all(type(r) is float for r in spec.reward_range)


@pytest.mark.parametrize(
    "rewards",
    [
        (1.0, 1.0),
        (1.0, 0.0),
        (0.0, float("inf")),
        (float("-inf"), 0.0),
        (float("nan"), 1.0),
        (0.0, float("nan")),
        (0.0,),
        (0.0, 0.5, 1.0),
        1.0,
        None,
        ("a", "b"),
    ],
)
def test_other_reward_ranges_are_refused(rewards):
    with pytest.raises(SpecError, match="MomentBound"):
        EpisodeSpec(states=2, actions=2, horizon=2, rewards=rewards)


def test_a_moment_bound_has_no_range():
    spec = EpisodeSpec(states=2, actions=2, horizon=2, rewards=MomentBound(order=1.5, bound=3.0, mean=1.0))
    with pytest.raises(SpecError, match="moment bound"):
        _ = spec.reward_range


@pytest.mark.parametrize("order", [1.0, 0.5, 2.0001, float("nan"), float("inf")])
def test_moment_orders_outside_1_to_2_are_refused(order):
    with pytest.raises(SpecError, match="order"):
        MomentBound(order=order, bound=1.0, mean=1.0)


@pytest.mark.parametrize("name", ["bound", "mean"])
@pytest.mark.parametrize("value", [0.0, -1.0, float("inf"), float("nan")])
def test_moment_bounds_are_positive_and_finite(name, value):
    with pytest.raises(SpecError, match="positive and finite"):
        MomentBound(**({"order": 2.0, "bound": 1.0, "mean": 1.0} | {name: value}))


def test_moment_orders_up_to_2_included():
    assert MomentBound(order=2, bound=1, mean=1).order == 2


@pytest.mark.parametrize(
    ("start", "law"),
    [
        ("unknown", None),
        (0, [1.0, 0.0, 0.0]),
        (2, [0.0, 0.0, 1.0]),
        ((0.25, 0.25, 0.5), [0.25, 0.25, 0.5]),
        (np.array([0.0, 1.0, 0.0]), [0.0, 1.0, 0.0]),
    ],
)
def test_start_laws(start, law):
    spec = EpisodeSpec(states=3, actions=1, horizon=1, start=start)
    assert (None if spec.start_law is None else spec.start_law.tolist()) == law
    hash(spec)  # immutable all through


@pytest.mark.parametrize(
    "start",
    [
        3,
        -1,
        "known",
        "",
        True,
        1.0,
        None,
        (0.5, 0.5),
        (0.5, 0.5, 0.0, 0.0),
        (0.5, 0.6, -0.1),
        (0.5, 0.4, 0.0),
        (0.5, float("nan"), 0.5),
        (float("inf"), 0.0, 0.0),
        ("a", "b", "c"),
        np.eye(3),
    ],
)
def test_other_start_laws_are_refused(start):
    with pytest.raises(SpecError, match="start"):
        EpisodeSpec(states=3, actions=1, horizon=1, start=start)


@pytest.mark.parametrize("stationary", ["no", 1, None])
def test_stationary_is_a_truth_value(stationary):
    with pytest.raises(SpecError, match="stationary"):
        EpisodeSpec(states=2, actions=2, horizon=2, stationary=stationary)


def test_a_numpy_truth_value_will_do():
    assert EpisodeSpec(states=2, actions=2, horizon=2, stationary=np.bool_(False)).stationary is False


def test_specs_are_immutable_and_keyword_only():
    spec = EpisodeSpec(states=2, actions=2, horizon=2)
    with pytest.raises(FrozenInstanceError):
        spec.horizon = 3
    with pytest.raises(TypeError):
        EpisodeSpec(2, 2, 2)


def test_the_start_law_is_a_fresh_array():
    spec = EpisodeSpec(states=2, actions=2, horizon=2, start=0)
    spec.start_law[0] = 5.0
    assert spec.start_law.tolist() == [1.0, 0.0]


@pytest.mark.parametrize("rewards", [(-1.0, 2.0), MomentBound(order=1.5, bound=3.0, mean=1.0)])
@pytest.mark.parametrize("start", ["unknown", 1, (0.25, 0.75)])
def test_specs_survive_json(rewards, start):
    spec = EpisodeSpec(states=2, actions=3, horizon=4, rewards=rewards, stationary=False, start=start)
    assert EpisodeSpec.from_json(json.loads(json.dumps(spec.to_json()))) == spec
