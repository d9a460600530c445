"""Metrics with given run values, and claims judged on them."""

import dataclasses
import json

from capsule import diff, verdict
from capsule.diff import Pair
from capsule.manifest import Claim
from capsule.record import Samples
from capsule.summary import MetricRuns, Run
from tests.support.records import make_record

PATH = "train/default/command/loss"
NEAR = (1.00, 1.01, 0.99, 1.02, 0.98)


def codes(remarks):
    """What kinds of notes stand beside a comparison, a judgement or a spread."""
    return [note.code for note in remarks.notes]


def metric(values, *, first_seed=1, path=PATH, **changes):
    """Runs of one metric; None is a failed run, `...` a missing one, a list has samples."""
    known = {"unit": "1", "direction": "lower", "kind": "portable", "resolution": 0.0, **changes}
    runs = [run(first_seed + i, value, path, known) for i, value in enumerate(values)]
    return MetricRuns(metric=path, runs=tuple(runs), **known)


def run(seed, value, path, known, steps=None):
    """One run: of one value, or of a list of samples whose last stands for the run."""
    trial = f"{path.rpartition('/')[0]}/{seed}"
    samples = ()
    if isinstance(value, list | tuple):
        facts = {name: known[name] for name in ("unit", "direction", "kind", "resolution")}
        line = Samples(
            metric=path,
            trial=trial,
            attempt=1,
            seed=seed,
            warmup=0,
            values=tuple(map(float, value)),
            steps=steps,
            **facts,
        )
        samples, value = (line,), value[-1]
    return Run(
        seed=seed,
        seed_source="manifest",
        trial=trial,
        status="failed" if value is None else "missing" if value is ... else "ok",
        value=None if value is ... else value,
        samples=samples,
    )


def curves(values, *, first_seed=1, steps=None, **changes):
    """Runs of a metric that is a curve, one list of values each."""
    known = {"unit": "1", "direction": "lower", "kind": "portable", "resolution": 0.0, **changes}
    runs = [
        run(first_seed + i, each, PATH, known, steps or tuple(map(float, range(len(each)))))
        for i, each in enumerate(values)
    ]
    return MetricRuns(metric=PATH, runs=tuple(runs), **known)


def frozen(original, **claim):
    (one,) = verdict.freeze([Claim(**{"metric": PATH, **claim})], {PATH: original})
    return one


def judge_all(*pairs):
    empty = diff.compare(make_record(), make_record())
    return verdict.judge(dataclasses.replace(empty, pairs=pairs))


def judge(original, rerun, **claim):
    one = frozen(original, **claim)
    rule = "same" if one.type == "exact" or one.paired else "all"
    pair = Pair(metric=PATH, claim=one, seeds=rule, original=original, rerun=rerun)
    return judge_all(pair).claims[0]


def same(document):
    """A JSON document as one string, to be compared byte by byte."""
    return json.dumps(document, sort_keys=True)
