"""runtimes: one behaviour, whatever starts the image."""

from __future__ import annotations

import json
import os
import pickle
import pwd
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from capsule import process, runtimes
from capsule.digest import of_bytes, of_file
from capsule.errors import CannotRunError, DamagedError, UsageError
from capsule.image import Image, build, reference, registry
from capsule.runtimes import gpus
from capsule.runtimes.apptainer import Apptainer
from capsule.runtimes.base import Ended, Invocation, Mount, Prepared, Running, Runtime
from capsule.runtimes.docker import Docker
from capsule.runtimes.host import Host
from tests.support.engines import as_user, docker, push_tiny, small_image

PREPARE = """
import sys
from pathlib import Path
from capsule.image import reference, registry
from capsule.runtimes.apptainer import Apptainer
image = registry.resolve(reference.parse(sys.argv[1]))
prepared = Apptainer().prepare(image, cache=Path(sys.argv[2]))
"""


@dataclass(frozen=True, kw_only=True)
class Engine:
    runtime: Runtime
    prepared: Prepared


@pytest.fixture(scope="session")
def image() -> Image:
    return registry.resolve(reference.parse(small_image()))


@pytest.fixture(scope="session")
def sif_cache() -> Iterator[Path]:
    """A cache that the ordinary user has filled, as on a cluster."""
    folder = Path(tempfile.mkdtemp(prefix="capsule-test-", dir="/var/tmp"))
    try:
        if os.getuid() == 0:
            account = pwd.getpwnam(os.environ["CAPSULE_TEST_USER"])
            os.chown(folder, account.pw_uid, account.pw_gid)
            as_user(PREPARE, small_image(), str(folder))
        yield folder
    finally:
        shutil.rmtree(folder)


@pytest.fixture(
    params=[
        "host",
        pytest.param("apptainer", marks=pytest.mark.engines),
        pytest.param("docker", marks=pytest.mark.engines),
    ]
)
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Engine:
    runtime = runtimes.choose(request.param, needs_image=request.param != "host")
    if not runtime.contained:
        return Engine(runtime=runtime, prepared=runtime.prepare(None, cache=tmp_path))
    image = request.getfixturevalue("image")
    cache = request.getfixturevalue("sif_cache") if request.param == "apptainer" else tmp_path
    return Engine(runtime=runtime, prepared=runtime.prepare(image, cache=cache))


def invocation(
    engine: Engine,
    folder: Path,
    *command: str,
    mounts: tuple[Mount, ...] = (),
    environment: dict[str, str] | None = None,
    label: str = "test-label",
) -> Invocation:
    out = Mount(source=folder / "out", target="/out", writable=True)
    out.source.mkdir(exist_ok=True)
    return Invocation(
        command=command,
        environment={"HOME": engine.runtime.inside(out), **(environment or {})},
        mounts=(out, *mounts),
        cwd=engine.runtime.inside(out),
        label=label,
        stdout=folder / "stdout",
        stderr=folder / "stderr",
    )


def start(engine: Engine, asked: Invocation) -> Running:
    return engine.runtime.start(engine.prepared, asked)


def run(engine: Engine, folder: Path, *command: str, **more) -> Ended:
    ended = start(engine, invocation(engine, folder, *command, **more)).wait(60)
    assert ended is not None
    return ended


def python(engine: Engine, folder: Path, program: str, **more) -> Ended:
    return run(engine, folder, "python3", "-c", program, **more)


def wait_for(path: Path) -> str:
    deadline = time.monotonic() + 60
    while not (path.exists() and path.read_text()):
        assert time.monotonic() < deadline, f"nothing in {path}"
        time.sleep(0.02)
    return path.read_text()


