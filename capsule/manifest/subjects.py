"""What a benchmark measures: an operator or network of the catalogue, or one of the user's file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from capsule.levels import catalog
from capsule.levels.catalog import users
from capsule.manifest import syntax
from capsule.manifest.problems import Problems, instead, quote

Raw = Mapping[str, Any]
Files = Callable[[str], bytes]
"""The bytes of an input file, by its path as the manifest has it; an OSError where it is not."""

ENDINGS = {"file": ".py", "onnx": ".onnx"}


def kind(raw: Raw) -> str:
    """The field that names a benchmark's subject: `operator` or `network`."""
    return "network" if raw["level"] == 1 else "operator"


def source(raw: Raw) -> tuple[str, str] | None:
    """Which kind of file a benchmark's subject comes from, and its path; None for the catalogue's.

    >>> source({"level": 1, "network": {"onnx": "nets/small.onnx"}})
    ('onnx', 'nets/small.onnx')
    """
    named = raw[kind(raw)]
    if isinstance(named, str):
        return None
    (form,) = ENDINGS.keys() & named.keys()
    return form, named[form]


def trains(raw: Raw) -> bool:
    """Whether the training of a network is measured: of an ONNX file's where it is asked for.

    >>> trains({"level": 1, "network": {"onnx": "nets/small.onnx"}})
    False
    """
    file = source(raw)
    usual = file is None or file[0] != "onnx"
    return usual if file is None else bool(raw[kind(raw)].get("trains", usual))


def find(raw: Raw, here: str, files: Files, problems: Problems) -> catalog.Subject | None:
    """The subject of an entry that fits the schema, or None after noting what is wrong with it.

    Args:
        raw: The entry.
        here: Its JSON pointer.
        files: Where a user's file is read from.
        problems: Collects what is found.
    """
    field, file = kind(raw), source(raw)
    where = f"{here}/{field}"
    if file is None:
        known: Mapping[str, catalog.Subject] = catalog.OPERATORS
        if field == "network":
            known = catalog.NETWORKS
        if raw[field] not in known:
            message = f"unknown {field} {quote(raw[field])}; {instead(raw[field], known)}"
            problems.add(where, message)
        if "inputs" in raw:
            problems.add(f"{here}/inputs", f"inputs go with a file, and this {field} has none")
        return known.get(raw[field])
    form, path = file
    where = f"{where}/{form}"
    if not path.endswith(ENDINGS[form]):
        problems.add(where, f"{quote(path)} does not end in {ENDINGS[form]}")
    if not any(path == name or path.startswith(f"{name}/") for name in raw.get("inputs", ())):
        problems.add(where, f"{quote(path)} is not among this benchmark's inputs, nor below one")
    if problems.below(where):
        return None
    if form == "onnx":
        return users.make_onnx_network(path, trains=trains(raw))
    try:
        return _read(raw, path, files)
    except OSError as error:
        problems.add(where, f"{path} cannot be read: {error.strerror}")
    except ValueError as error:
        problems.add(where, f"{path}, {error}")
    return None


def _read(raw: Raw, path: str, files: Files) -> catalog.Subject:
    """The entry of a user's file.

    Raises:
        OSError: It cannot be read.
        ValueError: It lacks something, with its line.
    """
    is_network = kind(raw) == "network"
    needed = users.NETWORK_NEEDED if is_network else users.NEEDED
    definitions = syntax.definitions(files(path), ("parameters", "options"))
    if missing := [name for name in needed if name not in definitions.lines]:
        raise ValueError(f"line 1: defines no {', '.join(missing)} at its top level")
    arguments = definitions.values["parameters"], definitions.values.get("options", {})
    try:
        if is_network:
            return users.make_network(path, *arguments, trains=trains(raw))
        return users.make_operator(path, *arguments, definitions.lines)
    except ValueError as error:
        line = definitions.line(str(error).partition(" ")[0])
        raise ValueError(f"line {line}: {error}") from None
