"""`capsule show` has a line for each seed."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

from rich.console import RenderableType

from capsule import report
from capsule.manifest import Operator
from tests.report.test_report import draw
from tests.support.command import User, write_manifest, write_script
from tests.support.records import make_record


def line_of(seed: int, items: Sequence[RenderableType]) -> list[str]:
    """The words of a seed's line."""
    lines = [line.split() for line in draw(items, 140).splitlines()]
    (line,) = [words for words in lines if words[:1] == [str(seed)]]
    return line


def test_each_seed_has_its_seconds_outcome_and_values() -> None:
    record = make_record(failed=(18,), losses={17: 0.125, 19: 1.0, 20: 1.0, 21: 1.0})
    attempts = tuple(dataclasses.replace(one, seconds=0.5 * one.seed) for one in record.attempts)
    shown = report.draw_record(dataclasses.replace(record, attempts=attempts), None)
    assert line_of(17, shown)[:3] == ["17", "8.5", "completed"]
    assert "0.125" in line_of(17, shown)
    assert line_of(18, shown)[1:3] == ["9", "failed"]


def test_many_seeds_are_counted_and_not_listed() -> None:
    record = make_record(seeds=tuple(range(1000, 1060)), losses={})
    assert "and 20 more seeds" in draw(report.draw_record(record, None), 140)


def test_commands_data_and_paper_are_named(author: User) -> None:
    write_script(author.folder)
    (author.folder / "corpus").write_bytes(b"text")
    digest = author.json("data", "hash", "corpus")["digest"]
    manifest = write_manifest(
        author.folder,
        paper={"doi": "10.1000/182"},
        seeds=[1],
        datasets={"corpus": {"path": "corpus", "digest": digest}},
        benchmarks=[
            {
                "id": "tiny",
                "command": ["python3", "tiny.py", "two words"],
                "inputs": ["tiny.py"],
                "datasets": ["corpus"],
                "metrics": {"loss": {"direction": "lower"}},
            }
        ],
    )
    assert author.run("run", manifest, "-o", Path("a.zip")).returncode == 0
    shown = " ".join(author.run("show", "a.zip").stdout.split())
    assert "command tiny: python3 tiny.py 'two words'" in shown
    assert "data corpus: 4 bytes, sha256:" in shown
    assert "paper https://doi.org/10.1000/182" in shown


def test_calls_that_are_timed_otherwise_than_usual_are_named() -> None:
    record = make_record()
    (benchmark,) = record.manifest.benchmarks
    both, fresh = ("fresh", "cold"), ("fresh",)
    benchmarks = [
        dataclasses.replace(
            benchmark, id=name, subject=Operator(name="gemm", conditions=conditions)
        )
        for name, conditions in (("a", both), ("b", ()), ("c", fresh), ("d", fresh))
    ]
    manifest = dataclasses.replace(record.manifest, benchmarks=(benchmark, *benchmarks))
    items = report.draw_record(dataclasses.replace(record, manifest=manifest), None)
    timed = [line for line in draw(items, 140).splitlines() if line.startswith("timed")]
    assert [line.split(maxsplit=1)[1].strip() for line in timed] == [
        "a: with other values for each call and emptied caches before each call",
        "c, d: with other values for each call",
    ]
