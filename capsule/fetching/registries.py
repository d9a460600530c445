"""Find the one blob of an artifact in a registry."""

from __future__ import annotations

from functools import partial

from capsule.digest import expect, of_bytes
from capsule.errors import add_advice
from capsule.fetching.download import Source
from capsule.fetching.locations import Artifact
from capsule.image import documents
from capsule.image.transfer import Transfer

_MOST_MANIFEST_BYTES = 4 << 20


def converse(location: Artifact) -> Transfer:
    """Return a conversation with its registry."""
    return Transfer(location.reference, subject="capsule")


@add_advice("try again; if the error returns, ask the publisher of the capsule")
def find(transfer: Transfer, location: Artifact) -> Source:
    """Ask for an artifact's manifest, and take the one blob that it names.

    Raises:
        DamagedError: It is not what its digest names, or not as its specification asks.
        CannotRunError: There is none, or it is an image.
    """
    reference = location.reference
    answer = transfer.get(
        f"manifests/{reference.tag_or_digest}",
        accept=", ".join((*documents.MANIFESTS, *documents.INDEXES)),
        limit_bytes=_MOST_MANIFEST_BYTES,
    )
    if reference.digest is not None:
        expect(
            of_bytes(answer.body), reference.digest, what="the served manifest", where=location.name
        )
    blob = documents.read_artifact(answer.body, where=location.name)
    return Source(
        open=partial(transfer.open, f"blobs/{blob.digest}", accept="*/*"),
        size_bytes=blob.size_bytes,
        digest=blob.digest.hex,
    )
