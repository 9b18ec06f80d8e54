"""Saved states: one future only, no pickle, only for their owner."""

import concurrent.futures
import stat

import numpy as np
import pytest

from tacit.privatizers import VaultError
from tacit.privatizers.vault import consume, store

ARRAYS = {"a/b": np.arange(6).reshape(2, 3), "c": np.zeros(0)}
META = {"kind": "test", "users": 3, "nested": {"x": [1.5, None]}}


def test_what_is_stored_comes_back_once(tmp_path):
    path = tmp_path / "state.npz"
    store(path, ARRAYS, META)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    arrays, meta = consume(path)
    assert meta == META
    assert arrays.keys() == ARRAYS.keys()
    for name, array in arrays.items():
        np.testing.assert_array_equal(array, ARRAYS[name])
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(VaultError, match="has been loaded already"):
        consume(path)


def test_nothing_is_overwritten(tmp_path):
    path = tmp_path / "state.npz"
    store(path, ARRAYS, META)
    with pytest.raises(VaultError, match="never overwritten"):
        store(path, ARRAYS, META)
    assert [entry.name for entry in tmp_path.iterdir()] == ["state.npz"]


def test_of_many_who_load_at_once_one_gets_it(tmp_path):
    path = tmp_path / "state.npz"
    store(path, ARRAYS, META)

    def attempt(_):
        try:
            return consume(path)[1] == META
        except VaultError:
            return False

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        assert sum(pool.map(attempt, range(16))) == 1


@pytest.mark.parametrize("content", [b"", b"no archive", b"PK\x03\x04cut off"])
def test_a_file_that_is_none_of_ours_is_left_where_it_is(tmp_path, content):
    path = tmp_path / "other"
    path.write_bytes(content)
    with pytest.raises(VaultError, match="no saved state"):
        consume(path)
    assert path.read_bytes() == content


def test_an_archive_with_pickles_is_refused(tmp_path):
    path = tmp_path / "evil.npz"
    np.savez(path, __meta__=np.array([object()], dtype=object))
    with pytest.raises(VaultError, match="no saved state"):
        consume(path)


def test_another_format_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "state.npz"
    monkeypatch.setattr("tacit.privatizers.vault._FORMAT", 99)
    store(path, ARRAYS, META)
    monkeypatch.undo()
    with pytest.raises(VaultError, match="another version"):
        consume(path)


def test_a_file_of_another_kind_or_version_is_left_where_it_is(tmp_path, monkeypatch):
    path = tmp_path / "state.npz"
    store(path, ARRAYS, META)
    with pytest.raises(VaultError, match="holds a test privatizer, and a central one"):
        consume(path, kind="central")
    monkeypatch.setattr("tacit.privatizers.vault._FORMAT", 99)
    with pytest.raises(VaultError, match="another version"):
        consume(path)
    monkeypatch.undo()
    assert consume(path, kind="test")[1] == META
    assert list(tmp_path.iterdir()) == []


def test_what_could_not_be_written_leaves_nothing_behind(tmp_path, monkeypatch):
    def full(*_, **__):
        raise OSError("no space left")

    monkeypatch.setattr(np, "savez", full)
    with pytest.raises(OSError, match="no space"):
        store(tmp_path / "state.npz", ARRAYS, META)
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_came_meanwhile_is_not_overwritten_when_nonsense_is_put_back(tmp_path, monkeypatch):
    path = tmp_path / "state.npz"
    path.write_bytes(b"nonsense")

    def meanwhile(*_, **__):
        path.write_bytes(b"another's")
        raise ValueError("nonsense")

    monkeypatch.setattr(np, "load", meanwhile)
    with pytest.raises(VaultError, match="no saved state"):
        consume(path)
    assert path.read_bytes() == b"another's"
