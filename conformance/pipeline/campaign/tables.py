"""Results as rows: the schemas, a file a slice, and the tables of a whole campaign made of these files.

A slice is committed by the renaming of its file, which holds all there is of it: its failing cases whole, and how many
there were of each kind. So it counts once, however often and wherever it was judged.
"""

from __future__ import annotations

import os
import uuid
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from conformance.cases.model import Kind
from conformance.reports.explain import actual_json, expected_json
from conformance.running.results import Result

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
"""How many cases came out how; `unobserved`: judged on the fields that the target shows, and not on all."""

FAILURES = pa.schema(
    [
        _column("slice", pa.int32()),
        _column("id", _TEXT),
        *_KEYS,
        _column("field", _TEXT),
        _column("flaky", pa.bool_()),
        _column("detail", _TEXT),
        _column("size", pa.int32()),
        _column("hex", _TEXT, nullable=True),
        _column("request", _TEXT),
        _column("expected", _TEXT),
        _column("actual", _TEXT),
    ]
)
"""Cases that failed, crashed, timed out or broke the protocol. `field`: where expected and actual part. `size`: of the
bytes in `hex`. `request`, `expected` and `actual` are JSON, in the notation of the target protocol."""

_SLICE = pa.schema(
    [
        _column("counts", pa.list_(pa.struct(list(COUNTS)))),
        _column("failures", pa.list_(pa.struct(list(FAILURES)))),
    ]
)

CLUSTERS = pa.schema(
    [
        *_KEYS,
        _column("field", _TEXT),
        _column("count", pa.int64()),
        _column("smallest", _TEXT),
    ]
)
"""Failures that are the same: how many, and the id of the smallest. `field`: whatever the index of an element."""

_WHOLE = (Kind.FAIL, Kind.CRASH, Kind.TIMEOUT, Kind.PROTOCOL)
_KEPT = 10_000
"""Rows gathered before they are written or summed."""


class SliceRows:
    """Gathers the results of one slice."""

    def __init__(self, number: int) -> None:
        """Empty, for the slice of this number."""
        self._number = number
        self._counts: Counter[tuple[Any, ...]] = Counter()
        self._failures: list[dict[str, Any]] = []

    def add(self, result: Result) -> None:
        """Count a result, and keep it whole where it failed."""
        case, verdict = result.case, result.verdict
        asked = (result.target, case.type, case.op, result.requirement, result.level)
        key = (*asked, result.disputed, case.mutation, str(verdict.kind))
        self._counts[*key, bool(verdict.unobserved)] += 1
        if verdict.kind in _WHOLE:
            self._failures.append(
                {
                    "slice": self._number,
                    "id": case.id,
                    **dict(zip((field.name for field in _KEYS), key, strict=True)),
                    "field": verdict.path,
                    "flaky": verdict.flaky,
                    "detail": verdict.detail,
                    "size": len(case.data or b""),
                    "hex": None if case.data is None else case.data.hex(),
                    "request": _json(case.request),
                    "expected": _json(expected_json(case)),
                    "actual": _json(actual_json(result)),
                }
            )

    def commit(self, path: Path) -> None:
        """Write it all, or nothing, to `path`. Raises OSError."""
        counts = [dict(zip(COUNTS.names, (*key, count), strict=True)) for key, count in sorted(self._counts.items())]
        table = pa.Table.from_pylist([{"counts": counts, "failures": self._failures}], _SLICE)
        with replacing(path) as fresh:
            pq.write_table(table, fresh, compression="zstd")


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """A path to write to that becomes `path` when all went well, and is gone otherwise. Raises OSError."""
    fresh = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}")
    try:
        yield fresh
        with fresh.open("rb") as written:
            os.fsync(written.fileno())
        fresh.replace(path)
    finally:
        fresh.unlink(missing_ok=True)


# --- of a whole campaign ------------------------------------------------------------------------------


def gather(slices: Iterable[Path], counts: Path, failures: Path) -> None:
    """Make the two tables of a campaign from the files of its slices, in their order. Raises OSError."""
    summed: list[pa.Table] = []
    with replacing(failures) as fresh, pq.ParquetWriter(fresh, FAILURES, compression="zstd") as out:
        waiting: list[pa.Table] = []
        for path in slices:
            with pq.ParquetFile(path) as file:
                row = file.read()
            summed.append(_flat(row, "counts", COUNTS))
            waiting.append(_flat(row, "failures", FAILURES))
            if _rows(summed) > _KEPT:
                summed = [_summed(summed)]
            if _rows(waiting) > _KEPT:
                out.write_table(pa.concat_tables(waiting))
                waiting = []
        out.write_table(pa.concat_tables([FAILURES.empty_table(), *waiting]))
    with replacing(counts) as fresh:
        pq.write_table(_summed([COUNTS.empty_table(), *summed]), fresh, compression="zstd")


def _flat(row: pa.Table, name: str, schema: pa.Schema) -> pa.Table:
    rows: Any = row.column(name).combine_chunks()
    return pa.Table.from_arrays(rows.flatten().flatten(), schema=schema)


def _rows(tables: Sequence[pa.Table]) -> int:
    return sum(table.num_rows for table in tables)


def _summed(tables: Sequence[pa.Table]) -> pa.Table:
    """The counts of several tables, one row a kind, sorted."""
    keys = COUNTS.names[:-1]
    table = pa.concat_tables(tables).group_by(keys).aggregate([("count", "sum")]).rename_columns([*keys, "count"])
    return table.sort_by([(name, "ascending") for name in keys]).cast(COUNTS)


def write(path: Path, rows: Sequence[dict[str, Any]], schema: pa.Schema) -> None:
    """Write a small table, whole or not at all. Raises OSError."""
    with replacing(path) as fresh:
        pq.write_table(pa.Table.from_pylist(list(rows), schema), fresh, compression="zstd")


def rows_of(path: Path, columns: list[str] | None = None) -> Iterator[dict[str, Any]]:
    """The rows of a table, a few thousand in memory at a time. Raises OSError."""
    with pq.ParquetFile(path) as file:
        for batch in file.iter_batches(batch_size=_KEPT // 4, columns=columns):
            yield from batch.to_pylist()


def rows_with(path: Path, target: str, ids: Sequence[str]) -> list[dict[str, Any]]:
    """The rows of a target and of some ids. Raises OSError."""
    wanted = (pc.field("target") == target) & pc.field("id").isin(pa.array(ids, _TEXT))
    rows: list[dict[str, Any]] = pq.read_table(path, filters=wanted).to_pylist()
    return rows
