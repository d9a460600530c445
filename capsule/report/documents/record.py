"""A record as JSON, raw samples left out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from capsule import quick, stats, summary, sweeps
from capsule.jsons import Json
from capsule.manifest import otherdevice
from capsule.origin import predecessor_id
from capsule.record import DeviceSeries, Record
from capsule.report.documents.comparison import claim_to_json, notes_to_json, round_digits
from capsule.runtimes.programs import PREFIX

FORMAT = "capsule-show/1"
_LEVEL = 0.95
_PROVENANCE = ("url", "doi", "license", "description")


def record_to_json(record: Record, capsule_id: str | None) -> dict[str, Json]:
    """A record's facts as a JSON value, raw samples left out."""
    return {
        "format": FORMAT,
        "id": capsule_id,
        "name": record.manifest.name,
        "title": record.manifest.title,
        "uuid": record.uuid,
        "tool": record.tool,
        "verifies": record.verifies,
        "predecessor": predecessor_id(record.origin),
        "nonce": record.nonce,
        "quick": bool(quick.not_run(record)),
        "set": dict(record.manifest.changed),
        **_device(record),
        "added": [asdict(earlier) for earlier in record.chain],
        "started": record.started,
        "ended": record.ended,
        "runtime": record.runtime,
        "contained": record.contained,
        "image": _image(record),
        "programs": _programs(record),
        "seeds": list(record.manifest.seeds),
        "plan_digest": record.plan_digest,
        "levels": dict(record.levels),
        "datasets": _datasets(record),
        "sources": [asdict(source) for source in record.sources],
        "nodes": list(record.nodes),
        "claims": [{"metric": claim.metric, **claim_to_json(claim)} for claim in record.claims],
        "metrics": _metrics(record),
        "attempts": _attempts(record),
        "scaling": [asdict(one) for one in sweeps.find(record)],
        "setups": _setups(record),
        **({"devices": list(map(_series, record.devices))} if record.devices else {}),
        "worlds": [asdict(world) for world in record.worlds],
        "world": dict(summary.worlds(record)),
        "notes": notes_to_json(record.notes),
    }


def _device(record: Record) -> dict[str, Json]:
    """Return the device that a verifier chose and what did not run there, if there is one."""
    manifest = record.manifest
    if manifest.other_device is None:
        return {}
    left_out = otherdevice.list_left_out(manifest)
    return {"device": manifest.other_device, "not_run": list(left_out)}


def _metrics(record: Record) -> dict[str, Json]:
    """As in `metrics.json`, and of runs of several calls how the calls lie."""
    document: dict[str, Any] = summary.metrics_document(record)["metrics"]
    for path, metric in summary.run_values(record).items():
        for entry, run in zip(document[path]["runs"], metric.runs, strict=True):
            if calls := summary.calls(run):
                entry["calls"] = _calls(calls)
    return document


def _calls(values: Sequence[float]) -> dict[str, Json]:
    interval = stats.median_interval(values, level=_LEVEL)
    return {
        "values": len(values),
        "median_interval": [round_digits(end) for end in interval] if interval else None,
        "level": _LEVEL,
        "variation": round_digits(stats.variation(values)),
    }


def _datasets(record: Record) -> list[dict[str, Json]]:
    """Return the datasets of a record with their origins from the manifest."""
    specs = {spec.name: spec for spec in record.manifest.datasets}
    return [
        {**asdict(one), **{name: getattr(specs[one.name], name) for name in _PROVENANCE}}
        for one in record.datasets
    ]


def _image(record: Record) -> dict[str, Json] | None:
    image = record.image
    if image is None:
        return None
    return {
        "reference": image.reference,
        "pinned": image.pinned,
        "identity": {"kind": image.identity.kind, "digest": str(image.identity.digest)},
        "manifest_digest": str(image.manifest_digest) if image.manifest_digest else None,
        "index_digest": str(image.index_digest) if image.index_digest else None,
        "config_digest": str(image.config_digest) if image.config_digest else None,
        "tree_digest": str(image.tree_digest) if image.tree_digest else None,
        "platform": image.platform,
        "diff_ids": [str(layer.diff_id) for layer in image.layers],
        "override": record.image_override,
        "observations": dict(record.image_observations),
    }


def _programs(record: Record) -> dict[str, Json]:
    """Return the machine's own programs that ran on the host."""
    return {
        name.removeprefix(PREFIX): program
        for name, program in record.image_observations.items()
        if name.startswith(PREFIX)
    }


def _setups(record: Record) -> list[dict[str, Json]]:
    """Return duration and nodes of each attempt's setup, which is part of no metric."""
    return [
        {
            "trial": one.trial,
            "attempt": one.attempt,
            "nodes": list(one.nodes),
            "seconds": one.setup_seconds,
        }
        for one in record.attempts
        if one.setup_seconds is not None
    ]


def _series(one: DeviceSeries) -> dict[str, Json]:
    """Return the activity of a device during an attempt, without its points."""
    quantities: dict[str, Json] = {
        quantity.name: {
            "least": quantity.least,
            "largest": quantity.largest,
            "mean": quantity.integral / quantity.seconds if quantity.seconds else None,
        }
        for quantity in one.quantities
    }
    return {
        "trial": one.trial,
        "attempt": one.attempt,
        "rank": one.rank,
        "node": one.node,
        "device": one.device,
        "source": one.source,
        "seconds": one.seconds,
        "samples": one.samples,
        "is_gapless": one.is_gapless,
        "use": one.use,
        "joules": one.joules,
        "energy_gap": one.energy_gap,
        "quantities": quantities,
        "throttled": dict(one.throttled),
    }


def _attempts(record: Record) -> dict[str, int]:
    counts = Counter(attempt.outcome for attempt in record.attempts)
    return {name: counts[name] for name in ("completed", "failed", "interrupted")}
