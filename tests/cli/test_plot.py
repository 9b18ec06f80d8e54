"""`tacit plot`: the curves of what simulate and sweep kept, named by what makes them differ."""

import json
import re

import numpy as np
import pytest
from commands import assert_mistake, document, invoke, remarks, rollouts

from tacit.simulation import Result, plots

SMALL = ("-w", "riverswim(states=3, horizon=5)", "-K", "150", "--runs", "3")
KINDS = {".png": b"\x89PNG\r\n", ".pdf": b"%PDF-", ".svg": b"<?xml"}


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """Two simulations, one without privacy, and a sweep of two ε in two worlds."""
    home = tmp_path_factory.mktemp("kept")
    for privacy in (("-p", "none"), ("--epsilon", "2")):
        document(invoke("simulate", *SMALL, *privacy, "--out", home, "--json"))
    both = ("-w", "chain(states=3, horizon=5)")  # and the river
    sweep = ("--epsilon", "1,2", *both, "--jobs", "1", "--out", home / "sweep", "--json")
    document(invoke("sweep", *SMALL, *sweep))
    return home


@pytest.fixture
def drawn(monkeypatch):
    """The figures that are made, as Matplotlib has them."""
    figures, plot_panels = [], plots.plot_panels

    def kept(*arguments, **named):
        figures.append(plot_panels(*arguments, **named))
        return figures[-1]

    monkeypatch.setattr(plots, "plot_panels", kept)
    return figures


def curves(figure):
    """Panel → label → (episodes, mean regret)."""
    return {
        ax.get_title(loc="left"): {
            line.get_label(): line.get_xydata().T for line in ax.lines if not line.get_label().startswith("_")
        }
        for ax in figure.axes
        if ax.axison
    }


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("of", ["simulate", "sweep"])
def test_it_draws_what_both_commands_wrote_in_every_format(kept, tmp_path, of, kind):
    target = tmp_path / "new" / f"figure{kind}"
    outcome = invoke("plot", kept if of == "simulate" else kept / "sweep", "--out", target)
    assert (outcome.exit_code, outcome.stdout, remarks(outcome)) == (0, f"{target}\n", [])
    assert target.read_bytes().startswith(KINDS[kind])
    assert list(target.parent.iterdir()) == [target]
    if kind == ".svg":
        texts = re.findall(r"<!-- (.*?) -->", target.read_text())
        named = ("no privacy", "joint ε = 2") if of == "simulate" else ("joint ε = 1", "joint ε = 2")
        assert set(named) < set(texts)


def test_a_curve_is_the_mean_regret_of_its_result(kept, tmp_path, drawn):
    assert invoke("plot", kept, "--out", tmp_path / "figure.png").exit_code == 0
    ((title, found),) = curves(drawn[0]).items()
    assert title == "UCBVI, RiverSwim 3, H = 5"
    assert len(found) == 2
    for file in kept.glob("*.parquet"):
        result = Result.load(file)
        episodes, mean = found["no privacy" if "none" in file.name else "joint ε = 2"]
        assert episodes[-1] == 150
        assert np.allclose(mean[1:], result.regret.mean(axis=0)[episodes[1:].astype(int) - 1], rtol=1e-12)


def test_agents_and_worlds_have_panels_of_their_own(kept, tmp_path, drawn):
    told = document(invoke("plot", kept, kept / "sweep", "--out", tmp_path / "figure.png", "--json"))
    assert told["files"] == [str(tmp_path / "figure.png")]
    assert told["results"] == sorted(map(str, kept.glob("*.parquet"))) + sorted(map(str, kept.glob("sweep/*.parquet")))
    panels = curves(drawn[0])
    assert {panel: sorted(found) for panel, found in panels.items()} == {
        "chain 3": ["joint ε = 1", "joint ε = 2"],
        "RiverSwim 3": ["joint ε = 1", "joint ε = 2", "joint ε = 2 (4)", "no privacy"],  # two are of one name
    }


