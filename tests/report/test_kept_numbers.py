"""Numbers of capsules that 0.5.0 sealed: only texts for people may differ in what `--json` prints.

Each folder of `tests/data/kept` with a version in its name holds an original and a verification of
it, each as the texts of its files by name, and what that version printed of them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from capsule import cli
from tests.support.kept import KEPT

# of a member of a list any index
COMPARISON_TEXTS = frozenset(
    (
        *("/sentence", "/changes/*/sentence", "/notes/*/sentence"),
        *(f"/{part}/*/sentence" for part in ("claims", "reported")),
        *(f"/{part}/*/notes/*/sentence" for part in ("claims", "reported")),
        *(f"/{part}/*/advice/sentence" for part in ("claims", "reported")),
    )
)
TEXTS = {
    "check": frozenset(("/checked/*", "/refused/*")),
    "show": frozenset(("/notes/*/sentence",)),
    "diff": COMPARISON_TEXTS,
    "verify": COMPARISON_TEXTS,
    "lint": frozenset(("/claims/*/sentence", "/warnings/*/sentence")),
}
"""Paths in the JSON of a verb at which a text for people stands."""

FREE = frozenset(("tool", "code", "label", "cautions", "error_rate", "no_error_rate"))
"""Keys that may differ, be added or go, wherever they stand."""

# the two default looks have their exact level since rule 3
BY_RULE_3: dict[tuple[str, str], dict[str, float]] = {
    ("0.5.0", "diff"): {
        "/claims/0/look/alpha": 0.034607137,
        "/claims/0/alpha_used": 0.0173035685,
        "/claims/0/interval/0": -0.0889059119927,
        "/claims/0/interval/1": 0.0799059119927,
    },
    ("0.5.0", "lint"): {
        "/claims/0/alpha": 0.034607137,
        "/claims/0/narrowest/0": 15.39,
        "/claims/0/narrowest/1": 20.35,
    },
}
"""Numbers, by path, that today's `judge_rule` says in place of those that a version printed."""

VERSIONS = sorted(path.name for path in KEPT.iterdir() if path.is_dir())
ARGUMENTS = {
    "check": ("original.zip",),
    "show": ("original.zip",),
    "diff": ("original.zip", "rerun.zip"),
    "lint": ("original.zip",),
}


def leaves(value: Any, path: str = "", pattern: str = "") -> Iterator[tuple[str, str, Any]]:
    """Every number, text and empty container of a document: its path, that with * for indices."""
    if isinstance(value, dict) and value:
        for key, member in value.items():
            if key not in FREE:
                yield from leaves(member, f"{path}/{key}", f"{pattern}/{key}")
    elif isinstance(value, list) and value:
        for index, member in enumerate(value):
            yield from leaves(member, f"{path}/{index}", f"{pattern}/*")
    else:
        yield path, pattern, value


def numbers(verb: str, document: Any) -> dict[str, Any]:
    """What of a verb's JSON must stay: all but texts for people, by path."""
    if verb == "diff":  # that the claims are of an older rule, no version can say of its own
        notes = [note for note in document["notes"] if note["code"] != "older-rule"]
        document = {**document, "notes": notes}
    return {
        path: None if pattern in TEXTS[verb] else value for path, pattern, value in leaves(document)
    }


@pytest.mark.parametrize("verb", ARGUMENTS)
@pytest.mark.parametrize("version", VERSIONS)
def test_a_document_says_the_same(
    version: str,
    verb: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folder = KEPT / version
    for name in ARGUMENTS[verb]:
        for file, text in json.loads((folder / f"{Path(name).stem}.json").read_text()).items():
            (tmp_path / name / file).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name / file).write_text(text)
    monkeypatch.chdir(tmp_path)
    expected = json.loads((folder / "printed.json").read_text())[verb]
    assert cli.main([verb, *ARGUMENTS[verb], "--json"]) == expected["exit_code"]
    found = json.loads(capsys.readouterr().out)
    due = numbers(verb, expected["document"])
    moved = BY_RULE_3.get((version, verb), {})
    assert all(due[path] != number for path, number in moved.items())
    assert numbers(verb, found) == {**due, **moved}
