"""Turn an entry of Level 2 without a network into a benchmark: a dataset in several formats."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product
from typing import Any

from capsule.levels import catalog
from capsule.levels.catalog import reading
from capsule.manifest.facts import metric_of
from capsule.manifest.kinds import Reading
from capsule.manifest.model import Benchmark, Case, Metric
from capsule.manifest.problems import Problems, instead, quote

Raw = Mapping[str, Any]
_FRAMEWORK = "numpy"


def reads(raw: Raw) -> bool:
    """Return whether an entry of the benchmarks reads a dataset without a training."""
    return "formats" in raw and raw.get("level") == 2


def read(raw: Raw, here: str, device: str, problems: Problems) -> Benchmark | None:
    """Return one entry that fits the schema, or None after noting what is wrong with it.

    Args:
        raw: The entry.
        here: Its JSON pointer.
        device: `cpu` or `cuda`, which decides what can read.
        problems: Collects what is wrong.
    """
    for index, name in enumerate(raw["frameworks"]):
        if name != _FRAMEWORK:
            message = (
                f"found {quote(name)}, expected {_FRAMEWORK}: other frameworks read datasets only"
                " in a training"
            )
            problems.add(f"{here}/frameworks/{index}", message)
        elif reason := catalog.refuse_device(name, device):
            problems.add(f"{here}/frameworks/{index}", reason)
    if problems.below(here):
        return None
    return _benchmark(raw, tuple(map(metric_of, reading.METRICS)))


def restate(
    raw: Raw, here: str, cases: tuple[Case, ...], metrics: tuple[Metric, ...], problems: Problems
) -> Benchmark | None:
    """Return the benchmark with the plan's metrics.

    Args:
        raw: The entry.
        here: Its JSON pointer.
        cases: As the plan has them.
        metrics: Likewise.
        problems: Collects where the two contradict each other.
    """
    made = _benchmark(raw, metrics)
    if made.cases != cases:
        found, due = (quote([case.name for case in side]) for side in (cases, made.cases))
        message = f"the plan has the cases {found}, expected {due} as in the manifest"
        problems.add(f"{here}/formats", message)
        return None
    return made


def check(raw: Raw, dataset: Raw, here: str, problems: Problems) -> None:
    """Note formats in which an entry's dataset is not written, and a batch larger than it.

    Args:
        raw: The entry.
        dataset: What the manifest says of the one that it names.
        here: The entry's JSON pointer.
        problems: Collects what is wrong.
    """
    from capsule.levels.data import generators
    from capsule.levels.data.formats import writers

    generator = dataset.get("generator")
    if generator not in reading.DECODED:
        found = f"the generator {quote(generator)}" if generator else "a dataset without generator"
        message = (
            f"found {found}, but formats need a dataset of one of the generators"
            f" {', '.join(reading.DECODED)}"
        )
        problems.add(f"{here}/datasets/0", message)
        return
    known = (*writers.WRITERS[generator], reading.ARRAYS)
    for index, form in enumerate(raw["formats"]):
        if form not in known:
            message = f"{generator} cannot be written as {quote(form)}; {instead(form, known)}"
            problems.add(f"{here}/formats/{index}", message)
    (samples,) = (
        dataset.get(one.name, one.default)
        for one in generators.GENERATORS[generator].parameters
        if one.name == "samples"
    )
    if raw["batch"] > samples:
        message = f"a batch of {raw['batch']} exceeds the {samples} samples of the dataset"
        problems.add(f"{here}/batch", message)


def to_json(subject: Reading, case: Case) -> dict[str, Any]:
    """Return the reading as a job has it, without the generator."""
    return {
        "format": case.parameters["format"],
        "cache": case.parameters["cache"],
        "batch": subject.batch,
        "epochs": subject.epochs,
        "sampler": subject.sampler,
    }


def _benchmark(raw: Raw, metrics: tuple[Metric, ...]) -> Benchmark:
    points = product(raw["formats"], raw.get("cache", reading.CACHES))
    return Benchmark(
        id=raw["id"],
        subject=Reading(
            batch=int(raw["batch"]),
            epochs=int(raw.get("epochs", 1)),
            sampler=raw.get("sampler", "shuffled"),
        ),
        cases=tuple(
            Case(name=f"{form}-{cache}", parameters={"format": form, "cache": cache})
            for form, cache in points
        ),
        frameworks=tuple(raw["frameworks"]),
        datasets=tuple(raw["datasets"]),
        metrics=metrics,
        lacking={name: frozenset() for name in raw["frameworks"]},
    )
