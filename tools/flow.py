"""The picture of the README: one file goes from author to verifier, who gets a verdict.

python tools/flow.py docs/img/flow.svg
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import svg

TITLE = (
    "An author runs a benchmark and seals a capsule; a verifier runs it again and gets a verdict"
)
_HEIGHT, _MIDDLE = 250, 128
_BOX_HEIGHT, _LINE_HEIGHT = 74, 17


@dataclass(frozen=True, kw_only=True)
class Box:
    """A rectangle with a heading and quiet lines below it; x, y and width in pixels."""

    x: int
    y: int
    width: int
    heading: str
    lines: Sequence[str]


MANIFEST = Box(
    x=92, y=34, width=170, heading="manifest + script", lines=["what to run,", "measure and claim"]
)
RUN = Box(
    x=292,
    y=34,
    width=170,
    heading="capsule run",
    lines=["seeds of the author,", "container or host"],
)
CAPSULE = Box(
    x=492,
    y=34,
    width=216,
    heading="quickstart.capsule.zip",
    lines=["code, image, hardware,", "every sample, the margin"],
)
VERIFY = Box(
    x=492,
    y=154,
    width=216,
    heading="capsule verify",
    lines=["the same image and plan,", "fresh seeds from its id"],
)
VERDICT = Box(
    x=232, y=154, width=230, heading="verdict", lines=["REPRODUCED, DIFFERENT", "or INCONCLUSIVE"]
)


def draw() -> str:
    """Return the picture as SVG, 720 pixels wide."""
    parts = [
        _DEFINITIONS,
        svg.text(12, 75, "author", "title"),
        svg.text(12, 195, "verifier", "title"),
        svg.line(12, _MIDDLE + 13, svg.WIDTH - 12, _MIDDLE + 13, "grid"),
        *_draw_box(MANIFEST),
        *_draw_box(RUN),
        *_draw_box(CAPSULE),
        *_draw_box(VERIFY),
        *_draw_box(VERDICT),
        _arrow(MANIFEST.x + MANIFEST.width, 71, RUN.x, 71),
        _arrow(RUN.x + RUN.width, 71, CAPSULE.x, 71),
        _arrow(600, CAPSULE.y + _BOX_HEIGHT, 600, VERIFY.y),
        svg.text(590, _MIDDLE + 3, "published beside the paper", "quiet", "end"),
        _arrow(VERIFY.x, 191, VERDICT.x + VERDICT.width, 191),
    ]
    return svg.document(TITLE, parts, _HEIGHT)


_DEFINITIONS = (
    "<style>.box { fill: #f4f6f9; stroke: #999 }"
    " @media (prefers-color-scheme: dark) { .box { fill: #1c2530; stroke: #777 } }</style>\n"
    '<defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="4" markerHeight="4"'
    ' orient="auto"><path class="f0" d="M0,0 L8,4 L0,8 z"/></marker></defs>'
)


def _draw_box(box: Box) -> list[str]:
    place = f'x="{box.x}" y="{box.y}" width="{box.width}" height="{_BOX_HEIGHT}"'
    below = box.y + 24
    return [
        f'<rect class="box" rx="6" {place}/>',
        svg.text(box.x + 12, below, box.heading, "title"),
        *(
            svg.text(box.x + 12, below + _LINE_HEIGHT * number, words)
            for number, words in enumerate(box.lines, 1)
        ),
    ]


def _arrow(x1: float, y1: float, x2: float, y2: float) -> str:
    return svg.line(x1, y1, x2, y2, "line s0").replace("/>", ' marker-end="url(#tip)"/>')


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("path", type=Path, help="the SVG file to write")
    path: Path = parser.parse_args().path
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(draw())


if __name__ == "__main__":
    main()
