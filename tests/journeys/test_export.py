"""A capsule's numbers as CSV and as a picture, through the command line."""

from __future__ import annotations

import csv
import io
from xml.etree import ElementTree

import pytest

from tests.support.command import User, write_manifest, write_script

# a curve, repeated times, and one number; seed 18 fails after two epochs
SCRIPT = """import json, os, sys
seed = int(os.environ["CAPSULE_SEED"])
with open(os.environ["CAPSULE_RESULTS"], "a") as results:
    def report(name, value, **more):
        results.write(json.dumps({"metric": name, "value": value, **more}) + "\\n")
    for epoch in range(1, 5):
        report("loss", 1 / epoch + seed / 3000, step=epoch)
        if seed == 18 and epoch == 2:
            sys.exit(3)
    report("score", seed / 10)
"""
METRICS = {
    "loss": {"direction": "lower", "per": "step"},
    "score": {"direction": "higher", "unit": "points"},
}


@pytest.fixture(scope="module")
def author(tmp_path_factory: pytest.TempPathFactory) -> User:
    """Who has sealed a.zip, once for all tests."""
    author = User.make(tmp_path_factory.mktemp("export"))
    write_script(author.folder, SCRIPT)
    benchmark = {
        **{"id": "tiny", "command": ["python3", "tiny.py"], "inputs": ["tiny.py"]},
        **{"metrics": METRICS, "cases": {"width": [1, 2]}},
    }
    # what a stranger writes is no formula, no terminal's sequence, and may lack a glyph
    title = "Cost of $x^{$ and 數 in \N{GREEK SMALL LETTER MU}s " + 30 * "long "
    manifest = write_manifest(
        author.folder, benchmarks=[benchmark], claims=[], title=title, seeds=[17, 18, 19]
    )
    assert author.run("run", manifest, "--keep-going", "--output", "a.zip").returncode == 5
    return author


def test_every_value_is_a_row_that_reads_as_it_was_measured(author: User) -> None:
    printed = author.run("export", "csv", "a.zip").stdout
    rows = list(csv.DictReader(io.StringIO(printed)))
    losses = [row for row in rows if row["metric"] == "tiny/width1/command/loss"]
    assert [(row["seed"], row["step"], row["outcome"]) for row in losses] == [
        (str(seed), f"{step}.0", "failed" if seed == 18 else "completed")
        for seed in (17, 18, 19)
        for step in range(1, 3 if seed == 18 else 5)
    ]
    assert [float(row["value"]) for row in losses[:4]] == [1 / n + 17 / 3000 for n in range(1, 5)]
    (score,) = [
        row
        for row in rows
        if row["metric"].endswith("width2/command/score") and row["seed"] == "19"
    ]
    assert (score["value"], score["unit"], score["step"], score["warmup"]) == (
        *("1.9", "points", "", "0"),
    )
    assert len(rows) == 2 * (10 + 2)


def test_curves_and_boxes_are_pictures_that_are_the_same_again(author: User) -> None:
    for name, pattern in (("loss", "tiny/*/*/loss"), ("score", "tiny/*/command/score")):
        author.run("export", "figure", "a.zip", pattern, "-o", f"{name}.svg")
        author.run("export", "figure", "a.zip", pattern, "-o", f"{name}-again.svg")
        picture = author.folder / f"{name}.svg"
        assert picture.read_bytes() == (author.folder / f"{name}-again.svg").read_bytes()
        texts = "".join(ElementTree.parse(picture).getroot().itertext())
        assert "$x^{$ and 數" in texts
        assert "width1" in texts
        assert "width2" in texts
    assert "score [points]" in texts
    author.run("export", "figure", "a.zip", "tiny/width1/command/loss", "-o", "a.pdf")
    author.run("export", "figure", "a.zip", "tiny/width1/command/loss", "-o", "a.png")
    assert (author.folder / "a.pdf").read_bytes()[:5] == b"%PDF-"
    assert (author.folder / "a.png").read_bytes()[1:4] == b"PNG"


@pytest.mark.parametrize(
    ("pattern", "name", "message"),
    [
        ("tiny/*/*/lost", "a.svg", "no metric matches 'tiny/*/*/lost'"),
        ("tiny/width1/command/los", "a.svg", "did you mean tiny/width1/command/loss?"),
        ("tiny/*/*/*", "a.svg", "metrics with several units: 1, points"),
        ("tiny/*/*/loss", "a.gif", "unsupported figure format '.gif' use .svg, .pdf, .png"),
        ("tiny/*/*/loss", "there.svg", "already exists"),
        ("tiny/*/*/loss", "none/a.svg", "cannot write"),
    ],
)
def test_what_cannot_be_drawn_is_said(author: User, pattern: str, name: str, message: str) -> None:
    (author.folder / "there.svg").write_text("kept")
    refused = author.run("export", "figure", "a.zip", pattern, "-o", name)
    assert refused.returncode == 2
    assert message in " ".join(refused.stderr.split())
    assert (author.folder / "there.svg").read_text() == "kept"


def test_without_matplotlib_it_says_what_to_install(author: User) -> None:
    (author.folder / "matplotlib.py").write_text("raise ImportError('not here')\n")
    words = ("export", "figure", "a.zip", "tiny/*/*/loss", "-o", "a.svg")
    refused = author.run(*words, PYTHONPATH=str(author.folder))
    assert refused.returncode == 6
    assert "pip install 'capsule-hpc[figures]'" in refused.stderr
    assert not (author.folder / "a.svg").exists()
