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

_change = CHANGES.template
_note = NOTES.template
_refusal = REFUSALS.template

# changes


@_change("same-run")
def of_one_run() -> str:
    """One run is in both."""
    return "with the same run in both capsules"


@_change("nonce")
def under_nonce(*, nonce: str) -> str:
    """The fresh seeds follow from a word, too."""
    return f"under seeds drawn with --nonce {nonce!r}"


@_change("unplanned-runs")
def unplanned_runs(*, runs: int) -> str:
    """Whoever verified chose another number of fresh seeds than was planned."""
    seeds = "1 fresh seed" if runs == 1 else f"{runs} fresh seeds"
    return f"after {seeds}, which nobody planned (--runs)"


@_change("original-last")
def original_last() -> str:
    """The two capsules were named the wrong way round."""
    return (
        "by the runs of its own original, whose author chose their seeds (name the original first)"
    )


@_change("separate-runs")
def separate_runs(*, verifies: str | None) -> str:
    """The runs were not made to verify the original.

    Args:
        verifies: Id of the capsule that they verify, None for none.
    """
    if verifies is None:
        return "by separate runs, whose seeds were chosen by their author"
    return f"by a verification of another capsule ({verifies[:12]}), from whose id its seeds follow"


@_change("another-image")
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


@_change("another-platform")
def another_platform(*, platform: str | None) -> str:
    """The image's index is the same."""
    which = f" ({platform})" if platform is not None else ""
    return f"in the same image for another platform{which}"


@_change("without-image")
def without_image() -> str:
    """It ran on the host."""
    return "without the original's image"


@_change("with-image")
def with_image(*, named: str | None) -> str:
    """The original ran on the host."""
    which = f" ({named})" if named is not None else ""
    return f"in an image{which}, while the original ran without one"


@_change("another-program")
def another_program() -> str:
    """Another version's program measured."""
    return "measured by the program of another version of capsule (--levels own)"


@_change("changed-manifest")
def changed_manifest(*, values: tuple[tuple[str, str], ...]) -> str:
    """Fields were set by whoever verified.

    Args:
        values: The pointer to each, and what it was set to.
    """
    return f"with {', '.join(f'{pointer} set to {value}' for pointer, value in values)}"


@_change("another-manifest")
def another_manifest() -> str:
    """The manifests differ."""
    return "by another manifest"


@_change("quick")
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


@_note(REFUSED_VALUE)
def refused_value(*, fault: str) -> str:
    """A value of an older capsule that today's rules of reading texts refuse."""
    return fault


@_note(OTHER_METRIC)
def other_metric(*, fault: str) -> str:
    """A metric that is declared otherwise in this version's catalogue."""
    return fault


@_note("pair")
def pair(*, rounds: int, there: str, here: str) -> str:
    """Two variants that ran by turns."""
    return (
        f"a pair: {rounds} rounds by turns on one node under equal seeds;"
        f" what is judged is the ratio of {here} to {there}, never whether a number"
        " was published honestly"
    )


@_note("same-run")
def same_run() -> str:
    """One run is in both."""
    return (
        "no re-execution: both capsules have one and the same run in them, and neither"
        " is evidence of the other; `capsule verify` runs one again"
    )


@_note("not-a-reexecution")
def not_a_reexecution() -> str:
    """The second verifies nothing."""
    return "the second capsule is no re-execution of the first: two separate runs are compared"


@_note("of-another-original")
def of_another_original() -> str:
    """The second verifies a third."""
    return "the second capsule re-executed another capsule than the first"


@_note("runs-added")
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


@_note("images-differ")
def images_differ() -> str:
    """The images have nothing in common."""
    return "the images differ: what is compared is not the same program"


@_note("shared-cores")
def shared_cores(*, side: str, sharing: str) -> str:
    """Ranks of a sweep shared cores."""
    return f"{side}: {sharing}"


