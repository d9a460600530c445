"""Small charts as SVG: text stays text, and a reader's dark page turns the colours around."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT = 720, 400
_LEFT, _RIGHT, _TOP, _BOTTOM = 64, 24, 64, 52
# told apart by dashes and by the words beside them too, never by colour alone
_DASHES = ("", "7 4", "2 3", "9 3 2 3", "4 2", "1 4")
_STYLE = """\
text { font: 13px system-ui, sans-serif; fill: #222 }
.title { font-size: 15px; font-weight: 600 }
.quiet { fill: #666 }
.grid { stroke: #ddd; stroke-width: 1 }
.edge { stroke: #999; stroke-width: 1 }
.band { fill: #e8eef5 }
.line { fill: none; stroke-width: 2.2 }
.mark { stroke: none }
.s0 { stroke: #0b5cad } .f0 { fill: #0b5cad }
.s1 { stroke: #a8480d } .f1 { fill: #a8480d }
.s2 { stroke: #1d7044 } .f2 { fill: #1d7044 }
.s3 { stroke: #74409b } .f3 { fill: #74409b }
.s4 { stroke: #555 } .f4 { fill: #555 }
@media (prefers-color-scheme: dark) {
text { fill: #ddd }
.quiet { fill: #999 }
.grid { stroke: #383838 }
.edge { stroke: #777 }
.band { fill: #22303f }
.s0 { stroke: #6cb2f7 } .f0 { fill: #6cb2f7 }
.s1 { stroke: #f2a36b } .f1 { fill: #f2a36b }
.s2 { stroke: #71c99a } .f2 { fill: #71c99a }
.s3 { stroke: #c49be8 } .f3 { fill: #c49be8 }
.s4 { stroke: #aaa } .f4 { fill: #aaa }
}
"""


@dataclass(frozen=True, kw_only=True)
class Series:
    """One line of a chart.

    Attributes:
        label: Stands beside the line.
        points: (x, y) in the chart's units.
        label_at: Index of the point that the label stands beside.
    """

    label: str
    points: Sequence[tuple[float, float]]
    label_at: int


@dataclass(frozen=True, kw_only=True)
class Bar:
    """One interval of an interval chart, with its estimate and what was decided."""

    label: str
    lower: float
    estimate: float
    upper: float
    word: str


def line_chart(
    title: str,
    series: Sequence[Series],
    *,
    x: str,
    y: str,
    x_ticks: Sequence[float],
    y_ticks: Sequence[float],
) -> str:
    """Lines over a logarithmic x axis."""
    left = _LEFT
    across = _scale(x_ticks, left, WIDTH - _RIGHT, math.log)
    up = _scale(y_ticks, HEIGHT - _BOTTOM, _TOP, float)
    parts = [text(left, 24, title, "title")]
    for tick in y_ticks:
        parts.append(line(left, up(tick), WIDTH - _RIGHT, up(tick), "grid"))
        parts.append(text(left - 8, up(tick) + 4, f"{tick:g}", "quiet", "end"))
    for tick in x_ticks:
        parts.append(line(across(tick), up(y_ticks[0]), across(tick), up(y_ticks[0]) + 5, "edge"))
        parts.append(text(across(tick), up(y_ticks[0]) + 20, f"{tick:g}", "quiet", "middle"))
    parts.append(text((left + WIDTH - _RIGHT) / 2, HEIGHT - 10, x, "quiet", "middle"))
    parts.append(text(left, _TOP - 18, y, "quiet"))
    for number, one in enumerate(series):
        parts += _draw_line(number, [(across(a), up(b)) for a, b in one.points], one)
    return document(title, parts, HEIGHT)


def _draw_line(number: int, points: Sequence[tuple[float, float]], one: Series) -> list[str]:
    colour, dash = number % 5, _DASHES[number % len(_DASHES)]
    path = " ".join(f"{a:.1f},{b:.1f}" for a, b in points)
    drawn = [f'<polyline class="line s{colour}" stroke-dasharray="{dash}" points="{path}"/>']
    drawn += [
        f'<circle class="mark f{colour}" cx="{a:.1f}" cy="{b:.1f}" r="3"/>' for a, b in points
    ]
    a, b = points[one.label_at]
    return [*drawn, text(a + 9, b + 15, one.label, f"f{colour}")]


def interval_chart(
    title: str, bars: Sequence[Bar], *, x: str, region: tuple[float, float], ticks: Sequence[float]
) -> str:
    """Intervals below each other, across the band of what still counts as the same."""
    left, top, step = 150, 44, 34
    height = top + step * len(bars) + _BOTTOM
    across = _scale(ticks, left, WIDTH - 130, float)
    bottom = height - _BOTTOM
    low, high = across(region[0]), across(region[1])
    box = f'x="{low:.1f}" y="{top}" width="{high - low:.1f}" height="{bottom - top}"'
    parts = [text(16, 24, title, "title"), f'<rect class="band" {box}/>']
    for tick in ticks:
        parts.append(line(across(tick), bottom, across(tick), bottom + 5, "edge"))
        parts.append(text(across(tick), bottom + 20, f"{tick:g}", "quiet", "middle"))
    parts.append(line(across(0), top, across(0), bottom, "grid"))
    parts.append(text((left + WIDTH - 130) / 2, height - 10, x, "quiet", "middle"))
    colours = {"REPRODUCED": 2, "DIFFERENT": 1, "INCONCLUSIVE": 4}
    for number, bar in enumerate(bars):
        y, colour = top + step * (number + 0.5), colours[bar.word]
        ends = [across(end) for end in (bar.lower, bar.estimate, bar.upper)]
        parts.append(text(16, y + 4, bar.label))
        parts.append(line(ends[0], y, ends[2], y, f"line s{colour}"))
        parts += [line(end, y - 6, end, y + 6, f"line s{colour}") for end in (ends[0], ends[2])]
        parts.append(_dot(ends[1], y, 4, colour))
        parts.append(text(WIDTH - 118, y + 4, bar.word, f"f{colour}"))
    return document(title, parts, height)


def _scale(
    ticks: Sequence[float], start: float, end: float, of: Callable[[float], float]
) -> Callable[[float], float]:
    low, high = of(ticks[0]), of(ticks[-1])
    return lambda value: start + (of(value) - low) / (high - low) * (end - start)


def _dot(x: float, y: float, radius: int, colour: int) -> str:
    return f'<circle class="mark f{colour}" cx="{x:.1f}" cy="{y:.1f}" r="{radius}"/>'


def line(x1: float, y1: float, x2: float, y2: float, style: str) -> str:
    ends = f'x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"'
    return f'<line class="{style}" {ends}/>'


def text(x: float, y: float, words: str, style: str = "", anchor: str = "start") -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"'
    return f'<text class="{style}" {place}>{escape(words)}</text>'


def document(title: str, parts: Sequence[str], height: int) -> str:
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img"'
        f' aria-label="{escape(title)}">'
    )
    return "\n".join([head, f"<style>\n{_STYLE}</style>", *parts, "</svg>", ""])
