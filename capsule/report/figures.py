"""Pictures of metrics by matplotlib: curves over steps, or a box of the values of runs."""

from __future__ import annotations

import io
import warnings
from collections.abc import Sequence
from textwrap import shorten
from typing import TYPE_CHECKING

from capsule import plain, summary
from capsule.errors import CannotRunError, UsageError
from capsule.manifest.paths import match
from capsule.manifest.problems import nearest
from capsule.record import Record
from capsule.runs import MetricRuns

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_SUFFIXES = (".svg", ".pdf", ".png")
# told apart by as many colours as matplotlib has
_MOST = 10
_LONGEST = 70
_SETTINGS = {
    # the same capsule gives the same bytes, and text, which is a stranger's, stays text
    **{"svg.hashsalt": "capsule", "svg.fonttype": "none", "text.parse_math": False},
    **{"axes.spines.top": False, "axes.spines.right": False},
}


def draw_figure(record: Record, pattern: str, suffix: str) -> bytes:
    """A picture of the metrics that a pattern names.

    A metric that was taken at steps is drawn as a curve for each run, failed ones broken, and one
    for the mean of those that ended well where they have the same steps; any other as a box of the
    values of its runs, with whiskers to the smallest and the largest, and a dot for each.

    Args:
        record: Of a capsule.
        pattern: A metric path, `*` for a whole segment; what it names has one unit.
        suffix: `.svg`, `.pdf` or `.png`.

    Raises:
        CannotRunError: matplotlib is not installed.
        UsageError: Another suffix, or nothing that can stand in one picture.
    """
    if suffix not in _SUFFIXES:
        raise UsageError(
            f"unsupported figure format {suffix!r}", advice=f"use {', '.join(_SUFFIXES)}"
        )
    metrics = _choose(list(summary.metric_runs(record).values()), pattern)
    try:
        import matplotlib as mpl
        from matplotlib.figure import Figure
    except ImportError:
        raise CannotRunError(
            "figures need matplotlib, which is not installed",
            advice="pip install 'capsule-hpc[figures]'",
        ) from None
    with mpl.rc_context(_SETTINGS), warnings.catch_warnings():
        # of letters that the font lacks
        warnings.simplefilter("ignore", UserWarning)
        figure = Figure(figsize=(7.2, 4.2), layout="constrained")
        axes = figure.add_subplot()
        title = shorten(plain.clean(record.manifest.title), _LONGEST, placeholder=" ...")
        axes.set_title(title, loc="left")
        if metrics[0].per == "step":
            _draw_curves(axes, metrics)
        else:
            _draw_boxes(axes, metrics)
        return _save(figure, suffix)


def _choose(metrics: Sequence[MetricRuns], pattern: str) -> list[MetricRuns]:
    """The metrics of a pattern.

    Raises:
        UsageError: There are none, too many, or several units.
    """
    chosen = [one for one in metrics if match(pattern, one.metric)]
    if not chosen:
        near = nearest(pattern, [one.metric for one in metrics])
        meant = f"; did you mean {near}?" if near else ""
        raise UsageError(
            f"no metric matches {pattern!r}{meant}",
            advice="list the metrics: capsule show CAPSULE --full",
        )
    if len(chosen) > _MOST:
        raise UsageError(
            f"{pattern!r} matches {len(chosen)} metrics, the limit of a figure is {_MOST}",
            advice="use a narrower pattern",
        )
    if len(units := sorted({one.unit for one in chosen})) > 1:
        raise UsageError(
            f"{pattern!r} matches metrics with several units: {', '.join(units)}",
            advice="draw one figure for each unit",
        )
    if len({one.per == "step" for one in chosen}) > 1:
        raise UsageError(
            f"{pattern!r} matches curves and single values",
            advice="draw one figure for the curves, one for the single values",
        )
    if not any(run.samples for one in chosen for run in one.runs):
        raise UsageError(
            f"the metrics that {pattern!r} matches have no values",
            advice="name a metric with values in at least one run",
        )
    return chosen


def _draw_curves(axes: Axes, metrics: Sequence[MetricRuns]) -> None:
    for number, metric in enumerate(metrics):
        color, curves = f"C{number}", []
        for run in metric.runs:
            for samples in run.samples:
                steps, values = list(samples.steps or ()), list(samples.values)
                broken = ":" if run.status != "ok" else "-"
                axes.plot(steps, values, broken, color=color, alpha=0.35, linewidth=0.9)
                if run.status == "ok":
                    curves.append((steps, values))
        if curves and all(steps == curves[0][0] for steps, _ in curves):
            means = [
                sum(column) / len(column)
                for column in zip(*(values for _, values in curves), strict=True)
            ]
            axes.plot(
                curves[0][0],
                means,
                color=color,
                linewidth=2.2,
                label=_short(metric.metric, metrics),
            )
        else:
            axes.plot([], [], color=color, linewidth=2.2, label=_short(metric.metric, metrics))
    axes.set_xlabel("step")
    axes.set_ylabel(_label(metrics))
    axes.legend(frameon=False)


def _draw_boxes(axes: Axes, metrics: Sequence[MetricRuns]) -> None:
    columns = [list(one.values) for one in metrics]
    places = list(range(1, len(columns) + 1))
    axes.boxplot(columns, positions=places, whis=(0, 100), showfliers=False)
    for place, values in zip(places, columns, strict=True):
        axes.plot([place] * len(values), values, "o", color="C0", alpha=0.6, markersize=4)
    axes.set_xticks(places, [_short(one.metric, metrics) for one in metrics], rotation=20)
    axes.set_ylabel(_label(metrics))


def _short(path: str, metrics: Sequence[MetricRuns]) -> str:
    """The segments of a path in which these metrics differ; all where they do not."""
    columns = list(zip(*(one.metric.split("/") for one in metrics), strict=True))
    parts = path.split("/")
    kept = [part for part, column in zip(parts, columns, strict=True) if len(set(column)) > 1]
    return "/".join(kept or parts)


def _label(metrics: Sequence[MetricRuns]) -> str:
    names = {one.metric.rpartition("/")[2] for one in metrics}
    name = names.pop() if len(names) == 1 else "value"
    unit = metrics[0].unit
    return name if unit == "1" else f"{name} [{unit}]"


def _save(figure: Figure, suffix: str) -> bytes:
    stream = io.BytesIO()
    dates = {".svg": "Date", ".pdf": "CreationDate"}
    metadata = {dates[suffix]: None} if suffix in dates else {}
    figure.savefig(stream, format=suffix[1:], metadata=metadata, dpi=150)
    return stream.getvalue()
