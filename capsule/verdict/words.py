"""Sentences of a judgement: the code and the one template of each.

JUDGEMENTS  of a claim, by its type or by what kept it from being judged
NOTES       what a reader of it must know besides
WHOLE       of a capsule, and of several re-executions
ADVICE      what would decide an open claim
SPREADS     of a metric over several machines
"""

from __future__ import annotations

from typing import Literal

from capsule.diff.inability import Fault
from capsule.notes import Note
from capsule.sentences import Sentence, Templates
from capsule.verdict.wording import count, every, number, shorten, some

JUDGEMENTS = Templates(Sentence)
NOTES = Templates(Note.make)
WHOLE = Templates(Sentence)
ADVICE = Templates(Sentence)
SPREADS = Templates(Sentence)

_judgement = JUDGEMENTS.template
_note = NOTES.template
_whole = WHOLE.template
_advice = ADVICE.template
_spread = SPREADS.template

Decided = Literal["REPRODUCED", "DIFFERENT", "INCONCLUSIVE"]
MOST_RUNS = 500
_SINGLE_RUN = (
    "; a single run shows no spread of its own and is taken to scatter like the other side's runs,"
    " at a quarter of the error rate"
)

# of a claim that was judged


@_judgement("equivalence")
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


@_judgement("noninferiority")
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


@_judgement("threshold")
def threshold(*, word: Decided, is_geometric: bool, of: str, shown: str, allowed: str) -> str:
    """A metric keeps to a constant; facts as of `equivalence`."""
    found = {"REPRODUCED": "is", "DIFFERENT": "is not", "INCONCLUSIVE": "may or may not be"}
    value = f" of the {of} over the runs" if of else ""
    subject = f"{'geometric mean' if is_geometric else 'mean'}{value} {shown}"
    return f"{subject} {found[word]} {allowed}"


@_judgement("exact")
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


@_judgement("exact-finiteness")
def exact_finiteness(*, values: int, changed: int, seed: int, there: float, here: float) -> str:
    """Values that should be equal are finite on one side alone."""
    return (
        f"{changed} of {values} values are finite on one side alone, first under"
        f" seed {seed}: {there!r} became {here!r}"
    )


@_judgement("distribution")
def distribution(*, word: Decided, shown: str, allowed: float) -> str:
    """Two distributions are closer than a distance; facts as of `equivalence`."""
    found = {
        "REPRODUCED": "is below",
        "DIFFERENT": "is above",
        "INCONCLUSIVE": "may be below or above",
    }
    return f"distance {shown} {found[word]} {number(allowed)} (the author's margin)"


@_judgement("curve")
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


@_judgement("bound")
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


@_judgement("bound-broken")
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


@_judgement("reported")
def reported(*, is_ratio: bool, shown: str) -> str:
    """How two sides compare that nobody claimed anything of."""
    return f"{'ratio' if is_ratio else 'difference'} {shown}"


@_judgement("within-run")
def within_run(*, is_ratio: bool, shown: str) -> str:
    """What lies inside one run on each side."""
    name = "ratio" if is_ratio else "shift"
    return f"{_NO_SPREAD}; inside these two runs the {name} of means is {shown}"


_NO_SPREAD = "one run on each side tells no spread, and without it nothing follows"

# how often runs fail: instead of a judgement of values, or behind one


@_judgement("failures")
def failures(*, failed: tuple[int, int], runs: tuple[int, int], names: tuple[str, str]) -> str:
    """How often either side failed.

    Args:
        failed: The failed runs of both sides.
        runs: Those of both sides that have an outcome.
        names: What these are called.
    """
    return f"{failed[0]} of {runs[0]} {names[0]} failed, {failed[1]} of {runs[1]} {names[1]}"


