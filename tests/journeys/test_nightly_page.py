"""The script of docs/how-to/nightly-verification.md, started twice on one day and on the next."""

from __future__ import annotations

import json
import re
import subprocess

from tests.support.command import User, write_manifest, write_script
from tests.support.documented import ROOT
from tests.support.patience import PATIENCE_SECONDS


def start(author: User, day: str) -> subprocess.CompletedProcess[str]:
    """Run the script on a day."""
    (author.home / "bin" / "date").write_text(f"#!/bin/sh\necho {day}\n")
    return subprocess.run(
        ["bash", author.home / "nightly.sh", author.folder / "golden.capsule.zip"],
        env={
            **author.environment(),
            "PATH": f"{author.home}/bin:{author.environment()['PATH']}",
        },
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )


def test_each_day_is_verified_once_under_its_own_seeds(author: User) -> None:
    page = (ROOT / "docs" / "how-to" / "nightly-verification.md").read_text()
    (script,) = re.findall(r"```bash\n(.*?)```", page, re.S)
    (author.home / "nightly.sh").write_text(script)
    (author.home / "bin").mkdir()
    program = author.home / "bin" / "capsule"
    program.write_text(f'#!/bin/sh\nexec {" ".join(author.argv())} "$@"\n')
    (author.home / "bin" / "date").touch()
    for name in ("capsule", "date"):
        (author.home / "bin" / name).chmod(0o755)
    write_script(author.folder)
    manifest = write_manifest(author.folder)
    assert author.run("run", manifest, "-o", "golden.capsule.zip").returncode == 0
    for day in ("2026-11-26", "2026-11-26", "2026-11-27"):
        ended = start(author, day)
        assert (ended.returncode, ended.stdout) == (0, ""), ended.stderr
    for day in ("2026-11-26", "2026-11-27"):
        (change,) = json.loads((author.folder / f"golden-{day}.json").read_text())["changes"]
        assert change["code"] == "nonce"
        assert day in change["sentence"]
    # a capsule that cannot be judged is told in the line that cron sends
    (author.folder / "golden.capsule.zip").write_bytes(b"damaged")
    ended = start(author, "2026-11-28")
    assert ended.returncode == 4
    assert ended.stdout == "golden-2026-11-28: exit code 4, see golden-2026-11-28.log\n"
