"""One fault for each requirement on message sets and messages with magic 0 and 1."""

from __future__ import annotations

from zlib import crc32

from conformance.cases.model import Answer, Request
from conformance.codec.derived_fields import Values
from conformance.selftest.mutators import (
    ONE_MORE,
    WHOLE_SECONDS,
    Condition,
    Mutator,
    accept_invalid,
    change_bytes,
    change_value,
    crash_on,
    field_change,
    null_to,
    number,
    put,
    reject_valid,
)
from conformance.selftest.mutators.batches import message_field
from conformance.selftest.mutators.logs import change_records


def _first_message(*, magic: int | None = None, codec: int | None = None) -> Condition:
    """Return a condition on the magic and the codec of the first message of a set."""

    def when(request: Request, _: Answer) -> bool:
        data = bytes.fromhex(request["hex"])
        return len(data) > 17 and magic in (None, data[16]) and codec in (None, data[17] & 7)

    return when


def _is_wrapper(request: Request, _: Answer) -> bool:
    return len(request["hex"]) > 34 and int(request["hex"][34:36], 16) & 7 != 0


def _count_offsets_from_zero(messages: list[Values]) -> list[Values]:
    return [{**one, "offset": str(at)} for at, one in enumerate(messages)]


def _set_unused_bit(data: bytes) -> bytes:
    message = put(1, bytes([data[17] | 0x10]))(data[16:])
    return data[:12] + crc32(message).to_bytes(4) + message


MESSAGE_SETS: dict[str, Mutator] = {
    "message-set.entry-layout": message_field("offset", number(lambda offset: offset & 0x7FFF)),
    "message-set.no-count": change_value("MESSAGE_SET", lambda messages: messages[:1]),
    "message-set.size-mismatch-rejected": accept_invalid("message-set.size-mismatch-rejected"),
    "legacy.v0-layout": reject_valid("MESSAGE_SET", _first_message(magic=0)),
    "legacy.v0-features": change_records(lambda records: [{**one, "timestampType": "CreateTime"} for one in records]),
    "legacy.v1-layout": reject_valid("MESSAGE_SET", _first_message(magic=1)),
    "legacy.v1-features": message_field("timestamp", lambda _: "-1"),
    "legacy.v0-attributes": reject_valid("MESSAGE_SET", _first_message(magic=0, codec=2)),
    "legacy.v1-attributes": reject_valid("MESSAGE_SET", _first_message(magic=1, codec=3)),
    "legacy.producer-timestamp-type-zero": change_bytes("MESSAGE_SET", put(17, b"\x08")),
    "legacy.log-append-overwrites": message_field("timestampType", lambda _: "CreateTime"),
    "legacy.attributes-high-bits-zero": change_bytes("MESSAGE_SET", _set_unused_bit),
    "recursive.wrapper-holds-set": reject_valid("MESSAGE_SET", _is_wrapper),
    "recursive.wrapper-key-null": change_value("MESSAGE_SET", field_change("", "key", lambda _: "00"), _is_wrapper),
    "recursive.wrapper-offset-is-last": message_field("offset", ONE_MORE),
    "recursive.v0-inner-absolute": change_value("MESSAGE_SET", _count_offsets_from_zero, _first_message(magic=0)),
    "message-set.v1-relative-offsets": change_value("MESSAGE_SET", _count_offsets_from_zero, _first_message(magic=1)),
    "legacy.crc32-not-crc32c": accept_invalid("legacy.crc-checked", "legacy.wrapper-crc-checked"),
    "legacy.uncompressed-offsets-free": reject_valid("MESSAGE_SET"),
    "legacy.compressed-inner-offsets-from-zero": message_field("offset", ONE_MORE),
    "legacy.crc-checked": accept_invalid("legacy.crc-checked"),
    "legacy.wrapper-crc-checked": accept_invalid("legacy.crc-checked", "legacy.wrapper-crc-checked"),
    "legacy.timestamp-milliseconds": message_field("timestamp", WHOLE_SECONDS),
    "legacy.key-nullable": message_field("key", null_to("")),
    "legacy.value-nullable": message_field("value", null_to("")),
    "recursive.batch-of-one": reject_valid("MESSAGE_SET", _is_wrapper),
    "recursive.single-wrapper": change_value(
        "MESSAGE_SET", lambda messages: messages[: len(messages) // 2], _is_wrapper
    ),
    "robustness.inner-message": crash_on("MESSAGE_SET"),
    "robustness.message-size-v1": accept_invalid("robustness.message-size-v1"),
    "robustness.message-key-length": accept_invalid("robustness.message-key-length"),
    "reader.lz4-in-magic-0": reject_valid("MESSAGE_SET", _first_message(magic=0, codec=3)),
    "reader.lz4-in-magic-0-any-header-checksum": reject_valid("MESSAGE_SET", _first_message(magic=0, codec=3)),
}
