"""What is allowed in a command and most often a mistake; and what looks like one and is none."""

from pathlib import Path

import pytest

from capsule.errors import ManifestError
from capsule.jsons import Json, JsonObject
from capsule.manifest.pitfalls import find_lost_meeting, find_pitfalls, ranks_pitfall
from tests.manifest.test_reader import read, variant


def find(folder: Path, *words: str, **fields: Json) -> list[str]:
    (folder / "train.py").touch()
    (folder / "data").mkdir()
    (folder / "data" / "a.csv").touch()
    (folder / "run.sh").write_bytes(b"#!/bin/sh\r\n")
    (folder / "unix.sh").write_bytes(b"#!/usr/bin/env bash\n")
    benchmark: JsonObject = {
        "id": "train",
        "command": list(words),
        "metrics": {"loss": {"from": {"csv": "a", "file": "out.csv"}}},
        **fields,
    }
    (made,) = read(variant(benchmarks=[benchmark], claims=[])).benchmarks
    return list(find_pitfalls(made, folder))


@pytest.mark.parametrize(
    ("words", "fields"),
    [
        (("python3", "train.py"), {"inputs": ["train.py"]}),
        (("python3", "-u", "data/a.csv", "out.js"), {"inputs": ["data"]}),
        (("python3", "main.py"), {"setup": ["cp", "/opt/main.py", "{out}"]}),
        (("train", "data", "/opt/main.py"), {}),
        (("python3", "-m", "data", "--out={out}/x.py"), {}),
        (("python3", "{seed}.py"), {}),
        (("python3", "{{seed}}.py"), {"inputs": ["{seed}.py"]}),
        (("python3", "a.csv"), {"inputs": ["data"], "cwd": "data"}),
        (("train", "{lr}"), {"cases": {"lr": [1, 2]}}),
        (("train", "{case}"), {"cases": {"lr": [1, 2]}}),
        (("unix.sh",), {"inputs": ["unix.sh"]}),
        (("train",), {"cases": {"lr": [1, 2]}, "environment": {"LR": "{lr}"}}),
    ],
)
def test_what_is_meant_is_not_doubted(
    tmp_path: Path, words: tuple[str, ...], fields: JsonObject
) -> None:
    assert find(tmp_path, *words, **fields) == []


@pytest.mark.parametrize(
    ("words", "fields", "says"),
    [
        (("python3", "train.py"), {}, 'cannot find "train.py": the file is beside the manifest'),
        (
            ("train",),
            {"setup": ["cat", "data/a.csv"]},
            'cannot find "data/a.csv": the file is beside',
        ),
        (("python3", "b.py"), {}, '"b.py" is missing beside the manifest'),
        (("python3", "a.py"), {"inputs": ["train.py"]}, '"a.py" is missing beside'),
        (("python3", "x/train.py"), {"inputs": ["train.py"]}, 'Did you mean "train.py"?'),
        (("sh -c 'a b'",), {}, 'Did you mean ["sh", "-c", "a b"]?'),
        (("sh -c 'a",), {}, "is one word"),
        (("train", ">", "log"), {}, "no shell reads the command"),
        (("run.sh",), {"inputs": ["run.sh"]}, "ends with a carriage return"),
        (("train",), {"cases": {"lr": [1, 2]}}, "the parameter lr has no effect"),
    ],
)
def test_what_is_most_often_a_mistake_is_told(
    tmp_path: Path, words: tuple[str, ...], fields: JsonObject, says: str
) -> None:
    (sentence,) = find(tmp_path, *words, **fields)
    assert says in sentence


def lost(
    words: tuple[str, ...], environment: dict[str, str], *, are_apart: bool = False
) -> str | None:
    benchmark: JsonObject = {
        "id": "train",
        "command": list(words),
        "environment": {**environment},
        "metrics": {"loss": {"from": {"csv": "a", "file": "out.csv"}}},
    }
    (made,) = read(variant(benchmarks=[benchmark], claims=[])).benchmarks
    return find_lost_meeting(made, are_apart=are_apart)


@pytest.mark.parametrize(
    ("words", "environment"),
    [
        (("torchrun", "--rdzv-id=$SLURM_JOB_ID", "t.py"), {}),
        (("torchrun", "--rdzv_id", "$SLURM_JOB_ID", "t.py"), {}),
        (("torchrun", "--rdzv-endpoint=$(hostname):1", "t.py"), {}),
        (("torchrun", "--master-addr", "`hostname`", "t.py"), {}),
        (("python3", "t.py"), {"MASTER_ADDR": "${HOST}"}),
        (("sh", "-c", "exec t"), {"MASTER_PORT": "$PORT"}),
    ],
)
def test_where_nobody_expands_a_rendezvous_is_found(
    words: tuple[str, ...], environment: dict[str, str]
) -> None:
    assert "no shell expands the variable" in str(lost(words, environment))


