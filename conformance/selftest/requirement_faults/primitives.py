"""Violations of the requirements on primitive types, and what breaks each."""

from __future__ import annotations

import unicodedata

from conformance.cases.model import Answer, Request, Value
from conformance.selftest import mutators
from conformance.selftest.mutators import Lie, write_halves
from conformance.selftest.requirement_mutators import (
    ONE_MORE,
    accepts,
    accepts_values,
    as_null,
    both,
    consumes,
    crashes,
    entry,
    hoards,
    measures,
    null_as,
    number,
    reads,
    reads_as,
    refuses,
    shows,
    signed,
    unsigned,
    writes,
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


def _with_section(types: str, more: bytes) -> Lie:
    return writes(types, lambda data: data + more, lambda request, _: request["version"] == 0)


def _rest(skip: int) -> Lie:
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

PRIMITIVES: dict[str, Lie] = {
    "general.exact-encoding": mutators.read_the_end,
    "byte-order.fixed-width-big-endian": mutators.swap_bytes,
    "byte-order.varint-little-endian-groups": reads("VARINT UNSIGNED_VARINT VARLONG", _turned),
    # fixed width
    "int8.layout": shows("INT8", unsigned(8)),
    "int16.layout": shows("INT16", unsigned(16)),
    "int32.layout": shows("INT32", unsigned(32)),
    "int64.layout": shows("INT64", unsigned(64)),
    "uint16.layout": shows("UINT16", signed(16)),
    "uint32.layout": shows("UINT32", signed(32)),
    "int.out-of-range-unencodable": accepts("int.out-of-range-unencodable"),
    "int.truncated-rejected": accepts("int.truncated-rejected"),
    "float64.layout": shows("FLOAT64", lambda digits: bytes.fromhex(digits)[::-1].hex()),
    "float64.bit-fields": shows(
        "FLOAT64", lambda digits: "0" * 16 if digits[0] == "8" and digits[1] == "0" else digits
    ),
    "float64.special-values": shows("FLOAT64", lambda digits: digits.replace("ff0000000000000", "fefffffffffffff")),
    "float64.canonical-nan-written": writes(
        "FLOAT64", lambda data: data[:7] + b"\1" if data[:2] == b"\x7f\xf8" else data
    ),
    "float64.any-nan-read": shows(
        "FLOAT64", lambda digits: digits[0] + "ff0000000000000" if digits[1:3] == "ff" else digits
    ),
    "uuid.layout": shows("UUID", _halves_swapped),
    "uuid.null-is-zero": writes("UUID", lambda data: data if any(data) else b"\xff" * 16),
    "uuid.any-version": refuses("UUID", lambda _, answer: answer["value"][14] != "4"),
    "boolean.size": consumes("BOOLEAN", 3),
    "boolean.write-false-00": writes("BOOLEAN", lambda data: b"\x80" if data == b"\0" else data),
    "boolean.write-true-01": writes("BOOLEAN", lambda data: b"\xff" if data == b"\1" else data),
    "boolean.read-zero-false": shows("BOOLEAN", lambda _: True),
    "boolean.read-nonzero-true": mutators.only_one_is_true,
    # varints
    "varint.range": shows("VARINT", number(lambda value: max(-(1 << 31) + 2, min((1 << 31) - 3, value)))),
    "varint.zigzag-formula": shows("VARINT", number(lambda value: _zigzag(value) if value < 0 else value)),
    "varint.zigzag-table": shows("VARINT", number(lambda value: ~value)),
    "varint.continuation-bit": reads("VARINT", lambda data: bytes([data[0] & 0x7F])),
    "varint.examples": shows("VARINT", number(lambda value: value + 1 if value >= 64 else value)),
    "varint.size-one-to-five": measures("VARINT", lambda size: min(size, 4)),
    "varint.max-five-bytes": accepts("varint.max-five-bytes"),
    "varint.fifth-byte-terminates": mutators.read_any_varint,
    "varint.fifth-byte-excess-bits": shows("VARINT", ONE_MORE, _padded(5, 0x70)),
    "varint.non-minimal": shows("VARINT", ONE_MORE, _empty_group),
    "varint.encoder-minimal": writes("VARINT", mutators.padded),
    "varint.truncated-rejected": accepts("varint.truncated-rejected"),
    "varint.protobuf-compatible": shows("VARINT", number(_zigzag)),
    "varlong.range": shows("VARLONG", lambda value: str(int(float(value)))),
    "varlong.zigzag-formula": shows("VARLONG", number(lambda value: _zigzag(value) if value < 0 else value)),
    "varlong.size-one-to-ten": measures("VARLONG", lambda size: min(size, 9)),
    "varlong.max-ten-bytes": accepts("varlong.max-ten-bytes"),
    "varlong.tenth-byte-excess-bits": shows("VARLONG", ONE_MORE, _padded(10, 0x7E)),
    "varlong.non-minimal": shows("VARLONG", ONE_MORE, _empty_group),
    "uvarint.range": shows("UNSIGNED_VARINT", signed(32)),
    "uvarint.no-zigzag": shows("UNSIGNED_VARINT", number(_unzigzag)),
    "uvarint.examples": shows("UNSIGNED_VARINT", number(lambda value: value + 1 if value >= 128 else value)),
    "uvarint.max-five-bytes": accepts("uvarint.max-five-bytes"),
    "uvarint.fifth-byte-excess-bits": shows("UNSIGNED_VARINT", ONE_MORE, _padded(5, 0x70)),
    "uvarint.non-minimal": shows("UNSIGNED_VARINT", ONE_MORE, _empty_group),
    "uvarint.used-by-compact-and-tagged": shows("COMPACT_STRING", lambda text: text[: len(text) // 2]),
    # strings
    "string.layout": writes("STRING", lambda data: b"\0\0" + data),
    "string.length-in-bytes": mutators.count_characters,
    "string.max-32767-bytes": accepts_values("STRING"),
    "string.null-rejected": accepts("string.null-rejected"),
    "string.null-not-encoded": accepts_values("STRING"),
    "string.negative-length": shows("NULLABLE_STRING", null_as("x")),
    "string.truncated-rejected": accepts("string.truncated-rejected"),
    "nullable-string.layout": writes("NULLABLE_STRING", lambda data: b"\0\0" + data),
    "nullable-string.null-minus-one": shows("NULLABLE_STRING", null_as("")),
    "nullable-string.max-32767-bytes": accepts_values("NULLABLE_STRING"),
    "compact-string.layout": writes("COMPACT_STRING", _less_one),
    "compact-string.null-rejected": accepts("compact-string.null-rejected"),
    "compact-string.null-not-encoded": accepts_values("COMPACT_STRING"),
    "compact-string.max-length": refuses(
        "COMPACT_STRING COMPACT_NULLABLE_STRING", lambda _, answer: len(answer["value"] or "") > 32767
    ),
    "compact-nullable-string.layout": writes(
        "COMPACT_NULLABLE_STRING", lambda data: _less_one(data) if data[0] else data
    ),
    "compact-nullable-string.null-zero": shows("COMPACT_NULLABLE_STRING", null_as("")),
    "compact-string.truncated-rejected": accepts("compact-string.truncated-rejected"),
    "utf8.encoded-valid": both(writes("STRING", lambda data: data.replace(b"\0", b"\xc0\x80")), write_halves),
    "utf8.accepted-and-preserved": shows(_STRINGS, lambda text: unicodedata.normalize("NFD", text or "")),
    "utf8.invalid-implementation-defined": crashes(_STRINGS, _not_utf8),
    # bytes and records
    "bytes.layout": writes("BYTES", lambda data: data[2:]),
    "bytes.null-rejected": both(accepts("bytes.null-rejected"), accepts_values("BYTES")),
    "bytes.negative-length": shows("NULLABLE_BYTES RECORDS", null_as("00")),
    "bytes.truncated-rejected": accepts("bytes.truncated-rejected"),
    "bytes.max-length": refuses("BYTES", lambda _, answer: answer["consumed"] > 1 << 16),
    "nullable-bytes.layout": _rest(4),
    "nullable-bytes.null-minus-one": shows("NULLABLE_BYTES", null_as("")),
    "compact-bytes.layout": writes("COMPACT_BYTES", _less_one),
    "compact-bytes.null-rejected": both(accepts("compact-bytes.null-rejected"), accepts_values("COMPACT_BYTES")),
    "compact-nullable-bytes.layout": writes("COMPACT_NULLABLE_BYTES", _less_one),
    "compact-nullable-bytes.null-zero": shows("COMPACT_NULLABLE_BYTES", null_as("")),
    "records.layout": writes("RECORDS", lambda data: data[2:]),
    "records.null-minus-one": shows("RECORDS", null_as("")),
    "records.content-batches": shows("RECORDS COMPACT_RECORDS", _first_batch),
    "compact-records.layout": writes("COMPACT_RECORDS", _less_one),
    "compact-records.null-zero": shows("COMPACT_RECORDS", null_as("")),
    # arrays
    "array.layout": shows("ARRAY", lambda values: values and values[::-1]),
    "array.null-minus-one": shows("ARRAY", null_as([])),
    "array.empty-not-null": shows("ARRAY NULLABLE_ARRAY", as_null),
    "array.negative-count": shows("ARRAY NULLABLE_ARRAY", null_as([0])),
    "array.too-few-elements-rejected": accepts("array.too-few-elements-rejected"),
    "array.max-elements": refuses("ARRAY", lambda _, answer: len(answer["value"] or ()) >= 1 << 16),
    "compact-array.layout": writes("COMPACT_ARRAY", _less_one),
    "compact-array.null-zero": shows("COMPACT_ARRAY", null_as([])),
    "compact-array.empty-one": shows("COMPACT_ARRAY COMPACT_NULLABLE_ARRAY", as_null),
    # tagged fields
    "tagged.section-layout": writes("TAGGED_FIELDS", lambda data: b"" if data == b"\0" else data),
    "tagged.field-layout": shows("TAGGED_FIELDS", entry("", "data", lambda digits: digits[:-2])),
    "tagged.size-bounds-data": accepts("tagged.size-bounds-data"),
    "tagged.strictly-ascending": _sections,
    "tagged.unknown-skipped": refuses("MESSAGE", lambda _, answer: _UNKNOWN in answer["value"]),
    "tagged.duplicate-rejected": accepts("tagged.duplicate-rejected"),
    "tagged.non-negative": shows("TAGGED_FIELDS", entry("", "tag", signed(32))),
    "tagged.only-in-flexible": _with_section("SuiteSized", b"\0"),
    "flexible.declared-per-api": reads_as("SuiteSized", version=0),
    "summary.primitive-sizes": writes("COMPACT_ARRAY<INT32>", lambda data: data[:1] + data[-1:]),
    "summary.compact-variants": writes("COMPACT_STRING", lambda data: b"\1" + data),
    # limits
    "memory.array-count-bounded": hoards("ARRAY COMPACT_ARRAY"),
    "memory.string-length-bounded": hoards("STRING COMPACT_STRING"),
    "memory.message-size-limit": hoards("RECORD_BATCH"),
    "memory.in-proportion": hoards("RECORD_BATCH", "28b52ffde0"),  # a zstd frame that states what it becomes
    "robustness.answers": crashes("RECORD_BATCH"),
}
