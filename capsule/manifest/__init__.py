"""What the author asks for: one JSON file, read strictly into frozen values.

manifest.load(path) -> Manifest      a file, with the paths beside it
manifest.read(data) -> Manifest      the bytes that a capsule kept
manifest.lint(manifest)              what an author should know before a day of measuring
manifest.starter(name)               the text that `capsule init` writes
"""

from capsule.manifest.advice import lint, narrowest_margin
from capsule.manifest.model import (
    Author,
    Benchmark,
    Case,
    Claim,
    ClaimType,
    DatasetSpec,
    Direction,
    ImageSpec,
    Kind,
    Manifest,
    Margin,
    Metric,
    Resources,
    Scalar,
)
from capsule.manifest.reader import load, read
from capsule.manifest.starter import starter

__all__ = [
    "Author",
    "Benchmark",
    "Case",
    "Claim",
    "ClaimType",
    "DatasetSpec",
    "Direction",
    "ImageSpec",
    "Kind",
    "Manifest",
    "Margin",
    "Metric",
    "Resources",
    "Scalar",
    "lint",
    "load",
    "narrowest_margin",
    "read",
    "starter",
]
