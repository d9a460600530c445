"""Modules beside a Python script: what a script imports, and where a module lies.

Sources are searched line by line, never parsed or imported: they may be anybody's.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from capsule import leavings

_MOST_FILES, _MOST_BYTES = 200, 1 << 20
_MOST_NAMES = 1000
_IMPORT = re.compile(r"(?m)^[ \t]*import[ \t]+([\w., \t]+)")
_FROM = re.compile(
    r"(?m)^[ \t]*from[ \t]+(\.{0,20})(\w[\w.]{0,200})?[ \t]+import[ \t]+(\([^)]{0,9999}\)|[^\n#]*)"
)
_TEXTS = re.compile(r'("""|\'\'\')[\s\S]*?\1')
_BINARY = (".so", ".pyd")


def find_imports(script: str, folder: Path) -> list[str]:
    """Return files and packages beside a Python script that it imports, and that those import.

    Args:
        script: Path of the script below `folder`.
        folder: Where the manifest lies.

    Returns:
        Paths below `folder`, in the order in which they are met: of a module its file, of a package
        its folder.
    """
    top = PurePosixPath(script).parent
    found: dict[str, None] = {}
    waiting, seen = [script], {script}
    while waiting and len(seen) <= _MOST_FILES:
        current = waiting.pop(0)
        for path in _imported(current, top, folder):
            name = path.as_posix()
            # of a package the whole folder is needed
            whole = (top / path.relative_to(top).parts[0]).as_posix()
            found.setdefault(whole, None)
            if name not in seen:
                seen.add(name)
                waiting += _sources(path, folder)
    return [path for path in found if path != script]


def find_module(name: str, folder: Path, script: str | None) -> str | None:
    """Return a module's file or package folder beside a manifest, or None.

    Args:
        name: As it is imported: `model` or `model.layers`.
        folder: Where the manifest lies.
        script: Path of the script below it that imports the module, where that is known.
    """
    beside = PurePosixPath(script or ".").parent
    tops = (beside, PurePosixPath("."), beside / "src", PurePosixPath("src"), beside.parent)
    for top in dict.fromkeys(tops):
        if (path := _locate(top, name, folder)) is not None:
            return path.as_posix()
    return None


def _imported(current: str, top: PurePosixPath, folder: Path) -> Iterator[PurePosixPath]:
    """Return the modules beside the script that a source imports."""
    text = _TEXTS.sub("", _read(folder / current))
    for match in _IMPORT.finditer(text):
        for part in match[1].split(","):
            if part.strip():
                yield from filter(None, [_locate(top, part.split()[0], folder)])
    for dots, name, names in _FROM.findall(text):
        own = PurePosixPath(current).parent
        start = own.joinpath(*[".."] * (len(dots) - 1)) if dots else top
        base = PurePosixPath(os.path.normpath(start))
        if base != top and top not in base.parents:
            continue
        for one in re.findall(r"\w+", names)[:_MOST_NAMES] or [""]:
            parts = ".".join(filter(None, (name, one)))
            place = _locate(base, parts, folder) or (_locate(base, name, folder) if name else None)
            if place is not None:
                yield place


def _locate(top: PurePosixPath, name: str, folder: Path) -> PurePosixPath | None:
    """Return the file of a module, or the folder of a package, None where it is not there."""
    parts = [part for part in name.split(".") if part]
    if not parts:
        return None
    path = top.joinpath(*parts)
    try:
        if (folder / f"{path}.py").is_file():
            return PurePosixPath(f"{path}.py")
        if (folder / path).is_dir():
            names = [one.name for one in (folder / path).iterdir()]
            return path if any(one.endswith((".py", *_BINARY)) for one in names) else None
        names = [one.name for one in (folder / path).parent.iterdir()]
    except OSError:
        return None
    last = parts[-1]
    binary = (one for one in sorted(names) if one.startswith(f"{last}.") and one.endswith(_BINARY))
    return next((path.with_name(one) for one in binary), None)


def _sources(path: PurePosixPath, folder: Path) -> list[str]:
    """Return the Python files of a module or of a package."""
    if path.suffix == ".py":
        return [path.as_posix()]
    files = sorted((folder / path).rglob("*.py"))[:_MOST_FILES]
    return [file.relative_to(folder).as_posix() for file in files]


def _read(path: Path) -> str:
    stream = leavings.open_file(Path(os.path.realpath(path)))
    if stream is None:
        return ""
    with stream:
        return stream.read(_MOST_BYTES).decode(errors="replace")
