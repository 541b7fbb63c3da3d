"""One fault for each requirement on whole logs (fetches, sequences, format conversion) and on message sets."""

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
    answer_as,
    change_bytes,
    change_value,
    crash_on,
    field_change,
    null_to,
    number,
    on,
    put,
    reject_valid,
    violated_rule,
)
from conformance.selftest.mutators.batches import message_field
from conformance.selftest.mutators.logs import (
    Log,
    by_offset,
    change_fetch,
    change_records,
    change_sequence_results,
    consumed_record,
    entries_of,
)
from conformance.targets.reference import answer as correct_answer


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


def _has_messages(request: Request, _: Answer) -> bool:
    return any("messages" in entry for entry in entries_of(request["hex"]))


def _reject_markers(_: Request, __: Values, log: Log) -> Values | None:
    return None if any(entry.get("isControlBatch") for entry in log) else {}


def _show_markers(request: Request, seen: Values, log: Log) -> Values:
    """Return control records with the others."""
    markers = [
        consumed_record(record)
        for batch in log
        if batch.get("isControlBatch")
        for record in batch["records"]
        if int(record["offset"]) >= int(request["fetchOffset"])
    ]
    return {"records": by_offset([*seen["records"], *markers])}


def _continue_after_last_record(request: Request, seen: Values, _: Log) -> Values:
    last = int(seen["records"][-1]["offset"]) + 1 if seen["records"] else request["fetchOffset"]
    return {"nextOffset": str(last)}


def _offsets_from_zero(records: list[Values]) -> list[Values]:
    first = int(records[0]["offset"]) if records else 0
    return [{**record, "offset": str(int(record["offset"]) - first)} for record in records]


def _replace_result(given: str, other: str) -> Mutator:
    return change_sequence_results(lambda _, results: [other if one == given else one for one in results])


def _reject_later_sequences(batches: list[Values], results: list[str]) -> list[str]:
    """Reject each accepted batch whose baseSequence is above 0."""
    return [
        "out-of-order" if batch["baseSequence"] > 0 and result == "accept" else result
        for batch, result in zip(batches, results, strict=True)
    ]


def _reject_wrapped_sequences(batches: list[Values], results: list[str]) -> list[str]:
    """Reject low sequences after high ones."""
    was_high = False
    changed = []
    for batch, result in zip(batches, results, strict=True):
        is_low = batch["baseSequence"] < 1 << 30
        changed.append("out-of-order" if was_high and is_low and result == "accept" else result)
        was_high = was_high or not is_low
    return changed


@on("read", when=lambda request, _: not request.get("checkCrcs", True), accepted=None)
def _crash_on_wrong_length(request: Request, answer: Answer) -> Answer:
    decoded = correct_answer({"op": "decode", "type": "LOG", "hex": request["hex"]})
    is_wrong = decoded["ok"] is False and violated_rule(decoded) == "batch.length-wrong-rejected"
    return {"crash": "IndexError"} if is_wrong else answer


@on("convert")
def _convert_first_entry(_: Request, answer: Answer) -> Answer:
    return {**answer, "hex": answer["hex"][: 24 + 2 * int(answer["hex"][16:24] or "0", 16)]}


_convert_nothing = on("convert")(lambda request, answer: {**answer, "hex": request["hex"]})

LOGS: dict[str, Mutator] = {
    "format.legacy-still-met": reject_valid("LOG", _has_messages),
    "log.cut-last-batch": reject_valid("LOG", lambda _, answer: bool(answer["value"]["partial"] > 0)),
    "format.magic-versions": accept_invalid("batch.magic", "format.magic-versions", "batch.length-wrong-rejected"),
    "offset.next-formula": change_fetch(lambda _, seen, __: {"nextOffset": str(int(seen["nextOffset"]) + 1)}),
    "offset.fetch-absolute": change_records(_offsets_from_zero),
    "crc.consumer-validates": answer_as("read", lambda _: {"checkCrcs": False}),
    "robustness.batch-length-unchecked": _crash_on_wrong_length,
    "consumer.filters-aborted": answer_as("read", lambda _: {"isolation": "read_uncommitted"}),
    "consumer.shows-aborted-uncommitted": answer_as("read", lambda _: {"isolation": "read_committed"}),
    "consumer.handles-control-batches": change_fetch(_show_markers),
    "control.not-passed-to-application": change_fetch(_show_markers),
    "control.value-opaque": change_fetch(_reject_markers),
    "control.ends-transaction": answer_as("read", lambda _: {"isolation": "read_uncommitted"}),
    "compaction.offsets-preserved": change_fetch(_continue_after_last_record),
    # sequences
    "producer-epoch.fences": _replace_result("fenced", "accept"),
    "sequence.gap-out-of-order": _replace_result("out-of-order", "accept"),
    "sequence.duplicate-deduplicated": _replace_result("duplicate", "accept"),
    "sequence.monotonic-per-partition": change_sequence_results(_reject_later_sequences),
    "sequence.wraps-at-int32-max": change_sequence_results(_reject_wrapped_sequences),
    # conversion
    "convert.up-to-v2": _convert_nothing,
    "convert.down-for-old-consumers": _convert_first_entry,
    "convert.down-loses-features": _convert_nothing,
    "broker.monotonic-offsets": answer_as(
        "convert", lambda request: {"baseOffset": "0"} if "baseOffset" in request else {}
    ),
    "broker.preserves-order": change_records(lambda records: records[::-1]),
    "record.headers-since-0-11": change_records(lambda records: [{**record, "headers": []} for record in records]),
}
