"""Levels, batches and markers that several covering sets share."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from conformance.codec import builders
from conformance.codec.builders import START_MS
from conformance.codec.control_record import CONTROL_TYPES
from conformance.codec.derived_fields import Values
from conformance.codec.record_batch import build

EPOCH = 3
"""The epoch of producers."""

CONTENTS: dict[str, bytes | None] = {"short": b"content", "null": None, "empty": b"", "300 bytes": b"0123456789" * 30}
"""Keys and values by their level."""

HEADERS: dict[str, tuple[tuple[str, bytes | None], ...]] = {
    "none": (),
    "one": (("trace", b"\x00\xff"),),
    "null value": (("absent", None), ("empty", b"")),
    "many": tuple((f"h{index}", b"%d" % index) for index in range(70)),
}
"""Headers by their level."""

MARKER_VALUES: dict[str, bytes | None] = {
    "right": struct.pack(">hi", 0, 5),
    "null": None,
    "empty": b"",
    "short": b"\0\0",
    "other version": struct.pack(">hi", 1, 5),
    "longer": struct.pack(">hiq", 0, 5, 9),
}
"""The value of a marker: version and coordinator epoch."""

MARKER_TYPES = {**{name: number for number, name in enumerate(CONTROL_TYPES)}, "type 7": 7, "type 32767": (1 << 15) - 1}
"""Types of markers: those of Apache Kafka, and undefined ones."""


def marker_key(number: int, version: int = 0) -> bytes:
    """Return the key of a control record: INT16 version and INT16 type."""
    return struct.pack(">hh", version, number)


def headers(level: str) -> tuple[Values, ...]:
    """Return the headers of a level."""
    return tuple({"key": key, "value": value} for key, value in HEADERS[level])


_APPEND_DELAY_MS = 5000
"""The broker's delay after every producer, in milliseconds: a reader that adds deltas to it returns a wrong time."""


def batch(base: int, contents: Sequence[Values], **fields: object) -> Values:
    """Return a batch at an offset, by default plain and without a producer; `contents` replace fields of records."""
    rows = [
        {**builders.record(base + index, START_MS + index, key=b"key", value=b"value"), **one}
        for index, one in enumerate(contents)
    ]
    built = build(builders.batch(rows, **{"baseOffset": base, "partitionLeaderEpoch": 0, **fields}))
    if not built["timestampType"]:
        return built
    newest = built["maxTimestamp"] + _APPEND_DELAY_MS
    return {
        **built,
        "maxTimestamp": newest,
        "records": tuple({**record, "timestamp": newest} for record in built["records"]),
    }


def of_producer(producer: int, sequence: int = 0, epoch: int = EPOCH) -> Values:
    """Return the fields of a transactional batch of a producer."""
    return {"isTransactional": True, "producerId": producer, "producerEpoch": epoch, "baseSequence": sequence}


def marker(base: int, kind: int, producer: int, *, epoch: int = EPOCH, **content: object) -> Values:
    """Return a control batch of a producer with one marker."""
    record = {"key": marker_key(kind), "value": MARKER_VALUES["right"], **content}
    return batch(base, [record], **{**of_producer(producer, -1, epoch), "isControlBatch": True})
