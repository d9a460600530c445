"""Warnings of `lint`: the code of each, and the one template of its sentence.

None names what it is about: whoever yields it puts that before the sentence, by `sentences.about`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal

from capsule import placeholders
from capsule.manifest.problems import quote
from capsule.sentences import Sentence, Templates

WARNINGS = Templates(Sentence)
_SHOWN_POINTERS = 3
_warning = WARNINGS.template

# of a manifest as a whole


@_warning("author-unnamed")
def unnamed_author(*, name: str) -> str:
    """Nobody has said yet who the author is."""
    return (
        f"the author is {name!r}, as `capsule init` wrote it, and what is sealed is not"
        " changed any more: write who you are, and under which license"
    )


@_warning("one-seed")
def one_seed() -> str:
    """No spread between runs will be known."""
    return (
        "one seed only: the spread between runs stays unknown, so no margin can be confirmed;"
        " name five seeds or more"
    )


@_warning("no-claims")
def no_claims() -> str:
    """Nothing will be judged."""
    return "no claims: a re-execution will be measured, but there is nothing to judge"


@_warning("no-primary-claim")
def no_primary() -> str:
    """Nothing decides the capsule's verdict."""
    return "no primary claim: the capsule's verdict can't be anything but INCONCLUSIVE"


@_warning("format-unused")
def unused_format() -> str:
    """Nothing reads a dataset by its format."""
    return (
        "its format does nothing, for no training reads it, and a command sees"
        " its files as they are; leave it out, or name the dataset in a benchmark of level 2"
    )


# of a claim, before a run


@_warning("too-few-seeds")
def too_few_seeds(
    *,
    seeds: int,
    rerun_seeds: int,
    look: Literal["first", "last"] | None,
    margin: float,
    is_seldom: bool,
    needed: int | None,
    added: int | None,
) -> str:
    """So many runs are not usually enough for a margin in standard deviations.

    Args:
        seeds: The original's.
        rerun_seeds: Those of a look.
        look: Which look it is, None for the last that the author planned.
        margin: In standard deviations that the original's runs show.
        is_seldom: Whether fewer than half of the cases confirm it.
        needed: How many on each side are usually enough, None for more than the table has.
        added: How many of them the author can add, None where there is no adding.
    """
    named = f", the {look} look" if look else ""
    return (
        f"{seeds} seeds and {rerun_seeds} re-runs{named}, margin"
        f" {margin:g} sd: {'seldom' if is_seldom else 'sometimes'} enough;"
        f" {needed or 'more than 50'} a side are usually enough{_adding(added)}"
    )


@_warning("threshold-on-bound")
def threshold_on_bound() -> str:
    """A mean is claimed of what holds for every run."""
    return (
        "a threshold judges the mean of the runs, and this bound holds for"
        " each: a claim of type bound finds the one run that breaks it"
    )


@_warning("paired-alone")
def paired_alone() -> str:
    """No claim but a paired one judges the number."""
    return (
        "pairs tell whether a machine changes these runs, never whether"
        " the number is right, so fresh seeds will be judged by the same margin; claim the"
        " metric unpaired as well, with a margin for fresh seeds"
    )


@_warning("search-unclaimed")
def unclaimed_search(*, path: str) -> str:
    """Nobody will judge what a search found."""
    return (
        "a search without a claim on its score: what it found will be reported,"
        f" and nothing judged; claim {path}"
    )


@_warning("failure-margin-narrow")
def narrow_failure_margin(*, seeds: int, margin: float, needed: int | None) -> str:
    """So many runs never confirm a margin between rates of failures."""
    enough = "more than 500 seeds" if needed is None else f"{needed} seeds"
    return (
        f"{seeds} seeds never confirm a failure margin of"
        f" {margin:g}, even where none fails: use {enough}, or a wider margin"
    )


