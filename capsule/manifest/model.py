"""The values that a manifest is read into; nothing here reads anything."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NamedTuple

from capsule.digest import Digest
from capsule.manifest.kinds import Reading, Recipe, Scaling, Search, Subject

if TYPE_CHECKING:
    from capsule.manifest.sources import Source

Scalar = int | float | str | bool
Direction = Literal["lower", "higher", "none"]
Kind = Literal["portable", "machine"]
ClaimType = Literal[
    "exact",
    "equivalence",
    "noninferiority",
    "threshold",
    "bound",
    "prediction",
    "distribution",
    "curve",
    "ratio",
]
Average = Literal["arithmetic", "geometric"]
Per = Literal["call", "trial", "node", "block", "step", "rank"]
"""What the several values of a metric in one trial are.

Repeated calls of one thing, one number for the trial, one for each node of a network, block of a
result, step on the way, or rank. Only calls are repetitions: their median is the run's value.
"""
Aggregate = Literal["mean", "median", "min", "max"]
Preset = Literal["strict", "middle", "default", "lenient"]
# between-run standard deviations; what each preset means is told in docs/explanation/statistics.md
PRESETS: Mapping[Preset, float] = {"strict": 1.0, "middle": 1.5, "default": 2.0, "lenient": 2.8}
CURVE_SPREADS = 3.0
# where a search as a whole has its metric: BENCHMARK/search/FRAMEWORK/score
SEARCH, SCORE = "search", "score"
# below 2^31: many a program keeps its seed in a signed integer of 32 bits
SEED_RANGE = (0, 2**31 - 1)


@dataclass(frozen=True, kw_only=True)
class Metric:
    """What one number means.

    Attributes:
        name: Last segment of the metric path.
        unit: UCUM-like unit, `1` for a pure number, `s`, `By`, `epoch`.
        direction: Which way is better.
        kind: `portable` numbers should agree between machines, `machine` numbers belong to one.
        resolution: Smallest step the number can make, in its unit; 0 when it has none.
        per: What its several values in one trial are.
        test_set: Of how many test examples the number is a fraction, None when of none.
        source: Where a command's number is read, None where the command reports it itself.
        aggregate: What a run's value is of several values, None for what `per` says.
    """

    name: str
    unit: str = "1"
    direction: Direction = "none"
    kind: Kind = "portable"
    resolution: float = 0.0
    per: Per = "call"
    test_set: int | None = None
    source: Source | None = None
    aggregate: Aggregate | None = None

    @property
    def is_of_one_attempt(self) -> bool:
        """Whether it is a time of a whole trial, which no attempt has seen that was resumed."""
        return self.kind == "machine" and self.per == "trial"


class ImageSpec(NamedTuple):
    """Where the image comes from."""

    reference: str


@dataclass(frozen=True, kw_only=True)
class Resources:
    """What one process start gets; `walltime_seconds` bounds the whole run."""

    nodes: int = 1
    ranks_per_node: int = 1
    cpus_per_rank: int | None = None
    gpus_per_rank: int = 0
    walltime_seconds: int | None = None

    @property
    def ranks(self) -> int:
        """The world size: processes of one start, on all nodes together."""
        return self.nodes * self.ranks_per_node


@dataclass(frozen=True, kw_only=True)
class DatasetSpec:
    """One dataset: made by a generator, lying beside the manifest, fetched, or known by its digest.

    Attributes:
        name: Of it in the manifest.
        digest: Which bytes it must be.
        format: What its files are, a key of `levels.data.formats.layouts.FORMATS`; None where each
            holds one array, or a command reads it.
        generator: What makes it.
        parameters: Of the generator.
        path: Where it lies beside the manifest.
        url: Where anybody can fetch it.
        doi: Of its publication.
        license: SPDX identifier of the licence that it comes under.
        description: One line for people.
        unpack: Whether the address is of an archive, and the dataset what is inside.
        embed: Whether the capsule carries its bytes; None for the rule of `datasets.embedding`.
    """

    name: str
    digest: str | None = None
    format: str | None = None
    generator: str | None = None
    parameters: Mapping[str, Scalar]
    path: str | None = None
    url: str | None = None
    doi: str | None = None
    license: str | None = None
    description: str | None = None
    unpack: bool = False
    embed: bool | None = None

    @property
    def provenance(self) -> str:
        """Where it comes from and under which licence, in words.

        >>> DatasetSpec(name="a", parameters={}, doi="10.1/2", license="MIT").provenance
        'doi:10.1/2, licence MIT'
        """
        if self.generator is not None:
            return f"made by the generator {self.generator}"
        places = [self.url, self.doi and f"doi:{self.doi}"]
        source = ", ".join(filter(None, places)) or "no source stated"
        return f"{source}, {f'licence {self.license}' if self.license else 'no licence stated'}"


@dataclass(frozen=True, kw_only=True)
class Case:
    """One point of a benchmark's sweep; a benchmark without a sweep has the case `default`."""

    name: str
    parameters: Mapping[str, Scalar]


