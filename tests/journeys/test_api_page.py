"""docs/reference/python-api.md: its scripts run as they stand there, and it names what there is."""

import re
import subprocess

from capsule import api
from tests.support.command import User
from tests.support.documented import ROOT, copy_folder
from tests.support.patience import PATIENCE_SECONDS

PAGE = (ROOT / "docs" / "reference" / "python-api.md").read_text()


def test_the_scripts_run_verify_and_compare_the_quickstart_and_read_its_values(
    author: User,
) -> None:
    first, second = re.findall(r"```python\n(.*?)```", PAGE, re.S)
    copy_folder(ROOT / "manifests", author.folder / "manifests")
    assert run(author, first).count("REPRODUCED") >= 2
    values = run(author, second).splitlines()
    assert len([line for line in values if line.startswith("moons/default/command/accuracy")]) == 10


def run(author: User, script: str) -> str:
    """Run a script that must end with 0 and an empty stderr; return its output."""
    ended = subprocess.run(
        [author.python, "-c", script],
        cwd=author.folder,
        env=author.environment(),
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert ended.stderr == ""
    return ended.stdout


def test_what_there_is_is_named() -> None:
    assert set(re.findall(r"`api\.(\w+)", PAGE)) == set(api.__all__)
