"""The covering set of whole messages: every version of every message with all fields, with nulls, and empty.

A library may read a field in a wrong version, or may not accept its null. This shows only if no earlier field is empty
or null. A separate row shows a library that reads an empty field as null. A client that writes requests does not set
the broker's fields, so each request also has a row with defaults.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

from conformance.cases.model import Value
from conformance.catalog.pairwise import entries
from conformance.catalog.pairwise.algorithm import Constraint, FactorTable, Row, RowRequest
from conformance.catalog.pairwise.messages import both_ways, may_be_null, messages
from conformance.codec.builders import START_MS, batch_bytes
from conformance.codec.message_spec import FieldSpec, MessageSpec, default_of, type_name

_FILLED, _NULL, _NULL_INSIDE, _DEFAULT = "filled", "null", "null but for arrays", "default but for arrays"
_EMPTY = "empty but for structures"
_FIELDS = (_FILLED, _NULL, _NULL_INSIDE, _DEFAULT, _EMPTY)
"""Filled: every field has its own value, and every array an element. Null: all nullable fields are null, or all but
arrays. Default, for requests: all fields but names and arrays have their defaults. Empty: strings, bytes and arrays are
empty, but for arrays of structures."""
_EMPTY_VALUES: dict[str, Value] = {"string": "", "bytes": b"", "records": b""}
_ERRORS = (3, 6)
"""Error codes that libraries know. The top level has none: an ApiVersions response with an error has version 0."""
_FLOAT64_ONE = 0x3FF0_0000_0000_0000
"""The bits of a FLOAT64 of 1."""


def table() -> FactorTable:
    """Return the factors: every version of every message, and the different ways to fill it."""
    constraints = []
    for name, message in messages().items():
        for version in message.valid:
            ways = _ways(message, version)
            why = f"that is another way to fill {name} {version}"
            constraints.append(Constraint(("message", f"{name} {version}"), {"fields": ways}, why))
    return FactorTable({"message": tuple(one.when[1] for one in constraints), "fields": _FIELDS}, constraints)


def requests(row: Row, number: int) -> Iterator[RowRequest]:
    """Yield requests to decode and to encode the message of a row."""
    del number
    name, _, version = row["message"].partition(" ")
    value = _FullMessageBuilder(messages()[name], int(version), row["fields"]).structure(name)
    yield from both_ways(type_name(name, int(version)), value)


def _ways(message: MessageSpec, version: int) -> tuple[str, ...]:
    """Return the ways to fill the fields of a version that give different values."""
    values: dict[str, Value] = {}
    for way in _FIELDS:
        if way == _DEFAULT and not message.name.endswith("Request"):
            continue
        value = _FullMessageBuilder(message, version, way).structure(message.name)
        if value not in values.values():
            values[way] = value
    return tuple(values)


class _FullMessageBuilder:
    """Makes a value of a message in a version; the numbers in it are all different."""

    def __init__(self, message: MessageSpec, version: int, fields: str) -> None:
        self._message, self._version, self._fields = message, version, fields
        self._numbers = count(1)

    def structure(self, name: str) -> dict[str, Value]:
        """Return a value of a structure."""
        members = [member for member in self._message.structures[name] if self._version in member.versions]
        return {member.name: self._member(member) for member in members}

    def _member(self, member: FieldSpec) -> Value:
        is_null = self._fields == _NULL or (self._fields == _NULL_INSIDE and not member.is_array)
        if is_null and may_be_null(member, self._version):
            return None
        if self._fields == _EMPTY and member.type not in self._message.structures:
            if member.is_array:
                return ()
            if member.type in _EMPTY_VALUES:
                return _EMPTY_VALUES[member.type]
        if member.is_array:
            return (self._one(member),)
        is_name = member.type == "string" or (member.type == "uuid" and self._version not in member.tagged)
        if self._fields == _DEFAULT and not (is_name and self._version not in member.nullable):
            return default_of(self._message, member)
        return self._one(member)

    def _one(self, member: FieldSpec) -> Value:
        number = next(self._numbers)
        match member.type:
            case "bool":
                return True
            case "string":
                return member.name
            case "bytes":
                return member.name.encode()
            case "records":
                return batch_bytes(entries.batch(0, [{}]))
            case "uuid":
                return bytes([number] * 16)
            case "float64":
                return _FLOAT64_ONE + number
            case name if name in self._message.structures:
                return self.structure(name)
        if "ErrorCode" in member.name:
            return 0 if member in self._message.members else _ERRORS[number % len(_ERRORS)]
        return START_MS + number if "Time" in member.name and member.type == "int64" else number