@_judgement("failures-differ")
def unequal_failures(*, failures: str, margin: float | None, values: str) -> str:
    """Runs fail so unequally that it is hardly chance.

    Args:
        failures: How often either side failed.
        margin: How far apart the rates may be; None where none is claimed.
        values: The judgement of the values.
    """
    beyond = "" if margin is None else f": rates farther apart than {number(margin)}"
    return f"{failures}{beyond}; {values}"


@_judgement("failures-within")
def close_failures(*, failures: str, margin: float) -> str:
    """The rates are shown to be closer than a margin; stands behind the judgement of values."""
    return f"; {failures}: rates closer than {number(margin)}"


@_judgement("failures-open")
def open_failures(*, failures: str, margin: float) -> str:
    """The rates are not shown to be closer than a margin; stands behind that judgement."""
    return f", but {failures}: rates closer than {number(margin)} are not confirmed"


@_judgement("failures-doubtful")
def doubtful_failures(*, failures: str) -> str:
    """The rates are too unequal to reproduce anything; stands behind that judgement."""
    return f", but {failures}: rates so unequal are not reproduced"


# what kept a claim from being judged


@_judgement("skipped")
def skipped(*, sides: str, is_decisive: bool) -> str:
    """A quick verification left it out.

    Args:
        sides: Which of the two.
        is_decisive: Whether it decides in the capsule whose claim it is.
    """
    by = " by its own claims" if is_decisive else ""
    return f"not run: {sides} left out what decides nothing{by} (--quick)"


@_judgement("altered")
def altered(*, fields: str) -> str:
    """A field was set that a metric of a machine depends on."""
    return f"reported only: {fields} was set (--set), on which it depends"


@_judgement("unable")
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


@_judgement("no-metric")
def no_metric(*, side: str) -> str:
    """A side has no such metric."""
    return f"{side} has no such metric"


@_judgement("units-differ")
def units_differ(*, units: tuple[tuple[str, str], ...]) -> str:
    """The sides' units are not one.

    Args:
        units: The unit in each of the sides.
    """
    return "the units differ: " + ", ".join(f"{unit} in {side}" for unit, side in units)


@_judgement("no-common-seeds")
def no_common_seeds(*, is_exact: bool) -> str:
    """A claim that compares equal seeds has none."""
    kind = "an exact" if is_exact else "a paired"
    return f"{kind} claim compares equal seeds, and the two sides share none"


@_judgement("values-too-large")
def values_too_large(*, side: str, most: float) -> str:
    """No value of a side can be judged."""
    return (
        f"every value of {side} is beyond {number(most)}, the largest"
        " that can be judged: report the metric on another scale"
    )


@_judgement("no-values")
def no_values(*, side: str) -> str:
    """No run of a side has a value."""
    return f"no run of {side} has a value"


@_judgement("no-margin")
def no_margin() -> str:
    """None was given or frozen."""
    return "there is no margin: the author gave none, and one run tells no spread"


@_judgement("not-positive")
def not_positive(*, is_mean: bool, of: Literal["run", "step"]) -> str:
    """Logarithms of values that are not all positive.

    Args:
        is_mean: Whether a geometric mean is asked for, not a ratio.
        of: What has such a value.
    """
    whose = "step's" if of == "step" else "run's value"
    what = "geometric mean" if is_mean else "ratio"
    return f"a {what} needs positive values, and not every {whose} is"


@_judgement("no-common-values")
def no_common_values() -> str:
    """An exact claim has no pair of values."""
    return "no seed has a value on both sides"


@_judgement("too-few-pairs")
def too_few_pairs() -> str:
    """A paired claim has one pair or none."""
    return "fewer than two seeds have a value on both sides"


@_judgement("one-run")
def one_run() -> str:
    """One run is held against a constant."""
    return "one run tells no spread, and without it nothing follows"


@_judgement("one-run-each")
def one_run_each() -> str:
    """One run on each side, and nothing is known of what is inside."""
    return _NO_SPREAD


@_judgement("no-samples")
def no_samples(*, side: str) -> str:
    """A run has too few samples to have a distribution."""
    return f"a distribution is of samples inside runs, and a run of the {side} has none or one"


