"""Tools that know nothing of us accept our capsules, and each refuses what it ought to refuse."""

import dataclasses
import json
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from capsule import digest, schema
from capsule import manifest as manifests
from capsule.record import File, Record
from tests.support import crate_cache
from tests.support.capsules import pack, run, seal, unpack, write_folder
from tests.support.records import Document, make_files, make_record, manifest_document

BIN = Path(sys.executable).parent
CRATE = "data/ro-crate-metadata.json"
# recommended: an absolute URI of the application. The measuring code is published at none, so
# its entity has a name of the crate's own, and its place and digest
UNMET = {"process-run-crate-0.5_5.1"}

Graph = dict[str, dict[str, Any]]
"""The entities of a crate, by id."""
Change = Callable[[Graph], None]
Damage = Callable[[Path], None]


def change_manifest(record: Record, document: Document) -> Record:
    """The same record of another manifest."""
    source = json.dumps(document).encode()
    manifest = manifests.read(source, where="manifest.json", folder=None)
    plan = {**record.plan, "manifest": str(digest.of_bytes(source))}
    return dataclasses.replace(
        record, manifest=manifest, plan=plan, plan_digest=str(digest.of_json(plan))
    )


def record_without_affiliations() -> Record:
    document = {**manifest_document(), "authors": [{"name": "Cleo Alone"}]}
    del document["paper"]
    return change_manifest(make_record(), document)


def record_with_sources() -> Record:
    document = manifest_document()
    document["datasets"]["ramp"] |= {
        "url": "https://example.org/ramp.bin?download=1",
        "doi": "10.5281/zenodo.1234567",
        "license": "CC0-1.0",
        "description": "A ramp",
    }
    return change_manifest(make_record(), document)


ODD_NAMES = ("café.txt", "数据/1 2%.csv", "aux.c", "Make", "make", "a:b\\c", "lr=0.1", " x.")


def seal_odd_names(folder: Path) -> Path:
    """A capsule of files with names that no archive has as they are."""
    odd = [File(path=f"inputs/{name}", source=name.encode()) for name in ODD_NAMES]
    return seal(folder, files=[*make_files(), *odd])


RECORDS = {
    "contained": make_record(),
    "host, with a failed trial": make_record(image=False, failed=(18,)),
    "verification": make_record(seeds=(1, 2, 3), fresh=(1, 2, 3), verifies="ab" * 32),
    "data with a source": record_with_sources(),
    "no affiliation, no claim": dataclasses.replace(record_without_affiliations(), claims=()),
}
every_record = pytest.mark.parametrize("record", RECORDS.values(), ids=RECORDS)
# the first is the one of odd names, too
crates = pytest.mark.parametrize(
    "record",
    [
        pytest.param(record, id=name, marks=[pytest.mark.long] if name == "contained" else [])
        for name, record in RECORDS.items()
    ],
)


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("crate") / "cache"
    crate_cache.fill(path)
    return path


@pytest.fixture
def bag(tmp_path: Path) -> Path:
    return write_folder(unpack(seal(tmp_path)), tmp_path / "bag")


def validate_crate(bag: Path, cache: Path) -> set[str]:
    """The checks of Process Run Crate 0.5, up to those recommended, that a folder fails."""
    report = bag.parent / "report.json"
    options = [
        "--offline",
        "-p",
        "process-run-crate-0.5",
        "-l",
        "recommended",
        "--no-paging",
        "-f",
        "json",
    ]
    command: list[str | Path] = [
        BIN / "rocrate-validator",
        "--no-interactive",
        "validate",
        *options,
    ]
    result = run(*command, "--cache-path", cache, "-o", report, bag, cwd=bag.parent)
    assert result.returncode in (0, 1), result.stdout
    findings = json.loads(report.read_text())
    assert findings["passed"] == (result.returncode == 0)
    return {issue["check"]["identifier"] for issue in findings["issues"]}


@crates
def test_the_crate_is_a_process_run_crate(tmp_path: Path, cache: Path, record: Record) -> None:
    files = unpack(seal(tmp_path, record))
    assert validate_crate(write_folder(files, tmp_path / "bag"), cache) == UNMET


