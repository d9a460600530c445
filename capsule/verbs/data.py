"""`capsule data`: print the digest of a dataset, fetch missing ones, or generate one."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from capsule.errors import UsageError
from capsule.verbs import verb
from capsule.verbs.verb import Family, Verb

if TYPE_CHECKING:
    from capsule.console import Console
    from capsule.datasets import DatasetDigest
    from capsule.datasets.fetching import Fetched
    from capsule.jsons import Json
    from capsule.manifest import Manifest
    from capsule.record import Dataset


@dataclass(frozen=True, kw_only=True)
class HashArguments:
    """Arguments of `data hash`."""

    path: Path
    rehash: bool = False
    json: bool = False


@dataclass(frozen=True, kw_only=True)
class GenerateArguments:
    """Arguments of `data generate`."""

    generator: str
    target: Path
    parameters: Sequence[tuple[str, object]] = ()
    format: str | None = None
    json: bool = False


@dataclass(frozen=True, kw_only=True)
class FetchArguments:
    """Arguments of `data fetch`."""

    target: Path
    most: int | None = None
    json: bool = False


def _add_hash(parser: ArgumentParser) -> None:
    parser.add_argument("path", type=Path, metavar="PATH", help="file or folder of the dataset")
    parser.add_argument(
        "--rehash", action="store_true", help="read all files again (default: use cached digests)"
    )
    verb.add_json(parser)


def _hash(arguments: HashArguments, console: Console) -> int:
    from capsule import datasets, site

    cache = site.cache_folder(site.load())
    dataset = datasets.digest(arguments.path, cache=cache, rehash=arguments.rehash)
    return _print(dataset, arguments.json, console)


def _add_generate(parser: ArgumentParser) -> None:
    parser.add_argument("generator", metavar="GENERATOR", help="name of the generator")
    parser.add_argument("target", type=Path, metavar="DIR", help="folder to write")
    parser.add_argument(
        "parameters",
        nargs="*",
        type=_parameter,
        metavar="NAME=VALUE",
        help="parameter of the generator (default: the generator's value)",
    )
    parser.add_argument(
        "--format",
        metavar="FORMAT",
        help="file format, for example idx (default: arrays)",
    )
    verb.add_json(parser)


def _generate(arguments: GenerateArguments, console: Console) -> int:
    from capsule import datasets, site

    dataset = datasets.generate(
        arguments.generator,
        dict(arguments.parameters),
        arguments.target,
        form=arguments.format,
        cache=site.cache_folder(site.load()),
    )
    return _print(dataset, arguments.json, console)


def _add_fetch(parser: ArgumentParser) -> None:
    parser.add_argument(
        "target",
        type=verb.path,
        metavar="MANIFEST|CAPSULE",
        help="manifest or capsule whose datasets to fetch",
    )
    parser.add_argument(
        "--most",
        type=verb.size,
        metavar="SIZE",
        help="size limit of a dataset without a recorded size (default: 100G)",
    )
    verb.add_json(parser)


def _fetch(arguments: FetchArguments, console: Console) -> int:
    from capsule import site as sites
    from capsule.datasets import fetching

    manifest, used, own = _read(arguments.target)
    site = sites.load()
    documents = []
    for spec in manifest.datasets:
        if spec.url:
            console.say(f"{spec.name}: {spec.url}")
        result = fetching.fetch(
            spec,
            used=used.get(spec.name),
            folder=manifest.folder,
            site=site,
            cache=sites.cache_folder(site),
            most_bytes=arguments.most or fetching.MOST_BYTES,
            own=own,
            progress=console.transfer(spec.name),
        )
        documents.append(result)
        if not arguments.json:
            console.data(_line(result))
    if arguments.json:
        console.document({"datasets": [_to_json(one) for one in documents]})
    elif not documents:
        console.say("no datasets to fetch")
    return 6 if any(one.state == "missing" for one in documents) else 0


def _read(path: Path) -> tuple[Manifest, Mapping[str, Dataset], bool]:
    """Return a manifest, the datasets of its capsule if any, and whether it is this user's."""
    from capsule import manifest as manifests
    from capsule import reading
    from capsule.trust import ledger

    try:
        is_capsule = path.is_dir()
        # no pipe is waited for
        if path.is_file():
            with path.open("rb") as stream:
                is_capsule = stream.read(2) == b"PK"
    except OSError as error:
        advice = "make the file readable, or give another file"
        what = f"cannot read: {error.strerror}"
        raise UsageError(what, where=str(path), advice=advice) from None
    if not is_capsule:
        return manifests.load(path), {}, True
    with reading.read(path) as capsule:
        record, own = capsule.record, ledger.holds(capsule.id)
    return record.manifest, {one.name: one for one in record.datasets}, own


_STATES = {
    "here": "present",
    "fetched": "fetched",
    "carried": "in the capsule",
    "generated": "generated by the run",
    "missing": "missing",
}


def _line(result: Fetched) -> str:
    place = f" in {result.path}" if result.path else ""
    digest = f", {result.digest}" if result.digest else ""
    advice = f"; {result.sentence}" if result.sentence else ""
    return f"{result.name}: {_STATES[result.state]}{place}{digest}{advice}"


def _to_json(result: Fetched) -> Mapping[str, Json]:
    return {**asdict(result), "path": str(result.path) if result.path else None}


def _parameter(typed: str) -> tuple[str, object]:
    name, value = verb.pair(typed)
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


def _print(dataset: DatasetDigest, as_json: bool, console: Console) -> int:
    facts = {"digest": str(dataset.digest), "bytes": dataset.bytes, "files": dataset.files}
    if as_json:
        console.document(facts)
    else:
        console.data(str(dataset.digest))
    return 0


DATA = Family(
    name="data",
    examples=("capsule data hash corpus/",),
    verbs=(
        Verb(
            name="hash",
            purpose="print the digest of a file or folder",
            examples=("capsule data hash corpus/",),
            one="file or folder",
            add=_add_hash,
            act=verb.door(HashArguments, _hash),
        ),
        Verb(
            name="fetch",
            purpose="fetch missing datasets from their addresses",
            examples=("capsule data fetch mine.json", "capsule data fetch a.capsule.zip"),
            one="manifest or capsule",
            add=_add_fetch,
            act=verb.door(FetchArguments, _fetch),
        ),
        Verb(
            name="generate",
            purpose="generate a synthetic dataset",
            examples=("capsule data generate glyphs digits/ samples=6000 --format idx",),
            add=_add_generate,
            act=verb.door(GenerateArguments, _generate),
        ),
    ),
)
