"""Derived parts of a capsule, computed again from the record and its files, and compared."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice

from capsule import __version__, digest
from capsule.archive import (
    bag,
    codec,
    collectives,
    consistency,
    crate,
    limits,
    predecessors,
    readme,
    strict,
)
from capsule.archive.bag import Source
from capsule.archive.crate import Payload
from capsule.digest import Digest
from capsule.record import Record

# what a capsule carries besides what it states
CARRIED = ("inputs/", "levels/", "logs/", consistency.EVIDENCE, consistency.DATASETS)
# memory that two crates may take to be told in what they differ
_MOST_COMPARED_BYTES = 64 << 20
_LONGEST = 100
# of each file: its path, its size and its SHA-256
_LEAST_ENTITY_BYTES = 120
_OTHER_CRATE = f"{crate.NAME} contradicts the record and the files"
# what odd documents that fit their schema end in
_UNUSUAL = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
_SHOWN = 20


def faults(
    record: Record,
    source: Source,
    payload: Mapping[str, Digest],
    sizes: Mapping[str, int],
    escaped: Mapping[str, str],
    load: Callable[[str], Iterable[bytes]],
) -> list[str]:
    """Return the derived parts of a capsule that differ from those computed again.

    Args:
        record: What it states.
        source: Its files.
        payload: The digest of each below `data/`, by its path there, as its author named it, in
            the order of what those paths are in the capsule.
        sizes: Their sizes in bytes, in the same order.
        escaped: What those paths are in the capsule that are not the same there.
        load: Gives the pieces of a file that no author named.
    """
    differences: list[str | None] = [consistency.levels_fault(record, payload)]
    differences += islice(consistency.dataset_faults(record, payload, sizes), _SHOWN)
    evidence = list(consistency.evidence_faults(record, payload))
    differences += evidence or [
        *islice(_text_faults(record, load), _SHOWN),
        *islice(_training_faults(record, load), _SHOWN),
    ]
    info = bag.info(record, payload_bytes=sum(sizes.values()), payload_files=len(sizes))
    for name, expected in ((bag.INFO, info), (bag.BAGIT, bag.DECLARATION)):
        if b"".join(source.chunks(name)) != expected:
            differences.append(f"{name} contradicts the payload")
    if _is_other(codec.METRICS, codec.metrics(record), payload):
        differences.append("results/metrics.json contradicts the samples")
    stated = codec.names(record) | predecessors.names(record) | {readme.NAME, crate.NAME}
    differences += [f"data/{name} is missing" for name in sorted(stated - payload.keys())]
    differences += [
        f"data/{name} is unexpected in a capsule"
        for name in payload
        if name not in stated and not name.startswith(CARRIED)
    ]
    try:
        differences += _description_faults(record, payload, sizes, escaped, load)
    except _UNUSUAL as error:
        differences.append(
            f"capsule cannot build README.md and the crate from the record: {repr(error)[:200]}"
        )
    return [fault for fault in differences if fault]


def _text_faults(record: Record, load: Callable[[str], Iterable[bytes]]) -> Iterator[str]:
    if record.manifest.reads_texts:
        from capsule.archive import texts

        yield from texts.faults(record, load)


def _training_faults(record: Record, load: Callable[[str], Iterable[bytes]]) -> Iterator[str]:
    if record.manifest.trains:
        from capsule.archive import exchanges, trainings

        yield from trainings.faults(record, load)
        yield from exchanges.faults(record)
    if record.manifest.reads_data:
        from capsule.archive import readings

        yield from readings.faults(record)
    yield from collectives.faults(record)


def _is_other(name: str, due: Iterable[bytes], payload: Mapping[str, Digest]) -> bool:
    """Return whether a file that is there has other bytes than follow: its digest is known
    already.
    """
    return name in payload and payload[name] != digest.of_pieces(due)


def _description_faults(
    record: Record,
    payload: Mapping[str, Digest],
    sizes: Mapping[str, int],
    escaped: Mapping[str, str],
    load: Callable[[str], Iterable[bytes]],
) -> Iterator[str]:
    """Yield differences of README and crate from those that the writer would make."""
    if record.tool != __version__:
        # another release has other words for them; `facts` says that nobody compared
        return
    if _is_other(readme.NAME, readme.build(record, payload), payload):
        yield f"{readme.NAME} contradicts the record"

    def files() -> Iterator[Payload]:
        for (name, file_digest), size in zip(payload.items(), sizes.values(), strict=True):
            if name != crate.NAME:
                path = escaped.get(name, name)
                yield Payload(path=path, name=name, size_bytes=size, digest=file_digest)

    stated = dict(zip(payload, sizes.values(), strict=True)).get(crate.NAME)
    if stated is not None and stated < _LEAST_ENTITY_BYTES * len(payload):
        # to make the right one of so many files would take long
        yield _OTHER_CRATE
    elif _is_other(crate.NAME, crate.build(record, files), payload):
        yield _crate_fault(b"".join(load(crate.NAME)), lambda: b"".join(crate.build(record, files)))


def _crate_fault(data: bytes, make: Callable[[], bytes]) -> str:
    # the right one is not many times as long
    if limits.parsed_bytes(data) > _MOST_COMPARED_BYTES:
        return _OTHER_CRATE
    due = make()
    if limits.parsed_bytes(due) > _MOST_COMPARED_BYTES:
        return _OTHER_CRATE
    try:
        stated, follows = (
            crate.by_id(strict.parse(text, where=crate.NAME)) for text in (data, due)
        )
        wrong = sorted(
            name for name in stated.keys() | follows if stated.get(name) != follows.get(name)
        )
    except _UNUSUAL as error:
        return f"expected a flat RO-Crate in {crate.NAME}: {str(error)[:200]}"
    names = ", ".join(name[:_LONGEST] for name in wrong[:_SHOWN])
    if not names:
        return f"another program formatted {crate.NAME}: the data is as expected, the bytes differ"
    return f"{_OTHER_CRATE}: {names}"
