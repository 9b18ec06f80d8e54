"""The page for a privacy officer: what is printed, what is JSON, and that no number on it is only believed."""

import dataclasses
import json
import math
import re

import pytest

from tacit.privacy import (
    Central,
    Joint,
    Local,
    Loss,
    NoNoise,
    NonPrivate,
    SecureNoise,
    Sensitivity,
    Shuffle,
    SimulationNoise,
    Statement,
    calibrate,
    price,
)
from tacit.privacy.accounting import delta_of_rho
from tacit.privacy.counters import binary_tree, doubling, sqrt_toeplitz
from tacit.privacy.statements import AGREED, guarantee_from_json

H, K = 20, 20_000
FAMILY = Sensitivity(l0=2 * H, l1=2.0 * H, l2_squared=2.0 * H)
TOGETHER = Sensitivity(l0=3 * H, l1=3.0 * H, l2_squared=3.0 * H)


def statement(guarantee=None, *, noise=None, calibrations=None, **more):
    guarantee = guarantee or Joint(epsilon=1)
    noise = noise or SecureNoise()
    if calibrations is None:
        calibrations = {"transitions and rewards": calibrate(guarantee, TOGETHER, counter=doubling(K - 1))}
    return Statement(
        guarantee=guarantee,
        calibrations=calibrations,
        noise=noise.name,
        protects=noise.protects,
        **{"users": 100, "users_declared": K, "releases": 2} | more,
    )


def published(log):
    """000 Lemma 5.1, each of three families priced by itself."""
    return {
        family: price("laplace", 3 * H * log(K), FAMILY, participation=15.0, rule="published (000 Lemma 5.1)")
        for family in ("transitions", "rewards", "visits")
    }


ALL = {
    "pure": statement(),
    "approximate": statement(Central(epsilon=1, delta=1e-6)),
    "concentrated": statement(Joint(rho=0.1, unit="patient", neighbours="add-or-remove-one")),
    "filter": statement(
        Joint(epsilon=2, delta=1e-6),
        calibrations={"visits": calibrate(Joint(epsilon=2, delta=1e-6), FAMILY, counter=sqrt_toeplitz(200))},
    ),
    "simulated": statement(noise=SimulationNoise(3)),
    "none": statement(NonPrivate(), noise=NoNoise(), calibrations={}),
    "infinite epsilon": statement(Central(epsilon=math.inf), noise=NoNoise()),
    "published": statement(calibrations=published(math.log2), rule="published (000 Lemma 5.1)"),
    "local": statement(
        Local(epsilon=1),
        calibrations={
            "one step of each user": price(
                "subset selection",
                1.0,
                Sensitivity(l0=145, l1=2.0, l2_squared=2.0),
                participation=1.0,
                rule="exact",
            )
        },
    ),
    "shuffle": statement(Shuffle(epsilon=1, delta=1e-6, local_epsilon=3)),
    "fresh": statement(users=0, releases=0, notes=("One.", "Two.")),
}
every = pytest.mark.parametrize("told", ALL.values(), ids=ALL)


@every
def test_json_and_back_is_the_same_statement(told):
    again = Statement.from_json(told.to_json())
    assert again == told
    assert str(again) == str(told)
    assert again.to_json() == told.to_json()


@every
def test_json_is_read_by_strict_readers(told):
    """`Infinity` and `NaN` are Python's own: other readers refuse the whole file."""

    def refuse(word):
        raise AssertionError(f"{word} is no JSON")

    data = json.loads(told.to_json(), parse_constant=refuse)
    assert data["guarantee"]["model"] == told.guarantee.model
    assert data["guarantee"]["neighbours"] == told.guarantee.neighbours
    assert data["guarantee"]["unit"] == told.guarantee.unit
    assert data["holds"] is told.holds
    assert set(data["calibrations"]) == set(told.calibrations)


@every
def test_every_number_is_derived_again_from_its_calibration(told):
    for calibration in told.calibrations.values():
        assert calibration.recomputed() == calibration.loss
    total = [calibration.loss for calibration in told.calibrations.values()]
    if total:
        assert told.committed.rho == pytest.approx(sum(loss.rho for loss in total))


def test_forged_totals_are_not_believed():
    data = json.loads(ALL["published"].to_json())
    data["committed"] = {"epsilon": 0.1, "rho": 0.005}
    data["spent"] = data["committed"]
    data["holds"] = True
    again = Statement.from_json(json.dumps(data))
    assert not again.holds
    assert again.committed == ALL["published"].committed


# ---------------------------------------------------------------------------------------------- does it hold?


