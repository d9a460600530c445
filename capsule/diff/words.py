"""Sentences beside the numbers of a comparison: the code and the one template of each.

CHANGES   phrases that end the sentence of a verdict: what else than the original's was judged
NOTES     what a reader of the verdict must know
REFUSALS  why the runs of a metric are no evidence, in the sentence of its judgement
"""

from __future__ import annotations

from typing import Literal

from capsule.durations import duration
from capsule.notes import Note
from capsule.sentences import Sentence, Templates

CHANGES = Templates(Note.make)
NOTES = Templates(Note.make)
REFUSALS = Templates(Sentence)


# changes


CHANGES |= {
    "same-run": "two capsules with the same run",
    "nonce": "a re-run under seeds drawn with --nonce {nonce!r}",
    "unplanned-runs": "{runs:d} fresh {runs:seed|seeds}, an unplanned number (--runs)",
    "original-last": "a verification given before its original: the author of the original chose"
    " the seeds of B (name the original first)",
}


@CHANGES.template("separate-runs")
def separate_runs(*, verifies: str | None) -> str:
    """Word that the runs of B do not verify the original.

    Args:
        verifies: Id of the capsule that B verifies, None for none.
    """
    if verifies is None:
        return "two independent runs (not a verification; seeds of B chosen by its author)"
    return f"a verification of another capsule ({verifies[:12]}), whose id determines the seeds"


@CHANGES.template("another-image")
def another_image(*, named: str | None, is_known: bool) -> str:
    """Word that the images of the two sides differ, or may differ.

    Args:
        named: Reference of the re-run's image, as its user gave it; None if none was given.
        is_known: Whether the two images can be compared.
    """
    which = f" ({named})" if named is not None else ""
    return f"another image{which}" if is_known else f"perhaps another image{which}"


@CHANGES.template("another-platform")
def another_platform(*, platform: str | None) -> str:
    """Word that both sides used one image on different platforms."""
    which = f" ({platform})" if platform is not None else ""
    return f"the same image for another platform{which}"


CHANGES |= {
    "without-image": "a re-run without the original's image",
}


@CHANGES.template("with-image")
def with_image(*, named: str | None) -> str:
    """Word that the original ran without an image, and the re-run in one."""
    which = f" ({named})" if named is not None else ""
    return f"a re-run in an image{which}, an original without an image"


CHANGES |= {
    "another-program": "measuring code of another version of capsule (--levels own)",
}


ANOTHER_DEVICE = "another-device"


CHANGES |= {
    ANOTHER_DEVICE: "a re-run on {here}, an original on {there} (--device)",
}


@CHANGES.template("changed-manifest")
def changed_manifest(*, values: tuple[tuple[str, str], ...]) -> str:
    """Word that the verifier set fields of the manifest.

    Args:
        values: Pointer and new value of each field.
    """
    return f"a re-run with {', '.join(f'{pointer} set to {value}' for pointer, value in values)}"


CHANGES |= {
    "another-manifest": "different manifests",
}


@CHANGES.template("quick")
def quick(*, claims: int, benchmarks: int, decides: bool) -> str:
    """Word that a verification skipped benchmarks (--quick).

    Args:
        claims: Number of claims on the skipped benchmarks.
        benchmarks: Number of the skipped benchmarks, named if they have no claims.
        decides: Whether one of these claims counts for the original's verdict.
    """
    number, thing = (claims, "claim") if claims else (benchmarks, "benchmark")
    some = f"{number} {'' if claims else 'unclaimed '}{thing}{'s' * (number > 1)}"
    if claims and not decides:
        some += " that cannot change the verdict"
    return f"a re-run with --quick (without {some})"


# notes


REFUSED_VALUE, OTHER_METRIC = "refused-value", "other-metric"


