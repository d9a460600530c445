"""Reading of datasets without a training: formats, caches and metrics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from .metrics import MetricFacts

ARRAYS = "arrays"
"""The format that has one file NAME.npy for each array, as a network takes it."""

DECODED = {
    "glyphs": "image-folder",
    "universe": "cosmoflow-tfrecord",
    "storms": "deepcam-hdf5",
    "markov": "tokens-uint32",
}
"""Format whose decoded samples equal those of `ARRAYS`, by generator. It
holds everything that the generator makes."""

CACHES = ("cold", "warm")
"""State of the files' pages before an epoch: on the storage, or in memory."""

MOST_COLD = 0.01
"""Share of a dataset's pages that may be in memory before it is read cold."""

LEAST_WARM = 0.99
"""Share that must be before it is read warm."""

SAMPLERS = ("shuffled", "ordered")
"""Samplers that take every sample once."""


@dataclass(frozen=True)
class Reading:
    """Reading of a dataset by a trial, without a network.

    Attributes:
        generator: Key of `DECODED`: it makes the samples.
        parameters: Any of its own.
        format: Key of `data.formats.writers.WRITERS[generator]`, or `ARRAYS`.
        cache: One of `CACHES`.
        batch: Samples of a minibatch.
        epochs: Passes over the samples.
        sampler: One of `SAMPLERS`.
    """

    generator: str
    parameters: Mapping[str, int | float | str]
    format: str
    cache: str
    batch: int
    epochs: int
    sampler: str


METRICS = (
    MetricFacts("open_time", "s", "lower", "machine", 1e-9, "call"),
    MetricFacts("batch_latency", "s", "lower", "machine", 1e-9, "call"),
    MetricFacts("samples_per_second", "1/s", "higher", "machine", 0.0, "call"),
    MetricFacts("data_bytes_per_second", "By/s", "higher", "machine", 0.0, "call"),
    MetricFacts("resident_share", "1", "none", "machine", 0.0, "call"),
    MetricFacts("stored_bytes", "By", "none", "portable", 1.0, "trial"),
    MetricFacts("stored_files", "1", "none", "portable", 1.0, "trial"),
    MetricFacts("sample_bytes", "By", "none", "portable", 1.0, "trial"),
    MetricFacts("training_samples", "1", "none", "portable", 1.0, "trial"),
    MetricFacts("order_fingerprint", "1", "none", "portable", 1.0, "trial"),
    MetricFacts("samples_fingerprint", "1", "none", "portable", 1.0, "trial"),
)
"""`batch_latency` has a value for each whole minibatch; `open_time`, the rates, which opening and
minibatches together give, and `resident_share`, pages in memory before the files were opened, have
one for each epoch."""


def is_cache(cache: str, resident: float) -> bool:
    """Return whether so large a share of a dataset's pages in memory is this cache."""
    return resident <= MOST_COLD if cache == "cold" else resident >= LEAST_WARM


def rate(amount: float, opened: float, latencies: list[float]) -> float:
    """Return the amount read per second in an epoch.

    Args:
        amount: Samples or bytes of its whole minibatches.
        opened: Seconds that opening took.
        latencies: Seconds of each minibatch.
    """
    return amount / (opened + sum(latencies))
