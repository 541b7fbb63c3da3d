"""The covering set of record batches: every possible pair of levels of two factors is in at least one batch.

It has the same bytes on every machine and Python: it does not use random numbers, clocks or compressors. The output of
a compressor changes with its release; these payloads contain uncompressed data, which each of the four formats allows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from conformance.catalog.pairwise.algorithm import Constraint, FactorTable, Row, RowRequest
from conformance.catalog.pairwise.entries import MARKER_VALUES
from conformance.codec.builders import START_MS, batch_bytes
from conformance.codec.checksums import CRC32C
from conformance.codec.compression import CODEC_NAMES
from conformance.codec.control_record import CONTROL_KEYS, CONTROL_TYPES
from conformance.codec.derived_fields import Values
from conformance.codec.record_batch import (
    ATTRIBUTES,
    CHECKSUMMED,
    OVERHEAD,
    TIMESTAMP_TYPES,
)

# --- factors ------------------------------------------------------------------------------------------


def _octets(size: int, index: int) -> bytes:
    """Return `size` bytes that cycle through all values; each record has different ones."""
    return bytes((7 * at + index) % 256 for at in range(size))


_RECORDS = {"one": 1, "two": 2, "three": 3, "many": 130}

_KEYS: dict[str, Callable[[int], bytes | None]] = {
    "short": lambda index: b"key-%d" % index,
    "null": lambda _: None,
    "empty": lambda _: b"",
    "63 bytes": lambda index: _octets(63, index),
    "64 bytes": lambda index: _octets(64, index),
    "127 bytes": lambda index: _octets(127, index),
    "128 bytes": lambda index: _octets(128, index),
    "ABORT": lambda _: CONTROL_KEYS[CONTROL_TYPES.index("ABORT")],
    "COMMIT": lambda _: CONTROL_KEYS[CONTROL_TYPES.index("COMMIT")],
}

_VALUES: dict[str, Callable[[int], bytes | None]] = {
    "short": lambda index: b"value-%d" % index,
    "null": lambda _: None,
    "empty": lambda _: b"",
    "300 bytes": lambda index: _octets(300, index),
    "marker": lambda _: MARKER_VALUES["right"],
}

_HEADERS: dict[str, tuple[tuple[str, bytes | None], ...]] = {
    "none": (),
    "one": (("trace", b"\x00\xff"),),
    "null value": (("absent", None), ("empty", b"")),
    "empty key": (("", b"nameless"),),
    "duplicate keys": (("twice", b"1"), ("twice", b"2"), ("twice", b"1")),
    "many": tuple((f"h{index}", b"%d" % index) for index in range(70)),
}

_TIMESTAMPS: dict[str, Callable[[int], int]] = {
    "equal": lambda _: START_MS,
    "rising": lambda index: START_MS + 10 * index,
    "falling": lambda index: START_MS - 10 * index,
    "-1": lambda _: -1,
    "deltas beyond 31 bits": lambda index: START_MS + index * ((1 << 31) + 1),
    "deltas beyond 42 bits": lambda index: START_MS + index * ((1 << 42) + 1),
}

_OFFSETS: dict[str, tuple[int, Callable[[int], int], int]] = {
    "from 0": (0, lambda index: index, 0),
    "from a large base": ((1 << 62) + 1, lambda index: index, 0),
    "with gaps": (1000, lambda index: 3 * index + 1, 2),
}
"""baseOffset, the delta of a record, and the difference between lastOffsetDelta and the last record's delta."""

_PRODUCERS = {
    "none": (-1, -1, -1),
    "first": (4_000_000_001, 0, 0),
    "wrapping sequence": ((1 << 53) + 1, 32767, (1 << 31) - 2),
    "no sequence": (4_000_000_001, 3, -1),
}
"""producerId, producerEpoch, baseSequence."""

_FLAG = ("no", "yes")

FACTORS: dict[str, tuple[str, ...]] = {
    "codec": CODEC_NAMES,
    "timestamp type": TIMESTAMP_TYPES,
    "transactional": _FLAG,
    "control": _FLAG,
    "records": tuple(_RECORDS),
    "key": tuple(_KEYS),
    "value": tuple(_VALUES),
    "headers": tuple(_HEADERS),
    "timestamps": tuple(_TIMESTAMPS),
    "offsets": tuple(_OFFSETS),
    "producer": tuple(_PRODUCERS),
}
"""Every factor with its levels."""


