"""A simulation that is cut short keeps what is done, says so, and goes on to the very result of one in one piece."""

import itertools
import signal

import numpy as np
import pytest

import tacit
from simulation.cases import Stops, Unknown, po, replayed, same, small_world, vi
from tacit import Joint, Local, NonPrivate
from tacit.mdp.worlds.random_worlds import random_mdp
from tacit.privatizers.vault import VaultError
from tacit.simulation import Serial, simulate
from tacit.simulation import run as running

AGENTS = {
    "Laplace": lambda world: vi(world),
    "every episode": lambda world: vi(world, episodes=40, schedule="every-episode"),
    "Gaussian, choices by chance": lambda world: po(world, privacy=Joint(epsilon=5, delta=1e-6)),
    "no privacy": lambda world: vi(world, privacy=NonPrivate()),
    "local": lambda world: vi(world, privacy=Local(epsilon=10)),
    "local, every episode": lambda world: po(
        world, episodes=40, privacy=Local(epsilon=10), randomizer="additive", schedule="every-episode"
    ),
}


@pytest.fixture
def small_pieces(monkeypatch):
    """Of seven episodes, with a report after each: an interrupt comes in the midst of a batch, or at its end."""
    monkeypatch.setattr(running, "_STEPS_AT_A_TIME", 7 * small_world().spec.horizon)
    monkeypatch.setattr(running, "_SECONDS_BETWEEN_REPORTS", -1.0)


@pytest.mark.usefixtures("small_pieces")
@pytest.mark.parametrize("how", ["Ctrl-C", "button"])
def test_after_an_interrupt_the_result_is_of_the_episodes_played_and_says_so(how, capsys):
    world = small_world()
    agent = vi(world)
    whole = simulate(agent, world, runs=2, seed=4)
    assert not whole.interrupted
    assert capsys.readouterr().err == ""
    part = simulate(agent, world, runs=2, seed=4, progress=Stops(0.7, how=how))
    assert 0.7 * 60 <= part.episodes < 60
    assert part.interrupted
    assert np.array_equal(part.regret, whole.regret[:, : part.episodes])
    assert f"{part.episodes} of 60 users" in part.statement
    told = capsys.readouterr()
    assert told.err == f"Stopped after {part.episodes} of 60 episodes: the result covers these.\n"
    assert told.out == ""


@pytest.mark.usefixtures("small_pieces")
@pytest.mark.parametrize("how", ["Ctrl-C", "button"])
@pytest.mark.parametrize("known", [True, False], ids=["known world", "unknown world"])
@pytest.mark.parametrize("kind", AGENTS)
def test_going_on_from_a_checkpoint_is_as_if_nothing_had_happened(kind, known, how, tmp_path, capsys):
    inner = small_world()
    world = inner if known else Unknown(inner=inner)
    agent, file = AGENTS[kind](inner), tmp_path / "deep" / "checkpoint"
    whole = simulate(agent, world, runs=2, seed=4)
    for share in (0.1, 0.3, 0.35, 0.6, 0.8):  # again and again
        part = simulate(agent, world, runs=2, seed=4, checkpoint=file, progress=Stops(share, how=how))
        assert part.interrupted
        assert part.episodes >= share * agent.episodes
        assert file.exists()
        assert capsys.readouterr().err.endswith(f"the result covers these; {file} goes on from there.\n")
    finished = simulate(agent, world, runs=2, seed=4, checkpoint=file)
    assert same(finished, whole)
    assert list(file.parent.iterdir()) == []  # nothing to go on from


@pytest.mark.usefixtures("small_pieces")
def test_an_interrupt_after_the_last_episode_takes_nothing_away(tmp_path):
    world = small_world()
    file = tmp_path / "checkpoint"
    result = simulate(vi(world), world, runs=2, seed=4, checkpoint=file, progress=Stops(1.0))
    assert not result.interrupted
    assert same(result, simulate(vi(world), world, runs=2, seed=4))
    assert not file.exists()


class Killed(BaseException):
    """Nobody may catch it."""


def dies_after(number, monkeypatch):
    counts, own = itertools.count(1), tacit.mdp.TabularMDP.rollout

    def rollout(self, *given, **named):
        if next(counts) > number:
            raise Killed
        return own(self, *given, **named)

    monkeypatch.setattr(tacit.mdp.TabularMDP, "rollout", rollout)


