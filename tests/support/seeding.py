"""Programs that run under an injected seed, without capsule around them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from capsule import levels
from capsule.execute import seeding
from capsule.execute.seeding import Report
from capsule.manifest import Benchmark, Case, Metric
from capsule.manifest.kinds import Command
from capsule.notes import Note
from capsule.plan import Trial
from tests.support.patience import PATIENCE_SECONDS

FOLDER = Path(levels.__file__).parent / "seeding"


def run(
    folder: Path, text: str, seed: int = 1, rank: int = 0, words: Sequence[str] = ()
) -> tuple[str, Report]:
    """Return what a program prints under a seed, and the report of its seeds.

    Args:
        folder: Has the modules that it imports.
        text: The program, `program.py` in the folder.
        seed: The run's.
        rank: Of the program.
        words: Options of Python.
    """
    report = folder / "report.jsonl"
    report.unlink(missing_ok=True)
    (folder / "program.py").write_text(text)
    ended = subprocess.run(
        [sys.executable, *words, str(folder / "program.py")],
        env={
            **os.environ,
            "PYTHONPATH": str(FOLDER),
            "PYTHONHASHSEED": str(seed),
            "OMP_NUM_THREADS": "1",
            "JAX_PLATFORMS": "cpu",
            "CAPSULE_SEED": str(seed),
            "CAPSULE_SEEDING": str(report),
            "CAPSULE_RANK": str(rank),
            "CAPSULE_INPUTS": str(folder),
        },
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_SECONDS,
    )
    assert ended.returncode == 0, ended.stderr
    read = seeding.read(report)
    assert read is not None
    return ended.stdout, read


def make_trial(seed: int, benchmark: str = "b") -> Trial:
    """Return a trial of a command."""
    case = Case(name="default", parameters={})
    return Trial(
        id=f"{benchmark}/default/command/{seed}",
        benchmark=Benchmark(
            id=benchmark,
            subject=Command(words=("train",), injects_seed=True),
            cases=(case,),
            frameworks=("command",),
            metrics=(Metric(name="loss"),),
        ),
        case=case,
        framework="command",
        seed=seed,
        seed_source="manifest",
    )


def compare(folder: Path, text: str, seeds: Sequence[int] = (1, 2)) -> list[Note]:
    """Return the notes on a program that runs under several seeds."""
    return list(
        seeding.compare([(make_trial(seed), (run(folder, text, seed)[1],)) for seed in seeds])
    )
