"""All that is known after a run, as one frozen value: what a capsule holds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
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
    """A file that a trial left behind and the capsule keeps: its numbers follow from it.

    Attributes:
        path: Below `data/`, in `logs/` or `evidence/`.
        name: `stdout`, `stderr`, or `out/` and its path below the trial's out folder.
        rank: Who wrote it.
    """

    path: str
    name: str
    rank: int = 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Attempt:
    """One process group's try at one trial.

    Attributes:
        trial: Trial id.
        attempt: 1 for the first try.
        group: Id of the process start, shared by trials that ran in one process.
        seed, seed_source: The trial's seed, and whether it is of the manifest, fresh or a control.
        outcome, reason: `completed`, without a reason, and `failed` are final; `interrupted` is
            tried again.
        message: The workload's last words or the exception, at most 2000 characters.
        exit_code, signal: Of the rank that the message names; both None when it went on.
        started: When its process was started, ISO 8601 UTC with `+00:00`.
        seconds: Duration by the monotonic clock, None when the process was lost.
        setup_seconds: That of the setup command which ended well before it, None without one.
        resumed_after: Epochs of a training that an earlier attempt trained, whose checkpoint this
            one went on from; None of one that began anew.
        ranks: Processes that were started for it together, the world size.
        nodes: Indexes into the record's nodes: all that its ranks ran on, in the ranks' order.
        world: What is known of the world of a command's own ranks, see `capsule.starts`; empty of
            one rank, of a trial that did not complete, and where nobody looked.
        evidence: Files of it that the capsule keeps.
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
        """What says most of its message: the exception a traceback ends in, else its last line."""
        lines = [line for line in self.message.splitlines() if line.strip()]
        for place in range(len(lines) - 1, -1, -1):
            if lines[place].startswith(_TRACEBACK):
                after = (line for line in lines[place + 1 :] if not line[0].isspace())
                return next(after, lines[-1]).strip()
        return lines[-1].strip() if lines else ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Samples:
    """Every value of one metric in one trial attempt: one line of `results/samples.jsonl`.

    What makes the run's value of them is told in `summary`.

    Attributes:
        metric: Four-segment path.
        rank: Which process reported it.
        per: What the several values are.
        values: In measured order.
        warmup: How many leading values are warm-up.
        steps: Where on its way through the run each value was taken (epochs, samples seen),
            increasing; None when the values are repetitions.
        wall: Seconds since the trial began at which each value was there, None where not kept.
        active: The same by a clock that stands still while the trial does not train.
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
    """One metric of all ranks of a trial attempt that has many: a line of `results/ranks.jsonl`.

    `values` has one number a rank, by rank: the median of what it measured after its warm-up, NaN
    for none. The run's value is the worst of them, as of samples that are kept rank by rank.

    Attributes:
        count: How many values each rank measured, its warm-up included; 0 where an attempt that did
            not complete left different numbers of them.
        discarded: How many leading ones of each rank are warm-up.
        whole: All of them, rank by rank; empty where they were reduced.
        last: The last value of each rank, NaN for none; like what follows empty unless they were.
        least, median, largest: Over all ranks, at each of the values.
        digests: The SHA-256 in hex of all ranks' values at each of them, as little-endian doubles.
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
        """How many there were."""
        return len(self.values)

    @property
    def is_reduced(self) -> bool:
        """Whether values that were measured are not kept."""
        return not self.whole


