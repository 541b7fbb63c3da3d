"""Results as the JSON file that docs/concepts.md#the-json-file describes."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from tempfile import TemporaryFile
from typing import Literal, cast

import msgspec
from msgspec import UNSET

from conformance import __version__
from conformance.cases.model import VerdictKind
from conformance.cases.operations import ONLY_LIVE
from conformance.catalog.pairwise import PREFIX as COVERING
from conformance.judging.failure_causes import FailureCause
from conformance.reports import json_schema as shape
from conformance.reports.explain import actual_json, expected_json, reproduce
from conformance.reports.formats import Report
from conformance.reports.grouping import FailureGroup, grouped
from conformance.reports.target_differences import TargetDifference
from conformance.runner.results import MAX_ANSWER_BYTES, Result, ResultCounts, ShrunkFailure, TargetRun, shortened


def render(report: Report) -> Iterator[str]:
    """The text of the file, a cause or result a line: each is made when it is written."""
    runs = report.runs
    lists: dict[str, Iterable[str]] = {
        "targets": (_json(_target(run)) for run in runs),
        "causes": (_json(_cause(group, group.cause)) for run in runs for group in grouped(run) if group.cause),
        "results": (row for run in runs for row in _rows(run, report.rows.get(run.name))),
        "shrunk": (_json(_shrunk(shrunk)) for run in runs for shrunk in run.shrunk),
        "disagreements": (_json(_disagreement(one)) for one in report.disagreements),
    }
    suite = shape.Suite(name="kafka-conformance", version=__version__, seed=report.seed)
    yield f'{{"suite": {_json(suite)}'
    yield f',\n"summary": {_json({run.name: summary(run.numbers) for run in runs})}'
    for name, rows in lists.items():
        yield f',\n"{name}": ['
        for number, row in enumerate(rows):
            yield f"{',' if number else ''}\n{row}"
        yield "\n]"
    yield "\n}\n"


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()


def _rows(run: TargetRun, written: JsonRowFile | None) -> Iterator[str]:
    """The rows of a target's results: those that are written already, then the others."""
    if written is not None:
        yield from written.rows()
    done = written.count if written is not None else 0
    yield from map(_json, map(_result, filter(_has_row, islice(run.results, done, None))))


class JsonRowFile:
    """Rows of a target's results, written as they come: the end of a run, however it ends, only joins them.

    The file has no name, so nothing stays of it.
    """

    def __init__(self, report: Path) -> None:
        """It is beside the report, as memory may be what other temporary files are in. Raises OSError."""
        is_special = report.exists() and not report.is_file()
        folder = None if is_special else Path(os.path.realpath(report)).parent
        self._file = TemporaryFile(dir=folder)  # noqa: SIM115 - see close
        self._size = 0
        """Bytes of whole rows."""
        self._is_full = False
        self.count = 0
        """Results that are in it, those that have no row too."""

    def close(self) -> None:
        """Let the file go."""
        with suppress(OSError):
            self._file.close()

    def add(self, result: Result) -> None:
        """Add the row of the next result, as long as there is room."""
        if self._is_full:
            return
        row = f"{_json(_result(result))}\n".encode() if _has_row(result) else b""
        try:
            self._file.write(row)
        except OSError:
            self._is_full = True
        else:  # not sooner: an interrupt may come in between
            self._size, self.count = self._size + len(row), self.count + 1

    def rows(self) -> Iterator[str]:
        """The rows that were written in whole."""
        try:
            self._file.seek(0)
        except OSError:  # there is no room for what waits to be written
            self._size = self.count = 0
        left = self._size
        while left:
            row = self._file.readline()
            left -= len(row)
            yield row.decode().rstrip("\n")


_LONGEST_DESCRIPTION = 1 << 16


def _target(run: TargetRun) -> shape.Target:
    described = run.description.raw if run.description else None
    return shape.Target(
        target=run.name,
        describe=cast("shape.Shown | None", shortened(described, _LONGEST_DESCRIPTION)),
        status=_status(run),
        problem=run.problem,
        skipped=dict(run.numbers.skipped),
    )


def _status(run: TargetRun) -> shape.Status:
    """Return how far a target came."""
    if run.interrupted:
        return "interrupted"
    if run.description is None:
        return "not started"
    if run.problem:
        return "stopped early"
    if not run.judged:
        return "not judged"
    return "judged" if run.answered else "answered nothing"


