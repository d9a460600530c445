"""Consistency of dataset readings: rates with latencies, order with the seed, equal samples in
every format. All are computed again and compared.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isclose

from capsule.archive import remade
from capsule.levels.catalog import reading, training
from capsule.levels.data import generators
from capsule.manifest import Manifest, Reading
from capsule.record import Attempt, Record, Samples

MOST_ORDERED = 5_000_000
"""Samples of which the order is made again, a second's work."""

_ROUNDING = 1e-9
"""Share of a rate that may differ where latencies are summed up in another way."""

_COUNTS = (
    "stored_bytes",
    "stored_files",
    "sample_bytes",
    "training_samples",
    "samples_fingerprint",
)
_SAME = ("sample_bytes", "samples_fingerprint")
_EXPECTED_SHARES = {
    "cold": f"0 to {reading.MOST_COLD:g} for a cold cache",
    "warm": f"{reading.LEAST_WARM:g} to 1 for a warm cache",
}


@dataclass(frozen=True)
class Read:
    """One completed attempt at a reading, as one rank told it.

    Attributes:
        trial: Id of the trial.
        attempt: From 1.
        seed: Seed of the trial.
        benchmark: Id of the benchmark.
        subject: How it reads.
        cache: `cold` or `warm`.
        samples: How many the generator makes.
        values: What was reported, by the name of the metric.
    """

    trial: str
    attempt: int
    seed: int
    benchmark: str
    subject: Reading
    cache: str
    samples: int
    values: Mapping[str, Sequence[float]]

    @property
    def whole(self) -> int:
        """Return samples of an epoch's whole minibatches."""
        return self.samples // self.subject.batch * self.subject.batch


def read(
    manifest: Manifest, attempts: Iterable[Attempt], samples: Iterable[Samples]
) -> Iterator[Read]:
    """Yield every completed attempt at a reading."""
    benchmarks = {
        one.id: (one, one.subject)
        for one in manifest.benchmarks
        if isinstance(one.subject, Reading)
    }
    completed = {(one.trial, one.attempt): one for one in attempts if one.outcome == "completed"}
    values: dict[tuple[str, int, int], dict[str, Sequence[float]]] = {}
    for line in samples:
        if (line.trial, line.attempt) in completed and line.metric.partition("/")[0] in benchmarks:
            key = line.trial, line.attempt, line.rank
            values.setdefault(key, {})[line.metric.rpartition("/")[2]] = line.values
    datasets = {one.name: one for one in manifest.datasets}
    for (trial, attempt, _), reported in values.items():
        name, case, *_ = trial.split("/")
        benchmark, subject = benchmarks[name]
        data = datasets[benchmark.datasets[0]]
        assert data.generator is not None
        (point,) = (one.parameters for one in benchmark.cases if one.name == case)
        yield Read(
            trial=trial,
            attempt=attempt,
            seed=completed[trial, attempt].seed,
            benchmark=name,
            subject=subject,
            cache=str(point["cache"]),
            samples=generators.complete(data.generator, data.parameters)["samples"],
            values=reported,
        )


def judge(readings: Iterable[Read]) -> Iterator[tuple[Read, str]]:
    """Yield contradictions between a reading's values, or between formats."""
    budget = MOST_ORDERED
    first: dict[str, Read] = {}
    for one in readings:
        budget -= _order_cost(one)
        faults = [*_count_faults(one)] or [*_rate_faults(one), *_cache_faults(one)]
        if not faults:
            other = first.setdefault(one.benchmark, one)
            faults += _format_faults(one, other)
            faults += _order_faults(one) if budget >= 0 else []
        for fault in faults:
            yield one, f"{one.trial}, attempt {one.attempt}: {fault}"


def faults(record: Record) -> Iterator[str]:
    """Yield contradictions in a record's readings, as sentences."""
    for _, fault in judge(read(record.manifest, record.attempts, record.samples)):
        yield fault


def fact(record: Record) -> str:
    """Return the fact established by reading a record without faults."""
    count = sum(1 for _ in read(record.manifest, record.attempts, record.samples))
    return (
        f"rates of {count} readings follow from their latencies, and every format gave the same"
        " samples"
    )


def _count_faults(one: Read) -> Iterator[str]:
    """Yield metrics with a wrong number of values, or with impossible values."""
    epochs = one.subject.epochs
    due = dict.fromkeys((*_COUNTS, "order_fingerprint"), 1)
    due |= dict.fromkeys(
        ("open_time", "samples_per_second", "data_bytes_per_second", "resident_share"), epochs
    )
    due["batch_latency"] = epochs * (one.samples // one.subject.batch)
    for name, count in due.items():
        values = one.values.get(name, ())
        if len(values) != count:
            yield f"{name} has {len(values)} values, expected {count}"
        elif name in ("open_time", "batch_latency") and min(values) <= 0:
            yield f"{name} has the value {min(values):g} s, expected more than 0 s"
    found = [*one.values.get("training_samples", ())]
    if found != [one.samples]:
        yield f"training_samples is {found}, expected {one.samples} from the generator"


def _rate_faults(one: Read) -> Iterator[str]:
    steps = one.samples // one.subject.batch
    size, latencies = one.values["sample_bytes"][0], one.values["batch_latency"]
    for epoch, opened in enumerate(one.values["open_time"]):
        seconds = list(latencies[epoch * steps : (epoch + 1) * steps])
        for name, amount in (("samples_per_second", 1.0), ("data_bytes_per_second", size)):
            value, due = one.values[name][epoch], reading.rate(one.whole * amount, opened, seconds)
            if not isclose(value, due, rel_tol=_ROUNDING):
                yield (
                    f"{name} is {value:.9g} in epoch {epoch + 1}, expected {due:.9g} from the"
                    " latencies of this epoch"
                )


def _cache_faults(one: Read) -> Iterator[str]:
    for share in one.values["resident_share"]:
        if not 0 <= share <= 1 or not reading.is_cache(one.cache, share):
            yield f"resident_share is {share:.9g}, expected {_EXPECTED_SHARES[one.cache]}"


def _format_faults(one: Read, other: Read) -> Iterator[str]:
    for name in _SAME:
        (value,), (due,) = one.values[name], other.values[name]
        if value != due:
            yield (
                f"read other samples of the dataset than {other.trial}: {name} is {value:.17g},"
                f" expected {due:.17g}"
            )


def _order_faults(one: Read) -> Iterator[str]:
    epochs = min(training.ORDERED_EPOCHS, one.subject.epochs)
    due = remade.fingerprint(one.subject, one.samples, one.seed, epochs, ())
    (value,) = one.values["order_fingerprint"]
    if value != due:
        yield (
            f"order_fingerprint is {value:.17g}, expected {due:.17g} from the order of seed"
            f" {one.seed}"
        )


def _order_cost(one: Read) -> int:
    return one.samples * min(training.ORDERED_EPOCHS, one.subject.epochs)
