"""Docker by its SDK: addresses, refusals, what ends badly, and what a container is made of."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO

import pytest

from capsule import process, runtimes
from capsule.errors import CannotRunError
from capsule.image import Image
from capsule.runtimes import daemon
from capsule.runtimes.base import Ended, Invocation, Mount, Prepared, Running
from capsule.runtimes.docker import Docker
from tests.support.daemons import (
    accept_in_silence,
    certify,
    stand_before,
    stand_before_over_tcp,
)
from tests.support.engines import docker, small_image
from tests.support.patience import PATIENCE_SECONDS, in_time, read_lines
from tests.support.records import make_image
from tests.support.registries import serve
from tests.support.runtimes import LABEL, Engine, invocation, python, run, small, start

VERSION = {"Version": "20.10.24", "ApiVersion": "1.41", "Components": [{"Name": "Engine"}]}


def http(status: int, body: bytes, *lines: str) -> bytes:
    head = [f"HTTP/1.1 {status} X", f"Content-Length: {len(body)}", "Connection: close", *lines]
    return "\r\n".join([*head, "", ""]).encode() + body


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, bytes]]:
    """What a daemon answers, by the end of the path without its query; nothing else is there."""
    table = {"/version": http(200, json.dumps(VERSION).encode())}

    def answer(path: str, out: BinaryIO) -> None:
        place = path.partition("?")[0]
        fitting = (body for end, body in table.items() if place.endswith(end))
        out.write(next(fitting, http(404, b'{"message": "No such thing"}')))

    with serve(answer) as host:
        monkeypatch.setenv("DOCKER_HOST", f"tcp://{host}")
        yield table


def refuse() -> CannotRunError:
    """How the daemon is refused."""
    with pytest.raises(CannotRunError) as caught:
        Docker().version()
    return caught.value


def test_a_daemon_that_answers_is_named(answers: dict[str, bytes]) -> None:
    assert runtimes.choose("docker", needs_image=True).available().version == "Docker 20.10.24"


def test_a_socket_that_accepts_and_never_answers_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(daemon, "PROMPT_SECONDS", 0.2)
    with accept_in_silence(tmp_path) as address:
        monkeypatch.setenv("DOCKER_HOST", address)
        error = in_time(refuse)
        assert not in_time(lambda: Docker().keeps(make_image(), cache=tmp_path))
    assert error.what == (
        f"no Docker daemon answers at {address}: the daemon accepts a connection, but does not"
        " answer"
    )


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({**VERSION, "ApiVersion": "1.39"}, "API version 1.39; capsule needs"),
        ({**VERSION, "Components": [{"Name": "Podman Engine"}]}, "Podman answers at"),
        ({"Version": "20"}, "no Docker daemon answers at .*: KeyError: 'ApiVersion'"),
        (["x"], "no Docker daemon answers"),
        ({**VERSION, "ApiVersion": "new"}, "no Docker daemon answers"),
    ],
)
def test_a_daemon_of_no_use_is_told(answers: dict[str, bytes], said: object, words: str) -> None:
    answers["/version"] = http(200, json.dumps(said).encode())
    with pytest.raises(CannotRunError, match=words):
        Docker().version()
    assert not runtimes.available_all()["docker"].usable


@pytest.mark.parametrize(
    "answer", [b"", b"SSH-2.0-OpenSSH\r\n", http(200, b"<html>"), http(503, b"")]
)
def test_what_is_no_daemon_is_told(answers: dict[str, bytes], answer: bytes) -> None:
    answers["/version"] = answer
    assert refuse().what.startswith(f"no Docker daemon answers at {os.environ['DOCKER_HOST']}: ")


@pytest.mark.parametrize("address", ["fd://", "tcp://", "npipe://x", "unix:///a?b#c", "tcp://a:b"])
def test_an_address_that_is_none_is_told(monkeypatch: pytest.MonkeyPatch, address: str) -> None:
    monkeypatch.setenv("DOCKER_HOST", address)
    assert refuse().what.startswith(f"no Docker daemon answers at {address}: ")


def test_a_daemon_behind_ssh_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "ssh://user@other.example")
    error = refuse()
    assert "ssh://user@other.example" in error.what
    assert error.advice == "run capsule on the machine of the daemon"
    reason = runtimes.available_all()["docker"].reason
    assert reason.endswith("; run capsule on the machine of the daemon")


def test_proxies_and_certificates_of_the_environment_are_those_of_other_servers(
    answers: dict[str, bytes], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(tmp_path / "none"))
    assert Docker().version() == "Docker 20.10.24"


def write_context(settings: Path, name: str, address: str, *, current: bool = True) -> None:
    folder = settings / "contexts" / "meta" / hashlib.sha256(name.encode()).hexdigest()
    folder.mkdir(parents=True)
    endpoint = {"Host": address, "SkipTLSVerify": False}
    document = {"Name": name, "Metadata": {}, "Endpoints": {"docker": endpoint}}
    (folder / "meta.json").write_text(json.dumps(document))
    (settings / "config.json").write_text(json.dumps({"currentContext": name} if current else {}))


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of Docker's settings; no variable names an address."""
    for name in ("DOCKER_HOST", "DOCKER_CONTEXT", "DOCKER_TLS_VERIFY", "DOCKER_CERT_PATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
    return tmp_path


def test_the_address_is_the_one_that_dockers_client_would_take(
    settings: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_context(settings, "one", "unix:///nowhere/one.sock")
    write_context(settings, "two", "unix:///nowhere/two.sock", current=False)
    write_context(settings, "away", "ssh://other.example", current=False)
    write_context(settings, "current", "unix:///nowhere/current.sock")
    assert " at unix:///nowhere/current.sock: No such file or directory" in refuse().what
    (settings / "config.json").unlink()
    monkeypatch.setenv("DOCKER_CONTEXT", "two")
    assert " at unix:///nowhere/two.sock" in refuse().what
    monkeypatch.setenv("DOCKER_CONTEXT", "away")
    assert "ssh://other.example runs on another machine" in refuse().what
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere/host.sock")
    assert " at unix:///nowhere/host.sock" in refuse().what


def test_a_context_that_is_not_there_or_broken_is_told(
    settings: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_CONTEXT", "absent")
    assert refuse().what == "no Docker context 'absent'"
    write_context(settings, "absent", "unix:///nowhere/one.sock")
    (meta,) = settings.rglob("meta.json")
    meta.write_text("{")
    assert refuse().what.startswith("cannot find the address of Docker's daemon: ")


def chunked(*pieces: bytes, whole: bool = True) -> bytes:
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    body = b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces)
    return head + body + (b"0\r\n\r\n" if whole else b"")


@pytest.mark.parametrize(
    ("stream", "words"),
    [
        (chunked(b'{"status": "a"}', b'{"error": "no space left"}'), "no space left"),
        (chunked(b'{"status": "a"}', whole=False), "cannot pull the image"),
        (chunked(b'{"status": "a"}'), "lost the image after fetching it"),
        (http(500, b'{"message": "refused"}'), "refused"),
    ],
)
def test_what_goes_wrong_in_the_middle_of_a_transfer_is_told(
    answers: dict[str, bytes], tmp_path: Path, stream: bytes, words: str
) -> None:
    answers["/images/create"] = stream
    image = replace(make_image(), pinned=f"127.0.0.1:1/x@{make_image().manifest_digest}")
    with pytest.raises(CannotRunError, match=words):
        Docker().prepare(image, cache=tmp_path)


def test_a_daemon_of_another_machine_is_refused(answers: dict[str, bytes], tmp_path: Path) -> None:
    image = make_image()
    facts = {
        "Id": str(image.config_digest),
        "RepoDigests": [f"x@{image.manifest_digest}"],
        "RootFS": {"Layers": [str(layer.diff_id) for layer in image.layers]},
    }
    answers["/json"] = http(200, json.dumps(facts).encode())
    answers["/_ping"] = http(200, b"OK")
    refusal = b'{"message": "bind source path does not exist: /x"}'
    for created in (http(400, refusal), http(201, b'{"Id": "x", "Warnings": []}')):
        answers["/containers/create"] = created
        with pytest.raises(CannotRunError, match="cannot see this machine's files") as caught:
            Docker().prepare(image, cache=tmp_path)
        assert caught.value.advice == "run capsule on the machine of the daemon"


def test_a_folder_that_the_daemon_cannot_enter_is_told(
    answers: dict[str, bytes], tmp_path: Path
) -> None:
    engine = Engine(runtime=Docker(), prepared=Prepared(handle="x"))
    wanted = invocation(engine, tmp_path, "true")
    answers["/info"] = http(200, b"{}")
    answers["/_ping"] = http(200, b"OK")
    for said, advice in (("bind source path does not exist", True), ("no space", False)):
        refusal = json.dumps({"message": f"{said}: {tmp_path}/out"}).encode()
        answers["/containers/create"] = http(400, refusal)
        ended = start(engine, wanted).wait(0)
        assert ended is not None
        assert f"{said}: {tmp_path}/out" in str(ended.engine_fault)
        assert (f"Docker's daemon cannot enter {tmp_path}" in str(ended.engine_fault)) is advice
        assert ("Name a run folder on a local disk" in str(ended.engine_fault)) is advice


@pytest.fixture(scope="session")
def image() -> Image:
    return small()


def prepare(image: Image, folder: Path) -> Engine:
    runtime = Docker()
    return Engine(runtime=runtime, prepared=runtime.prepare(image, cache=folder))


WAITING = "import time; print('begun', flush=True); time.sleep(600)"


@pytest.mark.engines
@pytest.mark.parametrize("end", ["freeze", "slam"])
def test_a_daemon_that_ends_or_freezes_in_the_middle_of_a_trial_is_told(
    image: Image, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: str
) -> None:
    label = f"{end}-{os.getpid()}"
    try:
        with stand_before(tmp_path) as (address, door), monkeypatch.context() as patch:
            patch.setenv("DOCKER_HOST", address)
            running = start_waiting(image, tmp_path, label, patch)
            getattr(door, end)()
            ended = running.wait(PATIENCE_SECONDS)
            in_time(running.stop)
        assert ended is not None
        assert "Docker lost the container: " in str(ended.engine_fault)
        assert (tmp_path / "stdout").read_text() == "begun\n"
    finally:
        assert Docker().reap(label) == 1


@pytest.mark.engines
def test_a_daemon_that_freezes_does_not_hold_up_a_stop(
    image: Image, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    label = f"stop-frozen-{os.getpid()}"
    try:
        with stand_before(tmp_path) as (address, door), monkeypatch.context() as patch:
            patch.setenv("DOCKER_HOST", address)
            running = start_waiting(image, tmp_path, label, patch)
            door.freeze()
            in_time(running.stop)
            ended = running.wait(0)
        assert ended is not None
        assert "does not answer" in str(ended.engine_fault)
    finally:
        assert Docker().reap(label) == 1


def start_waiting(image: Image, folder: Path, label: str, patch: pytest.MonkeyPatch) -> Running:
    """Start what never ends, by a daemon of which one soon asks whether it lives."""
    engine = prepare(image, folder)
    patch.setattr(daemon, "PROMPT_SECONDS", 1)
    patch.setattr(process, "STOP_SECONDS", 1)
    running = start(engine, invocation(engine, folder, "python3", "-c", WAITING, label=label))
    read_lines(folder / "stdout")
    return running


@pytest.mark.engines
def test_over_tls_all_runs_but_what_reads_its_standard_input(
    image: Image, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    certify(tmp_path)
    with stand_before_over_tcp(tmp_path) as (address, _):
        monkeypatch.setenv("DOCKER_HOST", address)
        monkeypatch.setenv("DOCKER_TLS_VERIFY", "1")
        monkeypatch.setenv("DOCKER_CERT_PATH", str(tmp_path))
        engine = prepare(image, tmp_path)
        program = "import sys; sys.stdout.write('x' * 3_000_000); sys.stderr.write('y' * 3_000_000)"
        assert python(engine, tmp_path, program) == Ended(exit_code=0, signal=None)
        for name in ("stdout", "stderr"):
            assert (tmp_path / name).stat().st_size == 3_000_000
        (tmp_path / "in").write_text("x")
        with pytest.raises(CannotRunError, match="does not work with a Docker daemon over TLS"):
            python(engine, tmp_path, "pass", stdin=tmp_path / "in")
        monkeypatch.setenv("DOCKER_CERT_PATH", str(tmp_path / "none"))
        assert refuse().what.startswith("cannot find the address of Docker's daemon: ")
        monkeypatch.setenv("DOCKER_TLS_VERIFY", "")
        assert refuse().what.startswith("no Docker daemon answers at ")


@pytest.mark.engines
def test_a_daemon_on_a_port_of_this_machine_runs_what_reads(
    image: Image, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with stand_before_over_tcp() as (address, _):
        monkeypatch.setenv("DOCKER_HOST", address)
        engine = prepare(image, tmp_path)
        (tmp_path / "in").write_text("told\n")
        ended = python(engine, tmp_path, "print(input())", stdin=tmp_path / "in")
    assert ended == Ended(exit_code=0, signal=None)
    assert (tmp_path / "stdout").read_text() == "told\n"


@pytest.mark.engines
@pytest.mark.parametrize("starts", [5, pytest.param(100, marks=pytest.mark.long)])
def test_no_byte_of_the_shortest_program_is_lost(image: Image, tmp_path: Path, starts: int) -> None:
    engine = prepare(image, tmp_path)
    for _ in range(starts):
        assert run(engine, tmp_path, "echo", "x") == Ended(exit_code=0, signal=None)
    assert (tmp_path / "stdout").read_text() == "x\n" * starts


@pytest.mark.engines
def test_a_program_that_closes_its_output_is_waited_for(
    image: Image, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "STOP_SECONDS", 1)
    program = "import os, sys, time; os.close(1); os.close(2); time.sleep(3); os._exit(7)"
    assert python(prepare(image, tmp_path), tmp_path, program) == Ended(exit_code=7, signal=None)


@pytest.mark.engines
def test_output_that_finds_no_room_is_told(image: Image, tmp_path: Path) -> None:
    (tmp_path / "stdout").symlink_to("/dev/full")
    ended = python(prepare(image, tmp_path), tmp_path, "print('x')")
    assert ended.engine_fault == (
        "Docker lost the container: cannot read the output: No space left on device"
    )


SHARED = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2
TEMPORARY = "rw,exec,nosuid,nodev,mode=1777"
# what Docker's own client made of the same wish before capsule asked the daemon itself; every
# other field is the engine's default
ALWAYS = {
    "CapDrop": ["ALL"],
    "Init": True,
    "LogConfig": {"Type": "none", "Config": {}},
    "NetworkMode": "none",
    "ReadonlyRootfs": True,
    "RestartPolicy": {"Name": "no", "MaximumRetryCount": 0},
    "SecurityOpt": ["no-new-privileges"],
    "ShmSize": SHARED,
    "Tmpfs": {"/tmp": TEMPORARY, "/var/tmp": TEMPORARY},
}
PROXIES = [f"{kind}_proxy" for kind in ("http", "https", "ftp", "no", "all")]


@pytest.mark.engines
def test_a_container_is_made_of_what_is_pinned_here(
    image: Image, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = tmp_path / "settings"
    settings.mkdir()
    proxies = {f"{kind}Proxy": "http://proxy.example:1" for kind in ("http", "https", "no")}
    (settings / "config.json").write_text(
        json.dumps({"proxies": {"default": proxies}, "detachKeys": "ctrl-no"})
    )
    monkeypatch.setenv("DOCKER_CONFIG", str(settings))
    odd = tmp_path / "odd, name: 'x' \"q\" ="
    odd.mkdir()
    (tmp_path / "in").write_text("x")
    engine = prepare(image, tmp_path)
    plain = invocation(engine, tmp_path, "true", "a b", "", environment={"ODD": "a\"b'c $X;\n\t"})
    data = Mount(source=odd, target="/data/odd, 'n': x")
    out = {"Type": "bind", "Source": str(tmp_path / "out"), "Target": "/out"}
    wishes: dict[str, tuple[Prepared, Invocation, dict[str, object]]] = {
        "plain": (engine.prepared, plain, {}),
        "binds": (
            replace(engine.prepared, binds=(Mount(source=odd, target="/site"),)),
            replace(plain, mounts=(*plain.mounts, data)),
            {
                "Mounts": [
                    {"Type": "bind", "Source": str(odd), "Target": "/site", "ReadOnly": True},
                    out,
                    {"Type": "bind", "Source": str(odd), "Target": data.target, "ReadOnly": True},
                ]
            },
        ),
        "limits": (
            engine.prepared,
            replace(plain, pids=77, memory=128 << 20),
            {"PidsLimit": 77, "Memory": 128 << 20, "MemorySwap": 128 << 20},
        ),
        "network": (engine.prepared, replace(plain, network=True), {"NetworkMode": "default"}),
        "open": (replace(engine.prepared, open_network="x"), plain, {"NetworkMode": "host"}),
        "devices": (
            engine.prepared,
            replace(plain, devices=("0", "GPU-1")),
            {
                "DeviceRequests": [
                    {
                        "Driver": "",
                        "Count": 0,
                        "DeviceIDs": ["0", "GPU-1"],
                        "Capabilities": [["gpu"]],
                        "Options": {},
                    }
                ]
            },
        ),
    }
    default = describe(
        docker("create", "--network", "none", small_image().removeprefix("docker://"))
    )
    for name, (prepared, wish, more) in wishes.items():
        made = create(prepared, wish)
        expected = {**default["HostConfig"], **ALWAYS, "Mounts": [out], **more}
        assert filled(made["HostConfig"]) == filled(expected), name
        config = made["Config"]
        assert config["Entrypoint"] == ["true"]
        assert config["Cmd"] == ["a b", ""]
        assert config["User"] == f"{os.getuid()}:{os.getgid()}"
        assert config["WorkingDir"] == "/out"
        assert config["Labels"]["org.capsule.run"] == LABEL
        assert {"HOME=/out", f"CAPSULE_RUN={LABEL}", "ODD=a\"b'c $X;\n\t"} < set(config["Env"])
        # without a value: taken away from what the image sets
        assert {*PROXIES, *map(str.upper, PROXIES)} < set(config["Env"])
        assert (config["OpenStdin"], config["AttachStdin"], config["Tty"]) == (False, False, False)
    reading = create(engine.prepared, replace(plain, stdin=tmp_path / "in"))
    assert all(reading["Config"][name] for name in ("OpenStdin", "StdinOnce", "AttachStdin"))


def create(prepared: Prepared, wish: Invocation) -> dict[str, dict[str, Any]]:
    """A container as it is before its start."""
    name = f"capsule-test-{os.getpid()}"
    Docker()._create(name, prepared, wish, held=wish.memory is not None)
    return describe(name)


def describe(name: str) -> dict[str, dict[str, Any]]:
    """What the engine knows of a container, which is removed."""
    described: dict[str, dict[str, Any]] = json.loads(docker("inspect", name))[0]
    docker("rm", "--volumes", name)
    return described


def filled(fields: dict[str, Any]) -> dict[str, Any]:
    """Those that hold something: the engine's own programs write nothing in several ways."""
    return {name: field for name, field in fields.items() if field}
