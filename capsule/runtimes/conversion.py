"""Make a SIF: of an image in a registry, in a file, or in the local Docker engine alone."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache
from pathlib import Path

from capsule import offline, plain, process
from capsule.errors import CannotRunError
from capsule.image import Image
from capsule.image.reference import parse

_SECONDS = 6 * 3600.0
# gzip, its default, takes twelve times the processor time for a tenth less room (1.4.5)
_FAST = ("--mksquashfs-args", "-comp zstd -Xcompression-level 1")


def convert(
    image: Image, target: Path, *, program: str, try_start: Callable[[Path], str | None]
) -> None:
    """Make a SIF at a path.

    Args:
        image: Image of any form but a SIF.
        target: Where nothing is yet.
        program: Apptainer or Singularity.
        try_start: None when a SIF starts here, else what the engine says.

    Raises:
        CannotRunError: It cannot be fetched, or made.
        DamagedError: A file is no longer the one that was read.
    """
    if image.pinned is not None:
        offline.require_network("the image", where=image.pinned)
        source, what = f"docker://{image.pinned}", "pull"
        _make(source, target, program, try_start, image, what)
    elif image.file is not None:
        from capsule.image import handing

        # beside the SIF, where there has to be room anyway
        layout = target.with_name("layout")
        handing.lay_out(image, layout)
        _make(f"oci:{layout}", target, program, try_start, image, "convert")
    elif image.is_elsewhere:
        raise image.missing()
    else:
        from capsule.runtimes.local import save

        with save(image.identity.digest) as archive:
            _make(f"docker-archive:{archive}", target, program, try_start, image, "convert")


def _make(
    source: str,
    target: Path,
    program: str,
    try_start: Callable[[Path], str | None],
    image: Image,
    what: str,
) -> None:
    """Make it packed fast; as the engine likes it best where that cannot be made or started."""
    fault = _build(source, target, program, _FAST) if _packs_fast(program) else "squashfs"
    if fault is None and _is_packing(try_start(target)):
        target.unlink()
        fault = "squashfs"
    if _is_packing(fault):
        fault = _build(source, target, program, ())
    if fault is not None:
        raise CannotRunError(
            f"Apptainer cannot {what} the image: {fault}",
            where=image.pinned or image.reference,
            advice=_advice(fault, image.pinned),
        )


def _is_packing(fault: str | None) -> bool:
    """Return whether how it is packed is at fault: an old mksquashfs, or a kernel that cannot read
    it.
    """
    return fault is not None and ("squashfs" in fault or "mount" in fault)


@cache
def _packs_fast(program: str) -> bool:
    return b"--mksquashfs-args" in process.run([program, "build", "--help"]).stdout


def _build(source: str, target: Path, program: str, packing: tuple[str, ...]) -> str | None:
    """Build a SIF; return the engine's message if it fails."""
    prefix = Path(program).name.upper()
    # without the cache: a hit would keep the label of whatever tag the layers first came by
    environment = {**os.environ, f"{prefix}_DISABLE_CACHE": "1"}
    if source.startswith("docker://") and parse(source).is_loopback:
        environment[f"{prefix}_NOHTTPS"] = "1"
    answer = process.run(
        [program, "build", *packing, str(target), source],
        env=environment,
        timeout_seconds=_SECONDS,
    )
    if answer.exit_code == 0:
        return None
    output = answer.stderr.decode(errors="replace")
    return find_fatal(output) or plain.last_lines(output, 300)


def find_fatal(output: str) -> str:
    """Return the engine's own last words: lines from `FATAL:` on; empty when there are none."""
    return (
        output[output.rfind("FATAL:") :].removeprefix("FATAL:").strip()[:1000]
        if "FATAL:" in output
        else ""
    )


def _advice(fault: str, pinned: str | None) -> str | None:
    """Return the remedy; Apptainer distinguishes its faults only by words."""
    if "no space left on device" in fault or "quota exceeded" in fault:
        return "Apptainer's temporary folder is full: set APPTAINER_TMPDIR to another folder"
    if pinned is None:
        return None
    if "dial tcp" in fault or "i/o timeout" in fault or "no such host" in fault:
        host = parse(f"docker://{pinned}").registry
        return f"cannot reach {host}: check its name and port, and this machine's network"
    return f"to try without capsule: apptainer pull docker://{pinned}"
