"""How far a claim lets the rates of failed runs be apart, as a manifest says it."""

import pytest

from capsule import lint
from capsule.jsons import Json, JsonObject
from tests.manifest.test_reader import complaint, read, variant

LOSS = "train/default/command/loss"


def on_loss(**claim: Json) -> JsonObject:
    return variant(claims=[{"metric": LOSS, "type": "equivalence", **claim}])


@pytest.mark.parametrize(("claim", "margin"), [({}, None), ({"failure_margin": 0.1}, 0.1)])
def test_a_failure_margin_is_read(claim: JsonObject, margin: float | None) -> None:
    assert [one.failure_margin for one in read(on_loss(**claim)).claims] == [margin]


@pytest.mark.parametrize("margin", [0, 1, -0.1, "10 %"])
def test_a_failure_margin_lies_between_none_and_all(margin: Json) -> None:
    assert "failure_margin" in complaint(on_loss(failure_margin=margin))


@pytest.mark.parametrize("kind", ["exact", "ratio"])
def test_what_needs_every_value_or_decides_nothing_has_no_failure_margin(kind: str) -> None:
    message = complaint(on_loss(type=kind, failure_margin=0.1))
    assert "exact and ratio claims have no failure_margin" in message


@pytest.mark.parametrize(
    ("claim", "expected"),
    [
        # two looks at values, one at a bound
        (
            {},
            "3 seeds never confirm a failure margin of 0.1, even if no run fails. Use 32 seeds",
        ),
        ({"type": "bound", "at_most": 1}, "Use 29 seeds"),
    ],
)
def test_lint_warns_of_too_few_seeds(claim: JsonObject, expected: str) -> None:
    warnings = lint.warnings(read(on_loss(failure_margin=0.1, **claim)))
    assert expected in "\n".join(warnings)


def test_lint_is_silent_where_the_seeds_are_enough() -> None:
    warnings = lint.warnings(read(on_loss(failure_margin=0.9)))
    assert "failure margin" not in "\n".join(warnings)
