"""Failures are an outcome too: a run without a value is counted, never left out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from capsule import stats
from capsule.diff import Pair, SeedRule
from capsule.diff.inability import Inability, last_lines
from capsule.diff.names import Names
from capsule.sentences import extend
from capsule.verdict import advising, words
from capsule.verdict.model import Judged

_KINDS: Mapping[SeedRule, Literal["fresh ", ""]] = {"fresh": "fresh ", "all": ""}
_SHARE = 0.25  # of a claim's error rate, where a run failed; the values keep the rest


def leave_open(blank: Judged, inability: Inability) -> Judged:
    """Leave a claim open whose runs all failed: failures do not contradict a number."""
    return replace(
        blank,
        failure=inability.last_line,
        fault=inability.fault,
        sentence=words.judgements.unable(
            seeds=inability.seeds,
            kind=_KINDS.get(blank.seeds, "the original's own "),
            last_line=inability.last_line,
            fault=inability.fault,
            controls=inability.controls,
        ),
        advice=advising.mend(inability.fault),
    )


def leave_unrun(blank: Judged, reason: str) -> Judged:
    """Leave a claim open that was not run or not judged because of the device."""
    sentence = words.JUDGEMENTS("not-run-here", reason=reason)
    unrun = replace(blank, look=None, sentence=sentence, notes=())
    if blank.word == "REPORTED":
        return unrun
    return replace(unrun, fault="device", advice=advising.OTHER_DEVICE)


def judge(blank: Judged, pair: Pair, judge_values: Callable[[Judged], Judged]) -> Judged:
    """The judgement of values by their own rule, and of how often either side gave none.

    Values and failures are two chances to be called DIFFERENT, so where a run failed on either
    side each has its own share of the level. REPRODUCED needs both and shares nothing.
    """
    judged = judge_values(blank)
    margin = pair.claim.pattern.failure_margin if pair.claim is not None else None
    failed = blank.original.failed or blank.rerun.failed
    if not failed and margin is None:
        return judged
    if failed and judged.word == "DIFFERENT":
        share = (1 - _SHARE) * blank.level
        judged = replace(judge_values(replace(blank, level=share)), level=blank.level)
    rates = _Rates.of(judged)
    p = rates.p_different(margin)
    share = _SHARE * judged.level
    if p <= share and p / share < judged.p_against_alpha:
        return replace(
            judged,
            word="DIFFERENT",
            method="failures",
            alpha_used=share,
            p_reproduced=None,
            p_different=p,
            failure=_last_line(pair),
            sentence=words.judgements.unequal_failures(
                failures=rates.word(judged.names), margin=margin, values=judged.sentence
            ),
            advice=None,
        )
    if margin is not None:
        return _confirm(judged, pair, rates, margin)
    return _allow(judged, pair, rates)


@dataclass(frozen=True, kw_only=True)
class _Rates:
    """Failed runs of each side, out of those with an outcome."""

    failed_a: int
    n_a: int
    failed_b: int
    n_b: int

    @classmethod
    def of(cls, judged: Judged) -> _Rates:
        a, b = judged.original, judged.rerun
        return cls(
            failed_a=a.failed, n_a=a.values + a.failed, failed_b=b.failed, n_b=b.values + b.failed
        )

    @property
    def counts(self) -> tuple[int, int, int, int]:
        return self.failed_a, self.n_a, self.failed_b, self.n_b

    def p_different(self, margin: float | None) -> float:
        """Of rates farther apart than the margin, or of unequal ones where none is claimed."""
        if margin is not None:
            return stats.p_past(*self.counts, margin)
        return 2 * min(
            stats.fisher_more(*self.counts),
            stats.fisher_more(self.failed_b, self.n_b, self.failed_a, self.n_a),
        )

    def word(self, names: Names) -> str:
        """State the failure rates of both sides."""
        return words.judgements.failures(
            failed=(self.failed_a, self.failed_b), runs=(self.n_a, self.n_b), names=names.runs
        )


def _confirm(judged: Judged, pair: Pair, rates: _Rates, margin: float) -> Judged:
    """REPRODUCED only where the rates are shown to be closer than the author's margin."""
    if judged.word != "REPRODUCED":
        return _note(judged, pair, rates)
    p = stats.p_within(*rates.counts, margin)
    failures = rates.word(judged.names)
    if judged.p_reproduced is not None and judged.alpha_used is not None:
        # each has its own level, and the worse of the two decides
        part = max(judged.p_reproduced / judged.alpha_used, p / judged.level)
        judged = replace(judged, p_reproduced=min(1.0, part * judged.alpha_used))
    if p <= judged.level:
        tail = words.JUDGEMENTS("failures-within", failures=failures, margin=margin)
        return replace(judged, sentence=extend(judged.sentence, tail))
    tail = words.JUDGEMENTS("failures-open", failures=failures, margin=margin)
    return replace(
        judged,
        word="INCONCLUSIVE",
        failure=_last_line(pair),
        sentence=extend(judged.sentence, tail),
        advice=advising.failure_margin(judged, *rates.counts, margin=margin),
    )


def _allow(judged: Judged, pair: Pair, rates: _Rates) -> Judged:
    """REPRODUCED unless the rates are so unequal that it is hardly chance."""
    if judged.word == "REPRODUCED" and stats.veto(*rates.counts):
        tail = words.JUDGEMENTS("failures-doubtful", failures=rates.word(judged.names))
        return replace(
            judged,
            word="INCONCLUSIVE",
            failure=_last_line(pair),
            sentence=extend(judged.sentence, tail),
            # both sides of a pair run again, and nobody knows which of them fails then
            advice=None if judged.seeds == "pair" else advising.failures(*rates.counts),
        )
    return _note(judged, pair, rates)


def _note(judged: Judged, pair: Pair, rates: _Rates) -> Judged:
    """The same judgement beside how often either side failed."""
    if not (judged.original.values and judged.rerun.values):
        judged = replace(judged, failure=_last_line(pair))
    if rates.failed_a * rates.n_b == rates.failed_b * rates.n_a:
        return judged
    note = words.NOTES("unequal-failures", failures=rates.word(judged.names))
    return replace(judged, notes=(*judged.notes, note))


def _last_line(pair: Pair) -> str | None:
    """Return the commonest last line of failed re-runs, or of failed originals if none failed."""
    for side in (pair.rerun, pair.original):
        lines = list(last_lines(side)) if side is not None else []
        if lines:
            return max(lines, key=lines.count)
    return None