@_note("older-rule")
def older_rule(*, side: str, rule: int, ours: int) -> str:
    """The margins were frozen by an earlier rule."""
    return f"{side}'s claims were frozen by rule {rule}, and are judged by today's rule {ours}"


@_note("containment-differs")
def containment_differs(*, side: str) -> str:
    """One side ran on the host."""
    return f"{side} ran without a container, the other side in one"


@_note("shared-seeds")
def shared_seeds(*, seeds: int) -> str:
    """Runs of both sides have the same seeds."""
    return (
        f"{seeds} seeds were used on both sides: a repeated seed repeats its"
        " luck, so these runs count for exact and paired claims alone"
    )


@_note("equal-values")
def equal_values(*, metric: str, runs: int, side: str) -> str:
    """No seed changed a number."""
    return f"{metric}: all {runs} runs of {side} have the same value under different seeds"


@_note("one-day")
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


@_note("busy")
def busy(*, side: str, load: str) -> str:
    """A side's machine had other work."""
    return (
        f"the machine of {side} was busy when its run began, {load}: its times are"
        " longer than they would be"
    )


# refusals


@_refusal("another-aggregate")
def another_aggregate(*, there: str | None, here: str | None) -> str:
    """A run's value is reckoned otherwise on the two sides."""
    words = [aggregate or "usual value" for aggregate in (there, here)]
    return f"a run's value is the {words[0]} of its values there, and the {words[1]} here"


@_refusal("repeated-seeds")
def repeated_seeds() -> str:
    """No run has a seed of its own."""
    return (
        "every run of the re-execution repeats a seed of the original, and with the seed its"
        " luck: only other seeds tell whether the number is right"
    )


@_refusal("wide-bound")
def wide_bound(*, most: float, wide: int, runs: int, share: float, seed: int) -> str:
    """The bound is no small part of what it judges."""
    return (
        f"no evidence: the bound is more than {most:g} of the change that it judges"
        f" in {wide} of {runs} runs, {share:.2g} of it under seed {seed}"
    )


@_refusal("copied-times")
def copied_times(*, trial: str, first: str, metric: str) -> str:
    """Two clocks said the same."""
    return (
        f"the clock said exactly the same in trial {trial} as in {first}, for"
        f" {metric}: one is a copy of the other, and no evidence"
    )


@_refusal("one-run-twice")
def one_run_twice(*, run: str) -> str:
    """Both records are of one run."""
    return f"both capsules are of the same run, {run}, which is no evidence of itself"


@_refusal("common-runs")
def common_runs(*, run: str) -> str:
    """Seeds were added to one run twice."""
    return (
        f"both capsules have the runs of {run} in them, to which seeds were added: they"
        " are no evidence of themselves"
    )


@_refusal("counted-twice")
def counted_twice(*, capsule: str) -> str:
    """A verification was added to one that is beside it."""
    return f"{capsule[:12]} was added to the other one, which has its runs already"


@_refusal("one-seed-twice")
def one_seed_twice(*, side: str, runs: int, seeds: int) -> str:
    """Several runs of a side have one seed."""
    return f"the {side} has {runs} runs under {seeds} seeds: one seed, one run"


@_refusal("constant-runs")
def constant_runs(*, side: str, runs: int) -> str:
    """No seed changed the number."""
    return (
        f"all {runs} runs of the {side} have the same value under different"
        " seeds, so they are one run; a metric that no seed changes can be claimed exact"
    )


@_refusal("copied-values")
def copied_values() -> str:
    """The values are the original's."""
    return (
        "runs of the re-execution went through exactly the values of the original's under other"
        " seeds: they are copies, or no seed changes them, and neither is evidence"
    )


@_refusal("another-ruler")
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


@_refusal("another-recipe")
def another_recipe(*, fields: tuple[str, ...]) -> str:
    """Another training than the original's ran."""
    return (
        f"{', '.join(fields)} was set (--set): another recipe was trained than the"
        " original's, and only thresholds and bounds are claims about it"
    )
