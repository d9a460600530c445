"""Capsules whose every hash fits, and which the strict reader refuses for what they say."""

import dataclasses
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capsule import archive, digest, schema
from capsule.archive import lines
from capsule.archive.setup import origin_from_json, origin_to_json
from capsule.errors import BugError, DamagedError
from capsule.origin import Added, Extension, Origin, Original, Rereading, Side, Verification
from capsule.record import Evidence, File
from tests.support.capsules import read_files, rehash, sample_files
from tests.support.records import make_files, make_record

Files = dict[str, bytes]
Forge = Callable[[Files], Files]
Change = Callable[[Any], None]
"""Changes a JSON document in its place."""

SAMPLES = "data/results/samples.jsonl"

ADDED = Added(id="cd" * 32, runs=3)
VERIFICATION = origin_to_json(Verification(of="0" * 64, runs=5))


@pytest.fixture
def files() -> Files:
    return dict(sample_files())


# JSON, with every hash made to fit


DEEP = b"[" * 200_000


@pytest.mark.parametrize(
    "name, old, new",
    [
        ("data/capsule.json", b'"notes": []', b'"notes": [], "notes": []'),
        ("data/capsule.json", b'"notes": []', b'"notes": [NaN]'),
        ("data/capsule.json", b'"notes": []', b'"notes": [1e999]'),
        ("data/capsule.json", b'"notes": []', b'"notes": ' + DEEP),
        ("data/capsule.json", b'"notes": []', b'"notes": ["\\ud800"]'),
        ("data/capsule.json", b'"notes": []', b'"notes": ["\\u001b[2J"]'),
        ("data/capsule.json", b'"notes": []', b'"notes": {}'),
        ("data/capsule.json", b'"notes": []', b'"notes": [], "more": 1'),
        ("data/capsule.json", b'"alpha": 0.05', b'"alpha": ' + b"9" * 100_000),
        ("data/capsule.json", b"{", b"\xef\xbb\xbf{"),
        ("data/capsule.json", b"{", b"["),
        ("data/capsule.json", b"capsule-record/1", b"capsule-record/2"),
        ("data/capsule.json", b'"tool": "', b'"tool": "\\n'),
        ("data/records/hardware.json", b'"load": 0.25', b'"load": Infinity'),
        ("data/results/attempts.jsonl", b'"outcome":"completed"', b'"outcome":"won"'),
        ("data/results/attempts.jsonl", b'"attempt":1', b'"attempt":1,"attempt":1'),
        (SAMPLES, b'"values":[', b'"values":[1e999,'),
        (SAMPLES, b'"values":[', b'"values":[NaN,'),
        (SAMPLES, b'"values":[', b'"values":["nan",'),
        (SAMPLES, b'"values":[', b'"values":[true,'),
        (SAMPLES, b'"values":[', b'"values":[1,'),
        (SAMPLES, b'"values":[', b'"values":[[1.0],'),
        (SAMPLES, b'"values":[', b'"values":[' + DEEP),
        (SAMPLES, b'"values":[', b'"values":[' + b"9" * 100_000 + b","),
        (SAMPLES, b'"values":[', b'"values":[1_0.0,'),
        (SAMPLES, b'"unit":"1"', b'"unit":"1","unit":"1"'),
        (SAMPLES, b'"unit":"1"', b'"unit":1'),
        (SAMPLES, b'"seed":17', b'"seed":true'),
        (SAMPLES, b'"seed":17', b'"seed":4294967296'),
        (SAMPLES, b'"warmup":0', b'"warmup":2'),
        (SAMPLES, b'"steps":null', b'"steps":[]'),
        (SAMPLES, b'"steps":null', b'"steps":[1]'),
        (SAMPLES, b'"steps":null', b'"steps":["NaN"]'),
        (SAMPLES, b'"steps":null,', b""),
        (SAMPLES, b'"warmup":0}\n', b'"warmup":0} \n{}\n'),
        ("data/ro-crate-metadata.json", b'"@graph": [', b'"@graph": [1, '),
        ("data/ro-crate-metadata.json", b'"@graph": [', b'"@graph": [{"@type": "File"}, '),
    ],
)
def test_json_that_is_not_strict_is_refused(
    tmp_path: Path, files: Files, name: str, old: bytes, new: bytes
) -> None:
    assert old in files[name]
    forged = rehash(files | {name: files[name].replace(old, new, 1)})
    with pytest.raises(DamagedError):
        read_files(forged, tmp_path)


