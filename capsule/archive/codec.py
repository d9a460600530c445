"""A record as the JSON documents of a capsule, and back."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, fields
from itertools import chain, pairwise
from typing import Any

from capsule import __version__, digest, manifest, notes, schema, summary
from capsule.archive import devices, forms, images, lines, ranks, run_list, setup
from capsule.archive.indented import Written, pretty, pretty_members
from capsule.archive.limits import ATTEMPT_BYTES, LINE_BYTES, Budget
from capsule.archive.sharing import Sharing
from capsule.archive.strict import Visit, parse
from capsule.collector import return_memory
from capsule.digest import Digest
from capsule.errors import DamagedError, ManifestError
from capsule.image import Image
from capsule.manifest import Claim, Manifest
from capsule.origin import Origin, changes, other_device
from capsule.record import (
    Dataset,
    DeviceSeries,
    FrozenClaim,
    RankSamples,
    Record,
    Samples,
    sample_order,
)
from capsule.starts import World
from capsule.summary import Run

MANIFEST, RECORD = "manifest.json", "capsule.json"
HARDWARE, SOFTWARE = "records/hardware.json", "records/software.json"
ENVIRONMENT, PLAN = "records/environment.json", "records/plan.json"
IMAGE = "records/image.json"
IMAGE_INDEX = "records/image-index.json"
IMAGE_MANIFEST, IMAGE_CONFIG = "records/image-manifest.json", "records/image-config.json"
SAMPLES, ATTEMPTS = "results/samples.jsonl", "results/attempts.jsonl"
RANKS = "results/ranks.jsonl"
DEVICES = "results/devices.jsonl"
METRICS = "results/metrics.json"
DOCUMENTS = frozenset(
    {MANIFEST, RECORD, HARDWARE, SOFTWARE, ENVIRONMENT, PLAN, SAMPLES, ATTEMPTS, METRICS, RANKS}
    | {IMAGE, IMAGE_INDEX, IMAGE_MANIFEST, IMAGE_CONFIG, DEVICES}
)

_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
# how one can stand in the text of a document
_MAYBE_CONTROL = re.compile(rb"\\[bfnrtu]|\x7f|\xc2[\x80-\x9f]")
# of so many the memory is worth a millisecond
_MANY_CLAIMS = 10_000
# the long lists of the record and the plan
_CLAIMS, _GROUPS = ("claims",), ("groups", "trials")
# documents with parts that their schemas leave open
_OPEN = (HARDWARE, SOFTWARE, ENVIRONMENT)

Read = Callable[[str], Iterable[bytes]]


def documents(record: Record) -> dict[str, bytes]:
    """Return every file of the payload that states the record, by its path below `data/`.

    Raises:
        ValueError: A number is NaN or infinite where JSON has no word for it.
    """
    return state(record) | {METRICS: b"".join(metrics(record))}


def state(record: Record) -> dict[str, bytes]:
    """Return the same without `results/metrics.json`, which follows from the others.

    Raises:
        ValueError: As `documents`.
    """
    contents = {
        MANIFEST: record.manifest.source,
        RECORD: pretty(_record_json(record)),
        HARDWARE: pretty({"format": "capsule-hardware/1", "nodes": list(record.nodes)}),
        SOFTWARE: pretty({"format": "capsule-software/1", "software": record.software}),
        ENVIRONMENT: pretty({"format": "capsule-environment/1", "environment": record.environment}),
        PLAN: pretty(record.plan),
        IMAGE: pretty(_image_json(record)),
        SAMPLES: b"".join(
            lines.write_samples(one) for one in record.samples if not _is_folded(one)
        ),
        ATTEMPTS: b"".join(map(lines.write_attempt, record.attempts)),
    }
    if _has_ranks(record):
        contents[RANKS] = b"".join(
            ranks.write(one) for one in record.samples if isinstance(one, RankSamples)
        )
    if record.devices:
        contents[DEVICES] = b"".join(map(devices.write, record.devices))
    return contents | _image_documents(record.image)


def names(record: Record) -> frozenset[str]:
    """Return the paths of `documents`, without making them."""
    absent = {IMAGE_INDEX, IMAGE_MANIFEST, IMAGE_CONFIG} - _image_documents(record.image).keys()
    absent |= {DEVICES} if not record.devices else set()
    return DOCUMENTS - absent - (frozenset() if _has_ranks(record) else {RANKS})


def _is_folded(samples: Samples) -> bool:
    return isinstance(samples, RankSamples)


def _has_ranks(record: Record) -> bool:
    return any(map(_is_folded, record.samples))


def metrics(record: Record) -> Iterator[bytes]:
    """`results/metrics.json`, which every machine computes alike, a metric at a time."""
    members = (
        (path, summary.summarize(runs, _list_runs))
        for path, runs in summary.metric_runs(record).items()
    )
    return pretty_members({"format": summary.FORMAT}, "metrics", members)


def _list_runs(runs: Sequence[Run]) -> Written:
    return Written(run_list.write(runs))


def read(names: Sequence[str], load: Read, *, where: str, budget: Budget) -> Record:
    """Return the record that the documents of a capsule state.

    Args:
        names: Every path below `data/`.
        load: Gives the bytes of one of them, in pieces.
        where: The capsule's name in messages.
        budget: Of memory that they may take.

    Raises:
        DamagedError: A document is missing, no strict JSON, or not what its schema asks.
    """
    reader = _Reader(names, load, where, budget)
    stated, image = reader.record(), reader.identity(IMAGE, "image-1")
    plan = reader.plan()
    origin = setup.origin_from_json(stated["origin"])
    written = reader.manifest(Digest.parse(stated["manifest"]), plan["subjects"], origin)
    return Record(
        tool=stated["tool"],
        uuid=stated["uuid"],
        origin=origin,
        judge_rule=int(stated["judge_rule"]),
        started=stated["started"],
        ended=stated["ended"],
        runtime=stated["runtime"],
        contained=stated["contained"],
        image=_image(image["image"], reader) if image["image"] else None,
        image_observations=image["observations"],
        manifest=written,
        plan=plan,
        plan_digest=stated["plan"],
        nodes=tuple(reader.document(HARDWARE, "hardware-1")["nodes"]),
        software=reader.document(SOFTWARE, "software-1")["software"],
        environment=reader.document(ENVIRONMENT, "environment-1")["environment"],
        levels=stated["levels"],
        datasets=tuple(map(_dataset, stated["datasets"])),
        sources=setup.sources_from_json(stated["sources"]),
        worlds=tuple(map(_world, stated.get("worlds", ()))),
        claims=_claims(stated.pop("claims"), written, reader),
        attempts=lines.read_attempts(reader.lines(ATTEMPTS), where=reader.at(ATTEMPTS)),
        samples=_samples(reader),
        devices=_devices(reader),
        notes=tuple(map(notes.from_json, stated["notes"])),
    )


def _samples(reader: _Reader) -> tuple[Samples, ...]:
    """Return every line of samples, those of many ranks among the others."""
    alone = lines.read_samples(reader.lines(SAMPLES), where=reader.at(SAMPLES))
    if not reader.has(RANKS):
        return alone
    together = ranks.read(reader.lines(RANKS), where=reader.at(RANKS))
    if not together:
        raise DamagedError("the file is empty", where=reader.at(RANKS))
    for number, (before, after) in enumerate(pairwise(map(sample_order, together)), 2):
        if after < before:
            raise DamagedError(
                f"line {number} has metric, seed, attempt and rank {after} after {before},"
                " expected ascending order",
                where=reader.at(RANKS),
            )
    return tuple(sorted((*alone, *together), key=sample_order))


def _devices(reader: _Reader) -> tuple[DeviceSeries, ...]:
    if not reader.has(DEVICES):
        return ()
    read = devices.read(reader.lines(DEVICES), where=reader.at(DEVICES))
    if not read:
        raise DamagedError("the file is empty", where=reader.at(DEVICES))
    return read


class _Reader:
    """The documents of one capsule, each strict and valid or an error that names it."""

    def __init__(self, names: Sequence[str], load: Read, where: str, budget: Budget) -> None:
        self._names = frozenset(names)
        self._load = load
        self._where = where
        self._budget = budget

    def at(self, name: str) -> str:
        return f"{self._where}:data/{name}"

    def has(self, name: str) -> bool:
        return name in self._names

    def pieces(self, name: str) -> Iterable[bytes]:
        if name not in self._names:
            raise DamagedError(f"data/{name} is missing", where=self._where)
        return self._load(name)

    def lines(self, name: str) -> Iterator[bytes]:
        line_bytes = ATTEMPT_BYTES if name == ATTEMPTS else LINE_BYTES
        for piece in self.pieces(name):
            self._budget.spend_lines(piece, line_bytes, where=self.at(name))
            yield piece

    def whole(self, name: str) -> bytes:
        return b"".join(self.pieces(name))

    def parse(self, name: str, data: bytes, visit: Visit | None = None) -> Any:
        self._budget.spend(data, where=self.at(name))
        return parse(data, where=self.at(name), visit=visit)

    def document(self, name: str, schema_name: str) -> dict[str, Any]:
        value: dict[str, Any] = self.parse(name, self.whole(name))
        self._hold(value, name, schema_name)
        return value

    def record(self) -> dict[str, Any]:
        """Return the record; of another version's layout it is told, not what of it fits no
        schema.
        """
        data = self.whole(RECORD)
        value = self.parse(RECORD, data)
        tool = value.get("tool") if isinstance(value, dict) else None
        fault = next(forms.faults(value, "record-1", _CLAIMS), None)
        if fault and tool not in (None, __version__):
            raise DamagedError(
                f"sealed by capsule-hpc {str(tool)[:40]!r}, in a layout that capsule-hpc"
                f" {__version__} cannot read",
                where=self._where,
                advice=f"install version {str(tool)[:40]!r} of capsule-hpc; from release 1.0 on,"
                " every layout stays readable",
            )
        if fault:
            raise DamagedError(fault, where=self.at(RECORD))
        return self._hold_names(value, data, RECORD)

    def plan(self) -> dict[str, Any]:
        """Return the plan, of which only the first group is held against the whole schema."""
        value: dict[str, Any] = self.parse(PLAN, self.whole(PLAN), Sharing())
        for fault in forms.faults(value, "plan-1", _GROUPS):
            raise DamagedError(fault, where=self.at(PLAN))
        return value

    def _hold(self, value: Any, name: str, schema_name: str) -> None:
        if name in _OPEN:
            value = schema.prune(value, schema_name)
        for pointer, message in schema.validate(value, schema_name):
            raise DamagedError(f"{pointer or '/'}: {message[:300]}", where=self.at(name))

    def identity(self, name: str, schema_name: str) -> dict[str, Any]:
        """Return a document whose strings are names: a pattern's `$` would let a newline pass."""
        value = self.parse(name, data := self.whole(name))
        self._hold(value, name, schema_name)
        return self._hold_names(value, data, name)

    def _hold_names(self, value: Any, data: bytes, name: str) -> dict[str, Any]:
        named: dict[str, Any] = value
        if _MAYBE_CONTROL.search(data):
            for text in filter(_CONTROL.search, _strings(value)):
                raise DamagedError(
                    f"the string {text[:100]!a} contains a control character", where=self.at(name)
                )
        return named

    def manifest(
        self, expected: Digest, subjects: Sequence[Mapping[str, Any]], origin: Origin
    ) -> Manifest:
        data, where = self.whole(MANIFEST), self.at(MANIFEST)
        digest.expect(digest.of_bytes(data), expected, what="the manifest", where=where)
        self._budget.spend(data, where=where)
        try:
            return manifest.read(
                data,
                where=where,
                folder=None,
                subjects=subjects,
                changed=changes(origin),
                device=other_device(origin),
            )
        except ManifestError as error:
            raise DamagedError(f"invalid manifest: {error}") from None


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        yield from value
        yield from chain.from_iterable(map(_strings, value.values()))
    elif isinstance(value, list):
        yield from chain.from_iterable(map(_strings, value))


