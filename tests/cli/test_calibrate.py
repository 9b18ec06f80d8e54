"""`tacit calibrate`: its numbers are the library's and those of ALGORITHMS.md §2, and both directions agree."""

import io
import json
import math
import re
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from tacit.cli.app import app
from tacit.cli.calibrate_answer import Question, answer
from tacit.cli.calibrate_table import show
from tacit.cli.shared import Mistake
from tacit.mdp.spec import EpisodeSpec
from tacit.privacy import Joint, Local, SimulationNoise
from tacit.privacy.accounting import mu_of_approximate, rho_of_approximate
from tacit.privatizers import CentralPrivatizer, LocalPrivatizer
from tacit.statistics import TabularStatistic

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "guides" / "calibrate.md"
SMALL = {"states": 3, "actions": 2, "horizon": 5, "episodes": 300}
SPEC = EpisodeSpec(states=3, actions=2, horizon=5)
GUARANTEES = [{"epsilon": 1.0}, {"epsilon": 0.5, "delta": 1e-6}, {"rho": 0.1}]
SHORT = {
    "doubling batches": "doubling",
    "binary tree": "tree",
    "subtraction tree": "k-ary",
    "square-root Toeplitz": "toeplitz",
    "BLT-4": "blt",
}


def invoke(*arguments):
    return CliRunner().invoke(app, ["calibrate", *arguments], prog_name="tacit")


def asked(**settings):
    return answer(Question(**settings)).rows


def row_of(rows, name, noise, *, model="joint", rule="exact"):
    (found,) = [r for r in rows if (r.model, r.noise, r.rule) == (model, noise, rule) and name in r.name]
    return found


def flags(settings):
    return [text for name, value in settings.items() for text in (f"--{name.replace('_', '-')}", str(value))]


# ALGORITHMS.md §2


@pytest.fixture(scope="module")
def page():
    """K = 20,000, H = 20, ε = 1 (δ = 1e-5), every step apart."""
    return asked(epsilon=1.0, delta=1e-5, pooled=False, published=True, model="joint")


def test_laplace_rows_are_the_pages(page):
    assert row_of(page, "binary tree", "laplace").max_std == pytest.approx(4762, rel=2e-4)
    assert row_of(page, "subtraction tree", "laplace").max_std == pytest.approx(
        60 * 29.4, rel=0.05 / 29.4
    )  # three digits
    assert row_of(page, "doubling", "laplace").max_std == pytest.approx(255, rel=2e-3)


@pytest.mark.parametrize(("name", "told"), [("binary tree", 419), ("Toeplitz", 122), ("BLT", 122), ("doubling", 87)])
def test_gaussian_rows_are_the_pages_up_to_what_is_known_to_differ(page, name, told):
    """The page takes Δ₂² = 3H (decision 005: 55 for 60) and the continuous Gaussian's μ (ours: ρ, 1.084 × as much)."""
    conversion = mu_of_approximate(1.0, 1e-5) / math.sqrt(2 * rho_of_approximate(1.0, 1e-5))
    assert conversion == pytest.approx(1.084, abs=5e-4)
    ours = row_of(page, name, "gaussian").max_std
    assert ours / conversion * math.sqrt(60 / 55) == pytest.approx(told, rel=5e-3)


def test_published_constants_with_what_they_spend(page):
    published = row_of(page, "binary tree", "laplace", rule="published (000 Lemma 5.1)")
    assert published.scale == pytest.approx(60 * math.log2(20_000), rel=1e-9)
    assert published.epsilon == pytest.approx(
        3 * 40 * 15 / (60 * math.log2(20_000)), rel=1e-9
    )  # three families, 2H each
    assert published.epsilon == pytest.approx(2.10, abs=5e-3)
    assert published.max_std * published.epsilon == pytest.approx(9525, rel=2e-4)  # what ε = 1 would take
    local = row_of(
        asked(**SMALL, epsilon=1, model="local", published=True),
        "every count",
        "laplace",
        model="local",
        rule="published (000 Lemma 5.4)",
    )
    assert (local.scale, local.epsilon) == (15.0, pytest.approx(2.0))


# The library's own numbers


