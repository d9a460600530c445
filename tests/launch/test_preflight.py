"""Every way in which ranks are another world than was planned, caused on purpose, as processes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from capsule.errors import CannotRunError
from capsule.launch import preflight
from capsule.launch.local import Local
from capsule.launch.preflight import Reached, Request
from capsule.runtimes.host import Host
from tests.support.preflights import PREPARED, refused, request

# long enough for a busy machine to start Python in
PATIENCE_SECONDS = 20.0


def check(of: Request, patience_seconds: float = PATIENCE_SECONDS) -> Reached:
    return preflight.check(Local(), Host(), PREPARED, of, patience_seconds)


def refuse(of: Request, patience_seconds: float = PATIENCE_SECONDS) -> str:
    return refused(of, Local(), patience_seconds)


@pytest.mark.parametrize("ranks", [2, 3])
def test_ranks_that_meet_say_who_they_are_and_what_they_added_up(
    tmp_path: Path, ranks: int
) -> None:
    met = check(request(tmp_path, ranks))
    assert met.means == ("sockets",)
    assert met.bytes == 8 * 2**20
    assert len(met.hosts) == ranks
    assert len(set(met.hosts)) == 1
    assert met.seconds > 0


# what a shell does to rank 1 before it starts, and the words of the explanation
CAUSES = {
    "a clean environment without a word of the world": (
        'exec env -i PATH="$PATH" $python "$@"',
        "acts as the only rank",
        "clears the environment",
    ),
    "a world of its own size": (
        "export CAPSULE_RANKS=1",
        "rank 1 expects a world of 1 ranks, but 2 were started",
        "would form separate worlds",
    ),
    "two ranks with one number": (
        "export CAPSULE_RANK=0",
        "rank 1 has CAPSULE_RANK=0, as rank 0 has, expected 1",
        "that changes CAPSULE_RANK",
    ),
    "a device that another rank has": (
        "export CAPSULE_LOCAL_RANK=0",
        "CAPSULE_LOCAL_RANK=0, expected 1",
        "share a device",
    ),
    "a rendezvous that nobody expanded": (
        "export CAPSULE_RENDEZVOUS='tcp://$MASTER_ADDR:29500'",
        "'tcp://$MASTER_ADDR:29500': the address contains an unexpanded shell variable",
        "forms a separate world",
    ),
    "no tool of the scheduler in the image": (
        "export CAPSULE_RENDEZVOUS=tcp://localhost:29500",
        "localhost names a different machine on each node",
        "without scontrol in the image",
    ),
    "another rendezvous": (
        "export CAPSULE_RENDEZVOUS=file:///tmp/elsewhere",
        "the other ranks meet at 'file://",
        "would form separate worlds",
    ),
    "no rendezvous": ("unset CAPSULE_RENDEZVOUS", "CAPSULE_RENDEZVOUS is not set", "that deletes"),
    "a rank that never starts": (
        "exit 3",
        "rank 1 never started: exit code 3",
        "one task for each rank",
    ),
    "a program that is not there": ("exec /no/such/python", "rank 1 never started", "not found"),
}


@pytest.mark.parametrize("cause", CAUSES)
def test_a_silent_failure_is_found_and_explained(tmp_path: Path, cause: str) -> None:
    line, what, advice = CAUSES[cause]
    if cause == "no rendezvous":
        advice = "find the command that deletes CAPSULE_RENDEZVOUS"
    start = f'if [ "$CAPSULE_RANK" = 1 ]; then {line}; fi'
    message = refuse(request(tmp_path, start=start))
    assert what in message
    assert advice in message


def test_numbers_that_were_swapped_are_found(tmp_path: Path) -> None:
    swap = "export CAPSULE_RANK=$((1 - CAPSULE_RANK))"
    assert "CAPSULE_RANK=" in refuse(request(tmp_path, start=swap))


def test_a_rank_that_hangs_before_it_starts_is_named(tmp_path: Path) -> None:
    start = 'if [ "$CAPSULE_RANK" = 1 ]; then exec sleep 600; fi'
    message = refuse(request(tmp_path, start=start), patience_seconds=2)
    assert "rank 1 of 2 did not arrive within 2 s" in message


def test_ranks_that_arrive_and_never_meet_are_named(tmp_path: Path) -> None:
    """As where a firewall lets nothing through."""
    (tmp_path / "sitecustomize.py").write_text(
        "import socket\n"
        "def create_connection(*_, **__):\n"
        "    raise TimeoutError\n"
        "socket.create_connection = create_connection\n"
    )
    start = f"export PYTHONPATH={tmp_path}"
    message = refuse(request(tmp_path, start=start), patience_seconds=2)
    assert "all 2 ranks arrived, but ranks 0, 1 reached no other rank within 2 s" in message
    assert "can use its network" in message


def test_a_place_that_cannot_be_written_is_the_cause_whoever_else_was_there(
    tmp_path: Path,
) -> None:
    (tmp_path / "meeting").mkdir()
    message = refuse(request(tmp_path))
    assert "arrived, but failed to exchange data with the other ranks: IsADirectoryError" in message
    assert "write the run folder" in message


# what becomes of what rank 1 sends, as Python has it in `data`, and the words of the explanation
LOSSES = {
    "truncated": (
        "bytes(data)[: 2**22] + bytes(2**22)",
        "524288 of 1048576 numbers are wrong, from number 524288 on",
    ),
    "lost": ("bytes(len(bytes(data)))", "the part of rank 1 is in the sum 0 times"),
    "doubled": (
        "array.array('d', [2 * x for x in data])",
        "the part of rank 1 is in the sum 2 times",
    ),
    "another rank's": (
        "array.array('d', [x + (i % 2 == 0) * (i + 1) - (i % 2) * (i + 1)"
        " for i, x in enumerate(data)])",
        "the part of rank 0 is in the sum 2 times, the part of rank 1 is in the sum 0 times",
    ),
    "off by one bit": ("array.array('d', [*data[:-1], data[-1] + 1])", "1 of 1048576 numbers"),
}


@pytest.mark.parametrize("loss", LOSSES)
def test_a_sum_that_is_not_of_all_ranks_is_found(tmp_path: Path, loss: str) -> None:
    """By a module that Python imports by itself, in the place of a transport that loses parts."""
    becomes, words = LOSSES[loss]
    (tmp_path / "sitecustomize.py").write_text(
        "import array, socket\n"
        "send = socket.socket.sendall\n"
        "def sendall(self, data):\n"
        f"    return send(self, {becomes} if len(data) > 1000 else data)\n"
        "socket.socket.sendall = sendall\n"
    )
    start = f'if [ "$CAPSULE_RANK" = 1 ]; then export PYTHONPATH={tmp_path}; fi'
    message = refuse(request(tmp_path, start=start))
    assert "wrong sum of 8 MiB over all ranks at rank" in message
    assert words in message


def test_ranks_are_held_to_the_nodes_that_they_were_to_run_on(tmp_path: Path) -> None:
    both = refuse(request(tmp_path, nodes=(0, 1)))
    assert "ranks 0 and 1 should run on two nodes, but both run on" in both


def test_ranks_of_one_node_are_not_on_two(tmp_path: Path) -> None:
    message = refuse(request(tmp_path, start="export SLURMD_NODENAME=n$CAPSULE_RANK"))
    assert "ranks 0 and 1 should run on one node, but run on n0 and n1" in message


NODES = "export SLURMD_NODENAME=n$CAPSULE_RANK CAPSULE_LOCAL_RANK=0"


def test_a_launcher_may_name_the_place_for_ranks_of_several_nodes(tmp_path: Path) -> None:
    place = "export CAPSULE_RENDEZVOUS=tcp://127.9.9.9:29517"
    message = refuse(request(tmp_path, nodes=(0, 1), start=f"{NODES}; {place}"))
    assert "127.9.9.9 names a different machine on each node" in message
    (tmp_path / "b").mkdir()
    place = 'if [ "$CAPSULE_RANK" = 1 ]; then export CAPSULE_RENDEZVOUS=tcp://192.0.2.1:1; fi'
    message = refuse(request(tmp_path / "b", nodes=(0, 1), start=f"{NODES}; {place}"))
    assert "at 'tcp://192.0.2.1:1': the other ranks meet at 'file://" in message


@pytest.mark.parametrize("place", ["tcp://$HOST:29500", "tcp://localhost:29500"])
def test_what_can_be_no_world_is_refused_before_a_rank_starts(tmp_path: Path, place: str) -> None:
    of = request(tmp_path, nodes=(0, 1), place=place)
    with pytest.raises(CannotRunError, match="ranks would meet at") as caught:
        check(of)
    assert caught.value.exit_code == 6
    assert not any(report.exists() for report in of.reports)


def test_a_world_of_which_no_rank_starts_is_what_cannot_run_here(tmp_path: Path) -> None:
    of = request(tmp_path)
    away = tuple(replace(one, command=("no-such-program",)) for one in of.invocations)
    with pytest.raises(
        CannotRunError, match="never started: cannot start no-such-program"
    ) as caught:
        check(replace(of, invocations=away))
    assert caught.value.exit_code == 6


def test_an_image_without_python_says_nothing_of_its_ranks(tmp_path: Path) -> None:
    of = request(tmp_path, 1, how="probe", start="echo no Python here >&2; exit 127")
    assert preflight.probe(Local(), Host(), PREPARED, of) == "no Python here"
    assert preflight.probe(Local(), Host(), PREPARED, request(tmp_path, 1, how="probe")) is None


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (
            "export CAPSULE_RENDEZVOUS='tcp://$MASTER_ADDR:1'",
            "the address contains an unexpanded shell variable",
        ),
        ("export CAPSULE_RENDEZVOUS=tcp://localhost:29500", "without scontrol in the image"),
        ("unset CAPSULE_RENDEZVOUS", "CAPSULE_RENDEZVOUS is not set"),
    ],
    ids=["literal", "localhost", "none"],
)
def test_an_image_that_leads_its_ranks_astray_is_refused_before_they_start(
    tmp_path: Path, line: str, words: str
) -> None:
    of = replace(request(tmp_path, 1, how="probe", start=line), nodes=(0, 1))
    with pytest.raises(CannotRunError, match="ranks of this image would meet at") as caught:
        preflight.probe(Local(), Host(), PREPARED, of)
    assert caught.value.exit_code == 6
    assert words in str(caught.value)


def test_ranks_of_one_node_may_meet_there_by_any_name_of_it(tmp_path: Path) -> None:
    of = request(tmp_path, 1, how="probe", start="export CAPSULE_RENDEZVOUS=tcp://localhost:1")
    assert preflight.probe(Local(), Host(), PREPARED, of) is None