def test_which_statements_hold():
    holding = {name for name, told in ALL.items() if told.holds}
    assert holding == {"pure", "approximate", "concentrated", "filter", "local", "shuffle", "fresh"}


def test_nothing_is_spent_before_the_first_release_and_everything_after_it():
    assert ALL["fresh"].spent == Loss(epsilon=0.0, rho=0.0)
    assert "spent: nothing." in str(ALL["fresh"])
    told = ALL["pure"]
    assert told.spent == told.committed
    assert told.committed.epsilon == pytest.approx(1.0, rel=1e-10)
    assert told.committed.epsilon <= 1.0


def test_losses_of_separate_calibrations_add_up():
    half = calibrate(Joint(epsilon=0.5), FAMILY, counter=doubling(K - 1))
    assert statement(calibrations={"transitions": half, "rewards": half}).holds
    assert not statement(calibrations={"transitions": half, "rewards": half, "visits": half}).holds


def test_published_constants_are_named_by_what_they_spend():
    """2.10 ε with log₂, 3.03 ε with ln, at K = 20,000 and H = 20; exact constants spend what they say."""
    for log, spent in ((math.log2, 2.10), (math.log, 3.03)):
        told = statement(calibrations=published(log), rule="published (000 Lemma 5.1)")
        assert told.committed.epsilon == pytest.approx(spent, abs=0.005)
        assert not told.holds
        first = str(told).splitlines()[0]
        assert first.startswith("NOT KEPT: ε = 1 joint differential privacy (pure) was asked for")
        printed = float(re.search(r"this noise gives ε = ([\d.]+)\.$", first)[1])
        assert told.committed.epsilon <= printed * (1 + 1e-8) <= 1.001 * told.committed.epsilon
        assert "Calibration: published (000 Lemma 5.1)." in str(told)
    exact = statement(calibrations={"all": calibrate(Joint(epsilon=1), FAMILY, counter=binary_tree(K - 1))})
    assert exact.holds


# ---------------------------------------------------------------------------------------------- what is printed


def test_a_secure_statement_prints_everything():
    lines = str(ALL["pure"]).splitlines()
    assert lines[0] == "Guaranteed: ε = 1 joint differential privacy (pure)."
    assert lines[2].startswith("Each episode is protected from all other users together")
    assert "Whoever runs this software sees the data." in lines[2]
    assert lines[3].startswith("Unit: one episode. Neighbours: replace-one (that episode had been any other).")
    assert lines[3].endswith("Somebody with m episodes is protected less: m times ε = 1.")
    # b = 3H/ε = 60
    assert lines[4] == (
        "Transitions and rewards: Laplace noise of scale 60 on each number; "
        "one unit moves all of them by 60 in L1 at most."
    )
    assert lines[5] == f"Noise: {SecureNoise.name}."
    assert lines[6] == "Calibration: exact. All releases together cost ε = 1."
    assert lines[7] == "So far: 100 of 20,000 users taken in, 2 releases made; spent: ε = 1."


def test_a_simulated_statement_never_claims_privacy():
    told = str(ALL["simulated"])
    assert told.startswith("Simulated: no privacy. (With secure noise: ε = 1 joint differential privacy (pure).)")
    assert "Guaranteed" not in told
    assert "is protected" not in told
    assert "Noise: simulated: no privacy." in told


@pytest.mark.parametrize("name", ["none", "infinite epsilon"])
def test_no_privacy_is_said_plainly(name):
    told = str(ALL[name])
    assert told.startswith("No privacy: exact statistics.")
    assert "Guaranteed" not in told
    assert "is protected" not in told
    assert "All releases together cost no finite ε" in told


def test_each_kind_of_guarantee_is_printed_in_its_own_terms():
    assert "All releases together cost (ε, δ) = (1, 1e-06)" in str(ALL["approximate"])
    concentrated = str(ALL["concentrated"])
    assert "Guaranteed: ρ = 0.1 zero-concentrated joint differential privacy." in concentrated
    assert "Unit: one patient. Neighbours: add-or-remove-one (that patient had been empty)." in concentrated
    assert "Each patient is protected" in concentrated
    assert "All releases together cost ρ = 0.1" in concentrated
    # √(2H) = 6.32456
    assert "one unit moves all of them by 6.32456 in L2 at most, " in str(ALL["filter"])
    assert "39 of 145 symbols are reported, the true one among them with probability" in str(ALL["local"])
    assert "the server included" in str(ALL["local"])
    assert "as long as the shuffler permutes and forgets" in str(ALL["shuffle"])
    assert str(ALL["fresh"]).endswith("One.\nTwo.")


