"""What is installed: a light import, types, and a wheel with everything in it and nothing else."""

import json
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

import tacit

ROOT = Path(__file__).resolve().parents[2]
HEAVY = ("opendp", "polars", "matplotlib", "gymnasium", "numba", "scipy", "dp_accounting", "gym", "icu_sepsis")


def run(code):
    outcome = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return json.loads(outcome.stdout)


def test_importing_tacit_loads_nothing_heavy():
    code = f"import json, sys, tacit; print(json.dumps([m for m in {HEAVY} if m in sys.modules]))"
    assert run(code) == []


@pytest.mark.parametrize(
    ("use", "loaded"),
    [
        ("tacit.privacy.Joint(epsilon=1)", []),
        ("tacit.mdp.riverswim().spec", []),
        ("tacit.privacy.SimulationNoise(0).gaussian(scale=1.0, runs=1, size=3)", []),
        # OpenDP itself loads polars where that is installed.
        ("tacit.privacy.SecureNoise().laplace(scale=1.0, runs=1, size=3)", ["opendp", "polars"]),
        ("tacit.testing.CHECKS", []),
    ],
)
def test_heavy_libraries_wait_until_they_are_used(use, loaded):
    watched = [name for name in HEAVY if name not in ("numba", "scipy")]
    code = f"import json, sys, tacit; {use}; print(json.dumps([m for m in {watched} if m in sys.modules]))"
    assert run(code) == loaded


def test_importing_everything_takes_at_most_half_a_second_more_than_numpy_and_numba():
    """Shows 6. The best of five, in turns, in fresh processes: a difference within one run of this test."""
    both = "import time, json; {before}; t = time.perf_counter(); {timed}; print(json.dumps(time.perf_counter() - t))"
    rooms = (
        "import tacit, tacit.mdp, tacit.privacy, tacit.privatizers, tacit.statistics, tacit.learners, tacit.releases"
    )
    times = [run(both.format(before="import numpy, numba", timed=rooms)) for _ in range(5)]
    assert min(times) < 0.5


def test_public_names_are_there_and_documented():
    for name in tacit.__all__:
        thing = getattr(tacit, name)
        assert name == "__version__" or thing.__doc__
    assert set(tacit.__all__) <= set(dir(tacit))
    with pytest.raises(AttributeError, match="no attribute 'sesame'"):
        _ = tacit.sesame


def test_the_wheel_has_the_package_its_types_and_its_licence_and_nothing_else(tmp_path):
    subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", tmp_path, ROOT],
        check=True,
        capture_output=True,
    )
    (wheel,) = tmp_path.glob("*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert "tacit/py.typed" in names
    assert any(name.endswith("licenses/LICENSE") for name in names)
    modules = {str(path.relative_to(ROOT / "src")) for path in (ROOT / "src").rglob("*.py")}
    assert modules <= set(names)
    assert all(name.startswith(("tacit/", "tacit-")) for name in names)
    assert not [name for name in names if "__pycache__" in name]
