"""`append` cases: a producer's record data, and the records that a broker must serve for it."""

from __future__ import annotations

from collections.abc import Sequence

from conformance import codec
from conformance.cases.log_requests import convert_question
from conformance.cases.model import (
    Answer,
    ExpectAnyOf,
    ExpectAppend,
    Expectation,
    ExpectConvertedRecords,
    ExpectRejection,
    NotTestable,
    Request,
    RequestWithExpectation,
    Value,
)
from conformance.cases.reference_answers import error_class
from conformance.codec import json_notation as n
from conformance.codec.legacy_message import LAYOUTS
from conformance.codec.record_batch import stored_magic
from conformance.semantics.format_conversion import convert, records_of
from conformance.semantics.partition_log import APPENDED, SETTINGS, appended_bytes, stored_batch

BATCHES = 2
"""The magic of record batches."""
MESSAGES_LAST = 2
"""The last version of Produce with messages of magic 0 and 1."""
LIMIT = "maxMessageBytes"
"""The topic setting that limits the bytes of a batch."""
_CHOSEN = (*SETTINGS, LIMIT, "produceVersion", "fetchVersion")
"""The settings and versions that a request can contain next to the record data."""
_FIRST_WITH = {1: 2, BATCHES: 4}
"""The first version of Fetch that can return magic 1, and magic 2."""
ANSWERED = n.ObjectOf(
    {**APPENDED.fields, "otherPartitions": n.ListOf(n.ObjectOf({"baseOffset": n.DECIMAL, "hex": n.HEX}))}
)
"""The value of an answer: the offsets (APPENDED), and the result of each other partition.

In another partition, offset -1 means that the broker rejected the data.
"""
OTHERS = 2
"""The partitions of a request that get `otherPartitions`: one before and one after the partition of the case."""


def max_magic_of_fetch(version: int) -> int:
    """Return the highest magic that a version of Fetch can return."""
    return max((magic for magic, first in _FIRST_WITH.items() if version >= first), default=0)


def append_question(parts: Request) -> RequestWithExpectation:
    """Return the parts and the expectation of a parsed `append` request.

    Raises NotTestable if a broker may accept the data of the other partitions.
    """
    chosen = {name: parts[name] for name in _CHOSEN if name in parts}
    batch_parts, expect = batch_question(parts["hex"], list(codec.entries(parts["hex"])), chosen)
    if "otherPartitions" not in parts:
        return RequestWithExpectation(batch_parts, expect)
    others: bytes = parts["otherPartitions"]
    if not isinstance(expect, ExpectAppend) or not isinstance(
        _expectation(others, list(codec.entries(others)), {}), ExpectRejection
    ):
        raise NotTestable("needs record data that a broker accepts, and otherPartitions that it rejects")
    whole = ExpectAppend(expect.records, expect.free, expect.open, has_other_partitions=True)
    return RequestWithExpectation({**batch_parts, "otherPartitions": others.hex()}, whole)


def batch_question(data: bytes, entries: Sequence[codec.LogEntry], chosen: Request) -> RequestWithExpectation:
    """Return the parts and the expectation for bytes that contain these entries, with the chosen settings."""
    return RequestWithExpectation({"hex": data.hex(), **chosen}, _expectation(data, entries, chosen))


def _expectation(data: bytes, entries: Sequence[codec.LogEntry], chosen: Request) -> Expectation:
    """Return the expectation for record data; it is unspecified for no batch, and for several invalid ones."""
    if not entries or any(mark.open for entry in entries for mark in entry.violations):
        return ExpectAnyOf()
    if len(data) > chosen.get(LIMIT, len(data)):
        return ExpectRejection(None, "other")
    batch = entries[0]
    if len(entries) == 1 and batch.value is not None and "records" in batch.value and not batch.violations:
        return ExpectAnyOf() if batch.remarks else _of_batch(batch.value, chosen)
    if stored_magic(data) in LAYOUTS:
        return _of_messages(data, entries, chosen)
    if len(entries) > 1:
        return _of_several(entries)
    return _rejection(batch)


def _rejection(entry: codec.LogEntry) -> ExpectRejection:
    """Return the rejection of a batch; the error class is `corrupt` if only the checksum is wrong."""
    if entry.violations_except_checksums or not entry.violations:
        return ExpectRejection(None)
    otherwise = ExpectAnyOf() if entry.value is None or entry.remarks else _of_batch(entry.value, {})
    is_alone = isinstance(otherwise, ExpectAppend) and not otherwise.open
    return ExpectRejection("corrupt" if is_alone else None, "corrupt")


