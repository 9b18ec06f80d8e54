"""Saved privatizers: arrays and JSON in one `.npz`, no pickle; loading consumes the file.

A saved privatizer is as secret as the data. If the same state went on twice, the two would release the same noise under
different data, and the difference would be exact. So saving closes the object, loading takes the file away first and
reads it then, and a crash in between loses the budget rather than the guarantee. Copies made by hand cannot be noticed
here.
"""

from __future__ import annotations

import json
import os
import secrets
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["VaultError", "consume", "store"]

_FORMAT = 1


class VaultError(RuntimeError):
    """The file is not there, was loaded before, or is none of ours."""


def store(path: Path | str, arrays: dict[str, NDArray[Any]], meta: dict[str, Any]) -> None:
    """Write to a file that only its owner may read; an existing one is never overwritten."""
    target = Path(path)
    if target.exists():
        raise VaultError(f"{target} exists; a saved state is never overwritten")
    header = json.dumps({"format": _FORMAT, **meta})
    partial = target.with_name(f".{target.name}.{secrets.token_hex(8)}")
    try:
        descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            np.savez(file, __meta__=np.frombuffer(header.encode(), dtype=np.uint8), **arrays)  # type: ignore[arg-type]
            file.flush()
            os.fsync(file.fileno())
        os.link(partial, target)  # fails if somebody else has made it meanwhile
    finally:
        partial.unlink(missing_ok=True)


def consume(path: Path | str) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """Take the file away, then read it: of two that load at once, one gets it."""
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
    except (ValueError, KeyError, OSError, EOFError, zipfile.BadZipFile) as error:
        taken.rename(source)
        raise VaultError(f"{source} is no saved state of Tacit's: {type(error).__name__}") from None
    taken.unlink()
    if meta.pop("format") != _FORMAT:
        raise VaultError(f"{source} was saved by another version of Tacit")
    return arrays, meta
