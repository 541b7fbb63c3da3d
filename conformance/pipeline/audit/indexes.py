"""The indexes beside a segment, by the rules that Apache Kafka holds them to when it opens or appends to them.

OffsetIndex, TimeIndex, TransactionIndex: entries of a fixed size from the start of the file. A broker sets the first
two aside in full length and trims them when it rolls, so zeros may follow the last entry.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt
from pyarrow import fs

from conformance.pipeline.audit.findings import MUST, Finding
from conformance.pipeline.audit.segments import Segment, opened

Entries = npt.NDArray[np.void]


@dataclass(frozen=True, slots=True)
class Index:
    """A kind of index: how its files end, how an entry is laid out, and what holds between entries."""

    suffix: str
    rule: str
    layout: np.dtype[np.void]
    check: Callable[[Entries, Segment], Iterator[tuple[int, str]]]
    """What is wrong, each with the number of the entry where it is."""


def _kept(raw: bytes, layout: np.dtype[np.void]) -> Entries:
    """The entries, without zeros set aside after them."""
    entries = np.frombuffer(raw[: len(raw) // layout.itemsize * layout.itemsize], layout)
    blank = np.frombuffer(entries.tobytes(), np.uint8).reshape(len(entries), layout.itemsize).any(axis=1)
    filled = np.flatnonzero(blank)
    return entries[: filled[-1] + 1] if len(filled) else entries[:0]


def _check_offsets(entries: Entries, segment: Segment) -> Iterator[tuple[int, str]]:
    numbers = entries["offset"].tolist()
    places = entries["position"].tolist()
    for index, (place, number) in enumerate(zip(places, numbers, strict=True)):
        if number < 0:
            yield index, f"relative offset {number}"
        if not 0 <= place < segment.size:
            yield index, f"position {place} in a segment of {segment.size} bytes"
    yield from _rising(numbers, "relative offset", strictly=True)
    yield from _rising(places, "position", strictly=True)


def _check_times(entries: Entries, segment: Segment) -> Iterator[tuple[int, str]]:
    del segment
    numbers = entries["offset"].tolist()
    yield from ((index, f"relative offset {number}") for index, number in enumerate(numbers) if number < 0)
    yield from _rising(entries["timestamp"].tolist(), "timestamp", strictly=True)
    yield from _rising(numbers, "relative offset", strictly=False)


def _check_transactions(entries: Entries, segment: Segment) -> Iterator[tuple[int, str]]:
    for index, (version, last) in enumerate(zip(entries["version"].tolist(), entries["last"].tolist(), strict=True)):
        if version > 0:
            yield index, f"version {version}, there is only 0"
        if segment.base_offset is not None and last < segment.base_offset:
            yield index, f"last offset {last} is before the segment's first"
    yield from _rising(entries["last"].tolist(), "last offset", strictly=True)


def _rising(numbers: list[int], what: str, *, strictly: bool) -> Iterator[tuple[int, str]]:
    for index, (earlier, later) in enumerate(pairwise(numbers)):
        if later < earlier or (strictly and later == earlier):
            yield index + 1, f"{what} {later} after {earlier}"


OFFSETS = Index(".index", "log.offset-index", np.dtype([("offset", ">i4"), ("position", ">i4")]), _check_offsets)
INDEXES = (
    OFFSETS,
    Index(".timeindex", "log.time-index", np.dtype([("timestamp", ">i8"), ("offset", ">i4")]), _check_times),
    Index(
        ".txnindex",
        "log.transaction-index",
        np.dtype([("version", ">i2"), ("producer", ">i8"), ("first", ">i8"), ("last", ">i8"), ("stable", ">i8")]),
        _check_transactions,
    ),
)


def beside(segment: Segment, index: Index) -> tuple[str, bytes] | None:
    """The path and content of an index of a segment; None where there is none. Raises OSError."""
    if segment.base_offset is None:
        return None
    path = index.suffix.join(segment.path.rsplit(".log", 1))
    system, inner = opened(path)
    if system.get_file_info(inner).type is not fs.FileType.File:
        return None
    with system.open_input_stream(inner) as file:
        return path, file.read()


def index_findings(segment: Segment) -> Iterator[Finding]:
    """What is wrong with the indexes of a segment in themselves. Raises OSError."""
    for index in INDEXES:
        found = beside(segment, index)
        if found is None:
            continue
        path, raw = found
        size = index.layout.itemsize
        if len(raw) % size and index.suffix != ".txnindex":
            yield Finding(path, 0, None, index.rule, MUST, f"{len(raw)} bytes are not whole entries of {size}")
        for number, hint in index.check(_kept(raw, index.layout), segment):
            yield Finding(path, number * size, None, index.rule, MUST, hint)


def pointers(segment: Segment) -> tuple[str, dict[int, tuple[int, int]]] | None:
    """Where the offset index of a segment points: byte to (byte of the entry in the index, absolute offset).

    With the path of the index; None where there is none. Raises OSError.
    """
    found = beside(segment, OFFSETS)
    if found is None or segment.base_offset is None:
        return None
    entries = _kept(found[1], OFFSETS.layout)
    rows = zip(entries["position"].tolist(), entries["offset"].tolist(), strict=True)
    return found[0], {place: (row * 8, segment.base_offset + offset) for row, (place, offset) in enumerate(rows)}
