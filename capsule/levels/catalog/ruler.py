"""Which ruler bounds are taken by: a number that every change of their rules raises.

Errors over bounds of two numbers are not of one scale, whatever the errors.
"""

from __future__ import annotations

RULER = 1
"""Of the rules of `operators.rounding`, `operators.likely`, `graphs.bounds` and the formulas."""

RULED = frozenset(
    (
        *("l2_error_ratio", "element_error_ratio", "gradient_check", "bound_share"),
        *("grad_l2_error_ratio", "grad_element_error_ratio", "node_error_ratio"),
    )
)
"""Metrics that have a bound in them."""
