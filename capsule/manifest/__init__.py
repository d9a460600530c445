"""What the author asks for: one JSON file, read strictly into frozen values.

manifest.load(path) -> Manifest      a file, with the paths beside it
manifest.read(data) -> Manifest      the bytes that a capsule kept
manifest.lint(manifest)              what an author should know before a day of measuring
manifest.outlook(manifest)           for each claim, what its number of runs lets anybody confirm
manifest.starter(name)               the text that `capsule init` writes
"""

from capsule.manifest.advice import lint
from capsule.manifest.model import (
    CURVE_SPREADS,
    PRESETS,
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
    Preset,
    Published,
    Resources,
    Scalar,
)
from capsule.manifest.outlook import Outlook, outlook
from capsule.manifest.reader import load, read
from capsule.manifest.starter import starter

__all__ = [
    "CURVE_SPREADS",
    "PRESETS",
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
    "Outlook",
    "Preset",
    "Published",
    "Resources",
    "Scalar",
    "lint",
    "load",
    "outlook",
    "read",
    "starter",
]
