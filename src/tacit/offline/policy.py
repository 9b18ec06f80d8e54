"""What training leaves behind: a table of probabilities, made of releases, so that it may be shown to anybody."""

from __future__ import annotations

import json
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tacit.mdp.planning import as_policy
from tacit.mdp.spec import EpisodeSpec

if TYPE_CHECKING:
    import polars

__all__ = ["OfflinePolicy"]

_FORMAT = "tacit policy 1"


@dataclass(frozen=True, eq=False)
class OfflinePolicy:
    """A policy for H steps: in every step and state, the probability of each action.

    Parameters
    ----------
    spec
        The public shape of an episode.
    probabilities
        (H, S, A), or (H, S) with an action each.

    Examples
    --------
    >>> policy = OfflinePolicy(EpisodeSpec(states=2, actions=3, horizon=4), np.full((4, 2), 1))
    >>> policy.act(step=0, state=1)
    1
    """

    spec: EpisodeSpec
    probabilities: NDArray[np.float64]

    def __init__(self, spec: EpisodeSpec, probabilities: ArrayLike) -> None:
        table = as_policy(
            np.asarray(probabilities)[None], states=spec.states, actions=spec.actions, horizon=spec.horizon
        )[0]
        if table.ndim == 2:
            table = (table[..., None] == np.arange(spec.actions)).astype(np.float64)
        own = np.array(table, dtype=np.float64)
        own.flags.writeable = False
        object.__setattr__(self, "spec", spec)
        object.__setattr__(self, "probabilities", own)

    def act(self, *, step: int, state: int, uniform: float | None = None) -> int:
        """What to do in a state at a step (the first is 0): by the operating system's entropy, or by a U[0, 1)."""
        if not (0 <= step < self.spec.horizon and 0 <= state < self.spec.states):
            raise ValueError(
                f"steps are 0..{self.spec.horizon - 1} and states 0..{self.spec.states - 1}; got {step} and {state}"
            )
        chance = secrets.randbits(53) * 2.0**-53 if uniform is None else float(uniform)
        reached = np.cumsum(self.probabilities[step, state])
        possible = np.flatnonzero(self.probabilities[step, state])
        return int(min(np.searchsorted(reached, chance, side="right"), possible[-1]))

    def sample(self, steps: ArrayLike, states: ArrayLike, rng: np.random.Generator) -> NDArray[np.int64]:
        """Actions for many (step, state) at once."""
        rows = self.probabilities[np.asarray(steps), np.asarray(states)]
        passed = rng.random((*rows.shape[:-1], 1)) >= np.cumsum(rows, axis=-1)
        last = self.spec.actions - 1 - np.argmax(rows[..., ::-1] > 0, axis=-1)
        return np.asarray(np.minimum(passed.sum(axis=-1), last), dtype=np.int64)

    @property
    def table(self) -> polars.DataFrame:
        """One row for each step, state and action that may be taken."""
        import polars

        step, state, action = np.nonzero(self.probabilities)
        columns = {"step": step, "state": state, "action": action}
        return polars.DataFrame({**columns, "probability": self.probabilities[step, state, action]})

    def save(self, path: Path | str, **notes: Any) -> Path:
        """To an `.npz` file, or as a table to `.parquet` or `.csv`; `notes` (JSON) go along with the former."""
        target = Path(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        partial = target.with_name(f"{target.name}.partial")
        match target.suffix:
            case ".npz":
                about = {"format": _FORMAT, "spec": self.spec.to_json(), "notes": notes}
                with partial.open("wb") as file:
                    np.savez_compressed(file, probabilities=self.probabilities, about=np.array(json.dumps(about)))
            case ".parquet":
                self.table.write_parquet(partial)
            case ".csv":
                self.table.write_csv(partial)
            case _:
                raise ValueError(f"a policy is saved as .npz, .parquet or .csv; got {target.name}")
        partial.replace(target)
        return target

    @classmethod
    def load(cls, path: Path | str) -> Self:
        """What `save` wrote to an `.npz` file."""
        return cls.load_with_notes(path)[0]

    @classmethod
    def load_with_notes(cls, path: Path | str) -> tuple[Self, dict[str, Any]]:
        """The policy, and the notes that it was saved with."""
        try:
            with np.load(path, allow_pickle=False) as file:
                about = json.loads(str(file["about"]))
                table = file["probabilities"]
            if about["format"] != _FORMAT:
                raise ValueError(f"format {about['format']!r}")
            return cls(EpisodeSpec.from_json(about["spec"]), table), dict(about["notes"])
        except OSError:
            raise
        except Exception as error:  # a zip, NumPy or JSON error, or a table that is no policy
            raise ValueError(f"{path} holds no policy of Tacit's: {type(error).__name__} {error}") from None