@dataclass(frozen=True, kw_only=True, slots=True)
class FrozenClaim:
    """A claim with its wildcard resolved and its region turned into numbers at sealing.

    Attributes:
        metric: A full metric path.
        scale: `log` judges natural logarithms of the values.
        lower: Lower end of the allowed region, None for minus infinity.
        upper: Upper end, None for plus infinity. The region bounds the shift from the original's
            location to the re-execution's, for `curve` at every step; for `threshold` the
            re-execution's location itself; for `bound` the value of each of its runs; for
            `distribution` Kolmogorov's distance.
        margin_source: `author`, `spread` (so many sd of the original's runs as the pattern asks
            for, 2 by default), or `none`.
        pattern: The claim as written, which the same number of claims may share.
        looks: After how many re-run seeds it may be judged, increasing; empty where no interval
            decides. Those of a paired claim are of the fresh seeds beside its pairs.
        paired: Whether runs under equal seeds are compared one by one.
        resolution: Smallest step of the number for this claim, None for the metric's own.
        later: Whether it was written or changed after its runs were sealed first, so that it is not
            primary, however it was written.
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
    """A dataset that was used, named by what is in it.

    Attributes:
        name: As the manifest names it.
        digest: Of its content.
        bytes, files: Sum of its files' sizes, and their number.
        source: Where it was found.
        embedded: Whether the capsule carries it, below `data/datasets/NAME/`.
    """

    name: str
    digest: str
    bytes: int
    files: int
    source: Literal["generator", "path", "site", "fetched", "capsule"]
    embedded: bool = False


@dataclass(frozen=True, kw_only=True)
class Source:
    """A git checkout that inputs are of.

    Attributes:
        inputs: As the manifest names them, or a folder below one that is a checkout of its own.
        commit: What was checked out, 40 or 64 hex digits.
        modified: Whether files that git keeps were others than the commit's; None for unknown.
    """

    inputs: tuple[str, ...]
    commit: str
    modified: bool | None


@dataclass(frozen=True, kw_only=True)
class File:
    """A file to be put into the capsule.

    Attributes:
        path, source: Below `data/`; where its bytes are now, a `pathlib.Path`, or the bytes.
        digest: Which bytes it must have, None for those that are there.
        binary: Whether it holds numbers, in which nothing is replaced and no words are looked for.
    """

    path: str
    source: Any
    digest: Digest | None = None
    binary: bool = False


@dataclass(frozen=True, kw_only=True)
class Execution:
    """Everything that the process starts of a run left behind.

    Attributes:
        attempts: In the order in which they ended.
        samples: Of every attempt, also of those that failed.
        software: What the image holds, per framework.
        effective: Settings that were in force inside, per framework.
        logs: Standard output and error of every process start, and what else is evidence.
        worlds: As in `Record`.
        notes: What a reader must know of what ran.
    """

    attempts: tuple[Attempt, ...]
    samples: tuple[Samples, ...]
    software: Mapping[str, Any]
    effective: Mapping[str, Any]
    logs: tuple[File, ...]
    worlds: tuple[World, ...] = ()
    notes: tuple[Note, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Record:
    """Everything a capsule states.

    Attributes:
        tool, uuid: `capsule-hpc` version that sealed it; name of this run.
        origin: Why it ran: on its author's account, or because of another capsule.
        judge_rule: Number of the rules by which its claims were frozen and are judged.
        started, ended: ISO 8601 UTC.
        runtime, contained: Name of the engine, and whether it is one: `host` is none.
        image: None only for `host`.
        image_observations: What the engine said of its copy.
        manifest: What was asked.
        plan, plan_digest: Its JSON, groups in executed order, and `sha256:...` of it as canonical.
        nodes: Host-side inventory of each node: {"identity", "class", "state", "missing"}.
        software: What the image holds, per framework: {"python", "distributions", ...}.
        environment: Every value set that can change a result: variables, threads, affinity, flags.
        levels: {"digest": of data/levels, "release", "ruler": number of its rules of bounds}.
        datasets: Used datasets.
        sources: Where its author had the inputs from; none of a re-execution.
        worlds: What pre-flight's own program saw of several ranks, each time that such a run was
            begun or taken up.
        predecessor: What it was made of, where its origin names a capsule that nobody re-executed.
        claims: Frozen claims.
        attempts, samples: Every attempt, in order, and every sample of it.
        notes: What a reader of the verdict must know: uncontained, network open, ...
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
    predecessor: Predecessor | None = None

    @property
    def verifies(self) -> str | None:
        """Id of the capsule that this one re-executed, None for any other run."""
        return original_id(self.origin)

    @property
    def chain(self) -> tuple[Added, ...]:
        """Earlier verifications whose runs count with its own, in the order of their seeds."""
        return self.origin.added if isinstance(self.origin, Verification) else ()

    @property
    def nonce(self) -> str | None:
        """What its fresh seeds follow from besides the original's id, None for nothing else."""
        return self.origin.nonce if isinstance(self.origin, Verification) else None

    @property
    def image_override(self) -> str | None:
        """Reference given with `--image`, None when the image was not replaced."""
        if self.predecessor is not None:
            return self.predecessor.record.image_override
        return image_override(self.origin)


@dataclass(frozen=True, kw_only=True)
class Setup:
    """What is decided before the first process start and holds for the whole run.

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
    """Return the note on runs that are dated before those that they follow, None without any.

    Args:
        started: When the runs began, ISO 8601 UTC.
        attempts: At their trials.
        ended: When those before them ended.
        whose: What ended then, such as `the original`.
    """
    times = (started, *(attempt.started for attempt in attempts))
    first = min(times, key=datetime.fromisoformat)
    if datetime.fromisoformat(first) >= datetime.fromisoformat(ended):
        return None
    return NOTES(CLOCKS, began=first, ended=ended, whose=whose)


_ORDER = ("metric", "seed", "attempt", "rank")  # of the lines of `results/samples.jsonl`
sample_order: Callable[[Samples], tuple[str, int, int, int]] = attrgetter(*_ORDER)


def assemble(
    setup: Setup,
    plan: Plan,
    execution: Execution,
    *,
    nodes: tuple[Mapping[str, Any], ...],
    ended: str,
) -> Record:
    """Put together what was decided, planned and seen; claims are frozen onto it afterwards.

    Args:
        setup: Decided before the run.
        plan: What was to run.
        execution: What ran.
        nodes: Inventory of each node.
        ended: As in `Record`.
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
    )
