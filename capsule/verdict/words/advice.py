"""Sentences of advice: what would settle an undecided claim."""

from __future__ import annotations

from capsule.diff.inability import Fault
from capsule.sentences import Sentence, Templates

ADVICE = Templates(Sentence)

MOST_RUNS = 500
_HOPELESS = "more re-runs cannot settle this claim: the original has"
_TOO_FEW = (
    f"{_HOPELESS} too few runs. Ask the original's author to seal more seeds"
    " (`capsule lint CAPSULE` shows how many), or to widen the margin"
)
_NEAR = (
    f"the estimate lies on the margin: more than {MOST_RUNS} re-runs would be needed to settle this"
    " claim"
)
_Two = tuple[int | None, int | None]


def _chance(numbers: _Two) -> str:
    more = "" if numbers[1] in (None, numbers[0]) else f", {numbers[1]} with 90 %"
    return f"with 80 % chance{more}"


def _settle(now: int, numbers: _Two) -> str:
    return f"{numbers[0]} re-runs in all (now {now}) settle this claim {_chance(numbers)}"


ADVICE |= {
    "other-device": "to judge this claim, verify the author's capsule on the author's device,"
    " without --device",
    "original-of-one-run": "more re-runs cannot settle this claim: the original has only one"
    " run. Ask the original's author to seal more seeds",
    "looks-taken": "more re-runs cannot settle this claim: {runs:d} runs were the last of the"
    " {looks:d} looks that the error rate allows",
}


@ADVICE.template("runs")
def runs(*, now: int, as_seen: _Two, if_equal: _Two, is_near: bool) -> str:
    """So many runs decide a claim on a difference.

    Args:
        now: How many there are.
        as_seen: How many for either power, if the difference seen is the true one.
        if_equal: The same if there is no difference.
        is_near: Whether no number decides the former since it sits on the margin.
    """
    if as_seen[0] is not None:
        found = f"{_settle(now, as_seen)}, if the difference seen is the true one"
        if if_equal[0] is not None:
            found += f"; {if_equal[0]} {_chance(if_equal)}, if there is no true difference"
        return found
    if if_equal[0] is not None:
        other = (
            "no number of re-runs settles this claim"
            if is_near
            else "the original has too few runs"
        )
        return (
            f"{_settle(now, if_equal)}, if there is no true difference; if the difference seen is"
            f" the true one, {other}"
        )
    return _NEAR if is_near else _TOO_FEW


@ADVICE.template("levels")
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
        looks = "planned looks" if len(planned) > 1 else "a planned look"
        parts.append(f"{named}: {looks}, at level {planned_level:.3g}")
    if has_others:
        which = "the other numbers: " if planned else ""
        parts.append(f"{which}not a planned look, so at level {other_level:.3g}")
    return f" ({'; '.join(parts)})" if parts else ""


@ADVICE.template("pairs")
def more_pairs(*, pairs: int | None, pairs_surely: int | None) -> str:
    """So many seeds on both sides decide a paired claim.

    Args:
        pairs: For a power of 0.8, None where no number does.
        pairs_surely: For a power of 0.9.
    """
    if pairs is None:
        return _NEAR
    return (
        f"{_HOPELESS} too few seeds. {pairs} seeds on both sides would settle this claim"
        f" {_chance((pairs, pairs_surely))}"
    )


@ADVICE.template("rounds")
def rounds(*, now: int, as_seen: _Two, if_equal: _Two, most: int) -> str:
    """So many rounds of a pair decide its ratio; facts as of `runs`.

    Args:
        now: As of `runs`.
        as_seen: As of `runs`.
        if_equal: As of `runs`.
        most: How many one pair takes.
    """
    found = (
        "the ratio seen lies on the margin"
        if as_seen[0] is None
        else f"{as_seen[0]} rounds (now {now}) would settle this claim {_chance(as_seen)}, if"
        " the ratio seen is the true one"
    )
    if if_equal[0] is not None and as_seen[0] is None:
        found += (
            f"; {if_equal[0]} rounds (now {now}) would settle this claim {_chance(if_equal)}, if"
            " the sides are equal"
        )
    elif if_equal[0] is not None:
        found += f"; {if_equal[0]} {_chance(if_equal)}, if the sides are equal"
    elif as_seen[0] is None:
        found += ": use longer runs or a quieter machine"
    wanted = as_seen[0] or if_equal[0]
    if wanted is not None and wanted <= most:
        found += f" (`capsule pair --pairs {wanted}`)"
    elif wanted is not None:
        found += f"; one pair has at most {most} rounds: use longer runs or a quieter machine"
    return found


@ADVICE.template("failures")
def fewer_failures(*, now: int, needed: _Two) -> str:
    """So many runs make up for failures."""
    if needed[0] is None:
        return f"more than {MOST_RUNS} re-runs would be needed to outweigh these failures"
    return f"{_settle(now, needed)}, if further runs fail as often as the original's"


@ADVICE.template("failure-margin")
def failure_margin(*, now: int, needed: _Two, is_near: bool) -> str:
    """So many runs confirm a margin between rates of failures; facts as of `runs`."""
    if needed[0] is not None:
        return (
            f"{needed[0]} re-runs in all (now {now}) confirm the failure margin {_chance(needed)},"
            " if further runs fail as often as the original's"
        )
    if is_near:
        return f"more than {MOST_RUNS} re-runs would be needed to measure the failure rate"
    return f"{_HOPELESS} too few runs to measure the failure rate"


@ADVICE.template("mend")
def mend(*, fault: Fault) -> str:
    """Advise how a claim that could not run can be run."""
    found: dict[Fault, str] = {
        "seeds": "more re-runs cannot settle this claim. Ask the original's author to state in the"
        ' manifest the seeds that the benchmark accepts, for example "seed_range": [0, 4000000],'
        " or to accept every seed below 2^31",
        "machine": "install the software that the failed runs lack on this machine (see their logs"
        " in the capsule), then verify again",
        "unknown": "run `capsule verify`: its control run under a seed of the original shows"
        " whether the seeds or the machine are the cause",
    }
    return found[fault]