@dataclass(frozen=True, kw_only=True)
class Benchmark:
    """One entry of the manifest, with its sweep written out.

    Attributes:
        id: First segment of its metric paths.
        subject: What it measures.
        cases: The sweep, never empty.
        frameworks: Third segment of metric paths; `("command",)` for a `command`.
        inputs: Files and folders beside the manifest that are bound in and kept in the capsule.
        exclude: What of these folders is left out, in patterns as `.gitignore` has them.
        datasets: Names of datasets bound in.
        metrics: Every metric that a trial yields, whatever its framework.
        lacking: Framework to the metrics that its trials do not yield, such as a gradient's.
        isolation: `group` shares a process between the cases of one framework and seed.
        timeout_seconds: Bound on one trial; past it the trial has failed.
        online: Whether the workload may use the network.
        search: How its cases were drawn, None where they were written.
        scaling: How cases of different numbers of ranks are compared; None where none are.
    """

    id: str
    subject: Subject
    cases: tuple[Case, ...]
    frameworks: tuple[str, ...]
    inputs: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    datasets: tuple[str, ...] = ()
    metrics: tuple[Metric, ...]
    isolation: Literal["group", "trial"] = "group"
    lacking: Mapping[str, frozenset[str]] = field(default_factory=dict)
    timeout_seconds: int | None = None
    online: bool = False
    search: Search | None = None
    scaling: Scaling | None = None

    @cached_property
    def case_names(self) -> frozenset[str]:
        """Second segments of the metric paths of its trials."""
        return frozenset(case.name for case in self.cases)

    @property
    def score(self) -> Metric | None:
        """The metric that a search has as a whole, one value a seed; None without a search."""
        if self.search is None:
            return None
        decisive = next(one for one in self.metrics if one.name == self.search.metric)
        return replace(decisive, name=SCORE, per="trial", source=None)

    def due(self, framework: str) -> tuple[Metric, ...]:
        """The metrics that a trial under this framework yields."""
        lacking = self.lacking.get(framework, frozenset())
        return tuple(metric for metric in self.metrics if metric.name not in lacking)


class Margin(NamedTuple):
    """How far apart still counts as the same; exactly one is set, and all but `distance` are
    frozen at sealing to a number that no later run moves.

    Attributes:
        absolute: m is +-m in the metric's unit.
        relative: r is r times |mean of the original|.
        ratio: r > 1 is [-ln r, ln r] on natural logarithms.
        sd: k is k times the standard deviation between the original's runs.
        preset: A named k.
        distance: d is the largest Kolmogorov distance of two distributions, between 0 and 1.
    """

    absolute: float | None = None
    relative: float | None = None
    ratio: float | None = None
    sd: float | None = None
    preset: Preset | None = None
    distance: float | None = None


