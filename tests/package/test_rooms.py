"""The rooms' rules are enforced: a forbidden import is caught, and by the contract that forbids it."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

INTRUDERS = [
    ("mdp/planning.py", "tacit.privacy", "floors"),
    ("privacy/noise.py", "tacit.mdp.spec", "floors"),
    ("releases.py", "tacit.privacy.errors", "floors"),
    ("privacy/accounting.py", "tacit.statistics", "floors"),
    ("privatizers/central.py", "tacit.learners", "floors"),
    ("statistics/tabular.py", "tacit.privatizers", "floors"),
    ("statistics/reading.py", "tacit.mdp.worlds.river", "no-worlds"),
    ("privatizers/local.py", "tacit.mdp.tabular", "no-worlds"),
    ("learners/__init__.py", "tacit.statistics", "learners"),
    ("learners/__init__.py", "tacit.privacy", "learners"),
    ("learners/__init__.py", "tacit.mdp.trajectories", "learners"),
]


@pytest.fixture
def house(tmp_path):
    shutil.copytree(ROOT / "src" / "tacit", tmp_path / "tacit", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def lint(house, contract=None):
    code = (
        "import sys; sys.path.insert(0, '.'); from importlinter.cli import lint_imports_command; "
        f"sys.argv = ['lint-imports', '--no-cache'{f', {contract!r}' if contract else ''}]; lint_imports_command()"
    )
    return subprocess.run([sys.executable, "-c", code], cwd=house, capture_output=True, text=True, check=False)


def test_the_house_is_in_order(house):
    outcome = lint(house)
    assert outcome.returncode == 0, outcome.stdout
    assert "3 kept, 0 broken" in outcome.stdout


@pytest.mark.parametrize(("module", "imported", "contract"), INTRUDERS)
def test_a_forbidden_import_is_caught(house, module, imported, contract):
    path = house / "tacit" / module
    path.write_text(path.read_text() + f"\nimport {imported}\n")
    outcome = lint(house, f"--contract={contract}")
    assert outcome.returncode == 1, outcome.stdout
    assert "1 broken" in outcome.stdout
    assert imported in outcome.stdout
