"""Escaping of authors' file names in a capsule: `café.txt` becomes `caf=C3=A9.txt`.

The files below `inputs/` and `datasets/` have their authors' names, and an archive has only those
that mean one file on every system (`names`). What may not stand there is written as
quoted-printable has it: `=` and two capital hex digits for each byte of its UTF-8. Only what has to
be is: files of some names have one list of names in a capsule, and a reader takes no other.

- a character that no name in a capsule has, and `=` itself;
- a space at either end of a part of the path, and a dot at its end;
- the first letter of a part that is a device on Windows, or that begins as what is git's does;
- the capital letters of parts that in one folder are equal but for case.
"""

from __future__ import annotations

import re
import sys
import unicodedata
from binascii import a2b_qp
from collections import Counter
from collections.abc import Collection, Iterable, Iterator

from capsule.archive import names
from capsule.archive.limits import MOST_NAME_BYTES
from capsule.errors import CannotRunError

FOLDERS = ("inputs/", "datasets/")
"""Below `data/`, with files that people named."""

_ESCAPED = r"=([0-9A-F]{2})"
_CAPITAL = r"[A-Z]"
# controls, ends of lines, what changes the direction of writing, what cannot be seen: which they
# are must not depend on the version of Unicode that a Python knows
_UNSEEN = (
    "[\x00-\x1f\x7f-\x9f\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b\u200e\u200f"
    "\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb\U000e0000-\U000e007f]"
    # joiners hold letters of several scripts together; elsewhere they cannot be seen either
    "|(?<![^\x00-\xa0\u200c\u200d])[\u200c\u200d]|[\u200c\u200d](?=[\u200c\u200d])"
)
# choose one of the forms of the letter before, where a font has several
_VARIATION = "[\u180b-\u180d\u180f\ufe00-\ufe0f\U000e0100-\U000e01ef]"
# a name with one of them may look like one in ASCII: so do Greek's question mark and grave accent,
# and the kelvin sign
_ASCII_ALIKE = f"[\u037e\u1fef\u212a]|{_VARIATION}"
# a later git would be led by it
_REPOSITORY = r"(?is)(?:\.git|git~[0-9]+)[ .]*(?::.*)?"


def fault(path: str) -> str | None:
    """Return why no file in a capsule can have a name, None where one can.

    >>> fault("inputs/数据.csv")
    >>> fault("inputs/.git/config")
    "'.git' is reserved for git: git commands in the unpacked folder could act on it"
    """
    try:
        path.encode()
    except UnicodeEncodeError:
        return "is not UTF-8"
    if unseen := re.search(_UNSEEN, path):
        return f"contains a control or invisible character, {unseen[0]!a}"
    for part in path.split("/"):
        if part in ("", ".", ".."):
            return f"{part!r} is not allowed in a name"
        if re.fullmatch(_REPOSITORY, part):
            return (
                f"{part!r} is reserved for git: git commands in the unpacked folder could act on it"
            )
    return None


def faults(paths: Iterable[str]) -> Iterator[str]:
    """Yield what is wrong with file names, as sentences.

    Args:
        paths: Below a capsule's `data/`, as their authors named them.
    """
    paths = list(paths)
    wrong = {path: reason for path in paths if (reason := fault(path))}
    yield from (f"{path!a}: {reason}" for path, reason in wrong.items())
    right = [path for path in paths if path not in wrong]
    yield from twins(right)
    for path, stored in encode(right).items():
        if len(stored) > MOST_NAME_BYTES - len("data/"):
            spelled = "" if stored == path else f", written in the capsule as {stored!r}"
            yield (
                f"{path!r}: {len(stored) + len('data/')} bytes with `data/`, the limit is"
                f" {MOST_NAME_BYTES} bytes{spelled}"
            )


def require_locale(paths: Iterable[str]) -> None:
    """Stop where Python would read and write names of files as something else than UTF-8.

    Raises:
        CannotRunError: Some have other letters than ASCII, and this locale another encoding.
    """
    encoding = sys.getfilesystemencoding().lower()
    if encoding not in ("utf-8", "utf8") and not all(map(str.isascii, paths)):
        raise CannotRunError(
            f"this locale encodes file names as {encoding}, expected UTF-8",
            advice="set LC_ALL=C.UTF-8",
        )


def twins(paths: Iterable[str]) -> Iterator[str]:
    """Yield names that look equal and coincide on systems that compose letters, as sentences.

    A reader could not tell one from the other either: what is shown before `--trust` would be
    another file than what runs.
    """
    composed: dict[str, str] = {}
    paths = list(paths)
    # names in ASCII alone have no twin but by these
    alike = bool(paths) and any(map(re.compile(_ASCII_ALIKE).search, paths))
    for path in _with_folders(path for path in paths if alike or not path.isascii()):
        shown = unicodedata.normalize("NFC", re.sub(_VARIATION, "", path))
        other = composed.setdefault(shown, path)
        if other != path:
            yield (
                f"{path!a} and {other!a} look the same: they differ only in Unicode composition or"
                " variation"
            )


