"""A trial that leaves the device unusable fails alone: the others run in processes of their own."""

import json
import zipfile
from pathlib import Path

import pytest

from tests.support.command import Document, User, write_manifest

OPERATOR = """
import sys

parameters = ("n",)


def tensors(sizes):
    return {"x": (sizes["n"],)}


def outputs(sizes):
    return ((sizes["n"],),)


def flops(sizes):
    return sizes["n"]


def forward(c, sizes, x):
    return c.store(x * 2)


def backward(c, sizes, upstream, x):
    return (c.store(upstream * 2),)


class AcceleratorError(RuntimeError):
    pass


def numpy(context, sizes, x):
    def double(x):
        if sizes["n"] in BREAKING:
            sys.lost_device = sizes["n"]
        if hasattr(sys, "lost_device"):
            raise AcceleratorError(f"CUDA error: device-side assert triggered by {sys.lost_device}")
        return x * 2

    return double, (x,)
"""
SIZES = (3, 4, 5, 6)


def seal(author: User, breaking: tuple[int, ...]) -> tuple[list[int], list[Document]]:
    """Sizes in the order of the plan, and the attempts."""
    source = OPERATOR.replace("BREAKING", repr(breaking))
    (author.folder / "double.py").write_text(source)
    own = {
        "id": "double",
        "level": 0,
        "operator": {"file": "double.py"},
        "inputs": ["double.py"],
        "cases": {"n": list(SIZES)},
        "frameworks": ["numpy"],
        "repetitions": 1,
    }
    manifest = write_manifest(author.folder, seeds=[17], benchmarks=[own], claims=[])
    words = "--runtime", "host", "--keep-going", "--output", "a.capsule.zip"
    ended = author.run("run", manifest, *words)
    assert ended.returncode == 5, ended.stdout + ended.stderr
    assert author.run("check", "a.capsule.zip").returncode == 0
    return read(author.folder / "a.capsule.zip")


def read(capsule: Path) -> tuple[list[int], list[Document]]:
    with zipfile.ZipFile(capsule) as opened:
        plan = json.loads(opened.read("data/records/plan.json"))
        lines = opened.read("data/results/attempts.jsonl").splitlines()
    (group,) = plan["groups"]
    return [int(size(trial["id"])) for trial in group["trials"]], list(map(json.loads, lines))


def size(trial: str) -> str:
    return trial.split("/")[1].removeprefix("n")


@pytest.mark.parametrize("breaking", [(3,), (4,), (5,), (6,), (3, 5), (4, 5), SIZES], ids=str)
def test_only_the_trials_that_lose_the_device_fail(author: User, breaking: tuple[int, ...]) -> None:
    planned, attempts = seal(author, breaking)
    assert sorted(planned) == list(SIZES)
    assert [int(size(one["trial"])) for one in attempts] == planned
    for one in attempts:
        n = int(size(one["trial"]))
        assert one["attempt"] == 1
        if n in breaking:
            assert (one["outcome"], one["reason"]) == ("failed", "error")
            assert one["message"].startswith(
                f"AcceleratorError: CUDA error: device-side assert triggered by {n}"
            )
        else:
            assert (one["outcome"], one["message"]) == ("completed", "")
    # each that loses it is the last of its process
    ends = [n for n in planned[:-1] if n in breaking]
    assert len({one["started"] for one in attempts}) == len(ends) + 1
