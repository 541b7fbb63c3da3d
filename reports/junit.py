"""Results as JUnit XML: a suite per target and type, a case per case id; red exactly when the exit status is not 0."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from junitparser import Error, Failure, JUnitXml, Skipped, TestCase, TestSuite

from conformance.cases.model import Kind
from conformance.reports.explain import explain
from conformance.reports.formats import Report
from conformance.reports.grouping import Section, section_of
from conformance.running.results import Result, TargetRun


def render(report: Report) -> Iterator[str]:
    """The text of the file."""
    xml = JUnitXml("kafka-conformance")
    for run in report.runs:
        by_type: dict[str, list[TestCase]] = {}
        for result in run.results:
            by_type.setdefault(result.case.type, []).append(_case(result))
        for name, cases in by_type.items():
            xml.add_testsuite(_suite(f"{run.name}: {name}", cases))
        if run.problem or not run.judged or not run.answered:
            xml.add_testsuite(_suite(f"{run.name}: target", [_not_judged(run)]))
    if report.stale:
        xml.add_testsuite(_suite("known failures", [_stale(name, reason) for name, reason in report.stale]))
    yield bytes(xml.tostring()).decode("utf-8")  # type: ignore[no-untyped-call]


def _suite(name: str, cases: Sequence[TestCase]) -> TestSuite:
    suite = TestSuite(clean(name))
    for case in cases:
        suite.add_testcase(case)
    return suite


def _not_judged(run: TargetRun) -> TestCase:
    """The error of a target that did not start, was not judged to the end or on no case, or answered nothing."""
    case = TestCase("start", clean(run.name))
    why = "answered none of its requests" if run.judged else "judged on no case"
    case.result = [Error(clean(run.problem or why), "target")]
    return case


def _stale(name: str, reason: str) -> TestCase:
    """The failure of a known failure that is stale."""
    case = TestCase(clean(name), "known failures")
    case.result = [Failure(clean(f"stale: {reason}"), "stale")]
    return case


def _case(result: Result) -> TestCase:
    case = TestCase(result.case.id, clean(result.target))
    verdict = result.verdict
    why = ", ".join(filter(None, (result.level, result.basis)))
    message = clean(f"{result.requirement} ({why}): {verdict.detail}")
    if section_of(result) is Section.FAULTS:
        case.result = [Error(message, "protocol")]
    elif result.is_unexpected:
        shown = explain(result)
        via = f"via: {shown.via}\n" if shown.via else ""
        text = f"expected: {shown.expected}\nactual: {shown.actual}\n{via}reproduce: {shown.reproduce}"
        entry = Failure(message, "fail") if verdict.kind is Kind.FAIL else Error(message, str(verdict.kind))
        entry.text = clean(f"cause: {result.cause.text}\n{text}")
        case.result = [entry]
    elif verdict.kind is not Kind.PASS:
        case.result = [Skipped(clean(f"{'known ' if result.known else ''}{verdict.kind}: {verdict.detail}"))]
    return case


def clean(text: str) -> str:
    """Text with the characters escaped that XML cannot hold."""
    return "".join(
        c if c in "\t\n" or (c.isprintable() and c not in "\ufffe\uffff") else f"\\x{ord(c):02x}" for c in text
    )
