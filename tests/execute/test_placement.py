"""GPUs and CPUs of each rank, as a start left them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from capsule.execute import placement
from capsule.execute.workspace import Start
from capsule.runtimes.base import GPUS

FACTS = {"pci_addresses": ["0000:c1:00.0", None], "cpus": "48-63,112-127"}
UNBOUND = {"pci_addresses": ["0009:01:00.0"], "cpus": None}


def start(folder: Path, *contents: str | None) -> Start:
    """One whose ranks left such files, None for no file."""
    made = Start(number=1, folder=folder, ranks=len(contents))
    for rank, content in enumerate(contents):
        path = made.rank(rank).stdout.with_name(GPUS)
        path.parent.mkdir(exist_ok=True)
        if content is not None:
            path.write_text(content)
    return made


def test_each_rank_says_what_its_node_dealt_it(tmp_path: Path) -> None:
    of_two = start(tmp_path, json.dumps(FACTS), json.dumps(UNBOUND))
    assert placement.read_gpus(of_two) == [FACTS, UNBOUND]


def test_a_rank_that_did_not_start_is_a_gap(tmp_path: Path) -> None:
    assert placement.read_gpus(start(tmp_path, None, json.dumps(UNBOUND))) == [None, UNBOUND]


def test_ranks_without_gpus_say_nothing(tmp_path: Path) -> None:
    assert placement.read_gpus(start(tmp_path, None, None)) is None


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{",
        "[]",
        "null",
        "[" * 100_000,
        "{}",
        json.dumps(FACTS | {"pci_addresses": "0000:c1:00.0"}),
        json.dumps(FACTS | {"pci_addresses": ["\x1b[2J"]}),
        json.dumps(FACTS | {"pci_addresses": [{"uuid": 1}]}),
        json.dumps(FACTS | {"pci_addresses": 1}),
        json.dumps(FACTS | {"cpus": "everything"}),
        json.dumps(FACTS | {"cpus": 3}),
        json.dumps(FACTS | {"cpus": "1," * 40_000}),
        json.dumps({"cpus": None}),
    ],
)
def test_a_file_that_a_workload_changed_says_nothing(tmp_path: Path, content: str) -> None:
    assert placement.read_gpus(start(tmp_path, content)) is None


def test_a_link_in_place_of_the_file_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_text(json.dumps(FACTS))
    made = start(tmp_path, None)
    made.rank(0).stdout.with_name(GPUS).symlink_to(tmp_path / "elsewhere")
    assert placement.read_gpus(made) is None