@_warning("machine-equivalence")
def machine_equivalence() -> str:
    """Two machines are claimed to be equally fast."""
    return (
        "claims that a number of this machine is the same on another one; "
        "a claim of type ratio reports it"
    )


@_warning("curve-few-seeds")
def few_curves(*, seeds: int) -> str:
    """Fewer than so many curves are claimed at every step."""
    return f"fewer than {seeds} seeds hardly ever decide a whole curve"


@_warning("margin-vague")
def vague_margin() -> str:
    """The author allows as much as the number itself."""
    return (
        "its margin is no less than the number itself, so whoever reproduces"
        " it has shown little: write one that a reader would accept"
    )


@_warning("margin-below-steps")
def margin_below_steps(*, margin: float, step: float) -> str:
    """A margin is hardly wider than a step of the number."""
    return (
        f"the margin {margin:g} is less than 1.5 steps of {step:g}, too few to tell a shift"
        " from rounding: measure more finely, or allow more"
    )


@_warning("margin-on-step")
def margin_on_step(*, margin: float, step: float, better: float) -> str:
    """A margin of a few steps does not end between two of them."""
    return (
        f"the margin {margin:g} does not lie halfway between two steps of {step:g}, which"
        f" costs power for nothing: {better:g} allows the same"
    )


# of image and data


@_warning("image-local")
def local_image(*, owner: str, reference: str) -> str:
    """Only an engine here has the image that is named."""
    return (
        f"only {owner} on this machine has {reference}, so nobody else can run it: push it to a"
        f" registry, or hand out the file that `capsule image save {reference} FILE` writes"
    )


@_warning("image-undigested")
def undigested_image(*, reference: str) -> str:
    """A tag may name another image tomorrow."""
    return (
        f"{reference} has no digest: its owner can change what it names; "
        f"`capsule image resolve {reference}` prints the digest"
    )


@_warning("image-unpublished")
def unpublished_image(*, reference: str) -> str:
    """The image that ran is an engine's here."""
    return (
        f"the image {reference} is known to this machine's engine alone: push it to a"
        " registry that others reach, and run it from there by its digest"
    )


@_warning("image-file")
def image_file(*, reference: str) -> str:
    """The image that ran is a file."""
    return (
        f"the image {reference} is a file of yours: publish it, since whoever"
        " verifies names it with --image"
    )


@_warning("image-loopback")
def loopback_image(*, reference: str) -> str:
    """The image's registry is this machine."""
    return (
        f"the image {reference} lies in a registry on this machine, where nobody else gets it:"
        " push it to one that others reach, and run it from there by its digest"
    )


@_warning("image-missing")
def missing_image(*, reference: str, place: str, fault: str) -> str:
    """The file or folder that has the image is not here, or another one."""
    return f"the image {reference} is not here, {place}: {fault}"


@_warning("dataset-undigested")
def undigested_dataset(*, dataset: str, command: str) -> str:
    """Data may change and nobody sees it."""
    return f"dataset {dataset} has no digest, so a changed byte goes unseen; `{command}` prints it"


@_warning("dataset-without-source")
def dataset_without_source(*, dataset: str) -> str:
    """Whoever verifies has to be given the data."""
    return (
        f"dataset {dataset} has neither generator nor url nor doi, and does not come along in the"
        " capsule, so that whoever verifies has to get it from you: publish it, and name its"
        " address in the manifest"
    )


@_warning("pointer")
def pointer(*, description: str) -> str:
    """A file stands in place of data that was not fetched."""
    return description


@_warning("more-pointers")
def more_pointers(*, files: int) -> str:
    """So many more such files."""
    return f"and {files} more files are such pointers"


def of_pointers(files: Iterable[tuple[str, Path]]) -> Iterator[Sentence]:
    """A warning of each pointer among files, of many for the first ones.

    Args:
        files: What each is called, and where it lies.
    """
    found = placeholders.find_pointers(files)
    yield from (pointer(description=one) for one in found[:_SHOWN_POINTERS])
    if len(found) > _SHOWN_POINTERS:
        yield more_pointers(files=len(found) - _SHOWN_POINTERS)


