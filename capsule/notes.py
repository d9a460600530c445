"""Notes of a record: a code for programs, facts, and the sentence that a template makes of them.

Notes are sealed. Those of another author are shown in the words of this version, or marked as
untrusted text.
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
    """A fact that a reader of a number or a verdict must know.

    Attributes:
        code: A permanent name of the kind of fact, such as `uncontained`.
        facts: The values in the sentence; None where an earlier version sealed none.
        sentence: The words for a screen: of this version's template, or text marked as untrusted.
        sealed: The words in the capsule, None where they are the same.
        is_known: Whether a template of this version made the sentence.
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
"""Prefix of the names of observed binds; the path in the container follows."""
SITE_MPI = "site-mpi"
LIBRARY = "library "
"""Prefix of the names of observed libraries of the machine; the library's name follows."""
KEYRING, KEPT_KEYRING = "keyring", "keyring-kept"
YOUR_KEYRING = "the user's own"
"""Value of `KEYRING` where workloads could use the keys of the user who ran them."""
OF_SITES = frozenset({SITE_BINDS, SITE_MPI, KEPT_KEYRING})
"""Codes of notes on files and keys of the machine that workloads could use."""
CLOCKS, EARLY_CLOCK = "clocks", "early-clock"
REDUCED, WITHOUT_GPU = "reduced-series", "ran-without-gpu"
SEEDS_KEPT, INJECTION_UNUSED = "seeds-kept", "injection-unused"
UNCHECKED = "unchecked"
IMAGE_REPLACED, IMAGE_NAMED = "image-replaced", "image-named"
OF_IMAGES = frozenset({IMAGE_REPLACED, IMAGE_NAMED})
"""Codes of notes on an image that came from `--image`."""
DERIVED = (
    OF_IMAGES
    | OF_SITES
    | {UNCONTAINED, IMAGE_UNUSED, REREAD, ADDED, REDUCED, WITHOUT_GPU, UNCHECKED}
)
"""Codes of notes that follow from the rest of a record; a reader makes them again."""

_MOST_UNCHECKED = 300


@NOTES.template(UNCONTAINED)
def no_container() -> str:
    """Return the note of a run without a container."""
    return (
        "ran on the host, not in a container: the host's Python and packages are part of the result"
    )


NOTES |= {
    IMAGE_UNUSED: "the runs used the host's software instead of the {verifies:original|manifest}'s"
    " image",
    SITE_BINDS: "the containers could read files of the machine: {places:list}",
}


@NOTES.template(SITE_MPI)
def own_libraries(*, libraries: tuple[tuple[str, str], ...]) -> str:
    """Return the note of a machine's MPI that replaced the image's.

    Args:
        libraries: Name and description of each library.
    """
    named = "; ".join(f"{name} ({fact})" for name, fact in libraries)
    return f"the machine's MPI replaced the image's: {named}"


NOTES |= {
    KEPT_KEYRING: "workloads could read the user's kernel keys (--keep-keyring)",
}


@NOTES.template("inputs-written")
def written_inputs(*, path: str, trial: str, files: int, starts: int) -> str:
    """Return the note of process starts that changed their inputs.

    Args:
        path: The first path that was changed, removed or added.
        trial: Trial of the first process start that did so.
        files: Number of paths that this start changed.
        starts: Number of process starts that changed any.
    """
    more = f" and {files - 1} more" if files > 1 else ""
    others = f", as did {starts - 1} more process starts" if starts > 1 else ""
    return (
        f"{trial} wrote to its inputs: {path}{more}{others}. Each process start begins with"
        " the sealed inputs. To keep a file, write it to $CAPSULE_OUT; if the program writes beside"
        ' its own code, set "cwd": {"copy": FOLDER}'
    )


NOTES |= {
    "memory-limit": "memory limit per process start: {most_bytes:size}, {is_held:enforced by its"
    " control group|checked once a second}",
    EARLY_CLOCK: "the machine's clock said {began:.10s}, before capsule-hpc {release} was written:"
    " all dates of this run are wrong",
    CLOCKS: "the runs begin at {began}, before {whose} ended at {ended}: the clock of one of the"
    " two machines was wrong",
}


