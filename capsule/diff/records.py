"""Notes of two records that belong beside a verdict."""

from __future__ import annotations

from collections.abc import Iterator

from capsule import notes, summary
from capsule.diff import words
from capsule.diff.names import Names
from capsule.notes import Note
from capsule.origin import Added
from capsule.record import Record


def added_note(rerun: Record, added: tuple[Added, ...]) -> Note:
    """Return the note on runs of earlier verifications, whose times are not compared."""
    metrics = summary.run_values(rerun).values()
    return words.runs_added(
        counted=tuple((one.runs, one.id) for one in added),
        has_machine_metrics=any(metric.kind == "machine" for metric in metrics),
    )


def of_both(original: Record, rerun: Record, names: Names) -> Iterator[Note]:
    """Yield the notes of each record, with its side."""
    there, here = ({note.sentence: note for note in record.notes} for record in (original, rerun))
    for sentence, note in {**there, **here}.items():
        both = sentence in there and sentence in here
        owner = names.there if sentence in there else names.here
        owner = "both sides" if both else owner.removeprefix("the ")
        yield notes.about(owner, note)