@_judgement("one-run-of-samples")
def one_run_of_samples() -> str:
    """A distribution of one run."""
    return (
        "a distribution is compared from two runs a side on: one run shows nothing of what differs"
        " between runs"
    )


@_judgement("no-curve")
def no_curve(*, side: str) -> str:
    """Values of a run have no steps."""
    return f"not every run of the {side} is a curve, with a step beside each value"


@_judgement("no-bundle")
def no_bundle(*, has_steps: bool) -> str:
    """Two bundles of curves cannot be compared.

    Args:
        has_steps: Whether they have a step in common.
    """
    lack = "one run on each side, without a spread" if has_steps else "no step in common"
    return f"the two bundles of curves have {lack}"


# notes


@_note("no-outcome")
def no_outcome(*, side: str, runs: int) -> str:
    """Nobody knows how runs ended."""
    return f"runs of {side} that were interrupted and have no outcome: {runs}"


@_note("repeated-runs")
def repeated_runs(*, side: str, runs: int, independent: int) -> str:
    """Runs went through the same values under other seeds."""
    return (
        f"{runs} runs of {side} count as {independent}: the others"
        " went through exactly the same values under other seeds; a metric that no seed"
        " changes can be claimed exact"
    )


@_note("value-too-large")
def value_too_large(*, side: str, most: float, runs: int) -> str:
    """Runs have a value that counts as a failure."""
    return (
        f"runs of {side} with a value beyond {number(most)},"
        f" which cannot be judged and counts as failed: {runs}"
    )


@_note("earlier-runs-left-out")
def earlier_runs(*, runs: int | None, earlier: int) -> str:
    """A metric of a machine is not judged by all runs.

    Args:
        runs: How many were made now, None where the first verification's are judged.
        earlier: How many were made before.
    """
    if runs is None:
        return "judged by the first verification's runs, which alone have the original's seeds"
    return (
        f"judged by the {runs} runs made now: of {earlier} earlier ones"
        " the machine may have been another, or the day"
    )


@_note("not-finite")
def not_finite(*, values: int, runs: int, here: str, value: float, seed: int, there: str) -> str:
    """Values of a side are NaN or infinite, and none of the other's."""
    return (
        f"{values} of {runs} runs of {here} have a value that is not finite, first {value} under"
        f" seed {seed}; no run of {there} has one"
    )


@_note("unequal-steps")
def unequal_steps(*, last: int, low: float, high: float) -> str:
    """Runs end at different steps."""
    evaluations = "last evaluation" if last == 1 else f"last {last} evaluations"
    return (
        f"not every run has its {evaluations} at the same steps, which lie between"
        f" {number(low, 6)} and {number(high, 6)}: each run is judged by its own"
    )


@_note("too-few-evaluations")
def too_few_evaluations(
    *, short: int, runs: int, side: str, last: int, seed: int, evaluations: int | None
) -> str:
    """Runs have too few evaluations to be judged.

    Args:
        short: How many.
        runs: Of how many.
        side: The side.
        last: How many evaluations are due.
        seed: Of the first of these runs.
        evaluations: How many it has, None where its values have no steps.
    """
    verb = "has" if short == 1 else "have"
    found = "values that have no steps" if evaluations is None else str(evaluations)
    return (
        f"{short} of {count(runs, 'run')} of the {side} {verb} fewer"
        f" than {count(last, 'evaluation')} and count{'s' * (short == 1)} as failed, first"
        f" seed {seed} with {found}"
    )


@_note("independent-samples")
def independent_samples(
    *, there: int, there_effective: float, here: int, here_effective: float
) -> str:
    """Samples inside runs repeat each other."""
    return (
        f"{there} samples of the original are worth"
        f" {number(there_effective)} independent ones, {here} of the re-execution"
        f" {number(here_effective)}"
    )


