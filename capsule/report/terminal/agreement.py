"""Reproduced claims on one metric name in one line, with the one nearest to its margin."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from capsule.record import FrozenClaim
from capsule.summary import MetricRuns
from capsule.verdict import Counts, Judged, Verdict
from capsule.verdict.wording import count, number, region

_NAMED_BENCHMARKS = 4
_NAMED_LETTERS = 40
_CONSTANTS = ("threshold", "bound", "distribution")


@dataclass(frozen=True, kw_only=True)
class Claimed:
    """A judgement with the original's runs, which say where its margin comes from."""

    judged: Judged
    original: MetricRuns | None

    @property
    def claim(self) -> FrozenClaim:
        """The claim that is judged."""
        assert self.judged.claim is not None
        return self.judged.claim

    @property
    def name(self) -> str:
        """The metric without its benchmark, case and framework, with the value that is judged."""
        metric = self.judged.metric.rpartition("/")[2]
        return ", ".join(filter(None, (metric, self.claim.pattern.value)))

    @property
    def benchmark(self) -> str:
        """The first part of the metric's path."""
        return self.judged.metric.partition("/")[0]

    @property
    def allowance(self) -> str:
        """Return the region that the claim allows, in words."""
        return region(self.claim, self.original)


def list_claims(verdict: Verdict) -> tuple[Claimed, ...]:
    """Return a verdict's claims, in its order."""
    pairs = [pair for pair in verdict.differences.pairs if pair.claim is not None]
    return tuple(
        Claimed(judged=judged, original=pair.original)
        for judged, pair in zip(verdict.claims, pairs, strict=True)
    )


def group(claims: Iterable[Claimed]) -> tuple[tuple[Claimed, ...], ...]:
    """Return claims with one metric name and one rule together, in the order of their first."""
    groups: dict[tuple[str, str, str], list[Claimed]] = {}
    for one in claims:
        # a constant is part of what such a group says; the margins of shifts are not
        constant = one.allowance if one.claim.type in _CONSTANTS else ""
        groups.setdefault((one.name, one.claim.type, constant), []).append(one)
    return tuple(map(tuple, groups.values()))


def word_group(claims: Sequence[Claimed]) -> str:
    """Return the sentence on reproduced claims of one group, with the one nearest to its margin."""
    worst = _WORST.get(claims[0].claim.type, _common_region)
    number_of_claims = count(len(claims), "claim")
    return f"{claims[0].name}, {number_of_claims} in {_benchmarks(claims)}: {worst(claims)}"


def _benchmarks(claims: Sequence[Claimed]) -> str:
    names = list(dict.fromkeys(one.benchmark for one in claims))
    named = ", ".join(names)
    if len(names) <= _NAMED_BENCHMARKS and len(named) <= _NAMED_LETTERS:
        return named
    return count(len(names), "benchmark")


def mean(side: Counts) -> str:
    """Return the mean over a side's independent runs, in the unit of that side."""
    shown = number(side.mean, 4)
    return shown if side.unit == "1" or side.mean is None else f"{shown} {side.unit}"


def runs(side: Counts) -> str:
    """Return how many runs have a value, and how many failed or are missing."""
    lost = [f"{side.failed} failed"] * bool(side.failed)
    lost += [f"{side.missing} missing"] * bool(side.missing)
    return ", ".join((f"n={side.values}", *lost))


def _nearest_constant(claims: Sequence[Claimed]) -> str:
    pattern = claims[0].claim.pattern
    known = [one.judged for one in claims if one.judged.rerun.mean is not None]
    if not known:
        return _common_region(claims)
    ordered = sorted(known, key=lambda judged: judged.rerun.mean or 0.0)
    low, high = (mean(judged.rerun) for judged in (ordered[0], ordered[-1]))
    if pattern.at_least is not None and pattern.at_most is not None:
        shown = f"{low} to {high}"
    else:
        shown = f"worst {high if pattern.at_least is None else low}"
    return f"{shown}, {claims[0].allowance}"


def _worst_run(claims: Sequence[Claimed]) -> str:
    """Of bounds, whose estimate is the value of their worst run."""
    values = [one.judged.estimate for one in claims if one.judged.estimate is not None]
    if not values:
        return _common_region(claims)
    worst = max(values) if claims[0].claim.pattern.at_least is None else min(values)
    unit = claims[0].judged.rerun.unit
    shown = number(worst, 4) if unit == "1" else f"{number(worst, 4)} {unit}"
    return f"worst run {shown}, {claims[0].allowance}"


def _largest_shift(claims: Sequence[Claimed]) -> str:
    share = max(_shares(claims), default=None)
    if share is None:
        return _common_region(claims)
    return f"largest difference {number(100 * share, 2)} % of its margin"


def _worst_shift(claims: Sequence[Claimed]) -> str:
    share = max(_shares(claims), default=None)
    if share is None:
        return _common_region(claims)
    if share <= 0:
        return "no mean is worse"
    return f"worst difference {number(100 * share, 2)} % of its margin"


def _shares(claims: Sequence[Claimed]) -> Iterator[float]:
    """Yield the share of each margin that the difference takes, towards one end if it has one."""
    for one in claims:
        shift, (lower, upper) = one.judged.estimate, one.judged.region
        if shift is not None:
            shares = [shift / end for end in (lower, upper) if end]
            if shares or shift == 0:
                yield max(shares, default=0.0)


def _largest_distance(claims: Sequence[Claimed]) -> str:
    distance = max(one.judged.estimate or 0.0 for one in claims)
    return f"largest distance {number(distance)}, {claims[0].allowance}"


def _equal(_claims: Sequence[Claimed]) -> str:
    return "all values are equal, seed by seed"


def _common_region(claims: Sequence[Claimed]) -> str:
    allowed = {one.allowance for one in claims}
    return allowed.pop() if len(allowed) == 1 else "each within its margin"


_WORST: Mapping[str, Callable[[Sequence[Claimed]], str]] = {
    "equivalence": _largest_shift,
    "prediction": _largest_shift,
    "curve": _largest_shift,
    "noninferiority": _worst_shift,
    "threshold": _nearest_constant,
    "bound": _worst_run,
    "distribution": _largest_distance,
    "exact": _equal,
}
