"""What tells where a published capsule lies: records of Zenodo, and manifests of artifacts."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random

from capsule.digest import Digest
from capsule.fetching import locations, web, zenodo
from capsule.fetching.locations import Deposit
from capsule.image import documents
from tests.fuzz import mutate
from tests.fuzz.campaign import Door
from tests.support import publishing

_BODY = b"PK\x03\x04 and so on"


def make(random: Random) -> bytes:
    """A record or a manifest, changed; the first byte tells which of the two it is."""
    is_record = random.random() < 0.6
    document = (
        publishing.record("https://zenodo.org", _BODY)
        if is_record
        else json.loads(publishing.artifact(_BODY))
    )
    data = json.dumps(mutate.document(document, random, random.choice((1, 1, 2, 5)))).encode()
    if random.random() < 0.1:
        data = mutate.text(data, random)
    return (b"r" if is_record else b"m") + data


def send(data: bytes, folder: Path) -> None:
    """Read it; of what is taken, address, size and digest are such as may be asked for."""
    if data[:1] != b"r":
        blob = documents.read_artifact(data[1:], where="artifact")
        assert blob.size_bytes >= 0
        Digest.parse(str(blob.digest))
        return
    deposit = locations.parse(publishing.DOI)
    assert isinstance(deposit, Deposit)
    with web.Conversation(deposit.api) as conversation:
        source = zenodo.choose(data[1:], deposit, conversation)
    (url,) = source.open.args  # type: ignore[attr-defined]
    assert url.startswith("https://")
    assert source.size_bytes is not None
    assert 0 < source.size_bytes < 2**53
    assert len(source.digest) in (32, 64)


PUBLISHED = Door(name="published", make=make, send=send)
