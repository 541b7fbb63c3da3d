"""Results as the JSON file that docs/concepts.md#the-json-file describes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import msgspec

from conformance import __version__
from conformance.cases.model import Kind
from conformance.judging.causes import Cause
from conformance.reports.explain import actual_json, expected_json, reproduce
from conformance.reports.formats import Report
from conformance.reports.grouping import FailureGroup, grouped
from conformance.running.results import Result, Shrunk, Tally, TargetRun


def render(report: Report) -> Iterator[str]:
    """The text of the file."""
    yield msgspec.json.format(msgspec.json.encode(as_json(report)).decode(), indent=1) + "\n"


def as_json(report: Report) -> dict[str, object]:
    """The whole report as plain data."""
    runs = report.runs
    return {
        "suite": {"name": "kafka-conformance", "version": __version__, "seed": report.seed},
        "targets": [_target(run) for run in runs],
        "summary": {run.name: summary(run.numbers) for run in runs},
        "causes": [_cause(group, group.cause) for run in runs for group in grouped(run) if group.cause],
        "results": [_result(result) for run in runs for result in run.results],
        "shrunk": [_shrunk(shrunk) for run in runs for shrunk in run.shrunk],
    }


def _target(run: TargetRun) -> dict[str, object]:
    described = run.description.raw if run.description else None
    return {"target": run.name, "describe": described, "status": _status(run), "problem": run.problem}


def _status(run: TargetRun) -> str:
    """How far a target came."""
    if run.description is None:
        return "not started"
    if run.problem:
        return "stopped early"
    if not run.judged:
        return "not judged"
    return "judged" if run.answered else "answered nothing"


def summary(numbers: Tally) -> dict[str, int]:
    """How many results of each verdict, and how many are disputed."""
    counts: Counter[Kind] = Counter()
    for (_, kind), count in numbers.verdicts.items():
        counts[kind] += count
    return {**{str(kind): counts[kind] for kind in Kind}, "disputed": numbers.disputed.total()}


def _cause(group: FailureGroup, cause: Cause) -> dict[str, object]:
    """A cause, with all it explains."""
    return {
        "target": group.target,
        "cause": cause.text,
        "section": str(group.section),
        "level": group.level,
        "requirements": list(group.requirements),
        "vectors": group.vectors,
        "generated": group.generated,
        "example": next((example.result.case.id for example in group.examples), None),
        "cases": [result.case.id for result in group.members],
    }


def _shrunk(shrunk: Shrunk) -> dict[str, object]:
    shown = _result(shrunk.result)
    origin = {"of": shrunk.origin, "count": shrunk.count, "flaky": shrunk.flaky}
    return {**shown, **origin, "reproduce": reproduce(shrunk.result.target, shrunk.result.case, shrunk.origin)}


def _result(result: Result) -> dict[str, object]:
    case = result.case
    shown: dict[str, object] = {
        "target": result.target,
        "id": case.id,
        "kind": "generated" if case.is_shrinkable else "vector",
        "op": case.op,
        "type": case.type,
        "requirement": result.requirement,
        "level": result.level,
        "basis": result.basis or None,
        "upstream": "differs" if case.disputed or result.disputed else None,
        "verdict": str(result.verdict.kind),
        "known": result.known,
        "flaky": result.verdict.flaky,
        "hex": case.data.hex() if case.data is not None else None,
        "expected": expected_json(case),
        "actual": actual_json(result),
        "detail": result.verdict.detail,
        "reproduce": reproduce(result.target, case),
    }
    if result.verdict.kind not in (Kind.PASS, Kind.SKIP):
        shown["via"] = result.via or None
    if result.failed:
        shown["cause"] = result.cause.text
    if result.also:
        shown["also"] = list(result.also)
    return shown
