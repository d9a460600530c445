"""Rules for a manifest whatever its fields mean: plain text, no repeats, paths inside."""

from __future__ import annotations

import json
import os
import re
import unicodedata
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from capsule import plain, schema
from capsule.manifest import commands, foreign
from capsule.manifest.problems import Problems, instead, quote
from capsule.manifest.subjects import ENDINGS

# where a path may be `.`, the manifest's own folder
_WHOLE = re.compile(r"^/benchmarks/[0-9]+/(inputs/[0-9]+|cwd|cwd/copy)$")
_LOOPBACK = re.compile(r"http://(?:localhost|127(?:\.[0-9]{1,3}){3}|\[::1\])(?:[:/]|$)")
_COMMAND = 3  # /benchmarks/INDEX/command: a program text may well hold line breaks


def check(raw: Mapping[str, Any], folder: Path | None, problems: Problems) -> None:
    """Note each violation of these rules.

    Args:
        raw: The parsed document, which need not fit the schema.
        folder: Folder of the manifest; None to skip the checks of files.
        problems: Receiver of the violations.
    """
    _texts(raw, problems)
    _repeats(raw, problems)
    for here, entry in entries(raw, "datasets"):
        _check_address(here, entry, problems)
    fetched = {f"{here}/path" for here, entry in entries(raw, "datasets") if "url" in entry}
    for here, path in _paths(raw):
        is_due = here not in fetched or not folder or os.path.lexists(folder / path)
        if path == "." and _WHOLE.search(here):
            continue
        message = _path_problem(path, folder if is_due else None)
        if not message and folder:
            message = _kind_problem(here, folder / path)
        if message:
            problems.add(here, f"{quote(path)} {message}")


def entries(raw: Mapping[str, Any], name: str) -> list[tuple[str, Mapping[str, Any]]]:
    """Return the objects in field `name`, each with its JSON pointer; none where the field is
    misshapen.

    Datasets stand in an object by their names, everything else in a list.
    """
    values = raw.get(name)
    pairs: list[tuple[Any, Any]] = []
    if name == "datasets":
        pairs = list(values.items()) if isinstance(values, dict) else []
    elif isinstance(values, list):
        pairs = list(enumerate(values))
    return [(schema.pointer(name, key), value) for key, value in pairs if isinstance(value, dict)]


def _texts(raw: Any, problems: Problems) -> None:
    # to keep the pointer of each value takes longer than all else that is done with a manifest
    if all(map(plain.is_clean, set(_strings(raw)))):
        return
    for pointer, text in _walk(raw, ""):
        try:
            text.encode()
        except UnicodeEncodeError:
            message = "contains half of a surrogate pair: write both halves, or the character"
            problems.add(pointer, f"{quote(text)} {message}")
            continue
        parts = pointer.split("/")
        is_command = parts[1:2] == ["benchmarks"] and parts[_COMMAND : _COMMAND + 1] == ["command"]
        if "\0" in text or not (is_command or plain.is_clean(text)):
            message = f"{quote(text)} contains a character that cannot be printed"
            is_pattern = parts[-1] == "pattern"
            problems.add(pointer, message + (foreign.advise_escape(text) if is_pattern else ""))


def _strings(value: Any) -> Iterator[str]:
    """Yield all of a JSON value, keys too."""
    left = [value]
    while left:
        one = left.pop()
        if isinstance(one, str):
            yield one
        elif isinstance(one, dict):
            yield from one
            left += one.values()
        elif isinstance(one, list):
            left += one


def _walk(value: Any, pointer: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, str):
        yield pointer, value
    elif isinstance(value, dict):
        for key, member in value.items():
            inner = pointer + schema.pointer(key[:200])
            yield inner, key
            yield from _walk(member, inner)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _walk(item, f"{pointer}/{index}")


def _repeats(raw: Mapping[str, Any], problems: Problems) -> None:
    # not uniqueItems in the schema: on a list of mixed types that takes quadratic time
    lists = [(f"/{name}", raw.get(name)) for name in ("seeds", "mutable", "claims")]
    benchmarks = entries(raw, "benchmarks")
    lists += [
        (f"{here}/{name}", entry.get(name))
        for here, entry in benchmarks
        for name in ("frameworks", "inputs", "datasets", "formats", "cache", "collectives", "bytes")
    ]
    for here, values in lists:
        listed = values if isinstance(values, list) else []
        for index in _second_ones(listed):
            problems.add(f"{here}/{index}", f"{quote(listed[index])} is given twice; remove one")
    for index in _second_ones([entry.get("id", here) for here, entry in benchmarks]):
        here, entry = benchmarks[index]
        problems.add(
            f"{here}/id", f"another benchmark also has the id {quote(entry.get('id'))}; rename one"
        )


