"""The strict reader: the only way into a capsule, which is accepted whole or refused."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from io import BufferedWriter
from itertools import chain, islice
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from capsule import __version__, digest
from capsule.archive import (
    bag,
    codec,
    collectives,
    consistency,
    derived,
    escapes,
    limits,
    predecessors,
    whole,
)
from capsule.archive.bag import Source
from capsule.archive.derived import CARRIED
from capsule.archive.table import Below
from capsule.archive.whole import Hashing, Whole
from capsule.collector import pause_collector, return_memory
from capsule.digest import Digest
from capsule.errors import CannotRunError, DamagedError, ExecutionError, add_advice
from capsule.image import Image
from capsule.origin import predecessor_id
from capsule.predecessor import Predecessor
from capsule.record import Record
from capsule.sizes import size

if TYPE_CHECKING:
    from capsule.archive.texts import Quotation

GET_AGAIN = "get the capsule again from its author, and compare its id"
"""Remedy for a capsule that is damaged or contradicts itself."""
_CHANGED = "run the command again when no process writes to the capsule"
# of so many the memory is worth a millisecond
_MANY_FILES = 10_000
_SHOWN = 20
_REFUSED = 3


@dataclass(frozen=True, kw_only=True)
class Capsule:
    """An open capsule, whose files match their digests.

    Attributes:
        record: Data in the capsule.
        id: SHA-256 of the capsule's tagmanifest-sha256.txt, 64 hex digits: the id that a paper
            prints.
        path: Path of the file or folder.
        digests: Digest of every file below `data/`, by the path that the author gave the file.
        sizes: Size of every file in bytes, by the same path.
        escaped: Escaped path inside the capsule, by the author's path, for each file whose path
            needs escapes.
        source: Open zip or folder.
    """

    record: Record
    id: str
    path: Path
    digests: Mapping[str, Digest]
    sizes: Mapping[str, int]
    escaped: Mapping[str, str]
    source: Source

    def __enter__(self) -> Capsule:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the file; the record stays usable."""
        self.source.close()

    def facts(self) -> list[str]:
        """Return one sentence for each check that the capsule passed when capsule read it."""
        record = self.record
        facts = [
            f"id {self.id}",
            f"all {len(self.digests)} files ({size(sum(self.sizes.values()))}) present,"
            " SHA-256 verified",
            f"{len(record.attempts)} attempts and {len(record.samples)} series of samples fit the"
            " plan and the manifest",
            "results/metrics.json: identical when computed again from the samples",
            "README.md and the crate follow from the record"
            if record.tool == __version__
            else f"README.md and the crate not compared: written by capsule-hpc {record.tool}",
            f"claims as in the manifest: {len(record.claims)}",
        ]
        if record.manifest.reads_texts:
            from capsule.archive import texts

            if read := texts.count(record):
                facts.append(f"{read} series of samples match the texts that they were read from")
        if record.manifest.trains:
            from capsule.archive import exchanges, trainings

            facts.append(trainings.fact(record))
            facts += exchanges.facts(record)
        if record.manifest.reads_data:
            from capsule.archive import readings

            facts.append(readings.fact(record))
        facts += collectives.facts(record)
        for earlier in record.chain:
            facts.append(f"{earlier.runs} runs come from the earlier verification {earlier.id}")
        if (before := predecessor_id(record.origin)) is not None:
            facts.append(f"logs, evidence and other files match the predecessor {before}")
        if record.image:
            facts.append(_image_fact(record.image))
        if record.levels["digest"]:
            facts.append(f"levels/ has digest {record.levels['digest']}")
        signatures = sum(name.startswith("signatures/") for name in self.source.sizes)
        facts.append(f"{signatures} signatures, not checked" if signatures else "not signed")
        return facts

    def quotations(self) -> Iterator[tuple[Quotation, ...]]:
        """Yield the values that were read from text, grouped by metric, attempt and rank.

        Raises:
            DamagedError: A text was changed since the capsule was read.
        """
        from capsule.archive import texts

        for reading in texts.read_again(self.record, lambda name: (self.open(name),)):
            yield from texts.quote(reading)

    def line_counts(self) -> dict[str, tuple[int, int]]:
        """Count the matching lines of each metric that capsule reads from its last matching line.

        Returns:
            By metric, the smallest and the largest count per attempt among the first 100
            completed attempts; empty if the capsule has no such metric.

        Raises:
            DamagedError: A text was changed since the capsule was read.
        """
        record = self.record
        if not record.manifest.reads_texts:
            return {}
        from capsule.archive import texts

        return texts.count_lines(
            record.manifest,
            record.attempts,
            lambda name: (self.open(name),),
            before_whole=texts.took_parts(record),
        )

    def refused_values(self) -> list[str]:
        """Describe values that an older version read from text and this version would refuse.

        Returns:
            At most three sentences, then the number of further values; empty if this version would
            accept all values.

        Raises:
            DamagedError: A text was changed since the capsule was read.
        """
        if not self.record.manifest.reads_texts:
            return []
        from capsule.archive import texts

        sentences = list(texts.refused(self.record, lambda name: (self.open(name),)))
        told = sentences[:_REFUSED]
        more = len(sentences) - _REFUSED
        return told + ([f"and {more} more values"] if more > 0 else [])

    @add_advice(_CHANGED)
    def open(self, name: str) -> bytes:
        """Return the bytes of the file at a path below `data/`, and check the digest again.

        Raises:
            KeyError: The capsule has no file with this path.
            DamagedError: The file was changed since the capsule was read.
        """
        path, expected = self._place(name), self.digests[name]
        return b"".join(bag.read(self.source, path, expected=expected, where=str(self.path)))

    @add_advice(_CHANGED)
    def as_predecessor(self) -> Predecessor:
        """Return the record and digest lists of this capsule, for sealing in a derived capsule.

        Raises:
            DamagedError: The capsule was changed since it was read.
        """
        manifest, tags = (
            b"".join(self.source.chunks(name)) for name in (bag.MANIFEST, bag.TAG_MANIFEST)
        )
        where = str(self.path)
        digest.expect(
            digest.of_bytes(tags), Digest(hex=self.id), what=bag.TAG_MANIFEST, where=where
        )
        stated = bag.parse_manifest(tags, where=where)[bag.MANIFEST]
        digest.expect(digest.of_bytes(manifest), stated, what=bag.MANIFEST, where=where)
        return Predecessor(record=self.record, manifest=manifest, tag_manifest=tags)

    @add_advice(_CHANGED)
    def extract(self, prefix: str, target: Path) -> tuple[Path, ...]:
        """Write every file below a folder of the payload, and check each digest again.

        Args:
            prefix: Folder below `data/`, for example `levels`.
            target: Folder to write to, made if missing; existing files are not replaced.

        Returns:
            Paths of the written files, sorted by name; empty if the payload has no such folder.

        Raises:
            DamagedError: A file was changed since the capsule was read.
            ExecutionError: A file cannot be written.
            CannotRunError: This locale would change file names.
        """
        folder = f"{prefix.strip('/')}/"
        names = [name for name in self.digests if name.startswith(folder)]
        escapes.require_locale(names)
        return tuple(self._extract(name, target / name.removeprefix(folder)) for name in names)

    def _extract(self, name: str, path: Path) -> Path:
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with path.open("xb") as stream:
                try:
                    self._copy(name, stream)
                except BaseException:
                    path.unlink()
                    raise
        except OSError as error:
            raise ExecutionError(
                f"cannot write: {error.strerror}",
                where=str(path),
                advice="free some space, and run the command again",
            ) from None
        return path

    def _copy(self, name: str, stream: BufferedWriter) -> None:
        hasher = sha256()
        for chunk in self.source.chunks(self._place(name)):
            hasher.update(chunk)
            stream.write(chunk)
        copied = Digest(hex=hasher.hexdigest())
        digest.expect(copied, self.digests[name], what=name, where=str(self.path))

    def _place(self, name: str) -> str:
        return bag.PAYLOAD + self.escaped.get(name, name)


