"""Intervals, regions and multiplicity as pure functions on plain arrays."""
