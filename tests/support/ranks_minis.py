"""The minis that ranks share, in sizes that take a moment."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.support.documented import ROOT
from tests.support.ranks import trial

PATHS: Mapping[str, Path] = {
    path.stem: path for path in sorted((ROOT / "manifests" / "minis-ranks").glob("*.json"))
}
_RECIPE = ("batch", "batch_norm_group", "optimizer", "schedule", "scheme")


def trained(name: str, parameters: Mapping[str, int], **recipe: Any) -> dict[str, Any]:
    """An entry of a job: two epochs in float64 by a shipped recipe, with a smaller network.

    Args:
        name: Of the mini, and the entry's id.
        parameters: Sizes of its network.
        recipe: What is changed of the recipe.
    """
    (benchmark,) = json.loads(PATHS[name].read_text())["benchmarks"]
    shipped = {field: benchmark[field] for field in _RECIPE if field in benchmark}
    return trial(
        shipped.pop("scheme"),
        name,
        network=benchmark["network"],
        parameters=dict(parameters),
        datasets=benchmark["datasets"],
        **{**shipped, **recipe},
    )
