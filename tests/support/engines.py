"""What tests of real engines share: images, and an ordinary user."""

from __future__ import annotations

import io
import os
import pwd
import subprocess
import sys
import tarfile
from pathlib import Path

from capsule import process
from capsule.image import Image, reference, registry

ROOT = Path(__file__).parents[2]


def small_image() -> str:
    """Reference of the image with Python and numpy, by digest."""
    return os.environ["CAPSULE_TEST_SMALL_IMAGE"]


def registry_host() -> str:
    """`HOST:PORT` of the registry."""
    return os.environ["CAPSULE_TEST_REGISTRY"]


def docker(*words: str, input_bytes: bytes = b"") -> str:
    """Run the `docker` command; returns its standard output."""
    ended = process.run(["docker", *words], input_bytes=input_bytes)
    assert ended.exit_code == 0, ended.stderr
    return ended.stdout.decode().strip()


def push_tiny(content: str) -> Image:
    """An image of one file, in the registry; engines take it in a second or two."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as archive:
        entry = tarfile.TarInfo("content")
        entry.size = len(content)
        archive.addfile(entry, io.BytesIO(content.encode()))
    name = f"{registry_host()}/capsule-test/tiny:{content}"
    docker("import", "-", name, input_bytes=data.getvalue())
    docker("push", name)
    return registry.resolve(reference.parse(f"docker://{name}"))


def as_user(program: str, *arguments: str, timeout_seconds: float = 300) -> str:
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
            "HOME": account.pw_dir,
            "USER": account.pw_name,
            "PYTHONPATH": os.pathsep.join(path),
            "PYTHONDONTWRITEBYTECODE": "1",
        },
        capture_output=True,
        text=True,
        timeout=timeout_seconds,
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
