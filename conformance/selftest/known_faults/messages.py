"""Faults of real software in whole messages."""

from __future__ import annotations

from collections.abc import Iterator

from conformance.cases.model import Value
from conformance.selftest.mutators import change_bytes, change_value, pad_varint, reject_valid
from conformance.selftest.seeded_fault import SeededFault

_THREADS = "https://github.com"
_FIRST_BUFFER = 1 << 16
_NEWEST_ERROR = 133
"""The highest error code in use."""
_ONE_BYTE = 127
"""The largest size of a tagged field that is a varint of one byte."""


def _fields(value: Value) -> Iterator[tuple[str, Value]]:
    """Return all fields of a value, nested ones included."""
    for entry in value if isinstance(value, list) else ():
        yield from _fields(entry)
    for name, entry in value.items() if isinstance(value, dict) else ():
        yield name, entry
        yield from _fields(entry)


def _has_long_tag(value: Value) -> bool:
    tags = [tag for name, entry in _fields(value) if name == "_unknownTaggedFields" for tag in entry or ()]
    return any(len(tag["data"]) > 2 * _ONE_BYTE for tag in tags)


def _has_new_error(value: Value) -> bool:
    return any(name == "ErrorCode" and entry > _NEWEST_ERROR for name, entry in _fields(value))


def _by_name(value: Value) -> Value:
    topics = value.get("Topics") if isinstance(value, dict) else None
    if not isinstance(topics, list) or not all(isinstance(topic, dict) and "Name" in topic for topic in topics):
        return value
    return {**value, "Topics": [*{topic["Name"]: topic for topic in topics}.values()]}


MESSAGES = (
    SeededFault(
        "message/longer-than-the-first-buffer",
        area="messages",
        description="a writer starts with a buffer of 64 KiB and cannot extend it",
        source="https://github.com/dpkp/kafka-python/pull/3103",
        mutate=reject_valid("MESSAGE", lambda _, answer: len(answer["hex"]) > 2 * _FIRST_BUFFER, op="encode"),
        try_first=("array.max-elements", "compact-array.layout", "records.layout"),
    ),
    SeededFault(
        "message/topics-by-name",
        area="messages",
        description="a reader stores topics by name and loses topics without a name",
        source=f"{_THREADS}/kafka-protocol-rs/kafka-protocol-rs/issues/84",
        mutate=change_value("MESSAGE", _by_name),
        try_first=("definitions.map-key-makes-set",),
    ),
    SeededFault(
        "message/long-unknown-tag",
        area="messages",
        description="a reader reads the size of an unknown tagged field from one byte",
        source=f"{_THREADS}/redpanda-data/redpanda/pull/30160",
        mutate=reject_valid("MESSAGE", lambda _, answer: _has_long_tag(answer["value"])),
        try_first=("tagged.unknown-skipped",),
    ),
    SeededFault(
        "message/pads-the-count-of-tags",
        area="messages",
        description="a writer writes the count of the last tagged fields in two bytes instead of one",
        source="uvarint.non-minimal",
        mutate=change_bytes("MESSAGE", pad_varint, lambda _, answer: answer["hex"].endswith("00")),
        try_first=("definitions.tagged-default-omitted",),
    ),
    SeededFault(
        "message/errors-of-its-day",
        area="messages",
        description="a reader rejects a response with an error code that is newer than the reader",
        source="int16.layout",
        mutate=reject_valid("MESSAGE", lambda _, answer: _has_new_error(answer["value"])),
        try_first=("int16.layout",),
    ),
)
