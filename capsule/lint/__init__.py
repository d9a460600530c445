"""What an author should know before a day of measuring.

lint.warnings(manifest)     what nobody will be able to conclude from it, in sentences
lint.warnings_of_runs(record)  what will hurt whoever re-executes a capsule, the gravest first
lint.outlook(manifest)      for each claim, what its number of runs lets anybody confirm
"""

from capsule.lint.advice import warnings
from capsule.lint.measured import warnings_of_runs
from capsule.lint.outlook import Outlook, outlook

__all__ = ["Outlook", "outlook", "warnings", "warnings_of_runs"]
