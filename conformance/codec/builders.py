"""Builders of record batches, markers, messages and wrappers: a caller states only the fields that differ from plain.

A payload is stored: the format of its codec holds the bytes uncompressed, so that no compressor changes them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from conformance.codec.compression import CODECS
from conformance.codec.control_record import CONTROL_KEYS, CONTROL_TYPES
from conformance.codec.derived_fields import Values
from conformance.codec.dispatch import encode
from conformance.codec.legacy_message import LAYOUTS, MESSAGES, message_with_checksums
from conformance.codec.record_batch import BATCH_LAYOUT, PACKED_BATCH, plain_records

START_MS = 1_700_000_000_000
"""The timestamp of the record at offset 0, in milliseconds since 1970."""
NO_PRODUCER: Values = {"producerId": -1, "producerEpoch": -1, "baseSequence": -1}
PLAIN_BATCH: Values = {
    **{"baseOffset": 0, "partitionLeaderEpoch": -1, "compression": 0, "timestampType": 0},
    **{"isTransactional": False, "isControlBatch": False, **NO_PRODUCER},
}
_MARKER_VALUE = bytes(6)
"""Version 0 as INT16, and coordinator epoch 0 as INT32."""
_NEGATIVE_LENGTH = b"\x01"
"""The length of a record, as VARINT: -1."""
_NO_SUCH_LENGTH = (1 << 31) - 1
_ATTRIBUTES = LAYOUTS[0].offset("attributes")


def record(offset: int, timestamp: int | None = None, **content: object) -> Values:
    """Return the fields that an encoder needs of a record; `content` replaces its key, value or headers."""
    stamp = START_MS + offset if timestamp is None else timestamp
    return {"offset": offset, "timestamp": stamp, "key": b"k", "value": b"v", "headers": (), **content}


def batch(records: Iterable[Values], **fields: object) -> Values:
    """Return the fields that an encoder needs of a batch: uncompressed, at offset 0, without a producer by default."""
    return {**PLAIN_BATCH, **fields, "records": tuple(records)}


def marker(
    producer_id: int, epoch: int, *, commit: bool, offset: int = 0, timestamp: int = START_MS, **fields: object
) -> Values:
    """Return a control batch that ends a transaction (record-batch#control-record-format)."""
    key = CONTROL_KEYS[CONTROL_TYPES.index("COMMIT" if commit else "ABORT")]
    producer = {"isTransactional": True, "producerId": producer_id, "producerEpoch": epoch}
    row = record(offset, timestamp, key=key, value=_MARKER_VALUE)
    return batch([row], isControlBatch=True, baseOffset=offset, **producer, **fields)


def batch_bytes(values: Values, *, damaged: bool = False, sealed: bool = True) -> bytes:
    """Return the bytes of a built batch, its payload stored in the format of its codec that `form` numbers, if given.

    If damaged, the first record has a negative length; if not sealed, the checksum is wrong.
    """
    plain, forms = plain_records(values["records"]), CODECS[values["compression"]].forms
    payload = forms[values.get("form", 0) % len(forms)](_NEGATIVE_LENGTH + plain[1:] if damaged else plain)
    data: bytes = encode(PACKED_BATCH, {**values, "payload": payload})
    return data if sealed else flipped(data, BATCH_LAYOUT.offset("crc"))


def message_bytes(message: Values, *, damaged: bool = False, sealed: bool = True) -> bytes:
    """Return the bytes of a message without a codec; if damaged, its key is longer than the message."""
    layout = LAYOUTS[message["magic"]]
    data: bytes = encode(MESSAGES[message["magic"]], {"timestampType": 0, **message, "compression": 0})
    if damaged:
        at = layout.offset("key")
        data = message_with_checksums(data[:at] + _NO_SUCH_LENGTH.to_bytes(4, "big") + data[at + 4 :])
    return data if sealed else flipped(data, layout.offset("crc"))


def wrapper_bytes(
    messages: Sequence[Values],
    outer: Values,
    codec: int,
    *,
    inner_bits: int = 0,
    damaged: bool = False,
    sealed: bool = True,
) -> bytes:
    """Return the bytes of a wrapper: the fields of its outer message, and the inner messages with the offsets given."""
    inner = [message_bytes(one, damaged=damaged and not at) for at, one in enumerate(messages)]
    if inner_bits:
        inner = [with_attributes(one, inner_bits) for one in inner]
    payload = CODECS[codec].forms[0](b"".join(inner))
    layout = LAYOUTS[outer["magic"]]
    plain = message_bytes({"key": None, **outer, "value": payload})
    data = message_with_checksums(layout.with_field("compression", plain, codec))
    return data if sealed else flipped(data, layout.offset("crc"))


def with_attributes(message: bytes, bits: int) -> bytes:
    """Return a message of magic 0 or 1 with more bits of its attributes set."""
    at = _ATTRIBUTES
    return message_with_checksums(message[:at] + bytes((message[at] | bits,)) + message[at + 1 :])


def flipped(data: bytes, at: int) -> bytes:
    """Return the bytes with all bits of one byte inverted."""
    return data[:at] + bytes((data[at] ^ 0xFF,)) + data[at + 1 :]
