"""Sentences of the judgement of a claim, by its type or by what kept it from being judged."""

from __future__ import annotations

from typing import Literal

from capsule.diff.inability import Fault
from capsule.sentences import Sentence, Shape, Templates
from capsule.verdict.wording import count, every, number, shorten, some

JUDGEMENTS = Templates(Sentence, number=Shape(float, number))

Decided = Literal["REPRODUCED", "DIFFERENT", "INCONCLUSIVE"]
_SINGLE_RUN = (
    "; a single run shows no spread of its own and is taken to scatter like the other side's runs,"
    " at a quarter of the error rate"
)

# of a claim that was judged


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
        is_ratio: Whether the two sides' ratio is judged, not their shift.
        of: What of a run is judged, empty for its value.
        is_published: Whether the original is a published mean.
        shown: The estimate with its limits.
        allowed: The margin, and where it came from.
        is_detectable: Whether the limits leave no shift out.
        is_of_one_run: Whether a side is a single run.
    """
    value = f" of the {of}" if of else ""
    origin = " from the published mean" if is_published else ""
    subject = f"{'ratio' if is_ratio else 'shift'}{value}{origin} {shown}"
    found = {
        "REPRODUCED": "is within",
        "DIFFERENT": "is beyond",
        "INCONCLUSIVE": "is confirmed neither within nor beyond",
    }
    inside = ": detectable but inside the margin" * (is_detectable and word == "REPRODUCED")
    return f"{subject} {found[word]} {allowed}{inside}{_SINGLE_RUN if is_of_one_run else ''}"


@JUDGEMENTS.template("noninferiority")
def noninferiority(
    *, word: Decided, is_ratio: bool, of: str, shown: str, allowed: str, is_of_one_run: bool
) -> str:
    """The re-execution is no worse than by a margin; facts as of `equivalence`."""
    value = f" of the {of}" if of else ""
    found = {
        "REPRODUCED": "is not worse by more than",
        "DIFFERENT": "is worse by more than",
        "INCONCLUSIVE": "may or may not be worse by more than",
    }
    subject = f"{'ratio' if is_ratio else 'shift'}{value} {shown}"
    return f"{subject} {found[word]} {allowed}{_SINGLE_RUN if is_of_one_run else ''}"


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
        here: The re-execution's.
        lost: Runs of the original that have no value on some side; None where all is said.
    """
    became = f"{there!r} became {here!r}"
    if values == 1:
        verb = f"differs: {became}" if unequal else "is equal"
        found = f"the only value that can be compared, under seed {seed}, {verb}"
    elif not unequal:
        found = f"{every(values, 'values')} are equal, seed by seed"
    else:
        verb = "differs" if unequal == 1 else "differ"
        found = f"{unequal} of {values} values {verb}, first under seed {seed}: {became}"
    if lost is not None:
        found += f", but {count(lost, 'run has', 'runs have')} no value on some side"
    return found


JUDGEMENTS |= {
    "exact-finiteness": "{changed:d} of {values:d} values are finite on one side alone, first"
    " under seed {seed:d}: {there:r} became {here:r}",
}


@JUDGEMENTS.template("distribution")
def distribution(*, word: Decided, shown: str, allowed: float) -> str:
    """Two distributions are closer than a distance; facts as of `equivalence`."""
    found = {
        "REPRODUCED": "is below",
        "DIFFERENT": "is above",
        "INCONCLUSIVE": "may be below or above",
    }
    return f"distance {shown} {found[word]} {number(allowed)} (the author's margin)"


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
    at = number(worst_step, 6)
    subject = f"the {'ratio' if is_ratio else 'shift'} at step {at}, {shown},"
    span = f"{steps} steps from {number(first_step)} to {number(last_step)}"
    if word == "REPRODUCED":
        found = f"every one of {span} is within {allowed}; {subject} comes nearest to it"
    elif word == "DIFFERENT":
        among = f"{checkpoints} of {span}"
        found = f"{subject} is beyond {allowed}, after correction for {among}"
    else:
        found = f"{subject} is confirmed neither within nor beyond {allowed}, of {span}"
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
        f"{subject} {allowed}, the worst {worst} under"
        f" seed {seed}; with 95 % confidence at most {number(bad_runs)} % of all runs break this"
        " bound"
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
    verb, first = ("is", "it is") if broken == 1 else ("are", "the worst is")
    found = (
        f"{broken} of {runs} run{'s' * (runs > 1)} {verb} not {allowed}:"
        f" {first} {worst} under seed {seed}"
    )
    if is_original:
        return f"in the original itself {found}; there is no bound to reproduce"
    return found


