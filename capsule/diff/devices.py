"""Claims that a side did not run, because a verifier chose another device than the author's."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from capsule import quick
from capsule.diff import words
from capsule.manifest import Manifest, otherdevice
from capsule.notes import Note
from capsule.record import Record

if TYPE_CHECKING:
    from capsule.diff import Pair

_COMMAND = "command"


def mark(pairs: Iterable[Pair], original: Record, rerun: Record) -> Iterator[Pair]:
    """Mark the pairs that a change of device excludes from judgement.

    Excluded are machine metrics on two devices, claims about equal bits, and benchmarks that a
    framework cannot run on the device that the verifier chose.
    """
    moved = [one for one in (original.manifest, rerun.manifest) if one.other_device is not None]
    if not moved:
        yield from pairs
        return
    is_moved = otherdevice.differ(original.manifest, rerun.manifest)
    for pair in pairs:
        meaning = pair.original or pair.rerun
        is_of_machine = meaning is not None and meaning.kind == "machine"
        yield replace(pair, not_run=_find_reason(pair, moved), is_moved=is_moved and is_of_machine)


def notes(original: Record, rerun: Record) -> Iterator[Note]:
    """Yield notes on benchmarks without claims that did not run on the re-run's device."""
    manifest = rerun.manifest
    claimed = {tuple(one.metric.split("/")[::2]) for one in original.claims}
    left_out: dict[str, dict[str, None]] = {}
    for benchmark in manifest.benchmarks:
        for framework, reason in benchmark.refusals.items():
            if (benchmark.id, framework) not in claimed:
                left_out.setdefault(reason, {})[benchmark.id] = None
    for reason, names in left_out.items():
        device = manifest.resources.device
        yield words.NOTES("not-run", device=device, benchmarks=tuple(names), reason=reason)


def _find_reason(pair: Pair, moved: Sequence[Manifest]) -> str | None:
    """Return why a claim is not judged on the verifiers' devices, None if it is judged."""
    framework = pair.metric.split("/")[2]
    name = quick.benchmark_of(pair.metric)
    for manifest in moved:
        for benchmark in manifest.benchmarks:
            if benchmark.id == name and framework in benchmark.refusals:
                return benchmark.refusals[framework]
    of_command = framework == _COMMAND
    claim = pair.claim
    if claim and otherdevice.compares_bits(claim.type, pair.metric, of_command=of_command):
        return otherdevice.EQUAL_BITS
    return None
