"""Data types of a manifest."""

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
"""Scope of one value of a metric within a trial.

Repeated calls, the trial, each node of a network, block of a result, step of a curve, or rank. Only
calls are repetitions: their median is the run's value.
"""
Aggregate = Literal["mean", "median", "min", "max"]
Preset = Literal["strict", "middle", "default", "lenient"]
# standard deviations between runs; presets are explained in docs/explanation/statistics.md
PRESETS: Mapping[Preset, float] = {"strict": 1.0, "middle": 1.5, "default": 2.0, "lenient": 2.8}
CURVE_SPREADS = 3.0
# path of the metric of a whole search: BENCHMARK/search/FRAMEWORK/score
SEARCH, SCORE = "search", "score"
# below 2^31: many programs keep their seed in a signed 32-bit integer
SEED_RANGE = (0, 2**31 - 1)


@dataclass(frozen=True, kw_only=True)
class Metric:
    """A metric as a manifest declares it.

    Attributes:
        name: Last segment of the metric path.
        unit: UCUM-like unit, `1` for a pure number, `s`, `By`, `epoch`.
        direction: Which way is better.
        kind: `portable` values should agree between machines, `machine` values belong to one.
        resolution: Smallest step of the value, in its unit; 0 without steps.
        per: What it has one value for, in one trial.
        test_set: Number of test examples of which the value is a fraction; None for other values.
        source: Where a command's value is read; None where the command reports it.
        aggregate: How a run's value is computed from several values; None for the rule of `per`.
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
        """Return whether the metric is a time of a whole trial, which a resumed attempt lacks."""
        return self.kind == "machine" and self.per == "trial"


class ImageSpec(NamedTuple):
    """The image that a manifest names."""

    reference: str


@dataclass(frozen=True, kw_only=True)
class Resources:
    """Resources of one process start, and `walltime_seconds`, the limit of the whole run."""

    nodes: int = 1
    ranks_per_node: int = 1
    cpus_per_rank: int | None = None
    gpus_per_rank: int = 0
    walltime_seconds: int | None = None

    @property
    def ranks(self) -> int:
        """World size: number of processes of one start, on all nodes together."""
        return self.nodes * self.ranks_per_node

    @property
    def device(self) -> str:
        """Return the device of every rank, `cpu` or `cuda`."""
        return "cuda" if self.gpus_per_rank else "cpu"


@dataclass(frozen=True, kw_only=True)
class DatasetSpec:
    """A dataset: generated, beside the manifest, downloaded, or known by its digest.

    Attributes:
        name: Name in the manifest.
        digest: SHA-256 of its content.
        format: Format of its files, a key of `levels.data.formats.layouts.FORMATS`; None for files
            of one array each, and for files that a command reads.
        generator: Name of the generator that makes it.
        parameters: Parameters of the generator.
        path: Path relative to the manifest.
        url: Public address.
        doi: DOI of its publication.
        license: SPDX identifier of its licence.
        description: Description in one line.
        unpack: Whether the address names an archive whose content is the dataset.
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
        """Source and licence, in words.

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
    """A combination of a benchmark's parameters; without parameters the only case is `default`."""

    name: str
    parameters: Mapping[str, Scalar]


