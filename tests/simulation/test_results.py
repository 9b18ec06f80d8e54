"""Results: numbers against a dense array of every episode, and files that come back as they were or not at all."""

import json
import math
import shutil

import numpy as np
import polars
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tacit
from simulation.cases import Unknown, random_result, same, small_world, vi
from tacit import Joint, NonPrivate
from tacit.simulation import Result, simulate


@given(st.integers(0, 2**32))
def test_regret_is_the_sum_of_the_gaps_of_all_episodes_before(seed):
    result, followed = random_result(seed)
    regret = np.cumsum(3.0 - followed, axis=1)
    from_none = np.concatenate([np.zeros((len(regret), 1)), regret], axis=1)
    np.testing.assert_allclose(result.regret, regret, atol=1e-12)
    np.testing.assert_allclose(result.final_regret, regret[:, -1], atol=1e-12)
    times = np.random.default_rng(seed).integers(0, result.episodes + 1, 7)  # in any order, and repeated
    np.testing.assert_allclose(result.regret_at(times), from_none[:, times], atol=1e-12)
    np.testing.assert_allclose(result.regret_at(result.episodes), regret[:, -1:], atol=1e-12)
    assert result.runs == len(regret)


@given(st.integers(0, 2**32))
def test_summary_and_quantiles_are_those_of_numpy(seed):
    result, followed = random_result(seed)
    regret = np.cumsum(3.0 - followed, axis=1)
    np.testing.assert_allclose(result.quantiles([0.0, 0.3, 1.0])[:, 0], np.quantile(regret[:, -1], [0.0, 0.3, 1.0]))
    times = np.arange(1, result.episodes + 1)
    np.testing.assert_allclose(result.quantiles([0.25, 0.5], times), np.quantile(regret, [0.25, 0.5], axis=0))
    summary = result.summary()
    expected = {
        "episodes": regret.shape[1],
        "runs": len(regret),
        "mean value": followed.mean(),
        "last value": followed[:, -1].mean(),
        "optimal value": 3.0,
        "regret": regret[:, -1].mean(),
        "std": regret[:, -1].std(ddof=1) if len(regret) > 1 else 0.0,
        "10 %": np.quantile(regret[:, -1], 0.1),
        "median": np.median(regret[:, -1]),
        "90 %": np.quantile(regret[:, -1], 0.9),
        "share of worst": regret[:, -1].mean() / (3.0 * regret.shape[1]),
    }
    assert summary == pytest.approx(expected)


@pytest.mark.parametrize("wrong", [-1, 11, 2.5, [1, 11], [[0], [-1]]], ids=str)
def test_regret_is_not_told_of_episodes_that_were_not_played(wrong):
    result, _ = random_result(1, episodes=10)
    with pytest.raises(ValueError, match="regret is known after 0 to 10 episodes"):
        result.regret_at(wrong)


def test_where_nothing_can_be_won_there_is_no_share_of_it():
    assert random_result(1, optimal=0.0)[0].summary()["share of worst"] is None


@given(st.integers(0, 2**32))
def test_runs_that_were_played_apart_are_joined_over_the_episodes_that_all_have(seed):
    parts, dense = zip(*(random_result(seed + n, episodes=5 + n, agent_episodes=7) for n in range(3)), strict=True)
    joined = Result.joined(parts, {"agent": {"episodes": 7}})
    assert joined.episodes == 5
    assert joined.interrupted
    expected = np.cumsum(3.0 - np.concatenate([followed[:, :5] for followed in dense]), axis=1)
    np.testing.assert_allclose(joined.regret, expected, atol=1e-12)
    assert joined.changes.max() < 5


# Files


@pytest.mark.parametrize("name", ["r", "r.parquet", "r.json", "deep/er/joint-0.5"])
def test_a_result_comes_back_from_its_files_as_it_was(name, tmp_path):
    world = small_world()
    result = simulate(vi(world, privacy=Joint(epsilon=50, delta=1e-6)), world, runs=3, seed=2**70)
    table = result.to_parquet(tmp_path / name)
    assert table.suffix == ".parquet"
    assert sorted(file.suffix for file in table.parent.iterdir()) == [".json", ".parquet"]
    for path in (tmp_path / name, table, str(table)):
        back = Result.load(path)
        assert same(back, json_like(result))
        assert np.array_equal(back.regret, result.regret)
        assert back.summary() == result.summary()


def json_like(result):
    """JSON has lists only."""
    told = json.loads(json.dumps(dict(result.settings)))
    return Result(**{**vars_of(result), "settings": told})


def vars_of(result):
    names = ("changes", "values", "episodes", "optimal", "settings", "statement")
    return {name: getattr(result, name) for name in names}


