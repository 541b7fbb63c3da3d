"""Stored logs as a Spark data source: `spark.read.format("kafka-log").load(path)`, after `register(spark)`.

A row a batch, or with `.option("rows", "records")` a row a record. Batches that break the format stand among the
batches with what they break; their records are left out. A part of a segment is a partition.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

from conformance.codec.compression import CODEC_NAMES
from conformance.codec.log import first_offset, last_offset
from conformance.codec.record_batch import TIMESTAMP_TYPES, stored_magic
from conformance.pipeline.audit.columns import Batch, Header, header_at
from conformance.pipeline.audit.kernels import HEADER_COLUMNS
from conformance.pipeline.audit.segments import NoSegments, Segment, Split, Window, find_segments, splits
from conformance.pipeline.audit.walk import LENGTH_RULE, Step, walk

ROWS = ("batches", "records")
_SPLIT = 256
_MANY = 1 << 14
"""Rows handed to Spark at a time."""

_TEXT, _INT, _LONG, _BIT = pa.string(), pa.int32(), pa.int64(), pa.bool_()
_PLACE: dict[str, pa.DataType] = {"topic": _TEXT, "partition": _INT, "path": _TEXT, "position": _LONG}
_WHOSE: dict[str, pa.DataType] = {"isTransactional": _BIT, "isControlBatch": _BIT, "producerId": _LONG}
_WHOSE |= {"producerEpoch": _INT}

_BATCHES: dict[str, pa.DataType] = {
    **_PLACE,
    **{"size": _INT, "magic": _INT, "baseOffset": _LONG, "lastOffset": _LONG, "compression": _TEXT},
    **{"timestampType": _TEXT, **_WHOSE, "baseSequence": _INT, "baseTimestamp": _LONG, "maxTimestamp": _LONG},
    **{"partitionLeaderEpoch": _INT, "crc": _LONG, "attributes": _INT, "recordCount": _INT, "violation": _TEXT},
}
_HEADERS = pa.list_(pa.struct([("key", _TEXT), ("value", pa.binary())]))
_RECORDS: dict[str, pa.DataType] = {
    **_PLACE,
    **{"offset": _LONG, "timestamp": _LONG, "timestampType": _TEXT, "key": pa.binary(), "value": pa.binary()},
    **{"headers": _HEADERS, **_WHOSE},
}
SCHEMAS = {"batches": pa.schema(_BATCHES), "records": pa.schema(_RECORDS)}
"""What each kind of row holds, by the names of the documents; positions are bytes of the file."""

_DDL = {_TEXT: "string", _INT: "int", _LONG: "bigint", _BIT: "boolean", pa.binary(): "binary"}
_DDL[_HEADERS] = "array<struct<key: string, value: binary>>"

Numbers = npt.NDArray[np.int64]


def register(spark: SparkSession) -> None:
    """Make the format `kafka-log` known to a session."""
    spark.dataSource.register(KafkaLog)


class KafkaLog(DataSource):
    """Options: `path` (of load), `rows` (batches, records) and `splitSize` (MiB)."""

    @classmethod
    def name(cls) -> str:
        return "kafka-log"

    def schema(self) -> str:
        return ", ".join(f"`{field.name}` {_DDL[field.type]}" for field in SCHEMAS[self._rows()])

    def reader(self, schema: Any) -> DataSourceReader:
        del schema
        path = self.options.get("path")
        if not path:
            raise ValueError("kafka-log: load is told a path, of a segment or of a folder with segments")
        size = self.options.get("splitSize", str(_SPLIT))
        if not size.isdigit() or int(size) < 1:
            raise ValueError(f"kafka-log: splitSize is a number of MiB, not {size!r}")
        return _Reader(path, self._rows(), int(size) << 20)

    def _rows(self) -> str:
        rows = str(self.options.get("rows", ROWS[0]))
        if rows not in ROWS:
            raise ValueError(f"kafka-log: rows is one of {', '.join(ROWS)}, not {rows!r}")
        return rows


class _Part(InputPartition):
    def __init__(self, split: Split) -> None:
        super().__init__(split)
        self.split = split


class _Reader(DataSourceReader):
    def __init__(self, path: str, rows: str, size: int) -> None:
        self.path, self.rows, self.size = path, rows, size

    def partitions(self) -> Sequence[InputPartition]:
        try:
            found = find_segments([self.path])
        except NoSegments as error:
            raise ValueError(f"kafka-log: {error}") from None
        return [_Part(split) for segment in found for split in splits(segment, self.size)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, _Part)
        return read(partition.split, self.rows)


def read(split: Split, rows: str) -> Iterator[pa.RecordBatch]:
    """The batches, or records, of a part of a segment, in order. Raises OSError."""
    window = Window(split.segment.path, split.segment.size)
    steps = walk(window, split.start, split.stop)
    yield from (_batches if rows == "batches" else _records)(steps, split.segment)
    window.close()


def _place(step: Step, segment: Segment) -> dict[str, Any]:
    return {"topic": segment.topic, "partition": segment.partition, "path": segment.path, "position": step.at}


# --- a row a batch ------------------------------------------------------------------------------------


def _batches(steps: Iterator[Step], segment: Segment) -> Iterator[pa.RecordBatch]:
    while rows := [_batch(step, segment) for step in islice(steps, _MANY)]:
        yield pa.RecordBatch.from_pylist(rows, SCHEMAS["batches"])


def _batch(step: Step, segment: Segment) -> dict[str, Any]:
    row = {**_place(step, segment), "size": step.end - step.at}
    if step.batch is not None:
        return row | _of_header(step.batch.header)
    if step.entry is None:
        return row | {"violation": LENGTH_RULE}
    row["violation"] = step.entry.violations[0].requirement if step.entry.violations else None
    row["magic"] = stored_magic(step.data)
    return row | (_of_header(header_at(step.data, 0)) if row["magic"] == 2 else _of_old(step.entry.value))


def _of_header(header: Header) -> dict[str, Any]:
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


def _of_old(entry: Any) -> dict[str, Any]:
    """What there is of a message of magic 0 or 1; nothing where it could not be read."""
    if entry is None:
        return {}
    return {
        "baseOffset": first_offset(entry),
        "lastOffset": last_offset(entry),
        "compression": CODEC_NAMES[entry["compression"]],
        "recordCount": len(entry["messages"]),
    }


# --- a row a record -----------------------------------------------------------------------------------


def _records(steps: Iterator[Step], segment: Segment) -> Iterator[pa.RecordBatch]:
    held: list[pa.RecordBatch] = []
    rows = 0
    for step in steps:
        held.append(_of_step(step, segment))
        rows += held[-1].num_rows
        if rows >= _MANY:
            yield from pa.Table.from_batches(held).combine_chunks().to_batches()
            held, rows = [], 0
    yield from pa.Table.from_batches(held, SCHEMAS["records"]).combine_chunks().to_batches()


def _of_step(step: Step, segment: Segment) -> pa.RecordBatch:
    place = _place(step, segment)
    if step.batch is not None:
        return _of_columns(step.batch, place)
    value = None if step.entry is None or step.entry.violations else step.entry.value
    if value is None:
        return pa.RecordBatch.from_pylist([], SCHEMAS["records"])
    whose = {name: value[name] for name in _WHOSE if name in value}
    kind = value.get("timestampType")
    rows = [_of_record(record, place | whose, kind) for record in value.get("records", value.get("messages"))]
    return pa.RecordBatch.from_pylist(rows, SCHEMAS["records"])


def _of_record(record: dict[str, Any], place: dict[str, Any], kind: int | None) -> dict[str, Any]:
    number = record.get("timestampType", kind)
    headers = [{**header, "key": _well_formed(header["key"])} for header in record.get("headers", ())]
    return {
        **place,
        **{name: record[name] for name in ("offset", "key", "value")},
        "timestamp": record.get("timestamp"),
        "timestampType": None if number is None else TIMESTAMP_TYPES[number],
        "headers": headers,
    }


def _well_formed(text: str) -> str:
    """What is no UTF-8, as Apache Kafka shows it."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _of_columns(batch: Batch, place: dict[str, Any]) -> pa.RecordBatch:
    """The records of a clean batch, without an object for any of them."""
    header, count = batch.header, len(batch.rows)
    constant = {**place, **{name: value for name, value in _of_header(header).items() if name in _RECORDS}}
    found: dict[str, Any] = {name: _repeated(value, _RECORDS[name], count) for name, value in constant.items()}
    found["offset"] = pa.array(batch.offsets())
    found["timestamp"] = pa.array(batch.timestamps())
    for name in ("key", "value"):
        starts, lengths = batch.column(f"{name}Start"), batch.column(f"{name}Length")
        found[name] = _slices(batch.plain, starts, lengths, pa.binary())
    found["headers"] = _headers(batch)
    return pa.RecordBatch.from_arrays([found[name] for name in _RECORDS], schema=SCHEMAS["records"])