def _record_json(record: Record) -> dict[str, Any]:
    return {
        "format": "capsule-record/1",
        "tool": record.tool,
        "uuid": record.uuid,
        "origin": setup.origin_to_json(record.origin),
        "judge_rule": record.judge_rule,
        "started": record.started,
        "ended": record.ended,
        "runtime": record.runtime,
        "contained": record.contained,
        "manifest": str(digest.of_bytes(record.manifest.source)),
        "plan": record.plan_digest,
        "levels": dict(record.levels),
        "datasets": [asdict(dataset) for dataset in record.datasets],
        "sources": [asdict(source) for source in record.sources],
        # one process that is alone is in no world
        **({"worlds": [asdict(world) for world in record.worlds]} if record.worlds else {}),
        "claims": list(_claims_json(record)),
        "notes": list(map(notes.to_json, record.notes)),
    }


def _image_json(record: Record) -> dict[str, Any]:
    return {
        "format": "capsule-image/1",
        "image": images.to_json(record.image) if record.image else None,
        "observations": dict(record.image_observations),
    }


def _image_documents(image: Image | None) -> dict[str, bytes]:
    """Return the registry's own bytes, by their path below `data/`."""
    if image is None:
        return {}
    documents = {
        IMAGE_INDEX: image.index,
        IMAGE_MANIFEST: image.manifest,
        IMAGE_CONFIG: image.config,
    }
    return {name: body for name, body in documents.items() if body is not None}


