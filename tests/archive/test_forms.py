"""The flat check, and documents with long lists: they agree with the published schemas."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from capsule import schema
from capsule.archive import flat, forms
from tests.support.capsules import sample_files
from tests.support.records import make_attempt

_ODD = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-2, 2**33),
    st.floats(-1, 1).filter(lambda number: not number.is_integer()),
    st.text(max_size=30),
)


def attempt_json() -> dict[str, Any]:
    document: dict[str, Any] = json.loads(json.dumps(dataclasses.asdict(make_attempt(17))))
    return document


@given(
    field=st.sampled_from(sorted(attempt_json())),
    value=st.one_of(
        _ODD,
        st.sampled_from(["completed", "failed", "fresh", "exit", "x" * 2001, [], {}, "a/b/c/1"]),
    ),
    lose=st.booleans(),
)
def test_the_flat_check_of_an_attempt_agrees_with_its_schema(
    field: str, value: object, lose: bool
) -> None:
    attempt = attempt_json() | {field: value}
    if lose:
        del attempt[field]
    fault = flat.checker(schema.load("attempt-1"))(attempt)
    assert bool(fault) == bool(schema.validate(attempt, "attempt-1")), (fault, attempt)


def claim_json() -> dict[str, Any]:
    return {
        "metric": "train/a/torch/loss",
        "type": "equivalence",
        "scale": "linear",
        "lower": -1.5,
        "upper": None,
        "margin_source": "author",
        "alpha": 0.05,
        "primary": True,
        "looks": [5, 10],
        "paired": False,
        "resolution": None,
        "later": False,
        "pattern": 0,
    }


@given(
    field=st.sampled_from(sorted(claim_json())),
    value=st.one_of(
        _ODD,
        st.sampled_from(["log", "exact", "a/b/c/d", 0.5, 1e-9, [], [0], [1, 2, 3, 4], [2001], {}]),
    ),
    lose=st.booleans(),
    place=st.integers(0, 2),
)
def test_each_claim_is_held_against_the_schema(
    field: str, value: object, lose: bool, place: int
) -> None:
    record = json.loads(sample_files()["data/capsule.json"])
    claims = [claim_json() for _ in range(3)]
    claims[place][field] = value
    if lose:
        del claims[place][field]
    record["claims"] = claims
    fault = next(forms.faults(record, "record-1", ("claims",)), None)
    assert bool(fault) == bool(schema.validate(record, "record-1")), (fault, claims[place])
    assert fault is None or fault.startswith(f"/claims/{place}")


def test_a_schema_that_is_not_flat_is_refused() -> None:
    with pytest.raises(ValueError, match="anyOf"):
        flat.checker({"required": [], "properties": {"a": {"anyOf": []}}})
