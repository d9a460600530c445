"""`capsule data`: name the bytes of a dataset, or make a synthetic one."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from capsule.verbs import verb
from capsule.verbs.verb import Family, Verb

if TYPE_CHECKING:
    from capsule.console import Console
    from capsule.datasets import DatasetDigest


@dataclass(frozen=True, kw_only=True)
class HashArguments:
    """What was typed after `data hash`."""

    path: Path
    rehash: bool = False
    json: bool = False


@dataclass(frozen=True, kw_only=True)
class GenerateArguments:
    """What was typed after `data generate`."""

    generator: str
    target: Path
    parameters: Sequence[tuple[str, object]] = ()
    json: bool = False


def _add_hash(parser: ArgumentParser) -> None:
    parser.add_argument("path", type=Path, metavar="PATH")
    parser.add_argument("--rehash", action="store_true", help="do not use the cache of digests")
    verb.add_json(parser)


def _hash(arguments: HashArguments, console: Console) -> int:
    from capsule import datasets, site

    cache = site.cache_folder(site.load())
    dataset = datasets.digest(arguments.path, cache=cache, rehash=arguments.rehash)
    return _print(dataset, arguments.json, console)


def _add_generate(parser: ArgumentParser) -> None:
    parser.add_argument("generator", metavar="GENERATOR")
    parser.add_argument("target", type=Path, metavar="DIR")
    parser.add_argument("parameters", nargs="*", type=_parameter, metavar="NAME=VALUE")
    verb.add_json(parser)


def _generate(arguments: GenerateArguments, console: Console) -> int:
    from capsule import datasets

    parameters = dict(arguments.parameters)
    dataset = datasets.generate(arguments.generator, parameters, arguments.target)
    return _print(dataset, arguments.json, console)


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
            name="generate",
            purpose="make a synthetic dataset",
            examples=("capsule data generate regression out/ samples=256 features=8 seed=7",),
            add=_add_generate,
            act=verb.door(GenerateArguments, _generate),
        ),
    ),
)
