"""Each warning says which line of the manifest it is about."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from capsule import lint, manifest
from capsule.jsons import Json, JsonObject
from capsule.manifest.lines import scan
from capsule.manifest.starter import NOBODY
from tests.manifest.test_reader import GEMM, read, variant
from tests.support.records import LOSS, ClaimDocument, make_record

ON_LOSS = "train/default/command/loss"
OWN: JsonObject = {**GEMM, "frameworks": ["torch"]}
COMMAND: JsonObject = {"id": "c", "command": ["python3", "a.py"], "metrics": {"n": {}}}


@pytest.mark.parametrize(
    ("fields", "code", "key"),
    [
        ({"authors": [{"name": "Ada"}, {"name": NOBODY}]}, "author-unnamed", NOBODY),
        ({"seeds": [1]}, "one-seed", '"seeds"'),
        (
            {"claims": [{"metric": ON_LOSS, "type": "curve"}]},
            "curve-few-seeds",
            '"curve"',
        ),
        (
            {"claims": [{"metric": ON_LOSS, "type": "equivalence", "margin": {"sd": 1}}]},
            "too-few-seeds",
            '"margin"',
        ),
        (
            {"claims": [{"metric": ON_LOSS, "type": "equivalence", "failure_margin": 0.1}]},
            "failure-margin-narrow",
            '"failure_margin"',
        ),
        ({"datasets": {"points": {"path": "x"}}}, "dataset-undigested", '"points"'),
        ({"image": {"reference": "docker://h.example/a:1"}}, "image-undigested", '"reference"'),
        (
            {"benchmarks": [OWN], "claims": [], "resources": {"gpus_per_rank": 4}},
            "rank-uses-one-gpu",
            '"gpus_per_rank"',
        ),
    ],
)
def test_a_warning_stands_at_its_line(fields: JsonObject, code: str, key: str) -> None:
    document = variant(**fields)
    lines = json.dumps(document, indent=1).splitlines()
    (warning,) = [one for one in lint.warnings(read(document)) if one.code == code]
    place = scan("\n".join(lines)).line(warning.pointer)
    assert key in lines[place - 1]


def test_a_warning_about_a_command_stands_at_its_command(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("")
    benchmark: Json = {"id": "b", "command": ["python3", "a.py"], "metrics": {"n": {}}}
    checked = manifest.read(
        json.dumps(variant(benchmarks=[benchmark], claims=[], datasets={})).encode(),
        where="m.json",
        folder=tmp_path,
    )
    (warning,) = [one for one in lint.warnings(checked) if one.code == "input-missing"]
    assert warning.pointer == "/benchmarks/0/command"


def test_a_warning_about_runs_stands_at_its_claim() -> None:
    claims: list[ClaimDocument] = [
        {"metric": LOSS, "type": "equivalence"},
        {"metric": LOSS, "type": "bound", "at_most": 0.5},
    ]
    record = make_record(asked=claims)
    (warning,) = [one for one in lint.warnings_of_runs(record) if one.code == "claim-contradicted"]
    assert warning.pointer == "/claims/1/margin"


@pytest.mark.parametrize(
    ("benchmarks", "gpus", "warned"),
    [([OWN], 1, 0), ([OWN], 2, 1), ([COMMAND], 2, 0), ([COMMAND, OWN], 2, 1), ([OWN], 0, 0)],
)
def test_gpus_beyond_the_first_are_for_commands(
    tmp_path: Path, benchmarks: list[Json], gpus: int, warned: int
) -> None:
    (tmp_path / "a.py").write_text("")
    document = variant(
        benchmarks=benchmarks, claims=[], datasets={}, resources={"gpus_per_rank": gpus}
    )
    checked = manifest.read(json.dumps(document).encode(), where="m.json", folder=tmp_path)
    found = [one for one in lint.warnings(checked) if one.code == "rank-uses-one-gpu"]
    assert len(found) == warned
