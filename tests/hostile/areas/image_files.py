"""Images in files: SIF files, layouts and archives that want more than to be read."""

from __future__ import annotations

import os
import tarfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tests.hostile.case import Case, Prepare
from tests.support import refused_archives, refused_sifs
from tests.support.archives import Made, lay_out, make_tar
from tests.support.command import NOISY, User, write_manifest, write_script
from tests.support.sifs import plain_sif


def _resolve(name: str, make: Callable[[], bytes]) -> Prepare:
    def prepare(user: User) -> list[str | Path]:
        (user.folder / name).write_bytes(make())
        return ["image", "resolve", user.folder / name]

    return prepare


def _tar(make: Callable[[], Mapping[str, bytes | tarfile.TarInfo]]) -> Callable[[], bytes]:
    return lambda: make_tar(make())


def _word(name: str) -> str:
    return name.replace(" ", "-")


def _linked_blobs(user: User) -> list[str | Path]:
    """A layout whose blobs are a link to a folder of the host."""
    layout = lay_out(Made().layout(), user.folder / "layout")
    (layout / "blobs").rename(user.folder / "elsewhere")
    (layout / "blobs").symlink_to(user.folder / "elsewhere")
    return ["image", "resolve", layout]


def _pipe(user: User) -> list[str | Path]:
    os.mkfifo(user.folder / "image.sif")
    return ["image", "resolve", user.folder / "image.sif"]


def _link_to_host() -> Mapping[str, Any]:
    entry = tarfile.TarInfo("0/layer.tar")
    entry.type, entry.linkname = tarfile.SYMTYPE, "/etc/passwd"
    return {**Made().saved(), "0/layer.tar": entry}


def _run_another_form(user: User) -> list[str | Path]:
    """A manifest that names an archive and gets a SIF, which another engine would start."""
    (user.folder / "image.tar").write_bytes(plain_sif())
    write_script(user.folder, NOISY)
    manifest = write_manifest(user.folder, image={"reference": "oci-archive:image.tar"})
    return ["run", manifest, "--dry-run"]


CASES = (
    *(
        Case(
            name=f"sif/{_word(name)}",
            prepare=_resolve("image.sif", make),
            status=kind.exit_code,
            says=says,
        )
        for name, (make, kind, says) in refused_sifs.REFUSED.items()
    ),
    *(
        Case(
            name=f"image-archive/{_word(name)}",
            prepare=_resolve("image.tar", _tar(make)),
            status=kind.exit_code,
            says=says.partition("|")[0],
            # what gzip makes of 400 MiB is made here
            mib=1024,
        )
        for name, (make, kind, says) in refused_archives.REFUSED.items()
    ),
    Case(
        name="image-archive/a-link-to-the-host",
        prepare=_resolve("image.tar", _tar(_link_to_host)),
        status=4,
        says="which is missing in the archive",
    ),
    Case(
        name="image-layout/blobs-that-are-a-link",
        prepare=_linked_blobs,
        status=4,
        says="is missing",
    ),
    Case(
        name="sif/a-pipe",
        prepare=_pipe,
        status=2,
        says="expected a readable regular file",
        seconds=10,
    ),
    Case(
        name="sif/under-another-name",
        prepare=_run_another_form,
        status=2,
        says="the reference names the form oci-archive, but the file has the form sif",
    ),
)