NOTES |= {
    REFUSED_VALUE: "{fault}",
    OTHER_METRIC: "{fault}",
    "pair": "a pair: two variants run alternately in {rounds:d} {rounds:round|rounds} on one node"
    " under equal seeds. The verdict is on the ratio of {here} to {there}, not on a published"
    " number",
    "same-run": "both capsules contain the same run, so neither is evidence for the other: make"
    " new runs with `capsule verify`",
    "not-a-reexecution": "B does not verify A: comparing two independent runs",
    "of-another-original": "B verifies another capsule than A",
}


@NOTES.template("runs-added")
def runs_added(*, counted: tuple[tuple[int, str], ...], has_machine_metrics: bool) -> str:
    """Word that runs of earlier verifications count.

    Args:
        counted: Number of runs of each earlier verification, and its id.
        has_machine_metrics: Whether a machine metric is judged; its earlier runs do not count.
    """
    added = ", ".join(f"{runs} of {capsule[:12]}" for runs, capsule in counted)
    alone = "; machine metrics are judged by the new runs only"
    return f"counts runs of earlier verifications: {added}{alone if has_machine_metrics else ''}"


NOTES |= {
    "images-differ": "the images differ: two different programs are compared",
    "shared-cores": "{side}: {sharing}",
    "older-rule": "claims of {side} were sealed under version {rule:d} of the claim rules; capsule"
    " judges them by the current version, {ours:d}",
    "containment-differs": "{side} ran without a container, the other side in a container",
    "shared-seeds": "both sides use {seeds:d} equal seeds: runs under equal seeds count only for"
    " exact and paired claims",
    "equal-values": "{metric}: all {runs:d} runs of {side} have the same value under different"
    " seeds",
}


@NOTES.template("one-day")
def one_day(*, spans: tuple[tuple[str, str], ...]) -> str:
    """Word that all runs of a side fall within one day, as those of one allocation do.

    Args:
        spans: Each such side, and the duration of its runs.
    """
    within = ", ".join(f"{side} within {span}" for side, span in spans)
    return (
        f"all runs in one allocation or day ({within}): the spread between them does not show how"
        " the machine changes from day to day, so machine metrics have no error rate"
    )


@NOTES.template("interrupted-attempts")
def interrupted_attempts(*, sides: tuple[tuple[str, int], ...], first: str) -> str:
    """Word that attempts behind machine metrics were interrupted.

    Args:
        sides: Each side with such attempts, and their number.
        first: Trial of the first of them.
    """
    counted = ", ".join(f"{attempts} of {side}" for side, attempts in sides)
    return (
        f"interrupted attempts, tried again: {counted} (first: {first}). Stopping slow runs changes"
        " what remains, so machine metrics have no error rate"
    )


@NOTES.template("margin-allows-anything")
def vague_margins(
    *,
    metric: str,
    claims: int,
    reason: Literal["mean", "factor", "distance", "constants"],
    margin: float | None,
    mean: float | None,
) -> str:
    """Word that a margin allows almost anything.

    Args:
        metric: Name of the metric of the first such claim.
        claims: Number of such claims.
        reason: What makes the margin so wide.
        margin: The margin, None for constants.
        mean: Mean of the original, None for other reasons.
    """
    width = 0.0 if margin is None else margin
    why = {
        "mean": f"the margin {width:.3g} is at least the mean, {abs(mean or 0.0):.3g}",
        "factor": f"the margin is a factor of {width:.3g}",
        "distance": f"the distance {width:.3g} lets half of all samples move anywhere",
        "constants": "the constants exclude no possible value",
    }
    return f"{_claims(metric, claims)}: {why[reason]}, so almost any re-run is REPRODUCED"


@NOTES.template("alpha-large")
def lax_levels(*, metric: str, claims: int, alpha: float) -> str:
    """Word that the author allows wrong verdicts more often than usual.

    Args:
        metric: Name of the metric of the claim with the largest alpha.
        claims: Number of such claims.
        alpha: The largest.
    """
    return (
        f"{_claims(metric, claims)}: the author allows wrong verdicts in {100 * alpha:.3g} % of"
        f" cases (alpha {alpha:g}; usual is 0.05)"
    )


