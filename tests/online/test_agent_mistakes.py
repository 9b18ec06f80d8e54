"""Agents with mistakes, done on purpose: `check_agent` must catch each, and say what is wrong."""

import leaking
import mistaken
import pytest
from subjects import APPROXIMATE, LOCAL, PURE, subject

from tacit import NonPrivate
from tacit.online import UCBVI
from tacit.testing import ConformanceError, check_agent
from tacit.testing.agents import AGENT_CHECKS

NONE = NonPrivate()

MISTAKES = [
    ("TooManyActions", "policy", PURE, "takes actions that there are not"),
    ("NotNormalised", "policy", PURE, "a policy's chances are none"),
    ("FirstOfTies", "relabelling", NONE, "make another policy after 0 releases"),
    ("FirstOfTies", "relabelling", LOCAL, "preferred for its number"),
    ("StateZeroIsSpecial", "relabelling", PURE, "make another policy"),
    ("StateZeroIsSpecial", "relabelling", LOCAL, "preferred for its number"),
    ("OneChanceForAll", "runs", PURE, "run 2 depends on those beside it"),
    ("NeverWithoutNoise", "infinite epsilon", PURE, "at ε = ∞ policies are not those without privacy"),
    ("LeastNoise", "infinite epsilon", PURE, "at ε = 10⁹ the policy after 1 releases is off by 1"),
    ("DeafDevices", "infinite epsilon", LOCAL, "at ε = 40 what pays is done in"),
    ("OneMore", "budget", PURE, "user 2 of 1 was let in"),
    ("OneMore", "budget", LOCAL, "user 2 of 1 was let in"),
    ("NoiseDrawnAnew", "restart", PURE, "a restart at user .* changed a release"),
    ("NoiseDrawnAnew", "restart", APPROXIMATE, "a restart at user .* changed a release"),
    ("PlansAnew", "restart", LOCAL, "a restart at user .* changed a policy"),
    ("ForgetsWhoIsBack", "restart", PURE, "a restart at user .* changed a"),
    ("ForgetsWhoIsBack", "restart", LOCAL, "a restart at user .* changed a"),
    ("ForgetsItsTickets", "restart", PURE, "this ticket was not issued here"),
    ("Immortal", "restart", PURE, "a saved agent let somebody in"),
    ("OnlyWhoComesBack", "schedule", PURE, "tickets or releases come otherwise"),
    ("AnotherPolicyForEverybody", "schedule", PURE, "the policy changed without a release"),
    ("Strict", "silence", PURE, "people who are malformed can be heard: ValueError: rewards must be numbers"),
    ("Warning_", "silence", LOCAL, "people who are malformed can be heard: an episode is missing"),
    ("Logging", "silence", NONE, "people who are as it should be can be heard: user 0 sent tuple"),
    ("Printing", "silence", PURE, "people who are malformed can be heard: what is this?"),
    ("Latecomers", "absence", PURE, "people who are late, not absent, changed a"),
    ("Latecomers", "absence", LOCAL, "people who are late, not absent, changed a"),
    ("Twice", "absence", PURE, "people who are here twice, not absent, changed a"),
    ("OvertakenIsMissed", "absence", PURE, "the order in which people come back changes a release"),
    ("Peeking", "releases only", PURE, "the policy is none that the learner makes of the releases"),
    ("AnEighthOfTheNoise", "loss", PURE, "costs 8, and the statement says 1"),
    ("AnEighthOfTheNoise", "loss", APPROXIMATE, "and the statement says"),
    pytest.param(
        *("LooseDevices", "loss", LOCAL, "tells two people apart by ε ≥ .*; the statement says 1.000"),
        marks=pytest.mark.slow,
    ),
    ("FromOne", "tickets", PURE, "the first ticket has number 1"),
    ("Credulous", "tickets", PURE, "a forged ticket was taken"),
    ("Lending", "tickets", PURE, "a ticket holds the agent's own policy"),
    ("Trusting", "halves", LOCAL, "the server took in what is not one user's report"),
    ("Seeded", "halves", LOCAL, "a device's noise protects nobody"),
    ("TrustedDevice", "halves", PURE, "an agent that is trusted with trajectories has a device"),
    ("PromisesMore", "statement", PURE, "was asked for, not ε = 0.1"),
    ("CountsThoseWhoCameBack", "statement", PURE, "after 1 tickets the statement tells .0, 84. users"),
    ("SpentTooLate", "statement", LOCAL, "what is spent is told too early, or too late"),
    ("SimulatedInDeployment", "statement", PURE, "a deployed agent's statement says protects=False"),
    ("OneFutureTooMany", "settings", PURE, "a copy has taken the users along"),
]


@pytest.mark.parametrize(("kind", "check", "privacy", "message"), MISTAKES)
def test_each_mistake_is_caught_and_named(kind, check, privacy, message):
    with pytest.raises((ConformanceError, ValueError), match=message):
        AGENT_CHECKS[check](subject({**vars(mistaken), **vars(leaking)}[kind], privacy))


def test_all_that_is_wrong_is_told_at_once_and_under_which_privacy():
    def make(spec, episodes, privacy):
        kind = UCBVI if privacy.kind == "none" else mistaken.OneMore
        return kind(spec, episodes=episodes, privacy=privacy)

    with pytest.raises(ConformanceError) as told:
        check_agent(make, privacies=[NONE, PURE])
    lines = str(told.value).splitlines()
    assert f"budget, {PURE}: user 2 of 1 was let in" in lines
    assert not any(str(NONE) in line for line in lines)


def test_a_check_that_cannot_run_is_a_failure_too():
    def make(spec, episodes, privacy):
        raise RuntimeError("there is no such agent")

    with pytest.raises(ConformanceError) as told:
        check_agent(make, privacies=[PURE])
    assert len(str(told.value).splitlines()) == len(AGENT_CHECKS)
    assert "RuntimeError: there is no such agent" in str(told.value)
