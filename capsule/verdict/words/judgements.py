"""Sentences of the judgement of a claim, by its type or by what kept it from being judged."""

from __future__ import annotations

from typing import Literal

from capsule.diff.inability import Fault
from capsule.sentences import Sentence, Shape, Templates
from capsule.verdict.wording import count, every, number, shorten, some

JUDGEMENTS = Templates(Sentence, number=Shape(float, number))

Decided = Literal["REPRODUCED", "DIFFERENT", "INCONCLUSIVE"]
_SINGLE_RUN = (
    "; one side has a single run: capsule assumes the spread of the other side's runs, and judges"
    " at a quarter of the error rate"
)

# of a claim that was judged


def _subject(is_ratio: bool, of: str) -> str:
    return f"{'ratio' if is_ratio else 'difference'}{f' of the {of}' if of else ''}"


def _limit(is_ratio: bool, allowed: str) -> str:
    return f"the margin, {allowed}" if is_ratio else f"the margin of {allowed}"


@JUDGEMENTS.template("equivalence")
def equivalence(
    *,
    word: Decided,
    is_ratio: bool,
    of: str,
    is_published: bool,
    shown: str,
    allowed: str,
    is_detectable: bool,
    is_of_one_run: bool,
) -> str:
    """Both sides are the same within a margin.

    Args:
        word: What was found.
        is_ratio: Whether the two sides' ratio is judged, not their difference.
        of: What of a run is judged, empty for its value.
        is_published: Whether the original is a published mean.
        shown: The estimate with its interval.
        allowed: The margin, and where it came from.
        is_detectable: Whether the interval leaves no difference out.
        is_of_one_run: Whether a side is a single run.
    """
    origin = " from the published mean" if is_published else ""
    found = {
        "REPRODUCED": "lies within",
        "DIFFERENT": "lies outside",
        "INCONCLUSIVE": "crosses",
    }
    is_allowed = is_detectable and word == "REPRODUCED"
    inside = f"; the {_subject(is_ratio, '')} is significant, but allowed" * is_allowed
    return (
        f"{_subject(is_ratio, of)}{origin} {shown} {found[word]} {_limit(is_ratio, allowed)}"
        f"{inside}{_SINGLE_RUN if is_of_one_run else ''}"
    )


@JUDGEMENTS.template("noninferiority")
def noninferiority(
    *, word: Decided, is_ratio: bool, of: str, shown: str, allowed: str, is_of_one_run: bool
) -> str:
    """The re-run is no worse than by a margin; facts as of `equivalence`."""
    found = {
        "REPRODUCED": "is not worse by more than",
        "DIFFERENT": "is worse by more than",
        "INCONCLUSIVE": "may or may not be worse by more than",
    }
    return (
        f"{_subject(is_ratio, of)} {shown} {found[word]} {_limit(is_ratio, allowed)}"
        f"{_SINGLE_RUN if is_of_one_run else ''}"
    )


@JUDGEMENTS.template("threshold")
def threshold(*, word: Decided, is_geometric: bool, of: str, shown: str, allowed: str) -> str:
    """A metric keeps to a constant; facts as of `equivalence`."""
    found = {"REPRODUCED": "is", "DIFFERENT": "is not", "INCONCLUSIVE": "may or may not be"}
    value = f" of the {of} over the runs" if of else ""
    subject = f"{'geometric mean' if is_geometric else 'mean'}{value} {shown}"
    return f"{subject} {found[word]} {allowed}"


@JUDGEMENTS.template("exact")
def exact(
    *, values: int, unequal: int, seed: int, there: float, here: float, lost: int | None
) -> str:
    """Values are equal, seed by seed.

    Args:
        values: How many can be compared.
        unequal: How many of them differ.
        seed: Of the first that differs, or of the first.
        there: The original's value under it.
        here: The re-run's.
        lost: Runs of the original that have no value on some side; None where all is said.
    """
    both = f"seed {seed}: original {there!r}, re-run {here!r}"
    if values == 1:
        found = (
            f"only one seed has a value on both sides, and the values differ; {both}"
            if unequal
            else f"only seed {seed} has a value on both sides, and the values are equal"
        )
    elif not unequal:
        found = f"{every(values, 'values')} are equal, seed by seed"
    else:
        verb = "differs" if unequal == 1 else "differ"
        found = f"{unequal} of {values} values {verb}; first at {both}"
    if lost is not None:
        found += f", but {count(lost, 'run has', 'runs have')} no value on one side"
    return found


JUDGEMENTS |= {
    "exact-finiteness": "{changed:d} of {values:d} values are finite on one side only; first at"
    " seed {seed:d}: original {there:r}, re-run {here:r}",
}


