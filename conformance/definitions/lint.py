"""Checks a set of message definitions, and its changes since an older set.

The parser reports unreadable parts. The tables in `lint_rules` and `compatibility_rules` contain all other rules. A
finding contains the id of its requirement; the register contains the level.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from conformance.definitions._compatibility import (
    FieldChange,
    MessageChange,
    released_versions,
    structures_of,
    successor_of,
)
from conformance.definitions.compatibility_rules import OF_A_MESSAGE, OF_A_PAIR, OF_A_STRUCTURE
from conformance.definitions.findings import LintFinding
from conformance.definitions.lint_rules import OF_A_FIELD, OF_A_SET, FieldInMessage, fields_of, joined, versions_text
from conformance.definitions.loader import Definitions, read_definitions, usable


def lint(path: Path, against: Path | None = None) -> list[LintFinding]:
    """Return all problems of a set of definitions, and of its changes since an older set.

    Raises DefinitionError for a path without definitions, and for an older set that cannot be read.
    """
    definitions = read_definitions(path)
    old = usable(against) if against else None
    findings = [*definitions.findings, *_alone(definitions)]
    if old is not None:
        findings += _evolved(old, definitions, whole=path.is_dir() or len(definitions.files) > 1)
    # If several fields use a structure, its findings are repeated: `fromkeys` removes the copies.
    return sorted(dict.fromkeys(findings), key=lambda finding: (finding.file, finding.path))


def _alone(definitions: Definitions) -> Iterator[LintFinding]:
    for row in OF_A_SET:
        for name, problem in row.check(definitions):
            yield LintFinding(definitions.files[name], "", row.requirement, problem, row.open)
    for message in definitions.messages.values():
        for path, member in fields_of(message):
            place = FieldInMessage(message, member)
            for rule in OF_A_FIELD:
                for _, problem in rule.check(place):
                    yield LintFinding(definitions.files[message.name], path, rule.requirement, problem, rule.open)


def _evolved(old: Definitions, new: Definitions, *, whole: bool) -> Iterator[LintFinding]:
    """Yield the problems of changes since an older set. Missing messages count only if the new set is `whole`."""
    for message in old.messages.values():
        successor = successor_of(message, new)
        released = released_versions(message, old)
        if successor is not None:
            file = new.files[successor.name]
            for requirement, path, problem, is_open in _changes(MessageChange(message, successor, released)):
                yield LintFinding(file, path, requirement, problem, is_open)
        elif whole and released:
            hint = f"{message.name} was removed, with {versions_text(released)}"
            yield LintFinding(old.files[message.name], "", "definitions.no-version-dropped", hint)


def _changes(evolution: MessageChange) -> Iterator[tuple[str, str, str, bool]]:
    """Yield the problems of a message: requirement, path, text, and True if the document does not decide it."""
    for row in OF_A_MESSAGE:
        for _, problem in row.check(evolution):
            yield row.requirement, "", problem, row.open
    for path, change in structures_of(evolution):
        for rule in OF_A_STRUCTURE:
            for name, problem in rule.check(change):
                yield rule.requirement, joined(path, name), problem, rule.open
        for old, now in change.pairs:
            pair = FieldChange(evolution, old, now, change.kept)
            for one in OF_A_PAIR:
                for _, problem in one.check(pair):
                    yield one.requirement, joined(path, now.name), problem, one.open
