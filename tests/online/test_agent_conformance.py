"""Every built-in agent, in all its settings, passes the suite that third parties' agents are asked to pass."""

import pytest
from subjects import SUBJECTS

from tacit import Joint, Local, NonPrivate
from tacit.online import UCBPO, UCBVI
from tacit.testing import check_agent
from tacit.testing.agents import AGENT_CHECKS

EVERY_EPISODE = ("every episode", "tree", "k-ary", "toeplitz", "blt", "published")


def case(name, check):
    marks = []
    # Service, counter and learner are each seen by the quick ones; all that is left is their product.
    long = check in ("relabelling", "restart") or name.startswith("UCBPO")
    sampled = check == "loss" and "one step" in name
    if sampled or (long and any(word in name for word in EVERY_EPISODE)):
        marks.append(pytest.mark.slow)
    return pytest.param(name, check, marks=marks, id=f"{name}-{check}")


@pytest.mark.parametrize(("name", "check"), [case(name, check) for name in SUBJECTS for check in AGENT_CHECKS])
def test_built_in_agents_conform(name, check):
    AGENT_CHECKS[check](SUBJECTS[name])


@pytest.mark.parametrize("kind", [pytest.param(kind, marks=pytest.mark.slow) for kind in (UCBVI, UCBPO)])
def test_the_suite_is_one_call_for_all_kinds_of_privacy(kind):
    def make(spec, episodes, privacy):
        return kind(spec, episodes=episodes, privacy=privacy)

    check_agent(make, privacies=[NonPrivate(), Joint(epsilon=1), Local(epsilon=1)])