@pytest.mark.usefixtures("small_pieces")
@pytest.mark.parametrize("kind", AGENTS)
def test_what_was_saved_now_and_then_survives_a_crash(kind, tmp_path, monkeypatch):
    world = small_world()
    agent, file = AGENTS[kind](world), tmp_path / "checkpoint"
    whole = simulate(agent, world, runs=2, seed=4)
    with monkeypatch.context() as patch:
        dies_after(5, patch)
        with pytest.raises(Killed):
            simulate(agent, world, runs=2, seed=4, checkpoint=file, checkpoint_every=-1.0)
    assert file.exists()
    with monkeypatch.context() as patch:  # a second time, without another save
        dies_after(1, patch)
        with pytest.raises(Killed):
            simulate(agent, world, runs=2, seed=4, checkpoint=file)
    played = []
    own = tacit.mdp.TabularMDP.rollout

    def rollout(self, policy, *, episodes, streams):
        played.append(episodes)
        return own(self, policy, episodes=episodes, streams=streams)

    monkeypatch.setattr(tacit.mdp.TabularMDP, "rollout", rollout)
    assert same(simulate(agent, world, runs=2, seed=4, checkpoint=file), whole)
    assert 0 < sum(played) < agent.episodes


@pytest.mark.usefixtures("small_pieces")
def test_saving_now_and_then_changes_nothing(tmp_path):
    world = small_world()
    for kind in AGENTS.values():
        saved = simulate(kind(world), world, runs=2, seed=4, checkpoint=tmp_path / "c", checkpoint_every=-1.0)
        assert same(saved, simulate(kind(world), world, runs=2, seed=4))
        assert list(tmp_path.iterdir()) == []


@pytest.mark.usefixtures("small_pieces")
def test_in_a_world_too_large_for_compiled_planning_too(tmp_path):
    world = random_mdp(states=60, actions=2, horizon=3, seed=1, successors=5)
    agent, file = vi(world, episodes=30, privacy=NonPrivate(), schedule="every-episode"), tmp_path / "c"
    whole = simulate(agent, world, runs=2, seed=4)
    simulate(agent, world, runs=2, seed=4, checkpoint=file, progress=Stops(0.4))
    resumed = simulate(agent, world, runs=2, seed=4, checkpoint=file)
    np.testing.assert_allclose(resumed.values, whole.values, rtol=1e-13)
    np.testing.assert_allclose(simulate(agent, world, runs=1, seed=4).values, whole.values[:1], rtol=1e-13)
    policies, _ = replayed(agent, world, runs=2, seed=4)
    exact = [world.policy_values(policy) for policy in policies]
    np.testing.assert_allclose(np.transpose(exact), whole.values, rtol=1e-13)


class Apart(Serial):
    """As many parts as wanted, in this process."""

    def __init__(self, workers):
        self.workers = workers


@pytest.mark.usefixtures("small_pieces")
@pytest.mark.parametrize(("before", "after"), [(3, 3), (3, 1), (1, 3), (2, 5)])
def test_a_simulation_may_go_on_with_another_number_of_processes(before, after, tmp_path):
    world = small_world()
    agent, file = po(world), tmp_path / "c"
    whole = simulate(agent, world, runs=5, seed=4)
    bounds = running._bounds(5, before, None)
    for first, last in itertools.pairwise(bounds):  # each part is interrupted at another time
        part = running._Part(
            agent=agent,
            world=world,
            seed=4,
            first=first,
            runs=last - first,
            checkpoint=running._part_of(file, first, last, 5),
        )
        if first != 1:  # and one has not begun
            stops = Stops(0.2 + 0.1 * first, how="button")
            assert running.play(part, stops.update).interrupted
    assert list(tmp_path.iterdir())
    assert same(simulate(agent, world, runs=5, seed=4, checkpoint=file, engine=Apart(after)), whole)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_an_interrupt_in_several_processes_keeps_what_is_done(tmp_path, capsys):
    world = small_world()
    agent, file = vi(world, episodes=12_000, schedule="every-episode", counter="tree"), tmp_path / "c"
    part = simulate(agent, world, runs=2, seed=4, engine=2, checkpoint=file, progress=Stops(0.01))
    assert part.interrupted
    assert f"{file} goes on from there" in capsys.readouterr().err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["c.0-1", "c.1-2"]
    finished = simulate(agent, world, runs=2, seed=4, engine=2, checkpoint=file)
    np.testing.assert_allclose(part.regret, finished.regret[:, : part.episodes], rtol=1e-12)
    assert same(finished, simulate(agent, world, runs=2, seed=4))
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