def summary(numbers: ResultCounts) -> dict[str, int]:
    """How many results of each verdict, and how many are disputed."""
    counts: Counter[VerdictKind] = Counter()
    for (_, kind), count in numbers.verdicts.items():
        counts[kind] += count
    return {**{str(kind): counts[kind] for kind in VerdictKind}, "disputed": numbers.disputed.total()}


def _cause(group: FailureGroup, cause: FailureCause) -> shape.Cause:
    """A cause, with all it explains."""
    return shape.Cause(
        target=group.target,
        cause=cause.text,
        section=cast("Literal['failures', 'disputed', 'known']", str(group.section)),
        level=cast("shape.Level", group.level),
        requirements=list(group.requirements),
        vectors=group.vectors,
        generated=group.generated,
        example=next((example.result.summary.id for example in group.examples), None),
        cases=[result.summary.id for result in group.members],
    )


_ASKED = ("unsupported: ", "unobserved: ")
"""What the reason begins with where a case was skipped for what the target answered."""


def _has_row(result: Result) -> bool:
    """Whether it stands among the results.

    Of what a target does not claim, generated cases, covering sets and those of clients and brokers at work are only
    counted.
    """
    verdict, label = result.verdict, result.summary
    is_put = verdict.kind is not VerdictKind.SKIP or verdict.detail.startswith(_ASKED)
    return is_put or not (label.is_shrinkable or label.op in ONLY_LIVE or label.id.startswith(COVERING))


def _result(result: Result) -> shape.Result:
    """A result; where it did not fail, without what its id brings back, and a pass without what is said of others."""
    case, verdict = result.summary, result.verdict
    is_pass = verdict.kind is VerdictKind.PASS
    differs = case.disputed or result.disputed
    row = shape.Result(
        target=result.target,
        id=case.id,
        kind="generated" if case.is_shrinkable else "vector",
        op=case.op,
        type=case.type,
        requirement=result.requirement,
        level=cast("shape.Level", result.level),
        basis=cast("shape.Basis | None", result.basis or None),
        verdict=verdict.kind,
        detail=UNSET if is_pass and not verdict.detail else verdict.detail,
        upstream="differs" if differs else None,
        known=result.known if result.known or result.failed else UNSET,
        flaky=verdict.flaky,
        also=list(result.also) or UNSET,
        codes=result.codes or UNSET,
    )
    if is_pass or verdict.kind is VerdictKind.SKIP:
        return row
    if verdict.kind is VerdictKind.EITHER:
        return msgspec.structs.replace(row, actual=actual_json(result))
    return _in_full(row, result)


def _in_full(row: shape.Result, result: Result) -> shape.Result:
    """With what is told of a failure; length and digest of what is long."""
    case = result.case
    digits = None if case.data is None else shortened(case.data.hex(), 2 * MAX_ANSWER_BYTES + 2)
    return msgspec.structs.replace(
        row,
        reproduce=reproduce(result),
        via=result.via or None,
        hex=msgspec.convert(digits, str | shape.Digest | None),
        expected={name: shortened(entry) for name, entry in expected_json(case).items()},
        actual=actual_json(result),
        cause=result.cause.text if result.failed else UNSET,
    )


def _shrunk(shrunk: ShrunkFailure) -> shape.Shrunk:
    row = msgspec.structs.asdict(_result(shrunk.result)) | {
        "flaky": shrunk.flaky,
        "reproduce": reproduce(shrunk.result, shrunk.origin),
    }
    return shape.Shrunk(**row, of=shrunk.origin, count=shrunk.count)


def _disagreement(one: TargetDifference) -> shape.TargetDifference:
    return shape.TargetDifference(
        requirements=list(one.requirements),
        level=cast("shape.Level", one.level),
        open=one.is_open,
        upstream="differs" if one.is_disputed else None,
        causes=list(one.causes),
        groups=[
            shape.BehaviorGroup(
                targets=list(group.targets), behavior=group.behavior, conforms=group.is_right, text=group.example_text
            )
            for group in one.groups
        ],
        vectors=one.vectors,
        generated=one.generated,
        example=one.example,
        reproduce=one.reproduce,
        shrunk=one.shrunk or UNSET,
        cases=list(one.cases),
    )
