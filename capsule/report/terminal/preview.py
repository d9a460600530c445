"""A dry run on a terminal: what a run would start, reach and write."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from capsule.manifest import otherdevice
from capsule.report.terminal.style import grid, text
from capsule.sizes import size
from capsule.verdict.wording import count

if TYPE_CHECKING:
    from rich.console import RenderableType

    from capsule.preview import Data, Preview


def draw_preview(preview: Preview) -> Iterator[RenderableType]:
    """Draw the first process start with all that it would see, and the extent of the run."""
    rows = grid()
    for name, value in _facts(preview):
        rows.add_row(name, text(value))
    yield rows
    yield text("dry run: nothing started")


def _facts(preview: Preview) -> Iterator[tuple[str, str]]:
    # loads engines, which commands that start nothing do without
    from capsule.trust import outlook

    first, manifest = preview.invocation, preview.plan.manifest
    if preview.setup is not None:
        yield "setup", shlex.join(preview.setup.command)
    yield "command", shlex.join(first.command)
    yield "folder", first.cwd
    if first.stdin is not None:
        yield "stdin", str(first.stdin)
    extent = outlook.describe_extent(preview.prospect)
    yield "starts", f"{extent}; the first is {preview.plan.groups[0].id}"
    if preview.left_out is not None:
        yield "quick", preview.left_out.sentence
    total = sum(preview.input_bytes.values())
    yield "files", f"{count(len(preview.input_bytes), 'input file')}, {total} bytes"
    for n, data in enumerate(preview.data):
        yield "" if n else "data", _place_data(data)
    yield "container", _describe_container(preview)
    for name, place in preview.programs.items():
        yield name, "not on this machine" if place is None else str(place)
    online = [one.id for one in manifest.benchmarks if one.online]
    yield "network", outlook.describe_network(online, contained=preview.contained)
    chosen = f" (--device {manifest.other_device})" if manifest.other_device else ""
    number = f"{first.gpus.count} for each rank" if first.gpus.count else "none"
    yield "GPUs", f"{number}{chosen}"
    for sentence in otherdevice.list_left_out(manifest):
        yield "not run", sentence
    limits = replace(preview.prospect.limits, walltime=preview.walltime_seconds)
    yield "limits", outlook.describe_limits(limits)
    yield "writes", outlook.describe_writes(preview.prospect)
    for n, mount in enumerate(first.mounts):
        # on the host a program may write wherever its user may
        kept = "read-only" if preview.contained else "not protected from writing"
        access = "writable" if mount.writable else kept
        if preview.is_restored(mount):
            access += ", restored before each process start"
        seen = f"{mount.source} as {mount.target}" if preview.contained else str(mount.source)
        label = "mounts" if preview.contained else "folders"
        yield "" if n else label, f"{seen}, {access}"
    own = dict.fromkeys(("HOME", "TMPDIR"), "a folder of this process start, removed afterwards")
    environment = {**first.environment, **(own if not preview.contained else {})}
    for n, (name, value) in enumerate(sorted(environment.items())):
        yield "" if n else "environment", f"{name}={value}"
    if preview.plan.verifies:
        yield "from", outlook.describe_origin(manifest)
    yield "plan", str(preview.plan.digest)


def _describe_container(preview: Preview) -> str:
    """Return the engine with its image, or what it means that there is none."""
    if not preview.contained:
        from capsule.trust.outlook import UNCONTAINED

        return f"NONE: {UNCONTAINED}"
    if preview.engine is None:
        return f"no engine works on this machine: {preview.fault}"
    if preview.image is None:
        return f"{preview.engine}, image unknown: {preview.fault}"
    here = "already on this machine" if preview.is_kept else "to be fetched"
    name, layers = preview.image.pinned or preview.image.reference, preview.image.layers
    extent = size(sum(layer.size_bytes for layer in layers))
    return f"{preview.engine}, image {name} ({preview.image.platform}), {extent}, {here}"


def _place_data(data: Data) -> str:
    """Return a dataset, and where it comes from."""
    extent = "" if data.size_bytes is None else f", {size(data.size_bytes)}"
    if data.generator is not None:
        return f"{data.name}{extent}, made on this machine by the generator {data.generator}"
    if data.carried:
        return f"{data.name}{extent}, in the capsule"
    place = "path on this machine unknown" if data.path is None else f"in {data.path}"
    return f"{data.name}{extent}, {place}"
