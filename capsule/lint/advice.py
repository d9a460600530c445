"""Tell an author, before a day of measuring, what nobody will be able to conclude from it."""

from __future__ import annotations

import math
from collections.abc import Iterator

from capsule import stats
from capsule.image.reference import owner_of
from capsule.lint import surroundings, wording
from capsule.lint.outlook import outlook, stands_alone
from capsule.manifest import looks
from capsule.manifest.kinds import Command, Recipe
from capsule.manifest.model import SCORE, SEARCH, Benchmark, Claim, Manifest, Metric
from capsule.manifest.paths import matches
from capsule.manifest.pitfalls import find_pitfalls, ranks_pitfall, seed_pitfall
from capsule.manifest.starter import NOBODY

# a margin of this many steps is no longer moved by where on a step it lies
_COUNTED_STEPS = 10
_ON_A_HALF = 1e-6
_CURVE_SEEDS = 5
_JOINING = ("mpirun", "srun")
# errors over a-priori bounds, which no run of a right program exceeds
_RATIOS = ("l2_error_ratio", "grad_l2_error_ratio", "gradient_check")

NO_PRIMARY = "no primary claim: the capsule's verdict can't be anything but INCONCLUSIVE"


def warnings(manifest: Manifest, *, sealed: bool = False, launcher: str | None = None) -> list[str]:
    """Warnings about a manifest that is valid, one sentence each; empty when there are none.

    Args:
        manifest: The manifest.
        sealed: Whether it is a capsule's, whose record names image and data by their digests.
        launcher: What the site file has ranks started by, None where it does not say.
    """
    return [
        *author_warnings(manifest),
        *_seed_warnings(manifest),
        *_claim_warnings(manifest),
        *(() if sealed else _name_warnings(manifest)),
        *_data_warnings(manifest),
        *_command_warnings(manifest, launcher),
    ]


def author_warnings(manifest: Manifest) -> Iterator[str]:
    """Whether nobody has said yet who the author is."""
    if any(author.name == NOBODY for author in manifest.authors):
        yield (
            f"the author is {NOBODY!r}, as `capsule init` wrote it, and what is sealed is not"
            " changed any more: write who you are, and under which license"
        )


def _data_warnings(manifest: Manifest) -> Iterator[str]:
    """Formats that nothing reads by."""
    trained = {
        name
        for benchmark in manifest.benchmarks
        if isinstance(benchmark.subject, Recipe)
        for name in benchmark.datasets
    }
    for name in sorted(manifest.formats.keys() - trained):
        yield (
            f"dataset {name}: its format does nothing, for no training reads it, and a command sees"
            " its files as they are; leave it out, or name the dataset in a benchmark of level 2"
        )


def _command_warnings(manifest: Manifest, launcher: str | None) -> Iterator[str]:
    resources = manifest.resources
    joins = launcher in _JOINING or (launcher is None and resources.nodes > 1)
    for benchmark in manifest.benchmarks:
        if sentence := ranks_pitfall(benchmark, manifest.folder, resources.ranks, joins=joins):
            yield f"{benchmark.id}: {sentence}"
        if sentence := seed_pitfall(benchmark, manifest.folder):
            yield f"{benchmark.id}: {sentence}"
        yield from (f"{benchmark.id}: {one}" for one in find_pitfalls(benchmark, manifest.folder))


def _seed_warnings(manifest: Manifest) -> Iterator[str]:
    if len(manifest.seeds) == 1:
        yield "one seed only: the spread between runs stays unknown, so no margin can be confirmed"
        return
    look = "" if looks.is_planned(manifest.claims) else wording.FIRST_LOOK
    for reach in outlook(manifest):
        if reach.margin is not None and reach.narrowest and reach.narrowest[0] > reach.margin:
            seeds = "more seeds than 500" if reach.runs[0] is None else f"{reach.runs[0]} seeds"
            yield (
                f"{reach.metric}: {reach.seeds} seeds and {reach.rerun_seeds} re-runs confirm no"
                f" margin narrower than {reach.narrowest[0]:.2f} between-run standard deviations"
                f"{look} with probability 0.8, and it asks for {reach.margin:g}: use {seeds}, or a"
                " wider margin"
            )


def _claim_warnings(manifest: Manifest) -> Iterator[str]:
    if not manifest.claims:
        yield "no claims: a re-execution will be measured, but there is nothing to judge"
    elif not any(claim.primary for claim in manifest.claims):
        yield NO_PRIMARY
    yield from _search_warnings(manifest)
    for claim in manifest.claims:
        matched = list(matches(claim.metric, manifest.benchmarks))
        if claim.type == "threshold" and any(_is_ratio(*one) for one in matched):
            yield (
                f"{claim.metric}: a threshold judges the mean of the runs, and this bound holds for"
                " each: a claim of type bound finds the one run that breaks it"
            )
        yield from _margin_warnings(claim, [metric for _, metric in matched], manifest)
        yield from _failure_warnings(claim, manifest)
        if claim.paired and stands_alone(claim, manifest):
            yield (
                f"{claim.metric}: pairs tell whether a machine changes these runs, never whether"
                " the number is right, so fresh seeds will be judged by the same margin; claim the"
                " metric unpaired as well, with a margin for fresh seeds"
            )