def test_gaussian_noise_under_a_pure_promise_is_called_what_it_is():
    gaussian = calibrate(Joint(epsilon=1, delta=1e-6), FAMILY, counter=doubling(99), mechanism="gaussian")
    told = statement(calibrations={"visits": gaussian})
    assert not told.holds
    assert "NOT KEPT: ε = 1 joint differential privacy (pure) was asked for" in str(told)
    assert "this noise gives no finite ε" in str(told)


def test_guarantees_are_read_back_as_the_same_kind():
    for told in ALL.values():
        guarantee = told.guarantee
        again = guarantee_from_json({"model": guarantee.model, **dataclasses.asdict(guarantee)})
        assert again == guarantee
        assert type(again) is type(guarantee)


def test_a_forged_file_is_not_believed():
    """Losses follow from the noise, protection from its source."""
    honest = json.loads(ALL["pure"].to_json())
    (calibration,) = honest["calibrations"].values()
    quieter = json.loads(ALL["pure"].to_json())
    next(iter(quieter["calibrations"].values()))["scale"] = 1.0
    assert str(Statement.from_json(json.dumps(quieter))).startswith("NOT KEPT")
    calibration["loss"] = {"epsilon": 0.001, "rho": 1e-9}
    honest["guarantee"]["epsilon"] = 0.01
    assert not Statement.from_json(json.dumps(honest)).holds
    simulated = json.loads(statement(noise=SimulationNoise(0)).to_json())
    simulated["protects"] = True
    assert not Statement.from_json(json.dumps(simulated)).protects


@pytest.mark.parametrize("text", ["{}", "[]", "no JSON", '{"noise": 1}'])
def test_what_is_no_statement_is_called_so(text):
    with pytest.raises(ValueError, match="no statement of Tacit's"):
        Statement.from_json(text)


def test_a_large_delta_is_warned_of_and_software_is_named():
    large = calibrate(Joint(epsilon=1, delta=0.01), FAMILY, counter=doubling(99))
    told = statement(guarantee=Joint(epsilon=1, delta=0.01), calibrations={"visits": large})
    assert "WARNING: δ is not below 1/" in str(told)
    assert "WARNING" not in str(ALL["approximate"])
    assert "Software: tacit " in str(told)
    assert "opendp" in told.software


def test_somebody_with_several_episodes_is_told_what_is_left():
    """Under (ε, δ), m times ε at the same δ would be too little: ρ grows with m², and ε is what that proves."""
    told = statement(Joint(epsilon=1, delta=1e-6))
    assert told.committed.epsilon is None
    match = re.search(
        r"m² times ρ = \S+, which at δ = 1e-06 is ε = (\S+) for m = 2, and ε = (\S+) for m = 5", str(told)
    )
    for m, printed in zip((2, 5), match.groups(), strict=True):
        assert delta_of_rho(m * m * told.committed.rho, float(printed)) <= 1e-6
        assert float(printed) > m
    assert "m times ε = 1, with δ = 0." in str(
        statement(
            Joint(epsilon=1, delta=1e-6),
            calibrations={"visits": calibrate(Joint(epsilon=1), FAMILY, counter=doubling(99))},
        )
    )
    assert "m² times ρ = 0.1." in str(statement(Joint(rho=0.1)))
    # The ε is what this noise spends, not what was asked for.
    assert "m times ε = 2.1." in str(ALL["published"])


@pytest.mark.parametrize("epsilon", [2.10721, 2.11613, 0.99999, 1.0, 1.00001, 123456.7, 3e-7])
def test_what_is_printed_is_never_less_than_what_is_spent(epsilon):
    scale = FAMILY.l1 / epsilon
    told = statement(calibrations={"visits": price("laplace", scale, FAMILY, participation=1.0, rule="exact")})
    printed = float(re.search(r"All releases together cost ε = (\S+)\.$", str(told), flags=re.MULTILINE)[1])
    assert epsilon * (1 - 1e-9) <= printed <= 1.001 * epsilon


def test_a_guarantee_is_printed_as_it_is():
    assert str(Joint(epsilon=1.0000049)).startswith("ε = 1.0000049 ")
    assert str(Joint(epsilon=0.1, delta=1e-6)).startswith("(ε, δ) = (0.1, 1e-06) ")


def test_noise_that_is_none_is_called_no_privacy():
    assert str(statement(noise=NoNoise())).startswith("No privacy: noise is none.")


def test_a_server_that_knows_reports_only_names_the_agreement():
    told = dataclasses.replace(ALL["local"], noise=AGREED)
    assert "Noise: as agreed with the devices: OpenDP" in str(told)
    assert Statement.from_json(told.to_json()).holds
