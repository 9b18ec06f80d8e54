"""`tacit train` and what goes with it, end to end on made data."""

import json
import signal

import numpy as np
import polars
import pytest
from commands import assert_mistake, document, invoke, remarks

from tacit.mdp import Streams, riverswim
from tacit.offline import Dataset, OfflinePolicy, Schema
from tacit.privacy import Statement

WORLD = "riverswim(states=3, horizon=6)"
RIVER = riverswim(states=3, horizon=6)


@pytest.fixture
def river(tmp_path):
    path = tmp_path / "river.parquet"
    made = document(invoke("datasets", "make", WORLD, "--episodes", 3000, "--out", path, "--json"))
    assert made["files"] == [str(path), str(tmp_path / "river.schema.json")]
    return path


def trained(river, *arguments, out="policy.npz"):
    return invoke("train", river, *arguments, "--out", river.parent / out, "--json")


def test_the_command_line_of_a_practitioner(river):
    told = document(trained(river, "--epsilon", 5, "--delta", 1e-6, "--horizon", 6))
    assert told["statement"]["guarantee"]["epsilon"] == 5.0
    assert told["statement"]["holds"]
    assert told["report"]["episodes"] == 3000
    policy, notes = OfflinePolicy.load_with_notes(river.parent / "policy.npz")
    assert policy.spec == RIVER.spec
    assert RIVER.policy_values(policy.probabilities[None])[0] > 0.9 * RIVER.optimal_value
    statement = Statement.from_json((river.parent / "policy.statement.json").read_text())
    assert statement == Statement.from_json(notes["statement"])
    shown = invoke("inspect", river.parent / "policy.npz")
    assert str(statement) in shown.stdout
    assert "3,000 episodes" in shown.stdout


def test_training_is_never_the_same_twice(river):
    """Noise is secure: nothing seeds it."""
    for out in ("one.npz", "two.npz"):
        document(trained(river, "--rho", 0.001, out=out))
    reports = [OfflinePolicy.load_with_notes(river.parent / out)[1]["report"] for out in ("one.npz", "two.npz")]
    assert reports[0]["pessimistic_value"] != reports[1]["pessimistic_value"]


def test_without_privacy_counts_are_exact_and_the_statement_says_so(river):
    told = document(trained(river, "--privacy", "none"))
    assert not told["statement"]["holds"]
    assert told["report"]["noise_std"] == 0
    assert invoke("inspect", river.parent / "policy.npz").stdout.count("No privacy: exact statistics.") == 1


def test_users_with_several_episodes_are_the_unit(river):
    frame = polars.read_parquet(river).with_columns(user=polars.col("episode") // 3)
    frame.write_parquet(river)
    schema = Schema(spec=RIVER.spec, max_episodes_per_user=2).save(river.parent / "users.json")
    told = document(trained(river, "--epsilon", 5, "--schema", schema))
    assert told["statement"]["guarantee"]["unit"] == "user"
    assert told["report"]["episodes"] == 2000
    assert any("A user has 2 of the episodes" in note for note in told["statement"]["notes"])


def test_csv_and_parquet_and_several_files_train_alike(river):
    table = river.parent / "river.csv"
    assert invoke("convert", river, table).exit_code == 0
    frame = polars.read_parquet(river)
    halves = [river.parent / "a.parquet", river.parent / "b.parquet"]
    frame.filter(polars.col("episode") < 1000).write_parquet(halves[0])
    frame.filter(polars.col("episode") >= 1000).write_parquet(halves[1])
    schema = river.with_suffix(".schema.json")
    values = [
        document(invoke("train", *data, "--schema", schema, "-p", "none", "--out", river.parent / "p.npz", "--json"))
        for data in ([river], [table], halves)
    ]
    assert values[0]["report"] == values[1]["report"] == values[2]["report"]


def test_check_names_rows_and_train_takes_them_silently(river):
    frame = polars.read_parquet(river)
    broken = frame.with_columns(
        state=polars.when((polars.col("episode") == 7) & (polars.col("step") == 2)).then(99).otherwise("state")
    )
    broken.write_parquet(river)
    found = invoke("check", river)
    assert found.exit_code == 1
    assert "episode 7, state: 99 is none of 0..2" in found.stdout
    assert "outside of any guarantee" in found.stderr
    outcome = trained(river, "--epsilon", 1)
    assert outcome.exit_code == 0
    assert not remarks(outcome)
    frame.write_parquet(river)
    told = document(invoke("check", river, "--json"))
    assert told == {"episodes": 3000, "problems": 0, "kinds": {}, "first": []}


def test_evaluation_in_the_world_and_from_data_agree(river):
    document(trained(river, "--epsilon", 20))
    policy = river.parent / "policy.npz"
    exact = document(invoke("evaluate", policy, "--world", WORLD, "--json"))
    assert exact["value"] > 0.9 * exact["optimal"]
    guess = document(invoke("evaluate", policy, river, "--behaviour", "uniform", "--method", "fqe", "--json"))
    assert guess["low"] <= exact["value"] <= guess["high"]
    assert not guess["private"]
    private = document(
        invoke("evaluate", policy, river, "--behaviour", "uniform", "--epsilon", 1, "--clip", 50, "--json")
    )
    assert private["private"]
    assert private["low"] <= exact["value"] <= private["high"]
    assert json.loads(private["statement"])["holds"]
    shown = invoke("evaluate", policy, river)
    assert "NOT PRIVATE" in shown.stdout
    assert "estimated from the same data" in shown.stdout


def test_an_interrupted_training_goes_on_from_its_checkpoint(river, monkeypatch):
    """As secret as the data, and gone at the end; each place is counted once."""
    batches, state, pressed = Dataset.batches, river.parent / "state", []

    def small(self, size=None):
        for count, batch in enumerate(batches(self, 500)):
            if count == 3 and not pressed:
                pressed.append(count)
                signal.raise_signal(signal.SIGINT)
            yield batch

    monkeypatch.setattr(Dataset, "batches", small)
    first = trained(river, "--epsilon", 5, "--checkpoint", state)
    assert first.exit_code == 130
    assert state.exists()
    assert state.stat().st_mode & 0o077 == 0
    other = trained(river, "--epsilon", 4, "--checkpoint", state)
    assert_mistake(other, "is of another training")
    told = document(trained(river, "--epsilon", 5, "--checkpoint", state))
    assert told["statement"]["users"] == 3000
    assert not state.exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "a guarantee needs --epsilon"),
        (("--epsilon", "0"), "epsilon must be positive"),
        (("--epsilon", "1", "--rho", "1"), "either rho, or epsilon"),
        (("--epsilon", "1", "--privacy", "none"), "--privacy none takes neither"),
        (("--epsilon", "1", "--rule", "theorem", "--pooled"), "the theorem's rule counts per step"),
        (("--epsilon", "1", "--schema", "nowhere.json"), "there is no schema nowhere.json"),
    ],
)
def test_what_cannot_be_trained_is_one_line(river, arguments, said):
    assert_mistake(trained(river, *arguments), said)
    assert not (river.parent / "policy.npz").exists()


