"""The capsule that another one was made of: what the other one carries of it, and holds it to.

Below `predecessor/` lie its documents and its two bag manifests, whose SHA-256 give its id. Its
inputs, program, logs and evidence lie where they lay, and are held to the digests that it gave.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from capsule import digest
from capsule.archive import bag, codec, consistency
from capsule.archive.limits import Budget
from capsule.digest import Digest
from capsule.errors import DamagedError
from capsule.origin import Extension, Original, predecessor_id
from capsule.predecessor import Predecessor
from capsule.record import Record

PREFIX = "predecessor/"
ADDED = "added/"
"""Folder, in those of logs and evidence, of what lies there of runs that were added."""
_ADDED = (f"logs/{ADDED}", f"{consistency.EVIDENCE}{ADDED}")
_SHOWN = 3
_TAGS = (bag.MANIFEST, bag.TAG_MANIFEST)


def documents(record: Record) -> dict[str, bytes]:
    """Return the documents of the predecessor, by path below `data/`; empty without one."""
    predecessor = record.predecessor
    if predecessor is None:
        return {}
    stated = codec.documents(predecessor.record)
    del stated[codec.METRICS]  # it follows from the samples
    tags = (predecessor.manifest, predecessor.tag_manifest)
    return {PREFIX + name: body for name, body in (*stated.items(), *zip(_TAGS, tags, strict=True))}


def names(record: Record) -> frozenset[str]:
    """Return the paths of `documents`, without making them."""
    if record.predecessor is None:
        return frozenset()
    stated = codec.names(record.predecessor.record) - {codec.METRICS}
    return frozenset(PREFIX + name for name in (*stated, *_TAGS))


def read(
    record: Record,
    payload: Sequence[str],
    load: Callable[[str], Iterable[bytes]],
    *,
    where: str,
    budget: Budget,
) -> Predecessor | None:
    """Return the predecessor that a capsule carries, None where its origin names none.

    Args:
        record: What the capsule states, without it.
        payload: Every path below `data/`.
        load: Gives the bytes of one of them, in pieces.
        where: The capsule's name in messages.
        budget: What is left of the memory that its documents may take.

    Raises:
        DamagedError: A document is missing, no strict JSON, or not what its schema asks.
    """
    if predecessor_id(record.origin) is None:
        return None
    present = [name.removeprefix(PREFIX) for name in payload if name.startswith(PREFIX)]
    absent = [name for name in _TAGS if name not in present]
    if absent:
        raise DamagedError(f"data/{PREFIX}{absent[0]} is missing", where=where)

    def load_its(name: str) -> Iterable[bytes]:
        return load(PREFIX + name)

    manifest, tag_manifest = (b"".join(load_its(name)) for name in _TAGS)
    return Predecessor(
        record=codec.read(present, load_its, where=f"{where}:{PREFIX[:-1]}", budget=budget),
        manifest=manifest,
        tag_manifest=tag_manifest,
    )


def faults(
    record: Record, payload: Mapping[str, Digest], carried: tuple[str, ...], *, where: str
) -> Iterator[str]:
    """Yield files of a capsule that contradict its predecessor's id, as sentences.

    Args:
        record: With its predecessor.
        payload: Path below `data/` to digest.
        carried: Folders of what lies where it lay in the predecessor.
        where: The capsule's name in messages.

    Raises:
        DamagedError: A bag manifest of the predecessor's is in another form.
    """
    before = record.predecessor
    if before is None:
        return
    own_id = predecessor_id(record.origin)
    if digest.of_bytes(before.tag_manifest).hex != own_id:
        found = digest.of_bytes(before.tag_manifest).hex
        yield f"the copy of the predecessor has the id {found}, expected {own_id}"
        return
    tags = bag.parse_manifest(before.tag_manifest, where=f"{where}:{PREFIX}{bag.TAG_MANIFEST}")
    if (due := tags.get(bag.MANIFEST)) != (stated_digest := digest.of_bytes(before.manifest)):
        yield (
            f"{PREFIX}{bag.MANIFEST} has digest {stated_digest}, expected {due or 'none'} as in"
            f" {PREFIX}{bag.TAG_MANIFEST}"
        )
        return
    files = bag.parse_manifest(before.manifest, where=f"{where}:{PREFIX}{bag.MANIFEST}")
    stated = codec.names(before.record) - {codec.METRICS}
    changed = []
    for path, file_digest in files.items():
        name = path.removeprefix(bag.PAYLOAD)
        here = name if name.startswith(carried) else PREFIX + name
        if (name.startswith(carried) or name in stated) and payload.get(here) != file_digest:
            changed.append(here)
    changed += [PREFIX + name for name in stated if bag.PAYLOAD + name not in files]
    if changed:
        yield f"files differ from those of capsule {own_id}: {', '.join(sorted(changed)[:_SHOWN])}"
    may_have_more = _ADDED if isinstance(record.origin, Extension) else ()
    more = [
        name
        for name in payload
        if name.startswith(carried)
        and bag.PAYLOAD + name not in files
        and not name.startswith(may_have_more)
    ]
    if more:
        yield f"found files that capsule {own_id} lacks: {', '.join(sorted(more)[:_SHOWN])}"
    if not isinstance(before.record.origin, Original):
        yield f"the predecessor is of kind {before.record.origin.kind}, expected {Original.kind}"
    for fault in consistency.faults(before.record):
        yield f"the predecessor contradicts itself: {fault}"
