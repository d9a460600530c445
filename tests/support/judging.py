"""Metrics with given run values, and claims judged on them."""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from types import EllipsisType
from typing import Any

from capsule import diff, verdict
from capsule.diff import Pair, SeedRule
from capsule.manifest import Claim
from capsule.notes import Note
from capsule.record import FrozenClaim, Samples
from capsule.sentences import Sentence
from capsule.summary import MetricRuns, Run, RunStatus
from capsule.verdict.model import Judged, Verdict
from capsule.verdict.spread import Spread
from tests.support.records import make_record

PATH = "train/default/command/loss"
KNOWN: Mapping[str, Any] = {
    "unit": "1",
    "direction": "lower",
    "kind": "portable",
    "resolution": 0.0,
}
NEAR = (1.00, 1.01, 0.99, 1.02, 0.98)

Outcome = float | Sequence[float] | EllipsisType | None
"""A run's value, or its samples; None and what is not finite failed, `...` is missing."""


def codes(remarks: Spread | Judged | diff.Differences) -> list[str]:
    """What kinds of notes stand beside a comparison, a judgement or a spread."""
    return [note.code for note in remarks.notes]


def states(said: Note | Sentence, code: str, **facts: object) -> bool:
    """Whether a sentence has this code, and these facts among its own."""
    return said.code == code and facts.items() <= dict(said.facts or ()).items()


def metric(
    outcomes: Sequence[Outcome], *, first_seed: int = 1, path: str = PATH, **changes: Any
) -> MetricRuns:
    """Runs of one metric under seeds that follow each other."""
    known = {**KNOWN, **changes}
    runs = [run(first_seed + i, outcome, path, known) for i, outcome in enumerate(outcomes)]
    return MetricRuns(metric=path, runs=tuple(runs), **known)


def run(
    seed: int,
    outcome: Outcome,
    path: str,
    known: Mapping[str, Any],
    steps: tuple[float, ...] | None = None,
) -> Run:
    """One run: of one value, or of a list of samples whose last stands for the run."""
    trial = f"{path.rpartition('/')[0]}/{seed}"
    not_finite = None
    if isinstance(outcome, float) and not math.isfinite(outcome):
        not_finite, outcome = outcome, None
    status: RunStatus = "failed" if outcome is None else "missing" if outcome is ... else "ok"
    samples: tuple[Samples, ...] = ()
    if isinstance(outcome, Sequence):
        facts = {name: known[name] for name in ("unit", "direction", "kind", "resolution")}
        line = Samples(
            metric=path,
            trial=trial,
            attempt=1,
            seed=seed,
            warmup=0,
            values=tuple(map(float, outcome)),
            steps=steps,
            **facts,
        )
        samples, outcome = (line,), outcome[-1]
    return Run(
        seed=seed,
        seed_source="manifest",
        trial=trial,
        status=status,
        value=None if outcome is ... else outcome,
        samples=samples,
        not_finite=not_finite,
    )


def curves(
    values: Sequence[Sequence[float]],
    *,
    first_seed: int = 1,
    steps: tuple[float, ...] | None = None,
    **changes: Any,
) -> MetricRuns:
    """Runs of a metric that is a curve, one list of values each."""
    known = {**KNOWN, **changes}
    runs = [
        run(first_seed + i, curve, PATH, known, steps or tuple(map(float, range(len(curve)))))
        for i, curve in enumerate(values)
    ]
    return MetricRuns(metric=PATH, runs=tuple(runs), **known)


def frozen(original: MetricRuns, **claim: Any) -> FrozenClaim:
    """The claim as sealing freezes it, but judged in one look where it plans none itself."""
    (one,) = verdict.freeze([Claim(**{"metric": PATH, **claim})], {PATH: original})
    return dataclasses.replace(one, looks=one.pattern.looks)


def judge_all(*pairs: Pair) -> Verdict:
    another = "7a0e5c1e-2f4b-4c55-8d3e-0a9b6c7d8e9f"
    empty = diff.compare(make_record(), make_record(uuid=another))
    return verdict.judge(dataclasses.replace(empty, pairs=pairs))


def judge(original: MetricRuns, rerun: MetricRuns, **claim: Any) -> Judged:
    one = frozen(original, **claim)
    rule: SeedRule = "same" if one.type == "exact" or one.paired else "all"
    pair = Pair(metric=PATH, claim=one, seeds=rule, original=original, rerun=rerun)
    return judge_all(pair).claims[0]
