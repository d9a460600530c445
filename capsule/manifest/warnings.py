"""Warnings of `lint`: the code of each, and the template of its sentence.

A sentence says what is wrong, then behind a full stop what to do. The code that yields a sentence
puts its subject in front, by `sentences.about`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal

from capsule import notes, placeholders
from capsule.manifest.problems import quote
from capsule.sentences import Sentence, Shape, Templates

WARNINGS = Templates(Sentence, quote=Shape(str, quote))
_SHOWN_POINTERS = 3

# the manifest as a whole


WARNINGS |= {
    "author-unnamed": '"authors" still has the template\'s {name!r}. Write your name and check'
    ' "license": a sealed capsule cannot be corrected',
    "one-seed": "one seed gives no spread between runs, so no margin can be confirmed. Name at"
    " least five seeds",
    "no-claims": 'no claims: a verification can give no verdict. Add an entry to "claims"',
    "no-primary-claim": "no primary claim: every verification will be INCONCLUSIVE. Make one claim"
    " primary; for `reread`, leave the sealed claims unchanged and add new claims",
    "format-unused": '"format" has no effect: no training reads this dataset, and a command gets'
    ' the files unchanged. Remove "format", or name the dataset in a benchmark of level 2',
    "frameworks-left-out": "a run leaves out {frameworks:list}: capsule runs {frameworks:list} on"
    ' CPUs only, and "gpus_per_rank" asks for GPUs. To measure on CPUs, use a copy of the manifest'
    ' without "gpus_per_rank"',
}


# a claim, before a run


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
    """Word that the seeds are too few for a margin in standard deviations.

    Args:
        seeds: The original's.
        rerun_seeds: Those of a look.
        look: Which look it is, None for the last that the author planned.
        margin: In standard deviations between the original's runs.
        is_seldom: Whether fewer than half of the verifications confirm it.
        needed: How many on each side are usually enough, None for more than the table has.
        added: How many of them the author could add, None where none can be added.
    """
    named = f" (the {look} look)" if look else ""
    return (
        f"{seeds} seeds and {rerun_seeds} re-runs{named} confirm a margin of {margin:g} sd in fewer"
        f" than {50 if is_seldom else 80} % of verifications, even if nothing changed."
        f" {_remedy(str(needed or 'more than 50'), is_sealed=look == 'last', added=added)}"
    )


WARNINGS |= {
    "threshold-on-bound": "a threshold judges the mean of the runs, but this bound applies to"
    ' every run. Write "type": "bound", which finds a single run that breaks the bound',
    "paired-alone": "this metric has paired claims only, so a verification judges fresh seeds by a"
    " margin meant for equal seeds. Add an unpaired claim on this metric, with a margin for fresh"
    " seeds",
    "search-unclaimed": "the search has no claim on its score, so a verification reports the score"
    " without judging it. Claim {path}",
}


@WARNINGS.template("failure-margin-narrow")
def narrow_failure_margin(*, seeds: int, margin: float, needed: int | None) -> str:
    """Word that the seeds are too few for a margin between rates of failed runs."""
    return (
        f"{seeds} seeds never confirm a failure margin of {margin:g}, even if no run fails. Use"
        f" {needed or 'more than 500'} seeds, or a wider margin"
    )


WARNINGS |= {
    "machine-equivalence": "a machine metric (a time, a rate, a size of memory) differs between"
    ' machines, so re-runs on another machine will be DIFFERENT. Write "type": "ratio", which'
    " reports the ratio without judging it",
    "curve-few-seeds": "{found:d} {found:seed rarely decides|seeds rarely decide} a claim on a"
    " whole curve. Use {seeds:d} seeds or more",
    "margin-vague": "the margin ({written}) is at least as large as the mean, so almost any re-run"
    " is REPRODUCED. Write a margin that a reader would accept",
    "margin-below-steps": "the margin {margin:g} is less than 1.5 steps of {step:g}, so"
    " rounding can hide a shift. Measure more finely, or widen the margin",
    "margin-on-step": "the margin {margin:g} does not lie halfway between two steps of"
    " {step:g}, so more verifications end INCONCLUSIVE. Write {better:g} if true differences of"
    " up to {better:g} are acceptable",
}


# image and data


WARNINGS |= {
    "image-local": "only {owner} on this machine has {reference}, so nobody else can run it."
    " Push the image to a registry, or publish the file that `capsule image save {reference} FILE`"
    " writes",
    "image-undigested": "{reference} has no digest, so its owner can replace the image. Write"
    " the digest that `capsule image resolve {reference}` prints",
    "image-unpublished": "only this machine's engine has the image {reference}. Push the image"
    " to a registry that verifiers reach, and run the pushed image by its digest",
    "image-file": "the image {reference} is a local file. Publish the file: verifiers name it"
    " with --image",
    "image-loopback": "the image {reference} is in a registry on this machine, which verifiers"
    " cannot reach. Push the image to a registry that verifiers reach, and run the pushed image by"
    " its digest",
    "image-missing": "the image {reference} cannot be used ({place}): {fault}",
    "dataset-undigested": "dataset {dataset} has no digest, so a changed byte goes unnoticed."
    " Write the digest that `{command}` prints",
    "dataset-without-source": "dataset {dataset} has no generator, url or doi, and will not be in"
    " the capsule, so verifiers must get the dataset from you. Publish the dataset, and write its"
    " address in the manifest",
    "pointer": "{description}",
    "more-pointers": "{files:d} more {files:file is a pointer|files are pointers} without data."
    " Fetch the data of {files:this file|these files}, too",
}


def of_pointers(files: Iterable[tuple[str, Path]]) -> Iterator[Sentence]:
    """Yield a warning for each of the first few pointers among files, then one for the rest.

    Args:
        files: What each is called, and where it lies.
    """
    found = placeholders.find_pointers(files)
    yield from (WARNINGS("pointer", description=one) for one in found[:_SHOWN_POINTERS])
    if len(found) > _SHOWN_POINTERS:
        yield WARNINGS("more-pointers", files=len(found) - _SHOWN_POINTERS)


# a command


WARNINGS |= {
    "seed-unused": "seeds have no effect: no word of the command is {{seed}}, and no input reads"
    " CAPSULE_SEED. Write {{seed}} where the program expects its seed; for Python without such"
    ' an option, write "seeding": "inject" beside "command"',
    "parameter-unused": "the parameter {parameter} has no effect: no word of the command and no"
    " variable contains {{{parameter}}}. Write {{{parameter}}} where its value belongs",
    "ranks-apart": "{file:quote} {has_package:imports mpi4py|calls MPI_Init}, but nothing joins"
    " the {ranks:d} ranks, so each rank forms a separate world. Write"
    ' "launcher": "mpirun" or "srun" in the site file',
}


@WARNINGS.template("ranks-alike")
def ranks_alike(*, ranks: int, unset: tuple[str, ...]) -> str:
    """Word that each of several ranks most likely does all of the work.

    Args:
        ranks: How many are asked for.
        unset: Variables that an input reads and nobody sets.
    """
    remedy = 'If the ranks are independent, write "ranks_independent": true beside "command"'
    if unset:
        values = {"RANK": "{rank}", "WORLD_SIZE": "{ranks}"}
        shown = ", ".join(f'"{name}": "{values[name]}"' for name in unset)
        remedy = (
            f'Nothing sets {" or ".join(unset)}: write "environment": {{{shown}}};'
            f" {remedy[0].lower()}{remedy[1:]}"
        )
    return (
        f"no word, variable or input reads a rank from capsule (CAPSULE_RANK, {{rank}}) or a"
        f" launcher, so each of the {ranks} processes most likely does all of the work. {remedy}"
    )


@WARNINGS.template("words-joined")
def joined_words(*, program: str, instead: tuple[str, ...]) -> str:
    """Word that several words stand in the place of a program's name."""
    return (
        f"{quote(program)} is one word, so capsule looks for a program of this name. Did you mean"
        f" {quote(list(instead))}?"
    )