def encode(paths: Collection[str]) -> dict[str, str]:
    r"""Return the names of files in a capsule, by those that their authors gave them.

    Args:
        paths: Without a `fault`, of all files that people named: which names others have counts.

    >>> encode(["inputs/caf\xe9 (1).txt", "inputs/aux.c", "inputs/Make", "inputs/make"]).values()
    dict_values(['inputs/caf=C3=A9 (1).txt', 'inputs/=61ux.c', 'inputs/=4Dake', 'inputs/make'])
    """
    if all(names.fault(path) is None and "=" not in path for path in paths) and not names.clashes(
        sorted(paths)
    ):
        return {path: path for path in paths}
    written = dict(_write_all(paths))
    return {path: written[path] for path in paths}


def decode(paths: Iterable[str]) -> dict[str, str]:
    """Return the names that their authors gave to files, by those that they have in a capsule.

    Args:
        paths: Below `data/`, of all files that people named.

    Raises:
        ValueError: One is not what `encode` makes of any name, or of these together.
    """
    stored = list(paths)
    if not any("=" in path for path in stored):
        return {path: path for path in stored}
    real = {path: _decode(path) for path in stored}
    for path, name in real.items():
        if reason := fault(name):
            raise ValueError(f"{path!r}: {reason}")
    for twin in twins(real.values()):
        raise ValueError(twin)
    different = 0
    for name, written in _write_all(real.values()):
        if real.get(written) != name:
            path = next(path for path, other in real.items() if other == name)
            raise ValueError(f"{path!r}: wrong escapes, expected {written!r}")
        different += 1
    if different < len(real):
        first: dict[str, str] = {}
        path, name = next(one for one in real.items() if first.setdefault(one[1], one[0]) != one[0])
        raise ValueError(f"{first[name]!r} and {path!r} decode to one file name, {name!a}")
    return real


def _decode(path: str) -> str:
    """Decode the escapes in a name; the caller compares the result with the canonical form."""
    try:
        return a2b_qp(path).decode()
    except UnicodeDecodeError:
        raise ValueError(f"{path!r}: not UTF-8") from None


def _write_all(paths: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Yield each path, and what it is in a capsule, folder by folder."""
    are_files = _with_folders(paths)
    inside: dict[str, list[str]] = {}
    for path in are_files:
        inside.setdefault(path.rpartition("/")[0], []).append(path)
    stored = {"": ""}
    for folder, entries in inside.items():
        parts = [_escape(path.rpartition("/")[2]) for path in entries]
        alike = Counter(map(str.lower, parts))
        above = f"{stored[folder]}/" if folder else ""
        for path, part in zip(entries, parts, strict=True):
            written = above + (part if alike[part.lower()] == 1 else _escape_capitals(part))
            if path in inside:
                stored[path] = written
            if are_files[path]:
                yield path, written


def _escape(part: str) -> str:
    """Return a part of a path as it stands in a capsule, whatever others there are."""
    escaped = re.sub(names.FOREIGN, lambda match: _write(match[0]), part)
    if escaped.startswith(" "):
        escaped = _write(" ") + escaped[1:]
    if escaped.endswith((" ", ".")):
        escaped = escaped[:-1] + _write(escaped[-1])
    if names.is_reserved(escaped):
        escaped = _write(escaped[0]) + escaped[1:]
    return escaped


def _escape_capitals(escaped: str) -> str:
    """Return the same with its capital letters escaped, but for those that are hex digits."""
    pieces = re.split(_ESCAPED, escaped)
    pieces[::2] = [re.sub(_CAPITAL, lambda match: _write(match[0]), piece) for piece in pieces[::2]]
    pieces[1::2] = [f"={digits}" for digits in pieces[1::2]]
    return "".join(pieces)


def _write(text: str) -> str:
    return "=" + text.encode().hex("=").upper()


def _with_folders(paths: Iterable[str]) -> dict[str, bool]:
    """Return paths, and the folders that they lie in, each behind its own, with whether it is a
    file.
    """
    known: dict[str, bool] = {}
    for path in paths:
        missing = []
        folder = path.rpartition("/")[0]
        while folder and folder not in known:
            missing.append(folder)
            folder = folder.rpartition("/")[0]
        known.update(dict.fromkeys(reversed(missing), False))
        known[path] = True
    return known
