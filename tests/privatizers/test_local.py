"""The local privatizer beyond conformance: two halves, two randomizers, and what each costs."""

import math

import numpy as np
import pytest

import tacit.mdp as mdp
from tacit.mdp.spec import EpisodeSpec
from tacit.privacy import Joint, Local, NoNoise, NonPrivate, SecureNoise, SimulationNoise
from tacit.privatizers import (
    BudgetExhausted,
    CentralPrivatizer,
    Device,
    LocalPrivatizer,
    LocalServer,
    PrivatizationError,
    local_codec,
)
from tacit.privatizers.codecs import Report
from tacit.statistics import GramStatistic, Regressors, TabularStatistic

SPEC = EpisodeSpec(states=6, actions=2, horizon=20)
POOLED = TabularStatistic(spec=SPEC)
THREE = TabularStatistic(spec=SPEC, families=("transitions", "rewards", "visits"), centred=False, pooled=False)
SMALL = TabularStatistic(spec=EpisodeSpec(states=2, actions=2, horizon=3))


def test_the_server_half_has_no_way_to_take_a_trajectory():
    server = LocalServer(local_codec(SMALL, Local(epsilon=1)), episodes=10)
    assert not hasattr(server, "observe")
    with pytest.raises(AttributeError):
        server.collect(([0, 0, 0, 0], [0, 0, 0], [0.0, 0.0, 0.0]))


@pytest.mark.parametrize("randomizer", ["one-step", "additive"])
def test_devices_and_server_work_together_over_secure_reports(randomizer):
    codec = local_codec(SMALL, Local(epsilon=30.0), randomizer=randomizer)
    server = LocalServer(codec, episodes=3000)
    for k in range(600):
        device = Device(codec)
        assert isinstance(device.noise, SecureNoise)
        server.collect(device.report([([0, 1, 0, 1], [0, 0, 0], [1.0, 0.0, 1.0])] if k % 2 else [None]))
    release = server.release()
    assert release.episodes == 600
    truth = np.zeros((2, 2, 2))
    truth[0, 0, 1], truth[1, 0, 0] = 600, 300
    # one-step: each of 300 users tells one of 3 steps, times 3: standard deviation 3·√(300·2/9) = 24.5
    assert abs(release.transitions[0, 0] - truth).max() < 7 * (24.5 if randomizer == "one-step" else 15)


def test_a_report_of_another_agreement_is_refused_and_a_user_too_many():
    server = LocalServer(local_codec(SMALL, Local(epsilon=1)), episodes=2)
    other = Device(local_codec(POOLED, Local(epsilon=1)), noise=SimulationNoise(0))
    with pytest.raises(PrivatizationError, match="another agreement"):
        server.collect(other.report([None]))
    with pytest.raises(PrivatizationError, match="another agreement"):
        server.collect(Report(1, {}))
    device = Device(local_codec(SMALL, Local(epsilon=1)), noise=SimulationNoise(0))
    with pytest.raises(BudgetExhausted):
        server.collect(device.report([None] * 3))
    assert server.users == 0


def test_variances_are_those_of_algorithms():
    """§4 at ε = 1, S = 6, A = 2, H = 20, per pooled cell and user."""
    selection = local_codec(POOLED, Local(epsilon=1)).selection
    p, q = selection.truth, selection.other
    assert 20**2 * q * (1 - q) / (p - q) ** 2 == pytest.approx(1447, rel=1e-3)  # of a symbol that is not the truth
    assert 20**2 * selection.variance() == pytest.approx(20**2 * p * (1 - p) / (p - q) ** 2)  # of one that is

    def noise_of(statistic, **settings):
        codec = local_codec(statistic, Local(epsilon=1), randomizer="additive", **settings)
        return 20 * 2 * next(iter(codec.calibrations.values())).scale ** 2  # 20 steps pooled after the noise

    assert noise_of(THREE) == pytest.approx(576_000)
    assert noise_of(TabularStatistic(spec=SPEC, pooled=False)) == pytest.approx(144_000)
    assert noise_of(THREE, calibration="published") == pytest.approx(144_000)


def test_published_constants_spend_twice_what_they_say():
    privatizer = LocalPrivatizer(THREE, Local(epsilon=1), episodes=10, calibration="published")
    assert privatizer.statement.committed.epsilon == pytest.approx(2.0)
    assert str(privatizer.statement).startswith("NOT KEPT: ε = 1 ")


