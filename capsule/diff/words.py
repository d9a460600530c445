"""Sentences beside the numbers of a comparison: the code and the one template of each.

CHANGES   phrases that end the sentence of a verdict: what else than the original's was judged
NOTES     what a reader of the verdict must know
REFUSALS  why the runs of a metric are no evidence, in the sentence of its judgement
"""

from __future__ import annotations

from capsule.notes import Note
from capsule.sentences import Sentence, Templates

CHANGES = Templates(Note.make)
NOTES = Templates(Note.make)
REFUSALS = Templates(Sentence)


# changes


CHANGES |= {
    "same-run": "with the same run in both capsules",
    "nonce": "under seeds drawn with --nonce {nonce!r}",
    "unplanned-runs": "after {runs:d} fresh {runs:seed|seeds}, which nobody planned (--runs)",
    "original-last": "by the runs of its own original, whose author chose their seeds (name the"
    " original first)",
}


@CHANGES.template("separate-runs")
def separate_runs(*, verifies: str | None) -> str:
    """The runs were not made to verify the original.

    Args:
        verifies: Id of the capsule that they verify, None for none.
    """
    if verifies is None:
        return "by separate runs, whose seeds were chosen by their author"
    return f"by a verification of another capsule ({verifies[:12]}), from whose id its seeds follow"


@CHANGES.template("another-image")
def another_image(*, named: str | None, is_known: bool) -> str:
    """The image is another, or nobody knows whether it is.

    Args:
        named: Reference that was given by whoever ran it.
        is_known: Whether both can be compared.
    """
    which = f" ({named})" if named is not None else ""
    if is_known:
        return f"in another image{which}"
    return f"in an image{which} of which nobody knows whether it is the original's"


@CHANGES.template("another-platform")
def another_platform(*, platform: str | None) -> str:
    """The image's index is the same."""
    which = f" ({platform})" if platform is not None else ""
    return f"in the same image for another platform{which}"


CHANGES |= {
    "without-image": "without the original's image",
}


@CHANGES.template("with-image")
def with_image(*, named: str | None) -> str:
    """The original ran on the host."""
    which = f" ({named})" if named is not None else ""
    return f"in an image{which}, while the original ran without one"


CHANGES |= {
    "another-program": "measured by the program of another version of capsule (--levels own)",
}


@CHANGES.template("changed-manifest")
def changed_manifest(*, values: tuple[tuple[str, str], ...]) -> str:
    """Fields were set by whoever verified.

    Args:
        values: The pointer to each, and what it was set to.
    """
    return f"with {', '.join(f'{pointer} set to {value}' for pointer, value in values)}"


CHANGES |= {
    "another-manifest": "by another manifest",
}


@CHANGES.template("quick")
def quick(*, claims: int, benchmarks: int, decides: bool) -> str:
    """A verification left out what decides nothing.

    Args:
        claims: How many were not run.
        benchmarks: The same of benchmarks, told where nothing is claimed of them.
        decides: Whether one of these claims decides in the original.
    """
    number, thing = (claims, "claim") if claims else (benchmarks, "benchmark")
    some = f"{number} {thing}{'s' * (number > 1)}"
    if not claims:
        some += " without a claim"
    elif not decides:
        some += f" that {'decides' if number == 1 else 'decide'} nothing"
    return f"with --quick: {some} {'was' if number == 1 else 'were'} not run"


# notes


REFUSED_VALUE, OTHER_METRIC = "refused-value", "other-metric"


NOTES |= {
    REFUSED_VALUE: "{fault}",
    OTHER_METRIC: "{fault}",
    "pair": "a pair: {rounds:d} rounds by turns on one node under equal seeds; what is judged"
    " is the ratio of {here} to {there}, never whether a number was published honestly",
    "same-run": "no re-execution: both capsules have one and the same run in them, and neither"
    " is evidence of the other; `capsule verify` runs one again",
    "not-a-reexecution": "the second capsule is no re-execution of the first: two separate runs"
    " are compared",
    "of-another-original": "the second capsule re-executed another capsule than the first",
}


