"""What the author asks for: one JSON file, read strictly into frozen values.

manifest.load(path) -> Manifest      a file, with the paths beside it
manifest.read(data) -> Manifest      the bytes that a capsule kept
"""

from capsule.manifest.kinds import (
    LEVEL_OF_RANKS,
    Command,
    Network,
    Operator,
    Reading,
    Recipe,
    Subject,
)
from capsule.manifest.model import (
    CURVE_SPREADS,
    PRESETS,
    SCORE,
    SEARCH,
    SEED_RANGE,
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
    Per,
    Preset,
    Published,
    Resources,
    Scalar,
)
from capsule.manifest.reader import load, load_correction, read, with_seeds
from capsule.manifest.settings import change

__all__ = [
    "CURVE_SPREADS",
    "LEVEL_OF_RANKS",
    "PRESETS",
    "SCORE",
    "SEARCH",
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
    "Reading",
    "Recipe",
    "Resources",
    "Scalar",
    "Subject",
    "change",
    "load",
    "load_correction",
    "read",
    "with_seeds",
]
