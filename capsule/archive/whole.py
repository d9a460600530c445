"""A capsule's files, held against its manifests: here, or beside what else is done."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from threading import Thread
from typing import NamedTuple

from capsule.archive import bag, codec, crate, predecessors, strangers
from capsule.archive.bag import Source
from capsule.archive.container import CHUNK, Zip
from capsule.archive.folder import Folder
from capsule.archive.limits import (
    MOST_BYTES,
    MOST_DOCUMENT_BYTES,
    MOST_LINES_BYTES,
    MOST_TAG_BYTES,
)
from capsule.archive.strict import MEMORY_IS_LIMITED
from capsule.digest import Digest
from capsule.errors import DamagedError, UsageError
from capsule.sizes import size

# so much of the documents is not read twice, less what the plan takes that is parsed beside them
_KEPT_BYTES = 48 << 20
_DOCUMENTS = frozenset(bag.PAYLOAD + name for name in codec.DOCUMENTS | {crate.NAME})
# these are compared by their digests
_COMPARED = frozenset(bag.PAYLOAD + name for name in (codec.METRICS, crate.NAME))
_ITS_DOCUMENTS = frozenset(bag.PAYLOAD + predecessors.PREFIX + name for name in codec.DOCUMENTS)
_TAGS = frozenset((bag.BAGIT, bag.INFO))


class Whole(NamedTuple):
    """A capsule whose files are those that its manifests list, and of which nothing is read yet.

    Attributes:
        path: The file or folder.
        digests: Digest of each file, by path; that of the tag manifest is the capsule's id.
        kept: The bytes of small documents, which need not be read twice.
    """

    path: Path
    source: Source
    digests: Mapping[str, Digest]
    kept: dict[str, bytes]


class Hashing:
    """`verify` in a thread of its own, while another capsule is read: hashing needs no interpreter.

    Nothing is said of what is wrong with it before `result` is asked for.

    Args:
        path: The file or folder.
        expected: How its id has to begin, None for any.
    """

    def __init__(self, path: Path, expected: str | None = None) -> None:
        self._path = path
        self._expected = expected
        self._whole: Whole | None = None
        self._error: BaseException | None = None
        self._abandoned = False
        # a thread takes more of what memory there is than it is worth
        self._thread = None if MEMORY_IS_LIMITED else self._start()

    def wait(self) -> None:
        """Let it end, well or not."""
        if self._thread is not None:
            self._thread.join()

    def result(self) -> Whole:
        """Return the capsule, once it is hashed; of whoever asks.

        Raises:
            UsageError: As `verify`.
            DamagedError: As `verify`.
        """
        if self._thread is None:
            return verify(self._path, self._expected)
        self.wait()
        if self._error is not None:
            raise self._error
        assert self._whole is not None
        whole, self._whole = self._whole, None
        return whole

    def close(self) -> None:
        """Stop, and let go of a capsule that nobody asked for."""
        self._abandoned = True
        self.wait()
        if self._whole is not None:
            self._whole.source.close()

    def _start(self) -> Thread | None:
        thread = Thread(target=self._verify, name="capsule-hashing", daemon=True)
        try:
            thread.start()
        except RuntimeError:
            # there may be no more of them
            return None
        return thread

    def _verify(self) -> None:
        try:
            self._whole = verify(self._path, self._expected, stop=lambda: self._abandoned)
        except BaseException as error:
            self._error = error


class _Abandoned(Exception):
    """Signal that the result of a hashing is no longer wanted."""


class _Watched:
    """Files that are no longer read once nobody wants them."""

    def __init__(self, source: Source, stop: Callable[[], bool]) -> None:
        self._source = source
        self._stop = stop
        self.sizes = source.sizes
        self.close = source.close

    def chunks(self, name: str, most: int = CHUNK) -> Iterator[bytes]:
        for chunk in self._source.chunks(name, most):
            if self._stop():
                raise _Abandoned
            yield chunk


def verify(
    path: Path, expected: str | None = None, *, stop: Callable[[], bool] = lambda: False
) -> Whole:
    """Hold the files of a capsule against its manifests; what they say is not looked at.

    Args:
        path: The file or folder.
        expected: How its id has to begin, None for any; anything else is looked at afterwards.
        stop: True if nobody wants to know any more.

    Raises:
        UsageError: There is no such file.
        DamagedError: It is no capsule, or another one, or one of its files is missing, changed or
            surplus, or larger than any that is read.
    """
    source, where = open_source(path), str(path)
    try:
        if expected is not None:
            bag.identify(source, expected, where=where)
        _refuse_large(source.sizes, where)
        digests, kept = bag.verify(_Watched(source, stop), where=where, keep=_small(source.sizes))
    except BaseException:
        source.close()
        raise
    return Whole(path=path, source=source, digests=digests, kept=kept)


def open_source(path: Path) -> Source:
    """Return the files of what may be a capsule.

    Raises:
        UsageError: There is no such file.
        DamagedError: It is no capsule that the writer could have made.
    """
    try:
        if path.is_dir():
            strangers.refuse_folder(path)
            return Folder(path)
        if not path.is_file():
            raise UsageError(
                "no such capsule", where=str(path), advice="give the path of an existing file"
            )
        strangers.refuse_file(path)
        return Zip(path)
    except OSError as error:
        if error.errno == errno.ENAMETOOLONG:
            raise UsageError(
                f"no such capsule: {error.strerror}",
                where=str(path),
                advice="give the path of an existing file",
            ) from None
        raise DamagedError(
            f"cannot read: {error.strerror}",
            where=str(path),
            advice="make the capsule readable, or give another copy of the capsule",
        ) from None


def _refuse_large(sizes: Mapping[str, int], where: str) -> None:
    """Stop before anything is hashed, where there is more than any capsule holds."""
    total = sum(sizes.values())
    if total > MOST_BYTES:
        raise DamagedError(
            f"the files have {size(total)} in total; the limit is {size(MOST_BYTES)}",
            where=where,
        )
    for path in sorted((_DOCUMENTS | _ITS_DOCUMENTS | _TAGS) & sizes.keys()):
        lines = path.endswith((codec.SAMPLES, codec.RANKS, codec.DEVICES, codec.ATTEMPTS))
        most = MOST_LINES_BYTES if lines else MOST_DOCUMENT_BYTES
        most = MOST_TAG_BYTES if path in _TAGS else most
        if sizes[path] > most:
            raise DamagedError(
                f"{path} has {size(sizes[path])}, the limit is {size(most)}", where=where
            )


def _small(sizes: Mapping[str, int]) -> set[str]:
    """Return documents to be kept from the time they are hashed until they are read, the small
    ones.
    """
    kept, left = set(), _KEPT_BYTES - sizes.get(bag.PAYLOAD + codec.PLAN, 0)
    for path in sorted(
        (_DOCUMENTS - _COMPARED) & sizes.keys(), key=lambda path: (sizes[path], path)
    ):
        left -= sizes[path]
        if left >= 0:
            kept.add(path)
    return kept