@NOTES.template(REDUCED)
def reduced_series(*, metrics: tuple[tuple[str, int], ...], ranks: int) -> str:
    """Return the note of series that are stored in reduced form, because of many ranks.

    Args:
        metrics: Last segment of each metric, and the number of benchmarks that it is reduced in.
        ranks: Largest number of ranks.
    """
    names = ", ".join(f"{name} of {count} benchmark{'s' * (count > 1)}" for name, count in metrics)
    return (
        f"{names}: series of up to {ranks} ranks are stored in reduced form (smallest, median,"
        " largest and digest per step; median and last value per rank). Run values equal those"
        " computed from all values"
    )


@NOTES.template(WITHOUT_GPU)
def unused_gpu(*, benchmarks: tuple[tuple[str, int], ...]) -> str:
    """Return the note of runs that did not use the GPUs that they asked for.

    Args:
        benchmarks: Id of each benchmark, and the number of such attempts.
    """
    runs = " and ".join(f"{count} run{'s' * (count > 1)} of {name}" for name, count in benchmarks)
    return (
        f"{runs} asked for a GPU and did not use it: no process of the run was on the GPU, and the"
        " GPU's memory did not grow. Check that the software of the run supports the GPU"
    )


NOTES |= {
    "narrowed": "measured with {frameworks:list} only: a part of manifest {whole}",
    "frameworks-left-out": "left out {frameworks:list}: capsule runs {frameworks:list} on CPUs"
    " only, and the manifest asks for GPUs",
    IMAGE_LOCAL: "others cannot fetch the image {reference}: only {owner} on the machine of the"
    " runs has the image; push the image to a registry, or publish the file that"
    " `capsule image save` writes",
}


@NOTES.template(IMAGE_REPLACED)
def replaced_image(*, reference: str) -> str:
    """Return the note of an image that `--image` replaced."""
    return f"image replaced by --image {reference}"


NOTES |= {
    IMAGE_NAMED: "image from --image ({reference}); {verifies:the original ran without an image|"
    "the manifest names no image}",
}


@NOTES.template(REREAD)
def second_reading(*, capsule: str, later: int, gone: int) -> str:
    """Return the note of values that were read again, by another manifest.

    Args:
        capsule: Id of the capsule that the runs were first sealed in.
        later: Number of claims that were written or changed after that.
        gone: Number of claims of that capsule that were removed or changed.
    """
    claims = [f"claims written or changed when re-reading: {later}"] * bool(later)
    claims += [f"claims of capsule {capsule[:12]} removed or changed: {gone}"] * bool(gone)
    return "; ".join([f"values re-read from capsule {capsule[:12]} (nothing was run)", *claims])


NOTES |= {
    "added-software": "the added runs used other software than the first runs; no image fixes the"
    " software",
}


@NOTES.template(ADDED)
def addition(*, capsule: str, first: int, added: int, later: int) -> str:
    """Return the note of seeds that were added to a sealed run.

    Args:
        capsule: Id of the capsule with the first seeds.
        first: Number of the first seeds.
        added: Number of added seeds.
        later: Number of claims that cover the added runs, and are not judged.
    """
    verbs = ("covers", "is") if later == 1 else ("cover", "are")
    claims = f"; {later} of this capsule's claims {verbs[0]} all runs, and {verbs[1]} not judged"
    known = "first seed" if first == 1 else f"first {first} seeds"
    return (
        f"{added} of {first + added} seeds {'was' if added == 1 else 'were'} added after the"
        f" results of the {known} were known (sealed as capsule {capsule[:12]})"
        f"{claims if later else ''}"
    )


NOTES |= {
    "online": "workloads could reach the network: {reason}",
}


@NOTES.template("no-tensor-cores")
def plain_products(*, dtype: str, case: str, kernel: str, cases: int) -> str:
    """Return the note of products that a GPU computed without its tensor cores.

    Args:
        dtype: Element type of the trials.
        case: Benchmark, case and framework of the first of them.
        kernel: Kernel of one of its products.
        cases: Number of such cases.
    """
    more = f" and {cases - 1} more case{'s' * (cases > 2)}" if cases > 1 else ""
    return (
        f"{case}{more} in {dtype}: the GPU computed no product on its tensor cores (kernel"
        f" {kernel}). To use them, choose sizes that are multiples of 16"
    )


@NOTES.template(SEEDS_KEPT)
def kept_seeds(
    *, benchmark: str, seeds: int, generators: tuple[tuple[str, str, str], ...], more: int
) -> str:
    """Return the note of generators that had the same seed in runs with different seeds.

    Args:
        benchmark: Id of the benchmark.
        seeds: Number of seeds of its runs.
        generators: Function that took the seed, seed, and file and line of each.
        more: Number of further ones.
    """
    return (
        f"{benchmark}: some generators had the same seed in all runs with {seeds} different seeds:"
        f" {list_generators(generators, more)}"
    )


