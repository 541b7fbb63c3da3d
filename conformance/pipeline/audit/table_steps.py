"""The steps of an audit on rows of Arrow tables: segments to parts, parts to findings and states. Needs pyarrow.

`spark_runner` runs them in parallel on Spark, `local_runner` one after the other. A row for each segment becomes a row
for each of its parts. Each part is audited separately; a second, small step does the checks between parts.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from itertools import islice
from pathlib import Path

import msgspec
import pyarrow as pa
from msgspec import Struct
from msgspec.structs import asdict

from conformance.pipeline.audit.batch_checks import PartAudit
from conformance.pipeline.audit.part_state import NO_OFFSET, AuditFinding, LogStatistics, PartState, SegmentStatistics
from conformance.pipeline.audit.partition_rules import check_partition
from conformance.pipeline.audit.segment_reader import parts_of
from conformance.pipeline.audit.segments import Segment, SegmentPart

SPLIT_SIZE = 256 << 20
"""Bytes of a part of a large segment."""

_Row = Mapping[str, object]
"""A row of an Arrow table."""

_TEXT, _LONG = pa.string(), pa.int64()
_PLACE: dict[str, pa.DataType] = {"topic": _TEXT, "partition": pa.int32(), "directory": _TEXT, "path": _TEXT}
_SEGMENT: dict[str, pa.DataType] = {**_PLACE, "base_offset": _LONG, "size": _LONG, "is_last": pa.bool_()}
_SEGMENT["problem"] = _TEXT
SEGMENTS = pa.schema(_SEGMENT)
PARTS = pa.schema({**_SEGMENT, "start": _LONG, "stop": _LONG})
_FINDING: dict[str, pa.DataType] = {
    "position": _LONG,
    "base_offset": _LONG,
    "requirement": _TEXT,
    "level": _TEXT,
    "detail": _TEXT,
}
AUDITED = pa.schema({**_PLACE, **_FINDING, "part_state": pa.binary()})
"""A finding; after the findings of a part, its state."""
COUNTED = ("bytes", "batches", "records")
TOTALS = pa.schema({**_PLACE, **dict.fromkeys(COUNTED, _LONG)})

ORDER = ("path", "position", "requirement", "detail")
"""The order of the findings."""

LOGS = pa.schema({"log": pa.binary()})

FINDINGS = ("topic", "partition", "path", "position", "base_offset", "requirement", "level", "detail")
"""The columns of the findings."""

SUMMED_BY = ("topic", "partition", "requirement", "level")
"""The columns by which findings are summed, and the order of these sums."""

TABLES = ("findings", "partitions", "summary")
"""The tables that an audit writes, each into a folder."""

_FINDINGS_AT_ONCE = 4096
"""Findings of one Arrow batch."""


class AuditSettings(Struct, frozen=True):
    """The settings of an audit."""

    levels: Mapping[str, str]
    """The level of each requirement."""
    split_size: int = SPLIT_SIZE
    """Bytes."""
    never_compacted: tuple[str, ...] = ()
    """Globs over topics that were never compacted."""


def from_segments(segments: Sequence[Segment]) -> pa.Table:
    """Return a table with a row for each segment."""
    return pa.Table.from_pylist([asdict(segment) for segment in segments], SEGMENTS)


def _segment_of(row: _Row) -> Segment:
    return msgspec.convert({name: row[name] for name in Segment.__struct_fields__}, Segment)


def to_parts(batches: Iterator[pa.RecordBatch], size: int) -> Iterator[pa.RecordBatch]:
    """Convert segments to parts; an unreadable segment is one part, so that the audit reports it."""
    for batch in batches:
        for row in batch.to_pylist():
            segment = _segment_of(row)
            try:
                parts = list(parts_of(segment, size))
            except OSError:
                parts = [SegmentPart(segment, 0, segment.size)]
            yield pa.RecordBatch.from_pylist([{**row, "start": one.start, "stop": one.stop} for one in parts], PARTS)


def to_findings(batches: Iterator[pa.RecordBatch], levels: Mapping[str, str]) -> Iterator[pa.RecordBatch]:
    """Convert parts to findings, and add the state of each part after its findings."""
    for batch in batches:
        for row in batch.to_pylist():
            audit = PartAudit(SegmentPart(_segment_of(row), row["start"], row["stop"]), levels)
            yield from _finding_rows(audit.findings(), row)
            state = msgspec.msgpack.encode(audit.rules.finish())
            yield pa.RecordBatch.from_pylist([{**_place(row), "part_state": state}], AUDITED)


def _place(row: _Row) -> dict[str, object]:
    return {name: row[name] for name in _PLACE}


def _finding_rows(findings: Iterator[AuditFinding], row: _Row) -> Iterator[pa.RecordBatch]:
    place = _place(row)
    while rows := [{**place, **finding._asdict()} for finding in islice(findings, _FINDINGS_AT_ONCE)]:
        yield pa.RecordBatch.from_pylist(rows, AUDITED)


def partition_checker(uncompacted: Sequence[str]) -> Callable[[pa.Table], pa.Table]:
    """Return a function that converts the states of a partition's parts to the findings between them."""

    def check(table: pa.Table) -> pa.Table:
        rows = table.to_pylist()
        place = _place(rows[0])
        is_uncompacted = any(fnmatchcase(rows[0]["topic"] or "", pattern) for pattern in uncompacted)
        findings = check_partition([_state_of(row["part_state"]) for row in rows], uncompacted=is_uncompacted)
        return pa.Table.from_pylist([{**place, **finding._asdict()} for finding in findings], AUDITED)

    return check


def _state_of(encoded: bytes) -> PartState:
    return msgspec.msgpack.decode(encoded, type=PartState)


def to_totals(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Convert states to the counts of each part."""
    for batch in batches:
        rows = []
        for row in batch.to_pylist():
            state = _state_of(row["part_state"])
            counts = {"bytes": state.stop - state.start, "batches": state.batches, "records": state.records}
            rows.append({**_place(row), **counts})
        yield pa.RecordBatch.from_pylist(rows, TOTALS)


def to_log(table: pa.Table) -> pa.Table:
    """Convert the states of the parts of one directory to its statistics."""
    rows = table.to_pylist()
    log = LogStatistics(rows[0]["directory"], rows[0]["topic"], rows[0]["partition"])
    segments: dict[str, SegmentStatistics] = {}
    states = sorted((_state_of(row["part_state"]) for row in rows), key=lambda state: (state.segment, state.start))
    for state in states:
        log.shape.add(state.shape)
        segment = segments.setdefault(state.path, SegmentStatistics(state.path))
        segment.size = max(segment.size, state.stop)
        segment.batches += state.batches
        segment.records += state.records
        if state.last_offset != NO_OFFSET:
            segment.last_offset = state.last_offset
            segment.first_offset = state.first_offset if segment.first_offset is None else segment.first_offset
    log.segments = list(segments.values())
    return pa.Table.from_pylist([{"log": msgspec.msgpack.encode(log)}], LOGS)


def logs_of(encoded: Iterable[bytes]) -> list[LogStatistics]:
    """Return the statistics of the directories, by name."""
    logs = [msgspec.msgpack.decode(one, type=LogStatistics) for one in encoded]
    return sorted(logs, key=lambda log: log.directory)


def remove_tables(out: Path) -> None:
    """Remove the tables of an audit, so that the same command can start again."""
    for name in TABLES:
        shutil.rmtree(out / name, ignore_errors=True)