def _image(value: Mapping[str, Any], reader: _Reader) -> Image:
    has_index, has_manifest, has_config = (
        value[name] is not None for name in ("index_digest", "manifest_digest", "config_digest")
    )
    documents = images.Documents(
        index=reader.whole(IMAGE_INDEX) if has_index else None,
        manifest=reader.whole(IMAGE_MANIFEST) if has_manifest else None,
        config=reader.whole(IMAGE_CONFIG) if has_config else None,
    )
    return images.from_json(value, documents, where=reader.at(IMAGE))


def _dataset(value: Mapping[str, Any]) -> Dataset:
    # 5.0 is a JSON integer too
    return Dataset(**{**value, "bytes": int(value["bytes"]), "files": int(value["files"])})


def _world(value: Mapping[str, Any]) -> World:
    return World(
        nodes=tuple(map(int, value["nodes"])),
        means=tuple(value["means"]),
        bytes=int(value["bytes"]),
        seconds=value["seconds"],
    )


def _claims_json(record: Record) -> Iterator[dict[str, Any]]:
    places: dict[Claim, int] = {}
    for place, claim in enumerate(record.manifest.claims):
        places.setdefault(claim, place)
    for frozen in record.claims:
        yield {
            **{field.name: getattr(frozen, field.name) for field in fields(FrozenClaim)},
            "pattern": places[frozen.pattern],
        }


def _claims(
    values: list[Mapping[str, Any]], written: Manifest, reader: _Reader
) -> tuple[FrozenClaim, ...]:
    claims = tuple(_claim(value, written, reader) for value in values)
    values.clear()
    if len(claims) > _MANY_CLAIMS:
        return_memory()
    return claims


def _claim(value: Mapping[str, Any], written: Manifest, reader: _Reader) -> FrozenClaim:
    place = int(value["pattern"])
    if place >= len(written.claims):
        raise DamagedError(
            f'a claim of the record has "pattern": {place}, but the manifest has'
            f" {len(written.claims)} claims, numbered from 0",
            where=reader.at(RECORD),
        )
    return FrozenClaim(
        **{**value, "looks": tuple(map(int, value["looks"])), "pattern": written.claims[place]}
    )
