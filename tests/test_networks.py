"""`capsule show network`: a network's facts, which follow from its graph alone."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import capsule.levels
from capsule import cli
from capsule.levels import catalog

LEVELS = Path(capsule.levels.__file__).parent


def show(capfd: pytest.CaptureFixture[str], *words: str, status: int = 0) -> str:
    assert cli.main(["show", "network", *words]) == status
    printed = capfd.readouterr()
    assert (printed.out == "") == (status != 0)
    return printed.err if status else printed.out


def test_cosmoflow_is_that_of_mlperf_hpc(capfd: pytest.CaptureFixture[str]) -> None:
    network = json.loads(show(capfd, "cosmoflow", "--json"))
    assert network["parameters"] == 8_907_556
    assert network["inputs"] == {"volume": [1, 4, 128, 128, 128], "target": [1, 4]}
    assert network["outputs"] == [[1, 4]]
    assert network["sizes"] == {"batch": 1, "side": 128, "width": 32, "dropout": 0}
    # the table of its layers in the reference, in products of convolutions and matrices alone
    products = 1e9 * (14.50 + 28.99 + 14.50 + 7.25 + 3.62 + 0.008)
    assert 1 < network["forward_flops_per_sample"] / products < 1.01


def test_deepcam_is_that_of_mlperf_hpc(capfd: pytest.CaptureFixture[str]) -> None:
    network = json.loads(show(capfd, "deepcam", "--json"))
    assert network["parameters"] == 56_454_720
    pixels = 768 * 1152
    assert network["inputs"] == {"map": [1, 16, 768, 1152], "label": [pixels]}
    assert network["outputs"] == [[pixels, 3]]


@pytest.mark.parametrize("name", catalog.NETWORKS)
def test_every_network_is_shown(capfd: pytest.CaptureFixture[str], name: str) -> None:
    text = show(capfd, name)
    assert text.startswith(f"network     {name}\n")
    assert "sizes       batch 1, " in text
    frameworks = ", ".join(catalog.NETWORKS[name].frameworks)
    assert text.endswith(f"frameworks  {frameworks}\n")


def test_the_work_of_a_sample_does_not_depend_on_the_batch(
    capfd: pytest.CaptureFixture[str],
) -> None:
    one, eight = (
        json.loads(show(capfd, "cosmoflow", f"batch={batch}", "side=16", "--json"))
        for batch in (1, 8)
    )
    assert eight["inputs"]["volume"] == [8, 4, 16, 16, 16]
    for fact in ("parameters", "forward_flops_per_sample"):
        assert one[fact] == eight[fact] > 0


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["cosmoflo"], "unknown network 'cosmoflo'; did you mean cosmoflow?"),
        (["../lenet"], "known networks: lenet, alexnet"),
        (["cosmoflow", "side=33"], "the side of cosmoflow is 33, expected a power of two"),
        (["transformer", "heads=3"], "width 64 is not a multiple of heads 3"),
        (["lenet", "batch=0"], "batch of lenet is 0, expected a whole number >= 1"),
        (["lenet", "sides=28"], "allows side, classes"),
        (["lenet", "side"], "whole number, found 'side'"),
        (["lenet", "side=-1"], "whole number, found 'side=-1'"),
        (["lenet", "side=\u0663"], "expected SIZE=N with a whole number"),
        (["lenet", "side=1234567890"], "side has 10 digits, at most 9 are allowed"),
        (["lenet", "--evidence"], "--evidence needs a capsule, found the network lenet"),
        (["lenet", "--full"], "--full needs a capsule, found the network lenet"),
        (["lenet", "--id", "ad880485dd78"], "--id needs a capsule, found the network lenet"),
    ],
)
def test_what_is_wrong_is_said(
    capfd: pytest.CaptureFixture[str], words: list[str], message: str
) -> None:
    assert message in show(capfd, *words, status=2)


def test_a_capsule_may_have_the_name_of_the_word(capfd: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["show", "network"]) == 2
    assert "network: no such capsule" in capfd.readouterr().err
    assert cli.main(["show", "a.zip", "b.zip"]) == 2
    assert "show accepts one capsule, found 2: a.zip, b.zip" in capfd.readouterr().err


@pytest.mark.parametrize("words", [[], ["describe"], ["describe", "operator", "gemm", "{}"]])
def test_the_program_in_images_says_how_it_is_started(words: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, LEVELS, *words], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "describe network <name> <sizes in JSON>" in done.stderr


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["traffic", "manifest.json"], "`show traffic` no longer exists: run the manifest"),
        (["traffic", "manifest.json", "--ranks", "4096"], "`show traffic` no longer exists"),
        (["scaling", "a.zip", "b.zip", "--json"], "`show scaling` no longer exists: measure cases"),
        (["a.zip", "--ranks", "2"], "--ranks no longer exists: the capsule of a run contains"),
        (["traffic"], "traffic: no such capsule"),
    ],
)
def test_what_an_earlier_version_showed_is_refused(
    capfd: pytest.CaptureFixture[str], words: list[str], message: str
) -> None:
    assert cli.main(["show", *words]) == 2
    printed = capfd.readouterr()
    assert message in printed.err
    assert not printed.out
