"""The table of report formats. The report options of `run` and `campaign` are made from it.

To add a format, write `reports/<module>.py` with a function `render(report)` that yields the text of the file in
pieces, and add a row to FORMATS. A renderer is imported only when it is used, so the command line starts fast.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Protocol, cast

from msgspec import Struct

from conformance.files.atomic import OutputFiles

if TYPE_CHECKING:
    from conformance.cases.requirement import Requirement
    from conformance.reports.json_report import JsonRowFile
    from conformance.reports.target_differences import TargetDifference
    from conformance.runner.results import TargetRun


@dataclass(frozen=True)
class Report:
    """The data of a report file."""

    runs: Sequence[TargetRun]
    """One run per target, in the order of the command line."""
    seed: int
    """The seed of the generated cases."""
    stale: Sequence[tuple[str, str]] = ()
    """The stale known failures, which fail the run: the id and the reason."""
    requirements: Mapping[str, Requirement] = field(default_factory=dict)
    """The requirements by id."""
    rows: Mapping[str, JsonRowFile] = field(default_factory=dict)
    """Rows of the JSON report that were written during the run, by the name of the target."""

    @cached_property
    def disagreements(self) -> tuple[TargetDifference, ...]:
        """Return the cases in which the targets differ."""
        from conformance.reports.target_differences import disagreements

        return disagreements(self.runs)


class _Renderer(Protocol):
    """A module in `reports/` that renders a report."""

    def render(self, report: Report) -> Iterator[str]: ...


class Format(Struct, frozen=True):
    """A format: `--name FILE` writes the text from `render` of the module in `reports/`, in UTF-8."""

    name: str
    module: str
    help: str
    is_verdict: bool = False
    """True if the format shows only the verdict: an interrupted run has no verdict."""

    def pieces(self, report: Report) -> Iterator[str]:
        """Return the text of the file, in pieces."""
        renderer = cast("_Renderer", import_module(f"conformance.reports.{self.module}"))
        return renderer.render(report)


FORMATS = (
    Format("junit", "junit", "Write the results as JUnit XML."),
    Format("json", "json_report", "Write the results as JSON."),
    Format("html", "html", "Write the results as an HTML page that works offline."),
    Format("markdown", "markdown", "Write a summary in Markdown, for a README or a CI job."),
    Format("badge", "badge", "Write the verdict as an SVG badge.", is_verdict=True),
)


def write_files(files: Mapping[str, Path], report: Report, outputs: OutputFiles) -> None:
    """Write the report in each format of `files`; `outputs` collects the problems."""
    is_interrupted = any(run.interrupted for run in report.runs)
    for form in FORMATS:
        if form.name not in files:
            continue
        if form.is_verdict and is_interrupted:
            outputs.problems.append(f"{files[form.name]}: no {form.name} was written, because the run was interrupted")
        else:
            outputs.write(files[form.name], form.pieces(report))
