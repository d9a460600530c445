"""Tell an author, before a day of measuring, what nobody will be able to conclude from it."""

from __future__ import annotations

import math
from collections.abc import Iterator

from capsule import stats
from capsule.image.reference import owner_of
from capsule.lint import spreads, surroundings
from capsule.lint.outlook import outlook, stands_alone
from capsule.manifest import looks
from capsule.manifest import warnings as words
from capsule.manifest.kinds import Command, Recipe
from capsule.manifest.model import SCORE, SEARCH, Benchmark, Claim, Manifest, Metric
from capsule.manifest.paths import matches
from capsule.manifest.pitfalls import find_pitfalls, ranks_pitfall, seed_pitfall
from capsule.manifest.starter import NOBODY
from capsule.sentences import Sentence, about

# a margin of this many steps is no longer moved by where on a step it lies
_COUNTED_STEPS = 10
_ON_A_HALF = 1e-6
_CURVE_SEEDS = 5
_JOINING = ("mpirun", "srun")
# errors over a-priori bounds, which no run of a right program exceeds
_RATIOS = ("l2_error_ratio", "grad_l2_error_ratio", "gradient_check")


def warnings(
    manifest: Manifest, *, sealed: bool = False, launcher: str | None = None
) -> list[Sentence]:
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


def author_warnings(manifest: Manifest) -> Iterator[Sentence]:
    """Whether nobody has said yet who the author is."""
    if any(author.name == NOBODY for author in manifest.authors):
        yield words.WARNINGS("author-unnamed", name=NOBODY)


def _data_warnings(manifest: Manifest) -> Iterator[Sentence]:
    """Formats that nothing reads by."""
    trained = {
        name
        for benchmark in manifest.benchmarks
        if isinstance(benchmark.subject, Recipe)
        for name in benchmark.datasets
    }
    for name in sorted(manifest.formats.keys() - trained):
        yield about(f"dataset {name}", words.WARNINGS("format-unused"))


def _command_warnings(manifest: Manifest, launcher: str | None) -> Iterator[Sentence]:
    resources = manifest.resources
    joins = launcher in _JOINING or (launcher is None and resources.nodes > 1)
    for benchmark in manifest.benchmarks:
        found = (
            ranks_pitfall(benchmark, manifest.folder, resources.ranks, joins=joins),
            seed_pitfall(benchmark, manifest.folder),
            *find_pitfalls(benchmark, manifest.folder),
        )
        yield from (about(benchmark.id, one) for one in found if one is not None)


def _seed_warnings(manifest: Manifest) -> Iterator[Sentence]:
    if len(manifest.seeds) == 1:
        yield words.WARNINGS("one-seed")
        return
    for reach in outlook(manifest):
        if reach.margin is not None and reach.enough not in (None, "usually"):
            warning = words.too_few_seeds(
                seeds=reach.seeds,
                rerun_seeds=reach.rerun_seeds,
                look=None if looks.is_planned(manifest.claims) else "first",
                margin=reach.margin,
                is_seldom=reach.enough == "seldom",
                needed=spreads.needed(reach.margin, alpha=reach.alpha),
                added=None,
            )
            yield about(reach.metric, warning)


def _claim_warnings(manifest: Manifest) -> Iterator[Sentence]:
    if not manifest.claims:
        yield words.WARNINGS("no-claims")
    elif not any(claim.primary for claim in manifest.claims):
        yield words.WARNINGS("no-primary-claim")
    yield from _search_warnings(manifest)
    for claim in manifest.claims:
        matched = list(matches(claim.metric, manifest.benchmarks))
        if claim.type == "threshold" and any(_is_ratio(*one) for one in matched):
            yield about(claim.metric, words.WARNINGS("threshold-on-bound"))
        found = _margin_warnings(claim, [metric for _, metric in matched], manifest)
        yield from (about(claim.metric, one) for one in found)
        yield from _failure_warnings(claim, manifest)
        if claim.paired and stands_alone(claim, manifest):
            yield about(claim.metric, words.WARNINGS("paired-alone"))


def _search_warnings(manifest: Manifest) -> Iterator[Sentence]:
    """Which searches nobody will judge."""
    for one in manifest.benchmarks:
        if one.search and not any(
            metric == one.score
            for claim in manifest.claims
            for _, metric in matches(claim.metric, [one])
        ):
            path = f"{one.id}/{SEARCH}/*/{SCORE}"
            yield about(one.id, words.WARNINGS("search-unclaimed", path=path))


def _failure_warnings(claim: Claim, manifest: Manifest) -> Iterator[Sentence]:
    if claim.failure_margin is None:
        return
    seeds = len(manifest.seeds)
    planned = looks.of(claim, looks.plan(manifest.claims, seeds))
    alpha = stats.nominal_alpha(claim.alpha, len(planned) or 1)
    runs = stats.runs_without_failure(claim.failure_margin, alpha=alpha)
    if runs is None or seeds < runs:
        warning = words.narrow_failure_margin(seeds=seeds, margin=claim.failure_margin, needed=runs)
        yield about(claim.metric, warning)


def _is_ratio(benchmark: Benchmark, metric: Metric) -> bool:
    return metric.name in _RATIOS and not isinstance(benchmark.subject, Command)


def _margin_warnings(claim: Claim, matched: list[Metric], manifest: Manifest) -> Iterator[Sentence]:
    if claim.type == "equivalence" and any(metric.kind == "machine" for metric in matched):
        yield words.WARNINGS("machine-equivalence")
    if claim.type == "curve" and len(manifest.seeds) < _CURVE_SEEDS:
        yield words.WARNINGS("curve-few-seeds", seeds=_CURVE_SEEDS)
    margin = claim.margin.absolute if claim.margin else None
    mean = abs(claim.published.mean) if claim.published else math.inf
    if claim.margin and ((claim.margin.relative or 0.0) >= 1 or (margin or 0.0) >= mean):
        yield words.WARNINGS("margin-vague")
    step = claim.resolution
    if step is None:
        step = max((metric.resolution for metric in matched), default=0.0)
    if margin is not None and step > 0:
        yield from _step_warnings(margin, step)


def _step_warnings(margin: float, step: float) -> Iterator[Sentence]:
    """What is wrong with a margin for a number that moves in steps."""
    steps = margin / step
    if steps < 1.5 - _ON_A_HALF:
        yield words.WARNINGS("margin-below-steps", margin=margin, step=step)
    elif steps < _COUNTED_STEPS and abs(steps % 1 - 0.5) > _ON_A_HALF:
        better = (math.floor(steps) + 0.5) * step
        yield words.WARNINGS("margin-on-step", margin=margin, step=step, better=better)


def _name_warnings(manifest: Manifest) -> Iterator[Sentence]:
    reference = manifest.image.reference if manifest.image else None
    if reference and (owner := owner_of(reference)):
        yield words.WARNINGS("image-local", owner=owner, reference=reference)
    elif reference and reference.startswith("docker://") and "@sha256:" not in reference:
        yield words.WARNINGS("image-undigested", reference=reference)
    for dataset in manifest.datasets:
        if dataset.digest is None:
            command = "capsule data fetch" if dataset.url else "capsule data hash"
            yield words.WARNINGS("dataset-undigested", dataset=dataset.name, command=command)
    yield from surroundings.of_image_file(manifest)
    yield from surroundings.of_image(None, None, manifest)
    yield from surroundings.of_data(manifest)
    yield from surroundings.of_pointers(manifest)
