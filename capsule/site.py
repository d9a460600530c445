"""A machine's own settings: what a capsule needs here and must never be able to say itself.

Two files of one form, held against `schema/site-1.schema.json`: the site's, for everybody, and over
it the user's own. A user's setting takes the place of the site's; of `data`, `mirrors`, `binds` and
`batch`, that of each name.

    {"runtime": "apptainer", "cache": "/scratch/me", "data": {"sha256:...": "/data/universe"}}
"""

from __future__ import annotations

import json
import os
import stat
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from capsule import localpaths, schema
from capsule.errors import DamagedError, UsageError
from capsule.jsons import JsonObject
from capsule.places import make_private, weak_spot
from capsule.sitepaths import bind_fault, library_fault
from capsule.sizes import size

WIDE = Path("/etc/capsule/site.json")
_RUN_CACHE: ContextVar[Path | None] = ContextVar("capsule-cache", default=None)
_MOST_BYTES = 4 << 20
_MAPS = ("data", "mirrors", "binds", "batch")
# of earlier versions, whose `site init` wrote null
_RETIRED = "scheduler"


@dataclass(frozen=True, kw_only=True)
class Site:
    """The settings of this machine.

    Attributes:
        file: The user's own file, which need not exist.
        runtime: What to start images with, None to choose.
        launcher: What starts the ranks of a process start, None to choose.
        python: What runs our own program where nothing is contained: a path, or a name that is
            looked for in the caller's PATH; None for the interpreter that capsule runs under.
        cache: Parent of each user's folder for what can be made again, None for the usual one.
        data: Dataset digest (`sha256:...`) -> where its bytes are.
        mirrors: Host of a registry -> `HOST[:PORT][/PATH]` that has the same images.
        binds: Path in a container -> what of this machine every container is shown there.
        mpi: Libraries of this machine's own MPI and fabric, by their paths in containers, MPI
            itself first; none for the image's own.
        batch: Option of Slurm's job scripts -> its value, empty for one that has none.
        sources: JSON pointer of each setting -> the file that it comes from.
    """

    file: Path
    runtime: str | None = None
    launcher: str | None = None
    python: str | None = None
    cache: Path | None = None
    data: Mapping[str, Path] = field(default_factory=dict)
    mirrors: Mapping[str, str] = field(default_factory=dict)
    binds: Mapping[str, Path] = field(default_factory=dict)
    mpi: tuple[str, ...] = ()
    batch: Mapping[str, str] = field(default_factory=dict)
    sources: Mapping[str, Path] = field(default_factory=dict)

    def where(self, pointer: str) -> str:
        """Return the file and field that a setting comes from, for a message."""
        return f"{self.sources.get(pointer, self.file)}#{pointer}"


@dataclass(frozen=True, kw_only=True)
class Setting:
    """A setting as it holds here.

    Attributes:
        name: As in the file; of `data`, `mirrors`, `binds` and `batch` with the key.
        value: As text.
        source: The file or variable that says so, or that nothing does.
    """

    name: str
    value: str
    source: str


def load(*, environ: Mapping[str, str] = os.environ) -> Site:
    """Read the settings of this machine: the user's over the site's.

    Raises:
        UsageError: A file that `CAPSULE_SITE` names does not exist, or one cannot be read, may be
            written by others, is not strict JSON or breaks the schema; names the file, and the JSON
            pointer of the field.
    """
    wide, own = wide_file(environ=environ), own_file(environ=environ)
    settings: dict[str, Any] = {}
    sources: dict[str, Path] = {}
    for file in dict.fromkeys((wide, own)):
        is_named = file == _variable("CAPSULE_SITE", environ)
        if not (is_named or os.path.lexists(file)):
            continue
        for name, value in _read(file, is_named=is_named).items():
            if name in _MAPS:
                settings[name] = {**settings.get(name, {}), **value}
                sources |= {f"/{name}{schema.pointer(key)}": file for key in value}
            else:
                settings[name] = value
                sources[f"/{name}"] = file
    site = Site(
        file=own,
        runtime=settings.get("runtime"),
        launcher=settings.get("launcher"),
        python=settings.get("python"),
        cache=Path(settings["cache"]) if "cache" in settings else None,
        data={digest: Path(where) for digest, where in settings.get("data", {}).items()},
        mirrors=settings.get("mirrors", {}),
        binds={target: Path(where) for target, where in settings.get("binds", {}).items()},
        mpi=tuple(settings.get("mpi", ())),
        batch=settings.get("batch", {}),
        sources=sources,
    )
    _check_paths(site)
    return site


def wide_file(*, environ: Mapping[str, str] = os.environ) -> Path:
    """Return the site's file: the one that `CAPSULE_SITE` names, else that of the machine."""
    return _variable("CAPSULE_SITE", environ) or WIDE


def own_file(*, environ: Mapping[str, str] = os.environ) -> Path:
    """Return the user's own file: below `XDG_CONFIG_HOME` or `~/.config`."""
    return _home_folder("XDG_CONFIG_HOME", ".config", environ) / "capsule" / "site.json"


