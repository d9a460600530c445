"""Manifests as an author meets them: what is read, and what each mistake is told."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from capsule import lint, manifest, schema
from capsule.errors import ManifestError, UsageError
from capsule.jsons import Json, JsonObject
from capsule.manifest import Manifest, Operator, starter
from tests.support.properties import examples

MANIFESTS = Path(__file__).parents[2] / "manifests"
GEMM: JsonObject = {
    "id": "gemm",
    "level": 0,
    "operator": "gemm",
    "cases": {"m": [64, 128], "n": [64], "k": [32]},
    "frameworks": ["torch", "numpy"],
}
TRAIN: JsonObject = {
    "id": "train",
    "command": ["python3", "train.py"],
    "inputs": ["train.py"],
    "datasets": ["points"],
    "metrics": {"loss": {"direction": "lower"}, "epochs": {"unit": "epoch", "resolution": 1}},
    "timeout": "00:01:30",
}
BASE: dict[str, Any] = {
    "name": "small",
    "title": "Small",
    "authors": [{"name": "Ada", "orcid": "0000-0002-1825-0097"}],
    "license": "CC-BY-4.0",
    "resources": {"cpus_per_rank": 2, "walltime": "01:00:00"},
    "seeds": [17, 18, 4294967295],
    "datasets": {"points": {"path": "points", "digest": "sha256:" + "0" * 64}},
    "benchmarks": [GEMM, TRAIN],
    "claims": [
        {"metric": "gemm/*/torch/l2_error_ratio", "type": "threshold", "at_most": 1},
        {"metric": "train/default/command/loss", "type": "equivalence", "margin": {"ratio": 2}},
    ],
}


def read(document: bytes | Json, folder: Path | None = None) -> Manifest:
    data = document if isinstance(document, bytes) else json.dumps(document, indent=1).encode()
    return manifest.read(data, where="m.json", folder=folder)


def variant(**fields: Json) -> JsonObject:
    return {**BASE, **fields}


def operator(**fields: Json) -> JsonObject:
    return variant(benchmarks=[{**GEMM, **fields}], claims=[])


def command(**fields: Json) -> JsonObject:
    return variant(benchmarks=[{**TRAIN, **fields}], claims=[])


def complaint(document: bytes | Json, folder: Path | None = None) -> str:
    """What is told of a document that is no manifest."""
    with pytest.raises(ManifestError) as caught:
        read(document, folder)
    return str(caught.value)


def test_a_manifest_is_read_into_values() -> None:
    small = read(BASE)
    assert small.seeds == (17, 18, 4294967295)
    assert small.seed_range == (0, 2**31 - 1)
    assert small.resources.walltime_seconds == 3600
    gemm, train = small.benchmarks
    assert [case.name for case in gemm.cases] == ["m64n64k32", "m128n64k32"]
    assert gemm.cases[1].parameters == {"m": 128, "n": 64, "k": 32}
    assert gemm.subject == Operator(name="gemm", dtype="float32", repetitions=30, warmup=3)
    assert "l2_error_ratio" in {metric.name for metric in gemm.metrics}
    assert train.frameworks == ("command",)
    assert train.cases[0].name == "default"
    assert train.timeout_seconds == 90
    assert train.isolation == "trial"
    assert {metric.name: metric.resolution for metric in train.metrics} == {"epochs": 1, "loss": 0}
    assert small.claims[1].margin == manifest.Margin(ratio=2.0)
    assert small.claims[0].at_most == 1.0


def test_the_bytes_are_kept_as_they_were() -> None:
    data = json.dumps(BASE, indent=3).encode()
    assert read(data).source == data


def test_whole_numbers_written_with_a_point_are_whole_numbers() -> None:
    (gemm,) = read(operator(cases=[{"m": 64.0, "n": 1, "k": 1}])).benchmarks
    assert [case.name for case in gemm.cases] == ["m64n1k1"]


def test_points_may_have_names() -> None:
    (gemm,) = read(operator(cases=[{"name": "tiny", "m": 1, "n": 1, "k": 1}])).benchmarks
    assert gemm.cases == (manifest.Case(name="tiny", parameters={"m": 1, "n": 1, "k": 1}),)


MISTAKES: dict[str, tuple[Json, list[str]]] = {
    "unknown field": (variant(seedz=[1]), ["/seedz", "unknown field", "did you mean 'seeds'?"]),
    "unknown field inside": (operator(framework=["torch"]), ["did you mean 'frameworks'?"]),
    "missing field": (
        {key: value for key, value in BASE.items() if key != "seeds"},
        ["/: the field 'seeds' is missing"],
    ),
    "escaped pointer": (variant(**{"a/b~c": 1}), ["/a~1b~0c: unknown field"]),
    "operator": (operator(operator="gem"), ["/benchmarks/0/operator", "did you mean 'gemm'?"]),
    "framework": (operator(frameworks=["tourch"]), ["/0/frameworks/0", "did you mean 'torch'?"]),
    "dtype": (operator(dtype="float23"), ["/benchmarks/0/dtype", "did you mean 'float32'?"]),
    "case set": (operator(cases="quik"), ["/benchmarks/0/cases", "did you mean 'quick'?"]),
    "empty sweep": (operator(cases=[]), ["/benchmarks/0/cases", "found 0, expected at least 1"]),
    "empty axis": (operator(cases={"m": [], "n": [1], "k": [1]}), ["/0/cases/m", "at least 1"]),
    "no axes": (operator(cases={}), ["/benchmarks/0/cases", "found 0, expected at least 1"]),
    "huge sweep": (
        operator(cases={axis: list(range(1, 1001)) for axis in "mnk"}),
        ["makes 1000000000 cases"],
    ),
    "missing parameter": (operator(cases=[{"m": 1, "n": 1}]), ["parameter 'k' of gemm is missing"]),
    "unknown parameter": (
        operator(cases={"m": [1], "n": [1], "k": [1], "l": [1]}),
        ["/benchmarks/0/cases/l", "gemm has no parameter"],
    ),
    "zero size": (
        operator(cases=[{"m": 0, "n": 1, "k": 1}]),
        ["/0/cases/0/m: found 0, expected a whole number of at least 1"],
    ),
    "two equal cases": (
        operator(cases=[{"m": 1, "n": 1, "k": 1}] * 2),
        ["/benchmarks/0/cases/1", "two cases have the name 'm1n1k1'"],
    ),
    "repeated size": (
        operator(cases={"m": [1, 1], "n": [1], "k": [1]}),
        ["1 is given twice"],
    ),
    "level": (
        operator(level=4),
        ["/benchmarks/0/level: 4: unknown level: this version has level 0"],
    ),
    "ids": (
        variant(benchmarks=[GEMM, GEMM], claims=[]),
        ["/1/id: another benchmark also has the id", '"gemm"'],
    ),
    "name": (variant(name="a/b"), ["/name", "letters, digits"]),
    "name with a line break": (variant(name="small\n"), ["/name", "cannot be printed"]),
    "no seeds": (variant(seeds=[]), ["/seeds", "at least 1"]),
    "negative seed": (variant(seeds=[-1]), ["/seeds/0: -1 is below the minimum, 0"]),
    "large seed": (variant(seeds=[2**32]), ["/seeds/0", "above the maximum, 4294967295"]),
    "a range of one end": (variant(seed_range=[0]), ["/seed_range", "at least 2"]),
    "a range below zero": (
        variant(seed_range=[-1, 2**31]),
        ["/seed_range/0: -1 is below the minimum, 0"],
    ),
    "a narrow range": (
        variant(seeds=[17], seed_range=[1, 9999]),
        ["/seed_range: 1 to 9999 is too narrow", "allow at least 10000"],
    ),
    "a range backwards": (variant(seeds=[17], seed_range=[90000, 0]), ["/seed_range", "narrow"]),
    "a seed outside its range": (
        variant(seeds=[17, 30000], seed_range=[0, 29999]),
        ["/seeds/1: 30000 lies outside seed_range, 0 to 29999"],
    ),
    "repeated seed": (variant(seeds=[3, 3.0]), ["/seeds/1: 3.0 is given twice"]),
    "seed of the wrong type": (variant(seeds=["3"]), ['/seeds/0: "3" is not a whole number']),
    "no image": (variant(image={}), ["/image: the field 'reference' is missing"]),
    "reference": (variant(image={"reference": "torch"}), ["/image/reference", "docker://"]),
    "walltime": (variant(resources={"walltime": "90"}), ["/resources/walltime", "HH:MM:SS"]),
    "no time": (variant(resources={"walltime": "00:00:00"}), ["/resources/walltime"]),
    "determinism": (variant(determinism="strikt"), ["did you mean 'strict'?"]),
    "dataset name": (command(datasets=["pionts"]), ["/0/datasets/0", "did you mean 'points'?"]),
    "dataset of nothing": (
        variant(datasets={"points": {}}),
        ["a generator, a path, a url or a digest"],
    ),
    "generator": (
        variant(datasets={"points": {"generator": "regresion"}}),
        ["/datasets/points/generator", "did you mean 'regression'?"],
    ),
    "generator's parameter": (
        variant(datasets={"points": {"generator": "regression", "sample": 3}}),
        ["/datasets/points/sample", "did you mean 'samples'?"],
    ),
    "generator's value": (
        variant(datasets={"points": {"generator": "regression", "samples": -1}}),
        ["/datasets/points/samples"],
    ),
    "no metrics": (command(metrics={}), ["/benchmarks/0/metrics", "at least 1"]),
    "metric name": (command(metrics={"a b": {}}), ["/benchmarks/0/metrics/a b", "letters, digits"]),
    "null byte": (command(command=["a\0"]), ["/benchmarks/0/command/0"]),
    "surrogate": (command(command=["\ud800"]), ["half of a surrogate pair"]),
    "same claim twice": (variant(claims=BASE["claims"] * 2), ["/claims/2: {", "is given twice"]),
    "not an object": ([], ["is not an object"]),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_is_told(name: str) -> None:
    document, expected = MISTAKES[name]
    message = complaint(document)
    assert [part for part in expected if part not in message] == [], message


def test_everything_wrong_is_told_at_once_with_its_line() -> None:
    text = b"""{
 "name": "small", "title": "Small", "authors": [{"name": "Ada"}], "license": "MIT",
 "seeds": [1,
           -2],
 "benchmarks": [
  {"id": "gemm", "level": 0, "operator": "gem", "frameworks": ["torch"]}
 ],
 "wong": true
}"""
    assert complaint(text).splitlines()[:4] == [
        "m.json: not a valid manifest, 3 problems:",
        "  line 4, /seeds/1: -2 is below the minimum, 0",
        "  line 6, /benchmarks/0/operator: unknown operator \"gem\"; did you mean 'gemm'?",
        '  line 8, /wong: unknown field "wong"; there are: $schema, name, title, authors, license, '
        "paper, image, resources, seeds, seed_range, determinism, datasets, benchmarks, claims, "
        "mutable, winner_of",
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            b'{"name": "a",\n "seeds": [1],\n "name": "b"}',
            ["line 3, /name: this key is given twice"],
        ),
        (b'{"a":\n {"b": NaN}}', ["line 2, /a/b: found NaN, expected a finite number"]),
        (b'{"a": [1,\n -Infinity]}', ["line 2, /a/1: found -Infinity, expected a finite number"]),
        (b'{"a": 1e999}', ["line 1, /a: found 1e999, expected a finite number"]),
        (b'{"a": 1,\n}', ["not JSON", "line 2"]),
        (b"", ["is empty"]),
        (b"\xff", ["not UTF-8"]),
        (b"[" * 100_000, ["nested deeper"]),
        (b'"' * 300_000, ["too long for a manifest"]),
        (b'{"a": ' + b"9" * 30 + b"}", ["64 bits"]),
    ],
)
def test_what_is_not_strict_json_is_refused(text: bytes, expected: Sequence[str]) -> None:
    message = complaint(text)
    assert [part for part in expected if part not in message] == [], message


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("trian.py", "did you mean 'train.py'?"),
        ("/etc/passwd", "absolute"),
        ("../train.py", "is outside of the manifest's folder"),
        ("a/../../train.py", "is outside of the manifest's folder"),
        ("./train.py", "not a plain relative path"),
        ("a//b", "not a plain relative path"),
        ("link.py", "a link out of the manifest's folder"),
    ],
)
def test_inputs_lie_beside_the_manifest(tmp_path: Path, path: str, expected: str) -> None:
    folder = tmp_path / "beside"
    (folder / "points").mkdir(parents=True)
    (folder / "train.py").write_text("pass")
    (tmp_path / "outside.py").write_text("pass")
    (folder / "link.py").symlink_to(tmp_path / "outside.py")
    assert read(BASE, folder).folder == folder
    message = complaint(command(inputs=[path]), folder)
    assert "/benchmarks/0/inputs/0" in message
    assert expected in message


def test_out_of_a_capsule_no_file_is_looked_for_but_paths_stay_inside() -> None:
    assert read(BASE).folder is None
    assert "is outside of the manifest's folder" in complaint(command(inputs=["../train.py"]))


def test_a_file_that_is_missing_is_named(tmp_path: Path) -> None:
    with pytest.raises(ManifestError, match=r"absent\.json: no such file"):
        manifest.load(tmp_path / "absent.json")


@pytest.mark.parametrize("path", sorted(MANIFESTS.glob("*.json")), ids=lambda path: path.name)
def test_our_own_manifests_are_right(path: Path) -> None:
    assert manifest.load(path).claims
    assert json.loads(path.read_bytes())["$schema"] == "../capsule/schema/manifest-1.schema.json"


def test_the_starter_is_right_but_for_its_author() -> None:
    (warning,) = lint.warnings(read(starter.starter("first.try")))
    assert len(json.loads(starter.starter("first.try"))["seeds"]) == 10
    assert starter.NOBODY in warning
    with pytest.raises(UsageError, match="a b"):
        starter.starter("a b")


def test_the_schema_is_valid_draft_7_and_every_field_is_described() -> None:
    published = schema.load("manifest-1")
    jsonschema.Draft7Validator.check_schema(published)
    definitions = published["definitions"]

    def check_described(where: str, properties: Mapping[str, JsonObject | Literal[False]]) -> None:
        for name, field in properties.items():
            if field is not False:
                whole = {**definitions.get(str(field.get("$ref")).rpartition("/")[2], {}), **field}
                assert whole.get("title"), f"{where}/{name} has no title"
                assert whole.get("description"), f"{where}/{name} has no description"

    check_described("", published["properties"])
    for name, definition in definitions.items():
        check_described(name, definition.get("properties", {}))
    patterns = [part for part in _objects(published) if isinstance(part.get("pattern"), str)]
    assert all("errorMessage" in part for part in patterns)


def _objects(value: Json) -> Iterator[JsonObject]:
    if isinstance(value, dict):
        yield value
        for item in value.values():
            yield from _objects(item)
    elif isinstance(value, list):
        for item in value:
            yield from _objects(item)


Container = list[Any] | dict[str, Any]
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)


@given(st.binary(max_size=200))
def test_any_bytes_give_a_manifest_error(data: bytes) -> None:
    complaint(data)


@examples(300, times=100)
@given(data=st.data())
def test_any_change_gives_a_manifest_or_a_manifest_error(data: st.DataObject) -> None:
    """Replace one value anywhere in a right manifest by any JSON whatever."""
    document = json.loads(json.dumps(BASE))
    places = [(holder, key) for holder in _containers(document) for key in _keys(holder)]
    holder, key = data.draw(st.sampled_from(places))
    holder[key] = data.draw(json_values)
    try:
        small = read(document)
    except ManifestError as error:
        assert "m.json" in str(error)
        str(error).encode()
    else:
        lint.warnings(small)


def _containers(value: Json) -> Iterator[Container]:
    if isinstance(value, dict | list):
        yield value
        for item in value.values() if isinstance(value, dict) else value:
            yield from _containers(item)


def _keys(holder: Container) -> Iterable[Any]:
    """What `holder` can be indexed by: strings, or numbers."""
    return list(holder) if isinstance(holder, dict) else range(len(holder))


names = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,10}", fullmatch=True)
sizes = st.lists(st.integers(1, 2**31 - 1), min_size=1, max_size=3, unique=True)


@given(
    name=names,
    seeds=st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=9, unique=True),
    axes=st.fixed_dictionaries({"m": sizes, "n": sizes, "k": sizes}),
    dtype=st.sampled_from(["float32", "float64"]),
)
def test_right_manifests_come_back_as_written(
    name: str, seeds: Sequence[int], axes: Mapping[str, Sequence[int]], dtype: str
) -> None:
    small = read(
        variant(
            name=name,
            seeds=seeds,
            benchmarks=[{**GEMM, "id": name, "cases": axes, "dtype": dtype}],
            claims=[],
        )
    )
    (benchmark,) = small.benchmarks
    assert (small.name, benchmark.id) == (name, name)
    assert benchmark.subject == Operator(name="gemm", dtype=dtype)
    assert small.seeds == tuple(seeds)
    assert [tuple(case.parameters.values()) for case in benchmark.cases] == [
        (m, n, k) for m in axes["m"] for n in axes["n"] for k in axes["k"]
    ]
    assert read(small.source) == small


@pytest.mark.parametrize(
    ("image", "advice"),
    [
        (
            {"build": "images/My Image"},
            "run `docker build -t my-image 'images/My Image'`, and refer to the image as"
            " docker-daemon:my-image;",
        ),
        (
            {"build": "."},
            "run `docker build -t image .`, and refer to the image as docker-daemon:image;",
        ),
        (
            {"reference": "docker://a/b", "build": "own.def"},
            "run `apptainer build own.sif own.def`, and refer to the image as own.sif",
        ),
    ],
)
def test_a_recipe_is_refused_with_the_commands_but_where_it_was_sealed(
    tmp_path: Path, image: JsonObject, advice: str
) -> None:
    document = {**variant(image=image), "datasets": {}, "benchmarks": [GEMM], "claims": []}
    with pytest.raises(ManifestError, match="one problem") as caught:
        read(document, tmp_path)
    assert f" is no longer supported: {advice}" in str(caught.value)
    sealed = read(document).image
    assert sealed is not None
    assert sealed.reference.startswith("docker-daemon:")


@pytest.mark.parametrize("field", ["benchmarks", "claims", "datasets"])
@pytest.mark.parametrize("value", [{"": {}}, [{}], "x", 3, None])
def test_a_misshapen_field_is_a_problem_and_no_fault(field: str, value: Json) -> None:
    with pytest.raises(ManifestError, match=f"/{field}"):
        read({**BASE, field: value})
