"""The results as JUnit XML: a test suite per target and type, a test case per case.

The file contains a failure or an error exactly if the exit status is not 0. The time of a suite is the time that the
run waited for the target's answers. A case has no time, because requests overlap.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from xml.sax.saxutils import quoteattr

from msgspec import Struct

from conformance.cases.model import VerdictKind
from conformance.reports.explain import actual_text, expected_text, reproduce
from conformance.reports.formats import Report
from conformance.reports.grouping import Section, section_of
from conformance.runner.results import Result, TargetRun

_COUNT_ATTRIBUTES = {"failure": "failures", "error": "errors", "skipped": "skipped"}
"""The elements below a test case, and the attributes of a suite that count them."""


class _Suite(Struct, frozen=True):
    """A test suite: its name, the element of each case (empty for a pass), and a function that makes the cases."""

    name: str
    outcomes: tuple[str, ...]
    cases: Callable[[], Iterable[ET.Element]]
    seconds: float = 0.0
    """The time that the run waited for answers."""


def render(report: Report) -> Iterator[str]:
    """Yield the text of the file, one line per case."""
    suites = [suite for run in report.runs for suite in _suites(run)]
    if report.stale:
        outcomes = ("failure",) * len(report.stale)
        cases = partial(map, lambda entry: _stale(*entry), report.stale)
        suites.append(_Suite("known failures", outcomes, cases))
    yield "<?xml version='1.0' encoding='utf-8'?>\n"
    whole = [outcome for suite in suites for outcome in suite.outcomes]
    yield f"<testsuites{_attributes('kafka-conformance', whole, sum(suite.seconds for suite in suites))}>\n"
    for suite in suites:
        yield f"<testsuite{_attributes(suite.name, suite.outcomes, suite.seconds)}>\n"
        for case in suite.cases():
            yield ET.tostring(case, encoding="unicode") + "\n"
        yield "</testsuite>\n"
    yield "</testsuites>\n"


def _attributes(name: str, outcomes: Iterable[str], seconds: float) -> str:
    counts = Counter(outcomes)
    numbers = {
        "tests": str(counts.total()),
        **{plural: str(counts[outcome]) for outcome, plural in _COUNT_ATTRIBUTES.items()},
    }
    numbers["time"] = f"{seconds:.3f}"
    return f" name={quoteattr(clean(name))}" + "".join(f' {key}="{number}"' for key, number in numbers.items())


def _suites(run: TargetRun) -> Iterator[_Suite]:
    """Yield a suite per type, and one with an error if the target was not judged completely."""
    by_type: dict[str, list[Result]] = {}
    for result in run.results:
        by_type.setdefault(result.summary.type, []).append(result)
    for name, results in by_type.items():
        outcomes, cases = tuple(map(_outcome, results)), partial(map, _case, results)
        yield _Suite(f"{run.name}: {name}", outcomes, cases, run.waited.get(name, 0.0))
    if run.problem or not run.judged or not run.answered:
        yield _Suite(f"{run.name}: target", ("error",), partial(map, _not_judged, [run]))


def _outcome(result: Result) -> str:
    """Return the element below a test case; empty for a pass."""
    if section_of(result) is Section.FAULTS:
        return "error"
    if result.is_unexpected:
        return "failure" if result.verdict.kind is VerdictKind.FAIL else "error"
    return "" if result.verdict.kind is VerdictKind.PASS else "skipped"


def _element(name: str, folder: str, outcome: str = "", message: str = "", kind: str = "") -> ET.Element:
    """Return a test case with the element of its outcome."""
    case = ET.Element("testcase", name=clean(name), classname=clean(folder))
    if outcome:
        attributes = {"message": clean(message), "type": kind}
        ET.SubElement(case, outcome, {key: text for key, text in attributes.items() if text})
    return case


def _not_judged(run: TargetRun) -> ET.Element:
    """Return the error of a target that did not start, was not judged completely, or answered no request."""
    why = "answered no request" if run.judged else "judged on no case"
    return _element("start", run.name, "error", run.problem or why, "target")


def _stale(name: str, reason: str) -> ET.Element:
    """Return the failure for a stale known failure."""
    return _element(name, "known failures", "failure", f"stale: {reason}", "stale")


def _case(result: Result) -> ET.Element:
    verdict, outcome = result.verdict, _outcome(result)
    if not outcome:
        return _element(result.summary.id, result.target)
    if outcome == "skipped":
        known = "known " if result.known else ""
        return _element(result.summary.id, result.target, outcome, f"{known}{verdict.kind}: {verdict.detail}")
    why = ", ".join(filter(None, (result.level, result.basis)))
    message = f"{result.requirement} ({why}): {verdict.detail}"
    case = _element(result.summary.id, result.target, outcome, message, str(verdict.kind))
    if section_of(result) is not Section.FAULTS:
        expected, actual = expected_text(result.case, verdict.path), actual_text(result, verdict.path)
        via = f"via: {result.via}\n" if result.via else ""
        text = f"expected: {expected}\nactual: {actual}\n{via}reproduce: {reproduce(result)}"
        case[0].text = clean(f"cause: {result.cause.text}\n{text}")
    return case


def clean(text: str) -> str:
    """Return a text with the characters escaped that XML does not allow."""
    return "".join(
        c if c in "\t\n" or (c.isprintable() and c not in "\ufffe\uffff") else f"\\x{ord(c):02x}" for c in text
    )
