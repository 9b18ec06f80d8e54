"""What factors on the bonuses cost: prints the tables, and writes docs/tables/bonuses.md (`make tables`).

It takes half a minute. Every cell is kept under tacit-out/bonuses, and never run again.
"""

from pathlib import Path

from tacit.mdp import chain, random_mdp, riverswim
from tacit.online import UCBVI
from tacit.online.ucb import PRIVACY_SCALE, STATISTICAL_SCALE
from tacit.privacy import Joint, Local, NonPrivate
from tacit.simulation import Cell, Processes, sweep

TARGET = Path(__file__).parent.parent / "docs" / "tables" / "bonuses.md"
EPISODES, RUNS, SEED = 20_000, 20, 0
WORLDS = {
    "RiverSwim 6, H = 20": riverswim(states=6, horizon=20),
    "RiverSwim 12, H = 40": riverswim(states=12, horizon=40),
    "chain 8, H = 8": chain(states=8, horizon=8),
    "random 10 × 4, H = 10": random_mdp(states=10, actions=4, horizon=10, seed=1, successors=3),
}
PRIVACY = {
    "none": NonPrivate(),
    "joint, ε = 10": Joint(epsilon=10),
    "joint, ε = 1": Joint(epsilon=1),
    "local, ε = 10": Local(epsilon=10),
}
STATISTICAL = (1.0, 0.3, 0.1, 0.03, 0.01, 0.0)
NOISE = (1.0, 0.1, 0.03, 0.01, 0.003, 0.0)


def cells() -> dict[tuple[str, str, float, float], Cell]:
    """One axis at a time: with the other factor as it is by default. Without privacy there is one factor only."""
    found = {}
    for world_name, world in WORLDS.items():
        for privacy_name, privacy in PRIVACY.items():
            pairs = {(statistical, PRIVACY_SCALE) for statistical in STATISTICAL}
            pairs |= {(STATISTICAL_SCALE, noise) for noise in NOISE}
            if privacy.kind == "none":
                pairs = {(statistical, PRIVACY_SCALE) for statistical in STATISTICAL}
            for statistical, noise in sorted(pairs):
                agent = UCBVI(
                    world.spec, episodes=EPISODES, privacy=privacy, statistical_scale=statistical, privacy_scale=noise
                )
                labels = {"world": world_name, "privacy": privacy_name, "scales": f"{statistical}, {noise}"}
                key = (world_name, privacy_name, statistical, noise)
                found[key] = Cell(agent=agent, world=world, labels=labels)
    return found


def main() -> None:
    """Run what is missing, and write the tables."""
    every = cells()
    done = sweep(every.values(), folder="tacit-out/bonuses", runs=RUNS, seed=SEED, engine=Processes())
    if done.unfinished:
        raise SystemExit(f"{done.unfinished} cells are left: run this again")
    shares = {
        key: result.final_regret / (result.episodes * WORLDS[key[0]].optimal_value)
        for key, result in zip(every, done.results, strict=True)
    }
    text = "\n\n".join([_head(), *(_table(world, shares) for world in WORLDS)])
    TARGET.write_text(text + "\n", encoding="utf-8")
    print(text)


def _head() -> str:
    return (
        "# Factors on the bonuses\n\n"
        f"`make tables`. UCBVI, doubling, K = {EPISODES:,}, {RUNS} runs: regret as a share of what the best policy "
        "earns (mean ± standard error), 100 % being nothing at all. Rows vary one factor, and leave the other at its "
        f"default: `statistical_scale` = {STATISTICAL_SCALE}, `privacy_scale` = {PRIVACY_SCALE}."
    )


def _table(world: str, shares) -> str:
    lines = [f"## {world}", "", f"| | {' | '.join(PRIVACY)} |", "|---" * (1 + len(PRIVACY)) + "|"]
    for name, values in (("statistical", STATISTICAL), ("privacy", NOISE)):
        for value in values:
            row = []
            for privacy in PRIVACY:
                key = (
                    world,
                    privacy,
                    *((value, PRIVACY_SCALE) if name == "statistical" else (STATISTICAL_SCALE, value)),
                )
                if key not in shares:
                    row.append("")
                    continue
                share = 100 * shares[key]
                row.append(f"{share.mean():.1f} ± {share.std(ddof=1) / len(share) ** 0.5:.1f}")
            lines.append(f"| `{name}_scale={value:g}` | {' | '.join(row)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
