"""What is wrong with a script."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tests.support.command import REPORT, User
from tests.support.mistakes.making import (
    Prepare,
    run_file,
    run_script,
    run_source,
)


def _disk(user: User, capsule: Path) -> Sequence[str | Path]:
    words = run_script("print('x' * 9_000_000)")(user, capsule)
    return [*words, "--disk", "1M"]


PREPARE: dict[str, Prepare] = {
    "a metric that is never printed": run_source(pattern="accuracy: (.*)"),
    "a metric that is never reported": run_script("print('done')"),
    "a metric that is spelt otherwise": run_script(REPORT + "report('los', 1)"),
    "a number that is a text": run_script(REPORT + "report('loss', '0.5')"),
    "a number that is none": run_script(REPORT + "report('loss', float('nan'))"),
    "results that are no JSON": run_script(
        "import os\nopen(os.environ['CAPSULE_RESULTS'], 'w').write('loss=1')"
    ),
    "one number for the trial, reported twice": run_script(
        REPORT + "report('loss', 1)\nreport('loss', 2)", metrics={"loss": {"per": "trial"}}
    ),
    "a column that is spelt otherwise": run_script(
        "print('Loss,epoch\\n1,2')", metrics={"loss": {"from": {"csv": "loss"}}}
    ),
    "a file that is not written": run_script(
        "open('out.csv', 'w').write('loss')",
        metrics={"loss": {"from": {"csv": "loss", "file": "log.csv"}}},
    ),
    "a program that is not there": run_script("", command=["pyhton3", "tiny.py"]),
    "a script with an interpreter that is not there": run_file(
        "run.sh", "#!/usr/bin/pyton\n", 0o755, command=["run.sh"]
    ),
    "a script with lines of Windows": run_file(
        "run.sh", "#!/bin/sh\r\necho hi\r\n", 0o755, command=["run.sh"]
    ),
    "an error in the script": run_script("import nothing_such"),
    "a script that asks": run_script("input('Continue? ')"),
    "a script that takes too long": run_script("import time\ntime.sleep(60)", timeout="00:00:01"),
    "a script that crashes": run_script("import os\nos.abort()"),
    "seeds injected into no Python": run_script("", command=["true"], seeding="inject"),
    "more output than is allowed": _disk,
}
