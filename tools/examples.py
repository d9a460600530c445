"""Worked examples for docs/explanation/statistics-examples.md: run values, capsule's sentences."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import product
from svg import Bar, interval_chart

from capsule.manifest import Margin
from capsule.verdict import Judged

_LINE = 116


@dataclass(frozen=True, kw_only=True)
class Example:
    """One comparison.

    Attributes:
        title: What it shows, in a few words.
        original: The published runs, one for each seed; None is a run that failed.
        rerun: Runs under fresh seeds.
        claim: Fields of the manifest's claim besides its metric.
        lesson: What a reader should take from it.
    """

    title: str
    original: Sequence[float | None]
    rerun: Sequence[float | None]
    claim: Mapping[str, Any] = field(default_factory=dict)
    lesson: str

    def judge(self) -> Judged:
        """The product's judgement of the only claim."""
        original = product.metric(self.original)
        settings = dict(self.claim)
        claim = product.freeze_one(original, settings.pop("margin", None), **settings)
        return product.judge_all({product.PATH: (claim, self.original, self.rerun)}).claims[0]


_PUBLISHED = (75.91, 76.18, 75.62, 76.40, 75.84)
_TWO = (75.52, 76.09)
EXAMPLES = (
    Example(
        title="the same",
        original=_PUBLISHED,
        rerun=(75.77, 76.21, 76.02, 75.58, 76.11),
        lesson="Five fresh seeds, and a claim without a margin: capsule takes 2 sd of the published"
        " runs, and turns this margin into a number at sealing.",
    ),
    Example(
        title="detectable, inside",
        original=_PUBLISHED,
        rerun=(76.31, 76.62, 76.44, 76.20, 76.52, 76.38),
        claim={"margin": Margin(absolute=1.0)},
        lesson="A t-test finds a difference between the two sides (p = 0.03). The whole interval"
        " lies inside the author's margin: REPRODUCED, and the sentence gives the shift.",
    ),
    Example(
        title="another number",
        original=_PUBLISHED,
        rerun=(74.35, 74.81, 74.02, 74.66, 74.47),
        lesson="The whole interval lies beyond the margin.",
    ),
    Example(
        title="too few runs",
        original=_PUBLISHED,
        rerun=_TWO,
        lesson="Two re-runs are too few for any rule. The advice says how many re-runs are enough.",
    ),
    Example(
        title="advice followed",
        original=_PUBLISHED,
        rerun=(*_TWO, 75.95, 76.24, 75.70, 75.88, 76.02, 76.15),
        lesson="The verifier of example 4 makes eight re-runs in all, the number that the advice"
        " gives for no true difference.",
    ),
    Example(
        title="original too few",
        original=(75.91, 76.18),
        rerun=(75.77, 76.21, 76.02, 75.58, 76.11, 75.93, 75.70, 76.30),
        claim={"margin": Margin(absolute=0.5)},
        lesson="Two published runs determine their own mean poorly. `capsule lint` prints the"
        " margins that the planned seeds can confirm: run `capsule lint` before you publish.",
    ),
    Example(
        title="runs that fail",
        original=_PUBLISHED,
        rerun=(75.77, None, 76.02, None, 76.11, 75.90, None),
        lesson="A crash, a NaN or a run that never converged counts as a failure. Here three of"
        " seven re-runs fail and no original run fails, so the claim is INCONCLUSIVE. One failure"
        " in five re-runs may be chance.",
    ),
    Example(
        title="no worse",
        original=_PUBLISHED,
        rerun=(76.91, 77.30, 77.12, 76.85, 77.04),
        claim={"type": "noninferiority", "margin": Margin(absolute=0.5)},
        lesson="`noninferiority` limits only a worse mean; the mean may improve by any amount.",
    ),
)

_IN_CHART = ("the same", "another number", "too few runs", "advice followed")


def text() -> str:
    """The examples as Markdown, with the product's words in them."""
    return "\n\n".join(_block(number, example) for number, example in enumerate(EXAMPLES, 1))


def chart() -> str:
    """The intervals of the examples that share their claim, across the band of its margin."""
    shown = [one for one in EXAMPLES if one.title in _IN_CHART]
    judgements = [one.judge() for one in shown]
    bars = [
        Bar(label=example.title, lower=one.lower, estimate=one.estimate, upper=one.upper,
            word=one.word)
        for example, one in zip(shown, judgements, strict=True)
    ]  # fmt: skip
    margin = judgements[0].claim.upper
    return interval_chart(
        f"Five published runs, margin {margin:.3g}: where the interval lies decides",
        bars,
        x="shift of the mean accuracy, in percentage points (band: within the margin)",
        region=(-margin, margin),
        ticks=(-2, -1.5, -1, -0.5, 0, 0.5, 1),
    )


def _block(number: int, example: Example) -> str:
    judged = example.judge()
    lines = [
        f"original      {_values(example.original)}",
        f"re-run        {_values(example.rerun)}",
        f"{judged.word}: {judged.sentence}",
    ]
    if judged.advice:
        lines.append(f"advice: {judged.advice.sentence}")
    lines += [f"note: {note.sentence}" for note in judged.notes]
    block = "\n".join(
        part
        for line in lines
        for part in textwrap.wrap(line, _LINE, subsequent_indent="    ", break_on_hyphens=False)
    )
    lesson = f"**{number}. {example.title.capitalize()}.** {example.lesson}"
    lesson = textwrap.fill(lesson, _LINE, break_on_hyphens=False)
    return f"{lesson}\n\n```text\n{block}\n```"


def _values(values: Sequence[float | None]) -> str:
    return " ".join("failed" if value is None else f"{value:.2f}" for value in values)
