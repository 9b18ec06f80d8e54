"""The documents tell the truth: examples run, links lead somewhere, the README's statement is the real one."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted(page for page in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")] if "tacit-out" not in page.parts)
EXAMPLES = [page for page in PAGES if "```python" in page.read_text()]


def blocks(page, language):
    fenced = re.findall(r"^```(\w*)\n(.*?)^```$", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    return [text for name, text in fenced if name == language]


@pytest.mark.parametrize("page", EXAMPLES, ids=lambda page: page.name)
def test_examples_run(page, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # some write files
    names = {}
    for block in blocks(page, "python"):
        exec(compile(block, str(page), "exec"), names)
    if page.name == "online.md":  # FrozenLake: whoever walks at random arrives in 0.3 % of the cases
        assert sum(names["arrived"][-10_000:]) > 3_000
    if page.name == "README.md":
        printed = capsys.readouterr().out.strip()
        assert printed in [block.strip() for block in blocks(page, "")]
        assert names["result"].regret.shape == (5, 20_000)
        assert names["ticket"].policy.shape == (20, 6)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)#]+?)(?:#[^)]*)?\)", page.read_text()):
        if "://" not in target:
            assert (page.parent / target).exists(), target


def test_every_test_module_that_a_proof_names_is_there():
    named = set()
    for page in (ROOT / "docs" / "proofs").glob("*.md"):
        named |= set(re.findall(r"tests/[\w/]+\.py", page.read_text()))
    assert named
    assert not [path for path in named if not (ROOT / path).exists()]


def test_every_mechanism_has_a_page():
    for module in (ROOT / "src" / "tacit" / "privacy" / "mechanisms").glob("[a-z]*.py"):
        assert (ROOT / "docs" / "proofs" / f"{module.stem}.md").exists(), module.stem
