"""Capsules that say they are others, read again: forged with every hash made to fit."""

from __future__ import annotations

from pathlib import Path

from tests.hostile.case import Case, Prepare
from tests.support import rereading
from tests.support.command import User
from tests.support.rereading import METRICS, Change, correct


def _check(change: Change) -> Prepare:
    def prepare(user: User) -> list[str | Path]:
        return ["check", rereading.lay_forged(user.folder, change)]

    return prepare


def _again(pattern: str) -> Prepare:
    """A corrected manifest that is hostile itself."""

    def prepare(user: User) -> list[str | Path]:
        (user.folder / "a").write_bytes(rereading.honest()["a"])
        metrics = {**METRICS, "score": {"from": {"pattern": pattern}}}
        return ["reread", "a", "--manifest", correct(user, metrics), "--output", "c"]

    return prepare


def _refuse(name: str, change: Change, says: str) -> Case:
    return Case(name=f"reread/{name}", prepare=_check(change), status=4, says=says)


CASES = (
    Case(name="reread/nothing", prepare=_check(rereading.as_it_is), status=0, says="intact"),
    _refuse(
        "claims-made-primary", rereading.with_primary_claims, "contradicts its text in the manifest"
    ),
    _refuse("wider-margin", rereading.with_a_wider_margin, "files differ from those of capsule"),
    _refuse("of-another", rereading.of_another, "expected 0000"),
    _refuse("another-log", rereading.with_another_log, "files differ from those of capsule"),
    _refuse(
        "invented-predecessor",
        rereading.with_an_invented_predecessor,
        "predecessor/manifest-sha256.txt has digest sha256:",
    ),
    _refuse(
        "failure-put-in",
        rereading.with_a_failure,
        "its attempts contradict the texts of its predecessor",
    ),
    _refuse("note-dropped", rereading.without_its_note, "a note is missing: values re-read"),
    _refuse(
        "another-date", rereading.with_a_later_start, "its started differ from its predecessor's"
    ),
    _refuse(
        "another-command", rereading.with_another_command, "files differ from those of capsule"
    ),
    _refuse("log-more", rereading.with_a_file_more, "logs/9999-stdout.txt"),
    Case(name="reread/many-ways", prepare=_again("^(l+)+b$"), status=5, says="no line of stdout"),
    Case(name="reread/look-ahead", prepare=_again("(?=x)(y)"), status=2, says="look-around"),
)
