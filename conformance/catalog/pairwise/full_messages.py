"""The covering set of whole messages: every version of every message with all of its fields, its nulls, and all empty.

A field that a library has in a version too many or too few, or that it does not let be null in one of them, shows only
where nothing in front of it is empty or null. One that it takes for null where it is empty shows in a set of its own.
A client that is asked to write sets no fields that are a broker's: each request is there with its defaults, too.
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
"""Every field has a value of its own, and every array an element; all that may be null is; all of that but arrays; all
that is no name and no array is at its default, in requests; all texts, bytes and arrays are empty that can be, but for
arrays of structures."""
_HOLLOW: dict[str, Value] = {"string": "", "bytes": b"", "records": b""}
_ERRORS = (3, 6)
"""Errors that libraries know. An answer has none of its own: one to ApiVersions comes in version 0 if it has."""
_ONE = 0x3FF0_0000_0000_0000
"""The bits of a FLOAT64 of 1."""


def table() -> FactorTable:
    """Every version of every message, with the ways to fill it that differ."""
    constraints = []
    for name, message in messages().items():
        for version in message.valid:
            ways = _ways(message, version)
            why = f"that is another way to fill {name} {version}"
            constraints.append(Constraint(("message", f"{name} {version}"), {"fields": ways}, why))
    return FactorTable({"message": tuple(one.when[1] for one in constraints), "fields": _FIELDS}, constraints)


def asked(row: Row, number: int) -> Iterator[RowRequest]:
    """The message of a row is decoded and encoded."""
    del number
    name, _, version = row["message"].partition(" ")
    value = _FullMessageBuilder(messages()[name], int(version), row["fields"]).structure(name)
    yield from both_ways(type_name(name, int(version)), value)


def _ways(message: MessageSpec, version: int) -> tuple[str, ...]:
    """How the fields of a version can be filled, each way with other values."""
    values: dict[str, Value] = {}
    for way in _FIELDS:
        if way == _DEFAULT and not message.name.endswith("Request"):
            continue
        value = _FullMessageBuilder(message, version, way).structure(message.name)
        if value not in values.values():
            values[way] = value
    return tuple(values)


class _FullMessageBuilder:
    """A value of a message in a version; the numbers in it are all different."""

    def __init__(self, message: MessageSpec, version: int, fields: str) -> None:
        self._message, self._version, self._fields = message, version, fields
        self._numbers = count(1)

    def structure(self, name: str) -> dict[str, Value]:
        """A value of a structure."""
        members = [member for member in self._message.structures[name] if self._version in member.versions]
        return {member.name: self._member(member) for member in members}

    def _member(self, member: FieldSpec) -> Value:
        is_null = self._fields == _NULL or (self._fields == _NULL_INSIDE and not member.is_array)
        if is_null and may_be_null(member, self._version):
            return None
        if self._fields == _EMPTY and member.type not in self._message.structures:
            if member.is_array:
                return ()
            if member.type in _HOLLOW:
                return _HOLLOW[member.type]
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
                return _ONE + number
            case name if name in self._message.structures:
                return self.structure(name)
        if "ErrorCode" in member.name:
            return 0 if member in self._message.members else _ERRORS[number % len(_ERRORS)]
        return START_MS + number if "Time" in member.name and member.type == "int64" else number
