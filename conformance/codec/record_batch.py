"""Record batch v2 (record-batch.md): header, record, batch and control record, as tables.

0        8       12      16     17   21          23                27             35            43
baseOffset batchLength leaderEpoch magic crc attributes lastOffsetDelta baseTimestamp maxTimestamp producerId
51            53           57          61
producerEpoch baseSequence recordCount records...
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from ctypes import c_int64
from typing import Any

from msgspec import Struct

from conformance.codec import json_notation as n
from conformance.codec.checksums import CRC32C
from conformance.codec.compression import CODEC_NAMES, CODECS
from conformance.codec.control_record import CONTROL_KEYS
from conformance.codec.cursor import RECORD_COST, Cursor, Definedness, Malformed, Unencodable
from conformance.codec.derived_fields import ByteLength, ChecksumOf, Constant, CountOf, Values
from conformance.codec.dispatch import decode_many, encode, encode_many
from conformance.codec.layout import BitField, Field, Layout, smallest, wire_of
from conformance.codec.primitives import INT8, INT16, INT32, INT64, UINT32
from conformance.codec.record import RECORD
from conformance.codec.wire_type import WireType

_INT64_MAX = (1 << 63) - 1

# --- records region -----------------------------------------------------------------------------------

_BATCHED = n.ListOf(n.ObjectOf({**RECORD.notation.fields, "offset": n.DECIMAL, "timestamp": n.DECIMAL}), nullable=False)


class _Records(Struct, frozen=True):
    """The records of a batch: recordCount records, in the codec of the attributes."""

    notation: Any = _BATCHED
    smallest: int = 0

    def read(self, cursor: Cursor, values: Values) -> tuple[Values, ...]:
        """Open the payload and read the records; no bytes may follow them."""
        count, codec = values["recordCount"], values["compression"]
        if codec >= len(CODECS):
            hint = f"codec is {codec}, expected 0 to {len(CODECS) - 1}"
            cursor.fail("codec.unassigned-values", hint, at=cursor.pos - HEADER_SIZE + CODEC_AT)
        count_at = cursor.pos - HEADER_SIZE + BATCH_LAYOUT.offset("recordCount")
        if count < 0:
            cursor.fail("batch.record-count-mismatch", f"recordCount is {count}, expected 0 or more", at=count_at)
        inner = self._open(cursor, codec, count)
        if inner is None:
            return ()
        if count * RECORD.smallest > inner.left:
            hint = f"recordCount is {count}, but {inner.left} bytes are left for the records"
            cursor.fail("batch.record-count-mismatch", hint, at=count_at)
        inner.count(RECORD_COST * count)
        records = decode_many(RECORD, inner, count, self._record)
        if inner.left:
            inner.fail("batch.record-count-mismatch", f"{inner.left} bytes are left after {count} records")
        cursor.pos = cursor.end
        return tuple(records)

    def write(self, values: Values) -> bytes:
        """Return the bytes of consecutive records, compressed as a whole."""
        plain = plain_records(values["records"])
        codec = values.get("compression", 0)
        if not isinstance(codec, int) or not 0 <= codec < len(CODECS):
            raise Unencodable("codec.unassigned-values", f"codec is {codec!r}, expected 0 to {len(CODECS) - 1}")
        return CODECS[codec].write(plain)

    def _open(self, cursor: Cursor, codec: int, count: int) -> Cursor | None:
        """Return a cursor over the decompressed records; None for a batch without records."""
        payload = cursor.data[cursor.pos : cursor.end]
        if count == 0:
            self._pass_over(cursor, codec, payload)
            return None
        if codec == 0:
            return cursor
        return cursor.within(CODECS[codec].open(cursor, payload))

    def _pass_over(self, cursor: Cursor, codec: int, payload: bytes) -> None:
        """Skip a batch without records; other bytes than an empty payload or stream are unspecified."""
        try:
            plain = CODECS[codec].open(cursor, payload)
        except Malformed as stop:
            cursor.remark("compression.empty-batch", f"recordCount is 0, but {stop.violation.hint}")
        else:
            if plain:
                cursor.remark("batch.record-count-mismatch", f"recordCount is 0, the payload has {len(plain)} bytes")
        cursor.pos = cursor.end

    @staticmethod
    def _record(cursor: Cursor, index: int) -> Values:
        if not cursor.tracing:
            return RECORD.decode(cursor)  # type: ignore[no-any-return]
        base, start = cursor.path, cursor.pos
        cursor.path = f"{base}[{index}]"
        record: Values = RECORD.decode(cursor)
        cursor.span("", start)
        cursor.path = base
        return record


def plain_records(records: Sequence[Values]) -> bytes:
    """Return the bytes of consecutive records, without compression. Raises Unencodable."""
    return encode_many(RECORD, records)


# --- batch --------------------------------------------------------------------------------------------

TIMESTAMP_TYPES = ("CreateTime", "LogAppendTime")

ATTRIBUTES = (
    BitField("compression", 0, 3, n.NamedNumber(CODEC_NAMES), "attributes.compression-bits"),
    BitField("timestampType", 3, 1, n.NamedNumber(TIMESTAMP_TYPES), "attributes.timestamp-type-bit"),
    BitField("isTransactional", 4, 1, n.TRUTH, "attributes.transactional-bit"),
    BitField("isControlBatch", 5, 1, n.TRUTH, "attributes.control-bit"),
    BitField("hasDeleteHorizonMs", 6, 1, n.TRUTH, "attributes.delete-horizon-bit"),
)
"""record-batch#batch-attributes; bits 7 to 15 are reserved."""