@NOTES.template("failure-margin-large")
def lax_failures(*, metric: str, claims: int, margin: float) -> str:
    """Word that the author lets many more runs fail on one side.

    Args:
        metric: Name of the metric of the claim with the largest failure margin.
        claims: Number of such claims.
        margin: The largest.
    """
    return (
        f"{_claims(metric, claims)}: the author lets the shares of failed runs differ by up to"
        f" {100 * margin:.3g} points (failure_margin {margin:g})"
    )


@NOTES.template("trials-too-fast")
def hasty_trials(*, hasty: int, trials: int, first: str, seconds: float, usual: float) -> str:
    """Word that trials took less than a tenth of the original's time.

    Args:
        hasty: Number of such trials.
        trials: Number of compared trials.
        first: Id of the first such trial.
        seconds: Time of the first such trial.
        usual: Median time of the original's trials of the same subject, in seconds.
    """
    return (
        f"{hasty} of {trials} trials of the re-run took less than a tenth of the original's time"
        f" (first: {first}, {duration(seconds)} instead of {duration(usual)}). Check that they did"
        " the whole work"
    )


def _claims(metric: str, claims: int) -> str:
    more = claims - 1
    return f"{metric} and {more} more claim{'s' * (more > 1)}" if more else metric


NOTES |= {
    "not-run": "not run on {device}: {benchmarks:list} ({reason})",
}


NOTES |= {
    "busy": "machine of {side} busy at start ({load}): the measured times may be too long",
}


# refusals


@REFUSALS.template("another-aggregate")
def another_aggregate(*, there: str | None, here: str | None) -> str:
    """Word that the two sides compute a run's value by different aggregates."""
    words = [aggregate or "default aggregate" for aggregate in (there, here)]
    return f"a run's value is the {words[0]} in the original, but the {words[1]} in the re-run"


REFUSALS |= {
    "repeated-seeds": "every re-run uses a seed of the original, so no re-run is independent"
    " evidence: make re-runs under other seeds",
    "wide-bound": "no evidence: in {wide:d} of {runs:d} runs the bound is larger than {most:g}"
    " times the change that the bound judges (seed {seed:d}: {share:.2g} times)",
    "copied-times": "trials {trial} and {first} have exactly the same times for {metric}: a"
    " copied trial is no evidence",
    "one-run-twice": "both capsules contain the runs of {run}: runs compared with themselves are no"
    " evidence",
    "common-runs": "both capsules contain the runs of {run}, to which seeds were added: runs"
    " compared with themselves are no evidence",
    "counted-twice": "runs counted twice: both capsules contain the runs of {capsule:.12s}",
    "one-seed-twice": "more runs than seeds: the {side} has {runs:d} runs under {seeds:d} seeds,"
    " expected one run per seed",
    "constant-runs": "all {runs:d} runs of the {side} have the same value under different seeds,"
    " so they count as one run. If no seed changes the metric, claim it as exact",
    "copied-values": "no evidence: the re-runs have other seeds than the original, but exactly"
    " the original's values. The values are copies, or no seed changes the metric",
}


@REFUSALS.template("another-ruler")
def another_ruler(*, there: str, ours: str | None, here: str, theirs: str | None) -> str:
    """Word that the two sides computed error bounds by different rules.

    Args:
        there: Name of the first side.
        ours: Version of the first side's rules, None if its capsule states none.
        here: Name of the second side.
        theirs: Version of the second side's rules, None if its capsule states none.
    """

    def name(ruler: str | None) -> str:
        return "rules without a version" if ruler is None else f"rules version {ruler}"

    return (
        f"error bounds computed by different rules ({there}: {name(ours)}, {here}: {name(theirs)}):"
        " the errors have different scales"
    )


REFUSALS |= {
    "another-recipe": "--set changed {fields:list}, so the training differs from the"
    " original's: only threshold and bound claims can be judged",
}
