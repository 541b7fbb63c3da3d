"""Violations of the requirements on primitive types, and what breaks each."""

from __future__ import annotations

import unicodedata

from conformance.cases.model import Answer, Request, Value
from conformance.selftest import mutators
from conformance.selftest.mutators import Mutator, write_halves
from conformance.selftest.requirement_mutators import (
    ONE_MORE,
    accept_invalid,
    accepts_values,
    as_null,
    both,
    change_bytes,
    change_size,
    change_value,
    consumes,
    crash_on,
    decode_as,
    decode_other_bytes,
    entry,
    leak_memory,
    null_as,
    number,
    reject_valid,
    signed,
    unsigned,
)
from conformance.targets.reference import answer as honest


def _padded(groups: int, mask: int) -> Value:
    """Whether the last of so many groups of a varint has bits that mean nothing."""
    return lambda request, answer: (
        answer["consumed"] == groups and bytes.fromhex(request["hex"])[groups - 1] & mask != 0
    )


def _empty_group(request: Request, answer: Answer) -> bool:
    """Whether the last group of a varint is empty, and not the only one."""
    return bool(answer["consumed"] > 1 and bytes.fromhex(request["hex"])[answer["consumed"] - 1] == 0)


def _turned(data: bytes) -> bytes:
    """The groups of a varint in reverse order."""
    groups = [byte & 0x7F for byte in reversed(data)]
    return bytes([*(group | 0x80 for group in groups[:-1]), groups[-1]])


def _not_utf8(request: Request, _: Answer) -> bool:
    try:
        bytes.fromhex(request["hex"]).decode()
    except UnicodeDecodeError:
        return True
    return False


def _zigzag(value: int) -> int:
    return 2 * value if value >= 0 else -2 * value - 1


def _unzigzag(value: int) -> int:
    return value >> 1 ^ -(value & 1)


def _sections(request: Request, answer: Answer) -> Answer:
    """Tagged fields in descending order."""
    if (request["op"], request.get("type")) != ("encode", "TAGGED_FIELDS") or len(request["value"]) < 2:
        return answer
    singles = [honest({**request, "value": [field]})["hex"][2:] for field in reversed(request["value"])]
    return {**answer, "hex": f"{len(singles):02x}" + "".join(singles)}


def _with_section(types: str, more: bytes) -> Mutator:
    return change_bytes(types, lambda data: data + more, lambda request, _: request["version"] == 0)


def _rest(skip: int) -> Mutator:
    """Show all bytes that are there, whatever the length says."""
    return lambda request, answer: (
        {**answer, "value": request["hex"][2 * skip :]}
        if (request["op"], request.get("type")) == ("decode", "NULLABLE_BYTES") and answer.get("value")
        else answer
    )


def _halves_swapped(text: str) -> str:
    digits = text.replace("-", "")
    digits = digits[16:] + digits[:16]
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def _first_batch(digits: str | None) -> str | None:
    return digits and digits[: 24 + 2 * int(digits[16:24] or "0", 16)]


def _less_one(data: bytes) -> bytes:
    """A compact length or count without the one that is added."""
    return bytes([data[0] - 1]) + data[1:]


_UNKNOWN = "_unknownTaggedFields"

_STRINGS = " ".join(mutators.STRINGS)

