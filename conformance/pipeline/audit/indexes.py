"""Checks of a segment's index files by the rules of Apache Kafka's index classes. Needs pyarrow, numpy.

OffsetIndex, TimeIndex, TransactionIndex: entries of a fixed size from the start of the file. The broker checks these
rules when it opens an index or appends to it. It allocates the first two files at full length and trims them when it
rolls the segment, so zeros may follow the last entry.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise

import numpy as np
import numpy.typing as npt
from msgspec import Struct
from pyarrow import fs

from conformance.pipeline.audit.part_state import MUST, AuditFinding
from conformance.pipeline.audit.segments import Segment, file_system_of

OFFSET_INDEX_RULE = "log.offset-index"

Entries = npt.NDArray[np.void]
Problems = Iterator[tuple[int, str]]
"""The number of a wrong entry, and the problem."""


class IndexKind(Struct, frozen=True):
    """A kind of index: the suffix of its files, its requirement, the layout of an entry, and the check of entries."""

    suffix: str
    rule: str
    layout: np.dtype[np.void]
    check: Callable[[Entries, Segment], Problems]


class OffsetIndexPositions(Struct, frozen=True):
    """The positions in the offset index of a segment."""

    path: str
    """The path of the index."""
    places: dict[int, tuple[int, int]]
    """By byte of the segment: the byte of the entry in the index, and the absolute offset."""


def _entries(raw: bytes, layout: np.dtype[np.void]) -> Entries:
    """Return the entries of an index, without the zeros after the last entry."""
    entries = np.frombuffer(raw[: len(raw) // layout.itemsize * layout.itemsize], layout)
    is_filled = np.frombuffer(entries.tobytes(), np.uint8).reshape(len(entries), layout.itemsize).any(axis=1)
    filled = np.flatnonzero(is_filled)
    return entries[: filled[-1] + 1] if len(filled) else entries[:0]


def _check_offsets(entries: Entries, segment: Segment) -> Problems:
    offsets, positions = entries["offset"].tolist(), entries["position"].tolist()
    for index, (offset, position) in enumerate(zip(offsets, positions, strict=True)):
        if offset < 0:
            yield index, _negative(offset)
        if not 0 <= position < segment.size:
            yield index, f"position {position}, expected a byte of the segment, which has {segment.size} bytes"
    yield from _rising(offsets, "relative offset", strictly=True)
    yield from _rising(positions, "position", strictly=True)


def _check_times(entries: Entries, _: Segment) -> Problems:
    offsets = entries["offset"].tolist()
    yield from ((index, _negative(offset)) for index, offset in enumerate(offsets) if offset < 0)
    yield from _rising(entries["timestamp"].tolist(), "timestamp", strictly=True)
    yield from _rising(offsets, "relative offset", strictly=False)


def _check_transactions(entries: Entries, segment: Segment) -> Problems:
    for index, (version, last) in enumerate(zip(entries["version"].tolist(), entries["last"].tolist(), strict=True)):
        if version > 0:
            yield index, f"version {version}, expected 0"
        if segment.base_offset is not None and last < segment.base_offset:
            yield index, f"last offset {last}, expected {segment.base_offset} or more, the base offset of the segment"
    yield from _rising(entries["last"].tolist(), "last offset", strictly=True)


def _negative(offset: int) -> str:
    return f"relative offset {offset}, expected 0 or more"


def _rising(numbers: list[int], what: str, *, strictly: bool) -> Problems:
    for index, (earlier, later) in enumerate(pairwise(numbers)):
        if later < earlier or (strictly and later == earlier):
            yield index + 1, f"{what} {later}, expected {earlier + strictly} or more after {earlier}"


OFFSETS = IndexKind(".index", OFFSET_INDEX_RULE, np.dtype([("offset", ">i4"), ("position", ">i4")]), _check_offsets)
TIMES = IndexKind(".timeindex", "log.time-index", np.dtype([("timestamp", ">i8"), ("offset", ">i4")]), _check_times)
TRANSACTIONS = IndexKind(
    ".txnindex",
    "log.transaction-index",
    np.dtype([("version", ">i2"), ("producer", ">i8"), ("first", ">i8"), ("last", ">i8"), ("stable", ">i8")]),
    _check_transactions,
)
INDEXES = (OFFSETS, TIMES, TRANSACTIONS)


def _read(segment: Segment, index: IndexKind) -> tuple[str, bytes] | None:
    """Return the path and content of an index file; None if the segment has no such file. Raises OSError."""
    if segment.base_offset is None:
        return None
    path = index.suffix.join(segment.path.rsplit(".log", 1))
    system, inner = file_system_of(path)
    if system.get_file_info(inner).type is not fs.FileType.File:
        return None
    with system.open_input_stream(inner) as file:
        return path, file.read()


def index_findings(segment: Segment) -> Iterator[AuditFinding]:
    """Yield the findings within the indexes of a segment. Raises OSError."""
    for index in INDEXES:
        file = _read(segment, index)
        if file is None:
            continue
        path, raw = file
        size = index.layout.itemsize
        if len(raw) % size and index is not TRANSACTIONS:
            hint = f"the index has {len(raw)} bytes, expected whole entries of {size} bytes"
            yield AuditFinding(path, 0, None, index.rule, MUST, hint)
        for number, hint in index.check(_entries(raw, index.layout), segment):
            yield AuditFinding(path, number * size, None, index.rule, MUST, hint)


def pointers(segment: Segment) -> OffsetIndexPositions | None:
    """Return the positions in the offset index of a segment; None without an index. Raises OSError."""
    file = _read(segment, OFFSETS)
    if file is None or segment.base_offset is None:
        return None
    path, raw = file
    entries, size = _entries(raw, OFFSETS.layout), OFFSETS.layout.itemsize
    rows = zip(entries["position"].tolist(), entries["offset"].tolist(), strict=True)
    return OffsetIndexPositions(
        path, {at: (row * size, segment.base_offset + offset) for row, (at, offset) in enumerate(rows)}
    )
