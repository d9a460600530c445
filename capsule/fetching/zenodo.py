"""Find the capsule among the files of a Zenodo record, whose JSON is untrusted."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import partial

from capsule import sizes
from capsule.errors import CannotRunError, DamagedError, UsageError, add_advice
from capsule.fetching.download import Source
from capsule.fetching.locations import Deposit
from capsule.fetching.web import Conversation
from capsule.jsons import Json
from capsule.schema import parse
from capsule.web import FAULTS, explain

_MOST_RECORD_BYTES = 4 << 20
_CHECKSUM = re.compile(r"(?P<algorithm>md5|sha256):(?P<hex>[0-9a-f]{32}|[0-9a-f]{64})")
_MOST_BYTES = 2**53 - 1
_CAPSULE, _ENDINGS = ".capsule.zip", (".capsule.zip", ".zip")
_SHOWN = 10


@add_advice("download the capsule from the page of the record, and give the path of the file")
def find(conversation: Conversation, deposit: Deposit) -> Source:
    """Ask for a record, and pick its capsule.

    Raises:
        UsageError: It holds several, and nobody said which.
        DamagedError: It is none of Zenodo's, or not the one that was asked for.
        CannotRunError: There is no such record, or it holds no capsule.
    """
    return choose(_read(conversation, deposit), deposit, conversation)


def choose(body: bytes, deposit: Deposit, conversation: Conversation) -> Source:
    """Return the capsule in a record.

    Args:
        body: The record's JSON.
        deposit: Which record it is to be.
        conversation: Judges and opens the file's address.

    Raises:
        UsageError: As for `find`, like the rest.
        DamagedError: As there.
        CannotRunError: As there.
    """
    where = deposit.name
    document = parse(body, where=where)
    if not isinstance(document, dict):
        raise DamagedError(
            f"expected a JSON object as the record, found {str(document)[:80]!r}", where=where
        )
    # a DOI of all versions leads to the record of the newest one
    names = [str(document.get(key)).lower() for key in ("doi", "conceptdoi")]
    if deposit.doi not in names:
        raise DamagedError(
            f"the server sent another record, with the DOI {document.get('doi')!r}, expected"
            f" {deposit.doi!r}",
            where=where,
        )
    key, entry = _choose(_files(document, where), deposit)
    links = entry.get("links")
    url = links.get("self") if isinstance(links, Mapping) else None
    size, checksum = entry.get("size"), entry.get("checksum")
    match = _CHECKSUM.fullmatch(checksum) if isinstance(checksum, str) else None
    # True is an integer to Python alone
    if not isinstance(url, str) or type(size) is not int or not 0 < size <= _MOST_BYTES:
        raise DamagedError(
            f"the record lacks a valid address or size of the file {key!r}: found address"
            f" {url!r:.80} and size {size!r:.40}",
            where=where,
        )
    if match is None or len(match["hex"]) != {"md5": 32, "sha256": 64}[match["algorithm"]]:
        raise DamagedError(
            f"the record lacks an MD5 or SHA-256 of the file {key!r}: found {checksum!r:.80}",
            where=where,
        )
    return Source(
        open=partial(conversation.open, conversation.require_address(url)),
        size_bytes=size,
        algorithm=match["algorithm"],
        digest=match["hex"],
    )


def _read(conversation: Conversation, deposit: Deposit) -> bytes:
    with conversation.open(deposit.api.url, accept="application/json") as response:
        try:
            body = bytearray()
            while piece := response.raw.read(1 << 14, decode_content=False):
                body += piece
                if len(body) > _MOST_RECORD_BYTES:
                    raise DamagedError(
                        f"the record exceeds {sizes.size(_MOST_RECORD_BYTES)}, the limit",
                        where=deposit.name,
                    )
        except FAULTS as error:
            raise CannotRunError(
                f"cannot download the record: {explain(error)}",
                where=deposit.name,
                advice="try again later",
            ) from None
    return bytes(body)


def _files(document: Mapping[str, Json], where: str) -> dict[str, Mapping[str, Json]]:
    entries = document.get("files")
    if not isinstance(entries, list) or not all(isinstance(one, dict) for one in entries):
        raise CannotRunError(
            "the record lists no files",
            where=where,
            advice="ask the publisher: the files may be closed or under embargo",
        )
    return {str(one.get("key")): one for one in entries if isinstance(one, dict)}


def _choose(
    files: Mapping[str, Mapping[str, Json]], deposit: Deposit
) -> tuple[str, Mapping[str, Json]]:
    capsules = next(
        (some for end in _ENDINGS if (some := [k for k in files if k.endswith(end)])), []
    )
    if len(capsules) == 1:
        return capsules[0], files[capsules[0]]
    names = ", ".join(sorted(capsules or files)[:_SHOWN])
    if not capsules:
        raise CannotRunError(
            f"no file of the record ends in {' or '.join(_ENDINGS)}; files: {names or 'none'}",
            where=deposit.name,
            advice="give the DOI of a record that contains a capsule",
        )
    page = deposit.api.url.replace("/api/records/", "/records/")
    raise UsageError(
        f"the record has {len(capsules)} capsules, expected one: {names}",
        where=deposit.name,
        advice=f"give the address of one file: {page}/files/NAME",
    )
