"""A manifest with some of its frameworks alone, so that one manifest serves several images."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from capsule.errors import UsageError
from capsule.levels import catalog
from capsule.manifest import search
from capsule.manifest.kinds import Command
from capsule.manifest.model import Benchmark, Manifest
from capsule.manifest.paths import match, metric_paths
from capsule.manifest.problems import nearest


def narrow(
    manifest: Manifest, frameworks: Sequence[str], lacking: Sequence[str]
) -> tuple[bytes, bool]:
    """Return the text of a manifest without the other frameworks, and whether that left anything
    out.

    Benchmarks that no framework is left for go too, and claims that then match no metric. The text
    is the same whenever manifest and frameworks are; where nothing is left out it is the author's.

    Args:
        manifest: The whole one.
        frameworks: Those to keep, `command` for commands; all of them where it is empty.
        lacking: Those of the manifest that lack its device, which go in any case.

    Raises:
        UsageError: No benchmark uses one of `frameworks`, with the nearest right name, or all of
            them lack the device.
    """
    used = list(
        dict.fromkeys(name for benchmark in manifest.benchmarks for name in benchmark.frameworks)
    )
    for name in frameworks:
        if name not in used:
            raise _no_such_framework(name, used)
    wanted = [name for name in frameworks or used if name not in lacking]
    if not wanted:
        reason = catalog.refuse_device(frameworks[0], manifest.resources.device)
        able = ", ".join(name for name in used if name not in lacking)
        raise UsageError(str(reason), advice=f"choose among {able}")
    if set(wanted) == set(used):
        return manifest.source, False
    kept = [_keep(benchmark, wanted) for benchmark in manifest.benchmarks]
    paths = [
        path for path, _ in metric_paths([benchmark for benchmark in kept if benchmark.frameworks])
    ]
    raw: dict[str, Any] = json.loads(manifest.source)
    raw["benchmarks"] = [
        _narrow_entry(entry, benchmark)
        for entry, benchmark in zip(raw["benchmarks"], kept, strict=True)
        if benchmark.frameworks
    ]
    if "claims" in raw:
        raw["claims"] = [
            claim for claim in raw["claims"] if any(match(claim["metric"], path) for path in paths)
        ]
    return search.write(raw), True


def _keep(benchmark: Benchmark, frameworks: Sequence[str]) -> Benchmark:
    return replace(
        benchmark, frameworks=tuple(name for name in benchmark.frameworks if name in frameworks)
    )


def _narrow_entry(entry: Mapping[str, Any], kept: Benchmark) -> dict[str, Any]:
    if isinstance(kept.subject, Command):
        return dict(entry)
    return {**entry, "frameworks": list(kept.frameworks)}


def _no_such_framework(name: str, used: Sequence[str]) -> UsageError:
    there = f"the benchmarks use {', '.join(used)}"
    if name in (*catalog.FRAMEWORKS, "command"):
        return UsageError(f"no benchmark of the manifest uses {name!r}", advice=there)
    meant = nearest(name, used) or nearest(name, catalog.FRAMEWORKS)
    advice = f"did you mean {meant!r}? {there}" if meant else there
    return UsageError(f"unknown framework {name!r}", advice=advice)
