"""Whose code may run here: one's own capsules, and those somebody said yes to."""

from __future__ import annotations

from capsule.archive import Capsule
from capsule.errors import UntrustedError
from capsule.manifest import Benchmark, Command, Network, Operator
from capsule.resolve import Resolved
from capsule.trust import ledger
from capsule.watch import SILENT, Watch


def require_consent(opened: Capsule, *, trust: bool, watch: Watch = SILENT) -> None:
    """Stop unless the capsule is this user's own or `trust` is given; tells what would run.

    Raises:
        UntrustedError: Nobody said that its code may run.
    """
    if ledger.holds(opened.id):
        return
    watch.stranger(opened.id, _would_run(opened))
    if not trust:
        raise UntrustedError(
            "a stranger's capsule executes its author's code",
            where=opened.id,
            advice="when you have read what would run and trust where it comes from: --trust",
        )


def require_container(opened: Capsule, resolved: Resolved, *, allow_host: bool) -> None:
    """Stop before a stranger's code runs without a container.

    Args:
        opened: The capsule.
        resolved: What would run it, wherever that was decided.
        allow_host: Whether somebody said that it may.

    Raises:
        UntrustedError: It would, and nobody said so.
    """
    if resolved.runtime.contained or allow_host or ledger.holds(opened.id):
        return
    raise UntrustedError(
        "it would run on this host without a container",
        where=opened.id,
        advice="use --runtime apptainer or docker with --image, or say --allow-host",
    )


def _would_run(opened: Capsule) -> list[str]:
    record = opened.record
    image = record.image.pinned or record.image.reference if record.image else None
    lines = [f"image {image}" if image else "no image"]
    for benchmark in record.manifest.benchmarks:
        lines.append(f"{benchmark.id}: {_describe(benchmark)}")
    return lines


def _describe(benchmark: Benchmark) -> str:
    match benchmark.subject:
        case Command(words=words):
            return f"{' '.join(words)!r}{', with network' if benchmark.online else ''}"
        case Operator(name=name, source=source):
            kind = "operator"
        case Network(name=name, source=source):
            kind = "network"
    whose = "the author's " if source else ""
    return f"{whose}{kind} {name} by the capsule's levels/"