@JUDGEMENTS.template("distribution")
def distribution(
    *,
    word: Decided,
    shown: str,
    allowed: float,
    threshold: float,
    thresholds: int,
    checkpoints: int,
) -> str:
    """Two distributions are closer than a distance; facts as of `equivalence`.

    Args:
        word: As of `equivalence`.
        shown: Difference of the mean shares of samples at or below the threshold, without its sign.
        allowed: As of `equivalence`.
        threshold: Where it comes nearest to the margin, or is farthest beyond it.
        thresholds: How many are compared.
        checkpoints: At how many DIFFERENT may be found.
    """
    subject = f"distance {shown} in the share of samples at or below {number(threshold)}"
    limit = f"the margin of {number(allowed)}"
    if word == "REPRODUCED":
        found = "the only share lies" if thresholds == 1 else f"{every(thresholds, 'shares')} lie"
        return f"{found} within {limit}; nearest to the margin: {subject}"
    if word == "DIFFERENT":
        return (
            f"{subject} lies outside {limit}; level corrected for {checkpoints} of {thresholds}"
            " thresholds"
        )
    return f"{subject} crosses {limit}; {thresholds} thresholds were compared"


@JUDGEMENTS.template("curve")
def curve(
    *,
    word: Decided,
    is_ratio: bool,
    shown: str,
    allowed: str,
    worst_step: float | None,
    first_step: float | None,
    last_step: float | None,
    steps: int,
    checkpoints: int,
    is_of_one_run: bool,
) -> str:
    """A whole curve is within a margin, told at its worst step; facts as of `equivalence`.

    Args:
        word: As of `equivalence`.
        is_ratio: As of `equivalence`.
        shown: As of `equivalence`.
        allowed: As of `equivalence`.
        worst_step: Where it comes nearest to the margin, or is farthest beyond it.
        first_step: Of those that are compared.
        last_step: Of those that are compared.
        steps: How many are.
        checkpoints: At how many DIFFERENT may be found.
        is_of_one_run: As of `equivalence`.
    """
    subject = f"{_subject(is_ratio, '')} {shown} at step {number(worst_step, 6)}"
    span = f"{steps} steps from {number(first_step)} to {number(last_step)}"
    limit = _limit(is_ratio, allowed)
    if word == "REPRODUCED":
        found = f"all {span} lie within {limit}; nearest to the margin: {subject}"
    elif word == "DIFFERENT":
        found = f"{subject} lies outside {limit}; level corrected for {checkpoints} of {span}"
    else:
        found = f"{subject} crosses {limit}; {span} were compared"
    return found + (_SINGLE_RUN if is_of_one_run else "")


@JUDGEMENTS.template("bound")
def bound(*, runs: int, allowed: str, worst: str, seed: int, bad_runs: float) -> str:
    """Every run keeps a bound.

    Args:
        runs: How many.
        allowed: The bound.
        worst: The value nearest to it.
        seed: Of that one.
        bad_runs: At most so many of a hundred runs that nobody made break it.
    """
    subject = f"all {runs} runs are" if runs > 1 else "the only run is"
    return (
        f"{subject} {allowed}; worst value {worst} (seed {seed}). With 95 % confidence at most"
        f" {number(bad_runs)} % of all runs break this bound"
    )


@JUDGEMENTS.template("bound-broken")
def broken_bound(
    *, runs: int, broken: int, allowed: str, worst: str, seed: int, is_original: bool
) -> str:
    """Runs break a bound; facts as of `bound`.

    Args:
        runs: As of `bound`.
        broken: How many of them break it.
        allowed: As of `bound`.
        worst: The value farthest beyond it.
        seed: As of `bound`.
        is_original: Whether they are the original's own.
    """
    verb = "breaks" if broken == 1 else "break"
    found = (
        f"{broken} of {runs} run{'s' * (runs > 1)} {verb} the bound ({allowed});"
        f" worst value {worst} (seed {seed})"
    )
    return f"the original breaks its own bound: {found}" if is_original else found


JUDGEMENTS |= {
    "reported": "{is_ratio:ratio|difference} {shown}",
    "within-run": "one run on each side: a verdict needs the spread between runs."
    " Within these two runs the {is_ratio:ratio|difference} of the means is {shown}",
}


# how often runs fail: instead of a judgement of values, or behind one


@JUDGEMENTS.template("failures")
def failures(*, failed: tuple[int, int], runs: tuple[int, int], names: tuple[str, str]) -> str:
    """State the failure rates of both sides.

    Args:
        failed: The failed runs of both sides.
        runs: Those of both sides that have an outcome.
        names: What these are called.
    """
    return f"{failed[0]} of {runs[0]} {names[0]} failed, {failed[1]} of {runs[1]} {names[1]}"