def _search_warnings(manifest: Manifest) -> Iterator[str]:
    """Which searches nobody will judge."""
    for one in manifest.benchmarks:
        if one.search and not any(
            metric == one.score
            for claim in manifest.claims
            for _, metric in matches(claim.metric, [one])
        ):
            yield (
                f"{one.id}: a search without a claim on its score: what it found will be reported,"
                f" and nothing judged; claim {one.id}/{SEARCH}/*/{SCORE}"
            )


def _failure_warnings(claim: Claim, manifest: Manifest) -> Iterator[str]:
    if claim.failure_margin is None:
        return
    seeds = len(manifest.seeds)
    planned = looks.of(claim, looks.plan(manifest.claims, seeds))
    alpha = stats.nominal_alpha(claim.alpha, len(planned) or 1)
    runs = stats.runs_without_failure(claim.failure_margin, alpha=alpha)
    if runs is None or seeds < runs:
        needed = "more than 500 seeds" if runs is None else f"{runs} seeds"
        yield (
            f"{claim.metric}: {seeds} seeds never confirm a failure margin of"
            f" {claim.failure_margin:g}, even where none fails: use {needed}, or a wider margin"
        )


def _is_ratio(benchmark: Benchmark, metric: Metric) -> bool:
    return metric.name in _RATIOS and not isinstance(benchmark.subject, Command)


def _margin_warnings(claim: Claim, matched: list[Metric], manifest: Manifest) -> Iterator[str]:
    if claim.type == "equivalence" and any(metric.kind == "machine" for metric in matched):
        yield (
            f"{claim.metric}: claims that a number of this machine is the same on another one; "
            "a claim of type ratio reports it"
        )
    if claim.type == "curve" and len(manifest.seeds) < _CURVE_SEEDS:
        yield f"{claim.metric}: fewer than {_CURVE_SEEDS} seeds hardly ever decide a whole curve"
    margin = claim.margin.absolute if claim.margin else None
    mean = abs(claim.published.mean) if claim.published else math.inf
    if claim.margin and ((claim.margin.relative or 0.0) >= 1 or (margin or 0.0) >= mean):
        yield (
            f"{claim.metric}: its margin is no less than the number itself, so whoever reproduces"
            " it has shown little: write one that a reader would accept"
        )
    step = claim.resolution
    if step is None:
        step = max((metric.resolution for metric in matched), default=0.0)
    if margin is not None and step > 0:
        yield from (f"{claim.metric}: {fault}" for fault in _step_warnings(margin, step))


def _step_warnings(margin: float, step: float) -> Iterator[str]:
    """What is wrong with a margin for a number that moves in steps."""
    steps = margin / step
    if steps < 1.5 - _ON_A_HALF:
        yield (
            f"the margin {margin:g} is less than 1.5 steps of {step:g}, too few to tell a shift"
            " from rounding: measure more finely, or allow more"
        )
    elif steps < _COUNTED_STEPS and abs(steps % 1 - 0.5) > _ON_A_HALF:
        better = (math.floor(steps) + 0.5) * step
        yield (
            f"the margin {margin:g} does not lie halfway between two steps of {step:g}, which"
            f" costs power for nothing: {better:g} allows the same"
        )


def _name_warnings(manifest: Manifest) -> Iterator[str]:
    reference = manifest.image.reference if manifest.image else None
    if reference and (owner := owner_of(reference)):
        yield (
            f"only {owner} on this machine has {reference}, so nobody else can run it: push it to a"
            f" registry, or hand out the file that `capsule image save {reference} FILE` writes"
        )
    elif reference and reference.startswith("docker://") and "@sha256:" not in reference:
        yield (
            f"{reference} has no digest: its owner can change what it names; "
            f"`capsule image resolve {reference}` prints the digest"
        )
    for dataset in manifest.datasets:
        if dataset.digest is None:
            prints = "`capsule data fetch`" if dataset.url else "`capsule data hash`"
            yield (
                f"dataset {dataset.name} has no digest, so a changed byte goes unseen; "
                f"{prints} prints it"
            )
    yield from surroundings.of_image_file(manifest)
    yield from surroundings.of_image(None, None, manifest)
    yield from surroundings.of_data(manifest)
    yield from surroundings.of_pointers(manifest)
