"""An honest capsule whose numbers were read again, and what a forger makes of it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from capsule import archive, digest, freezing, rereading, summary
from capsule.origin import Rereading
from capsule.predecessor import Predecessor
from capsule.record import File, Record
from tests.support.capsules import carry, forge
from tests.support.command import Document, User, write_manifest, write_script

LOSS, SCORE = "tiny/default/command/loss", "tiny/default/command/score"
SCRIPT = """
import os, random
seed = int(os.environ["CAPSULE_SEED"])
print(f"score: {2 + random.Random(seed).uniform(-0.1, 0.1):.6f}")
print(f"loss: {1 + random.Random(seed).uniform(-0.01, 0.01):.6f}")
print(f"accuracy: {0.5 + random.Random(seed).uniform(-0.01, 0.01):.6f}")
"""
METRICS: Document = {
    "loss": {"direction": "lower", "from": {"pattern": "loss: (.*)"}},
    "score": {"direction": "lower", "from": {"pattern": "(?:score|accuracy): (.*)"}},
}
CORRECTED: Document = {
    "loss": METRICS["loss"],
    "score": {"direction": "lower", "from": {"pattern": "score: (.*)"}},
    "accuracy": {"direction": "higher", "from": {"pattern": "accuracy: (.*)"}},
}
CLAIMS: list[Document] = [
    {"metric": LOSS, "type": "equivalence"},
    {"metric": SCORE, "type": "equivalence", "margin": {"relative": 0.05}},
]
Change = Callable[[Record, list[File]], tuple[Record, list[File]]]


def benchmark(metrics: Document) -> list[Document]:
    return [
        {
            "id": "tiny",
            "command": ["python3", "tiny.py"],
            "inputs": ["tiny.py"],
            "metrics": metrics,
        }
    ]


def write(user: User, metrics: Document = METRICS, script: str = SCRIPT, **changes: object) -> Path:
    write_script(user.folder, script)
    return write_manifest(
        user.folder, **{"benchmarks": benchmark(metrics), "claims": CLAIMS, **changes}
    )


def correct(user: User, metrics: Document = CORRECTED, **changes: object) -> Path:
    """A corrected manifest in a folder without what it names."""
    folder = user.folder / "corrected"
    folder.mkdir(exist_ok=True)
    return write_manifest(folder, **{"benchmarks": benchmark(metrics), "claims": CLAIMS, **changes})


@cache
def honest() -> Mapping[str, bytes]:
    """A run, and what it is after its numbers were read again."""
    with TemporaryDirectory(prefix="capsule-") as folder:
        user = User.make(Path(folder))
        for words in (
            ("run", write(user), "--runtime", "host", "--output", "a"),
            ("reread", "a", "--manifest", correct(user), "--output", "b"),
        ):
            ended = user.run(*words)
            assert ended.returncode == 0, ended.stdout + ended.stderr
        return {name: (user.folder / name).read_bytes() for name in ("a", "b")}


def lay_forged(folder: Path, change: Change) -> Path:
    """The honest second reading, changed and sealed again with every hash made to fit."""
    path = folder / "honest"
    path.write_bytes(honest()["b"])
    with archive.read(path) as capsule:
        return forge(*change(capsule.record, carry(capsule)), folder / "forged")


def as_it_is(record: Record, files: list[File]) -> tuple[Record, list[File]]:
    return record, files


def with_primary_claims(record: Record, files: list[File]) -> tuple[Record, list[File]]:
    claims = tuple(replace(one, later=False, primary=True) for one in record.claims)
    return noted(replace(record, claims=claims)), files


def noted(record: Record) -> Record:
    """With the note that its claims call for."""
    notes = tuple(one for one in record.notes if one.code != "reread")
    return replace(record, notes=(*notes, rereading.note(record)))


def with_a_wider_margin(record: Record, files: list[File]) -> tuple[Record, list[File]]:
    """In the predecessor's own record too."""
    assert record.predecessor is not None
    before = record.predecessor.record
    wider = tuple(replace(one, lower=-9.0, upper=9.0) for one in before.claims)
    predecessor = record.predecessor._replace(record=replace(before, claims=wider))
    claims = tuple(
        one if one.later else replace(one, lower=-9.0, upper=9.0) for one in record.claims
    )
    return replace(record, claims=claims, predecessor=predecessor), files


def of_another(record: Record, files: list[File]) -> tuple[Record, list[File]]:
    changed = replace(record, origin=Rereading(of="0" * 64))
    return noted(changed), files


def with_another_log(record: Record, files: list[File]) -> tuple[Record, list[File]]:
    """A log and all that is read from it."""
    text = b"score: 0.1\nloss: 0.1\naccuracy: 0.1\n"
    first = record.attempts[0].trial
    samples = tuple(
        replace(one, values=(0.1,)) if one.trial == first else one for one in record.samples
    )
    return replace(record, samples=samples), [
        replace(one, source=text) if one.path == "logs/0001-stdout.txt" else one for one in files
    ]


def with_an_invented_predecessor(record: Record, files: list[File]) -> tuple[Record, list[File]]:
    """A log, all that is read from it, and a predecessor that has it so, under the same id."""
    record, files = with_another_log(record, files)
    predecessor = _predecessor(record)
    before = predecessor.record
    first = record.attempts[0].trial
    samples = tuple(
        replace(one, values=(0.1,)) if one.trial == first else one for one in before.samples
    )
    old = replace(before, samples=samples)
    frozen = tuple(freezing.follow(old.manifest.claims, summary.run_values(old)))
    log = next(one.source for one in files if one.path == "logs/0001-stdout.txt")
    changed = digest.of_bytes(log).hex.encode() + b"  data/logs/0001-stdout.txt"
    manifest = b"\n".join(
        changed if line.endswith(b"data/logs/0001-stdout.txt") else line
        for line in predecessor.manifest.split(b"\n")
    )
    predecessor = predecessor._replace(record=replace(old, claims=frozen), manifest=manifest)
    return replace(record, predecessor=predecessor), files


def with_a_failure(record: Record, files: list[File]) -> tuple[Record, list[File]]:
    """A run that completed is said to have failed."""
    first, *rest = record.attempts
    failed = replace(first, outcome="failed", reason="no-result", message="nothing there")
    return refrozen(replace(record, attempts=(failed, *rest))), files


def refrozen(record: Record) -> Record:
    """With the claims that its runs make, as the writer would have frozen them."""
    return noted(replace(record, claims=tuple(rereading.claims(record))))


def without_its_note(record: Record, files: list[File]) -> tuple[Record, list[File]]:
    notes = tuple(one for one in record.notes if one.code != "reread")
    return replace(record, notes=notes), files


def with_a_later_start(record: Record, files: list[File]) -> tuple[Record, list[File]]:
    return replace(record, started=record.ended), files


def with_another_command(record: Record, files: list[File]) -> tuple[Record, list[File]]:
    """A predecessor that ran something else."""
    predecessor = _predecessor(record)
    before = predecessor.record
    raw = json.loads(before.manifest.source)
    raw["title"] = "Another"
    manifest = replace(before.manifest, source=json.dumps(raw).encode(), title="Another")
    changed = predecessor._replace(record=replace(before, manifest=manifest))
    return replace(record, predecessor=changed), files


def with_a_file_more(record: Record, files: list[File]) -> tuple[Record, list[File]]:
    return record, [*files, File(path="logs/9999-stdout.txt", source=b"loss: 1\n")]


def _predecessor(record: Record) -> Predecessor:
    assert record.predecessor is not None
    return record.predecessor