def forge_json(name: str, change: Change) -> Forge:
    def forge(files: Files) -> Files:
        value = json.loads(files[name])
        change(value)
        return rehash(files | {name: json.dumps(value).encode()})

    return forge


def forge_text(name: str, old: bytes, new: bytes, count: int = 1) -> Forge:
    def forge(files: Files) -> Files:
        assert old in files[name]
        return rehash(files | {name: files[name].replace(old, new, count)})

    return forge


def set_in(*path: int | str, to: object) -> Change:
    def change(value: Any) -> None:
        for part in path[:-1]:
            value = value[part]
        value[path[-1]] = to

    return change


OTHER = f"sha256:{'0' * 64}"
OTHER_UUID = "00000000-0000-4000-8000-000000000000"


def image_layer(field: str) -> Forge:
    return forge_json("data/records/image.json", set_in("image", "layers", 0, field, to=OTHER))


@pytest.mark.parametrize(
    "forge, named",
    [
        (forge_text("data/manifest.json", b"A tiny", b"A tall"), "manifest.json"),
        (
            forge_text("data/records/plan.json", b"0001-command", b"0002-command"),
            "plan.json has digest",
        ),
        (
            forge_json("data/capsule.json", set_in("origin", to=VERIFICATION)),
            "the plan verifies no",
        ),
        (forge_json("data/capsule.json", set_in("plan", to=OTHER)), "plan.json has digest"),
        (
            forge_json("data/records/image.json", set_in("image", "identity", "kind", to="tree")),
            "identity contradict its reference",
        ),
        (
            forge_json("data/records/image.json", set_in("image", "identity", "digest", to=OTHER)),
            "identity contradict its reference",
        ),
        (forge_json("data/capsule.json", set_in("levels", "digest", to=OTHER)), "levels/"),
        (
            forge_json("data/capsule.json", set_in("ended", to="2026-02-01T10:00:00+00:00")),
            "before its start",
        ),
        (
            forge_json("data/capsule.json", set_in("ended", to="2026-99-01T10:00:00+00:00")),
            "expected a time in UTC",
        ),
        (
            forge_json("data/capsule.json", set_in("claims", 0, "metric", to="a/b/c/d")),
            "the manifest lacks metric a/b/c/d",
        ),
        (
            forge_json("data/capsule.json", set_in("claims", 0, "lower", to=1)),
            "above its upper limit",
        ),
        (
            forge_json("data/capsule.json", set_in("claims", 0, "pattern", to=1)),
            '"pattern": 1, but',
        ),
        *(
            (
                forge_json("data/capsule.json", set_in("claims", 0, field, to=value)),
                "differs from the manifest in",
            )
            for field, value in {"alpha": 0.4, "paired": True}.items()
        ),
        *(
            (
                forge_json("data/capsule.json", set_in("claims", 0, "looks", to=looks)),
                "has the looks",
            )
            for looks in ([], [3, 6])
        ),
        (forge_json("data/capsule.json", set_in("datasets", 0, "name", to="x")), "dataset x"),
        (forge_json("data/capsule.json", set_in("uuid", to=OTHER_UUID)), "bag-info"),
        (
            forge_text("data/results/attempts.jsonl", b"command/17", b"command/99"),
            "the plan lacks this trial",
        ),
        (
            forge_text("data/results/attempts.jsonl", b'"train/', b'"other/'),
            "the plan lacks this trial",
        ),
        (
            forge_text("data/results/attempts.jsonl", b'"attempt":1', b'"attempt":2'),
            "expected 1 to",
        ),
        (
            forge_text("data/results/attempts.jsonl", b'"seed":17', b'"seed":18'),
            "has seed 18, expected 17",
        ),
        (forge_text("data/results/attempts.jsonl", b'"nodes":[0]', b'"nodes":[1]'), "node"),
        (
            forge_text(
                "data/results/attempts.jsonl", b'"setup_seconds":null', b'"setup_seconds":1.5'
            ),
            "has a setup duration, but its benchmark has no setup",
        ),
        (
            forge_text("data/results/attempts.jsonl", b'"reason":null', b'"reason":"exit"'),
            "has the outcome",
        ),
        (
            forge_json(
                "data/records/plan.json",
                set_in("groups", 0, "trials", 0, "seed_source", to="control"),
            ),
            "plan.json has digest",
        ),
        (
            forge_text(
                "data/results/attempts.jsonl",
                b'"seed_source":"manifest"',
                b'"seed_source":"control"',
            ),
            " seed, expected a ",
        ),
        (forge_text(SAMPLES, b'"unit":"1"', b'"unit":"s"'), "unit is 's', expected '1'"),
        (forge_text(SAMPLES, b'"seed":17', b'"seed":16'), "the samples are of trial"),
        (forge_text(SAMPLES, b"final_loss", b"final_lost"), "lacks this metric"),
        (forge_text(SAMPLES, b'"values":[', b'"values":["NaN",'), "expected a finite number"),
        (forge_text(SAMPLES, b'"values":[0.', b'"values":[5.'), "metrics.json"),
        (forge_text("data/results/metrics.json", b'"failed": 0', b'"failed": 1'), "metrics.json"),
        (forge_text("data/records/image-config.json", b"amd64", b"arm64"), "configuration"),
        (forge_text("data/records/image-manifest.json", b'"size": 6', b'"size": 7'), "manifest"),
        (image_layer("diff_id"), "layers contradict its reference"),
        (image_layer("digest"), "layers contradict its reference"),
        (lambda files: rehash(files | {"data/levels/more.py": b""}), "levels/"),
        (lambda files: rehash(files | {"data/more.txt": b""}), "data/more.txt is unexpected"),
        (
            forge_text("data/ro-crate-metadata.json", b'"@type": "File"', b'"@type": "Note"'),
            "contradicts the record and the files",
        ),
    ],
)
def test_a_forgery_whose_hashes_fit_contradicts_itself(
    tmp_path: Path, files: Files, forge: Forge, named: str
) -> None:
    with pytest.raises(DamagedError) as caught:
        read_files(forge(files), tmp_path)
    assert named in str(caught.value)