@pytest.mark.parametrize("epsilon", [1, 3, 8])
@pytest.mark.parametrize("pooled", [True, False])
def test_one_step_estimates_have_the_declared_errors_at_most(pooled, epsilon):
    """The asked step is random, too: at large ε that is all there is, and the law must cover it."""
    world = mdp.riverswim(states=2, horizon=8)
    statistic = TabularStatistic(spec=world.spec, pooled=pooled)
    runs, users = 2000, 50
    people = world.rollout(np.ones((1, 8, 2), dtype=int), episodes=users, streams=mdp.Streams(0, runs=1))
    same = mdp.Trajectories(*(np.repeat(column, runs, axis=0) for column in people))
    privatizer = LocalPrivatizer(statistic, Local(epsilon=epsilon), episodes=users, noise=SimulationNoise(0), runs=runs)
    privatizer.observe(same)
    release = privatizer.release()
    exact = CentralPrivatizer(statistic, NonPrivate(), episodes=users, counter="once")
    exact.observe(people)
    for name, law in release.errors.items():
        errors = getattr(release, name) - getattr(exact.release(), name)
        worst = np.sqrt((errors**2).mean(axis=0)).max()
        assert worst <= 1.08 * law.std  # a standard deviation from 2,000 runs errs by 1.6 %, of many cells
        assert worst >= 0.4 * law.std  # a bound for all trajectories; this world's are not the worst
        for beta in (0.1, 1e-2, 1e-3):
            # 2,000 runs: five standard errors above beta
            assert (np.abs(errors) > law.quantile(beta)).mean(axis=0).max() <= beta + 5 * np.sqrt(beta / runs)


def test_without_noise_of_coins_the_truth_is_reported_in_the_set():
    """Words of zeros say 'truth': every device's set contains its symbol."""
    codec = local_codec(SMALL, Local(epsilon=1))
    report = Device(codec, noise=NoNoise()).report([([0, 1, 0, 1], [0, 0, 0], [1.0, 0.0, 1.0])])
    symbol = 2 * ((0 * 2 + 0) * 2 + 1) + 1  # step 0: state 0, action 0, next state 1, reward bit 1
    assert report.sums["told"][0, 0, symbol] == 1
    assert report.sums["told"].sum() == codec.selection.width


def test_devices_for_regressions():
    statistic = GramStatistic(dimension=2)
    features = np.tile(np.array([0.6, 0.8]), (1, 40_000, 1, 1))
    privatizer = LocalPrivatizer(
        statistic, Local(epsilon=1, delta=1e-6), episodes=40_000, randomizer="additive", noise=SimulationNoise(3)
    )
    privatizer.observe(Regressors(features, np.ones((1, 40_000, 1))))
    release = privatizer.release()
    error = release.errors["gram"].std
    np.testing.assert_allclose(release.gram[0, 0] / 40_000, np.outer([0.6, 0.8], [0.6, 0.8]), atol=6 * error / 40_000)


@pytest.mark.parametrize(
    ("statistic", "guarantee", "settings", "message"),
    [
        (POOLED, Joint(epsilon=1), {}, "keeps Local guarantees"),
        (POOLED, Local(epsilon=np.inf), {}, "finite epsilon"),
        (POOLED, Local(epsilon=1, neighbours="add-or-remove-one"), {}, "any two trajectories"),
        (POOLED, Local(rho=1), {}, "rho"),
        (POOLED, Local(epsilon=1), {"randomizer": "coin"}, '"one-step" or "additive"'),
        (THREE, Local(epsilon=1), {}, "without a cap"),
        (GramStatistic(dimension=2), Local(epsilon=1), {}, "without a cap"),
        (POOLED, Local(epsilon=1), {"calibration": "published"}, "three|per step"),
    ],
)
def test_a_callers_mistake_is_told_at_once(statistic, guarantee, settings, message):
    with pytest.raises(PrivatizationError, match=message):
        local_codec(statistic, guarantee, **settings)


@pytest.mark.parametrize(("states", "actions", "horizon"), [(1, 1, 1), (1, 2, 1), (2, 1, 3)])
def test_the_smallest_worlds(states, actions, horizon):
    statistic = TabularStatistic(spec=EpisodeSpec(states=states, actions=actions, horizon=horizon))
    for randomizer in ("one-step", "additive"):
        privatizer = LocalPrivatizer(
            statistic, Local(epsilon=1), episodes=1, randomizer=randomizer, noise=SimulationNoise(0)
        )
        privatizer.observe([([0] * (horizon + 1), [0] * horizon, [1.0] * horizon)])
        assert np.isfinite(privatizer.release().transitions).all()


@pytest.mark.parametrize("randomizer", ["one-step", "additive"])
@pytest.mark.parametrize(
    "spoil",
    [
        lambda r: Report(-1, r.sums),
        lambda r: Report(0, r.sums),
        lambda r: Report(1.0, r.sums),
        lambda r: Report(1, {name: array * np.nan for name, array in r.sums.items()}),
        lambda r: Report(1, {name: array * 1j for name, array in r.sums.items()}),
        lambda r: Report(1, {name: array.astype(object) for name, array in r.sums.items()}),
        lambda r: Report(1, {name: array.astype(str) for name, array in r.sums.items()}),
    ],
)
def test_a_malformed_report_is_refused_and_leaves_no_trace(randomizer, spoil):
    codec = local_codec(SMALL, Local(epsilon=1), randomizer=randomizer)
    server, device = LocalServer(codec, episodes=3), Device(codec, noise=SimulationNoise(0))
    server.collect(device.report([None]))
    before = server.release().transitions.copy()
    with pytest.raises(PrivatizationError, match="malformed"):
        server.collect(spoil(device.report([None])))
    assert server.users == 1
    np.testing.assert_array_equal(server.release().transitions, before)


