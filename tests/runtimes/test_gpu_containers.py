"""GPUs and CPUs that Docker and Podman are asked for, by a daemon and a program that note it."""

from __future__ import annotations

import json
import os
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from capsule.errors import CannotRunError
from capsule.runtimes import gpus, slots, visible
from capsule.runtimes.apptainer import Apptainer
from capsule.runtimes.base import GpuShare, Prepared
from capsule.runtimes.docker import Docker
from capsule.runtimes.podman import Podman
from capsule.runtimes.slots import Slot
from tests.support.gpu_trees import (
    FOUR_H100,
    MAX_1550,
    MI250X,
    MIG,
    VARIABLES,
    FakeNvml,
    Node,
    build,
    invocation,
    nvidia_uuid,
)

PREPARED = Prepared(handle=f"sha256:{'0' * 64}")
# of four cards a control group lets a job see two
IN_JOB = tuple(
    Slot(address=card.address, uuid=card.uuid) for card in (FOUR_H100.cards[1], FOUR_H100.cards[3])
)


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The node, whose library counts the GPUs of the job."""
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(slots, "find", lambda *_: IN_JOB)
    return build(FOUR_H100, tmp_path / "root")


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[dict[str, Any]]]:
    """The containers that a daemon of Docker's was asked to make; it starts none."""
    asked: list[dict[str, Any]] = []
    facts = {"Version": "20.10.24", "ApiVersion": "1.41", "CPUSet": True}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._answer(200, facts)

        def do_DELETE(self) -> None:
            self._answer(204)

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            if "/containers/create" in self.path:
                asked.append(json.loads(body))
                self._answer(201, {"Id": "made", "Warnings": []})
            elif self.path.endswith("/start"):
                self._answer(204)
            else:
                self._answer(500, {"message": "nothing to attach to"})

        def log_message(self, *_: object) -> None:
            """Print nothing."""

        def _answer(self, status: int, document: object = None) -> None:
            body = b"" if document is None else json.dumps(document).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        monkeypatch.setenv("DOCKER_HOST", f"tcp://127.0.0.1:{server.server_port}")
        yield asked
        server.shutdown()