PRIMITIVES: dict[str, Mutator] = {
    "general.exact-encoding": mutators.read_the_end,
    "byte-order.fixed-width-big-endian": mutators.swap_bytes,
    "byte-order.varint-little-endian-groups": decode_other_bytes("VARINT UNSIGNED_VARINT VARLONG", _turned),
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
    "uuid.layout": change_value("UUID", _halves_swapped),
    "uuid.null-is-zero": change_bytes("UUID", lambda data: data if any(data) else b"\xff" * 16),
    "uuid.any-version": reject_valid("UUID", lambda _, answer: answer["value"][14] != "4"),
    "boolean.size": consumes("BOOLEAN", 3),
    "boolean.write-false-00": change_bytes("BOOLEAN", lambda data: b"\x80" if data == b"\0" else data),
    "boolean.write-true-01": change_bytes("BOOLEAN", lambda data: b"\xff" if data == b"\1" else data),
    "boolean.read-zero-false": change_value("BOOLEAN", lambda _: True),
    "boolean.read-nonzero-true": mutators.only_one_is_true,
    # varints
    "varint.range": change_value("VARINT", number(lambda value: max(-(1 << 31) + 2, min((1 << 31) - 3, value)))),
    "varint.zigzag-formula": change_value("VARINT", number(lambda value: _zigzag(value) if value < 0 else value)),
    "varint.zigzag-table": change_value("VARINT", number(lambda value: ~value)),
    "varint.continuation-bit": decode_other_bytes("VARINT", lambda data: bytes([data[0] & 0x7F])),
    "varint.examples": change_value("VARINT", number(lambda value: value + 1 if value >= 64 else value)),
    "varint.size-one-to-five": change_size("VARINT", lambda size: min(size, 4)),
    "varint.max-five-bytes": accept_invalid("varint.max-five-bytes"),
    "varint.fifth-byte-terminates": mutators.read_any_varint,
    "varint.fifth-byte-excess-bits": change_value("VARINT", ONE_MORE, _padded(5, 0x70)),
    "varint.non-minimal": change_value("VARINT", ONE_MORE, _empty_group),
    "varint.encoder-minimal": change_bytes("VARINT", mutators.padded),
    "varint.truncated-rejected": accept_invalid("varint.truncated-rejected"),
    "varint.protobuf-compatible": change_value("VARINT", number(_zigzag)),
    "varlong.range": change_value("VARLONG", lambda value: str(int(float(value)))),
    "varlong.zigzag-formula": change_value("VARLONG", number(lambda value: _zigzag(value) if value < 0 else value)),
    "varlong.size-one-to-ten": change_size("VARLONG", lambda size: min(size, 9)),
    "varlong.max-ten-bytes": accept_invalid("varlong.max-ten-bytes"),
    "varlong.tenth-byte-excess-bits": change_value("VARLONG", ONE_MORE, _padded(10, 0x7E)),
    "varlong.non-minimal": change_value("VARLONG", ONE_MORE, _empty_group),
    "uvarint.range": change_value("UNSIGNED_VARINT", signed(32)),
    "uvarint.no-zigzag": change_value("UNSIGNED_VARINT", number(_unzigzag)),
    "uvarint.examples": change_value("UNSIGNED_VARINT", number(lambda value: value + 1 if value >= 128 else value)),
    "uvarint.max-five-bytes": accept_invalid("uvarint.max-five-bytes"),
    "uvarint.fifth-byte-excess-bits": change_value("UNSIGNED_VARINT", ONE_MORE, _padded(5, 0x70)),
    "uvarint.non-minimal": change_value("UNSIGNED_VARINT", ONE_MORE, _empty_group),
    "uvarint.used-by-compact-and-tagged": change_value("COMPACT_STRING", lambda text: text[: len(text) // 2]),
    # strings
    "string.layout": change_bytes("STRING", lambda data: b"\0\0" + data),
    "string.length-in-bytes": mutators.count_characters,
    "string.max-32767-bytes": accepts_values("STRING"),
    "string.null-rejected": accept_invalid("string.null-rejected"),
    "string.null-not-encoded": accepts_values("STRING"),
    "string.negative-length": change_value("NULLABLE_STRING", null_as("x")),
    "string.truncated-rejected": accept_invalid("string.truncated-rejected"),
    "nullable-string.layout": change_bytes("NULLABLE_STRING", lambda data: b"\0\0" + data),
    "nullable-string.null-minus-one": change_value("NULLABLE_STRING", null_as("")),
    "nullable-string.max-32767-bytes": accepts_values("NULLABLE_STRING"),
    "compact-string.layout": change_bytes("COMPACT_STRING", _less_one),
    "compact-string.null-rejected": accept_invalid("compact-string.null-rejected"),
    "compact-string.null-not-encoded": accepts_values("COMPACT_STRING"),
    "compact-string.max-length": reject_valid(
        "COMPACT_STRING COMPACT_NULLABLE_STRING", lambda _, answer: len(answer["value"] or "") > 32767
    ),
    "compact-nullable-string.layout": change_bytes(
        "COMPACT_NULLABLE_STRING", lambda data: _less_one(data) if data[0] else data
    ),
    "compact-nullable-string.null-zero": change_value("COMPACT_NULLABLE_STRING", null_as("")),
    "compact-string.truncated-rejected": accept_invalid("compact-string.truncated-rejected"),
    "utf8.encoded-valid": both(change_bytes("STRING", lambda data: data.replace(b"\0", b"\xc0\x80")), write_halves),
    "utf8.accepted-and-preserved": change_value(_STRINGS, lambda text: unicodedata.normalize("NFD", text or "")),
    "utf8.invalid-implementation-defined": crash_on(_STRINGS, _not_utf8),
    # bytes and records
    "bytes.layout": change_bytes("BYTES", lambda data: data[2:]),
    "bytes.null-rejected": both(accept_invalid("bytes.null-rejected"), accepts_values("BYTES")),
    "bytes.negative-length": change_value("NULLABLE_BYTES RECORDS", null_as("00")),
    "bytes.truncated-rejected": accept_invalid("bytes.truncated-rejected"),
    "bytes.max-length": reject_valid("BYTES", lambda _, answer: answer["consumed"] > 1 << 16),
    "nullable-bytes.layout": _rest(4),
    "nullable-bytes.null-minus-one": change_value("NULLABLE_BYTES", null_as("")),
    "compact-bytes.layout": change_bytes("COMPACT_BYTES", _less_one),
    "compact-bytes.null-rejected": both(accept_invalid("compact-bytes.null-rejected"), accepts_values("COMPACT_BYTES")),
    "compact-nullable-bytes.layout": change_bytes("COMPACT_NULLABLE_BYTES", _less_one),
    "compact-nullable-bytes.null-zero": change_value("COMPACT_NULLABLE_BYTES", null_as("")),
    "records.layout": change_bytes("RECORDS", lambda data: data[2:]),
    "records.null-minus-one": change_value("RECORDS", null_as("")),
    "records.content-batches": change_value("RECORDS COMPACT_RECORDS", _first_batch),
    "compact-records.layout": change_bytes("COMPACT_RECORDS", _less_one),
    "compact-records.null-zero": change_value("COMPACT_RECORDS", null_as("")),
    # arrays
    "array.layout": change_value("ARRAY", lambda values: values and values[::-1]),
    "array.null-minus-one": change_value("ARRAY", null_as([])),
    "array.empty-not-null": change_value("ARRAY NULLABLE_ARRAY", as_null),
    "array.negative-count": change_value("ARRAY NULLABLE_ARRAY", null_as([0])),
    "array.too-few-elements-rejected": accept_invalid("array.too-few-elements-rejected"),
    "array.max-elements": reject_valid("ARRAY", lambda _, answer: len(answer["value"] or ()) >= 1 << 16),
    "compact-array.layout": change_bytes("COMPACT_ARRAY", _less_one),
    "compact-array.null-zero": change_value("COMPACT_ARRAY", null_as([])),
    "compact-array.empty-one": change_value("COMPACT_ARRAY COMPACT_NULLABLE_ARRAY", as_null),
    # tagged fields
    "tagged.section-layout": change_bytes("TAGGED_FIELDS", lambda data: b"" if data == b"\0" else data),
    "tagged.field-layout": change_value("TAGGED_FIELDS", entry("", "data", lambda digits: digits[:-2])),
    "tagged.size-bounds-data": accept_invalid("tagged.size-bounds-data"),
    "tagged.strictly-ascending": _sections,
    "tagged.unknown-skipped": reject_valid("MESSAGE", lambda _, answer: _UNKNOWN in answer["value"]),
    "tagged.duplicate-rejected": accept_invalid("tagged.duplicate-rejected"),
    "tagged.non-negative": change_value("TAGGED_FIELDS", entry("", "tag", signed(32))),
    "tagged.only-in-flexible": _with_section("SuiteSized", b"\0"),
    "flexible.declared-per-api": decode_as("SuiteSized", version=0),
    "summary.primitive-sizes": change_bytes("COMPACT_ARRAY<INT32>", lambda data: data[:1] + data[-1:]),
    "summary.compact-variants": change_bytes("COMPACT_STRING", lambda data: b"\1" + data),
    # limits
    "memory.array-count-bounded": leak_memory("ARRAY COMPACT_ARRAY"),
    "memory.string-length-bounded": leak_memory("STRING COMPACT_STRING"),
    "memory.message-size-limit": leak_memory("RECORD_BATCH"),
    "memory.in-proportion": leak_memory("RECORD_BATCH", "28b52ffde0"),  # a zstd frame that states what it becomes
    "robustness.answers": crash_on("RECORD_BATCH"),
}