# of a command


@_warning("seed-unused")
def unused_seed() -> str:
    """A command most likely takes no seed."""
    return (
        "no word of the command is {seed}, and no input reads CAPSULE_SEED: write {seed} where the"
        ' program takes a seed, or "seeding": "inject" beside "command" where it is Python and has'
        " no such option"
    )


@_warning("parameter-unused")
def unused_parameter(*, parameter: str) -> str:
    """A parameter of cases makes no difference."""
    return (
        f"the parameter {parameter} stands in no word and no variable, so it changes nothing:"
        f" write {{{parameter}}} where its value belongs"
    )


@_warning("ranks-apart")
def ranks_apart(*, file: str, has_package: bool, ranks: int) -> str:
    """Ranks that use MPI are started one by one."""
    return (
        f"{quote(file)} {'imports mpi4py' if has_package else 'calls MPI_Init'},"
        f" {ranks} ranks are asked for, and nothing starts them together, so each is alone"
        ' in a world of its own: "launcher": "mpirun" or "srun" in the site file joins them'
    )


@_warning("ranks-alike")
def ranks_alike(*, ranks: int, unset: tuple[str, ...]) -> str:
    """Each of several ranks most likely does all of the work.

    Args:
        ranks: How many are asked for.
        unset: Variables that an input reads and nobody sets.
    """
    advice = 'write "ranks_independent": true beside "command" where that is meant'
    if unset:
        values = {"RANK": "{rank}", "WORLD_SIZE": "{ranks}"}
        shown = ", ".join(f'"{name}": "{values[name]}"' for name in unset)
        advice = f'nothing sets {" or ".join(unset)}: write "environment": {{{shown}}}; or {advice}'
    return (
        f"{ranks} ranks are asked for, and no word, variable or input takes a rank from capsule"
        f" (CAPSULE_RANK, {{rank}}) or a launcher, so each of the {ranks} processes most likely"
        f" does all of the work alone: {advice}"
    )


@_warning("words-joined")
def joined_words(*, program: str, instead: tuple[str, ...]) -> str:
    """Several words stand in the place of a program's name."""
    return f"{quote(program)} is the name of one program; did you mean {quote(list(instead))}?"


@_warning("shell-word")
def shell_word(*, word: str) -> str:
    """A word that only a shell understands."""
    return (
        f"no shell reads the command, so the program gets {quote(word)} as a word; what"
        " comes before it can be the `setup`, and what is printed is kept anyway"
    )


@_warning("input-missing")
def missing_input(*, word: str) -> str:
    """A file beside the manifest is no input."""
    return (
        f"{quote(word)} lies beside the manifest and is not among the benchmark's"
        " inputs, so the command does not find it: add it there"
    )


@_warning("file-missing")
def missing_file(*, word: str, near: str | None) -> str:
    """There is no such script."""
    meant = f"; did you mean {quote(near)}?" if near else ""
    return f"{quote(word)} is no file beside the manifest{meant}"


@_warning("import-missing")
def missing_import(*, script: str, module: str) -> str:
    """A module that a script imports is no input."""
    return (
        f"{quote(script)} imports {quote(module)}, which lies beside it and is"
        " not among the benchmark's inputs, so the command does not find it: add it"
        " there"
    )


@_warning("windows-lines")
def windows_lines(*, file: str) -> str:
    """The kernel finds no interpreter."""
    return (
        f"the first line of {quote(file)} ends as Windows ends lines, so no interpreter is"
        " found: save it with Unix line ends"
    )


@_warning("byte-order-mark")
def byte_order_mark(*, file: str) -> str:
    """The kernel does not see the first line."""
    return (
        f"{quote(file)} begins with a byte order mark, so the kernel does not see its #! line:"
        " save it as UTF-8 without one"
    )


