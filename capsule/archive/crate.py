"""The RO-Crate: the record in schema.org terms, for programs that do not know capsule.

RO-Crate 1.1 and Process Run Crate 0.5; module `action` describes the run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from json.encoder import encode_basestring
from typing import Any, NamedTuple
from urllib.parse import quote

from capsule.archive import action, media, people
from capsule.archive.indented import Written, pretty_list
from capsule.digest import Digest
from capsule.record import Record

NAME = "ro-crate-metadata.json"
CONTEXT = [
    "https://w3id.org/ro/crate/1.1/context",
    # last, so that `sha256` is this context's word
    "https://w3id.org/ro/terms/workflow-run/context",
]
PROFILE = "https://w3id.org/ro/wfrun/process/0.5"

Entity = dict[str, Any]


class Payload(NamedTuple):
    """One described file: its path below `data/`, what people call it, its size and digest."""

    path: str
    name: str
    size_bytes: int
    digest: Digest


def build(record: Record, files: Callable[[], Iterator[Payload]]) -> Iterator[bytes]:
    """The bytes of ro-crate-metadata.json, an entity at a time.

    Args:
        record: What is described.
        files: Goes through every other file of the payload, sorted by path. Digests have one
            length, so that the size of the result does not depend on them.
    """
    return pretty_list({"@context": CONTEXT}, "@graph", _entities(record, files))


def _entities(record: Record, files: Callable[[], Iterator[Payload]]) -> Iterator[Entity | Written]:
    def paths() -> Iterator[str]:
        return (media.identifier(file.path) for file in files())

    manifest = record.manifest
    yield {
        "@id": NAME,
        "@type": "CreativeWork",
        "about": {"@id": "./"},
        "conformsTo": {"@id": "https://w3id.org/ro/crate/1.1"},
    }
    yield _root(record, paths())
    yield {"@id": PROFILE, "@type": "CreativeWork", "name": "Process Run Crate", "version": "0.5"}
    licenses = [manifest.license, *(one.license for one in manifest.datasets if one.license)]
    # two that differ in blanks alone are one entity
    yield from {one["@id"]: one for one in map(people.license_entity, licenses)}.values()
    yield from people.entities(manifest.authors)
    yield from _paper(manifest.paper_doi)
    yield from action.entities(record, paths)
    yield from map(_file, files())


def by_id(document: Any) -> dict[str, Entity]:
    """The entities of a crate by their `@id`.

    Raises:
        KeyError, TypeError, ValueError: It is no flat crate, or describes something twice.
    """
    entities: dict[str, Entity] = {}
    for entity in document["@graph"]:
        if entity["@id"] in entities:
            raise ValueError(f"{entity['@id']} is described twice")
        entities[entity["@id"]] = entity
    return entities


def _root(record: Record, paths: Iterator[str]) -> Entity:
    manifest = record.manifest
    authors = [people.identifier(n, author) for n, author in enumerate(manifest.authors, 1)]
    publisher = people.affiliation(manifest.authors[0])
    root: Entity = {
        "@id": "./",
        "@type": "Dataset",
        "name": manifest.title or manifest.name,
        "description": _description(record),
        "identifier": f"urn:uuid:{record.uuid}",
        "datePublished": record.ended[:10],
        "license": {"@id": people.license_entity(manifest.license)["@id"]},
        "author": action.references(authors),
        "publisher": {"@id": publisher},
        "conformsTo": {"@id": PROFILE},
        "mentions": {"@id": "#run"},
        "hasPart": action.references(paths),
    }
    if manifest.paper_doi:
        root["citation"] = {"@id": _doi_url(manifest.paper_doi)}
    return root


def _description(record: Record) -> str:
    subject = f"the benchmarks of {record.manifest.name}"
    if record.verifies:
        return f"A verification of {subject} in capsule {record.verifies}, with the samples."
    return f"One run of {subject}: image, hardware, data, seeds, samples and claims."


def _paper(doi: str | None) -> list[Entity]:
    if not doi:
        return []
    url = _doi_url(doi)
    return [{"@id": url, "@type": "ScholarlyArticle", "name": f"doi:{doi}", "url": url}]


def _doi_url(doi: str) -> str:
    return f"https://doi.org/{quote(doi)}"


def _file(file: Payload) -> Written:
    """As text: there can be a quarter of a million."""
    identifier, name = media.identifier(file.path), media.title(file.name)
    return Written(
        "{"
        f'\n      "@id": {encode_basestring(identifier)},'
        '\n      "@type": "File",'
        f'\n      "contentSize": "{file.size_bytes}",'
        f'\n      "encodingFormat": "{media.encoding_format(file.name)}",'
        f'\n      "name": {encode_basestring(name)},'
        f'\n      "sha256": "{file.digest.hex}"'
        "\n    }"
    )
