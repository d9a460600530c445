"""Names by the hundred thousand behave as dictionaries do, in less memory."""

import json
import tracemalloc
from collections.abc import Iterator
from dataclasses import replace

import orjson
from hypothesis import given
from hypothesis import strategies as st

from capsule import digest
from capsule.archive import crate
from capsule.archive.crate import Payload
from capsule.archive.indented import pretty
from capsule.archive.sharing import Sharing
from capsule.archive.strict import parse
from capsule.archive.table import Below, Digests, Table
from capsule.record import Record
from tests.support.records import make_record

NAMES = st.lists(
    st.text(alphabet="ab/", min_size=1).map(lambda name: f"data/{name}") | st.text(max_size=8),
    unique=True,
)


@given(names=NAMES, wanted=st.text(max_size=8))
def test_a_table_is_the_mapping_of_its_pairs(names: list[str], wanted: str) -> None:
    digests = Digests()
    for name in sorted(names):
        digests.append(bytes.fromhex(digest.of_bytes(name.encode()).hex))
    expected = {name: digest.of_bytes(name.encode()) for name in sorted(names)}
    table = Table(sorted(names), digests)
    assert table == expected
    assert (list(table), len(table)) == (list(expected), len(expected))
    assert list(table.items()) == list(expected.items())
    assert list(table.values()) == list(expected.values())
    assert table.get(wanted) == expected.get(wanted)
    assert digests[1:] == list(expected.values())[1:]


@given(names=NAMES, wanted=st.text(max_size=8))
def test_below_a_folder_is_what_begins_with_it(names: list[str], wanted: str) -> None:
    whole = {name: len(name) for name in sorted(names)}
    prefix = "data/"
    expected = {
        name.removeprefix(prefix): size for name, size in whole.items() if name.startswith(prefix)
    }
    below = Below(Table(sorted(names), list(whole.values())), prefix)
    assert below == expected
    assert (list(below), len(below)) == (list(expected), len(expected))
    assert list(below.items()) == list(expected.items())
    assert list(below.values()) == list(expected.values())
    assert below.get(wanted) == expected.get(wanted)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.sampled_from([0.0, 1.0]) | st.text("ab"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab"), inner, max_size=3),
    max_leaves=8,
)
TRIALS = st.lists(st.fixed_dictionaries({}, optional={"id": JSON, "parameters": JSON}) | JSON)
GROUPS = st.lists(
    st.fixed_dictionaries({}, optional={"seed": JSON, "trials": TRIALS | JSON}) | JSON
)


@given(groups=GROUPS)
def test_what_is_shared_stays_what_it_was(groups: list[object]) -> None:
    """A stranger's plan is gone through before its schema was asked; 1, 1.0 and true differ."""
    text = json.dumps(groups)
    share = Sharing()
    for group in groups:
        share(group)
    assert json.dumps(groups) == text


def test_trials_of_a_large_plan_hold_what_they_have_in_common_once() -> None:
    trials = [{"id": f"t{n}", "parameters": {"m": 1000}, "seed": 1000} for n in range(20_000)]
    data = pretty(
        {"groups": [{"id": f"g{n}", "trials": [trial]} for n, trial in enumerate(trials)]}
    )
    plan = parse(data, where="plan", visit=Sharing())
    assert plan == orjson.loads(data)
    first, *_, last = (group["trials"][0] for group in plan["groups"])
    assert first["parameters"] is last["parameters"]
    assert first["seed"] is last["seed"]


def test_a_crate_of_many_files_is_hashed_in_little_memory() -> None:
    record = make_record()
    known = digest.of_bytes(b"")
    described = [
        Payload(path=f"logs/{n:06}.txt", name=f"logs/{n:06}.txt", size_bytes=n, digest=known)
        for n in range(20_000)
    ]
    whole = b"".join(crate.build(record, lambda: iter(described)))
    assert whole == pretty(json.loads(whole))
    tracemalloc.start()
    try:
        hashed = digest.of_pieces(crate.build(record, lambda: iter(described)))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert hashed == digest.of_bytes(whole)
    assert peak < len(whole) / 20


def test_a_crate_goes_through_the_files_as_often_whatever_there_is() -> None:
    """A quarter of a million files, and as many datasets, would take hours."""

    def passes(record: Record) -> int:
        rounds = 0

        def files() -> Iterator[Payload]:
            nonlocal rounds
            rounds += 1
            return iter(())

        assert json.loads(b"".join(crate.build(record, files)))
        return rounds

    record = make_record()
    (spec,), (dataset,) = record.manifest.datasets, record.datasets
    names = [f"data-{n}" for n in range(50)]
    manifest = replace(record.manifest, datasets=tuple(replace(spec, name=n) for n in names))
    many = tuple(replace(dataset, name=name, embedded=True) for name in names)
    assert passes(record) == passes(replace(record, manifest=manifest, datasets=many)) < 6
