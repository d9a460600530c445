"""The strict reader, the one way into a capsule: whole, canonical and coherent, or refused."""

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
from capsule.errors import CannotRunError, DamagedError, ExecutionError
from capsule.image import Image
from capsule.origin import predecessor_id
from capsule.predecessor import Predecessor
from capsule.record import Record

if TYPE_CHECKING:
    from capsule.archive.texts import Quotation

# of so many the memory is worth a millisecond
_MANY_FILES = 10_000
_SHOWN = 20
_REFUSED = 3


@dataclass(frozen=True, kw_only=True)
class Capsule:
    """A capsule that was read and found whole.

    Attributes:
        record: What it states.
        id: SHA-256 of its tagmanifest-sha256.txt, 64 hex digits: what a paper prints.
        path: The file or folder.
        digests: Every file below `data/`, by its path there, as its author named it.
        sizes: Their sizes in bytes.
        escaped: What those paths are in the capsule that are not the same there.
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
        """Let go of the file; the record stays."""
        self.source.close()

    def facts(self) -> list[str]:
        """What reading it has shown to hold, one fact a line."""
        record = self.record
        facts = [
            f"id {self.id}",
            f"{len(self.digests)} files, {sum(self.sizes.values())} bytes, have the SHA-256 that"
            " the manifests give, and are all",
            f"{len(record.attempts)} attempts and {len(record.samples)} series of samples fit the"
            " plan and the manifest",
            "results/metrics.json follows from the samples",
            "README.md and the crate follow from the record"
            if record.tool == __version__
            else f"README.md and the crate, in the words of capsule-hpc {record.tool}, were not"
            " compared",
            f"claims are the manifest's: {len(record.claims)}",
        ]
        if record.manifest.reads_texts:
            from capsule.archive import texts

            if read := texts.count(record):
                facts.append(
                    f"{read} series of samples are what the texts give that they were read from"
                )
        if record.manifest.trains:
            from capsule.archive import exchanges, trainings

            facts.append(trainings.fact(record))
            facts += exchanges.facts(record)
        if record.manifest.reads_data:
            from capsule.archive import readings

            facts.append(readings.fact(record))
        facts += collectives.facts(record)
        for earlier in record.chain:
            facts.append(f"{earlier.runs} of its runs were made by the verification {earlier.id}")
        if (before := predecessor_id(record.origin)) is not None:
            facts.append(f"logs, evidence and what else it has of its predecessor are {before}'s")
        if record.image:
            facts.append(_image_fact(record.image))
        if record.levels["digest"]:
            facts.append(f"levels/ is {record.levels['digest']}")
        signatures = sum(name.startswith("signatures/") for name in self.source.sizes)
        facts.append(f"{signatures} signatures, not checked" if signatures else "not signed")
        return facts

    def quotations(self) -> Iterator[tuple[Quotation, ...]]:
        """The numbers that were read from texts, each metric's of one rank's attempt together.

        Raises:
            DamagedError: A text was changed since the capsule was read.
        """
        from capsule.archive import texts

        for reading in texts.read_again(self.record, lambda name: (self.open(name),)):
            yield from texts.quote(reading)

    def line_counts(self) -> dict[str, tuple[int, int]]:
        """Of how many lines the last one gave each metric: the fewest and the most of its runs.

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
        """Its values that today's rules of reading texts refuse, of an older capsule, as sentences.

        Raises:
            DamagedError: A text was changed since the capsule was read.
        """
        if not self.record.manifest.reads_texts:
            return []
        from capsule.archive import texts

        sentences = list(texts.refused(self.record, lambda name: (self.open(name),)))
        told = sentences[:_REFUSED]
        more = len(sentences) - _REFUSED
        return told + ([f"and {more} more of its values"] if more > 0 else [])

    def open(self, name: str) -> bytes:
        """The bytes of one file, by its path below `data/`, hashed again.

        Raises:
            KeyError: There is no such file.
            DamagedError: It was changed since the capsule was read.
        """
        path, expected = self._place(name), self.digests[name]
        return b"".join(bag.read(self.source, path, expected=expected, where=str(self.path)))

    def as_predecessor(self) -> Predecessor:
        """What a capsule that is made of this one carries of it.

        Raises:
            DamagedError: Its bag was changed since it was read.
        """
        manifest, tags = (
            b"".join(self.source.chunks(name)) for name in (bag.MANIFEST, bag.TAG_MANIFEST)
        )
        where = str(self.path)
        digest.expect(digest.of_bytes(tags), Digest(hex=self.id), what="its bag", where=where)
        stated = bag.parse_manifest(tags, where=where)[bag.MANIFEST]
        digest.expect(digest.of_bytes(manifest), stated, what=bag.MANIFEST, where=where)
        return Predecessor(record=self.record, manifest=manifest, tag_manifest=tags)

    def extract(self, prefix: str, target: Path) -> tuple[Path, ...]:
        """Write every file below a folder of the payload, hashed again on the way.

        Args:
            prefix: Folder below `data/`, for example `levels`.
            target: Folder that the files are put below; it is made when missing, and no file in
                it is replaced.

        Returns:
            The written files, in the order of their names; none when there is no such folder.

        Raises:
            DamagedError: A file was changed since the capsule was read.
            ExecutionError: A file cannot be written.
            CannotRunError: In this locale names would be other ones.
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
            raise ExecutionError(f"cannot be written: {error.strerror}", where=str(path)) from None
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
    """Read a capsule, zipped or as a folder of the same form; nothing is executed or written.

    Args:
        path: The file or folder.
        expected: How its id has to begin, None for any; anything else is looked at afterwards.
        hashing: Of the same file, where that was begun before.

    Raises:
        UsageError: There is no such file.
        DamagedError: Anything in it is not as the writer would have left it; every file that is
            missing, changed or surplus is named. Or it is another capsule.
        CannotRunError: It takes more memory than there is.
    """
    try:
        with pause_collector():
            return _open(whole.verify(path, expected) if hashing is None else hashing.result())
    except MemoryError:
        raise CannotRunError(
            "it takes more memory than this process may have",
            where=str(path),
            advice="allow it more (ulimit -v), or read it on another machine",
        ) from None


def identify(path: Path, expected: str | None, *, where: str) -> str:
    """The id of what may be a capsule, of which nothing else is read.

    Args:
        path: The file.
        expected: How the id has to begin, None for any.
        where: What it is called in messages.

    Raises:
        DamagedError: It is no zip that the writer could have made, or has another id.
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
        return f"the image is a SIF, known by its {image.identity}"
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
    """What their authors named files, by their paths below `data/`, where that is not the same.

    Raises:
        DamagedError: The writer would have written one otherwise, or not at all.
    """
    try:
        names = escapes.decode(path for path in payload if path.startswith(escapes.FOLDERS))
    except ValueError as error:
        raise DamagedError(
            f"no names that capsule writes: {error}",
            where=where,
            advice="get the capsule again from where it was published, and compare its id",
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
    """Gives the pieces of a file below `data/`; what was kept is let go of once it is read."""

    def load(name: str) -> Iterable[bytes]:
        path = bag.PAYLOAD + name
        if path in kept:
            return [kept.pop(path)]
        return bag.read(source, path, expected=payload[name], where=where)

    return load


def _refuse(faults: list[str], where: str) -> None:
    if faults:
        raise DamagedError(f"the capsule contradicts itself: {'; '.join(faults)}", where=where)