WARNINGS |= {
    "shell-word": "no shell reads the command, so the program gets {word:quote} as an argument."
    ' Move preparing commands into "setup", pipes into a script, and an input file into "stdin".'
    " Remove output redirections: capsule keeps all printed lines",
    "input-missing": "the command cannot find {word:quote}: the file is beside the manifest, but"
    ' not among the inputs. Add {word:quote} to the benchmark\'s "inputs"',
}


@WARNINGS.template("file-missing")
def missing_file(*, word: str, near: str | None) -> str:
    """Word that there is no such script."""
    remedy = f"Did you mean {quote(near)}?" if near else "Correct the name"
    return f"the script {quote(word)} is missing beside the manifest. {remedy}"


WARNINGS |= {
    "import-missing": "{script:quote} cannot import {module:quote}: the module is beside the"
    ' script, but not among the inputs. Add {module:quote} to the benchmark\'s "inputs"',
    "windows-lines": "the kernel finds no interpreter for {file:quote}: the first line ends with a"
    " carriage return. Save the file with Unix line ends",
    "byte-order-mark": "the kernel cannot see the #! line of {file:quote}: the file begins with a"
    " byte order mark. Save the file as UTF-8 without a byte order mark",
    "interpreter-missing": "the kernel cannot start {file:quote}: the file has no #! line. Write a"
    " first line such as #!/usr/bin/env {starter}, or begin the command with {starter:quote}",
}


