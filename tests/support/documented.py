"""The command lines that README, docs and `--help` show."""

from __future__ import annotations

import os
import re
import shutil
import site
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.support.command import User
from tests.support.patience import PATIENCE_SECONDS

ROOT = Path(__file__).parents[2]
PAGES = (
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "images").glob("*/README.md")),
)
_COMMAND = re.compile(r"(?:\.venv/bin/)?(?:capsule|python(?:3(?:\.\d+)?)?) \S")
_FENCED = re.compile(r"^```\w*\n(.*?)^```$", re.M | re.S)
_INDENTED = re.compile(r"(?:^ {4}.*\n)+", re.M)


@dataclass(frozen=True, kw_only=True)
class Here:
    """Executed here.

    Attributes:
        command: What is executed instead, where the shown one has placeholders or takes too long.
            `{image}` is that of the tests.
        before: Commands that must have been executed.
        codes: The exit codes that it may end with.
        says: A part of what it prints.
        needs: Marks of its test.
    """

    command: str | None = None
    before: tuple[str, ...] = ()
    codes: tuple[int, ...] = (0,)
    says: str = ""
    needs: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class There:
    """Executed by another test, `file::function` below tests/, or by a script of tests/."""

    test: str


THIRD_PARTY = There(
    test="journeys/test_third_party.py"
    "::test_a_strangers_program_is_reproduced_under_the_other_engine"
)
_MINI = There(test="journeys/test_training.py::test_a_mini_is_reproduced_under_another_engine")
_SHARED = There(
    test="journeys/test_training.py::test_a_mini_that_ranks_share_is_reproduced_by_one_process"
)
_SUBMISSION = There(
    test="launch/test_submit.py::test_a_job_seals_where_run_would_and_one_job_is_all_there_is"
)
_ARCHITECTURES = There(
    test="benchmarks/test_architectures.py"
    "::test_a_file_is_a_line_with_the_ratios_of_both_frameworks"
)
TRAININGS: dict[str, Here | There] = {
    "capsule submit manifest.json": _SUBMISSION,
    "capsule submit manifest.json --runtime apptainer --walltime 04:00:00": _SUBMISSION,
    "capsule submit quickstart-1a2b3c4d.job": _SUBMISSION,
    "capsule run manifests/ranks.json --runtime host": Here(says="sealed ranks-", needs=("long",)),
    "capsule run manifests/serving.json --runtime host": Here(
        says="sealed serving-", needs=("long",)
    ),
    "capsule run manifests/roofline.json --runtime host": Here(
        says="sealed roofline-", needs=("long",)
    ),
    "capsule run manifests/level3.json --runtime host": Here(
        says="sealed level3-", needs=("long",)
    ),
    "capsule run manifests/model-parallel.json --runtime host": Here(
        says="sealed model-parallel-", needs=("long",)
    ),
    "capsule run manifests/scaling.json --runtime host": Here(
        says="sealed scaling-", needs=("long",)
    ),
    "capsule run manifests/throughput.json --runtime host": Here(
        says="sealed throughput-", needs=("long",)
    ),
    "capsule run manifests/collectives.json --runtime host": Here(
        says="sealed collectives-", needs=("long",)
    ),
    "python benchmarks/harness/architectures.py export FOLDER": _ARCHITECTURES,
    "python benchmarks/harness/architectures.py check FOLDER": _ARCHITECTURES,
    "python benchmarks/harness/many_ranks.py": There(
        test="benchmarks/test_many_ranks.py::test_journals_of_many_ranks_are_one"
    ),
    "python benchmarks/faults.py": There(
        test="benchmarks/test_faults.py::test_faults_are_planted_and_counted"
    ),
    "python benchmarks/faults.py --right 27 --operators all": There(
        test="benchmarks/test_faults.py::test_what_is_right_breaks_no_bound"
    ),
    "python benchmarks/faults.py --right 1 --networks all": There(
        test="benchmarks/test_faults.py::test_what_is_right_breaks_no_bound"
    ),
    "python benchmarks/kernels.py": There(
        test="benchmarks/test_kernels.py::test_each_listed_operator_runs_by_each_kernel"
    ),
    "python benchmarks/modules.py": There(
        test="benchmarks/test_kernels.py::test_right_modules_in_16_bits_break_no_bound"
    ),
    "capsule run manifests/minis/transformer.json --image docker://... --runtime apptainer": _MINI,
    "capsule verify transformer-mini-....capsule.zip --runtime docker": _MINI,
    "capsule run manifests/minis-ranks/transformer.json --runtime host": _SHARED,
    "capsule verify transformer-ranks-....capsule.zip --set /resources/ranks_per_node=1": _SHARED,
    "python -m tests.golden": There(test="golden/test_words.py::test_the_file_is_fresh"),
    "python -m tests.support.training_faults > docs/evidence/training-faults.md": There(
        test="levels/level2/test_faults.py::test_a_fault_is_noticed"
    ),
    "python -m tests.support.ranks_faults > docs/evidence/ranks-faults.md": There(
        test="levels/level3/test_faults.py::test_the_page_is_what_they_are_noticed_by"
    ),
}
"""Commands about jobs, ranks, minis and faults of trainings."""
_SEARCH = There(test="journeys/test_search.py::test_a_search_is_sealed_and_judged_by_its_score")
_WINNER = There(test="journeys/test_search.py::test_a_winner_runs_under_seeds_that_nobody_chose")
SEARCHES = {
    "capsule sweep show a.capsule.zip": _SEARCH,
    "capsule sweep show a.capsule.zip --json": _SEARCH,
    "capsule sweep winner a.capsule.zip -o winner.json": _WINNER,
}
"""Commands about searches."""
_CSV = There(
    test="journeys/test_export.py::test_every_value_is_a_row_that_reads_as_it_was_measured"
)
_FIGURE = There(
    test="journeys/test_export.py::test_curves_and_boxes_are_pictures_that_are_the_same_again"
)
EXPORTS = {
    "capsule export csv a.capsule.zip > samples.csv": _CSV,
    "capsule export figure a.capsule.zip 'train/*/torch/loss' -o loss.svg": _FIGURE,
}
"""Commands that write its numbers for other programs."""
GENERATED: dict[str, Here | There] = {
    "capsule data generate glyphs digits/ samples=6000 --format idx": Here(says="sha256:"),
    "python3.11 -m pip download --only-binary :all: --no-deps --require-hashes -r"
    " images/models/requirements.txt -d images/models/wheelhouse": There(
        test="long/test_models.py::test_a_model_by_name_is_sealed_within_its_bounds_and_verified"
    ),
}
"""Commands that write datasets, and the wheels of models."""


