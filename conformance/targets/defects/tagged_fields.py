"""Defects met in the field in tagged fields."""

from __future__ import annotations

from functools import partial

from conformance.cases.model import Answer, Request, Value
from conformance.codec.cursor import Cursor
from conformance.targets.defects.bending import Function, encoding, wrong
from conformance.targets.defects.model import SeededDefect
from conformance.targets.defects.varints import groups, unsigned_of
from conformance.targets.violations.families import entry, refuses, shows

_THREADS = "https://github.com"


def _size_plus_one(right: Function) -> Function:
    """The size of a tagged field as that of a compact type, one too high."""
    del right

    def read(cursor: Cursor, before: list[Value], known: Value) -> Value:
        del before
        number = _unsigned_at(cursor)
        size = _unsigned_at(cursor) - 1
        data = cursor.data[cursor.pos : cursor.pos + max(size, 0)]
        cursor.pos += size
        value = {"value": known[number](cursor, cursor.pos - size)} if number in known else {}
        return {"tag": number, "data": data, **value}

    return read


def _unsigned_at(cursor: Cursor) -> int:
    """A varint at a cursor; one that is not there ends the reader."""
    out = unsigned_of(cursor.data[cursor.pos : cursor.end])
    if out is None:
        raise IndexError
    cursor.pos += out[1]
    return out[0]


def _signed_size(request: Request, answer: Answer) -> Answer:
    """Die of a size that is negative as a signed number."""
    if request["op"] != "decode" or request["type"] not in ("TAGGED_FIELDS", "MESSAGE"):
        return answer
    told = str(answer.get("message", ""))
    return {"crash": "NegativeArraySizeException"} if told.startswith("robustness.tagged-field-size") else answer


def _in_given_order(value: Value) -> bytes | None:
    """Write tagged fields as they come."""
    fields = [(int(one["tag"]), bytes.fromhex(one["data"])) for one in value]
    return groups(len(fields)) + b"".join(groups(tag) + groups(len(data)) + data for tag, data in fields)


def _forgets_a_byte_of_sizes(request: Request, answer: Answer) -> Answer:
    """Count one byte for the size of every tagged field."""
    if request["op"] != "size" or request["type"] != "TAGGED_FIELDS" or not answer.get("ok"):
        return answer
    long = sum(len(one["data"]) // 2 > 0x7F for one in request["value"])
    return {**answer, "size": answer["size"] - long}


_one = partial(SeededDefect, area="primitives")

TAGGED_FIELDS = (
    _one(
        "field/tagged-size-plus-one",
        says="a reader takes the size of a tagged field as length plus one",
        source=f"{_THREADS}/confluentinc/librdkafka/issues/4278",
        bend=wrong("codec.primitives._read_tag", _size_plus_one, "decode"),
        first=("tagged.field-layout",),
    ),
    _one(
        "field/tagged-size-of-size",
        says="a size leaves out the second byte of a tagged field's own size",
        source=f"{_THREADS}/apache/kafka/pull/11308",
        bend=_forgets_a_byte_of_sizes,
    ),
    _one(
        "field/tagged-size-signed",
        says="a reader with signed numbers allocates a negative number of bytes for a tagged field",
        source=f"{_THREADS}/apache/kafka/pull/13100",
        bend=_signed_size,
        first=("robustness.tagged-field-size",),
    ),
    _one(
        "field/tagged-refused",
        says="a reader refuses every tagged field that it does not know",
        source=f"{_THREADS}/IBM/sarama/issues/2107",
        bend=refuses("TAGGED_FIELDS", lambda _, answer: bool(answer["value"])),
    ),
    _one(
        "field/tagged-far-refused",
        says="a reader refuses tags above 1000",
        source=f"{_THREADS}/IBM/sarama/issues/2107",
        bend=refuses("TAGGED_FIELDS", lambda _, answer: any(one["tag"] > 1000 for one in answer["value"])),
    ),
    _one(
        "field/tagged-in-given-order",
        says="a writer does not look at the tags, and writes the fields in the order given",
        source=f"{_THREADS}/dpkp/kafka-python/issues/2725",
        bend=encoding("TAGGED_FIELDS", _in_given_order),
        first=("tagged.strictly-ascending", "tagged.duplicate-rejected"),
    ),
    _one(
        "meets/empty-data-after-full-data",
        says="a reader shows the data of the field before for a tagged field without data",
        source="tagged.field-layout",
        bend=shows(
            "TAGGED_FIELDS",
            lambda fields: [
                {**one, "data": one["data"] or (fields[at - 1]["data"] if at else "")} for at, one in enumerate(fields)
            ],
        ),
    ),
    _one(
        "meets/tagged-data-of-128-bytes-cut",
        says="a reader takes one byte for the size of a tagged field, and loses data of 128 bytes or more",
        source="tagged.field-layout",
        bend=shows("TAGGED_FIELDS", entry("", "data", lambda digits: digits[: 2 * (len(digits) // 2 % 128)])),
    ),
)
"""Defects of tagged fields."""
