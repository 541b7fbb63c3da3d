"""The covering set of control records: markers of every type, version and form, decoded and fetched."""

from __future__ import annotations

from collections.abc import Iterator

from conformance.catalog.pairwise import entries
from conformance.catalog.pairwise.algorithm import Constraint, FactorTable, Row, RowRequest
from conformance.catalog.pairwise.entries import EPOCH, MARKER_TYPES, MARKER_VALUES, headers, marker_key
from conformance.codec.builders import batch_bytes
from conformance.codec.compression import CODEC_NAMES
from conformance.codec.derived_fields import Values
from conformance.codec.record_batch import TIMESTAMP_TYPES
from conformance.semantics.consumer_view import ISOLATIONS

_TYPES = {**MARKER_TYPES, "type -1": -1}
_VERSIONS = {"0": 0, "1": 1, "32767": (1 << 15) - 1, "-1": -1}
_KEYS = ("right", "null", "empty", "cut in its version", "cut in its type", "longer")
_FLAG = ("no", "yes")
_PRODUCER, _OTHER_PRODUCER, _NO_PRODUCER = 7, 8, -1
_PRODUCERS = {"that of the data": _PRODUCER, "another": _OTHER_PRODUCER, "none": _NO_PRODUCER}

TABLE = FactorTable(
    {
        "type": tuple(_TYPES),
        "version": tuple(_VERSIONS),
        "key": _KEYS,
        "value": tuple(MARKER_VALUES),
        "headers": ("none", "one", "null value"),
        "codec": CODEC_NAMES,
        "timestamp type": TIMESTAMP_TYPES,
        "transactional": ("yes", "no"),
        "producer": tuple(_PRODUCERS),
        "epoch": ("the same", "raised"),
        "sequence": ("-1", "0"),
        "records": ("one", "two"),
        "isolation": ISOLATIONS,
        "data before it": ("none", "plain", "of its transaction", "of an aborted transaction"),
        "data after it": _FLAG,
    },
    (
        *(
            Constraint(
                ("key", key),
                {"type": ("ABORT",), "version": ("0",)},
                "without a whole key there is no type or version",
            )
            for key in ("null", "empty")
        ),
        Constraint(
            ("key", "null"),
            {"isolation": ISOLATIONS[:1]},
            "Apache Kafka's consumer crashes on it under read_committed (decisions#producer-state-and-control-batches)",
        ),
    ),
    {
        "type": tuple(_TYPES)[2:],
        "version": tuple(_VERSIONS)[1:],
        "key": _KEYS[1:],
        "headers": ("one", "null value"),
        "codec": CODEC_NAMES[1:],
        "producer": ("none",),
        "transactional": ("no",),
        "records": ("two",),
        "data before it": ("of an aborted transaction",),
    },
)


def requests(row: Row, number: int) -> Iterator[RowRequest]:
    """Yield a `decode` request for the marker's batch, and a `read` request for a log that contains it."""
    base = 10
    marker = batch_bytes(_marker(row, base, number))
    yield RowRequest("", "decode", "RECORD_BATCH", {"hex": marker.hex()})
    data, aborted = _before(row, base)
    end = base + (2 if row["records"] == "two" else 1)
    data += marker
    if row["data after it"] == "yes":
        data += batch_bytes(entries.batch(end, [{}, {"key": None}]))
        end += 2
    request = {
        "hex": data.hex(),
        "isolation": row["isolation"],
        "fetchOffset": str(base - 2),
        "highWatermark": str(end),
        "aborted": aborted if row["isolation"] == ISOLATIONS[1] else [],
    }
    yield RowRequest(":read", "read", "LOG", request)


def _before(row: Row, base: int) -> tuple[bytes, list[dict[str, str]]]:
    """Return the batch before the marker (empty for none), and the list of aborted transactions."""
    kind = row["data before it"]
    if kind == "none":
        return b"", []
    fields = {} if kind == "plain" else entries.of_producer(_PRODUCER)
    data = batch_bytes(entries.batch(base - 2, [{}, {"value": None}], **fields))
    is_aborted = kind == "of an aborted transaction"
    return data, [{"producerId": str(_PRODUCER), "firstOffset": str(base - 2)}] if is_aborted else []


def _marker(row: Row, base: int, number: int) -> Values:
    record = {"key": _key(row), "value": MARKER_VALUES[row["value"]], "headers": headers(row["headers"])}
    producer = _PRODUCERS[row["producer"]]
    epoch = -1 if producer < 0 else EPOCH + (row["epoch"] == "raised")
    return entries.batch(
        base,
        [record] * (2 if row["records"] == "two" else 1),
        partitionLeaderEpoch=number,
        compression=CODEC_NAMES.index(row["codec"]),
        timestampType=TIMESTAMP_TYPES.index(row["timestamp type"]),
        isTransactional=row["transactional"] == "yes",
        isControlBatch=True,
        producerId=producer,
        producerEpoch=epoch,
        baseSequence=int(row["sequence"]),
    )


def _key(row: Row) -> bytes | None:
    whole = marker_key(_TYPES[row["type"]], _VERSIONS[row["version"]])
    shapes = {"right": whole, "null": None, "empty": b"", "longer": whole + b"\0\0"}
    cut = {"cut in its version": whole[:1], "cut in its type": whole[:3]}
    return {**shapes, **cut}[row["key"]]
