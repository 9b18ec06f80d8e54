"""Data in, policies out: what training shares, whatever it trains."""

import signal

import numpy as np
import polars
import pytest

import tacit
from tacit.mdp import Streams, Trajectories, linear_random, linear_random_behaviour, riverswim
from tacit.offline import APVI, PEVI, VAPVI, Dataset, LinearPVI, Schema, dataset
from tacit.offline.samples import as_table
from tacit.privacy import Central, Joint, NonPrivate, SimulationNoise
from tacit.privatizers import CentralPrivatizer, PrivatizationError

RIVER = riverswim(states=3, horizon=6)
LINEAR = linear_random(seed=1, horizon=4)


def rolled(world=RIVER, behaviour=None, episodes=2000, runs=1, seed=0):
    H, S, A = world.spec.horizon, world.spec.states, world.spec.actions
    policy = np.full((1, H, S, A), 1.0 / A) if behaviour is None else behaviour
    return world.rollout(policy, episodes=episodes, streams=Streams(seed, runs=runs))


def seeded(runs=1):
    rng = np.random.default_rng(5)
    return lambda shape: rng.random((runs, *shape))


def value(fit, world=RIVER):
    return world.policy_values(np.stack([policy.probabilities for policy in fit.policies]))


@pytest.mark.parametrize("rewards", [None, RIVER.rewards.mean], ids=["counted", "known"])
@pytest.mark.parametrize("pooled", [True, False])
def test_exact_counts_teach_the_river_and_privacy_costs_little_at_large_epsilon(pooled, rewards):
    people = rolled(episodes=4000)
    for privacy in (NonPrivate(), Central(epsilon=1e6)):
        fit = APVI(RIVER.spec, privacy=privacy, pooled=pooled, rewards=rewards).fit(people)
        assert value(fit)[0] > 0.98 * RIVER.optimal_value
    assert fit.statement.holds
    assert fit.report().episodes == 4000


def test_known_rewards_are_not_counted():
    counted = APVI(RIVER.spec, privacy=Central(epsilon=1)).statistic
    known = APVI(RIVER.spec, privacy=Central(epsilon=1), rewards=RIVER.rewards.mean).statistic
    assert counted.families == ("transitions", "rewards")
    assert known.families == ("transitions",)
    assert known.sensitivity().l1 < counted.sensitivity().l1


def test_runs_side_by_side_are_trained_each_by_itself():
    people = rolled(runs=3, episodes=3000)
    fit = APVI(RIVER.spec, privacy=Central(epsilon=5)).fit(people, noise=SimulationNoise(1), uniforms=seeded(3))
    assert len(fit.policies) == 3
    assert (value(fit) > 0.8 * RIVER.optimal_value).all()
    with pytest.raises(ValueError, match="there are 3 runs"):
        _ = fit.policy
    assert not fit.statement.holds


def test_seeded_noise_and_chance_give_the_same_policy_from_a_file_and_from_arrays(tmp_path):
    people, trainer = rolled(episodes=500), APVI(RIVER.spec, privacy=Central(epsilon=1))
    path = tmp_path / "people.npz"
    np.savez(path, states=people.states[0], actions=people.actions[0], rewards=people.rewards[0])
    fits = [
        trainer.fit(data, noise=SimulationNoise(3), uniforms=seeded())
        for data in (people, Dataset.open(path, RIVER.spec), Dataset.from_trajectories(people, RIVER.spec))
    ]
    for fit in fits[1:]:
        np.testing.assert_array_equal(fit.policy.probabilities, fits[0].policy.probabilities)


def test_progress_is_told_batch_by_batch_and_ends_with_all():
    told = []
    data = Dataset.from_trajectories(rolled(episodes=700), RIVER.spec)
    APVI(RIVER.spec, privacy=NonPrivate()).fit(data, progress=lambda *share: told.append(share))
    assert told[-1] == (700, 700)
    assert told == sorted(told)


def test_without_people_everything_is_deferred_and_the_report_says_so():
    nobody = Trajectories(*(np.full((1, 50, length), np.nan) for length in (7, 6, 6)))
    fallback = np.tile([0.9, 0.1], (1, 3, 1))
    fit = APVI(RIVER.spec, privacy=Central(epsilon=1), fallback=fallback).fit(nobody)
    np.testing.assert_allclose(fit.policy.probabilities, np.broadcast_to(fallback, (6, 3, 2)))
    assert fit.report().deferred == pytest.approx(1.0)
    assert "The fallback is followed in 100%" in str(fit.report())


def test_a_data_set_of_another_world_is_refused():
    data = Dataset.from_trajectories(rolled(), Schema(spec=RIVER.spec))
    with pytest.raises(ValueError, match="training was set up for"):
        APVI(riverswim(states=4, horizon=6).spec, privacy=NonPrivate()).fit(data)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"privacy": Joint(epsilon=1)}, "offline training keeps Central guarantees"),
        ({"privacy": Central(epsilon=1), "rule": "theorem", "pooled": True}, "counts per step"),
        ({"privacy": Central(epsilon=1), "rule": "best"}, "rule must be one of"),
    ],
)
def test_what_cannot_be_trained_is_said_at_once(options, message):
    with pytest.raises((PrivatizationError, ValueError), match=message):
        APVI(RIVER.spec, **options)


