"""Conversion of a metric of the catalogue into a manifest's."""

from __future__ import annotations

from capsule.levels.catalog import MetricFacts
from capsule.manifest.model import Metric


def metric_of(facts: MetricFacts) -> Metric:
    """Convert a metric of `levels` into a manifest's."""
    return Metric(
        name=facts.name,
        unit=facts.unit,
        direction=facts.direction,
        kind=facts.kind,
        resolution=facts.resolution,
        per=facts.per,
    )