JUDGEMENTS |= {
    "reported": "{is_ratio:ratio|difference} {shown}",
    "within-run": "one run on each side tells no spread, and without it nothing follows; inside"
    " these two runs the {is_ratio:ratio|shift} of means is {shown}",
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
    beyond = "" if margin is None else f": rates farther apart than {number(margin)}"
    return f"{failures}{beyond}; {values}"


JUDGEMENTS |= {
    "failures-within": "; {failures}: rates closer than {margin:number}",
    "failures-open": ", but {failures}: rates closer than {margin:number} are not confirmed",
    "failures-doubtful": ", but {failures}: rates so unequal are not reproduced",
}


# what kept a claim from being judged


JUDGEMENTS |= {
    "skipped": "not run: {sides} left out what decides nothing{is_decisive: by its own claims|}"
    " (--quick)",
    "altered": "reported only: {fields} was set (--set), on which it depends",
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
    runs = "the only re-run failed" if n == 1 else f"{every(n, 're-runs')} failed alike"
    under = f"{kind}{'seed' if n == 1 else 'seeds'} {some(seeds)}"
    failed = f"{runs} under {under}, as no run of the original did ({shorten(last_line)})"
    if fault == "unknown":
        return f"{failed}; whether the seeds or the machine is at fault was not tried"
    if set(controls) >= set(seeds):
        return f"{failed}: {FAULTS[fault]}"
    control = (
        f"the runs under {len(controls)} seeds of the original's"
        if len(controls) > 1
        else f"a control run under the original's seed {controls[0]}"
    )
    if fault == "seeds":
        return f"{failed}, but {control} did not fail here: {FAULTS[fault]}"
    return f"{failed}, and {control} failed here too: {FAULTS[fault]}"


FAULTS: dict[Fault, str] = {
    "seeds": "the fresh seeds are at fault, not this machine",
    "machine": "this machine or its software is at fault, not the seeds",
    "unknown": "the seeds or this machine may be at fault",
}


JUDGEMENTS |= {
    "no-metric": "{side} has no such metric",
}


@JUDGEMENTS.template("units-differ")
def units_differ(*, units: tuple[tuple[str, str], ...]) -> str:
    """The sides' units are not one.

    Args:
        units: The unit in each of the sides.
    """
    return "the units differ: " + ", ".join(f"{unit} in {side}" for unit, side in units)


JUDGEMENTS |= {
    "no-common-seeds": "{is_exact:an exact|a paired} claim compares equal seeds, and the two"
    " sides share none",
    "values-too-large": "every value of {side} is beyond {most:number}, the largest that can be"
    " judged: report the metric on another scale",
    "no-values": "no run of {side} has a value",
    "no-margin": "there is no margin: the author gave none, and one run tells no spread",
}


@JUDGEMENTS.template("not-positive")
def not_positive(*, is_mean: bool, of: Literal["run", "step"]) -> str:
    """Logarithms of values that are not all positive.

    Args:
        is_mean: Whether a geometric mean is asked for, not a ratio.
        of: What has such a value.
    """
    whose = "step's" if of == "step" else "run's value"
    what = "geometric mean" if is_mean else "ratio"
    return f"a {what} needs positive values, and not every {whose} is"


JUDGEMENTS |= {
    "no-common-values": "no seed has a value on both sides",
    "too-few-pairs": "fewer than two seeds have a value on both sides",
    "one-run": "one run tells no spread, and without it nothing follows",
    "one-run-each": "one run on each side tells no spread, and without it nothing follows",
    "no-samples": "a distribution is of samples inside runs, and a run of the {side} has none"
    " or one",
    "one-run-of-samples": "a distribution is compared from two runs a side on: one run shows"
    " nothing of what differs between runs",
    "no-curve": "not every run of the {side} is a curve, with a step beside each value",
    "no-bundle": "the two bundles of curves have {has_steps:one run on each side, without a"
    " spread|no step in common}",
}
