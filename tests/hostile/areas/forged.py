"""Capsules whose every hash fits, and of which `run` or `verify` would have made another one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

from capsule import archive, digest
from capsule.record import File
from tests.hostile.case import Case, Prepare
from tests.support import forging
from tests.support.capsules import carry, forge, pack, rehash, unpack
from tests.support.command import User
from tests.support.forging import Change, Files

AS_A_STRANGER = ("--runtime", "host", "--trust", "--allow-host")


def _lay(user: User, *names: str) -> None:
    for name in names:
        (user.folder / name).write_bytes(forging.honest()[name])


def _forge(user: User, name: str, change: Change, source: str) -> None:
    """The record of an honest capsule, changed and sealed again under a name."""
    honest = user.folder / f"honest-{source}"
    honest.write_bytes(forging.honest()[source])
    with archive.read(honest) as capsule:
        forge(change(capsule.record), carry(capsule), user.folder / name)


def _diff(change: Change, source: str = "b", original: str = "a") -> Prepare:
    """The honest original beside a forged verification."""

    def prepare(user: User) -> list[str | Path]:
        _lay(user, original)
        _forge(user, "forged", change, source)
        return ["diff", original, "forged"]

    return prepare


def _check(change: Change, source: str = "a") -> Prepare:
    def prepare(user: User) -> list[str | Path]:
        _forge(user, "forged", change, source)
        return ["check", "forged"]

    return prepare


def _show(change: Change) -> Prepare:
    def prepare(user: User) -> list[str | Path]:
        _forge(user, "forged", change, "a")
        return ["show", "forged", "--json"]

    return prepare


def _verify(change: Change) -> Prepare:
    def prepare(user: User) -> list[str | Path]:
        _forge(user, "forged", change, "a")
        return ["verify", "forged", *AS_A_STRANGER]

    return prepare


def _several(change: Change) -> Prepare:
    """A forged verification beside an honest one."""

    def prepare(user: User) -> list[str | Path]:
        _lay(user, "a", "word")
        _forge(user, "forged", change, "b")
        return ["diff", "a", "word", "forged"]

    return prepare


def _check_files(change: Callable[[Files], Files]) -> Prepare:
    """Files of the honest original changed, and every hash brought up to date."""

    def prepare(user: User) -> list[str | Path]:
        _lay(user, "a")
        pack(rehash(change(unpack(user.folder / "a"))), user.folder / "forged")
        return ["check", "forged"]

    return prepare


def _diff_set(changed: Mapping[str, int]) -> Prepare:
    """A verification that says it set what it did not, and every hash brought up to date."""

    def prepare(user: User) -> list[str | Path]:
        _lay(user, "a", "b")
        files = forging.with_settings(changed)(unpack(user.folder / "b"))
        pack(rehash(files), user.folder / "forged")
        return ["diff", "a", "forged"]

    return prepare


def _with_inputs(*names: str) -> Callable[[Files], Files]:
    """The same with further, empty inputs."""
    return lambda files: files | dict.fromkeys((f"data/inputs/{name}" for name in names), b"")


def _honestly(*words: str) -> Prepare:
    """A command upon capsules that nobody forged."""

    def prepare(user: User) -> list[str | Path]:
        _lay(user, *forging.honest())
        return list(words)

    return prepare


def _add(change: Change, source: str = "b", original: str = "a", *words: str) -> Prepare:
    def prepare(user: User) -> list[str | Path]:
        _lay(user, original)
        _forge(user, "forged", change, source)
        return ["verify", original, "--add", "forged", *words, *AS_A_STRANGER]

    return prepare


def _forge_program(user: User, source: str, *, keep_release: bool) -> None:
    """A capsule that was measured by a program with a file more."""
    honest = user.folder / f"honest-{source}"
    honest.write_bytes(forging.honest()[source])
    with archive.read(honest) as capsule:
        files = [*carry(capsule), File(path="levels/more.py", source=b"# more\n")]
        record = capsule.record
    sources = {one.path: one.source for one in files if one.path.startswith("levels/")}
    tree = digest.of_tree(
        {path.removeprefix("levels/"): digest.of_bytes(text) for path, text in sources.items()}
    )
    release = record.levels["release"] if keep_release else None
    record = replace(record, levels={"digest": str(tree), "release": release})
    forge(record, files, user.folder / "forged")


def _check_program(user: User) -> list[str | Path]:
    _forge_program(user, "a", keep_release=True)
    return ["check", "forged"]


def _diff_program(user: User) -> list[str | Path]:
    _lay(user, "a")
    _forge_program(user, "b", keep_release=False)
    return ["diff", "a", "forged"]


def _refuse(name: str, prepare: Prepare, says: str) -> Case:
    return Case(name=f"forged/{name}", prepare=prepare, status=4, says=says)


def _no_evidence(name: str, change: Change, says: str) -> Case:
    return Case(name=f"forged/{name}", prepare=_diff(change), status=3, says=says)


def _tell(name: str, words: tuple[str, ...], says: str, status: int = 0) -> Case:
    return Case(name=f"forged/{name}", prepare=_honestly(*words), status=status, says=says)


def _with_nonce(word: str) -> Prepare:
    """A word that nobody could repeat."""

    def prepare(user: User) -> list[str | Path]:
        _lay(user, "a")
        return ["verify", "a", "--nonce", word, *AS_A_STRANGER]

    return prepare


CASES = (
    # what the forger's tools make of an honest record is honest
    Case(name="forged/nothing", prepare=_diff(forging.as_it_is), status=0, says="REPRODUCED"),
    # seeds
    _refuse("chosen-seeds", _diff(forging.chosen_seeds), "fresh seed number 1 is 100, expected"),
    _refuse("best-of-several", _diff(forging.best_of_ten, "ten"), "fresh seed number"),
    _refuse("nonce-put-in", _diff(forging.with_origin(nonce="x")), "fresh seed number 1"),
    _refuse("nonce-taken-out", _diff(forging.with_origin(nonce=None), "word"), "fresh seed"),
    _refuse("nonce-changed", _diff(forging.with_origin(nonce="7"), "word"), "fresh seed number 1"),
    _refuse("nonce-unseen", _diff(forging.with_origin(nonce="\u200b"), "word"), "invalid nonce"),
    # runs
    _refuse("trial-missing", _diff(forging.without_a_trial), "ends after 4 of 5 fresh seeds"),
    _refuse("outcome-missing", _diff(forging.without_an_outcome), "lacks a final outcome"),
    _refuse("runs-changed", _diff(forging.with_origin(runs=7)), "the record ends after 5 of 7"),
    _refuse("fewer-runs-said", _diff(forging.with_origin(runs=3)), "fresh seed number 4"),
    _refuse("look-changed", _diff(forging.with_origin(look=2)), "the origin says look 2"),
    _refuse(
        "look-dropped", _diff(forging.with_origin(look=None)), "the origin says no planned look"
    ),
    _refuse("earlier-date", _diff(forging.earlier), "before the original ended"),
    _refuse("earlier-trial", _diff(forging.earlier_trial), "before the original ended"),
    # what a quick one left out
    _refuse(
        "quick-unsaid",
        _diff(forging.with_origin(quick=False), "quick", "several"),
        "is missing from the plan",
    ),
    _refuse(
        "quick-unsaid-alone", _check(forging.only_of("tiny", "also"), "whole"), "trial more/default"
    ),
    _refuse("quick-said", _diff(forging.quick(), "whole", "several"), "has the unexpected trial"),
    _refuse(
        "quick-without-what-decides",
        _diff(forging.quick(forging.only_of("also")), "whole", "several"),
        "trial tiny/default/command/",
    ),
    _refuse(
        "quick-by-a-claim-made-later",
        _diff(
            forging.quick(forging.only_of("also"), forging.made_later(forging.LOSS)),
            "whole",
            "several",
        ),
        "its claim on tiny/default/command/loss differs from the original's claim",
    ),
    _refuse(
        "quick-by-no-claim",
        _check(
            forging.quick(forging.only_of("also"), forging.made_later(forging.LOSS, forging.ALSO)),
            "whole",
        ),
        "but has no primary claim other than `ratio`",
    ),
    _refuse("quick-of-all", _diff(forging.quick()), "but primary claims need every benchmark"),
    _refuse(
        "quick-added",
        _add(forging.quick(forging.only_of("also")), "whole", "several", "--quick"),
        "trial tiny/default/command/",
    ),
    _refuse(
        "quick-claims-gone",
        _diff(forging.without_claims, "quick", "several"),
        "the claim on more/default/command/loss is missing",
    ),
    _refuse(
        "quick-claims-widened",
        _diff(forging.widen, "quick", "several"),
        "its claim on tiny/default/command/loss differs from the original's claim",
    ),
    # what ran
    _refuse(
        "another-command",
        _diff(forging.with_manifest(benchmarks=[{**forging.BENCHMARK, "command": ["true"]}])),
        "its manifest differs from the original's in benchmarks",
    ),
    _refuse(
        "another-manifest",
        _diff(forging.with_manifest(title="Another")),
        "its manifest differs from the original's in title",
    ),
    _refuse(
        "parameters-in-the-plan",
        _check(forging.with_other_parameters),
        "in the plan differs from the manifest's",
    ),
    _refuse("plan-changed", _check(forging.in_another_order), "differ in order or names"),
    _refuse("image-unnamed", _diff(forging.in_an_image), "the re-run used the image "),
    _refuse("levels-changed", _check_program, "levels/ differs from capsule-hpc"),
    _refuse("other-levels", _diff_program, "measuring code differs from the original's"),
    _refuse("own-levels", _diff(forging.by_own_levels), "belongs to no release of capsule"),
    _refuse("values-set", _diff_set({"/seeds/0": 1}), "/seeds/0: it is fixed"),
    # claims
    _refuse("claims-dropped", _check(forging.without_claims), f"the claim on {forging.LOSS} is"),
    _refuse("claims-dropped-here", _diff(forging.without_claims), "the claim on"),
    _refuse("claims-doubled", _check(forging.with_claims_twice), "found an unexpected claim"),
    _refuse("claims-exchanged", _check(forging.with_claims_exchanged), ", expected a claim on"),
    _refuse("margin-widened", _check(forging.widen), "allows -1e+06 to 1e+06, expected -0.0"),
    _refuse("margin-widened-here", _diff(forging.widen), "differs from the original's"),
    # where it comes from
    _refuse("origin-dropped", _diff(forging.as_original), "expected none as derived"),
    _refuse("origin-made-up", _check(forging.as_verification), "fresh seed number 1 is none"),
    _refuse("origin-to-come", _check(forging.as_extension), "predecessor/"),
    # what is derived
    _refuse(
        "readme-changed",
        _check_files(forging.with_another_readme),
        "README.md contradicts the record",
    ),
    _refuse(
        "crate-changed",
        _check_files(forging.with_another_crate),
        "contradicts the record and the files: ./",
    ),
    _refuse("note-dropped", _check(forging.without_notes), "a note is missing: ran on the host"),
    _refuse("note-made-up", _check(forging.with_a_note), "a note does not follow from the record"),
    _refuse(
        "note-reworded",
        _check(forging.with_a_reworded_note),
        "a note contradicts its code and facts: uncontained",
    ),
    _refuse(
        "note-of-comparisons",
        _check(forging.with_a_note_of_comparisons),
        "a note contradicts its code and facts: busy",
    ),
    _refuse("note-twice", _check(forging.with_notes_twice), "a note is given twice"),
    # names of files that no name becomes
    _refuse(
        "name-of-a-parent",
        _check_files(_with_inputs("=2E=2E/x")),
        "'..' is not allowed in a name",
    ),
    _refuse(
        "name-with-a-slash",
        _check_files(_with_inputs("a=2Fx")),
        "wrong escapes, expected 'inputs/a/x'",
    ),
    _refuse(
        "name-that-is-absolute",
        _check_files(_with_inputs("=2Fetc/x")),
        "'' is not allowed in a name",
    ),
    _refuse("name-with-nul", _check_files(_with_inputs("a=00")), "character, '\\x00'"),
    _refuse("name-with-a-control", _check_files(_with_inputs("a=1B=5B2J")), "character, '\\x1b'"),
    _refuse(
        "name-that-turns-text", _check_files(_with_inputs("=E2=80=AEyp.x")), "character, '\\u202e'"
    ),
    _refuse(
        "name-of-git", _check_files(_with_inputs("=2Egit/config")), "'.git' is reserved for git"
    ),
    _refuse(
        "name-of-git-on-windows",
        _check_files(_with_inputs("=67it~1/config")),
        "is reserved for git",
    ),
    _refuse(
        "name-in-small-hex", _check_files(_with_inputs("caf=c3=a9")), "wrong escapes, expected"
    ),
    _refuse(
        "name-with-half-an-escape", _check_files(_with_inputs("a=3")), "expected 'inputs/a=3D3'"
    ),
    _refuse("name-that-needs-no-escape", _check_files(_with_inputs("=61")), "expected 'inputs/a'"),
    _refuse("name-that-is-no-utf8", _check_files(_with_inputs("=C0=AE")), "not UTF-8"),
    _refuse(
        "names-of-one-file", _check_files(_with_inputs("=61.x", "a.x")), "decode to one file name"
    ),
    _refuse("name-of-a-folder", _check_files(_with_inputs("a", "=61/b")), "expected 'inputs/a/b'"),
    _refuse(
        "names-that-look-alike", _check_files(_with_inputs("=C3=A9", "e=CC=81")), "look the same"
    ),
    _refuse(
        "names-that-look-like-ascii", _check_files(_with_inputs("K", "=E2=84=AA")), "look the same"
    ),
    _refuse(
        "names-but-for-case",
        _check_files(_with_inputs("=61ux.c", "=61UX.c")),
        "differ only in letter case",
    ),
    _refuse(
        "name-of-a-device", _check_files(_with_inputs("AUX.=63")), "is a device name on Windows"
    ),
    # every door
    _refuse("shown", _show(forging.widen), "allows -1e+06 to 1e+06"),
    _refuse("verified", _verify(forging.widen), "allows -1e+06 to 1e+06"),
    _refuse("added-chosen-seeds", _add(forging.chosen_seeds), "fresh seed number 1"),
    _refuse(
        "added-another-manifest",
        _add(forging.with_manifest(title="x")),
        "differs from the original's in title",
    ),
    _refuse("added-earlier", _add(forging.earlier), "before the original ended"),
    _refuse("one-of-several", _several(forging.earlier), "before the original ended"),
    # copies
    _no_evidence(
        "copied-values", forging.copy_runs((forging.LOSS,), 5), "The values are copies, or"
    ),
    _no_evidence(
        "copied-but-one", forging.copy_runs((forging.LOSS,), 4), "The values are copies, or"
    ),
    _no_evidence(
        "copied-times", forging.copy_runs((forging.STEP,), 1), "a copied trial is no evidence"
    ),
    # what the first line tells
    _tell(
        "separate",
        ("diff", "a", "other"),
        "two independent runs (not a verification; seeds of B chosen by",
    ),
    _tell(
        "reversed",
        ("diff", "b", "a"),
        "a verification given before its original: the author of the",
    ),
    _tell("of-another", ("diff", "other", "b"), "a verification of another capsule ("),
    _tell("unplanned", ("diff", "a", "seven"), "7 fresh seeds, an unplanned number (--runs)"),
    _tell("nonce-told", ("diff", "a", "word"), "under seeds drawn with --nonce 'committee 7'"),
    _tell("quick-told", ("diff", "several", "quick"), "with --quick (without 1 claim that cannot"),
    Case(
        name="forged/origin-dropped-all-through",
        prepare=_diff(forging.as_original_all_through),
        status=0,
        says="two independent runs (not a verification; seeds of B chosen by its author)",
    ),
    # words that are none
    *(
        Case(name=f"forged/nonce-{name}", prepare=_with_nonce(word), status=2, says="invalid nonce")
        for name, word in {
            "empty": "",
            "of-control": "a\x1b[2Jb",
            "of-lines": "a\nb",
            "long": "7" * 201,
            "of-spaces": " 7",
        }.items()
    ),
)
