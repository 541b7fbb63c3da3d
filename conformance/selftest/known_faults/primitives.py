"""Defects met in the field in strings, bytes and arrays."""

from __future__ import annotations

from functools import partial

from conformance.cases.model import Answer, Request, Value
from conformance.codec.cursor import Cursor
from conformance.selftest.codec_mutators import Function, decoding, encoding, wrong
from conformance.selftest.mutators import Mutator
from conformance.selftest.requirement_mutators import (
    as_null,
    both,
    change_size,
    change_value,
    decode_other_bytes,
    encode_other_value,
    entry,
    reject_valid,
)
from conformance.selftest.seeded_fault import SeededFault

_THREADS = "https://github.com"
_COMPACT = "COMPACT_STRING COMPACT_NULLABLE_STRING"


def _null_written_as(types: str, digits: str) -> Mutator:
    """Write null where the type has none."""
    return encoding(types, lambda value: bytes.fromhex(digits) if value is None else None)


def _claims(request: Request, types: str, size: int) -> bool:
    """Whether an array claims elements that take over 1 GiB at so many bytes each."""
    kind = str(request.get("type"))
    if request["op"] != "decode" or kind.partition("<")[0] not in types.split():
        return False
    data = bytes.fromhex(request["hex"])
    if kind.startswith("COMPACT"):
        count = (unsigned_of(data) or (0, 0))[0] - 1
    else:
        count = int.from_bytes(data[:4], "big", signed=True)
    return count * size > 1 << 30


def _sets_aside(types: str, size: int) -> Mutator:
    """Set memory aside for all elements that are claimed."""
    return lambda request, answer: {"hoards": True} if _claims(request, types, size) else answer


def _characters(types: str) -> Mutator:
    """The length of a compact string in characters."""

    def write(value: Value) -> bytes | None:
        return None if value is None or not value.isprintable() else groups(len(value) + 1) + value.encode()

    return encoding(types, write)


def _as_text(digits: str | None) -> str | None:
    """Bytes that went through a text encoding."""
    return None if digits is None else bytes.fromhex(digits).decode("utf-8", "replace").encode().hex()


_one = partial(SeededFault, area="primitives")

