"""What an agent cannot do it says when it is made, in a sentence that says what to do."""

import copy
import pickle

import pytest
from subjects import SUBJECTS

from tacit import Joint, Local
from tacit.mdp.spec import EpisodeSpec, SpecError
from tacit.online import UCBPO, UCBVI, agent_from_json
from tacit.privacy import SimulationNoise, counters
from tacit.privatizers import PrivatizationError
from tacit.testing.service import Uniforms

SPEC = EpisodeSpec(states=2, actions=2, horizon=2)
PURE, APPROXIMATE, LOCAL, ALWAYS = Joint(epsilon=1), Joint(epsilon=1, delta=1e-5), Local(epsilon=1), "every-episode"


@pytest.mark.parametrize(
    ("privacy", "options", "message"),
    [
        (PURE, {"episodes": 0}, "episodes must be a whole number of at least 1; got 0"),
        (PURE, {"episodes": 2.5}, "episodes must be a whole number"),
        (PURE, {"episodes": True}, "episodes must be a whole number"),
        (PURE, {"schedule": "weekly"}, 'schedule must be "doubling" or "every-episode"; got \'weekly\''),
        (PURE, {"counter": "tree"}, 'a counter is named for schedule="every-episode"'),
        (PURE, {"calibration": "published"}, 'the published calibration is for schedule="every-episode"'),
        (
            PURE,
            {"calibration": "published", "schedule": ALWAYS, "pooled": True},
            "the published calibration counts per step",
        ),
        (PURE, {"calibration": "guessed", "schedule": ALWAYS}, 'calibration must be "exact" or "published"'),
        (PURE, {"schedule": ALWAYS, "counter": "abacus"}, "counter must be one of .*; got 'abacus'"),
        (PURE, {"schedule": ALWAYS, "counter": "blt"}, "Gaussian noise keeps no pure guarantee"),
        (PURE, {"schedule": ALWAYS, "counter": "toeplitz"}, "Gaussian noise keeps no pure guarantee"),
        (PURE, {"schedule": ALWAYS, "counter": counters.binary_tree(200)}, "200 of 100 episodes"),
        (LOCAL, {"randomizer": "two-step"}, "two-step"),
        ("private", {}, "privacy is Joint, Local or NonPrivate; got 'private'"),
        (PURE, {"confidence": 0.0}, "confidence is the probability that a bound fails"),
        (PURE, {"bonus_scale": -1.0}, "a factor of at least 0"),
        (LOCAL, {"counter": counters.doubling(8)}, "local agents need no counter"),
        (PURE, {"privacy_scale": float("inf")}, "privacy_scale is a factor of at least 0"),
    ],
)
@pytest.mark.parametrize("kind", [UCBVI, UCBPO])
def test_what_cannot_be_done_is_said_when_the_agent_is_made(kind, privacy, options, message):
    with pytest.raises((PrivatizationError, SpecError, ValueError), match=message) as told:
        kind(SPEC, privacy=privacy, **{"episodes": 100, **options})
    assert len(str(told.value)) > 20  # a sentence


def test_a_learning_rate_is_a_factor_of_at_least_zero():
    with pytest.raises(SpecError, match="eta_scale is a factor of at least 0; got -1"):
        UCBPO(SPEC, episodes=100, privacy=PURE, eta_scale=-1.0)


def test_only_local_agents_have_devices():
    agent = UCBVI(SPEC, episodes=100, privacy=PURE)
    with pytest.raises(PrivatizationError, match="only local agents have a client; here users trust the server"):
        _ = agent.client


def test_settings_do_not_change():
    agent = UCBVI(SPEC, episodes=100, privacy=PURE)
    with pytest.raises(AttributeError):
        agent.episodes = 200
    assert agent.with_settings(episodes=200).episodes == 200
    assert agent.episodes == 100


@pytest.mark.parametrize("name", SUBJECTS)
def test_all_settings_survive_json_copies_and_pickles(name):
    agent = SUBJECTS[name].agent()
    for other in (agent_from_json(agent.to_json()), copy.deepcopy(agent), pickle.loads(pickle.dumps(agent))):
        for setting in vars(agent).keys() - {"_open", "_opening"}:
            assert getattr(other, setting) == getattr(agent, setting), setting


def test_a_counter_s_design_survives_json():
    agent = UCBVI(SPEC, episodes=100, privacy=PURE, schedule=ALWAYS, counter=counters.balanced_tree(99))
    again = agent_from_json(agent.to_json())
    assert again.counter == agent.counter


def test_an_unknown_agent_is_named():
    data = UCBVI(SPEC, episodes=100, privacy=PURE).to_json()
    with pytest.raises(ValueError, match="no agent is called 'UCBXX'; import the module that defines it first"):
        agent_from_json({**data, "agent": "UCBXX"})


def test_a_scale_of_its_own_takes_the_place_of_the_bonus_scale():
    def scales(**options):
        learner = UCBVI(SPEC, episodes=100, privacy=PURE, **options).learner()
        return learner.statistical_scale, learner.privacy_scale

    assert scales(bonus_scale=1) == (1, 1)
    assert scales(bonus_scale=0.5, privacy_scale=0.0) == (0.5, 0.0)
    assert scales(statistical_scale=0.3)[0] == 0.3
    # Without any, both are below the theorem's, which teaches nothing in practice.
    assert max(scales()) < 1


def test_the_quietest_counter_is_chosen_for_the_guarantee():
    def stds(privacy):
        told = {}
        for counter in (None, "tree", "k-ary", "toeplitz", "blt"):
            try:
                agent = UCBVI(SPEC, episodes=1000, privacy=privacy, schedule=ALWAYS, counter=counter)
            except (PrivatizationError, ValueError):
                continue
            source = agent.privatizer()
            told[counter] = max(source.error("transitions", time).std for time in range(1, 1000))
        return told

    for privacy in (PURE, APPROXIMATE, Joint(rho=0.1)):
        found = stds(privacy)
        assert found.pop(None) <= 1.01 * min(found.values())
    assert set(stds(PURE)) == {None, "tree", "k-ary"}


def test_a_design_of_one_s_own_brings_its_schedule():
    design = counters.doubling(99, first=5, growth=1.5)
    agent = UCBVI(SPEC, episodes=100, privacy=PURE, counter=design)
    session = agent.session(noise=SimulationNoise(0), runs=1, uniforms=Uniforms(0))
    assert session.due == 5
    assert session.source.counter is design
    assert agent_from_json(agent.to_json()).counter == design
