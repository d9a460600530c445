"""What a reader of numbers must know beside them: a code for programs, a sentence for people."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Note:
    """One remark.

    Attributes:
        code: What kind it is, in words joined by `-`: what programs decide by, and never reworded.
        sentence: The same for people, with the values of this case.

    >>> Note(code="images-differ", sentence="the images differ").code
    'images-differ'
    """

    code: str
    sentence: str


def sentences(notes: tuple[Note, ...]) -> tuple[str, ...]:
    """What is printed of some notes."""
    return tuple(note.sentence for note in notes)
