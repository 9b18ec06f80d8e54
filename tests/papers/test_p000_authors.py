"""The authors' public code of 000, as ALGORITHMS.md §3 describes it, and its price, derived by hand."""

import itertools
import json
import math

import numpy as np
import pytest
import scipy.stats

from tacit.mdp.spec import EpisodeSpec
from tacit.mdp.trajectories import Trajectories
from tacit.online import UCBVI
from tacit.papers.p000.authors import AuthorsCounts, AuthorsUCBVI, authors_price
from tacit.papers.p000.settings import world
from tacit.privacy import Joint, Local, SecureNoise, SimulationNoise
from tacit.privatizers import PrivatizationError

TWO = EpisodeSpec(states=2, actions=2, horizon=2)
FAMILIES = ("transitions", "rewards", "visits")


class Told:
    """Noise that is told beforehand, and remembers what it was asked for."""

    name, protects = "told", False

    def __init__(self, values=()):
        self.values, self.asked = iter(values), []

    def laplace(self, *, scale, runs, size, terms=1):
        self.asked.append((scale, runs, size, terms))
        return np.full((runs, size), next(self.values, 0.0))


def counts(guarantee, *, spec=TWO, episodes=5, noise=None, runs=1):
    statistic = AuthorsUCBVI(spec, episodes=episodes, privacy=guarantee).statistic
    return AuthorsCounts(statistic, guarantee, episodes=episodes, noise=noise or Told(), runs=runs)


def all_trajectories():
    """Of the world with two states, two actions and two steps, with rewards at both ends of their range."""
    for states, actions, rewards in itertools.product(
        itertools.product((0, 1), repeat=3),
        itertools.product((0, 1), repeat=2),
        itertools.product((0.0, 1.0), repeat=2),
    ):
        yield list(states), list(actions), list(rewards)


def in_every_run(episode):
    """One user in each of 4,000 runs."""
    return Trajectories(*(np.tile(np.array(part), (4_000, 1, 1)) for part in episode))


def by_hand(episodes):
    """Pooled counts of the three families, one cell after the other."""
    N, R, V = np.zeros((2, 2, 2)), np.zeros((2, 2)), np.zeros((2, 2))
    for states, actions, rewards in episodes:
        for h in range(2):
            N[states[h], actions[h], states[h + 1]] += 1
            R[states[h], actions[h]] += rewards[h]
            V[states[h], actions[h]] += 1
    return np.concatenate([N.ravel(), R.ravel(), V.ravel()])


def vector(release):
    return np.concatenate([np.ravel(getattr(release, family)[0]) for family in FAMILIES])


# What it releases


def test_authors_counts_are_pooled_and_full_in_every_release():
    source, episodes = counts(Joint(epsilon=1)), list(all_trajectories())[::29]
    assert source.statistic.pooled
    for number, episode in enumerate(episodes[:4], start=1):
        source.observe([episode])
        release = source.release()
        assert release.episodes == number
        assert release.transitions.shape == (1, 1, 2, 2, 2)
        assert not release.centred
        assert vector(release) == pytest.approx(by_hand(episodes[:number]))


def test_authors_release_after_every_episode_but_the_last():
    for guarantee in (Joint(epsilon=1), Local(epsilon=1)):
        source, released = counts(guarantee, episodes=5), 0
        for episode in list(all_trajectories())[:5]:
            due = source.until_release()
            source.observe([episode])
            released += due == 1
        assert due is None
        assert released == 4


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 10.0])
def test_authors_joint_noise_is_of_scale_1_over_epsilon_and_fresh_every_time(epsilon):
    noise = Told(range(100, 200))
    source, episodes = counts(Joint(epsilon=epsilon), noise=noise), list(all_trajectories())[::41]
    for number in range(1, 4):
        source.observe([episodes[number]])
        found = vector(source.release()) - by_hand(episodes[1 : number + 1])
        first = 100 + 3 * (number - 1)  # nothing of what was drawn before is in it
        assert found == pytest.approx([first] * 8 + [first + 1] * 4 + [first + 2] * 4)
    assert noise.asked == [(pytest.approx(1 / epsilon), 1, cells, 1) for cells in (8, 4, 4)] * 3


