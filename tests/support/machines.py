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
        for file_path, text in _expand(path, content):
            file = folder / file_path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(f"{text}\n")
    return folder


def _expand(path: str, content: str | list[str]) -> list[tuple[str, str]]:
    span = _RANGE.search(path)
    if span is None:
        assert isinstance(content, str), f"{path} has several contents"
        return [(path, content)]
    numbers = range(int(span[1]), int(span[2]) + 1)
    texts = [content] * len(numbers) if isinstance(content, str) else content
    return [
        (_RANGE.sub(str(number), path), text.replace("{n}", str(number)))
        for number, text in zip(numbers, texts, strict=True)
    ]


def record() -> dict[str, str]:
    from capsule import inventory

    opened: set[str] = set()

    def note(event: str, arguments: tuple[object, ...]) -> None:
        if event == "open" and str(arguments[0]).startswith(("/proc", "/sys", "/etc")):
            opened.add(str(arguments[0]))

    sys.addaudithook(note)
    inventory.node(salt="")
    contents = {}
    for path in sorted(opened):
        try:
            lines = Path(path).read_text(errors="replace").strip().splitlines()
        except OSError:
            continue
        # the first mapping tells the page size, the others the interpreter's paths
        contents[path.lstrip("/")] = "\n".join(lines[1:22] if path.endswith("smaps") else lines)
    return contents


if __name__ == "__main__":
    json.dump(record(), sys.stdout, indent=1)
