"""Have a dataset on this machine, byte for byte the one that is meant, or say what is missing."""

from __future__ import annotations

import errno
import json
import shutil
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from capsule.datasets import hashing
from capsule.datasets.filecache import open_digests
from capsule.datasets.hashing import DatasetDigest, Progress
from capsule.digest import Digest, of_json
from capsule.errors import CannotRunError, DamagedError, UsageError
from capsule.manifest import DatasetSpec
from capsule.record import Dataset
from capsule.site import Site

_ORIGIN = "origin.json"
_ARRAYS = "arrays"
_SHOWN_FILES = 5


def obtain(
    spec: DatasetSpec,
    *,
    folder: Path | None,
    site: Site,
    cache: Path,
    progress: Progress | None = None,
    rehash: bool = False,
) -> tuple[Dataset, Path]:
    """Find or make a dataset, and prove that it is the one that is meant.

    Args:
        spec: What is wanted. A generator is run, once for each set of parameters; a path is looked
            for below `folder`; else, or when it is not there, the site file, what was fetched and
            what was generated are asked for the digest.
        folder: Where relative paths start; None for a capsule of which only digests are known.
        site: This machine's settings.
        cache: Folder for generated data and for digests of files.
        progress: As for `digest`.
        rehash: As for `digest`.

    Returns:
        What was found, and the file or folder where it is.

    Raises:
        UsageError: There is no such generator or parameter, or the dataset has no digest.
        DamagedError: The bytes are others than `spec.digest` says; names both digests.
        CannotRunError: It is not on this machine; says what to add to the site file.
    """
    if spec.generator is not None:
        return _find_or_generate(spec, cache)
    place = locate(spec, folder=folder, site=site, cache=cache)
    if place is not None:
        return _check_bytes(spec, place, cache, progress, rehash)
    made = _find_entry(spec.digest, cache)
    if made is not None:
        return _dataset(spec, made)
    raise _not_here(spec, folder, site)


def take_copy(dataset: Dataset, folder: Path, *, cache: Path) -> tuple[Dataset, Path]:
    """Return the copy of a dataset that a capsule, or the folder of a run, carries.

    Args:
        dataset: As it is recorded.
        folder: Where its files were laid out.
        cache: As for `obtain`.

    Returns:
        It, and the file or folder where it is.

    Raises:
        DamagedError: It is not there, or something else.
    """
    found = "is missing or unreadable"
    try:
        entries = list(folder.iterdir())
        # the digest tells whether it is the folder, or the one file in it
        for path in (*entries[:1], folder) if len(entries) == 1 else (folder,):
            actual = str(hashing.digest(path, cache=cache).digest)
            if actual == dataset.digest:
                return replace(dataset, source="capsule"), path.resolve()
            found = f"is {actual}"
    except (OSError, UsageError, CannotRunError):
        pass
    raise DamagedError(
        f"the copy of dataset {dataset.name!r} {found}, expected {dataset.digest}",
        where=str(folder),
        advice="start a new run",
    )


@dataclass(frozen=True, kw_only=True)
class Place:
    """Expected place of a dataset, not checked yet."""

    path: Path
    source: Literal["path", "site", "fetched"]


def locate(spec: DatasetSpec, *, folder: Path | None, site: Site, cache: Path) -> Place | None:
    """Return the expected place of a dataset that is not generated, or None.

    Args:
        spec: What is wanted.
        folder: As for `obtain`; so the others.
        site: This machine's settings.
        cache: Where fetched data is kept.
    """
    if spec.path is not None and folder is not None and (folder / spec.path).exists():
        return Place(path=folder / spec.path, source="path")
    if spec.digest is None:
        return None
    known = site.data.get(spec.digest)
    if known is not None:
        return Place(path=known, source="site")
    try:
        (kept,) = fetched_folder(Digest.parse(spec.digest), cache).iterdir()
    except (OSError, ValueError):
        return None
    return Place(path=kept, source="fetched")


def fetched_folder(digest: Digest, cache: Path) -> Path:
    """Return the folder of a dataset that was fetched, which is the one entry in there."""
    return cache / "fetched" / digest.hex