@_note("late-settling")
def late_settling(*, side: str) -> str:
    """The warm-up is too short."""
    return f"most runs of the {side} settle only later: a longer warm-up is advised"


@_note("unequal-failures")
def noted_failures(*, failures: str) -> str:
    """The sides' rates of failures are not equal."""
    return failures


@_note("runs-assumed")
def runs_assumed(*, runs: int) -> str:
    """A paper does not say how many runs it had."""
    return f"the paper does not say how many runs it had: {runs} are assumed"


@_note("consistent")
def consistent() -> str:
    """An open prediction holds no contradiction."""
    return (
        "consistent: inside the original's prediction interval, which is too wide to"
        " confirm the margin"
    )


@_note("paired-seeds")
def paired_seeds(*, pairs: int, are_rounds: bool) -> str:
    """Runs are compared under equal seeds."""
    what = "rounds" if are_rounds else "runs"
    return f"{pairs} {what} are compared under equal seeds, as was declared"


@_note("planned-look")
def planned_look(*, place: int, planned: tuple[int, ...], level: float, alpha: float) -> str:
    """A judgement is a look that was planned.

    Args:
        place: Among the planned ones, from 1.
        planned: After how many re-run seeds.
        level: Of each look.
        alpha: Of all.
    """
    plan = ", ".join(map(str, planned))
    at = f"judged at {number(level)} instead of {number(alpha)}"
    return f"look {place} of {len(planned)} ({plan} re-run seeds): {at}"


@_note("unplanned-look")
def unplanned_look(
    *, runs: int, planned: tuple[int, ...], is_alone: bool, level: float, alpha: float
) -> str:
    """A judgement is no look that was planned; facts as of `planned_look`.

    Args:
        runs: Re-run seeds.
        planned: As of `planned_look`.
        is_alone: Whether so many are planned, and earlier runs should be among them.
        level: As of `planned_look`.
        alpha: As of `planned_look`.
    """
    at = f"judged at {number(level)} instead of {number(alpha)}"
    if is_alone:
        return f"a look at {runs} runs that stand alone is none of the plan: {at}"
    plan = ", ".join(map(str, planned))
    return f"{runs} re-run seeds are none of the planned looks ({plan}): {at}"


@_note("left-out")
def left_out(*, side: str, why: Literal["no metric", "no value", "quick"]) -> str:
    """A side has no value of a metric."""
    lack = {
        "no metric": "has no such metric of its own",
        "no value": "has no run with a value",
        "quick": "did not run it (--quick)",
    }
    return f"{side} {lack[why]} and is left out"


@_note("common-seeds")
def common_seeds(*, sides: tuple[str, ...]) -> str:
    """Sides have seeds in common."""
    return (
        f"{' and '.join(sides)} used the same seeds: their runs are reckoned as if they varied"
        " together, which can only widen the limits"
    )


@_note("unequal-spread")
def unequal_spread(*, p: float) -> str:
    """Machines scatter differently."""
    return (
        "the spread between runs is not the same on every machine (Bartlett's p"
        f" {number(p, 2)}, for normal runs): one s_R does not describe all"
    )


# of a capsule


@_whole("no-primary-claim")
def no_primary() -> str:
    """Nothing decides."""
    return "the capsule makes no primary claim, so there is nothing to decide"


@_whole("differs")
def differs(*, claims: int, different: int, first: str) -> str:
    """Primary claims are DIFFERENT, after Holm.

    Args:
        claims: How many there are.
        different: How many of them are.
        first: The metric of the first.
    """
    if claims == 1:
        return f"the only primary claim differs: {first}"
    verb = "differs" if different == 1 else "differ"
    return f"{different} of {claims} primary claims {verb} after Holm, first {first}"


@_whole("reproduced")
def reproduced(*, claims: int) -> str:
    """Every primary claim is REPRODUCED."""
    if claims == 1:
        return "the only primary claim is reproduced"
    return f"{every(claims, 'primary claims')} are reproduced"


