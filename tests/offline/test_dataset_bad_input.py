"""Bad input, at both doors: reading fails only on what is no single person's doing; `check` names row and column."""

import pickle
import warnings

import numpy as np
import polars as pl
import pytest
from logged_tables import GOOD, SPEC, bag, episode, read, schema_of, table

from tacit.mdp import EpisodeSpec
from tacit.offline import Bins, Categories, Dataset, DatasetError, EndState, Schema

OTHER = ((3, 2, 1, 0), (1, 1, 0), (0.5, 0.25, 1.0))
"""Episode 2, which nobody disturbs."""


def both_doors(rows, schema=SPEC):
    """What is read, and what is told to the owner; nothing may be said on the way."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        dataset = Dataset.from_frame(table(*rows), schema)
        return read(dataset), dataset.check()


def changed(row, **values):
    """GOOD with another row there."""
    names = ("episode", "step", "state", "action", "reward", "next_state")
    rows = [list(each) for each in GOOD]
    for name, value in values.items():
        rows[row][names.index(name)] = value
    return [tuple(each) for each in rows]


# What depends on people's values: silent at one door, named at the other


@pytest.mark.parametrize(
    ("rows", "row", "column", "what"),
    [
        (changed(1, state=4), 1, "state", r"4 is none of 0..3"),
        (changed(1, state=-1), 1, "state", r"-1 is none of 0..3"),
        (changed(1, state=2**40), 1, "state", "1099511627776 is none of"),
        (changed(1, state=None), 1, "state", "nothing is none of"),
        (changed(2, action=2), 2, "action", "2 is none of 0..1"),
        (changed(0, reward=float("nan")), 0, "reward", "nan is not a number"),
        (changed(0, reward=None), 0, "reward", "nothing is not a number"),
        (changed(0, step=None), 0, "step", "nothing is no whole number of at least 0"),
        (changed(0, step=-1), 0, "step", "-1 is no whole number"),
        (changed(1, step=0), 1, "step", "is there twice, in row 0, too"),
        (changed(1, step=7), 0, "step", "1 is missing"),
        (changed(0, next_state=3), 0, "next_state", "3 is not the state of row 1"),
        (changed(0, next_state=None), 0, "next_state", "is missing in mid-episode"),
        (changed(2, next_state=9), 2, "next_state", "9 is none of 0..3"),
        (changed(2, next_state=None), 2, "next_state", "where the last step led is not told"),
        (GOOD[:2] + GOOD[3:], 0, "step", "there are 2 of 3 steps, and no end_state is declared"),
    ],
)
def test_an_episode_that_cannot_be_read_is_empty_and_its_owner_is_told_where(rows, row, column, what):
    places, problems = both_doors(rows)
    assert bag(places) == bag([None, OTHER])
    assert [(p.kind, p.row, p.episode, p.column) for p in problems if p.kind == "dropped"] == [
        ("dropped", row, 1, column)
    ]
    assert what.split("..")[0] in str(problems[0])
    assert "the episode counts as empty" in str(problems[0])


def test_steps_out_of_order_are_sorted():
    places, problems = both_doors([GOOD[row] for row in (5, 2, 0, 3, 1, 4)])
    assert bag(places) == bag([((0, 1, 2, 3), (0, 0, 0), (0.0, 0.0, 0.0)), OTHER])
    assert problems == []


def test_what_is_beyond_the_last_step_is_cut_whatever_it_holds():
    rows = [*GOOD, (1, 3, 3, None, None, 9), (1, 4, 99, -7, float("nan"), None), (1, 9, None, None, None, None)]
    places, problems = both_doors(rows)
    assert bag(places) == bag([((0, 1, 2, 3), (0, 0, 0), (0.0, 0.0, 0.0)), OTHER])
    assert [tuple(p)[:4] for p in problems] == [("cut", 6, 1, "step")]
    assert "3 rows from step 3 on are cut" in str(problems[0])


def test_the_state_after_the_last_step_is_in_the_row_that_is_cut():
    rows = [row[:5] for row in (*GOOD[:3], (1, 3, 2, None, None, None))]
    frame = table(*rows, columns=("episode", "step", "state", "action", "reward"))
    assert read(Dataset.from_frame(frame, SPEC)) == [((0, 1, 2, 2), (0, 0, 0), (0.0, 0.0, 0.0))]


@pytest.mark.parametrize("end", [False, True])
@pytest.mark.parametrize("steps", [(0, 1, 2, 4), (0, 1, 2, 3, 3), (0, 1, 4), (3,), (0, 1, 3)])
def test_what_comes_after_the_last_step_fills_no_hole(steps, end):
    rows = [(1, step, 0, 0, 0.0) for step in steps]
    frame = table(*rows, columns=("episode", "step", "state", "action", "reward"))
    dataset = Dataset.from_frame(frame, schema_of(end=end))
    assert read(dataset) == [None]
    assert [problem.kind for problem in dataset.check()] == ["dropped"]


def test_a_shorter_episode_is_completed_and_earns_nothing_there():
    places, problems = both_doors(GOOD[:2], schema_of(end=True))
    assert places == [((0, 1, 3, 3), (0, 0, 1), (0.0, 0.0, 0.0))]
    assert [tuple(p)[:4] for p in problems] == [("completed", 1, 1, "step")]


def test_rewards_outside_their_range_stay_for_statistics_to_clamp():
    places, problems = both_doors(changed(0, reward=float("inf")))
    assert bag(places) == bag([((0, 1, 2, 3), (0, 0, 0), (float("inf"), 0.0, 0.0)), OTHER])
    assert [tuple(p)[:4] for p in problems] == [("clamped", 0, 1, "reward")]
    assert "inf is outside [0, 1] and will be clamped" in str(problems[0])


def test_rows_without_an_owner_are_nobodys():
    places, problems = both_doors([*GOOD[:3], (None, 0, 0, 0, 0.0, 0), (None, 5, 0, 0, 0.0, 0), *GOOD[3:]])
    assert len(places) == 2
    assert None not in places
    assert [(p.kind, p.row) for p in problems] == [("dropped", 3)]
    assert "2 rows belong to nobody" in str(problems[0])


@pytest.mark.parametrize(("column", "value"), [("state", 1.5), ("state", float("nan")), ("step", 1.5), ("action", 0.5)])
def test_a_fraction_in_a_column_of_floats_is_no_whole_number(column, value):
    frame = table(*GOOD).cast(pl.Float64)
    frame = frame.with_columns(pl.Series(column, [frame[column][0], value, *frame[column][2:]]))
    assert bag(read(Dataset.from_frame(frame, SPEC))) == bag([None, OTHER])


def test_an_episode_called_nan_is_nobodys():
    frame = table(*GOOD).cast({"episode": pl.Float64})
    frame = frame.with_columns(episode=pl.when(pl.col("episode") == 1).then(float("nan")).otherwise(pl.col("episode")))
    assert read(Dataset.from_frame(frame, SPEC)) == [OTHER]


def test_a_check_may_be_limited():
    frame = table(*(row for name in range(50) for row in episode(name, (0, 9, 0, 0))))
    assert len(Dataset.from_frame(frame, SPEC).check(limit=7)) == 7


def test_text_in_a_csv_file_makes_one_episode_empty_and_no_error(tmp_path):
    path = tmp_path / "a.csv"
    text = table(*GOOD).write_csv().splitlines()
    text[2] = "1,1,ward 7,0,0.0,2"
    text[3] = "1,2,2"
    path.write_text("\n".join(text) + "\n")
    dataset = Dataset.open(path, SPEC)
    assert read(dataset) == [None, OTHER]
    assert [(p.row, p.column) for p in dataset.check()] == [(1, "state"), (2, "action"), (2, "reward")]
    text[2] = "1,1,1,0,0.0,2,more,and more"
    text[3] = ' 1 , 2 , 2,0,"0.0",3'.replace(" 1 ", "1")
    path.write_bytes("\n".join(text).encode() + b"\n3,0,\xff\xfe,0,0.0,1\n")
    assert bag(read(Dataset.open(path, SPEC))) == bag([((0, 1, 2, 3), (0, 0, 0), (0.0, 0.0, 0.0)), OTHER, None])


class _Nuisance:
    """Nothing can be made of it."""

    def __str__(self):
        raise RuntimeError("no text")

    __repr__ = __array__ = __eq__ = __ne__ = __str__
    __hash__ = object.__hash__


@pytest.mark.parametrize("sent", [None, "abc", [], [1, 2], [[0, 1], [1]], [None] * 4, [1j] * 4, _Nuisance(), {1: 2}])
def test_whatever_stands_for_an_episode_in_a_list_is_empty(sent):
    states, actions, rewards = (
        [(0, 1, 2, 3), sent, OTHER[0]],
        [(0, 0, 0), (0, 0, 0), OTHER[1]],
        [(0, 0, 0)] * 2 + [OTHER[2]],
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        dataset = Dataset.from_arrays(states, actions, rewards, SPEC)
        assert read(dataset)[1:] == [None, OTHER]
        assert [problem.episode for problem in dataset.check()] == [1] * len(dataset.check()) != []


def test_whatever_is_in_an_array_of_numbers_is_empty_at_most():
    states = np.array([[0, 1, 2, 3.0]] * 6)
    states[1:, 1] = np.nan, np.inf, -1, 1e300, 0.5
    dataset = Dataset.from_arrays(states, np.zeros((6, 3)), np.zeros((6, 3)), SPEC)
    assert [place is None for place in read(dataset)] == [False] + [True] * 5
    assert [(p.episode, p.column) for p in dataset.check()] == [(episode, "states") for episode in range(1, 6)]
    big = np.array([[0, 1, 2, 2**64 - 1]], dtype=np.uint64)
    assert read(Dataset.from_arrays(big, np.zeros((1, 3)), np.zeros((1, 3)), SPEC)) == [None]


def test_whatever_is_in_a_pandas_frame_is_empty_at_most():
    pandas = pytest.importorskip("pandas")
    columns = {
        name: pandas.Series(values, dtype=object) for name, values in table(*GOOD).to_dict(as_series=False).items()
    }
    for value in (_Nuisance(), "x", None, [1, 2], pandas.NA):
        columns["state"].iloc[1] = value
        assert bag(read(Dataset.from_frame(pandas.DataFrame(columns), SPEC))) == bag([None, OTHER])


# What is no single person's doing: an error that says what to do


def refused(frame, schema=SPEC):
    with pytest.raises(DatasetError) as error:
        Dataset.from_frame(frame, schema)
    return str(error.value)


def test_a_missing_column():
    assert "no column 'reward', where the schema finds the reward; it has 'episode'" in refused(
        table(*GOOD).drop("reward")
    )
    named = Schema(spec=SPEC, columns={"next_state": "after"})
    assert "no column 'after', where the schema finds the next state" in refused(table(*GOOD), named)
    users = Schema(spec=SPEC, max_episodes_per_user=2)
    assert "no column 'user'" in refused(table(*GOOD), users)


def test_columns_of_wrong_types():
    frame, text = table(*GOOD), pl.String
    assert "column 'state' holds String, and the schema wants whole numbers from 0 on" in refused(
        frame.cast({"state": text})
    )
    assert "column 'step' holds String" in refused(frame.cast({"step": text}))
    assert "column 'reward' holds String" in refused(frame.cast({"reward": text}))
    assert "column 'episode' holds List" in refused(
        frame.with_columns(pl.col("episode").reshape((-1, 1)).arr.to_list())
    )
    texts = Schema(spec=SPEC, encodings={"state": Categories(["a", "b", "c", "d"])})
    assert "column 'state' holds Int64, and the schema wants text" in refused(frame, texts)
    numbers = Schema(spec=SPEC, encodings={"state": Categories([1, 2, 3, 4])})
    assert "wants numbers, as its categories are" in refused(frame.cast({"state": text}), numbers)
    bins = Schema(spec=SPEC, encodings={"state": Bins([1, 2, 3])})
    assert "for its encoding is bins" in refused(frame.cast({"state": text}), bins)
    flags = Schema(spec=SPEC, encodings={"action": Categories([False, True])})
    assert "wants true and false" in refused(frame, flags)
    assert "got int" in refused(3)


@pytest.mark.parametrize("suffix", [".parquet", ".csv"])
def test_an_empty_file(suffix, tmp_path):
    path = tmp_path / f"empty{suffix}"
    write = getattr(table(), f"write_{suffix[1:]}")
    write(path)
    with pytest.raises(DatasetError, match="is empty: it holds no rows"):
        _ = Dataset.open(path, SPEC).episodes
    with pytest.raises(DatasetError, match="is empty: it holds no rows"):
        list(Dataset.open(path, SPEC).batches())
    path.write_bytes(b"")
    with pytest.raises(DatasetError, match="cannot be read" if suffix == ".parquet" else "it has no columns"):
        Dataset.open(path, SPEC)
    table((None, 0, 0, 0, 0.0, 0)).write_parquet(tmp_path / "nobody.parquet")
    with pytest.raises(DatasetError, match="it holds no rows with anything in 'episode'"):
        _ = Dataset.open(tmp_path / "nobody.parquet", SPEC).episodes


@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.9, 0.99])
@pytest.mark.parametrize("suffix", [".parquet", ".npz"])
def test_a_file_that_is_cut_off_in_the_middle(suffix, share, tmp_path):
    path = tmp_path / f"cut{suffix}"
    if suffix == ".parquet":
        table(*(row for name in range(300) for row in episode(name, (0, 1, 2, 3)))).write_parquet(path)
    else:
        np.savez(path, states=np.zeros((300, 4)), actions=np.zeros((300, 3)), rewards=np.zeros((300, 3)))
    path.write_bytes(path.read_bytes()[: int(share * path.stat().st_size)])
    with pytest.raises(DatasetError, match=r"cannot be read: it is (cut off|no \.npz file)"):
        list(Dataset.open(path, SPEC).batches())


def test_a_csv_file_that_is_cut_off_loses_its_last_episode_only(tmp_path):
    path = tmp_path / "cut.csv"
    table(*GOOD).write_csv(path)
    path.write_text(path.read_text()[:-12])
    dataset = Dataset.open(path, SPEC)
    assert read(dataset) == [((0, 1, 2, 3), (0, 0, 0), (0.0, 0.0, 0.0)), None]
    assert [p.episode for p in dataset.check()][-1] == "2"


def test_a_damaged_parquet_file_says_nothing_of_what_is_in_it(tmp_path):
    path = tmp_path / "a.parquet"
    table(*GOOD).write_parquet(path)
    whole = path.read_bytes()
    quoted = []
    for place in range(4, len(whole) - 8, 7):
        path.write_bytes(whole[:place] + bytes(byte ^ 0xFF for byte in whole[place : place + 16]) + whole[place + 16 :])
        try:
            list(Dataset.open(path, SPEC).batches())
        except DatasetError as error:
            quoted.append(error)
    assert quoted
    assert all(str(error).startswith(str(path)) for error in quoted)
    assert all(error.__suppress_context__ for error in quoted)  # what Polars says may quote the file


def test_files_that_are_none_or_of_no_known_kind(tmp_path):
    with pytest.raises(DatasetError, match="there is no file"):
        Dataset.open(tmp_path / "nothing.parquet", SPEC)
    with pytest.raises(DatasetError, match="there are no"):
        Dataset.open(tmp_path, SPEC)
    with pytest.raises(DatasetError, match="there are no"):
        Dataset.open([], SPEC)
    (tmp_path / "a.xlsx").write_bytes(b"x")
    with pytest.raises(DatasetError, match="all of one kind out of"):
        Dataset.open(tmp_path / "a.xlsx", SPEC)
    table(*GOOD).write_csv(tmp_path / "b.csv")
    table(*GOOD).write_parquet(tmp_path / "c.parquet")
    with pytest.raises(DatasetError, match="all of one kind"):
        Dataset.open(tmp_path, SPEC)
    (tmp_path / "b.csv").rename(tmp_path / "b.parquet")
    with pytest.raises(DatasetError, match="cannot be read: it is cut off, damaged, of another format"):
        Dataset.open(tmp_path / "b.parquet", SPEC)


def test_files_that_differ_in_their_columns(tmp_path):
    table(*GOOD[:3]).write_parquet(tmp_path / "a.parquet")
    table(*GOOD[3:]).cast({"state": pl.Float64}).write_parquet(tmp_path / "b.parquet")
    with pytest.raises(DatasetError, match="made of files that differ in columns"):
        list(Dataset.open(tmp_path, SPEC).batches())
    for name, rows in (("a", GOOD[:3]), ("b", GOOD[3:])):
        table(*rows).drop(["reward"] * (name == "b")).write_csv(tmp_path / f"{name}.csv")
    with pytest.raises(DatasetError, match="made of files that differ in columns"):
        list(Dataset.open(tmp_path.glob("*.csv"), SPEC).batches())


def test_npz_files_and_arrays_that_do_not_fit(tmp_path):
    path = tmp_path / "a.npz"
    np.savez(path, states=np.zeros((1, 4)), actions=np.zeros((1, 3)))
    with pytest.raises(DatasetError, match="has no array 'rewards'; it has states, actions"):
        Dataset.open(path, SPEC)
    np.savez(path, states=np.array([_Plain()], dtype=object), actions=np.zeros((1, 3)), rewards=np.zeros((1, 3)))
    with pytest.raises(DatasetError, match=r"no \.npz file of numbers"):
        Dataset.open(path, SPEC)
    path.write_bytes(pickle.dumps(1))
    with pytest.raises(DatasetError, match="cannot be read"):
        Dataset.open(path, SPEC)
    zeros = np.zeros
    for shapes, message in (
        (((2, 4), (2, 3), (1, 3)), "of as many episodes"),
        (((0, 4), (0, 3), (0, 3)), "are empty"),
        (((2, 4, 1), (2, 3), (2, 3)), "must have the axes episodes and steps"),
        (((2, 4), (2, 3), (2, 4)), "as many rewards as actions"),
        (((2, 3), (2, 2), (2, 2)), "an end_state in the schema"),
        (((2, 3), (2, 3), (2, 3)), "an end_state in the schema"),
    ):
        with pytest.raises(DatasetError, match=message):
            Dataset.from_arrays(*map(zeros, shapes), SPEC)
    good = tuple(map(zeros, ((2, 4), (2, 3), (2, 3))))
    with pytest.raises(DatasetError, match="must be numbers"):
        Dataset.from_arrays(good[0].astype(str), *good[1:], SPEC)
    with pytest.raises(DatasetError, match="do not tell users apart"):
        Dataset.from_arrays(*good, Schema(spec=SPEC, max_episodes_per_user=1))
    with pytest.raises(DatasetError, match="encodings are for columns of tables"):
        Dataset.from_arrays(*good, Schema(spec=SPEC, encodings={"action": Bins([1])}))
    with pytest.raises(DatasetError, match="arrays or lists of episodes"):
        Dataset.from_arrays(3, *good[1:], SPEC)


class _Plain:
    """Something that can be pickled."""


def test_a_schema_that_fits_nothing_leaves_every_episode_empty_or_says_why():
    """Where columns and types fit, no value may make an error: the check tells."""
    spec = EpisodeSpec(states=1, actions=1, horizon=1)
    places, problems = both_doors(GOOD, Schema(spec=spec, end_state=EndState()))
    assert places == [None, None]
    assert {problem.episode for problem in problems} == {1, 2}
    assert "has no column 'stay'" in refused(table(*GOOD), Schema(spec=SPEC, columns={"episode": "stay"}))


@pytest.mark.parametrize("cell", ['"SECRET_alice', 'a"b', '"x"y'])
def test_a_quotation_mark_in_a_csv_file_is_never_answered_by_quoting_people(tmp_path, cell):
    path = tmp_path / "people.csv"
    path.write_text("episode,step,state,action,reward\n" + f"{cell},0,1,0,0.5\n" + "bob,0,1,0,0.5\nbob,1,1,0,0.5\n")
    said = ""
    try:
        _ = Dataset.open(path, EpisodeSpec(states=2, actions=2, horizon=2)).episodes
    except DatasetError as error:
        said = str(error)
    assert "SECRET" not in said
    assert "bob" not in said