@JUDGEMENTS.template("failures-differ")
def unequal_failures(*, failures: str, margin: float | None, values: str) -> str:
    """Runs fail so unequally that it is hardly chance.

    Args:
        failures: How often either side failed.
        margin: How far apart the rates may be; None where none is claimed.
        values: The judgement of the values.
    """
    beyond = "" if margin is None else f": the rates differ by more than {number(margin)}"
    return f"{failures}{beyond}; {values}"


JUDGEMENTS |= {
    "failures-within": "; {failures}: the rates differ by less than {margin:number}",
    "failures-open": ", but {failures}: the rates may differ by {margin:number} or more",
    "failures-doubtful": ", but {failures}: rates this unequal do not count as reproduced",
}


# what kept a claim from being judged


JUDGEMENTS |= {
    "skipped": "not run: with --quick, {sides} skipped this benchmark, which"
    " {is_decisive:no primary claim of that verification needs|cannot change the verdict}",
    "altered": "reported only: the claim depends on {fields}, changed with --set",
    "other-device": "reported only: the claim depends on the device, changed with --device",
    "not-run-here": "not run here: {reason}",
}


@JUDGEMENTS.template("unable")
def unable(
    *,
    seeds: tuple[int, ...],
    kind: Literal["fresh ", "", "the original's own "],
    last_line: str,
    fault: Fault,
    controls: tuple[int, ...],
) -> str:
    """Every re-run failed alike.

    Args:
        seeds: Of the re-runs.
        kind: What seeds they are.
        last_line: What the first of them ended with.
        fault: What stands in the way.
        controls: Seeds of the original's that were run again.
    """
    n = len(seeds)
    runs = "the only re-run failed" if n == 1 else f"{every(n, 're-runs')} failed in the same way"
    under = f"{kind}{'seed' if n == 1 else 'seeds'} {some(seeds)}"
    failed = f"{runs} ({under}; no run of the original failed in this way): {shorten(last_line)}"
    if fault == "unknown":
        return f"{failed}; the cause is untested: the seeds or this machine"
    if set(controls) >= set(seeds):
        return f"{failed}; {FAULTS[fault]}"
    control = (
        f"the runs under {len(controls)} seeds of the original"
        if len(controls) > 1
        else f"a control run under seed {controls[0]} of the original"
    )
    if fault == "seeds":
        return f"{failed}; {control} did not fail on this machine: {FAULTS[fault]}"
    return f"{failed}; {control} failed on this machine too: {FAULTS[fault]}"


FAULTS: dict[Fault, str] = {
    "seeds": "the cause is the fresh seeds, not this machine",
    "machine": "the cause is this machine or its software, not the seeds",
    "unknown": "the cause is the seeds or this machine",
}


JUDGEMENTS |= {
    "no-metric": "{side} does not measure this metric",
}


@JUDGEMENTS.template("units-differ")
def units_differ(*, units: tuple[tuple[str, str], ...]) -> str:
    """The sides' units are not one.

    Args:
        units: The unit in each of the sides.
    """
    return "the units differ: " + ", ".join(f"{unit} in {side}" for unit, side in units)


JUDGEMENTS |= {
    "no-common-seeds": "the two sides have no seed in common: {is_exact:an exact|a paired} claim"
    " compares runs under equal seeds",
    "values-too-large": "every value of {side} is beyond {most:number}, the largest that can be"
    " judged: report the metric in a larger unit",
    "no-values": "{side} has no run with a value",
    "no-margin": "no margin: the author set none, and a single run has no spread",
}


@JUDGEMENTS.template("not-positive")
def not_positive(*, is_mean: bool, of: Literal["run", "step"]) -> str:
    """Logarithms of values that are not all positive.

    Args:
        is_mean: Whether a geometric mean is asked for, not a ratio.
        of: What has such a value.
    """
    whose = "value of a step" if of == "step" else "value of a run"
    what = "geometric mean" if is_mean else "ratio"
    return f"a {whose} is zero or negative, and a {what} needs positive values"


JUDGEMENTS |= {
    "no-common-values": "no seed has a value on both sides: an exact claim compares values"
    " under equal seeds",
    "too-few-pairs": "at most one seed has a value on both sides: the comparison needs at least"
    " two seeds",
    "one-run": "a single run has no spread, so the claim cannot be judged",
    "one-run-each": "one run on each side: a verdict needs the spread between runs",
    "no-samples": "a run of the {side} has fewer than two samples: a distribution claim compares"
    " the samples within runs",
    "one-run-of-samples": "one side has a single run: a distribution claim needs at least two runs"
    " per side, to see how runs differ",
    "no-curve": "a run of the {side} has no curve: a curve claim needs a step for each value",
    "no-bundle": "{has_steps:one curve on each side has no spread|the curves have no step in"
    " common}",
}
