"""Tickets, deadlines and restarts of an agent in deployment."""

import concurrent.futures
import copy
import json
import pickle
import stat

import numpy as np
import pytest
from subjects import LOCAL, PURE, subject

import tacit
from tacit import Joint, NonPrivate
from tacit.mdp.spec import EpisodeSpec
from tacit.online import UCBPO, UCBVI, BudgetExhausted, Ticket, load
from tacit.online.desk import Desk
from tacit.online.session import Session
from tacit.privatizers import Device, PrivatizationError, VaultError
from tacit.testing.service import Service, Uniforms

# Few people teach little, and with secure noise it is chance whether anything has been learnt at half-time.
pytestmark = pytest.mark.filterwarnings("ignore::tacit.learners.NothingLearnt")

SPEC = EpisodeSpec(states=2, actions=2, horizon=2)
WALK = ([0, 1, 1], [1, 0], [1.0, 0.0])
OTHER = ([1, 0, 0], [0, 0], [0.0, 0.0])


def agent(kind=UCBVI, privacy=None, **options):
    options = {"episodes": 9, "schedule": "every-episode", **options}
    return kind(SPEC, privacy=privacy or NonPrivate(), **options)


def counted(one):
    """Visits that the latest release tells, of all states and actions."""
    return one._desk()._session.source.release().visits.sum()


def test_a_release_holds_the_visits_of_whoever_came_back_in_time():
    one = agent(pooled=True)
    tickets = []
    for place in range(6):
        tickets.append(one.begin())
        # Each before her is closed by now: two steps of each of those who came back.
        assert counted(one) == 2 * min(place, 2)
        if place < 2:
            one.observe(tickets[-1], WALK)
    for late in tickets[2:-1]:
        one.observe(late, WALK)
    one.begin()
    assert counted(one) == 4


def test_the_first_of_two_answers_counts():
    one = agent()
    ticket = one.begin()
    one.observe(ticket, OTHER)
    one.observe(ticket, WALK)
    one.begin()
    visits = one._desk()._session.source.release().visits[0].sum(axis=0)
    np.testing.assert_array_equal(visits, [[1, 0], [1, 0]])


def test_an_unreadable_answer_is_an_answer():
    # Otherwise she could find out, by sending again, whether she was understood.
    one = agent()
    ticket = one.begin()
    one.observe(ticket, "no episode")
    one.observe(ticket, WALK)
    one.begin()
    assert counted(one) == 0


def test_after_the_last_user_the_last_ones_may_still_come_back():
    one = agent(episodes=3)
    tickets = [one.begin() for _ in range(3)]
    with pytest.raises(BudgetExhausted, match="3 users were declared; the guarantee covers no more"):
        one.begin()
    one.observe(tickets[-1], WALK)
    assert one._desk()._session.source.users == 3


def test_a_ticket_of_another_agent_is_an_error_and_changes_nothing():
    one, other = agent(), agent()
    mine, foreign = one.begin(), other.begin()
    with pytest.raises(ValueError, match=r"pass the one that begin\(\) returned"):
        one.observe(foreign, WALK)
    with pytest.raises(ValueError, match="was not issued here"):
        one.observe(Ticket(1, mine.policy, mine.token), WALK)
    one.begin()
    assert counted(one) == 0


def test_an_action_is_drawn_with_the_policy_s_chances():
    # 4,000 draws, chance 0.3: more than 5 standard errors (0.036) off once in two million.
    policy = np.array([[[0.3, 0.0, 0.7]]])
    ticket = Ticket(0, policy, "")
    drawn = np.bincount([ticket.action(0, 0) for _ in range(4000)], minlength=3)
    assert drawn[1] == 0
    assert drawn[0] / 4000 == pytest.approx(0.3, abs=0.0363)
    # Chances that add up to a little less than one never lead to an action that there is not.
    assert Ticket(0, np.array([[[0.0, 0.0]]]), "").action(0, 0) == 1
    assert Ticket(0, np.array([[1, 0]], dtype=np.int32), "").action(0, 1) == 0


