"""Engines: images made, fetched and refused, and what each engine alone does."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from capsule import image as images
from capsule import process
from capsule.digest import Digest, of_bytes, of_file
from capsule.errors import CannotRunError, DamagedError
from capsule.image import Image, reference
from capsule.manifest import ImageSpec
from capsule.runtimes import local
from capsule.runtimes.apptainer import Apptainer
from capsule.runtimes.base import Ended, Runtime
from capsule.runtimes.containers import ContainerEngine
from capsule.runtimes.docker import Docker
from capsule.runtimes.podman import Podman
from tests.support.engines import docker, own_engine_cache, push_tiny, python_image, small_image
from tests.support.patience import PATIENCE_SECONDS, read_lines
from tests.support.runtimes import PREPARE, Engine, invocation, python, run, small, start

CONTAINERS = [Docker, Podman]


def find(runtime: ContainerEngine, label: str) -> str:
    """The one container of a label."""
    marked = f"label=org.capsule.run={label}"
    return call(runtime, "ps", "--quiet", "--filter", marked)


def call(runtime: ContainerEngine, *words: str) -> str:
    """What the engine's own program answers."""
    ended = process.run([runtime.name, *words], timeout_seconds=PATIENCE_SECONDS)
    assert ended.exit_code == 0, ended.stderr
    return ended.stdout.decode().strip()


@pytest.fixture(scope="session")
def image() -> Image:
    return small()


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What earlier tests made is not known here."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


@pytest.mark.engines
def test_where_a_site_refuses_isolated_networks_the_run_goes_on_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # a site's apptainer: the real one, behind a door that lets no --net through
    real = shutil.which("apptainer")
    door = tmp_path / "bin/apptainer"
    door.parent.mkdir()
    door.write_text(
        "#!/bin/sh\n"
        'case " $* " in *" --net "*) echo "FATAL:   network virtualization is not allowed" >&2;'
        " exit 255;; esac\n"
        f'exec "{real}" "$@"\n'
    )
    door.chmod(0o755)
    monkeypatch.setenv("PATH", f"{door.parent}{os.pathsep}{os.environ['PATH']}")
    prepared = Apptainer().prepare(push_tiny("one"), cache=tmp_path)
    isolation = prepared.observations["network_isolation"]
    assert isolation == "refused: network virtualization is not allowed"
    ended = run(Engine(runtime=Apptainer(), prepared=prepared), tmp_path, "nothing")
    assert ended.engine_fault
    assert "executable file not found" in ended.engine_fault


@pytest.mark.engines
@pytest.mark.parametrize("host", ["127.0.0.1:9", "registry.invalid"])
def test_a_registry_out_of_reach_is_told_as_such(image: Image, tmp_path: Path, host: str) -> None:
    away = replace(image, pinned=f"{host}/numpy@{image.manifest_digest}")
    with pytest.raises(CannotRunError, match="cannot pull the image") as caught:
        Apptainer().prepare(away, cache=tmp_path)
    assert caught.value.advice == (
        f"cannot reach {host}: check its name and port, and this machine's network"
    )