def test_authors_joint_noise_is_independent_in_every_cell_and_release():
    """Kolmogorov–Smirnov and correlations of 4,000 runs: a false alarm in 10⁵."""
    source = counts(Joint(epsilon=0.5), noise=SimulationNoise(3), runs=4_000)
    episode = ([0, 1, 1], [0, 1], [1.0, 0.0])
    source.observe(in_every_run(episode))
    releases = [source.release() for _ in range(2)]
    noise = np.concatenate(
        [np.reshape(getattr(release, family), (4_000, -1)) for release in releases for family in FAMILIES], axis=1
    ) - np.tile(by_hand([episode]), 2)
    assert noise.shape == (4_000, 32)
    assert min(scipy.stats.kstest(cell, "laplace", args=(0, 2.0)).pvalue for cell in noise.T) > 1e-5 / 32
    correlations = np.corrcoef(noise, rowvar=False) - np.eye(32)
    assert np.abs(correlations).max() < 6.5 / math.sqrt(4_000)


def test_authors_local_noise_is_one_number_of_each_user_for_all_cells_of_a_family():
    """Law, correlations and variance over 4,000 runs: a false alarm in 10⁵."""
    source = counts(Local(epsilon=0.5), noise=SimulationNoise(4), runs=4_000)
    episode = ([0, 1, 1], [0, 1], [1.0, 0.0])
    exact = {"transitions": slice(0, 8), "rewards": slice(8, 12), "visits": slice(12, 16)}
    for users in range(1, 5):
        source.observe(in_every_run(episode))
        release, told = source.release(), by_hand([episode] * users)
        noise = [np.reshape(getattr(release, name), (4_000, -1)) - told[cells] for name, cells in exact.items()]
        assert all(np.allclose(each, each[:, :1]) for each in noise)
        shifts = np.array([each[:, 0] for each in noise])
        assert np.abs(np.corrcoef(shifts) - np.eye(3)).max() < 6.5 / math.sqrt(4_000)
        if users == 1:
            assert all(scipy.stats.kstest(each, "laplace", args=(0, 2.0)).pvalue > 1e-6 for each in shifts)
        # Every user adds her own, of variance 2/ε² = 8; the Laplace law's kurtosis is 6.
        assert np.var(shifts, axis=1) == pytest.approx([8 * users] * 3, rel=6 * math.sqrt(5 / 4_000))


# Its price


def largest_change():
    """Of all three families, by the replacement of one episode: over all pairs of episodes."""
    tables = [by_hand([episode]) for episode in all_trajectories()]
    return max(np.abs(one - other).sum() for one, other in itertools.combinations(tables, 2))


def test_authors_joint_price_is_the_sum_over_all_releases():
    """The first user is in each of the K − 1; Laplace(1/ε) gives away ε for each unit that it has to hide."""
    assert largest_change() == 6 * TWO.horizon
    episodes, epsilon = 7, 0.3
    one, other = ([0, 0, 0], [0, 0], [1.0, 1.0]), ([1, 1, 1], [1, 1], [1.0, 1.0])
    sources = [counts(Joint(epsilon=epsilon), episodes=episodes) for _ in range(2)]
    loss = 0.0
    for number in range(episodes):
        for source, first in zip(sources, (one, other), strict=True):
            source.observe([first if number == 0 else one])
        if number < episodes - 1:
            loss += epsilon * np.abs(np.subtract(*(vector(source.release()) for source in sources))).sum()
    assert loss == pytest.approx(epsilon * 6 * TWO.horizon * (episodes - 1))
    for source in sources:
        assert source.statement.committed.epsilon == pytest.approx(loss)
    assert authors_price(source.statistic, source.guarantee, episodes).loss.epsilon == pytest.approx(loss)


