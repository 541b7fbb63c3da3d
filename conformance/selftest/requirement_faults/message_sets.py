"""Violations of the requirements on message sets and the messages of magic 0 and 1."""

from __future__ import annotations

from zlib import crc32

from conformance.cases.model import Answer, Request, Value
from conformance.codec.derived_fields import Values
from conformance.selftest.mutators import Mutator
from conformance.selftest.requirement_mutators import (
    ONE_MORE,
    accept_invalid,
    change_bytes,
    change_records,
    change_value,
    crash_on,
    entry,
    message,
    null_as,
    number,
    reject_valid,
)

_SETS = "MESSAGE_SET LOG"


def _of(magic: int) -> Value:
    """Whether the first message of a set has this magic."""
    return lambda request, _: bytes.fromhex(request["hex"])[16:17] == bytes([magic])


def _coded(codec: int, magic: int | None = None) -> Value:
    """Whether the first message of a set has this codec."""

    def when(request: Request, _: Answer) -> bool:
        data = bytes.fromhex(request["hex"])
        return len(data) > 17 and data[17] & 7 == codec and magic in (None, data[16])

    return when


def _wrapped(request: Request, _: Answer) -> bool:
    data = bytes.fromhex(request["hex"])
    return len(data) > 17 and data[17] & 7 != 0


def _at(position: int, value: bytes) -> Value:
    return lambda data: data[:position] + value + data[position + len(value) :]


def _counted(messages: list[Values]) -> list[Values]:
    """Offsets counted from 0."""
    return [{**one, "offset": str(at)} for at, one in enumerate(messages)]


def _unused_bits(data: bytes) -> bytes:
    """A message with a bit set that means nothing, and the checksum that belongs to it."""
    message = data[16:17] + bytes([data[17] | 0x10]) + data[18:]
    return data[:12] + crc32(message).to_bytes(4) + message


MESSAGE_SETS: dict[str, Mutator] = {
    "message-set.entry-layout": message("offset", number(lambda offset: offset & 0x7FFF)),
    "message-set.no-count": change_value("MESSAGE_SET", lambda messages: messages[:1]),
    "message-set.size-mismatch-rejected": accept_invalid("message-set.size-mismatch-rejected"),
    "legacy.v0-layout": reject_valid("MESSAGE_SET", _of(0)),
    "legacy.v0-features": change_records(lambda records: [{**one, "timestampType": "CreateTime"} for one in records]),
    "legacy.v1-layout": reject_valid("MESSAGE_SET", _of(1)),
    "legacy.v1-features": message("timestamp", lambda _: "-1"),
    "legacy.v0-attributes": reject_valid("MESSAGE_SET", _coded(2, 0)),
    "legacy.v1-attributes": reject_valid("MESSAGE_SET", _coded(3, 1)),
    "legacy.producer-timestamp-type-zero": change_bytes("MESSAGE_SET", _at(17, b"\x08")),
    "legacy.log-append-overwrites": message("timestampType", lambda _: "CreateTime"),
    "legacy.attributes-high-bits-zero": change_bytes("MESSAGE_SET", _unused_bits),
    "recursive.wrapper-holds-set": reject_valid("MESSAGE_SET", _wrapped),
    "recursive.wrapper-key-null": change_value("MESSAGE_SET", entry("", "key", lambda _: "00"), _wrapped),
    "recursive.wrapper-offset-is-last": message("offset", ONE_MORE),
    "recursive.v0-inner-absolute": change_value("MESSAGE_SET", _counted, _of(0)),
    "message-set.v1-relative-offsets": change_value("MESSAGE_SET", _counted, _of(1)),
    "legacy.crc32-not-crc32c": accept_invalid("legacy.crc-checked", "legacy.wrapper-crc-checked"),
    "legacy.uncompressed-offsets-free": reject_valid("MESSAGE_SET"),
    "legacy.compressed-inner-offsets-from-zero": message("offset", ONE_MORE),
    "legacy.crc-checked": accept_invalid("legacy.crc-checked"),
    "legacy.wrapper-crc-checked": accept_invalid("legacy.crc-checked", "legacy.wrapper-crc-checked"),
    "legacy.timestamp-milliseconds": message("timestamp", number(lambda time: time // 1000 * 1000)),
    "legacy.key-nullable": message("key", null_as("")),
    "legacy.value-nullable": message("value", null_as("")),
    "recursive.batch-of-one": reject_valid("MESSAGE_SET", _wrapped),
    "recursive.single-wrapper": change_value("MESSAGE_SET", lambda messages: messages[: len(messages) // 2], _wrapped),
    "robustness.inner-message": crash_on("MESSAGE_SET"),
    "robustness.message-size-v1": accept_invalid("robustness.message-size-v1"),
    "robustness.message-key-length": accept_invalid("robustness.message-key-length"),
    "reader.lz4-in-magic-0": reject_valid("MESSAGE_SET", _coded(3, 0)),
    "reader.lz4-in-magic-0-any-header-checksum": reject_valid("MESSAGE_SET", _coded(3, 0)),
}
