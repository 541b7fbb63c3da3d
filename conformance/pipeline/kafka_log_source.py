"""Stored logs as a Spark data source: `spark.read.format("kafka-log").load(path)`. Needs pyspark, pyarrow, numpy.

Call `register(spark)` first. There is a row for each batch, or with `.option("rows", "records")` for each record. The
row of a batch that breaks the format names the broken requirement; its records are left out. A part of a segment is a
partition of Spark. Filters of the query are pushed down: segments and batches that cannot match are not read.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    InputPartition,
    LessThan,
    LessThanOrEqual,
)

from conformance.codec.compression import CODEC_NAMES
from conformance.codec.derived_fields import Values
from conformance.codec.log import first_offset, last_offset
from conformance.codec.record_batch import TIMESTAMP_TYPES, stored_magic
from conformance.pipeline.audit.batch_columns import BatchColumns, BatchHeader, header_at
from conformance.pipeline.audit.record_kernels import HEADER_COLUMNS
from conformance.pipeline.audit.segment_reader import LENGTH_RULE, FileWindow, Region, parts_of, regions
from conformance.pipeline.audit.segments import NoSegmentsError, Segment, SegmentPart, find_segments

Comparison: TypeAlias = EqualNullSafe | EqualTo | GreaterThan | GreaterThanOrEqual | In | LessThan | LessThanOrEqual

Span: TypeAlias = tuple[int | str, int | str] | None
"""The smallest and the largest value of a column in some rows; None: the column is null in all of them."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def usable(filters: Sequence[Filter], columns: Sequence[str]) -> list[Comparison]:
    """Return the filters that compare one of these columns with numbers, strings or times."""
    comparisons = [one for one in filters if isinstance(one, Comparison)]
    return [one for one in comparisons if one.attribute[0] in columns and all(map(_is_usable, _values(one)))]


def _is_usable(value: object) -> bool:
    return isinstance(value, int | str) or (isinstance(value, datetime) and value.tzinfo is not None)


def may_pass(filters: Sequence[Comparison], spans: Mapping[str, Span]) -> bool:
    """Return whether a row with columns within these spans may pass all filters."""
    return all(_may(one, spans[one.attribute[0]]) for one in filters if one.attribute[0] in spans)


def _may(one: Comparison, span: Span) -> bool:
    if span is None:
        return False
    least, largest = map(_rank, span)
    values = [_rank(value) for value in _values(one)]
    match one:
        case GreaterThan():
            return largest > values[0]
        case GreaterThanOrEqual():
            return largest >= values[0]
        case LessThan():
            return least < values[0]
        case LessThanOrEqual():
            return least <= values[0]
        case _:
            return any(least <= value <= largest for value in values)


def _values(one: Comparison) -> tuple[object, ...]:
    """Return the values that a filter compares with."""
    return one.value if isinstance(one, In) else (one.value,)


def _rank(value: object) -> tuple[int, bytes]:
    """Return a sort key like Spark's: a number, microseconds since 1970 for a time, UTF-8 bytes for a string."""
    if isinstance(value, datetime):
        return (value.astimezone(UTC) - _EPOCH) // timedelta(microseconds=1), b""
    return (value, b"") if isinstance(value, int) else (0, str(value).encode("utf-8", "surrogatepass"))


Numbers: TypeAlias = npt.NDArray[np.int64]
ArrowArray: TypeAlias = "pa.Array[Any]"
Cells: TypeAlias = dict[str, object]
"""The values of a row, by column."""

ROWS = ("batches", "records")
_SPLIT_SIZE = 256
"""MiB."""
_ROWS_AT_ONCE = 1 << 14
"""Rows of one Arrow batch for Spark."""

_TEXT, _INT, _LONG, _BIT = pa.string(), pa.int32(), pa.int64(), pa.bool_()
_TIME = pa.timestamp("us", tz="UTC")
_PLACE: dict[str, pa.DataType] = {"topic": _TEXT, "partition": _INT, "path": _TEXT, "position": _LONG}
_PRODUCER: dict[str, pa.DataType] = {"isTransactional": _BIT, "isControlBatch": _BIT, "producerId": _LONG}
_PRODUCER |= {"producerEpoch": _INT}

