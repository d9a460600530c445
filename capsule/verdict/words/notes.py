"""Notes of a judgement: what else its reader must know."""

from __future__ import annotations

from typing import Literal

from capsule.notes import Note
from capsule.sentences import Shape, Templates
from capsule.verdict.wording import count, number

NOTES = Templates(
    Note.make, number=Shape(float, number), rough=Shape(float, lambda value: number(value, 2))
)

NOTES |= {
    "no-outcome": "interrupted trials of {side}, without an outcome: {runs:d}",
    "repeated-runs": "{runs:d} runs of {side} count as {independent:d}: the other runs have exactly"
    " the same values under other seeds. If no seed changes the metric, claim it as exact",
    "value-too-large": "{runs:d} {runs:run|runs} of {side} {runs:counts|count} as failed: a value"
    " is beyond {most:number}, the largest that can be judged",
}


@NOTES.template("earlier-runs-left-out")
def earlier_runs(*, runs: int | None, earlier: int) -> str:
    """A metric of a machine is not judged by all runs.

    Args:
        runs: How many were made now, None where the first verification's are judged.
        earlier: How many were made before.
    """
    if runs is None:
        return "judged by the first verification's runs: only they have the original's seeds"
    return (
        f"judged by the {runs} new runs: the {earlier} earlier runs may come from another machine"
        " or day"
    )


NOTES |= {
    "not-finite": "{values:d} of {runs:d} runs of {here} have a value that is not finite (first:"
    " {value:r}, seed {seed:d}); {there} has only finite values",
}


@NOTES.template("unequal-steps")
def unequal_steps(*, last: int, low: float, high: float) -> str:
    """Runs end at different steps."""
    evaluations = "last evaluation" if last == 1 else f"last {last} evaluations"
    return (
        f"the runs have their {evaluations} at different steps, from {number(low, 6)} to"
        f" {number(high, 6)}: each run is judged by its own {evaluations}"
    )


@NOTES.template("too-few-evaluations")
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
    found = "values without steps" if evaluations is None else str(evaluations)
    return (
        f"{short} of {count(runs, 'run')} of the {side} {verb} fewer"
        f" than {count(last, 'evaluation')} and count{'s' * (short == 1)} as failed; first:"
        f" seed {seed} with {found}"
    )


NOTES |= {
    "late-settling": "most runs of the {side} become steady late: use a longer warm-up",
    "unequal-failures": "{failures}",
    "runs-assumed": "the paper does not state its number of runs: capsule assumes {runs:d}",
    "consistent": "the re-run lies inside the original's prediction interval, which is too wide to"
    " confirm the margin",
    "paired-seeds": "{pairs:d} {are_rounds:rounds|runs} compared under equal seeds, as the claim"
    " requires",
    "rounds-in-blocks": "judged as {blocks:d} means of two rounds, one that each side began, so"
    " that going first favours no side",
}


@NOTES.template("planned-look")
def planned_look(*, place: int, planned: tuple[int, ...], level: float, alpha: float) -> str:
    """A judgement is a look that was planned.

    Args:
        place: Among the planned ones, from 1.
        planned: After how many re-run seeds.
        level: Of each look.
        alpha: Of all.
    """
    plan = ", ".join(map(str, planned))
    return (
        f"look {place} of {len(planned)} planned ({plan} seeds): level {number(level)}, so that all"
        f" looks together keep the error rate of {number(alpha)}"
    )


@NOTES.template("unplanned-look")
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
    at = f"level {number(level)} instead of {number(alpha)}"
    if is_alone:
        return f"{runs} runs without the earlier runs are not a planned look: {at}"
    plan = ", ".join(map(str, planned))
    return f"{runs} seeds are not a planned look ({plan}): {at}"


@NOTES.template("left-out")
def left_out(*, side: str, why: Literal["no metric", "no value", "quick", "device"]) -> str:
    """A side has no value of a metric."""
    lack = {
        "no metric": "does not measure this metric",
        "no value": "has no run with a value",
        "quick": "skipped this benchmark (--quick)",
        "device": "did not run this benchmark (--device)",
    }
    return f"{side} {lack[why]}: capsule leaves {side} out of spread and mean"


NOTES |= {
    "common-seeds": "{sides:and} used the same seeds: their runs are treated as dependent, which"
    " can only widen the interval",
    "unequal-spread": "the spread between runs differs between machines (Bartlett's p {p:rough},"
    " for normally distributed runs): one s_R does not describe all machines",
}
