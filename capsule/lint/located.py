"""Warnings with the place in the manifest that each is about."""

from __future__ import annotations

from capsule.sentences import Sentence


class Located(Sentence):
    """A warning, and where the manifest has what it is about.

    Attributes:
        pointer: JSON pointer into the manifest, empty for the manifest as a whole.
    """

    pointer: str

    @classmethod
    def at(cls, pointer: str, sentence: Sentence) -> Located:
        """Return a sentence with its place."""
        made = cls(str(sentence), sentence.code, sentence.facts)
        made.pointer = pointer
        return made
