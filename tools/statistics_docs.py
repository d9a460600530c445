"""Tables, examples and plots of docs/explanation/statistics*.md, but for dated ones.

    python tools/statistics_docs.py [--repetitions N] [--jobs N]     all of it: half an hour
    python tools/statistics_docs.py --computed                       what needs no simulation
    python tools/statistics_docs.py --designs                        rows on whole designs: hours

Text between two markers of one name is replaced, the rest of the pages is left alone. Plots are
drawn from the tables that stand in the pages. Ends with 1 when a row of the acceptance table misses
its limit. With --figures FILE what was simulated is kept there, and is not simulated again.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
# the figures are those of the benchmarks
sys.path.append(str(ROOT / "benchmarks" / "statistics"))

import acceptance
import examples
import populations
import svg
import verdicts
from cells import Figures, Power
from scipy import special
from spreads import runs_for_spreads

from capsule import stats
from capsule.manifest.model import PRESETS

COMMAND = "python tools/statistics_docs.py"
FOLDER = ROOT / "docs" / "explanation"
EXAMPLES = FOLDER / "statistics-examples.md"
PAGES = tuple(
    FOLDER / f"statistics{name}.md" for name in ("", "-measured", "-other-rules", "-examples")
)
FIGURES = FOLDER / "statistics"
_ALPHA = 0.05
# that of a capsule whose author plans no looks: the first of two
_FIRST_LOOK = stats.default_alpha(_ALPHA)
_POWERS = (0.8, 0.9)
_MARGINS = tuple(PRESETS.values())
_RUNS = (3, 4, 5, 6, 7, 8, 10, 12, 15, 20, 25, 30)
_NARROWEST = (2, 3, 4, 5, 6, 8, 10, 15, 20, 30)


def cells() -> list[Any]:
    """Everything that has to be simulated."""
    return [*(cell for row in acceptance.rows() for cell in row.cells), *_power_cells()]


def simulated_parts(
    results: Mapping[Any, Figures], second: Mapping[Any, Figures], repetitions: int
) -> dict[str, str]:
    """The parts that are counted, each with its repetitions, seed and command.

    Args:
        results: The figures of every cell.
        second: Those of the worst cells of the acceptance table from another seed.
        repetitions: Of a cell.
    """
    parts = {
        "acceptance": _acceptance(acceptance.rows(), results, second, repetitions),
        "power": _power(results, "REPRODUCED"),
        "power-different": _power(results, "DIFFERENT"),
    }
    return {name: _stamp(text, repetitions) for name, text in parts.items()}


def design_parts(
    results: Mapping[Any, Figures], second: Mapping[Any, Figures], repetitions: int
) -> dict[str, str]:
    """The rows on whole designs; arguments as of `simulated_parts`."""
    text = _acceptance(acceptance.design_rows(), results, second, repetitions)
    return {"designs": _stamp(text, repetitions)}


def _stamp(text: str, repetitions: int) -> str:
    return (
        f"{text}\n\n{repetitions} simulations a cell (standard error"
        f" {verdicts.standard_error(5, repetitions):.2f} percentage points at a rate of 5 %), seed"
        f" {populations.SEED}."
    )


def read() -> str:
    """The text of all pages."""
    return "\n".join(page.read_text() for page in PAGES)


def write(parts: Mapping[str, str]) -> None:
    """Put each part between its markers, on the page that has them."""
    for page in PAGES:
        text = page.read_text()
        own = {
            name: new for name, new in parts.items() if re.search(_pattern(name), text, re.DOTALL)
        }
        page.write_text(replace_parts(text, own))


def figures(page: str) -> dict[str, str]:
    """File name to SVG, drawn from the tables of the pages and from the worked examples."""
    return {
        "decisions.svg": examples.chart(),
        "power.svg": _power_chart(
            page, "power", "Runs that confirm a margin when there is no shift"
        ),
        "power-different.svg": _power_chart(
            page, "power-different", "Runs that find a shift of two margins"
        ),
    }


def part(page: str, name: str) -> str:
    """What stands between the two markers of that name, with the command left out."""
    block = re.search(_pattern(name), page, re.DOTALL)
    if block is None:
        raise ValueError(f"the page has no markers for {name}")
    return block[2].removesuffix(_command(name)).strip("\n")


def replace_parts(page: str, parts: Mapping[str, str]) -> str:
    """The page with these parts put between their markers."""
    for name, text in parts.items():
        part(page, name)

        def fill(block: re.Match[str], name: str = name, text: str = text) -> str:
            return f"{block[1]}\n{text}{_command(name)}{block[3]}"

        page = re.sub(_pattern(name), fill, page, flags=re.DOTALL)
    return page


def _pattern(name: str) -> str:
    return rf"(<!-- begin {name} -->)\n(.*?)(<!-- end {name} -->)"


def _command(name: str) -> str:
    option = " --computed" if name in COMPUTED else " --designs" if name == "designs" else ""
    return f"\n\n<sub>`{COMMAND}{option}`</sub>\n"


def table(head: Sequence[str], lines: Sequence[Sequence[str]], *, words: int = 1) -> str:
    """A Markdown table; all columns but the first `words` are numbers."""
    rule = ["---" if column < words else "--:" for column in range(len(head))]
    return "\n".join(f"| {' | '.join(line)} |" for line in (head, rule, *lines))


def _presets() -> str:
    lines = []
    for name, k in PRESETS.items():
        higher = float(special.ndtr(k / 2**0.5))
        needed = [runs_for_spreads(k, alpha=_FIRST_LOOK, power=power) for power in _POWERS]
        lines.append((f"`{name}`", f"{k:g} sd", f"{100 * higher:.0f} %", *map(str, needed)))
    head = ("preset", "margin", "B's run beats A's at the margin")
    return table((*head, *(f"runs a side, first look, power {p}" for p in _POWERS)), lines)


def _narrowest() -> str:
    def line(name: str, other: Callable[[int], int | None], power: float) -> tuple[str, ...]:
        margins = (
            stats.narrowest_margin(n, other(n), alpha=_FIRST_LOOK, power=power) for n in _NARROWEST
        )
        return (f"{name}, power {power}", *(f"{margin:.2f}" for margin in margins))

    lines = [line("as many on both sides", lambda n: n, power) for power in _POWERS]
    lines += [line("any number of re-runs", lambda _: None, power) for power in _POWERS]
    return table(("published runs", *map(str, _NARROWEST)), lines)


def _looks() -> str:
    counts = range(1, 6)
    lines = [
        (f"{alpha:g} overall", *(f"{stats.nominal_alpha(alpha, k):.4f}" for k in counts))
        for alpha in (0.05, 0.025, 0.01)
    ]
    return table(("looks", *map(str, counts)), lines)


def _failures() -> str:
    counts = (3, 5, 10, 20, 30, 59, 100)
    bounds = (f"{100 * stats.failure_bound(0, n):.1f} %" for n in counts)
    return table(("runs, none failed", *map(str, counts)), [("failure rate up to", *bounds)])


# follows from the product alone, the same on every machine
COMPUTED: Mapping[str, Callable[[], str]] = {
    "examples": examples.text,
    "presets": _presets,
    "narrowest": _narrowest,
    "looks": _looks,
    "failures": _failures,
}


def _acceptance(
    rows: Sequence[acceptance.Row],
    results: Mapping[Any, Figures],
    second: Mapping[Any, Figures],
    repetitions: int,
) -> str:
    lines = []
    for row in rows:
        if row.name.startswith("time of"):
            continue  # that of one machine
        figure, cell = row.worst(results)
        is_repeated = cell in second and not row.of_all
        again = row.of(cell, second) if is_repeated else figure
        shown = verdicts.show_interval(figure, row.unit, repetitions)
        beside = verdicts.show_interval(again, row.unit, verdicts.in_second(repetitions))
        lines.append((row.name, f"{cell}", row.bound or "shown only", shown, beside))
    head = ("what is counted", "worst case", "limit", "measured", "it, from another seed")
    return table(head, lines, words=2)


def _power_cells() -> list[Power]:
    return [Power(n, _MARGINS) for n in _RUNS]


def _power(results: Mapping[Any, Figures], word: str) -> str:
    lines = [
        (f"{k:g} sd", *(f"{results[cell][f'{word} {k:g}']:.1f}" for cell in _power_cells()))
        for k in _MARGINS
    ]
    return table((f"{word}, margin", *map(str, _RUNS)), lines)


def _read(page: str, name: str) -> tuple[list[str], dict[str, list[str]]]:
    """The head and the lines of the table in a part of the page."""
    rows = [line.strip("| ").split(" | ") for line in part(page, name).splitlines()
            if line.startswith("| ")]  # fmt: skip
    return rows[0], {row[0]: row[1:] for row in rows[2:]}


def _power_chart(page: str, name: str, title: str) -> str:
    head, lines = _read(page, name)
    runs = list(map(float, head[1:]))
    series = []
    for margin, shares in lines.items():
        points = list(zip(runs, map(float, shares), strict=True))
        middle = min(range(len(points)), key=lambda i: abs(points[i][1] - 55))
        series.append(svg.Series(label=margin, points=points, label_at=middle))
    return svg.line_chart(
        title,
        series,
        x="runs on each side (normal), for margins in between-run standard deviations",
        y="% decided",
        x_ticks=(3, 4, 5, 6, 8, 10, 15, 20, 30),
        y_ticks=(0, 20, 40, 60, 80, 100),
    )


def _simulate(
    cells: Sequence[Any],
    rows: Sequence[acceptance.Row],
    repetitions: int,
    jobs: int,
    file: Path | None,
) -> tuple[dict[Any, Figures], dict[Any, Figures]]:
    """The figures of every cell, and those of the worst ones from another seed."""
    kept = json.loads(file.read_text()) if file and file.exists() else {}

    def measure(wanted: Sequence[Any], times: int, seed: int) -> dict[Any, Figures]:
        there = kept.setdefault(f"{times} repetitions, seed {seed}", {})
        missing = [cell for cell in wanted if _key(cell) not in there]
        new = verdicts.measure(missing, times, jobs, seed=seed)
        there.update({_key(cell): figures for cell, figures in new.items()})
        if file:
            file.write_text(json.dumps(kept))
        return {cell: there[_key(cell)] for cell in wanted}

    first = measure(cells, repetitions, populations.SEED)
    again = acceptance.worst_cells(rows, first)
    return first, measure(again, verdicts.in_second(repetitions), populations.SECOND_SEED)


def _key(cell: object) -> str:
    return f"{type(cell).__module__}.{cell!r}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repetitions", type=int)
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--computed", action="store_true", help="leave the simulated parts alone")
    parser.add_argument("--designs", action="store_true", help="the rows on whole designs: hours")
    parser.add_argument("--figures", type=Path, help="JSON file of what was simulated already")
    arguments = parser.parse_args()
    parts = {name: compute() for name, compute in COMPUTED.items()}
    missed: list[str] = []
    if not arguments.computed:
        rows = acceptance.design_rows() if arguments.designs else acceptance.rows()
        wanted = [cell for row in rows for cell in row.cells] if arguments.designs else cells()
        usual = verdicts.DESIGN_REPETITIONS if arguments.designs else verdicts.REPETITIONS
        number = arguments.repetitions or usual
        results, second = _simulate(wanted, rows, number, arguments.jobs, arguments.figures)
        make = design_parts if arguments.designs else simulated_parts
        parts |= make(results, second, number)
        missed = [row.name for row in rows if not verdicts.keeps(row, results, second, number)]
    write(parts)
    FIGURES.mkdir(exist_ok=True)
    for name, text in figures(read()).items():
        (FIGURES / name).write_text(text)
    print(
        f"written: {', '.join(map(str, PAGES))}, {FIGURES}/*.svg",
        *(f"MISSED: {name}" for name in missed),
        sep="\n",
    )
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main())
