"""Notes for the reader of a number or a verdict: a code for programs, facts, and a sentence.

Here stand the notes of a record, which are sealed: the code and the facts of each, and the one
template of its sentence. What somebody else sealed is shown in our words, or as untrusted text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from capsule import plain, sentences
from capsule.sentences import Facts, Shape, Templates
from capsule.sizes import size


@dataclass(frozen=True, kw_only=True)
class Note:
    """Something that a reader must know.

    Attributes:
        code: A word that names the fact and stays the same, such as `uncontained`.
        facts: What the sentence states; None where an earlier version sealed none.
        sentence: As a screen shows it: by our template, or untrusted text that says it is.
        sealed: The words of the capsule that it was read from, where those are others.
        is_known: Whether our template made the sentence.
    """

    code: str
    facts: Facts | None = ()
    sentence: str
    sealed: str | None = None
    is_known: bool = True

    @classmethod
    def make(cls, text: str, code: str, facts: Facts) -> Note:
        """Return the note that a template has worded."""
        return cls(code=code, facts=facts, sentence=text)


NOTES = Templates(Note.make, size=Shape(int, size))

IMAGE_LOCAL = "image-local"
UNCONTAINED, IMAGE_UNUSED = "uncontained", "image-unused"
REREAD, ADDED = "reread", "seeds-added"
SITE_BINDS = "site-binds"
BIND = "bind "
"""Of the names of what is observed of an image's binds; the path in the container follows."""
SITE_MPI = "site-mpi"
LIBRARY = "library "
"""Of the names of what is observed of libraries of the machine; the name of one follows."""
KEYRING, KEPT_KEYRING = "keyring", "keyring-kept"
YOUR_KEYRING = "the user's own"
"""What is observed as `KEYRING` where workloads could reach the keys of whoever ran them."""
OF_SITES = frozenset({SITE_BINDS, SITE_MPI, KEPT_KEYRING})
"""Codes of notes on what a machine, or whoever ran it, let workloads see besides."""
CLOCKS, EARLY_CLOCK = "clocks", "early-clock"
REDUCED = "reduced-series"
UNCHECKED = "unchecked"
IMAGE_REPLACED, IMAGE_NAMED = "image-replaced", "image-named"
OF_IMAGES = frozenset({IMAGE_REPLACED, IMAGE_NAMED})
"""Codes of notes on an image that was named by whoever ran it."""
DERIVED = OF_IMAGES | {UNCONTAINED, IMAGE_UNUSED, REREAD, ADDED, REDUCED, UNCHECKED} | OF_SITES
"""Codes of notes that follow from the rest of a record, so that a reader makes them again."""

_MOST_UNCHECKED = 300


@NOTES.template(UNCONTAINED)
def no_container() -> str:
    """No engine ran it in an image."""
    return "nothing was contained: the host's own Python and libraries were measured"


NOTES |= {
    IMAGE_UNUSED: "the {verifies:original|manifest}'s image was not used",
    SITE_BINDS: "its machine showed files of its own in the image, read-only: {places:list}",
}


@NOTES.template(SITE_MPI)
def own_libraries(*, libraries: tuple[tuple[str, str], ...]) -> str:
    """The machine's MPI was used.

    Args:
        libraries: The name of each, and what is known of it.
    """
    named = "; ".join(f"{name} ({fact})" for name, fact in libraries)
    return f"its machine's own MPI took the place of the image's: {named}"


NOTES |= {
    KEPT_KEYRING: "workloads could read the keys of the user who ran them (--keep-keyring)",
}


@NOTES.template("inputs-written")
def written_inputs(*, path: str, trial: str, files: int, starts: int) -> str:
    """Process starts changed their inputs, which each of them found as they were sealed.

    Args:
        path: The first of what was changed, removed or added.
        trial: That of the first start which did so.
        files: How many paths that start changed.
        starts: How many process starts changed any.
    """
    more = f" and {files - 1} more" if files > 1 else ""
    others = f", and {starts - 1} more process starts did so" if starts > 1 else ""
    return (
        f"{trial} wrote among its inputs: {path}{more}{others}. Each process start found"
        " the inputs as they were sealed. To keep a file, write it to the folder that CAPSULE_OUT"
        ' names; for a program that writes beside its own code, set "cwd": {"copy": FOLDER}'
    )


