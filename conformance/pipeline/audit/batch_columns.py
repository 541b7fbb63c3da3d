"""A record batch as columns: its header, its plain records, and a row of numbers for each record. Needs numpy.

No object is made for a record. The returned batches are *clean*: the reference codec reads the same values and has no
remark. One exception: a batch without a producer may have a sequence, because Apache Kafka's coordinators write 0
there. All other batches are *unusual*, and the reference judges them. A difference between this module and the
reference is a bug.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

import numpy as np

from conformance.codec.checksums import CRC32C
from conformance.codec.compression import CODECS
from conformance.codec.control_record import CONTROL_KEYS
from conformance.codec.cursor import OFFLINE_LIMITS, RECORD_COST, Cursor, Findings, Malformed
from conformance.codec.record import RECORD
from conformance.codec.record_batch import BATCH_LAYOUT, CHECKSUMMED, HEADER_SIZE, OVERHEAD, SMALLEST
from conformance.pipeline.audit import record_kernels
from conformance.pipeline.audit.record_kernels import COLUMNS, HEADER_COLUMNS, Rows

_MIN, _MAX = -(1 << 63), (1 << 63) - 1
_HEADER = struct.Struct(">qiibIhiqqqhii")
_COMPRESSION = BATCH_LAYOUT.part("compression").mask
_LOG_APPEND_TIME = BATCH_LAYOUT.part("timestampType").mask
_TRANSACTIONAL = BATCH_LAYOUT.part("isTransactional").mask
_CONTROL = BATCH_LAYOUT.part("isControlBatch").mask


class BatchHeader(NamedTuple):
    """The header of a batch, with the field names of the documents (record-batch#overview)."""

    baseOffset: int  # noqa: N815 - the documents' names
    batchLength: int  # noqa: N815
    partitionLeaderEpoch: int  # noqa: N815
    magic: int
    crc: int
    attributes: int
    lastOffsetDelta: int  # noqa: N815
    baseTimestamp: int  # noqa: N815
    maxTimestamp: int  # noqa: N815
    producerId: int  # noqa: N815
    producerEpoch: int  # noqa: N815
    baseSequence: int  # noqa: N815
    recordCount: int  # noqa: N815

    @property
    def compression(self) -> int:
        """Return the number of the codec."""
        return self.attributes & _COMPRESSION

    @property
    def is_log_append_time(self) -> bool:
        """Return whether maxTimestamp is the timestamp of every record."""
        return bool(self.attributes & _LOG_APPEND_TIME)

    @property
    def is_transactional(self) -> bool:
        """Return whether the batch belongs to a transaction."""
        return bool(self.attributes & _TRANSACTIONAL)

    @property
    def is_control(self) -> bool:
        """Return whether the batch contains a control record."""
        return bool(self.attributes & _CONTROL)

    @property
    def last_offset(self) -> int:
        """Return the last offset of the batch (record-batch#offset-calculation)."""
        return self.baseOffset + self.lastOffsetDelta


class BatchColumns(NamedTuple):
    """A clean batch. `rows` has a column for each of COLUMNS; positions are bytes of `plain`."""

    header: BatchHeader
    plain: bytes
    rows: Rows
    header_count: int
    """The number of headers of all records."""
    max_timestamp: int
    """The largest timestamp calculated from the deltas, in milliseconds; the lowest INT64 without records."""

    def column(self, name: str) -> Rows:
        """Return a column of COLUMNS: a number for each record."""
        return self.rows[:, COLUMNS.index(name)]

    def offsets(self) -> Rows:
        """Return the absolute offset of each record."""
        return self.column("offsetDelta") + self.header.baseOffset

    def timestamps(self) -> Rows:
        """Return the timestamp of each record, in milliseconds (record-batch#timestamp-calculation)."""
        if self.header.is_log_append_time:
            return np.full(len(self.rows), self.header.maxTimestamp, np.int64)
        return self.column("timestampDelta") + self.header.baseTimestamp

    def headers(self) -> Rows:
        """Return a row for each header, with HEADER_COLUMNS as columns; `record` is the row of the record."""
        out = np.empty((self.header_count, len(HEADER_COLUMNS)), np.int64)
        record_kernels.headers(record_kernels.octets(self.plain), self.rows, out)
        return out

    def field(self, index: int, name: str) -> bytes | None:
        """Return the `key` or `value` of one record."""
        start, length = (int(self.rows[index, COLUMNS.index(f"{name}{part}")]) for part in ("Start", "Length"))
        return None if length < 0 else self.plain[start : start + length]


def header_at(data: bytes, at: int) -> BatchHeader:
    """Return the header of the batch at a position of `data`, unchecked. `data` must have 61 bytes from there."""
    return BatchHeader(*_HEADER.unpack_from(data, at))


def read_batch(data: bytes, at: int = 0) -> BatchColumns | None:
    """Return the batch at a position of `data`, or None for an unusual batch. More bytes may follow it."""
    if len(data) - at < HEADER_SIZE:
        return None
    header = header_at(data, at)
    stop = at + OVERHEAD + header.batchLength
    if header.batchLength < SMALLEST or stop > len(data) or not _is_usual(header):
        return None
    if CRC32C.compute(memoryview(data)[at + CHECKSUMMED : stop]) != header.crc:
        return None
    payload = data[at + HEADER_SIZE : stop]
    plain = _decompressed(payload, header.compression)
    return None if plain is None else _with_rows(header, plain)


def _is_usual(header: BatchHeader) -> bool:
    """Return whether the reference has no violation and no remark on the header."""
    return (
        header.magic == 2
        and not header.attributes & ~0x7F
        and header.compression < len(CODECS)
        and header.baseOffset >= 0
        and header.lastOffsetDelta >= 0
        and header.last_offset < _MAX
        and header.baseTimestamp >= -1
        and header.maxTimestamp >= -1
        and header.recordCount >= 0
        and _producer_fits(header)
        and not (header.is_control and (header.recordCount > 1 or header.compression))
    )


def _producer_fits(header: BatchHeader) -> bool:
    """Return whether producer id, epoch and sequence are consistent; a control batch needs no sequence."""
    if header.producerId == -1:
        return header.producerEpoch == -1 and header.baseSequence >= -1 and not header.is_transactional
    sequenced = header.baseSequence >= 0 or (header.is_control and header.baseSequence == -1)
    return header.producerId >= 0 and header.producerEpoch >= 0 and sequenced


def _decompressed(payload: bytes, codec: int) -> bytes | None:
    """Return the records decompressed by the reference within its limits; None for a remark or a violation."""
    if codec == 0:
        return payload
    findings = Findings(limits=OFFLINE_LIMITS)
    try:
        plain = CODECS[codec].open(Cursor(payload, findings), payload)
    except Malformed:
        return None
    return None if findings.remarks or findings.violations else plain


def _with_rows(header: BatchHeader, plain: bytes) -> BatchColumns | None:
    """Return the batch with its records as rows; None if a record is wrong or bytes are left over."""
    count = header.recordCount
    most = OFFLINE_LIMITS.elements // RECORD_COST if header.compression else count
    if count * RECORD.smallest > len(plain) or count > most:
        return None
    record_kernels.expect(len(plain))
    rows: Rows = np.empty((count, len(COLUMNS)), np.int64)
    sound, headers = record_kernels.records(record_kernels.octets(plain), 0, len(plain), rows)
    is_dense = header.compression and RECORD_COST * count + headers > OFFLINE_LIMITS.elements
    if sound != count or is_dense:
        return None
    if count == 0:
        return BatchColumns(header, plain, rows, 0, _MIN)
    if header.lastOffsetDelta < rows[-1, 3] or (header.is_control and not _is_marker(plain, rows, headers)):
        return None
    least, largest = record_kernels.timestamps(rows, header.baseTimestamp)
    if least < -1 and not header.is_log_append_time:
        return None
    return BatchColumns(header, plain, rows, headers, largest)


def _is_marker(plain: bytes, rows: Rows, headers: int) -> bool:
    start, length = int(rows[0, 4]), int(rows[0, 5])
    return not headers and plain[start : start + max(length, 0)] in CONTROL_KEYS
