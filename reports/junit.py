"""Results as JUnit XML: a suite per target and type, a case per case id; red exactly when the exit status is not 0.

The time of a suite is how long the run waited for the target's answers. A case has none: many requests are under way at
once, so the time of one would be a guess.
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

_COLOURS = {"failure": "failures", "error": "errors", "skipped": "skipped"}
"""The elements that say how a case ended, and what a suite calls their number."""


class _Suite(Struct, frozen=True):
    """A suite: its name, how each case ended (empty: it passed), and what makes the cases when they are written."""

    name: str
    colours: tuple[str, ...]
    cases: Callable[[], Iterable[ET.Element]]
    seconds: float = 0.0
    """How long its answers were waited for."""


def render(report: Report) -> Iterator[str]:
    """The text of the file, a case a line."""
    suites = [suite for run in report.runs for suite in _suites(run)]
    if report.stale:
        colours = ("failure",) * len(report.stale)
        cases = partial(map, lambda entry: _stale(*entry), report.stale)
        suites.append(_Suite("known failures", colours, cases))
    yield "<?xml version='1.0' encoding='utf-8'?>\n"
    whole = [colour for suite in suites for colour in suite.colours]
    yield f"<testsuites{_attributes('kafka-conformance', whole, sum(suite.seconds for suite in suites))}>\n"
    for suite in suites:
        yield f"<testsuite{_attributes(suite.name, suite.colours, suite.seconds)}>\n"
        for case in suite.cases():
            yield ET.tostring(case, encoding="unicode") + "\n"
        yield "</testsuite>\n"
    yield "</testsuites>\n"


def _attributes(name: str, colours: Iterable[str], seconds: float) -> str:
    counts = Counter(colours)
    numbers = {"tests": str(counts.total()), **{plural: str(counts[colour]) for colour, plural in _COLOURS.items()}}
    numbers["time"] = f"{seconds:.3f}"
    return f" name={quoteattr(clean(name))}" + "".join(f' {key}="{number}"' for key, number in numbers.items())


def _suites(run: TargetRun) -> Iterator[_Suite]:
    """The suites of a target: one for each type, and one for a target that was not judged."""
    by_type: dict[str, list[Result]] = {}
    for result in run.results:
        by_type.setdefault(result.summary.type, []).append(result)
    for name, results in by_type.items():
        colours, cases = tuple(map(_colour, results)), partial(map, _case, results)
        yield _Suite(f"{run.name}: {name}", colours, cases, run.waited.get(name, 0.0))
    if run.problem or not run.judged or not run.answered:
        yield _Suite(f"{run.name}: target", ("error",), partial(map, _not_judged, [run]))


def _colour(result: Result) -> str:
    """How a case ended; empty where it passed."""
    if section_of(result) is Section.FAULTS:
        return "error"
    if result.is_unexpected:
        return "failure" if result.verdict.kind is VerdictKind.FAIL else "error"
    return "" if result.verdict.kind is VerdictKind.PASS else "skipped"


def _element(name: str, folder: str, colour: str = "", message: str = "", kind: str = "") -> ET.Element:
    """A case, and below it how it ended."""
    case = ET.Element("testcase", name=clean(name), classname=clean(folder))
    if colour:
        told = {"message": clean(message), "type": kind}
        ET.SubElement(case, colour, {key: text for key, text in told.items() if text})
    return case


def _not_judged(run: TargetRun) -> ET.Element:
    """The error of a target that did not start, was not judged to the end or on no case, or answered nothing."""
    why = "answered none of its requests" if run.judged else "judged on no case"
    return _element("start", run.name, "error", run.problem or why, "target")


def _stale(name: str, reason: str) -> ET.Element:
    """The failure of a known failure that is stale."""
    return _element(name, "known failures", "failure", f"stale: {reason}", "stale")


def _case(result: Result) -> ET.Element:
    verdict, colour = result.verdict, _colour(result)
    if not colour:
        return _element(result.summary.id, result.target)
    if colour == "skipped":
        known = "known " if result.known else ""
        return _element(result.summary.id, result.target, colour, f"{known}{verdict.kind}: {verdict.detail}")
    why = ", ".join(filter(None, (result.level, result.basis)))
    message = f"{result.requirement} ({why}): {verdict.detail}"
    case = _element(result.summary.id, result.target, colour, message, str(verdict.kind))
    if section_of(result) is not Section.FAULTS:
        expected, actual = expected_text(result.case, verdict.path), actual_text(result, verdict.path)
        via = f"via: {result.via}\n" if result.via else ""
        text = f"expected: {expected}\nactual: {actual}\n{via}reproduce: {reproduce(result)}"
        case[0].text = clean(f"cause: {result.cause.text}\n{text}")
    return case


def clean(text: str) -> str:
    """Text with the characters escaped that XML cannot hold."""
    return "".join(
        c if c in "\t\n" or (c.isprintable() and c not in "\ufffe\uffff") else f"\\x{ord(c):02x}" for c in text
    )