_BATCHES: dict[str, pa.DataType] = {
    **_PLACE,
    **{"size": _INT, "magic": _INT, "baseOffset": _LONG, "lastOffset": _LONG, "compression": _TEXT},
    **{"timestampType": _TEXT, **_PRODUCER, "baseSequence": _INT, "baseTimestamp": _LONG, "maxTimestamp": _LONG},
    **{"partitionLeaderEpoch": _INT, "crc": _LONG, "attributes": _INT, "recordCount": _INT, "violation": _TEXT},
}
_HEADERS = pa.list_(pa.struct([("key", _TEXT), ("value", pa.binary())]))
_RECORDS: dict[str, pa.DataType] = {
    **_PLACE,
    **{"offset": _LONG, "timestamp": _TIME, "timestampMillis": _LONG, "timestampType": _TEXT},
    **{"key": pa.binary(), "value": pa.binary(), "headers": _HEADERS, **_PRODUCER},
}
SCHEMAS = {"batches": pa.schema(_BATCHES), "records": pa.schema(_RECORDS)}
"""The columns of each kind of row, with the field names of the documents; positions are bytes of the file."""

_DDL = {_TEXT: "string", _INT: "int", _LONG: "bigint", _BIT: "boolean", pa.binary(): "binary", _TIME: "timestamp"}
_DDL[_HEADERS] = "array<struct<key: string, value: binary>>"


_TIMES = (-62_135_596_800_000, 253_402_300_799_999)
"""The range of timestamps that are converted to times, in milliseconds: the years 1 to 9999, the range of Spark."""


def register(spark: SparkSession) -> None:
    """Register the format `kafka-log` in a session and enable the push-down of filters."""
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    spark.dataSource.register(KafkaLogDataSource)


class KafkaLogDataSource(DataSource):
    """Options: `path` (the argument of load), `rows` (batches, records) and `splitSize` (MiB)."""

    @classmethod
    def name(cls) -> str:
        return "kafka-log"

    def schema(self) -> str:
        return ", ".join(f"`{field.name}` {_DDL[field.type]}" for field in SCHEMAS[self._rows()])

    def reader(self, schema: object) -> DataSourceReader:
        del schema
        path = self.options.get("path")
        if not path:
            raise ValueError(
                "kafka-log: load(): expected the path of a segment or of a folder with segments, found none"
            )
        size = self.options.get("splitSize", str(_SPLIT_SIZE))
        if not size.isdigit() or int(size) < 1:
            raise ValueError(f"kafka-log: splitSize: expected a number of MiB, found {size!r}")
        return _KafkaLogReader(path, self._rows(), int(size) << 20)

    def _rows(self) -> str:
        rows = str(self.options.get("rows", ROWS[0]))
        if rows not in ROWS:
            raise ValueError(f"kafka-log: rows: expected one of {', '.join(ROWS)}, found {rows!r}")
        return rows


class _SegmentPartition(InputPartition):
    def __init__(self, part: SegmentPart) -> None:
        super().__init__(part)
        self.part = part


class _KafkaLogReader(DataSourceReader):
    def __init__(self, path: str, rows: str, size: int) -> None:
        self.path, self.rows, self.size = path, rows, size
        self.filters: list[Comparison] = []

    def pushFilters(self, filters: list[Filter]) -> list[Filter]:  # noqa: N802 - as Spark calls it
        self.filters = usable(filters, SCHEMAS[self.rows].names)
        return filters

    def partitions(self) -> Sequence[InputPartition]:
        try:
            segments = find_segments([self.path])
        except NoSegmentsError as error:
            raise ValueError(f"kafka-log: {error}") from None
        wanted = (
            segment
            for segment, following in zip(segments, [*segments[1:], None], strict=True)
            if not segment.problem and may_pass(self.filters, _segment_spans(segment, following))
        )
        return [_SegmentPartition(part) for segment in wanted for part in parts_of(segment, self.size)]

    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        if isinstance(partition, _SegmentPartition):  # without partitions, Spark calls this with another object
            yield from read(partition.part, self.rows, self.filters)


def _segment_spans(segment: Segment, following: Segment | None) -> dict[str, Span]:
    """Return the spans of a segment's columns, from its file name and the name of the next segment."""
    topic, partition, base = segment.topic, segment.partition, segment.base_offset
    spans: dict[str, Span] = {
        "topic": None if topic is None else (topic, topic),
        "partition": None if partition is None else (partition, partition),
    }
    if base is not None:
        end = following.base_offset if following is not None and not segment.is_last else None
        offsets = (base, (1 << 63) if end is None else end - 1)
        spans |= dict.fromkeys(("offset", "baseOffset", "lastOffset"), offsets)
    return spans


