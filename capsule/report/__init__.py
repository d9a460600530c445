"""Verdicts and records as text for people and as JSON for programs, a folder a medium.

    report.draw_verdict(verdict)       a verdict as rich renderables, one screen or all of it
    report.draw_several(verdict)       a verdict of several re-runs, likewise
    report.draw_sealed(record, id)     a new record in brief
    report.draw_record(record, id)     a record
    report.draw_tryout(tryout, warnings)  a trial that was not kept
    report.draw_lint(place, manifest, warnings)  what lint found in a manifest
    report.draw_searches(outcomes)     what searches gave
    report.draw_preview(preview)       what a run would start
    report.draw_evidence(quotations)   the lines that its numbers were read from
    report.draw_inventory(node, engines)  what a machine is
    report.draw_site(settings, wide, own)  the settings of this machine
    report.draw_findings(findings)     what works on it
    report.draw_staging(staged)        what was brought here for a run without a network
    report.verdict_to_json(verdict)    a verdict as a value of the schema comparison-1
    report.several_to_json(verdict)    a verdict of several re-runs, of the schema several-1
    report.record_to_json(record, id)  a record as a JSON value
    report.preview_to_json(preview)    what a run would start as a JSON value
    report.tryout_to_json(tryout, warnings)  a trial that was not kept as a JSON value
    report.warnings_to_json(warnings)  what lint warns of as a JSON value
    report.evidence_to_json(quotations, id)  those lines as a JSON value
    report.staged_to_json(staged, command)  what was brought here as a JSON value
    report.samples_to_csv(record)      every value as comma-separated values
    report.draw_figure(record, metric, suffix)  a picture of metrics
    report.failure(record, path)       the error that tells of a new record's failed attempts
    report.explain_tryout(tryout)      the error that tells of a trial that was not kept

rich is imported only when something is drawn. A verdict is told by its word; colour repeats it.
"""

from capsule.report.documents.comparison import verdict_to_json
from capsule.report.documents.evidence import evidence_to_json
from capsule.report.documents.preview import preview_to_json
from capsule.report.documents.record import record_to_json
from capsule.report.documents.several import several_to_json
from capsule.report.documents.staged import staged_to_json
from capsule.report.documents.table import samples_to_csv
from capsule.report.documents.tryout import tryout_to_json, warnings_to_json
from capsule.report.figures import draw_figure
from capsule.report.terminal.contents import draw_record
from capsule.report.terminal.evidence import draw_evidence
from capsule.report.terminal.inventory import draw_inventory
from capsule.report.terminal.linted import draw_lint
from capsule.report.terminal.preview import draw_preview
from capsule.report.terminal.sealed import draw_sealed, failure
from capsule.report.terminal.searches import draw_searches
from capsule.report.terminal.site import draw_findings, draw_site
from capsule.report.terminal.staged import draw_staging
from capsule.report.terminal.tryout import draw_tryout, explain_tryout
from capsule.report.terminal.verdicts import draw_several, draw_verdict

__all__ = [
    "draw_evidence",
    "draw_figure",
    "draw_findings",
    "draw_inventory",
    "draw_lint",
    "draw_preview",
    "draw_record",
    "draw_sealed",
    "draw_searches",
    "draw_several",
    "draw_site",
    "draw_staging",
    "draw_tryout",
    "draw_verdict",
    "evidence_to_json",
    "explain_tryout",
    "failure",
    "preview_to_json",
    "record_to_json",
    "samples_to_csv",
    "several_to_json",
    "staged_to_json",
    "tryout_to_json",
    "verdict_to_json",
    "warnings_to_json",
]