@pytest.mark.parametrize("kind", [LinearPVI, VAPVI, PEVI])
def test_linear_trainers_learn_and_say_what_they_spend(kind):
    people = rolled(LINEAR.tabular(), linear_random_behaviour(horizon=4), episodes=3000)
    exact = kind(LINEAR.spec, features=LINEAR.phi / LINEAR.feature_norm, privacy=NonPrivate()).fit(people)
    world = LINEAR.tabular()
    acting = world.policy_values(linear_random_behaviour(horizon=4))[0]
    assert value(exact, world)[0] > acting + 0.5 * (world.optimal_value - acting)
    private = kind(LINEAR.spec, features=LINEAR.phi / LINEAR.feature_norm, privacy=Central(rho=1)).fit(people)
    assert private.statement.holds
    assert private.statement.committed.rho <= 1.0
    assert private.report().episodes == 3000
    assert private.report().noise_std is None


def test_the_default_rule_for_linear_worlds_beats_acting_as_people_did_under_a_guarantee():
    people = rolled(LINEAR.tabular(), linear_random_behaviour(horizon=4), episodes=5000)
    fit = LinearPVI(LINEAR.spec, features=LINEAR.phi, privacy=Central(rho=1)).fit(
        people, noise=SimulationNoise(0), uniforms=seeded()
    )
    world = LINEAR.tabular()
    acting = world.policy_values(linear_random_behaviour(horizon=4))[0]
    assert value(fit, world)[0] > acting + 0.8 * (world.optimal_value - acting)


def test_names_of_the_room_are_there():
    assert tacit.offline.APVI is APVI
    assert set(tacit.offline.__all__) <= set(dir(tacit.offline))


# ---------------------------------------------------------------------------------------------- places and checkpoints


def test_halves_of_a_data_set_are_refused_since_one_person_can_move_all_others():
    people = rolled(LINEAR.tabular(), linear_random_behaviour(horizon=4), episodes=100)
    trainer = VAPVI(LINEAR.spec, features=LINEAR.phi, privacy=Central(rho=1), options={"split": True})
    with pytest.raises(PrivatizationError, match="halves are told by place"):
        trainer.fit(Dataset.from_trajectories(people, LINEAR.spec))
    assert trainer.fit(people).statement.holds


def interrupted(trainer, data, path, **options):
    """Train, and press Ctrl-C after the first batch."""

    def pressed(done, total):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        trainer.fit(data, checkpoint=path, progress=pressed, **options)
    assert path.exists()


@pytest.fixture
def table(tmp_path, monkeypatch):
    """A file that is read in several batches."""
    path = tmp_path / "people.parquet"
    as_table(rolled(episodes=900)).write_parquet(path)
    monkeypatch.setattr(dataset, "_STEPS_AT_A_TIME", 6 * 200)
    return path


def test_a_checkpoint_goes_on_to_the_same_policy_and_is_gone(table, tmp_path):
    trainer, state = APVI(RIVER.spec, privacy=Central(epsilon=1)), tmp_path / "state"
    whole = trainer.fit(Dataset.open(table, RIVER.spec), noise=SimulationNoise(2), uniforms=seeded())
    interrupted(trainer, Dataset.open(table, RIVER.spec), state, noise=SimulationNoise(2))
    data = Dataset.open(table, RIVER.spec)
    fit = trainer.fit(data, noise=SimulationNoise(2), uniforms=seeded(), checkpoint=state)
    np.testing.assert_array_equal(fit.release.transitions, whole.release.transitions)
    assert fit.statement == whole.statement
    assert not state.exists()


def test_a_checkpoint_refuses_data_that_have_changed_or_are_read_otherwise(table, tmp_path):
    """It would count some people twice, and nobody would see it."""
    trainer, state = APVI(RIVER.spec, privacy=Central(epsilon=1)), tmp_path / "state"
    interrupted(trainer, Dataset.open(table, RIVER.spec), state)
    frame = polars.read_parquet(table)
    with pytest.raises(PrivatizationError, match="or these before they changed"):
        trainer.fit(Dataset.open(table, RIVER.spec, rows_at_a_time=1000), checkpoint=state)
    polars.concat([frame, frame.tail(6).with_columns(episode=polars.lit(10**6, polars.Int64))]).write_parquet(table)
    with pytest.raises(PrivatizationError, match="or these before they changed"):
        trainer.fit(Dataset.open(table, RIVER.spec), checkpoint=state)
    assert state.exists()
    with pytest.raises(PrivatizationError, match="needs data in files"):
        trainer.fit(Dataset.from_frame(frame, RIVER.spec), checkpoint=tmp_path / "other")


def test_a_checkpoint_of_simulated_noise_is_not_gone_on_from_with_secure_noise(table, tmp_path):
    trainer, state = APVI(RIVER.spec, privacy=Central(epsilon=1)), tmp_path / "state"
    interrupted(trainer, Dataset.open(table, RIVER.spec), state, noise=SimulationNoise(2))
    with pytest.raises(PrivatizationError, match="is of another training"):
        trainer.fit(Dataset.open(table, RIVER.spec), checkpoint=state)
    assert state.exists()


def test_ctrl_c_in_mid_batch_waits_until_the_batch_is_in(table, tmp_path, monkeypatch):
    observe = CentralPrivatizer.observe

    def pressed(self, episodes):
        signal.raise_signal(signal.SIGINT)
        observe(self, episodes)

    trainer, state = APVI(RIVER.spec, privacy=Central(epsilon=1)), tmp_path / "state"
    with monkeypatch.context() as patched:
        patched.setattr(CentralPrivatizer, "observe", pressed)
        with pytest.raises(KeyboardInterrupt):
            trainer.fit(Dataset.open(table, RIVER.spec), checkpoint=state)
    fit = trainer.fit(Dataset.open(table, RIVER.spec), checkpoint=state)
    assert fit.statement.users == 900
