"""Sentences of a judgement by their codes: a table each.

JUDGEMENTS  of a claim, by its type or by what kept it from being judged
NOTES       what else a reader of a judgement must know
WHOLE       of a capsule, and of several re-runs
ADVICE      what would decide an open claim
SPREADS     of a metric over several machines
RATES       how often a word is wrong, and which claims have no such rate
"""

from capsule.verdict.words import advice, judgements, notes, rates, spreads, whole
from capsule.verdict.words.advice import ADVICE
from capsule.verdict.words.judgements import JUDGEMENTS
from capsule.verdict.words.notes import NOTES
from capsule.verdict.words.rates import RATES
from capsule.verdict.words.spreads import SPREADS
from capsule.verdict.words.whole import WHOLE

__all__ = [
    "ADVICE",
    "JUDGEMENTS",
    "NOTES",
    "RATES",
    "SPREADS",
    "WHOLE",
    "advice",
    "judgements",
    "notes",
    "rates",
    "spreads",
    "whole",
]
