"""Tell an author, before a day of measuring, what nobody will be able to conclude from it."""

from __future__ import annotations

import math
from collections.abc import Iterator

from capsule.manifest.model import Claim, Manifest, Metric
from capsule.manifest.paths import claimed

# docs/statistics: Welch, power 0.8, alpha 0.05, n runs on both sides, in between-run sd
_NARROWEST = {
    2: 4.61,
    3: 2.92,
    4: 2.35,
    5: 2.03,
    6: 1.82,
    8: 1.54,
    10: 1.36,
    15: 1.10,
    20: 0.94,
    30: 0.76,
}
_SPREAD_MARGIN = 2.0  # what a claim without a margin gets, in the same unit


def narrowest_margin(runs: int) -> float:
    """The narrowest margin that as many runs on each side can confirm, in between-run sd.

    Between the tabled counts, and beyond them, it goes with one over the square root of the count.

    Args:
        runs: Number of seeds, 2 or more.

    >>> narrowest_margin(5), round(narrowest_margin(7), 2)
    (2.03, 1.66)
    """
    counts = sorted(_NARROWEST)
    if runs >= counts[-1]:
        return _NARROWEST[counts[-1]] * math.sqrt(counts[-1] / runs)
    above = next(each for each in counts if each >= runs)
    below = max(each for each in counts if each <= runs)
    if above == below:
        return _NARROWEST[runs]
    share = (_root(runs) - _root(above)) / (_root(below) - _root(above))
    return _NARROWEST[above] + share * (_NARROWEST[below] - _NARROWEST[above])


def _root(runs: int) -> float:
    return 1 / math.sqrt(runs)


def lint(manifest: Manifest) -> list[str]:
    """Warnings about a manifest that is valid, one sentence each; empty when there are none."""
    return [*_seed_warnings(manifest), *_claim_warnings(manifest), *_name_warnings(manifest)]


def _seed_warnings(manifest: Manifest) -> Iterator[str]:
    runs = len(manifest.seeds)
    if runs == 1:
        yield "one seed only: the spread between runs stays unknown, so no margin can be confirmed"
        return
    narrowest = narrowest_margin(runs)
    judged = [claim for claim in manifest.claims if claim.type in {"equivalence", "noninferiority"}]
    too_narrow = narrowest > _SPREAD_MARGIN and any(not claim.margin for claim in judged)
    if too_narrow or any(claim.margin for claim in judged):
        yield (
            f"with {runs} seeds, nobody can confirm a margin narrower than "
            f"{narrowest:.2f} between-run standard deviations"
        )
    if too_narrow:
        yield (
            f"a claim without a margin gets {_SPREAD_MARGIN:g} standard deviations, narrower "
            "than that: use 6 seeds or more, or give the margin"
        )


def _claim_warnings(manifest: Manifest) -> Iterator[str]:
    if not manifest.claims:
        yield "no claims: a re-execution will be measured, but there is nothing to judge"
    elif not any(claim.primary for claim in manifest.claims):
        yield "no primary claim: the capsule's verdict can't be anything but INCONCLUSIVE"
    for claim in manifest.claims:
        matched = [metric for _, metric in claimed(claim.metric, manifest.benchmarks)]
        yield from _margin_warnings(claim, matched)


def _margin_warnings(claim: Claim, matched: list[Metric]) -> Iterator[str]:
    if claim.type == "equivalence" and any(metric.kind == "machine" for metric in matched):
        yield (
            f"{claim.metric}: claims that a number of this machine is the same on another one; "
            "a claim of type ratio reports it"
        )
    margin = claim.margin.absolute if claim.margin else None
    step = max((metric.resolution for metric in matched), default=0.0)
    if margin is not None and margin < 1.5 * step:
        yield (
            f"{claim.metric}: the margin {margin:g} is less than 1.5 steps of {step:g}, too few "
            "to tell a shift from rounding"
        )


def _name_warnings(manifest: Manifest) -> Iterator[str]:
    reference = manifest.image.reference if manifest.image else None
    if reference and "@sha256:" not in reference:
        yield (
            f"{reference} has no digest: its owner can change what it names; "
            f"`capsule image resolve {reference}` prints the digest"
        )
    for dataset in manifest.datasets:
        if dataset.digest is None:
            yield (
                f"dataset {dataset.name} has no digest, so a changed byte goes unseen; "
                "`capsule data hash` prints it"
            )
