"""A capsule stays readable, and can be re-executed, when the catalogue of operators has changed."""

import json
import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from capsule import __version__, manifest
from capsule.errors import ManifestError
from capsule.manifest.benchmarks import subject_to_json
from tests.support.command import Document, User, write_manifest

PACKAGE = Path(manifest.__file__).parents[1]
RELU = {
    "id": "relu",
    "level": 0,
    "operator": "relu",
    "cases": "quick",
    "frameworks": ["numpy"],
    "repetitions": 2,
    "warmup": 0,
}
CLAIM = {
    "metric": "relu/*/numpy/l2_error_ratio",
    "type": "threshold",
    "at_most": 1,
    "primary": True,
}


@pytest.fixture
def later(tmp_path: Path) -> Path:
    """A version that lost relu's quick cases, measures one thing more, and lost an operator.

    Its README has another heading.
    """
    copy = tmp_path / "later" / "capsule"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    for name, old, new in (
        ("catalog/operators.py", '"relu", sizes=(1_000, 100_000, 1_000_000)', '"relu", sizes=(7,)'),
        ("catalog/operators.py", '_activation("sigmoid"),', ""),
        (
            "catalog/metrics.py",
            '    MetricFacts("l1_error"',
            '    MetricFacts("new", "1", "none", "portable", 0.0, "trial"),\n'
            '    MetricFacts("l1_error"',
        ),
        ("../archive/readme.py", '"## Claims"', '"## What is claimed"'),
    ):
        path = copy / "levels" / name
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new))
    version = copy / "__init__.py"
    version.write_text(version.read_text().replace(__version__, f"{__version__}.1"))
    return copy.parent


def test_a_later_version_checks_and_verifies_it(author: User, later: Path) -> None:
    benchmarks = [RELU, {**RELU, "id": "sigmoid", "operator": "sigmoid"}]
    path = write_manifest(author.folder, benchmarks=benchmarks, claims=[CLAIM], seeds=[1, 2, 3])
    ended = author.run("run", path)
    assert ended.returncode == 0, ended.stderr
    (capsule,) = author.folder.glob("*.capsule.zip")
    variables = {"PYTHONPATH": os.fspath(later)}
    refused = author.run("lint", path, **variables)
    assert 'unknown operator "sigmoid"' in refused.stderr, "this is no later version"
    checked = author.run("check", capsule, **variables)
    assert checked.returncode == 0, checked.stderr
    assert f"not compared: written by capsule-hpc {__version__}" in checked.stdout
    verified = author.run("verify", capsule, "--json", **variables)
    assert verified.returncode == 0, verified.stderr
    verdict = json.loads(verified.stdout)
    assert verdict["verdict"] == "REPRODUCED"
    cases = {claim["metric"].split("/")[1] for claim in verdict["claims"]}
    assert cases == {"n1000", "n100000", "n1000000"}


def document(**changes: object) -> Document:
    return {
        "name": "relu",
        "title": "relu",
        "authors": [{"name": "A"}],
        "license": "CC0-1.0",
        "seeds": [1],
        "benchmarks": [{**RELU, **changes}],
        "claims": [CLAIM],
    }


def read(source: Document, subjects: Sequence[Document] | None = None) -> manifest.Manifest:
    data = json.dumps(source).encode()
    return manifest.read(data, where="m.json", folder=None, subjects=subjects)


@pytest.mark.parametrize(
    "cases",
    ["quick", [{"n": 3}, {"n": 4, "name": "four"}], {"n": [5, 6]}],
    ids=["set", "list", "sweep"],
)
def test_what_a_plan_states_reads_as_the_catalogue_did(cases: object) -> None:
    source = document(cases=cases)
    first = read(source)
    assert read(source, [subject_to_json(first.benchmarks[0])]) == first


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"cases": [{"n": 3}]}, "the plan has the cases"),
        ({"cases": [{"n": 4}, {"n": 3}]}, "the plan has the cases"),
        ({"cases": {"n": [3, 5]}}, "the plan has the cases"),
        ({"cases": [{"n": 3, "name": "three"}, {"n": 4}]}, "the plan has the cases"),
        ({"frameworks": ["numpy", "torch"]}, "the plan has the frameworks"),
        ({"id": "other"}, "the plan lacks the subject of this benchmark"),
    ],
)
def test_a_plan_that_contradicts_its_manifest_is_refused(
    change: Mapping[str, object], words: str
) -> None:
    first = read(document(cases=[{"n": 3}, {"n": 4}]))
    stated = [subject_to_json(first.benchmarks[0])]
    source = document(**{"cases": [{"n": 3}, {"n": 4}], **change})
    if "id" in change:
        source["claims"] = [{**CLAIM, "metric": "other/*/numpy/l2_error_ratio"}]
    with pytest.raises(ManifestError, match=words):
        read(source, stated)