CONSTRAINTS = (
    Constraint(
        ("control", "yes"),
        {
            "codec": ("none",),
            "records": ("one",),
            "key": ("ABORT", "COMMIT"),
            "value": ("marker",),
            "headers": ("none",),
            "offsets": ("from 0", "from a large base"),
            "producer": ("none", "no sequence"),
        },
        "a control batch is one marker, which Apache Kafka writes plain, without headers, gaps and sequence",
    ),
    Constraint(
        ("control", "no"),
        {
            "key": tuple(_KEYS)[:-2],
            "value": tuple(_VALUES)[:-1],
            "producer": ("none", "first", "wrapping sequence"),
        },
        "only a control batch has the key and value of a marker, or a producer without a sequence",
    ),
    Constraint(
        ("transactional", "yes"),
        {"producer": ("first", "wrapping sequence", "no sequence")},
        "a transactional batch has a producer",
    ),
    Constraint(
        ("records", "one"),
        {"timestamps": ("equal", "-1")},
        "the first record's timestamp is the base, so the only record of a batch has the delta 0",
    ),
)
TABLE = FactorTable(FACTORS, CONSTRAINTS)

# --- batches ------------------------------------------------------------------------------------------


def requests(row: Row, number: int) -> Iterator[RowRequest]:
    """Yield a decode request of the row's batch."""
    yield RowRequest("", "decode", "RECORD_BATCH", {"hex": batch(row, number)[0].hex()})


def batch(row: Row, number: int) -> tuple[bytes, Values]:
    """Return the bytes and the value of a row's batch; `number` becomes its partitionLeaderEpoch."""
    values = _chosen(row, number)
    data = batch_bytes(values)
    derived = {"batchLength": len(data) - OVERHEAD, "magic": 2, "crc": CRC32C.compute(data[CHECKSUMMED:])}
    return data, {**values, **derived, "recordCount": len(values["records"])}


def _chosen(row: Row, number: int) -> Values:
    """Return the fields of a row's batch, without those that are computed from the bytes."""
    base_offset, delta, beyond = _OFFSETS[row["offsets"]]
    producer, epoch, sequence = _PRODUCERS[row["producer"]]
    count = _RECORDS[row["records"]]
    stamps = [_TIMESTAMPS[row["timestamps"]](index) for index in range(count)]
    append_time = row["timestamp type"] == "LogAppendTime"
    # The broker's time is later than every producer's, so a reader that adds deltas to it returns a wrong time.
    newest = max(stamps) + (5000 if append_time else 0)
    return {
        "baseOffset": base_offset,
        "partitionLeaderEpoch": number,
        **_attributes(row),
        "lastOffsetDelta": delta(count - 1) + beyond,
        "baseTimestamp": stamps[0],
        "maxTimestamp": newest,
        "producerId": producer,
        "producerEpoch": epoch,
        "baseSequence": sequence,
        "records": tuple(
            {
                **_record(row, index),
                "timestampDelta": stamp - stamps[0],
                "offsetDelta": delta(index),
                "offset": base_offset + delta(index),
                "timestamp": newest if append_time else stamp,
            }
            for index, stamp in enumerate(stamps)
        ),
    }


def _attributes(row: Row) -> Values:
    """Return the attribute bits by name, and the number that they form."""
    parts: Values = {
        "compression": CODEC_NAMES.index(row["codec"]),
        "timestampType": TIMESTAMP_TYPES.index(row["timestamp type"]),
        "isTransactional": row["transactional"] == "yes",
        "isControlBatch": row["control"] == "yes",
        "hasDeleteHorizonMs": False,
    }
    return {**parts, "attributes": sum(bits.write(parts[bits.name]) for bits in ATTRIBUTES)}


def _record(row: Row, index: int) -> Values:
    """Return the fields of a record that do not depend on its place in the batch."""
    headers = tuple({"key": key, "value": value} for key, value in _HEADERS[row["headers"]])
    return {"attributes": 0, "key": _KEYS[row["key"]](index), "value": _VALUES[row["value"]](index), "headers": headers}
