"""What a capsule says of its image, what a cache holds, and what a workload of root finds."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from capsule.digest import of_bytes
from capsule.jsons import Json
from tests.hostile.case import Case, Prepare
from tests.support.capsules import pack, rehash, sample_files, unpack
from tests.support.command import NOISY, User, write_manifest, write_script
from tests.support.engines import (
    engine_cache,
    push_tiny,
    python_image,
    small_image,
)
from tests.support.registries import make_index

IMAGE = "data/records/image.json"
Files = dict[str, bytes]


# --- capsules -------------------------------------------------------------------------------------


def _forged(change: Callable[[Files], None]) -> Prepare:
    """Check a capsule with an image, changed so that every hash of the bag fits again."""

    def prepare(user: User) -> list[str | Path]:
        files = dict(sample_files())
        change(files)
        return ["check", pack(rehash(files), user.folder / "forged.capsule.zip")]

    return prepare


def _say(name: str, value: Json) -> Callable[[Files], None]:
    def change(files: Files) -> None:
        document = json.loads(files[IMAGE])
        document["image"][name] = value
        files[IMAGE] = json.dumps(document).encode()

    return change


def _index_of_others(files: Files) -> None:
    """An index that does not list the manifest, with its digest where it belongs."""
    body = make_index(b"another manifest")
    files["data/records/image-index.json"] = body
    _say("index_digest", str(of_bytes(body)))(files)


_OTHER = f"registry.example.org/tiny@{of_bytes(b'another image')}"


# --- engines --------------------------------------------------------------------------------------


CACHE = {"CAPSULE_CACHE": str(engine_cache())}
_OWN_CACHE = {"CAPSULE_CACHE": ""}


def run(user: User, engine: str, script: str, image: str | None = None) -> list[str | Path]:
    """Arguments of a run in an image, the small one unless another is named."""
    write_script(user.folder, script)
    reference = image or small_image()
    manifest = write_manifest(user.folder, image={"reference": reference}, seeds=[1, 2])
    return ["run", manifest, "--runtime", engine, "--output", "own.capsule.zip"]


@cache
def _own(engine: str) -> Files:
    """The files of a capsule that ran in the small image."""
    with TemporaryDirectory(prefix="capsule-") as folder:
        user = User.make(Path(folder))
        ended = user.run(*run(user, engine, NOISY), **CACHE)
        assert ended.returncode == 0, ended.stderr
        return unpack(user.folder / "own.capsule.zip")


def _pin_another(engine: str) -> Prepare:
    """A capsule that ran in one image of the registry and pins another, to be verified here."""

    def prepare(user: User) -> list[str | Path]:
        files = dict(_own(engine))
        _say("pinned", push_tiny("one").pinned)(files)
        forged = pack(rehash(files), user.folder / "forged.capsule.zip")
        return ["verify", forged, "--runtime", engine, "--trust"]

    return prepare


def _name_another(engine: str) -> Prepare:
    """The same, and the reference is the pinned image's as well: only the bytes are the first's."""

    def prepare(user: User) -> list[str | Path]:
        files = dict(_own(engine))
        pinned = push_tiny("one").pinned
        _say("pinned", pinned)(files)
        _say("reference", f"docker://{pinned}")(files)
        forged = pack(rehash(files), user.folder / "forged.capsule.zip")
        return ["verify", forged, "--runtime", engine, "--trust"]

    return prepare


def _plant(user: User) -> list[str | Path]:
    """The cache has a file with the name and the labels of the image, and other files in it."""
    arguments = run(user, "apptainer", NOISY, python_image())
    ended = user.run(*arguments, **_OWN_CACHE)
    assert ended.returncode == 0, ended.stderr
    (user.folder / "own.capsule.zip").unlink()
    (planted,) = (user.home / ".cache/capsule/sif").glob("*.sif")
    with planted.open("r+b") as stream:
        # labels come first in the file, the root file system last
        stream.seek(1 << 20)
        stream.write(bytes(planted.stat().st_size - (1 << 20)))
    return arguments


_OPEN_KERNEL_SETTINGS = (
    "import os\n"
    "for path in ('/proc/sys/kernel/core_pattern', '/proc/irq/default_smp_affinity',\n"
    "             '/sys/kernel/mm/transparent_hugepage/enabled', '/sys/power/state',\n"
    "             '/sys/module/kernel/parameters/panic', '/etc/localtime'):\n"
    "    try:\n"
    "        os.close(os.open(path, os.O_WRONLY))\n"
    "    except OSError:\n"
    "        continue\n"
    "    raise SystemExit(path + ' can be written')\n"
)


def _open_kernel_settings(engine: str) -> Prepare:
    return lambda user: run(user, engine, _OPEN_KERNEL_SETTINGS + NOISY)


CASES = (
    Case(
        name="image/names-one-pins-another",
        prepare=_forged(_say("pinned", _OTHER)),
        status=4,
        says="pinned contradict its reference",
    ),
    Case(
        name="image/another-manifest-digest",
        prepare=_forged(_say("manifest_digest", str(of_bytes(b"another image")))),
        status=4,
        says="manifest_digest contradict its reference",
    ),
    Case(
        name="image/another-reference",
        prepare=_forged(_say("reference", f"docker://{_OTHER}")),
        status=4,
        says="the image's",
    ),
    Case(
        name="image/another-platform",
        prepare=_forged(_say("platform", "linux/arm64")),
        status=4,
        says="platform contradict its reference",
    ),
    Case(
        name="image/no-reference-to-a-registry",
        prepare=_forged(_say("reference", "tiny")),
        status=4,
        says="expected an image reference",
    ),
    Case(
        name="image/index-without-the-manifest",
        prepare=_forged(_index_of_others),
        status=4,
        says="does not list the image manifest",
    ),
    *(
        Case(
            name=f"image/{word}-under-{engine}",
            prepare=prepare(engine),
            status=4,
            says=says,
            variables=CACHE,
            engine=engine,
            long=engine == "podman",
        )
        for engine in ("apptainer", "docker", "podman")
        for word, prepare, says in (
            ("pins-another", _pin_another, "pinned contradict its reference"),
            ("names-and-pins-another", _name_another, "the image's"),
        )
    ),
    Case(
        name="image/planted-in-the-cache",
        prepare=_plant,
        status=0,
        says="own.capsule.zip",
        variables=_OWN_CACHE,
        engine="apptainer",
        # what Apptainer itself takes to make it again
        mib=4096,
        seconds=600,
    ),
    *(
        Case(
            name=f"image/writes-kernel-settings-under-{engine}",
            prepare=_open_kernel_settings(engine),
            status=0,
            says="own.capsule.zip",
            says_not="can be written",
            variables=CACHE,
            engine=engine,
            seconds=300,
        )
        for engine in ("apptainer", "docker", "podman")
    ),
)
