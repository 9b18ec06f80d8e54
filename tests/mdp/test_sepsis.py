"""ICU-Sepsis: read without importing its package, checked against its own files and its published numbers."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from importlib.metadata import distribution
from pathlib import Path

import numpy as np
import pytest

import tacit.mdp as mdp

installed = importlib.util.find_spec("icu_sepsis") is not None
needs_package = pytest.mark.skipif(not installed, reason="the extra `sepsis` is not installed")

DEATH, SURVIVAL, AFTER = 713, 714, 715


@pytest.fixture(scope="module")
def files():
    assets = Path(str(distribution("icu-sepsis").locate_file("icu_sepsis/envs/assets")))
    with np.load(assets / "dynamics.npz") as archive:
        arrays = {name: archive[name] for name in ("tx_mat", "r_mat", "d_0", "expert_policy")}
    return assets, arrays


@pytest.fixture(scope="module")
def sepsis():
    return mdp.icu_sepsis(horizon=20)


@needs_package
def test_reads_the_packages_numbers(files, sepsis):
    assets, arrays = files
    world = sepsis.world
    assert (world.spec.states, world.spec.actions, world.spec.horizon) == (716, 25, 20)
    assert world.spec.stationary
    dense = world.kernel.toarray().reshape(716, 25, 716)
    np.testing.assert_array_equal(dense, arrays["tx_mat"])
    np.testing.assert_allclose(world.start, arrays["d_0"], rtol=1e-14)
    # The environment pays r_mat[s, a, s']: its mean, over what can happen.
    mean = (arrays["tx_mat"] * arrays["r_mat"]).sum(axis=-1)
    np.testing.assert_allclose(world.rewards.mean[0], mean, atol=1e-15)
    np.testing.assert_allclose(sepsis.behaviour[0, 0, :713], arrays["expert_policy"][:713], rtol=1e-12)
    np.testing.assert_allclose(sepsis.behaviour[0, :, 713:], 0.04)
    lines = (assets / "admissible_actions.txt").read_text().splitlines()[1:]
    for state in (0, 1, 300, 712, 715):
        assert np.flatnonzero(sepsis.admissible[state]).tolist() == [int(a) for a in lines[state].split()]
    assert sepsis.admissible.any(axis=1).all()


@needs_package
def test_rewards_are_paid_on_survival_and_the_end_absorbs(sepsis):
    world = sepsis.world
    assert world.rewards.support == (0.0, 1.0)
    states, _, rewards = world.rollout(sepsis.behaviour, episodes=3000, streams=mdp.Streams(0, 2))
    np.testing.assert_array_equal(rewards, (states[..., 1:] == SURVIVAL).astype(float))
    assert rewards.sum(axis=-1).max() == 1.0
    over = np.isin(states[..., :-1], (DEATH, SURVIVAL, AFTER))
    assert (states[..., 1:][over] == AFTER).all()
    survived = rewards.sum(axis=-1)
    expected = world.policy_values(sepsis.behaviour)[0]
    assert abs(survived.mean() - expected) < 4.5 * survived.std() / np.sqrt(survived.size)


@needs_package
def test_inadmissible_actions_are_taken_and_have_mean_transitions(sepsis):
    """Both as documented; the first is not what the package says of its policy."""
    patients, outside = slice(0, 713), ~sepsis.admissible[:713]
    assert (sepsis.behaviour[0, 0, patients] * outside).sum(axis=1).mean() == pytest.approx(0.156, abs=1e-3)
    occupancies = sepsis.world.occupancies(sepsis.behaviour)[0, :, patients]
    assert (occupancies * outside).sum() == pytest.approx(0.975, abs=1e-3)
    kernel = sepsis.world.kernel.toarray().reshape(716, 25, 716)
    for state in range(713):
        inside = sepsis.admissible[state]
        mean = kernel[state, inside].mean(axis=0)
        np.testing.assert_allclose(kernel[state, ~inside], np.broadcast_to(mean, (25 - inside.sum(), 716)), atol=1e-14)


def backward_induction(arrays, horizon):
    """On the package's arrays: (optimal, clinicians, uniform)."""
    P, mean = arrays["tx_mat"], (arrays["tx_mat"] * arrays["r_mat"]).sum(axis=-1)
    best = clinicians = uniform = np.zeros(716)
    for _ in range(horizon):
        best = (mean + P @ best).max(axis=1)
        clinicians = (arrays["expert_policy"] * (mean + P @ clinicians)).sum(axis=1)
        uniform = (mean + P @ uniform).mean(axis=1)
    return [float(arrays["d_0"] @ values) for values in (best, clinicians, uniform)]


@needs_package
def test_values_at_twenty_steps(files, sepsis):
    best, clinicians, uniform = backward_induction(files[1], 20)
    world = sepsis.world
    assert world.optimal_value == pytest.approx(best, rel=1e-12)
    assert world.policy_values(sepsis.behaviour)[0] == pytest.approx(clinicians, rel=1e-12)
    everything = np.full((1, 20, 716, 25), 0.04)
    assert world.policy_values(everything)[0] == pytest.approx(uniform, rel=1e-12)
    assert round(best, 3) == 0.792
    assert round(clinicians, 3) == 0.692
    assert round(uniform, 3) == 0.685


@needs_package
def test_lowest_admissible_action_closes_over_half_of_the_gap(sepsis):
    """The baseline that a learner whose ties go to the lowest action gets for nothing."""
    lowest = np.broadcast_to(sepsis.admissible.argmax(axis=1), (1, 20, 716))
    value = sepsis.world.policy_values(lowest)[0]
    clinicians = sepsis.world.policy_values(sepsis.behaviour)[0]
    assert (value - clinicians) / (sepsis.world.optimal_value - clinicians) == pytest.approx(0.565, abs=5e-4)


@needs_package
def test_published_values_at_the_packages_horizon():
    """The package's table: random .78, expert .78, optimal .88 (500 steps)."""
    sepsis = mdp.icu_sepsis(horizon=500)
    assert round(sepsis.world.optimal_value, 2) == 0.88
    assert round(float(sepsis.world.policy_values(sepsis.behaviour)[0]), 2) == 0.78


@needs_package
def test_the_package_is_not_imported():
    code = (
        "import sys, warnings; warnings.simplefilter('error'); import tacit.mdp; "
        "s = tacit.mdp.icu_sepsis(horizon=2); s.world.optimal_value; "
        "found = {'gym', 'gymnasium', 'icu_sepsis', 'pandas'} & set(sys.modules); assert not found, found"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_says_what_to_install(monkeypatch):
    monkeypatch.setattr("tacit.mdp.sepsis.find_spec", lambda name: None)
    with pytest.raises(ImportError, match=r"pip install tacit\[sepsis\]"):
        mdp.icu_sepsis()


def test_says_what_is_missing(monkeypatch, tmp_path):
    class Found:
        submodule_search_locations = (str(tmp_path),)

    monkeypatch.setattr("tacit.mdp.sepsis.find_spec", lambda name: Found)
    with pytest.raises(ImportError, match=r"dynamics\.npz"):
        mdp.icu_sepsis()
