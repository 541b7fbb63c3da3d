"""The verdict as an SVG badge for a README; the SVG loads nothing from the network."""

from __future__ import annotations

from collections.abc import Iterator

from jinja2 import Environment

from conformance.reports.formats import Report
from conformance.reports.matrix import requirements_met, verdict_text

_LABEL = "Kafka wire format"
_COLORS = {"conforms": "#1a7f37", "does not conform": "#b42318", "not judged": "#6e7781"}
_PER_LETTER, _MARGIN = 7, 10
"""Pixels. `textLength` stretches the text to the calculated width, so it fits in every font."""

_SVG = """<svg xmlns="http://www.w3.org/2000/svg" width="{{ left + right }}" height="20" role="img" \
aria-label="{{ label }}: {{ message }}"><title>{{ label }}: {{ message }}</title>
<clipPath id="round"><rect width="{{ left + right }}" height="20" rx="3"/></clipPath>
<g clip-path="url(#round)"><rect width="{{ left }}" height="20" fill="#444d56"/>
<rect x="{{ left }}" width="{{ right }}" height="20" fill="{{ color }}"/></g>
<g fill="#fff" font-family="Verdana,DejaVu Sans,sans-serif" font-size="11" text-anchor="middle">
<text x="{{ left / 2 }}" y="14" textLength="{{ left - 10 }}">{{ label }}</text>
<text x="{{ left + right / 2 }}" y="14" textLength="{{ right - 10 }}">{{ message }}</text></g></svg>
"""


def render(report: Report) -> Iterator[str]:
    """Yield the SVG with the worst verdict of all targets; a failed verdict shows the number of met musts."""
    verdicts = [verdict_text(run) for run in report.runs]
    verdict = max(verdicts, key=list(_COLORS).index) if verdicts else "not judged"
    message = verdict
    if verdict == "does not conform":
        musts = [requirements_met(run, report.requirements).get("must", (0, 0)) for run in report.runs]
        message = f"{sum(ours for ours, _ in musts)} of {sum(judged for _, judged in musts)} musts"
    widths = {"left": len(_LABEL) * _PER_LETTER + _MARGIN, "right": len(message) * _PER_LETTER + _MARGIN}
    template = Environment(autoescape=True).from_string(_SVG)
    yield template.render(label=_LABEL, message=message, color=_COLORS[verdict], **widths) + "\n"
