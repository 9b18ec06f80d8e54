"""Sample data: rollouts of a world as a table with its schema, for demonstrations and tests."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from tacit.mdp.rollouts import RolloutSource, Streams
from tacit.offline.schema import Schema

if TYPE_CHECKING:
    import polars

    from tacit.mdp.trajectories import Trajectories

__all__ = ["Sample", "write_sample"]


class Sample(NamedTuple):
    """Two files."""

    data: Path
    schema: Path


def write_sample(
    world: RolloutSource, *, episodes: int, path: Path | str, seed: int = 0, behaviour: ArrayLike | None = None
) -> Sample:
    """Roll out a world and write `episode, step, state, action, reward, next_state`, one row per step.

    Parameters
    ----------
    world
        Anything that can be rolled out.
    episodes
        How many.
    path
        Ends in `.parquet` or `.csv`. The schema is written beside it, as `….schema.json`.
    seed
        Of the rollouts.
    behaviour
        The policy that acts, (H, S) or (H, S, A); uniform unless given. One step stands for all.
    """
    target, spec = Path(path), world.spec
    if target.suffix.lower() not in (".parquet", ".csv"):
        raise ValueError(f"sample data are written as .parquet or .csv; got {target.name!r}")
    if episodes < 1:
        raise ValueError(f"there must be at least one episode; got {episodes}")
    S, A, H = spec.states, spec.actions, spec.horizon
    policy = np.full((1, S, A), 1.0 / A) if behaviour is None else np.asarray(behaviour)
    if policy.shape[0] == 1:
        policy = np.broadcast_to(policy, (H, *policy.shape[1:]))
    rolled = world.rollout(np.ascontiguousarray(policy)[None], episodes=episodes, streams=Streams(seed, runs=1))
    frame = as_table(rolled)
    target.parent.mkdir(parents=True, exist_ok=True)
    if target.suffix.lower() == ".parquet":
        frame.write_parquet(target)
    else:
        frame.write_csv(target)
    return Sample(target, Schema(spec=spec).save(target.with_suffix(".schema.json")))


def as_table(trajectories: Trajectories) -> polars.DataFrame:
    """One run's episodes as a long table."""
    import polars

    states, actions, rewards = (column[0] for column in trajectories)
    number, H = actions.shape
    return polars.DataFrame(
        {
            "episode": np.repeat(np.arange(number, dtype=np.int64), H),
            "step": np.tile(np.arange(H, dtype=np.int32), number),
            "state": states[:, :-1].ravel(),
            "action": actions.ravel(),
            "reward": rewards.ravel(),
            "next_state": states[:, 1:].ravel(),
        }
    )
