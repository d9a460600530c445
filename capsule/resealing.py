"""Seal a new capsule from the contents of another one, without running anything."""

from __future__ import annotations

from pathlib import Path

from capsule import archive, places, reading, rereading
from capsule import manifest as manifests
from capsule.archive import Capsule
from capsule.errors import DamagedError, ExecutionError, UsageError
from capsule.manifest import Manifest
from capsule.options import RereadOptions
from capsule.origin import Origin, Original, original_id, predecessor_id
from capsule.predecessor import Predecessor
from capsule.record import File, Record
from capsule.sealing import Sealed
from capsule.trust import ledger
from capsule.trust.privacy import Privacy, summary
from capsule.watch import SILENT, Watch


def reread(
    capsule: str | Path,
    manifest: str | Path | Manifest,
    options: RereadOptions = RereadOptions(),
    watch: Watch = SILENT,
) -> Sealed:
    """Read the values of a capsule again by a corrected manifest, and seal a new capsule.

    Args:
        capsule: Path of an original.
        manifest: Corrected manifest: other metrics of commands, or other claims.
        options: Output, and response to possibly private text.
        watch: Receiver of possibly private text in the manifest.

    Raises:
        UsageError: The capsule is not an original, the manifest changes more than metrics and
            claims, the capsule lacks a text to read, or the output already exists.
        ManifestError: The manifest is wrong.
        DamagedError: The capsule was changed after sealing.
        ExecutionError: The new capsule cannot be written, or the manifest has possibly private text
            and `options.strict_privacy` is set.
    """
    places.check(output=options.output)
    with reading.read(Path(capsule)) as before, places.scratch() as scratch:
        predecessor = take(before, "read again")
        if not isinstance(manifest, Manifest):
            subjects = before.record.plan["subjects"]
            manifest = manifests.load_correction(Path(manifest), subjects)
        record = rereading.make(predecessor, before.id, manifest, lambda name: (before.open(name),))
        usual = f"{manifest.name}-{record.uuid[:8]}.reread.zip"
        target = options.output or Path(usual)
        places.check(output=target)
        reading.require(record, where=str(target))
        _require_room(record)
        _tell_private(record, options, watch)
        capsule_id = archive.write(record, carry(before, scratch), target)
        if ledger.holds(before.id) and (fault := ledger.add(capsule_id)):
            watch.note(fault)
        return Sealed(path=target, id=capsule_id, record=record)


def _require_room(record: Record) -> None:
    """Check that the new capsule, with its predecessor's record, stays within the limits.

    Raises:
        UsageError: The new capsule would exceed the format's limits.
    """
    try:
        archive.rehearse(record)
    except DamagedError as error:
        raise UsageError(
            "the new capsule, with its predecessor inside, would exceed the format's limits:"
            f" {error.what}",
            advice="declare fewer metrics, or claims that match fewer metrics",
        ) from None


def take(capsule: Capsule, purpose: str) -> Predecessor:
    """Return the record and digest lists of an original, for sealing in a derived capsule.

    Args:
        capsule: Open capsule.
        purpose: Action that needs it, as a participle for the message.

    Raises:
        UsageError: The capsule is no original.
        DamagedError: The capsule was changed since it was read.
    """
    origin = capsule.record.origin
    if not isinstance(origin, Original):
        made = (
            "was derived from another capsule"
            if capsule.record.predecessor
            else f"is a {origin.kind}"
        )
        raise UsageError(
            f"this capsule {made}; only a capsule that `capsule run` sealed can be {purpose}",
            where=str(capsule.path),
            advice=_advise(origin),
        )
    return capsule.as_predecessor()


def _advise(origin: Origin) -> str:
    of = predecessor_id(origin) or original_id(origin)
    return f"name capsule {of}" if of else "name a capsule that `capsule run` sealed"


def carry(capsule: Capsule, folder: Path) -> list[File]:
    """Extract the files of a capsule that a new capsule carries over.

    Raises:
        DamagedError: The capsule was changed since it was read.
        ExecutionError: The folder cannot be written.
    """
    return [
        File(
            path=f"{prefix}{path.relative_to(folder / prefix).as_posix()}",
            source=path,
            digest=capsule.digests[f"{prefix}{path.relative_to(folder / prefix).as_posix()}"],
        )
        for prefix in archive.CARRIED
        for path in capsule.extract(prefix, folder / prefix)
    ]


def _tell_private(record: Record, options: RereadOptions, watch: Watch) -> None:
    """Warn about possibly private text in a new record, before it is sealed.

    Raises:
        ExecutionError: Something is possibly private, and `strict_privacy` is set.
    """
    findings = Privacy().scan_record(record)
    if findings and options.strict_privacy:
        raise ExecutionError(
            f"not sealed, possibly private: {summary(findings)}",
            advice="remove the private text from the manifest, or leave --strict-privacy out",
        )
    if findings:
        watch.private(list(map(str, findings)))
