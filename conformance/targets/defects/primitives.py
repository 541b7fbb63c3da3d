"""Defects met in the field in strings, bytes and arrays."""

from __future__ import annotations

from functools import partial

from conformance.cases.model import Request, Value
from conformance.targets.defects.bending import encoding
from conformance.targets.defects.model import SeededDefect
from conformance.targets.defects.varints import groups, unsigned_of
from conformance.targets.lies import Lie
from conformance.targets.violations.families import as_null, both, measures, reads, refuses, shows, writes_as

_THREADS = "https://github.com"
_COMPACT = "COMPACT_STRING COMPACT_NULLABLE_STRING"


def _null_written_as(types: str, digits: str) -> Lie:
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


def _sets_aside(types: str, size: int) -> Lie:
    """Set memory aside for all elements that are claimed."""
    return lambda request, answer: {"hoards": True} if _claims(request, types, size) else answer


def _characters(types: str) -> Lie:
    """The length of a compact string in characters."""

    def write(value: Value) -> bytes | None:
        return None if value is None or not value.isprintable() else groups(len(value) + 1) + value.encode()

    return encoding(types, write)


def _as_text(digits: str | None) -> str | None:
    """Bytes that went through a text encoding."""
    return None if digits is None else bytes.fromhex(digits).decode("utf-8", "replace").encode().hex()


_one = partial(SeededDefect, area="primitives")

