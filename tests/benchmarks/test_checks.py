"""The benchmark of checks: what trials take beside their timed calls."""

from pathlib import Path
from unittest import mock

import checks
import pytest

from tests.support.command import User, write_manifest


def test_the_rest_of_each_trial_is_told_and_compared(
    author: User, capsys: pytest.CaptureFixture[str]
) -> None:
    relu = {"id": "relu", "level": 0, "operator": "relu", "cases": {"n": [50]}}
    lenet = {"id": "lenet", "level": 1, "network": "lenet", "cases": [{"batch": 2}]}
    benchmarks = [{**one, "frameworks": ["numpy"]} for one in (relu, lenet)]
    manifest = write_manifest(author.folder, seeds=[1, 2], benchmarks=benchmarks, claims=[])
    ended = author.run("run", manifest, "--runtime", "host")
    assert ended.returncode == 0, ended.stderr
    (capsule,) = author.folder.glob("*.capsule.zip")
    rest = checks.read(Path(capsule))
    assert len(rest) == 4
    assert min(rest.values()) > 0
    with mock.patch("sys.argv", ["checks.py", str(capsule), str(capsule)]):
        assert checks.main() == 0
    assert "so 1.00 times that" in capsys.readouterr().out
    with (
        mock.patch("sys.argv", ["checks.py", str(capsule), str(capsule)]),
        mock.patch.object(checks, "LIMIT", 0.5),
    ):
        assert checks.main() == 1
