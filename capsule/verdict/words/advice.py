"""Sentences of advice: what would decide an open claim."""

from __future__ import annotations

from capsule.diff.inability import Fault
from capsule.sentences import Sentence, Templates

ADVICE = Templates(Sentence)

MOST_RUNS = 500
_TOO_FEW = "no number of re-runs decides this: the original itself has "
_NEAR = f"the estimate sits on the margin: more than {MOST_RUNS} runs would be needed"
_Two = tuple[int | None, int | None]


def _higher(numbers: _Two) -> str:
    return "" if numbers[1] is None else f", {numbers[1]} with power 0.9"


ADVICE |= {
    "original-of-one-run": "no number of re-runs decides this: the original itself has one run",
    "looks-taken": "{runs:d} runs are the last of {looks:d} looks: the error rate allows no"
    " further one",
}


@ADVICE.template("runs")
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
        looks = f"planned look{'s' * (len(planned) > 1)}"
        parts.append(f"{named} as {looks}, judged at {planned_level:.3g}")
    if has_others:
        which = "others" if planned else "as no planned look"
        parts.append(f"{which}, judged at {other_level:.3g}")
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
        f"{_TOO_FEW}too few seeds, {pairs} pairs would decide with power 0.8"
        f"{_higher((pairs, pairs_surely))}"
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


ADVICE |= {
    "distance-on-margin": "the distance seen sits on the margin that is allowed",
}


@ADVICE.template("samples")
def samples(*, needed: _Two) -> str:
    """So many samples decide a claim on a distribution."""
    if needed[0] is None:
        return f"{_TOO_FEW}too few samples"
    return (
        f"{needed[0]} independent samples of the re-execution decide this with power 0.8"
        f"{_higher(needed)}, if the two distributions are equal"
    )


@ADVICE.template("failures")
def fewer_failures(*, now: int, needed: _Two) -> str:
    """So many runs make up for failures."""
    if needed[0] is None:
        return f"more than {MOST_RUNS} runs would be needed to make up for these failures"
    return (
        f"{needed[0]} runs of the re-execution in all (now {now}) make up for these failures"
        f" with power 0.8{_higher(needed)}, if further ones fail as often as the original's"
    )


@ADVICE.template("failure-margin")
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


@ADVICE.template("mend")
def mend(*, fault: Fault) -> str:
    """Advise how a claim that could not run can be run."""
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
