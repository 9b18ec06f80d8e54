"""What comes out of a data set is what a literal reading of its rows says, whatever it was kept in."""

import tracemalloc

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from logged_tables import GOOD, ROW, SPEC, bag, episode, literal, read, schema_of, table

import tacit
from tacit.mdp import EpisodeSpec, Trajectories
from tacit.offline import Bins, Categories, Dataset, DatasetError, EndState, Schema, write_sample
from tacit.privatizers import CentralPrivatizer
from tacit.statistics import TabularStatistic

# Everything that may be in a table of numbers, with what is wrong in it about as often as what is right.
_rows = st.lists(
    st.tuples(
        st.sampled_from([1, 1, 2, 3, None]),
        st.sampled_from([0, 0, 1, 1, 2, 2, 3, 4, -1, None]),
        st.sampled_from([0, 1, 2, 3, 1, 2, 4, -1, None]),
        st.sampled_from([0, 1, 0, 1, 2, None]),
        st.sampled_from([0.0, 0.5, 1.0, 7.0, float("inf"), float("nan"), None]),
        st.sampled_from([0, 1, 2, 3, None, 9]),
    ),
    min_size=1,
    max_size=14,
).filter(lambda rows: any(row[0] is not None for row in rows))


@st.composite
def _nearly_good(draw):
    """Good episodes, some of other lengths, with at most a few rows gone or changed."""
    rows = []
    for name in range(1, draw(st.integers(1, 4)) + 1):
        length = draw(st.integers(1, 5))
        states = draw(st.lists(st.integers(0, 3), min_size=length + 1, max_size=length + 1))
        actions = draw(st.lists(st.integers(0, 1), min_size=length, max_size=length))
        mine = episode(name, states, actions, [0.5] * length)
        if draw(st.booleans()):
            mine[-1] = (*mine[-1][:5], None)
        rows += mine
    for _ in range(draw(st.integers(0, 2))):
        place = draw(st.integers(0, len(rows) - 1))
        column = draw(st.integers(1, 5))
        value = draw(st.sampled_from([0, 1, 2, 3, 9, -1, None]))
        rows[place] = (*rows[place][:column], value, *rows[place][column + 1 :])
    return rows


_schemas = st.builds(schema_of, end=st.booleans(), first_step=st.sampled_from([0, 0, 1]))


@settings(derandomize=True, max_examples=400, deadline=None)
@given(rows=st.one_of(_rows, _nearly_good()), schema=_schemas, next_given=st.booleans(), at_a_time=st.integers(1, 9))
def test_every_table_is_read_as_the_rules_say(rows, schema, next_given, at_a_time):
    frame = table(*rows) if next_given else table(*rows).drop("next_state")
    dataset = Dataset.from_frame(frame, schema, rows_at_a_time=at_a_time)
    expected = literal(rows, schema, next_given=next_given)
    assert dataset.episodes == len(expected)
    assert bag(read(dataset)) == bag(expected.values())


@settings(derandomize=True, max_examples=200, deadline=None)
@given(rows=st.one_of(_rows, _nearly_good()), schema=_schemas, data=st.data())
def test_the_check_names_every_episode_that_is_empty_and_no_other(rows, schema, data):
    rows = data.draw(st.permutations(rows))
    found = Dataset.from_frame(table(*rows), schema, rows_at_a_time=data.draw(st.integers(1, 20))).check()
    dropped = {problem.episode for problem in found if problem.kind == "dropped"}
    expected = literal(rows, schema)
    assert dropped - {None} == {name for name, told in expected.items() if told is None}
    assert (None in dropped) == any(row[0] is None for row in rows)
    for problem in found:
        assert rows[problem.row][0] == problem.episode
        assert problem.column in ROW


@settings(derandomize=True, max_examples=200, deadline=None)
@given(rows=_nearly_good(), schema=_schemas, data=st.data())
def test_order_and_the_size_of_parts_and_batches_do_not_matter(rows, schema, data):
    at_once = read(Dataset.from_frame(table(*rows), schema))
    shuffled = table(*data.draw(st.permutations(rows)))
    dataset = Dataset.from_frame(shuffled, schema, rows_at_a_time=data.draw(st.integers(1, 9)))
    assert bag(read(dataset, data.draw(st.integers(1, 3)))) == bag(at_once)


