"""Known failures: a YAML list of what is known to go wrong, and which entries of it are stale."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from conformance.cases.model import Kind
from conformance.cases.yaml_files import Row, load
from conformance.errors import FileError
from conformance.running.results import Result

_KEYS = {"id", "reason", "verdict", "target", "flaky"}
_BAD = (Kind.FAIL, Kind.CRASH, Kind.TIMEOUT)


@dataclass(frozen=True, slots=True)
class Known:
    """One entry: the ids it speaks of (a glob), why, and what it is narrowed to."""

    id: str
    reason: str
    verdict: str = ""
    target: str = ""
    flaky: bool = False
    line: int = 0

    def covers(self, target: str, case: str) -> bool:
        """Whether it speaks of this case of this target."""
        return self.target in ("", target) and (case == self.id or fnmatchcase(case, self.id))

    def excuses(self, result: Result) -> bool:
        """Whether a failing result is the known one."""
        return self.covers(result.target, result.case.id) and self.verdict in ("", result.verdict.kind)


def read_known(path: Path) -> tuple[Known, ...]:
    """The entries of a file. Raises FileError with the line."""
    rows = load(path)
    if not isinstance(rows, list):
        raise FileError(path, "a list of {id, reason} is expected")
    return tuple(_entry(path, row) for row in rows)


def _entry(path: Path, row: Any) -> Known:
    if not isinstance(row, Row) or not isinstance(row.get("id"), str):
        raise FileError(path, f"an entry is a mapping with an id, found {row!r:.60}", getattr(row, "line", 0))
    unknown = set(row) - _KEYS
    if unknown:
        raise FileError(path, f"{row['id']}: unknown key {sorted(unknown)[0]!r}", row.line)
    if not isinstance(row.get("reason"), str):
        raise FileError(path, f"{row['id']}: a reason is expected", row.line)
    for key, kind in (("verdict", str), ("target", str), ("flaky", bool)):
        if key in row and not isinstance(row[key], kind):
            raise FileError(path, f"{row['id']}: {key} is of the wrong shape", row.line)
    if "verdict" in row and row["verdict"] not in set(map(str, _BAD)):
        raise FileError(path, f"{row['id']}: verdict is fail, crash or timeout", row.line)
    return Known(
        row["id"],
        row["reason"],
        row.get("verdict", ""),
        row.get("target", ""),
        row.get("flaky", False),
        row.line,
    )


def stale(entries: Iterable[Known], catalogue: Iterable[str], results: Iterable[Result]) -> list[tuple[Known, str]]:
    """Entries that say nothing true any more, with the reason.

    No case of the whole catalogue has such an id, or all its cases ran and passed. Entries that were not selected or
    were skipped, flaky ones, and those for generated (`gen/`) and ad hoc (`bytes/`) cases never are.
    """
    ids, ran = list(catalogue), list(results)
    found = []
    for entry in entries:
        if entry.id.startswith(("gen/", "bytes/")):
            continue
        if not any(case == entry.id or fnmatchcase(case, entry.id) for case in ids):
            found.append((entry, "no case has this id"))
            continue
        verdicts = {result.verdict.kind for result in ran if entry.covers(result.target, result.case.id)}
        if verdicts and verdicts <= {Kind.PASS} and not entry.flaky and _all_ran(entry, ids, ran):
            found.append((entry, "all its cases passed"))
    return found


def _all_ran(entry: Known, ids: list[str], ran: list[Result]) -> bool:
    asked = {result.case.id for result in ran}
    return all(case in asked for case in ids if case == entry.id or fnmatchcase(case, entry.id))


def updated(entries: Iterable[Known], results: Iterable[Result], gone: Iterable[Known]) -> list[dict[str, Any]]:
    """The list with new failures added and stale entries dropped, as it is written to the file."""
    dropped = set(gone)
    rows: list[dict[str, Any]] = []
    for entry in entries:
        if entry in dropped:
            continue
        row: dict[str, Any] = {"id": entry.id, "reason": entry.reason}
        row.update({key: getattr(entry, key) for key in ("verdict", "target", "flaky") if getattr(entry, key)})
        rows.append(row)
    for result in results:
        if result.is_unexpected:
            reason = f"{result.requirement}: {result.verdict.detail}"
            rows.append(
                {"id": result.case.id, "reason": reason, "verdict": str(result.verdict.kind), "target": result.target}
            )
    return rows