def read(part: SegmentPart, rows: str, filters: Sequence[Comparison] = ()) -> Iterator[pa.RecordBatch]:
    """Yield the batches or records of a part of a segment that may pass the filters. Raises OSError."""
    segment = part.segment
    window = FileWindow(segment.path, segment.size)
    spans = _batch_spans if rows == "batches" else _record_spans
    is_wanted = (lambda header: may_pass(filters, spans(header))) if filters else None
    all_regions = regions(window, part.start, part.stop, is_wanted)
    yield from (_batches if rows == "batches" else _records)(all_regions, segment)
    window.close()


def _batch_spans(header: BatchHeader) -> dict[str, Span]:
    return {name: (value, value) for name, value in _header_cells(header).items() if isinstance(value, (int, str))}


def _record_spans(header: BatchHeader) -> dict[str, Span]:
    """Return the spans of the records' columns, from the header of their batch."""
    latest = header.maxTimestamp
    return {
        "offset": (header.baseOffset, header.last_offset),
        "timestamp": (_TIMES[0] * 1000, latest * 1000),
        "timestampMillis": (-(1 << 63), latest),
    }


def _place(region: Region, segment: Segment) -> Cells:
    return {"topic": segment.topic, "partition": segment.partition, "path": segment.path, "position": region.at}


# --- a row for each batch -----------------------------------------------------------------------------


def _batches(all_regions: Iterator[Region], segment: Segment) -> Iterator[pa.RecordBatch]:
    while rows := [_batch_row(region, segment) for region in islice(all_regions, _ROWS_AT_ONCE)]:
        yield pa.RecordBatch.from_pylist(rows, SCHEMAS["batches"])


def _batch_row(region: Region, segment: Segment) -> Cells:
    row = {**_place(region, segment), "size": region.end - region.at}
    if region.batch is not None:
        return row | _header_cells(region.batch.header)
    if region.entry is None:
        return row | {"violation": LENGTH_RULE}
    row["violation"] = region.entry.violations[0].requirement if region.entry.violations else None
    row["magic"] = stored_magic(region.data)
    return row | (_header_cells(header_at(region.data, 0)) if row["magic"] == 2 else _message_cells(region.entry.value))


def _header_cells(header: BatchHeader) -> Cells:
    names = {name: value for name, value in header._asdict().items() if name in _BATCHES}
    codec = header.compression
    return {
        **names,
        "lastOffset": header.last_offset,
        "compression": CODEC_NAMES[codec] if codec < len(CODEC_NAMES) else str(codec),
        "timestampType": TIMESTAMP_TYPES[header.is_log_append_time],
        "isTransactional": header.is_transactional,
        "isControlBatch": header.is_control,
    }


def _message_cells(entry: Values | None) -> Cells:
    """Return the cells of a message of magic 0 or 1; no cells if it could not be read."""
    if entry is None:
        return {}
    return {
        "baseOffset": first_offset(entry),
        "lastOffset": last_offset(entry),
        "compression": CODEC_NAMES[entry["compression"]],
        "recordCount": len(entry["messages"]),
    }


# --- a row for each record ----------------------------------------------------------------------------


def _records(all_regions: Iterator[Region], segment: Segment) -> Iterator[pa.RecordBatch]:
    waiting: list[pa.RecordBatch] = []
    count = 0
    for region in all_regions:
        waiting.append(_record_rows(region, segment))
        count += waiting[-1].num_rows
        if count >= _ROWS_AT_ONCE:
            yield from pa.Table.from_batches(waiting).combine_chunks().to_batches()
            waiting, count = [], 0
    yield from pa.Table.from_batches(waiting, SCHEMAS["records"]).combine_chunks().to_batches()


def _record_rows(region: Region, segment: Segment) -> pa.RecordBatch:
    place = _place(region, segment)
    if region.batch is not None:
        return _column_rows(region.batch, place)
    value = None if region.entry is None or region.entry.violations else region.entry.value
    if value is None:
        return pa.RecordBatch.from_pylist([], SCHEMAS["records"])
    producer = {name: value[name] for name in _PRODUCER if name in value}
    kind = value.get("timestampType")
    rows = [_record_row(record, place | producer, kind) for record in value.get("records", value.get("messages"))]
    return pa.RecordBatch.from_pylist(rows, SCHEMAS["records"])


