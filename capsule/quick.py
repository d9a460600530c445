"""What a quick verification runs: the benchmarks that decide, chosen before anything is seen."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

from capsule.manifest import DatasetSpec, Manifest
from capsule.origin import Origin, Verification
from capsule.record import Dataset, FrozenClaim, Record

_SHOWN = 5


class LeftOut(NamedTuple):
    """What of a capsule no quick verification runs.

    Attributes:
        benchmarks: Ids of those that no deciding claim is about, in the manifest's order.
        ran: How many others there are.
        claims: Number of claims about them, none of which decides.
    """

    benchmarks: tuple[str, ...]
    ran: int
    claims: int

    @property
    def sentence(self) -> str:
        """The same in words."""
        if not self.benchmarks:
            return "--quick leaves nothing out: a claim that decides is about every benchmark"
        total = self.ran + len(self.benchmarks)
        more = len(self.benchmarks) - _SHOWN
        names = ", ".join(self.benchmarks[:_SHOWN]) + (f" and {more} more" if more > 0 else "")
        claims = f"{self.claims or 'no'} claim{'' if self.claims == 1 else 's'}"
        return (
            f"--quick runs {self.ran} of {total} benchmarks, and leaves out what decides nothing:"
            f" {names}, with {claims}"
        )


def decides(claim: FrozenClaim) -> bool:
    """Whether a capsule's verdict depends on a claim."""
    return claim.primary and claim.type != "ratio"


def benchmark_of(metric: str) -> str:
    """Id of the benchmark that a metric path begins with."""
    return metric.partition("/")[0]


def deciding(origin: Origin, claims: Iterable[FrozenClaim]) -> frozenset[str] | None:
    """Ids of the benchmarks that a run with this origin is of, None for all.

    Args:
        origin: Of the run.
        claims: As frozen by the original of a verification.
    """
    if not isinstance(origin, Verification) or not origin.quick:
        return None
    return deciding_benchmarks(claims)


def deciding_benchmarks(claims: Iterable[FrozenClaim]) -> frozenset[str]:
    """Ids of the benchmarks that at least one deciding claim is about."""
    return frozenset(benchmark_of(claim.metric) for claim in claims if decides(claim))


def leave_out(manifest: Manifest, claims: Collection[FrozenClaim]) -> LeftOut:
    """What a quick verification does not run.

    Args:
        manifest: Of the capsule that is verified.
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
    """Ids of the benchmarks that a quick verification runs, None where it leaves nothing out."""
    kept = deciding_benchmarks(claims)
    return None if all(one.id in kept for one in manifest.benchmarks) else kept


def needed_data(
    manifest: Manifest, used: Iterable[Dataset], only: frozenset[str] | None
) -> tuple[DatasetSpec, ...]:
    """The datasets that must be here for a run.

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
    """Where a verification says that it left out what decides nothing, and there is no such."""
    only = deciding(record.origin, record.claims)
    if only is not None:
        left_out = leave_out(record.manifest, record.claims)
        if not left_out.ran:
            yield "it says that it was quick, and no claim of its decides anything"
        elif not left_out.benchmarks:
            yield "it says that it was quick, and a claim that decides is about every benchmark"
    used = {one.name for one in record.datasets}
    for spec in needed_data(record.manifest, (), only):
        if spec.name not in used:
            yield f"its benchmarks read the dataset {spec.name}, which it does not state"


def not_run(record: Record) -> frozenset[str]:
    """Ids of the benchmarks that a record has no runs of because it was quick."""
    kept = deciding(record.origin, record.claims)
    if kept is None:
        return frozenset()
    return frozenset(benchmark.id for benchmark in record.manifest.benchmarks) - kept