def test_a_ticket_survives_the_way_to_whoever_acts():
    for kind, dtype in ((UCBVI, np.int32), (UCBPO, np.float64)):
        one = agent(kind)
        ticket = Ticket.from_json(one.begin().to_json())
        assert ticket.policy.dtype == dtype
        one.observe(ticket, WALK)
        one.begin()
        assert counted(one) == 2
        assert ticket.token not in repr(ticket)


def test_many_threads_get_different_places_and_nobody_is_lost():
    one = agent(episodes=400, schedule="doubling", pooled=True)

    def visit(_):
        ticket = one.begin()
        one.observe(ticket, WALK)
        return ticket.number

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        assert sorted(pool.map(visit, range(40))) == list(range(40))
    one.begin()
    # Whoever was overtaken by the 41st ticket would be late; none was.
    assert counted(one) == 80


def test_an_interrupted_answer_is_not_taken_in_twice(monkeypatch):
    one = agent()
    ticket, source = one.begin(), one._desk()._session.source

    def interrupted(what):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(source, "observe", interrupted)
        with pytest.raises(KeyboardInterrupt):
            one.observe(ticket, WALK)
    one.observe(ticket, WALK)
    one.begin()
    assert counted(one) == 0


def test_a_batch_whose_closing_was_interrupted_is_closed_by_the_next_ticket(monkeypatch):
    one = agent()
    one.begin()
    session = one._desk()._session

    def interrupted():
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(session, "refresh", interrupted)
        with pytest.raises(KeyboardInterrupt):
            one.begin()
    assert one.begin().number == 1
    assert (session.updates, session.source.users) == (1, 1)


# Statements


def test_the_statement_tells_users_by_tickets_and_spends_at_the_first_release():
    one = agent(privacy=Joint(epsilon=1), episodes=100, schedule="doubling")
    for _ in range(40):
        one.begin()
    before = one.statement
    assert (before.users, before.users_declared, before.releases) == (40, 100, 0)
    assert before.spent.epsilon == 0
    one.begin()
    after = one.statement
    assert (after.users, after.releases) == (41, 1)
    assert after.spent.epsilon == pytest.approx(1.0)
    assert after.holds
    assert str(after).startswith("Guaranteed: ε = 1 joint differential privacy")
    assert "Unit: one episode" in str(after)


def test_a_published_calibration_says_that_it_does_not_hold():
    one = agent(privacy=Joint(epsilon=1), episodes=20_000, calibration="published")
    assert not one.statement.holds
    assert "NOT KEPT" in str(one.statement).split("\n")[0]


def test_a_simulation_leaves_the_agent_s_service_as_it_is():
    world = tacit.mdp.riverswim(states=3, horizon=4)
    one = UCBVI(world.spec, episodes=50, privacy=Joint(epsilon=1))
    one.begin()
    result = tacit.simulate(one, world, runs=2, seed=0)
    assert "no privacy" in result.statement.split("\n")[0].lower()
    assert (one.statement.users, one.statement.protects) == (1, True)


# Saved agents


def restarted(one, path):
    one.save(path)
    return load(path)


@pytest.mark.parametrize("privacy", [Joint(epsilon=1), Joint(epsilon=1, delta=1e-5), LOCAL], ids=str)
def test_a_loaded_agent_has_the_release_and_the_policy_that_it_had(tmp_path, privacy):
    one = agent(privacy=privacy, episodes=20)
    for place in range(12):
        ticket = one.begin()
        session = one._desk()._session
        before, policy = session.source.release(), session.policy.copy()
        one = restarted(one, tmp_path / f"{place}.npz")
        after = one._desk()._session.source.release()
        # Secure noise: were it drawn again, it could not be the same.
        np.testing.assert_array_equal(after.transitions, before.transitions)
        np.testing.assert_array_equal(after.rewards, before.rewards)
        np.testing.assert_array_equal(one._desk()._session.policy, policy)
        one.observe(ticket, None)
    assert one.statement.users == 12


