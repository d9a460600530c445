"""What tests of runtimes share: an image ready to start, and commands that run in it."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from capsule.image import Image, reference, registry
from capsule.runtimes.base import Ended, Invocation, Mount, Prepared, Running, Runtime
from tests.support.engines import as_user, engine_cache, own_engine_cache, small_image
from tests.support.patience import PATIENCE_SECONDS

# of this process alone: others may test on this machine
LABEL = f"test-{os.getpid()}"
PREPARE = """
import sys
from pathlib import Path
from capsule.image import reference, registry
from capsule.runtimes.apptainer import Apptainer
image = registry.resolve(reference.parse(sys.argv[1]))
prepared = Apptainer().prepare(image, cache=Path(sys.argv[2]))
"""


@cache
def fill_user_cache() -> Path:
    """The parent of a cache that the ordinary user has filled; it outlives the tests."""
    folder = engine_cache().with_name("user-cache")
    folder.mkdir(exist_ok=True)
    account = pwd.getpwnam(os.environ["CAPSULE_TEST_USER"])
    os.chown(folder, account.pw_uid, account.pw_gid)
    as_user(PREPARE, small_image(), str(folder / str(account.pw_uid)))
    return folder


def make_sif(image: str) -> Path:
    """The SIF of an image in the cache that tests share."""
    made = subprocess.run(
        [sys.executable, "-c", f"{PREPARE}print(prepared.handle)", image, str(own_engine_cache())],
        capture_output=True,
        text=True,
        check=True,
    )
    return Path(made.stdout.strip())


def hand_on_sif(image: str, account: pwd.struct_passwd, home: Path) -> None:
    """Give an ordinary user the SIF of an image that tests share, as if they had made it.

    That they make one of their own is seen in `test_ordinary_users`; of a large image it takes a
    minute, and is nothing else.
    """
    place = home / ".cache" / "capsule" / "sif"
    place.mkdir(parents=True)
    shutil.copy(make_sif(image), place)
    place.chmod(0o700)
    for path in home.rglob("*"):
        os.chown(path, account.pw_uid, account.pw_gid)


@dataclass(frozen=True, kw_only=True)
class Engine:
    runtime: Runtime
    prepared: Prepared


@cache
def small() -> Image:
    """The image with Python and numpy."""
    return registry.resolve(reference.parse(small_image()))


def invocation(
    engine: Engine,
    folder: Path,
    *command: str,
    mounts: tuple[Mount, ...] = (),
    environment: Mapping[str, str] | None = None,
    label: str = LABEL,
    stdin: Path | None = None,
) -> Invocation:
    out = Mount(source=folder / "out", target="/out", writable=True)
    out.source.mkdir(exist_ok=True)
    return Invocation(
        command=command,
        environment={"HOME": engine.runtime.inside(out), **(environment or {})},
        mounts=(out, *mounts),
        cwd=engine.runtime.inside(out),
        label=label,
        stdin=stdin,
        stdout=folder / "stdout",
        stderr=folder / "stderr",
    )


def start(engine: Engine, request: Invocation) -> Running:
    return engine.runtime.start(engine.prepared, request)


def run(
    engine: Engine,
    folder: Path,
    *command: str,
    mounts: tuple[Mount, ...] = (),
    environment: Mapping[str, str] | None = None,
    stdin: Path | None = None,
) -> Ended:
    request = invocation(
        engine, folder, *command, mounts=mounts, environment=environment, stdin=stdin
    )
    ended = start(engine, request).wait(PATIENCE_SECONDS)
    assert ended is not None
    return ended


def python(
    engine: Engine,
    folder: Path,
    program: str,
    *,
    mounts: tuple[Mount, ...] = (),
    environment: Mapping[str, str] | None = None,
    stdin: Path | None = None,
) -> Ended:
    command = ("python3", "-c", program)
    return run(engine, folder, *command, mounts=mounts, environment=environment, stdin=stdin)
