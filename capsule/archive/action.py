"""The run as a CreateAction of Process Run Crate 0.5, with the entities that it refers to.

Choices where the specification leaves one: times end in `+00:00`, a single value is not a list, the
environment is PropertyValues.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from itertools import chain, islice
from typing import Any
from urllib.parse import quote

from capsule import averages, summary
from capsule.archive import hardware, media, people
from capsule.image import Image
from capsule.manifest import DatasetSpec
from capsule.record import Dataset, Record

_STATUS = "http://schema.org/{}ActionStatus"
_DOCKER_IMAGE = "https://w3id.org/ro/terms/workflow-run#DockerImage"

_DATASETS = "datasets/"
_OUTPUTS = ("results/", "records/", "logs/", "evidence/")

Entity = dict[str, Any]


def entities(record: Record, paths: Callable[[], Iterator[str]]) -> Iterator[Entity]:
    """Yield the action, then the entities that it refers to; their lists of files are iterators.

    Args:
        record: To describe.
        paths: Iterates over the identifiers of all payload files but the crate.
    """
    objects = [*_seeds(record), *_datasets(record, paths()), *_original(record)]
    usage, variables = _resources(record), _variables(record)
    results = (f"#metric-{n}" for n, _ in enumerate(_claimed_paths(record), 1))
    inputs = (path for path in paths() if path.startswith("inputs/"))
    outputs = (path for path in paths() if path.startswith(_OUTPUTS))
    software = _software(record)
    image = [_container_image(record.image)] if record.image else []
    action = _run(record) | {
        "instrument": {"@id": software["@id"]},
        "object": references(chain(["manifest.json"], inputs, _ids(objects))),
        "result": references(chain(outputs, results)),
        "resourceUsage": references(_ids(usage)),
    }
    if variables:
        action["environment"] = references(_ids(variables))
    if image:
        action["containerImage"] = {"@id": image[0]["@id"]}
    yield from (action, software, *image, *objects)
    yield from _headlines(record)
    yield from (*usage, *variables)


def _run(record: Record) -> Entity:
    faults = _faults(record)
    action: Entity = {
        "@id": "#run",
        "@type": "CreateAction",
        "name": f"Run of {record.manifest.name}",
        "description": f"capsule {'verify' if record.verifies else 'run'}, {_engine(record)}",
        "agent": {"@id": people.identifier(1, record.manifest.authors[0])},
        "startTime": crate_time(record.started),
        "endTime": crate_time(record.ended),
        "actionStatus": _STATUS.format("Failed" if faults else "Completed"),
    }
    if faults:
        action["error"] = faults
    return action


def crate_time(text: str) -> str:
    """Return an ISO 8601 time in the form of the profile: milliseconds, offset `+00:00`.

    >>> crate_time("2026-03-01T10:00:42.512345Z")
    '2026-03-01T10:00:42.512+00:00'
    """
    return datetime.fromisoformat(text).astimezone(UTC).isoformat(timespec="milliseconds")


def references(ids: Iterable[str]) -> Entity | Iterator[Entity]:
    """Return references to entities, made one by one; a single one is not a list."""
    links = ({"@id": identifier} for identifier in ids)
    first = list(islice(links, 2))
    return first[0] if len(first) == 1 else chain(first, links)


def _ids(entities: Sequence[Entity]) -> list[str]:
    return [entity["@id"] for entity in entities]


def _engine(record: Record) -> str:
    if not record.contained:
        return "on the host, without a container"
    return f"in a container started by {record.runtime}"


def _faults(record: Record) -> str:
    """Return the trials that did not complete, empty when all did."""
    completed = {attempt.trial for attempt in record.attempts if attempt.outcome == "completed"}
    trials = [trial["id"] for trial in summary.planned_trials(record.plan)]
    open_trials = [trial for trial in trials if trial not in completed]
    if not open_trials:
        return ""
    named = ", ".join(open_trials[:10])
    return f"{len(open_trials)} of {len(trials)} trials did not complete: {named}"


def _software(record: Record) -> Entity:
    """Return the measuring code, which the capsule contains in `levels/`."""
    entity: Entity = {
        # The profile recommends an absolute URI. The program is published at no address that could
        # be named here; `url` is its place in the capsule, and `identifier` its digest.
        "@id": "#capsule-hpc",
        "@type": "SoftwareApplication",
        "name": "capsule-hpc levels, the measuring code",
        "softwareVersion": record.levels["release"] or record.tool,
        "url": "levels/",
    }
    tree = record.levels["digest"]
    return entity | {"identifier": tree} if tree else entity


def _container_image(image: Image) -> Entity:
    reference = image.pinned or image.reference
    registry, _, rest = reference.rpartition("://")[2].partition("/")
    name, _, tag = rest.partition("@")[0].partition(":")
    known = image.pinned is not None
    entity: Entity = {
        "@id": "#image",
        "@type": "ContainerImage",
        "additionalType": {"@id": _DOCKER_IMAGE},
        "name": name if known and name else image.reference,
        "registry": registry if known else "localhost",
        "sha256": image.identity.digest.hex,
    }
    if tag:
        entity["tag"] = tag
    return entity


def _seeds(record: Record) -> list[Entity]:
    seeds = {trial["id"].rpartition("/")[2] for trial in summary.planned_trials(record.plan)}
    return [_property(f"seed-{seed}", "seed", seed) for seed in sorted(seeds, key=int)]


def _datasets(record: Record, paths: Iterable[str]) -> Iterator[Entity]:
    specs = {spec.name: spec for spec in record.manifest.datasets}
    carried: dict[str, list[str]] = {}
    for path in paths:
        if path.startswith(_DATASETS):
            carried.setdefault(path.split("/", 2)[1], []).append(path)
    for dataset in record.datasets:
        files = carried.get(media.identifier(dataset.name)) if dataset.embedded else None
        parts = {"hasPart": references(files)} if files else {}
        yield _dataset(dataset, specs[dataset.name]) | parts


def _dataset(dataset: Dataset, spec: DatasetSpec) -> Entity:
    size = f"{dataset.files} files, {dataset.bytes} bytes; sha256 is the digest of the dataset"
    # no File or Dataset: validators would look for its bytes, and the crate may have none of them
    entity: Entity = {
        "@id": f"#dataset-{dataset.name}",
        "@type": "CreativeWork",
        "name": dataset.name,
        "description": f"{spec.description} ({size})" if spec.description else size,
        "sha256": dataset.digest.removeprefix("sha256:"),
    }
    doi = f"https://doi.org/{quote(spec.doi)}" if spec.doi else None
    if address := spec.url or doi:
        entity["url"] = address
    if doi:
        entity["identifier"] = doi
    if spec.license:
        entity["license"] = {"@id": people.license_entity(spec.license)["@id"]}
    return entity


def _original(record: Record) -> list[Entity]:
    if not record.verifies:
        return []
    return [
        {
            "@id": f"#capsule-{record.verifies}",
            "@type": "CreativeWork",
            "name": "The verified capsule",
            "identifier": record.verifies,
        }
    ]


def _claimed_paths(record: Record) -> list[str]:
    """Return the path of every claimed metric."""
    runs = summary.metric_runs(record)
    return sorted({claim.metric for claim in record.claims} & runs.keys())


def _headlines(record: Record) -> Iterator[Entity]:
    """Yield the median over runs of every claimed metric."""
    runs = summary.metric_runs(record)
    for n, path in enumerate(_claimed_paths(record), 1):
        median = averages.median(summary.list_values(runs[path].runs))
        entity = _property(f"metric-{n}", path, "none" if median is None else repr(median))
        yield entity | {"unitText": runs[path].unit}


def _resources(record: Record) -> list[Entity]:
    kinds = hardware.summaries(record.nodes)
    return [
        _property("resource-engine", "container engine", record.runtime),
        *(_property(f"resource-{n}", "hardware", kind) for n, kind in enumerate(kinds, 1)),
    ]


def _variables(record: Record) -> list[Entity]:
    variables: Mapping[str, Any] = record.environment.get("variables", {})
    return [
        {"@id": f"#variable-{n}", "@type": "PropertyValue", "name": name, "value": str(value)}
        for n, (name, value) in enumerate(sorted(variables.items()), 1)
    ]


def _property(identifier: str, name: str, value: str) -> Entity:
    return {
        "@id": f"#{identifier}",
        "@type": "PropertyValue",
        "name": name,
        "propertyID": name,
        "value": value,
    }
