"""An honest capsule that seeds were added to, and what a forger makes of it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from capsule import archive, extension, manifest
from capsule import plan as plans
from capsule.origin import Extension
from capsule.record import File, Record, sample_order
from tests.support.capsules import carry, forge
from tests.support.command import Document, User, write_manifest, write_script
from tests.support.rereading import LOSS, METRICS, SCRIPT, benchmark

CLAIMS: list[Document] = [
    {"metric": LOSS, "type": "equivalence"},
    {"metric": LOSS, "type": "bound", "at_most": 2},
]
FIRST, ADDED = 3, 3
Change = Callable[[Record, list[File]], tuple[Record, list[File]]]


def write(user: User, **changes: object) -> Path:
    write_script(user.folder, SCRIPT)
    usual = {"benchmarks": benchmark(METRICS), "claims": CLAIMS, "seeds": [1, 2, 3]}
    return write_manifest(user.folder, **{**usual, **changes})


def publish(user: User, **changes: object) -> None:
    """A capsule of the user's own, named a."""
    ended = user.run("run", write(user, **changes), "--runtime", "host", "--output", "a")
    assert ended.returncode == 0, ended.stdout + ended.stderr


@cache
def honest() -> Mapping[str, bytes]:
    """A run, and what it is with three seeds more."""
    with TemporaryDirectory(prefix="capsule-") as folder:
        user = User.make(Path(folder))
        publish(user)
        ended = user.run("run", "--add-seeds", str(ADDED), "a", "--output", "b")
        assert ended.returncode == 0, ended.stdout + ended.stderr
        return {name: (user.folder / name).read_bytes() for name in ("a", "b")}


def lay_forged(folder: Path, change: Change) -> Path:
    """The honest extension, changed and sealed again with every hash made to fit."""
    path = folder / "honest"
    path.write_bytes(honest()["b"])
    with archive.read(path) as capsule:
        return forge(*change(capsule.record, carry(capsule)), folder / "forged")


def as_it_is(record: Record, files: list[File]) -> tuple[Record, list[File]]:
    return record, files


def with_another_count(record: Record, files: list[File]) -> tuple[Record, list[File]]:
    """Fewer seeds are said to be added than there are."""
    assert isinstance(record.origin, Extension)
    return _finish(replace(record, origin=replace(record.origin, seeds=ADDED - 1))), files


def with_a_chosen_seed(record: Record, files: list[File]) -> tuple[Record, list[File]]:
    *kept, last = record.manifest.seeds
    attempts = tuple(
        replace(one, seed=100, trial=one.trial.replace(str(last), "100"))
        if one.seed == last
        else one
        for one in record.attempts
    )
    samples = tuple(
        replace(one, seed=100, trial=one.trial.replace(str(last), "100"))
        if one.seed == last
        else one
        for one in record.samples
    )
    record = replace(record, attempts=attempts, samples=tuple(sorted(samples, key=sample_order)))
    return _with_seeds(record, [*kept, 100]), files


def without_a_bad_one(record: Record, files: list[File]) -> tuple[Record, list[File]]:
    """The second of the added runs is left out, and the count says so."""
    assert isinstance(record.origin, Extension)
    seeds = list(record.manifest.seeds)
    gone = seeds.pop(FIRST + 1)
    record = replace(
        record,
        origin=replace(record.origin, seeds=ADDED - 1),
        attempts=tuple(one for one in record.attempts if one.seed != gone),
        samples=tuple(one for one in record.samples if one.seed != gone),
    )
    stated = {one.path for attempt in record.attempts for one in attempt.evidence}
    kept = [one for one in files if not one.path.startswith("logs/") or one.path in stated]
    return _with_seeds(record, seeds), kept


def with_a_better_first_run(record: Record, files: list[File]) -> tuple[Record, list[File]]:
    """A run that was sealed first, with its log."""
    first = record.attempts[0].trial
    samples = tuple(
        replace(one, values=(0.1,)) if one.trial == first else one for one in record.samples
    )
    changed = [
        replace(one, source=b"score: 0.1\nloss: 0.1\naccuracy: 0.1\n")
        if one.path == "logs/0001-stdout.txt"
        else one
        for one in files
    ]
    return _finish(replace(record, samples=samples)), changed


def with_another_attempt(record: Record, files: list[File]) -> tuple[Record, list[File]]:
    first, *rest = record.attempts
    return replace(record, attempts=(replace(first, seconds=1e-3), *rest)), files


def with_primary_claims(record: Record, files: list[File]) -> tuple[Record, list[File]]:
    claims = tuple(replace(one, later=False, primary=True) for one in record.claims)
    record = replace(record, claims=claims)
    return _with_note(record), files


def with_a_margin_of_all_runs(record: Record, files: list[File]) -> tuple[Record, list[File]]:
    first, *rest = record.claims
    return replace(record, claims=(replace(first, lower=-9.0, upper=9.0), *rest)), files


def without_its_note(record: Record, files: list[File]) -> tuple[Record, list[File]]:
    notes = tuple(one for one in record.notes if one.code != "seeds-added")
    return replace(record, notes=notes), files


def on_another_node(record: Record, files: list[File]) -> tuple[Record, list[File]]:
    return replace(record, nodes=(record.nodes[1], record.nodes[1])), files


def from_before_the_first(record: Record, files: list[File]) -> tuple[Record, list[File]]:
    """All of it took place before there was an id that the seeds could follow from."""
    assert record.predecessor is not None
    early = record.predecessor.record.started
    return replace(record, started=early), files


def with_an_added_run_from_before(record: Record, files: list[File]) -> tuple[Record, list[File]]:
    """One of the added runs was measured before the first ones ended."""
    assert record.predecessor is not None
    early = record.predecessor.record.started
    *others, last = record.attempts
    return replace(record, attempts=(*others, replace(last, started=early))), files


def by_another_engine(record: Record, files: list[File]) -> tuple[Record, list[File]]:
    return replace(record, runtime="podman"), files


def by_another_manifest(record: Record, files: list[File]) -> tuple[Record, list[File]]:
    return _with_manifest(record, title="A number that nobody asked for"), files


def _with_seeds(record: Record, seeds: Sequence[int]) -> Record:
    return _with_manifest(record, seeds=list(seeds))


def _with_manifest(record: Record, **changes: object) -> Record:
    raw = {**json.loads(record.manifest.source), **changes}
    text = (json.dumps(raw, indent=2, ensure_ascii=False) + "\n").encode()
    changed = manifest.read(text, where="forged", folder=None)
    plan = plans.make(changed)
    groups = {trial.id: group.id for group in plan.groups for trial in group.trials}
    attempts = tuple(replace(one, group=groups[one.trial]) for one in record.attempts)
    return _finish(
        replace(
            record,
            manifest=changed,
            plan=plans.to_json(plan),
            plan_digest=str(plan.digest),
            attempts=attempts,
        )
    )


def _finish(record: Record) -> Record:
    """With the claims and the note that the writer would have made of it."""
    return _with_note(replace(record, claims=tuple(extension.claims(record))))


def _with_note(record: Record) -> Record:
    notes = tuple(one for one in record.notes if one.code != "seeds-added")
    return replace(record, notes=(*notes, *extension.due_notes(record)))
