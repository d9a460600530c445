"""Capsules: changed in any byte, or in what they state with every hash made to fit again."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

from capsule import (
    archive,
    digest,
    earlier,
    judgement,
    plan,
    preview,
    reading,
    report,
    rerun,
    schema,
)
from capsule.archive import Capsule, bag, codec, crate, indented, readme
from capsule.archive.crate import Payload
from capsule.archive.limits import Budget
from capsule.console import Console
from capsule.errors import BugError, CapsuleError, DamagedError
from capsule.options import VerifyOptions
from capsule.trust import policy
from capsule.verbs import verb
from capsule.verdict import Verdict
from tests.fuzz import mutate
from tests.fuzz.campaign import Door
from tests.support import bulk
from tests.support.capsules import pack, rehash, unpack
from tests.support.records import manifest_document

Files = dict[str, bytes]

_MOST_LINES = 3
_CLAIMS = (
    {"metric": "train/*/*/final_loss", "type": "equivalence", "margin": {"absolute": 0.05}},
    {"metric": "train/*/*/final_loss", "type": "threshold", "at_most": 1, "mean": "geometric"},
    {"metric": "train/*/*/step_time", "type": "equivalence", "margin": {"ratio": 2}},
    {"metric": "train/*/*/step_time", "type": "ratio"},
    {"metric": "train/*/*/final_loss", "type": "noninferiority"},
)
_OPERATORS = {
    "name": "operators",
    "title": "Operators",
    "authors": [{"name": "Ada Author"}],
    "license": "CC0-1.0",
    "seeds": [1, 2, 3],
    "benchmarks": [
        {
            "id": "gemm",
            "level": 0,
            "operator": "gemm",
            "cases": [{"m": 4, "n": 4, "k": 4}],
            "frameworks": ["numpy"],
        }
    ],
    "claims": [{"metric": "gemm/*/*/*", "type": "equivalence"}],
}


def document(seeds: int = 5) -> dict[str, Any]:
    """A command with an image and claims of several kinds."""
    asked = [dict(claim) for claim in _CLAIMS]
    return {
        **manifest_document(tuple(range(17, 17 + seeds)), asked=asked),
        "datasets": {},
        "benchmarks": [{**manifest_document()["benchmarks"][0], "datasets": []}],
    }


@cache
def bases() -> dict[str, Files]:
    """Whole capsules by name; a verification stands beside what it verifies."""
    made: dict[str, Files] = {}
    with TemporaryDirectory() as folder:
        for name, manifest in (("command", document()), ("operators", _OPERATORS)):
            read = bulk.read_manifest(manifest)
            path = Path(folder) / f"{name}.capsule.zip"
            original = bulk.make(read, bulk.normal(4, 1))
            capsule_id = bulk.seal(original, path)
            made[name] = unpack(path)
            again = bulk.make(read, bulk.normal(4, 2), verifies=capsule_id, claims=original.claims)
            path = Path(folder) / f"{name}.verification.zip"
            bulk.seal(again, path)
            made[f"{name}-verification"] = unpack(path)
    return made


def make_bytes(random: Random) -> bytes:
    """The bytes of a zip, changed."""
    return mutate.text(_zipped(random.choice(list(bases().values()))), random)


def _zipped(files: Files) -> bytes:
    with TemporaryDirectory() as folder:
        return pack(files, Path(folder) / "a.zip").read_bytes()


def send_bytes(data: bytes, folder: Path) -> None:
    """Read it."""
    path = folder / "a.capsule.zip"
    path.write_bytes(data)
    archive.read(path).close()


def make_members(random: Random) -> bytes:
    """A base by its name, and the text of each document that is changed."""
    name = random.choice(list(bases()))
    files = bases()[name]
    changed: dict[str, str] = {}
    for _ in range(random.choice((1, 1, 2, 3))):
        path = random.choice([path for path in files if path.endswith((".json", ".jsonl"))])
        changed[path] = _change(files[path], path, random).decode("utf-8", "surrogateescape")
    return json.dumps({"base": name, "files": changed}).encode()


def _change(data: bytes, path: str, random: Random) -> bytes:
    if random.random() < 0.05:
        return mutate.text(data, random)
    if not path.endswith(".jsonl"):
        return _text(mutate.document(json.loads(data), random, random.choice((1, 1, 1, 3))))
    lines = data.splitlines()
    for _ in range(random.randint(1, _MOST_LINES)):
        place = random.randrange(len(lines))
        line = mutate.document(json.loads(lines[place]), random)
        lines[place] = _line(line)
    return b"\n".join([*lines, b""])


def _text(value: Any) -> bytes:
    try:
        return indented.pretty(value)
    except (TypeError, ValueError):  # keys that are no strings, half a surrogate pair
        return json.dumps(value).encode()


def _line(value: Any) -> bytes:
    try:
        return digest.canonical_json(value)
    except (TypeError, ValueError):
        return json.dumps(value).encode()


def send_members(data: bytes, folder: Path) -> None:
    """Read it with every hash made to fit; what is taken, every command reads."""
    sent = json.loads(data)
    base = bases()[sent["base"]]
    files = {
        **base,
        **{path: text.encode("utf-8", "surrogateescape") for path, text in sent["files"].items()},
    }
    path = pack(rehash(mend(files)), folder / "a.capsule.zip")
    stem = sent["base"].partition("-")[0]
    original = pack(bases()[stem], folder / "original.capsule.zip")
    again = pack(bases()[f"{stem}-verification"], folder / "again.capsule.zip")
    with reading.read(path) as capsule:
        use(capsule, path, (original, again), folder)


def use(capsule: Capsule, path: Path, others: tuple[Path, Path], folder: Path) -> None:
    """Do with a capsule what every command does that reads one.

    Args:
        capsule: It, open.
        path: Where it lies.
        others: An original and its verification.
        folder: To lay files out in.
    """
    console = Console(out=io.StringIO(), err=io.StringIO())
    try:
        console.data("\n".join(capsule.facts()))
        console.show(*report.draw_record(capsule.record, capsule.id))
        _hold(report.record_to_json(capsule.record, capsule.id), None)
        for first, second in ((path, path), (path, others[1])):
            _judge(judgement.diff(first, second), console)
        with suppress(DamagedError):  # it may say that it verifies the other one, and be none
            _judge(judgement.diff(others[0], path), console)
    except CapsuleError as error:
        raise BugError(f"`check` takes what another command refuses: {error}") from error
    _plan(capsule, path, folder)
    _preview(capsule, console)


def _preview(capsule: Capsule, console: Console) -> None:
    """What is shown of it before anybody trusts it."""
    options = VerifyOptions(runtime="host")
    with suppress(CapsuleError):
        shown = preview.preview_verification(capsule, options)
        console.show(*report.draw_preview(shown))
        _hold(report.preview_to_json(shown), None)
    code = policy.of_capsule(capsule, own_levels=False)
    with suppress(CapsuleError):
        planned = rerun.plan(capsule, options)
        prospect = rerun.prospect(capsule, planned, options, own=False)
        request = rerun.request(capsule, options, Path("scratch"))
        policy.require_consent(code, request, options, prospect)


def _judge(verdict: Verdict, console: Console) -> None:
    for full in (False, True):
        console.show(*report.draw_verdict(verdict, full=full))
    going_on = verb.next_command(Path("a"), Path("b"), verdict, {})
    _hold(report.verdict_to_json(verdict, going_on), "comparison-1")


def _hold(value: Any, name: str | None) -> None:
    # what programs are given is strict JSON of its schema
    text = json.dumps(value, allow_nan=False, ensure_ascii=False).encode()
    assert name is None or schema.validate(json.loads(text), name) == []


def _plan(capsule: Capsule, path: Path, folder: Path) -> None:
    """What a verification decides before it runs anything."""
    record = capsule.record
    for looks in _planned(capsule):
        runs = rerun.runs(record, None, looks)
        plan.make(record.manifest, verifies=capsule.id, runs=runs)
    rerun.request(capsule, VerifyOptions(), folder / "scratch")
    with suppress(CapsuleError):
        earlier.take(capsule, [path])
    if record.verifies is not None:
        earlier.take(capsule, [path])


def _planned(capsule: Capsule) -> Iterator[tuple[int, ...]]:
    for until_decided in (False, True):
        with suppress(CapsuleError):
            yield rerun.looks(capsule.record, until_decided=until_decided)


def mend(files: Files) -> Files:
    """Bring all that follows from the documents up to date, as far as that can be done."""
    mended = dict(files)
    steps: tuple[Callable[[Files], None], ...] = (_mend_image, _mend_digests, _mend_results)
    for step in steps:
        with suppress(Exception):
            step(mended)
    return mended


def _mend_image(files: Files) -> None:
    document = json.loads(files["data/records/image.json"])
    image = document["image"]
    config = files["data/records/image-config.json"]
    manifest = json.loads(files["data/records/image-manifest.json"])
    if manifest["config"]["digest"] != str(digest.of_bytes(config)):
        manifest["config"]["digest"] = str(digest.of_bytes(config))
        files["data/records/image-manifest.json"] = json.dumps(manifest).encode()
    image["config_digest"] = str(digest.of_bytes(config))
    own = str(digest.of_bytes(files["data/records/image-manifest.json"]))
    image["manifest_digest"] = image["identity"]["digest"] = own
    files["data/records/image.json"] = _text(document)


def _mend_digests(files: Files) -> None:
    plan_, record = (
        json.loads(files[f"data/{name}"]) for name in ("records/plan.json", "capsule.json")
    )
    record["manifest"] = plan_["manifest"] = str(digest.of_bytes(files["data/manifest.json"]))
    files["data/records/plan.json"] = _text(plan_)
    record["plan"] = str(digest.of_json(plan_))
    files["data/capsule.json"] = _text(record)


def _mend_results(files: Files) -> None:
    names = [name.removeprefix("data/") for name in files if name.startswith("data/")]
    record = codec.read(
        names, lambda name: [files[f"data/{name}"]], where="mended", budget=Budget()
    )
    files["bag-info.txt"] = bag.info(record, payload_bytes=0, payload_files=0)
    files["data/results/metrics.json"] = b"".join(codec.metrics(record))
    files[f"data/{readme.NAME}"] = b"".join(
        readme.build(record, {name: digest.of_bytes(files[f"data/{name}"]) for name in names})
    )
    described = [
        Payload(path=name, name=name, size_bytes=len(data), digest=digest.of_bytes(data))
        for name, data in ((name, files[f"data/{name}"]) for name in sorted(names))
        if name != crate.NAME
    ]
    files[f"data/{crate.NAME}"] = b"".join(crate.build(record, lambda: iter(described)))


BYTES = Door(name="bytes", make=make_bytes, send=send_bytes)
MEMBERS = Door(name="members", make=make_members, send=send_members, inputs=40)
