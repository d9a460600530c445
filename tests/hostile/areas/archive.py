"""Capsules whose every hash fits: too large, too many, too deep, or odd in what they state."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from capsule import __version__
from capsule.archive.indented import pretty
from capsule.digest import canonical_json, of_json
from tests.hostile.case import Case, Prepare
from tests.support import bulk
from tests.support.capsules import pack, rehash, sample_files, unpack
from tests.support.command import User

Files = dict[str, bytes]
Change = Callable[[Any], None]
"""Changes a JSON document in its place."""

_MIB = 256
_PLAN, _RECORD = "data/records/plan.json", "data/capsule.json"
_ENVIRONMENT = "data/records/environment.json"
_HERE = "what takes the memory"
_SAMPLES, _ATTEMPTS = "data/results/samples.jsonl", "data/results/attempts.jsonl"
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
}


@cache
def _operators() -> Files:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "a.capsule.zip"
        bulk.seal(bulk.make(bulk.read_manifest(_OPERATORS), bulk.normal(4, 1)), path)
        return unpack(path)


def _forge(
    change: Callable[[Files], Files], verb: str = "check", base: Callable[[], Files] = sample_files
) -> Prepare:
    """The arguments of a verb for the sample capsule with changed files and right hashes."""

    def prepare(user: User) -> list[str | Path]:
        path = pack(rehash(change(dict(base()))), user.folder / "a.capsule.zip")
        return [verb, path] if verb != "diff" else [verb, path, path]

    return prepare


def _replace(name: str, data: bytes) -> Callable[[Files], Files]:
    return lambda files: files | {name: data}


def _document(name: str, change: Change) -> Callable[[Files], Files]:
    """One document changed, and what names it by a digest too."""

    def forge(files: Files) -> Files:
        value = json.loads(files[name])
        change(value)
        changed = files | {name: pretty(value)}
        if name == _PLAN:
            record = json.loads(files[_RECORD])
            record["plan"] = str(of_json(value))
            changed[_RECORD] = pretty(record)
        return changed

    return forge


def _full(name: str, change: Change, values: bytes) -> Callable[[Files], Files]:
    """One document with these values at `_HERE`: they are counted before anything is read."""

    def forge(files: Files) -> Files:
        value = json.loads(files[name])
        change(value)
        return files | {name: pretty(value).replace(json.dumps(_HERE).encode(), values)}

    return forge


def _doubled_metric(plan: Any) -> None:
    plan["subjects"][0]["metrics"].append(plan["subjects"][0]["metrics"][0])


def _doubled_case(plan: Any) -> None:
    plan["subjects"][0]["cases"].append(plan["subjects"][0]["cases"][0])


def _many_groups(plan: Any) -> None:
    plan["groups"] = _HERE


def _large_environment(document: Any) -> None:
    document["environment"]["effective"] = {"a": _HERE}


def _many_claims(record: Any) -> None:
    record["tool"] = __version__
    record["claims"] = [*record["claims"] * 50_000, 1]


def _variables(document: Any) -> None:
    document["environment"]["variables"] = ["OMP_NUM_THREADS"]


def _folders(files: Files) -> Files:
    """Every file in thirty folders of its own."""
    names = (f"data/inputs/{n:06d}/" + "a/" * 85 + "x" for n in range(50_000))
    return files | dict.fromkeys(names, b"")


def _long_names(files: Files) -> Files:
    return files | {f"data/inputs/{n:04d}/" + "b/" * 30_000 + "x": b"" for n in range(160)}


def _logs(files: Files) -> Files:
    return files | {f"data/logs/{n:06d}-stdout.txt": b"x" for n in range(20_000)}


def _sample_lines(files: Files) -> Files:
    line = files[_SAMPLES].splitlines(keepends=True)[0]
    return files | {_SAMPLES: line * 200_000}


def _long_series(files: Files) -> Files:
    before, values, after = files[_SAMPLES].partition(b'"values":[')
    return files | {_SAMPLES: before + values + b"0.0," * 17_000_000 + after}


def _attempt_lines(files: Files) -> Files:
    attempt = json.loads(files[_ATTEMPTS].splitlines()[0])
    line = canonical_json({**attempt, "message": "x" * 300}) + b"\n"
    return files | {_ATTEMPTS: line * 100_000}


def _many_entities(document: Any) -> None:
    document["@graph"] = [{}] * 1_000_000


def _large_info(files: Files) -> Files:
    return files | {"bag-info.txt": b"Contact-Name: " + b"x" * (40 << 20) + b"\n"}


CASES = (
    Case(
        name="archive/plan-of-four-million-groups",
        prepare=_forge(_full(_PLAN, _many_groups, b"[" + b"{},\n" * 4_000_000 + b"{}]")),
        status=4,
        says="too many values: they need about",
        mib=_MIB,
    ),
    Case(
        name="archive/environment-of-four-million-lists",
        prepare=_forge(
            _full(_ENVIRONMENT, _large_environment, b"[" + b"[[]],\n" * 2_000_000 + b"[[]]]")
        ),
        status=4,
        says="too many values: they need about",
        mib=_MIB,
    ),
    Case(
        name="archive/the-last-of-many-claims-is-none",
        prepare=_forge(_document(_RECORD, _many_claims)),
        status=4,
        says="/claims/50000",
        mib=_MIB,
    ),
    Case(
        name="archive/folders-without-end",
        prepare=_forge(_folders),
        status=4,
        says="more than 50000 folders",
        mib=_MIB,
    ),
    Case(
        name="archive/names-of-ten-megabytes",
        prepare=_forge(_long_names),
        status=4,
        says="the limit is 200",
        mib=_MIB,
    ),
    Case(
        name="archive/twenty-thousand-files",
        prepare=_forge(_logs),
        status=4,
        says="contradicts the record and the files",
        mib=_MIB,
    ),
    Case(
        name="archive/two-hundred-thousand-sample-lines",
        prepare=_forge(_sample_lines),
        status=4,
        says="expected ascending order",
        mib=_MIB,
    ),
    Case(
        name="archive/seventeen-million-values-in-a-line",
        prepare=_forge(_long_series),
        status=4,
        says="a line is longer than 32.0 MiB",
        mib=_MIB,
    ),
    Case(
        name="archive/a-hundred-thousand-attempts-at-one-trial",
        prepare=_forge(_attempt_lines),
        status=4,
        says="expected 1 to ",
        mib=_MIB,
    ),
    Case(
        name="archive/bag-info-of-forty-megabytes",
        prepare=_forge(_large_info),
        status=4,
        says="bag-info.txt has ",
        mib=_MIB,
    ),
    Case(
        name="archive/crate-of-a-million-entities",
        prepare=_forge(_document("data/ro-crate-metadata.json", _many_entities)),
        status=4,
        says="contradicts the record and the files",
        mib=_MIB,
    ),
    Case(
        name="archive/readme-of-two-hundred-megabytes",
        prepare=_forge(_replace("data/README.md", b"x" * (200 << 20))),
        status=4,
        says="README.md contradicts the record",
        mib=_MIB,
    ),
    Case(
        name="archive/variables-that-are-a-list",
        prepare=_forge(_document(_ENVIRONMENT, _variables)),
        status=4,
        says="/environment/variables",
        mib=_MIB,
    ),
    Case(
        name="archive/a-metric-twice",
        prepare=_forge(_document(_PLAN, _doubled_metric), "show", _operators),
        status=4,
        says="the plan has the metric",
        mib=_MIB,
    ),
    Case(
        name="archive/a-case-twice",
        prepare=_forge(_document(_PLAN, _doubled_case), "show", _operators),
        status=4,
        says="the plan has",
        mib=_MIB,
    ),
)