def generate(
    generator: str,
    parameters: Mapping[str, object],
    target: Path,
    *,
    form: str | None = None,
    cache: Path,
) -> DatasetDigest:
    """Make a synthetic dataset in a new folder.

    Args:
        generator: Name of a generator of `capsule.levels.generators`.
        parameters: Any of its parameters.
        target: The folder to make; it must not exist.
        form: A format in which others publish data; None for an array in each file.
        cache: As for `digest`.

    Returns:
        The digest of the arrays, or of the folder where it has a format, and the size and number
        of the files.

    Raises:
        UsageError: There is no such generator or parameter, the format does not hold its data, or
            `target` exists.
        CannotRunError: The folder cannot be written, or the format needs a package.
    """
    if target.exists():
        raise UsageError("already exists", where=str(target), advice="name a new folder")
    numbers = _complete(generator, parameters)
    if form is not None:
        _write(form, generator, numbers, target)
        return hashing.digest(target, cache=cache)
    digest = _make(generator, numbers, target)
    sizes = [path.stat().st_size for path in target.iterdir()]
    return DatasetDigest(digest=digest, bytes=sum(sizes), files=len(sizes))


def _check_bytes(
    spec: DatasetSpec,
    place: Place,
    cache: Path,
    progress: Progress | None,
    rehash: bool,
) -> tuple[Dataset, Path]:
    path, source = place.path, place.source
    survey = hashing.survey(path, cache=cache, progress=progress, rehash=rehash)
    actual = survey.dataset
    if spec.digest is not None and str(actual.digest) != spec.digest:
        shown = ", ".join(survey.changed[:_SHOWN_FILES])
        more = len(survey.changed) - _SHOWN_FILES
        changed = f"; changed since it was last hashed: {shown}" if shown else ""
        raise DamagedError(
            f"dataset {spec.name!r} is {actual.digest}, expected {spec.digest}"
            f"{changed}{f' and {more} more' if more > 0 else ''}",
            where=str(path),
            advice="restore the expected data, or, to use the new data, write its digest into the"
            f" {'manifest' if source == 'path' else 'site file'}"
            if source != "fetched"
            else "fetch the dataset again with `capsule data fetch`",
        )
    dataset = Dataset(
        name=spec.name,
        digest=str(actual.digest),
        bytes=actual.bytes,
        files=actual.files,
        source=source,
    )
    return dataset, path.resolve()


def _not_here(spec: DatasetSpec, folder: Path | None, site: Site) -> CannotRunError:
    where = str(folder / spec.path) if folder is not None and spec.path is not None else None
    if spec.digest is None and folder is None:
        return CannotRunError(
            f"dataset {spec.name!r} is missing on this machine, and its digest is unknown: the"
            " capsule is a quick verification, which leaves datasets out",
            advice="add --quick, or verify the original",
        )
    if spec.digest is None:
        place = "at this path" if where else 'beside the manifest and write "path"'
        way = f"put the dataset {place}, or"
        if spec.url:
            way = "run `capsule data fetch MANIFEST`, which prints the digest, and"
        return CannotRunError(
            f"dataset {spec.name!r} is missing on this machine, and has no digest to search for",
            where=where,
            advice=f"{way} add the digest to /datasets/{spec.name}"
            f"{'' if spec.url else ' (capsule data hash PATH)'}",
        )
    fetch = "run `capsule data fetch` with the capsule or manifest, or " if spec.url else ""
    return CannotRunError(
        f"dataset {spec.name!r} with digest {spec.digest} is missing on this machine",
        where=where,
        advice=f"{fetch}{say_where(spec.digest, site)}",
    )


def say_where(digest: str, site: Site) -> str:
    """Return advice on how to name the place of a dataset in the site file."""
    entry = json.dumps({"data": {digest: "/path/to/data"}})
    return f"add the dataset's path to the site file {site.file}: {entry}"


@dataclass(frozen=True, kw_only=True)
class _Generated:
    """Generated data in the cache: the digest of its arrays, their folder, and its files."""

    digest: str
    arrays: Path
    tree: DatasetDigest


def _find_or_generate(spec: DatasetSpec, cache: Path) -> tuple[Dataset, Path]:
    assert spec.generator is not None
    parameters = _complete(spec.generator, spec.parameters)
    key = of_json({"generator": spec.generator, "parameters": parameters}).hex
    entry = cache / "data" / key
    made = _read_entry(entry, cache)
    if made is None or spec.digest not in (None, made.digest):
        # a copy that is damaged, unknown or by an older generator is no reason to fail
        made = _make_entry(spec.generator, parameters, entry)
    if spec.digest not in (None, made.digest):
        raise DamagedError(
            f"generated dataset {spec.name!r} is {made.digest}, expected {spec.digest}",
            where=f"/datasets/{spec.name}",
            advice="correct the digest or the parameters in the manifest; for an untrusted capsule,"
            " install the version of capsule that sealed it",
        )
    return _dataset(spec, made)


def _dataset(spec: DatasetSpec, made: _Generated) -> tuple[Dataset, Path]:
    dataset = Dataset(
        name=spec.name,
        digest=made.digest,
        bytes=made.tree.bytes,
        files=made.tree.files,
        source="generator",
    )
    return dataset, made.arrays


