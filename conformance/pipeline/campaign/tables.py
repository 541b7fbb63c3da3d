"""The tables of a campaign as Parquet: a file for each slice, and the tables made of these files. Needs pyarrow.

The file of a slice contains its failing cases and its counts of results. Renaming the file to its final name commits
the slice. So each slice counts once, even if several executors judged it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from conformance.errors import FileError
from conformance.files.atomic import replacing
from conformance.pipeline.campaign.rows import Row, SliceRows

_TEXT = pa.string()


def _column(name: str, of: pa.DataType, *, nullable: bool = False) -> pa.Field[Any]:
    return pa.field(name, of, nullable=nullable)


_KEYS = [
    _column("target", _TEXT),
    _column("type", _TEXT),
    _column("op", _TEXT),
    _column("requirement", _TEXT),
    _column("level", _TEXT),
    _column("disputed", pa.bool_()),
    _column("mutation", _TEXT),
    _column("verdict", _TEXT),
]
COUNTS = pa.schema([*_KEYS, _column("unobserved", pa.bool_()), _column("count", pa.int64())])
"""The number of cases by result; `unobserved`: judged only on the fields that the target shows."""

FAILURES = pa.schema(
    [
        _column("slice", pa.int32()),
        _column("id", _TEXT),
        *_KEYS,
        _column("field", _TEXT),
        _column("cause", _TEXT),
        _column("flaky", pa.bool_()),
        _column("detail", _TEXT),
        _column("size", pa.int32()),
        _column("hex", _TEXT, nullable=True),
        _column("request", _TEXT),
        _column("expected", _TEXT),
        _column("actual", _TEXT),
    ]
)
"""Cases that failed, crashed, timed out or broke the protocol. `field`: the path of the different field. `size`: the
number of bytes in `hex`. `request`, `expected` and `actual` are JSON, in the notation of the line protocol."""

_SLICE = pa.schema(
    [
        _column("counts", pa.list_(pa.struct(list(COUNTS)))),
        _column("failures", pa.list_(pa.struct(list(FAILURES)))),
    ]
)

CLUSTERS = pa.schema([*_KEYS, _column("field", _TEXT), _column("count", pa.int64()), _column("smallest", _TEXT)])
"""The common values of failures, their number, and the id of the smallest; `field` has no indexes of elements."""

_ROWS_AT_ONCE = 10_000
"""Rows that are collected before they are written or summed."""


# --- one slice ----------------------------------------------------------------------------------------


def commit(rows: SliceRows, path: Path) -> None:
    """Write the rows of a slice to `path`, completely or not at all. Raises OSError."""
    table = pa.Table.from_pylist([{"counts": rows.counts(), "failures": rows.failures}], _SLICE)
    with replacing(path) as fresh:
        pq.write_table(table, fresh, compression="zstd")


def is_sound(path: Path) -> bool:
    """Return whether the file of a slice is readable: a full or failing disk can leave a damaged file."""
    try:
        _slice_tables(path)
    except (OSError, ValueError, KeyError, pa.ArrowException):
        return False
    return True


def _slice_tables(path: Path) -> tuple[pa.Table, pa.Table]:
    """Return the counts and the failures in the file of a slice."""
    with pq.ParquetFile(path) as file:
        row = file.read()
    return _flat(row, "counts", COUNTS), _flat(row, "failures", FAILURES)


# --- a campaign ---------------------------------------------------------------------------------------


def merge_slices(slices: Iterable[Path], counts: Path, failures: Path) -> None:
    """Merge the files of slices, in their order, into the two tables of a campaign. Raises OSError."""
    summed: list[pa.Table] = []
    with replacing(failures) as fresh, pq.ParquetWriter(fresh, FAILURES, compression="zstd") as out:
        waiting: list[pa.Table] = []
        for path in slices:
            counted, failed = _slice_tables(path)
            summed.append(counted)
            waiting.append(failed)
            if _rows(summed) > _ROWS_AT_ONCE:
                summed = [_summed(summed)]
            if _rows(waiting) > _ROWS_AT_ONCE:
                out.write_table(pa.concat_tables(waiting))
                waiting = []
        out.write_table(pa.concat_tables([FAILURES.empty_table(), *waiting]))
    with replacing(counts) as fresh:
        pq.write_table(_summed([COUNTS.empty_table(), *summed]), fresh, compression="zstd")


def _flat(row: pa.Table, name: str, schema: pa.Schema) -> pa.Table:
    """Return the table in a column that contains one list of structs."""
    lists = cast("pa.ListArray[pa.StructScalar]", row.column(name).combine_chunks())
    return pa.Table.from_arrays(cast("pa.StructArray", lists.flatten()).flatten(), schema=schema)


def _rows(tables: Sequence[pa.Table]) -> int:
    return sum(table.num_rows for table in tables)


def _summed(tables: Sequence[pa.Table]) -> pa.Table:
    """Sum the counts of several tables by key; return the sorted table."""
    keys = COUNTS.names[:-1]
    table = pa.concat_tables(tables).group_by(keys).aggregate([("count", "sum")]).rename_columns([*keys, "count"])
    return table.sort_by([(name, "ascending") for name in keys]).cast(COUNTS)


def write(path: Path, rows: Sequence[Mapping[str, object]], schema: pa.Schema) -> None:
    """Write a small table, completely or not at all. Raises OSError."""
    with replacing(path) as fresh:
        pq.write_table(pa.Table.from_pylist(list(rows), schema), fresh, compression="zstd")


# --- reading ------------------------------------------------------------------------------------------


def rows_of(path: Path, columns: list[str] | None = None) -> Iterator[Row]:
    """Yield the rows of a table; a few thousand are in memory at a time. Raises FileError or OSError."""
    try:
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches(batch_size=_ROWS_AT_ONCE // 4, columns=columns):
                yield from batch.to_pylist()
    except (pa.ArrowException, KeyError) as error:
        problem = " ".join(str(error).split())
        raise FileError(path, f"damaged: {problem}; remove the folder to start again") from None


def failures_of(path: Path, target: str, ids: Sequence[str]) -> list[Row]:
    """Return the failures of a target with these ids, in the order of the ids. Raises OSError."""
    wanted = (pc.field("target") == target) & pc.field("id").isin(pa.array(ids, _TEXT))
    by_id = {row["id"]: row for row in pq.read_table(path, filters=wanted).to_pylist()}
    return [by_id[identity] for identity in ids]