def list_generators(generators: tuple[tuple[str, str, str], ...], more: int) -> str:
    """Return generators with their seeds and places, as `kept_seeds` takes them."""
    named = [f"{function}({seed}) in {place}" for function, seed, place in generators]
    return ", ".join(named) + (f", and {more} more" if more else "")


@NOTES.template(INJECTION_UNUSED)
def unused_injection(*, benchmark: str, runs: int) -> str:
    """Return the note of runs in which no generator drew from the injected seed.

    Args:
        benchmark: Id of the benchmark.
        runs: Number of its runs.
    """
    return f"{benchmark}: no generator drew from the injected seed in {runs} run{'s' * (runs > 1)}"


@NOTES.template("oversubscribed")
def oversubscription(*, threads: int, ranks: int, cpus: int) -> str:
    """Return the note of more threads than CPUs."""
    of_ranks = f" of {ranks} ranks together" if ranks > 1 else ""
    return f"more threads than CPUs: {threads} threads{of_ranks} on {cpus} CPUs"


@NOTES.template(UNCHECKED)
def unchecked(*, about: str, text: str) -> str:
    """Return a note whose code this version does not know.

    Args:
        about: Its code.
        text: The words in the capsule, shortened and cleaned.
    """
    return f"{about} (unverified text of the capsule): {text}"


def site_files(observations: Mapping[str, str]) -> Iterator[Note]:
    """Yield the notes of files of the machine in containers, and of its MPI.

    Args:
        observations: Of the image. After `BIND` in a name follows a path in the container, after
            `LIBRARY` the name of a library.
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
    """Yield the note of a workload that could use the user's keys.

    Args:
        observations: Of the image.
    """
    if observations.get(KEYRING) == YOUR_KEYRING:
        yield NOTES(KEPT_KEYRING)


def choice_of_image(reference: str, *, replaces: bool, verifies: bool) -> Note:
    """Return the note of an image that came from `--image`.

    Args:
        reference: The image.
        replaces: Whether it replaced another image.
        verifies: Whether the run is a verification.
    """
    if replaces:
        return replaced_image(reference=reference)
    return NOTES(IMAGE_NAMED, reference=reference, verifies=verifies)


def of_run(
    *, contained: bool, observations: Mapping[str, str], has_image: bool, override: str | None
) -> Iterator[Note]:
    """Yield the notes that follow from how a manifest was run.

    Args:
        contained: Whether it ran in a container.
        observations: Of the image.
        has_image: Whether the manifest names an image.
        override: The image from `--image`, None without one.
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
    """Return a note as a JSON object."""
    facts = {} if note.facts is None else {"facts": dict(note.facts)}
    return {"code": note.code, **facts, "sentence": note.sealed or note.sentence}


def from_json(value: Mapping[str, Any]) -> Note:
    """Return the note of a JSON object, in the words of this version or marked as untrusted."""
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
    """Return whether a note differs from what this version makes of its code and facts."""
    return not note.is_known or note.facts is None or note.sealed is not None


def inherit(note: Note) -> Note:
    """Return a note of another capsule as this version seals it."""
    if not note.is_known:
        return unchecked(about=note.code, text=_cut(note.sealed or note.sentence))
    return Note(code=note.code, facts=note.facts or (), sentence=note.sentence)


def has(stated: Iterable[Note], due: Note) -> bool:
    """Return whether a note is among others; unknown ones are compared by code alone."""
    return any(
        note.code == due.code and (not note.is_known or (note.facts or ()) == due.facts)
        for note in stated
    )


def about(subject: str, note: Note) -> Note:
    """Return a note with its subject before its sentence."""
    facts = (("of", subject), *(note.facts or ()))
    return Note(code=note.code, facts=facts, sentence=f"{subject}: {note.sentence}")


def change_texts(note: Note, change: Callable[[str], str]) -> Note:
    """Return a note with changed texts among its facts."""
    facts = tuple((name, sentences.change(fact, change)) for name, fact in note.facts or ())
    sentence = NOTES.say(note.code, facts)
    assert sentence is not None
    return Note(code=note.code, facts=facts, sentence=sentence)


def _cut(text: str) -> str:
    shown = plain.clean(text)
    return shown if len(shown) <= _MOST_UNCHECKED else f"{shown[: _MOST_UNCHECKED - 3]}..."
