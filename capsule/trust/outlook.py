"""The outlook of a run: its extent and duration, what it can reach, and what it writes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from capsule import places
from capsule import site as sites
from capsule.durations import duration
from capsule.manifest import Manifest
from capsule.options import Limits
from capsule.plan import Plan
from capsule.record import Record
from capsule.resolve import Choice, Request
from capsule.sizes import size
from capsule.starts import count_starts
from capsule.verdict.wording import count

_SHOWN_DATASETS = _SHOWN_BENCHMARKS = 12
UNCONTAINED = "the code can read and write whatever you can"
# whatever its author wrote into it: all of them together can be counted, and shown
_LONGEST_SECONDS = 1e9


@dataclass(frozen=True, kw_only=True)
class Measured:
    """The total duration of the original's trials, their setup included.

    Attributes:
        trials: Number of trials.
        seconds: Total duration.
        is_part: Whether the original has more trials, of benchmarks that are not repeated.
    """

    trials: int
    seconds: float
    is_part: bool = False

    @classmethod
    def of(cls, record: Record, plan: Plan) -> Measured:
        """Return the duration of a record's trials that a plan repeats, failed ones included."""
        planned = {trial.benchmark.id for group in plan.groups for trial in group.trials}
        attempts = [one for one in record.attempts if one.trial.partition("/")[0] in planned]
        return cls(
            trials=len(attempts),
            seconds=sum(
                min((one.seconds or 0.0) + (one.setup_seconds or 0.0), _LONGEST_SECONDS)
                for one in attempts
            ),
            is_part=len(attempts) < len(record.attempts),
        )


@dataclass(frozen=True, kw_only=True)
class Outlook:
    """Process starts, limits and files of a planned run.

    Attributes:
        plan: The trials to start.
        original: The duration of the original, None for a run that repeats none.
        work: The run folder, None for a new one in the current folder.
        output: The capsule to write, None for a new one in the current folder.
        limits: Of the run.
    """

    plan: Plan
    original: Measured | None = None
    work: Path | None = None
    output: Path | None = None
    limits: Limits = Limits()

    @property
    def trials(self) -> int:
        """Number of trials to start."""
        return sum(len(group.trials) for group in self.plan.groups)

    @property
    def seconds(self) -> float | None:
        """Estimated duration at the original's speed, None when unknown."""
        if self.original is None or not self.original.trials:
            return None
        return self.original.seconds / self.original.trials * self.trials

    @property
    def places(self) -> tuple[Path, Path, Path]:
        """Every place to write: the run folder, the capsule, the cache of images and data."""
        name = self.plan.manifest.name
        kind = "verification" if self.plan.verifies else "capsule"
        work = self.work or Path(f"{name}-….run")
        output = self.output or Path(f"{name}-….{kind}.zip")
        return work.absolute(), output.absolute(), sites.cache_place(sites.load())

    @property
    def writes(self) -> tuple[str, ...]:
        """The same as sentences."""
        work, output, cache = self.places
        return f"{work} while it runs", str(output), f"{cache}, the cache of images and data"


def describe_origin(manifest: Manifest) -> str:
    """Return authors, title and paper."""
    authors = ", ".join(author.name for author in manifest.authors)
    paper = f", paper https://doi.org/{manifest.paper_doi}" if manifest.paper_doi else ""
    return f'{authors}, "{manifest.title or manifest.name}"{paper}'


def describe_extent(outlook: Outlook) -> str:
    """Return the number of process starts, and the estimated duration where it is known."""
    number = count_starts(outlook.plan)
    starts = count(number, "process start")
    extent = starts if number == outlook.trials else f"{starts} for {outlook.trials} trials"
    original = outlook.original
    if original is None or outlook.seconds is None:
        return extent
    whose = "the original"
    if original.trials != outlook.trials or original.is_part:
        of_these = " of these benchmarks" if original.is_part else ""
        whose = f"the original's {count(original.trials, 'trial')}{of_these}"
    took = f"{whose} took {duration(original.seconds)}"
    return f"{extent}, about {duration(outlook.seconds)} ({took})"


def describe_size(choice: Choice) -> str:
    """Return the size of an image, and whether it has to be fetched."""
    assert choice.image is not None
    layers = choice.image.layers
    is_kept = choice.runtime.keeps(choice.image, cache=sites.cache_place(sites.load()))
    state = "already on this machine" if is_kept else "to be fetched"
    if not layers:
        return f"image file, {state}"
    extent = size(sum(layer.size_bytes for layer in layers))
    return f"image of {count(len(layers), 'layer')}, {extent}, {state}"


def describe_devices(manifest: Manifest) -> str:
    """Return the number of GPUs of each rank, and the device that the verifier chose."""
    resources = manifest.resources
    number = str(resources.gpus_per_rank or "none")
    each = f" for each of {resources.ranks} ranks" if resources.ranks > 1 else ""
    chosen = f" (--device {manifest.other_device})" if manifest.other_device else ""
    return f"{number}{each}{chosen}"


def describe_network(online: Sequence[str], *, contained: bool) -> str:
    """Return who can use the network.

    Args:
        online: Ids of the benchmarks whose manifest asks for a network.
        contained: Whether an engine starts them.
    """
    if not contained:
        return "open (without a container, capsule cannot isolate the code from the network)"
    if not online:
        return "none"
    more = len(online) - _SHOWN_BENCHMARKS
    names = ", ".join(online[:_SHOWN_BENCHMARKS]) + (f" and {more} more" if more > 0 else "")
    return f"open for {names} (as the manifest asks), none for other benchmarks"


def describe_limits(limits: Limits) -> str:
    """Return what a run may take, and the options that change it."""
    whole = ("" if limits.walltime is None else f"{duration(limits.walltime)} in all (--walltime)",)
    each = (
        "" if limits.disk is None else f"{size(limits.disk)} of disk (--disk)",
        "" if limits.pids is None else f"{limits.pids} processes and threads (--pids)",
        "" if limits.memory is None else f"{size(limits.memory)} of memory (--memory)",
    )
    of_starts = ", ".join(filter(None, each))
    of_start = f"per start {of_starts}" if of_starts else ""
    return "; ".join(filter(None, (*whole, of_start))) or "none"


def describe_writes(outlook: Outlook) -> str:
    """Return every place to write, as short as the current folder and the home allow."""
    return ", ".join(map(places.shorten, outlook.places))


def describe_data(request: Request, *, contained: bool) -> Iterator[str]:
    """Yield a fact for each dataset: name, size, source, and whether it can be written."""
    there = {one.name: one for one in request.used.datasets} if request.used else {}
    kept = "read-only" if contained else "not protected from writing"
    for spec in islice(request.datasets, _SHOWN_DATASETS):
        facts = there.get(spec.name)
        extent = f", {size(facts.bytes)} in {count(facts.files, 'file')}" if facts else ""
        carried = ", in the capsule" if facts and facts.embedded else ""
        yield f"data: {spec.name}{extent}{carried}, {spec.provenance}, {kept}"
    if (more := len(request.datasets) - _SHOWN_DATASETS) > 0:
        yield f"data: and {count(more, 'more dataset', 'more datasets')}: `capsule show` lists them"
