"""Quick verification: the benchmarks that primary claims need, chosen in advance."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

from capsule.manifest import DatasetSpec, Manifest
from capsule.origin import Origin, Verification
from capsule.record import Dataset, FrozenClaim, Record

_SHOWN = 5


class LeftOut(NamedTuple):
    """Benchmarks of a capsule that a quick verification leaves out.

    Attributes:
        benchmarks: Ids of those that no deciding claim is about, in the manifest's order.
        ran: Number of benchmarks that ran.
        claims: Number of claims about them, none of which decides.
    """

    benchmarks: tuple[str, ...]
    ran: int
    claims: int

    @property
    def sentence(self) -> str:
        """Return the same fact as a sentence."""
        if not self.benchmarks:
            return "--quick runs all benchmarks: primary claims need every benchmark"
        total = self.ran + len(self.benchmarks)
        more = len(self.benchmarks) - _SHOWN
        names = ", ".join(self.benchmarks[:_SHOWN]) + (f" and {more} more" if more > 0 else "")
        claims = f"{self.claims or 'no'} claim{'' if self.claims == 1 else 's'}"
        return (
            f"--quick runs {self.ran} of {total} benchmarks; no primary claim needs the rest:"
            f" {names} ({claims})"
        )


def decides(claim: FrozenClaim) -> bool:
    """Return whether a capsule's verdict depends on a claim."""
    return claim.primary and claim.type != "ratio"


def benchmark_of(metric: str) -> str:
    """Return the benchmark's id, with which a metric path begins."""
    return metric.partition("/")[0]


def deciding(origin: Origin, claims: Iterable[FrozenClaim]) -> frozenset[str] | None:
    """Return ids of the benchmarks that a run with this origin is of, None for all.

    Args:
        origin: Origin of the run.
        claims: As frozen by the original of a verification.
    """
    if not isinstance(origin, Verification) or not origin.quick:
        return None
    return deciding_benchmarks(claims)


def deciding_benchmarks(claims: Iterable[FrozenClaim]) -> frozenset[str]:
    """Return the ids of the benchmarks that at least one deciding claim needs."""
    return frozenset(benchmark_of(claim.metric) for claim in claims if decides(claim))


def leave_out(manifest: Manifest, claims: Collection[FrozenClaim]) -> LeftOut:
    """Return the benchmarks that a quick verification leaves out.

    Args:
        manifest: Manifest of the capsule that is verified.
        claims: As that capsule froze them.
    """
    kept = deciding_benchmarks(claims)
    names = [benchmark.id for benchmark in manifest.benchmarks]
    return LeftOut(
        benchmarks=tuple(name for name in names if name not in kept),
        ran=sum(name in kept for name in names),
        claims=sum(benchmark_of(claim.metric) not in kept for claim in claims),
    )


def running(manifest: Manifest, claims: Iterable[FrozenClaim]) -> frozenset[str] | None:
    """Return the ids of the benchmarks that a quick verification runs; None for all."""
    kept = deciding_benchmarks(claims)
    return None if all(one.id in kept for one in manifest.benchmarks) else kept


def needed_data(
    manifest: Manifest, used: Iterable[Dataset], only: frozenset[str] | None
) -> tuple[DatasetSpec, ...]:
    """Return the datasets that must be here for a run.

    Args:
        manifest: What of it runs.
        used: By the run before; what its capsule carries is here, and carried on.
        only: Ids of the benchmarks that run, None for all.
    """
    if only is None:
        return manifest.datasets
    names = {one.name for one in used if one.embedded}
    names.update(name for one in manifest.benchmarks if one.id in only for name in one.datasets)
    return tuple(spec for spec in manifest.datasets if spec.name in names)


def faults(record: Record) -> Iterator[str]:
    """Yield contradictions between a record and its claim to be quick."""
    only = deciding(record.origin, record.claims)
    if only is not None:
        left_out = leave_out(record.manifest, record.claims)
        if not left_out.ran:
            yield "the record states --quick, but has no primary claim other than `ratio`"
        elif not left_out.benchmarks:
            yield "the record states --quick, but primary claims need every benchmark"
    used = {one.name for one in record.datasets}
    for spec in needed_data(record.manifest, (), only):
        if spec.name not in used:
            yield f"benchmarks read dataset {spec.name}, which is missing from the record"


def not_run(record: Record) -> frozenset[str]:
    """Return the ids of the benchmarks without runs, because the verification was quick."""
    kept = deciding(record.origin, record.claims)
    if kept is None:
        return frozenset()
    return frozenset(benchmark.id for benchmark in record.manifest.benchmarks) - kept