def _counts(dataset):
    statistic = TabularStatistic(spec=dataset.spec, pooled=False)
    privatizer = CentralPrivatizer(statistic, tacit.NonPrivate(), episodes=dataset.episodes, counter="once")
    for batch in dataset.batches(2):
        privatizer.observe(batch)
    release = privatizer.release()
    return release.transitions, release.rewards


@settings(derandomize=True, max_examples=100, deadline=None)
@given(mine=_rows, hers=_rows, rows=_nearly_good(), schema=_schemas, data=st.data())
def test_what_one_person_sends_changes_her_own_contribution_only(mine, hers, rows, schema, data):
    """All rows of episode 1 are replaced by anything, in any order: the others' places stay as they were."""

    def with_rows(sent):
        sent = [(1, *row[1:]) for row in sent]
        frame = table(*data.draw(st.permutations([*sent, *(row for row in rows if row[0] != 1)])))
        return Dataset.from_frame(frame, schema, rows_at_a_time=data.draw(st.integers(1, 9)))

    one, other = with_rows(mine), with_rows(hers)
    assert one.episodes == other.episodes
    first, second = bag(read(one)), bag(read(other))
    for place in list(first):
        if place in second:
            first.remove(place)
            second.remove(place)
    assert len(first) == len(second) <= 1
    reach = TabularStatistic(spec=SPEC, pooled=False).sensitivity().l1
    moved = sum(np.abs(a - b).sum() for a, b in zip(_counts(one), _counts(other), strict=True))
    assert moved <= reach


@settings(derandomize=True, max_examples=100, deadline=None)
@given(mine=_rows, hers=_rows, rows=_rows, m=st.integers(1, 3), data=st.data())
def test_with_users_a_person_changes_her_own_m_places_only(mine, hers, rows, m, data):
    """User "a" sends anything, under any names of episodes, others' too: the places of b and c stay."""
    schema = schema_of(end=True, max_episodes_per_user=m)
    others = [("bc"[place % 2], *row) for place, row in enumerate(rows)]

    def places(sent):
        whole = data.draw(st.permutations([*(("a", *row) for row in sent), *others]))
        frame = pl.DataFrame([row[0] for row in whole], schema=["user"]).hstack(table(*(row[1:] for row in whole)))
        dataset = Dataset.from_frame(frame, schema, rows_at_a_time=data.draw(st.integers(1, 9)))
        found = read(dataset)
        assert len(found) == dataset.episodes == m * dataset.units
        assert dataset.units == len({row[0] for row in whole})
        return bag(tuple(found[first : first + m]) for first in range(0, len(found), m))

    first, second = places(mine), places(hers)
    for hands in list(first):
        if hands in second:
            first.remove(hands)
            second.remove(hands)
    assert len(first) == len(second) <= 1


def test_of_a_user_the_first_episodes_by_number_are_read_and_missing_ones_are_empty():
    rows = [(10, (0, 0, 0, 0)), (9, (1, 1, 1, 1)), (2, (2, 2, 2, 2))]
    for kind in (pl.Int64, pl.String):
        frame = pl.concat([table(*episode(name, states)) for name, states in rows]).with_columns(
            pl.col("episode").cast(kind), user=pl.lit("ann")
        )
        frame = pl.concat([frame, frame.filter(pl.col("episode").cast(pl.Int64) == 9).with_columns(user=pl.lit("bob"))])
        dataset = Dataset.from_frame(frame, schema_of(max_episodes_per_user=2))
        assert (dataset.unit, dataset.per_user, dataset.units, dataset.episodes) == ("user", 2, 2, 4)
        states = [None if place is None else place[0][0] for place in read(dataset)]
        assert sorted([states[:2], states[2:]]) == [[1, None], [2, 1]]
        (problem,) = dataset.check()
        assert (problem.kind, str(problem.episode)) == ("dropped", "10")
        assert "user ann has more than 2 episodes" in str(problem)


def test_units_without_a_bound_on_users_are_episodes():
    dataset = Dataset.from_frame(table(*GOOD), SPEC)
    assert (dataset.unit, dataset.per_user, dataset.units, dataset.episodes) == ("episode", None, 2, 2)


# Containers

_EXPECTED = [((0, 1, 2, 3), (0, 0, 0), (0.0, 0.0, 0.0)), ((3, 2, 1, 0), (1, 1, 0), (0.5, 0.25, 1.0))]


class _Stream:
    """Anything that speaks Arrow's C stream."""

    def __init__(self, frame):
        self._frame = frame

    def __arrow_c_stream__(self, requested_schema=None):
        return self._frame.__arrow_c_stream__(requested_schema)