def _read_entry(entry: Path, cache: Path) -> _Generated | None:
    """Return generated data in the cache, if it still is what this user generated under that
    key.
    """
    with open_digests(cache) as kept:
        known = kept.find_generated(entry.name)
    if known is None or (tree := _hash_entry(entry, cache)) is None:
        return None
    expected, digest = known
    if str(tree.digest) != expected:
        return None
    return _Generated(digest=digest, arrays=entry / _ARRAYS, tree=tree)


def _hash_entry(entry: Path, cache: Path) -> DatasetDigest | None:
    try:
        return hashing.digest(entry / _ARRAYS, cache=cache)
    except (DamagedError, CannotRunError, UsageError):
        return None


def _find_entry(digest: str | None, cache: Path) -> _Generated | None:
    for origin in sorted((cache / "data").glob(f"*/{_ORIGIN}")):
        made = _read_entry(origin.parent, cache) if digest else None
        if made is not None and made.digest == digest:
            return made
    return None


def _make_entry(generator: str, parameters: Mapping[str, int], entry: Path) -> _Generated:
    """Generate into the cache; two processes that do so at once leave one whole entry."""
    cache = entry.parent.parent
    new = entry.with_name(f".new-{uuid.uuid4().hex}")
    try:
        digest = _make(generator, parameters, new / _ARRAYS)
        tree = hashing.digest(new / _ARRAYS, cache=cache)
        # for people; nothing in it is believed
        origin = {"generator": generator, "parameters": parameters, "digest": str(digest)}
        (new / _ORIGIN).write_text(json.dumps(origin | {"tree": str(tree.digest)}) + "\n")
        if _hash_entry(entry, cache) != tree:
            put(new, entry)
    except OSError as error:
        raise _unwritable(entry, error) from error
    finally:
        shutil.rmtree(new, ignore_errors=True)
    with open_digests(cache) as kept:
        kept.keep_generated(entry.name, str(tree.digest), str(digest))
    return _Generated(digest=str(digest), arrays=entry / _ARRAYS, tree=tree)


def put(new: Path, entry: Path, *, replaces: bool = True) -> None:
    """Give a whole folder its name.

    Args:
        new: Beside it.
        entry: The name.
        replaces: True if what has the name already makes way.

    Raises:
        OSError: It cannot be written.
    """
    old = entry.with_name(f".old-{uuid.uuid4().hex}")
    if replaces and entry.exists():
        entry.rename(old)
        shutil.rmtree(old, ignore_errors=True)
    try:
        new.rename(entry)
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise
        # another process made the same data in the meantime


def _complete(generator: str, parameters: Mapping[str, object]) -> dict[str, int]:
    from capsule.levels.data import generators

    if generator not in generators.GENERATORS:
        raise UsageError(
            f"unknown generator {generator!r}",
            advice=f"known generators: {', '.join(generators.GENERATORS)}",
        )
    try:
        return dict(generators.complete(generator, parameters))
    except ValueError as error:
        raise UsageError(
            str(error), where=generator, advice="correct the parameters of the dataset"
        ) from error


def _make(generator: str, parameters: Mapping[str, int], target: Path) -> Digest:
    """Write generated arrays to a folder that is there whole or not at all."""
    from capsule.levels.data import generators

    with _whole(target) as partial:
        arrays = generators.generate(generator, parameters)
        generators.write(arrays, partial)
    return Digest.parse(generators.digest(arrays))


def _write(form: str, generator: str, parameters: Mapping[str, int], target: Path) -> None:
    """Write generated data in a format to a folder that is there whole or not at all."""
    from capsule.levels.data.formats import writers

    try:
        with _whole(target) as partial:
            writers.write(form, generator, parameters, partial)
    except ValueError as error:
        raise UsageError(
            str(error), advice="change the parameters, or choose another --format"
        ) from error
    except ModuleNotFoundError as error:
        raise CannotRunError(str(error)) from error


@contextmanager
def _whole(target: Path) -> Iterator[Path]:
    """Make a folder to fill, which gets the name of `target` on success."""
    partial = target.with_name(f".new-{uuid.uuid4().hex}")
    try:
        partial.mkdir(parents=True)
        yield partial
        partial.rename(target)
    except OSError as error:
        raise _unwritable(target, error) from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def _unwritable(folder: Path, error: OSError) -> CannotRunError:
    return CannotRunError(
        f"cannot write generated data: {error.strerror}",
        where=str(folder),
        advice="free some space, or set CAPSULE_CACHE to another folder",
    )
