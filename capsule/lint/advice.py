"""Warnings about a manifest, before anything has run."""

from __future__ import annotations

import math
from collections.abc import Iterator

from capsule import stats
from capsule.image.reference import owner_of
from capsule.lint import spreads, surroundings
from capsule.lint.located import Located
from capsule.lint.outlook import outlook_of, stands_alone
from capsule.manifest import looks
from capsule.manifest import warnings as words
from capsule.manifest.kinds import Command, Recipe
from capsule.manifest.model import SCORE, SEARCH, Benchmark, Claim, Manifest, Metric
from capsule.manifest.paths import matches
from capsule.manifest.pitfalls import find_pitfalls, ranks_pitfall, seed_pitfall
from capsule.manifest.starter import NOBODY
from capsule.schema import pointer
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
) -> list[Located]:
    """Return warnings about a valid manifest.

    Args:
        manifest: The manifest.
        sealed: Whether it is a capsule's, whose record names image and data by their digests.
        launcher: Launcher of ranks in the site file, None where the site file names none.
    """
    return [
        *author_warnings(manifest),
        *_framework_warnings(manifest),
        *_seed_warnings(manifest),
        *_claim_warnings(manifest),
        *(() if sealed else _name_warnings(manifest)),
        *_data_warnings(manifest),
        *_command_warnings(manifest, launcher),
        *_gpu_warnings(manifest),
    ]


def author_warnings(manifest: Manifest) -> Iterator[Located]:
    """Warn of an author that still has the template's name."""
    for place, author in enumerate(manifest.authors):
        if author.name == NOBODY:
            where = pointer("authors", place, "name")
            yield Located.at(where, words.WARNINGS("author-unnamed", name=NOBODY))
            return


def _framework_warnings(manifest: Manifest) -> Iterator[Located]:
    """Warn of frameworks that lack the device."""
    if manifest.left_out:
        sentence = words.WARNINGS("frameworks-left-out", frameworks=manifest.left_out)
        yield Located.at("/benchmarks", sentence)


def _data_warnings(manifest: Manifest) -> Iterator[Located]:
    """Warn of formats that nothing reads by."""
    trained = {
        name
        for benchmark in manifest.benchmarks
        if isinstance(benchmark.subject, Recipe)
        for name in benchmark.datasets
    }
    for name in sorted(manifest.formats.keys() - trained):
        sentence = about(f"dataset {name}", words.WARNINGS("format-unused"))
        yield Located.at(pointer("datasets", name, "format"), sentence)


def _command_warnings(manifest: Manifest, launcher: str | None) -> Iterator[Located]:
    resources = manifest.resources
    joins = launcher in _JOINING or (launcher is None and resources.nodes > 1)
    for place, benchmark in enumerate(manifest.benchmarks):
        found = (
            ranks_pitfall(benchmark, manifest.folder, resources.ranks, joins=joins),
            seed_pitfall(benchmark, manifest.folder),
            *find_pitfalls(benchmark, manifest.folder),
        )
        where = pointer("benchmarks", place, "command")
        yield from (Located.at(where, about(benchmark.id, one)) for one in found if one is not None)


def _seed_warnings(manifest: Manifest) -> Iterator[Located]:
    if len(manifest.seeds) == 1:
        yield Located.at("/seeds", words.WARNINGS("one-seed"))
        return
    for place, claim in enumerate(manifest.claims):
        for reach in outlook_of(claim, manifest):
            if reach.margin is not None and reach.enough not in (None, "usually"):
                needed = spreads.needed(reach.margin, alpha=reach.alpha)
                if needed is not None:
                    # so many may have other looks than those of the manifest
                    alpha = looks.level_of(claim, manifest.claims, needed)
                    needed = spreads.needed(reach.margin, alpha=alpha)
                warning = words.too_few_seeds(
                    seeds=reach.seeds,
                    rerun_seeds=reach.rerun_seeds,
                    look="first" if looks.has_more(manifest.claims, reach.seeds) else None,
                    margin=reach.margin,
                    is_seldom=reach.enough == "seldom",
                    needed=needed,
                    added=None,
                )
                where = pointer("claims", place, "margin")
                yield Located.at(where, about(reach.metric, warning))


def _claim_warnings(manifest: Manifest) -> Iterator[Located]:
    if not manifest.claims:
        yield Located.at("", words.WARNINGS("no-claims"))
    elif not any(claim.primary for claim in manifest.claims):
        yield Located.at("/claims", words.WARNINGS("no-primary-claim"))
    yield from _search_warnings(manifest)
    for place, claim in enumerate(manifest.claims):
        for field, sentence in _faults(claim, manifest):
            where = pointer("claims", place, field)
            yield Located.at(where, about(claim.metric, sentence))


def _faults(claim: Claim, manifest: Manifest) -> Iterator[tuple[str, Sentence]]:
    """Yield what is wrong with a claim, each with the field that it is about."""
    matched = list(matches(claim.metric, manifest.benchmarks))
    if claim.type == "threshold" and any(_is_ratio(*one) for one in matched):
        yield "type", words.WARNINGS("threshold-on-bound")
    yield from _margin_faults(claim, [metric for _, metric in matched], manifest)
    yield from _failure_faults(claim, manifest)
    if claim.paired and stands_alone(claim, manifest):
        yield "paired", words.WARNINGS("paired-alone")


