"""What a reader of a number or a verdict must know: a code for programs, a sentence for people."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Note:
    """Something that a reader must know.

    Attributes:
        code: A word that names the fact and stays the same, such as `uncontained`.
        sentence: The fact, with what it is about.
    """

    code: str
    sentence: str