def _record_row(record: Values, place: Cells, batch_kind: int | None) -> Cells:
    """Return the row of a record or a message. A message has its own timestamp type, a record that of its batch."""
    number = record.get("timestampType", batch_kind)
    headers = [{**header, "key": _well_formed(header["key"])} for header in record.get("headers", ())]
    return {
        **place,
        **{name: record[name] for name in ("offset", "key", "value")},
        "timestamp": _time(record.get("timestamp")),
        "timestampMillis": record.get("timestamp"),
        "timestampType": None if number is None else TIMESTAMP_TYPES[number],
        "headers": headers,
    }


def _time(stamp: int | None) -> int | None:
    """Return a timestamp in microseconds, as for Spark; None for -1 (no timestamp) and outside of _TIMES."""
    return None if stamp is None or stamp == -1 or not _TIMES[0] <= stamp <= _TIMES[1] else 1000 * stamp


def _times(stamps: Numbers) -> ArrowArray:
    """Return a column of timestamps, converted like `_time`."""
    is_none = (stamps == -1) | (stamps < _TIMES[0]) | (stamps > _TIMES[1])
    times: ArrowArray = pa.array(np.where(is_none, 0, stamps) * 1000, mask=is_none).cast(_TIME)
    return times


def _well_formed(text: str) -> str:
    """Return a text with ill-formed UTF-8 replaced by U+FFFD, as Apache Kafka does."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _column_rows(batch: BatchColumns, place: Cells) -> pa.RecordBatch:
    """Return the rows of a clean batch, built from columns: an object per record would be slow."""
    header, count = batch.header, len(batch.rows)
    constant = {**place, **{name: value for name, value in _header_cells(header).items() if name in _RECORDS}}
    arrays = {name: _repeated(value, _RECORDS[name], count) for name, value in constant.items()}
    arrays["offset"] = pa.array(batch.offsets())
    arrays["timestampMillis"] = pa.array(batch.timestamps())
    arrays["timestamp"] = _times(batch.timestamps())
    for name in ("key", "value"):
        starts, lengths = batch.column(f"{name}Start"), batch.column(f"{name}Length")
        arrays[name] = _slices(batch.plain, starts, lengths, pa.binary())
    arrays["headers"] = _headers(batch)
    return pa.RecordBatch.from_arrays([arrays[name] for name in _RECORDS], schema=SCHEMAS["records"])


def _repeated(value: object, kind: pa.DataType, count: int) -> ArrowArray:
    one: ArrowArray = pa.array([value], kind)
    return one.take(np.zeros(count, np.int64))


def _headers(batch: BatchColumns) -> ArrowArray:
    rows = batch.headers()
    start, length, value, size = (rows[:, HEADER_COLUMNS.index(name)] for name in HEADER_COLUMNS[1:])
    keys = _slices(batch.plain, start, length, _TEXT)
    values = _slices(batch.plain, value, size, pa.binary())
    ends = pa.array(np.concatenate(([0], np.cumsum(batch.column("headerCount")))), _INT)
    return pa.ListArray.from_arrays(ends, pa.StructArray.from_arrays([keys, values], names=["key", "value"]))


def _slices(plain: bytes, starts: Numbers, lengths: Numbers, kind: pa.DataType) -> ArrowArray:
    """Return an array of slices of `plain`, which must rise and not overlap; a negative length is null.

    An Arrow array of strings has no gaps. So an array of the slices and of the bytes between them is made without a
    copy, and its elements 0, 2, 4, … are taken.
    """
    if not len(starts):
        return pa.array([], kind)
    bounds = np.empty(2 * len(starts), np.int32)
    bounds[0::2] = starts
    bounds[1::2] = starts + np.maximum(lengths, 0)
    buffers = [None, pa.py_buffer(bounds.tobytes()), pa.py_buffer(plain)]
    whole = pa.Array.from_buffers(kind, len(bounds) - 1, buffers)
    slices = whole.take(np.arange(0, len(bounds) - 1, 2))
    shown: ArrowArray = pc.if_else(pa.array(lengths >= 0), slices, pa.scalar(None, kind))
    return shown