@pytest.mark.parametrize("guarantee", GUARANTEES, ids=str)
@pytest.mark.parametrize("pooled", [True, False])
def test_joint_rows_are_what_a_privatizer_does(guarantee, pooled):
    outcome = invoke(*flags({**SMALL, **guarantee, "model": "joint"}), "--pooled" if pooled else "--per-step", "--json")
    assert outcome.exit_code == 0
    assert outcome.stderr == ""
    rows = json.loads(outcome.stdout)["rows"]
    assert len(rows) == (3 if guarantee == {"epsilon": 1.0} else 7)
    statistic = TabularStatistic(spec=SPEC, pooled=pooled)
    for row in rows:
        (short,) = [short for name, short in SHORT.items() if name in row["name"]]
        privatizer = CentralPrivatizer(
            statistic,
            Joint(**guarantee),
            episodes=SMALL["episodes"],
            counter=short,
            mechanism=row["noise"],
            noise=SimulationNoise(0),
        )
        (calibration,) = privatizer.calibrations.values()
        assert row["scale"] == calibration.scale
        assert (row["epsilon"], row["rho"]) == (calibration.loss.epsilon, calibration.loss.rho)
        assert calibration.loss.keeps(Joint(**guarantee))
        times, time = [], privatizer.counter.next_release(0)
        while time is not None:
            times.append(time)
            time = privatizer.counter.next_release(time)
        laws = [privatizer.error("transitions", time) for time in times]
        assert (row["releases"], row["last_release"]) == (len(times), times[-1])
        assert row["max_std"] == max(law.std for law in laws)
        assert row["last_std"] == laws[-1].std
        share = 0.1 / (len(times) * statistic.cells("transitions"))
        assert row["bound"] == pytest.approx(max(law.quantile(share) for law in laws), rel=1e-12)
        assert row["memory"] == privatizer.counter.memory()


@pytest.mark.parametrize("pooled", [True, False])
def test_local_rows_are_what_a_privatizer_does(pooled):
    users = 40
    rows = asked(**{**SMALL, "episodes": users}, epsilon=1, model="local", pooled=pooled)
    assert len(rows) == 2
    for row, randomizer in zip(rows, ("one-step", "additive"), strict=True):
        privatizer = LocalPrivatizer(
            TabularStatistic(spec=SPEC, pooled=pooled),
            Local(epsilon=1),
            episodes=users,
            randomizer=randomizer,
            noise=SimulationNoise(0),
        )
        privatizer.observe([([0] * 6, [0] * 5, [0.0] * 5)] * users)
        law = privatizer.release().errors["transitions"]
        assert row.max_std == row.last_std == law.std
        assert row.epsilon == next(iter(privatizer.statement.calibrations.values())).loss.epsilon
        assert row.last_release == users


def test_the_quieter_of_laplace_and_gaussian_is_what_auto_takes():
    for guarantee in GUARANTEES:
        rows = asked(**SMALL, **guarantee, model="joint")
        privatizer = CentralPrivatizer(
            TabularStatistic(spec=SPEC), Joint(**guarantee), episodes=300, noise=SimulationNoise(0)
        )
        (calibration,) = privatizer.calibrations.values()
        quietest = next(row for row in rows if row.name == "doubling batches")
        assert (quietest.noise, quietest.scale) == (calibration.mechanism, calibration.scale)


def test_the_bound_of_a_single_laplace_noise_is_the_closed_form():
    """P(some of n cells is off by more than E) ≤ n e^(−E/b); a lattice of whole numbers adds half a unit."""
    rows = asked(states=3, actions=2, horizon=5, episodes=1, epsilon=1, model="joint", confidence=0.02)
    row = row_of(rows, "doubling", "laplace")
    assert row.scale == pytest.approx(15.0)  # 3H/ε
    assert row.bound == pytest.approx(15.0 * math.log(18 / 0.02) + 0.5, rel=1e-6)


# Back from a scale


@pytest.mark.parametrize("guarantee", GUARANTEES, ids=str)
def test_both_directions_are_inverse(guarantee):
    checked = 0
    for row in asked(**SMALL, **guarantee):
        if row.scale is None:
            continue
        back = asked(**SMALL, scale=row.scale, mechanism=row.noise, delta=guarantee.get("delta", 0.0), model=row.model)
        kept = row_of(back, row.name, row.noise, model=row.model, rule="given")
        assert (kept.epsilon, kept.rho, kept.epsilon_at_delta) == (row.epsilon, row.rho, row.epsilon_at_delta)
        assert (kept.max_std, kept.bound) == (row.max_std, row.bound)
        if "rho" in guarantee:
            assert kept.rho <= guarantee["rho"] == pytest.approx(kept.rho, rel=1e-9)
        elif "delta" not in guarantee:
            assert kept.epsilon <= guarantee["epsilon"] == pytest.approx(kept.epsilon, rel=1e-9)
        elif row.noise == "gaussian":
            assert kept.epsilon_at_delta <= guarantee["epsilon"] == pytest.approx(kept.epsilon_at_delta, rel=1e-9)
        checked += 1
    assert checked >= 4


