"""Events of a workload's journal, for two trials of one benchmark."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from capsule.execute import journal
from capsule.execute.reports import Journal, merge
from capsule.manifest import Benchmark, Case, Metric, Operator
from capsule.plan import Trial

METRICS = (Metric(name="loss"), Metric(name="time", unit="s", kind="machine", resolution=1e-9))
Event = dict[str, Any]

CASE = Case(name="default", parameters={})
BENCHMARK = Benchmark(
    id="b", subject=Operator(name="gemm"), cases=(CASE,), frameworks=("numpy",), metrics=METRICS
)


def trial(seed: int = 1) -> Trial:
    return Trial(
        id=f"b/default/numpy/{seed}",
        benchmark=BENCHMARK,
        case=CASE,
        framework="numpy",
        seed=seed,
        seed_source="manifest",
    )


ONE, TWO = trial(1), trial(2)


HELLO: Event = {
    "event": "hello",
    "format": "capsule-journal/1",
    "rank": 0,
    "ranks": 1,
    "software": {"python": "3.11"},
    "environment": {"threads": 2},
}


def begin(of: Trial) -> Event:
    return {"event": "begin", "trial": of.id}


def samples(of: Trial, metric: str, *values: object, warmup: int = 0) -> Event:
    return {
        "event": "samples",
        "trial": of.id,
        "metric": metric,
        "warmup": warmup,
        "values": list(values),
    }


def point(of: Trial, metric: str, step: float, value: float) -> Event:
    """One point of a curve, with both clocks."""
    clocks = {"steps": [step], "wall": [step * 2.0], "active": [step * 1.5]}
    return {**samples(of, metric, value), **clocks}


def curve(name: str, *places: float) -> Event:
    """Losses with steps or times in one line."""
    return {**samples(ONE, "loss", *map(float, places)), name: list(places)}


def end(of: Trial, **changes: object) -> Event:
    event = {"event": "end", "trial": of.id, "outcome": "completed", "reason": None}
    return {**event, "message": "", "seconds": 0.5, **changes}


def whole(of: Trial) -> list[Event]:
    return [begin(of), samples(of, "loss", 0.5), samples(of, "time", 3.0, 1.0, warmup=1), end(of)]


def encode(events: Sequence[object]) -> bytes:
    return b"".join(json.dumps(event).encode() + b"\n" for event in events)


def read(
    folder: Path, events: Sequence[object], tail: bytes = b"", hello: Event = HELLO
) -> Journal:
    """The journal of one rank, judged."""
    path = folder / "journal.jsonl"
    path.write_bytes(encode([hello, *events]) + tail)
    return merge([journal.read(path, (ONE, TWO))], (ONE, TWO))