NOTES |= {
    "memory-limit": "each process start had at most {most_bytes:size} of memory, {is_held:held"
    " by its control group|watched once a second}",
    EARLY_CLOCK: "its machine's clock said {began:.10s}, which is before capsule-hpc {release}"
    " was written: the clock was wrong, and so are all times of this run",
    CLOCKS: "its runs are dated from {began}, before {whose} ended at {ended}: one of the two"
    " machines' clocks was wrong",
}


@NOTES.template(REDUCED)
def reduced_series(*, metrics: tuple[tuple[str, int], ...], ranks: int) -> str:
    """Series of many ranks of which not every value is kept.

    Args:
        metrics: The last segment of each, and of how many benchmarks it is reduced.
        ranks: The most that one of them has.
    """
    names = ", ".join(f"{name} of {count} benchmark{'s' * (count > 1)}" for name, count in metrics)
    return (
        f"series of up to {ranks} ranks are kept as least, median, largest and digest of"
        " each step, and as the median and the last value of each rank, from which the run's value"
        f" follows as from all: {names}"
    )


NOTES |= {
    "narrowed": "measured with {frameworks:list} alone: a part of the manifest {whole}",
    IMAGE_LOCAL: "nobody can fetch the image {reference}: only {owner} where it ran had it;"
    " push it to a registry, or hand out the file that `capsule image save` writes",
}


@NOTES.template(IMAGE_REPLACED)
def replaced_image(*, reference: str) -> str:
    """An image that was named by whoever ran it took the place of another one."""
    return f"the image was replaced on request by {reference}"


NOTES |= {
    IMAGE_NAMED: "the image was chosen on request, {reference}: {verifies:the original ran"
    " without one|the manifest names none}",
}


@NOTES.template(REREAD)
def second_reading(*, capsule: str, later: int, gone: int) -> str:
    """Its numbers were read again, by another manifest.

    Args:
        capsule: Id of the capsule that the runs were sealed in first.
        later: How many of its claims were written or changed after that.
        gone: How many of the claims there it does not have as they were.
    """
    claims = [f"{later} of its claims were written or changed then"] * bool(later)
    claims += [f"{gone} that were sealed there are gone or changed"] * bool(gone)
    return "; ".join(
        [f"its numbers were read again from what capsule {capsule[:12]} holds", *claims]
    )


NOTES |= {
    "added-software": "runs that were added had other software: no image says that it is the same",
}


@NOTES.template(ADDED)
def addition(*, capsule: str, first: int, added: int, later: int) -> str:
    """Seeds were added to a run that was sealed.

    Args:
        capsule: Id of the capsule with the first ones.
        first: How many those are.
        added: How many more there are now.
        later: How many of its claims decide nothing for that.
    """
    verbs = ("is", "decides") if later == 1 else ("are", "decide")
    claims = f"; {later} of its claims {verbs[0]} about all runs now, and {verbs[1]} nothing"
    return (
        f"{added} of its {first + added} seeds {'was' if added == 1 else 'were'} added"
        f" after {first} {'was' if first == 1 else 'were'} sealed as capsule {capsule[:12]}, by"
        f" whoever had seen {'that' if first == 1 else 'those'}{claims if later else ''}"
    )


NOTES |= {
    "online": "workloads could reach the network: {reason}",
}


@NOTES.template("oversubscribed")
def oversubscription(*, threads: int, ranks: int, cpus: int) -> str:
    """There are fewer processors than threads."""
    of_ranks = f" by {ranks} ranks" if ranks > 1 else ""
    return f"{threads} threads were asked for{of_ranks} on {cpus} CPUs"


@NOTES.template(UNCHECKED)
def unchecked(*, about: str, text: str) -> str:
    """A note of another version, of which nobody here knows what it says.

    Args:
        about: Its code.
        text: The words of the capsule, cut and without what steers a terminal.
    """
    return f"{about}, in the capsule's own words, which nobody checked: {text}"


