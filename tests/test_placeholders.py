"""Pointers and pages are told from data that merely looks like them."""

from __future__ import annotations

from pathlib import Path

import pytest

from capsule import placeholders
from tests.support.command import User, write_manifest, write_script

OID = b"oid sha256:" + b"4" * 64 + b"\n"
LFS = b"version https://git-lfs.github.com/spec/v1\n" + OID + b"size 12345678\n"


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (LFS, ["Git LFS", "11.8 MiB", "`git lfs pull`"]),
        (LFS.replace(b"\n", b"\r\n"), ["Git LFS"]),
        (LFS.replace(OID, b"ext-0-foo sha256:" + b"5" * 64 + b"\n" + OID), ["11.8 MiB"]),
        (b"version https://hawser.github.com/spec/v1\n" + OID + b"size 7\n", ["7 bytes"]),
        (
            b"/annex/objects/SHA256E-s51200--ab12.bin\n",
            ["git-annex", "50.0 KiB", "`git annex get`"],
        ),
    ],
)
def test_a_pointer_is_told_with_what_it_lacks(
    tmp_path: Path, data: bytes, words: list[str]
) -> None:
    path = tmp_path / "train.bin"
    path.write_bytes(data)
    described = placeholders.describe_pointer(path)
    assert described is not None
    for word in words:
        assert word in described


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"version 2\nsize 3\n",
        b"# " + LFS,
        LFS.replace(b"size", b"weight"),
        LFS + b"x" * 2000,
        b"see /annex/objects/SHA256-s1--x",
        b"\0" * 100,
    ],
)
def test_data_is_no_pointer(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "train.bin"
    path.write_bytes(data)
    assert placeholders.describe_pointer(path) is None


@pytest.mark.parametrize(
    "data", [b"<htmlx>", b"a,b\n<html>", b"<svg/>", b"{}", b'<?xml version="1.0"?><data/>']
)
def test_data_is_no_page(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "train.bin"
    path.write_bytes(data)
    assert not placeholders.is_page(path)


@pytest.mark.parametrize("kind", ["input", "folder", "dataset", "dataset folder"])
def test_lint_and_run_warn_of_a_pointer(author: User, kind: str) -> None:
    (author.folder / "data").mkdir()
    (author.folder / "data/train.txt").write_bytes(LFS)
    write_script(author.folder)
    path = "data/train.txt" if kind in ("input", "dataset") else "data"
    benchmark = {
        "id": "tiny",
        "command": ["python3", "tiny.py"],
        "inputs": ["tiny.py", *([] if "dataset" in kind else [path])],
        "metrics": {"loss": {"direction": "lower"}},
        **({"datasets": ["d"]} if "dataset" in kind else {}),
    }
    datasets = {"d": {"path": path}} if "dataset" in kind else {}
    write_manifest(author.folder, benchmarks=[benchmark], datasets=datasets, seeds=[1, 2])
    for verb in (["lint", "tiny.json"], ["run", "tiny.json"], ["run", "--try", "tiny.json"]):
        ended = author.run(*verb)
        assert ended.returncode == 0, ended.stderr
        told = " ".join((ended.stdout + ended.stderr).split())
        for word in ("train.txt is a pointer of Git LFS", "11.8 MiB", "`git lfs pull`"):
            assert word in told