def _search_warnings(manifest: Manifest) -> Iterator[Located]:
    """Warn of searches without a claim on their score."""
    for place, one in enumerate(manifest.benchmarks):
        if one.search and not any(
            metric == one.score
            for claim in manifest.claims
            for _, metric in matches(claim.metric, [one])
        ):
            path = f"{one.id}/{SEARCH}/*/{SCORE}"
            sentence = about(one.id, words.WARNINGS("search-unclaimed", path=path))
            yield Located.at(pointer("benchmarks", place), sentence)


def _failure_faults(claim: Claim, manifest: Manifest) -> Iterator[tuple[str, Sentence]]:
    if claim.failure_margin is None:
        return
    seeds, margin = len(manifest.seeds), claim.failure_margin

    def find(at: int) -> int | None:
        alpha = looks.level_of(claim, manifest.claims, at)
        return stats.runs_without_failure(margin, alpha=alpha)

    runs = find(seeds)
    if runs is None or seeds < runs:
        # so many may have other looks than those of the manifest
        runs = runs and find(runs)
        yield (
            "failure_margin",
            words.narrow_failure_margin(seeds=seeds, margin=margin, needed=runs),
        )


def _is_ratio(benchmark: Benchmark, metric: Metric) -> bool:
    return metric.name in _RATIOS and not isinstance(benchmark.subject, Command)


def _margin_faults(
    claim: Claim, matched: list[Metric], manifest: Manifest
) -> Iterator[tuple[str, Sentence]]:
    if claim.type == "equivalence" and any(metric.kind == "machine" for metric in matched):
        yield "type", words.WARNINGS("machine-equivalence")
    if claim.type == "curve" and len(manifest.seeds) < _CURVE_SEEDS:
        yield (
            "type",
            words.WARNINGS("curve-few-seeds", found=len(manifest.seeds), seeds=_CURVE_SEEDS),
        )
    margin = claim.margin.absolute if claim.margin else None
    mean = abs(claim.published.mean) if claim.published else math.inf
    if claim.margin and ((claim.margin.relative or 0.0) >= 1 or (margin or 0.0) >= mean):
        yield "margin", words.WARNINGS("margin-vague", written=_written_margin(claim))
    step = claim.resolution
    if step is None:
        step = max((metric.resolution for metric in matched), default=0.0)
    if margin is not None and step > 0:
        yield from (("margin", one) for one in _step_faults(margin, step))


def _written_margin(claim: Claim) -> str:
    """Return a relative or absolute margin as the manifest writes it, and a published mean."""
    assert claim.margin is not None
    if claim.margin.relative is not None:
        return f"relative {claim.margin.relative:g}"
    mean = f", published mean {claim.published.mean:g}" if claim.published else ""
    return f"absolute {claim.margin.absolute:g}{mean}"


def _step_faults(margin: float, step: float) -> Iterator[Sentence]:
    """Yield what is wrong with a margin for a number that moves in steps."""
    steps = margin / step
    if steps < 1.5 - _ON_A_HALF:
        yield words.WARNINGS("margin-below-steps", margin=margin, step=step)
    elif steps < _COUNTED_STEPS and abs(steps % 1 - 0.5) > _ON_A_HALF:
        better = (math.floor(steps) + 0.5) * step
        yield words.WARNINGS("margin-on-step", margin=margin, step=step, better=better)


def _gpu_warnings(manifest: Manifest) -> Iterator[Located]:
    """Warn of GPUs that capsule's own measuring code would leave idle."""
    gpus = manifest.resources.gpus_per_rank
    if gpus > 1 and any(not isinstance(one.subject, Command) for one in manifest.benchmarks):
        yield Located.at("/resources/gpus_per_rank", words.WARNINGS("rank-uses-one-gpu", gpus=gpus))


def _name_warnings(manifest: Manifest) -> Iterator[Located]:
    reference = manifest.image.reference if manifest.image else None
    if reference and (owner := owner_of(reference)):
        sentence = words.WARNINGS("image-local", owner=owner, reference=reference)
        yield Located.at(surroundings.IMAGE, sentence)
    elif reference and reference.startswith("docker://") and "@sha256:" not in reference:
        sentence = words.WARNINGS("image-undigested", reference=reference)
        yield Located.at(surroundings.IMAGE, sentence)
    for dataset in manifest.datasets:
        if dataset.digest is None:
            command = "capsule data fetch" if dataset.url else "capsule data hash"
            sentence = words.WARNINGS("dataset-undigested", dataset=dataset.name, command=command)
            yield Located.at(pointer("datasets", dataset.name), sentence)
    yield from surroundings.of_image_file(manifest)
    yield from surroundings.of_image(None, None, manifest)
    yield from surroundings.of_data(manifest)
    yield from surroundings.of_pointers(manifest)
