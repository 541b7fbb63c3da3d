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
from conformance.running.keeping import MOST, shortened
from conformance.running.results import Result, Shrunk, Tally, TargetRun


def render(report: Report) -> Iterator[str]:
    """The text of the file, a cause or result a line."""
    runs = report.runs
    suite = {"name": "kafka-conformance", "version": __version__, "seed": report.seed}
    lists: dict[str, Iterator[dict[str, object]]] = {
        "targets": map(_target, runs),
        "causes": (_cause(group, group.cause) for run in runs for group in grouped(run) if group.cause),
        "results": (_result(result) for run in runs for result in run.results),
        "shrunk": (_shrunk(shrunk) for run in runs for shrunk in run.shrunk),
    }
    yield f'{{"suite": {_json(suite)}'
    yield f',\n"summary": {_json({run.name: summary(run.numbers) for run in runs})}'
    for name, rows in lists.items():
        yield f',\n"{name}": ['
        for number, row in enumerate(rows):
            yield f"{',' if number else ''}\n{_json(row)}"
        yield "\n]"
    yield "\n}\n"


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()


_LONGEST_DESCRIPTION = 1 << 16


def _target(run: TargetRun) -> dict[str, object]:
    described = run.description.raw if run.description else None
    return {
        "target": run.name,
        "describe": shortened(described, _LONGEST_DESCRIPTION),
        "status": _status(run),
        "problem": run.problem,
    }


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
        "detail": result.verdict.detail,
        "reproduce": reproduce(result.target, case),
    }
    if result.verdict.kind not in (Kind.PASS, Kind.SKIP):
        shown |= _in_full(result)
    if result.failed:
        shown["cause"] = result.cause.text
    if result.also:
        shown["also"] = list(result.also)
    return shown


def _in_full(result: Result) -> dict[str, object]:
    """What is told of a result that neither passed nor was skipped; length and digest of what is long."""
    case = result.case
    return {
        "via": result.via or None,
        "hex": None if case.data is None else shortened(case.data.hex(), 2 * MOST + 2),
        "expected": {name: shortened(entry) for name, entry in expected_json(case).items()},
        "actual": actual_json(result),
    }