def read(path: Path, expected: str | None = None, hashing: Hashing | None = None) -> Capsule:
    """Read a capsule, zipped or unpacked into a folder; nothing is executed or written.

    Args:
        path: Path of the file or folder.
        expected: Required first digits of the id; None accepts any. The id is checked first.
        hashing: Hashing of the same file, if it was begun earlier.

    Raises:
        UsageError: The file does not exist.
        DamagedError: The capsule differs from the form that the writer gives it, or has another
            id. Missing, changed and surplus files are named.
        CannotRunError: The process has too little memory.
    """
    try:
        with pause_collector():
            return _open(whole.verify(path, expected) if hashing is None else hashing.result())
    except MemoryError:
        raise CannotRunError(
            "not enough memory to read the capsule",
            where=str(path),
            advice="raise the memory limit (ulimit -v), or use another machine",
        ) from None


@add_advice(GET_AGAIN)
def identify(path: Path, expected: str | None, *, where: str) -> str:
    """Return the id of a file that may be a capsule, without reading the rest.

    Args:
        path: Path of the file.
        expected: Required first digits of the id; None accepts any.
        where: Name of the file in messages.

    Raises:
        DamagedError: The file is no zip that the writer could have made, or has another id.
    """
    try:
        source = whole.open_source(path)
    except DamagedError as error:
        raise DamagedError(error.what, where=where, advice=error.advice) from None
    try:
        return bag.identify(source, expected, where=where)
    finally:
        source.close()


