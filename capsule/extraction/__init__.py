"""Numbers from untrusted text that a command printed, or wrote to its output folder.

    extraction.extract(metrics, texts) -> Extract   the values of metrics that say where they are
    extraction.select(metrics, rank, values)        which of them one rank's texts give
    extraction.take(pieces)                         a text, as much of it as is searched
    extraction.describe(name)                       a text's name, in words
    extraction.keep_scalars(data)                   of event files what is kept of them

Plain functions of bytes: a run reads a number by them, and whoever checks its capsule reads it
again, out of the same text.
"""

from capsule.extraction.events import keep_scalars
from capsule.extraction.extract import MOST_BYTES, Extract, describe, extract, select, take
from capsule.extraction.records import TooManyError
from capsule.extraction.values import Value

__all__ = [
    "MOST_BYTES",
    "Extract",
    "TooManyError",
    "Value",
    "describe",
    "extract",
    "keep_scalars",
    "select",
    "take",
]
