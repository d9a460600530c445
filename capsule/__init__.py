"""capsule: re-run a published deep-learning benchmark number elsewhere, and judge it."""

__version__ = "0.8.0"
