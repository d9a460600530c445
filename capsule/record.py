"""Data of a run, as one frozen value: the contents of a capsule."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from operator import attrgetter
from typing import Any, Literal

from capsule import __version__
from capsule.digest import Digest
from capsule.image import Image
from capsule.manifest import Claim, ClaimType, Direction, Kind, Manifest, Per
from capsule.notes import CLOCKS, NOTES, Note
from capsule.origin import JUDGE_RULE, Added, Origin, Verification, image_override, original_id
from capsule.plan import Plan, SeedSource, to_json
from capsule.predecessor import Predecessor
from capsule.starts import World

Outcome = Literal["completed", "failed", "interrupted"]
Reason = Literal[
    "exit",  # failed: the workload ended itself with a code other than 0
    "signal",  # failed: the workload crashed (SIGSEGV, SIGABRT, SIGFPE, SIGBUS, SIGILL)
    "error",  # failed: an exception inside the workload, caught by levels
    "out-of-memory",  # failed
    "non-finite",  # failed: a metric was NaN or infinite
    "diverged",  # failed: a training whose loss was not finite, or grew beyond the untrained one
    "no-result",  # failed: ended well but a declared metric is missing
    "bad-result",  # failed: results that the protocol does not allow
    "timeout",  # failed: exceeded the benchmark's own time limit
    "ran-without-gpu",  # failed: ended well, but never used the GPU that its benchmark requires
    "killed",  # interrupted: ended from outside
    "walltime",  # interrupted: the run's wall time was used up
    "limit",  # interrupted: it took more of the disk, or more processes, than was allowed
    "lost",  # interrupted: the host process died; found by resume
    "engine",  # interrupted: the engine failed before the workload started
    "not-started",  # failed: the program is missing or cannot be executed
]

_TRACEBACK = "Traceback (most recent call last):"


@dataclass(frozen=True, kw_only=True, slots=True)
class Evidence:
    """A file that a trial wrote and the capsule keeps, from which its values are recomputed.

    Attributes:
        path: Path below `data/`, in `logs/` or `evidence/`.
        name: `stdout`, `stderr`, or `out/` and a path below the trial's output folder.
        rank: Rank that wrote the file.
    """

    path: str
    name: str
    rank: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Attempt:
    """One execution of a trial.

    Attributes:
        trial: Trial id.
        attempt: Number of the attempt, 1 for the first.
        group: Id of the process start, which several trials may share.
        seed, seed_source: Seed of the trial, and its origin: manifest, fresh or control.
        outcome, reason: `completed` (no reason) and `failed` are final; an `interrupted` trial is
            tried again.
        message: Last output of the workload, or its exception; at most 2000 characters.
        exit_code, signal: End of the rank that the message names; both None if it continued.
        started: Start time of the process, ISO 8601 UTC with `+00:00`.
        seconds: Duration in seconds by the monotonic clock; None if the process was lost.
        setup_seconds: Duration in seconds of the successful setup command; None without one.
        resumed_after: Number of epochs trained by an earlier attempt, from whose checkpoint this
            one continued; None for a training from the beginning.
        ranks: World size: number of processes started together.
        nodes: Indexes into the record's nodes, one for each node, in the order of the ranks.
        world: Observation of whether a command's ranks formed one world, see `capsule.starts`;
            empty for one rank, for a trial that did not complete, and without observation.
        evidence: Files of the attempt that the capsule keeps.
    """

    trial: str
    attempt: int
    group: str
    seed: int
    seed_source: SeedSource
    outcome: Outcome
    reason: Reason | None = None
    message: str = ""
    exit_code: int | None = None
    signal: int | None = None
    started: str
    seconds: float | None
    setup_seconds: float | None = None
    resumed_after: int | None = None
    ranks: int = 1
    nodes: tuple[int, ...] = (0,)
    world: str = ""
    evidence: tuple[Evidence, ...] = ()

    @property
    def last_line(self) -> str:
        """Return the last line of the message; of a traceback, the line of the exception."""
        lines = [line for line in self.message.splitlines() if line.strip()]
        for place in range(len(lines) - 1, -1, -1):
            if lines[place].startswith(_TRACEBACK):
                after = (line for line in lines[place + 1 :] if not line[0].isspace())
                return next(after, lines[-1]).strip()
        return lines[-1].strip() if lines else ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Samples:
    """All values of one metric in one attempt: one line of `results/samples.jsonl`.

    `capsule.summary` describes how a run's value is computed from them.

    Attributes:
        metric: Metric path of four segments.
        rank: Rank that reported the values.
        per: Unit of repetition, for example a call or an epoch.
        values: Values in measured order.
        warmup: Number of leading values that are warm-up.
        steps: Step of each value (epochs, samples seen), increasing; None for repetitions.
        wall: Seconds from the start of the trial to each value; None if not recorded.
        active: Seconds of training before each value; None if not recorded.
    """

    metric: str
    trial: str
    attempt: int
    seed: int
    unit: str
    direction: Direction
    kind: Kind
    resolution: float
    per: Per = "call"
    rank: int = 0
    warmup: int
    values: Sequence[float]
    steps: Sequence[float] | None = None
    wall: Sequence[float] | None = None
    active: Sequence[float] | None = None


@dataclass(frozen=True, kw_only=True, slots=True)
class RankSamples(Samples):
    """One metric of all ranks of one attempt: one line of `results/ranks.jsonl`.

    `values` holds one number for each rank, in the order of ranks: the median of its values after
    warm-up, NaN without a value. The run's value is the worst of them, as for metrics that are
    stored rank by rank.

    Attributes:
        count: Number of values that each rank measured, with warm-up; 0 if the ranks of an attempt
            that did not complete measured different numbers.
        discarded: Number of leading warm-up values of each rank.
        whole: All values, rank by rank; empty if reduced.
        last: Last value of each rank, NaN without one; empty unless reduced, like the following.
        least, median, largest: Statistics over all ranks, for each repetition.
        digests: SHA-256 of all ranks' values as little-endian doubles, in hex, for each repetition.
    """

    count: int
    discarded: int
    whole: Sequence[float] = ()
    last: Sequence[float] = ()
    least: Sequence[float] = ()
    median: Sequence[float] = ()
    largest: Sequence[float] = ()
    digests: tuple[str, ...] = ()

    @property
    def ranks(self) -> int:
        """Return the number of ranks."""
        return len(self.values)

    @property
    def is_reduced(self) -> bool:
        """Return whether only statistics of the measured values are stored."""
        return not self.whole


Use = Literal["used", "unused", "not seen"]
EnergyGap = Literal[
    "no-counter",  # the device has none, or it cannot be read
    "mig",  # the counter is of the whole card, and others may use its other instances
    "other-processes",  # another process used the device
    "unknown-processes",  # whose processes used the device cannot be determined
    "wrapped",  # the counter decreased, or may have wrapped between two samples
    "uncovered",  # no samples close enough to both ends of what is timed
]


@dataclass(frozen=True, kw_only=True, slots=True)
class Quantity:
    """One quantity of a device during one attempt.

    Attributes:
        name: Name that ends in the unit, for example `power_watts`.
        values: At each kept point; NaN where it could not be read.
        least, largest: Over all samples, kept or not.
        integral: Over time by the trapezoidal rule, of all samples; unit of the quantity times s.
        seconds: Time that the integral covers, in seconds.
    """

    name: str
    values: Sequence[float]
    least: float
    largest: float
    integral: float
    seconds: float


@dataclass(frozen=True, kw_only=True, slots=True)
class DeviceSeries:
    """Activity of one device during one attempt: one line of `results/devices.jsonl`.

    A program outside of the timed process read the device about ten times a second.

    Attributes:
        rank: Rank whose device it is; for a processor package the first rank of its node.
        node: Index into the record's nodes.
        device: PCI address of a GPU, or the name of a processor package.
        source: Interface that was read.
        seconds: Duration of the attempt on this rank, in seconds.
        samples: Number of samples that were taken.
        is_gapless: True if samples follow each other closely from the first to the last moment.
        use: `unused` only if nothing else used the device either; `not seen` if unknown.
        joules: Difference of the energy counter over what is timed, of the whole card or package;
            None where `energy_gap` gives the reason.
        times: Seconds from the start of the attempt to each kept point.
        quantities: What was read, sorted by name.
        throttled: Seconds for which a reason limited the clocks, by reason.
    """

    trial: str
    attempt: int
    rank: int
    node: int
    device: str
    source: Literal["nvml", "amdgpu", "rapl"]
    seconds: float
    samples: int
    is_gapless: bool
    use: Use
    joules: float | None
    energy_gap: EnergyGap | None
    times: Sequence[float] = ()
    quantities: tuple[Quantity, ...] = ()
    throttled: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class FrozenClaim:
    """A claim on one metric, with its allowed region as numbers, fixed at sealing.

    Attributes:
        metric: Full metric path, without wildcards.
        scale: `log` to judge natural logarithms of the values, else `linear`.
        lower: Lower end of the allowed region, None for minus infinity.
        upper: Upper end, None for plus infinity. The region bounds the difference of the re-run's
            location from the original's (for `curve`, at every step), the re-run's location itself
            (`threshold`), the value of each run (`bound`), or Kolmogorov's distance
            (`distribution`).
        margin_source: `author`, `spread` (a multiple of the standard deviation between the
            original's runs, by default 2), or `none`.
        pattern: Claim as written; claims on several metrics may share it.
        looks: Planned looks, as increasing numbers of re-run seeds; empty if no interval decides.
            Looks of a paired claim count the fresh seeds beside its pairs.
        paired: True to compare runs under equal seeds one by one.
        resolution: Smallest step of the number for this claim; None for the metric's own.
        later: True if the claim was written or changed after its runs were first sealed; such a
            claim is secondary.
    """

    metric: str
    type: ClaimType
    scale: Literal["linear", "log"]
    lower: float | None
    upper: float | None
    margin_source: Literal["author", "spread", "none"]
    alpha: float
    primary: bool
    pattern: Claim
    looks: tuple[int, ...] = ()
    paired: bool = False
    resolution: float | None = None
    later: bool = False


@dataclass(frozen=True, kw_only=True)
class Dataset:
    """A dataset that was used, identified by its content.

    Attributes:
        name: Name in the manifest.
        digest: Digest of the content.
        bytes, files: Total size of the files in bytes, and their number.
        source: Place where the dataset was found.
        embedded: True if the capsule contains the dataset, below `data/datasets/NAME/`.
    """

    name: str
    digest: str
    bytes: int
    files: int
    source: Literal["generator", "path", "site", "fetched", "capsule"]
    embedded: bool = False


@dataclass(frozen=True, kw_only=True)
class Source:
    """A git checkout that contains inputs.

    Attributes:
        inputs: Inputs as the manifest names them, or a folder inside one with its own checkout.
        commit: Commit that was checked out, 40 or 64 hex digits.
        modified: True if tracked files differed from the commit; None if unknown.
    """

    inputs: tuple[str, ...]
    commit: str
    modified: bool | None


@dataclass(frozen=True, kw_only=True)
class File:
    """A file to be put into the capsule.

    Attributes:
        path: Path below `data/`.
        source: Bytes of the file, or the `pathlib.Path` that holds them.
        digest: Required digest; None accepts the present bytes.
        binary: True for numeric data, which is neither cleaned nor searched for private text.
    """

    path: str
    source: Any
    digest: Digest | None = None
    binary: bool = False


@dataclass(frozen=True, kw_only=True)
class Execution:
    """Results of all process starts of a run.

    Attributes:
        attempts: Attempts in the order in which they ended.
        samples: Samples of all attempts, including failed ones.
        software: Contents of the image, by framework.
        effective: Settings in force inside, by framework.
        logs: Stdout and stderr of every process start, and other evidence.
        worlds: Observed worlds, as in `Record`.
        devices: Activity of devices, as in `Record`.
        notes: Facts about the run that a reader of its numbers must know.
    """

    attempts: tuple[Attempt, ...]
    samples: tuple[Samples, ...]
    software: Mapping[str, Any]
    effective: Mapping[str, Any]
    logs: tuple[File, ...]
    worlds: tuple[World, ...] = ()
    devices: tuple[DeviceSeries, ...] = ()
    notes: tuple[Note, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Record:
    """The data in a capsule.

    Attributes:
        tool, uuid: Version of `capsule-hpc` that sealed the capsule; unique name of the run.
        origin: Reason of the run: its author's own, or derived from another capsule.
        judge_rule: Number of the rules by which claims were fixed and are judged.
        started, ended: Start and end time, ISO 8601 UTC.
        runtime, contained: Name of the engine; False for `host`, which contains nothing.
        image: Container image; None only for `host`.
        image_observations: Facts that the engine reported about its copy of the image.
        manifest: Manifest of the run.
        plan, plan_digest: Plan as JSON, groups in executed order; its `sha256:...` in canonical
            form.
        nodes: Inventory of each node: {"identity", "class", "state", "missing"}.
        software: Contents of the image, by framework: {"python", "distributions", ...}.
        environment: Settings that can change a result: variables, threads, affinity, flags.
        levels: {"digest": of data/levels, "release", "ruler": number of its rules of bounds}.
        datasets: Datasets that were used.
        sources: Git checkouts of the inputs; empty in a verification.
        worlds: Worlds observed by the test before a run of several ranks, one for each start or
            resumption.
        devices: What GPUs and processor packages did during attempts, sorted by `device_order`.
        predecessor: Capsule that this one was made from by `reread` or `--add-seeds`, else None.
        claims: Claims with their regions as numbers.
        attempts, samples: All attempts, in order, and all their samples.
        notes: Facts that a reader of the verdict must know, for example an open network.
    """

    tool: str
    uuid: str
    origin: Origin
    judge_rule: int = JUDGE_RULE
    started: str
    ended: str
    runtime: str
    contained: bool
    image: Image | None
    image_observations: Mapping[str, str]
    manifest: Manifest
    plan: Mapping[str, Any]
    plan_digest: str
    nodes: tuple[Mapping[str, Any], ...]
    software: Mapping[str, Any]
    environment: Mapping[str, Any]
    levels: Mapping[str, str | None]
    datasets: tuple[Dataset, ...]
    claims: tuple[FrozenClaim, ...]
    attempts: tuple[Attempt, ...]
    samples: tuple[Samples, ...]
    notes: tuple[Note, ...]
    sources: tuple[Source, ...] = ()
    worlds: tuple[World, ...] = ()
    devices: tuple[DeviceSeries, ...] = ()
    predecessor: Predecessor | None = None

    @property
    def verifies(self) -> str | None:
        """Return the id of the original of a verification; None for other runs."""
        return original_id(self.origin)

    @property
    def chain(self) -> tuple[Added, ...]:
        """Return the earlier verifications whose runs count, in the order of their seeds."""
        return self.origin.added if isinstance(self.origin, Verification) else ()

    @property
    def nonce(self) -> str | None:
        """Return the word mixed into the fresh seeds; None without one."""
        return self.origin.nonce if isinstance(self.origin, Verification) else None

    @property
    def image_override(self) -> str | None:
        """Return the reference given with `--image`; None if the image was not replaced."""
        if self.predecessor is not None:
            return self.predecessor.record.image_override
        return image_override(self.origin)


@dataclass(frozen=True, kw_only=True)
class Setup:
    """Facts that are fixed before the first process start and hold for the whole run.

    The attributes are those of `Record` with the same names.
    """

    uuid: str
    origin: Origin
    started: str
    runtime: str
    contained: bool
    image: Image | None
    image_observations: Mapping[str, str]
    variables: Mapping[str, str]
    threads: int
    levels: Mapping[str, str | None]
    datasets: tuple[Dataset, ...]
    notes: tuple[Note, ...]
    sources: tuple[Source, ...] = ()


def find_early_runs(
    started: str, attempts: Iterable[Attempt], ended: str, whose: str
) -> Note | None:
    """Return a note if runs are dated before the runs that they follow, else None.

    Args:
        started: Start time of the runs, ISO 8601 UTC.
        attempts: Attempts of the runs.
        ended: End time of the runs that they follow.
        whose: Name of those runs in the note, for example `the original`.
    """
    times = (started, *(attempt.started for attempt in attempts))
    first = min(times, key=datetime.fromisoformat)
    if datetime.fromisoformat(first) >= datetime.fromisoformat(ended):
        return None
    return NOTES(CLOCKS, began=first, ended=ended, whose=whose)


_ORDER = ("metric", "seed", "attempt", "rank")  # of the lines of `results/samples.jsonl`
sample_order: Callable[[Samples], tuple[str, int, int, int]] = attrgetter(*_ORDER)
device_order: Callable[[DeviceSeries], tuple[str, int, int, str]] = attrgetter(
    "trial", "attempt", "rank", "device"
)


def assemble(
    setup: Setup,
    plan: Plan,
    execution: Execution,
    *,
    nodes: tuple[Mapping[str, Any], ...],
    ended: str,
) -> Record:
    """Build the record of a run, without claims; these are fixed on it afterwards.

    Args:
        setup: Facts fixed before the run.
        plan: Plan of the run.
        execution: Results of the run.
        nodes: Inventory of each node.
        ended: End time, ISO 8601 UTC.
    """
    return Record(
        tool=__version__,
        uuid=setup.uuid,
        origin=setup.origin,
        started=setup.started,
        ended=ended,
        runtime=setup.runtime,
        contained=setup.contained,
        image=setup.image,
        image_observations=setup.image_observations,
        manifest=plan.manifest,
        plan=to_json(plan),
        plan_digest=str(plan.digest),
        nodes=nodes,
        software=execution.software,
        environment={
            "variables": setup.variables,
            "threads": setup.threads,
            "effective": execution.effective,
        },
        levels=setup.levels,
        datasets=setup.datasets,
        claims=(),
        attempts=execution.attempts,
        samples=tuple(sorted(execution.samples, key=sample_order)),
        notes=(*setup.notes, *execution.notes),
        sources=setup.sources,
        worlds=execution.worlds,
        devices=tuple(sorted(execution.devices, key=device_order)),
    )
