"""The central privatizer beyond conformance: schedules, calibrations, secure noise, and edge cases."""

import copy
import itertools
import math
import pickle

import numpy as np
import pytest

import tacit.mdp as mdp
from tacit.mdp.spec import EpisodeSpec
from tacit.privacy import (
    Central,
    GuaranteeError,
    Joint,
    Local,
    NonPrivate,
    SecureNoise,
    SimulationNoise,
    counters,
)
from tacit.privatizers import COUNTERS, BudgetExhausted, CentralPrivatizer, PrivatizationError, VaultError
from tacit.statistics import GramStatistic, Regressors, TabularStatistic, exact
from tacit.testing import all_trajectories

SPEC = EpisodeSpec(states=6, actions=2, horizon=20)
POOLED = TabularStatistic(spec=SPEC)
THREE = TabularStatistic(spec=SPEC, families=("transitions", "rewards", "visits"), centred=False, pooled=False)


def scale_of(privatizer):
    (calibration,) = privatizer.calibrations.values()
    return calibration.scale


def test_the_scales_are_those_of_algorithms():
    """§2 at K = 20,000, H = 20, ε = 1: b = 6HL/ε for three families, 3HL/ε and 3H/ε for two with centred rewards."""
    assert scale_of(CentralPrivatizer(THREE, Joint(epsilon=1), episodes=20_000, counter="tree")) == pytest.approx(1800)
    assert scale_of(CentralPrivatizer(POOLED, Joint(epsilon=1), episodes=20_000, counter="tree")) == pytest.approx(900)
    assert scale_of(CentralPrivatizer(POOLED, Joint(epsilon=1), episodes=20_000)) == pytest.approx(60)
    assert scale_of(CentralPrivatizer(POOLED, Central(epsilon=2), episodes=9, counter="once")) == pytest.approx(30)


@pytest.mark.parametrize(("epsilon", "really"), [(1.0, 2.0997), (0.5, 1.04985)])
def test_published_constants_spend_what_algorithms_says(epsilon, really):
    privatizer = CentralPrivatizer(
        THREE, Joint(epsilon=epsilon), episodes=20_000, counter="tree", calibration="published"
    )
    assert privatizer.statement.committed.epsilon == pytest.approx(really, abs=1e-4)
    assert not privatizer.statement.holds
    headline = str(privatizer.statement).splitlines()[0]
    assert headline.startswith(f"NOT KEPT: ε = {epsilon:g} ")
    assert f"this noise gives ε = {really:.3g}" in headline


def test_published_constants_of_004_are_larger_than_they_need_be():
    """§7: 3.7 times, at K = 1e4, H = 5, (1, 1e-5)."""
    statistic = GramStatistic(dimension=8, steps=5)
    guarantee = Joint(epsilon=1, delta=1e-5)
    published = CentralPrivatizer(statistic, guarantee, episodes=10_000, counter="tree", calibration="published")
    scale = published.calibrations["gram"].scale
    assert published.calibrations["vector"].scale == pytest.approx(math.sqrt(2) * scale)  # of √2·Σ φ y
    assert scale == pytest.approx(5 * math.sqrt(32 * 14 * math.log(4 * 5 / 1e-5)))
    assert published.statement.committed.epsilon_at(1e-5) < 1
    # two such statistics (transitions and rewards) make the four families that the paper composes: 12HL
    exact_continuous = math.sqrt(12 * 5 * 14) / 0.26805
    assert scale / exact_continuous == pytest.approx(3.73, abs=0.01)


@pytest.mark.parametrize(
    ("statistic", "guarantee", "settings", "message"),
    [
        (POOLED, Joint(epsilon=1), {"calibration": "published", "counter": "tree"}, "three|per step"),
        (THREE, Joint(epsilon=1), {"calibration": "published"}, 'counter="tree"'),
        (THREE, Joint(epsilon=1, delta=1e-6), {"calibration": "published", "counter": "tree"}, "pure guarantee"),
        (
            GramStatistic(dimension=2),
            Joint(epsilon=1),
            {"calibration": "published", "counter": "tree"},
            "epsilon, delta",
        ),
        (POOLED, Joint(epsilon=1), {"calibration": "tuned"}, '"exact" or "published"'),
        (POOLED, Joint(epsilon=1), {"counter": "abacus"}, "counter must be one of"),
        (POOLED, Local(epsilon=1), {}, "keeps Central or Joint"),
        (POOLED, Joint(epsilon=1), {"episodes": 0}, "at least 1"),
        (POOLED, Joint(epsilon=1), {"runs": 0}, "at least 1"),
        (POOLED, Joint(epsilon=1), {"counter": counters.binary_tree(10_000)}, "10000 of 1000"),
    ],
)
def test_a_callers_mistake_is_told_at_once(statistic, guarantee, settings, message):
    with pytest.raises(PrivatizationError, match=message):
        CentralPrivatizer(statistic, guarantee, **{"episodes": 1000, **settings})


