"""Subjects of the catalogue, or of a user's file: operators and networks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from capsule.levels import catalog
from capsule.levels.catalog import modules, optimizers, users
from capsule.manifest import commands, syntax
from capsule.manifest.problems import Problems, instead, quote

Raw = Mapping[str, Any]
_Made = TypeVar("_Made")
Files = Callable[[str], bytes]
"""The bytes of an input file, by its path as the manifest has it; an OSError where it is not."""

ENDINGS = {"file": ".py", "module": ".py", "onnx": ".onnx"}


def kind(raw: Raw) -> str:
    """Return the field that names a benchmark's subject: `operator` or `network`."""
    return "network" if raw["level"] else "operator"


def source(raw: Raw) -> tuple[str, str] | None:
    """Return kind and path of the file that defines a benchmark's subject; None for the catalogue.

    >>> source({"level": 1, "network": {"onnx": "nets/small.onnx"}})
    ('onnx', 'nets/small.onnx')
    """
    named = raw[kind(raw)]
    if isinstance(named, str):
        return None
    (form,) = ENDINGS.keys() & named.keys()
    return form, named[form]


def require_path(raw: Raw) -> str:
    """Return the path of the file that a benchmark's subject comes from."""
    file = source(raw)
    assert file is not None
    return file[1]


def trains(raw: Raw) -> bool:
    """Return whether a network's training is measured; ONNX files and modules need `trains`.

    >>> trains({"level": 1, "network": {"onnx": "nets/small.onnx"}})
    False
    """
    file = source(raw)
    usual = file is None or file[0] == "file"
    return usual if file is None else bool(raw[kind(raw)].get("trains", usual))


def find(raw: Raw, here: str, files: Files, problems: Problems) -> catalog.Subject | None:
    """Return the subject of an entry that fits the schema, or None after noting what is wrong with
    it.

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
            problems.add(
                f"{here}/inputs",
                f'"inputs" is set, but this {field} names no file: remove "inputs"',
            )
        return known.get(raw[field])
    form, path = file
    if not check_path(raw, here, problems):
        return None
    if form == "onnx":
        return users.make_onnx_network(path, trains=trains(raw))
    if form == "module":
        facts = run_reader(lambda: read_module(path, files), path, f"{where}/{form}", problems)
        return users.make_module_network(path, trains=trains(raw)) if facts else None
    return run_reader(lambda: _read(raw, path, files), path, f"{where}/{form}", problems)


def check_path(raw: Raw, here: str, problems: Problems) -> bool:
    """Note where a benchmark's own file is no input of it, or ends otherwise; whether all is well.

    Args:
        raw: An entry with a file, that fits the schema.
        here: Its JSON pointer.
        problems: Collects what is found.
    """
    file = source(raw)
    if file is None:
        return True
    form, path = file
    return check_input(path, form, f"{here}/{kind(raw)}/{form}", raw, problems)


def check_input(path: str, form: str, where: str, raw: Raw, problems: Problems) -> bool:
    """Note where a user's file is no input of its entry, or ends otherwise; whether all is well.

    Args:
        path: Path of the file.
        form: What it is, a key of `ENDINGS`.
        where: JSON pointer of what names it.
        raw: The entry.
        problems: Collects what is found.
    """
    if not path.endswith(ENDINGS[form]):
        problems.add(where, f"found {quote(path)}, expected a name that ends in {ENDINGS[form]}")
    if not commands.is_below(path, raw.get("inputs", ())):
        problems.add(
            where,
            f'{quote(path)} is outside this benchmark\'s inputs; add it to "inputs"',
        )
    return not problems.below(where)


def run_reader(
    read: Callable[[], _Made], path: str, where: str, problems: Problems
) -> _Made | None:
    """Return the definitions of a file, or None after noting the problem."""
    try:
        return read()
    except OSError as error:
        problems.add(where, f"cannot read {path}: {error.strerror}")
    except ValueError as error:
        problems.add(where, f"{path}, {error}")
    return None


def read_module(path: str, files: Files) -> modules.Module:
    """Read a user's file about its `torch.nn.Module`.

    Raises:
        OSError: It cannot be read.
        ValueError: It lacks something, with its line.
    """
    definitions = syntax.definitions(files(path), ("inputs", "quality"))
    _require(modules.NEEDED, definitions)
    values = definitions.values
    try:
        return modules.read(values["inputs"], values["quality"])
    except ValueError as error:
        raise _at_line(error, definitions) from None


def read_optimizer(path: str, files: Files, taken: Iterable[str]) -> optimizers.Optimizer:
    """Read a user's file about its optimizer.

    Args:
        path: Path of the file.
        files: Where it is read from.
        taken: What cases vary besides, under these names.

    Raises:
        OSError: It cannot be read.
        ValueError: It lacks something, with its line.
    """
    definitions = syntax.definitions(files(path), ("numbers", "slots"))
    _require(optimizers.NEEDED, definitions)
    values = definitions.values
    try:
        facts = optimizers.read(values["numbers"], values.get("slots", 0), definitions.lines)
        for number in facts.numbers:
            if number.name in taken:
                raise ValueError(
                    f"numbers has {number.name}, an option of the network; rename the number"
                )
    except ValueError as error:
        raise _at_line(error, definitions) from None
    return facts


def _read(raw: Raw, path: str, files: Files) -> catalog.Subject:
    """Return the entry of a user's file.

    Raises:
        OSError: It cannot be read.
        ValueError: It lacks something, with its line.
    """
    is_network = kind(raw) == "network"
    needed = users.NETWORK_NEEDED if is_network else users.NEEDED
    definitions = syntax.definitions(files(path), ("parameters", "options"))
    _require(needed, definitions)
    arguments = definitions.values["parameters"], definitions.values.get("options", {})
    try:
        if is_network:
            return users.make_network(path, *arguments, trains=trains(raw))
        return users.make_operator(path, *arguments, definitions.lines)
    except ValueError as error:
        raise _at_line(error, definitions) from None


def _require(needed: Iterable[str], definitions: syntax.Definitions) -> None:
    if missing := [name for name in needed if name not in definitions.lines]:
        raise ValueError(f"line 1: the top level defines no {', '.join(missing)}")


def _at_line(error: ValueError, definitions: syntax.Definitions) -> ValueError:
    line = definitions.line(str(error).partition(" ")[0])
    return ValueError(f"line {line}: {error}")
