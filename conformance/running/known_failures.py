"""The list of known failures: reading and writing the YAML file, and finding the entries that are stale."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

import yaml

from conformance.cases.model import Kind
from conformance.cases.yaml_files import Row, load
from conformance.errors import FileError
from conformance.running.results import Result

_VERDICTS = (str(Kind.FAIL), str(Kind.CRASH), str(Kind.TIMEOUT))
"""The verdicts that an entry may be narrowed to."""

_NEVER_STALE = ("gen/", "bytes/")
"""How the ids of generated and ad hoc cases begin: the catalogue does not hold these cases."""


@dataclass(frozen=True, slots=True)
class Known:
    """One entry: the cases it names, why they fail, and what it is narrowed to."""

    id: str
    """The id of a case, or a glob over ids."""
    reason: str
    verdict: str = ""
    """Only results with this verdict; empty: any failure."""
    target: str = ""
    """Only results of this target; empty: of any."""
    flaky: bool = False
    """Its cases pass now and then, so the entry is not stale when they do."""
    line: int = 0

    def names(self, case: str) -> bool:
        """Whether it names a case, by its id."""
        return case == self.id or fnmatchcase(case, self.id)

    def covers(self, target: str, case: str) -> bool:
        """Whether it names this case of this target."""
        return self.target in ("", target) and self.names(case)

    def excuses(self, result: Result) -> bool:
        """Whether a failing result is the known one."""
        return self.covers(result.target, result.case.id) and self.verdict in ("", result.verdict.kind)


# --- the file -----------------------------------------------------------------------------------------

_SHAPES: dict[str, tuple[type[object], str]] = {
    "id": (str, "text"),
    "reason": (str, "text"),
    "verdict": (str, "text"),
    "target": (str, "text"),
    "flaky": (bool, "true or false"),
}
"""The keys of an entry, the type of each value, and what the user is told to write."""


def read_known(path: Path) -> tuple[Known, ...]:
    """The entries of a file. Raises FileError with the line."""
    rows = load(path)
    if not isinstance(rows, list):
        raise FileError(path, "expected a list of {id, reason}")
    return tuple(_entry(path, row) for row in rows)


def _entry(path: Path, row: object) -> Known:
    if not isinstance(row, Row) or not isinstance(row.get("id"), str):
        raise FileError(path, f"expected a mapping with an id, found {row!r:.60}", getattr(row, "line", 0))
    problem = _problem(row)
    if problem:
        raise FileError(path, f"{row['id']}: {problem}", row.line)
    return Known(**row, line=row.line)


def _problem(row: Row) -> str:
    """What is wrong with the keys of an entry; empty when they are right."""
    for key, value in row.items():
        if key not in _SHAPES:
            return f"unknown key {key!r}, expected one of {', '.join(_SHAPES)}"
        kind, expected = _SHAPES[key]
        if not isinstance(value, kind):
            return f"{key}: expected {expected}, found {value!r:.60}"
    if "reason" not in row:
        return "expected a reason"
    if row.get("verdict", Kind.FAIL) not in _VERDICTS:
        return f"verdict: expected {', '.join(_VERDICTS[:-1])} or {_VERDICTS[-1]}, found {row['verdict']!r:.60}"
    return ""


def known_text(entries: Sequence[Known]) -> str:
    """The text of a file of these entries."""
    rows = [{"id": entry.id, "reason": entry.reason, **_narrowing(entry)} for entry in entries]
    return yaml.safe_dump(rows, sort_keys=False, allow_unicode=True, width=1000) if rows else "[]\n"


def _narrowing(entry: Known) -> dict[str, object]:
    """The optional keys that an entry has."""
    return {key: getattr(entry, key) for key in ("verdict", "target", "flaky") if getattr(entry, key)}


# --- against a run ------------------------------------------------------------------------------------


def stale(entries: Sequence[Known], catalogue: Iterable[str], results: Iterable[Result]) -> list[tuple[Known, str]]:
    """The stale entries, each with the reason; `catalogue` holds the ids of all cases, selected or not.

    An entry is stale when no case has its id, or when all its cases ran and passed. Entries whose cases were not
    selected or were skipped, flaky ones, and those for generated and ad hoc cases never are.
    """
    if not entries:
        return []
    ids, ran = list(catalogue), list(results)
    reasons = [(entry, _why_stale(entry, ids, ran)) for entry in entries]
    return [(entry, reason) for entry, reason in reasons if reason]


def _why_stale(entry: Known, ids: Sequence[str], ran: Sequence[Result]) -> str:
    """Why an entry is stale; empty when it is not."""
    if entry.id.startswith(_NEVER_STALE):
        return ""
    named = [case for case in ids if entry.names(case)]
    if not named:
        return "no case has this id"
    verdicts = {result.verdict.kind for result in ran if entry.covers(result.target, result.case.id)}
    if entry.flaky or verdicts != {Kind.PASS}:
        return ""
    return "all its cases passed" if {result.case.id for result in ran}.issuperset(named) else ""


def updated(entries: Iterable[Known], results: Iterable[Result], gone: Iterable[Known]) -> list[Known]:
    """The entries with those of `gone` dropped, and one added for each unexpected result."""
    dropped = set(gone)
    new = [
        Known(
            result.case.id,
            f"{result.requirement}: {result.verdict.detail}",
            str(result.verdict.kind),
            result.target,
        )
        for result in results
        if result.is_unexpected
    ]
    return [*(entry for entry in entries if entry not in dropped), *new]
