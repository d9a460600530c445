"""Problems of a manifest, with their positions and sentences."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from itertools import islice
from typing import Any

from capsule import plain, schema
from capsule.errors import ManifestError
from capsule.manifest.lines import scan

_AT_MOST = 25
# words of other tools
_MEANT = {
    **dict.fromkeys(("percent", "percentage", "pct", "rtol"), "relative"),
    **dict.fromkeys(("abs", "atol", "tolerance", "value"), "absolute"),
    **dict.fromkeys(("cmd", "args", "argv", "run", "exec"), "command"),
    **dict.fromkeys(("env", "variables"), "environment"),
    **dict.fromkeys(("workdir", "working_dir", "dir"), "cwd"),
    **dict.fromkeys(("input", "standard_input"), "stdin"),
    **dict.fromkeys(("files", "sources", "scripts"), "inputs"),
    **dict.fromkeys(("flags", "parameters", "matrix", "grid"), "cases"),
    **dict.fromkeys(("build", "prepare", "before"), "setup"),
    **dict.fromkeys(("regex", "regexp", "capture"), "pattern"),
}
_MOST_NAMES = 200  # difflib takes about 20 microseconds a name
_KINDS = {
    "object": "an object",
    "array": "a list",
    "string": "a text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
}
_PHRASES = {
    "minimum": "{value} is below the minimum, {expected}",
    "exclusiveMinimum": "{value} is too small: write a value above {expected}",
    "maximum": "{value} is above the maximum, {expected}",
    "exclusiveMaximum": "{value} is too large: write a value below {expected}",
    "minItems": "{value} has too few entries: found {count}, expected at least {expected}",
    "minProperties": "{value} has too few entries: found {count}, expected at least {expected}",
    "minLength": "{value} has too few characters: found {count}, expected at least {expected}",
    "maxItems": "has too many entries: found {count}, expected at most {expected}",
    "maxLength": "has too many characters: found {count}, expected at most {expected}",
    # the one field that the schema forbids beside another
    None: '{value}: the dataset has both "generator" and "path"; remove one of the two',
}


# of a text beyond that the line is the last one before it: each value takes memory
MOST_SCANNED = 1 << 18


class Problems:
    """Problems found so far, by JSON pointer."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, str], None] = {}
        self._around: set[str] = set()

    def add(self, pointer: str, message: str) -> None:
        """Note that the value at `pointer` is wrong; a repeated note counts once."""
        self._found[(pointer, message)] = None
        while pointer not in self._around:
            self._around.add(pointer)
            pointer = pointer.rpartition("/")[0]

    def below(self, pointer: str) -> bool:
        """Return whether anything is wrong at `pointer` or inside it."""
        return pointer in self._around

    def add_violations(self, value: Any, name: str) -> None:
        """Check `value` against a published schema, and note each violation."""
        for error in schema.violations(value, name):
            for pointer, message in _word(error):
                self.add(pointer, message)

    def stop(self, text: str, where: str) -> None:
        """Raise an error if a problem was noted.

        Raises:
            ManifestError: Every problem, one a line, in the order of the text.
        """
        if not self._found:
            return
        lines = scan(text[:MOST_SCANNED])
        problems = ((lines.line(pointer), pointer, message) for pointer, message in self._found)
        raise report(sorted(problems), where)


def report(problems: list[tuple[int, str, str]], where: str) -> ManifestError:
    """Return the error that lists (line, pointer, message) of each problem."""
    count = "one problem" if len(problems) == 1 else f"{len(problems)} problems"
    rows = [
        f"line {line}, {plain.clean(pointer) or '/'}: {message}"
        for line, pointer, message in problems
    ]
    if len(rows) > _AT_MOST:
        rows[_AT_MOST:] = [f"and {len(rows) - _AT_MOST} more"]
    return ManifestError("\n  ".join([f"not a valid manifest, {count}:", *rows]), where=where)


def nearest(word: str, names: Iterable[str]) -> str | None:
    """Return the name that an unknown word most likely means, or None.

    >>> nearest("gem", ["relu", "gemm"])
    'gemm'
    """
    known = {name.lower(): name for name in islice(names, _MOST_NAMES)}
    if (meant := _MEANT.get(word.lower())) in known:
        return meant
    # takes 1 ms, and most manifests have no problem
    import difflib

    close = difflib.get_close_matches(word.lower()[:64], known, n=1)
    return known[close[0]] if close else None


def instead(word: str, names: Iterable[str]) -> str:
    """Return what to write instead of an unknown `word`, as the end of a sentence.

    >>> instead("gem", ["relu", "gemm"])
    "did you mean 'gemm'?"
    """
    names = list(names)
    near = nearest(word, names)
    if near:
        return f"did you mean {near!r}?"
    return f"there are: {', '.join(names)}" if names else "there are none"


def quote(value: Any) -> str:
    """Return a value as a message quotes it: JSON in ASCII, cut at 60 characters."""
    text = json.dumps(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _word(error: Any) -> list[tuple[str, str]]:
    pointer = schema.pointer(*error.absolute_path)
    if "propertyNames" in error.absolute_schema_path:
        pointer += schema.pointer(error.instance[:200])
    if error.validator == "additionalProperties":
        return _unknown_fields(error, pointer)
    if error.validator == "required":
        missing = [name for name in error.validator_value if name not in error.instance]
        return [(pointer, f"the field {name!r} is missing") for name in missing]
    return [(pointer, _sentence(error))]


def _sentence(error: Any) -> str:
    kind, expected, value = error.validator, error.validator_value, error.instance
    own = error.schema.get("errorMessage") if isinstance(error.schema, dict) else None
    if kind == "type" and "typeErrorMessage" in error.schema:
        # a number is probably meant to stand inside; of anything else only the form is quoted
        number = isinstance(value, int | float) and not isinstance(value, bool) and value > 0
        inside = quote(value) if number else "0.1"
        return f"{quote(value)}: {error.schema['typeErrorMessage'].replace('{value}', inside)}"
    if own:
        return f"{quote(value)}: {own}"
    if kind == "enum" and isinstance(value, str):
        return f"{quote(value)} is unknown; {instead(value, map(str, expected))}"
    if kind == "type":
        kinds = [expected] if isinstance(expected, str) else expected
        return f"{quote(value)} is not {' or '.join(_KINDS[name] for name in kinds)}"
    if kind == "enum":
        return f"found {quote(value)}, expected one of {', '.join(map(quote, expected))}"
    phrase = _PHRASES.get(kind, "{value} is not allowed in this field")
    count = len(value) if isinstance(value, str | list | dict) else None
    return phrase.format(value=quote(value), expected=expected, count=count)


def _unknown_fields(error: Any, pointer: str) -> list[tuple[str, str]]:
    known = [
        name
        for name, field_schema in error.schema.get("properties", {}).items()
        if field_schema is not False
    ]
    inside = _benchmark_fields() if not pointer else ()
    return [
        (
            pointer + schema.pointer(name[:200]),
            f"unknown field {quote(name)}; "
            + (
                f"it belongs in a benchmark: /benchmarks/0{schema.pointer(name)}"
                if name in inside
                else instead(name, known)
            ),
        )
        for name in error.instance
        if name not in error.schema.get("properties", {})
    ]


def _benchmark_fields() -> Collection[str]:
    """Return the fields of a command's benchmark, where most wanted fields are."""
    fields: Collection[str] = schema.load("manifest-1")["definitions"]["commandBenchmark"][
        "properties"
    ]
    return fields
