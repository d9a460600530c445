"""Capsules that say seeds were added to others: forged with every hash made to fit."""

from __future__ import annotations

from pathlib import Path

from tests.hostile.case import Case, Prepare
from tests.support import extending
from tests.support.command import User
from tests.support.extending import Change


def _check(change: Change) -> Prepare:
    def prepare(user: User) -> list[str | Path]:
        return ["check", extending.lay_forged(user.folder, change)]

    return prepare


def _add(name: str) -> Prepare:
    """More seeds for a capsule that somebody else sealed."""

    def prepare(user: User) -> list[str | Path]:
        (user.folder / name).write_bytes(extending.honest()[name])
        return ["run", "--add-seeds", "2", name]

    return prepare


def _refuse(name: str, change: Change, says: str) -> Case:
    return Case(name=f"added/{name}", prepare=_check(change), status=4, says=says)


_SEEDS = "the seeds differ from the seeds of the extended capsule plus the"
CASES = (
    Case(name="added/nothing", prepare=_check(extending.as_it_is), status=0, says="intact"),
    _refuse("more-than-announced", extending.with_another_count, f"{_SEEDS} 2 seeds derived"),
    _refuse("chosen-seed", extending.with_a_chosen_seed, f"{_SEEDS} 3 seeds derived"),
    _refuse("bad-one-left-out", extending.without_a_bad_one, f"{_SEEDS} 2 seeds derived"),
    _refuse(
        "better-first-run", extending.with_a_better_first_run, "files differ from those of capsule"
    ),
    _refuse(
        "another-attempt",
        extending.with_another_attempt,
        "attempts under the seeds of the extended",
    ),
    _refuse(
        "claims-made-primary", extending.with_primary_claims, "contradicts its text in the manifest"
    ),
    _refuse("wider-margin", extending.with_a_margin_of_all_runs, "allows -9 to 9"),
    _refuse("note-dropped", extending.without_its_note, "a note is missing: 3 of 6 seeds"),
    _refuse("another-node", extending.on_another_node, "the first nodes differ from the nodes of"),
    _refuse("from-before", extending.from_before_the_first, "before its predecessor ended at"),
    _refuse(
        "one-run-from-before",
        extending.with_an_added_run_from_before,
        ", before its predecessor ended",
    ),
    _refuse("another-engine", extending.by_another_engine, "the runtime differs from that of the"),
    _refuse("another-manifest", extending.by_another_manifest, ", expected only in seeds"),
    Case(
        name="added/strangers",
        prepare=_add("a"),
        status=4,
        says="only its author can add seeds to it",
    ),
    Case(name="added/twice", prepare=_add("b"), status=2, says="was derived from another"),
)
