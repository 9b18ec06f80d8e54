"""Policies as files and as advice."""

import json
import zipfile

import numpy as np
import polars
import pytest

from tacit.mdp.spec import EpisodeSpec
from tacit.offline.policy import OfflinePolicy

SPEC = EpisodeSpec(states=3, actions=2, horizon=4, rewards=(-1.0, 2.0), start=0)


def mixed(seed=0):
    table = np.random.default_rng(seed).dirichlet(np.ones(2), (4, 3))
    table[1, 2] = [0.0, 1.0]
    return OfflinePolicy(SPEC, table)


def test_actions_come_as_often_as_they_should_and_impossible_ones_never():
    policy = mixed()
    uniforms = (np.arange(10_000) + 0.5) / 10_000
    share = np.mean([policy.act(step=0, state=1, uniform=u) for u in uniforms])
    assert share == pytest.approx(policy.probabilities[0, 1, 1], abs=2e-4)
    assert {policy.act(step=1, state=2, uniform=u) for u in (0.0, 0.5, 1.0 - 2.0**-53)} == {1}
    assert policy.act(step=3, state=0) in (0, 1)  # by the system's entropy


def test_sampling_many_at_once_follows_the_same_law():
    policy, rng = mixed(), np.random.default_rng(1)
    steps, states = rng.integers(4, size=60_000), rng.integers(3, size=60_000)
    drawn = policy.sample(steps, states, rng)
    for step in range(4):
        for state in range(3):
            here = (steps == step) & (states == state)
            expected = policy.probabilities[step, state, 1]
            assert drawn[here].mean() == pytest.approx(expected, abs=6 * np.sqrt(0.25 / here.sum()))
    assert (drawn[(steps == 1) & (states == 2)] == 1).all()


def test_a_policy_of_actions_is_one_of_probabilities():
    policy = OfflinePolicy(SPEC, [[0, 1, 0]] * 4)
    assert policy.probabilities.shape == (4, 3, 2)
    assert policy.act(step=2, state=1) == 1
    with pytest.raises(ValueError, match="read-only"):
        policy.probabilities[0] = 0.0


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (np.full((4, 3, 2), 0.6), "sum to 1"),
        (np.full((3, 3), 0), "deterministic policy is"),
        (np.full((4, 3), 2), "actions are 0..1"),
        (np.full((4, 3, 2), np.nan), "sum to 1"),
    ],
)
def test_what_is_no_policy_is_refused(table, message):
    with pytest.raises(ValueError, match=message):
        OfflinePolicy(SPEC, table)


def test_steps_and_states_that_there_are_not_are_refused():
    for step, state in ((4, 0), (-1, 0), (0, 3), (0, -1)):
        with pytest.raises(ValueError, match=r"steps are 0\.\.3 and states 0\.\.2"):
            mixed().act(step=step, state=state)


def test_saved_and_loaded_it_is_the_same_with_its_notes(tmp_path):
    policy = mixed()
    path = policy.save(tmp_path / "deep" / "policy.npz", statement="Guaranteed", numbers=[1, 2])
    again, notes = OfflinePolicy.load_with_notes(path)
    np.testing.assert_array_equal(again.probabilities, policy.probabilities)
    assert again.spec == SPEC
    assert notes == {"statement": "Guaranteed", "numbers": [1, 2]}
    assert [file.name for file in path.parent.iterdir()] == ["policy.npz"]
    assert OfflinePolicy.load(path).spec == SPEC


@pytest.mark.parametrize("suffix", [".csv", ".parquet"])
def test_exported_as_a_table_it_has_a_row_for_each_possible_action(tmp_path, suffix):
    policy = mixed()
    path = policy.save(tmp_path / f"policy{suffix}")
    table = polars.read_csv(path) if suffix == ".csv" else polars.read_parquet(path)
    assert len(table) == 4 * 3 * 2 - 1
    back = np.zeros((4, 3, 2))
    back[table["step"], table["state"], table["action"]] = table["probability"]
    np.testing.assert_allclose(back, policy.probabilities, rtol=1e-15)


def test_a_file_of_something_else_is_a_clear_error(tmp_path):
    path = tmp_path / "policy.npz"
    for content in (b"", b"hello", json.dumps({"format": "tacit policy 1"}).encode()):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=r"policy\.npz holds no policy of Tacit's"):
            OfflinePolicy.load(path)
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("a.npy", "nothing")
    with pytest.raises(ValueError, match="holds no policy"):
        OfflinePolicy.load(path)
    with pytest.raises(FileNotFoundError):
        OfflinePolicy.load(tmp_path / "nowhere.npz")
    with pytest.raises(ValueError, match=r"saved as \.npz, \.parquet or \.csv; got policy\.txt"):
        mixed().save(tmp_path / "policy.txt")