def _open(files: Whole) -> Capsule:
    try:
        return _read(files)
    except BaseException:
        files.source.close()
        raise


def _image_fact(image: Image) -> str:
    if image.identity.kind == "tree":
        return f"the image is a SIF, identified by its {image.identity}"
    return f"the image's digests form one chain from {image.identity}"


def _read(files: Whole) -> Capsule:
    path, source, digests = files.path, files.source, files.digests
    where = str(path)
    if len(digests) > _MANY_FILES:
        return_memory()
    payload: Mapping[str, Digest] = Below(digests, bag.PAYLOAD)
    names = _names(payload, where)
    escaped = {name: path for path, name in names.items()}
    sizes: Mapping[str, int] = Below(source.sizes, bag.PAYLOAD)
    load = _loader(source, payload, files.kept, where)
    record = _record(tuple(payload), load, where)
    own = predecessors.faults(record, payload, CARRIED, where=where)
    _refuse(list(islice(chain(consistency.faults(record), own), _SHOWN)), where)
    if names:
        payload = {names.get(path, path): one for path, one in payload.items()}
        sizes = {names.get(path, path): one for path, one in sizes.items()}
    _refuse(derived.faults(record, source, payload, sizes, escaped, load), where)
    return Capsule(
        record=record,
        id=digests[bag.TAG_MANIFEST].hex,
        path=path,
        digests=payload,
        sizes=sizes,
        escaped=escaped,
        source=source,
    )


def _names(payload: Iterable[str], where: str) -> dict[str, str]:
    """Return the author's names of files whose path in the capsule is escaped.

    Raises:
        DamagedError: The writer would have escaped a name otherwise, or refused it.
    """
    try:
        names = escapes.decode(path for path in payload if path.startswith(escapes.FOLDERS))
    except ValueError as error:
        raise DamagedError(
            f"another program wrote the list of file names: {error}",
            where=where,
            advice="download the capsule again from its publisher, and compare its id",
        ) from None
    return {path: name for path, name in names.items() if path != name}


def _record(payload: Sequence[str], load: Callable[[str], Iterable[bytes]], where: str) -> Record:
    budget = limits.Budget()
    record = codec.read(payload, load, where=where, budget=budget)
    before = predecessors.read(record, payload, load, where=where, budget=budget)
    return record if before is None else replace(record, predecessor=before)


def _loader(
    source: Source, payload: Mapping[str, Digest], kept: dict[str, bytes], where: str
) -> Callable[[str], Iterable[bytes]]:
    """Return a loader of files below `data/`; bytes in `kept` are released once read."""

    def load(name: str) -> Iterable[bytes]:
        path = bag.PAYLOAD + name
        if path in kept:
            return [kept.pop(path)]
        return bag.read(source, path, expected=payload[name], where=where)

    return load


def _refuse(faults: list[str], where: str) -> None:
    if faults:
        raise DamagedError(f"the capsule contradicts itself: {'; '.join(faults)}", where=where)
