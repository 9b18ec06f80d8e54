"""Off-policy estimates: exact where everybody came as often as she should, covering the truth where chance decides."""

import itertools
import math
import warnings

import numpy as np
import pytest

import tacit
from tacit.mdp import Streams, Trajectories, random_mdp
from tacit.mdp.spec import EpisodeSpec, MomentBound, SpecError
from tacit.offline.evaluation import METHODS, _estimator, _Log, evaluate
from tacit.offline.policy import OfflinePolicy
from tacit.privacy import Central, Joint, SecureNoise, SimulationNoise
from tacit.privatizers import PrivatizationError
from tacit.testing import all_trajectories

WORLD = random_mdp(states=2, actions=2, horizon=3, seed=4, stationary=False)
SPEC = WORLD.spec
RNG = np.random.default_rng(7)
TARGET = RNG.dirichlet(np.ones(2), (3, 2))
BEHAVIOUR = 0.25 + 0.5 * RNG.dirichlet(np.ones(2), (3, 2))
TRUTH = float(WORLD.policy_values(TARGET[None])[0])


def rolled(episodes, seed, behaviour=BEHAVIOUR, world=WORLD):
    return world.rollout(behaviour[None], episodes=episodes, streams=Streams(seed, runs=1))


def everybody():
    """Every trajectory with the mean rewards, and its probability under the behaviour policy."""
    log, chances = [], []
    for states, actions, _ in all_trajectories(SPEC, rewards=(0.0,)):
        chance = WORLD.start[states[0]]
        for h, (s, a, then) in enumerate(zip(states, actions, states[1:], strict=False)):
            chance *= BEHAVIOUR[h, s, a] * WORLD.kernel[h, s, a, then]
        rewards = [WORLD.rewards.mean[h, s, a] for h, (s, a) in enumerate(zip(states, actions, strict=False))]
        log.append((states, actions, rewards))
        chances.append(chance)
    assert sum(chances) == pytest.approx(1.0)
    return _Log(*(np.array(column) for column in zip(*log, strict=True))), np.array(chances)


@pytest.mark.parametrize("method", ["is", "wis", "pdis", "wpdis", "fqe"])
def test_on_the_whole_population_every_estimate_is_the_value(method):
    log, chances = everybody()
    ratios = log.ratios(TARGET, BEHAVIOUR)
    found = _estimator(method, log, ratios, TARGET, SPEC, 0.0)(chances)
    assert found == pytest.approx(TRUTH, rel=1e-12)


@pytest.mark.parametrize("method", METHODS)
def test_intervals_cover_the_value_about_as_often_as_they_say(method):
    covered = 0
    for seed in range(60):
        found = evaluate(TARGET, rolled(300, seed), spec=SPEC, method=method, behaviour=BEHAVIOUR, resamples=100)
        assert found.low <= found.value <= found.high
        covered += found.low <= TRUTH <= found.high
    assert covered >= 50  # of 60 at 95 %: fewer than 1e-4 for 90 % already


def test_doubly_robust_estimates_vary_less_than_those_by_weights_alone():
    def spread(method):
        found = [
            evaluate(TARGET, rolled(200, seed), spec=SPEC, method=method, behaviour=BEHAVIOUR, resamples=1).value
            for seed in range(80)
        ]
        assert np.mean(found) == pytest.approx(TRUTH, abs=5 * np.std(found) / math.sqrt(80))
        return np.std(found)

    assert spread("dr") < spread("pdis") < spread("is")


def test_a_behaviour_that_is_not_declared_is_estimated_and_named():
    found = evaluate(TARGET, rolled(3000, 1), spec=SPEC)
    assert "estimated from the same data" in found.note
    assert found.value == pytest.approx(TRUTH, abs=0.1)
    assert "NOT PRIVATE" in str(found)


def test_whoever_cannot_be_read_is_left_out():
    people = rolled(500, 2)
    broken = Trajectories(people.states.copy(), people.actions, people.rewards)
    broken.states[0, :100, 0] = 9
    kept = Trajectories(*(column[:, 100:] for column in people))
    one, other = (evaluate(TARGET, data, spec=SPEC, behaviour=BEHAVIOUR) for data in (broken, kept))
    assert one == other
    assert one.episodes == 400


def test_batches_are_as_good_as_one():
    people = rolled(400, 3)
    parts = [Trajectories(*(column[:, k : k + 150] for column in people)) for k in (0, 150, 300)]
    assert evaluate(TARGET, iter(parts), spec=SPEC) == evaluate(TARGET, people, spec=SPEC)


def test_values_are_in_the_units_of_the_rewards():
    spec = EpisodeSpec(states=1, actions=1, horizon=2, rewards=(-10.0, 30.0))
    people = Trajectories(np.zeros((1, 5, 3)), np.zeros((1, 5, 2)), np.full((1, 5, 2), 25.0))
    for method in METHODS:
        assert evaluate(np.zeros((2, 1), int), people, spec=spec, method=method).value == pytest.approx(50.0)


def test_a_policy_too_far_from_what_people_did_is_told():
    world = tacit.mdp.riverswim(states=3, horizon=12)
    at_random = np.full((12, 3, 2), 0.5)
    found = evaluate(
        np.ones((12, 3), int), rolled(300, 0, at_random, world), spec=world.spec, behaviour=at_random, method="is"
    )
    assert "too far from what people did" in found.note


