"""The entries that covering sets are made of: batches, markers and older messages, with payloads that are stored."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from conformance.codec.compression import CODECS
from conformance.codec.control_record import CONTROL_TYPES
from conformance.codec.derived_fields import Values
from conformance.codec.dispatch import encode
from conformance.codec.legacy_message import LAYOUTS, MESSAGES, message_with_checksums
from conformance.codec.record_batch import BATCH_LAYOUT, PACKED_BATCH, build, plain_records

START_MS = 1_700_000_000_000
EPOCH = 3
"""The epoch of producers."""

CONTENTS: dict[str, bytes | None] = {"short": b"content", "null": None, "empty": b"", "300 bytes": b"0123456789" * 30}
"""Keys and values by their level."""

HEADERS: dict[str, tuple[tuple[str, bytes | None], ...]] = {
    "none": (),
    "one": (("trace", b"\x00\xff"),),
    "null value": (("absent", None), ("empty", b"")),
    "many": tuple((f"h{index}", b"%d" % index) for index in range(70)),
}
"""Headers by their level."""

MARKER_VALUES: dict[str, bytes | None] = {
    "right": struct.pack(">hi", 0, 5),
    "null": None,
    "empty": b"",
    "short": b"\0\0",
    "other version": struct.pack(">hi", 1, 5),
    "longer": struct.pack(">hiq", 0, 5, 9),
}
"""The value of a marker: version and coordinator epoch."""

MARKER_TYPES = {**{name: number for number, name in enumerate(CONTROL_TYPES)}, "type 7": 7, "type 32767": (1 << 15) - 1}
"""Types of markers: those that Apache Kafka has, and some that nobody has."""


def marker_key(number: int, version: int = 0) -> bytes:
    """The key of a control record: INT16 version and INT16 type."""
    return struct.pack(">hh", version, number)


def headers(level: str) -> tuple[Values, ...]:
    """The headers of a level."""
    return tuple({"key": key, "value": value} for key, value in HEADERS[level])


_NEGATIVE_LENGTH = b"\x01"
"""The length of a record, as VARINT: -1."""
_NO_SUCH_LENGTH = (1 << 31) - 1
_LATER = 5000
"""Milliseconds by which a broker appends later than every producer writes: who adds deltas shows a wrong time."""


def batch(base: int, contents: Sequence[Values], **fields: object) -> Values:
    """A batch from an offset on, by default plain and of no producer; `contents` have what its records differ in."""
    plain = {
        **{"baseOffset": base, "partitionLeaderEpoch": 0, "compression": 0, "timestampType": 0},
        **{"isTransactional": False, "isControlBatch": False},
        **{"producerId": -1, "producerEpoch": -1, "baseSequence": -1},
    }
    content = {"key": b"key", "value": b"value", "headers": ()}
    rows = [
        {**content, "timestamp": START_MS + index, **one, "offset": base + index} for index, one in enumerate(contents)
    ]
    built = build({**plain, **fields, "records": tuple(rows)})
    if not built["timestampType"]:
        return built
    newest = built["maxTimestamp"] + _LATER
    return {
        **built,
        "maxTimestamp": newest,
        "records": tuple({**record, "timestamp": newest} for record in built["records"]),
    }


def of_producer(producer: int, sequence: int = 0, epoch: int = EPOCH) -> Values:
    """The fields of a transactional batch of a producer."""
    return {"isTransactional": True, "producerId": producer, "producerEpoch": epoch, "baseSequence": sequence}


def marker(base: int, kind: int, producer: int, *, epoch: int = EPOCH, **content: object) -> Values:
    """A control batch of a producer with one marker."""
    record = {"key": marker_key(kind), "value": MARKER_VALUES["right"], **content}
    return batch(base, [record], **{**of_producer(producer, -1, epoch), "isControlBatch": True})


def batch_bytes(values: Values, *, damaged: bool = False, sealed: bool = True) -> bytes:
    """A batch on the wire. A damaged one has a first record with a negative length; one not sealed a wrong checksum."""
    plain = plain_records(values["records"])
    if damaged:
        plain = _NEGATIVE_LENGTH + plain[1:]
    payload = CODECS[values["compression"]].forms[0](plain)
    data: bytes = encode(PACKED_BATCH, {**values, "payload": payload})
    return data if sealed else flipped(data, BATCH_LAYOUT.offset("crc"))


def flipped(data: bytes, at: int) -> bytes:
    """The bytes with all bits of one of them the other way round."""
    return data[:at] + bytes((data[at] ^ 0xFF,)) + data[at + 1 :]


def message_bytes(message: Values, *, damaged: bool = False, sealed: bool = True) -> bytes:
    """A plain message on the wire. A damaged one has a key that goes past its end."""
    layout = LAYOUTS[message["magic"]]
    data: bytes = encode(MESSAGES[message["magic"]], {"timestampType": 0, **message, "compression": 0})
    if damaged:
        data = message_with_checksums(_with_key_length(data, layout.offset("key")))
    return data if sealed else flipped(data, layout.offset("crc"))


def _with_key_length(data: bytes, at: int) -> bytes:
    return data[:at] + _NO_SUCH_LENGTH.to_bytes(4, "big") + data[at + 4 :]


def wrapper_bytes(
    messages: Sequence[Values],
    outer: Values,
    codec: int,
    *,
    inner_bits: int = 0,
    damaged: bool = False,
    sealed: bool = True,
) -> bytes:
    """A wrapper on the wire: fields of the outer message, the inner ones as they are to be written."""
    inner = [message_bytes(one, damaged=damaged and not at) for at, one in enumerate(messages)]
    if inner_bits:
        inner = [with_attributes(one, inner_bits) for one in inner]
    payload = CODECS[codec].forms[0](b"".join(inner))
    layout = LAYOUTS[outer["magic"]]
    plain = {"timestampType": 0, "key": None, **outer, "compression": 0, "value": payload}
    data: bytes = encode(MESSAGES[outer["magic"]], plain)
    data = message_with_checksums(layout.with_field("compression", data, codec))
    return data if sealed else flipped(data, layout.offset("crc"))


def with_attributes(message: bytes, bits: int) -> bytes:
    """A message of magic 0 or 1 with further bits of its attributes set."""
    return message_with_checksums(
        message[:_ATTRIBUTES] + bytes((message[_ATTRIBUTES] | bits,)) + message[_ATTRIBUTES + 1 :]
    )


_ATTRIBUTES = LAYOUTS[0].offset("attributes")
