"""Fetch datasets by their addresses, and keep them where a run finds data by its digest."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Literal
from urllib.parse import unquote, urlsplit

from capsule import leavings, placeholders, places, sizes
from capsule.datasets import find, hashing
from capsule.datasets.hashing import DatasetDigest, Progress
from capsule.datasets.unpack import unpack
from capsule.errors import CannotRunError, DamagedError, UsageError
from capsule.manifest import DatasetSpec
from capsule.record import Dataset
from capsule.site import Site

if TYPE_CHECKING:
    from capsule.web import Source

MOST_BYTES = 100 << 30
_MOST_FILES = 2_000_000
# an archive of a dataset of known size has names and headers besides
_ENTRY_BYTES, _SPARE_BYTES = 4096, 1 << 20
_PLAIN = re.compile(r"[A-Za-z0-9_+][A-Za-z0-9._+-]{0,99}")

State = Literal["here", "fetched", "carried", "generated", "missing"]


@dataclass(frozen=True, kw_only=True)
class Fetched:
    """Result of fetching one dataset.

    Attributes:
        name: In the manifest.
        state: True if it was here, came, needs nothing, or is missing.
        digest: Digest of the present files; None without any.
        bytes: Size of all present files; None without any.
        path: Where it is, None where nothing is or a capsule carries it.
        url: Its address.
        sentence: What is to be done, None for nothing.
    """

    name: str
    state: State
    digest: str | None = None
    bytes: int | None = None
    path: Path | None = None
    url: str | None = None
    sentence: str | None = None


def fetch(
    spec: DatasetSpec,
    *,
    used: Dataset | None,
    folder: Path | None,
    site: Site,
    cache: Path,
    most_bytes: int = MOST_BYTES,
    own: bool = True,
    progress: Progress | None = None,
) -> Fetched:
    """Have a dataset here: look for it, and fetch it where it is not.

    Args:
        spec: What the manifest says of it.
        used: What a capsule says of it, None for a manifest's.
        folder: Where relative paths start; None for a capsule.
        site: This machine's settings.
        cache: Folder that it is kept in.
        most_bytes: That may come, and be unpacked, where nobody says how large it is.
        own: True if the address is this user's, False if untrusted.
        progress: Called with (bytes done, bytes in all, or 0 while nobody knows).

    Raises:
        DamagedError: What lies here or came is something else than the digest says, larger than it
            may be, or no archive that can be unpacked.
        CannotRunError: It cannot be fetched or written; what came is kept for the next call.
    """
    if spec.generator is not None:
        return Fetched(name=spec.name, state="generated")
    if used is not None and used.embedded:
        return Fetched(name=spec.name, state="carried", digest=used.digest, bytes=used.bytes)
    spec = replace(spec, digest=used.digest if used else spec.digest)
    if (here := _look(spec, folder, site, cache)) is not None:
        return here
    if spec.url is None:
        return Fetched(name=spec.name, state="missing", sentence=_by_hand(spec, site))
    limit = _Limit.of(used, most_bytes, unpacks=spec.unpack)
    with _work_folder(spec.url, cache) as (work, waited):
        if waited and (here := _look(spec, folder, site, cache)) is not None:
            return here
        source: Source = "own" if own else "foreign"
        actual, path = _fetch(spec, work, cache, limit, source, progress)
    fetched = _describe(spec, "fetched", path, str(actual.digest), actual.bytes)
    if spec.digest is None:
        return replace(fetched, sentence=f'write down "digest": "{actual.digest}"')
    return fetched


def _look(spec: DatasetSpec, folder: Path | None, site: Site, cache: Path) -> Fetched | None:
    """Return the dataset if it is present; a changed copy is set aside."""
    place = find.locate(spec, folder=folder, site=site, cache=cache)
    if place is None:
        return None
    try:
        dataset, path = find.obtain(spec, folder=folder, site=site, cache=cache)
    except DamagedError:
        if place.source != "fetched":
            raise
        shutil.rmtree(place.path.parent, ignore_errors=True)
        return None
    return _describe(spec, "here", path, dataset.digest, dataset.bytes)


@dataclass(frozen=True, kw_only=True)
class _Limit:
    """Limits on the size of a download and of its unpacked files."""

    download_bytes: int
    bytes: int
    files: int

    @classmethod
    def of(cls, used: Dataset | None, most_bytes: int, *, unpacks: bool) -> _Limit:
        if used is None:
            return cls(download_bytes=most_bytes, bytes=most_bytes, files=_MOST_FILES)
        headers = used.files * _ENTRY_BYTES + _SPARE_BYTES if unpacks else 0
        # what lies beside the one folder that counts, such as a licence, comes too
        return cls(
            download_bytes=used.bytes + headers,
            bytes=used.bytes + headers,
            files=4 * used.files + _MOST_FILES // 1000,
        )


def _fetch(
    spec: DatasetSpec,
    work: Path,
    cache: Path,
    limit: _Limit,
    source: Source,
    progress: Progress | None,
) -> tuple[DatasetDigest, Path]:
    assert spec.url is not None
    # with its HTTP client, which is a quarter of every other command's start
    from capsule.datasets.download import download

    content = download(
        spec.url,
        work,
        most_bytes=limit.download_bytes,
        trusts_bytes=spec.digest is not None,
        source=source,
        progress=progress,
    )
    try:
        page = _explain_page(content, spec)
        if page is not None and spec.digest is None:
            raise page
        try:
            made = _unpack(content, spec, work, limit) if spec.unpack else content
            actual, made = _check(made, spec, cache)
        except DamagedError as error:
            raise page or error from None
    except DamagedError:
        # whatever it is, more of it helps nobody
        places.remove_and_release(work)
        raise
    return actual, _keep(made, spec, actual, work, cache)


def _explain_page(content: Path, spec: DatasetSpec) -> DamagedError | None:
    """Return the error for what stands in place of data, None where it may be the data."""
    if pointer := placeholders.describe_pointer(content):
        what = f"the server sent a file that {pointer}"
        advice = "give the address of the file itself, not of its pointer"
    elif placeholders.is_page(content):
        if spec.digest is None and _name(spec).endswith((".html", ".htm")):
            return None
        size = leavings.size_bytes(content)
        what = f"the server sent an HTML page ({sizes.size(size)}) instead of the data"
        advice = (
            "if the server asks for a licence or a login, or limits downloads, download the data by"
            " hand, and add the path to the site file"
        )
    else:
        return None
    return DamagedError(f"dataset {spec.name!r}: {what}", where=spec.url, advice=advice)


def _unpack(archive: Path, spec: DatasetSpec, work: Path, limit: _Limit) -> Path:
    assert spec.url is not None
    target = work / "unpacked"
    if target.exists():
        leavings.remove(target)
    try:
        unpack(archive, target, most_bytes=limit.bytes, most_files=limit.files, where=spec.url)
    except BaseException:
        with suppress(OSError):
            leavings.remove(target)
        raise
    return target


def _check(made: Path, spec: DatasetSpec, cache: Path) -> tuple[DatasetDigest, Path]:
    """Return the fetched data and their path: the only folder of an archive, else all of it."""
    candidates = [made]
    if made.is_dir():
        entries = list(made.iterdir())
        if len(entries) == 1 and entries[0].is_dir() and not entries[0].is_symlink():
            candidates.insert(0, entries[0])
    digests = []
    for candidate in candidates:
        try:
            dataset = hashing.digest(candidate, cache=cache)
        except UsageError as error:
            raise DamagedError(error.what, where=spec.url, advice=error.advice) from None
        if spec.digest in (None, str(dataset.digest)):
            return dataset, candidate
        digests.append(str(dataset.digest))
    raise DamagedError(
        f"fetched dataset {spec.name!r} is {' or '.join(digests)}, expected {spec.digest}",
        where=spec.url,
        advice='correct "digest" or "url" in the manifest; if the owner has changed the data,'
        " obtain the earlier version by hand"
        + ('; if the URL names an archive, add "unpack": true' if not spec.unpack else ""),
    )


def _keep(made: Path, spec: DatasetSpec, actual: DatasetDigest, work: Path, cache: Path) -> Path:
    """Put what came under its digest, whole or not at all."""
    place, new = find.fetched_folder(actual.digest, cache), work / "kept"
    try:
        shutil.rmtree(new, ignore_errors=True)
        new.mkdir()
        made.rename(new / _name(spec))
        place.parent.mkdir(parents=True, exist_ok=True)
        find.put(new, place, replaces=False)
        (kept,) = place.iterdir()
    except (OSError, ValueError) as error:
        raise _unwritable(place, error) from None
    return kept


def _name(spec: DatasetSpec) -> str:
    """Return the name of the file or folder; programs depend on its ending."""
    assert spec.url is not None
    last = Path(spec.path or unquote(urlsplit(spec.url).path)).name
    return last if _PLAIN.fullmatch(last) and not (spec.unpack and not spec.path) else spec.name


@contextmanager
def _work_folder(url: str, cache: Path) -> Iterator[tuple[Path, bool]]:
    """A folder of one address, held, and removed when all went well; and whether it was waited for.

    Another process that fetches the same is waited for: what it brought may be found then.

    Raises:
        CannotRunError: It cannot be written.
    """
    folder = cache / "fetching" / sha256(url.encode()).hexdigest()
    try:
        lock, waited = places.wait_to_hold(folder)
    except places.NoLocksError as error:
        advice = "set CAPSULE_CACHE to a folder on another file system"
        raise places.locks_error(error, folder, advice) from None
    except OSError as error:
        raise _unwritable(folder, error) from None
    with lock:
        yield folder, waited
        places.remove_and_release(folder)


def _describe(spec: DatasetSpec, state: State, path: Path, digest: str, size: int) -> Fetched:
    return Fetched(name=spec.name, state=state, digest=digest, bytes=size, path=path, url=spec.url)


def _by_hand(spec: DatasetSpec, site: Site) -> str:
    if spec.digest is None:
        return f"the manifest has no url; put the dataset at {spec.path}"
    where = f"; published as https://doi.org/{spec.doi}" if spec.doi else ""
    return (
        f"the manifest has no url{where}; obtain the dataset, and"
        f" {find.say_where(spec.digest, site)}"
    )


def _unwritable(folder: Path, error: OSError | ValueError) -> CannotRunError:
    return CannotRunError(
        f"cannot write fetched data: {getattr(error, 'strerror', None) or error}",
        where=str(folder),
        advice="free some space, or set CAPSULE_CACHE to another folder",
    )
