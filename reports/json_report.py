"""The results as the JSON file described in docs/concepts.md#the-json-file."""

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
    """Yield the text of the file, one line per cause or result. Each line is made only when it is written."""
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
    """Yield the rows of a target's results: first the rows written during the run, then the others."""
    if written is not None:
        yield from written.rows()
    done = written.count if written is not None else 0
    yield from map(_json, map(_result, filter(_has_row, islice(run.results, done, None))))


class JsonRowFile:
    """A temporary file of result rows, written during the run, so that the end of the run only copies them.

    The file has no name, so the system deletes it even after a crash.
    """

    def __init__(self, report: Path) -> None:
        """Create the file in the folder of the report: /tmp may be in memory. Raises OSError."""
        is_special = report.exists() and not report.is_file()
        folder = None if is_special else Path(os.path.realpath(report)).parent
        self._file = TemporaryFile(dir=folder)  # noqa: SIM115 - see close
        self._size = 0
        """Bytes of whole rows."""
        self._is_full = False
        self.count = 0
        """Results that were added, including those without a row."""

    def close(self) -> None:
        """Delete the file."""
        with suppress(OSError):
            self._file.close()

    def add(self, result: Result) -> None:
        """Add the row of the next result, until the disk is full."""
        if self._is_full:
            return
        row = f"{_json(_result(result))}\n".encode() if _has_row(result) else b""
        try:
            self._file.write(row)
        except OSError:
            self._is_full = True
        else:  # after the write: an interrupt during the write must not count the row
            self._size, self.count = self._size + len(row), self.count + 1

    def rows(self) -> Iterator[str]:
        """Yield the rows that were written completely."""
        try:
            self._file.seek(0)
        except OSError:  # the disk is full and buffered rows are lost
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
    """Return the number of results by verdict, and of disputed ones."""
    counts: Counter[VerdictKind] = Counter()
    for (_, kind), count in numbers.verdicts.items():
        counts[kind] += count
    return {**{str(kind): counts[kind] for kind in VerdictKind}, "disputed": numbers.disputed.total()}


def _cause(group: FailureGroup, cause: FailureCause) -> shape.Cause:
    """Return the row of a cause."""
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


_SKIPPED_AFTER_ANSWER = ("unsupported: ", "unobserved: ")
"""The prefixes of skip reasons that result from an answer of the target."""


def _has_row(result: Result) -> bool:
    """Return whether the report has a row for a result.

    Unclaimed generated cases, covering sets and live cases are only counted: there are too many of them.
    """
    verdict, label = result.verdict, result.summary
    was_sent = verdict.kind is not VerdictKind.SKIP or verdict.detail.startswith(_SKIPPED_AFTER_ANSWER)
    return was_sent or not (label.is_shrinkable or label.op in ONLY_LIVE or label.id.startswith(COVERING))


def _result(result: Result) -> shape.Result:
    """Return the row of a result. Rows of failures have more fields than rows of passes: most results pass."""
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
    """Add the fields of a failure to a row; long values become length and digest."""
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
