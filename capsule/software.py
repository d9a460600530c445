"""The measured software in words, from what it said of itself: text of the author."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from capsule.levels.catalog import FRAMEWORKS

_UNKNOWN = "not known"
_PACKAGES = dict.fromkeys(facts.package for facts in FRAMEWORKS.values())
_LONGEST = 200


def describe(software: Mapping[str, object]) -> list[str]:
    """Return what was measured: interpreter, frameworks, number of packages, a line for each kind.

    Args:
        software: As in `Record`: by framework, `command` for what commands found.

    >>> inside = {"python": {"implementation": "CPython", "version": "3.11.2"}}
    >>> describe({"numpy": {**inside, "distributions": {"numpy": "2.4.6", "pip": "23.0"}}})
    ['CPython 3.11.2, numpy 2.4.6, 2 packages']
    >>> describe({"command": {"missing": "no python3"}})
    ['not known: no python3']
    """
    names: dict[str, list[str]] = {}
    for name, one in software.items():
        names.setdefault(", ".join(_parts(one)), []).append(name)
    if len(names) < 2:
        return list(names)
    return [f"{line} ({', '.join(measured)})" for line, measured in names.items()]


def _parts(one: object) -> Iterator[str]:
    facts = one if isinstance(one, dict) else {}
    python, found = facts.get("python"), facts.get("distributions")
    if not isinstance(python, dict) or not isinstance(found, dict):
        missing = facts.get("missing")
        reason = f": {missing[-_LONGEST:]}" if isinstance(missing, str) else ""
        yield f"{_UNKNOWN}{reason}"
        return
    yield f"{python.get('implementation') or 'Python'} {python.get('version') or _UNKNOWN}"
    versions = {str(name).lower(): version for name, version in found.items()}
    yield from _frameworks(versions)
    yield f"{len(found)} package{'' if len(found) == 1 else 's'}"


def _frameworks(versions: Mapping[str, object]) -> Iterator[str]:
    for package in _PACKAGES:
        # builds for some processors have names of their own, such as tensorflow-cpu
        matching: Sequence[str] = [
            name for name in versions if name == package or name.startswith(f"{package}-cpu")
        ]
        if matching:
            yield f"{package} {versions[matching[0]]}"
