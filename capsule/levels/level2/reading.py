"""One Level 2 trial without a network: read a dataset in one format, as a training would.

The samples are written first, so that every format holds the same ones, and each is taken once,
untimed, for a digest that no order and no format changes. Then each epoch opens the files anew and
takes every whole minibatch in the order that follows from seed and epoch, from storage (cold) or
from memory (warm): dataset latency and bandwidth, as Deep500 has them (Ben-Nun et al., IPDPS 2019).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any, NamedTuple

from ..catalog import reading, training
from ..data import generators, samplers
from ..data.formats import layouts, writers
from ..data.formats.sources import Source
from ..data.tasks import TEST
from ..instruments import pages
from ..job import Trial
from ..report import Report

_TOGETHER = 64
"""Samples that are hashed or decoded at once."""


class CacheError(Exception):
    """A cache that the system reports neither cold nor warm as wanted."""


class _Epoch(NamedTuple):
    """Seconds, and the share of pages that were in memory before."""

    opened: float
    latencies: list[float]
    resident: float


def measure(trial: Trial, report: Report) -> None:
    """Write the samples, read them, and report the metrics of `catalog.reading`.

    Args:
        trial: One with a reading.
        report: Where the values go; the files lie in its folder while the trial runs.

    Raises:
        CacheError: The system reports too many pages in memory for cold, or too few for warm.
        ValueError: The generator has no such format or parameters, or a batch is larger than all.
        ModuleNotFoundError: The format needs a package that is not installed.
        OSError: A file cannot be written or read.
    """
    wanted = trial.reading
    assert wanted is not None
    numbers = generators.complete(wanted.generator, wanted.parameters)
    count, seed = numbers["samples"], trial.context.seed
    whole = count // wanted.batch * wanted.batch
    if not whole:
        raise ValueError(f"a batch of {wanted.batch} exceeds the {count} samples")
    order_fingerprint = samplers.Fingerprint()
    with TemporaryDirectory(prefix="reading-", dir=report.folder) as scratch:
        folder = Path(scratch)
        write(wanted.format, wanted.generator, numbers, folder)
        files = sorted(path for path in folder.rglob("*") if path.is_file())
        size, digest = _digest(_open(folder, wanted.format, numbers), count)
        for epoch in range(wanted.epochs):
            order = samplers.order(wanted.sampler, count, seed, epoch, batch=wanted.batch)
            if epoch < training.ORDERED_EPOCHS:
                order_fingerprint.add("order", order[:whole])
            one = _read(folder, files, wanted, numbers, samplers.share(order, wanted.batch))
            report.samples("open_time", [one.opened])
            report.samples("batch_latency", one.latencies)
            for metric, amount in (
                ("samples_per_second", whole),
                ("data_bytes_per_second", whole * size),
            ):
                report.samples(metric, [reading.rate(amount, one.opened, one.latencies)])
            report.samples("resident_share", [one.resident])
        report.samples("stored_bytes", [sum(path.stat().st_size for path in files)])
        report.samples("stored_files", [len(files)])
    report.samples("sample_bytes", [size])
    report.samples("training_samples", [count])
    report.samples("order_fingerprint", [order_fingerprint.value()])
    report.samples("samples_fingerprint", [digest])


def write(form: str, generator: str, numbers: Mapping[str, int], folder: Path) -> None:
    """Write the samples of a generator to an empty folder, in a format or as decoded arrays.

    Args:
        form: Key of `layouts.FORMATS`, or `reading.ARRAYS`.
        generator: Key of `reading.DECODED`.
        numbers: All of its parameters.
        folder: An empty one.

    Raises:
        ValueError: The format does not hold such data.
        ModuleNotFoundError: The format needs a package that is not installed.
        OSError: A file cannot be written.
    """
    if form != reading.ARRAYS:
        writers.write(form, generator, numbers, folder)
        return
    with TemporaryDirectory(prefix="decoded-", dir=folder) as scratch:
        stored = reading.DECODED[generator]
        writers.write(stored, generator, numbers, Path(scratch))
        parts = layouts.FORMATS[stored](Path(scratch), _shapes(numbers))
        for source, prefix, key in (
            (parts.train, "", "samples"),
            (parts.test, TEST, f"{TEST}samples"),
        ):
            taken = source.take(range(numbers[key]), _rows(source, numbers[key]))
            generators.write({prefix + name: array for name, array in taken.items()}, folder)


def _read(
    folder: Path,
    files: Sequence[Path],
    wanted: reading.Reading,
    numbers: Mapping[str, int],
    batches: Any,
) -> _Epoch:
    """Return one epoch, from the opening of the files to its last whole minibatch."""
    if wanted.cache == "cold":
        pages.drop(files)
    resident = pages.resident_share(files)
    if not reading.is_cache(wanted.cache, resident):
        allowed = f"at least {100 * reading.LEAST_WARM:.0f} %"
        if wanted.cache == "cold":
            allowed = f"at most {100 * reading.MOST_COLD:.0f} %"
        raise CacheError(
            f"the system reports {100 * resident:.1f} % of the pages of {wanted.format} in memory;"
            f" a {wanted.cache} cache requires {allowed}: leave {wanted.cache} out, or use a folder"
            " on another file system"
        )
    began = perf_counter()
    source = _open(folder, wanted.format, numbers)
    rows = _rows(source, numbers["samples"])
    opened = perf_counter() - began
    latencies = []
    for indices in batches:
        began = perf_counter()
        source.take(indices, rows)
        latencies.append(perf_counter() - began)
    return _Epoch(opened, latencies, resident)


def _open(folder: Path, form: str, numbers: Mapping[str, int]) -> Source:
    """Return the samples to train on."""
    if form != reading.ARRAYS:
        return layouts.FORMATS[form](folder, _shapes(numbers)).train
    arrays = generators.read(folder)
    shapes = {name: array.shape for name, array in arrays.items() if not name.startswith(TEST)}
    return layouts.read_arrays(folder, shapes).train


def _shapes(numbers: Mapping[str, int]) -> Mapping[str, Sequence[int]]:
    """Return the shapes that a reader needs beside the files: channels of a picture."""
    if "channels" not in numbers:
        return {}
    return {"image": (1, numbers["channels"], numbers["side"], numbers["side"])}


def _rows(source: Source, count: int) -> dict[str, int]:
    """Return the row of one sample in each array."""
    return {name: column.length // count for name, column in source.columns.items()}


def _digest(source: Source, count: int) -> tuple[int, int]:
    """Return the bytes of a sample, and 48 bits of the SHA-256 over all samples, sorted."""
    rows, size = _rows(source, count), 0
    digests = []
    for start in range(0, count, _TOGETHER):
        indices = range(start, min(start + _TOGETHER, count))
        taken = source.take(indices, rows)
        parts = {
            name: array.reshape(len(indices), rows[name], *array.shape[1:])
            for name, array in sorted(taken.items())
        }
        size = sum(part[0].nbytes for part in parts.values())
        for place in range(len(indices)):
            state = sha256()
            for name, part in parts.items():
                one = part[place]
                plain = one.astype(one.dtype.newbyteorder("<"), order="C", copy=False)
                state.update(f"{name} {plain.dtype.str} {plain.shape}\n".encode())
                state.update(plain.data)
            digests.append(state.digest())
    return size, int.from_bytes(sha256(b"".join(sorted(digests))).digest()[:6], "big")
