"""A machine's own settings: what a capsule needs here and must never be able to say itself.

The site file is JSON, held against `schema/site-1.schema.json`:

    {"runtime": "host", "cache": "/scratch/me/capsule", "data": {"sha256:...": "/data/universe"}}
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from capsule import schema
from capsule.errors import DamagedError, UsageError


@dataclass(frozen=True, kw_only=True)
class Site:
    """The settings of this machine.

    Attributes:
        file: Where they were read, or would be if the file existed.
        runtime: What to start images with, None to choose.
        cache: Folder for what can be made again, None for the user's usual one.
        data: Dataset digest (`sha256:...`) -> where its bytes are.
    """

    file: Path
    runtime: str | None = None
    cache: Path | None = None
    data: Mapping[str, Path] = field(default_factory=dict)


def load(path: Path | None = None, *, environ: Mapping[str, str] = os.environ) -> Site:
    """Read the settings of this machine.

    Args:
        path: The site file; None for the one that `CAPSULE_SITE` names, else `capsule/site.json`
            below `XDG_CONFIG_HOME` or `~/.config`, which need not exist.
        environ: Variables to look in.

    Raises:
        UsageError: A file that was asked for does not exist, cannot be read, is not strict JSON or
            breaks the schema; names the file, and the JSON pointer of the field.
    """
    named = path or _variable("CAPSULE_SITE", environ)
    file = named or _home_folder("XDG_CONFIG_HOME", ".config", environ) / "capsule" / "site.json"
    if named is None and not file.exists():
        return Site(file=file)
    try:
        settings = schema.parse(file.read_bytes(), where=str(file))
    except OSError as error:
        raise UsageError(f"cannot read the site file: {error.strerror}", where=str(file)) from error
    except DamagedError as error:
        raise UsageError(error.what, where=error.where) from error
    _check(settings, file)
    return Site(
        file=file,
        runtime=settings.get("runtime"),
        cache=Path(settings["cache"]) if "cache" in settings else None,
        data={digest: Path(where) for digest, where in settings.get("data", {}).items()},
    )


def cache_folder(site: Site, *, environ: Mapping[str, str] = os.environ) -> Path:
    """Where to keep what can be made again: generated data, digests of files.

    `CAPSULE_CACHE`, else the site file's `cache`, else `capsule` below `XDG_CACHE_HOME` or
    `~/.cache`. It need not exist.
    """
    return _variable("CAPSULE_CACHE", environ) or site.cache or own_cache_folder(environ=environ)


def own_cache_folder(*, environ: Mapping[str, str] = os.environ) -> Path:
    """The user's usual one, wherever else the cache may be: `XDG_CACHE_HOME` or `~/.cache`."""
    return _home_folder("XDG_CACHE_HOME", ".cache", environ) / "capsule"


def state_folder(*, environ: Mapping[str, str] = os.environ) -> Path:
    """Where this user's own ledgers lie: below `XDG_STATE_HOME` or `~/.local/state`."""
    return _home_folder("XDG_STATE_HOME", ".local/state", environ) / "capsule"


def _check(settings: object, file: Path) -> None:
    for pointer, message in schema.validate(settings, "site-1"):
        advice = None
        if pointer.startswith("/data") or pointer == "/cache":
            advice = 'datasets are {"sha256:<64 hex digits>": "/absolute/path"}, paths are absolute'
        raise UsageError(message, where=f"{file}#{pointer}", advice=advice)


def _variable(name: str, environ: Mapping[str, str]) -> Path | None:
    return Path(environ[name]) if environ.get(name) else None


def _home_folder(variable: str, usual: str, environ: Mapping[str, str]) -> Path:
    folder = _variable(variable, environ)
    if folder and folder.is_absolute():  # the XDG specification has relative ones ignored
        return folder
    return (_variable("HOME", environ) or Path.home()) / usual