PRIMITIVES = (
    _one(
        "field/array-null-is-4294967295",
        says="a reader takes the count -1 of an array as 4294967295 elements, and has not enough bytes",
        source=f"{_THREADS}/IBM/opentalaria/issues/52",
        bend=refuses("ARRAY NULLABLE_ARRAY", lambda _, answer: answer["value"] is None),
    ),
    _one(
        "field/array-null-written-as-empty",
        says="a writer makes an empty array of null",
        source=f"{_THREADS}/IBM/sarama/issues/3144",
        bend=writes_as("ARRAY NULLABLE_ARRAY", lambda value: [] if value is None else value),
    ),
    _one(
        "field/compact-array-null-written-as-empty",
        says="a writer makes an empty compact array of null",
        source=f"{_THREADS}/IBM/sarama/issues/3144",
        bend=writes_as("COMPACT_ARRAY COMPACT_NULLABLE_ARRAY", lambda value: [] if value is None else value),
    ),
    _one(
        "field/empty-bytes-written-as-null",
        says="a writer makes null of empty bytes",
        source=f"{_THREADS}/kafka4beam/kafka_protocol/issues/78",
        bend=encoding("BYTES NULLABLE_BYTES", lambda value: b"\xff" * 4 if not value else None),
    ),
    _one(
        "field/bytes-of-two-byte-length",
        says="a reader takes two bytes for the length of BYTES",
        source=f"{_THREADS}/linkedin/kafka-tools/issues/71",
        bend=reads("BYTES", lambda data: b"\0\0" + data),
    ),
    _one(
        "field/bytes-through-text",
        says="a reader passes bytes through a text encoding",
        source=f"{_THREADS}/linkedin/kafka-tools/issues/71",
        bend=shows("BYTES NULLABLE_BYTES COMPACT_BYTES COMPACT_NULLABLE_BYTES", _as_text),
    ),
    _one(
        "field/bytes-null-written",
        says="a writer writes null bytes as a length of -1, where the type has no null",
        source=f"{_THREADS}/dpkp/kafka-python/issues/2203",
        bend=_null_written_as("BYTES", "ffffffff"),
    ),
    _one(
        "field/bytes-null-written-as-empty",
        says="a writer writes null bytes as empty ones, in silence",
        source=f"{_THREADS}/dpkp/kafka-python/issues/2203",
        bend=_null_written_as("BYTES", "00000000"),
    ),
    _one(
        "field/string-null-written",
        says="a writer writes a null string as a length of -1, where the type has no null",
        source=f"{_THREADS}/dpkp/kafka-python/issues/2203",
        bend=_null_written_as("STRING", "ffff"),
    ),
    _one(
        "field/string-null-written-as-empty",
        says="a writer writes a null string as an empty one, in silence",
        source=f"{_THREADS}/dpkp/kafka-python/issues/2203",
        bend=_null_written_as("STRING", "0000"),
    ),
    _one(
        "field/compact-string-empty-is-null",
        says="a writer forgets the one more of a compact length where the string is empty, and writes null",
        source=f"{_THREADS}/influxdata/rskafka/issues/10",
        bend=encoding(_COMPACT, lambda value: b"\0" if not value else None),
    ),
    _one(
        "field/compact-string-in-characters",
        says="a writer counts the characters of a compact string, not its bytes",
        source=f"{_THREADS}/Jroland/kafka-net/issues/90",
        bend=_characters(_COMPACT),
    ),
    _one(
        "field/compact-records-int32-length",
        says="a writer puts an INT32 before compact records",
        source=f"{_THREADS}/apache/kafka/pull/9163",
        bend=encoding(
            "COMPACT_RECORDS",
            lambda value: None if value is None else (len(value) // 2).to_bytes(4, "big") + bytes.fromhex(value),
        ),
    ),
    _one(
        "field/array-allocated-by-byte",
        says="a reader sets memory aside for every byte that an array of INT8 claims",
        source=f"{_THREADS}/segmentio/kafka-go/issues/1439",
        bend=_sets_aside("ARRAY", 1),
        first=("memory.array-count-bounded",),
    ),
    _one(
        "field/array-allocated-by-reference",
        says="a reader sets memory aside for a reference to every element that an array claims",
        source=f"{_THREADS}/apache/kafka/pull/12399",
        bend=_sets_aside("ARRAY NULLABLE_ARRAY", 8),
        first=("memory.array-count-bounded",),
    ),
    _one(
        "field/compact-array-allocated",
        says="a reader sets gigabytes aside for the claimed elements of a compact array",
        source=f"{_THREADS}/kafka-protocol-rs/kafka-protocol-rs/pull/152",
        bend=_sets_aside("COMPACT_ARRAY COMPACT_NULLABLE_ARRAY", 24),
        first=("memory.array-count-bounded",),
    ),
    _one(
        "meets/empty-string-after-a-long-one",
        says="a reader of an array shows null for an empty string behind one of 128 bytes or more",
        source="array.layout",
        bend=shows(
            "ARRAY NULLABLE_ARRAY COMPACT_ARRAY COMPACT_NULLABLE_ARRAY",
            lambda values: (
                [None if one == "" and at and len(values[at - 1] or "") > 127 else one for at, one in enumerate(values)]
                if values and isinstance(values[0], str)
                else values
            ),
        ),
    ),
    _one(
        "meets/nullable-empty-in-both-forms",
        says="a codec makes null of an empty string in the compact nullable form alone",
        source="compact-nullable-string.null-zero",
        bend=both(
            shows("COMPACT_NULLABLE_STRING", lambda text: text or None),
            writes_as("COMPACT_NULLABLE_STRING", lambda text: text or None),
        ),
    ),
    _one(
        "meets/null-array-of-strings",
        says="a reader makes null of an empty array of strings, and of no other array",
        source="array.empty-not-null",
        bend=both(
            *(shows(f"{form}<STRING>", as_null, lambda _, answer: answer["value"] == []) for form in ("ARRAY",)),
            shows("COMPACT_ARRAY<COMPACT_STRING>", as_null, lambda _, answer: answer["value"] == []),
        ),
    ),
    _one(
        "meets/size-of-128-elements",
        says="a size counts one byte for the count of a compact array of 127 elements or more",
        source="compact-array.layout",
        bend=measures("COMPACT_ARRAY COMPACT_NULLABLE_ARRAY", lambda size: size - (size > 128)),
    ),
)
"""Defects of strings, bytes and arrays."""