def _reserved_bits(cursor: Cursor, attributes: int, start: int) -> None:
    if attributes >> 7:
        hint = f"attributes are {attributes & 0xFFFF:04x}, which sets reserved bits"
        cursor.remark("attributes.reserved-bits", hint, at=start)


def _place_records(cursor: Cursor, batch: Values, start: int) -> None:
    """Set the absolute offset and timestamp of records (record-batch#offset-calculation, #timestamp-calculation)."""
    base, origin, append_time = batch["baseOffset"], batch["baseTimestamp"], batch["timestampType"]
    for record in batch["records"]:
        record["offset"] = base + record["offsetDelta"]
        record["timestamp"] = batch["maxTimestamp"] if append_time else origin + record["timestampDelta"]
    if _may_overflow(batch):
        for record in batch["records"]:
            _wrap(cursor, record, start)


def _may_overflow(batch: Values) -> bool:
    """Return True if an offset or timestamp may exceed INT64; only then each one is checked."""
    # offsetDelta has 32 bits, so only baseOffset can bring an offset near the limit.
    numbers = [batch["baseOffset"], *[record["timestamp"] for record in batch["records"]]]
    return bool(min(numbers) < -_INT64_MAX // 2 or max(numbers) > _INT64_MAX // 2)


def _wrap(cursor: Cursor, record: Values, start: int) -> None:
    """Reduce sums to 64 bits; a sum that changes is unspecified."""
    for name, rule in (("offset", "offset.record-formula"), ("timestamp", "timestamp.record-formula")):
        number = record[name]
        record[name] = wrapped(number)
        if record[name] != number:
            hint = f"{name} is {number}, which does not fit in an INT64"
            cursor.remark(rule, hint, at=start, openness=Definedness.ANY_VALUE)


def wrapped(number: int) -> int:
    """Return a sum of 64-bit numbers, reduced to 64 bits."""
    return c_int64(number).value


def _at(start: int, name: str) -> int:
    """Return the place of a field in the batch that begins at byte `start`."""
    return start + BATCH_LAYOUT.offset(name)


def _open_offsets(cursor: Cursor, batch: Values, start: int) -> None:
    deltas = [record["offsetDelta"] for record in batch["records"]]
    if not all(map(operator.lt, deltas, deltas[1:])):
        cursor.remark("record.offset-delta", "offset deltas do not increase", at=_at(start, "records"))
    if batch["baseOffset"] < 0:
        cursor.remark("batch.base-offset", f"baseOffset is {batch['baseOffset']}, expected 0 or more", at=start)
    last = batch["lastOffsetDelta"]
    if last < 0 or (deltas and last < max(deltas)):
        cursor.remark(
            "batch.last-offset-delta",
            f"lastOffsetDelta is {last}, expected {max([0, *deltas])} or more",
            at=_at(start, "lastOffsetDelta"),
        )
    if batch["baseOffset"] + last >= _INT64_MAX:
        cursor.remark(
            "offset.next-formula",
            "the next offset does not fit in an INT64",
            at=_at(start, "lastOffsetDelta"),
            openness=Definedness.ANY_VALUE,
        )


def _open_timestamps(cursor: Cursor, batch: Values, start: int) -> None:
    stamps = [record["timestamp"] for record in batch["records"]]
    if min(batch["baseTimestamp"], batch["maxTimestamp"], *stamps) < -1:
        cursor.remark("timestamp.record-formula", "a timestamp is below -1", at=_at(start, "baseTimestamp"))


def _open_producer(cursor: Cursor, batch: Values, start: int) -> None:
    known = [batch[name] >= 0 for name in ("producerId", "producerEpoch", "baseSequence")]
    control = batch["isControlBatch"]
    mixed = known[0] != known[1] or (known[0] != known[2] and not (control and known[0]))
    lowest = min(batch[name] for name in ("producerId", "producerEpoch", "baseSequence"))
    if mixed or lowest < -1 or (batch["isTransactional"] and not known[0]):
        cursor.remark(
            "non-idempotent.producer-id",
            "producerId, producerEpoch and baseSequence contradict each other",
            at=_at(start, "producerId"),
        )


def _open_control(cursor: Cursor, batch: Values, start: int) -> None:
    if not batch["isControlBatch"]:
        return
    if batch["recordCount"] > 1:
        cursor.remark(
            "control.single-record",
            f"the control batch has {batch['recordCount']} records, expected 1",
            at=_at(start, "recordCount"),
        )
    if any(record["key"] not in CONTROL_KEYS or record["headers"] for record in batch["records"]):
        cursor.remark(
            "control.key-layout",
            "a control record has an unknown key, or headers",
            at=_at(start, "records"),
        )
    if batch["compression"]:
        cursor.remark("control.single-record", "the control batch is compressed", at=_at(start, "attributes"))


_COUNTED = (
    Field("partitionLeaderEpoch", INT32, "batch.partition-leader-epoch"),
    Field("magic", INT8, "batch.magic", derive=Constant(2, "batch.magic")),
    Field("crc", UINT32, "batch.crc", derive=ChecksumOf(CRC32C, "crc.mismatch-corrupt")),
    Field("attributes", INT16, "batch.attributes", bits=ATTRIBUTES, check=_reserved_bits),
    Field("lastOffsetDelta", INT32, "batch.last-offset-delta"),
    Field("baseTimestamp", INT64, "batch.base-timestamp"),
    Field("maxTimestamp", INT64, "batch.max-timestamp"),
    Field("producerId", INT64, "batch.producer-id"),
    Field("producerEpoch", INT16, "batch.producer-epoch"),
    Field("baseSequence", INT32, "batch.base-sequence"),
    Field("recordCount", INT32, "batch.record-count", derive=CountOf("records")),
    Field("records", _Records(), "batch.record-count"),
)
"""The fields that batchLength counts."""

SMALLEST = smallest(_COUNTED)
"""The least batchLength: that of a batch without records."""

BATCH_LAYOUT = Layout(
    "RECORD_BATCH",
    (
        Field("baseOffset", INT64, "batch.base-offset"),
        Field("batchLength", INT32, "batch.batch-length", derive=ByteLength("batch.length-wrong-rejected", SMALLEST)),
        *_COUNTED,
    ),
    rules=(_place_records, _open_offsets, _open_timestamps, _open_producer, _open_control),
)
RECORD_BATCH = wire_of(BATCH_LAYOUT)

HEADER_SIZE = BATCH_LAYOUT.offset("records")
"""Bytes of a batch before its records (record-batch#overview)."""

OVERHEAD = BATCH_LAYOUT.offset("partitionLeaderEpoch")
"""Bytes of an entry of any magic before the bytes that its size counts (record-batch#size-calculation)."""

MAGIC_AT = BATCH_LAYOUT.offset("magic")
"""The place of the magic byte in an entry of any magic (record-batch#magic-byte-location)."""

CHECKSUMMED = BATCH_LAYOUT.offset("attributes")
"""The first byte that the crc covers (record-batch#crc-coverage)."""

CODEC_AT = BATCH_LAYOUT.span("attributes").stop - 1
"""The byte of the attributes with the bits of the codec."""


def _whole(cursor: Cursor) -> bytes:
    return cursor.take(cursor.left, "batch.records-at-61", "payload")


PACKED_BATCH = wire_of(
    Layout("RECORD_BATCH", (*BATCH_LAYOUT.fields[:-1], Field("payload", WireType("payload", _whole, bytes, n.HEX, 0))))
)
"""The batch with its records as any bytes, the `payload`; of `records` only the number is used."""


def stored_offset(data: bytes, at: int = 0) -> int:
    """Return the offset in the first bytes of the entry (of any magic) at byte `at`."""
    return BATCH_LAYOUT.read_field("baseOffset", data, at)


def stored_size(data: bytes, at: int = 0) -> int:
    """Return the size that the entry (of any magic) at byte `at` states, in bytes beyond OVERHEAD."""
    return BATCH_LAYOUT.read_field("batchLength", data, at)


def stored_magic(data: bytes, at: int = 0) -> int:
    """Return the magic of the entry at byte `at`; -1 if the bytes end before it."""
    return data[at + MAGIC_AT] if len(data) - at > MAGIC_AT else -1


def with_checksums(batch: bytes, *, length: bool = True, crc: bool = True) -> bytes:
    """Return a batch with correct length and checksum for its bytes; an incomplete one stays unchanged."""
    return BATCH_LAYOUT.with_checksums(batch, [*["batchLength"] * length, *["crc"] * crc])


ENCODE_FIELDS = (
    "baseOffset",
    "partitionLeaderEpoch",
    "compression",
    "timestampType",
    "isTransactional",
    "isControlBatch",
    "producerId",
    "producerEpoch",
    "baseSequence",
    "records",
)
"""The fields of a batch that an encoder receives; it derives the rest."""

RECORD_ENCODE_FIELDS = ("offset", "timestamp", "key", "value", "headers")


def build(request: Values) -> Values:
    """Return all fields of the batch for an application's choices (ENCODE_FIELDS, records with RECORD_ENCODE_FIELDS).

    baseTimestamp is the first record's timestamp, maxTimestamp the largest, lastOffsetDelta the last record's offset
    relative to baseOffset. Raises Unencodable for a batch without records or a missing field.
    """
    for name in ENCODE_FIELDS:
        if name not in request:
            raise Unencodable("general.exact-encoding", f"{name} is missing")
    records = request["records"]
    if not records:
        raise Unencodable("batch.one-or-more-records", "a batch needs at least one record")
    for index, record in enumerate(records):
        for name in RECORD_ENCODE_FIELDS:
            if name not in record:
                raise Unencodable("general.exact-encoding", f"records[{index}].{name} is missing")
    base, origin = request["baseOffset"], records[0]["timestamp"]
    return {
        **{name: request[name] for name in ENCODE_FIELDS},
        "lastOffsetDelta": records[-1]["offset"] - base,
        "baseTimestamp": origin,
        "maxTimestamp": max(record["timestamp"] for record in records),
        "records": tuple(
            {
                **record,
                "attributes": 0,
                "offsetDelta": record["offset"] - base,
                "timestampDelta": record["timestamp"] - origin,
            }
            for record in records
        ),
    }


def encode_built(request: Values) -> bytes:
    """Return the bytes of the batch that `build` returns."""
    return encode(RECORD_BATCH, build(request))
