"""What a workload reports of itself."""

from __future__ import annotations

from pathlib import Path

from tests.hostile.case import Case, Prepare
from tests.support.command import User, write_manifest, write_script


def _run(script: str) -> Prepare:
    def prepare(user: User) -> list[str | Path]:
        write_script(user.folder, script)
        return ["run", write_manifest(user.folder), "--runtime", "host", "--keep-going"]

    return prepare


CASES = (
    Case(
        name="results/nan-in-words",
        prepare=_run(
            "import os\n"
            "with open(os.environ['CAPSULE_RESULTS'], 'w') as results:\n"
            '    results.write(\'{"metric": "loss", "value": "Nan"}\\n\')\n'
        ),
        status=5,
        says="expected a number, found 'Nan'",
    ),
)
