"""What a reader of a number or a verdict must know: a code for programs, a sentence for people."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Note:
    """Something that a reader must know.

    Attributes:
        code: A word that names the fact and stays the same, such as `uncontained`.
        sentence: The fact, with what it is about.
    """

    code: str
    sentence: str


IMAGE_LOCAL = "image-local"
UNCONTAINED, IMAGE_UNUSED = "uncontained", "image-unused"
REFUSED_VALUE, OTHER_METRIC = "refused-value", "other-metric"
"""Of a value of an older capsule that today's rules of reading texts refuse."""
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
OF_IMAGES = frozenset({"image-replaced", "image-named"})
"""Codes of notes on an image that was named by whoever ran it."""
DERIVED = OF_IMAGES | {UNCONTAINED, IMAGE_UNUSED, REREAD, ADDED, REDUCED} | OF_SITES
"""Codes of notes that follow from the rest of a record, so that a reader makes them again."""


def no_container() -> Note:
    """No engine ran it in an image."""
    return Note(
        code=UNCONTAINED,
        sentence="nothing was contained: the host's own Python and libraries were measured",
    )


def unused_image(*, verifies: bool) -> Note:
    """There is an image, and it ran without.

    Args:
        verifies: Whether the image is the original's; else it is the manifest's.
    """
    whose = "original" if verifies else "manifest"
    return Note(code=IMAGE_UNUSED, sentence=f"the {whose}'s image was not used")


def site_files(observations: Mapping[str, str]) -> Iterator[Note]:
    """Containers saw files of the machine in the image, and used its MPI: a note each, if so.

    Args:
        observations: Of the image; names that begin with `BIND` go on with the path in the
            container, those that begin with `LIBRARY` with the name of a library.
    """
    targets = sorted(name.removeprefix(BIND) for name in observations if name.startswith(BIND))
    if places := ", ".join(targets):
        sentence = f"its machine showed files of its own in the image, read-only: {places}"
        yield Note(code=SITE_BINDS, sentence=sentence)
    libraries = sorted(
        f"{name.removeprefix(LIBRARY)} ({fact})"
        for name, fact in observations.items()
        if name.startswith(LIBRARY)
    )
    if libraries:
        sentence = f"its machine's own MPI took the place of the image's: {'; '.join(libraries)}"
        yield Note(code=SITE_MPI, sentence=sentence)


def written_inputs(path: str, trial: str, *, files: int, starts: int) -> Note:
    """Process starts changed their inputs, which each of them found as they were sealed.

    Args:
        path: The first of what was changed, removed or added.
        trial: That of the first start which did so.
        files: How many paths that start changed.
        starts: How many process starts changed any.
    """
    more = f" and {files - 1} more" if files > 1 else ""
    others = f", and {starts - 1} more process starts did so" if starts > 1 else ""
    return Note(
        code="inputs-written",
        sentence=f"{trial} wrote among its inputs: {path}{more}{others}. Each process start found"
        " the inputs as they were sealed. To keep a file, write it to the folder that CAPSULE_OUT"
        ' names; for a program that writes beside its own code, set "cwd": {"copy": FOLDER}',
    )


def kept_keyring(observations: Mapping[str, str]) -> Iterator[Note]:
    """The workload could use the keys of whoever ran it: a note, if so.

    Args:
        observations: Of the image.
    """
    if observations.get(KEYRING) == YOUR_KEYRING:
        sentence = "workloads could read the keys of the user who ran them (--keep-keyring)"
        yield Note(code=KEPT_KEYRING, sentence=sentence)


def memory_limit(most: str, *, is_held: bool) -> Note:
    """A limit of memory can change what is measured.

    Args:
        most: As people read it.
        is_held: Whether the engine has the kernel hold each start to it.
    """
    how = "held by its control group" if is_held else "watched once a second"
    return Note(
        code="memory-limit", sentence=f"each process start had at most {most} of memory, {how}"
    )


def early_clock(began: str, release: str) -> Note:
    """The clock of the machine is wrong for certain.

    Args:
        began: What it said when the run began.
        release: The version of capsule, which did not exist then.
    """
    return Note(
        code=EARLY_CLOCK,
        sentence=f"its machine's clock said {began[:10]}, which is before capsule-hpc {release} was"
        " written: the clock was wrong, and so are all times of this run",
    )