def left(label: str) -> list[object]:
    """Processes and, where Docker is there, containers of a label."""
    found: list[object] = list(process.find_marked(label))
    if shutil.which("docker") and os.environ.get("DOCKER_HOST"):
        answer = process.run(
            ["docker", "ps", "--all", "--quiet", "--filter", f"label=org.capsule.run={label}"]
        )
        assert answer.exit_code == 0, answer.stderr
        found += answer.stdout.split()
    return found


def test_the_command_runs_in_its_folder_and_its_streams_are_kept_apart(engine, tmp_path):
    program = (
        "import sys; open('made', 'w').write('yes'); print('one'); print('two', file=sys.stderr)"
    )
    for _ in range(2):
        assert python(engine, tmp_path, program) == Ended(exit_code=0, signal=None)
    assert (tmp_path / "stdout").read_text() == "one\none\n"
    assert (tmp_path / "stderr").read_text() == "two\ntwo\n"
    assert (tmp_path / "out/made").stat().st_uid == os.getuid()


@pytest.mark.parametrize("code", [1, 7, 125, 126, 127, 255])
def test_an_exit_code_is_the_programs_own(engine, tmp_path, code):
    assert python(engine, tmp_path, f"raise SystemExit({code})") == Ended(
        exit_code=code, signal=None
    )


@pytest.mark.parametrize("number", [6, 9, 11])
def test_a_signal_is_told_as_a_signal(engine, tmp_path, number):
    program = f"import os; os.kill(os.getpid(), {number})"
    assert python(engine, tmp_path, f"{program}; import time; time.sleep(600)") == Ended(
        exit_code=None, signal=number
    )


def test_the_environment_arrives_byte_for_byte_and_nothing_leaks_in(engine, tmp_path, monkeypatch):
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
    found, leaked = json.loads((tmp_path / "stdout").read_text())
    assert {name: found[name] for name in odd} == odd
    assert found["CAPSULE_RUN"] == "test-label"
    assert found["HOME"] == ("/out" if engine.runtime.contained else str(tmp_path / "out"))
    assert not [name for name in found if "LEAK" in name]
    assert not leaked


def test_arguments_arrive_byte_for_byte(engine, tmp_path):
    words = ("", "a b", "$HOME", "`id`", "--flag=x", "'\"", "é\n", "*")
    program = "import json, sys; print(json.dumps(sys.argv[1:]))"
    assert run(engine, tmp_path, "python3", "-c", program, *words).exit_code == 0
    assert json.loads((tmp_path / "stdout").read_text()) == list(words)


def test_data_can_be_read_and_not_written(engine, tmp_path):
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


def test_temporary_folders_can_be_written(engine, tmp_path):
    program = "import tempfile; tempfile.NamedTemporaryFile().write(b'x'); print('yes')"
    assert python(engine, tmp_path, program).exit_code == 0
    assert (tmp_path / "stdout").read_text() == "yes\n"


def test_there_is_no_network_inside(engine, tmp_path):
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
def test_a_command_that_cannot_start_is_an_engine_fault(engine, tmp_path, command):
    ended = run(engine, tmp_path, command, "word")
    assert ended.engine_fault
    assert command in ended.engine_fault
    assert left("test-label") == []


def test_a_mount_that_is_not_there_is_an_engine_fault(engine, tmp_path):
    missing = Mount(source=tmp_path / "nothing-here", target="/capsule/data/x")
    ended = run(engine, tmp_path, "true", mounts=(missing,))
    assert ended.engine_fault
    assert "nothing-here" in ended.engine_fault


def test_a_program_that_talks_like_the_engine_is_no_engine_fault(engine, tmp_path):
    program = "import sys; print('FATAL: [FATAL tini (1)]', file=sys.stderr); sys.exit(3)"
    assert python(engine, tmp_path, program) == Ended(exit_code=3, signal=None)


def test_a_lot_of_output_arrives_whole(engine, tmp_path):
    program = "import sys; sys.stdout.write('x' * 3_000_000); sys.stderr.write('y' * 3_000_000)"
    assert python(engine, tmp_path, program) == Ended(exit_code=0, signal=None)
    assert (tmp_path / "stdout").stat().st_size == (tmp_path / "stderr").stat().st_size == 3_000_000