def test_a_scale_shows_both_noises_and_no_pure_epsilon_of_a_gaussian():
    outcome = invoke(*flags({**SMALL, "scale": 15}), "--json")
    rows = json.loads(outcome.stdout)["rows"]
    assert {row["noise"] for row in rows} == {"laplace", "gaussian"}
    assert all((row["epsilon"] is None) == (row["noise"] == "gaussian") for row in rows)
    assert all(row["epsilon_at_delta"] is None for row in rows if row["noise"] == "gaussian")  # no δ was given
    (doubling,) = [row for row in rows if row["name"] == "doubling batches" and row["noise"] == "laplace"]
    assert doubling["epsilon"] == pytest.approx(1.0)  # 3H = 15
    with_delta = asked(**SMALL, scale=15.0, delta=1e-5, mechanism="gaussian")
    assert all(row.epsilon_at_delta > 0 for row in with_delta)


# What cannot be


def test_what_is_missing_says_why():
    pure = answer(Question(**SMALL, epsilon=1))
    missing = {(left.name, left.noise): left.why for left in pure.left_out}
    assert "Gaussian noise only" in missing["BLT-4", "laplace"]
    assert "allow a delta" in missing["binary tree", "gaussian"]
    rho = answer(Question(**SMALL, rho=0.1, published=True))
    missing = {left.name: left.why for left in rho.left_out}
    assert "pure epsilon" in missing["one step"]
    assert "pure guarantee" in missing["as published (000)"]
    given = answer(Question(**SMALL, scale=15.0))
    assert ("one step", "subset selection") in {(left.name, left.noise) for left in given.left_out}


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"epsilon": 1, "mechanism": "gaussian"}, "allow a delta"),
        ({"epsilon": 1, "rho": 1}, "not both"),
        ({"epsilon": 1, "delta": 1}, "delta"),
        ({"epsilon": 1, "scale": 1}, "leave --epsilon"),
        ({"epsilon": "inf"}, "no noise at all"),
        ({"epsilon": "nan"}, "positive"),
        ({"scale": 0}, "positive"),
        ({"scale": 1, "delta": -1}, "delta"),
        ({"epsilon": 1, "states": 0}, "states"),
        ({"epsilon": 1, "episodes": 0}, "episodes"),
        ({"epsilon": 1, "episodes": 10**9}, "episodes"),
        ({"epsilon": 1, "confidence": 0}, "confidence"),
    ],
)
def test_impossible_questions(settings, said):
    outcome = invoke(*flags({**SMALL, **settings}))
    assert outcome.exit_code == 2
    assert outcome.stdout == ""
    assert outcome.stderr.count("\n") == 1
    assert said in outcome.stderr


def test_published_constants_are_of_laplace_noise_for_a_guarantee():
    with pytest.raises(Mistake, match="Laplace"):
        Question(epsilon=1, delta=1e-5, published=True, mechanism="gaussian")
    with pytest.raises(Mistake, match="--epsilon"):
        Question(scale=1.0, published=True)


# What people see


@pytest.mark.parametrize("settings", [{"epsilon": 1, "delta": 1e-6, "published": True}, {"scale": 60, "delta": 1e-5}])
def test_a_narrow_terminal_loses_no_number(settings):
    given = answer(Question(**settings))
    texts = []
    for width in (80, 160):
        console = Console(file=io.StringIO(), width=width)
        show(given, console)
        texts.append(console.file.getvalue())
    assert "…" not in "".join(texts)
    assert all(len(line) <= 80 for line in texts[0].splitlines() if re.search("Laplace|Gaussian|subsets", line[:24]))
    numbers = [sorted(re.findall(r"\d[\d.,]+", text)) for text in texts]
    assert numbers[0] == numbers[1]


def test_a_delta_that_protects_nobody_is_told():
    assert "WARNING" in invoke(*flags({**SMALL, "epsilon": 1, "delta": 0.01})).stdout
    assert "WARNING" not in invoke(*flags({**SMALL, "epsilon": 1, "delta": 1e-5})).stdout


def test_the_guide_shows_what_is_really_printed():
    command, printed = re.search(
        r"```\n\$ tacit calibrate (.+?)\n(.+?)```", GUIDE.read_text(), flags=re.DOTALL
    ).groups()
    outcome = invoke(*command.split())
    assert outcome.exit_code == 0
    assert [line.rstrip() for line in outcome.stdout.splitlines()] == printed.splitlines()
