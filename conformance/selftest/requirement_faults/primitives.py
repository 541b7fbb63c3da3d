"""One fault for each requirement on primitive types."""

from __future__ import annotations

import struct
import unicodedata

from conformance.cases.model import Answer, Request
from conformance.selftest.mutators import (
    ONE_MORE,
    STRING_TYPES,
    VARINT_TYPES,
    Condition,
    Mutator,
    accept_invalid,
    accept_unencodable,
    answer_as,
    change_bytes,
    change_consumed,
    change_size,
    change_value,
    combine,
    crash_on,
    decode_other_bytes,
    empty_to_null,
    field_change,
    leak_memory,
    null_to,
    number,
    on,
    pad_varint,
    reject_valid,
    signed,
    unsigned,
    unzigzag,
    write_surrogates,
)
from conformance.targets.reference import answer as correct_answer

_INTEGERS = {"INT16": "h", "INT32": "i", "INT64": "q", "UINT16": "H", "UINT32": "I"}
_UNKNOWN = "_unknownTaggedFields"
_ZSTD_WITH_CONTENT_SIZE = "28b52ffde0"


@on("decode", "INT32 UUID")
def _read_last_bytes(request: Request, answer: Answer) -> Answer:
    digits, consumed = request["hex"], answer["consumed"]
    return {**correct_answer({**request, "hex": digits[len(digits) - 2 * consumed :]}), "consumed": consumed}


@on("decode", " ".join(_INTEGERS))
def _swap_bytes(request: Request, answer: Answer) -> Answer:
    code = _INTEGERS[request["type"]]
    swap = number(lambda value: struct.unpack("<" + code, struct.pack(">" + code, value))[0])
    return {**answer, "value": swap(answer["value"])}


@on("decode", VARINT_TYPES, accepted=False)
def _read_any_varint(request: Request, answer: Answer) -> Answer:
    data = bytes.fromhex(request["hex"])
    size = next((at + 1 for at, byte in enumerate(data) if byte < 0x80), 0)
    return {"ok": True, "value": 0, "consumed": size} if size else answer


@on("encode", "STRING")
def _count_characters(request: Request, answer: Answer) -> Answer:
    return {**answer, "hex": len(request["value"]).to_bytes(2).hex() + answer["hex"][4:]}


def _excess_bits(groups: int, mask: int) -> Condition:
    """Return a condition: the varint has this many groups, and unused bits are set in the last one."""
    return lambda request, answer: (
        answer["consumed"] == groups and bytes.fromhex(request["hex"])[groups - 1] & mask != 0
    )


def _last_group_is_empty(request: Request, answer: Answer) -> bool:
    return bool(answer["consumed"] > 1 and bytes.fromhex(request["hex"])[answer["consumed"] - 1] == 0)


def _reverse_groups(data: bytes) -> bytes:
    groups = [byte & 0x7F for byte in reversed(data)]
    return bytes([*(group | 0x80 for group in groups[:-1]), groups[-1]])


def _is_not_utf8(request: Request, _: Answer) -> bool:
    data = bytes.fromhex(request["hex"])
    return data.decode("utf-8", "ignore").encode() != data


def _zigzag(value: int) -> int:
    return 2 * value if value >= 0 else -2 * value - 1


@on("encode", "TAGGED_FIELDS", lambda request, _: len(request["value"]) > 1, accepted=None)
def _write_descending_tags(request: Request, answer: Answer) -> Answer:
    fields = [correct_answer({**request, "value": [field]})["hex"][2:] for field in reversed(request["value"])]
    return {**answer, "hex": f"{len(fields):02x}" + "".join(fields)}


def _swap_halves(text: str) -> str:
    digits = text.replace("-", "")
    digits = digits[16:] + digits[:16]
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


@on("decode", "NULLABLE_BYTES", lambda _, answer: bool(answer["value"]))
def _ignore_length(request: Request, answer: Answer) -> Answer:
    return {**answer, "value": request["hex"][8:]}


