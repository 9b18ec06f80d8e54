"""Saved privatizers: arrays and JSON in one `.npz`, no pickle; loading consumes the file.

A saved privatizer is as secret as the data. If the same state went on twice, the two would release the same noise under
different data, and the difference would be exact. So saving closes the object, loading takes the file away first and
reads it then, and a crash in between loses the budget rather than the guarantee. Copies made by hand cannot be noticed
here.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["VaultError", "consume", "store"]

_FORMAT = 1


class VaultError(RuntimeError):
    """The file is not there, was loaded before, or is none of ours."""


def store(path: Path | str, arrays: dict[str, NDArray[Any]], meta: dict[str, Any]) -> None:
    """Write to a file that only its owner may read; an existing one is never overwritten.

    At no moment are there two names of the state, and after an exception there is none.
    """
    target = Path(path)
    header = json.dumps({"format": _FORMAT, **meta})
    try:
        os.close(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))  # the name is ours now
    except FileExistsError:
        raise VaultError(f"{target} exists; a saved state is never overwritten") from None
    partial = target.with_name(f".{target.name}.{secrets.token_hex(8)}")
    try:
        descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            np.savez(file, __meta__=np.frombuffer(header.encode(), dtype=np.uint8), **arrays)  # type: ignore[arg-type]
            file.flush()
            os.fsync(file.fileno())
        partial.replace(target)
    except BaseException:
        partial.unlink(missing_ok=True)
        target.unlink(missing_ok=True)
        raise
    _settle(target.parent)


def consume(path: Path | str, *, kind: str | None = None) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """Take the file away, then read it: of two that load at once, one gets it.

    A file that is none of ours, or of another kind or version, is put back.
    """
    source = Path(path)
    taken = source.with_name(f".{source.name}.{secrets.token_hex(8)}")
    try:
        source.rename(taken)
    except FileNotFoundError:
        raise VaultError(f"{source} is not there: it was never saved, or has been loaded already") from None
    try:
        with taken.open("rb") as opened, np.load(opened, allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        meta = json.loads(bytes(arrays.pop("__meta__")))
        version, found = meta.pop("format"), meta.get("kind")
    except Exception as error:
        _put_back(taken, source)
        raise VaultError(f"{source} is no saved state of Tacit's: {type(error).__name__}") from None
    if version != _FORMAT:
        _put_back(taken, source)
        raise VaultError(f"{source} was saved by another version of Tacit")
    if kind is not None and found != kind:
        _put_back(taken, source)
        raise VaultError(f"{source} holds a {found} privatizer, and a {kind} one was to be loaded")
    taken.unlink()
    _settle(source.parent)
    return arrays, meta


def _put_back(taken: Path, source: Path) -> None:
    """Under its old name, unless there is another file of that name by now."""
    try:
        os.link(taken, source)
        taken.unlink()
    except FileExistsError:
        return
    except OSError:  # a file system without links
        if not source.exists():
            taken.rename(source)


def _settle(folder: Path) -> None:
    """Make names durable: a file that was taken away must not come back after a power cut."""
    with contextlib.suppress(OSError):  # not every system can
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
