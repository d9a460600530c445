"""The tables: rates by dtype, and every fault with what was said of it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from math import isfinite
from pathlib import Path
from typing import Any

from . import right
from .faults import Fault
from .trials import Outcome

Kept = dict[str, dict[str, Any]]
"""By fault, then dtype: word, size, ratio and metrics."""

DOCS = Path(__file__).parents[2] / "docs"
STORE, PAGE = DOCS / "operator-faults.json", DOCS / "operator-faults.md"

DTYPES = ("float64", "float32", "bfloat16", "float16")
GROUPS = ("operators", "networks")

HEAD = """# Faults of operators and networks

`python benchmarks/faults.py` plants each of these in torch, one at a time, and runs the trial as a
benchmark does, under three seeds, on small cases of `manifests/level0.json` and
`manifests/level1.json`. It counts as caught where a primary claim of that manifest is DIFFERENT by
the rules that `verify` judges by. A fault that moves no element by more than two unit roundoffs of
the dtype is within rounding, which is computed and not chosen, and is counted apart. Sizes are
relative to the L2 norm of what a fault sits in, in a network that of its node.

"now" is as of this version, "before" as of the version before any check was changed for this list.

A right trial may break no bound, see the end of this page. Some did for a framework's fault, told
here. torch's `log_softmax` rounds to 16 bits before it subtracts the logarithm of the sum, and
loses what is left of likely classes:

    torch.log_softmax(torch.tensor([[7, -3, -4]], dtype=torch.bfloat16), 1)

has 0 where -6.2e-05 is due, which both 16-bit types can hold (torch 2.13.0, CPU). Its
`softmax_cross_entropy` is therefore listed as inexact in bfloat16 and float16, and refused there.
So is `cross_entropy`, for torch's `nll_loss` rounds to 16 bits each part of its sum on CPUs:

    losses = torch.full((100, 1), -1.03125, dtype=torch.bfloat16)
    torch.nn.functional.nll_loss(losses, torch.zeros(100, dtype=torch.long))

is 1.0078125, where 1.03125 is due, six units in the last place away.

TensorFlow's gradient of `max_pool3d` gives, on CPUs, all that arrives to each element of a window
that is within 1e-5 of its largest (TensorFlow 2.21.0):

    x = tf.Variable([[[[[0.5], [0.499999]]]]])
    with tf.GradientTape() as tape:
        y = tf.nn.max_pool3d(x, (1, 1, 2), 1, "VALID")
    tape.gradient(y, x)

has 1 and 1 where 1 and 0 are due, and of `max_pool2d` it is right. What is differentiated in
TensorFlow is therefore `max_pool2d` over height and width and again over depth; XLA's is right.

Compiled by XLA for CPUs, the cross entropy of bfloat16 elements and its gradient are made of shares
and logarithms that were rounded first (TensorFlow 2.21.0):

    x = tf.Variable([[7, -3, -4]], dtype="bfloat16")
    with tf.GradientTape() as tape:
        loss = tf.nn.sparse_softmax_cross_entropy_with_logits([0], x)
    loss, tape.gradient(loss, x)

in a `tf.function(jit_compile=True)` has a loss of 0, where 6.2e-05 is due, and 0 first in the
gradient, where -6.2e-05 is; in float16 both are there. `softmax_cross_entropy` is listed as inexact
in bfloat16 for tensorflow-xla.

JAX's functions round each of their steps to 16 bits, and its attention knows no doubles (JAX
0.10.2, CPU):

    jax.nn.gelu(jnp.array(-3.0, "bfloat16"))
    jax.vjp(jax.nn.softmax, jnp.zeros((1, 1000), "bfloat16"))[1](jnp.ones((1, 1000), "bfloat16"))

are -0.0059, where -0.0036 is due, and 3.8e-05 for each element, where 0 is; of both operands in
float64 `jax.nn.dot_product_attention` is off by 7e-08. Its `gelu` and `softmax` are listed as
inexact in bfloat16 and float16, `attention` and `grouped_attention` in float64.
"""

MISSED = """
## Missed, and why

Every fault that is missed now, with its largest error over its bound. What its bound grants, and a
right implementation does take:
"""

SUMS = "sums may go through memory in the dtype, part by part"
STEPS = "an operation may be made of three, each rounded to the dtype"
STORED = "scores, sums, gates and products may be stored in the dtype"
FAST = "no element of a product is held to less than eight times the root mean square of all bounds"

REASONS = {
    **dict.fromkeys(("conv1d", "conv2d", "conv_transpose2d", "conv_transpose3d"), SUMS),
    **dict.fromkeys(("max_pool3d", "layer_norm", "embedding"), SUMS),
    **dict.fromkeys(("attention", "lstm_cell", "sigmoid_cross_entropy"), STORED),
    **dict.fromkeys(("gemm", "matmul", "conv3d"), FAST),
}
"""By operator; of all others it is `STEPS`."""

RIGHT = """
## Right trials

