"""What can be promised, and what is refused with a sentence that says what to do."""

import dataclasses
import math
import pickle
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tacit.privacy import Central, GuaranteeError, Joint, Local, NonPrivate, Shuffle

PLAIN = (Central, Joint, Local)


@pytest.mark.parametrize("model", PLAIN)
@pytest.mark.parametrize("epsilon", [1, 1.0, np.float64(1.0), np.int64(1), np.float32(1.0), Fraction(1)])
def test_any_number_is_an_epsilon_and_is_kept_as_a_float(model, epsilon):
    guarantee = model(epsilon=epsilon)
    assert type(guarantee.epsilon) is float
    assert guarantee.epsilon == 1.0
    assert guarantee.delta == 0.0
    assert guarantee.rho is None
    assert guarantee == model(epsilon=1.0)
    assert hash(guarantee) == hash(model(epsilon=1.0))


@pytest.mark.parametrize("model", PLAIN)
def test_the_three_kinds_and_none(model):
    assert model(epsilon=2).kind == "pure"
    assert model(epsilon=2, delta=1e-6).kind == "approximate"
    assert model(rho=1).kind == "zero-concentrated"
    assert type(model(rho=1).rho) is float
    assert model(epsilon=math.inf).kind == "none"
    assert model(epsilon=math.inf, delta=1e-6).kind == "none"
    assert model(rho=math.inf).kind == "none"


def test_non_private_takes_nothing_and_promises_nothing():
    assert NonPrivate().kind == "none"
    assert NonPrivate() == NonPrivate()
    assert NonPrivate().model == "none"
    with pytest.raises(TypeError):
        NonPrivate(epsilon=1.0)


def test_defaults_are_the_papers_definitions():
    guarantee = Joint(epsilon=1)
    assert (guarantee.neighbours, guarantee.unit) == ("replace-one", "episode")
    other = Joint(epsilon=1, neighbours="add-or-remove-one", unit="patient")
    assert (other.neighbours, other.unit) == ("add-or-remove-one", "patient")
    assert other != guarantee


def test_models_with_the_same_numbers_are_different_promises():
    values = [Central(epsilon=1), Joint(epsilon=1), Local(epsilon=1)]
    assert len(set(values)) == 3
    assert [value.model for value in values] == ["central", "joint", "local"]
    assert Shuffle(epsilon=1, delta=1e-6).model == "shuffle"


def test_a_guarantee_cannot_be_changed_and_takes_names_only():
    with pytest.raises(dataclasses.FrozenInstanceError):
        Central(epsilon=1).epsilon = 2.0
    with pytest.raises(TypeError):
        Central(1.0)


@pytest.mark.parametrize(
    "guarantee", [Central(epsilon=1, delta=1e-6), Local(rho=0.5), NonPrivate(), Shuffle(epsilon=1, delta=0.1)]
)
def test_a_guarantee_survives_a_process_boundary(guarantee):
    assert pickle.loads(pickle.dumps(guarantee)) == guarantee


# Each message names the parameter, the value that was given, and what would do.
REFUSED = [
    ({"epsilon": 0}, "epsilon must be positive.*got 0"),
    ({"epsilon": -1}, "epsilon must be positive.*got -1"),
    ({"epsilon": -math.inf}, "epsilon must be positive.*got -inf"),
    ({"epsilon": math.nan}, "epsilon must be positive.*got nan"),
    ({"epsilon": "much"}, "epsilon must be a number; got 'much'"),
    ({"epsilon": [1.0, 2.0]}, "epsilon must be a number"),
    ({"epsilon": 1j}, "epsilon must be a number"),
    ({"epsilon": 10**400}, "epsilon must be a number"),
    ({"rho": 0}, "rho must be positive.*got 0"),
    ({"rho": -0.1}, "rho must be positive.*got -0.1"),
    ({"rho": math.nan}, "rho must be positive"),
    ({"rho": "some"}, "rho must be a number"),
    ({}, "needs epsilon .* or rho"),
    ({"delta": 1e-6}, "needs epsilon .* or rho"),
    ({"epsilon": 1, "rho": 1}, "either rho, or epsilon"),
    ({"rho": 1, "delta": 1e-6}, "either rho, or epsilon"),
    ({"epsilon": 1, "delta": 1}, "0 ≤ delta < 1, and well below one over.*got 1"),
    ({"epsilon": 1, "delta": 2}, "0 ≤ delta < 1"),
    ({"epsilon": 1, "delta": -1e-9}, "0 ≤ delta < 1"),
    ({"epsilon": 1, "delta": math.nan}, "0 ≤ delta < 1"),
    ({"epsilon": 1, "delta": "small"}, "delta must be a number; got 'small'"),
    ({"epsilon": 1, "delta": None}, "delta must be a number; got None"),
    ({"epsilon": 1, "neighbours": "swap"}, "neighbours must be one of .*replace-one.*add-or-remove-one.*got 'swap'"),
]


@pytest.mark.parametrize("model", PLAIN)
@pytest.mark.parametrize(("arguments", "message"), REFUSED, ids=[str(arguments) for arguments, _ in REFUSED])
def test_what_cannot_be_kept_is_refused_with_advice(model, arguments, message):
    with pytest.raises(GuaranteeError, match=message):
        model(**arguments)


def test_a_guarantee_error_is_a_value_error():
    with pytest.raises(ValueError):
        Central(epsilon=0)


def test_shuffle_needs_a_delta():
    for arguments in ({"epsilon": 1}, {"rho": 1}):
        with pytest.raises(GuaranteeError, match="give epsilon and delta > 0"):
            Shuffle(**arguments)


def test_shuffle_checks_its_local_epsilon_too():
    assert type(Shuffle(epsilon=1, delta=1e-6, local_epsilon=3).local_epsilon) is float
    with pytest.raises(GuaranteeError, match="local_epsilon must be positive"):
        Shuffle(epsilon=1, delta=1e-6, local_epsilon=0)


@pytest.mark.parametrize(
    ("guarantee", "words"),
    [
        (Central(epsilon=1, delta=1e-6), "(ε, δ) = (1, 1e-06) differential privacy"),
        (Central(epsilon=0.5), "ε = 0.5 differential privacy (pure)"),
        (Joint(epsilon=1), "ε = 1 joint differential privacy (pure)"),
        (Local(epsilon=2), "ε = 2 local differential privacy (pure)"),
        (Joint(rho=0.125), "ρ = 0.125 zero-concentrated joint differential privacy"),
        (Shuffle(epsilon=1, delta=1e-6), "(ε, δ) = (1, 1e-06) shuffle differential privacy"),
        (NonPrivate(), "no privacy"),
        (Central(epsilon=math.inf), "no privacy"),
        (Central(rho=math.inf), "no privacy"),
    ],
)
def test_how_it_prints(guarantee, words):
    assert str(guarantee) == words


@settings(derandomize=True, max_examples=200)
@given(st.floats(), st.floats())
def test_every_pair_of_floats_is_a_guarantee_or_an_error(epsilon, delta):
    valid = epsilon > 0 and 0 <= delta < 1
    if valid:
        guarantee = Central(epsilon=epsilon, delta=delta)
        assert (guarantee.epsilon, guarantee.delta) == (epsilon, delta)
    else:
        with pytest.raises(GuaranteeError):
            Central(epsilon=epsilon, delta=delta)