def clocks_disagree(began: str, ended: str, whose: str) -> Note:
    """Runs are dated before the end of those that they follow.

    Args:
        began: When the first of them began.
        ended: When those before them ended.
        whose: What ended then, such as `the original`.
    """
    return Note(
        code=CLOCKS,
        sentence=f"its runs are dated from {began}, before {whose} ended at {ended}: one of the two"
        " machines' clocks was wrong",
    )


def reduced_series(benchmarks: Mapping[str, int], ranks: int) -> Note:
    """Series of many ranks of which not every value is kept.

    Args:
        benchmarks: The last segment of each metric, and of how many benchmarks it is reduced.
        ranks: The most that one of them has.
    """
    names = ", ".join(
        f"{name} of {count} benchmark{'s' * (count > 1)}" for name, count in benchmarks.items()
    )
    return Note(
        code=REDUCED,
        sentence=f"series of up to {ranks} ranks are kept as least, median, largest and digest of"
        " each step, and as the median and the last value of each rank, from which the run's value"
        f" follows as from all: {names}",
    )


def part(frameworks: Iterable[str], whole: object) -> Note:
    """Only some frameworks were measured.

    Args:
        frameworks: Those.
        whole: Digest of the manifest that has all.
    """
    sentence = f"measured with {', '.join(frameworks)} alone: a part of the manifest {whole}"
    return Note(code="narrowed", sentence=sentence)


def local_image(reference: str, owner: str) -> Note:
    """No registry has the image.

    Args:
        reference: As it was named.
        owner: The engine that has it.
    """
    return Note(
        code=IMAGE_LOCAL,
        sentence=f"nobody can fetch the image {reference}: only {owner} where it ran had it;"
        " push it to a registry, or hand out the file that `capsule image save` writes",
    )


def choice_of_image(reference: str, *, replaces: bool, verifies: bool) -> Note:
    """An image was named by whoever ran it.

    Args:
        reference: As it was named.
        replaces: Whether there is another one that it took the place of.
        verifies: Whether that would be the original's; else it would be the manifest's.
    """
    if replaces:
        sentence = f"the image was replaced on request by {reference}"
        return Note(code="image-replaced", sentence=sentence)
    whose = "the original ran without one" if verifies else "the manifest names none"
    sentence = f"the image was chosen on request, {reference}: {whose}"
    return Note(code="image-named", sentence=sentence)


def second_reading(capsule_id: str, *, later: int, gone: int) -> Note:
    """Its numbers were read again, by another manifest.

    Args:
        capsule_id: Of the capsule that the runs were sealed in first.
        later: How many of its claims were written or changed after that.
        gone: How many of the claims there it does not have as they were.
    """
    claims = [f"{later} of its claims were written or changed then"] * bool(later)
    claims += [f"{gone} that were sealed there are gone or changed"] * bool(gone)
    return Note(
        code=REREAD,
        sentence="; ".join(
            [f"its numbers were read again from what capsule {capsule_id[:12]} holds", *claims]
        ),
    )


def other_software() -> Note:
    """Runs were added to others without an image, and with other software than those had."""
    sentence = "runs that were added had other software: no image says that it is the same"
    return Note(code="added-software", sentence=sentence)


def addition(capsule_id: str, *, first: int, added: int, later: int) -> Note:
    """Seeds were added to a run that was sealed.

    Args:
        capsule_id: Of the capsule with the first ones.
        first: How many those are.
        added: How many more there are now.
        later: How many of its claims decide nothing for that.
    """
    verbs = ("is", "decides") if later == 1 else ("are", "decide")
    claims = f"; {later} of its claims {verbs[0]} about all runs now, and {verbs[1]} nothing"
    return Note(
        code=ADDED,
        sentence=f"{added} of its {first + added} seeds {'was' if added == 1 else 'were'} added"
        f" after {first} {'was' if first == 1 else 'were'} sealed as capsule {capsule_id[:12]}, by"
        f" whoever had seen {'that' if first == 1 else 'those'}{claims if later else ''}",
    )
