"""Verdict on one original by several re-runs.

Each re-run is judged against the original by itself. The whole is REPRODUCED if all pairs are;
this needs no correction. DIFFERENT is corrected by Holm's method over the pairs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce

from capsule import stats
from capsule.diff import Side
from capsule.diff.several import Several, label
from capsule.sentences import Sentence, extend
from capsule.verdict import _EXIT_CODES, judge, rates, spread, words
from capsule.verdict.model import Verdict, Word
from capsule.verdict.spread import Spread


@dataclass(frozen=True, kw_only=True)
class JudgedPair:
    """The judgement of the original against one re-run.

    Attributes:
        label: Letter of the re-run; the original is A.
        verdict: Verdict of this pair alone.
        word: Word of the pair among all pairs: DIFFERENT only if it remains so after Holm's
            correction.
        alpha: Error rate that the p values are compared with.
        p_different: Smallest p value of the pair's DIFFERENT claims, adjusted for the pair's
            claims; None without such a claim.
        p_different_holm: The same p value, also adjusted for the number of pairs.
    """

    label: str
    verdict: Verdict
    word: Word
    alpha: float
    p_different: float | None
    p_different_holm: float | None


@dataclass(frozen=True, kw_only=True)
class SeveralVerdict:
    """The verdict on a capsule by several re-runs.

    Attributes:
        word: DIFFERENT if any re-run is DIFFERENT after Holm's correction over the re-runs;
            REPRODUCED if all re-runs are REPRODUCED; else INCONCLUSIVE.
        sentence: Reason, in one sentence.
        sides: The original, then the re-runs in the given order.
        pairs: Judgement of each re-run against the original, in the given order.
        metrics: Values of each claimed metric on all sides.
    """

    word: Word
    sentence: Sentence
    sides: tuple[Side, ...]
    pairs: tuple[JudgedPair, ...]
    metrics: tuple[Spread, ...]


def judge_several(several: Several) -> SeveralVerdict:
    """Judge every pair, then the whole; a pure function of the records."""
    verdicts = [
        replace(verdict, claims=rates.mark_chain(verdict.claims, len(several.pairs)))
        for verdict in map(judge, several.pairs)
    ]
    pairs = tuple(_with_holm(verdicts))
    word, sentence = _whole(pairs)
    sentence = reduce(_add_changes, pairs, sentence)
    return SeveralVerdict(
        word=word,
        sentence=sentence,
        sides=several.sides,
        pairs=pairs,
        metrics=tuple(spread.over(across, verdicts) for across in several.metrics),
    )


def exit_code(verdict: SeveralVerdict) -> int:
    """Return the exit code of `capsule diff` for several capsules; the same as for two."""
    return _EXIT_CODES[verdict.word]


def error_rate(verdict: SeveralVerdict) -> Sentence | None:
    """Return the rate of a wrong verdict, where DIFFERENT is corrected for the number of pairs."""
    claims = (one for pair in verdict.pairs for one in pair.verdict.claims)
    return rates.summarize(claims, is_of_pairs=True)


def _with_holm(verdicts: Sequence[Verdict]) -> Iterator[JudgedPair]:
    """Yield the pairs, their words corrected by Holm's method on p / alpha."""
    alphas = {claim.alpha for verdict in verdicts for claim in verdict.claims if claim.decisive}
    alpha = max(alphas, default=0.05)
    parts = [_least_part(verdict) for verdict in verdicts]
    p_values = [1.0 if part is None else min(1.0, part * alpha) for part in parts]
    for index, (verdict, p, adjusted) in enumerate(
        zip(verdicts, p_values, stats.holm(p_values), strict=True), 1
    ):
        differs = parts[index - 1] is not None
        chance = verdict.word == "DIFFERENT" and adjusted > alpha
        yield JudgedPair(
            label=label(index),
            verdict=verdict,
            word="INCONCLUSIVE" if chance else verdict.word,
            alpha=alpha,
            p_different=p if differs else None,
            p_different_holm=adjusted if differs else None,
        )


def _least_part(verdict: Verdict) -> float | None:
    """Return the smallest p value over alpha of the DIFFERENT primary claims."""
    parts = [
        max(claim.p_different_holm / claim.alpha, claim.p_among_others)
        for claim in verdict.claims
        if claim.decisive and claim.word == "DIFFERENT" and claim.p_different_holm is not None
    ]
    return min(parts, default=None)


def _add_changes(sentence: Sentence, pair: JudgedPair) -> Sentence:
    """Append what a re-run changed of the original's experiment."""
    told = tuple(note.sentence for note in pair.verdict.differences.changes)
    if not told:
        return sentence
    return extend(sentence, words.WHOLE("some-changed", label=pair.label, changes=told))


def _whole(pairs: Sequence[JudgedPair]) -> tuple[Word, Sentence]:
    if not any(claim.decisive for pair in pairs for claim in pair.verdict.claims):
        return "INCONCLUSIVE", words.WHOLE("no-primary-claims")
    different = tuple(pair.label for pair in pairs if pair.word == "DIFFERENT")
    if different:
        return "DIFFERENT", words.whole.some_differ(pairs=len(pairs), different=different)
    if all(pair.word == "REPRODUCED" for pair in pairs):
        return "REPRODUCED", words.whole.all_reproduced(pairs=len(pairs))
    reproduced = sum(pair.word == "REPRODUCED" for pair in pairs)
    chance = tuple(pair.label for pair in pairs if pair.verdict.word == "DIFFERENT")
    if chance:
        return "INCONCLUSIVE", words.WHOLE(
            "some-by-chance", pairs=len(pairs), reproduced=reproduced, alone=chance
        )
    return "INCONCLUSIVE", words.WHOLE("some-open", pairs=len(pairs), reproduced=reproduced)