def cache_parent(site: Site, *, environ: Mapping[str, str] = os.environ) -> Path | None:
    """Return the folder in which each user has a cache; None if nothing names one."""
    return _variable("CAPSULE_CACHE", environ) or site.cache


def cache_place(site: Site, *, environ: Mapping[str, str] = os.environ) -> Path:
    """Return where `cache_folder` lies, which need not exist; nothing is made or checked."""
    parent = cache_parent(site, environ=environ)
    if parent is not None:
        return parent / str(os.geteuid())
    return _RUN_CACHE.get() or own_cache_folder(environ=environ)


def cache_folder(site: Site, *, environ: Mapping[str, str] = os.environ) -> Path:
    """Return the folder for what can be made again: images, data, digests of files.

    `CAPSULE_CACHE`, else the site file's `cache`, is the parent of a private folder for each user,
    named by the number of the user. Without either it is `capsule` below `XDG_CACHE_HOME` or
    `~/.cache`; in a run whose user cannot write there, that of `use_cache`. It need not exist.

    Raises:
        CannotRunError: Something else lies in its place, or others may write it.
    """
    place = cache_place(site, environ=environ)
    if cache_parent(site, environ=environ) is not None:
        make_private(
            place,
            advice="name another folder with CAPSULE_CACHE, or ask the owner to remove this folder",
        )
    return place


def lacks_cache(site: Site, *, environ: Mapping[str, str] = os.environ) -> bool:
    """Return whether no cache is named, and the usual one cannot be written."""
    if cache_parent(site, environ=environ) is not None:
        return False
    folder = own_cache_folder(environ=environ)
    with suppress(OSError):
        existing = next(path for path in (folder, *folder.parents) if path.exists())
        # a file without a name, since nothing is to be made yet
        with tempfile.TemporaryFile(dir=existing):
            return False
    return True


@contextmanager
def use_cache(folder: Path) -> Iterator[None]:
    """Have the cache in a folder, in this thread and for as long as the context lasts."""
    token = _RUN_CACHE.set(folder)
    try:
        yield
    finally:
        _RUN_CACHE.reset(token)


def interpreter(site: Site, *, environ: Mapping[str, str] = os.environ) -> tuple[str | None, str]:
    """Return the interpreter of capsule's own program outside of containers, and its source.

    `CAPSULE_PYTHON`, else the site file's `python`, else None for the interpreter of this process.
    """
    if named := environ.get("CAPSULE_PYTHON"):
        return named, "CAPSULE_PYTHON"
    return site.python, site.where("/python")


def own_cache_folder(*, environ: Mapping[str, str] = os.environ) -> Path:
    """Return the user's usual one, wherever else the cache may be: `XDG_CACHE_HOME` or
    `~/.cache`.
    """
    return _home_folder("XDG_CACHE_HOME", ".cache", environ) / "capsule"


def state_folder(*, environ: Mapping[str, str] = os.environ) -> Path:
    """Return the folder of this user's ledgers: below `XDG_STATE_HOME` or `~/.local/state`."""
    return _home_folder("XDG_STATE_HOME", ".local/state", environ) / "capsule"


def describe(site: Site, *, environ: Mapping[str, str] = os.environ) -> list[Setting]:
    """Return every setting as it holds, and where it comes from."""
    default = "by default"

    def source(name: str, variable: str = "") -> str:
        if variable and environ.get(variable):
            return variable
        return str(site.sources.get(f"/{name}", default))

    python, _ = interpreter(site, environ=environ)
    cache = cache_place(site, environ=environ)
    return [
        Setting(name="runtime", value=site.runtime or "auto", source=source("runtime")),
        Setting(name="launcher", value=site.launcher or "auto", source=source("launcher")),
        Setting(
            name="python",
            value=python or "the interpreter that capsule runs under",
            source=source("python", "CAPSULE_PYTHON"),
        ),
        Setting(name="cache", value=str(cache), source=source("cache", "CAPSULE_CACHE")),
        Setting(name="mpi", value=", ".join(site.mpi) or "the image's own", source=source("mpi")),
        *(
            Setting(name=f"{name} {key}", value=str(value), source=source(_below(name, key)))
            for name in _MAPS
            for key, value in getattr(site, name).items()
        ),
    ]


def write(file: Path, *, runtime: str, cache: Path | None) -> None:
    """Write a complete site file: what is set, and null or nothing for the rest.

    Args:
        file: The file, which must not exist; its folder is made.
        runtime: Name of an engine, or `auto`.
        cache: Parent of each user's folder for what can be made again, None for each usual one.

    Raises:
        UsageError: It exists, or cannot be written.
    """
    settings: JsonObject = {
        "$schema": (Path(schema.__file__).parent / "site-1.schema.json").as_uri(),
        "runtime": runtime,
        "launcher": None,
        "python": None,
        "cache": str(cache) if cache else None,
        "data": {},
        "mirrors": {},
        "binds": {},
        "mpi": None,
        "batch": {},
    }
    try:
        file.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        # whatever the user's mask lets through: a file that others may write is refused
        handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
        with os.fdopen(handle, "w") as stream:
            stream.write(json.dumps(settings, indent=2) + "\n")
    except FileExistsError:
        raise UsageError(
            "already exists, and is not overwritten",
            where=str(file),
            advice="edit the file or move the file away; to print the current settings:"
            " `capsule site show`",
        ) from None
    except OSError as error:
        raise UsageError(
            f"cannot write: {error.strerror}",
            where=str(file),
            advice="make the folder writable, or set CAPSULE_SITE to another file",
        ) from None


