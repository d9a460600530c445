"""docs/api.md: its script runs as it stands there, and it names what there is."""

import re
import subprocess

from capsule import api
from tests.support.command import User
from tests.support.documented import ROOT, copy_folder
from tests.support.patience import PATIENCE_SECONDS

PAGE = (ROOT / "docs" / "api.md").read_text()


def test_the_script_runs_verifies_and_compares_the_quickstart(author: User) -> None:
    (script,) = re.findall(r"```python\n(.*?)```", PAGE, re.S)
    assert len(script.splitlines()) <= 10
    copy_folder(ROOT / "manifests", author.folder / "manifests")
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
    assert ended.stdout.count("REPRODUCED") >= 2


def test_what_there_is_is_named() -> None:
    assert set(re.findall(r"`api\.(\w+)", PAGE)) == set(api.__all__)
