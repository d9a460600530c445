"""The screen of `lint`: what the seeds of each claim can confirm, and the warnings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from capsule import lint, plain
from capsule.manifest import Claim, Manifest
from capsule.manifest.lines import scan
from capsule.manifest.problems import MOST_SCANNED
from capsule.report.terminal.prose import Prose, wrap
from capsule.report.terminal.reach import draw_reach
from capsule.report.terminal.style import text
from capsule.verdict.wording import count

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType
    from rich.text import Text

_PAGE = "docs/reference/warnings.md"
_MOST_LINES = 40
_OF_ONE_CODE = 3
_INDENT = "    "


def draw_lint(
    place: str,
    manifest: Manifest,
    warnings: Sequence[lint.Located],
    measured: Mapping[Claim, lint.Spread] | None = None,
    *,
    full: bool = False,
) -> Iterator[RenderableType]:
    """Draw what the seeds of each claim can confirm, then the warnings.

    Args:
        place: File that the user named.
        manifest: The manifest in that file.
        warnings: About it, the gravest first.
        measured: Spread of the runs of each claim, None for a manifest without runs.
        full: Whether every claim and warning is shown, and each outlook as a sentence too.
    """
    claims = count(len(manifest.claims), "claim") if manifest.claims else "no claims"
    found = count(len(warnings), "warning") if warnings else "no warnings"
    yield Prose(f"{place} is valid: {claims}, {found}")
    yield from draw_reach(manifest, warnings, measured or {}, full=full)
    if full:
        yield from (Prose(one.sentence) for one in lint.outlook(manifest))
    if warnings:
        yield text("")
        inside = place if measured is None else "manifest.json"
        places = list(_places(place, inside, manifest, warnings))
        yield _Warnings(warnings, places, most_lines=None if full else _MOST_LINES)


def _places(
    file: str, inside: str, manifest: Manifest, warnings: Sequence[lint.Located]
) -> Iterator[str]:
    """Yield the file and line that each warning is about.

    Args:
        file: What a warning about everything names.
        inside: Name of the manifest.
        manifest: The manifest.
        warnings: The warnings.
    """
    lines = scan(manifest.source.decode(errors="replace")[:MOST_SCANNED])
    for one in warnings:
        if not one.pointer:
            yield file
        elif manifest.narrowed_from is not None:
            # a part of a manifest has other lines than the file
            yield inside
        else:
            yield f"{inside}:{lines.line(one.pointer)}"


class _Warnings:
    """The warnings: of each its code, its place, what is wrong and what to do.

    Args:
        warnings: At least one.
        places: File and line of each.
        most_lines: Lines for all of them, None for no limit.
    """

    def __init__(
        self, warnings: Sequence[lint.Located], places: Sequence[str], *, most_lines: int | None
    ) -> None:
        self._warnings = warnings
        self._places = places
        self._most = most_lines

    def __rich_console__(
        self, _console: Console, options: ConsoleOptions
    ) -> Iterator[RenderableType]:
        shown, used = Counter[str](), 0
        for one, place in zip(self._warnings, self._places, strict=True):
            if self._most is not None and shown[one.code] == _OF_ONE_CODE:
                continue
            block = _block(one, place, options.max_width)
            if self._most is not None and shown and used + len(block) > self._most:
                continue
            shown[one.code] += 1
            used += len(block)
            yield from block
        if left := Counter(one.code for one in self._warnings) - shown:
            codes = ", ".join(f"{number} {code}" for code, number in left.items())
            yield Prose(f"and {count(left.total(), 'more warning')} ({codes}): --full", "dim")
        anchor = f"#{next(iter(shown))}" if len(shown) == 1 else ", by code"
        yield Prose(f"explained in {_PAGE}{anchor}", "dim")


def _block(warning: lint.Located, place: str, width: int) -> list[Text]:
    """Return a warning as lines, the last of them what to do."""
    what, _, remedy = plain.clean(warning).partition(". ")
    head = f"{warning.code}  {plain.clean(place)}  {what}"
    first, *more = wrap(head, width - len(_INDENT))
    if remedy:
        more += wrap(remedy, width - len(_INDENT))
    drawn = text(first)
    drawn.stylize("yellow", 0, len(warning.code))
    return [drawn, *(text(f"{_INDENT}{line}") for line in more)]