@pytest.mark.parametrize("runs", [1, 2])
def test_runs_are_not_hidden_as_controls(tmp_path: Path, files: Files, runs: int) -> None:
    """What counts nowhere is no place for runs that somebody would rather not count."""
    plan = json.loads(files["data/records/plan.json"])
    for group in plan["groups"][:runs]:
        group["trials"][0]["seed_source"] = "control"
    capsule = json.loads(files["data/capsule.json"])
    capsule["plan"] = str(digest.of_json(plan))
    documents = {"data/records/plan.json": plan, "data/capsule.json": capsule}
    texts = {name: json.dumps(document).encode() for name, document in documents.items()}
    name = "data/results/attempts.jsonl"
    source = b'"seed_source":"manifest"'
    assert source in files[name]
    texts[name] = files[name].replace(source, b'"seed_source":"control"', runs)
    with pytest.raises(DamagedError) as caught:
        read_files(rehash(files | texts), tmp_path)
    complaint = str(caught.value)
    assert "is a control run outside of a verification" in complaint
    assert "has a control run, but no failed fresh run" in complaint
    assert ("has 2 control runs" in complaint) == (runs > 1)


def test_forging_nothing_is_accepted(tmp_path: Path, files: Files) -> None:
    assert rehash(files) == files
    assert read_files(rehash(files), tmp_path).record == make_record()


# the fast checks of lines say what the published schemas say