OTHERS = {
    "agent": lambda a, w: (vi(w, privacy=Joint(epsilon=51)), w, {}),
    "kind of agent": lambda a, w: (po(w, episodes=60, bonus_scale=None, privacy_scale=0.0), w, {}),
    "world": lambda a, w: (a, small_world(seed=5), {}),
    "seed": lambda a, w: (a, w, {"seed": 5}),
    "more runs": lambda a, w: (a, w, {"runs": 3}),
    "fewer runs": lambda a, w: (a, w, {"runs": 1}),
}


@pytest.mark.usefixtures("small_pieces")
@pytest.mark.parametrize("parts", [1, 2])
@pytest.mark.parametrize("other", OTHERS)
def test_a_checkpoint_of_another_simulation_is_refused_and_kept(other, parts, tmp_path):
    world, file = small_world(), tmp_path / "c"
    agent = vi(world)
    if parts == 1:
        simulate(agent, world, runs=2, seed=4, checkpoint=file, progress=Stops(0.5))
    else:
        for run in range(2):
            task = running._Part(
                agent=agent, world=world, seed=4, first=run, runs=1, checkpoint=tmp_path / f"c.{run}-{run + 1}"
            )
            running.play(task, Stops(0.5, how="button").update)
    kept = {path.name for path in tmp_path.iterdir()}
    an_agent, a_world, arguments = OTHERS[other](agent, world)
    arguments = {"runs": 2, "seed": 4, "checkpoint": file, **arguments}
    if (other, parts) == ("more runs", 2):  # one run more, beside those that there are
        assert same(simulate(agent, world, **arguments), simulate(agent, world, runs=3, seed=4))
        return
    with pytest.raises(ValueError, match="is of another simulation; name another checkpoint, or remove it") as refusal:
        simulate(an_agent, a_world, **arguments)
    assert str(refusal.value).startswith(str(file))  # the command line tells it by that
    assert {path.name for path in tmp_path.iterdir()} == kept
    whole = simulate(agent, world, runs=2, seed=4)
    assert same(simulate(agent, world, runs=2, seed=4, checkpoint=file), whole)


@pytest.mark.usefixtures("small_pieces")
def test_a_world_by_another_name_is_the_same(tmp_path):
    world, file = small_world(), tmp_path / "c"
    simulate(vi(world), world, runs=2, seed=4, checkpoint=file, progress=Stops(0.5))
    renamed = tacit.mdp.TabularMDP(**{**vars_of(world), "name": "another name"})
    assert not simulate(vi(world), renamed, runs=2, seed=4, checkpoint=file).interrupted


def vars_of(world):
    return {name: getattr(world, name) for name in ("spec", "kernel", "rewards", "start", "name")}


@pytest.mark.usefixtures("small_pieces")
@pytest.mark.parametrize("damage", ["half of it", "nothing in it", "other words", "an agent", "one bit"])
def test_a_damaged_checkpoint_is_a_clear_error_and_kept(damage, tmp_path):
    world, file = small_world(), tmp_path / "c"
    agent = vi(world)
    simulate(agent, world, runs=2, seed=4, checkpoint=file, progress=Stops(0.5))
    content = file.read_bytes()
    if damage == "an agent":
        file.unlink()
        agent.begin()
        agent.save(file)
    else:
        middle = len(content) // 2
        flipped = content[:middle] + bytes([content[middle] ^ 8]) + content[middle + 1 :]
        told = {"half of it": content[:middle], "nothing in it": b"", "other words": b"hello", "one bit": flipped}
        file.write_bytes(told[damage])
    kept = file.read_bytes()
    with pytest.raises(VaultError, match=r"c (is no saved state of Tacit's|holds a agent)"):
        simulate(vi(world), world, runs=2, seed=4, checkpoint=file)
    assert file.read_bytes() == kept