def test_escaped_names_are_the_same_to_every_tool(tmp_path: Path, cache: Path) -> None:
    """Quoted-printable, since percent codes are of the lists of bags and of URIs themselves."""
    path = seal_odd_names(tmp_path)
    bag = tmp_path / "bag"
    assert run("unzip", "-q", path, "-d", bag, cwd=tmp_path).returncode == 0
    assert validate_crate(bag, cache) == UNMET
    for command in (
        [BIN / "bagit.py", "--validate", bag],
        ["sha256sum", "-c", "--quiet", "manifest-sha256.txt"],
    ):
        result = run(*command, cwd=bag)
        assert result.returncode == 0, result.stderr
    code = (
        "from rocrate.rocrate import ROCrate; crate = ROCrate('data');"
        "print(sorted(e['name'] for e in crate.get_entities() if e.id.startswith('inputs/')))"
    )
    result = run(sys.executable, "-c", code, cwd=bag)
    named = sorted(f"inputs/{name}" for name in (*ODD_NAMES, "train.py"))
    assert result.stdout.strip() == str(named), result.stderr


def drop(entity_id: str, key: str) -> Change:
    def change(graph: Graph) -> None:
        del graph[entity_id][key]

    return change


def put(entity_id: str, key: str, value: str) -> Change:
    def change(graph: Graph) -> None:
        graph[entity_id][key] = value

    return change


CHANGES = {
    "process-run-crate-0.5_1.1": drop("#run", "instrument"),
    "process-run-crate-0.5_2.1": drop("./", "conformsTo"),
    "process-run-crate-0.5_8.1": drop("./", "mentions"),
    "process-run-crate-0.5_8.4": put("#run", "endTime", "2026-03-01T10:00:42Z"),
    "process-run-crate-0.5_13.2": drop("#image", "registry"),
    "ro-crate-1.1_3.1": put("#run", "no_such_term", "1"),
}


# a second each: together in every run, each alone in a long one
@pytest.mark.parametrize(
    "checks",
    [
        pytest.param([*CHANGES], id="together"),
        *(pytest.param([check], id=check, marks=pytest.mark.long) for check in CHANGES),
    ],
)
def test_the_crate_validator_refuses(bag: Path, cache: Path, checks: list[str]) -> None:
    path = bag / CRATE
    document = json.loads(path.read_text())
    for check in checks:
        CHANGES[check]({entity["@id"]: entity for entity in document["@graph"]})
    path.write_text(json.dumps(document))
    assert validate_crate(bag, cache) >= {*checks}


def test_the_crate_validator_refuses_a_missing_file(bag: Path, cache: Path) -> None:
    (bag / "data/results/metrics.json").unlink()
    assert "ro-crate-1.1_12.1" in validate_crate(bag, cache)


def test_a_second_reader_finds_the_run(bag: Path) -> None:
    code = (
        "from rocrate.rocrate import ROCrate; crate = ROCrate('data');"
        "[run] = crate.get_by_type('CreateAction'); print(run['containerImage']['sha256'])"
    )
    result = run(sys.executable, "-c", code, cwd=bag)
    image = make_record().image
    assert image is not None
    assert image.manifest_digest is not None
    assert result.stdout.strip() == image.manifest_digest.hex, result.stderr


def damage_nothing(bag: Path) -> None:
    pass


def change_a_byte(bag: Path) -> None:
    path = bag / "data/results/samples.jsonl"
    path.write_bytes(path.read_bytes().replace(b"0.", b"1.", 1))


def remove_a_file(bag: Path) -> None:
    (bag / "data/README.md").unlink()


def add_a_file(bag: Path) -> None:
    (bag / "data/surplus.txt").write_text("surplus")


def change_a_tag_file(bag: Path) -> None:
    with (bag / "bag-info.txt").open("a") as stream:
        stream.write("Contact-Name: Nobody\n")


@every_record
def test_the_bag_is_valid(tmp_path: Path, record: Record) -> None:
    bag = write_folder(unpack(seal(tmp_path, record)), tmp_path / "bag")
    result = run(BIN / "bagit.py", "--validate", bag, cwd=tmp_path)
    assert result.returncode == 0, result.stderr


