"""What the offline commands share: tables with their schema, guarantees, policies, and behaviour."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tacit.cli.shared import Mistake

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from tacit.mdp.spec import EpisodeSpec
    from tacit.offline import Dataset, OfflinePolicy
    from tacit.privacy.guarantees import Central, NonPrivate

__all__ = ["Data", "Delta", "Epsilon", "Horizon", "Rho", "SchemaFile", "behaviour_of", "central", "opened", "policy_in"]

_GUARANTEE = "The guarantee"

Data = Annotated[
    list[Path], typer.Argument(metavar="DATA…", help="Parquet, CSV or npz files; several of a kind are one data set")
]
SchemaFile = Annotated[
    Path | None,
    typer.Option("--schema", "-s", help="What is declared of the table (default: the file beside it, ….schema.json)"),
]
Horizon = Annotated[int | None, typer.Option("--horizon", "-H", min=1, help="H, in place of the schema's")]
Epsilon = Annotated[float | None, typer.Option(help="ε", rich_help_panel=_GUARANTEE)]
Delta = Annotated[float | None, typer.Option(help="δ; 0 is pure privacy", rich_help_panel=_GUARANTEE)]
Rho = Annotated[float | None, typer.Option(help="ρ, in place of ε and δ", rich_help_panel=_GUARANTEE)]


def opened(data: list[Path], schema: Path | None, horizon: int | None) -> Dataset:
    """The data set, by its schema."""
    from tacit.offline import Dataset, Schema

    path = data[0].with_suffix(".schema.json") if schema is None else schema
    if not path.exists():
        raise Mistake(f"there is no schema {path}: say --schema FILE, or make sample data (tacit datasets make --help)")
    declared = Schema.load(path)
    if horizon is not None and horizon != declared.spec.horizon:
        declared = replace(declared, spec=replace(declared.spec, horizon=horizon))
    return Dataset.open(data, declared)


def central(epsilon: float | None, delta: float | None, rho: float | None, *, private: bool) -> Central | NonPrivate:
    """The guarantee that is asked for."""
    from tacit.privacy.guarantees import Central, NonPrivate

    if not private:
        if (epsilon, delta, rho) != (None, None, None):
            raise Mistake("--privacy none takes neither --epsilon nor --delta nor --rho")
        return NonPrivate()
    if epsilon is None and rho is None:
        raise Mistake("a guarantee needs --epsilon (with an optional --delta) or --rho; or say --privacy none")
    return Central(epsilon=epsilon, delta=delta or 0.0, rho=rho)


def policy_in(path: Path) -> tuple[OfflinePolicy, dict[str, Any]]:
    """A policy and its notes."""
    from tacit.offline import OfflinePolicy

    try:
        return OfflinePolicy.load_with_notes(path)
    except ValueError as error:
        raise Mistake(str(error)) from None


def behaviour_of(text: str, spec: EpisodeSpec) -> NDArray[np.float64] | None:
    """What people followed: `uniform`, a policy's file, or `estimate` (None)."""
    if text == "estimate":
        return None
    if text == "uniform":
        import numpy as np

        return np.full((spec.horizon, spec.states, spec.actions), 1.0 / spec.actions)
    table = policy_in(Path(text))[0].probabilities
    if table.shape != (spec.horizon, spec.states, spec.actions):
        raise Mistake(f"{text} holds a policy (H, S, A) = {table.shape}, and the data are of {spec}")
    return table