def test_files_that_are_none_are_one_line(river, tmp_path):
    assert_mistake(invoke("train", tmp_path / "no.parquet", "--epsilon", 1), "there is no schema")
    assert_mistake(trained(river, "--epsilon", 1, out="policy.csv"), "--out is the policy's file, .npz")
    cut = tmp_path / "cut.parquet"
    cut.write_bytes(river.read_bytes()[:2000])
    outcome = invoke("train", cut, "--schema", river.with_suffix(".schema.json"), "--epsilon", 1)
    assert_mistake(outcome, "cut.parquet")
    assert_mistake(invoke("inspect", tmp_path / "nothing.npz"), "there is no file")
    assert_mistake(invoke("inspect", cut), "cannot be read as a table")
    assert_mistake(invoke("convert", river, tmp_path / "x.txt"), "becomes a table, .csv or .parquet")
    assert_mistake(invoke("evaluate", cut), "say either --world, or the data")
    assert_mistake(invoke("evaluate", cut, "--world", WORLD), "holds no policy of Tacit's")
    assert_mistake(invoke("datasets", "make", "nonsense", "--out", tmp_path / "a.csv"), "no world is called 'nonsense'")


def test_a_policy_of_another_world_is_not_evaluated(river):
    document(trained(river, "--epsilon", 1))
    policy = river.parent / "policy.npz"
    assert_mistake(invoke("evaluate", policy, "--world", "riverswim(states=4, horizon=6)"), "the policy is for")
    assert_mistake(invoke("evaluate", policy, "--world", "riverswim(states=3, horizon=7)"), "H = 6, and the world 7")


def test_inspect_tells_of_a_table_its_columns_and_of_a_schema_its_words(river):
    told = document(invoke("inspect", river, "--json"))
    assert told["rows"] == 18_000
    assert list(told["columns"]) == ["episode", "step", "state", "action", "reward", "next_state"]
    assert "The unit of privacy is one episode." in invoke("inspect", river.with_suffix(".schema.json")).stdout


def test_a_policy_becomes_a_table(river):
    document(trained(river, "--epsilon", 5))
    target = river.parent / "policy.csv"
    assert invoke("convert", river.parent / "policy.npz", target).exit_code == 0
    table = polars.read_csv(target)
    policy = OfflinePolicy.load(river.parent / "policy.npz")
    assert table["probability"].sum() == pytest.approx(6 * 3)
    assert len(table) == np.count_nonzero(policy.probabilities)


def test_made_data_are_rollouts_of_the_world(river):
    data = Dataset.open(river, Schema.load(river.with_suffix(".schema.json")))
    states = np.concatenate([batch.states for batch in data.batches()], axis=1)
    expected = RIVER.rollout(np.full((1, 6, 3, 2), 0.5), episodes=3000, streams=Streams(0, runs=1)).states
    assert sorted(map(tuple, states[0].tolist())) == sorted(map(tuple, expected[0].tolist()))