def test_title_and_labels_are_as_given_in_the_order_of_the_files(kept, tmp_path, drawn):
    files = sorted(kept.glob("*.parquet"), key=lambda file: "none" in file.name)
    call = ("--title", "A river", "--label", "private", "--label", "open", "--out", tmp_path / "figure.png")
    assert invoke("plot", *files, *call).exit_code == 0
    assert drawn[0].get_suptitle() == "A river"
    ((_, found),) = curves(drawn[0]).items()
    assert list(found) == ["private", "open"]
    assert found["open"][1][-1] == pytest.approx(Result.load(files[1]).final_regret.mean())


def test_an_interrupted_result_is_named_as_one(kept, tmp_path, drawn, monkeypatch):
    with monkeypatch.context() as patch:
        rollouts(patch, interrupt=2)
        outcome = invoke("simulate", *SMALL, "--epsilon", "2", "--out", tmp_path, "--json")
    (cut,) = tmp_path.glob("*.parquet")
    drawn.clear()
    (other,) = [file for file in kept.glob("*.parquet") if "none" not in file.name]
    assert invoke("plot", cut, other, "--out", tmp_path / "figure.png").exit_code == 0
    ((_, found),) = curves(drawn[0]).items()
    played = document(outcome, code=130)["summary"]["episodes"]
    assert len(found) == 2
    (label,) = [label for label in found if f"stopped after {played}" in label]
    assert found[label][0][-1] == played


def test_results_stay_as_they_are(kept, tmp_path):
    before = {file: file.read_bytes() for file in kept.rglob("*.*")}
    assert invoke("plot", kept, "--out", tmp_path / "figure.png").exit_code == 0
    assert {file: file.read_bytes() for file in kept.rglob("*.*")} == before


def test_a_table_without_its_facts_is_left_out_of_a_folder(kept, tmp_path):
    home = tmp_path / "home"
    home.mkdir()
    whole, half = sorted(kept.glob("*.parquet"))
    for file in (whole, half):
        (home / file.name).write_bytes(file.read_bytes())
    facts = whole.with_suffix(".json")
    (home / facts.name).write_bytes(facts.read_bytes())
    told = document(invoke("plot", home, "--out", tmp_path / "figure.png", "--json"))
    assert told["results"] == [str(home / whole.name)]


# Mistakes


def broken(home, kept, how):
    """A file that looks like a result."""
    file = home / "broken.parquet"
    source = min(kept.glob("*.parquet"))
    facts = json.loads(source.with_suffix(".json").read_text())
    table = source.read_bytes()
    match how:
        case "text":
            table = b"hello"
        case "cut":
            table = table[: len(table) // 2]
        case "another format":
            facts["format"] = 999
        case "other facts":
            facts = {"name": "not ours"}
        case "a list":
            facts = [1, 2]
    file.write_bytes(table)
    file.with_suffix(".json").write_text(json.dumps(facts) if how != "no JSON" else "{")
    return file


@pytest.mark.parametrize("how", ["text", "cut", "another format", "other facts", "a list", "no JSON"])
def test_a_file_that_is_no_result_is_named(kept, tmp_path, how):
    file = broken(tmp_path, kept, how)
    assert_mistake(invoke("plot", file, "--out", tmp_path / "figure.png"), f"{file} holds no results of Tacit's")
    assert not (tmp_path / "figure.png").exists()


def test_a_file_without_facts_beside_it_is_not_called_missing(tmp_path):
    (tmp_path / "notes.txt").write_text("hello")
    outcome = invoke("plot", tmp_path / "notes.txt", "--out", tmp_path / "figure.png")
    assert_mistake(outcome, f"{tmp_path / 'notes.txt'} holds no results of Tacit's")


def test_what_is_not_there_is_named(tmp_path):
    missing = tmp_path / "missing.parquet"
    assert_mistake(invoke("plot", missing), f"{missing} cannot be read: No such file")
    assert_mistake(invoke("plot", tmp_path), f"there are no results in {tmp_path}")
    assert_mistake(invoke("plot"), "RESULTS")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--out", "figure"), "a figure's name ends in"),
        (("--out", "figure.docx"), "a figure's name ends in"),
        (("--label", "one"), "there are 2, and 1 labels"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_what_cannot_be_drawn_is_a_mistake(kept, tmp_path, monkeypatch, arguments, said):
    monkeypatch.chdir(tmp_path)
    assert_mistake(invoke("plot", kept, *arguments), said)
    assert list(tmp_path.iterdir()) == []
