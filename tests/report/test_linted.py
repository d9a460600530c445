"""The screen of `lint`: result first, a table, then warnings with code, place and remedy."""

from __future__ import annotations

import io
from collections.abc import Sequence

import pytest
from rich.console import Console

from capsule import lint, report
from capsule.jsons import Json, JsonObject
from capsule.manifest import Manifest
from tests.manifest.test_reader import read, variant
from tests.support.records import LOSS as SEALED_LOSS
from tests.support.records import make_record

LOSS = "train/default/command/loss"
WIDTHS = (80, 100, 160)


def on_loss(*claims: JsonObject, seeds: int = 10) -> Manifest:
    on_it: list[Json] = [{"metric": LOSS, "type": "equivalence", **one} for one in claims]
    return read(variant(claims=on_it, seeds=list(range(seeds))))


def draw(manifest: Manifest, width: int = 80, *, full: bool = False) -> str:
    stream = io.StringIO()
    console = Console(file=stream, width=width)
    for item in report.draw_lint("m.json", manifest, lint.warnings(manifest), full=full):
        console.print(item)
    return stream.getvalue()


def row(screen: str, name: str) -> list[str]:
    (line,) = [one for one in screen.splitlines() if one.startswith(name)]
    return line.split()


def test_the_result_stands_first() -> None:
    assert draw(on_loss({})).startswith("m.json is valid: 1 claim, ")
    assert draw(read(variant(claims=[]))).startswith("m.json is valid: no claims, ")


def test_a_margin_in_spreads_has_seeds_that_it_needs_and_the_smallest_one() -> None:
    screen = draw(on_loss({"label": "C1"}))
    assert "needed" in screen
    assert "smallest margin" in screen
    assert row(screen, "C1")[:6] == ["C1", "equivalence", "2", "sd", "10", "8"]


def test_a_margin_in_its_unit_has_the_largest_spread_for_either_power() -> None:
    screen = draw(on_loss({"margin": {"absolute": 0.02}}))
    (reach,) = lint.outlook(on_loss({"margin": {"absolute": 0.02}}))
    assert "largest sd" in screen
    cells = row(screen, "loss")
    assert cells[:4] == ["loss", "equivalence", "0.02", "10"]
    for cell in cells[4:]:
        assert cell in reach.sentence


def test_claims_without_a_margin_are_counted() -> None:
    screen = draw(on_loss({"type": "exact"}, {"type": "bound", "at_most": 1}, {}))
    assert "claims without a margin: 1 exact, 1 bound" in screen


def test_a_warning_has_its_code_its_place_and_its_remedy() -> None:
    screen = draw(on_loss({}, seeds=1))
    lines = screen.splitlines()
    place = next(n for n, line in enumerate(lines) if line.startswith("one-seed  m.json:"))
    remedy = next(n for n, line in enumerate(lines) if line == "    Name at least five seeds")
    assert place < remedy
    assert "docs/reference/warnings.md" in lines[-1]


def test_a_label_steers_no_terminal_and_is_no_markup() -> None:
    screen = draw(on_loss({"label": "[red]C1[/red] :bug:"}))
    assert "[red]C1[/red] :bug:" in screen


def test_full_has_the_sentence_of_every_claim() -> None:
    manifest = on_loss({}, {"margin": {"absolute": 0.02}}, {"type": "bound", "at_most": 1})
    words = " ".join(draw(manifest, full=True).split())
    for reach in lint.outlook(manifest):
        assert reach.sentence in words


def many(claims: int) -> Manifest:
    """A manifest of long names, in which every claim has a warning."""
    names = [f"metric{number:04d}-{'m' * 49}" for number in range(claims)]
    benchmark: JsonObject = {
        "id": "b" * 60,
        "command": ["python3", "train.py"],
        "cases": [{"name": "c" * 60}],
        "metrics": {name: {} for name in names},
    }
    on_them: list[Json] = [
        {"metric": f"{'b' * 60}/*/command/{name}", "type": "equivalence"} for name in names
    ]
    return read(variant(benchmarks=[benchmark], claims=on_them, seeds=[1, 2, 3]))


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("claims", [1, 40, 1000])
def test_a_brief_screen_is_short_and_breaks_no_name(claims: int, width: int) -> None:
    manifest = many(claims)
    lines = draw(manifest, width).splitlines()
    assert len(lines) <= 120
    assert max(map(len, lines)) <= width
    pieces = {piece for line in lines for piece in line.replace("/", " ").split()}
    assert not [one for one in pieces if "mmm" in one and one.strip(":,").count("m") < 50]
    if claims == 1000:
        assert "more claims: --full" in "\n".join(lines)
        assert "more warnings (" in "\n".join(lines)


def test_full_shows_every_claim_of_many() -> None:
    screen = draw(many(40), full=True)
    assert all(f"metric{number:04d}" in screen for number in range(40))
    assert "more" not in screen.replace("more than", "")


def sealed(claims: Sequence[JsonObject]) -> str:
    record = make_record(image=False, asked=claims)
    warnings = lint.warnings_of_runs(record)
    stream = io.StringIO()
    console = Console(file=stream, width=80, force_terminal=True, color_system="standard")
    spreads = lint.spreads_of_runs(record)
    for item in report.draw_lint("a.zip", record.manifest, warnings, spreads):
        console.print(item)
    return stream.getvalue()


def test_a_capsule_has_the_measured_spread_and_colours_a_margin_that_is_too_tight() -> None:
    tight = sealed([{"metric": SEALED_LOSS, "type": "equivalence", "margin": {"absolute": 0.001}}])
    assert "measured" in tight
    assert "\x1b[33m0.001" in tight
    assert "manifest.json:" in tight
    wide = sealed([{"metric": SEALED_LOSS, "type": "equivalence", "margin": {"absolute": 0.5}}])
    assert "\x1b[33m0.5" not in wide