def commands() -> set[str]:
    """Every command that is shown anywhere, each once."""
    helps = (example for words in verbs() for example in examples(words))
    return {*helps, *(command for page in PAGES for command in in_page(page.read_text()))}


def in_page(text: str) -> Iterator[str]:
    """The commands of a page: lines of its code, and what stands in the text between backticks.

    A verb alone, as in "`capsule lint` says", is a name.

    >>> list(in_page("Try `capsule lint a.json`:\\n\\n    capsule show a.zip    prints\\n"))
    ['capsule show a.zip', 'capsule lint a.json']
    """
    for pattern in (_FENCED, _INDENTED):
        for block in pattern.findall(text):
            for line in block.splitlines():
                if _COMMAND.match(line.strip()):
                    yield re.split(r" {3,}", line.strip())[0]
        text = pattern.sub("", text)
    for span in re.findall(r"`([^`]+)`", text):
        command = " ".join(span.split())
        if _COMMAND.match(command) and tuple(command.split()[1:]) not in verbs():
            yield command


def examples(words: tuple[str, ...]) -> list[str]:
    """The examples of a verb's help."""
    _, _, epilog = usage(*words).rpartition("\nexample")
    return [line.strip() for line in epilog.splitlines() if _COMMAND.match(line.strip())]


@cache
def verbs() -> tuple[tuple[str, ...], ...]:
    """Every verb, and of those that have kinds every kind."""
    return tuple(_below(()))


def _below(words: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    for name in re.findall(r"^ {4}([a-z][a-z-]*)(?: {2,}|$)", usage(*words), re.M):
        yield (*words, name)
        yield from _below((*words, name))


@cache
def usage(*words: str) -> str:
    """What `capsule WORDS --help` prints."""
    command = [sys.executable, "-m", "capsule", *words, "--help"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def type_at_shell(
    user: User, block: str, programs: Path = Path(sys.executable).parent, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run the lines of a block in a user's folder, as somebody would type them.

    Args:
        user: Who types.
        block: Lines for bash.
        programs: Folder of `capsule` and `python`.
        variables: Further environment variables.
    """
    path = os.pathsep.join((str(programs), os.environ["PATH"]))
    return subprocess.run(
        ["bash", "-euc", block],
        cwd=user.folder,
        env={**user.environment(), "PATH": path, **variables},
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,
        timeout=PATIENCE_SECONDS,
        check=False,
    )


def copy_folder(source: Path, target: Path) -> None:
    """All of it but for what Python keeps beside its modules, and programs that were fetched."""
    left_out = shutil.ignore_patterns("__pycache__", "sources")
    shutil.copytree(source, target, ignore=left_out)


def read_package(user: User) -> None:
    """The package itself, and an environment that has what it depends on: nothing is fetched."""
    copy_folder(ROOT / "capsule", user.folder / "capsule")
    subprocess.run([sys.executable, "-m", "venv", user.folder / ".venv"], check=True)
    (packages,) = (user.folder / ".venv").glob("lib/*/site-packages")
    (packages / "dependencies.pth").write_text("\n".join(site.getsitepackages()))