@_whole("unable")
def all_unable(*, claims: int, unable: int, fault: Fault) -> str:
    """Every re-run of some primary claims failed."""
    which = "the only primary claim" if claims == 1 else f"{unable} of {claims} primary claims"
    return f"{which} could not be judged, as every re-run failed: {FAULTS[fault]}"


@_whole("chance")
def chance(*, claims: int, different: int) -> str:
    """Primary claims differ, and that may be chance."""
    verb = "differs" if different == 1 else "differ"
    return (
        f"{different} of {count(claims, 'primary claim')} {verb}, but not after Holm's correction"
        f" for {claims} chances to err"
    )


@_whole("open")
def undecided(*, claims: int, reproduced: int) -> str:
    """Some primary claims are neither."""
    if claims == 1:
        return "the only primary claim is neither reproduced nor different"
    return f"{reproduced} of {claims} primary claims reproduced, none different"


@_whole("failure")
def failure(*, last_line: str) -> str:
    """How the failed runs that decide ended; stands behind the sentence of a verdict."""
    return f"; failed runs ended with: {shorten(last_line)}"


@_whole("changed")
def changed(*, changes: tuple[str, ...]) -> str:
    """What else than the original's was judged; stands behind the sentence of a verdict."""
    return "".join(f", {change}" for change in changes)


# of several re-executions


@_whole("no-primary-claims")
def none_primary() -> str:
    """Nothing decides."""
    return "the original makes no primary claim, so there is nothing to decide"


@_whole("some-differ")
def some_differ(*, pairs: int, different: tuple[str, ...]) -> str:
    """Re-executions are DIFFERENT, after Holm."""
    verb = "differs" if len(different) == 1 else "differ"
    return (
        f"{len(different)} of {pairs} re-executions {verb} from the original after Holm over"
        f" {pairs} pairs: {' and '.join(different)}"
    )


@_whole("all-reproduced")
def all_reproduced(*, pairs: int) -> str:
    """Every re-execution reproduces the original."""
    return f"{every(pairs, 're-executions')} reproduce the original"


@_whole("some-by-chance")
def some_by_chance(*, pairs: int, reproduced: int, alone: tuple[str, ...]) -> str:
    """Re-executions differ, and that may be chance."""
    return (
        f"{reproduced} of {pairs} re-executions reproduce the original; {' and '.join(alone)}"
        f" alone would differ, but not after Holm's correction for {pairs} pairs"
    )


@_whole("some-open")
def some_open(*, pairs: int, reproduced: int) -> str:
    """Some re-executions decide nothing."""
    verb = "reproduces" if reproduced == 1 else "reproduce"
    return f"{reproduced} of {pairs} re-executions {verb} the original, none differs"


@_whole("some-changed")
def some_changed(*, label: str, changes: tuple[str, ...]) -> str:
    """What a re-execution changed; stands behind the sentence of a verdict."""
    return f"; {label} {', '.join(changes)}"


# advice

_TOO_FEW = "no number of re-runs decides this: the original itself has "
_NEAR = f"the estimate sits on the margin: more than {MOST_RUNS} runs would be needed"
_Two = tuple[int | None, int | None]


def _higher(numbers: _Two) -> str:
    return "" if numbers[1] is None else f", {numbers[1]} with power 0.9"


@_advice("original-of-one-run")
def original_of_one_run() -> str:
    """The original has one run."""
    return f"{_TOO_FEW}one run"


@_advice("looks-taken")
def looks_taken(*, runs: int, looks: int) -> str:
    """As many looks were taken as the error rate allows."""
    return f"{runs} runs are the last of {looks} looks: the error rate allows no further one"


