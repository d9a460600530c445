"""Number of the rules by which error bounds are computed; every change of the rules raises it.

Errors relative to bounds of two numbers are not comparable.
"""

from __future__ import annotations

RULER = 3
"""Number of the rules of `operators.rounding`, `operators.likely`, `graphs.bounds` and formulas."""

RULED = frozenset(
    (
        *("l2_error_ratio", "element_error_ratio", "gradient_check", "bound_share"),
        *("grad_l2_error_ratio", "grad_element_error_ratio", "node_error_ratio"),
    )
)
"""Metrics that have a bound in them."""
