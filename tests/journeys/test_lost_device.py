"""A trial that leaves the device unusable fails alone: the others run in processes of their own."""

import json
import sys
import zipfile
from pathlib import Path

import pytest

from tests.support.command import Document, User, write_manifest
from tests.support.jobs import needs_torch

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


PLANT = """
import os
import sys
from pathlib import Path

if "run" in sys.orig_argv and os.environ.get("CAPSULE_RANK") == "1":
    import torch.distributed as dist

    lost = Path(__file__).with_name("lost")
    sound, calls = dist.all_reduce, 0

    class AcceleratorError(RuntimeError):
        pass

    def all_reduce(flat, *how):
        global calls
        # gradients, of the judged steps and of those of an epoch
        calls += flat.numel() > 1000
        if calls == 5 and not lost.exists():
            lost.touch()
            raise AcceleratorError("CUDA error: device-side assert triggered")
        return sound(flat, *how)

    dist.all_reduce = all_reduce
"""


@needs_torch
def test_a_rank_that_loses_its_device_ends_its_own_trial_and_no_other(author: User) -> None:
    plant = author.folder / "plant"
    plant.mkdir()
    (plant / "sitecustomize.py").write_text(PLANT)
    python = plant / "python3"
    python.write_text(f'#!/bin/sh\nPYTHONPATH={plant} exec {sys.executable} "$@"\n')
    python.chmod(0o755)
    training = {
        "level": 3,
        "network": "lenet",
        "datasets": ["glyphs"],
        "frameworks": ["torch"],
        "batch": 20,
        "epochs": 1,
        "optimizer": {"name": "sgd", "lr": 0.1},
        "scheme": {"name": "allreduce"},
        "isolation": "group",
    }
    manifest = write_manifest(
        author.folder,
        seeds=[17],
        resources={"ranks_per_node": 2},
        datasets={"glyphs": {"generator": "glyphs", "samples": 60, "test_samples": 20}},
        benchmarks=[{**training, "id": one} for one in ("first", "second", "third")],
        claims=[],
    )
    words = "--runtime", "host", "--keep-going", "--output", "a.capsule.zip"
    ended = author.run("run", manifest, *words, CAPSULE_PYTHON=str(python))
    assert ended.returncode == 5, ended.stdout + ended.stderr
    assert author.run("check", "a.capsule.zip").returncode == 0
    with zipfile.ZipFile(author.folder / "a.capsule.zip") as opened:
        attempts = list(map(json.loads, opened.read("data/results/attempts.jsonl").splitlines()))
    failed, *others = attempts
    assert (failed["outcome"], failed["reason"]) == ("failed", "error")
    assert failed["message"].startswith(
        "rank 1: AcceleratorError: CUDA error: device-side assert triggered"
    )
    assert [(one["outcome"], one["message"], one["attempt"]) for one in others] == [
        ("completed", "", 1)
    ] * 2