PRIMITIVES = (
    _one(
        "known/array-null-is-4294967295",
        description="a reader takes the count -1 of an array as 4294967295 elements, and has not enough bytes",
        source=f"{_THREADS}/IBM/opentalaria/issues/52",
        mutate=reject_valid("ARRAY NULLABLE_ARRAY", lambda _, answer: answer["value"] is None),
    ),
    _one(
        "known/array-null-written-as-empty",
        description="a writer makes an empty array of null",
        source=f"{_THREADS}/IBM/sarama/issues/3144",
        mutate=encode_other_value("ARRAY NULLABLE_ARRAY", lambda value: [] if value is None else value),
    ),
    _one(
        "known/compact-array-null-written-as-empty",
        description="a writer makes an empty compact array of null",
        source=f"{_THREADS}/IBM/sarama/issues/3144",
        mutate=encode_other_value("COMPACT_ARRAY COMPACT_NULLABLE_ARRAY", lambda value: [] if value is None else value),
    ),
    _one(
        "known/empty-bytes-written-as-null",
        description="a writer makes null of empty bytes",
        source=f"{_THREADS}/kafka4beam/kafka_protocol/issues/78",
        mutate=encoding("BYTES NULLABLE_BYTES", lambda value: b"\xff" * 4 if not value else None),
    ),
    _one(
        "known/bytes-of-two-byte-length",
        description="a reader takes two bytes for the length of BYTES",
        source=f"{_THREADS}/linkedin/kafka-tools/issues/71",
        mutate=decode_other_bytes("BYTES", lambda data: b"\0\0" + data),
    ),
    _one(
        "known/bytes-through-text",
        description="a reader passes bytes through a text encoding",
        source=f"{_THREADS}/linkedin/kafka-tools/issues/71",
        mutate=change_value("BYTES NULLABLE_BYTES COMPACT_BYTES COMPACT_NULLABLE_BYTES", _as_text),
    ),
    _one(
        "known/bytes-null-written",
        description="a writer writes null bytes as a length of -1, where the type has no null",
        source=f"{_THREADS}/dpkp/kafka-python/issues/2203",
        mutate=_null_written_as("BYTES", "ffffffff"),
    ),
    _one(
        "known/bytes-null-written-as-empty",
        description="a writer writes null bytes as empty ones, in silence",
        source=f"{_THREADS}/dpkp/kafka-python/issues/2203",
        mutate=_null_written_as("BYTES", "00000000"),
    ),
    _one(
        "known/string-null-written",
        description="a writer writes a null string as a length of -1, where the type has no null",
        source=f"{_THREADS}/dpkp/kafka-python/issues/2203",
        mutate=_null_written_as("STRING", "ffff"),
    ),
    _one(
        "known/string-null-written-as-empty",
        description="a writer writes a null string as an empty one, in silence",
        source=f"{_THREADS}/dpkp/kafka-python/issues/2203",
        mutate=_null_written_as("STRING", "0000"),
    ),
    _one(
        "known/compact-string-empty-is-null",
        description="a writer forgets the one more of a compact length where the string is empty, and writes null",
        source=f"{_THREADS}/influxdata/rskafka/issues/10",
        mutate=encoding(_COMPACT, lambda value: b"\0" if not value else None),
    ),
    _one(
        "known/compact-string-in-characters",
        description="a writer counts the characters of a compact string, not its bytes",
        source=f"{_THREADS}/Jroland/kafka-net/issues/90",
        mutate=_characters(_COMPACT),
    ),
    _one(
        "known/compact-records-int32-length",
        description="a writer puts an INT32 before compact records",
        source=f"{_THREADS}/apache/kafka/pull/9163",
        mutate=encoding(
            "COMPACT_RECORDS",
            lambda value: None if value is None else (len(value) // 2).to_bytes(4, "big") + bytes.fromhex(value),
        ),
    ),
    _one(
        "known/array-allocated-by-byte",
        description="a reader sets memory aside for every byte that an array of INT8 claims",
        source=f"{_THREADS}/segmentio/kafka-go/issues/1439",
        mutate=_sets_aside("ARRAY", 1),
        try_first=("memory.array-count-bounded",),
    ),
    _one(
        "known/array-allocated-by-reference",
        description="a reader sets memory aside for a reference to every element that an array claims",
        source=f"{_THREADS}/apache/kafka/pull/12399",
        mutate=_sets_aside("ARRAY NULLABLE_ARRAY", 8),
        try_first=("memory.array-count-bounded",),
    ),
    _one(
        "known/compact-array-allocated",
        description="a reader sets gigabytes aside for the claimed elements of a compact array",
        source=f"{_THREADS}/kafka-protocol-rs/kafka-protocol-rs/pull/152",
        mutate=_sets_aside("COMPACT_ARRAY COMPACT_NULLABLE_ARRAY", 24),
        try_first=("memory.array-count-bounded",),
    ),
    _one(
        "pair/empty-string-after-a-long-one",
        description="a reader of an array shows null for an empty string behind one of 128 bytes or more",
        source="array.layout",
        mutate=change_value(
            "ARRAY NULLABLE_ARRAY COMPACT_ARRAY COMPACT_NULLABLE_ARRAY",
            lambda values: (
                [None if one == "" and at and len(values[at - 1] or "") > 127 else one for at, one in enumerate(values)]
                if values and isinstance(values[0], str)
                else values
            ),
        ),
    ),
    _one(
        "pair/nullable-empty-in-both-forms",
        description="a codec makes null of an empty string in the compact nullable form alone",
        source="compact-nullable-string.null-zero",
        mutate=both(
            change_value("COMPACT_NULLABLE_STRING", lambda text: text or None),
            encode_other_value("COMPACT_NULLABLE_STRING", lambda text: text or None),
        ),
    ),
    _one(
        "pair/null-array-of-strings",
        description="a reader makes null of an empty array of strings, and of no other array",
        source="array.empty-not-null",
        mutate=both(
            *(change_value(f"{form}<STRING>", as_null, lambda _, answer: answer["value"] == []) for form in ("ARRAY",)),
            change_value("COMPACT_ARRAY<COMPACT_STRING>", as_null, lambda _, answer: answer["value"] == []),
        ),
    ),
    _one(
        "pair/size-of-128-elements",
        description="a size counts one byte for the count of a compact array of 127 elements or more",
        source="compact-array.layout",
        mutate=change_size("COMPACT_ARRAY COMPACT_NULLABLE_ARRAY", lambda size: size - (size > 128)),
    ),
)
"""Defects of strings, bytes and arrays."""


# --- varints ------------------------------------------------------------------------------------------


def groups(number: int) -> bytes:
    """An unsigned number as a varint."""
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes((*out, number))


def _logical_shift(bits: int) -> Mutator:
    """Zig-zag with a shift that brings in zeros."""
    mask = (1 << bits) - 1
    return encoding(
        "VARINT" if bits == 32 else "VARLONG",
        lambda value: groups(((int(value) << 1) ^ ((int(value) & mask) >> (bits - 1))) & mask),
    )


def unsigned_of(data: bytes, *, flag: int = 0x80, first_only: bool = False) -> tuple[int, int] | None:
    """The groups of a varint as a number and their count; None where they do not end."""
    number = 0
    for at, byte in enumerate(data[:10]):
        number |= (data[0] if first_only else byte) % flag << 7 * at
        if byte < flag:
            return number, at + 1
    return None


def _signed_by(render: type, *, flag: int = 0x80, first_only: bool = False) -> Function:
    def read(data: bytes) -> tuple[Value, int] | None:
        out = unsigned_of(data, flag=flag, first_only=first_only)
        return (render(out[0] >> 1 ^ -(out[0] & 1)), out[1]) if out else None

    return read


def _what_is_there(request: Request, answer: Answer) -> Answer:
    """Hand out the groups that are there of a varint that is cut off."""
    if request["op"] != "decode" or request["type"] not in ("VARINT", "VARLONG", "UNSIGNED_VARINT"):
        return answer
    data = bytes.fromhex(request["hex"])
    if not data or len(data) > 4 or min(data) < 0x80:
        return answer
    number = sum((byte & 0x7F) << 7 * at for at, byte in enumerate(data))
    value = number if request["type"] == "UNSIGNED_VARINT" else number >> 1 ^ -(number & 1)
    return {"ok": True, "value": str(value) if request["type"] == "VARLONG" else value, "consumed": len(data)}


def _low_half(value: str) -> str:
    """A 64-bit number cut to 32 bits."""
    number = int(value) & 0xFFFFFFFF
    return str(number - (1 << 32) if number >> 31 else number)


VARINTS = (
    _one(
        "known/varint-logical-shift",
        description="a writer zig-zags an INT32 with a logical shift, and writes ffffffff0f for -1",
        source=f"{_THREADS}/aio-libs/aiokafka/issues/1178",
        mutate=_logical_shift(32),
        try_first=("varint.zigzag-formula",),
    ),
    _one(
        "known/varlong-logical-shift",
        description="a writer zig-zags an INT64 with a logical shift by 63, and writes ten bytes",
        source=f"{_THREADS}/aio-libs/aiokafka/issues/1178",
        mutate=_logical_shift(64),
        try_first=("varlong.zigzag-formula",),
    ),
    _one(
        "known/varlong-first-group-again",
        description="a reader uses the first group of a VARLONG for every later one",
        source=f"{_THREADS}/aio-libs/aiokafka/issues/1178",
        mutate=decoding("VARLONG", _signed_by(str, first_only=True)),
    ),
    _one(
        "known/varint-flag-in-bit-6",
        description="a reader takes the highest data bit of a group as the flag that more follow",
        source=f"{_THREADS}/aio-libs/aiokafka/issues/1178",
        mutate=decoding("VARINT", _signed_by(int, flag=0x40)),
    ),
    _one(
        "known/varint-cut",
        description="a reader hands out the groups that are there of a varint that is cut off",
        source=f"{_THREADS}/tulios/kafkajs/issues/1793",
        mutate=_what_is_there,
        try_first=("varint.truncated-rejected",),
    ),
    _one(
        "known/varlong-32-bits",
        description="a reader keeps 32 bits of a VARLONG, which a delta of thirty days does not fit into",
        source=f"{_THREADS}/twmb/franz-go/issues/324",
        mutate=change_value("VARLONG", _low_half),
    ),
    _one(
        "known/varlong-written-in-32-bits",
        description="a writer keeps 32 bits of a VARLONG",
        source=f"{_THREADS}/kafka-protocol-rs/kafka-protocol-rs/issues/158",
        mutate=encode_other_value("VARLONG", _low_half),
    ),
)
"""Defects of varints."""


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


TAGGED_FIELDS = (
    _one(
        "known/tagged-size-plus-one",
        description="a reader takes the size of a tagged field as length plus one",
        source=f"{_THREADS}/confluentinc/librdkafka/issues/4278",
        mutate=wrong("codec.primitives._read_tag", _size_plus_one, "decode"),
        try_first=("tagged.field-layout",),
    ),
    _one(
        "known/tagged-size-of-size",
        description="a size leaves out the second byte of a tagged field's own size",
        source=f"{_THREADS}/apache/kafka/pull/11308",
        mutate=_forgets_a_byte_of_sizes,
    ),
    _one(
        "known/tagged-size-signed",
        description="a reader with signed numbers allocates a negative number of bytes for a tagged field",
        source=f"{_THREADS}/apache/kafka/pull/13100",
        mutate=_signed_size,
        try_first=("robustness.tagged-field-size",),
    ),
    _one(
        "known/tagged-refused",
        description="a reader refuses every tagged field that it does not know",
        source=f"{_THREADS}/IBM/sarama/issues/2107",
        mutate=reject_valid("TAGGED_FIELDS", lambda _, answer: bool(answer["value"])),
    ),
    _one(
        "known/tagged-far-refused",
        description="a reader refuses tags above 1000",
        source=f"{_THREADS}/IBM/sarama/issues/2107",
        mutate=reject_valid("TAGGED_FIELDS", lambda _, answer: any(one["tag"] > 1000 for one in answer["value"])),
    ),
    _one(
        "known/tagged-in-given-order",
        description="a writer does not look at the tags, and writes the fields in the order given",
        source=f"{_THREADS}/dpkp/kafka-python/issues/2725",
        mutate=encoding("TAGGED_FIELDS", _in_given_order),
        try_first=("tagged.strictly-ascending", "tagged.duplicate-rejected"),
    ),
    _one(
        "pair/empty-data-after-full-data",
        description="a reader shows the data of the field before for a tagged field without data",
        source="tagged.field-layout",
        mutate=change_value(
            "TAGGED_FIELDS",
            lambda fields: [
                {**one, "data": one["data"] or (fields[at - 1]["data"] if at else "")} for at, one in enumerate(fields)
            ],
        ),
    ),
    _one(
        "pair/tagged-data-of-128-bytes-cut",
        description="a reader takes one byte for the size of a tagged field, and loses data of 128 bytes or more",
        source="tagged.field-layout",
        mutate=change_value("TAGGED_FIELDS", entry("", "data", lambda digits: digits[: 2 * (len(digits) // 2 % 128)])),
    ),
)
"""Defects of tagged fields."""
