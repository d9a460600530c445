"""Sentences of the verdict on a capsule, and on several re-runs."""

from __future__ import annotations

from capsule.diff.inability import Fault
from capsule.sentences import Sentence, Shape, Templates
from capsule.verdict.wording import count, every, shorten
from capsule.verdict.words.judgements import FAULTS

WHOLE = Templates(Sentence, short=Shape(str, shorten))

# of a capsule


WHOLE |= {
    "no-primary-claim": "the capsule makes no primary claim: a verdict needs at least one",
    "only-reported": "no primary claim is judged: all of them are reported only",
}


@WHOLE.template("differs")
def differs(*, claims: int, different: int, first: str) -> str:
    """Primary claims are DIFFERENT, after Holm.

    Args:
        claims: How many there are.
        different: How many of them are.
        first: The metric of the first.
    """
    name = first.rpartition("/")[2]
    if claims == 1:
        return f"{name} differs"
    verb = "differs" if different == 1 else "differ"
    return f"{different} of {claims} primary claims {verb} (after Holm's correction), first {name}"


@WHOLE.template("reproduced")
def reproduced(*, claims: int) -> str:
    """Every primary claim is REPRODUCED."""
    if claims == 1:
        return "the claim holds"
    return f"{every(claims, 'primary claims')} hold"


@WHOLE.template("unable")
def all_unable(*, claims: int, unable: int, fault: Fault) -> str:
    """Every re-run of some primary claims failed."""
    which = "the claim" if claims == 1 else f"{unable} of {claims} primary claims"
    return f"{which} could not be judged: every re-run failed, and {FAULTS[fault]}"


@WHOLE.template("chance")
def chance(*, claims: int, different: int) -> str:
    """Primary claims differ, and that may be chance."""
    verb = "differs" if different == 1 else "differ"
    return (
        f"{different} of {count(claims, 'primary claim')} {verb}, but not significantly after"
        f" Holm's correction for {claims} claims"
    )


@WHOLE.template("open")
def undecided(*, claims: int, reproduced: int) -> str:
    """Some primary claims are neither."""
    if claims == 1:
        return "1 claim undecided"
    return f"{claims - reproduced} of {claims} primary claims undecided, {reproduced} reproduced"


@WHOLE.template("not-run-here")
def not_run(*, claims: int, left_out: int, reproduced: int) -> str:
    """Some primary claims were not run on the device of the re-run.

    Args:
        claims: How many there are.
        left_out: How many of them were not run.
        reproduced: How many are REPRODUCED.
    """
    if claims == 1:
        return "the claim was not run here"
    undecided = claims - left_out - reproduced
    rest = f", {undecided} undecided" if undecided > 0 else ""
    return f"{left_out} of {claims} primary claims not run here, {reproduced} reproduced{rest}"


WHOLE |= {
    "failure": "; failed runs ended with: {last_line:short}",
}


@WHOLE.template("changed")
def changed(*, changes: tuple[str, ...]) -> str:
    """State what else than the sealed experiment was judged; stands behind a verdict's sentence."""
    return f". Compared: {', '.join(changes)}"


# of several re-runs


WHOLE |= {
    "no-primary-claims": "the original makes no primary claim: a verdict needs at least one",
}


@WHOLE.template("some-differ")
def some_differ(*, pairs: int, different: tuple[str, ...]) -> str:
    """Re-runs are DIFFERENT, after Holm."""
    verb = "differs" if len(different) == 1 else "differ"
    return (
        f"{len(different)} of {pairs} re-runs {verb} from the original (after Holm's correction for"
        f" {pairs} re-runs): {' and '.join(different)}"
    )


@WHOLE.template("all-reproduced")
def all_reproduced(*, pairs: int) -> str:
    """Every re-run reproduces the original."""
    return f"{every(pairs, 're-runs')} reproduce the original"


WHOLE |= {
    "some-by-chance": "{reproduced:d} of {pairs:d} re-runs reproduce the original; {alone:and}"
    " would differ alone, but not after Holm's correction for {pairs:d} re-runs",
    "some-open": "{reproduced:d} of {pairs:d} re-runs {reproduced:reproduces|reproduce} the"
    " original, none differs",
    "some-changed": ". {label} compared: {changes:list}",
}