def test_gaussian_counters_do_not_keep_pure_guarantees():
    for counter in ("toeplitz", "blt"):
        with pytest.raises(GuaranteeError, match="keeps no pure guarantee"):
            CentralPrivatizer(POOLED, Joint(epsilon=1), episodes=100, counter=counter)


def test_auto_takes_the_quieter_mechanism():
    """Pooled: pure Laplace beats the worst-case Gaussian; per step: the Gaussian wins (ALGORITHMS §8)."""
    guarantee = Joint(epsilon=1, delta=1e-6)
    for statistic, mechanism in ((POOLED, "laplace"), (TabularStatistic(spec=SPEC, pooled=False), "gaussian")):
        stds = {
            law: CentralPrivatizer(statistic, guarantee, episodes=1000, mechanism=law).error("transitions", 999).std
            for law in ("laplace", "gaussian", "auto")
        }
        assert stds["auto"] == min(stds.values()) == stds[mechanism]


@pytest.mark.parametrize("counter", COUNTERS)
def test_batches_and_single_episodes_give_the_same_releases(counter):
    world = mdp.riverswim(states=3, horizon=4)
    statistic = TabularStatistic(spec=world.spec)
    people = world.rollout(np.zeros((2, 4, 3), dtype=int), episodes=90, streams=mdp.Streams(0, runs=2))
    releases = []
    for sizes in ([90], [1] * 90, [13, 27, 50]):
        noise = SimulationNoise(4)
        privatizer = CentralPrivatizer(
            statistic, Joint(epsilon=1, delta=1e-5), episodes=90, counter=counter, noise=noise, runs=2
        )
        for first, last in itertools.pairwise(np.cumsum([0, *sizes])):
            privatizer.observe(mdp.Trajectories(*(column[:, first:last] for column in people)))
        release = privatizer.release()
        releases.append(np.concatenate([release.transitions.ravel(), release.rewards.ravel()]))
        assert release.episodes == {"doubling": 80, "once": 90}.get(counter, 89)
    # one pass over the families or ninety: the same draws, in the order of the schedule
    for release in releases[1:]:
        np.testing.assert_allclose(release, releases[0], atol=1e-9)


def test_the_first_release_is_empty_exact_and_free():
    privatizer = CentralPrivatizer(POOLED, Joint(epsilon=1), episodes=1000)
    release = privatizer.release()
    assert release.episodes == 0
    assert not release.transitions.any()
    assert release.errors["transitions"].std == 0
    assert privatizer.statement.spent.rho == 0


def test_secure_noise_is_on_the_lattice_and_of_the_declared_size():
    statistic = TabularStatistic(spec=SPEC)
    privatizer = CentralPrivatizer(statistic, Central(epsilon=1), episodes=1, counter="once")
    privatizer.observe([([0] * 21, [0] * 20, [0.3] * 20)])
    release = privatizer.release()
    assert isinstance(privatizer.noise, SecureNoise)
    np.testing.assert_array_equal(release.transitions, np.rint(release.transitions))
    np.testing.assert_array_equal(release.rewards * 1024, np.rint(release.rewards * 1024))
    # 72 + 12 Laplace variables of scale 60: the mean of |z| has standard deviation 60/√84; false alarm below 1e-9
    sizes = np.abs(np.concatenate([release.transitions.ravel(), release.rewards.ravel()]))
    assert abs(sizes.mean() - 60) < 6.5 * 60 / math.sqrt(84) + 20 / 84


@pytest.mark.parametrize("counter", ["blt", "toeplitz", "tree", "doubling"])
def test_secure_gaussian_streams_run_and_restart(counter, tmp_path):
    spec = EpisodeSpec(states=2, actions=1, horizon=2)
    statistic = TabularStatistic(spec=spec, pooled=False)
    guarantee = Joint(epsilon=1, delta=1e-5)
    privatizer = CentralPrivatizer(statistic, guarantee, episodes=60, counter=counter, mechanism="gaussian")
    for _ in range(30):
        privatizer.observe([([0, 1, 0], [0, 0], [1.0, 0.0])])
    before = privatizer.release()
    privatizer.save(tmp_path / "state")
    loaded = CentralPrivatizer.load(tmp_path / "state")
    np.testing.assert_array_equal(loaded.release().transitions, before.transitions)
    loaded.observe([None] * 30)
    assert loaded.statement.holds
    release = loaded.release()
    assert (
        abs(release.transitions - 30 * np.eye(2)[[1, 0]][:, None]).max() < 60 + 12 * release.errors["transitions"].std
    )