@_warning("interpreter-missing")
def missing_interpreter(*, file: str, starter: str) -> str:
    """A script does not name what starts it."""
    return (
        f"{quote(file)} has no #! line, so the kernel cannot start it: write one, such as"
        f" #!/usr/bin/env {starter}, or begin the command with {quote(starter)}"
    )


# of a run that was sealed


@_warning("claim-contradicted")
def contradicted_claim(*, is_mean: bool, value: float) -> str:
    """The original's own runs are on the wrong side of a constant."""
    whose = "the mean of these runs" if is_mean else "a run of these"
    return (
        f"{whose}, {value:.3g}, is beyond what the claim allows already: mend the claim or"
        " the program, and seal a run anew"
    )


@_warning("margin-missing")
def missing_margin(*, values: int, runs: int) -> str:
    """A margin could not be frozen, for want of runs."""
    return (
        f"{values} of {runs} runs have a value, too few to freeze a"
        " margin from, so nobody can confirm it: mend what fails, and seal a run anew"
    )


@_warning("equal-values")
def equal_values(*, runs: int, value: float) -> str:
    """No seed changed a number."""
    return (
        f"all {runs} runs have the value {value:.6g}, whatever their seed: have the command read"
        ' its seed, {seed} or CAPSULE_SEED, or say "seeding": "inject"; of a number that no seed'
        " changes, claim that it is exact"
    )


@_warning("one-run")
def one_run() -> str:
    """A single run was sealed."""
    return "one run tells no spread, so nobody can confirm any margin: seal five seeds or more"


@_warning("margin-out-of-reach")
def margin_out_of_reach(
    *,
    allowed: float,
    is_ratio: bool,
    runs: int,
    reruns: int | None,
    needed: int | None,
    added: int | None,
) -> str:
    """These runs let hardly anybody confirm a margin.

    Args:
        allowed: The margin, as a factor where it is a ratio.
        is_ratio: Whether it is.
        runs: The original's.
        reruns: Those of the last look, None where no number confirms it.
        needed: How many on each side would, None for more than can be had.
        added: How many of them the author can add, None where there is no adding.
    """
    shown = f"a factor of {allowed:.3g}" if is_ratio else f"{allowed:.3g}"
    fact = (
        f"no number of re-runs confirms {shown} in 20 % of cases"
        if reruns is None
        else f"{reruns} re-runs, the last look, confirm {shown} in fewer than 80 % of cases"
    )
    remedy = (
        "allow more, or have the runs scatter less"
        if needed is None
        else f"{needed} seeds on each side would"
    )
    return (
        f"{fact} if runs scatter as these {runs} do and nothing changed: {remedy}{_adding(added)}"
    )


def _adding(runs: int | None) -> str:
    if runs is None:
        return ""
    return f" (`capsule run --add-seeds {runs}` shows it, and decides nothing)"


@_warning("margin-above-mean")
def margin_above_mean(*, margin: float, mean: float) -> str:
    """The number itself is small beside what is allowed."""
    return (
        f"the margin of {margin:.3g} is no less than the mean itself, {mean:.3g}, so whoever"
        " reproduces it has shown little: seal more seeds, or write the margin as a number that"
        " a reader would accept"
    )


@_warning("busy")
def busy(*, load: str) -> str:
    """The machine had other work."""
    return (
        f"the machine was busy when the run began, {load}: times are longer than they would be,"
        " and scatter more; run it again when nothing else runs"
    )


@_warning("gpus-unused")
def unused_gpus(*, count: int, model: str) -> str:
    """The machine has GPUs, and no process had one."""
    gpus = "a GPU" if count == 1 else f"{count} GPUs"
    return (
        f"the machine has {gpus}, {model}, and nothing used it:"
        ' "resources": {"gpus_per_rank": 1} gives one to each process'
    )
