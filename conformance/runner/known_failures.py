"""The list of known failures: reads and writes its YAML file, and finds stale entries.

An entry names cases by id, perhaps with one requirement; or it names failures by requirement and cause. The second kind
does not depend on the seed of generated cases. The target is the name in its `describe` answer.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from msgspec import Struct, field
from msgspec.structs import replace

from conformance.cases.model import VerdictKind
from conformance.errors import FileError
from conformance.files.yaml_mapping import YamlMapping
from conformance.runner.results import Result

_VERDICTS = (str(VerdictKind.FAIL), str(VerdictKind.CRASH), str(VerdictKind.TIMEOUT))
"""The verdicts to which an entry can be limited."""

_GLOB = frozenset("*?[")
"""The characters that make an id a glob."""

_NEVER_STALE = ("gen/", "bytes/")
"""The prefixes of generated and ad hoc cases, which are not in the catalogue."""


class KnownFailure(Struct, frozen=True, forbid_unknown_fields=True):
    """One entry: the failures that it names, their reason, and its conditions."""

    id: str = ""
    """The id of a case, or a glob over ids; empty for an entry by requirement and cause."""
    reason: str = ""
    verdict: str = ""
    """The verdict of the failures; empty: any failure."""
    target: str = ""
    """Only results of the target with this name; empty: of any target."""
    flaky: bool = False
    """Whether its cases pass sometimes, so that the entry is not stale when they do."""
    line: int = field(default=0, name="")
    """The line of the entry; no key of the file has this name."""
    requirement: str = ""
    """The requirement of the failures; empty with an id: any requirement."""
    cause: str = ""
    """The text of the cause, in an entry without an id (docs/concepts.md#causes)."""

    def __str__(self) -> str:
        """Return its id, or its requirement and cause."""
        return self.id or f"{self.requirement}, {self.cause}"

    def names(self, case: str) -> bool:
        """Return whether its id matches a case."""
        return bool(self.id) and (case == self.id or (self.is_glob and fnmatchcase(case, self.id)))

    @property
    def is_glob(self) -> bool:
        """Whether its id is a glob; to match hundreds of plain ids as globs takes seconds."""
        return not _GLOB.isdisjoint(self.id)

    def among(self, cases: Collection[str]) -> list[str]:
        """Return the cases that it names."""
        return [case for case in (cases if self.is_glob else (self.id,)) if case in cases and self.names(case)]

    def covers(self, target: str, case: str) -> bool:
        """Return whether it names this case of the target with this name."""
        return self.is_of(target) and self.names(case)

    def is_of(self, target: str) -> bool:
        """Return whether it is valid for the target with this name."""
        return self.target in ("", target)

    def excuses(self, result: Result) -> bool:
        """Return whether it names a failing result."""
        return self.excuses_failure(
            result.name, result.summary.id, result.requirement, result.cause.text, result.verdict.kind
        )

    def excuses_failure(self, target: str, case: str, requirement: str, cause: str, verdict: str) -> bool:
        """Return whether it names a failure with these values."""
        if self.verdict not in ("", verdict):
            return False
        if self.requirement not in ("", requirement) or self.cause not in ("", cause):
            return False
        return self.covers(target, case) if self.id else self.is_of(target)


# --- the file -----------------------------------------------------------------------------------------

_KEYS = ("id", "requirement", "cause", "reason", "verdict", "target", "flaky")
"""The keys of an entry, in the order of the file."""

_SELECTING_KEYS = {"id", "requirement", "cause"}
"""The keys that select the failures of an entry."""


def read_known(path: Path) -> tuple[KnownFailure, ...]:
    """Return the entries of a file; none if it does not exist yet. Raises FileError with the line."""
    if not path.exists() and path.parent.is_dir():
        return ()
    from conformance.files.yaml_loader import convert, load

    rows = load(path)
    if not isinstance(rows, list):
        raise FileError(path, "expected a list of {id, reason} or {requirement, cause, reason}")
    entries = convert(path, rows, list[KnownFailure])
    for row, entry in zip(rows, entries, strict=True):
        if problem := _problem(row):
            raise FileError(path, f"{entry}: {problem}", row.line)
    return tuple(replace(entry, line=row.line) for row, entry in zip(rows, entries, strict=True))


def _problem(row: YamlMapping) -> str:
    """Return the problem of an entry whose keys and types are right; empty for none."""
    if _SELECTING_KEYS & row.keys() not in ({"id"}, {"id", "requirement"}, {"requirement", "cause"}):
        return "expected an id, alone or with a requirement, or a requirement and a cause"
    if not all(row[name] for name in _SELECTING_KEYS & row.keys()):
        return "expected an id, or a requirement and a cause, that are not empty"
    if "reason" not in row:
        return "expected a reason"
    if row.get("verdict", VerdictKind.FAIL) not in _VERDICTS:
        return f"verdict: expected {', '.join(_VERDICTS[:-1])} or {_VERDICTS[-1]}, found {row['verdict']!r:.60}"
    return ""


def known_text(entries: Sequence[KnownFailure]) -> str:
    """Return the text of a file with these entries."""
    import yaml

    rows = [{key: getattr(entry, key) for key in _KEYS if key == "reason" or getattr(entry, key)} for entry in entries]
    return yaml.safe_dump(rows, sort_keys=False, allow_unicode=True, width=1000) if rows else "[]\n"


# --- comparison with a run ----------------------------------------------------------------------------


def stale(
    entries: Sequence[KnownFailure], catalogue: Iterable[str], results: Iterable[Result], requirements: Container[str]
) -> list[tuple[KnownFailure, str]]:
    """Return the stale entries, each with the reason.

    `catalogue` contains the ids of all cases, selected or not, and `requirements` those of the register. An entry is
    stale if no case has its id, or if all its cases ran and passed. It is never stale if a case was not selected or was
    skipped, if it is flaky, or if it is for generated or ad hoc cases. An entry by requirement and cause is stale only
    if the requirement does not exist: other generated cases may still have the cause.
    """
    if not entries:
        return []
    ids = frozenset(catalogue)
    ran: dict[str, list[Result]] = {}
    for result in results:
        ran.setdefault(result.summary.id, []).append(result)
    reasons = [(entry, _why_stale(entry, ids, ran, requirements)) for entry in entries]
    return [(entry, reason) for entry, reason in reasons if reason]


def _why_stale(
    entry: KnownFailure, ids: Collection[str], ran: Mapping[str, Sequence[Result]], requirements: Container[str]
) -> str:
    """Return why an entry is stale; empty if it is not."""
    if entry.requirement and entry.requirement not in requirements:
        return "no requirement has this id"
    if not entry.id or entry.id.startswith(_NEVER_STALE):
        return ""
    named = entry.among(ids)
    if not named:
        return "no case has this id"
    results = [result for case in entry.among(ran) for result in ran[case]]
    verdicts = {result.verdict.kind for result in results if entry.is_of(result.name)}
    if entry.flaky or verdicts != {VerdictKind.PASS}:
        return ""
    return "all its cases passed" if all(case in ran for case in named) else ""


def unseen(entries: Iterable[KnownFailure], results: Iterable[Result]) -> list[KnownFailure]:
    """Return entries by requirement and cause without a result, although generated cases of the requirement ran."""
    ran = [result for result in results if result.verdict.kind not in (VerdictKind.SKIP, VerdictKind.PROTOCOL)]
    failed = [result for result in ran if result.failed]
    generated = [result for result in ran if result.summary.is_shrinkable]
    judged = {
        (name, rule)
        for one in generated
        for name in (one.name, "")
        for rule in (one.requirement, one.summary.requirement)
    }
    return [
        entry
        for entry in entries
        if not (entry.id or entry.flaky)
        and (entry.target, entry.requirement) in judged
        and not any(map(entry.excuses, failed))
    ]


class KnownFailuresUpdate(Struct, frozen=True):
    """An updated list of known failures, with its changes."""

    entries: tuple[KnownFailure, ...]
    added: tuple[KnownFailure, ...]
    dropped: tuple[KnownFailure, ...]


def updated(
    entries: Iterable[KnownFailure], results: Iterable[Result], gone: Iterable[KnownFailure]
) -> KnownFailuresUpdate:
    """Return the entries without those of `gone`, and with a new one for each unexpected result.

    An entry for a vector has its id and the violated requirement, so that another fault is new. An entry for a
    generated case has its requirement and cause, which other cases share.
    """
    dropped = set(gone)
    kept = [entry for entry in entries if entry not in dropped]
    added: dict[KnownFailure, KnownFailure] = {}
    for result in results:
        if result.is_unexpected:
            entry = _entry_for(result)
            added.setdefault(replace(entry, reason=""), entry)
    return KnownFailuresUpdate((*kept, *added.values()), tuple(added.values()), tuple(dropped))


def _entry_for(result: Result) -> KnownFailure:
    """Return the entry for a failure."""
    verdict, detail = str(result.verdict.kind), result.verdict.detail
    if not result.summary.is_shrinkable:
        return KnownFailure(result.summary.id, detail, verdict, result.name, requirement=result.requirement)
    return KnownFailure("", detail, verdict, result.name, requirement=result.requirement, cause=result.cause.text)


_MAX_LISTED = 20
"""The largest number of added entries, and of dropped ones, that are listed."""


def update_lines(update: KnownFailuresUpdate, path: str) -> list[str]:
    """Return the changes of an update of the file at `path`, as lines of text."""
    lines = [f"{path}: {len(update.added)} added, {len(update.dropped)} dropped, {len(update.entries)} in all"]
    for sign, entries in (("+", update.added), ("-", update.dropped)):
        lines += [f"  {sign} {entry}  ({_reason_text(entry)})" for entry in entries[:_MAX_LISTED]]
        if len(entries) > _MAX_LISTED:
            lines.append(f"  {sign} {len(entries) - _MAX_LISTED} more")
    return lines


def _reason_text(entry: KnownFailure) -> str:
    return f"{entry.requirement}: {entry.reason}" if entry.id and entry.requirement else entry.reason