@pytest.mark.parametrize(("states", "actions", "horizon", "episodes"), list(itertools.product((1, 2), repeat=4)))
def test_the_smallest_worlds(states, actions, horizon, episodes):
    spec = EpisodeSpec(states=states, actions=actions, horizon=horizon)
    for counter in COUNTERS:
        privatizer = CentralPrivatizer(
            TabularStatistic(spec=spec),
            Joint(epsilon=1, delta=1e-5),
            episodes=episodes,
            counter=counter,
            noise=SimulationNoise(0),
        )
        privatizer.observe([([0] * (horizon + 1), [0] * horizon, [1.0] * horizon)] * episodes)
        assert np.isfinite(privatizer.release().transitions).all()
        assert privatizer.until_release() is None
        with pytest.raises(BudgetExhausted):
            privatizer.observe([None])


@pytest.mark.parametrize("episodes", [1, 2, 3, 63, 64, 65, 100, 127, 128])
@pytest.mark.parametrize("counter", ["tree", "k-ary", "doubling"])
def test_a_number_of_episodes_that_is_no_power_of_two(counter, episodes):
    spec = EpisodeSpec(states=1, actions=2, horizon=1)
    privatizer = CentralPrivatizer(TabularStatistic(spec=spec), NonPrivate(), episodes=episodes, counter=counter)
    for k in range(1, episodes + 1):
        due = privatizer.until_release()
        privatizer.observe([([0, 0], [k % 2], [1.0])])
        release = privatizer.release()
        assert release.transitions.sum() == pytest.approx(release.episodes)
        assert due != 1 or release.episodes == k
    expected = (
        episodes - 1 if counter != "doubling" else max([0, *(40 * 2**i for i in range(3) if 40 * 2**i < episodes)])
    )
    if episodes > 40 or counter != "doubling":
        assert release.episodes == max(expected, 1)


def test_runs_must_be_as_many_as_declared():
    privatizer = CentralPrivatizer(POOLED, Joint(epsilon=1), episodes=10, noise=SimulationNoise(0), runs=3)
    with pytest.raises(PrivatizationError, match="3 runs were declared"):
        privatizer.observe([None])


def test_without_privacy_everything_is_exact_and_said_so():
    world = mdp.riverswim(states=4, horizon=5)
    privatizer = CentralPrivatizer(TabularStatistic(spec=world.spec), NonPrivate(), episodes=100)
    people = world.rollout(np.ones((1, 5, 4), dtype=int), episodes=100, streams=mdp.Streams(1, runs=1))
    privatizer.observe(people)
    release = privatizer.release()
    literal = np.zeros((4, 2, 4))
    for states, actions in zip(people.states[0, :80], people.actions[0, :80], strict=True):
        for h in range(5):
            literal[states[h], actions[h], states[h + 1]] += 1
    np.testing.assert_array_equal(release.transitions[0, 0], literal)
    assert str(privatizer.statement).startswith("No privacy")
    assert not privatizer.statement.holds


def test_regressions_are_released_as_matrices_that_converge():
    statistic = GramStatistic(dimension=2, steps=1)
    rng = np.random.default_rng(0)
    features = rng.normal(size=(1, 20_000, 1, 2))
    features /= np.linalg.norm(features, axis=-1, keepdims=True)
    theta = np.array([0.6, -0.3])
    privatizer = CentralPrivatizer(
        statistic, Central(rho=0.5), episodes=20_000, counter="once", noise=SimulationNoise(1)
    )
    privatizer.observe(Regressors(features, features @ theta))
    release = privatizer.release()
    np.testing.assert_allclose(np.linalg.solve(release.gram[0, 0], release.vector[0, 0]), theta, atol=0.01)


