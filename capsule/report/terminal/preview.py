"""What a run would start, on a terminal."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import TYPE_CHECKING

from capsule.durations import duration
from capsule.report.terminal.style import grid, text
from capsule.sizes import size
from capsule.starts import count_starts
from capsule.verdict.wording import count

if TYPE_CHECKING:
    from rich.console import RenderableType

    from capsule.preview import Data, Preview


def draw_preview(preview: Preview) -> Iterator[RenderableType]:
    """The first process start with all that it would see, and what there is of them."""
    rows = grid()
    for name, value in _facts(preview):
        rows.add_row(name, text(value))
    yield rows
    yield text("nothing was started")


def _name_image(preview: Preview) -> str:
    """Which image would be started, and whether it is here."""
    if not preview.contained:
        return "none: this machine's own programs and libraries run"
    if preview.image is None:
        return "not known"
    here = "is here already" if preview.is_kept else "is not here yet and would be fetched"
    name, layers = preview.image.pinned or preview.image.reference, preview.image.layers
    extent = size(sum(layer.size_bytes for layer in layers))
    return f"{name} ({preview.image.platform}), {extent}, {here}"


def _place_data(data: Data) -> str:
    """A dataset, and where it would come from."""
    extent = "" if data.size_bytes is None else f", {size(data.size_bytes)}"
    if data.generator is not None:
        return f"{data.name}{extent}, made here by the generator {data.generator}"
    if data.carried:
        return f"{data.name}{extent}, in the capsule"
    place = "is not known to be here" if data.path is None else f"lies in {data.path}"
    return f"{data.name}{extent}, {place}"


def _facts(preview: Preview) -> Iterator[tuple[str, str]]:
    first, plan = preview.invocation, preview.plan
    if preview.setup is not None:
        yield "setup", shlex.join(preview.setup.command)
    yield "words", shlex.join(first.command)
    yield "folder", first.cwd
    if first.stdin is not None:
        yield "stdin", str(first.stdin)
    own = dict.fromkeys(("HOME", "TMPDIR"), "a folder of this start's own, removed after it")
    environment = {**first.environment, **(own if not preview.contained else {})}
    for n, (name, value) in enumerate(sorted(environment.items())):
        yield "" if n else "environment", f"{name}={value}"
    for n, mount in enumerate(first.mounts):
        # on the host a program may write wherever its user may
        kept = "read-only" if preview.contained else "not protected from writing"
        access = "writable" if mount.writable else kept
        if preview.is_restored(mount):
            access += ", restored before each start"
        seen = f"{mount.source} as {mount.target}" if preview.contained else str(mount.source)
        yield "" if n else "mounts", f"{seen}, {access}"
    total = sum(preview.input_bytes.values())
    yield "inputs", f"{count(len(preview.input_bytes), 'file')}, {total} bytes"
    for n, data in enumerate(preview.data):
        yield "" if n else "data", _place_data(data)
    yield "devices", ", ".join(first.devices) or "none"
    yield "network", "yes" if first.network or not preview.contained else "none"
    yield "engine", preview.engine or "none that can be used here"
    if preview.fault:
        yield "", preview.fault
    yield "image", _name_image(preview)
    for name, place in preview.programs.items():
        yield name, "not on this machine" if place is None else str(place)
    if preview.left_out is not None:
        yield "quick", preview.left_out.sentence
    trials = sum(len(group.trials) for group in plan.groups)
    starts = count(count_starts(plan), "process start")
    yield "starts", f"{starts}, {count(trials, 'trial')}; the first is {plan.groups[0].id}"
    if (seconds := preview.prospect.seconds) is not None:
        yield "time", f"about {duration(seconds)} at the original's speed"
    limit = preview.walltime_seconds
    yield "walltime", "no limit" if limit is None else f"cut off after {duration(limit)}"
    for n, written in enumerate(preview.prospect.writes):
        yield "" if n else "writes", written
    yield "plan", str(plan.digest)