def test_authors_local_price_is_infinite_because_differences_of_cells_are_exact():
    source = counts(Local(epsilon=0.1), noise=SimulationNoise(5))
    episode = ([0, 1, 1], [0, 1], [1.0, 0.0])
    source.observe([episode])
    released = source.release().visits[0, 0]
    assert released - released.min() == pytest.approx(by_hand([episode])[12:].reshape(2, 2))  # who was where
    assert source.statement.committed.epsilon == math.inf


# Its learner


@pytest.mark.parametrize(("guarantee", "terms"), [(Joint(epsilon=0.5), 1), (Local(epsilon=0.5), 3)])
def test_authors_releases_tell_the_law_of_their_noise(guarantee, terms):
    source = counts(guarantee)
    source.observe(list(all_trajectories())[:3])
    for law in source.release().errors.values():
        assert law.std == pytest.approx(math.sqrt(2 * terms) / 0.5)
    if terms == 1:
        assert law.quantile(1e-3) == pytest.approx(math.log(1e3) / 0.5)


def test_authors_bonus_is_that_of_the_exact_version_for_this_noise():
    """ALGORITHMS.md §3 with E of Laplace(1/ε), pooled: SAT·H events, SAK cells. Factors are the agents' defaults."""
    S, A, H, K, beta, epsilon = 6, 2, 20, 20_000, 0.1, 1.0
    agent = AuthorsUCBVI(world().spec, episodes=K, privacy=Joint(epsilon=epsilon))
    exact = UCBVI(world().spec, episodes=K, privacy=Joint(epsilon=epsilon)).learner()
    source = agent.privatizer(noise=Told())
    source.observe([([0] * 21, [0] * 20, [0.0] * 20)])
    learner, release = agent.learner(), source.release()
    E1 = learner.privacy_scale * math.log(3 * S * A * K / beta) / epsilon
    E2 = learner.privacy_scale * math.log(3 * S * A * K * S / beta) / epsilon
    L_c = learner.statistical_scale * math.sqrt(2 * math.log(4 * S * A * K * H * H / beta))
    widths = learner.value_widths(release)
    assert widths.offset == pytest.approx(E1)
    assert widths.statistical == pytest.approx(L_c + H * L_c)
    assert widths.privacy == pytest.approx(3 * E1 + H * (S * E2 + 2 * E1))
    scales = ("statistical_scale", "privacy_scale", "confidence")
    assert [getattr(learner, name) for name in scales] == [getattr(exact, name) for name in scales]


def test_authors_settings_protect_nobody_and_cannot_be_deployed():
    with pytest.raises(PrivatizationError, match="protect nobody"):
        counts(Joint(epsilon=1), noise=SecureNoise())
    for privacy in (Joint(epsilon=1), Local(epsilon=1)):
        agent = AuthorsUCBVI(world().spec, episodes=5, privacy=privacy)
        with pytest.raises(PrivatizationError, match="protect nobody"):
            agent.privatizer()
        with pytest.raises(PrivatizationError, match="protect nobody"):
            agent.begin()
    with pytest.raises(PrivatizationError, match="protect nobody"):
        agent.server()
    source = counts(Joint(epsilon=1))
    assert source.statement.protects is False


@pytest.mark.parametrize("guarantee", [Joint(epsilon=1), Local(epsilon=1)])
def test_authors_counts_go_on_after_a_checkpoint_as_if_there_had_been_none(guarantee):
    episodes = list(all_trajectories())[::31]
    whole, cut = (counts(guarantee, noise=SimulationNoise(6)) for _ in range(2))
    for number, episode in enumerate(episodes[:4]):
        if number == 2:
            arrays, meta = cut.state()
            cut = AuthorsCounts.from_state(arrays, json.loads(json.dumps(meta)))
        for source in (whole, cut):
            source.observe([episode])
        assert np.array_equal(vector(whole.release()), vector(cut.release()))
    assert (cut.users, cut.until_release()) == (whole.users, whole.until_release())
    assert cut.statement == whole.statement