`python benchmarks/faults.py --right 100` runs what is right under 100 seeds that no other trial
has: torch's own functions, numpy's, and other right algorithms, in networks for all nodes of a
kind. [right-trials.json](right-trials.json) keeps what ran with its seeds: how many trials, and the
largest error over its bound of any claim, which may be 1.
"""


def keep(outcomes: Mapping[str, Mapping[str, Outcome]], name: str) -> None:
    """Add outcomes to the kept ones under `before` or `now`."""
    kept = json.loads(STORE.read_text(encoding="utf-8")) if STORE.exists() else {}
    rows: Kept = kept.setdefault(name, {})
    for fault, by_dtype in outcomes.items():
        for dtype, one in by_dtype.items():
            row = [one.word, _short(one.size), _short(one.ratio), list(one.by)]
            rows.setdefault(fault, {})[dtype] = row
    lines = [
        f"{json.dumps(key)}: {{\n"
        + ",\n".join(f"{json.dumps(fault)}: {json.dumps(row)}" for fault, row in rows.items())
        + "\n}"
        for key, rows in kept.items()
    ]
    STORE.write_text("{" + ",\n".join(lines) + "}\n", encoding="utf-8")


def write(listed: Mapping[str, Sequence[Fault]]) -> None:
    """The page of what is kept."""
    kept = json.loads(STORE.read_text(encoding="utf-8"))
    parts = [HEAD, "## Rates\n", *_rates(kept, listed)]
    for group in GROUPS:
        parts += [f"\n## Faults in {group}\n", *_rows(kept, listed[group])]
    parts += [MISSED, *_missed(kept.get("now", {}), listed)]
    parts += [RIGHT, f"{right.total(right.read())}.\n", *right.table(DTYPES)]
    PAGE.write_text("\n".join(parts) + "\n", encoding="utf-8")


def table(outcomes: Mapping[str, Mapping[str, Outcome]], dtypes: Iterable[str]) -> Iterable[str]:
    """Rates by dtype, for the terminal."""
    for dtype in dtypes:
        words = [rows[dtype].word for rows in outcomes.values() if dtype in rows]
        yield f"{dtype:9} {_rate(words)}"


def _rate(words: Sequence[str]) -> str:
    caught, missed = words.count("caught"), words.count("missed")
    if not caught + missed:
        return "-"
    share = 100 * caught / (caught + missed)
    return f"{caught} of {caught + missed} ({share:.1f} %), {words.count('below')} within rounding"


def _rates(kept: Mapping[str, Kept], listed: Mapping[str, Sequence[Fault]]) -> Iterable[str]:
    yield "| of | in | dtype | before | before, of those run now | now |"
    yield "| --- | --- | --- | --- | --- | --- |"
    before, now = kept.get("before", {}), kept.get("now", {})
    for group in GROUPS:
        for way in ("forward", "backward", "both", "all"):
            names = [one.name for one in listed[group] if way in (one.way, "all")]
            for dtype in DTYPES:
                both = [name for name in names if dtype in now.get(name, {})]
                cells = [
                    _rate([rows[name][dtype][0] for name in some if dtype in rows.get(name, {})])
                    for rows, some in ((before, names), (before, both), (now, both))
                ]
                if cells != ["-"] * len(cells):
                    yield f"| {group} | {way} | {dtype} | " + " | ".join(cells) + " |"


def _rows(kept: Mapping[str, Kept], listed: Sequence[Fault]) -> Iterable[str]:
    yield "| fault | size in float32 | " + " | ".join(DTYPES) + " |"
    yield "| --- | --- |" + " --- |" * len(DTYPES)
    before, now = kept.get("before", {}), kept.get("now", {})
    for one in listed:
        last = now.get(one.name) or before.get(one.name, {})
        size = last.get("float32", [None, None])[1]
        cells = [
            _cell(before.get(one.name, {}).get(dtype), now.get(one.name, {}).get(dtype))
            for dtype in DTYPES
        ]
        shown = "" if size is None else f"{size:.1g}"
        yield f"| {one.name} | {shown} | " + " | ".join(cells) + " |"


def _missed(now: Kept, listed: Mapping[str, Sequence[Fault]]) -> Iterable[str]:
    yield "| fault | dtype | error over its bound | what the bound grants |"
    yield "| --- | --- | --- | --- |"
    for one in (one for group in GROUPS for one in listed[group]):
        for dtype, row in now.get(one.name, {}).items():
            if row[0] == "missed":
                reason = REASONS.get(one.node.rstrip("0123456789") or one.subject, STEPS)
                if one.place == "later calls":
                    reason = "nothing: it is a gap of the check"
                yield f"| {one.name} | {dtype} | {row[2]:.2g} | {reason} |"


def _cell(before: Sequence[Any] | None, now: Sequence[Any] | None) -> str:
    last = now or before
    if last is None:
        return ""
    word = {"below": "within rounding", "caught": "caught"}.get(last[0], f"missed, {last[2]:.1g}")
    changed = before is not None and now is not None and before[0] != now[0]
    return f"{word} (before: {before[0]})" if changed and before else word


def _short(value: float | None) -> float | None:
    if value is None or not isfinite(value):
        return None if value is None else 1e300
    return float(f"{value:.3g}")