def site_files(observations: Mapping[str, str]) -> Iterator[Note]:
    """Containers saw files of the machine in the image, and used its MPI: a note each, if so.

    Args:
        observations: Of the image; names that begin with `BIND` go on with the path in the
            container, those that begin with `LIBRARY` with the name of a library.
    """
    targets = sorted(name.removeprefix(BIND) for name in observations if name.startswith(BIND))
    if targets:
        yield NOTES(SITE_BINDS, places=tuple(targets))
    libraries = sorted(
        (name.removeprefix(LIBRARY), fact)
        for name, fact in observations.items()
        if name.startswith(LIBRARY)
    )
    if libraries:
        yield own_libraries(libraries=tuple(libraries))


def kept_keyring(observations: Mapping[str, str]) -> Iterator[Note]:
    """The workload could use the keys of whoever ran it: a note, if so.

    Args:
        observations: Of the image.
    """
    if observations.get(KEYRING) == YOUR_KEYRING:
        yield NOTES(KEPT_KEYRING)


def choice_of_image(reference: str, *, replaces: bool, verifies: bool) -> Note:
    """An image was named by whoever ran it.

    Args:
        reference: As it was named.
        replaces: Whether there is another one that it took the place of.
        verifies: Whether that would be the original's; else it would be the manifest's.
    """
    if replaces:
        return replaced_image(reference=reference)
    return NOTES(IMAGE_NAMED, reference=reference, verifies=verifies)


def of_run(
    *, contained: bool, observations: Mapping[str, str], has_image: bool, override: str | None
) -> Iterator[Note]:
    """The notes that follow from how its author ran a manifest.

    Args:
        contained: Whether an engine ran it in an image.
        observations: Of the image.
        has_image: Whether the manifest names one.
        override: Reference of the image that was named by whoever ran it.
    """
    if not contained:
        yield no_container()
    yield from site_files(observations)
    yield from kept_keyring(observations)
    if has_image and not contained:
        yield NOTES(IMAGE_UNUSED, verifies=False)
    if override is not None:
        yield choice_of_image(override, replaces=has_image, verifies=False)


# as documents have them


def to_json(note: Note) -> dict[str, Any]:
    """Return a note as a document has it."""
    facts = {} if note.facts is None else {"facts": dict(note.facts)}
    return {"code": note.code, **facts, "sentence": note.sealed or note.sentence}


def from_json(value: Mapping[str, Any]) -> Note:
    """Return the note of a document, which a screen shows in our words, or as untrusted."""
    code, sealed = value["code"], value["sentence"]
    facts = sentences.from_json(value["facts"]) if "facts" in value else None
    sentence = NOTES.say(code, facts or ())
    is_known = sentence is not None
    if sentence is None:
        sentence = unchecked(about=code, text=_cut(sealed)).sentence
    return Note(
        code=code,
        facts=facts,
        sentence=sentence,
        sealed=None if sealed == sentence else sealed,
        is_known=is_known,
    )


def is_forged(note: Note) -> bool:
    """Tell whether a note differs from what this version makes of its code and facts."""
    return not note.is_known or note.facts is None or note.sealed is not None


def inherit(note: Note) -> Note:
    """Return a note that another capsule's record has, as one of this version's has it."""
    if not note.is_known:
        return unchecked(about=note.code, text=_cut(note.sealed or note.sentence))
    return Note(code=note.code, facts=note.facts or (), sentence=note.sentence)


def has(stated: Iterable[Note], due: Note) -> bool:
    """Tell whether a note stands among others, by its code alone where nobody knows its words."""
    return any(
        note.code == due.code and (not note.is_known or (note.facts or ()) == due.facts)
        for note in stated
    )


def about(subject: str, note: Note) -> Note:
    """Return a note with what it is about before its sentence."""
    facts = (("of", subject), *(note.facts or ()))
    return Note(code=note.code, facts=facts, sentence=f"{subject}: {note.sentence}")


def change_texts(note: Note, change: Callable[[str], str]) -> Note:
    """Return a note with other words for the texts among its facts."""
    facts = tuple((name, sentences.change(fact, change)) for name, fact in note.facts or ())
    sentence = NOTES.say(note.code, facts)
    assert sentence is not None
    return Note(code=note.code, facts=facts, sentence=sentence)


def _cut(text: str) -> str:
    shown = plain.clean(text)
    return shown if len(shown) <= _MOST_UNCHECKED else f"{shown[: _MOST_UNCHECKED - 3]}..."
