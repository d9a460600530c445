"""Verdicts and records as JSON for programs."""
