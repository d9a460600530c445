"""Engines as an ordinary user of a cluster has them: no root, a home and a cache of their own."""

from __future__ import annotations

import os
import pwd
import shutil
import tempfile
from pathlib import Path

import pytest

from capsule.digest import of_bytes
from tests.support.engines import as_user, push_tiny, python_image, small_image
from tests.support.patience import PATIENCE_SECONDS
from tests.support.runtimes import PREPARE, fill_user_cache

pytestmark = pytest.mark.engines


@pytest.fixture(scope="session")
def user_cache() -> Path:
    """A cache that the ordinary user has filled, as on a cluster; it outlives the tests."""
    user = pwd.getpwnam(os.environ["CAPSULE_TEST_USER"])
    return fill_user_cache() / str(user.pw_uid)


ROOTLESS = """
import sys, tempfile
from pathlib import Path
from capsule.image import reference, registry
from capsule.runtimes.base import Invocation, Mount
from capsule.runtimes.podman import Podman
image = registry.resolve(reference.parse(sys.argv[1]))
folder = Path(tempfile.mkdtemp())
(folder / 'out').mkdir()
podman = Podman()
prepared = podman.prepare(image, cache=folder)
program = '''
import os, time
print(os.getuid(), os.environ['X'], flush=True)
open('made', 'w').close()
while not os.path.exists('go'): time.sleep(0.02)
'''
out = Mount(source=folder / 'out', target='/out', writable=True)
running = podman.start(prepared, Invocation(
    command=('python3', '-c', program),
    environment={'X': '$HOME `id`', 'HOME': '/out'}, mounts=(out,), cwd='/out',
    label='user', pids=100, stdout=folder / 'stdout', stderr=folder / 'stderr'))
while not (folder / 'out/made').exists() and running.wait(0.05) is None: pass
tasks = running.tasks()
(folder / 'out/go').touch()
ended = running.wait(float(sys.argv[2]))
"""


EXCHANGED = """
import sys
from pathlib import Path
from capsule.digest import of_file
from capsule.errors import CannotRunError
from capsule.image import reference, registry
from capsule.runtimes.apptainer import Apptainer
image, runtime = registry.resolve(reference.parse(sys.argv[1])), Apptainer()
try:
    runtime.prepare(image, cache=Path(sys.argv[2]))
except CannotRunError as error:
    print(error.what.rpartition(' ')[2])
prepared = runtime.prepare(image, cache=Path(sys.argv[3]))
sif, first = Path(prepared.handle), prepared.observations['sif_sha256']
with sif.open('r+b') as stream:
    stream.seek(1 << 15)
    stream.write(bytes(sif.stat().st_size - (1 << 15)))
again = runtime.prepare(image, cache=Path(sys.argv[3]))
print(of_file(Path(again.handle)).hex, again.observations['sif_sha256'], first)
"""


def test_an_ordinary_user_fetches_an_image_into_a_cache_of_their_own() -> None:
    fetch = PREPARE + "print(prepared.handle, end='')"
    folder = tempfile.mkdtemp(dir="/tmp")
    user = pwd.getpwnam(os.environ["CAPSULE_TEST_USER"])
    os.chown(folder, user.pw_uid, user.pw_gid)
    handle = as_user(fetch, f"docker://{push_tiny('one').pinned}", folder)
    assert Path(handle).parent == Path(folder) / "sif"
    assert Path(handle).stat().st_uid == user.pw_uid


def test_an_ordinary_user_is_not_given_what_others_may_exchange() -> None:
    """A cache that all may write is refused; in their own what is damaged is made again."""
    image = push_tiny("one")
    assert image.manifest_digest is not None
    user = pwd.getpwnam(os.environ["CAPSULE_TEST_USER"])
    shared, own = Path(tempfile.mkdtemp(dir="/tmp")), Path(tempfile.mkdtemp(dir="/tmp"))
    os.chown(own, user.pw_uid, user.pw_gid)
    planted = shared / "sif" / f"{image.manifest_digest.hex}-{of_bytes(b'planted').hex}.sif"
    planted.parent.mkdir()
    planted.write_bytes(b"planted")
    for path in (shared, planted.parent, planted):
        path.chmod(0o777)
    where, now, noted, first = as_user(
        EXCHANGED, f"docker://{image.pinned}", str(shared), str(own)
    ).split()
    assert where == str(shared)
    assert now == noted != first
    assert planted.read_bytes() == b"planted"
    shutil.rmtree(shared)
    shutil.rmtree(own)


def test_an_ordinary_user_runs_apptainer(user_cache: Path) -> None:
    program = PREPARE + (
        "import tempfile\n"
        "from capsule.runtimes.base import Invocation, Mount\n"
        "folder = Path(tempfile.mkdtemp())\n"
        "(folder / 'out').mkdir()\n"
        "out = Mount(source=folder / 'out', target='/out', writable=True)\n"
        "running = Apptainer().start(prepared, Invocation(\n"
        "    command=('python3', '-c', 'import os; print(os.getuid(), os.environ[\"X\"])'),\n"
        "    environment={'X': '$HOME `id`', 'HOME': '/out'}, mounts=(out,), cwd='/out',\n"
        "    label='user', stdout=folder / 'stdout', stderr=folder / 'stderr'))\n"
        "ended = running.wait(float(sys.argv[3]))\n"
        "print(ended.exit_code, prepared.observations['network_isolation'])\n"
        "print((folder / 'stdout').read_text(), (folder / 'stderr').read_text(), end='')\n"
    )
    user = pwd.getpwnam(os.environ["CAPSULE_TEST_USER"])
    words = as_user(program, small_image(), str(user_cache), str(PATIENCE_SECONDS)).split()
    assert words == ["0", "isolated", str(user.pw_uid), "$HOME", "`id`"]


def test_an_ordinary_user_runs_podman() -> None:
    """Without root: the container's root is the user, and so is whoever owns what it writes."""
    program = ROOTLESS + (
        "print(ended.exit_code, prepared.observations['network_isolation'])\n"
        "print((folder / 'out/made').stat().st_uid, Podman().reap('user'))\n"
        "print(prepared.observations['user'], tasks > 1)\n"
        "print((folder / 'stdout').read_text(), (folder / 'stderr').read_text(), end='')\n"
    )
    user = pwd.getpwnam(os.environ["CAPSULE_TEST_USER"])
    lines = as_user(program, python_image(), str(PATIENCE_SECONDS)).splitlines()
    assert lines[0] == "0 isolated"
    assert lines[1] == f"{user.pw_uid} 0"
    assert lines[2] == "rootless, the caller is root inside True"
    assert lines[3] == "0 $HOME `id`"
