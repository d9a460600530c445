"""What an author calls a claim: read, refused, sealed, and printed without steering a terminal."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from capsule import archive, lint
from capsule.jsons import Json
from capsule.report.documents.comparison import claim_to_json
from tests.manifest.test_claims import on_loss
from tests.manifest.test_reader import complaint, read, variant
from tests.support.capsules import seal
from tests.support.records import LOSS, make_record


@pytest.mark.parametrize("label", ["C1", "Table 2, row 3", "Größe Δ", "[red]C1[/red]", "x" * 60])
def test_a_label_is_read_as_it_is_written(label: str) -> None:
    manifest = read(on_loss(label=label))
    assert [claim.label for claim in manifest.claims] == [label]
    assert [claim.label for claim in lint.outlook(manifest)] == [label]


def test_a_claim_needs_no_label() -> None:
    assert [claim.label for claim in read(on_loss()).claims] == [None]


@pytest.mark.parametrize(
    ("label", "fault"),
    [
        ("x" * 61, "has too many characters: found 61, expected at most 60"),
        ("", "has too few characters: found 0, expected at least 1"),
        ("two\nlines", "contains a character that cannot be printed"),
        ("\x1b[31mred", "contains a character that cannot be printed"),
        ("\u202edetrever", "contains a character that cannot be printed"),
        (3, "is not a text"),
        (None, "is not a text"),
    ],
)
def test_other_labels_are_refused(label: Json, fault: str) -> None:
    message = complaint(on_loss(label=label))
    assert "/claims/0/label" in message
    assert fault in message


def test_claims_may_share_a_label() -> None:
    claims: list[Json] = [
        {"metric": "train/default/command/loss", "type": kind, "label": "C1"}
        for kind in ("equivalence", "ratio")
    ]
    assert [claim.label for claim in read(variant(claims=claims)).claims] == ["C1", "C1"]


def test_a_label_is_sealed_and_stands_in_documents(tmp_path: Path) -> None:
    asked: list[dict[str, Any]] = [
        {"metric": LOSS, "type": "equivalence", "label": "Table 2, row 3"},
        {"metric": LOSS, "type": "equivalence"},
    ]
    record = make_record(asked=asked)
    with archive.read(seal(tmp_path, record)) as capsule:
        assert capsule.record == record
        labels = [claim_to_json(claim)["label"] for claim in capsule.record.claims]
    assert labels == ["Table 2, row 3", None]