def test_what_cannot_be_is_said():
    people = rolled(20, 0)
    with pytest.raises(ValueError, match="method is one of"):
        evaluate(TARGET, people, spec=SPEC, method="best")
    with pytest.raises(ValueError, match="declared behaviour policy never does"):
        evaluate(TARGET, people, spec=SPEC, behaviour=np.zeros((3, 2), int))
    with pytest.raises(ValueError, match="no readable episode"):
        evaluate(TARGET, Trajectories(*(np.full_like(c, np.nan, dtype=float) for c in people)), spec=SPEC)
    with pytest.raises(ValueError, match="level is in"):
        evaluate(TARGET, people, spec=SPEC, level=1.0)
    with pytest.raises(ValueError, match="one run's"):
        evaluate(TARGET, WORLD.rollout(BEHAVIOUR[None], episodes=2, streams=Streams(0, 2)), spec=SPEC)
    unbounded = EpisodeSpec(states=2, actions=2, horizon=3, rewards=MomentBound(order=1.5, bound=2.0, mean=1.0))
    with pytest.raises(SpecError, match="declared range"):
        evaluate(TARGET, people, spec=unbounded)


# ---------------------------------------------------------------------------------------------- under a guarantee


def private(people, privacy=None, noise=None, **options):
    return evaluate(
        TARGET,
        people,
        spec=SPEC,
        method="pdis",
        behaviour=BEHAVIOUR,
        privacy=privacy or Central(epsilon=1),
        noise=noise,
        **options,
    )


def test_a_private_estimate_says_what_it_spends_and_covers_the_value():
    found = private(rolled(4000, 5), clip=20.0)
    assert found.private
    assert found.statement.holds
    assert str(found.statement).startswith("Guaranteed: ε = 1 differential privacy (pure).")
    assert found.low < TRUTH < found.high
    assert "NOT PRIVATE" not in str(found)
    simulated = private(rolled(4000, 5), noise=SimulationNoise(0))
    assert not simulated.private
    assert "NOT PRIVATE" in str(simulated)


def test_its_noise_is_calibrated_for_what_one_episode_moves():
    """All pairs of trajectories of the tiny world, rewards at both ends: the sum moves by the stated L1 at most."""
    clip = 2.0
    sums = []
    for person in [*itertools.islice(all_trajectories(SPEC), 0, None, 7), None]:
        columns = [np.full((1, 1, length), np.nan) for length in (4, 3, 3)]
        if person is not None:
            for column, values in zip(columns, person, strict=True):
                column[0, 0] = values
        found = private(Trajectories(*columns), noise=Silent(), clip=clip)
        sums.append(found.value)
    worst = max(sums) - min(sums)
    stated = found.statement.calibrations["one mean"].sensitivity.l1
    assert worst <= stated
    assert worst >= 0.99 * clip


class Silent(SimulationNoise):
    def __init__(self):
        super().__init__(0)

    def laplace(self, *, scale, runs, size, terms=1):
        return np.zeros((runs, size))


def test_nothing_that_people_send_is_heard_in_a_private_estimate():
    people = rolled(10, 0)
    strange = Trajectories(people.states.astype(object), people.actions.astype(object), people.rewards.astype(object))
    strange.states[0, 0, 0], strange.actions[0, 1, 0], strange.rewards[0, 2, 0] = "x", None, math.nan
    never = np.zeros((3, 2), int)  # people do what the declared behaviour never does: nobody is told
    assert private(strange).episodes == 10
    found = evaluate(TARGET, people, spec=SPEC, method="pdis", behaviour=never, privacy=Central(epsilon=1))
    assert found.private


def test_private_estimates_ask_for_what_they_need():
    people = rolled(10, 0)
    with pytest.raises(ValueError, match="needs the behaviour policy declared"):
        evaluate(TARGET, people, spec=SPEC, privacy=Central(epsilon=1))
    with pytest.raises(ValueError, match='is made by "pdis"'):
        evaluate(TARGET, people, spec=SPEC, method="fqe", behaviour=BEHAVIOUR, privacy=Central(epsilon=1))
    with pytest.raises(ValueError, match="clip is positive"):
        private(people, clip=0.0)
    assert private(people, noise=SecureNoise()).statement.users == 10


def test_a_user_with_several_places_is_hidden_whole():
    people = rolled(400, 5)
    found = private(people, Central(epsilon=1, unit="user"), clip=2.0, episodes_per_user=4)
    alone = private(people, clip=2.0)
    (calibration,), (other,) = (one.statement.calibrations.values() for one in (found, alone))
    assert calibration.scale == pytest.approx(4 * other.scale)
    assert found.high - found.low > 1.9 * (alone.high - alone.low)
    with pytest.raises(PrivatizationError, match="one episode, not one 'user'"):
        private(people, Central(epsilon=1, unit="user"))


@pytest.mark.parametrize("privacy", [Joint(epsilon=1), 1.0])
def test_another_guarantee_is_refused_and_never_an_exact_estimate(privacy):
    with pytest.raises(PrivatizationError, match="keeps a Central guarantee"):
        private(rolled(5, 0), privacy)


def test_tiny_declared_chances_make_no_sound():
    people = rolled(50, 0)
    tiny = np.tile([1e-310, 1.0], (3, 2, 1))
    with warnings.catch_warnings(), np.errstate(all="raise"):
        warnings.simplefilter("error")
        evaluate(TARGET, people, spec=SPEC, method="pdis", behaviour=tiny, privacy=Central(epsilon=1))


def test_a_policy_of_another_world_is_refused():
    other = OfflinePolicy(EpisodeSpec(states=3, actions=2, horizon=3), np.zeros((3, 3), int))
    with pytest.raises(ValueError, match="the policy is for"):
        evaluate(other, rolled(5, 0), spec=SPEC)
