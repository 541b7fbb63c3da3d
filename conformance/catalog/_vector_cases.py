"""Turns vectors into cases: the request for a target, and the expected result."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace

from msgspec import Struct

from conformance import codec
from conformance.cases.attribution import WRITING_OPS, broker_requirement, writer_requirement
from conformance.cases.encode import encode_question, expected_rejection
from conformance.cases.log_requests import delivery_as_stated, is_checksum_case, or_rejection, read_expectation
from conformance.cases.model import (
    ERRORS,
    Case,
    ExpectAnyOf,
    Expectation,
    ExpectBytes,
    ExpectConsumerView,
    ExpectRejection,
    ExpectSize,
    ExpectValue,
    NotTestable,
    Op,
    Request,
    Value,
)
from conformance.cases.operations import request_of
from conformance.cases.reference_answers import NOT_ENCODED
from conformance.cases.requirement import Requirement
from conformance.catalog._log_vector_cases import of_every_version, question_of
from conformance.catalog.case_builder import is_resource_requirement, measured_size
from conformance.catalog.vector_files import Vector
from conformance.codec.compare import parse_known
from conformance.codec.json_notation import UNSHOWN, ListOf, NotationError, ObjectOf
from conformance.codec.legacy_message import LAYOUTS
from conformance.codec.log import STRUCTURED
from conformance.codec.message_layout import with_absent

READABLE = ("RECORD_BATCH", "MESSAGE_SET", "LOG")
"""The types whose bytes are a log for `read`."""

_BATCHES = 2
"""The magic of record batches."""


# --- cases --------------------------------------------------------------------------------------------


def make_cases(vector: Vector, requirements: dict[str, Requirement], origin: str = "") -> Iterator[Case]:
    """Yield the cases of a vector: decode, and encode and size if possible. Raises FileError."""
    row = vector.row
    if row["requirement"] not in requirements:
        raise vector.error(f"there is no requirement {row['requirement']!r}")
    builder = _VectorCaseBuilder(vector, requirements, origin)
    if "body" in row:
        for one in of_every_version(vector):
            yield from make_cases(one, requirements, origin)
        return
    if "op" in row:
        yield builder.log_case()
        return
    if vector.data is None:
        yield builder.rejected_value()
    elif "value" in row:
        yield from builder.value_cases()
    elif "reject" in row:
        yield builder.decode(ExpectRejection(*_error_class(vector)), ())
    elif "either" not in row:
        yield from builder.long_value()
    else:
        yield builder.decode(ExpectAnyOf(tuple(_readings(vector))), ())
    if vector.type in READABLE and vector.data is not None:
        yield from builder.log_cases(list(codec.entries(vector.data)))


def _error_class(vector: Vector) -> tuple[str | None, str]:
    """Return the error class to judge, if any, and the stated one. The documents define only `corrupt`, for CRCs."""
    error = vector.row["reject"]
    if error not in ERRORS:
        raise vector.error(f"reject: expected one of {', '.join(ERRORS)}, found {error!r}")
    if error != "corrupt" or vector.data is None:
        return None, error
    read = codec.decode(vector.wire, vector.data)
    return ("corrupt" if len(read.violations) == 1 else None), error


def _readings(vector: Vector) -> Iterator[ExpectValue | ExpectRejection]:
    given = vector.row["either"]
    if given == "any":
        return
    if not isinstance(given, list) or not given:
        raise vector.error("either: expected `any` or a list of results")
    for reading in given:
        if reading == "reject":
            yield ExpectRejection()
        elif isinstance(reading, dict) and set(reading) <= {"value", "consumed"} and reading:
            value = _parse(vector, reading["value"]) if "value" in reading else UNSHOWN
            yield ExpectValue(value, reading.get("consumed"))
        else:
            raise vector.error(f"either: expected `reject` or {{value, consumed}}, found {reading!r:.60}")


def _parse(vector: Vector, given: object) -> Value:
    try:
        return parse_known(vector.wire.notation, given, vector.type)
    except NotationError as error:
        raise vector.error(f"value: {error}") from None


class _VectorCaseBuilder(Struct, frozen=True):
    """Makes the cases of one vector."""

    vector: Vector
    requirements: dict[str, Requirement]
    origin: str

    def value_cases(self) -> Iterator[Case]:
        """Yield decode, encode and size for a vector with a value and bytes."""
        vector, data = self.vector, self.vector.data
        assert data is not None
        consumed = vector.row.get("consumed", len(data))
        if type(consumed) is not int or not 0 <= consumed <= len(data):
            raise vector.error(f"consumed: expected a number from 0 to {len(data)}, found {consumed!r:.40}")
        stated, value = self._values(data)
        yield self.decode(ExpectValue(value, consumed), self._checked_fields(stated))
        if vector.row.get("canonical", True) and "consumed" not in vector.row:
            # An omitted field of a message has its default, so the encoder gets only the fields that the vector states.
            yield from self._encode_cases(stated if vector.type.startswith("MESSAGE<") else value, data)

    def long_value(self) -> Iterator[Case]:
        """Yield the cases of bytes with a value too long to write: it is read by the reference.

        Encode and size are added if the vector has `canonical: true`.
        """
        assert self.vector.data is not None
        read = codec.decode(self.vector.wire, self.vector.data)
        if read.consumed != self.vector.row["consumed"]:
            raise self.vector.error(f"consumed: expected {read.consumed}, the bytes of the value")
        yield self.decode(ExpectValue(read.value, read.consumed), ())
        if self.vector.row.get("canonical", False):
            yield from self._encode_cases(read.value, self.vector.data)

    def decode(self, expect: Expectation, checked: tuple[str, ...]) -> Case:
        """Return the decode case."""
        data = self.vector.data
        assert data is not None
        return self._case("decode", {"hex": data.hex()}, expect, checked)

    def log_case(self) -> Case:
        """Return the case of a whole-log vector."""
        try:
            request, expect = question_of(self.vector.row, self.vector.data)
        except NotationError as error:
            raise self.vector.error(str(error)) from None
        return _lenient(self._case(self.vector.row["op"], request, expect, ()))

    def log_cases(self, entries: list[codec.LogEntry]) -> Iterator[Case]:
        """Yield cases with the same bytes in a fetch; a batch or message set is also sent to a broker."""
        yield self._read(entries)
        is_batch = self.vector.type == "RECORD_BATCH" and self.vector.magics <= {_BATCHES}
        is_set = self.vector.type == "MESSAGE_SET" and self.vector.magics and self.vector.magics <= LAYOUTS.keys()
        if is_batch or is_set:
            yield self._append(entries)

    def _read(self, entries: list[codec.LogEntry]) -> Case:
        """Return a `read` case from the first offset, with the records that an application gets."""
        data, row = self.vector.data, self.vector.row
        assert data is not None
        request, expect = read_expectation(data, entries)
        if "either" in row:
            values = [reading.value for reading in _readings(self.vector) if isinstance(reading, ExpectValue)]
            if len(values) != 1:
                expect = ExpectAnyOf()
            elif isinstance(expect, ExpectConsumerView):
                expect = or_rejection(expect)
            elif len(entries) == 1 and self.vector.type != "LOG":
                expect = delivery_as_stated(data, values[0], row["requirement"], int(request["fetchOffset"]))
        return _lenient(self._case("read", request, expect, (), suffix=":read"))

    def _append(self, entries: list[codec.LogEntry]) -> Case:
        """Return an `append` case, with the records that a broker stores."""
        from conformance.cases.append import MESSAGES_LAST, batch_question

        assert self.vector.data is not None
        chosen = {"produceVersion": MESSAGES_LAST} if self.vector.type == "MESSAGE_SET" else {}
        parts, expect = batch_question(self.vector.data, entries, chosen)
        expect = ExpectAnyOf() if "either" in self.vector.row else expect
        return broker_requirement(self._case("append", parts, expect, (), suffix=":append"), self.requirements)

    def rejected_value(self) -> Case:
        """Return an encode case for a value without encoding."""
        value = self.vector.row.get("value")
        if self.vector.row.get("reject") != "invalid-value":
            raise self.vector.error("reject: expected invalid-value for a value without hex")
        parameters = {name: self.vector.row[name] for name in ("magic", "compression") if name in self.vector.row}
        expect: Expectation = ExpectRejection(None, "invalid-value")
        with suppress(NotationError):
            expect = expected_rejection(self.vector.wire, self.vector.wire.notation.parse(value))
        return self._case("encode", {**parameters, "value": value}, expect, ())

    def _encode_cases(self, value: Value, data: bytes) -> Iterator[Case]:
        vector = self.vector
        if vector.type in NOT_ENCODED:
            return
        try:
            parts, expect = encode_question(vector.wire, value, data)
        except NotTestable as error:
            if vector.type in READABLE:
                return
            raise vector.error(f"{error}: use `canonical: false`") from None
        yield self._case("encode", parts, expect, (), suffix=":encode")
        if isinstance(expect, ExpectBytes) or vector.type not in READABLE:
            yield self._case("size", parts, ExpectSize(len(data)), (), suffix=":size")

    def _definition(self) -> Request:
        """Return the definition that the request of a message contains."""
        return {"definition": self.vector.definition} if self.vector.definition else {}

    def _values(self, data: bytes) -> tuple[Value, Value]:
        """Return the stated value and the whole one. The reference adds the fields that a vector may omit."""
        is_part = is_structured(self.vector.type)
        stated = _parse(self.vector, self.vector.row["value"])
        if not is_part:
            return stated, stated
        read = codec.decode(self.vector.wire, data)
        if not read.ok:
            raise self.vector.error(f"hex: the reference rejects these bytes: {read.violations[0]}")
        path = next(self.vector.wire.notation.mismatches(stated, read.value), None)
        if path:
            raise self.vector.error(f"value: it differs from the bytes at {path}")
        if not isinstance(read.value, dict):
            return stated, read.value
        return stated, {**self._absent(stated, read.value), **read.value}

    def _absent(self, stated: Value, read: Value) -> Value:
        """Return the checked fields that the version does not have: the object of a reader contains their defaults."""
        wire = self.vector.wire
        if not isinstance(wire, codec.MessageType):
            return {}
        whole = with_absent(wire.message, wire.message.name, read) or {}
        checked = self.vector.row.get("checked-fields", ())
        absent = {name: whole[name] for name in checked if name in stated and name in whole and name not in read}
        path = next(wire.notation.mismatches(stated, absent), None)
        if path:
            raise self.vector.error(
                f"value: {path}: expected the default, because the version does not have this field"
            )
        return absent

    def _checked_fields(self, stated: Value) -> tuple[str, ...]:
        row = self.vector.row
        if "checked-fields" in row:
            if not isinstance(row["checked-fields"], list) or not all(
                isinstance(path, str) for path in row["checked-fields"]
            ):
                raise self.vector.error("checked-fields: expected a list of paths")
            return tuple(row["checked-fields"])
        if "consumed" in row:
            return ("consumed",)
        if not is_structured(self.vector.type):
            return ()
        return tuple(dict.fromkeys(_leaves(self.vector.wire.notation, stated)))

    def _case(self, op: Op, parts: Request, expect: Expectation, checked: tuple[str, ...], *, suffix: str = "") -> Case:
        vector, row = self.vector, self.vector.row
        rule, known = row["requirement"], self.requirements
        requirement = writer_requirement(rule, vector.wire, known) if op in WRITING_OPS else known[rule]
        return Case(
            id=vector.id + suffix,
            op=op,
            wire=vector.wire,
            requirement=requirement.id,
            level=requirement.level,
            request=request_of(op, vector.wire, {**self._definition(), **parts}),
            expect=expect,
            data=vector.data,
            checked_fields=checked,
            disputed=requirement.disputed(op),
            codecs=vector.codecs,
            magics=vector.magics,
            origin=self.origin,
            measured_bytes=self._measured_bytes(requirement.id, expect) if op in ("decode", "read") else 0,
            **{name.replace("-", "_"): row.get(name, "") for name in ("note", "source", "since", "found-in")},
        )

    def _measured_bytes(self, requirement: str, expect: Expectation) -> int:
        """Return the bytes that limit memory and time; 0 for valid bytes."""
        data = self.vector.data
        is_sound = isinstance(expect, ExpectValue) or (
            isinstance(expect, ExpectConsumerView) and expect.view.damage is None
        )
        if data is None or (is_sound and not is_resource_requirement(requirement)):
            return 0
        return measured_size(requirement, data, codec.decode(self.vector.wire, data))


def _lenient(case: Case) -> Case:
    """Return the case, at level should if only a checksum is wrong (docs/concepts.md#how-a-case-is-judged)."""
    return replace(case, level="should") if is_checksum_case(case.expect) and case.level == "must" else case


def is_structured(name: str) -> bool:
    """Return whether the vectors of a type state only the fields under test."""
    return name in STRUCTURED or name.startswith("MESSAGE<")


def _leaves(notation: object, stated: Value, path: str = "") -> Iterator[str]:
    if isinstance(notation, ObjectOf) and stated is not None:
        for name, entry in stated.items():
            yield from _leaves(notation.fields[name], entry, f"{path}.{name}" if path else name)
    elif isinstance(notation, ListOf) and isinstance(notation.element, ObjectOf) and any(stated or ()):
        for entry in stated:
            yield from _leaves(notation.element, entry, path)
    else:
        yield path
