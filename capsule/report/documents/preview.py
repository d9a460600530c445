"""Preview of a run, as a JSON value."""

from __future__ import annotations

from typing import TYPE_CHECKING

from capsule import plan as planning
from capsule.jsons import JsonObject

if TYPE_CHECKING:
    from capsule.preview import Preview


def preview_to_json(preview: Preview) -> JsonObject:
    """The plan with its first process start, engine and image under `first` and `here`, and what a
    quick verification leaves out under `left_out`.
    """
    first, left_out = preview.invocation, preview.left_out
    return {
        **planning.to_json(preview.plan),
        "left_out": None
        if left_out is None
        else {"benchmarks": list(left_out.benchmarks), "claims": left_out.claims},
        "setup": None if preview.setup is None else list(preview.setup.command),
        "first": {
            "command": list(first.command),
            "cwd": first.cwd,
            "stdin": None if first.stdin is None else str(first.stdin),
            "environment": dict(first.environment),
            "mounts": [
                {
                    "source": str(one.source),
                    "target": one.target,
                    "writable": one.writable or not preview.contained,
                }
                for one in first.mounts
            ],
            "devices": list(map(str, range(first.gpus.count))),
            "network": first.network,
        },
        "here": {
            "engine": preview.engine,
            "fault": preview.fault or None,
            "image": preview.image.pinned if preview.image else None,
            "kept": preview.is_kept,
            "programs": {
                name: str(place) if place else None for name, place in preview.programs.items()
            },
            "inputs": dict(preview.input_bytes),
            "walltime": preview.walltime_seconds,
            "data": [
                {
                    "name": one.name,
                    "bytes": one.size_bytes,
                    "path": None if one.path is None else str(one.path),
                    "carried": one.carried,
                    "generator": one.generator,
                }
                for one in preview.data
            ],
            "seconds": preview.prospect.seconds,
            "writes": list(preview.prospect.writes),
        },
    }