@pytest.mark.parametrize("told", [1e300, -1.0, 0.5])
def test_numbers_that_no_device_sends_are_refused(told):
    codec = local_codec(SMALL, Local(epsilon=1))
    report = Device(codec, noise=SimulationNoise(0)).report([None])
    report.sums["told"] = report.sums["told"] * told
    with pytest.raises(PrivatizationError, match="none that a device"):
        LocalServer(codec, episodes=3).collect(report)


def test_a_report_that_no_noise_explains_is_refused_and_an_honest_one_is_not():
    codec = local_codec(SMALL, Local(epsilon=1), randomizer="additive")
    server, device = LocalServer(codec, episodes=2000), Device(codec, noise=SimulationNoise(4))
    server.collect(device.report([([0, 1, 0, 1], [0, 0, 0], [1.0, 0.0, 1.0])] * 1000))
    honest = device.report([None])
    for wild in (1.7e308, -1e9):
        sums = {name: np.where(np.arange(array.shape[1]) == 0, wild, array) for name, array in honest.sums.items()}
        with pytest.raises(PrivatizationError, match="none that a device"):
            server.collect(Report(1, sums))
    server.collect(honest)
    assert server.reports == 1001


def test_a_server_says_what_it_cannot_know_and_what_is_not_hidden():
    codec = local_codec(SMALL, Local(epsilon=1))
    told = str(LocalServer(codec, episodes=5).statement)
    assert "Noise: as agreed with the devices: " in told
    assert "whatever it sends again is the same report" in told
    assert "Whether a device reports is not hidden" in told
    assert "no privacy" in str(LocalServer(codec, episodes=5, devices=SimulationNoise(0)).statement).splitlines()[0]


def test_the_unit_is_an_episode_and_nothing_else():
    with pytest.raises(PrivatizationError, match="one episode, not one 'patient'"):
        local_codec(SMALL, Local(epsilon=1, unit="patient"))
    with pytest.raises(PrivatizationError, match="one episode, not one 'patient'"):
        CentralPrivatizer(SMALL, Joint(epsilon=1, unit="patient"), episodes=5)


def test_several_runs_are_of_other_people():
    told = str(CentralPrivatizer(SMALL, Joint(epsilon=1), episodes=5, runs=3).statement)
    simulated = CentralPrivatizer(SMALL, Joint(epsilon=1), episodes=5, runs=3, noise=SimulationNoise(0))
    assert "Runs:" not in str(simulated.statement)
    assert "Runs: 3, each of other people. Somebody in several pays for each." in told
    assert "Runs:" not in str(CentralPrivatizer(SMALL, Joint(epsilon=1), episodes=5).statement)


def test_published_precision_levels_are_000_s_for_both_models():
    spec = EpisodeSpec(states=2, actions=2, horizon=3)
    statistic = TabularStatistic(spec=spec, families=("transitions", "rewards", "visits"), centred=False, pooled=False)
    K, H, beta, SAT = 64, 3, 0.1, 2 * 2 * 64 * 3
    local = LocalPrivatizer(statistic, Local(epsilon=2), episodes=K, calibration="published", noise=SimulationNoise(0))
    central = CentralPrivatizer(
        statistic, Joint(epsilon=2), episodes=K, calibration="published", counter="tree", noise=SimulationNoise(0)
    )
    for privatizer, factor in ((local, K), (central, math.log2(K) ** 3)):
        privatizer.observe([None])
        printed = 3 * H / 2 * math.sqrt(8 * factor * math.log(6 * SAT / beta))
        assert privatizer.release().errors["visits"].quantile(beta / (3 * SAT)) == pytest.approx(printed)


def test_whole_numbers_that_wrap_around_are_refused():
    """abs(−2⁶³) is negative in 64 bits, and four times 2⁶² is zero."""
    codec = local_codec(SMALL, Local(epsilon=1), randomizer="additive")
    honest = Device(codec, noise=SimulationNoise(0)).report([None])
    sums = {name: np.rint(array).astype(np.int64) for name, array in honest.sums.items()}
    sums["transitions"][0, 0] = np.iinfo(np.int64).min
    with pytest.raises(PrivatizationError, match="none that a device"):
        LocalServer(codec, episodes=5).collect(Report(1, sums))
    per_step = TabularStatistic(spec=EpisodeSpec(states=2, actions=2, horizon=5), pooled=False)
    codec = local_codec(per_step, Local(epsilon=1))
    asked = np.array([[2**62] * 4 + [1]])
    told = np.zeros((1, 5, codec.selection.symbols), dtype=np.int64)
    told[..., : codec.selection.width] = asked[..., None]
    with pytest.raises(PrivatizationError, match="none that a device"):
        LocalServer(codec, episodes=5).collect(Report(1, {"told": told, "asked": asked}))
