"""What the author asks for: one JSON file, read strictly into frozen values.

manifest.load(path) -> Manifest      a file, with the paths beside it
manifest.read(data) -> Manifest      the bytes that a capsule kept
manifest.starter(name)               the text that `capsule init` writes
manifest.starter_of(name, words, metrics, folder)  the same for a command
"""

from capsule.manifest.model import (
    CURVE_SPREADS,
    PRESETS,
    SEED_RANGE,
    Author,
    Benchmark,
    Case,
    Claim,
    ClaimType,
    Command,
    DatasetSpec,
    Direction,
    ImageSpec,
    Kind,
    Manifest,
    Margin,
    Metric,
    Network,
    Operator,
    Per,
    Preset,
    Published,
    Resources,
    Scalar,
    Subject,
)
from capsule.manifest.pitfalls import find_pitfalls, name_interpreter, seed_pitfall
from capsule.manifest.reader import load, load_correction, read, with_seeds
from capsule.manifest.starter import NOBODY, starter, starter_of

__all__ = [
    "CURVE_SPREADS",
    "NOBODY",
    "PRESETS",
    "SEED_RANGE",
    "Author",
    "Benchmark",
    "Case",
    "Claim",
    "ClaimType",
    "Command",
    "DatasetSpec",
    "Direction",
    "ImageSpec",
    "Kind",
    "Manifest",
    "Margin",
    "Metric",
    "Network",
    "Operator",
    "Per",
    "Preset",
    "Published",
    "Resources",
    "Scalar",
    "Subject",
    "find_pitfalls",
    "load",
    "load_correction",
    "name_interpreter",
    "read",
    "seed_pitfall",
    "starter",
    "starter_of",
    "with_seeds",
]
