"""Schemas: everything declared, files and back, and mistakes told by the field's name."""

import json

import pytest

from tacit.mdp import EpisodeSpec, MomentBound
from tacit.offline import Bins, Categories, EndState, FeatureColumn, Features, Schema, SchemaError

SPEC = EpisodeSpec(states=6, actions=2, horizon=20)
PLAIN = {"spec": {"states": 6, "actions": 2, "horizon": 20}}


def full():
    return Schema(
        spec=EpisodeSpec(states=7, actions=2, horizon=20, rewards=(-1, 1), start=(0.5, 0.5, 0, 0, 0, 0, 0)),
        columns={
            "episode": "stay",
            "state": ["age", "ward"],
            "next_state": ["age after", "ward after"],
            "action": "drug",
            "user": "patient",
        },
        encodings={"age": Bins([40, 65]), "ward": Categories(["general", "icu"]), "drug": Categories([False, True])},
        features=Features(columns=(FeatureColumn(name="age", centre=50, scale=20), FeatureColumn(name="bmi")), norm=2),
        end_state=EndState(),
        first_step=1,
        max_episodes_per_user=3,
    )


@pytest.mark.parametrize(
    "schema",
    [
        Schema(spec=SPEC),
        full(),
        Schema(spec=EpisodeSpec(states=2, actions=2, horizon=1, rewards=MomentBound(order=2, bound=1, mean=1))),
        Schema(spec=SPEC, columns={"next_state": None}),
    ],
)
def test_a_schema_is_the_same_after_it_was_written_and_read(schema, tmp_path):
    path = schema.save(tmp_path / "schema.json")
    assert Schema.load(path) == schema
    assert Schema.load(path).roles == schema.roles


def test_only_the_size_of_an_episode_has_to_be_told():
    schema = Schema.from_json(PLAIN)
    assert schema == Schema(spec=SPEC)
    assert schema.roles["reward"] == ("reward",)
    assert schema.roles["next_state"] == ("next_state",)
    assert schema.next_state_optional
    assert schema.unit == "episode"
    assert "user" not in schema.roles


def test_what_is_declared_is_found_again():
    schema = full()
    assert schema.end_state == EndState(state=6, action=0)
    assert schema.unit == "user"
    assert schema.roles["user"] == ("patient",)
    assert not schema.next_state_optional
    assert schema.encoding("next_state", "age after") == Bins([40, 65])
    assert schema.encoding("action", "drug").size == 2
    assert Schema(spec=SPEC, max_episodes_per_user=2).roles["user"] == ("user",)
    assert "next_state" not in Schema(spec=SPEC, columns={"next_state": None}).roles


def test_a_feature_may_be_given_by_its_name_alone():
    schema = Schema.from_json({**PLAIN, "features": {"columns": ["age", {"name": "bmi", "scale": 5}]}})
    assert schema.features == Features(columns=(FeatureColumn(name="age"), FeatureColumn(name="bmi", scale=5)), norm=1)


