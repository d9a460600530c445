"""Check that a capsule which claims to verify another one follows from that one."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import fields

from capsule import __version__, notes, quick, summary
from capsule import manifest as manifests
from capsule import plan as plans
from capsule.archive import Capsule
from capsule.diff.changes import SAME_IMAGE, image_relation
from capsule.errors import DamagedError, ManifestError, UsageError
from capsule.jsons import JsonObject
from capsule.origin import Verification, changes
from capsule.record import Dataset, Record, find_early_runs


def require(original: Capsule, rerun: Capsule) -> None:
    """Stop at a verification that was not made from its original.

    Args:
        original: A capsule that was read.
        rerun: Another one. Its plan and seeds follow from its own manifest and origin, as every
            capsule's that was read; one that verifies something else, or nothing, is taken.

    Raises:
        DamagedError: Names what differs.
    """
    if rerun.record.verifies != original.id:
        return
    if differences := list(faults(original.record, rerun.record)):
        raise DamagedError(
            f"the verification contradicts its original {original.id[:12]}:"
            f" {'; '.join(differences)}",
            where=str(rerun.path),
            advice="get the verification again from its verifier, or verify the original yourself",
        )


def faults(original: Record, rerun: Record) -> Iterator[str]:
    """Yield differences from the capsule that `capsule verify` would have made, as sentences.

    Args:
        original: The capsule that is verified.
        rerun: A record that says it verifies it, and whose parts follow from each other.
    """
    assert isinstance(rerun.origin, Verification)
    if rerun.uuid == original.uuid:
        yield "its run has the UUID of the original's run"
    yield from _manifest_faults(original, rerun)
    yield from _claim_faults(original, rerun)
    yield from _time_faults(original, rerun)
    yield from _data_faults(original, rerun)
    yield from _image_faults(original, rerun, rerun.origin)
    yield from _levels_faults(original, rerun, rerun.origin)
    planned = {trial["id"] for trial in summary.planned_trials(original.plan)}
    for trial in summary.planned_trials(rerun.plan):
        if trial["seed_source"] == "control" and trial["id"] not in planned:
            yield f"its control run {trial['id']} uses a seed that the original did not use"


def _manifest_faults(original: Record, rerun: Record) -> Iterator[str]:
    there, here = original.manifest.source, rerun.manifest.source
    if there != here:
        a, b = json.loads(there), json.loads(here)
        fields = [name for name in {**a, **b} if a.get(name) != b.get(name)]
        yield f"its manifest differs from the original's in {', '.join(fields) or 'its formatting'}"
        return
    changed = changes(rerun.origin)
    try:
        device = rerun.manifest.resources.device
        due = manifests.change(original.manifest, changed, original.plan["subjects"], device)
    except (UsageError, ManifestError) as error:
        yield f"it set a field that a verification of the original cannot set: {error.what}"
        return
    is_same = due is original.manifest
    subjects = original.plan["subjects"] if is_same else plans.subjects_to_json(due)
    stated = rerun.plan["subjects"]
    if rerun.tool != __version__ and due.other_device != original.manifest.other_device:
        # what a device lacks follows from the catalogue of the version that verified
        subjects, stated = (_without_catalogue(some) for some in (subjects, stated))
    if subjects != stated:
        there_all, here_all = (
            {one["benchmark"]: one for one in some} for some in (subjects, stated)
        )
        odd = [
            name for name in {**there_all, **here_all} if there_all.get(name) != here_all.get(name)
        ]
        yield (
            f"its plan has other cases or metrics than the original's in {', '.join(odd)}"
            if odd
            else "its plan has the benchmarks in another order than the original's"
        )


def _without_catalogue(subjects: Sequence[JsonObject]) -> list[JsonObject]:
    known = ("refusals", "metrics", "lacking", "author_lacking")
    return [{name: one[name] for name in one if name not in known} for one in subjects]


def _claim_faults(original: Record, rerun: Record) -> Iterator[str]:
    if len(rerun.claims) != len(original.claims):
        yield f"it has {len(rerun.claims)} claims, the original has {len(original.claims)}"
        return
    for there, here in zip(original.claims, rerun.claims, strict=True):
        if there != here:
            odd = [
                one.name
                for one in fields(here)
                if getattr(here, one.name) != getattr(there, one.name)
            ]
            yield (
                f"its claim on {here.metric} differs from the original's claim on {there.metric}"
                f" in {', '.join(odd)}"
            )
            return


def clock_note(ended: str, rerun: Record) -> notes.Note | None:
    """Return the note of a verification that is dated before its original's end, None for others.

    Its seeds follow from the original's id, whatever a clock says.
    """
    return find_early_runs(rerun.started, rerun.attempts, ended, "the original")


def _time_faults(original: Record, rerun: Record) -> Iterator[str]:
    due = clock_note(original.ended, rerun)
    if due is not None and not notes.has(rerun.notes, due):
        yield f"it lacks the note: {due.sentence}"


def _data_faults(original: Record, rerun: Record) -> Iterator[str]:
    """Yield other data; of a quick original the data of what it left out is not known."""
    only = quick.deciding(rerun.origin, rerun.claims)
    needed = {one.name for one in quick.needed_data(original.manifest, original.datasets, only)}
    there, here = _by_name(original.datasets), _by_name(rerun.datasets)
    both = there.keys() & here.keys()
    odd = (here.keys() ^ needed) | {name for name in both if there[name] != here[name]}
    if odd:
        yield f"its datasets differ from the original's: {', '.join(sorted(odd))}"


def _by_name(datasets: tuple[Dataset, ...]) -> dict[str, tuple[str, int, int]]:
    return {one.name: (one.digest, one.bytes, one.files) for one in datasets}


def _image_faults(original: Record, rerun: Record, origin: Verification) -> Iterator[str]:
    if origin.image is None and rerun.image is not None:
        if original.image is None:
            yield (
                f"the re-run used the image {rerun.image.identity}, the original used none, and the"
                " record of the re-run lacks an --image"
            )
        elif image_relation(original, rerun) not in SAME_IMAGE:
            yield (
                f"the re-run used the image {rerun.image.identity}, the original used"
                f" {original.image.identity}, and the record of the re-run lacks an --image"
            )
    unused = notes.NOTES(notes.IMAGE_UNUSED, verifies=True)
    says_unused = notes.has(rerun.notes, unused)
    if says_unused != (original.image is not None and not rerun.contained):
        yield f"it {'wrongly has' if says_unused else 'lacks'} the note: {unused.sentence}"
    if origin.image is not None:
        replaces = original.image is not None
        due = notes.choice_of_image(origin.image, replaces=replaces, verifies=True)
        if not notes.has(rerun.notes, due):
            yield f"it lacks the note: {due.sentence}"


def _levels_faults(original: Record, rerun: Record, origin: Verification) -> Iterator[str]:
    there, here = original.levels["digest"], rerun.levels["digest"]
    if origin.levels == "capsule" and here != there:
        yield (
            "its measuring code differs from the original's levels/: found"
            f" {here}, expected {there}"
        )
    if origin.levels == "own" and rerun.levels["release"] is None:
        yield f"--levels own ran measuring code {here}, which belongs to no release of capsule"