def test_a_loaded_tree_keeps_the_noise_of_nodes_that_were_released(tmp_path):
    # Releases after 4, 5, 6 and 7 users share the node of users 1 to 4. Nobody comes, so that releases are noise: were
    # any of it drawn anew, later releases would differ from those of the service that never stopped.
    service = Service(subject(UCBVI, PURE, episodes=9, schedule="every-episode", counter="tree"))
    straight = Service(subject(UCBVI, PURE, episodes=9, schedule="every-episode", counter="tree"))
    for _ in range(9):
        for one in (service, straight):
            one.agent.observe(one.agent.begin(), None)
        service.restart()
        np.testing.assert_array_equal(service.numbers(), straight.numbers())


def test_a_saved_agent_is_closed_and_its_file_is_good_for_one(tmp_path):
    one, path = agent(privacy=Joint(epsilon=1)), tmp_path / "agent.npz"
    ticket = one.begin()
    one.save(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    for use in (one.begin, lambda: one.observe(ticket, WALK), lambda: one.save(tmp_path / "again.npz")):
        with pytest.raises(PrivatizationError, match="this agent was saved: load the file to go on"):
            use()
    other = load(path)
    other.observe(ticket, WALK)
    assert other.begin().number == 1
    with pytest.raises(VaultError, match="loaded already"):
        load(path)
    assert list(tmp_path.iterdir()) == []


def test_an_agent_that_could_not_be_saved_goes_on(tmp_path):
    one, path = agent(privacy=Joint(epsilon=1)), tmp_path / "taken.npz"
    path.write_text("something else")
    ticket = one.begin()
    with pytest.raises(VaultError, match="never overwritten"):
        one.save(path)
    one.observe(ticket, WALK)
    assert one.begin().number == 1
    assert path.read_text() == "something else"


def test_a_file_of_an_unknown_agent_is_put_back(tmp_path, monkeypatch):
    one, path = agent(), tmp_path / "agent.npz"
    one.begin()
    one.save(path)
    with monkeypatch.context() as patch:
        patch.setattr(tacit.online.Agent, "_kinds", {})
        with pytest.raises(ValueError, match="no agent is called 'UCBVI'; import the module that defines it first"):
            load(path)
    assert load(path).begin().number == 1


# Two halves


def test_devices_elsewhere_need_the_agreement_only():
    one = agent(privacy=LOCAL, episodes=30)
    device = Device.from_json(json.loads(json.dumps(one.client.to_json())))
    for _ in range(3):
        one.observe(one.begin(), device.report([WALK]))
    assert one._desk()._session.source.reports == 3


def test_devices_of_another_agreement_are_as_good_as_absent():
    one = agent(privacy=LOCAL, episodes=30)
    other = UCBVI(EpisodeSpec(states=3, actions=2, horizon=2), episodes=3, privacy=LOCAL)
    ticket = one.begin()
    one.observe(ticket, other.client.report([([0, 1, 2], [0, 1], [0.0, 1.0])]))
    one.observe(one.begin(), None)
    source = one._desk()._session.source
    assert (source.reports, source.users) == (0, 1)


def test_the_server_half_has_no_method_that_takes_a_trajectory():
    one = agent(privacy=LOCAL)
    assert not hasattr(one.server(), "observe")
    assert not hasattr(one._desk()._session.source, "device")


def test_absent_users_are_accounted_for_in_pieces_however_long_the_batch():
    # The desk takes 1,024 at a time.
    one = UCBVI(SPEC, episodes=11_000, privacy=NonPrivate())
    desk = one._desk()
    due = desk._session.due
    while due < 3000:
        desk._issued = due
        one.begin()
        due = desk._session.due
    desk._issued = due
    one.begin()
    assert desk._session.source.users == due


def test_a_desk_is_not_kept_from_its_end_by_a_source_with_too_many_users():
    session = Session(agent().learner(), agent().privatizer(), Uniforms(0), episodes=9)
    desk = Desk(session, episodes=9)
    desk.begin()
    session.source.observe([None, None])
    assert desk.begin().number == 1


def test_a_desk_is_never_copied():
    one = agent(privacy=Joint(epsilon=1))
    one.begin()
    for copied in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(PrivatizationError, match="handed out once"):
            copied(one._desk())
