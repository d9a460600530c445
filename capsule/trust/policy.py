"""Whose code may run here: one's own capsules, and those somebody said yes to."""

from __future__ import annotations

from capsule.archive import Capsule
from capsule.console import Console
from capsule.errors import UntrustedError
from capsule.manifest import Benchmark, Command, Network, Operator
from capsule.trust import ledger


def require(opened: Capsule, *, trust: bool, console: Console) -> None:
    """Stop unless the capsule is this user's own or `trust` is given; shows what would run.

    Raises:
        UntrustedError: Nobody said that its code may run.
    """
    if ledger.holds(opened.id):
        return
    console.say(f"{opened.id} was not sealed by you; it would run here:")
    for line in _would_run(opened):
        console.say(f"  {line}")
    if not trust:
        raise UntrustedError(
            "a stranger's capsule executes its author's code",
            where=opened.id,
            advice="when you have read what would run and trust where it comes from: --trust",
        )


def require_container(opened: Capsule, *, runtime: str, image: str | None, allowed: bool) -> None:
    """Stop before a stranger's code runs without a container.

    Raises:
        UntrustedError: It would, and `--allow-host` was not given.
    """
    uncontained = runtime == "host" or (
        runtime == "auto" and opened.record.image is None and image is None
    )
    if uncontained and not allowed and not ledger.holds(opened.id):
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
        lines.append(f"{benchmark.id}: {_described(benchmark)}")
    return lines


def _described(benchmark: Benchmark) -> str:
    match benchmark.subject:
        case Command(words=words):
            return f"{' '.join(words)!r}{', with network' if benchmark.online else ''}"
        case Operator(name=name, source=source):
            kind = "operator"
        case Network(name=name, source=source):
            kind = "network"
    whose = "the author's " if source else ""
    return f"{whose}{kind} {name} by the capsule's levels/"
