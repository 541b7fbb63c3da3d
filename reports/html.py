"""The results as one self-contained HTML page: a matrix of requirements × targets, and the details of each failure.

Text of targets is never markup: the template escapes it, and the page's Content-Security-Policy allows one script.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator, Mapping
from enum import StrEnum
from importlib.resources import files

from jinja2 import Environment, StrictUndefined
from msgspec import Struct

from conformance import __version__
from conformance.cases.model import LEVELS, NoAnswer, VerdictKind
from conformance.cases.requirement import Requirement
from conformance.reports.explain import FailureExplanation, explain
from conformance.reports.formats import Report
from conformance.reports.grouping import Example, FailureGroup, Section, grouped
from conformance.reports.hex_view import printable
from conformance.reports.matrix import (
    RequirementState,
    error_code_differences,
    matrix,
    requirements_met,
    state_of,
    verdict_text,
)
from conformance.reports.text import number_of_cases, rest, stands_for
from conformance.runner.results import TargetRun

_SHOWN = 20
"""Case ids of a difference that are listed."""
_MOST_DISAGREEMENTS = 200


class FailurePart(StrEnum):
    """The headlines of a target's failures, in the order of the page."""

    PLAIN = "Failures"
    DEATHS = "Crashes and timeouts"
    RESOURCES = "Excessive memory or time"
    DISPUTED = "Disputed: Apache Kafka itself does not meet these requirements"
    FAULTS = "Adapter faults"


class FailureView(Struct, frozen=True):
    """A cause on the page, with its smallest example."""

    anchor: str
    group: FailureGroup
    example: Example
    shown: FailureExplanation

    @property
    def title(self) -> str:
        """Return the cause of the failures."""
        return printable(self.group.cause.text if self.group.cause else self.example.result.verdict.detail)

    @property
    def part(self) -> FailurePart:
        """Return the part of the page that shows it."""
        if self.group.section is Section.FAULTS:
            return FailurePart.FAULTS
        if self.group.section is Section.DISPUTED:
            return FailurePart.DISPUTED
        outcome = self.example.result.outcome
        if isinstance(outcome, NoAnswer) and outcome.how in ("memory", "slow"):
            return FailurePart.RESOURCES
        kind = self.example.result.verdict.kind
        return FailurePart.DEATHS if kind in (VerdictKind.CRASH, VerdictKind.TIMEOUT) else FailurePart.PLAIN

    @property
    def level(self) -> str:
        """Return the highest level of its cases; for an adapter fault the level of the case."""
        return self.group.level or self.example.result.level

    @property
    def state(self) -> RequirementState:
        """Return the state of the example, as in the filter of the page."""
        return state_of(self.example.result)


class TargetView(Struct, frozen=True):
    """One target on the page."""

    number: int
    run: TargetRun
    failures: tuple[FailureView, ...]
    requirements_met: Mapping[str, tuple[int, int]]
    """By level: the number of requirements that it meets in all cases, and the number of judged ones."""
    verdict: str

    @property
    def parts(self) -> Iterator[tuple[FailurePart, list[FailureView]]]:
        """Yield each part that has a failure."""
        for headline in FailurePart:
            members = [failure for failure in self.failures if failure.part == headline]
            if members:
                yield headline, members

    @property
    def causes(self) -> dict[str, list[FailureView]]:
        """Return the failures by the requirements that they break."""
        by_requirement: dict[str, list[FailureView]] = {}
        for failure in self.failures:
            for name in failure.group.requirements or (failure.example.result.requirement,):
                by_requirement.setdefault(name, []).append(failure)
        return by_requirement


def render(report: Report) -> Iterator[str]:
    """Yield the text of the file, in pieces."""
    folder = files("conformance.reports")
    script = (folder / "page.js").read_text("utf-8")
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    environment.filters |= {"printable": printable, "stands_for": stands_for, "rest": rest}
    environment.filters["number_of_cases"] = number_of_cases
    sections = matrix(report.runs, report.requirements)
    pages = [_target(number, run, report.requirements) for number, run in enumerate(report.runs)]
    differences = report.disagreements
    yield from environment.from_string((folder / "page.html").read_text("utf-8")).generate(
        version=__version__,
        seed=report.seed,
        stale=report.stale,
        targets=pages,
        causes=[page.causes for page in pages],
        sections=sections,
        requirements=report.requirements,
        code_differences=error_code_differences(report.runs)[:_MOST_DISAGREEMENTS],
        disagreements=differences[:_MOST_DISAGREEMENTS],
        disagreements_left=max(0, len(differences) - _MOST_DISAGREEMENTS),
        named=_SHOWN,
        levels=LEVELS,
        states=list(RequirementState),
        State=RequirementState,
        style=(folder / "page.css").read_text("utf-8"),
        script=script,
        script_digest=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
    )


def _target(number: int, run: TargetRun, requirements: Mapping[str, Requirement]) -> TargetView:
    failures = tuple(
        FailureView(f"t{number}-{index}", group, example, explain(example.result, example.origin))
        for index, (group, example) in enumerate((g, e) for g in grouped(run) for e in g.examples)
    )
    return TargetView(number, run, failures, requirements_met(run, requirements), verdict_text(run))