def _second_ones(values: list[Any]) -> Iterator[int]:
    seen: set[Any] = set()
    for index, value in enumerate(values):
        key = json.dumps(value, sort_keys=True) if isinstance(value, dict | list) else value
        if key in seen:
            yield index
        seen.add(key)


def _paths(raw: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for here, entry in entries(raw, "datasets"):
        if isinstance(entry.get("path"), str) and "generator" not in entry:
            yield f"{here}/path", entry["path"]
    for here, entry in entries(raw, "benchmarks"):
        inputs = entry.get("inputs")
        for index, path in enumerate(inputs if isinstance(inputs, list) else ()):
            if isinstance(path, str):
                yield f"{here}/inputs/{index}", path
        for place, path in commands.paths(entry):
            yield f"{here}{place}", path
        for subject in ("operator", "network", "optimizer"):
            named = entry.get(subject)
            for form, path in named.items() if isinstance(named, dict) else ():
                if form in ENDINGS and isinstance(path, str):
                    yield f"{here}/{subject}/{form}", path


def _check_address(here: str, entry: Mapping[str, Any], problems: Problems) -> None:
    """Note contradictory fields of a dataset's address."""
    url, unpack = entry.get("url"), entry.get("unpack")
    if unpack and url is None and "generator" not in entry:
        problems.add(
            f"{here}/unpack", '"unpack" is set, but "url" is missing: add "url", or remove "unpack"'
        )
    if isinstance(url, str) and "digest" not in entry and _is_readable_by_others(url):
        message = "plain http cannot authenticate the data: add a digest"
        problems.add(f"{here}/url", f"{message}, or use an https address")


def _is_readable_by_others(url: str) -> bool:
    """Return whether others on the network can read and change the data of an address."""
    return url.startswith("http://") and not _LOOPBACK.match(url)


def _path_problem(path: str, folder: Path | None) -> str | None:
    if path.startswith("/"):
        return "is an absolute path; write it relative to the manifest"
    parts = path.split("/")
    if ".." in parts:
        way_out = "move the manifest to a folder that contains the path"
        return f"is outside of the manifest's folder; {way_out}"
    if "" in parts or "." in parts or "\\" in path:
        return "is not a plain relative path; write one such as data/train.py"
    if folder is None or not plain.is_clean(path):
        return None
    try:
        target = (folder / path).resolve(strict=True)
    except (OSError, UnicodeEncodeError):
        if twin := _twin(path, folder):
            return (
                f"does not exist beside the manifest; {quote(twin)} looks the same, but has another"
                " Unicode normalization: copy the name of the file into the manifest"
            )
        return f"does not exist beside the manifest; {instead(path, _beside(folder))}"
    if not target.is_relative_to(folder.resolve()):
        return "is a link out of the manifest's folder; replace the link by a copy of its target"
    return None


def _kind_problem(here: str, path: Path) -> str | None:
    if here.endswith(("/cwd", "/cwd/copy")) and not path.is_dir():
        return "is a file, expected a folder"
    if here.endswith("/stdin") and not path.is_file():
        return "is a folder or a special file, expected a regular file"
    return None


def _twin(path: str, folder: Path) -> str | None:
    """Return an existing name that looks the same: macOS decomposes letters, keyboards do not."""
    there: list[str] = []
    for part in path.split("/"):
        composed = unicodedata.normalize("NFC", part)
        try:
            names = [one.name for one in folder.joinpath(*there).iterdir()]
        except OSError:
            return None
        twins = [name for name in names if unicodedata.normalize("NFC", name) == composed]
        if not twins:
            return None
        there.append(part if part in twins else min(twins))
    return "/".join(there)


def _beside(folder: Path) -> list[str]:
    try:
        return sorted(path.name for path in folder.iterdir() if not path.name.startswith("."))[:20]
    except OSError:
        return []
