"""What somebody is told before code runs, besides the code: whose, how much, how long, where."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from capsule import site as sites
from capsule.durations import duration
from capsule.image import Image
from capsule.manifest import Manifest
from capsule.options import Limits
from capsule.plan import Plan
from capsule.record import Record
from capsule.resolve import Choice, Request
from capsule.sizes import size
from capsule.starts import count_starts
from capsule.verdict.wording import count

_SHOWN_DATASETS = 12
# whatever its author wrote into it: all of them together can be counted, and shown
_LONGEST_SECONDS = 1e9


@dataclass(frozen=True, kw_only=True)
class Measured:
    """How long the trials of the original took, together, with what ran before them.

    Attributes:
        trials: Their number.
        seconds: Their time.
        is_part: Whether the original has others besides, of benchmarks that are not repeated.
    """

    trials: int
    seconds: float
    is_part: bool = False

    @classmethod
    def of(cls, record: Record, plan: Plan) -> Measured:
        """Those of a capsule that a plan repeats, ended well or not."""
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
    """What will come of a run.

    Attributes:
        plan: What of it would be started here.
        original: What the run that it repeats took, None where it repeats none.
        work: Its folder while it is under way, None for a new one in the current folder.
        output: The capsule to write, None for a new one in the current folder.
        limits: What it may take.
    """

    plan: Plan
    original: Measured | None = None
    work: Path | None = None
    output: Path | None = None
    limits: Limits = Limits()

    @property
    def trials(self) -> int:
        """How many would be started."""
        return sum(len(group.trials) for group in self.plan.groups)

    @property
    def seconds(self) -> float | None:
        """About how long the trials take at the original's speed, None where nothing tells."""
        if self.original is None or not self.original.trials:
            return None
        return self.original.seconds / self.original.trials * self.trials

    @property
    def writes(self) -> tuple[str, ...]:
        """Every place on this machine that would be written."""
        name = self.plan.manifest.name
        kind = "verification" if self.plan.verifies else "capsule"
        work = self.work or Path(f"{name}-….run")
        output = self.output or Path(f"{name}-….{kind}.zip")
        return (
            f"{work.absolute()} while it runs",
            str(output.absolute()),
            f"{sites.cache_place(sites.load())}, the cache of images and data",
        )


def describe(manifest: Manifest) -> str:
    """What is measured, by whom, and in which paper."""
    authors = ", ".join(author.name for author in manifest.authors)
    paper = f", paper https://doi.org/{manifest.paper_doi}" if manifest.paper_doi else ""
    return f"{manifest.title or manifest.name}, by {authors}{paper}"


def describe_extent(outlook: Outlook) -> str:
    """How many processes would be started, and how long that takes as far as anything tells."""
    starts = count(count_starts(outlook.plan), "process start")
    extent = f"{starts} of {count(outlook.trials, 'trial')}"
    if outlook.original is None or outlook.seconds is None:
        return extent
    took = duration(outlook.original.seconds)
    of_these = " of these benchmarks" if outlook.original.is_part else ""
    return (
        f"{extent}, about {duration(outlook.seconds)} at the original's speed, whose"
        f" {count(outlook.original.trials, 'trial')}{of_these} took {took}"
    )


def describe_size(image: Image, *, is_kept: bool) -> str:
    """How much of an image would be fetched."""
    layers = size(sum(layer.size_bytes for layer in image.layers))
    state = "are here already" if is_kept else "would be fetched"
    return f"the image's {count(len(image.layers), 'layer')}, {layers}, {state}"


def describe_needs(request: Request, choice: Choice | None) -> Iterator[str]:
    """The image's size, devices, and data: a line each."""
    if choice is not None and choice.image is not None:
        cache = sites.cache_place(sites.load())
        yield describe_size(choice.image, is_kept=choice.runtime.keeps(choice.image, cache=cache))
    yield _describe_devices(request.manifest)
    yield from _describe_data(request, contained=choice is not None and choice.runtime.contained)


def describe_writes(outlook: Outlook) -> str:
    """Every place on this machine that would be written, in a sentence."""
    return f"writes {'; '.join(outlook.writes)}"


def _describe_devices(manifest: Manifest) -> str:
    resources = manifest.resources
    ranks = "" if resources.ranks == 1 else f" for each of {resources.ranks} ranks"
    if not resources.gpus_per_rank:
        return f"on no GPU{ranks}"
    return f"on {count(resources.gpus_per_rank, 'GPU')}{ranks}"


def _describe_data(request: Request, *, contained: bool) -> Iterator[str]:
    there = {one.name: one for one in request.used.datasets} if request.used else {}
    kept = ", read-only" if contained else ", not protected from writing"
    for spec in islice(request.datasets, _SHOWN_DATASETS):
        facts = there.get(spec.name)
        extent = f", {size(facts.bytes)} in {count(facts.files, 'file')}" if facts else ""
        carried = ", in the capsule" if facts and facts.embedded else ""
        yield f"data {spec.name}{extent}{carried}, {spec.provenance}{kept}"
    if (more := len(request.datasets) - _SHOWN_DATASETS) > 0:
        yield f"and {count(more, 'more dataset', 'more datasets')}: `capsule show` lists them"