def _below(name: str, key: str) -> str:
    return f"{name}{schema.pointer(key)}"


def _read(file: Path, *, is_named: bool) -> Mapping[str, Any]:
    """Return the settings of one file.

    Args:
        file: The file.
        is_named: A variable names it: it may belong to whoever keeps the site's software.
    """
    try:
        with open(os.open(file, os.O_RDONLY | os.O_NONBLOCK), "rb") as stream:  # noqa: PTH123
            if not stat.S_ISREG(os.fstat(stream.fileno()).st_mode):
                raise UsageError(
                    "the site file is a folder or a special file, expected a regular file",
                    where=str(file),
                    advice="set CAPSULE_SITE to a regular file",
                )
            _refuse_others(file, is_named=is_named)
            text = stream.read(_MOST_BYTES + 1)
    except OSError as error:
        raise UsageError(
            f"cannot read the site file: {error.strerror}",
            where=str(file),
            advice="set CAPSULE_SITE to a readable file, or unset it"
            if is_named
            else "make the file readable, or set CAPSULE_SITE to another file",
        ) from error
    if len(text) > _MOST_BYTES:
        raise UsageError(
            f"the site file exceeds {size(_MOST_BYTES)}",
            where=str(file),
            advice="shorten the site file, or set CAPSULE_SITE to another file",
        )
    try:
        settings = schema.parse(text, where=str(file))
    except DamagedError as error:
        raise UsageError(
            error.what,
            where=error.where,
            advice="correct the site file, or set CAPSULE_SITE to another file",
        ) from error
    if isinstance(settings, dict) and settings.pop(_RETIRED, None) is not None:
        raise UsageError(
            "this field no longer exists: `capsule submit` supports only Slurm",
            where=f"{file}#/{_RETIRED}",
            advice="remove the field; docs/how-to/slurm.md has job scripts for PBS, LSF and Flux",
        )
    _check(settings, file)
    return {name: value for name, value in settings.items() if name[0] != "$" and value is not None}


def _refuse_others(file: Path, *, is_named: bool) -> None:
    """Stop where others could choose what is executed here: the file says which Python runs."""
    if spot := weak_spot(file, whosever=is_named):
        raise UsageError(
            f"other users can write {spot}, and a site file decides which programs run",
            where=str(file),
            advice=f"make yourself or root the owner of {spot}, and remove the write permission"
            f" of other users: chmod go-w {spot}",
        )


def _check(settings: object, file: Path) -> None:
    for pointer, message in schema.validate(settings, "site-1"):
        advice = None
        if pointer.startswith("/data") or pointer == "/cache":
            advice = (
                'write data as {"sha256:<64 hex digits>": "/absolute/path"}, and cache as'
                ' "/absolute/path"'
            )
        if pointer.startswith("/mirrors"):
            advice = 'write mirrors as {"docker.io": "registry.example.org/hub"}, without https://'
        if pointer.startswith("/binds"):
            advice = (
                'write binds as {"/path/in/containers": "/path/of/this/machine"}: absolute paths'
                " without commas, colons, quotes, backslashes and control characters (for a path"
                " with these characters, name a link to the path)"
            )
        if pointer.startswith("/mpi"):
            advice = (
                'write mpi as ["/opt/site/lib/libmpi.so.12"]: paths in the container, MPI itself'
                " first, without commas, colons, quotes, backslashes and control characters"
            )
        if pointer.startswith("/batch"):
            advice = (
                'write batch as {"--account": "project", "--exclusive": ""}: long options with both'
                " dashes, and values without quotes, backslashes and #; capsule sets the job's"
                " shape, name, time and files"
            )
        raise UsageError(message, where=f"{file}#{pointer}", advice=advice)


def _check_paths(site: Site) -> None:
    for target, source in site.binds.items():
        if fault := bind_fault(target, str(source), site.binds):
            raise UsageError(
                fault[0], where=site.where(f"/{_below('binds', target)}"), advice=fault[1]
            )
    for path in site.mpi:
        if fault := library_fault(path, site.binds):
            raise UsageError(fault[0], where=site.where("/mpi"), advice=fault[1])


def _variable(name: str, environ: Mapping[str, str]) -> Path | None:
    return Path(environ[name]) if environ.get(name) else None


def _home_folder(variable: str, usual: str, environ: Mapping[str, str]) -> Path:
    folder = _variable(variable, environ)
    if folder and folder.is_absolute():  # the XDG specification has relative ones ignored
        return folder
    return (_variable("HOME", environ) or localpaths.home()) / usual