@pytest.mark.engines
@pytest.mark.skipif(os.geteuid() != 0, reason="only root makes a file system that is full")
def test_a_full_temporary_folder_is_told_as_such(
    image: Image, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    full = tmp_path / "full"
    full.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(full)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("this machine mounts nothing")
    monkeypatch.setenv("APPTAINER_TMPDIR", str(full))
    try:
        with pytest.raises(CannotRunError, match="no space left") as caught:
            Apptainer().prepare(image, cache=tmp_path)
    finally:
        subprocess.run(["umount", str(full)], check=True)
    assert caught.value.advice is not None
    assert "APPTAINER_TMPDIR" in caught.value.advice


@pytest.mark.engines
@pytest.mark.skipif(os.geteuid() != 0, reason="what others may not write, they may not write here")
@pytest.mark.parametrize("network", [False, True])
def test_a_workload_of_root_can_write_nothing_of_the_machine(
    image: Image, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, network: bool
) -> None:
    """Each file is opened to be written, and nothing is written; user 0 owns them all."""
    prepared = Apptainer().prepare(image, cache=own_engine_cache())
    assert "without capabilities" in prepared.observations["privileges"]
    engine = Engine(runtime=Apptainer(), prepared=prepared)
    hosts = ["/etc/hosts"] if network else []
    wanted = invocation(engine, tmp_path, "python3", "-c", OPEN_ALL, *hosts)
    ended = start(engine, replace(wanted, network=network)).wait(PATIENCE_SECONDS)
    assert ended == Ended(exit_code=0, signal=None)
    assert (tmp_path / "stdout").read_text() == ""


@pytest.mark.engines
@pytest.mark.parametrize("make", CONTAINERS)
def test_a_kill_for_want_of_memory_is_told(
    image: Image, tmp_path: Path, make: Callable[[], ContainerEngine]
) -> None:
    label = f"memory-{os.getpid()}"
    runtime = make()
    engine = Engine(runtime=runtime, prepared=runtime.prepare(image, cache=tmp_path))
    program = (
        "import os, time\nopen('ready', 'w').write('yes\\n')\n"
        "while not os.path.exists('go'): time.sleep(0.02)\nbytearray(400 << 20)\n"
    )
    running = start(engine, invocation(engine, tmp_path, "python3", "-c", program, label=label))
    read_lines(tmp_path / "out/ready")
    call(runtime, "update", "--memory", "64m", "--memory-swap", "64m", find(runtime, label))
    (tmp_path / "out/go").touch()
    assert running.wait(PATIENCE_SECONDS) == Ended(exit_code=None, signal=9, out_of_memory=True)


@pytest.mark.engines
@pytest.mark.parametrize("make", CONTAINERS)
def test_a_container_is_held_to_its_memory_or_watched(
    image: Image, tmp_path: Path, make: Callable[[], ContainerEngine]
) -> None:
    runtime = make()
    engine = Engine(runtime=runtime, prepared=runtime.prepare(image, cache=tmp_path))
    program = (
        "import os, time\nkept = bytearray(b'x') * (32 << 20)\nopen('ready', 'w').write('yes\\n')\n"
        "while not os.path.exists('go'): time.sleep(0.02)\nmore = bytearray(b'x') * (400 << 20)\n"
    )
    wanted = invocation(engine, tmp_path, "python3", "-c", program)
    running = start(engine, replace(wanted, memory=128 << 20))
    read_lines(tmp_path / "out/ready")
    if runtime.limits_memory():
        assert running.memory_bytes(128 << 20) == 0
        (tmp_path / "out/go").touch()
        ended = running.wait(PATIENCE_SECONDS)
        assert ended == Ended(exit_code=None, signal=9, out_of_memory=True)
        assert ended is not None
        assert "128.0 MiB that --memory allows" in ended.memory
    else:
        assert 32 << 20 < running.memory_bytes(128 << 20) < 128 << 20
        running.stop()


@pytest.mark.engines
@pytest.mark.parametrize("make", CONTAINERS)
def test_a_container_that_somebody_removed_is_told(
    image: Image, tmp_path: Path, make: Callable[[], ContainerEngine]
) -> None:
    label = f"removed-{os.getpid()}"
    runtime = make()
    engine = Engine(runtime=runtime, prepared=runtime.prepare(image, cache=tmp_path))
    program = "import time; open('ready', 'w').write('yes\\n'); time.sleep(600)"
    running = start(engine, invocation(engine, tmp_path, "python3", "-c", program, label=label))
    read_lines(tmp_path / "out/ready")
    call(runtime, "rm", "--force", find(runtime, label))
    ended = running.wait(PATIENCE_SECONDS)
    assert ended is not None
    assert ended.signal == 9 or (ended.engine_fault and "lost the container" in ended.engine_fault)


@pytest.mark.engines
def test_a_client_that_somebody_ended_leaves_no_container(
    image: Image, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process, "STOP_SECONDS", 1)
    label = f"client-{os.getpid()}"
    runtime = Podman()
    engine = Engine(runtime=runtime, prepared=runtime.prepare(image, cache=tmp_path))
    program = "import time; open('ready', 'w').write('yes\\n'); time.sleep(600)"
    running = start(engine, invocation(engine, tmp_path, "python3", "-c", program, label=label))
    read_lines(tmp_path / "out/ready")
    (client,) = (
        pid
        for pid in process.find_marked(label)
        if Path(f"/proc/{pid}/cmdline").read_bytes().startswith(b"podman\0start")
    )
    os.kill(client, signal.SIGKILL)
    ended = running.wait(PATIENCE_SECONDS)
    assert ended is not None
    assert "lost the container" in str(ended.engine_fault)
    assert runtime.reap(label) == 0


@pytest.mark.engines
@pytest.mark.parametrize("make", CONTAINERS)
def test_processes_and_threads_are_counted_and_limited(
    image: Image, tmp_path: Path, make: Callable[[], ContainerEngine]
) -> None:
    runtime = make()
    engine = Engine(runtime=runtime, prepared=runtime.prepare(image, cache=tmp_path))
    wanted = invocation(engine, tmp_path, "python3", "-c", CROWD)
    running = start(engine, replace(wanted, pids=40))
    read_lines(tmp_path / "out/ready")
    # the first process of the container, the program, and what it could start
    assert 30 < running.tasks() <= 40
    (tmp_path / "out/go").touch()
    assert running.wait(PATIENCE_SECONDS) == Ended(exit_code=1, signal=None, out_of_tasks=True)


@pytest.mark.engines
@pytest.mark.parametrize("make", CONTAINERS)
def test_an_image_that_was_built_here_runs(
    tmp_path: Path, make: Callable[[], ContainerEngine]
) -> None:
    named = reference.parse(python_image())
    assert named.digest is not None
    base = named.pin(named.digest)
    docker("pull", base)
    recipe = dockerfile(tmp_path, f"FROM {base}\nENV BUILT=here\n")
    prepared = make().prepare(build(recipe), cache=tmp_path)
    engine = Engine(runtime=make(), prepared=prepared)
    assert python(engine, tmp_path, "import os; print(os.environ['BUILT'])").exit_code == 0
    assert (tmp_path / "stdout").read_text() == "here\n"


@pytest.mark.engines
def test_apptainer_takes_an_image_that_was_built_here(tmp_path: Path) -> None:
    built = build(dockerfile(tmp_path, "FROM scratch\nCOPY Dockerfile /content\n"))
    prepared = Apptainer().prepare(built, cache=tmp_path)
    (sif,) = (tmp_path / "sif").glob(f"{built.identity.digest.hex}-*.sif")
    assert prepared.handle == str(sif)
    ended = run(Engine(runtime=Apptainer(), prepared=prepared), tmp_path, "/content")
    # it is there, and is no program
    assert ended.engine_fault
    assert "permission denied" in ended.engine_fault


# half of them in sessions of their own, which forget that they were started by it
CROWD = """
import os, subprocess, sys, time
fault = None
try:
    for number in range(60):
        alone, path = number % 2 == 0, os.environ["PATH"]
        subprocess.Popen(["sleep", "600"], start_new_session=alone, env={"PATH": path})
except OSError as error:
    fault = error
open("ready", "w").write("yes\\n")
while not os.path.exists("go"):
    time.sleep(0.02)
sys.exit(str(fault))
"""

OPEN_ALL = """
import os, stat, sys
paths = ["/etc/localtime", *sys.argv[1:]]
for top in ("/proc", "/sys"):
    for folder, folders, files in os.walk(top):
        if folder == "/proc":
            folders[:] = [name for name in folders if not name.isdigit()]
        paths += [os.path.join(folder, name) for name in files]
assert "/proc/sys/kernel/core_pattern" in paths
assert any(path.startswith("/sys/devices/system/cpu") for path in paths)
for path in paths:
    try:
        if stat.S_ISREG(os.stat(path).st_mode):
            os.close(os.open(path, os.O_WRONLY | os.O_NONBLOCK))
            print(path)
    except OSError:
        pass
"""


def build(recipe: Path) -> Image:
    """An image that Docker alone has."""
    docker("build", "--quiet", "--tag", "capsule-test/built", str(recipe))
    spec = ImageSpec(reference="docker-daemon:capsule-test/built")
    return images.resolve(spec, folder=None, engines=local.find)


def dockerfile(folder: Path, text: str) -> Path:
    recipe = folder / "recipe"
    recipe.mkdir()
    (recipe / "Dockerfile").write_text(text)
    (recipe / "Dockerfile").chmod(0o644)
    return recipe


def sif_name(image: Image, sif: Digest) -> str:
    assert image.manifest_digest is not None
    return f"{image.manifest_digest.hex}-{sif.hex}.sif"


@pytest.mark.engines
def test_a_sif_is_named_by_its_digest_and_a_damaged_one_is_replaced(tmp_path: Path) -> None:
    runtime, tiny = Apptainer(), push_tiny("one")
    prepared = runtime.prepare(tiny, cache=tmp_path)
    sif = Path(prepared.handle)
    assert sif == tmp_path / "sif" / sif_name(tiny, of_file(sif))
    assert list(sif.parent.glob("*.sif")) == [sif]
    assert prepared.observations["sif_sha256"] == of_file(sif).hex
    assert "apptainer" in prepared.observations["version"].lower()
    made = sif.stat().st_ino
    assert Path(runtime.prepare(tiny, cache=tmp_path).handle).stat().st_ino == made
    sif.write_bytes(b"not an image")
    again = Path(runtime.prepare(tiny, cache=tmp_path).handle)
    assert again.read_bytes().startswith(b"#!")
    assert list(sif.parent.glob("*.sif")) == [again]


@pytest.mark.engines
@pytest.mark.parametrize("from_byte", [0, 1 << 15])
def test_a_sif_that_somebody_changed_is_made_again(tmp_path: Path, from_byte: int) -> None:
    """From some byte on, too: the labels, which name the image, come before its files."""
    tiny = push_tiny("one")
    sif = Path(Apptainer().prepare(tiny, cache=tmp_path).handle)
    with sif.open("r+b") as stream:
        stream.seek(from_byte)
        stream.write(bytes(sif.stat().st_size - from_byte))
    changed = of_file(sif)
    prepared = Apptainer().prepare(tiny, cache=tmp_path)
    made = of_file(Path(prepared.handle))
    assert prepared.observations["sif_sha256"] == made.hex != changed.hex


@pytest.mark.engines
def test_a_sif_of_another_image_is_not_taken_for_this_one(tmp_path: Path) -> None:
    runtime, one, two = Apptainer(), push_tiny("one"), push_tiny("two")
    first = Path(runtime.prepare(one, cache=tmp_path).handle)
    planted = first.with_name(sif_name(two, of_bytes(b"two")))
    planted.write_bytes(first.read_bytes())
    prepared = runtime.prepare(two, cache=tmp_path)
    assert of_file(Path(prepared.handle)) != of_file(first)
    assert not planted.exists()


@pytest.mark.engines
def test_two_runs_may_fetch_one_image_at_once(tmp_path: Path) -> None:
    argv = [sys.executable, "-c", f"{PREPARE}\nprint(prepared.handle)"]
    words = [f"docker://{push_tiny('one').pinned}", str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    fetchers = [
        subprocess.Popen([*argv, *words], env=environment, stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    handles = {running.communicate(timeout=PATIENCE_SECONDS)[0].strip() for running in fetchers}
    assert [ended.returncode for ended in fetchers] == [0, 0]
    assert {str(path) for path in (tmp_path / "sif").glob("*.sif")} == handles
    assert len(handles) == 1


@pytest.mark.engines
@pytest.mark.parametrize("make", [Apptainer, Docker, Podman])
def test_an_image_that_is_gone_from_its_registry_cannot_run(
    make: Callable[[], Runtime], image: Image, tmp_path: Path
) -> None:
    gone = of_bytes(b"gone")
    pinned = reference.parse(small_image()).pin(gone)
    missing = replace(image, pinned=pinned, manifest_digest=gone)
    with pytest.raises(CannotRunError, match="cannot p"):
        make().prepare(missing, cache=tmp_path / "cache")
    left = (path for path in (tmp_path / "cache").rglob("*") if path.is_file())
    assert [path for path in left if path.suffix != ".lock"] == []


@pytest.mark.engines
@pytest.mark.parametrize("make", CONTAINERS)
def test_an_image_whose_digests_do_not_belong_together_is_refused(
    image: Image, tmp_path: Path, make: Callable[[], ContainerEngine]
) -> None:
    other = of_bytes(b"other")
    with pytest.raises(DamagedError, match="another image"):
        make().prepare(replace(image, config_digest=other), cache=tmp_path)
    layers = (replace(image.layers[0], diff_id=other), *image.layers[1:])
    with pytest.raises(DamagedError, match="its layer 1 is"):
        make().prepare(replace(image, layers=layers), cache=tmp_path)
