"""The formats of a report: a row each. `run` and `campaign` take their options from here, and write what is named.

To add a format, write `reports/<module>.py` with a function `render(report)` that yields the text of the file piece by
piece, and add its row to FORMATS.
A renderer is imported when it is used: the command line needs only the names of the formats.
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
    """What a report file tells of."""

    runs: Sequence[TargetRun]
    """A record per target, in the order of the command line."""
    seed: int
    """Of the generated cases."""
    stale: Sequence[tuple[str, str]] = ()
    """Entries of the known failures that are stale and so fail the run: the id and the reason."""
    requirements: Mapping[str, Requirement] = field(default_factory=dict)
    """The register."""
    rows: Mapping[str, JsonRowFile] = field(default_factory=dict)
    """By the name of the target, rows of the JSON report that were written as the results came."""

    @cached_property
    def disagreements(self) -> tuple[TargetDifference, ...]:
        """Where the targets differ."""
        from conformance.reports.target_differences import disagreements

        return disagreements(self.runs)


class _Renderer(Protocol):
    """A module in `reports/` that makes the text of a file, in pieces."""

    def render(self, report: Report) -> Iterator[str]: ...


class Format(Struct, frozen=True):
    """A format: `--name FILE` writes what `render` of the module in `reports/` makes of the report, in UTF-8."""

    name: str
    module: str
    help: str
    is_verdict: bool = False
    """Whether it shows only the verdict: an interrupted run has none."""

    def pieces(self, report: Report) -> Iterator[str]:
        """The text of the file, in pieces."""
        renderer = cast("_Renderer", import_module(f"conformance.reports.{self.module}"))
        return renderer.render(report)


FORMATS = (
    Format("junit", "junit", "Write the results as JUnit XML."),
    Format("json", "json_report", "Write the results as JSON."),
    Format("html", "html", "Write the results as a page, one file that needs no network."),
    Format("markdown", "markdown", "Write a summary in Markdown, for a README or a CI job."),
    Format("badge", "badge", "Write the verdict as an SVG badge.", is_verdict=True),
)


def write_files(files: Mapping[str, Path], report: Report, outputs: OutputFiles) -> None:
    """Write the report in each format that `files` names; what goes wrong is kept in `outputs`."""
    is_interrupted = any(run.interrupted for run in report.runs)
    for form in FORMATS:
        if form.name not in files:
            continue
        if form.is_verdict and is_interrupted:
            outputs.problems.append(f"{files[form.name]}: no {form.name} was written, because the run was interrupted")
        else:
            outputs.write(files[form.name], form.pieces(report))
