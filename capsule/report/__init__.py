"""Verdicts and records as text for people and as JSON for programs.

    report.terminal(verdict)           a verdict as rich renderables
    report.to_json(verdict)            the same as a value of schema comparison-1
    report.sealed(record, id)          a new record in brief, as rich renderables
    report.failure(record, path)       the error that tells of its failed attempts
    report.show(record, id)            a record as rich renderables
    report.show_json(record, id)       the same as a JSON value

rich is imported only when something is drawn. A verdict is told by its word; colour repeats it.
"""

from capsule.report.comparison import terminal
from capsule.report.contents import show
from capsule.report.documents import show_json, to_json
from capsule.report.sealed import failure, sealed

__all__ = ["failure", "sealed", "show", "show_json", "terminal", "to_json"]