@dataclass(frozen=True, kw_only=True)
class Benchmark:
    """An entry of the manifest's `benchmarks`, with all of its cases.

    Attributes:
        id: First segment of its metric paths.
        subject: What it measures.
        cases: Its cases, at least one.
        frameworks: Third segment of metric paths; `("command",)` for a `command`.
        inputs: Files and folders beside the manifest that a run sees and the capsule keeps.
        exclude: Patterns of files that are left out of these folders, as in `.gitignore`.
        datasets: Names of the datasets that a run sees.
        metrics: All metrics of its trials, in any framework.
        lacking: Metrics that a framework's trials lack, such as those of a gradient, by framework.
        isolation: `group` runs all cases of one framework and seed in one process.
        timeout_seconds: Time limit of a trial, after which the trial fails.
        online: Whether the workload may use the network.
        search: How its cases were drawn; None for cases that the author wrote.
        scaling: How cases with different numbers of ranks are compared; None for no comparison.
        refusals: Reasons why frameworks do not run it on the device that the verifier chose, by
            framework; none on the device of the author.
        author_lacking: `lacking` on the device of the author, where another one has other metrics;
            None where it is the same.
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
    refusals: Mapping[str, str] = field(default_factory=dict)
    author_lacking: Mapping[str, frozenset[str]] | None = None

    @cached_property
    def case_names(self) -> frozenset[str]:
        """Second segments of the metric paths of its trials."""
        return frozenset(case.name for case in self.cases)

    @property
    def score(self) -> Metric | None:
        """Metric of the whole search, with one value for each seed; None without a search."""
        if self.search is None:
            return None
        decisive = next(one for one in self.metrics if one.name == self.search.metric)
        return replace(decisive, name=SCORE, per="trial", source=None)

    def due(self, framework: str) -> tuple[Metric, ...]:
        """Return the metrics of a trial in a framework."""
        lacking = self.lacking.get(framework, frozenset())
        return tuple(metric for metric in self.metrics if metric.name not in lacking)


class Margin(NamedTuple):
    """The largest difference that still counts as the same.

    Exactly one attribute is set. Sealing turns all but `distance` into a fixed number.

    Attributes:
        absolute: m is +-m in the metric's unit.
        relative: r is r times |mean of the original|.
        ratio: r > 1 is [-ln r, ln r] on natural logarithms.
        sd: k is k times the standard deviation between the original's runs.
        preset: Name of a k.
        distance: d is the largest Kolmogorov distance of two distributions, between 0 and 1.
    """

    absolute: float | None = None
    relative: float | None = None
    ratio: float | None = None
    sd: float | None = None
    preset: Preset | None = None
    distance: float | None = None


class Published(NamedTuple):
    """Published numbers of runs whose values are not available.

    Attributes:
        mean: Mean in the metric's unit.
        sd: Standard deviation between the runs.
        n: Number of runs; None if unknown, which counts as 3.
    """

    mean: float
    sd: float
    n: int | None = None


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A claim as the author wrote it.

    Attributes:
        metric: Path of four segments, `*` for any segment; each match is a claim of its own.
        type: The rule that judges it (docs/explanation/statistics.md).
        label: Its name on screens, such as "Table 2, row 3"; None for its type.
        margin: None for the default: two standard deviations between the original's runs, three
            for curves.
        at_most: Largest allowed mean of a threshold, or largest allowed value of any run of a
            bound.
        at_least: The same for the smallest.
        mean: For a threshold, the mean that is compared with the constant.
        mean_of_last: Number of last evaluations of a curve whose mean is a run's value; None for
            the run's own value, of a curve the last.
        published: For a prediction, numbers that replace the original's runs.
        alpha: One-sided error rate of each wrong verdict, over all looks together.
        primary: Whether it counts for the capsule's verdict.
        looks: Numbers of re-run seeds at which it is judged, increasing; empty for the default.
        paired: Whether runs under equal seeds are compared one by one. A verification then repeats
            the original's seeds, which shows what the machine changes in these runs.
        resolution: Replaces the metric's resolution for this claim.
        failure_margin: Largest difference between the two sides' rates of failed runs; None for the
            default rule, by which only a difference beyond chance counts.
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
        """The value of a run that is judged, in words; empty for the run's own value.

        >>> Claim(metric="a/b/c/d", type="equivalence", mean_of_last=3).value
        'mean of the last 3 evaluations'
        """
        if self.mean_of_last is None:
            return ""
        last = self.mean_of_last
        return "last evaluation" if last == 1 else f"mean of the last {last} evaluations"

    @property
    def name(self) -> str:
        """Its metric, and the value that is judged unless it is the run's own."""
        return f"{self.metric}, {self.value}" if self.value else self.metric

    def answers_for(self, paired: Claim) -> bool:
        """Return whether this claim judges a paired claim's metric under fresh seeds."""
        by_fresh_seeds = not self.paired and self.type not in ("exact", "ratio")
        same_value = self.mean_of_last == paired.mean_of_last
        return by_fresh_seeds and same_value and (self.primary or not paired.primary)


class Author(NamedTuple):
    """A person who publishes the capsule."""

    name: str
    orcid: str | None = None
    affiliation: str | None = None


class Winner(NamedTuple):
    """The search whose winner a manifest runs again.

    Attributes:
        capsule: Id of the search's capsule, 64 lower-case hex digits.
        point: Name of the case that won.
        seeds: Seeds of the search.
    """

    capsule: str
    point: str
    seeds: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """A loaded manifest: benchmarks, seeds, metrics and claims.

    Attributes:
        source: Bytes of the file, which the capsule contains unchanged.
        seed_range: Lowest and highest seed that the benchmarks accept, and limits of fresh seeds.
        folder: Folder in which relative paths start; None for a manifest in a capsule.
        narrowed_from: Digest of the whole manifest if this manifest is a part of it, else None.
        left_out: Frameworks of the whole manifest that lack the device.
        winner_of: The search whose winner this manifest runs again; None for other manifests.
        changed: Values that the verifier has set with --set, by JSON pointer. `source` keeps the
            author's values; all other attributes have the verifier's values.
        other_device: Device that the verifier chose in place of the author's, `cpu` or `cuda`; None
            for the device of the author. `source` keeps the author's number of GPUs.
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
    left_out: tuple[str, ...] = field(default=(), compare=False)
    winner_of: Winner | None = None
    changed: Mapping[str, Scalar] = field(default_factory=dict)
    other_device: str | None = None

    @property
    def formats(self) -> Mapping[str, str]:
        """Return the format of each dataset that declares a format, by dataset name."""
        return {one.name: one.format for one in self.datasets if one.format is not None}

    @property
    def generators(self) -> Mapping[str, tuple[str, Mapping[str, Scalar]]]:
        """Return generator and parameters of each generated dataset, by dataset name."""
        return {
            one.name: (one.generator, one.parameters)
            for one in self.datasets
            if one.generator is not None
        }

    @property
    def trains(self) -> bool:
        """Return whether any benchmark is a training."""
        return any(isinstance(benchmark.subject, Recipe) for benchmark in self.benchmarks)

    @property
    def reads_data(self) -> bool:
        """Return whether any benchmark measures the reading of a dataset."""
        return any(isinstance(benchmark.subject, Reading) for benchmark in self.benchmarks)

    @property
    def reads_texts(self) -> bool:
        """Return whether a metric is read from text that the command writes."""
        return any(
            metric.source is not None
            for benchmark in self.benchmarks
            for metric in benchmark.metrics
        )