@pytest.mark.parametrize("damage", [change_a_byte, remove_a_file, add_a_file, change_a_tag_file])
def test_bagit_refuses(bag: Path, damage: Damage) -> None:
    damage(bag)
    assert run(BIN / "bagit.py", "--validate", bag, cwd=bag.parent).returncode != 0


@pytest.mark.parametrize(
    "damage, accepted",
    [
        (damage_nothing, True),
        (change_a_byte, False),
        (remove_a_file, False),
        (change_a_tag_file, False),
    ],
)
def test_sha256sum(bag: Path, damage: Damage, accepted: bool) -> None:
    damage(bag)
    lists = ("tagmanifest-sha256.txt", "manifest-sha256.txt")
    assert (run("sha256sum", "-c", *lists, cwd=bag).returncode == 0) == accepted


@pytest.mark.parametrize("tool", [("unzip", "-t"), (sys.executable, "-m", "zipfile", "-t")])
def test_zip_tools(tmp_path: Path, tool: tuple[str, ...]) -> None:
    path = seal(tmp_path)
    assert run(*tool, path, cwd=tmp_path).returncode == 0
    data = bytearray(path.read_bytes())
    data[data.index(b"capsule-record/1")] ^= 1
    path.write_bytes(data)
    result = run(*tool, path, cwd=tmp_path)
    # zipfile's exit status is 0 even so: it says which file is bad
    assert result.returncode != 0 or "data/capsule.json" in result.stdout


def test_a_zip64_capsule_is_read_by_other_tools(tmp_path: Path) -> None:
    names = {f"data/{number:05d}": b"" for number in range(70_000)}
    path = pack(names, tmp_path / "many.zip")
    assert run("unzip", "-tq", path, cwd=tmp_path).returncode == 0
    listing = run(sys.executable, "-m", "zipfile", "-l", path, cwd=tmp_path)
    assert len(listing.stdout.splitlines()) == 70_001


DOCUMENTS = {
    "data/capsule.json": "record-1",
    "data/records/hardware.json": "hardware-1",
    "data/records/software.json": "software-1",
    "data/records/environment.json": "environment-1",
    "data/records/image.json": "image-1",
    "data/records/plan.json": "plan-1",
    "data/results/metrics.json": "metrics-1",
}
LINES = {"data/results/samples.jsonl": "sample-1", "data/results/attempts.jsonl": "attempt-1"}


def values(files: Mapping[str, bytes]) -> Iterator[tuple[str, dict[str, Any]]]:
    """(schema, value) of every JSON document and line."""
    for name, schema_name in DOCUMENTS.items():
        yield schema_name, json.loads(files[name])
    for name, schema_name in LINES.items():
        for line in files[name].splitlines():
            yield schema_name, json.loads(line)


@every_record
def test_every_document_fits_its_published_schema(tmp_path: Path, record: Record) -> None:
    for schema_name, value in values(unpack(seal(tmp_path, record))):
        assert schema.validate(value, schema_name) == [], schema_name


def test_schemas_refuse(tmp_path: Path) -> None:
    """Every field that is left out, every unknown one and every wrong type is noticed."""
    for schema_name, value in values(unpack(seal(tmp_path))):
        assert schema.validate(value | {"surprise": 1}, schema_name), schema_name
        for field in value:
            rest = {key: part for key, part in value.items() if key != field}
            assert schema.validate(rest, schema_name), (schema_name, field)
            assert schema.validate(value | {field: {"no": object}}, schema_name) or (
                isinstance(value[field], dict)
            ), (schema_name, field)


@pytest.mark.parametrize("name", [*DOCUMENTS.values(), *LINES.values()])
def test_every_schema_is_a_schema_that_explains_itself(name: str) -> None:
    import jsonschema

    document = schema.load(name)
    jsonschema.Draft7Validator.check_schema(document)
    assert document["$schema"] == "http://json-schema.org/draft-07/schema#"
    for fields in properties(document):
        for field, rules in fields.items():
            text = rules.get("description")
            assert text or "$ref" in rules, (name, field)


def properties(node: object) -> Iterator[dict[str, dict[str, Any]]]:
    if isinstance(node, dict):
        if isinstance(node.get("properties"), dict):
            yield node["properties"]
        for child in node.values():
            yield from properties(child)
    elif isinstance(node, list):
        for child in node:
            yield from properties(child)