WRONG = [
    ([], "a schema is an object"),
    ({}, "spec is missing"),
    ({"spec": 3}, "spec must be an object"),
    ({"spec": {"states": 6, "actions": 2}}, "spec: horizon is missing"),
    ({"spec": {**PLAIN["spec"], "colour": 1}}, "spec: 'colour' is no field"),
    ({"spec": {**PLAIN["spec"], "states": 0}}, "spec: states must be a whole number of at least 1"),
    ({"spec": {**PLAIN["spec"], "rewards": [1, 0]}}, "spec: the reward range"),
    ({"spec": {**PLAIN["spec"], "rewards": 1}}, "spec: rewards must be"),
    ({"spec": {**PLAIN["spec"], "rewards": {"order": 2}}}, "spec: rewards must be"),
    ({**PLAIN, "format": 2}, "format must be 1"),
    ({**PLAIN, "colums": {}}, "'colums' is no field of a schema"),
    ({**PLAIN, "columns": ["state"]}, "columns must be an object"),
    ({**PLAIN, "columns": {"stat": "x"}}, "columns: 'stat' is no role"),
    ({**PLAIN, "columns": {"state": ""}}, "columns: state must be the name of a column or a list of names"),
    ({**PLAIN, "columns": {"state": []}}, "columns: state must be the name"),
    ({**PLAIN, "columns": {"state": None}}, "columns: state must be the name"),
    ({**PLAIN, "columns": {"reward": ["a", "b"]}}, "columns: reward must be the name of a column;"),
    ({**PLAIN, "columns": {"state": "x", "action": "x"}}, "columns: 'x' is named twice"),
    ({**PLAIN, "columns": {"user": "x"}}, "max_episodes_per_user must be declared"),
    ({**PLAIN, "columns": {"user": None}, "max_episodes_per_user": 2}, "user must be named"),
    ({**PLAIN, "max_episodes_per_user": 0}, "max_episodes_per_user must be a whole number of at least 1"),
    ({**PLAIN, "max_episodes_per_user": True}, "max_episodes_per_user must be"),
    ({**PLAIN, "first_step": 0.5}, "first_step must be a whole number"),
    ({**PLAIN, "end_state": {"state": 6}}, r"end_state: state must be in 0\.\.5"),
    ({**PLAIN, "end_state": {"action": -1}}, r"end_state: action must be in 0\.\.1"),
    ({**PLAIN, "end_state": True}, "end_state must be"),
    ({**PLAIN, "encodings": []}, "encodings must be an object"),
    ({**PLAIN, "encodings": {"age": {"bins": [1]}}}, "encodings: 'age' is no column of a state or an action"),
    ({**PLAIN, "encodings": {"state": {"bins": [2, 1]}}}, "encodings: 'state': bin edges must ascend"),
    ({**PLAIN, "encodings": {"state": {"bins": []}}}, "encodings: 'state': bins must be a list"),
    ({**PLAIN, "encodings": {"state": {"bins": ["a"]}}}, "bin edges must be finite numbers"),
    ({**PLAIN, "encodings": {"state": {"levels": [1]}}}, "encodings: 'state': must be"),
    ({**PLAIN, "encodings": {"state": {"categories": ["a", 1]}}}, "all text, all finite numbers"),
    ({**PLAIN, "encodings": {"state": {"categories": ["a", "a"]}}}, "must differ from each other"),
    ({**PLAIN, "encodings": {"state": {"categories": ["a"]}}}, "make 1 states, and spec declares 6"),
    ({**PLAIN, "encodings": {"action": {"bins": [0, 1]}}}, "make 3 actions, and spec declares 2"),
    ({**PLAIN, "columns": {"state": ["a", "b"]}}, "encodings: 'a' must have one"),
    (
        {**PLAIN, "columns": {"state": ["a", "b"], "next_state": "c"}},
        "next_state must have as many columns as state, 2",
    ),
    ({**PLAIN, "features": {"norm": 1}}, "features: must be"),
    ({**PLAIN, "features": {"columns": []}}, "features: columns must be a list of at least one"),
    ({**PLAIN, "features": {"columns": ["a", "a"]}}, "features: features must be columns that differ"),
    ({**PLAIN, "features": {"columns": ["a"], "norm": 0}}, "features: norm must be a positive number"),
    ({**PLAIN, "features": {"columns": [{"name": "a", "scale": 0}]}}, "features: scale of 'a' must be a positive"),
    ({**PLAIN, "features": {"columns": [{"name": "a", "mean": 0}]}}, "features: a feature must be"),
]


@pytest.mark.parametrize(("told", "message"), WRONG)
def test_a_mistake_is_told_by_the_name_of_its_field(told, message, tmp_path):
    with pytest.raises(SchemaError, match=message):
        Schema.from_json(told)
    path = tmp_path / "schema.json"
    path.write_text(json.dumps(told))
    with pytest.raises(SchemaError, match=r"schema\.json: "):
        Schema.load(path)


def test_a_file_that_is_none():
    with pytest.raises(SchemaError, match="cannot be read"):
        Schema.load("/nowhere/schema.json")


def test_a_file_that_is_no_json(tmp_path):
    path = tmp_path / "schema.json"
    path.write_text("{'spec'")
    with pytest.raises(SchemaError, match="is no JSON file"):
        Schema.load(path)


def test_an_end_state_may_be_one_more_than_the_codes_but_only_the_last():
    codes = {"state": Categories(["a", "b"])}
    three = EpisodeSpec(states=3, actions=1, horizon=2)
    assert Schema(spec=three, encodings=codes, end_state=EndState()).end_state.state == 2
    with pytest.raises(SchemaError, match="make 2 states, and spec declares 3"):
        Schema(spec=three, encodings=codes)
    with pytest.raises(SchemaError, match="make 2 states, and spec declares 3 with the end state"):
        Schema(spec=three, encodings=codes, end_state=EndState(state=0))
