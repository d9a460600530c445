"""Warnings of `lint`: the code of each, and the one template of its sentence.

None names what it is about: whoever yields it puts that before the sentence, by `sentences.about`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal

from capsule import placeholders
from capsule.manifest.problems import quote
from capsule.sentences import Sentence, Shape, Templates

WARNINGS = Templates(Sentence, quote=Shape(str, quote))
_SHOWN_POINTERS = 3

# of a manifest as a whole


WARNINGS |= {
    "author-unnamed": "the author is {name!r}, as `capsule init` wrote it, and what is sealed"
    " is not changed any more: write who you are, and under which license",
    "one-seed": "one seed only: the spread between runs stays unknown, so no margin can be"
    " confirmed; name five seeds or more",
    "no-claims": "no claims: a re-execution will be measured, but there is nothing to judge",
    "no-primary-claim": "no primary claim: the capsule's verdict can't be anything but"
    " INCONCLUSIVE",
    "format-unused": "its format does nothing, for no training reads it, and a command sees its"
    " files as they are; leave it out, or name the dataset in a benchmark of level 2",
}


# of a claim, before a run


@WARNINGS.template("too-few-seeds")
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


WARNINGS |= {
    "threshold-on-bound": "a threshold judges the mean of the runs, and this bound holds for"
    " each: a claim of type bound finds the one run that breaks it",
    "paired-alone": "pairs tell whether a machine changes these runs, never whether the number"
    " is right, so fresh seeds will be judged by the same margin; claim the metric unpaired as"
    " well, with a margin for fresh seeds",
    "search-unclaimed": "a search without a claim on its score: what it found will be reported,"
    " and nothing judged; claim {path}",
}


@WARNINGS.template("failure-margin-narrow")
def narrow_failure_margin(*, seeds: int, margin: float, needed: int | None) -> str:
    """So many runs never confirm a margin between rates of failures."""
    enough = "more than 500 seeds" if needed is None else f"{needed} seeds"
    return (
        f"{seeds} seeds never confirm a failure margin of"
        f" {margin:g}, even where none fails: use {enough}, or a wider margin"
    )


WARNINGS |= {
    "machine-equivalence": "claims that a number of this machine is the same on another one; a"
    " claim of type ratio reports it",
    "curve-few-seeds": "fewer than {seeds:d} seeds hardly ever decide a whole curve",
    "margin-vague": "its margin is no less than the number itself, so whoever reproduces it has"
    " shown little: write one that a reader would accept",
    "margin-below-steps": "the margin {margin:g} is less than 1.5 steps of {step:g}, too few to"
    " tell a shift from rounding: measure more finely, or allow more",
    "margin-on-step": "the margin {margin:g} does not lie halfway between two steps of"
    " {step:g}, which costs power for nothing: {better:g} allows the same",
}


# of image and data


WARNINGS |= {
    "image-local": "only {owner} on this machine has {reference}, so nobody else can run it:"
    " push it to a registry, or hand out the file that `capsule image save {reference} FILE`"
    " writes",
    "image-undigested": "{reference} has no digest: its owner can change what it names;"
    " `capsule image resolve {reference}` prints the digest",
    "image-unpublished": "the image {reference} is known to this machine's engine alone: push"
    " it to a registry that others reach, and run it from there by its digest",
    "image-file": "the image {reference} is a file of yours: publish it, since whoever verifies"
    " names it with --image",
    "image-loopback": "the image {reference} lies in a registry on this machine, where nobody"
    " else gets it: push it to one that others reach, and run it from there by its digest",
    "image-missing": "the image {reference} is not here, {place}: {fault}",
    "dataset-undigested": "dataset {dataset} has no digest, so a changed byte goes unseen;"
    " `{command}` prints it",
    "dataset-without-source": "dataset {dataset} has neither generator nor url nor doi, and"
    " does not come along in the capsule, so that whoever verifies has to get it from you:"
    " publish it, and name its address in the manifest",
    "pointer": "{description}",
    "more-pointers": "and {files:d} more files are such pointers",
}


def of_pointers(files: Iterable[tuple[str, Path]]) -> Iterator[Sentence]:
    """A warning of each pointer among files, of many for the first ones.

    Args:
        files: What each is called, and where it lies.
    """
    found = placeholders.find_pointers(files)
    yield from (WARNINGS("pointer", description=one) for one in found[:_SHOWN_POINTERS])
    if len(found) > _SHOWN_POINTERS:
        yield WARNINGS("more-pointers", files=len(found) - _SHOWN_POINTERS)


# of a command


WARNINGS |= {
    "seed-unused": "no word of the command is {{seed}}, and no input reads CAPSULE_SEED: write"
    ' {{seed}} where the program takes a seed, or "seeding": "inject" beside "command" where it'
    " is Python and has no such option",
    "parameter-unused": "the parameter {parameter} stands in no word and no variable, so it"
    " changes nothing: write {{{parameter}}} where its value belongs",
    "ranks-apart": "{file:quote} {has_package:imports mpi4py|calls MPI_Init}, {ranks:d} ranks"
    " are asked for, and nothing starts them together, so each is alone in a world of its own:"
    ' "launcher": "mpirun" or "srun" in the site file joins them',
}


@WARNINGS.template("ranks-alike")
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


@WARNINGS.template("words-joined")
def joined_words(*, program: str, instead: tuple[str, ...]) -> str:
    """Several words stand in the place of a program's name."""
    return f"{quote(program)} is the name of one program; did you mean {quote(list(instead))}?"


