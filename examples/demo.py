"""`make demo`: what a guarantee costs, and what can be learnt all the same.

100,000 people act at random in RiverSwim. Their counts are released as they come, with doubling batches; after each
release a policy is planned on nothing but the release, and evaluated exactly. Writes tacit-out/demo.png.
"""

from pathlib import Path

import matplotlib as mpl
import numpy as np

mpl.use("Agg")
import matplotlib.pyplot as plt

import tacit
from tacit.mdp import planning
from tacit.privacy import calibrate, counters
from tacit.privatizers import CentralPrivatizer, LocalPrivatizer
from tacit.statistics import TabularStatistic

USERS, RUNS, SEED = 102_400, 20, 0
OUT = Path("tacit-out")
SCHEDULE = counters.doubling(USERS, first=50)
INK, BLUE, GREEN, RED, VIOLET, SAND = "#444444", "#1f6fb4", "#2a8f5b", "#c0443c", "#7d5ba6", "#b97d1f"


def plan(release, horizon):
    """A policy from noisy counts alone: the noise counts as 2σ visits to anywhere, for nothing."""
    doubt = 2.0 * release.errors["transitions"].std
    seen = np.clip(release.transitions, 0.0, None)
    visits = seen.sum(axis=-1)
    kernel = (seen + (doubt + 1e-9) / seen.shape[-1]) / (visits + doubt + 1e-9)[..., None]
    rewards = np.clip(release.reward_sums, 0.0, visits) / (visits + doubt + 1e-9)
    return planning.greedy(planning.optimal(kernel, rewards, horizon=horizon).q)


def learning_curve(privatizer, world, people):
    """Users, mean value of the planned policies, and its standard error over runs, after every release."""
    points, first = [], 0
    for last in SCHEDULE.ends:
        privatizer.observe(tacit.mdp.Trajectories(*(column[:, first:last] for column in people)))
        values = world.policy_values(plan(privatizer.release(), world.spec.horizon))
        points.append((last, values.mean(), values.std(ddof=1) / np.sqrt(RUNS)))
        first = last
    return np.array(points).T


def draw_noise(axis, spec):
    """The largest standard deviation of a released count so far: known before any data."""
    length = 20_000
    three = TabularStatistic(spec=spec, families=("transitions", "rewards", "visits"), centred=False, pooled=False)
    pooled = TabularStatistic(spec=spec)
    pure, approximate = tacit.Joint(epsilon=1), tacit.Joint(epsilon=1, delta=1e-6)
    rows = [
        ("binary tree, three families per step", three, pure, counters.binary_tree(length), RED),
        ("13-ary subtraction tree, two centred families, pooled", pooled, pure, counters.balanced_tree(length), SAND),
        ("BLT-4, three families per step, (1, 1e-6)", three, approximate, counters.blt(length), VIOLET),
        (
            "doubling batches (9 releases), two centred families, pooled",
            pooled,
            pure,
            counters.doubling(length, first=50),
            BLUE,
        ),
    ]
    for label, statistic, guarantee, counter, colour in rows:
        calibration = calibrate(guarantee, statistic.sensitivity(), counter=counter)
        stds, times, time = [], [], counter.next_release(0)
        while time is not None:
            law = counters.error_at(counter, time, mechanism=calibration.mechanism, scale=calibration.scale)
            stds.append(law.std)
            times.append(time)
            time = counter.next_release(time)
        worst = np.maximum.accumulate(stds)
        axis.plot([*times, length], [*worst, worst[-1]], color=colour, lw=1.8, drawstyle="steps-post")
        below = counter.name.startswith("BLT")
        place = (length, worst[-1] * (0.6 if below else 1.12))
        axis.annotate(label, place, ha="right", va="top" if below else "bottom", fontsize=8, color=colour)
    axis.set(xscale="log", yscale="log", ylim=(40, 2e4), xlabel="users so far", ylabel="standard deviation of a count")
    axis.set_title("What the guarantee costs: ε = 1, pure unless said otherwise", loc="left", fontsize=10)


def main():
    """Simulate, release, plan, draw."""
    world = tacit.mdp.riverswim(states=6, horizon=20)
    spec, statistic = world.spec, TabularStatistic(spec=world.spec)
    print(f"Simulating {RUNS} × {USERS:,} people who act at random in {world.name} …", flush=True)
    at_random = np.full((RUNS, spec.horizon, spec.states, spec.actions), 1 / spec.actions)
    people = world.rollout(at_random, episodes=USERS, streams=tacit.mdp.Streams(SEED, runs=RUNS))

    def central(guarantee):
        noise = tacit.SimulationNoise(SEED + 1)
        return CentralPrivatizer(statistic, guarantee, episodes=USERS + 1, counter=SCHEDULE, noise=noise, runs=RUNS)

    def local(guarantee):
        noise = tacit.SimulationNoise(SEED + 1)
        return LocalPrivatizer(statistic, guarantee, episodes=USERS + 1, noise=noise, runs=RUNS)

    rows = {
        "no privacy": (central(tacit.NonPrivate()), INK),
        "joint, (ε, δ) = (4, 1e-6)": (central(tacit.Joint(epsilon=4, delta=1e-6)), GREEN),
        "joint, pure ε = 1": (central(tacit.Joint(epsilon=1)), BLUE),
        "local, ε = 4": (local(tacit.Local(epsilon=4)), SAND),
        "local, ε = 1": (local(tacit.Local(epsilon=1)), RED),
    }
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.6), constrained_layout=True)
    draw_noise(left, spec)
    for label, (privatizer, colour) in rows.items():
        print(f"  {label}: releasing and planning …", flush=True)
        users, mean, error = learning_curve(privatizer, world, people)
        right.plot(users, mean, color=colour, label=label, lw=1.8)
        right.fill_between(users, mean - error, mean + error, color=colour, alpha=0.2, lw=0)
    right.axhline(world.optimal_value, color=INK, lw=0.8, ls=":")
    right.text(USERS, world.optimal_value + 0.04, "optimal policy", fontsize=8, ha="right", color=INK)
    right.set(xscale="log", xlabel="users so far", ylabel="value of the planned policy", ylim=(0, 3.75))
    right.set_title(f"What can be learnt from the releases alone (mean ± s.e. of {RUNS} runs)", loc="left", fontsize=10)
    right.legend(fontsize=8, frameon=False, loc=(0.15, 0.3))
    for axis in (left, right):
        axis.spines[["top", "right"]].set_visible(False)
    statement = rows["joint, pure ε = 1"][0].statement
    unit = f"Unit: one {statement.guarantee.unit}, {statement.guarantee.neighbours}."
    figure.supxlabel(f"RiverSwim 6, H = 20.  {str(statement).splitlines()[0]}  {unit}", fontsize=8)
    OUT.mkdir(exist_ok=True)
    figure.savefig(OUT / "demo.png", dpi=150)
    print(f"\nThe statement of the run with pure ε = 1:\n\n{statement}\n\nFigure: {(OUT / 'demo.png').resolve()}")


if __name__ == "__main__":
    main()
