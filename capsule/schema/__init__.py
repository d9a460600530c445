"""The published JSON Schemas (draft-07), the strict JSON parser, and the one `validate`."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import accumulate, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from capsule.errors import DamagedError, NotJsonError
from capsule.jsons import Json

if TYPE_CHECKING:
    import jsonschema_rs
    from jsonschema import Draft7Validator, ValidationError

_MAX_DEPTH = 64
# one that does not end is swallowed: to retry at each quote would be quadratic
_STRINGS = re.compile(rb'"[^"]*"?')
_PIECE_BYTES = 1 << 20
_NO_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
# a message shows fewer, and a document of a million faults must not cost a million errors
_MOST_ERRORS = 100


class _Refused(ValueError):
    pass


def parse(data: bytes, *, where: str) -> Any:
    """Read JSON that two readers cannot understand differently.

    Refused: anything but UTF-8 without a byte order mark, duplicate keys, NaN and infinities
    (spelled out or by overflow), nesting deeper than 64, integers outside 64 bits.

    Args:
        data: The document.
        where: Its name in an error message.

    Returns:
        The document, unchecked: hold it against its schema before anything is taken out of it.

    Raises:
        NotJsonError: Says what is wrong and in which line.
        DamagedError: It is JSON, but refused.
    """
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise DamagedError(
            f"not UTF-8: byte {error.start} is {data[error.start]:#x}", where=where
        ) from None
    if text.startswith("\ufeff"):
        raise DamagedError(
            "has a byte order mark; save the file as UTF-8 without the mark", where=where
        )
    _limit_depth(data, where)
    try:
        return _DECODER.decode(text)
    except json.JSONDecodeError as error:
        raise NotJsonError(
            f"not JSON: {error.msg} at line {error.lineno}, column {error.colno}", where=where
        ) from None
    except _Refused as error:
        raise DamagedError(str(error), where=where) from None


def _limit_depth(data: bytes, where: str) -> None:
    # json recurses once a bracket; a document of 200 000 of them ends in RecursionError
    if data.count(b"[") + data.count(b"{") <= _MAX_DEPTH:
        return
    depth, start, inside = 0, 0, b""
    # in pieces: all at once takes nine times its bytes
    while start < len(data):
        end = start + _PIECE_BYTES
        piece = data[start:end]
        if (len(piece) - len(piece.rstrip(b"\\"))) % 2:
            piece = data[start : end + 1]
        start += len(piece)
        # without its escapes each quote begins a string or ends it
        plain = inside + piece.replace(b"\\\\", b"").replace(b'\\"', b"")
        inside = b'"' if plain.count(b'"') % 2 else b""
        brackets = _STRINGS.sub(b"", plain).translate(None, _NO_BRACKETS)
        steps = [1 if bracket in b"[{" else -1 for bracket in brackets]
        if max(accumulate(steps, initial=depth)) > _MAX_DEPTH:
            raise DamagedError(f"JSON nested deeper than {_MAX_DEPTH} levels", where=where)
        depth += sum(steps)


def _unique(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    fields: dict[str, Json] = {}
    for key, value in pairs:
        if key in fields:
            raise _Refused(f"duplicate key {key!r}")
        fields[key] = value
    return fields


def _no_constant(name: str) -> NoReturn:
    raise _Refused(f"{name} is not JSON")


def _finite(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise _Refused(f"the number {text[:40]} overflows")
    return value


def _int64(text: str) -> int:
    if len(text) > 20 or not -(2**63) <= int(text) < 2**64:
        raise _Refused(f"the integer {text[:40]} does not fit in 64 bits")
    return int(text)


# made once: a journal has a hundred thousand lines
_DECODER = json.JSONDecoder(
    object_pairs_hook=_unique, parse_constant=_no_constant, parse_float=_finite, parse_int=_int64
)


def text(name: str) -> bytes:
    """Return the schema `name` (for example `manifest-1`), as shipped with the package."""
    return Path(__file__).with_name(f"{name}.schema.json").read_bytes()


@cache
def load(name: str) -> dict[str, Any]:
    """Return the schema `name`, parsed."""
    schema: dict[str, Any] = json.loads(text(name))
    return schema


# jsonschema words what is wrong; to import it costs more than to read a small capsule
@cache
def _fast_validator(name: str) -> jsonschema_rs.Draft7Validator:
    import jsonschema_rs

    return jsonschema_rs.Draft7Validator(load(name))


@cache
def _validator(name: str) -> Draft7Validator:
    import jsonschema

    return jsonschema.Draft7Validator(load(name))


def validate(value: object, name: str) -> list[tuple[str, str]]:
    """Hold a parsed JSON value against a published schema.

    Args:
        value: The parsed document.
        name: Schema name, for example `record-1`.

    Returns:
        The first hundred violations as (JSON pointer, message), sorted; empty when it is valid.
    """
    try:
        if _fast_validator(name).is_valid(value):
            return []
        quick = islice(_fast_validator(name).iter_errors(value), _MOST_ERRORS)
        return sorted((pointer(*error.instance_path), error.message) for error in quick)
    except ValueError:  # half a surrogate is a string in Python alone
        slow = islice(_validator(name).iter_errors(value), _MOST_ERRORS)
        return sorted((pointer(*error.absolute_path), error.message) for error in slow)


def violations(value: object, name: str) -> Iterator[ValidationError]:
    """Yield the violations of the schema, for callers with messages of their own."""
    try:
        if _fast_validator(name).is_valid(value):
            return iter(())
    except ValueError:  # half a surrogate is a string in Python alone
        pass
    errors: Iterator[ValidationError] = _validator(name).iter_errors(value)
    return errors


def prune(value: Any, name: str) -> Any:
    """Return the value without what its schema leaves open, which would cost to be looked at for
    nothing.

    Args:
        value: The parsed document, not changed.
        name: Name of the schema.
    """
    return _prune(value, load(name))


def _prune(value: Any, schema: Mapping[str, Any]) -> Any:
    if isinstance(value, dict) and schema.get("type") == "object":
        inner = schema.get("properties")
        if inner is None:
            return value if "additionalProperties" in schema else {}
        return {
            key: _prune(member, inner[key]) if key in inner else member
            for key, member in value.items()
        }
    if isinstance(value, list) and isinstance(items := schema.get("items"), dict):
        return [_prune(item, items) for item in value]
    return value


def pointer(*parts: str | int) -> str:
    """Return a JSON pointer (RFC 6901).

    >>> pointer("metrics", "a/b", 0)
    '/metrics/a~1b/0'
    """
    return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in parts)