def _of_messages(data: bytes, entries: Sequence[codec.LogEntry], chosen: Request) -> Expectation:
    """Return the expectation for a message set.

    A broker may store the messages or convert them to one batch; the fetch version limits the magic that it serves.
    A set that no producer sends is unspecified: several wrappers, or messages of both magics.
    """
    if any(entry.violations for entry in entries):
        return ExpectRejection(
            None, "malformed" if any(entry.violations_except_checksums for entry in entries) else "corrupt"
        )
    is_late = chosen.get("produceVersion", 0) > MESSAGES_LAST
    try:
        expect = convert_question(data, BATCHES, 0).expect
        magic = max_magic_of_fetch(chosen.get("fetchVersion", _FIRST_WITH[BATCHES]))
        if magic < BATCHES:
            down = convert(convert(data, BATCHES, 0), magic)
            expect = convert_question(down, BATCHES).expect
    except (NotTestable, codec.Unencodable):
        return ExpectAnyOf()
    assert isinstance(expect, ExpectConvertedRecords)
    is_stamped = any(message.get("timestampType") for entry in entries for message in entry.value["messages"])
    free = ["entry", "magic", *["compression"] * ("compressionType" not in chosen)]
    free += ["timestamp", "timestampType"] * (chosen.get("timestampType") == "LogAppendTime")
    return ExpectAppend(expect.records, tuple(free), open=is_late or is_stamped, max_magic=magic)


def _of_several(entries: Sequence[codec.LogEntry]) -> Expectation:
    """Return the expectation for several batches of one partition: a broker rejects all, or appends each."""
    if any(entry.value is None or entry.violations or entry.remarks for entry in entries):
        return ExpectAnyOf()
    end, batches = 0, []
    for batch in (entry.value for entry in entries):
        if batch["magic"] != BATCHES or not isinstance(_of_batch(batch, {}), ExpectAppend):
            return ExpectAnyOf()
        batches.append(stored_batch(batch, end, {}))
        end += batch["recordCount"]
    return ExpectAppend(records_of(batches), ("compression", "entry"), open=True)


def _of_batch(batch: Value, chosen: Request) -> Expectation:
    """Return the expectation for a valid batch.

    The broker chooses the codec if no setting names one, and the timestamp of LogAppendTime.
    """
    if batch["recordCount"] == 0 or batch["lastOffsetDelta"] != batch["recordCount"] - 1:
        return ExpectAnyOf()  # a producer's batch has records without offset gaps: Apache Kafka rejects others
    records = records_of([stored_batch(batch, 0, chosen)])
    magic = max_magic_of_fetch(chosen.get("fetchVersion", _FIRST_WITH[BATCHES]))
    if magic < BATCHES:
        try:
            expect = convert_question(appended_bytes(batch, 0, chosen), magic).expect
        except NotTestable:
            return ExpectAnyOf()
        if not isinstance(expect, ExpectConvertedRecords):
            return expect
        records = expect.records
    free = [*["compression"] * ("compressionType" not in chosen)]
    free += ["timestamp"] * any(record.get("timestampType") for record in records)
    free += ["timestampType"] * bool(batch["timestampType"])
    is_early = chosen.get("produceVersion", MESSAGES_LAST + 1) <= MESSAGES_LAST
    has_append_time = magic == BATCHES and not is_early and "timestampType" in chosen
    return ExpectAppend(
        records, tuple(free), is_early or _may_be_rejected(batch), max_magic=magic, has_append_time=has_append_time
    )


def _may_be_rejected(batch: Value) -> bool:
    """Return whether a broker may reject a batch that a reader accepts.

    Only brokers write control batches and some bits. A transaction needs other requests first. No document
    specifies the baseOffset of a producer's batch (Apache Kafka rejects any but 0), nor the first sequence of a
    producer that is new to the broker.
    """
    own = batch["isControlBatch"] or batch["hasDeleteHorizonMs"] or batch["timestampType"]
    return bool(own or batch["isTransactional"] or batch["baseOffset"] or batch["baseSequence"] > 0)


# --- the answer of the reference ----------------------------------------------------------------------


def answer(_: codec.WireType, parts: Request) -> Answer:
    """Return the answer of a broker whose log ends at offset 1. Raises codec.Unencodable."""
    data: bytes = parts["hex"]
    if len(data) > parts.get(LIMIT, len(data)):
        return {"ok": False, "error": "other", "message": f"{len(data)} bytes exceed max.message.bytes {parts[LIMIT]}"}
    read = accepted_batch(data)
    if not read.ok:
        first = read.violations[0]
        return {"ok": False, "error": error_class(first), "message": str(first)}
    if read.consumed < len(data) and stored_magic(data) not in LAYOUTS:
        return {"ok": False, "error": "malformed", "message": "bytes follow after the batch"}
    served = appended_bytes(read.value, 1, parts)
    magic = max_magic_of_fetch(parts.get("fetchVersion", _FIRST_WITH[BATCHES]))
    served = served if magic == BATCHES else convert(served, magic)
    time = 0 if parts.get("timestampType") == "LogAppendTime" else -1
    value = ANSWERED.render({"logEnd": 1, "baseOffset": 1, "appendTime": time, **_rejected_in_other_partitions(parts)})
    return {"ok": True, "hex": served.hex(), "value": value}


def accepted_batch(data: bytes) -> codec.DecodeResult:
    """Decode the only batch of record data; a message set is converted to a batch. Raises codec.Unencodable."""
    read = codec.decode("RECORD_BATCH", data)
    if stored_magic(data) in LAYOUTS:
        read = codec.decode("MESSAGE_SET", data)
        return codec.decode("RECORD_BATCH", convert(data, BATCHES, 0)) if read.ok else read
    return read


def _rejected_in_other_partitions(parts: Request) -> Value:
    return {"otherPartitions": [{"baseOffset": -1, "hex": b""}] * OTHERS} if "otherPartitions" in parts else {}
