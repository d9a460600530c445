"""Sentences of the verdict on a capsule, and on several re-executions."""

from __future__ import annotations

from capsule.diff.inability import Fault
from capsule.sentences import Sentence, Shape, Templates
from capsule.verdict.wording import count, every, shorten
from capsule.verdict.words.judgements import FAULTS

WHOLE = Templates(Sentence, short=Shape(str, shorten))

# of a capsule


WHOLE |= {
    "no-primary-claim": "the capsule makes no primary claim, so there is nothing to decide",
}


@WHOLE.template("differs")
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


@WHOLE.template("reproduced")
def reproduced(*, claims: int) -> str:
    """Every primary claim is REPRODUCED."""
    if claims == 1:
        return "the only primary claim is reproduced"
    return f"{every(claims, 'primary claims')} are reproduced"


@WHOLE.template("unable")
def all_unable(*, claims: int, unable: int, fault: Fault) -> str:
    """Every re-run of some primary claims failed."""
    which = "the only primary claim" if claims == 1 else f"{unable} of {claims} primary claims"
    return f"{which} could not be judged, as every re-run failed: {FAULTS[fault]}"


@WHOLE.template("chance")
def chance(*, claims: int, different: int) -> str:
    """Primary claims differ, and that may be chance."""
    verb = "differs" if different == 1 else "differ"
    return (
        f"{different} of {count(claims, 'primary claim')} {verb}, but not after Holm's correction"
        f" for {claims} chances to err"
    )


@WHOLE.template("open")
def undecided(*, claims: int, reproduced: int) -> str:
    """Some primary claims are neither."""
    if claims == 1:
        return "the only primary claim is neither reproduced nor different"
    return f"{reproduced} of {claims} primary claims reproduced, none different"


WHOLE |= {
    "failure": "; failed runs ended with: {last_line:short}",
}


@WHOLE.template("changed")
def changed(*, changes: tuple[str, ...]) -> str:
    """State what was changed from the original; stands after the sentence of a verdict."""
    return "".join(f", {change}" for change in changes)


# of several re-executions


WHOLE |= {
    "no-primary-claims": "the original makes no primary claim, so there is nothing to decide",
}


@WHOLE.template("some-differ")
def some_differ(*, pairs: int, different: tuple[str, ...]) -> str:
    """Re-executions are DIFFERENT, after Holm."""
    verb = "differs" if len(different) == 1 else "differ"
    return (
        f"{len(different)} of {pairs} re-executions {verb} from the original after Holm over"
        f" {pairs} pairs: {' and '.join(different)}"
    )


@WHOLE.template("all-reproduced")
def all_reproduced(*, pairs: int) -> str:
    """Every re-execution reproduces the original."""
    return f"{every(pairs, 're-executions')} reproduce the original"


WHOLE |= {
    "some-by-chance": "{reproduced:d} of {pairs:d} re-executions reproduce the original;"
    " {alone:and} alone would differ, but not after Holm's correction for {pairs:d} pairs",
    "some-open": "{reproduced:d} of {pairs:d} re-executions {reproduced:reproduces|reproduce} the"
    " original, none differs",
    "some-changed": "; {label} {changes:list}",
}