def _saved(frame, path):
    frame.write_parquet(path) if path.suffix == ".parquet" else frame.write_csv(path)
    return path


_STATES, _ACTIONS, _REWARDS = (np.array([place[column] for place in _EXPECTED]) for column in range(3))


def _npz(path):
    np.savez(path, states=_STATES, actions=_ACTIONS, rewards=_REWARDS)
    return path


_WAYS = {
    "polars": lambda folder: Dataset.from_frame(table(*GOOD), SPEC),
    "lazy": lambda folder: Dataset.from_frame(table(*GOOD).lazy(), SPEC),
    "arrow": lambda folder: Dataset.from_frame(_Stream(table(*GOOD)), SPEC),
    "floats": lambda folder: Dataset.from_frame(table(*GOOD).cast(pl.Float64), SPEC),
    "text": lambda folder: Dataset.from_frame(table(*GOOD).cast({"episode": pl.String}), SPEC),
    "enum": lambda folder: Dataset.from_frame(
        table(*GOOD).cast({"episode": pl.String}).cast({"episode": pl.Categorical}), SPEC
    ),
    "parquet": lambda folder: Dataset.open(_saved(table(*GOOD), folder / "a.parquet"), SPEC),
    "csv": lambda folder: Dataset.open(str(_saved(table(*GOOD), folder / "a.csv")), SPEC),
    "arrays": lambda folder: Dataset.from_arrays(_STATES, _ACTIONS, _REWARDS, SPEC),
    "lists": lambda folder: Dataset.from_arrays(_STATES.tolist(), _ACTIONS.tolist(), _REWARDS.tolist(), SPEC),
    "npz": lambda folder: Dataset.open(_npz(folder / "a.npz"), SPEC),
}


@pytest.mark.parametrize("way", _WAYS)
def test_the_same_episodes_come_out_of_every_container(way, tmp_path):
    dataset = _WAYS[way](tmp_path)
    assert dataset.episodes == 2
    assert bag(read(dataset)) == bag(_EXPECTED)
    (batch,) = dataset.batches()
    assert [column.dtype for column in batch] == [np.int32, np.int32, np.float64]
    assert [column.shape for column in batch] == [(1, 2, 4), (1, 2, 3), (1, 2, 3)]
    assert dataset.check() == []


def test_pandas_frames_are_read_whatever_their_columns_hold():
    pandas = pytest.importorskip("pandas")
    columns = table(*GOOD).to_dict(as_series=False)
    assert bag(read(Dataset.from_frame(pandas.DataFrame(columns), SPEC))) == bag(_EXPECTED)
    mixed = {**columns, "state": [*columns["state"][:-1], "elsewhere"], "episode": [str(e) for e in columns["episode"]]}
    dataset = Dataset.from_frame(
        pandas.DataFrame({name: pandas.Series(v, dtype=object) for name, v in mixed.items()}), SPEC
    )
    assert bag(read(dataset)) == bag([_EXPECTED[0], None])
    gaps = {
        **columns,
        "next_state": [
            None if step == 2 else s for s, step in zip(columns["next_state"], columns["step"], strict=True)
        ],
    }
    dataset = Dataset.from_frame(pandas.DataFrame(gaps), schema_of(end=True))
    assert [place[0][-1] for place in read(dataset)] == [3, 3]


@pytest.mark.parametrize("suffix", [".parquet", ".csv"])
def test_several_files_and_folders_are_one_table_even_if_an_episode_is_in_two(suffix, tmp_path):
    frame = table(*GOOD)
    for name, rows in (("a", frame[[0, 5]]), ("b", frame[[3, 1, 4]]), ("c", frame[[2]])):
        _saved(rows, tmp_path / f"{name}{suffix}")
    (tmp_path / "notes.txt").write_text("not data")
    files = sorted(tmp_path.glob(f"*{suffix}"))
    for path in (tmp_path, files, files[::-1]):
        dataset = Dataset.open(path, SPEC)
        assert dataset.episodes == 2
        assert bag(read(dataset)) == bag(_EXPECTED)