@given(
    unit=st.text(st.characters(blacklist_categories=["Cs", "Cc"]), min_size=1, max_size=32),
    values=st.lists(st.floats(), max_size=5),
    resolution=st.floats(0, allow_infinity=False),
    seed=st.integers(0, 2**32 - 1),
)
def test_a_line_of_samples_is_read_as_written_and_fits_its_schema(
    unit: str, values: Sequence[float], resolution: float, seed: int
) -> None:
    samples = dataclasses.replace(
        make_record().samples[0],
        unit=unit,
        values=tuple(values),
        resolution=resolution,
        seed=seed,
    )
    line = lines.write_samples(samples)
    [read] = lines.read_samples([line], where="samples")
    assert repr(read) == repr(samples)
    assert schema.validate(json.loads(line), "sample-1") == []


def test_a_capsule_of_another_layout_is_told_in_a_sentence(files: Files, tmp_path: Path) -> None:
    def older(value: dict[str, Any]) -> None:
        value["tool"] = "0.0.1"
        value["verifies"] = None
        del value["origin"]

    (tmp_path / "old").mkdir()
    for name, data in forge_json("data/capsule.json", older)(files).items():
        path = tmp_path / "old" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    with pytest.raises(DamagedError, match=r"in a layout that .* cannot read"):
        archive.read(tmp_path / "old")


EVIDENCE = Evidence(path="evidence/a/curve.png", name="out/curve.png")


def test_evidence_of_a_trial_is_kept_and_held_to_what_its_attempt_says(tmp_path: Path) -> None:
    record = make_record()
    first = dataclasses.replace(record.attempts[0], evidence=(EVIDENCE,))
    record = dataclasses.replace(record, attempts=(first, *record.attempts[1:]))
    kept = File(path="evidence/a/curve.png", source=b"png")
    target = tmp_path / "a.capsule.zip"
    archive.write(record, [*make_files(), kept], target)
    with archive.read(target) as capsule:
        assert capsule.record.attempts[0].evidence == (EVIDENCE,)
        assert capsule.open("evidence/a/curve.png") == b"png"


@pytest.mark.parametrize(
    ("evidence", "carried", "words"),
    [
        ((EVIDENCE,), [], "evidence/a/curve.png is missing"),
        (
            (),
            [File(path="evidence/a/curve.png", source=b"png")],
            "expected an attempt with the evidence",
        ),
        (
            (EVIDENCE, EVIDENCE),
            [File(path="evidence/a/curve.png", source=b"png")],
            "is the evidence of two attempts",
        ),
        (
            (dataclasses.replace(EVIDENCE, rank=1),),
            [File(path="evidence/a/curve.png", source=b"png")],
            "evidence of rank",
        ),
    ],
)
def test_evidence_that_does_not_fit_is_refused(
    tmp_path: Path, evidence: tuple[Evidence, ...], carried: Sequence[File], words: str
) -> None:
    record = make_record()
    first = dataclasses.replace(record.attempts[0], evidence=evidence)
    record = dataclasses.replace(record, attempts=(first, *record.attempts[1:]))
    # the writer reads back what it wrote, by the one strict reader
    with pytest.raises(BugError, match=words):
        archive.write(record, [*make_files(), *carried], tmp_path / "a.capsule.zip")


@pytest.mark.parametrize(
    "origin",
    [
        Original(),
        Original(image="docker://example/other:1"),
        Verification(
            of="ab" * 32,
            runs=5,
            nonce="n",
            look=2,
            levels="own",
            added=(Added(id="cd" * 32, runs=3),),
        ),
        Side(pair="p", side="b", order="abab", margin=1.01, metrics=("*/*/*/forward_time",)),
        Extension(of="ab" * 32, seeds=2),
        Rereading(of="ab" * 32),
    ],
)
def test_every_origin_comes_back_as_it_was_written(origin: Origin) -> None:
    document = json.loads(json.dumps(origin_to_json(origin)))
    assert origin_from_json(document) == origin
    record = schema.load("record-1")["properties"]["origin"]
    assert any(kind["properties"]["kind"]["const"] == origin.kind for kind in record["oneOf"])
