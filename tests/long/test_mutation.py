"""Random faults in modules of the product are caught by the tests that are nearest to them."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support import mutation
from tests.support.long_run import COUNT, COVERS, ROOT
from tests.support.properties import scaled

FAULTS, CAUGHT = 100, 85


@pytest.mark.long
def test_the_nearest_tests_catch_most_faults(
    tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    count, written = scaled(FAULTS), tmp_path / "outcomes.json"
    ended = subprocess.run(
        [
            *(sys.executable, "-m", "tests.support.mutation"),
            *("--count", str(count), "--seed", "46", "--json", str(written)),
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    words = [outcome["word"] for outcome in json.loads(written.read_text())]
    assert len(words) == count
    # of a few nothing follows
    assert count < FAULTS or words.count("caught") >= CAUGHT, ended.stdout
    record_property(COVERS, "random faults, of which the nearest tests catch 85 in 100")
    record_property(COUNT, count)


@pytest.mark.parametrize("module", mutation.NEAREST)
def test_every_fault_is_other_code(module: str) -> None:
    source = (ROOT / "capsule" / f"{module}.py").read_text()
    right = compile(source, str(ROOT / "capsule" / f"{module}.py"), "exec")
    found = mutation.faults(module)
    assert len(found) > 40
    assert all(mutation.plant(fault) != right for fault in found[::20])
    assert all((ROOT / "tests" / name).exists() for name in mutation.NEAREST[module])
