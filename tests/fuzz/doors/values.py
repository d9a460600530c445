"""Runs whose manifest is odd but valid, and whose numbers are: sealed, read, shown and judged."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import get_args

from capsule import reading
from capsule.manifest import Metric, Reading, Recipe
from capsule.plan import Trial
from capsule.record import Attempt, Reason
from tests.fuzz.campaign import Door
from tests.fuzz.doors import capsules, manifests
from tests.support import bulk
from tests.support.records import Document

_NUMBERS = (0.0, -0.0, 1.0, 1e-300, 5e-324, 1e300, -1e300, 1.7976931348623157e308, 0.1, 2.0**53)
_MOST_BYTES = 20_000
_MOST_TRIALS = 200


def make(random: Random) -> bytes:
    """A changed manifest, and the source of everything that its runs measure."""
    base = manifests.change(random) if random.random() < 0.7 else capsules.document()
    for _ in range(20):
        if len(json.dumps(base)) <= _MOST_BYTES:
            break
        base = manifests.change(random)
    return json.dumps({"manifest": base, "source": random.randrange(2**32)}).encode()


def send(data: bytes, folder: Path) -> None:
    """Seal a run of it and its verification; every command reads both."""
    sent = json.loads(data)
    manifest = bulk.read_manifest(_without_texts(sent["manifest"]))
    if any(isinstance(one.subject, Recipe | Reading) for one in manifest.benchmarks):
        # what a training says follows from its curves, what a reading says from its latencies,
        # and `run` fails one that says otherwise
        return
    points = sum(len(one.cases) * len(one.frameworks) for one in manifest.benchmarks)
    if points * len(manifest.seeds) > _MOST_TRIALS:
        return
    random = Random(sent["source"])
    one, two = folder / "one.capsule.zip", folder / "two.capsule.zip"
    curve = random.random() < 0.3
    original = bulk.make(manifest, _draw(random), attempts=_attempts(random), curve=curve)
    capsule_id = bulk.seal(original, one)
    again = bulk.make(
        manifest,
        _draw(random),
        verifies=capsule_id,
        claims=original.claims,
        attempts=_attempts(random),
        curve=curve,
    )
    bulk.seal(again, two)
    for path in (one, two):
        with reading.read(path) as capsule:
            capsules.use(capsule, path, (one, two), folder / path.stem)


def _without_texts(document: Document) -> Document:
    """The same, in which no number is read from what a script printed: none printed anything."""
    benchmarks = document.get("benchmarks")
    for benchmark in benchmarks if isinstance(benchmarks, list) else ():
        metrics = benchmark.get("metrics") if isinstance(benchmark, dict) else None
        for metric in metrics.values() if isinstance(metrics, dict) else ():
            if isinstance(metric, dict):
                metric.pop("from", None)
    return document


def _draw(random: Random) -> Callable[[Trial, Metric], Sequence[float]]:
    odd = random.choice((0.0, 0.0, 0.1, 1.0))
    length = random.choice((1, 2, 5, 30))
    scale = random.choice((1.0, 1e-300, 1e150, 1e300))
    counted = random.random() < 0.2

    def value() -> float:
        if random.random() < odd:
            return random.choice(_NUMBERS)
        number = scale * (1 + random.gauss(0, 0.1))
        return float(round(number)) if counted else number

    def draw(_trial: Trial, metric: Metric) -> Sequence[float]:
        return [value() for _ in range(1 if metric.per == "trial" else length)]

    return draw


def _attempts(random: Random) -> Callable[[Attempt], Attempt]:
    rate = random.choice((0.0, 0.0, 0.2, 1.0))
    messages = (
        "",
        "E: x",
        "Traceback (most recent call last):\n  a\nValueError: b",
        "\x1b[2J",
        "é",
    )

    def change(attempt: Attempt) -> Attempt:
        if random.random() >= rate:
            return attempt
        reason: Reason = random.choice(get_args(Reason)[:8])
        return replace(
            attempt,
            outcome="failed",
            reason=reason,
            message=random.choice(messages),
            exit_code=random.choice((None, 1)),
        )

    return change


VALUES = Door(name="values", make=make, send=send, inputs=20)
