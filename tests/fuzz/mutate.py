"""Put something odd in place of any part of a document, or of some bytes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from random import Random
from typing import Any

Path = tuple[str | int, ...]

ODD: tuple[Any, ...] = (
    None,
    True,
    False,
    0,
    1,
    -1,
    2,
    3,
    100_000,
    2**31,
    2**32 - 1,
    2**32,
    2**53 + 1,
    2**63,
    -(2**63),
    2**64 - 1,
    0.0,
    -0.0,
    0.5,
    1.0,
    1e-300,
    5e-324,
    1e100,
    1e300,
    -1e300,
    1.7976931348623157e308,
    "",
    "a",
    " ",
    "a\n",
    "\x00",
    "\x1b[2J",
    "\u202e",
    "\u200d",
    "\ud800",
    "\ufeff",
    "٣",
    "é",
    "..",
    "../x",
    "/",
    "a/b/c/d",
    "train/default/command/final_loss",
    "*",
    "*/*/*/*",
    "NaN",
    "Infinity",
    "1e999",
    "-1",
    "17",
    "sha256:" + "0" * 64,
    "0" * 64,
    "2026-03-01T10:00:42.500+00:00",
    "9999-12-31T23:59:59.999999+00:00",
    "0001-01-01T00:00:00+00:00",
    "2026-02-30T10:00:00+00:00",
    "00:00:01",
    "[bold]",
    "[/]",
    "%s",
    "x" * 65,
    "x" * 2001,
    "x" * 100_000,
    [],
    {},
    [[]],
    [{}],
    {"": ""},
    {"a": {"b": [1, None, "c"]}},
    [0, 0],
    ["a", 1, None],
    [1.5, [2]],
)


def odd(random: Random) -> Any:
    """Some value, fresh: what was drawn before is never changed with it."""
    if random.random() < 0.1:
        deep: Any = 0
        for _ in range(random.choice((3, 30, 60, 62, 63, 64, 65, 70, 200))):
            deep = [deep] if random.random() < 0.5 else {"a": deep}
        return deep
    return json.loads(json.dumps(random.choice(ODD)))


def paths(value: Any, at: Path = ()) -> Iterator[Path]:
    """Where there is anything in a document."""
    yield at
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from paths(inner, (*at, name))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from paths(inner, (*at, index))


def document(value: Any, random: Random, changes: int = 1) -> Any:
    """The document with so many of its parts changed, gone, doubled or exchanged."""
    value = json.loads(json.dumps(value))
    for _ in range(changes):
        places = list(paths(value))
        # deep places are many: go for a level first
        depth = random.randrange(1 + max(map(len, places)))
        place = random.choice([path for path in places if len(path) >= depth])
        value = _changed(value, place, places, random)
    return value


def _changed(value: Any, place: Path, places: list[Path], random: Random) -> Any:
    if not place:
        return odd(random) if random.random() < 0.1 else value
    holder: Any = at(value, place[:-1])
    name: Any = place[-1]
    match random.randrange(8):
        case 0 | 1 | 2:
            holder[name] = odd(random)
        case 3:
            holder[name] = _near(holder[name], random)
        case 4:
            del holder[name]
        case 5:
            holder[name] = json.loads(json.dumps(at(value, random.choice(places))))
        case 6:
            copy = json.loads(json.dumps(holder[name]))
            if isinstance(holder, list):
                holder.insert(random.randint(0, len(holder)), copy)
            else:
                holder[random.choice(("a", "", "x" * 70, f"{name}2", "é"))] = copy
        case _ if isinstance(holder, list):
            random.shuffle(holder)
        case _:
            holder[name] = _near(holder[name], random)
    return value


def _near(value: Any, random: Random) -> Any:
    """A value of the same kind, not far away."""
    if isinstance(value, bool) or value is None:
        return not value
    if isinstance(value, int | float):
        return random.choice(
            (value + 1, value - 1, -value, value * 2, value / 2, value * 1e-9, float(value))
        )
    if isinstance(value, str):
        cut = random.randint(0, len(value))
        extra = random.choice(("", "\n", "x", "\u0301", "/", value, "\ud800"))
        return value[:cut] + extra + value[cut:]
    if isinstance(value, list):
        return value * random.choice((0, 2, 3)) if value else [odd(random)]
    return dict(list(value.items())[: random.randint(0, len(value))])


def at(value: Any, place: Path) -> Any:
    """What stands at a place."""
    for part in place:
        value = value[part]
    return value


def text(data: bytes, random: Random) -> bytes:
    """The bytes with some of them changed, gone, doubled or exchanged."""
    changed = bytearray(data)
    for _ in range(random.choice((1, 1, 1, 2, 5))):
        start = random.randint(0, len(changed))
        end = min(len(changed), start + random.choice((0, 1, 1, 4, 30, 1000)))
        piece = random.choice(
            (
                b"",
                bytes(random.randrange(256) for _ in range(random.choice((1, 4)))),
                changed[start:end] * 2,
                b"\xff" * (end - start),
                b"\n",
                b"[" * 100,
                b"9" * 400,
                b"\xed\xa0\x80",
                b"1e400",
                bytes(changed[:start]),
            )
        )
        changed[start:end] = piece
    return bytes(changed)