@pytest.mark.parametrize(
    ("words", "environment"),
    [
        (("torchrun", "--rdzv-endpoint=localhost:29400", "t.py"), {}),
        (("torchrun", "--rdzv-endpoint", "127.0.0.1:29400", "t.py"), {}),
        (("python3", "t.py"), {"MASTER_ADDR": "::1"}),
    ],
)
def test_each_node_itself_is_no_place_for_ranks_of_several(
    words: tuple[str, ...], environment: dict[str, str]
) -> None:
    assert lost(words, environment) is None
    assert "each node uses this address for itself" in str(lost(words, environment, are_apart=True))


@pytest.mark.parametrize(
    ("words", "environment"),
    [
        (("sh", "-c", "torchrun --rdzv-id=$RANDOM t.py"), {}),
        (("torchrun", "--rdzv-endpoint=node1:29400", "--log=$x", "t.py"), {}),
        (("torchrun", "--rdzv-id=7", "$x"), {}),
        (("python3", "t.py"), {"PRICE": "$5", "MASTER_ADDR": "node1"}),
    ],
)
def test_a_rendezvous_that_is_a_place_is_none_of_these(
    words: tuple[str, ...], environment: dict[str, str]
) -> None:
    assert lost(words, environment, are_apart=True) is None


def rank_pitfall(
    folder: Path,
    name: str,
    text: str,
    *words: str,
    ranks: int = 2,
    joins: bool = False,
    fields: JsonObject | None = None,
) -> str | None:
    (folder / name).write_text(text)
    benchmark: JsonObject = {
        "id": "train",
        "command": list(words) or ["python3", name],
        "inputs": [name],
        "metrics": {"loss": {"from": {"pattern": "loss (.*)"}}},
        **(fields or {}),
    }
    (made,) = read(variant(benchmarks=[benchmark], claims=[])).benchmarks
    return ranks_pitfall(made, folder, ranks, joins=joins)


CALLS = {
    "pi.c": "int main(void)\n{\n    MPI_Init(0, 0);\n}",
    "pi.cpp": "if (MPI_Init_thread (&argc, &argv, 3, &given)) {}",
    "pi.f90": "  use mpi_f08\n  call MPI_Init(ierror)\n",
    "old.f": "      CALL MPI_INIT ( IERR )\n",
    "pi.py": "import sys\nfrom mpi4py import MPI\n",
}


@pytest.mark.parametrize("name", CALLS)
def test_sources_of_mpi_that_nothing_joins_are_named(tmp_path: Path, name: str) -> None:
    words = () if name.endswith(".py") else ("{out}/pi",)
    said = rank_pitfall(tmp_path, name, CALLS[name], *words)
    assert said is not None
    assert f'"{name}"' in said
    assert "nothing joins the 2 ranks" in said
    assert rank_pitfall(tmp_path, name, CALLS[name], *words, ranks=1) is None
    assert rank_pitfall(tmp_path, name, CALLS[name], *words, joins=True) is None
    separate: JsonObject = {"ranks_independent": True}
    assert rank_pitfall(tmp_path, name, CALLS[name], *words, fields=separate) is None


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.c", "// MPI_Init(0, 0);\n * MPI_Init();\nint MPI_Initials;"),
        ("a.f90", "! call MPI_Init(ierror)\n"),
        ("a.py", "# import mpi4py\n"),
    ],
)
def test_what_a_comment_says_calls_nothing(tmp_path: Path, name: str, text: str) -> None:
    assert rank_pitfall(tmp_path, name, text, "{out}/a") is None


@pytest.mark.parametrize(
    ("text", "fields", "words"),
    [
        ("import os; os.environ['CAPSULE_RANK']", {}, ()),
        ("init_method=os.environ['CAPSULE_RENDEZVOUS']", {}, ()),
        ("print(1)", {}, ("python3", "train.py", "{rank}")),
        ("os.environ['RANK']", {"environment": {"RANK": "{rank}"}}, ()),
        ("print(1)", {}, ("torchrun", "train.py")),
        ("print(1)", {"world": "declared"}, ()),
        ("print(1)", {"ranks_independent": True}, ()),
        # of a program of the image nobody can tell
        ("print(1)", {}, ("train",)),
    ],
)
def test_ranks_that_take_a_number_are_not_doubted(
    tmp_path: Path, text: str, fields: JsonObject, words: tuple[str, ...]
) -> None:
    assert rank_pitfall(tmp_path, "train.py", text, *words, fields=fields) is None


def test_ranks_that_nobody_numbers_are_doubted(tmp_path: Path) -> None:
    said = rank_pitfall(tmp_path, "train.py", "rank = os.environ.get('RANK', 0)")
    assert said is not None
    assert "each of the 2 processes most likely does all of the work" in said
    assert '"environment": {"RANK": "{rank}"}' in said
    assert "RANK" in (rank_pitfall(tmp_path, "train.py", "print(1)") or "")


def test_independent_ranks_declare_no_world(tmp_path: Path) -> None:
    with pytest.raises(ManifestError, match="/benchmarks/0/world"):
        rank_pitfall(tmp_path, "a.py", "", fields={"ranks_independent": True, "world": "declared"})
    with pytest.raises(ManifestError, match="/benchmarks/0/world"):
        rank_pitfall(tmp_path, "a.py", "", fields={"world": "seen"})
