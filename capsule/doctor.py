"""Diagnose this machine: engines, cache, GPUs, and what to ask the site for."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import util
from pathlib import Path
from typing import Literal
from urllib.request import getproxies

from capsule import image as images
from capsule import places, runtimes
from capsule import site as sites
from capsule.errors import CapsuleError
from capsule.image.mirrors import Access
from capsule.levels.catalog import FRAMEWORKS
from capsule.manifest import ImageSpec
from capsule.runtimes import binds, gpus, hostmpi, local, programs
from capsule.runtimes.base import Rehearses, Runtime
from capsule.site import Site
from capsule.sizes import size
from capsule.trust import ledger

# an image of torch, while Apptainer converts it
_ROOM_BYTES = 10 << 30
_MOST_FILES = 10_000
_NAMESPACES = Path("/proc/sys/user/max_user_namespaces")
_LOCAL = ("tmpfs", "ramfs", "overlay", "rootfs")


@dataclass(frozen=True, kw_only=True)
class Finding:
    """Result of one check.

    Attributes:
        area: Part of the machine.
        word: `good`; `absent` (not installed, and another engine is used); `limited`; `missing`.
        what: Observed state.
        mend: Remedy, or what to ask the site for; empty where the part works.
    """

    area: str
    word: Literal["good", "absent", "limited", "missing"]
    what: str
    mend: str = ""


def examine(reference: str | None = None) -> list[Finding]:
    """Check this machine. Only engines and this machine's `true` are executed.

    Args:
        reference: An image to look up in its registry.

    Returns:
        All findings; with one that is `missing`, capsule does not work here.
    """
    try:
        site = sites.load()
    except CapsuleError as error:
        return [_fail("site file", error)]
    own_files = dict.fromkeys(site.sources.values())
    seen = ", ".join(map(str, own_files)) or "none; defaults are used"
    findings = [Finding(area="site file", word="good", what=seen)]
    findings += _engines()
    findings += _binds(site)
    findings += _cache(site)
    findings += _proxies()
    findings += _state()
    findings += _devices()
    findings += _host(site)
    if reference is not None:
        findings += _registry(reference, site)
    return findings


def _fail(area: str, error: CapsuleError) -> Finding:
    where = f"{error.where}: " if error.where else ""
    return Finding(area=area, word="missing", what=f"{where}{error.what}", mend=error.advice or "")


def _engines() -> Iterator[Finding]:
    """Yield a finding for each engine; an absent one does not matter if another one works."""
    usable = 0
    absent: list[Finding] = []
    for runtime in runtimes.engines():
        availability = runtime.available()
        if not availability.usable:
            what = f"{runtime.name} does not work: {availability.reason}"
            absent.append(Finding(area="engine", word="absent", what=what))
            continue
        finding = _try(runtime, f"{runtime.name}: {availability.version}")
        usable += finding.word != "missing"
        yield finding
    yield from absent
    if not usable:
        yield Finding(
            area="engine",
            word="missing",
            what="capsule cannot run images: no engine can start a container",
            mend="ask the site for Apptainer (version 1.1 or later) or for rootless Podman, or use"
            " --runtime host, which measures this machine's software",
        )


def _try(runtime: Runtime, name: str) -> Finding:
    """Start a container if the engine can do so without an image."""
    if not isinstance(runtime, Rehearses):
        what = f"{name}, answers (no test container was started)"
        return Finding(area="engine", word="good", what=what)
    try:
        refusal = runtime.rehearse()
    except CapsuleError as error:
        return Finding(
            area="engine",
            word="missing",
            what=f"{name}, cannot start a container: {error.what}",
            mend=f"ask the site for unprivileged user namespaces{_namespaces()}, or for the"
            " engine's setuid helper (package apptainer-suid)",
        )
    if refusal is not None:
        return Finding(
            area="engine",
            word="limited",
            what=f"{name}, starts containers, but cannot keep them off the network: {refusal}",
            mend="ask the site for network namespaces for ordinary users, or run an untrusted"
            " capsule with --allow-host",
        )
    what = f"{name}, started a test container without a network as user {os.geteuid()}"
    return Finding(area="engine", word="good", what=what)


def _namespaces() -> str:
    try:
        return f" (user.max_user_namespaces is {_NAMESPACES.read_text().strip()})"
    except OSError:
        return " (this kernel has no user.max_user_namespaces)"


def _binds(site: Site) -> Iterator[Finding]:
    """Yield the files of this machine that the site file shows to containers."""
    try:
        shown = binds.find(site)
        libraries = hostmpi.find(site, shown)
    except CapsuleError as error:
        yield _fail("binds", error)
        return
    for bind in shown:
        what = f"containers see {bind.source} as {bind.target}, read-only"
        yield Finding(area="binds", word="good", what=what)
    for one in libraries:
        what = f"ranks in containers use this machine's {one.name} instead of the image's"
        yield Finding(area="binds", word="good", what=what)


def _cache(site: Site) -> Iterator[Finding]:
    try:
        folder = sites.cache_folder(site)
    except CapsuleError as error:
        yield _fail("cache", error)
        return
    mend = "name another folder with CAPSULE_CACHE, or `cache` in the site file"
    if sites.lacks_cache(site):
        what = f"cannot write {folder}: each run uses a temporary cache beside its run folder"
        yield Finding(area="cache", word="limited", what=what, mend=mend)
        return
    # not by `Path.exists`, which raises where this user may not look
    existing = next(path for path in (folder, *folder.parents) if os.path.lexists(path))
    if not os.access(existing, os.W_OK | os.X_OK):
        yield Finding(
            area="cache",
            word="missing",
            what=f"cannot write {folder}",
            mend=mend,
        )
        return
    free, kind = shutil.disk_usage(existing).free, places.file_system(existing)
    what = f"{folder} contains {_content(folder)}, {size(free)} free on {kind}"
    faults = []
    if spot := places.weak_spot(folder):
        faults.append(f"other users may write {spot}, so Apptainer cannot keep images there")
    if kind in _LOCAL:
        faults.append("the folder is local to this node, and a reboot may empty it")
    if free < _ROOM_BYTES:
        faults.append(f"an image may need {size(_ROOM_BYTES)}")
    mend = "name a folder on a scratch disk with CAPSULE_CACHE, or `cache` in the site file"
    yield _judge("cache", what, faults, mend)
    temporary = Path(os.environ.get("APPTAINER_TMPDIR") or tempfile.gettempdir())
    try:
        free = shutil.disk_usage(temporary).free
    except OSError as error:
        fault = f"{temporary}: {error.strerror}"
        yield Finding(area="temporary", word="missing", what=fault, mend="set TMPDIR to a folder")
        return
    faults = [f"Apptainer unpacks images in this folder, and may need over {size(_ROOM_BYTES)}"]
    mend = "name a larger folder on a local disk with APPTAINER_TMPDIR"
    what = f"{temporary}, {size(free)} free on {places.file_system(temporary)}"
    yield _judge("temporary", what, faults if free < _ROOM_BYTES else [], mend)


def _judge(area: str, what: str, faults: list[str], mend: str) -> Finding:
    if not faults:
        return Finding(area=area, word="good", what=what)
    return Finding(area=area, word="limited", what=f"{what}; {'; '.join(faults)}", mend=mend)


def _content(folder: Path) -> str:
    """Return the size of the cache, counting at most `_MOST_FILES` files."""
    count = total = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            count += 1
            if count > _MOST_FILES:
                return f"more than {size(total)} in more than {_MOST_FILES} files"
            try:
                total += (Path(parent) / name).lstat().st_size
            except OSError:
                continue
    return f"{size(total)} in {count} files"


def _proxies() -> Iterator[Finding]:
    names = sorted(name for name in getproxies() if name in ("http", "https", "all"))
    if names:
        yield Finding(
            area="network",
            word="limited",
            what=f"a proxy for {', '.join(names)} resolves host names, so capsule cannot check the"
            " address of an untrusted URL",
            mend="ask the site to block internal addresses in the proxy",
        )


def _state() -> Iterator[Finding]:
    folder = sites.state_folder()
    if fault := ledger.fault():
        yield Finding(
            area="ledger",
            word="missing",
            what=fault,
            mend=f"remove the write permission of other users: chmod -R go-w {folder}",
        )
    else:
        yield Finding(
            area="ledger", word="good", what=f"{folder} lists the capsules that you sealed"
        )


def _devices() -> Iterator[Finding]:
    devices = gpus.find()
    if devices is None:
        yield Finding(area="GPU", word="good", what="none found")
        return
    count = f"{devices.count} GPU{'s' * (devices.count != 1)}"
    what = f"{count} from {devices.vendor}, driver {devices.driver or 'of unknown version'}"
    yield Finding(area="GPU", word="good", what=what)


def _host(site: Site) -> Iterator[Finding]:
    """Yield the two interpreters without a container: of commands, and of levels."""
    path = programs.find("python3")
    what = programs.describe(path) if path else "none on the PATH"
    yield Finding(area="host", word="good", what=f"python3 of commands: {what}")
    chosen, where = sites.interpreter(site)
    try:
        python = programs.interpreter(chosen, where=where)
    except CapsuleError as error:
        yield _fail("host", error)
        return
    what = f"python of levels: {programs.describe(Path(python))}"
    if chosen is not None:
        yield Finding(area="host", word="good", what=what)
        return
    names = [name for name, facts in FRAMEWORKS.items() if util.find_spec(facts.package)]
    if names:
        yield Finding(area="host", word="good", what=f"{what}, with {', '.join(names)}")
    else:
        yield Finding(
            area="host",
            word="limited",
            what=f"{what}, without a framework",
            mend="install numpy in capsule's environment, or name another Python with"
            " CAPSULE_PYTHON",
        )


def _registry(reference: str, site: Site) -> Iterator[Finding]:
    access = Access(mirrors=site.mirrors)
    try:
        image = images.resolve(
            ImageSpec(reference=reference), folder=None, access=access, engines=local.find
        )
    except CapsuleError as error:
        yield _fail("registry", error)
        return
    yield Finding(area="registry", word="good", what=f"has {image.pinned} for {image.platform}")
