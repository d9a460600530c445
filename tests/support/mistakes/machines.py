"""What is wrong with a machine, or with an option."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from tests.support.command import User
from tests.support.mistakes.making import (
    HOST,
    Prepare,
    run_after,
    run_manifest,
    run_with,
    typed,
)

NOWHERE = "127.0.0.1:9"
IMAGE = f"docker://{NOWHERE}/torch:1"


def _gpu(user: User, capsule: Path) -> Sequence[str | Path]:
    return run_manifest(resources={"gpus_per_rank": 1})(user, capsule)


def _bind(folder: Path, target: str) -> None:
    (folder / "site.json").write_text(json.dumps({"binds": {target: "/opt/cray"}}))


PREPARE: dict[str, Prepare] = {
    "a misspelt runtime": run_with("--runtime", "dokcer"),
    "a runtime without an image": run_with("--runtime", "docker"),
    "an engine that is not installed": run_with("--runtime", "apptainer", "--image", IMAGE),
    "a Docker that does not run": run_with("--runtime", "docker", "--image", IMAGE),
    "no engine at all": run_with("--image", IMAGE),
    "a registry that is down": run_with("--image", IMAGE),
    "a reference that is none": run_with("--image", "docker:/Torch latest"),
    "a GPU that is not there": _gpu,
    "a capsule that is there already": run_after(
        lambda folder: (folder / "a.zip").touch(), *HOST, "-o", "a.zip"
    ),
    "a folder that is not there": run_with(*HOST, "-o", "out/a.zip"),
    "a folder that cannot be written": run_with(*HOST, "--work", "/proc/w.run"),
    "a walltime in words": run_with(*HOST, "--walltime", "1h"),
    "a size without sense": run_with(*HOST, "--disk", "lots"),
    "a misspelt option": run_with("--runtme", "host"),
    "a misspelt verb": typed("verfiy", "a.zip"),
    "a run without a manifest": typed("run"),
    "a framework that no benchmark has": run_with(*HOST, "--frameworks", "torch"),
    "a home that cannot be written": run_with(*HOST),
    "a site file that is not there": run_with(*HOST),
    "an image file that is not there": run_with("--image", "none.sif"),
    "a bind as engines take it": run_after(
        lambda folder: _bind(folder, "/opt/cray:/opt/cray"), *HOST
    ),
    "a bind over what an image is made of": run_after(
        lambda folder: _bind(folder, "/usr/lib"), *HOST
    ),
    "a site file that is none": run_after(
        lambda folder: (folder / "site.json").write_text("{"), *HOST
    ),
}
