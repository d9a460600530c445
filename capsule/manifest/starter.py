"""The manifest that `capsule init` writes: small, valid, and worth changing."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath

from capsule import patterns
from capsule.errors import UsageError
from capsule.manifest import commands, siblings

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,63}")
_SEEDS = tuple(range(17, 27))
NOBODY = "Your Name"
"""The author of what was never changed."""


def starter(name: str) -> bytes:
    """Return the text of a manifest that runs on any machine with numpy.

    Args:
        name: Name of the capsule: letters, digits and `. _ + -`.

    Raises:
        UsageError: `name` is not such a name.
    """
    require_name(name, "capsule")
    manifest = {
        "$schema": "manifest-1.schema.json",
        "name": name,
        "title": f"{name}: what was measured, in one line",
        "authors": [{"name": NOBODY, "affiliation": "Your Institution"}],
        "license": "CC-BY-4.0",
        "resources": {"cpus_per_rank": 1, "walltime": "00:10:00"},
        "seeds": list(_SEEDS),
        "benchmarks": [
            {
                "id": "gemm",
                "level": 0,
                "operator": "gemm",
                "cases": {"m": [64, 256], "n": [64], "k": [64]},
                "frameworks": ["numpy"],
            }
        ],
        "claims": [
            {"metric": "gemm/*/numpy/l2_error_ratio", "type": "bound", "at_most": 1},
            {"metric": "gemm/*/numpy/l2_error", "type": "equivalence", "primary": False},
            {"metric": "gemm/*/numpy/forward_time", "type": "ratio", "primary": False},
        ],
        "mutable": ["resources"],
    }
    return (json.dumps(manifest, indent=2, ensure_ascii=False) + "\n").encode()


def starter_of(
    name: str, words: Sequence[str], metrics: Mapping[str, str | None], folder: Path
) -> bytes:
    """Return the text of a manifest that runs a command: of one metric fifteen lines.

    Args:
        name: Name of the capsule, as for `starter`.
        words: The command as it is typed. Those that name a file or folder beside the manifest are
            its inputs, as the manifest names inputs: without `./` or a slash at the end. So are
            the modules beside a Python script that it imports.
        metrics: What is measured: a name, and the regular expression that finds its number in what
            the command prints, by its only group or the one named `value`; None where the command
            reports it itself.
        folder: Where the manifest will lie.

    Raises:
        UsageError: A name is none, an expression is none or has another number of groups, or there
            is no command or no metric.
    """
    require_name(name, "capsule")
    if not words:
        raise UsageError(
            "no command after --", advice="add a command, for example -- python3 train.py"
        )
    if not metrics:
        raise UsageError(
            "a command needs a metric",
            advice="add --metric NAME if the script reports the metric to the file CAPSULE_RESULTS,"
            " or --metric 'NAME=NAME: {number}' if the script prints the metric",
        )
    for metric in metrics:
        require_name(metric, "metric")
    named = {word: path for word in words if (path := _input(word, folder))}
    inputs = list(dict.fromkeys(named.values()))
    for script in [path for path in inputs if path.endswith(".py")]:
        beside = siblings.find_imports(script, folder)
        inputs += [path for path in beside if not commands.is_below(path, inputs)]
    benchmark = {
        "id": name,
        "command": [named.get(word, word) for word in words],
        **({"inputs": inputs} if inputs else {}),
    }
    meanings = {metric: _meaning(metric, pattern) for metric, pattern in metrics.items()}
    claims = [
        {"metric": f"{name}/*/*/{metric}", "type": "equivalence", "margin": {"sd": 2}}
        for metric in metrics
    ]
    fields = {
        "$schema": "manifest-1.schema.json",
        "name": name,
        "title": f"{', '.join(metrics)} of {' '.join(words)}"[:200],
        "authors": [{"name": NOBODY, "affiliation": "Your Institution"}],
        "license": "CC-BY-4.0",
        "seeds": _SEEDS,
    }
    lines = [f"  {_json(field)}: {_json(value)}," for field, value in fields.items()]
    lines += ['  "benchmarks": [', f"    {_json(benchmark).removesuffix('}')},"]
    lines += [f'     "metrics": {_json(meanings)}}}', "  ],", '  "claims": [']
    lines += [",\n".join(f"    {_json(claim)}" for claim in claims), "  ]"]
    try:
        return "\n".join(["{", *lines, "}", ""]).encode()
    except UnicodeEncodeError as error:
        bad = error.object[error.start : error.end]
        raise _not_utf8(next((one for one in words if bad in one), bad)) from None


def _not_utf8(word: str) -> UsageError:
    return UsageError(
        f"{word!a} in the command is not valid UTF-8",
        advice="write the argument in UTF-8; if the argument is a path, rename the file",
    )


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)


def require_name(name: str, what: str) -> None:
    """Stop where a name is none.

    Args:
        name: Name of the missing thing.
        what: As it is called in the error.

    Raises:
        UsageError: It has other characters than a name has.
    """
    if not _NAME.fullmatch(name):
        advice = "use 1 to 64 characters: letters, digits and . _ + -, a letter or digit first"
        raise UsageError(f"invalid {what} name {name!r}", advice=advice)


def _meaning(metric: str, pattern: str | None) -> Mapping[str, object]:
    """Return a manifest's entry of a metric; a pattern with a group `step` makes it a curve.

    Raises:
        UsageError: The pattern is none, or it does not say which group holds the number.
    """
    if pattern is None:
        return {}
    try:
        compiled = patterns.compile_pattern(pattern)
    except patterns.PatternError as error:
        message = f"invalid pattern {pattern!r}: {error}"
        advice = "correct the regular expression, in the syntax of RE2"
        raise UsageError(message, where=f"--metric {metric}", advice=advice) from None
    if compiled.groups != 1 and "value" not in compiled.names:
        raise UsageError(
            f"{pattern!r} has {compiled.groups} groups in parentheses, expected one group,"
            " which matches the number",
            where=f"--metric {metric}",
            advice=f"write for example --metric '{metric}={metric}: {{number}}'; with several"
            " groups, write the group of the number as (?P<value>...)",
        )
    if "step" in compiled.names:
        return {"per": "step", "from": {"pattern": pattern, "occurrence": "all"}}
    return {"from": {"pattern": pattern}}


def _input(word: str, folder: Path) -> str | None:
    """Return the path of a file or folder beside the manifest that a word names, None of any
    other.
    """
    path = PurePosixPath(word)
    if path.is_absolute() or not path.parts or ".." in path.parts or "\0" in word:
        return None
    try:
        return path.as_posix() if (folder / path).exists() else None
    except OSError:  # too long for a name
        return None