@pytest.fixture
def words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Arguments of a program in the place of Podman, a line a call."""
    log, program = tmp_path / "calls", tmp_path / "bin/podman"
    facts = {
        "host": {"security": {"rootless": False}, "cgroupControllers": ["cpuset", "pids"]},
        "version": {"Version": "5.0.0"},
    }
    program.parent.mkdir()
    program.write_text(
        f"#!/bin/sh\necho \"$*\" >>{log}\ncase $1 in info) echo '{json.dumps(facts)}';; esac\n"
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    return log


@pytest.mark.parametrize(
    ("listed", "asked"),
    [
        (None, [nvidia_uuid(0x41), nvidia_uuid(0x43)]),
        ("1,0", [nvidia_uuid(0x43), nvidia_uuid(0x41)]),
        # the toolkit looks for whole names
        ("GPU-00000043,0", [nvidia_uuid(0x43), nvidia_uuid(0x41)]),
    ],
)
def test_dockers_daemon_is_asked_for_gpus_by_uuid(
    listed: str | None,
    asked: list[str],
    root: Path,
    made: list[dict[str, Any]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if listed is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", listed)
    Docker(root).check_gpus(2, PREPARED, None)
    (container,) = made
    (request,) = container["HostConfig"]["DeviceRequests"]
    assert request["DeviceIDs"] == asked


def test_a_mig_instance_keeps_its_name(
    root: Path, made: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", MIG)
    monkeypatch.setitem(sys.modules, "pynvml", FakeNvml(FOUR_H100, instances={1: [MIG]}))
    Docker(root).check_gpus(1, PREPARED, None)
    assert made[0]["HostConfig"]["DeviceRequests"][0]["DeviceIDs"] == [MIG]


@pytest.mark.parametrize(("count", "cpus"), [(1, "1"), (0, None)])
def test_a_container_of_docker_is_bound_to_the_cpus_of_its_gpu(
    count: int,
    cpus: str | None,
    root: Path,
    tmp_path: Path,
    made: list[dict[str, Any]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {1, 52})
    Docker(root).start(PREPARED, invocation(tmp_path, GpuShare(count=count), "true"))
    (container,) = made
    assert container["HostConfig"].get("CpusetCpus") == cpus


@pytest.mark.parametrize(
    ("described", "name"),
    [
        # as newer versions of NVIDIA's toolkit describe devices, and as older ones do
        (f"devices:\n  - name: '3'\n  - name: {nvidia_uuid(0x43)}\n", nvidia_uuid(0x43)),
        ("devices:\n  - name: '3'\n", "3"),
        (None, "3"),
    ],
)
def test_podman_is_asked_for_gpus_as_they_are_described(
    described: str | None,
    name: str,
    root: Path,
    words: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    if described is not None:
        folder = root / "var/run/cdi"
        folder.mkdir(parents=True)
        (folder / "nvidia.yaml").write_text(described)
    Podman(root).check_gpus(1, PREPARED, None)
    (line,) = (one for one in words.read_text().splitlines() if one.startswith("create "))
    assert f"--device nvidia.com/gpu={name} " in line


@pytest.mark.parametrize(("count", "bound"), [(1, True), (0, False)])
def test_a_container_of_podman_is_bound_to_the_cpus_of_its_gpu(
    count: int,
    bound: bool,
    root: Path,
    tmp_path: Path,
    words: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {1, 52})
    Podman(root).start(PREPARED, invocation(tmp_path, GpuShare(count=count), "true")).wait(60)
    (line,) = (one for one in words.read_text().splitlines() if one.startswith("create "))
    assert ("--cpuset-cpus 1 " in line) == bound


@pytest.fixture
def apptainer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program in the place of Apptainer, which nothing starts."""
    program = tmp_path / "bin/apptainer"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent))
    for name in (*visible.LISTS, "CUDA_DEVICE_ORDER"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.usefixtures("apptainer")
@pytest.mark.parametrize(
    ("node", "devices", "flags", "variables"),
    [
        (
            FOUR_H100,
            ("1", "3"),
            ["--nv"],
            {"CUDA_VISIBLE_DEVICES": "1,3", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"},
        ),
        (MI250X, ("4",), ["--rocm"], {"ROCR_VISIBLE_DEVICES": "4"}),
        # NVIDIA's library alone shows these
        (None, ("0",), ["--nv"], {"CUDA_VISIBLE_DEVICES": "0", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}),
        (FOUR_H100, (), [], {}),
    ],
)
def test_apptainer_shows_the_gpus_of_a_vendor_by_its_flag(
    tmp_path: Path,
    node: Node | None,
    devices: tuple[str, ...],
    flags: list[str],
    variables: dict[str, str],
) -> None:
    root = tmp_path / "root" if node is None else build(node, tmp_path / "root")
    asked = replace(invocation(tmp_path, GpuShare(), "true"), devices=devices)
    started = Apptainer(root).wrap(Prepared(handle="tiny.sif"), asked)
    assert [word for word in started.command if word in ("--nv", "--rocm")] == flags
    names = {f"APPTAINERENV_{name}" for name in (*visible.LISTS, "CUDA_DEVICE_ORDER")}
    shown = {name: value for name, value in started.environment.items() if name in names}
    assert shown == {f"APPTAINERENV_{name}": value for name, value in variables.items()}


@pytest.mark.usefixtures("apptainer")
def test_engines_refuse_gpus_that_they_cannot_show(tmp_path: Path) -> None:
    roots = {node.vendor: build(node, tmp_path / node.vendor) for node in (MI250X, MAX_1550)}
    Apptainer(roots["amd"]).check_gpus(1, PREPARED, None)
    with pytest.raises(CannotRunError, match="no option for Intel GPUs"):
        Apptainer(roots["intel"]).check_gpus(1, PREPARED, None)
    for engine in (Docker, Podman):
        for vendor, root in roots.items():
            title = gpus.TITLES[vendor]
            words = f"{engine.title} supports only NVIDIA GPUs, this machine has {title} GPUs"
            with pytest.raises(CannotRunError) as caught:
                engine(root).check_gpus(1, PREPARED, None)
            assert caught.value.what == words


@pytest.mark.parametrize(
    ("refusal", "advice"),
    [
        ("unresolvable CDI devices nvidia.com/gpu=3", "nvidia-ctk cdi generate"),
        ("stat nvidia.com/gpu=3: no such file", "nvidia-ctk cdi generate"),
        ("no space left on device", None),
    ],
)
def test_a_refusal_of_gpus_is_told_with_what_mends_it(
    refusal: str, advice: str | None, root: Path, words: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = words.with_name("bin") / "podman"
    refuses = f"case $1 in create) echo 'Error: {refusal}' >&2; exit 125;; esac\n"
    program.write_text(program.read_text() + refuses)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    with pytest.raises(CannotRunError, match="Podman cannot give GPUs to containers: ") as caught:
        Podman(root).check_gpus(1, PREPARED, None)
    assert refusal in caught.value.what
    given = caught.value.advice
    assert given is None if advice is None else advice in str(given)


def test_dockers_advice_is_about_a_missing_toolkit_alone() -> None:
    lacks = 'could not select device driver "" with capabilities: [[gpu]]'
    assert "container toolkit" in str(Docker().device_advice(lacks))
    assert Docker().device_advice("permission denied") is None


def test_without_nvidias_library_docker_gets_the_names_of_the_job(
    root: Path, made: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(slots, "find", lambda *_: None)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "2")
    Docker(root).check_gpus(1, PREPARED, None)
    assert made[0]["HostConfig"]["DeviceRequests"][0]["DeviceIDs"] == ["2"]


def test_a_container_without_gpus_asks_for_none(
    root: Path, tmp_path: Path, made: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    # nor for what this machine has
    monkeypatch.setattr(slots, "find", None)
    Docker(root).start(PREPARED, invocation(tmp_path, GpuShare(), "true"))
    assert not made[0]["HostConfig"].get("DeviceRequests")


def test_an_engine_that_cannot_bind_is_not_asked_to(
    root: Path, tmp_path: Path, made: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {1, 52})
    monkeypatch.setattr(Docker, "limits_cpus", lambda _: False)
    Docker(root).start(PREPARED, invocation(tmp_path, GpuShare(count=1), "true"))
    assert not made[0]["HostConfig"].get("CpusetCpus")