@NOTES.template("runs-added")
def runs_added(*, counted: tuple[tuple[int, str], ...], has_machine_metrics: bool) -> str:
    """Runs of earlier verifications count.

    Args:
        counted: How many of which capsule.
        has_machine_metrics: Whether there are any, whose earlier runs do not count.
    """
    added = ", ".join(f"{runs} of {capsule[:12]}" for runs, capsule in counted)
    alone = "; metrics of the machine are judged by the runs made now alone"
    return (
        f"runs of earlier verifications count with those made now: {added}"
        f"{alone if has_machine_metrics else ''}"
    )


NOTES |= {
    "images-differ": "the images differ: what is compared is not the same program",
    "shared-cores": "{side}: {sharing}",
    "older-rule": "{side}'s claims were frozen by rule {rule:d}, and are judged by today's rule"
    " {ours:d}",
    "containment-differs": "{side} ran without a container, the other side in one",
    "shared-seeds": "{seeds:d} seeds were used on both sides: a repeated seed repeats its luck,"
    " so these runs count for exact and paired claims alone",
    "equal-values": "{metric}: all {runs:d} runs of {side} have the same value under different"
    " seeds",
}


@NOTES.template("one-day")
def one_day(*, spans: tuple[tuple[str, str], ...]) -> str:
    """All runs of a side were made on one day.

    Args:
        spans: The side, and how long its runs took.
    """
    within = " and ".join(f"all runs of the {side} started within {span}" for side, span in spans)
    return (
        f"numbers of a machine are judged, and {within}: what a machine"
        " does on one day is in all of them, and the spread between them does not show it"
    )


NOTES |= {
    "busy": "the machine of {side} was busy when its run began, {load}: its times are longer"
    " than they would be",
}


# refusals


@REFUSALS.template("another-aggregate")
def another_aggregate(*, there: str | None, here: str | None) -> str:
    """A run's value is reckoned otherwise on the two sides."""
    words = [aggregate or "usual value" for aggregate in (there, here)]
    return f"a run's value is the {words[0]} of its values there, and the {words[1]} here"


REFUSALS |= {
    "repeated-seeds": "every run of the re-execution repeats a seed of the original, and with"
    " the seed its luck: only other seeds tell whether the number is right",
    "wide-bound": "no evidence: the bound is more than {most:g} of the change that it judges in"
    " {wide:d} of {runs:d} runs, {share:.2g} of it under seed {seed:d}",
    "copied-times": "the clock said exactly the same in trial {trial} as in {first}, for"
    " {metric}: one is a copy of the other, and no evidence",
    "one-run-twice": "both capsules are of the same run, {run}, which is no evidence of itself",
    "common-runs": "both capsules have the runs of {run} in them, to which seeds were added:"
    " they are no evidence of themselves",
    "counted-twice": "{capsule:.12s} was added to the other one, which has its runs already",
    "one-seed-twice": "the {side} has {runs:d} runs under {seeds:d} seeds: one seed, one run",
    "constant-runs": "all {runs:d} runs of the {side} have the same value under different"
    " seeds, so they are one run; a metric that no seed changes can be claimed exact",
    "copied-values": "runs of the re-execution went through exactly the values of the"
    " original's under other seeds: they are copies, or no seed changes them, and neither is"
    " evidence",
}


@REFUSALS.template("another-ruler")
def another_ruler(*, there: str, ours: str | None, here: str, theirs: str | None) -> str:
    """The bounds are by two rules.

    Args:
        there: The name of the first side.
        ours: The number of its rules.
        here: The name of the second.
        theirs: The number of its rules.
    """

    def name(ruler: str | None) -> str:
        return "without a number" if ruler is None else f"number {ruler}"

    return (
        f"another ruler: {there} has bounds by rules {name(ours)}, {here} by"
        f" rules {name(theirs)}, and errors over them are not of one scale"
    )


REFUSALS |= {
    "another-recipe": "{fields:list} was set (--set): another recipe was trained than the"
    " original's, and only thresholds and bounds are claims about it",
}