def test_a_privatizer_has_one_future(tmp_path):
    """Two copies that go on release the same noise under different data."""
    for duplicate in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(PrivatizationError, match="cannot be copied"):
            duplicate(CentralPrivatizer(POOLED, Joint(epsilon=1), episodes=10, noise=SimulationNoise(0)))
    privatizer = CentralPrivatizer(POOLED, Joint(epsilon=1), episodes=10, noise=SimulationNoise(0))
    (tmp_path / "there").touch()
    with pytest.raises(VaultError, match="never overwritten"):
        privatizer.save(tmp_path / "there")
    privatizer.observe([None])  # nothing was written, so it may go on
    state = privatizer.state()
    later = CentralPrivatizer.from_state(*state)
    assert later.users == 1
    with pytest.raises(PrivatizationError, match="gone on already"):
        CentralPrivatizer.from_state(*state)
    for action in (lambda: privatizer.observe([None]), privatizer.state, lambda: privatizer.save(tmp_path / "x")):
        with pytest.raises(PrivatizationError, match="was saved"):
            action()


def test_numpy_s_integers_are_saved_too(tmp_path):
    privatizer = CentralPrivatizer(POOLED, Joint(epsilon=1), episodes=np.int64(10), runs=np.int32(1))
    privatizer.statement.to_json()
    privatizer.save(tmp_path / "state")
    assert CentralPrivatizer.load(tmp_path / "state").episodes == 10


def test_sums_that_would_not_fit_64_bits_are_refused():
    statistic = TabularStatistic(spec=SPEC, reward_unit=2.0**-37)
    with pytest.raises(PrivatizationError, match="64 bits"):
        CentralPrivatizer(statistic, NonPrivate(), episodes=10**7)


def test_an_interruption_in_the_midst_of_a_batch_is_final(monkeypatch):
    """Some families have counted these people and some have not: whoever tried again would count them twice."""
    privatizer = CentralPrivatizer(POOLED, Joint(epsilon=1), episodes=10, noise=SimulationNoise(0))

    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(privatizer._streams["rewards"], "add", interrupted)
    with pytest.raises(KeyboardInterrupt):
        privatizer.observe([None])
    with pytest.raises(PrivatizationError, match="interrupted in mid-batch"):
        privatizer.observe([None])


# ---------------------------------------------------------------------------------------------- users with several


def test_a_user_with_several_episodes_is_hidden_whole():
    """All pairs of pairs of episodes of a tiny world: replacing both of a user's moves L1 and L2 as declared."""
    spec = EpisodeSpec(states=2, actions=2, horizon=1)
    statistic = TabularStatistic(spec=spec)
    guarantee = Central(epsilon=1, unit="user")
    privatizer = CentralPrivatizer(statistic, guarantee, episodes=10, counter="once", episodes_per_user=2)
    (calibration,) = privatizer.calibrations.values()
    assert calibration.sensitivity == statistic.sensitivity().times(2)
    everybody = [*all_trajectories(spec), None]
    sums = []
    for pair in itertools.combinations_with_replacement(everybody, 2):
        told = exact(statistic, statistic.read(list(pair)))
        sums.append(np.concatenate([told[f][0] * statistic.unit(f) for f in statistic.families]))
    moved = np.abs(np.array(sums)[:, None] - np.array(sums)[None])
    assert moved.sum(axis=-1).max() == pytest.approx(calibration.sensitivity.l1)
    assert (moved**2).sum(axis=-1).max() <= calibration.sensitivity.l2_squared
    told = str(privatizer.statement)
    assert "Unit: one user." in told
    assert "A user has 2 of the episodes at most; the noise hides all of them." in told
    assert "Somebody with m" not in told
    assert "0 of 10 episodes taken in" in told


def test_users_with_several_episodes_survive_a_restart(tmp_path):
    statistic, guarantee = (
        TabularStatistic(spec=EpisodeSpec(states=2, actions=2, horizon=2)),
        Central(epsilon=1, unit="user"),
    )
    privatizer = CentralPrivatizer(statistic, guarantee, episodes=10, counter="once", episodes_per_user=3)
    told = str(privatizer.statement)
    privatizer.save(tmp_path / "state.npz")
    assert str(CentralPrivatizer.load(tmp_path / "state.npz").statement) == told


@pytest.mark.parametrize(
    ("unit", "options", "message"),
    [
        ("user", {}, "the unit is one episode, not one 'user'"),
        ("episode", {"episodes_per_user": 2}, "the guarantee's unit is a user, not one 'episode'"),
        ("user", {"episodes_per_user": 0}, "at least 1; got 0"),
        ("user", {"episodes_per_user": 2, "counter": "doubling"}, "one exactly calibrated release"),
    ],
)
def test_units_that_nothing_is_calibrated_for_are_refused(unit, options, message):
    statistic = TabularStatistic(spec=EpisodeSpec(states=2, actions=2, horizon=2))
    with pytest.raises(PrivatizationError, match=message):
        CentralPrivatizer(statistic, Central(epsilon=1, unit=unit), episodes=10, **{"counter": "once", **options})
