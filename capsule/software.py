"""The measured software in words, from what it said of itself: text of the author."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from capsule.levels.catalog import FRAMEWORKS

_UNKNOWN = "not known"
PACKAGES = tuple(dict.fromkeys(facts.package for facts in FRAMEWORKS.values()))
"""The packages of the frameworks, the likeliest cause of another result first."""
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


def interpreters(software: Mapping[str, object]) -> list[str]:
    """Return the measured Pythons, each once.

    >>> interpreters({"numpy": {"python": {"implementation": "CPython", "version": "3.11.2"}}})
    ['CPython 3.11.2']
    """
    pythons = (_mapping(one).get("python") for one in software.values())
    return list(dict.fromkeys(_interpreter(one) for one in pythons if isinstance(one, Mapping)))


def packages(software: Mapping[str, object]) -> dict[str, str]:
    """Return the version of each measured package by its name, frameworks first.

    >>> packages({"command": {"distributions": {"Jinja2": "3.1", "numpy": "2.4.6"}}})
    {'numpy': '2.4.6', 'Jinja2': '3.1'}
    """
    versions: dict[str, dict[str, None]] = {}
    for one in software.values():
        for name, version in _mapping(_mapping(one).get("distributions")).items():
            versions.setdefault(str(name), {})[str(version)] = None
    ordered = sorted(versions, key=lambda name: (_importance(name.lower()), name.lower(), name))
    return {name: ", ".join(versions[name]) for name in ordered}


def _importance(name: str) -> int:
    """The place of a package among the frameworks, which cause what others do not."""
    places = (place for place, one in enumerate(PACKAGES) if _is_build(name, one))
    return next(places, len(PACKAGES))


def _parts(one: object) -> Iterator[str]:
    facts = _mapping(one)
    python, found = facts.get("python"), facts.get("distributions")
    if not isinstance(python, Mapping) or not isinstance(found, Mapping):
        missing = facts.get("missing")
        reason = f": {missing[-_LONGEST:]}" if isinstance(missing, str) else ""
        yield f"{_UNKNOWN}{reason}"
        return
    yield _interpreter(python)
    versions = {str(name).lower(): version for name, version in found.items()}
    yield from _frameworks(versions)
    yield f"{len(found)} package{'' if len(found) == 1 else 's'}"


def _interpreter(python: Mapping[str, object]) -> str:
    return f"{python.get('implementation') or 'Python'} {python.get('version') or _UNKNOWN}"


def _frameworks(versions: Mapping[str, object]) -> Iterator[str]:
    for package in PACKAGES:
        matching = [name for name in versions if _is_build(name, package)]
        if matching:
            yield f"{package} {versions[matching[0]]}"


def _is_build(name: str, package: str) -> bool:
    """Return whether it is the package; builds for some processors are named tensorflow-cpu."""
    return name == package or name.startswith(f"{package}-cpu")


def _mapping(value: object) -> Mapping[str, object]:
    return value if isinstance(value, Mapping) else {}
