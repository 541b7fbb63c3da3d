"""The attributes of a definition's objects, each with its expected type; problems are collected."""

from __future__ import annotations

import re
from collections.abc import Mapping

from conformance.codec.message_spec import LAST, NONE, VersionRange
from conformance.definitions.findings import SOME, LintFinding, shown

Row = Mapping[str, object]
"""An object of a definition, as JSON has it."""

_WHOLE = re.compile(r"[0-9]{1,10}\Z")
NAME = re.compile(r"[A-Za-z][A-Za-z0-9]*\Z")
_RANGE = re.compile(r"([0-9]{1,9})(?:(\+)|-([0-9]{1,9}))?\Z")


class UnusableDefinition(Exception):
    """A part of a definition that cannot be used; its finding is already recorded."""


class AttributeReader:
    """A reader of the attributes of one definition."""

    def __init__(self, file: str) -> None:
        self.findings: list[LintFinding] = []
        self._file = file

    def blame(self, path: str, requirement: str, problem: str) -> None:
        self.findings.append(LintFinding(self._file, path, requirement, problem))

    def note(self, path: str, requirement: str, problem: str) -> None:
        """Record a problem that the document does not decide."""
        self.findings.append(LintFinding(self._file, path, requirement, problem, open=True))

    def refuse(self, path: str, requirement: str, problem: str) -> UnusableDefinition:
        """Record why a part is unusable, and return the error that the caller raises."""
        self.blame(path, requirement, problem)
        return UnusableDefinition()

    def check_names(self, path: str, row: Row, keys: set[str]) -> None:
        unknown = [key for key in row if key not in keys]
        if unknown:
            names = ", ".join(map(shown, unknown[:SOME])) + (", …" if len(unknown) > SOME else "")
            self.blame(path, "definitions.field-attributes", f"unknown attributes: {names}")

    def versions(self, path: str, row: Row, key: str, rule: str, missing: VersionRange | None = None) -> VersionRange:
        given = row.get(key)
        if given is None and missing is not None:
            return missing
        if given == "none":
            return NONE
        match = _RANGE.match(given) if isinstance(given, str) else None
        if match is None:
            raise self.refuse(path, rule, f"{key} {shown(given)} is not a range of versions (0, 0-2, 0+ or none)")
        low = int(match[1])
        high = LAST if match[2] else int(match[3] or match[1])
        if max(low, high) > LAST:
            raise self.refuse(path, "definitions.version-16-bit", f"{key} {given!r}: versions end at {LAST}")
        if low > high:
            raise self.refuse(path, rule, f"{key} {given!r} ends before it starts")
        return VersionRange(low, high)

    def unquoted(self, path: str, rule: str, key: str, given: object) -> object:
        """Return a number. A number in quotes is recorded and read, as in Apache Kafka."""
        if isinstance(given, str) and _WHOLE.match(given):
            self.note(path, rule, f"{key} {given!r} is a string, not a number")
            return int(given)
        return given

    def name(self, path: str, row: object) -> str:
        name = row.get("name") if isinstance(row, dict) else None
        if not isinstance(name, str) or not NAME.match(name):
            raise self.refuse(
                path, "definitions.field-attributes", f"name {shown(name)} does not consist of letters and digits"
            )
        return name

    def objects(self, path: str, row: Row, key: str) -> list[Row]:
        objects = row.get(key, [])
        if not isinstance(objects, list) or not all(isinstance(entry, dict) for entry in objects):
            raise self.refuse(path, "definitions.field-attributes", f"{key} is not a list of objects")
        return objects

    def flag(self, path: str, row: Row, key: str) -> bool:
        value = row.get(key, False)
        if not isinstance(value, bool):
            self.blame(path, "definitions.field-attributes", f"{key} is {shown(value)}, expected true or false")
        return value is True
