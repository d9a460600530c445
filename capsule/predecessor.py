"""Predecessor: the capsule that another one was made from without a verification."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from capsule.record import Record


class Predecessor(NamedTuple):
    """The capsule that another one was made of, as far as the other one carries it.

    Attributes:
        record: What it states.
        manifest: Its manifest-sha256.txt, which has the SHA-256 of each of its files.
        tag_manifest: Its tagmanifest-sha256.txt, whose SHA-256 is its id.
    """

    record: Record
    manifest: bytes
    tag_manifest: bytes
