"""Warnings and outlooks for authors, from a manifest alone or from a sealed run.

lint.warnings(manifest)     what makes a valid manifest hard to verify, a sentence each
lint.warnings_of_runs(record)  the same from a capsule's own values, the gravest first
lint.spreads_of_runs(record)  for each claim, the spread of its runs
lint.outlook(manifest)      for each claim, what its number of runs can confirm
lint.outlook_of(claim, manifest)  the same for one claim
"""

from capsule.lint.advice import warnings
from capsule.lint.located import Located
from capsule.lint.measured import Spread, spreads_of_runs, warnings_of_runs
from capsule.lint.outlook import POWERS, Outlook, outlook, outlook_of
from capsule.lint.surroundings import is_relevant

__all__ = [
    "POWERS",
    "Located",
    "Outlook",
    "Spread",
    "is_relevant",
    "outlook",
    "outlook_of",
    "spreads_of_runs",
    "warnings",
    "warnings_of_runs",
]
