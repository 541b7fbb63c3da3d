"""Filters in the data source: matching rows are read, other files and batches are skipped."""

from __future__ import annotations

import operator
import struct
from datetime import UTC, datetime, timedelta

import pytest

pytest.importorskip("pyspark", reason="the data source needs the extra spark")
pytest.importorskip("pyarrow", reason="the data source needs the extra spark")

from log_bytes import batch, message, record
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
)
from segment_files import RECORDS, partition, places, written

from conformance.pipeline.audit import segment_reader
from conformance.pipeline.kafka_log_source import KafkaLogDataSource

pytestmark = pytest.mark.integration

COMPARED = {
    EqualTo: operator.eq,
    EqualNullSafe: operator.eq,
    GreaterThan: operator.gt,
    GreaterThanOrEqual: operator.ge,
    LessThan: operator.lt,
    LessThanOrEqual: operator.le,
    In: lambda found, values: found in values,
}
LOG = partition()


def time(stamp):
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=stamp)


def rows_read(path, rows, filters):
    """Return the rows that the data source passes to Spark, which filters them again."""
    reader = KafkaLogDataSource({"path": str(path), "rows": rows}).reader(None)
    assert list(reader.pushFilters(filters)) == filters, "Spark applies all filters again"
    return [row for part in reader.partitions() for batch in reader.read(part) for row in batch.to_pylist()]


def passes(row, filters):
    return all(
        row[one.attribute[0]] is not None and COMPARED[type(one)](row[one.attribute[0]], one.value) for one in filters
    )


@pytest.fixture
def logs(tmp_path):
    """Return partitions 0 and 3 of two topics, with damage and an old file without a topic."""
    broken = [list(segment) for segment in LOG]
    broken[1][2] = broken[1][2][:70] + bytes((broken[1][2][70] ^ 1,)) + broken[1][2][71:]
    written(tmp_path, LOG, "orders-0")
    written(tmp_path, broken, "orders-3")
    written(tmp_path, LOG, "others-3")
    (tmp_path / f"{0:020}.log").write_bytes(LOG[0][0])
    return tmp_path


LAST = 12 * RECORDS - 1
SOME = [
    [EqualTo(("partition",), 3)],
    [In(("partition",), (3, 7)), EqualTo(("topic",), "orders")],
    [GreaterThan(("topic",), "orders")],
    [EqualTo(("offset",), 27)],
    [EqualNullSafe(("offset",), 0)],
    [GreaterThanOrEqual(("offset",), 18), LessThan(("offset",), 21)],
    [GreaterThan(("offset",), LAST - 1), LessThanOrEqual(("partition",), 0)],
    [LessThanOrEqual(("offset",), 0)],
    [In(("offset",), (3, LAST))],
    [GreaterThan(("offset",), LAST)],
    [GreaterThanOrEqual(("timestamp",), time(1000 + LAST))],
    [GreaterThanOrEqual(("timestampMillis",), 1000 + LAST - 1), LessThan(("timestampMillis",), 1000 + LAST)],
]


@pytest.mark.parametrize("filters", SOME, ids=[" ".join(str(one) for one in some) for some in SOME])
def test_a_filter_loses_no_matching_row_and_skips_other_batches(logs, monkeypatch, filters):
    decoded = []
    read_batch = segment_reader.read_batch
    monkeypatch.setattr(segment_reader, "read_batch", lambda data, at: decoded.append(at) or read_batch(data, at))
    everything = rows_read(logs, "records", [])
    before = len(decoded)
    found = rows_read(logs, "records", filters)
    assert [row for row in found if passes(row, filters)] == [row for row in everything if passes(row, filters)]
    assert len(decoded) - before < before
    wanted = {(row["path"], row["position"]) for row in everything if passes(row, filters)}
    assert len(decoded) - before <= len(wanted) + 3, "one damaged batch is read, and a batch may have a row in between"


@pytest.mark.parametrize(
    "filters",
    [
        [EqualTo(("baseOffset",), 25)],
        [GreaterThan(("maxTimestamp",), 1050)],
        [EqualTo(("compression",), "zstd")],
        [LessThan(("lastOffset",), 10), EqualTo(("producerId",), 7)],
    ],
    ids=str,
)
def test_batches_are_skipped_by_any_header_field(logs, filters):
    everything = rows_read(logs, "batches", [])
    found = rows_read(logs, "batches", filters)
    assert [row for row in found if passes(row, filters)] == [row for row in everything if passes(row, filters)]
    # The header of a damaged batch never skips it.
    assert [row["violation"] for row in found if not passes(row, filters)] in ([], ["crc.mismatch-corrupt"])


@pytest.mark.parametrize(
    "filters",
    [
        [IsNull(("partition",))],
        [Not(EqualTo(("partition",), 3))],
        [EqualNullSafe(("partition",), None)],
        [EqualTo(("key",), b"key-3")],
        [EqualTo(("timestamp",), datetime(2026, 1, 1))],  # noqa: DTZ001 - of no time zone
    ],
    ids=str,
)
def test_filters_beyond_headers_and_names_are_left_to_spark(logs, filters):
    assert rows_read(logs, "records", filters) == rows_read(logs, "records", [])


def test_a_wrong_size_does_not_hide_later_batches(tmp_path):
    damaged = bytearray(LOG[0][1])
    struct.pack_into(">i", damaged, 8, len(damaged))  # overlaps the next batch
    place = written(tmp_path, [[LOG[0][0], bytes(damaged), *LOG[0][2:]]])
    filters = [EqualTo(("offset",), 2 * RECORDS)]
    (row,) = [row for row in rows_read(place, "records", filters) if passes(row, filters)]
    assert row["position"] == places(LOG)[0][2]


def test_a_timestamp_column_has_a_time_if_possible_and_the_exact_number(tmp_path):
    stamps = [-1, 0, 1_700_000_000_123, 253_402_300_799_999, 253_402_300_800_000, (1 << 63) - 1]
    batches = [batch(at, [record(at, timestamp=stamp)]) for at, stamp in enumerate(stamps)]
    old = [message(6 + at, timestamp=stamp) for at, stamp in enumerate(stamps)]
    rows = rows_read(written(tmp_path, [[*batches, *old, message(12, magic=0)]]), "records", [])
    assert [row["timestampMillis"] for row in rows] == [*stamps, *stamps, None]
    shown = [None, *map(time, stamps[1:4]), None, None]
    assert [row["timestamp"] for row in rows] == [*shown, *shown, None]
