"""Faults of real software in primitive types."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from conformance.cases.model import Answer, Request, Value
from conformance.codec.cursor import Cursor
from conformance.selftest.mutators import (
    BYTES_TYPES,
    LOW_32_BITS,
    VARINT_TYPES,
    Condition,
    Function,
    Mutator,
    change_size,
    change_value,
    combine,
    decode_other_bytes,
    decode_with,
    empty_to_null,
    encode_other_value,
    encode_with,
    field_change,
    leak_memory,
    null_to,
    on,
    reject_valid,
    replace_function,
    unzigzag,
    violated_rule,
)
from conformance.selftest.seeded_fault import SeededFault

_THREADS = "https://github.com"
_COMPACT = "COMPACT_STRING COMPACT_NULLABLE_STRING"
_ARRAYS = "ARRAY NULLABLE_ARRAY"
_COMPACT_ARRAYS = "COMPACT_ARRAY COMPACT_NULLABLE_ARRAY"

# --- varints ------------------------------------------------------------------------------------------


def _write_varint(value: int) -> bytes:
    """Return an unsigned number as a varint."""
    groups = bytearray()
    while value > 0x7F:
        groups.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*groups, value))


def _read_varint(data: bytes, *, flag: int = 0x80, first_only: bool = False) -> tuple[int, int] | None:
    """Return the unsigned number and the size of a varint; None if it does not end."""
    value = 0
    for at, byte in enumerate(data[:10]):
        value |= (data[0] if first_only else byte) % flag << 7 * at
        if byte < flag:
            return value, at + 1
    return None


def _zigzag_with_logical_shift(bits: int) -> Callable[[Value], bytes]:
    mask = (1 << bits) - 1
    return lambda value: _write_varint(((int(value) << 1) ^ ((int(value) & mask) >> (bits - 1))) & mask)


def _read_signed(notation: type, *, flag: int = 0x80, first_only: bool = False) -> Function:
    def read(data: bytes) -> tuple[Value, int] | None:
        out = _read_varint(data, flag=flag, first_only=first_only)
        return (notation(unzigzag(out[0])), out[1]) if out else None

    return read


@on("decode", VARINT_TYPES, accepted=None)
def _accept_cut_varint(request: Request, answer: Answer) -> Answer:
    data = bytes.fromhex(request["hex"])
    if not data or len(data) > 4 or min(data) < 0x80:
        return answer
    value = sum((byte & 0x7F) << 7 * at for at, byte in enumerate(data))
    value = value if request["type"] == "UNSIGNED_VARINT" else unzigzag(value)
    return {"ok": True, "value": str(value) if request["type"] == "VARLONG" else value, "consumed": len(data)}


# --- strings, bytes, arrays ---------------------------------------------------------------------------


def _write_null(types: str, data: bytes) -> Mutator:
    """Write null for types without null."""
    return encode_with(types, lambda value: data if value is None else None)


def _write_empty(types: str, data: bytes) -> Mutator:
    """Write null and empty values as these bytes."""
    return encode_with(types, lambda value: None if value else data)


def _claims_over_1_gib(size: int) -> Condition:
    """Return a condition: an array claims more elements than fit into 1 GiB, at this many bytes each."""

    def when(request: Request, _: Answer) -> bool:
        data = bytes.fromhex(request["hex"])
        if request["type"].startswith("COMPACT"):
            count = (_read_varint(data) or (0, 0))[0] - 1
        else:
            count = int.from_bytes(data[:4], "big", signed=True)
        return count * size > 1 << 30

    return when


def _allocate_claimed_size(types: str, size: int) -> Mutator:
    return leak_memory(types, _claims_over_1_gib(size), accepted=None)


def _count_characters(value: Value) -> bytes | None:
    """Write the length of a compact string in characters."""
    return None if value is None or not value.isprintable() else _write_varint(len(value) + 1) + value.encode()


def _through_text(digits: str | None) -> str | None:
    """Decode bytes as UTF-8 and encode them again."""
    return None if digits is None else bytes.fromhex(digits).decode("utf-8", "replace").encode().hex()


def _null_after_long_string(values: Value) -> Value:
    """Show null for an empty string after one of 128 bytes or more."""
    if not values or not isinstance(values[0], str):
        return values
    return [None if one == "" and at and len(values[at - 1] or "") > 127 else one for at, one in enumerate(values)]


# --- tagged fields ------------------------------------------------------------------------------------


def _size_plus_one(_: Function, cursor: Cursor, __: list[Value], known: Value) -> Value:
    """Read the size of a tagged field like that of a compact type, which is one too high."""
    number = _varint_at(cursor)
    size = _varint_at(cursor) - 1
    data = cursor.data[cursor.pos : cursor.pos + max(size, 0)]
    cursor.pos += size
    value = {"value": known[number](cursor, cursor.pos - size)} if number in known else {}
    return {"tag": number, "data": data, **value}


def _varint_at(cursor: Cursor) -> int:
    """Read a varint at a cursor. Raises IndexError if it does not end."""
    value, size = _read_varint(cursor.data[cursor.pos : cursor.end]) or (0, None)
    if size is None:
        raise IndexError
    cursor.pos += size
    return value


def _in_given_order(value: Value) -> bytes | None:
    """Write tagged fields in the given order."""
    fields = [(int(one["tag"]), bytes.fromhex(one["data"])) for one in value]
    written = (_write_varint(tag) + _write_varint(len(data)) + data for tag, data in fields)
    return _write_varint(len(fields)) + b"".join(written)


@on("size", "TAGGED_FIELDS")
def _one_byte_sizes(request: Request, answer: Answer) -> Answer:
    """Count one byte for the size of every tagged field."""
    return {**answer, "size": answer["size"] - sum(len(one["data"]) // 2 > 0x7F for one in request["value"])}


# --- the tables ---------------------------------------------------------------------------------------

_fault = partial(SeededFault, area="primitives")

PRIMITIVES = (
    _fault(
        "known/array-null-is-4294967295",
        description="a reader takes the count -1 of an array as 4294967295 elements and rejects the array",
        source=f"{_THREADS}/IBM/opentalaria/issues/52",
        mutate=reject_valid(_ARRAYS, lambda _, answer: answer["value"] is None),
    ),
    _fault(
        "known/array-null-written-as-empty",
        description="a writer writes null as an empty array",
        source=f"{_THREADS}/IBM/sarama/issues/3144",
        mutate=encode_other_value(_ARRAYS, null_to([])),
    ),
    _fault(
        "known/compact-array-null-written-as-empty",
        description="a writer writes null as an empty compact array",
        source=f"{_THREADS}/IBM/sarama/issues/3144",
        mutate=encode_other_value(_COMPACT_ARRAYS, null_to([])),
    ),
    _fault(
        "known/empty-bytes-written-as-null",
        description="a writer writes empty bytes as null",
        source=f"{_THREADS}/kafka4beam/kafka_protocol/issues/78",
        mutate=_write_empty("BYTES NULLABLE_BYTES", b"\xff" * 4),
    ),
    _fault(
        "known/bytes-of-two-byte-length",
        description="a reader takes two bytes for the length of BYTES",
        source=f"{_THREADS}/linkedin/kafka-tools/issues/71",
        mutate=decode_other_bytes("BYTES", lambda data: b"\0\0" + data),
    ),
    _fault(
        "known/bytes-through-text",
        description="a reader passes bytes through a text encoding",
        source=f"{_THREADS}/linkedin/kafka-tools/issues/71",
        mutate=change_value(BYTES_TYPES, _through_text),
    ),
    _fault(
        "known/bytes-null-written",
        description="a writer writes null as length -1 for BYTES, which has no null",
        source=f"{_THREADS}/dpkp/kafka-python/issues/2203",
        mutate=_write_null("BYTES", b"\xff" * 4),
    ),
    _fault(
        "known/bytes-null-written-as-empty",
        description="a writer writes null as empty BYTES, without an error",
        source=f"{_THREADS}/dpkp/kafka-python/issues/2203",
        mutate=_write_null("BYTES", bytes(4)),
    ),
    _fault(
        "known/string-null-written",
        description="a writer writes null as length -1 for STRING, which has no null",
        source=f"{_THREADS}/dpkp/kafka-python/issues/2203",
        mutate=_write_null("STRING", b"\xff" * 2),
    ),
    _fault(
        "known/string-null-written-as-empty",
        description="a writer writes null as an empty STRING, without an error",
        source=f"{_THREADS}/dpkp/kafka-python/issues/2203",
        mutate=_write_null("STRING", bytes(2)),
    ),
    _fault(
        "known/compact-string-empty-is-null",
        description="a writer does not add one to the compact length of an empty string, and so writes null",
        source=f"{_THREADS}/influxdata/rskafka/issues/10",
        mutate=_write_empty(_COMPACT, b"\0"),
    ),
    _fault(
        "known/compact-string-in-characters",
        description="a writer counts the characters of a compact string, not its bytes",
        source=f"{_THREADS}/Jroland/kafka-net/issues/90",
        mutate=encode_with(_COMPACT, _count_characters),
    ),
    _fault(
        "known/compact-records-int32-length",
        description="a writer puts an INT32 before compact records",
        source=f"{_THREADS}/apache/kafka/pull/9163",
        mutate=encode_with(
            "COMPACT_RECORDS",
            lambda value: None if value is None else (len(value) // 2).to_bytes(4, "big") + bytes.fromhex(value),
        ),
    ),
    _fault(
        "known/array-allocated-by-byte",
        description="a reader allocates all bytes that an array of INT8 claims",
        source=f"{_THREADS}/segmentio/kafka-go/issues/1439",
        mutate=_allocate_claimed_size("ARRAY", 1),
        try_first=("memory.array-count-bounded",),
    ),
    _fault(
        "known/array-allocated-by-reference",
        description="a reader allocates a reference for each element that an array claims",
        source=f"{_THREADS}/apache/kafka/pull/12399",
        mutate=_allocate_claimed_size(_ARRAYS, 8),
        try_first=("memory.array-count-bounded",),
    ),
    _fault(
        "known/compact-array-allocated",
        description="a reader allocates gigabytes for the elements that a compact array claims",
        source=f"{_THREADS}/kafka-protocol-rs/kafka-protocol-rs/pull/152",
        mutate=_allocate_claimed_size(_COMPACT_ARRAYS, 24),
        try_first=("memory.array-count-bounded",),
    ),
    _fault(
        "pair/empty-string-after-a-long-one",
        description="a reader of an array shows null for an empty string after one of 128 bytes or more",
        source="array.layout",
        mutate=change_value(f"{_ARRAYS} {_COMPACT_ARRAYS}", _null_after_long_string),
    ),
    _fault(
        "pair/nullable-empty-in-both-forms",
        description="a codec changes an empty string to null, only for COMPACT_NULLABLE_STRING",
        source="compact-nullable-string.null-zero",
        mutate=combine(
            change_value("COMPACT_NULLABLE_STRING", lambda text: text or None),
            encode_other_value("COMPACT_NULLABLE_STRING", lambda text: text or None),
        ),
    ),
    _fault(
        "pair/null-array-of-strings",
        description="a reader changes an empty array to null, only for an array of strings",
        source="array.empty-not-null",
        mutate=change_value("ARRAY<STRING> COMPACT_ARRAY<COMPACT_STRING>", empty_to_null),
    ),
    _fault(
        "pair/size-of-128-elements",
        description="the size includes one byte for the count of a compact array of 127 elements or more",
        source="compact-array.layout",
        mutate=change_size(_COMPACT_ARRAYS, lambda size: size - (size > 128)),
    ),
)

VARINTS = (
    _fault(
        "known/varint-logical-shift",
        description="a writer zig-zags an INT32 with a logical shift, and writes ffffffff0f for -1",
        source=f"{_THREADS}/aio-libs/aiokafka/issues/1178",
        mutate=encode_with("VARINT", _zigzag_with_logical_shift(32)),
        try_first=("varint.zigzag-formula",),
    ),
    _fault(
        "known/varlong-logical-shift",
        description="a writer zig-zags an INT64 with a logical shift by 63, and writes ten bytes",
        source=f"{_THREADS}/aio-libs/aiokafka/issues/1178",
        mutate=encode_with("VARLONG", _zigzag_with_logical_shift(64)),
        try_first=("varlong.zigzag-formula",),
    ),
    _fault(
        "known/varlong-first-group-again",
        description="a reader uses the first group of a VARLONG for every later one",
        source=f"{_THREADS}/aio-libs/aiokafka/issues/1178",
        mutate=decode_with("VARLONG", _read_signed(str, first_only=True)),
    ),
    _fault(
        "known/varint-flag-in-bit-6",
        description="a reader uses bit 6 of a group, not bit 7, as the continuation bit",
        source=f"{_THREADS}/aio-libs/aiokafka/issues/1178",
        mutate=decode_with("VARINT", _read_signed(int, flag=0x40)),
    ),
    _fault(
        "known/varint-cut",
        description="a reader accepts a varint that is cut off",
        source=f"{_THREADS}/tulios/kafkajs/issues/1793",
        mutate=_accept_cut_varint,
        try_first=("varint.truncated-rejected",),
    ),
    _fault(
        "known/varlong-32-bits",
        description="a reader keeps only 32 bits of a VARLONG; a delta of thirty days needs more",
        source=f"{_THREADS}/twmb/franz-go/issues/324",
        mutate=change_value("VARLONG", LOW_32_BITS),
    ),
    _fault(
        "known/varlong-written-in-32-bits",
        description="a writer keeps 32 bits of a VARLONG",
        source=f"{_THREADS}/kafka-protocol-rs/kafka-protocol-rs/issues/158",
        mutate=encode_other_value("VARLONG", LOW_32_BITS),
    ),
)

TAGGED_FIELDS = (
    _fault(
        "known/tagged-size-plus-one",
        description="a reader takes the size of a tagged field as length plus one",
        source=f"{_THREADS}/confluentinc/librdkafka/issues/4278",
        mutate=replace_function("codec.primitives._read_tag", _size_plus_one, "decode"),
        try_first=("tagged.field-layout",),
    ),
    _fault(
        "known/tagged-size-of-size",
        description="the size omits the second byte of the size of a tagged field",
        source=f"{_THREADS}/apache/kafka/pull/11308",
        mutate=_one_byte_sizes,
    ),
    _fault(
        "known/tagged-size-signed",
        description="a reader with signed numbers allocates a negative number of bytes for a tagged field",
        source=f"{_THREADS}/apache/kafka/pull/13100",
        mutate=on(
            "decode",
            "TAGGED_FIELDS MESSAGE",
            lambda _, answer: violated_rule(answer) == "robustness.tagged-field-size",
            accepted=None,
        )(lambda *_: {"crash": "NegativeArraySizeException"}),
        try_first=("robustness.tagged-field-size",),
    ),
    _fault(
        "known/tagged-refused",
        description="a reader rejects all unknown tagged fields",
        source=f"{_THREADS}/IBM/sarama/issues/2107",
        mutate=reject_valid("TAGGED_FIELDS", lambda _, answer: bool(answer["value"])),
    ),
    _fault(
        "known/tagged-far-refused",
        description="a reader rejects tags above 1000",
        source=f"{_THREADS}/IBM/sarama/issues/2107",
        mutate=reject_valid("TAGGED_FIELDS", lambda _, answer: any(one["tag"] > 1000 for one in answer["value"])),
    ),
    _fault(
        "known/tagged-in-given-order",
        description="a writer writes tagged fields in the given order, not by tag",
        source=f"{_THREADS}/dpkp/kafka-python/issues/2725",
        mutate=encode_with("TAGGED_FIELDS", _in_given_order),
        try_first=("tagged.strictly-ascending", "tagged.duplicate-rejected"),
    ),
    _fault(
        "pair/empty-data-after-full-data",
        description="a reader shows the data of the previous field for a tagged field without data",
        source="tagged.field-layout",
        mutate=change_value(
            "TAGGED_FIELDS",
            lambda fields: [
                {**one, "data": one["data"] or (fields[at - 1]["data"] if at else "")} for at, one in enumerate(fields)
            ],
        ),
    ),
    _fault(
        "pair/tagged-data-of-128-bytes-cut",
        description="a reader takes one byte for the size of a tagged field, and loses data of 128 bytes or more",
        source="tagged.field-layout",
        mutate=change_value(
            "TAGGED_FIELDS", field_change("", "data", lambda digits: digits[: 2 * (len(digits) // 2 % 128)])
        ),
    ),
)