def test_rollouts_are_read_as_they_are_and_longer_ones_are_cut():
    world = tacit.mdp.riverswim(states=4, horizon=7)
    policy = np.full((1, 7, 4, 2), 0.5)
    rolled = world.rollout(policy, episodes=30, streams=tacit.mdp.Streams(0, runs=2))
    (batch,) = Dataset.from_trajectories(rolled, world.spec).batches()
    for mine, theirs in zip(batch, rolled, strict=True):
        np.testing.assert_array_equal(mine[0], theirs.reshape(60, -1))
    shorter = EpisodeSpec(states=4, actions=2, horizon=3)
    (batch,) = Dataset.from_trajectories(rolled, shorter).batches()
    np.testing.assert_array_equal(batch.states[0], rolled.states.reshape(60, -1)[:, :4])
    assert {problem.kind for problem in Dataset.from_trajectories(rolled, shorter).check()} == {"cut"}


def test_shorter_arrays_and_lists_are_completed_by_the_end_state():
    schema = schema_of(end=True)
    states, actions, rewards = [[0, 1, 2], [2]], [[1, 0], [1]], [[0.5, 1], [1.0]]
    expected = [((0, 1, 3, 3), (1, 0, 1), (0.5, 1.0, 0.0)), ((2, 3, 3, 3), (1, 1, 1), (1.0, 0.0, 0.0))]
    assert read(Dataset.from_arrays(states, actions, rewards, schema)) == expected
    assert (
        read(Dataset.from_arrays(*(np.array([each[0]]) for each in (states, actions, rewards)), schema)) == expected[:1]
    )
    assert [problem.kind for problem in Dataset.from_arrays(states, actions, rewards, schema).check()] == [
        "completed"
    ] * 2


class _Minari:
    """A Minari data set as far as it is used."""

    class Space:
        def __init__(self, n, start=0):
            self.n, self.start = n, start

    class Episode:
        def __init__(self, observations, actions, rewards):
            self.observations, self.actions, self.rewards = map(np.array, (observations, actions, rewards))

    def __init__(self, states=3):
        self.observation_space, self.action_space = self.Space(states), self.Space(2, start=5)

    def iterate_episodes(self):
        yield self.Episode([0, 1, 2, 0], [5, 6, 5], [0.0, 0.5, 1.0])
        yield self.Episode([1, 2], [6], [1.0])


def test_minari_episodes_are_read_with_their_spaces():
    dataset = Dataset.from_minari(_Minari(), schema_of(end=True))
    assert read(dataset) == [((0, 1, 2, 0), (0, 1, 0), (0.0, 0.5, 1.0)), ((1, 3, 3, 3), (1, 1, 1), (1.0, 0.0, 0.0))]
    with pytest.raises(DatasetError, match="has 9 observations, and the schema declares 4"):
        Dataset.from_minari(_Minari(9), schema_of(end=True))
    boxes = _Minari()
    boxes.action_space = "Box(1,)"
    with pytest.raises(DatasetError, match="are no Discrete space, but"):
        Dataset.from_minari(boxes, schema_of(end=True))


# Encodings

_CODED = Schema(
    spec=EpisodeSpec(states=6, actions=2, horizon=2),
    columns={"state": ["age", "ward"], "action": "drug", "next_state": None},
    encodings={"age": Bins([40, 65.5]), "ward": Categories(["general", "icu"]), "drug": Categories([False, True])},
    end_state=EndState(state=0),
)


def _patients(**changed):
    columns = {
        "episode": ["x", "x", "y", "y", "z", "z"],
        "step": [0, 1, 0, 1, 0, 1],
        "age": [39.9, 40.0, 65.5, float("inf"), -float("inf"), float("nan")],
        "ward": ["general", "icu", "icu", "general", "icu", "icu"],
        "drug": [True, False, False, True, True, True],
        "reward": [0.0, 1.0, 0.0, 1.0, 0.0, 1.0],
    }
    return pl.DataFrame({**columns, **changed}, strict=False)


@pytest.mark.parametrize("suffix", [".parquet", ".csv"])
def test_columns_are_encoded_as_declared(suffix, tmp_path):
    dataset = Dataset.open(_saved(_patients(), tmp_path / f"p{suffix}"), _CODED)
    assert read(dataset) == [((0, 3, 0), (1, 0), (0.0, 1.0)), ((5, 4, 0), (0, 1), (0.0, 1.0)), None]
    (problem,) = (problem for problem in dataset.check() if problem.kind == "dropped")
    assert (problem.row, problem.episode, problem.column) == (5, "z", "age, ward")


