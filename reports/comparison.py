"""The differences between two JSON reports: new failures, fixed failures, and cases that are no longer judged."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TypeAlias

import msgspec
from msgspec import Struct

from conformance.errors import FileError

_FAILED = frozenset(("fail", "crash", "timeout", "protocol"))
_JUDGED = _FAILED | {"pass", "either"}


class ReportedResult(msgspec.Struct):
    """The fields of a result in the JSON file that are compared."""

    target: str
    """Its name on the command line; after `read_report` its own name from `describe`."""
    id: str
    type: str
    requirement: str
    level: str
    verdict: str
    known: bool = False
    upstream: str | None = None
    cause: str = ""
    detail: str = ""

    @property
    def failed(self) -> bool:
        """Return whether the target or its adapter failed."""
        return self.verdict in _FAILED

    @property
    def judged(self) -> bool:
        """Return whether the target got the case and was judged on it."""
        return self.verdict in _JUDGED

    @property
    def is_generated(self) -> bool:
        """Return whether the case was generated. The id of a generated case depends on the seed."""
        return self.id.startswith("gen/")


class _Target(msgspec.Struct):
    target: str
    describe: object = None
    """Its answer to `describe`: length and digest of a long answer, null if the target did not start."""
    status: str = ""
    problem: str = ""

    @property
    def called(self) -> str:
        """Return its name from `describe`, else its name on the command line."""
        name = self.describe.get("name") if isinstance(self.describe, dict) else None
        return name if name and isinstance(name, str) else self.target


class _File(msgspec.Struct):
    results: list[ReportedResult]
    targets: list[_Target] = []


_Outcomes: TypeAlias = Mapping[tuple[str, str], ReportedResult]
"""Results by target and case id."""


class ReportRead(Struct, frozen=True):
    """The parts of a JSON report that are compared."""

    results: _Outcomes
    names: Mapping[str, str]
    """The name of each target in `results`, by its command line."""
    interrupted: Mapping[str, str]
    """The problem of each target that was interrupted, by its command line."""


class Change(Struct, frozen=True):
    """The cases of a target that changed in one way for one reason."""

    target: str
    reason: str
    """The cause of the failures, or why the cases are not judged."""
    cases: tuple[ReportedResult, ...]


class Missing(Struct, frozen=True):
    """The cases that a report lacks because a target was interrupted."""

    target: str
    problem: str
    """How many cases of the target were judged before the interrupt."""
    count: int
    """Cases that only the other report has, without generated cases: their ids depend on the seed."""


class ReportComparison(Struct, frozen=True):
    """The differences between an older and a newer report, each list by target and reason."""

    began: tuple[Change, ...]
    """New failures, and failures that became worse (a crash after a wrong answer)."""
    fixed: tuple[Change, ...]
    """Cases that failed and now pass."""
    dropped: tuple[Change, ...]
    """Cases that were judged and are no longer judged."""
    otherwise: tuple[Change, ...]
    """Cases that still fail, but for another cause: a fixed fault can reveal the next one."""
    older_lacks: tuple[Missing, ...]
    newer_lacks: tuple[Missing, ...]


def read_report(path: Path) -> ReportRead:
    """Read a report that `--json` wrote. Raises FileError.

    Targets are identified by their own names, because their command lines can change between two runs. If two
    targets have the same name, their command lines identify them.
    """
    try:
        report = msgspec.json.decode(path.read_bytes(), type=_File)
    except OSError as error:
        raise FileError(path, error.strerror or str(error)) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise FileError(path, f"expected a report written by --json: {error}") from None
    several = Counter(target.called for target in report.targets)
    names = {one.target: one.called if several[one.called] == 1 else one.target for one in report.targets}
    for result in report.results:
        result.target = names.get(result.target, result.target)
    interrupted = {one.target: one.problem for one in report.targets if one.status == "interrupted"}
    return ReportRead({(result.target, result.id): result for result in report.results}, names, interrupted)


def compare(older: ReportRead, newer: ReportRead) -> ReportComparison:
    """Compare two reports. If each has one target, the names of these targets may differ.

    A generated case of another seed has no counterpart. It is a new failure if the target did not fail for that cause
    before, and it is never fixed or dropped. Cases that an interrupted target lacks are missing, not dropped.
    """
    old, new = older.results, newer.results
    old_ends, new_ends = _interrupted(older, newer), _interrupted(newer, older)
    names = {*old_ends, *(target for target, _ in old)}, {*new_ends, *(target for target, _ in new)}
    if len(names[0]) == len(names[1]) == 1:
        (was,), (name,) = names
        old = {(name, case): result for (_, case), result in old.items()}
        old_ends = {name: old_ends[was]} if old_ends else {}
    causes = {(name, result.cause) for (name, _), result in old.items() if result.failed}
    began, fixed, dropped, otherwise = [], [], [], []
    for key, after in new.items():
        before = old.get(key)
        if after.failed and not after.known and _is_new(before, after, causes):
            unknown = ", not judged in the older report" * (before is None and after.target in old_ends)
            began.append((f"{after.cause or after.detail}{unknown}", after))
        elif before is not None and before.failed and after.failed and before.cause != after.cause:
            otherwise.append((f"{after.cause}, before: {before.cause}", after))
        if before is not None and before.failed and after.judged and not after.failed:
            fixed.append((before.cause or before.detail, before))
    for key, before in old.items():
        after_all = new.get(key)
        if after_all is None and (before.is_generated or key[0] in new_ends):
            continue
        if before.judged and not (after_all and after_all.judged):
            dropped.append((after_all.detail if after_all else "the newer report has no such case", before))
    return ReportComparison(
        began=tuple(_grouped(began)),
        fixed=tuple(_grouped(fixed)),
        dropped=tuple(_grouped(dropped)),
        otherwise=tuple(_grouped(otherwise)),
        older_lacks=tuple(_missing(old_ends, old, new)),
        newer_lacks=tuple(_missing(new_ends, new, old)),
    )


def _interrupted(report: ReportRead, other: ReportRead) -> dict[str, str]:
    """Return the problem of each interrupted target, by its name.

    A target that did not start has no name of its own; the other report may contain its name.
    """
    return {
        other.names.get(line, line) if name == line else name: report.interrupted[line]
        for line, name in report.names.items()
        if line in report.interrupted
    }


def _missing(ends: Mapping[str, str], lacking: _Outcomes, other: _Outcomes) -> Iterator[Missing]:
    """Yield a row for each interrupted target of the report that lacks cases."""
    counts = Counter(key[0] for key, one in other.items() if one.judged and not one.is_generated and key not in lacking)
    for target, problem in ends.items():
        yield Missing(target, problem, counts[target])


def _is_new(before: ReportedResult | None, after: ReportedResult, causes: set[tuple[str, str]]) -> bool:
    if before is None and after.is_generated:
        return (after.target, after.cause) not in causes
    if before is None or not before.failed:
        return True
    return before.verdict == "fail" and after.verdict != "fail"


def _grouped(changed: list[tuple[str, ReportedResult]]) -> Iterator[Change]:
    """Yield the changes by target; the reason with the most cases comes first."""
    groups: dict[tuple[str, str], list[ReportedResult]] = {}
    for reason, result in changed:
        groups.setdefault((result.target, reason), []).append(result)
    for (target, reason), cases in sorted(groups.items(), key=lambda item: (item[0][0], -len(item[1]))):
        yield Change(target, reason, tuple(cases))
