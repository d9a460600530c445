"""All runs of one metric, with one value each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from capsule import stats
from capsule.manifest import Aggregate, Direction, Kind, Per
from capsule.record import Attempt, Samples

RunStatus = Literal["ok", "failed", "missing"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Run:
    """One planned run of one metric: a trial, whatever became of it.

    Attributes:
        seed: Unsigned 32-bit.
        seed_source: `manifest` or `fresh`.
        trial: Trial id.
        status: `ok` has a value; `failed` ended by the workload's own fault; `missing` has no
            final outcome, because every attempt was interrupted or none was made, or is a time of
            the whole trial, which was interrupted and resumed.
        value: In the metric's unit, made of its samples by `run_value`; None unless `ok`.
        samples: All values and their steps, one for each rank that reported the metric, in the
            order of ranks; empty without a completed attempt.
        trajectory: Lowest seed of all runs that went through exactly the same values: together
            they are one independent run. None when no other run did.
        not_finite: The first NaN or infinity among its values, of a run that has no value for it.
        failure: The attempt that ended it, where that failed.
        started: When the process of its final attempt was started, ISO 8601 UTC; None without one.
        interrupted: Number of its attempts that were interrupted; each was tried again.
    """

    seed: int
    seed_source: str
    trial: str
    status: RunStatus
    value: float | None
    samples: tuple[Samples, ...] = ()
    trajectory: int | None = None
    not_finite: float | None = None
    failure: Attempt | None = None
    started: str | None = None
    interrupted: int = 0

    @property
    def series(self) -> Samples | None:
        """Return all values of a run that one rank reported; None where none did, or several."""
        return self.samples[0] if len(self.samples) == 1 else None


class Draft:
    """A `Run` while it is made: to set the fields of a frozen one takes four times as long."""

    __slots__ = Run.__slots__


@dataclass(frozen=True, kw_only=True, slots=True)
class MetricRuns:
    """All planned runs of one metric path, sorted by seed.

    Attributes:
        controls: Runs that are none of these and no evidence: they tell why fresh seeds all failed.
        earlier: How many runs more earlier verifications made. Of a metric of the machine they are
            left out: it was another one, or the same one on another day.
        is_named_only: True if a claim has to name the metric: `*` does not stand for it.
        reckoned: As statistics takes them, by resolution; None where that is not to be kept.
    """

    metric: str
    unit: str
    direction: Direction
    kind: Kind
    resolution: float
    per: Per = "call"
    aggregate: Aggregate | None = None
    runs: tuple[Run, ...]
    test_set: int | None = None
    controls: tuple[Run, ...] = ()
    earlier: int = 0
    is_named_only: bool = False
    _values: tuple[float, ...] | None = field(default=None, init=False, repr=False, compare=False)
    # not carried over to a copy, which may have other runs
    reckoned: dict[float, stats.Runs] | None = field(
        default=None, init=False, repr=False, compare=False
    )

    @property
    def values(self) -> tuple[float, ...]:
        """Return the values of the runs that are `ok`, in the order of their seeds; made once."""
        values = self._values
        if values is None:
            values = tuple(list_values(self.runs))
            object.__setattr__(self, "_values", values)
        return values


def list_values(runs: Sequence[Run]) -> list[float]:
    """Return the values of the runs that are `ok`.

    Those that `MetricRuns.values` keeps take memory, of a hundred thousand metrics nobody judges.
    """
    return [run.value for run in runs if run.value is not None]
