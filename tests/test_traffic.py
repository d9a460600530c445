"""`capsule show traffic`: what ranks exchange is counted, among any number of them."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from capsule import cli, traffic
from capsule.errors import BugError
from capsule.levels.catalog import schemes
from capsule.traffic import Count
from tests.support.command import User
from tests.support.documented import ROOT
from tests.support.jobs import needs_torch

SHIPPED = ROOT / "manifests" / "level3.json"
WORLDS = (1, 2, 4, 4096, 65_536)
SIZE = 4 * 61_706
EXCHANGING = {
    name for name, one in schemes.SCHEMES.items() if not (one.independent or one.splits_network)
}
NO_TORCH = "import sys\nsys.modules['torch'] = None\n"


@pytest.fixture(scope="module")
def counts(tmp_path_factory: pytest.TempPathFactory) -> list[Count]:
    """Of the shipped manifest."""
    user = User.make(tmp_path_factory.mktemp("traffic"))
    ranks = ",".join(map(str, WORLDS))
    done = user.run("show", "traffic", str(SHIPPED), "--ranks", ranks, "--json")
    assert done.returncode == 0, done.stderr
    printed = json.loads(done.stdout)
    assert "values and times would not" in printed["caveat"]
    return [revive(row) for row in printed["counts"]]


def revive(row: dict[str, Any]) -> Count:
    return Count(**{**row, **{name: tuple(row[name]) for name in schemes.TRAFFIC}})


@needs_torch
def test_every_scheme_is_counted(counts: list[Count]) -> None:
    counted = {(one.scheme, one.ranks, one.rank) for one in counts}
    due = {(4, 0), (4, 1), (4, 2), (4, 3), (4096, 0), (4096, 4095), (65_536, 0), (65_536, 65_535)}
    assert {(name, *place) for name in EXCHANGING for place in due} < counted


@needs_torch
@pytest.mark.parametrize("ranks", WORLDS[1:])
def test_the_counts_are_those_of_the_definitions(counts: list[Count], ranks: int) -> None:
    peers, part = min(2, ranks - 1), 4 * -(-SIZE // 4 // ranks)
    due = {
        "allreduce": ((SIZE,) * 2, (SIZE,) * 2, (1, 1)),
        "parameter-server": ((SIZE,) * 2, (SIZE,) * 2, (2, 2)),
        "model-averaging": ((SIZE,) * 2, (SIZE,) * 2, (1, 1)),
        "local-sgd": ((0, 0, 0, 0, SIZE), (0, 0, 0, 0, SIZE), (0, 0, 0, 0, 1)),
        "sharded": ((part * (1 + ranks),) * 2, (part * ranks,) * 2, (2, 2)),
        "neighbour-averaging": ((peers * SIZE,) * 2, (peers * SIZE,) * 2, (peers,) * 2),
    }
    served = ((SIZE,) * 2, ((ranks - 1) * SIZE,) * 2, (2, 2))
    for one in counts:
        if one.ranks == ranks and one.scheme in due:
            is_server = one.scheme == "parameter-server" and one.rank == 0
            expected = served if is_server else due[one.scheme]
            assert (one.bytes_sent, one.bytes_received, one.messages) == expected


@needs_torch
def test_a_rank_that_is_alone_exchanges_nothing(counts: list[Count]) -> None:
    alone = [one for one in counts if one.ranks == 1]
    assert {one.scheme for one in alone} == EXCHANGING
    assert not any(one.bytes_sent + one.bytes_received + one.messages for one in map(sums, alone))


def sums(one: Count) -> Count:
    return replace(one, **{name: sum(getattr(one, name)) for name in schemes.TRAFFIC})


@needs_torch
def test_counts_that_are_not_the_schemes_are_our_fault(counts: list[Count]) -> None:
    sound = next(one for one in counts if (one.scheme, one.ranks) == ("allreduce", 4096))
    traffic.hold(sound)
    with pytest.raises(BugError, match=r"rank 0 of 4096 exchanges \(.*\) in step 2 of allreduce"):
        traffic.hold(replace(sound, bytes_sent=(SIZE, SIZE // 4096)))


@needs_torch
def test_ranks_that_exchange_the_same_stand_in_one_line(counts: list[Count]) -> None:
    server = [one for one in counts if (one.scheme, one.ranks) == ("parameter-server", 4096)]
    lines = list(traffic.draw(server))
    assert (
        lines[0]
        == "parameter-server/default: parameter-server, 246,824 bytes of parameters; in 2 steps"
    )
    assert [line.split() for line in lines[2:-1]] == [
        ["4,096", "493,648", "2,021,488,560", "4", "0"],
        ["4,096", "493,648", "493,648", "4", "4095"],
    ]
    assert lines[-1] == traffic.CAVEAT


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def refuse(capfd: pytest.CaptureFixture[str], status: int, *words: str) -> str:
    try:
        assert cli.main(["show", *words]) == status
    except SystemExit as ended:
        assert ended.code == status
    printed = capfd.readouterr()
    assert not printed.out
    return printed.err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["traffic", "missing.json"], "missing.json: no such file"),
        (["traffic", str(ROOT / "manifests/level2.json")], "no training of which ranks exchange"),
        (["traffic", str(ROOT / "manifests/throughput.json")], "of which ranks exchange anything"),
        (
            ["traffic", str(ROOT / "manifests/model-parallel.json")],
            "spatial ranks share the network",
        ),
        (["traffic", str(SHIPPED), "--ranks", "0"], "'0' is not N,..."),
        (["traffic", str(SHIPPED), "--ranks", "\u0663"], "is not N,..."),
        (["traffic", str(SHIPPED), "--ranks", "2,"], "'2,' is not N,..."),
        (["traffic", str(SHIPPED), "--ranks", "-2"], "--ranks"),
        (["traffic", str(SHIPPED), "--ranks", "1234567890"], "is not N,..."),
        (["traffic", str(SHIPPED), "--evidence"], "of capsules, and a manifest is shown"),
        (["traffic", str(SHIPPED), "--id", "ad880485dd78"], "of capsules, and a manifest"),
        (["traffic", "a.json", "b.json"], "takes one manifest; these match: a.json, b.json"),
        (["a.capsule.zip", "--ranks", "2"], "--ranks is of `show traffic MANIFEST` and"),
        (["network", "lenet", "--ranks", "2"], "--ranks is of `show traffic MANIFEST` and"),
        (["traffic"], "traffic: no such capsule"),
    ],
)
def test_what_is_wrong_is_said(
    elsewhere: Path, capfd: pytest.CaptureFixture[str], words: list[str], message: str
) -> None:
    assert message in refuse(capfd, 2, *words)


def test_without_torch_it_says_what_would_help(
    elsewhere: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (elsewhere / "sitecustomize.py").write_text(NO_TORCH)
    monkeypatch.setenv("PYTHONPATH", str(elsewhere))
    message = refuse(capfd, 6, "traffic", str(SHIPPED))
    assert "torch is not installed for" in message
    assert "pip install 'capsule-hpc[torch]'" in message