WARNINGS |= {
    "shell-word": "no shell reads the command, so the program gets {word:quote} as a word; what"
    " comes before it can be the `setup`, and what is printed is kept anyway",
    "input-missing": "{word:quote} lies beside the manifest and is not among the benchmark's"
    " inputs, so the command does not find it: add it there",
}


@WARNINGS.template("file-missing")
def missing_file(*, word: str, near: str | None) -> str:
    """There is no such script."""
    meant = f"; did you mean {quote(near)}?" if near else ""
    return f"{quote(word)} is no file beside the manifest{meant}"


WARNINGS |= {
    "import-missing": "{script:quote} imports {module:quote}, which lies beside it and is not"
    " among the benchmark's inputs, so the command does not find it: add it there",
    "windows-lines": "the first line of {file:quote} ends as Windows ends lines, so no"
    " interpreter is found: save it with Unix line ends",
    "byte-order-mark": "{file:quote} begins with a byte order mark, so the kernel does not see"
    " its #! line: save it as UTF-8 without one",
    "interpreter-missing": "{file:quote} has no #! line, so the kernel cannot start it: write"
    " one, such as #!/usr/bin/env {starter}, or begin the command with {starter:quote}",
}


# of a run that was sealed


WARNINGS |= {
    "claim-contradicted": "{is_mean:the mean of these runs|a run of these}, {value:.3g}, is"
    " beyond what the claim allows already: mend the claim or the program, and seal a run anew",
    "margin-missing": "{values:d} of {runs:d} runs have a value, too few to freeze a margin"
    " from, so nobody can confirm it: mend what fails, and seal a run anew",
    "equal-values": "all {runs:d} runs have the value {value:.6g}, whatever their seed: have"
    ' the command read its seed, {{seed}} or CAPSULE_SEED, or say "seeding": "inject"; of a'
    " number that no seed changes, claim that it is exact",
    "one-run": "one run tells no spread, so nobody can confirm any margin: seal five seeds or more",
}


@WARNINGS.template("margin-out-of-reach")
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


WARNINGS |= {
    "margin-above-mean": "the margin of {margin:.3g} is no less than the mean itself,"
    " {mean:.3g}, so whoever reproduces it has shown little: seal more seeds, or write the margin"
    " as a number that a reader would accept",
    "busy": "the machine was busy when the run began, {load}: times are longer than they would"
    " be, and scatter more; run it again when nothing else runs",
}


@WARNINGS.template("gpus-unused")
def unused_gpus(*, count: int, model: str) -> str:
    """The machine has GPUs, and no process had one."""
    gpus = "a GPU" if count == 1 else f"{count} GPUs"
    return (
        f"the machine has {gpus}, {model}, and nothing used it:"
        ' "resources": {"gpus_per_rank": 1} gives one to each process'
    )