@_advice("runs")
def runs(*, now: int, as_seen: _Two, if_equal: _Two, is_near: bool) -> str:
    """So many runs decide a claim on a shift.

    Args:
        now: How many there are.
        as_seen: How many for either power, if the shift seen is the true one.
        if_equal: The same if there is no shift.
        is_near: Whether no number decides the former since it sits on the margin.
    """
    none = _NEAR if is_near else f"{_TOO_FEW}too few runs"
    if as_seen[0] is None:
        if if_equal[0] is None:
            return none
        return (
            f"if the shift seen is the true one, {none}; if there is none, {if_equal[0]} runs"
            f" of the re-execution in all (now {now}) decide this with power 0.8{_higher(if_equal)}"
        )
    found = (
        f"{as_seen[0]} runs of the re-execution in all (now {now}) decide this with power 0.8"
        f"{_higher(as_seen)}, if the shift seen is the true one"
    )
    if if_equal[0] is not None:
        found += f"; {if_equal[0]} with power 0.8{_higher(if_equal)}, if there is no shift"
    return found


@_advice("levels")
def levels(
    *, planned: tuple[int, ...], planned_level: float, has_others: bool, other_level: float
) -> str:
    """At which level the advised numbers of runs will be judged; stands behind the advice.

    Args:
        planned: The numbers that are planned looks.
        planned_level: The level of these.
        has_others: Whether there are others.
        other_level: The level of those.
    """
    parts = []
    if planned:
        named = " and ".join(map(str, planned))
        looks = f"planned look{'s' * (len(planned) > 1)}"
        parts.append(f"{named} as {looks}, judged at {planned_level:.3g}")
    if has_others:
        which = "others" if planned else "as no planned look"
        parts.append(f"{which}, judged at {other_level:.3g}")
    return f" ({'; '.join(parts)})" if parts else ""


@_advice("pairs")
def more_pairs(*, pairs: int | None, pairs_surely: int | None) -> str:
    """So many seeds on both sides decide a paired claim.

    Args:
        pairs: For a power of 0.8, None where no number does.
        pairs_surely: For a power of 0.9.
    """
    if pairs is None:
        return _NEAR
    return (
        f"{_TOO_FEW}too few seeds, {pairs} pairs would decide with power 0.8"
        f"{_higher((pairs, pairs_surely))}"
    )


@_advice("rounds")
def rounds(*, now: int, as_seen: _Two, if_equal: _Two, most: int) -> str:
    """So many rounds of a pair decide its ratio; facts as of `runs`.

    Args:
        now: As of `runs`.
        as_seen: As of `runs`.
        if_equal: As of `runs`.
        most: How many one pair takes.
    """
    found = (
        "the ratio seen sits on the margin"
        if as_seen[0] is None
        else f"{as_seen[0]} pairs (now {now}) would decide this with power 0.8"
        f"{_higher(as_seen)}, if the ratio seen is the true one"
    )
    if if_equal[0] is not None:
        found += f"; {if_equal[0]} with power 0.8{_higher(if_equal)}, if the sides are equal"
    wanted = as_seen[0] or if_equal[0]
    if wanted is not None and wanted <= most:
        found += f" (`capsule pair --pairs {wanted}`)"
    elif wanted is not None:
        found += f"; one pair takes up to {most}: longer runs or a quieter machine need fewer"
    return found


@_advice("distance-on-margin")
def distance_on_margin() -> str:
    """No number of samples decides."""
    return "the distance seen sits on the margin that is allowed"


@_advice("samples")
def samples(*, needed: _Two) -> str:
    """So many samples decide a claim on a distribution."""
    if needed[0] is None:
        return f"{_TOO_FEW}too few samples"
    return (
        f"{needed[0]} independent samples of the re-execution decide this with power 0.8"
        f"{_higher(needed)}, if the two distributions are equal"
    )


@_advice("failures")
def fewer_failures(*, now: int, needed: _Two) -> str:
    """So many runs make up for failures."""
    if needed[0] is None:
        return f"more than {MOST_RUNS} runs would be needed to make up for these failures"
    return (
        f"{needed[0]} runs of the re-execution in all (now {now}) make up for these failures"
        f" with power 0.8{_higher(needed)}, if further ones fail as often as the original's"
    )