def _first_batch(digits: str | None) -> str | None:
    return digits and digits[: 24 + 2 * int(digits[16:24] or "0", 16)]


def _subtract_one(data: bytes) -> bytes:
    """Write a compact length or count without adding one."""
    return bytes([data[0] - 1]) + data[1:]


PRIMITIVES: dict[str, Mutator] = {
    "general.exact-encoding": _read_last_bytes,
    "byte-order.fixed-width-big-endian": _swap_bytes,
    "byte-order.varint-little-endian-groups": decode_other_bytes(VARINT_TYPES, _reverse_groups),
    # fixed width
    "int8.layout": change_value("INT8", unsigned(8)),
    "int16.layout": change_value("INT16", unsigned(16)),
    "int32.layout": change_value("INT32", unsigned(32)),
    "int64.layout": change_value("INT64", unsigned(64)),
    "uint16.layout": change_value("UINT16", signed(16)),
    "uint32.layout": change_value("UINT32", signed(32)),
    "int.out-of-range-unencodable": accept_invalid("int.out-of-range-unencodable"),
    "int.truncated-rejected": accept_invalid("int.truncated-rejected"),
    "float64.layout": change_value("FLOAT64", lambda digits: bytes.fromhex(digits)[::-1].hex()),
    "float64.bit-fields": change_value(
        "FLOAT64", lambda digits: "0" * 16 if digits[0] == "8" and digits[1] == "0" else digits
    ),
    "float64.special-values": change_value(
        "FLOAT64", lambda digits: digits.replace("ff0000000000000", "fefffffffffffff")
    ),
    "float64.canonical-nan-written": change_bytes(
        "FLOAT64", lambda data: data[:7] + b"\1" if data[:2] == b"\x7f\xf8" else data
    ),
    "float64.any-nan-read": change_value(
        "FLOAT64", lambda digits: digits[0] + "ff0000000000000" if digits[1:3] == "ff" else digits
    ),
    "uuid.layout": change_value("UUID", _swap_halves),
    "uuid.null-is-zero": change_bytes("UUID", lambda data: data if any(data) else b"\xff" * 16),
    "uuid.any-version": reject_valid("UUID", lambda _, answer: answer["value"][14] != "4"),
    "boolean.size": change_consumed("BOOLEAN", 3),
    "boolean.write-false-00": change_bytes("BOOLEAN", lambda data: b"\x80" if data == b"\0" else data),
    "boolean.write-true-01": change_bytes("BOOLEAN", lambda data: b"\xff" if data == b"\1" else data),
    "boolean.read-zero-false": change_value("BOOLEAN", lambda _: True),
    "boolean.read-nonzero-true": on("decode", "BOOLEAN")(
        lambda request, answer: {**answer, "value": request["hex"].startswith("01")}
    ),
    # varints
    "varint.range": change_value("VARINT", number(lambda value: max(-(1 << 31) + 2, min((1 << 31) - 3, value)))),
    "varint.zigzag-formula": change_value("VARINT", number(lambda value: _zigzag(value) if value < 0 else value)),
    "varint.zigzag-table": change_value("VARINT", number(lambda value: ~value)),
    "varint.continuation-bit": decode_other_bytes("VARINT", lambda data: bytes([data[0] & 0x7F])),
    "varint.examples": change_value("VARINT", number(lambda value: value + 1 if value >= 64 else value)),
    "varint.size-one-to-five": change_size("VARINT", lambda size: min(size, 4)),
    "varint.max-five-bytes": accept_invalid("varint.max-five-bytes"),
    "varint.fifth-byte-terminates": _read_any_varint,
    "varint.fifth-byte-excess-bits": change_value("VARINT", ONE_MORE, _excess_bits(5, 0x70)),
    "varint.non-minimal": change_value("VARINT", ONE_MORE, _last_group_is_empty),
    "varint.encoder-minimal": change_bytes("VARINT", pad_varint),
    "varint.truncated-rejected": accept_invalid("varint.truncated-rejected"),
    "varint.protobuf-compatible": change_value("VARINT", number(_zigzag)),
    "varlong.range": change_value("VARLONG", lambda value: str(int(float(value)))),
    "varlong.zigzag-formula": change_value("VARLONG", number(lambda value: _zigzag(value) if value < 0 else value)),
    "varlong.size-one-to-ten": change_size("VARLONG", lambda size: min(size, 9)),
    "varlong.max-ten-bytes": accept_invalid("varlong.max-ten-bytes"),
    "varlong.tenth-byte-excess-bits": change_value("VARLONG", ONE_MORE, _excess_bits(10, 0x7E)),
    "varlong.non-minimal": change_value("VARLONG", ONE_MORE, _last_group_is_empty),
    "uvarint.range": change_value("UNSIGNED_VARINT", signed(32)),
    "uvarint.no-zigzag": change_value("UNSIGNED_VARINT", number(unzigzag)),
    "uvarint.examples": change_value("UNSIGNED_VARINT", number(lambda value: value + 1 if value >= 128 else value)),
    "uvarint.max-five-bytes": accept_invalid("uvarint.max-five-bytes"),
    "uvarint.fifth-byte-excess-bits": change_value("UNSIGNED_VARINT", ONE_MORE, _excess_bits(5, 0x70)),
    "uvarint.non-minimal": change_value("UNSIGNED_VARINT", ONE_MORE, _last_group_is_empty),
    "uvarint.used-by-compact-and-tagged": change_value("COMPACT_STRING", lambda text: text[: len(text) // 2]),
    # strings
    "string.layout": change_bytes("STRING", lambda data: b"\0\0" + data),
    "string.length-in-bytes": _count_characters,
    "string.max-32767-bytes": accept_unencodable("STRING"),
    "string.null-rejected": accept_invalid("string.null-rejected"),
    "string.null-not-encoded": accept_unencodable("STRING"),
    "string.negative-length": change_value("NULLABLE_STRING", null_to("x")),
    "string.truncated-rejected": accept_invalid("string.truncated-rejected"),
    "nullable-string.layout": change_bytes("NULLABLE_STRING", lambda data: b"\0\0" + data),
    "nullable-string.null-minus-one": change_value("NULLABLE_STRING", null_to("")),
    "nullable-string.max-32767-bytes": accept_unencodable("NULLABLE_STRING"),
    "compact-string.layout": change_bytes("COMPACT_STRING", _subtract_one),
    "compact-string.null-rejected": accept_invalid("compact-string.null-rejected"),
    "compact-string.null-not-encoded": accept_unencodable("COMPACT_STRING"),
    "compact-string.max-length": reject_valid(
        "COMPACT_STRING COMPACT_NULLABLE_STRING", lambda _, answer: len(answer["value"] or "") > 32767
    ),
    "compact-nullable-string.layout": change_bytes(
        "COMPACT_NULLABLE_STRING", lambda data: _subtract_one(data) if data[0] else data
    ),
    "compact-nullable-string.null-zero": change_value("COMPACT_NULLABLE_STRING", null_to("")),
    "compact-string.truncated-rejected": accept_invalid("compact-string.truncated-rejected"),
    "utf8.encoded-valid": combine(
        change_bytes("STRING", lambda data: data.replace(b"\0", b"\xc0\x80")), write_surrogates
    ),
    "utf8.accepted-and-preserved": change_value(STRING_TYPES, lambda text: unicodedata.normalize("NFD", text or "")),
    "utf8.invalid-implementation-defined": crash_on(STRING_TYPES, _is_not_utf8),
    # bytes and records
    "bytes.layout": change_bytes("BYTES", lambda data: data[2:]),
    "bytes.null-rejected": combine(accept_invalid("bytes.null-rejected"), accept_unencodable("BYTES")),
    "bytes.negative-length": change_value("NULLABLE_BYTES RECORDS", null_to("00")),
    "bytes.truncated-rejected": accept_invalid("bytes.truncated-rejected"),
    "bytes.max-length": reject_valid("BYTES", lambda _, answer: answer["consumed"] > 1 << 16),
    "nullable-bytes.layout": _ignore_length,
    "nullable-bytes.null-minus-one": change_value("NULLABLE_BYTES", null_to("")),
    "compact-bytes.layout": change_bytes("COMPACT_BYTES", _subtract_one),
    "compact-bytes.null-rejected": combine(
        accept_invalid("compact-bytes.null-rejected"), accept_unencodable("COMPACT_BYTES")
    ),
    "compact-nullable-bytes.layout": change_bytes("COMPACT_NULLABLE_BYTES", _subtract_one),
    "compact-nullable-bytes.null-zero": change_value("COMPACT_NULLABLE_BYTES", null_to("")),
    "records.layout": change_bytes("RECORDS", lambda data: data[2:]),
    "records.null-minus-one": change_value("RECORDS", null_to("")),
    "records.content-batches": change_value("RECORDS COMPACT_RECORDS", _first_batch),
    "compact-records.layout": change_bytes("COMPACT_RECORDS", _subtract_one),
    "compact-records.null-zero": change_value("COMPACT_RECORDS", null_to("")),
    # arrays
    "array.layout": change_value("ARRAY", lambda values: values and values[::-1]),
    "array.null-minus-one": change_value("ARRAY", null_to([])),
    "array.empty-not-null": change_value("ARRAY NULLABLE_ARRAY", empty_to_null),
    "array.negative-count": change_value("ARRAY NULLABLE_ARRAY", null_to([0])),
    "array.too-few-elements-rejected": accept_invalid("array.too-few-elements-rejected"),
    "array.max-elements": reject_valid("ARRAY", lambda _, answer: len(answer["value"] or ()) >= 1 << 16),
    "compact-array.layout": change_bytes("COMPACT_ARRAY", _subtract_one),
    "compact-array.null-zero": change_value("COMPACT_ARRAY", null_to([])),
    "compact-array.empty-one": change_value("COMPACT_ARRAY COMPACT_NULLABLE_ARRAY", empty_to_null),
    # tagged fields
    "tagged.section-layout": change_bytes("TAGGED_FIELDS", lambda data: b"" if data == b"\0" else data),
    "tagged.field-layout": change_value("TAGGED_FIELDS", field_change("", "data", lambda digits: digits[:-2])),
    "tagged.size-bounds-data": accept_invalid("tagged.size-bounds-data"),
    "tagged.strictly-ascending": _write_descending_tags,
    "tagged.unknown-skipped": reject_valid("MESSAGE", lambda _, answer: _UNKNOWN in answer["value"]),
    "tagged.duplicate-rejected": accept_invalid("tagged.duplicate-rejected"),
    "tagged.non-negative": change_value("TAGGED_FIELDS", field_change("", "tag", signed(32))),
    "tagged.only-in-flexible": change_bytes(
        "SuiteSized", lambda data: data + b"\0", lambda request, _: request["version"] == 0
    ),
    "flexible.declared-per-api": answer_as("decode", lambda _: {"version": 0}, "SuiteSized"),
    "summary.primitive-sizes": change_bytes("COMPACT_ARRAY<INT32>", lambda data: data[:1] + data[-1:]),
    "summary.compact-variants": change_bytes("COMPACT_STRING", lambda data: b"\1" + data),
    # limits
    "memory.array-count-bounded": leak_memory("ARRAY COMPACT_ARRAY"),
    "memory.string-length-bounded": leak_memory("STRING COMPACT_STRING"),
    "memory.message-size-limit": leak_memory("RECORD_BATCH"),
    "memory.in-proportion": leak_memory("RECORD_BATCH", lambda request, _: _ZSTD_WITH_CONTENT_SIZE in request["hex"]),
    "robustness.answers": crash_on("RECORD_BATCH"),
}
