"""What a simulation found: exact values of every policy that was followed, and regret read off them."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = ["Result"]

_FORMAT = 1


@dataclass(frozen=True, kw_only=True, eq=False)
class Result:
    """Values of policies, and all that is needed to run the simulation again.

    Parameters
    ----------
    changes
        The episodes, counted from 0, before which a policy changed in any run, ascending; the first is 0.
    values
        (R, C): the expected return of each run's policy from the episode `changes[c]` on. Exact where the world is
        known; else the mean return of the episodes played under it.
    episodes
        How many were played: fewer than the agent's, if interrupted.
    optimal
        The optimal expected return, if known.
    settings
        Agent, world, runs, seed, versions: plain values.
    statement
        What is guaranteed, in words, with the simulation's own noise.
    """

    def __repr__(self) -> str:
        told = {"agent": "?", **self.settings.get("agent", {})}, {"name": "?", **self.settings.get("world", {})}
        what = f"Result: {told[0]['agent']} in {told[1]['name']}, {self.runs} runs of {self.episodes:,} episodes"
        if self.optimal is None:
            return f"<{what}>"
        regret = self.final_regret
        spread = f" ± {regret.std(ddof=1):,.4g}" if self.runs > 1 else ""
        return f"<{what}, regret {regret.mean():,.4g}{spread}>"

    changes: NDArray[np.int64] = field(repr=False)
    values: NDArray[np.float64] = field(repr=False)
    episodes: int
    optimal: float | None
    settings: Mapping[str, Any] = field(repr=False)
    statement: str = field(repr=False)

    @property
    def runs(self) -> int:
        """R."""
        return int(self.values.shape[0])

    @property
    def interrupted(self) -> bool:
        """Whether it was stopped before all episodes were played."""
        return self.episodes < int(self.settings["agent"]["episodes"])

    @cached_property
    def regret(self) -> NDArray[np.float64]:
        """Cumulative regret (R, K) after each episode. For long runs, `regret_at` needs less memory."""
        return self.regret_at(np.arange(1, self.episodes + 1))

    def regret_at(self, episodes: ArrayLike) -> NDArray[np.float64]:
        """Cumulative regret (R, n) after so many episodes."""
        times = np.atleast_1d(np.asarray(episodes))
        if times.dtype.kind not in "iu" or (times.size and not (times.min() >= 0 and times.max() <= self.episodes)):
            raise ValueError(f"regret is known after 0 to {self.episodes:,} episodes")
        gaps = self.gaps
        lengths = np.diff(self.changes, append=self.episodes)
        before = np.concatenate([np.zeros((self.runs, 1)), np.cumsum(gaps * lengths, axis=1)], axis=1)
        at = np.searchsorted(self.changes, times, side="right") - 1
        found: NDArray[np.float64] = before[:, at] + gaps[:, at] * (times - self.changes[at])
        return found

    @property
    def gaps(self) -> NDArray[np.float64]:
        """(R, C): by how much each policy falls short of the optimum, per episode."""
        if self.optimal is None:
            raise ValueError("the optimal value of this world is not known: see `values` for the returns")
        return self.optimal - self.values

    @property
    def final_regret(self) -> NDArray[np.float64]:
        """(R,), after the last episode."""
        return self.regret_at([self.episodes])[:, 0]

    def quantiles(self, q: Sequence[float], episodes: ArrayLike | None = None) -> NDArray[np.float64]:
        """(len(q), n): quantiles over runs of the cumulative regret after so many episodes; after all by default."""
        times = [self.episodes] if episodes is None else episodes
        found: NDArray[np.float64] = np.quantile(self.regret_at(times), q, axis=0)
        return found

    def summary(self) -> dict[str, Any]:
        """The numbers that a table shows."""
        found: dict[str, Any] = {"episodes": self.episodes, "runs": self.runs}
        length = np.diff(self.changes, append=self.episodes)
        found["mean value"] = float((self.values * length).sum(axis=1).mean() / max(self.episodes, 1))
        found["last value"] = float(self.values[:, -1].mean())
        if self.optimal is not None:
            final = self.final_regret
            low, median, high = self.quantiles([0.1, 0.5, 0.9])[:, 0]
            found |= {
                "optimal value": self.optimal,
                "regret": float(final.mean()),
                "std": float(final.std(ddof=1)) if self.runs > 1 else 0.0,
                "10 %": float(low),
                "median": float(median),
                "90 %": float(high),
                "share of worst": float(final.mean() / (self.optimal * self.episodes)) if self.optimal > 0 else None,
            }
        return found

    def plot(self, *, ax: Axes | None = None, label: str | None = None, **line: Any) -> Axes:
        """Mean cumulative regret, and one standard deviation over runs to either side."""
        from tacit.simulation.plots import plot_regret

        return plot_regret(self, ax=ax, label=label, **line)

    # Files

    def to_parquet(self, path: Path | str) -> Path:
        """Write a table (run, episode, value), one row per change of policy, and all else as JSON beside it.

        Returns the path of the table. Both files are there, or neither is whole: the JSON comes last.
        """
        import polars

        target = _table_path(path)
        target.parent.mkdir(parents=True, exist_ok=True)
        target.with_suffix(".json").unlink(missing_ok=True)
        table = polars.DataFrame(
            {
                "run": np.repeat(np.arange(self.runs, dtype=np.int32), len(self.changes)),
                "episode": np.tile(self.changes, self.runs),
                "value": self.values.ravel(),
            }
        )
        partial = target.with_suffix(".parquet.partial")
        table.write_parquet(partial)
        partial.replace(target)
        told = {
            "format": _FORMAT,
            "episodes": self.episodes,
            "optimal": self.optimal,
            "settings": dict(self.settings),
            "statement": self.statement,
            "summary": self.summary(),
        }
        partial = target.with_suffix(".json.partial")
        text = json.dumps(_each(told, _told), indent=1, ensure_ascii=False, allow_nan=False)
        partial.write_text(text + "\n", encoding="utf-8")
        partial.replace(target.with_suffix(".json"))
        return target

    @classmethod
    def load(cls, path: Path | str) -> Self:
        """What `to_parquet` wrote. A file that is not there is an `OSError`, and anything else a `ValueError`."""
        target = _table_path(path)
        try:
            told = _each(json.loads(target.with_suffix(".json").read_text(encoding="utf-8")), _heard)
            known = told["format"] == _FORMAT
            found = cls._read(target, told) if known else None
        except OSError:
            raise
        except Exception as error:  # polars has a dozen of them
            raise ValueError(f"{target} holds no result of Tacit's: {type(error).__name__} {error}") from None
        if found is None:
            raise ValueError(f"{target} was written by another version of Tacit")
        return found

    @classmethod
    def _read(cls, target: Path, told: Mapping[str, Any]) -> Self:
        import polars

        table = polars.read_parquet(target)
        runs = table["run"].n_unique()
        changes = table["episode"].to_numpy()[: len(table) // runs].copy()
        found = cls(
            changes=changes,
            values=table["value"].cast(polars.Float64).to_numpy().reshape(runs, -1).copy(),
            episodes=told["episodes"],
            optimal=told["optimal"],
            settings=told["settings"],
            statement=told["statement"],
        )
        whole = changes[0] == 0 and (np.diff(changes) > 0).all()
        whole = whole and np.array_equal(table["run"], np.repeat(np.arange(runs), len(changes)))
        whole = whole and np.array_equal(table["episode"], np.tile(changes, runs))
        mean = (found.summary()["mean value"], told["summary"]["mean value"])
        if not whole or runs != told["summary"]["runs"] or not math.isclose(*mean, abs_tol=1e-9):
            raise ValueError("the table is not the one that the JSON file is about")
        return found

    @classmethod
    def joined(cls, parts: Sequence[Self], settings: Mapping[str, Any]) -> Self:
        """Runs side by side that were played apart: as many episodes as all of them have."""
        episodes = min(part.episodes for part in parts)
        changes = np.unique(np.concatenate([part.changes for part in parts]))
        changes = changes[changes < max(episodes, 1)]
        values = [part.values[:, np.searchsorted(part.changes, changes, side="right") - 1] for part in parts]
        return cls(
            changes=changes,
            values=np.concatenate(values),
            episodes=episodes,
            optimal=parts[0].optimal,
            settings=settings,
            statement=parts[0].statement,
        )


def _table_path(path: Path | str) -> Path:
    """A name may have dots in it, such as joint-0.5."""
    given = Path(path)
    known = given.suffix in (".parquet", ".json")
    return given.with_suffix(".parquet") if known else given.with_name(f"{given.name}.parquet")


def _each(value: Any, change: Callable[[Any], Any]) -> Any:
    """Every leaf of nested dictionaries and lists, changed."""
    if isinstance(value, Mapping):
        return {key: _each(item, change) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_each(item, change) for item in value]
    return change(value)


def _told(value: Any) -> Any:
    """JSON has no word for infinity, and other readers refuse Python's own."""
    return "∞" if value == math.inf else value


def _heard(value: Any) -> Any:
    return math.inf if value == "∞" else value
