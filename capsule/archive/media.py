"""Names and kinds of payload files, by path."""

from __future__ import annotations

import re
from urllib.parse import quote

_FORMATS = {
    ".json": "application/json",
    ".jsonl": "application/jsonl",
    ".md": "text/markdown",
    ".py": "text/x-python",
    ".txt": "text/plain",
    ".csv": "text/csv",
    ".sh": "application/x-sh",
}
_TITLES = {
    "README.md": "Read me: contents of the capsule, and how to verify it",
    "capsule.json": "Record: claims, datasets, times",
    "manifest.json": "Manifest: what to run, to measure and to claim",
    "records/environment.json": "Settings that can change a result",
    "records/hardware.json": "Hardware inventory",
    "records/image.json": "Identity of the container image",
    "records/image-config.json": "Configuration of the container image, as fetched",
    "records/image-index.json": "Index of the container image, as fetched",
    "records/image-manifest.json": "Manifest of the container image, as fetched",
    "records/plan.json": "Plan: every trial in the order of execution",
    "records/software.json": "Software inside the image",
    "results/attempts.jsonl": "Every attempt at every trial",
    "results/devices.jsonl": "Activity of GPUs and processor packages",
    "results/metrics.json": "One value per run and metric, with summaries",
    "results/ranks.jsonl": "Series of many ranks",
    "results/samples.jsonl": "Every measured value",
}


_SAFE = "/!$&'()+,;=@~"
# what quoting leaves alone, told in a tenth of its time
_PLAIN = re.compile(rf"[A-Za-z0-9_.\-{_SAFE}]*")


def title(path: str) -> str:
    """Return a name for people."""
    return _TITLES.get(path, path)


def identifier(path: str) -> str:
    """Return a file's identifier in a crate, a relative URI.

    >>> identifier("inputs/my data/x#1.csv")
    'inputs/my%20data/x%231.csv'
    """
    return path if _PLAIN.fullmatch(path) else quote(path, safe=_SAFE)


def encoding_format(path: str) -> str:
    """Return the media type, `application/octet-stream` where the suffix says nothing.

    >>> encoding_format("results/samples.jsonl")
    'application/jsonl'
    """
    stem, dot, extension = path.rpartition("/")[2].rpartition(".")
    return _FORMATS.get(dot + extension.lower() if stem else "", "application/octet-stream")