def test_the_json_tells_settings_versions_seed_and_statement_to_any_reader(tmp_path):
    world = small_world()
    agent = vi(world, privacy=NonPrivate())
    result = simulate(agent, world, runs=2, seed=17)
    text = result.to_parquet(tmp_path / "r").with_suffix(".json").read_text(encoding="utf-8")

    def refuse(word):
        raise AssertionError(f"{word} is no JSON")

    told = json.loads(text, parse_constant=refuse)  # ε is infinite
    assert told["statement"] == result.statement
    assert told["statement"].startswith("No privacy")
    assert told["settings"]["seed"] == 17
    assert told["settings"]["runs"] == 2
    assert told["settings"]["versions"]["tacit"] == tacit.__version__
    assert told["settings"]["agent"]["agent"] == "UCBVI"
    assert told["summary"]["regret"] == pytest.approx(result.final_regret.mean())
    assert Result.load(tmp_path / "r").settings["agent"]["privacy"]["epsilon"] == math.inf


def test_the_table_is_one_row_for_each_run_and_policy(tmp_path):
    result, _ = random_result(3, runs=4)
    table = polars.read_parquet(result.to_parquet(tmp_path / "r"))
    assert table.columns == ["run", "episode", "value"]
    for run, episode, value in table.rows():
        assert value == result.values[run, result.changes.tolist().index(episode)]
    assert len(table) == result.values.size


def test_a_result_without_regret_can_be_kept_too(tmp_path):
    inner = small_world()
    result = simulate(vi(inner), Unknown(inner=inner), runs=2)
    assert same(Result.load(result.to_parquet(tmp_path / "r")), json_like(result))


def test_a_result_that_is_written_again_replaces_the_one_before(tmp_path):
    (first, _), (second, _) = random_result(1), random_result(2)
    first.to_parquet(tmp_path / "r")
    second.to_parquet(tmp_path / "r")
    assert same(Result.load(tmp_path / "r"), second)


def test_when_writing_is_cut_short_nothing_is_taken_for_a_result(tmp_path, monkeypatch):
    (first, _), (second, _) = random_result(1), random_result(2)
    first.to_parquet(tmp_path / "r")
    monkeypatch.setattr(json, "dumps", lambda *_, **__: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        second.to_parquet(tmp_path / "r")
    with pytest.raises(FileNotFoundError):  # not the table of the second with the settings of the first
        Result.load(tmp_path / "r")


@pytest.mark.parametrize("missing", [".parquet", ".json"])
def test_a_file_that_is_not_there_is_named(missing, tmp_path):
    table = random_result(1)[0].to_parquet(tmp_path / "r")
    table.with_suffix(missing).unlink()
    with pytest.raises(FileNotFoundError, match=f"r{missing}"):
        Result.load(table)


def truncated(table):
    table.write_bytes(table.read_bytes()[:-20])


def another_table(table):
    polars.DataFrame({"a": [1, 2]}).write_parquet(table)


def shuffled(table):
    polars.read_parquet(table).reverse().write_parquet(table)


def empty(table):
    polars.read_parquet(table).head(0).write_parquet(table)


def a_row_less(table):
    polars.read_parquet(table).head(-1).write_parquet(table)


def somebody_elses(table):
    other, _ = random_result(8, runs=4, episodes=30)
    shutil.copy(other.to_parquet(table.with_name("other")), table)


def words(table):
    polars.read_parquet(table).with_columns(polars.lit("much").alias("value")).write_parquet(table)


def json_is(text):
    def damage(table):
        table.with_suffix(".json").write_text(text)

    damage.__name__ = f"the JSON is {text!r}"
    return damage


DAMAGES = [truncated, another_table, shuffled, empty, a_row_less, somebody_elses, words]
DAMAGES += [json_is(text) for text in ("", "[]", "{}", '{"format": 1}', "{", "null", '"\\ud800"')]


@pytest.mark.parametrize("damage", DAMAGES, ids=lambda damage: damage.__name__)
def test_a_damaged_or_foreign_file_is_a_clear_error(damage, tmp_path):
    result, _ = random_result(7, runs=3, episodes=30)
    assert len(result.changes) > 1
    table = result.to_parquet(tmp_path / "r")
    damage(table)
    with pytest.raises(ValueError, match=r"r\.parquet holds no result of Tacit's"):
        Result.load(table)


def test_another_versions_file_is_said_to_be_that(tmp_path):
    table = random_result(7)[0].to_parquet(tmp_path / "r")
    told = json.loads(table.with_suffix(".json").read_text())
    table.with_suffix(".json").write_text(json.dumps({**told, "format": 2}))
    with pytest.raises(ValueError, match=r"r\.parquet was written by another version of Tacit"):
        Result.load(table)