def _repeated(value: Any, kind: Any, count: int) -> Any:
    return pa.repeat(cast("Any", pa.scalar(value, kind)), count)


def _headers(batch: Batch) -> Any:
    rows = batch.headers()
    start, length, value, size = (rows[:, HEADER_COLUMNS.index(name)] for name in HEADER_COLUMNS[1:])
    keys = _slices(batch.plain, start, length, _TEXT)
    values = _slices(batch.plain, value, size, pa.binary())
    ends: Any = pa.array(np.concatenate(([0], np.cumsum(batch.column("headerCount")))), _INT)
    return pa.ListArray.from_arrays(ends, pa.StructArray.from_arrays([keys, values], names=["key", "value"]))


def _slices(plain: bytes, starts: Numbers, lengths: Numbers, kind: pa.DataType) -> Any:
    """Pieces of bytes, in order and apart; null where the length is below 0.

    An array whose every second element is what lies between two pieces, of which the others are taken.
    """
    if not len(starts):
        return pa.array([], kind)
    bounds = np.empty(2 * len(starts), np.int32)
    bounds[0::2] = starts
    bounds[1::2] = starts + np.maximum(lengths, 0)
    buffers = [None, pa.py_buffer(bounds.tobytes()), pa.py_buffer(plain)]
    whole = pa.Array.from_buffers(kind, len(bounds) - 1, buffers)
    found = whole.take(np.arange(0, len(bounds) - 1, 2))
    return pc.if_else(pa.array(lengths >= 0), found, pa.scalar(None, kind))
