"""`capsule stage` on a login node, and runs on a node without a network."""

from __future__ import annotations

import hashlib
import json
import signal
import subprocess
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

import pytest

from tests.support.command import User, write_manifest, write_script
from tests.support.engines import python_image
from tests.support.patience import PATIENCE_SECONDS
from tests.support.registries import http, serve

NOWHERE = f"docker://127.0.0.1:1/none@sha256:{'0' * 64}"
DATA = b"1 2 3\n"
DIGEST = f"sha256:{hashlib.sha256(DATA).hexdigest()}"
GENERATED = {"generator": "regression", "samples": 8, "features": 2, "seed": 7}


def write_benchmark(author: User, **changes: object) -> Path:
    """A manifest of one command on data."""
    write_script(author.folder)
    datasets = changes.get("datasets", {})
    assert isinstance(datasets, dict)
    benchmark = {
        "id": "tiny",
        "command": ["python3", "tiny.py"],
        "inputs": ["tiny.py"],
        "datasets": list(datasets),
        "metrics": {"loss": {"direction": "lower"}},
    }
    return write_manifest(author.folder, benchmarks=[benchmark], **changes)


def without_network(user: User, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run the command where there is no interface but a loopback that is down."""
    return subprocess.run(
        ["unshare", "--net", *user.argv(*arguments)],
        cwd=user.folder,
        env=user.environment(),
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )


def test_data_is_made_or_found_and_the_command_that_needs_no_network_is_told(author: User) -> None:
    manifest = write_benchmark(author, datasets={"made": GENERATED})
    staged = author.json("stage", manifest)
    assert staged["image"] is None
    assert staged["data"]["made"]["digest"].startswith("sha256:")
    assert Path(staged["data"]["made"]["path"]).is_dir()
    assert staged["command"] == f"capsule run {manifest} --offline"
    ended = author.run("run", manifest, "--offline", "-o", "a.zip")
    assert ended.returncode == 0, ended.stderr
    again = author.json("stage", "a.zip")
    assert again["data"] == staged["data"]
    assert again["command"] == "capsule verify a.zip --offline"
    ended = author.run("verify", "a.zip", "--offline")
    assert ended.returncode == 0, ended.stdout + ended.stderr


def test_data_is_fetched_by_its_address(author: User) -> None:
    def answer(path: str, out: BinaryIO) -> None:
        out.write(http(DATA))

    heads: list[str] = []
    with serve(answer, heads) as host:
        address = f"http://{host}/data.txt"
        manifest = write_benchmark(author, datasets={"far": {"url": address, "digest": DIGEST}})
        before = author.run("run", manifest, "--offline")
        assert before.returncode == 6, before.stderr
        assert heads == []
        staged = author.json("stage", manifest)
        asked_for = len(heads)
        assert asked_for
        assert staged["data"]["far"]["digest"] == DIGEST
        assert Path(staged["data"]["far"]["path"]).read_bytes() == DATA
        ended = author.run("run", manifest, "--offline", "-o", "a.zip")
        assert ended.returncode == 0, ended.stderr
        assert len(heads) == asked_for


@pytest.mark.parametrize("is_killed", [False, True])
def test_two_at_once_bring_the_same_data_once(author: User, is_killed: bool) -> None:
    """The second waits for the first; where that one dies, it goes on in its place."""
    is_asked, may_answer = threading.Event(), threading.Event()

    def answer(path: str, out: BinaryIO) -> None:
        is_asked.set()
        assert may_answer.wait(PATIENCE_SECONDS)
        with suppress(OSError):  # whoever asked may be dead
            out.write(http(DATA))

    heads: list[str] = []
    with serve(answer, heads) as host:
        data = {"url": f"http://{host}/data.txt", "digest": DIGEST}
        words = author.argv("stage", write_benchmark(author, datasets={"far": data}), "--json")

        def start() -> subprocess.Popen[str]:
            return subprocess.Popen(
                words,
                cwd=author.folder,
                env=author.environment(),
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )

        first = start()
        assert is_asked.wait(PATIENCE_SECONDS)
        second = start()
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not _waits_for_a_lock(second.pid):
            assert second.poll() is None, second.communicate()
            assert time.monotonic() < deadline
            time.sleep(0.05)
        if is_killed:
            first.kill()
        may_answer.set()
        both = [(*process.communicate(timeout=PATIENCE_SECONDS),) for process in (first, second)]
    assert second.returncode == 0, both[1]
    assert first.returncode == (-signal.SIGKILL if is_killed else 0), both[0]
    staged = json.loads(both[1][0])
    assert Path(staged["data"]["far"]["path"]).read_bytes() == DATA
    assert is_killed or staged == json.loads(both[0][0])
    assert len(heads) == 1 + is_killed
    assert not list((author.home / ".cache/capsule/fetching").iterdir())


def _waits_for_a_lock(pid: int) -> bool:
    lines = (line.split() for line in Path("/proc/locks").read_text().splitlines())
    return any("->" in fields and str(pid) in fields for fields in lines)


def test_data_that_a_capsule_carries_lies_in_it(author: User) -> None:
    (author.folder / "near.txt").write_bytes(DATA)
    manifest = write_benchmark(author, datasets={"near": {"path": "near.txt"}})
    author.json("run", manifest, "-o", "a.zip")
    (author.folder / "near.txt").unlink()
    assert author.json("stage", "a.zip")["data"] == {"near": {"digest": DIGEST, "path": None}}
    shown = " ".join(author.run("stage", "a.zip").stdout.split())
    assert f"near: {len(DATA)} bytes, in the capsule" in shown
    ended = author.run("verify", "a.zip", "--offline")
    assert ended.returncode == 0, ended.stderr


def test_what_is_missing_is_told_after_all_else_was_brought(author: User) -> None:
    datasets = {"gone": {"digest": DIGEST}, "made": GENERATED, "lost": {"digest": DIGEST}}
    manifest = write_benchmark(author, datasets=datasets)
    cache = author.home / "cache"
    ended = author.run("stage", manifest, CAPSULE_CACHE=str(cache))
    assert ended.returncode == 6
    assert (
        f"dataset 'gone' with digest {DIGEST} is missing on this machine, and 1 more"
        in ended.stderr
    )
    assert "capsule staged everything else" in ended.stderr
    assert len(list(cache.glob("*/data/*/origin.json"))) == 1


def test_an_image_that_is_not_staged_is_one_clear_error(author: User) -> None:
    manifest = write_benchmark(author, image={"reference": NOWHERE})
    for command in (("run", manifest), ("run", "--try", manifest)):
        ended = author.run(*command, "--offline", "--runtime", "host")
        assert ended.returncode == 0, ended.stderr  # which takes no image
    ended = author.run("run", manifest, "--dry-run", "--offline", PATH="/nowhere")
    assert ended.returncode == 0, ended.stderr
    staged = author.json("stage", manifest, "--runtime", "host")
    assert staged["command"] == f"capsule run {manifest} --runtime host --offline"
    ended = author.run("stage", manifest, "--runtime", "host", "--image", NOWHERE)
    assert ended.returncode == 2
    assert "uses no image" in ended.stderr


def test_a_strangers_capsule_is_staged_with_trust_alone(author: User, stranger: User) -> None:
    manifest = write_benchmark(author)
    assert author.run("run", manifest, "-o", "a.zip").returncode == 0
    capsule = author.folder / "a.zip"
    ended = stranger.run("stage", capsule)
    assert ended.returncode == 4
    assert "--trust" in ended.stderr
    ended = stranger.run("stage", capsule, "--trust", "--allow-host")
    assert ended.returncode == 0, ended.stderr
    line = f"capsule verify {capsule} --trust --allow-host --offline"
    assert line in " ".join(ended.stdout.split())


def test_what_is_neither_is_refused_as_a_capsule_is(author: User) -> None:
    ended = author.run("stage", "nothing.json")
    assert ended.returncode == 2
    (author.folder / "odd.zip").write_bytes(b"PK\x03\x04 no archive")
    assert author.run("stage", "odd.zip").returncode == 4
    (author.folder / "odd.json").write_text("{}")
    assert author.run("stage", "odd.json").returncode == 2
    ended = author.run("stage", "odd.zip", "--frameworks", "torch")
    assert ended.returncode == 2
    assert "needs a manifest" in ended.stderr


@pytest.mark.engines
@pytest.mark.parametrize("runtime", ["apptainer", "docker"])
def test_what_was_staged_runs_and_verifies_without_a_network(author: User, runtime: str) -> None:
    (author.folder / "data.txt").write_bytes(DATA)
    manifest = write_benchmark(
        author,
        image={"reference": python_image()},
        datasets={"made": GENERATED, "own": {"path": "data.txt", "digest": DIGEST}},
    )
    nowhere = ("--image", NOWHERE, "--runtime", runtime, "--offline")
    before = without_network(author, "run", manifest, *nowhere)
    assert before.returncode == 6
    assert "is missing on this machine, and --offline forbids fetching it" in before.stderr
    assert "capsule stage" in before.stderr
    staged = author.json("stage", manifest, "--runtime", runtime)
    assert f"docker://{staged['image']}" == python_image()
    site = author.home / ".config/capsule/site.json"
    site.parent.mkdir(parents=True)
    site.write_text(json.dumps({"data": {DIGEST: str(author.folder / "data.txt")}}))
    for words in (("run", manifest, "-o", "a.zip"), ("verify", "a.zip")):
        ended = without_network(author, *words, "--offline", "--runtime", runtime)
        assert ended.returncode == 0, ended.stdout + ended.stderr
    online = without_network(author, "run", manifest, "--runtime", runtime, "-o", "b.zip")
    assert online.returncode == 6
    assert "did not answer" in online.stderr
    record = json.loads(author.run("show", "a.zip", "--json").stdout)
    assert record["image"]["pinned"] == staged["image"]
