"""Results as JUnit XML: a suite per target and type, a case per case id; red exactly when the exit status is not 0."""

from __future__ import annotations

from junitparser import Error, Failure, JUnitXml, Skipped, TestCase, TestSuite

from conformance.cases.model import Kind
from conformance.reports.explain import explain
from conformance.reports.formats import Report
from conformance.reports.grouping import Section, section_of
from conformance.running.results import Result, TargetRun


def render(report: Report) -> str:
    """The text of the file."""
    xml = JUnitXml("kafka-conformance")
    for run in report.runs:
        for kind in dict.fromkeys(result.case.type for result in run.results):
            suite = TestSuite(clean(f"{run.name}: {kind}"))
            for result in run.results:
                if result.case.type == kind:
                    suite.add_testcase(_case(result))
            xml.add_testsuite(suite)
        if run.problem or not run.judged:
            xml.add_testsuite(_broken(run))
    if report.stale:
        suite = TestSuite("known failures")
        for name, reason in report.stale:
            case = TestCase(clean(name), "known failures")
            case.result = [Failure(clean(f"stale: {reason}"), "stale")]
            suite.add_testcase(case)
        xml.add_testsuite(suite)
    return bytes(xml.tostring()).decode("utf-8")  # type: ignore[no-untyped-call]


def _broken(run: TargetRun) -> TestSuite:
    suite = TestSuite(clean(f"{run.name}: target"))
    case = TestCase("start", clean(run.name))
    case.result = [Error(clean(run.problem or "judged on no case"), "target")]
    suite.add_testcase(case)
    return suite


def _case(result: Result) -> TestCase:
    case = TestCase(result.case.id, clean(result.target))
    verdict = result.verdict
    message = clean(f"{result.requirement} ({result.level}): {verdict.detail}")
    if section_of(result) is Section.FAULTS:
        case.result = [Error(message, "protocol")]
    elif result.is_unexpected:
        shown = explain(result)
        text = f"expected: {shown.expected}\nactual: {shown.actual}\nreproduce: {shown.reproduce}"
        entry = Failure(message, "fail") if verdict.kind is Kind.FAIL else Error(message, str(verdict.kind))
        entry.text = clean(text)
        case.result = [entry]
    elif verdict.kind is not Kind.PASS:
        case.result = [Skipped(clean(f"{'known ' if result.known else ''}{verdict.kind}: {verdict.detail}"))]
    return case


def clean(text: str) -> str:
    """Text with the characters escaped that XML cannot hold."""
    return "".join(
        c if c in "\t\n" or (c.isprintable() and c not in "\ufffe\uffff") else f"\\x{ord(c):02x}" for c in text
    )
