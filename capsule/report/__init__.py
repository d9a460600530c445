"""Verdicts and records as text for people and as JSON for programs."""
