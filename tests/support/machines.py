"""Recorded machines: `tests/data/machines/NAME.json` unfolded into a tree of files.

A recorded machine maps paths to contents. `[0-3]` in a path stands for one file per number; its
content is then one text for all, in which `{n}` is the number, or a list with one text for each.

`python -m tests.support.machines` prints the record of this machine: every file that the
inventory opens. Take out what names the host before it is kept.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

DATA = Path(__file__).parent.parent / "data" / "machines"
_RANGE = re.compile(r"\[(\d+)-(\d+)\]")


def unfold(name: str, folder: Path) -> Path:
    """Write the recorded machine `name` below `folder`; returns the root of its tree."""
    for path, content in json.loads((DATA / f"{name}.json").read_text()).items():
        for one, text in _each(path, content):
            file = folder / one
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(f"{text}\n")
    return folder


def _each(path: str, content: str | list[str]):
    found = _RANGE.search(path)
    if found is None:
        return [(path, content)]
    numbers = range(int(found[1]), int(found[2]) + 1)
    texts = [content] * len(numbers) if isinstance(content, str) else content
    return [
        (_RANGE.sub(str(number), path), text.replace("{n}", str(number)))
        for number, text in zip(numbers, texts, strict=True)
    ]


def record() -> dict[str, str]:
    from capsule import inventory

    opened = set()

    def note(event, arguments):
        if event == "open" and str(arguments[0]).startswith(("/proc", "/sys", "/etc")):
            opened.add(str(arguments[0]))

    sys.addaudithook(note)
    inventory.node(salt="")
    found = {}
    for path in sorted(opened):
        try:
            lines = Path(path).read_text(errors="replace").strip().splitlines()
        except OSError:
            continue
        # the first mapping tells the page size, the others the interpreter's paths
        found[path.lstrip("/")] = "\n".join(lines[1:22] if path.endswith("smaps") else lines)
    return found


if __name__ == "__main__":
    json.dump(record(), sys.stdout, indent=1)
