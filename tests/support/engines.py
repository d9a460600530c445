"""What tests of real engines share: images, and an ordinary user."""

from __future__ import annotations

import fcntl
import io
import os
import pwd
import shlex
import subprocess
import sys
import tarfile
from contextlib import suppress
from functools import cache
from pathlib import Path

from capsule import process
from capsule.digest import of_bytes
from capsule.errors import CannotRunError
from capsule.image import Image, reference, registry
from tests.support.patience import PATIENCE_SECONDS, until

ROOT = Path(__file__).parents[2]


_BUILDS_SECONDS = 3 * PATIENCE_SECONDS


@cache
def await_images() -> str | None:
    """Wait for the images that `tests/run` has built meanwhile, and take their references.

    Returns:
        Why there are none, where their build failed.
    """
    if (folder := os.environ.get("CAPSULE_TEST_IMAGES")) is None:
        return None
    built, failed, log, settings = (
        Path(folder, name) for name in ("built", "failed", "log", "env")
    )
    until(lambda: built.exists() or failed.exists(), "the images of the tests", _BUILDS_SECONDS)
    if failed.exists():
        return f"the images of the tests could not be built:\n{log.read_text()}"
    for line in settings.read_text().splitlines():
        name, _, value = shlex.split(line)[1].partition("=")
        os.environ[name] = value
    return None


def small_image() -> str:
    """Reference of the image with Python and numpy, by digest."""
    return os.environ["CAPSULE_TEST_SMALL_IMAGE"]


def registry_host() -> str:
    """`HOST:PORT` of the registry."""
    return os.environ["CAPSULE_TEST_REGISTRY"]


def docker(*words: str, input_bytes: bytes = b"") -> str:
    """Run the `docker` command; returns its standard output."""
    command = ["docker", *words]
    ended = process.run(command, input_bytes=input_bytes, timeout_seconds=PATIENCE_SECONDS)
    assert ended.exit_code == 0, ended.stderr
    return ended.stdout.decode().strip()


def push_tiny(content: str) -> Image:
    """An image of one file, in the registry, which keeps it; engines take it in a second or two."""
    name = f"{registry_host()}/capsule-test/tiny:{content}"
    with suppress(CannotRunError):
        return registry.resolve(reference.parse(f"docker://{name}"))
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as archive:
        entry = tarfile.TarInfo("content")
        entry.size = len(content)
        archive.addfile(entry, io.BytesIO(content.encode()))
    docker("import", "-", name, input_bytes=data.getvalue())
    docker("push", name)
    # where another worker pushed the same, it may be gone
    process.run(["docker", "rmi", name], timeout_seconds=PATIENCE_SECONDS)
    return registry.resolve(reference.parse(f"docker://{name}"))


_PYTHON_ALONE = r"""
set -e
python=$(readlink -f /usr/bin/python3)
library=/usr/lib/${python##*/}
needed=$(ldd "$python" "$library"/lib-dynload/*.so /bin/sh | awk '$3 ~ "^/" {print $3}' | sort -u)
mkdir -p /tmp/root/tmp
tar -chf - --exclude=__pycache__ --exclude=config-3* --exclude=test --exclude=idlelib \
    -C / bin/sh etc/passwd etc/group usr/bin/python3 "${library#/}" lib64 $needed \
    -C /tmp/root tmp 2>/dev/null
"""


@cache
def python_image() -> str:
    """Reference of an image of Python alone, by digest: a tenth of `small_image`.

    For whatever has an engine convert it in a way that nothing keeps. The registry keeps it.
    """
    small = small_image().removeprefix("docker://")
    made_of = of_bytes(f"{small}\n{_PYTHON_ALONE}".encode()).hex
    name = f"{registry_host()}/capsule-test/python:{made_of}"
    with suppress(CannotRunError):
        return f"docker://{registry.resolve(reference.parse(f'docker://{name}')).pinned}"
    root = process.run(
        ["docker", "run", "--rm", small, "sh", "-c", _PYTHON_ALONE],
        timeout_seconds=PATIENCE_SECONDS,
        limit_bytes=1 << 30,
    )
    assert root.exit_code == 0, root.stderr
    change = ("--change", "ENV PATH=/usr/bin:/bin", "--change", 'CMD ["python3"]')
    docker("import", *change, "-", name, input_bytes=root.stdout)
    docker("push", name)
    process.run(["docker", "rmi", name], timeout_seconds=PATIENCE_SECONDS)
    return f"docker://{registry.resolve(reference.parse(f'docker://{name}')).pinned}"


def as_user(program: str, *arguments: str) -> str:
    """Run a Python program as the ordinary user of the tests; returns its standard output."""
    account = pwd.getpwnam(os.environ["CAPSULE_TEST_USER"])
    path = [str(ROOT), *(part for part in sys.path if part.endswith("-packages"))]
    ended = subprocess.run(
        [_interpreter(account), "-c", program, *arguments],
        user=account.pw_uid,
        group=account.pw_gid,
        extra_groups=[],
        cwd="/",
        env={
            "PATH": os.environ["PATH"],
            "SLURM_CONF": os.environ["SLURM_CONF"],
            "HOME": account.pw_dir,
            "USER": account.pw_name,
            "PYTHONPATH": os.pathsep.join(path),
            "PYTHONDONTWRITEBYTECODE": "1",
            "TMPDIR": os.environ["TMPDIR"],
        },
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def _interpreter(account: pwd.struct_passwd) -> str:
    """This interpreter, or the system's where this one lies in another user's home."""
    probe = subprocess.run(
        ["test", "-x", sys.executable],
        user=account.pw_uid,
        group=account.pw_gid,
        extra_groups=[],
        check=False,
    )
    return sys.executable if probe.returncode == 0 else "/usr/bin/python3"


def engine_cache() -> Path:
    """A cache that outlives the tests: making the same SIF again would teach nothing."""
    return Path(os.environ.get("CAPSULE_ENGINES_DIR", "/var/lib/capsule-engines")) / "cache"


def own_engine_cache() -> Path:
    """The folder in it that is this user's, where `CAPSULE_CACHE` names it."""
    return engine_cache() / str(os.geteuid())


def torch_image() -> str:
    """Reference of the image with torch, by digest."""
    return os.environ["CAPSULE_TEST_IMAGE"]


def tensorflow_image() -> str:
    """Reference of the image with TensorFlow and ONNX Runtime, by digest."""
    return os.environ["CAPSULE_TEST_TENSORFLOW_IMAGE"]


def faulty_image() -> str:
    """Reference of the torch image whose matrix products are wrong by 1 %."""
    return os.environ["CAPSULE_TEST_FAULTY_IMAGE"]


@cache
def user_python() -> str:
    """An interpreter that the ordinary user can start, with capsule installed as users do it.

    The checkout and its environment may lie where only root can look. It is installed once for all
    workers of a session: under another one's feet it would be gone for a moment.
    """
    venv = engine_cache().parent / "user-venv"
    python = str(venv / "bin" / "python")
    session, installed = os.environ["TMPDIR"], venv / "installed-by"
    with venv.with_name("user-venv.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if installed.exists() and installed.read_text() == session:
            return python
        if not venv.exists():
            subprocess.run(["/usr/bin/python3", "-m", "venv", str(venv)], check=True)
        # a folder is installed anew though its version is the same
        pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, str(ROOT)], check=True)
        installed.write_text(session)
    return python