@_advice("failure-margin")
def failure_margin(*, now: int, needed: _Two, is_near: bool) -> str:
    """So many runs confirm a margin between rates of failures; facts as of `runs`."""
    if needed[0] is not None:
        return (
            f"{needed[0]} runs of the re-execution in all (now {now}) confirm the failure margin"
            f" with power 0.8{_higher(needed)}, if further ones fail as often as the original's"
        )
    if is_near:
        return f"more than {MOST_RUNS} runs would be needed to tell how often they fail"
    return f"{_TOO_FEW}too few runs to tell how often they fail"


@_advice("mend")
def mend(*, fault: Fault) -> str:
    """What makes a claim that could not be run one that can be."""
    found: dict[Fault, str] = {
        "seeds": "no number of runs decides this: the author's manifest has to say which seeds"
        ' the benchmark takes, such as "seed_range": [0, 4000000], or the benchmark has to take'
        " every seed below 2^31",
        "machine": "no number of runs decides this: mend what the failed runs lack here, as"
        " their logs in the capsule tell, and verify again",
        "unknown": "`capsule verify` makes a control run under a seed of the original's, which"
        " tells whether the seeds or the machine is at fault",
    }
    return found[fault]


# of a metric over several machines


@_spread("precision")
def precision(
    *,
    of: str,
    total: str,
    low: str,
    high: str,
    unit: str,
    within: str,
    between: str,
    machines: int,
    limit: str,
) -> str:
    """How far runs and machines lie apart.

    Args:
        of: What of a run is judged, empty for its value.
        total: Between single runs on different machines.
        low: Its lower limit.
        high: Its upper limit.
        unit: Behind these, empty for none.
        within: Between runs on one machine.
        between: Between machines.
        machines: How many.
        limit: What two such runs seldom differ by.
    """
    return (
        f"{f'{of}: ' if of else ''}s_R {total} ({low} to {high}){unit}: s_r {within} between runs,"
        f" s_L {between} between {machines} machines; two single runs on two such machines seldom"
        f" differ by more than {limit} (2.8 s_R)"
    )


@_spread("no-precision")
def no_precision(*, of: str, why: str) -> str:
    """Why nothing can be said of that."""
    return f"{f'{of}: ' if of else ''}no s_R: {why}"


@_spread("mean")
def mean(*, is_geometric: bool, machines: int, shown: str) -> str:
    """A mean over machines."""
    name = "geometric mean" if is_geometric else "mean"
    return f"random-effects {name} over {machines} machines {shown}"


@_spread("no-mean")
def no_mean(*, why: str) -> str:
    """Why there is none."""
    return f"no mean: {why}"


@_spread("not-of-values")
def not_of_values(*, claim: str) -> str:
    """A claim is not about one value a run.

    Args:
        claim: Its type.
    """
    if claim == "exact":
        return "an exact claim compares values seed by seed, which no spread describes"
    what = "whole curves" if claim == "curve" else "the values inside runs"
    return f"the claim is about {what}, not about one value a run"


@_spread("too-few-capsules")
def too_few_capsules() -> str:
    """One side or none has a value."""
    return "fewer than two capsules have a value"


@_spread("too-few-runs")
def too_few_runs() -> str:
    """No side has a spread."""
    return "no capsule has two independent runs, which a spread between runs needs"


@_spread("of-machines")
def of_machines() -> str:
    """A time or a rate is each machine's own."""
    return "the metric belongs to each machine, and a mean over machines would be that of none"


@_spread("too-few-machines")
def too_few_machines() -> str:
    """Two sides have a value."""
    return "fewer than three capsules have a value, which tell nothing of machines in general"


@_spread("different-machines")
def different_machines(*, sides: tuple[str, ...]) -> str:
    """Sides are DIFFERENT."""
    named = " and ".join(sides)
    return f"DIFFERENT from A by itself: {named}; a mean over both would be that of neither"