# a sealed run


WARNINGS |= {
    "claim-contradicted": "{is_mean:the mean of your runs|one of your runs}, {value:.3g}, already"
    " breaks the claim ({limit}). Correct the claim or the program, and seal again",
    "margin-missing": "{values:d} of {runs:d} runs have a value, too few for a margin, so no"
    " verification can confirm the claim. Correct the cause of the failed trials, and seal again",
    "equal-values": "all {runs:d} runs have the value {value:.6g} under different seeds. Let"
    ' the command read its seed, {{seed}} or CAPSULE_SEED, or write "seeding": "inject"; if no seed'
    ' changes the number, claim "exact"',
    "one-run": "one run gives no spread, so no margin can be confirmed. Seal again with at"
    " least five seeds",
    "injection-unused": "no generator drew from the injected seed. Pass {{seed}} to the"
    ' program; if the program is not random, remove "seeding" and claim "exact"',
}


@WARNINGS.template("seeds-kept")
def kept_seeds(*, generators: tuple[tuple[str, str, str], ...], more: int) -> str:
    """Word that the seed of a run reaches some generators of a program and not these.

    Args:
        generators: Function that took the seed, seed, and file and line of each.
        more: Number of further ones.
    """
    return (
        "the injected seed does not change these generators:"
        f" {notes.list_generators(generators, more)}. Let each take its seed from CAPSULE_SEED, or"
        " keep a seed that every run is meant to share"
    )


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
    """Word that the runs vary too much for a margin.

    Args:
        allowed: The margin, as a factor where it is a ratio.
        is_ratio: Whether it is.
        runs: The original's.
        reruns: Those of the last look, None where no number confirms it.
        needed: How many on each side would, None for more than can be had.
        added: How many of them the author could add, None where none can be added.
    """
    confirm = (
        "every number of re-runs confirms it in fewer than 20 % of verifications"
        if reruns is None
        else f"{reruns} re-runs (the last look) confirm it in fewer than 80 % of verifications"
    )
    return (
        f"the margin {'factor ' * is_ratio}{allowed:.3g} is too tight: with the spread of these"
        f" {runs} runs, {confirm}."
        f" {_remedy(None if needed is None else str(needed), is_sealed=True, added=added)}"
    )


def _remedy(needed: str | None, *, is_sealed: bool, added: int | None) -> str:
    """Return what to do about a margin that is too tight for the seeds."""
    if needed is None:
        return "Widen the margin, or make the runs vary less"
    more = "Seal again with" if is_sealed else "Use"
    warned = "" if added is None else " (`--add-seeds` does not help: added seeds are not judged)"
    return f"{more} {needed} seeds, or widen the margin{warned}"


WARNINGS |= {
    "margin-above-mean": "the margin {margin:.3g} is at least the mean, {mean:.3g}, so"
    " almost any re-run is REPRODUCED. Use more seeds, or write a margin that a reader would"
    " accept",
    "busy": "machine busy at start ({load}): timings are unreliable. Run again when no other"
    " program runs",
    "rank-uses-one-gpu": 'a process of levels 0 to 3 uses one GPU, and "gpus_per_rank" is {gpus:d}.'
    ' Write "gpus_per_rank": 1, and in "ranks_per_node" one process for each GPU',
    "ran-without-gpu": "{runs:d} {runs:run|runs} did not use the GPU that the resources ask for."
    ' Check that the software supports the GPU; beside "command", "gpu_required": true fails such'
    " runs",
}


@WARNINGS.template("gpus-unused")
def unused_gpus(*, count: int, model: str) -> str:
    """Word that the machine has GPUs that no process used."""
    gpus = "a GPU" if count == 1 else f"{count} GPUs"
    return (
        f"the machine has {gpus} ({model}) that no process used. Write"
        ' "resources": {"gpus_per_rank": 1} to give one GPU to each process'
    )