def test_next_states_take_the_encodings_of_states():
    schema = Schema(
        spec=EpisodeSpec(states=2, actions=2, horizon=2),
        columns={"state": "ward", "next_state": "to", "action": "drug"},
        encodings={"ward": Categories(["general", "icu"]), "drug": Categories([False, True])},
    )
    to = ["icu", "general", "general", "icu", "icu", "elsewhere"]
    assert read(Dataset.from_frame(_patients(to=to), schema)) == [
        ((0, 1, 0), (1, 0), (0.0, 1.0)),
        ((1, 0, 1), (0, 1), (0.0, 1.0)),
        None,
    ]


def test_categories_of_numbers_are_found_by_value():
    schema = Schema(
        spec=EpisodeSpec(states=2, actions=2, horizon=2),
        columns={"action": "drug", "next_state": None},
        encodings={"state": Categories([10, 2.5]), "drug": Categories([False, True])},
        end_state=EndState(state=1),
    )
    assert read(Dataset.from_frame(_patients(state=[10, 2.5, 2.5, 2.5, 10, 3]), schema)) == [
        ((0, 1, 1), (1, 0), (0.0, 1.0)),
        ((1, 1, 1), (0, 1), (0.0, 1.0)),
        None,
    ]


# Samples


@pytest.mark.parametrize("suffix", [".parquet", ".csv"])
def test_sample_data_are_the_rollouts_of_their_world(suffix, tmp_path):
    world = tacit.mdp.riverswim(states=4, horizon=5)
    behaviour = np.tile([0.3, 0.7], (5, 4, 1))
    sample = write_sample(world, episodes=40, seed=3, path=tmp_path / f"river{suffix}", behaviour=behaviour)
    schema = Schema.load(sample.schema)
    assert schema.spec == world.spec
    (batch,) = Dataset.open(sample.data, schema).batches()
    rolled = world.rollout(behaviour[None], episodes=40, streams=tacit.mdp.Streams(3, runs=1))
    for mine, theirs in zip(batch, rolled, strict=True):
        np.testing.assert_array_equal(mine, theirs)


def test_sample_data_of_no_known_kind_are_not_written(tmp_path):
    world = tacit.mdp.riverswim(states=4, horizon=5)
    with pytest.raises(ValueError, match="are written as"):
        write_sample(world, episodes=4, path=tmp_path / "river.xlsx")
    with pytest.raises(ValueError, match="at least one episode"):
        write_sample(world, episodes=0, path=tmp_path / "river.csv")


# Size


def test_a_stream_of_parts_is_the_same_as_all_at_once_and_needs_the_memory_of_a_part(tmp_path):
    rng, n, H = np.random.default_rng(0), 20_000, 20
    spec = EpisodeSpec(states=50, actions=4, horizon=H)
    rolled = Trajectories(
        rng.integers(0, 50, (1, n, H + 1), dtype=np.int32),
        rng.integers(0, 4, (1, n, H), dtype=np.int32),
        rng.random((1, n, H)),
    )
    frame = pl.DataFrame(
        {
            "episode": np.repeat(np.arange(n), H),
            "step": np.tile(np.arange(H), n),
            "state": rolled.states[0, :, :-1].ravel(),
            "action": rolled.actions[0].ravel(),
            "reward": rolled.rewards[0].ravel(),
            "next_state": rolled.states[0, :, 1:].ravel(),
        }
    )
    path = tmp_path / "big.parquet"
    frame.write_parquet(path, row_group_size=10_000)
    streamed = Dataset.open(path, spec, rows_at_a_time=7_777)
    for batches in (streamed.batches(), streamed.batches(1_000)):
        whole = [np.concatenate(columns, axis=1) for columns in zip(*batches, strict=True)]
        for mine, theirs in zip(whole, rolled, strict=True):
            np.testing.assert_array_equal(mine, theirs)
    frame.sample(fraction=1.0, shuffle=True, seed=1).write_parquet(path, row_group_size=10_000)
    scattered = Dataset.open(path, spec, rows_at_a_time=100_000)
    whole = [np.concatenate(columns, axis=1)[0] for columns in zip(*scattered.batches(), strict=True)]
    keys = np.lexsort(whole[2].T)
    for mine, theirs in zip(whole, rolled, strict=True):
        np.testing.assert_array_equal(mine[keys], theirs[0][np.lexsort(rolled.rewards[0].T)])
    tracemalloc.start()  # NumPy's arrays, so all batches but not Polars's own buffers
    for _ in Dataset.open(path, spec, rows_at_a_time=40_000).batches():
        pass
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < sum(column.nbytes for column in rolled) / 2
