"""The judgement: facts about two records and margins frozen long before, to words with error rates.

REPRODUCED     the shift lies inside the frozen margin
DIFFERENT      the shift lies outside it
INCONCLUSIVE   neither can be said at the stated error rate; with advice where some helps
REPORTED       a ratio that nobody claimed anything about
SKIPPED        not run, as a quick verification leaves out what decides nothing

verdict.freeze(claims, run values) -> FrozenClaim, ...      once, when a capsule is sealed
verdict.advise_runs(record, there) -> int | None            how many fresh seeds to have next
verdict.advise_further(verdict) -> Further | None           what more decides what is open
verdict.judge(differences) -> Verdict                       every time two capsules are compared
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from capsule import quick, stats
from capsule.diff import Differences
from capsule.freezing import freeze
from capsule.notes import Note
from capsule.sentences import Sentence, extend
from capsule.verdict import claim, rates, words
from capsule.verdict.further import Further, advise_further
from capsule.verdict.model import (
    POWERS,
    Advice,
    ClaimWord,
    Counts,
    Judged,
    Look,
    Verdict,
    Word,
)
from capsule.verdict.starting import advise_runs

__all__ = [
    "POWERS",
    "Advice",
    "ClaimWord",
    "Counts",
    "Further",
    "Judged",
    "Look",
    "Verdict",
    "Word",
    "advise_further",
    "advise_runs",
    "exit_code",
    "freeze",
    "judge",
]

_EXIT_CODES: Mapping[Word, int] = {"REPRODUCED": 0, "DIFFERENT": 1, "INCONCLUSIVE": 3}


def judge(differences: Differences) -> Verdict:
    """Judge every claim, then the capsule. A pure function: no clock, no chance, no order.

    A claim is judged at the level of one of its planned looks, which its number of re-run seeds
    tells: a number that is not planned counts as a further look of a plan of five.
    """
    judged = [claim.judge(pair) for pair in differences.pairs]
    claims = rates.mark(
        _with_holm([one for one in judged if one.claim is not None]),
        [pair for pair in differences.pairs if pair.claim is not None],
        verifications=1 + len(differences.rerun.added),
    )
    word, sentence = _capsule(claims)
    return Verdict(
        word=word,
        sentence=_add_changes(sentence, differences.changes),
        claims=tuple(claims),
        reported=tuple(one for one in judged if one.claim is None),
        differences=differences,
    )


def exit_code(verdict: Verdict) -> int:
    """Return the exit code of `capsule verify` and `capsule diff`."""
    return _EXIT_CODES[verdict.word]


def _with_holm(claims: Sequence[Judged]) -> list[Judged]:
    """Add Holm's adjusted p of DIFFERENT to the primary claims, each against its claim's alpha.

    Claims may differ in alpha, and some use half of it: Holm is done on p / (alpha in use). A claim
    among others needs a p that is right far below its alpha; one alone is held against alpha only.
    """
    primary = [one for one in claims if one.decisive]
    if not primary:
        return list(claims)
    base = max(one.alpha for one in primary)
    parts = [one.p_among_others if len(primary) > 1 else one.p_against_alpha for one in primary]
    scaled = [min(1.0, part * base) for part in parts]
    adjusted = dict(zip(map(id, primary), stats.holm(scaled), strict=True))
    return [
        replace(one, p_different_holm=min(1.0, adjusted[id(one)] * one.alpha / base))
        if id(one) in adjusted
        else one
        for one in claims
    ]


def _name(one: Judged) -> str:
    value = one.claim.pattern.value if one.claim is not None else ""
    return f"{one.metric}, {value}" if value else one.metric


def _capsule(judged: Sequence[Judged]) -> tuple[Word, Sentence]:
    primary = [one for one in judged if one.decisive]
    claims = len(primary)
    if not primary:
        is_claimed = any(one.claim is not None and quick.decides(one.claim) for one in judged)
        return "INCONCLUSIVE", words.WHOLE("only-reported" if is_claimed else "no-primary-claim")
    different = [one for one in primary if one.word == "DIFFERENT"]
    beyond_chance = [
        one
        for one in different
        if one.p_different_holm is not None and one.p_different_holm <= one.alpha
    ]
    if beyond_chance:
        sentence = words.whole.differs(
            claims=claims, different=len(beyond_chance), first=_name(beyond_chance[0])
        )
        return "DIFFERENT", _add_failure(sentence, beyond_chance[:1])
    if all(one.word == "REPRODUCED" for one in primary):
        return "REPRODUCED", words.whole.reproduced(claims=claims)
    if different:
        return "INCONCLUSIVE", words.whole.chance(claims=claims, different=len(different))
    faults = [one.fault for one in primary if one.fault is not None and one.fault != "device"]
    if faults:
        sentence = words.whole.all_unable(claims=claims, unable=len(faults), fault=faults[0])
        return "INCONCLUSIVE", _add_failure(
            sentence, [one for one in primary if one.fault is not None]
        )
    reproduced = sum(one.word == "REPRODUCED" for one in primary)
    if left_out := sum(one.fault == "device" for one in primary):
        sentence = words.whole.not_run(claims=claims, left_out=left_out, reproduced=reproduced)
        return "INCONCLUSIVE", sentence
    sentence = words.whole.undecided(claims=claims, reproduced=reproduced)
    return "INCONCLUSIVE", _add_failure(sentence, primary)


def _add_failure(sentence: Sentence, claims: Sequence[Judged]) -> Sentence:
    """The same with how the failed runs ended, where they decide one of these claims."""
    lines = [one.failure for one in claims if one.failure is not None]
    return extend(sentence, words.WHOLE("failure", last_line=lines[0])) if lines else sentence


def _add_changes(sentence: Sentence, changes: Sequence[Note]) -> Sentence:
    """The same with what was changed of the experiment that it judges."""
    told = tuple(note.sentence for note in changes)
    return extend(sentence, words.whole.changed(changes=told)) if told else sentence
