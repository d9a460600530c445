"""Verdicts and records as text for people; rich is imported only when something is drawn."""