class Published(NamedTuple):
    """What somebody else's paper says of its runs, where the runs themselves are not known.

    Attributes:
        mean: In the metric's unit.
        sd: Between its runs.
        n: How many; None when the paper does not say, which counts as 3.
    """

    mean: float
    sd: float
    n: int | None = None


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A statement about one metric path pattern, as the author wrote it.

    Attributes:
        metric: Four segments, `*` stands for one whole segment; each match is a claim of its own.
        type: Which rule judges it (docs/explanation/statistics.md).
        label: What screens call it, such as "Table 2, row 3"; None for its type.
        margin: None means the default of two between-run standard deviations of the original,
            three for curves, frozen at sealing.
        at_most: Threshold claims: the constant that the metric's mean may not exceed; claims of a
            bound: the one that no run may exceed.
        at_least: The same for a constant that is to be reached.
        mean: Threshold claims: which mean of the runs is held against the constant.
        mean_of_last: Of how many last evaluations of a curve the mean is a run's value; None for
            the value that a run has by itself, of a curve its last.
        published: Prediction claims: the numbers that stand for the original's runs.
        alpha: One-sided error rate of each wrong verdict, over all looks together.
        primary: Secondary claims never change the capsule's verdict.
        looks: After how many re-run seeds it may be judged, increasing; empty for once.
        paired: Whether runs under equal seeds are compared one by one, for which a re-execution
            repeats the original's seeds. That tells what the machine does to these runs, never
            whether the number is right.
        resolution: Replaces the metric's for this claim.
        failure_margin: How far the two sides' rates of failed runs may be apart, in absolute terms;
            None for the rule that forbids only what is hardly chance.
    """

    metric: str
    type: ClaimType
    label: str | None = None
    margin: Margin | None = None
    at_most: float | None = None
    at_least: float | None = None
    mean: Average = "arithmetic"
    mean_of_last: int | None = None
    published: Published | None = None
    alpha: float = 0.05
    primary: bool = True
    looks: tuple[int, ...] = ()
    paired: bool = False
    resolution: float | None = None
    failure_margin: float | None = None

    @property
    def value(self) -> str:
        """Which value of a run is judged, in words; empty where it is the one a run has by itself.

        >>> Claim(metric="a/b/c/d", type="equivalence", mean_of_last=3).value
        'mean of the last 3 evaluations'
        """
        if self.mean_of_last is None:
            return ""
        last = self.mean_of_last
        return "last evaluation" if last == 1 else f"mean of the last {last} evaluations"

    @property
    def name(self) -> str:
        """Its metric, with the value that is judged where a run has others."""
        return f"{self.metric}, {self.value}" if self.value else self.metric

    def answers_for(self, paired: Claim) -> bool:
        """Whether it tells under fresh seeds what a paired claim on the same metric cannot."""
        by_fresh_seeds = not self.paired and self.type not in ("exact", "ratio")
        same_value = self.mean_of_last == paired.mean_of_last
        return by_fresh_seeds and same_value and (self.primary or not paired.primary)


class Author(NamedTuple):
    """A person who publishes the capsule."""

    name: str
    orcid: str | None = None
    affiliation: str | None = None


class Winner(NamedTuple):
    """Which search a manifest runs the winner of.

    Attributes:
        capsule: Id of the search, 64 lower-case hex digits.
        point: Name of the case that won.
        seeds: Those of the search.
    """

    capsule: str
    point: str
    seeds: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """The whole manifest.

    Attributes:
        source: The file's bytes, kept in the capsule as they were.
        seed_range: Lowest and highest seed that the benchmarks take; fresh ones are drawn from it.
        folder: Where relative paths start; None when it was read out of a capsule.
        narrowed_from: Digest of the manifest that it is a part of, if it was made from another.
        winner_of: The search whose winner it runs again, None for any other.
        changed: What whoever verifies has set of the mutable part: JSON pointer to value. `source`
            has the author's values, all else these.
    """

    name: str
    title: str
    authors: tuple[Author, ...]
    license: str
    paper_doi: str | None
    image: ImageSpec | None
    resources: Resources
    seeds: tuple[int, ...]
    determinism: Literal["default", "strict"]
    datasets: tuple[DatasetSpec, ...]
    benchmarks: tuple[Benchmark, ...]
    claims: tuple[Claim, ...]
    mutable: tuple[str, ...]
    source: bytes
    folder: Path | None
    seed_range: tuple[int, int] = SEED_RANGE
    narrowed_from: Digest | None = field(default=None, compare=False)
    winner_of: Winner | None = None
    changed: Mapping[str, Scalar] = field(default_factory=dict)

    @property
    def formats(self) -> Mapping[str, str]:
        """What the files of a dataset are, by its name, where that is said."""
        return {one.name: one.format for one in self.datasets if one.format is not None}

    @property
    def generators(self) -> Mapping[str, tuple[str, Mapping[str, Scalar]]]:
        """What makes a dataset, with its parameters, by the dataset's name, where it is made."""
        return {
            one.name: (one.generator, one.parameters)
            for one in self.datasets
            if one.generator is not None
        }

    @property
    def trains(self) -> bool:
        """Whether a recipe is trained."""
        return any(isinstance(benchmark.subject, Recipe) for benchmark in self.benchmarks)

    @property
    def reads_data(self) -> bool:
        """Whether a dataset is read without a training."""
        return any(isinstance(benchmark.subject, Reading) for benchmark in self.benchmarks)

    @property
    def reads_texts(self) -> bool:
        """Whether a metric is read from a text that a command writes."""
        return any(
            metric.source is not None
            for benchmark in self.benchmarks
            for metric in benchmark.metrics
        )