FAMILY = (
    "import os, signal, subprocess, sys, time\n"
    "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    "subprocess.Popen(['sleep', '600'])\n"
    "subprocess.Popen(['sleep', '600'], start_new_session=True)\n"
    "open('ready', 'w').write('yes')\n"
    "time.sleep(600)\n"
)


def test_stop_leaves_nothing(engine, tmp_path):
    label = f"stop-{os.getpid()}"
    asked = invocation(engine, tmp_path, "python3", "-c", FAMILY, label=label)
    running = start(engine, asked)
    wait_for(tmp_path / "out/ready")
    assert running.wait(0) is None
    assert left(label)
    running.stop()
    assert left(label) == []
    ended = running.wait(0)
    assert ended is not None
    assert ended.signal == 9
    running.stop()


def test_stop_right_after_start_leaves_nothing(engine, tmp_path):
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


def test_reap_ends_what_a_killed_run_left(engine, tmp_path):
    label = f"reap-{os.getpid()}"
    asked = invocation(engine, tmp_path, "python3", "-c", FAMILY, label=label)
    (tmp_path / "asked").write_bytes(pickle.dumps((engine.runtime.name, engine.prepared, asked)))
    dead = subprocess.Popen(
        [sys.executable, "-c", DYING, str(tmp_path / "asked")],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    wait_for(tmp_path / "out/ready")
    dead.kill()
    dead.wait()
    assert left(label)
    assert engine.runtime.reap(f"{label}-other") == 0
    assert left(label)
    assert engine.runtime.reap(label) >= 1
    assert left(label) == []
    assert engine.runtime.reap(label) == 0


@pytest.mark.engines
def test_an_ordinary_user_runs_apptainer(sif_cache):
    program = PREPARE + (
        "import tempfile\n"
        "from capsule.runtimes.base import Invocation, Mount\n"
        "folder = Path(tempfile.mkdtemp())\n"
        "(folder / 'out').mkdir()\n"
        "out = Mount(source=folder / 'out', target='/out', writable=True)\n"
        "ended = Apptainer().start(prepared, Invocation(\n"
        "    command=('python3', '-c', 'import os; print(os.getuid(), os.environ[\"X\"])'),\n"
        "    environment={'X': '$HOME `id`', 'HOME': '/out'}, mounts=(out,), cwd='/out',\n"
        "    label='user', stdout=folder / 'stdout', stderr=folder / 'stderr')).wait(60)\n"
        "print(ended.exit_code, prepared.observations['network_isolation'])\n"
        "print((folder / 'stdout').read_text(), (folder / 'stderr').read_text(), end='')\n"
    )
    user = pwd.getpwnam(os.environ["CAPSULE_TEST_USER"])
    said = as_user(program, small_image(), str(sif_cache)).split()
    assert said == ["0", "isolated", str(user.pw_uid), "$HOME", "`id`"]


@pytest.mark.engines
def test_where_a_site_refuses_isolated_networks_the_run_goes_on_and_says_so(tmp_path, monkeypatch):
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
    said = prepared.observations["network_isolation"]
    assert said == "refused: network virtualization is not allowed"
    ended = run(Engine(runtime=Apptainer(), prepared=prepared), tmp_path, "nothing")
    assert ended.engine_fault
    assert "executable file not found" in ended.engine_fault


@pytest.mark.engines
def test_docker_tells_a_kill_for_want_of_memory(image, tmp_path):
    label = f"memory-{os.getpid()}"
    engine = Engine(runtime=Docker(), prepared=Docker().prepare(image, cache=tmp_path))
    program = (
        "import os, time\nopen('ready', 'w').write('yes')\n"
        "while not os.path.exists('go'): time.sleep(0.02)\nbytearray(400 << 20)\n"
    )
    running = start(engine, invocation(engine, tmp_path, "python3", "-c", program, label=label))
    wait_for(tmp_path / "out/ready")
    container = docker("ps", "--quiet", "--filter", f"label=org.capsule.run={label}")
    docker("update", "--memory", "64m", "--memory-swap", "64m", container)
    (tmp_path / "out/go").touch()
    assert running.wait(60) == Ended(exit_code=None, signal=9, out_of_memory=True)


@pytest.mark.engines
def test_docker_tells_a_container_that_somebody_removed(image, tmp_path):
    label = f"removed-{os.getpid()}"
    engine = Engine(runtime=Docker(), prepared=Docker().prepare(image, cache=tmp_path))
    program = "import time; open('ready', 'w').write('yes'); time.sleep(600)"
    running = start(engine, invocation(engine, tmp_path, "python3", "-c", program, label=label))
    wait_for(tmp_path / "out/ready")
    docker("rm", "--force", docker("ps", "-q", "--filter", f"label=org.capsule.run={label}"))
    ended = running.wait(60)
    assert ended is not None
    assert ended.signal == 9 or (ended.engine_fault and "lost the container" in ended.engine_fault)


@pytest.mark.engines
def test_docker_runs_an_image_that_was_built_here(tmp_path):
    base = reference.parse(small_image())
    docker("pull", base.pin(base.digest))
    recipe = dockerfile(tmp_path, f"FROM {base.pin(base.digest)}\nENV BUILT=here\n")
    prepared = Docker().prepare(build.build(recipe), cache=tmp_path)
    engine = Engine(runtime=Docker(), prepared=prepared)
    assert python(engine, tmp_path, "import os; print(os.environ['BUILT'])").exit_code == 0
    assert (tmp_path / "stdout").read_text() == "here\n"


@pytest.mark.engines
def test_apptainer_takes_an_image_that_was_built_here(tmp_path):
    built = build.build(dockerfile(tmp_path, "FROM scratch\nCOPY Dockerfile /content\n"))
    prepared = Apptainer().prepare(built, cache=tmp_path)
    assert prepared.handle == str(tmp_path / "sif" / f"{built.config_digest.hex}.sif")
    ended = run(Engine(runtime=Apptainer(), prepared=prepared), tmp_path, "/content")
    # it is there, and is no program
    assert ended.engine_fault
    assert "permission denied" in ended.engine_fault


def dockerfile(folder: Path, text: str) -> Path:
    recipe = folder / "recipe"
    recipe.mkdir()
    (recipe / "Dockerfile").write_text(text)
    (recipe / "Dockerfile").chmod(0o644)
    return recipe


@pytest.mark.engines
def test_a_sif_is_named_by_its_digest_and_a_damaged_one_is_replaced(tmp_path):
    runtime, tiny = Apptainer(), push_tiny("one")
    prepared = runtime.prepare(tiny, cache=tmp_path)
    sif = Path(prepared.handle)
    assert sif == tmp_path / "sif" / f"{tiny.manifest_digest.hex}.sif"
    assert [path.name for path in sif.parent.iterdir()] == [sif.name]
    assert prepared.observations["sif_sha256"] == of_file(sif).hex
    assert "apptainer" in prepared.observations["version"].lower()
    made = sif.stat().st_ino
    assert Path(runtime.prepare(tiny, cache=tmp_path).handle).stat().st_ino == made
    sif.write_bytes(b"not an image")
    assert runtime.prepare(tiny, cache=tmp_path).handle == prepared.handle
    assert sif.read_bytes().startswith(b"#!")


@pytest.mark.engines
def test_a_sif_of_another_image_is_not_taken_for_this_one(tmp_path):
    runtime, one, two = Apptainer(), push_tiny("one"), push_tiny("two")
    first = Path(runtime.prepare(one, cache=tmp_path).handle)
    planted = first.with_name(f"{two.manifest_digest.hex}.sif")
    planted.write_bytes(first.read_bytes())
    prepared = runtime.prepare(two, cache=tmp_path)
    assert prepared.handle == str(planted)
    assert of_file(planted) != of_file(first)


@pytest.mark.engines
def test_two_runs_may_fetch_one_image_at_once(tmp_path):
    argv = [sys.executable, "-c", f"{PREPARE}\nprint(prepared.handle)"]
    words = [f"docker://{push_tiny('one').pinned}", str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    both = [
        subprocess.Popen([*argv, *words], env=environment, stdout=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    handles = {each.communicate(timeout=120)[0].strip() for each in both}
    assert [each.returncode for each in both] == [0, 0]
    assert {str(path) for path in (tmp_path / "sif").iterdir()} == handles
    assert len(handles) == 1


@pytest.mark.engines
@pytest.mark.parametrize("make", [Apptainer, Docker])
def test_an_image_that_is_gone_from_its_registry_cannot_run(make, image, tmp_path):
    gone = of_bytes(b"gone")
    pinned = reference.parse(small_image()).pin(gone)
    missing = replace(image, pinned=pinned, manifest_digest=gone)
    with pytest.raises(CannotRunError, match="cannot p"):
        make().prepare(missing, cache=tmp_path)
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


@pytest.mark.engines
def test_docker_refuses_an_image_whose_digests_do_not_belong_together(image, tmp_path):
    other = of_bytes(b"other")
    with pytest.raises(DamagedError, match="another image"):
        Docker().prepare(replace(image, config_digest=other), cache=tmp_path)
    layers = (replace(image.layers[0], diff_id=other), *image.layers[1:])
    with pytest.raises(DamagedError, match="layers"):
        Docker().prepare(replace(image, layers=layers), cache=tmp_path)


@pytest.mark.engines
def test_docker_without_the_container_toolkit_says_so(image, tmp_path):
    machine(tmp_path, "580.65.06", cards=1)
    prepared = Docker().prepare(image, cache=tmp_path)
    with pytest.raises(CannotRunError, match="device driver") as caught:
        Docker(root=tmp_path).check_gpus(1, prepared, image)
    assert "container toolkit" in str(caught.value)


def test_a_docker_daemon_that_is_not_there_is_named(monkeypatch, tmp_path):
    address = f"unix://{tmp_path}/docker.sock"
    monkeypatch.setenv("DOCKER_HOST", address)
    found = runtimes.available_all()["docker"]
    assert not found.usable
    assert address in found.reason
    with pytest.raises(CannotRunError, match=r"no Docker daemon answers"):
        runtimes.choose("docker", needs_image=True)


def test_without_an_engine_an_image_never_runs_on_the_host_by_itself(monkeypatch, tmp_path):
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/docker.sock")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(CannotRunError) as caught:
        runtimes.choose("auto", needs_image=True)
    assert "apptainer: " in caught.value.what
    assert "docker: " in caught.value.what
    assert "--runtime host" in str(caught.value.advice)
    assert runtimes.choose("auto", needs_image=False).name == "host"


def test_an_unknown_runtime_is_bad_usage():
    with pytest.raises(UsageError, match="podmen"):
        runtimes.choose("podmen", needs_image=False)


@pytest.mark.engines
def test_auto_prefers_apptainer():
    assert runtimes.choose("auto", needs_image=True).name == "apptainer"
    assert all(found.usable and found.version for found in runtimes.available_all().values())


def test_host_finds_what_lies_beside_its_own_interpreter(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    engine = Engine(runtime=Host(), prepared=Host().prepare(None, cache=tmp_path))
    assert python(engine, tmp_path, "import sys; print(sys.prefix)").exit_code == 0
    assert (tmp_path / "stdout").read_text().strip() == sys.prefix


def machine(root: Path, driver: str, *, cards: int) -> None:
    """The files by which NVIDIA's driver shows itself, as recorded on a machine with an A100."""
    for index in range(cards):
        (root / f"proc/driver/nvidia/gpus/0000:{index:02x}:00.0").mkdir(parents=True)
    (root / "proc/driver/nvidia/version").write_text(
        f"NVRM version: NVIDIA UNIX x86_64 Kernel Module  {driver}  Tue Dec 6 12:00:00 UTC 2023\n"
        "GCC version:  gcc version 11.4.0\n"
    )


def with_config(config: dict[str, object]) -> Image:
    data = json.dumps({"config": config}).encode()
    return Image(
        reference="docker://localhost/x",
        pinned=None,
        index_digest=None,
        manifest_digest=None,
        platform="linux/amd64",
        config_digest=of_bytes(data),
        layers=(),
        manifest=None,
        config=data,
    )


@pytest.mark.parametrize(
    ("config", "cuda"),
    [
        ({"Env": ["PATH=/bin", "CUDA_VERSION=12.4.1"]}, (12, 4)),
        ({"Env": ["NVIDIA_REQUIRE_CUDA=cuda>=11.8 brand=tesla,driver>=450"]}, (11, 8)),
        ({"Labels": {"com.nvidia.cuda.version": "13.0"}}, (13, 0)),
        ({"Env": None, "Labels": None}, None),
        ({}, None),
    ],
)
def test_the_cuda_of_an_image_is_read_from_its_configuration(config, cuda):
    assert gpus.cuda_version(with_config(config)) == cuda


@pytest.mark.parametrize(
    ("cuda", "driver", "needed"),
    [
        ("11.8.0", "450.80.01", "450.80.02"),
        ("12.4.1", "525.60.12", "525.60.13"),
        ("13.0.0", "575.99.99", "580.65.06"),
        ("14.0.0", "575.99.99", "580.65.06"),
    ],
)
def test_a_driver_older_than_the_images_cuda_names_both_versions(tmp_path, cuda, driver, needed):
    machine(tmp_path, driver, cards=1)
    image = with_config({"Env": [f"CUDA_VERSION={cuda}"]})
    with pytest.raises(CannotRunError) as caught:
        gpus.require(1, image, tmp_path)
    assert f"driver {driver}" in str(caught.value)
    assert f"driver {needed} or newer" in str(caught.value)
    assert f"CUDA {cuda.rpartition('.')[0]}" in str(caught.value)


def test_a_driver_that_is_new_enough_will_do(tmp_path):
    machine(tmp_path, "525.60.13", cards=2)
    found = gpus.require(2, with_config({"Env": ["CUDA_VERSION=12.9.0"]}), tmp_path)
    assert found == gpus.Devices(vendor="nvidia", count=2, driver="525.60.13")
    with pytest.raises(CannotRunError, match="3 GPUs are asked for, and this machine has 2"):
        gpus.require(3, None, tmp_path)


def test_the_open_kernel_module_is_read_too(tmp_path):
    machine(tmp_path, "1.2", cards=1)
    (tmp_path / "proc/driver/nvidia/version").write_text(
        "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Release Build\n"
    )
    found = gpus.find(tmp_path)
    assert found is not None
    assert found.driver == "580.65.06"


def test_amd_devices_are_counted_without_the_cpus(tmp_path):
    for index, number in enumerate(("0", "0", "12345", "54321")):
        node = tmp_path / f"sys/class/kfd/kfd/topology/nodes/{index}"
        node.mkdir(parents=True)
        (node / "gpu_id").write_text(f"{number}\n")
    assert gpus.find(tmp_path) == gpus.Devices(vendor="amd", count=2, driver=None)


def test_without_devices_gpus_cannot_be_had(tmp_path):
    with pytest.raises(CannotRunError, match="1 GPU is asked for, and this machine has none"):
        Host(root=tmp_path).check_gpus(1, Prepared(handle=""), None)
