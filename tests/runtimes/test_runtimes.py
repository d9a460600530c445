"""runtimes: one behaviour, whatever starts the image."""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from capsule import process, runtimes
from capsule.errors import CannotRunError, UsageError
from capsule.image import Image
from capsule.runtimes.base import Ended, Mount
from capsule.runtimes.docker import Docker
from capsule.runtimes.host import Host
from tests.support.engines import own_engine_cache
from tests.support.patience import PATIENCE_SECONDS, read_lines, until
from tests.support.records import make_image
from tests.support.runtimes import LABEL, Engine, invocation, python, run, small, start


@pytest.fixture(scope="session")
def image() -> Image:
    return small()


@pytest.fixture(scope="session")
def sif_cache() -> Path:
    """A cache that outlives the tests."""
    return own_engine_cache()


@pytest.fixture(
    scope="module",
    params=[
        "host",
        pytest.param("apptainer", marks=pytest.mark.engines),
        pytest.param("docker", marks=pytest.mark.engines),
        pytest.param("podman", marks=pytest.mark.engines),
    ],
)
def engine(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Engine:
    """Made ready once, as for all starts of a run."""
    cache = tmp_path_factory.mktemp("cache")
    runtime = runtimes.choose(request.param, needs_image=request.param != "host")
    if not runtime.contained:
        return Engine(runtime=runtime, prepared=runtime.prepare(None, cache=cache))
    image = request.getfixturevalue("image")
    if request.param == "apptainer":
        cache = request.getfixturevalue("sif_cache")
    return Engine(runtime=runtime, prepared=runtime.prepare(image, cache=cache))


def left(label: str) -> list[object]:
    """Processes and, where Docker is there, containers of a label."""
    leftovers: list[object] = [*process.find_marked(label)]
    for program in filter(shutil.which, ("docker", "podman")):
        if program == "docker" and not os.environ.get("DOCKER_HOST"):
            continue
        answer = process.run(
            [program, "ps", "--all", "--quiet", "--filter", f"label=org.capsule.run={label}"],
            timeout_seconds=PATIENCE_SECONDS,
        )
        assert answer.exit_code == 0, answer.stderr
        leftovers += answer.stdout.split()
    return leftovers


def test_the_command_runs_in_its_folder_and_its_streams_are_kept_apart(
    engine: Engine, tmp_path: Path
) -> None:
    program = (
        "import sys; open('made', 'w').write('yes'); print('one'); print('two', file=sys.stderr)"
    )
    for _ in range(2):
        assert python(engine, tmp_path, program) == Ended(exit_code=0, signal=None)
    assert (tmp_path / "stdout").read_text() == "one\none\n"
    assert (tmp_path / "stderr").read_text() == "two\ntwo\n"
    assert (tmp_path / "out/made").stat().st_uid == os.getuid()


def test_standard_input_is_a_file_to_its_end_or_nothing(engine: Engine, tmp_path: Path) -> None:
    program = "import hashlib, sys; print(hashlib.sha256(sys.stdin.buffer.read()).hexdigest())"
    # with the bytes that detach a terminal, and more than a pipe holds
    content = b"\x10\x11\x04\x1a\n" * 100_000
    (tmp_path / "in").write_bytes(content)
    assert python(engine, tmp_path, program, stdin=tmp_path / "in").exit_code == 0
    assert python(engine, tmp_path, program).exit_code == 0
    # a program that does not read it ends all the same
    assert python(engine, tmp_path, "pass", stdin=tmp_path / "in").exit_code == 0
    digests = (tmp_path / "stdout").read_text().split()
    assert digests == [hashlib.sha256(data).hexdigest() for data in (content, b"")]


def test_standard_input_is_no_link(engine: Engine, tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "in").symlink_to(tmp_path / "secret")
    ended = python(engine, tmp_path, "print(input())", stdin=tmp_path / "in")
    assert "standard input" in str(ended.engine_fault)
    assert left(LABEL) == []


# those of engines themselves are tried again where a program talks like one, below
@pytest.mark.parametrize(
    "code", [1, 125, *(pytest.param(code, marks=pytest.mark.long) for code in (7, 126, 127, 255))]
)
def test_an_exit_code_is_the_programs_own(engine: Engine, tmp_path: Path, code: int) -> None:
    assert python(engine, tmp_path, f"raise SystemExit({code})") == Ended(
        exit_code=code, signal=None
    )


@pytest.mark.parametrize("number", [pytest.param(6, marks=pytest.mark.long), 9, 11])
def test_a_signal_is_told_as_a_signal(engine: Engine, tmp_path: Path, number: int) -> None:
    program = f"import os; os.kill(os.getpid(), {number})"
    assert python(engine, tmp_path, f"{program}; import time; time.sleep(600)") == Ended(
        exit_code=None, signal=number
    )


def test_the_environment_arrives_byte_for_byte_and_nothing_leaks_in(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CAPSULE_LEAK", "1")
    monkeypatch.setenv("APPTAINERENV_LEAK", "1")
    monkeypatch.setenv("APPTAINER_BIND", "/etc:/leak")
    odd = {
        "ODD": "a\"b'c $HOME ${PATH} `id` $(id) \\ , ; = é\nnext line\t",
        "EMPTY": "",
        "OMP_NUM_THREADS": "2",
    }
    program = "import json, os; print(json.dumps([dict(os.environ), os.path.exists('/leak')]))"
    assert python(engine, tmp_path, program, environment=odd).exit_code == 0
    variables, leaked = json.loads((tmp_path / "stdout").read_text())
    assert {name: variables[name] for name in odd} == odd
    assert variables["CAPSULE_RUN"] == LABEL
    assert variables["HOME"] == ("/out" if engine.runtime.contained else str(tmp_path / "out"))
    assert not [name for name in variables if "LEAK" in name]
    assert not leaked


def test_nothing_of_the_machine_and_its_settings_shows_inside(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not engine.runtime.contained:
        pytest.skip("the host runtime contains nothing")
    proxies = {f"{kind}Proxy": "http://proxy.example:1" for kind in ("http", "https", "ftp", "no")}
    settings = tmp_path / "settings/config.json"
    settings.parent.mkdir()
    settings.write_text(json.dumps({"proxies": {"default": proxies}}))
    monkeypatch.setenv("DOCKER_CONFIG", str(settings.parent))
    for name in ("http_proxy", "HTTPS_PROXY", "no_proxy"):
        monkeypatch.setenv(name, "proxy.example")
    program = (
        "import os, socket\n"
        "print([name for name in os.environ if 'proxy' in name.lower()])\n"
        "print(open('/etc/hosts').read(), socket.gethostbyname('localhost'))\n"
    )
    assert python(engine, tmp_path, program) == Ended(exit_code=0, signal=None)
    proxied, *hosts = (tmp_path / "stdout").read_text().splitlines()
    assert proxied == "[]"
    assert hosts[-1].split() == ["127.0.0.1"]
    assert socket.gethostname() not in " ".join(hosts).split()


def test_arguments_arrive_byte_for_byte(engine: Engine, tmp_path: Path) -> None:
    words = ("", "a b", "$HOME", "`id`", "--flag=x", "'\"", "é\n", "*")
    program = "import json, sys; print(json.dumps(sys.argv[1:]))"
    assert run(engine, tmp_path, "python3", "-c", program, *words).exit_code == 0
    assert json.loads((tmp_path / "stdout").read_text()) == list(words)


def test_data_can_be_read_and_not_written(engine: Engine, tmp_path: Path) -> None:
    if not engine.runtime.contained:
        pytest.skip("the host runtime contains nothing")
    source = tmp_path / "odd, name: 'x'"
    source.mkdir()
    (source / "file").write_text("bytes")
    data = Mount(source=source, target="/capsule/data/set")
    program = (
        "import os\n"
        "print(open('/capsule/data/set/file').read())\n"
        "for path in ('/capsule/data/set/file', '/capsule/data/set/new', '/usr/new', '/new'):\n"
        "    try: open(path, 'a').write('x')\n"
        "    except OSError: print('refused')\n"
    )
    assert python(engine, tmp_path, program, mounts=(data,)).exit_code == 0
    assert (tmp_path / "stdout").read_text().split() == ["bytes", *["refused"] * 4]
    assert [path.name for path in source.iterdir()] == ["file"]


def test_temporary_folders_can_be_written(engine: Engine, tmp_path: Path) -> None:
    program = "import tempfile; tempfile.NamedTemporaryFile().write(b'x'); print('yes')"
    assert python(engine, tmp_path, program).exit_code == 0
    assert (tmp_path / "stdout").read_text() == "yes\n"


def test_there_is_no_network_inside(engine: Engine, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        program = f"import socket; socket.create_connection(('127.0.0.1', {port}), 5)"
        ended = python(engine, tmp_path, program)
    if engine.runtime.contained:
        assert ended == Ended(exit_code=1, signal=None)
        assert engine.prepared.observations["network_isolation"] == "isolated"
    else:
        assert ended == Ended(exit_code=0, signal=None)
        assert engine.prepared.observations["network_isolation"].startswith("none")


@pytest.mark.parametrize("command", ["no-such-command", "/etc/passwd"])
def test_a_command_that_cannot_start_is_an_engine_fault(
    engine: Engine, tmp_path: Path, command: str
) -> None:
    ended = run(engine, tmp_path, command, "word")
    assert ended.engine_fault
    assert command in ended.engine_fault
    # the engine is well, and no second start can help
    assert ended.lacks_program
    assert left(LABEL) == []


def test_a_mount_that_is_not_there_is_an_engine_fault(engine: Engine, tmp_path: Path) -> None:
    missing = Mount(source=tmp_path / "nothing-here", target="/capsule/data/x")
    ended = run(engine, tmp_path, "true", mounts=(missing,))
    assert ended.engine_fault
    assert "nothing-here" in ended.engine_fault
    assert not ended.lacks_program


def test_a_program_that_talks_like_the_engine_is_no_engine_fault(
    engine: Engine, tmp_path: Path
) -> None:
    for code in (3, 126, 127, 255):
        program = f"import sys; print('FATAL: [FATAL tini (7)]', file=sys.stderr); sys.exit({code})"
        assert python(engine, tmp_path, program) == Ended(exit_code=code, signal=None)


def test_a_program_cannot_undo_that_it_was_started(engine: Engine, tmp_path: Path) -> None:
    program = (
        "import os, sys\n"
        "for note in ('/capsule/arrival', 'arrival', '../arrival'):\n"
        "    try: open(note, 'w').close(); os.utime(note, (0, 0)); os.unlink(note)\n"
        "    except OSError: pass\n"
        "print('FATAL: no such image', file=sys.stderr); sys.exit(255)"
    )
    assert python(engine, tmp_path, program) == Ended(exit_code=255, signal=None)


def test_a_lot_of_output_arrives_whole(engine: Engine, tmp_path: Path) -> None:
    program = "import sys; sys.stdout.write('x' * 3_000_000); sys.stderr.write('y' * 3_000_000)"
    assert python(engine, tmp_path, program) == Ended(exit_code=0, signal=None)
    assert (tmp_path / "stdout").stat().st_size == (tmp_path / "stderr").stat().st_size == 3_000_000


FAMILY = (
    "import os, signal, subprocess, sys, time\n"
    "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    "subprocess.Popen(['sleep', '600'])\n"
    "subprocess.Popen(['sleep', '600'], start_new_session=True)\n"
    "open('ready', 'w').write('yes\\n')\n"
    "time.sleep(600)\n"
)


def test_stop_leaves_nothing(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "STOP_SECONDS", 1)
    label = f"stop-{os.getpid()}"
    family = invocation(engine, tmp_path, "python3", "-c", FAMILY, label=label)
    running = start(engine, family)
    read_lines(tmp_path / "out/ready")
    assert running.wait(0) is None
    assert left(label)
    running.stop()
    assert left(label) == []
    ended = running.wait(0)
    assert ended is not None
    assert ended.signal == 9
    running.stop()


def test_stop_right_after_start_leaves_nothing(engine: Engine, tmp_path: Path) -> None:
    label = f"early-{os.getpid()}"
    running = start(engine, invocation(engine, tmp_path, "sleep", "600", label=label))
    running.stop()
    assert running.wait(0) is not None
    assert left(label) == []


DYING = """
import pickle, sys
from capsule import runtimes
name, prepared, invocation = pickle.load(open(sys.argv[1], "rb"))
runtimes.choose(name, needs_image=name != "host").start(prepared, invocation).wait(600)
"""


def test_reap_ends_what_a_killed_run_left(engine: Engine, tmp_path: Path) -> None:
    label = f"reap-{os.getpid()}"
    family = invocation(engine, tmp_path, "python3", "-c", FAMILY, label=label)
    dump = pickle.dumps((engine.runtime.name, engine.prepared, family))
    (tmp_path / "dump").write_bytes(dump)
    dead = subprocess.Popen(
        [sys.executable, "-c", DYING, str(tmp_path / "dump")],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    read_lines(tmp_path / "out/ready")
    dead.kill()
    dead.wait()
    assert left(label)
    assert engine.runtime.reap(f"{label}-other") == 0
    assert left(label)
    assert engine.runtime.reap(label) >= 1
    assert left(label) == []
    assert engine.runtime.reap(label) == 0


def test_a_docker_daemon_that_is_not_there_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    address = f"unix://{tmp_path}/docker.sock"
    monkeypatch.setenv("DOCKER_HOST", address)
    docker = runtimes.available_all()["docker"]
    assert not docker.usable
    assert address in docker.reason
    assert not Docker().keeps(make_image(), cache=tmp_path)
    with pytest.raises(CannotRunError, match=r"no Docker daemon answers"):
        runtimes.choose("docker", needs_image=True)


@pytest.mark.engines
def test_podman_behind_dockers_socket_is_not_taken_for_docker(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    address = f"unix://{tmp_path}/podman.sock"
    service = subprocess.Popen(["podman", "system", "service", "--time", "0", address])
    try:
        until((tmp_path / "podman.sock").exists, "the socket of Podman")
        monkeypatch.setenv("DOCKER_HOST", address)
        with pytest.raises(CannotRunError, match="Podman answers at"):
            runtimes.choose("docker", needs_image=True)
    finally:
        service.terminate()
        service.wait()


def test_without_an_engine_an_image_never_runs_on_the_host_by_itself(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/docker.sock")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(CannotRunError) as caught:
        runtimes.choose("auto", needs_image=True)
    assert "apptainer: " in caught.value.what
    assert "podman: podman is not on the PATH" in caught.value.what
    assert f"docker: no Docker daemon answers at unix://{tmp_path}/docker.sock" in caught.value.what
    assert "--runtime host" in str(caught.value.advice)
    assert runtimes.choose("auto", needs_image=False).name == "host"


def test_an_unknown_runtime_is_bad_usage() -> None:
    with pytest.raises(UsageError, match="podmen"):
        runtimes.choose("podmen", needs_image=False)


@pytest.mark.engines
def test_auto_prefers_apptainer() -> None:
    assert runtimes.choose("auto", needs_image=True).name == "apptainer"
    assert all(engine.usable and engine.version for engine in runtimes.available_all().values())


def test_host_finds_programs_as_the_caller_does_and_not_beside_its_own_interpreter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "python3").write_text("#!/bin/sh\necho mine\n")
    (folder / "python3").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    engine = Engine(runtime=Host(), prepared=Host().prepare(None, cache=tmp_path))
    assert python(engine, tmp_path, "").exit_code == 0
    assert (tmp_path / "stdout").read_text().strip() == "mine"
