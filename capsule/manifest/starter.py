"""The manifest that `capsule init` writes: small, valid, and worth changing."""

from __future__ import annotations

import json
import re

from capsule.errors import UsageError


def starter(name: str) -> bytes:
    """The text of a manifest that runs on any machine with numpy.

    Args:
        name: Of the capsule: letters, digits and `. _ + -`.

    Raises:
        UsageError: `name` is not such a name.
    """
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,63}", name):
        advice = "use letters, digits and . _ + - only, at most 64, a letter or digit first"
        raise UsageError(f"a capsule can't be named {name!r}", advice=advice)
    manifest = {
        "$schema": "manifest-1.schema.json",
        "name": name,
        "title": f"{name}: what was measured, in one line",
        "authors": [{"name": "Your Name", "affiliation": "Your Institution"}],
        "license": "CC-BY-4.0",
        "resources": {"cpus_per_rank": 1, "walltime": "00:10:00"},
        "seeds": list(range(17, 27)),
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
