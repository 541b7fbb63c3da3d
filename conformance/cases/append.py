"""What is asked of a broker about record data that a producer sends (`append`), and what must come of it."""

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
"""The last version of Produce that carries messages of magic 0 and 1."""
LIMIT = "maxMessageBytes"
"""The setting of a topic that bounds the bytes of a batch."""
_CHOSEN = (*SETTINGS, LIMIT, "produceVersion", "fetchVersion")
"""What a request chooses beside the record data."""
_FIRST_WITH = {1: 2, BATCHES: 4}
"""The first version of Fetch that carries a magic above 0."""
ANSWERED = n.ObjectOf(
    {**APPENDED.fields, "otherPartitions": n.ListOf(n.ObjectOf({"baseOffset": n.DECIMAL, "hex": n.HEX}))}
)
"""Beside the bytes that a broker serves: the offsets (APPENDED), and what became of the data in other partitions.

There an offset of -1 stands for a refusal.
"""
OTHERS = 2
"""The partitions of a request that get what stands beside the case: one before it, and one behind it."""


def max_magic_of_fetch(version: int) -> int:
    """The highest magic that a version of Fetch carries."""
    return max((magic for magic, first in _FIRST_WITH.items() if version >= first), default=0)


def append_question(parts: Request) -> RequestWithExpectation:
    """The question of an `append` request, its parts parsed: what a broker makes of what a producer sends.

    Raises NotTestable for data beside it that a broker may take.
    """
    chosen = {name: parts[name] for name in _CHOSEN if name in parts}
    asked, expect = batch_question(parts["hex"], list(codec.entries(parts["hex"])), chosen)
    if "otherPartitions" not in parts:
        return RequestWithExpectation(asked, expect)
    others: bytes = parts["otherPartitions"]
    if not isinstance(expect, ExpectAppend) or not isinstance(
        _due(others, list(codec.entries(others)), {}), ExpectRejection
    ):
        raise NotTestable("beside record data that a broker takes stands some that it refuses")
    whole = ExpectAppend(expect.records, expect.free, expect.open, has_other_partitions=True)
    return RequestWithExpectation({**asked, "otherPartitions": others.hex()}, whole)


def batch_question(data: bytes, entries: Sequence[codec.LogEntry], chosen: Request) -> RequestWithExpectation:
    """How a broker is asked to append bytes, which hold these entries, where the request chooses this."""
    return RequestWithExpectation({"hex": data.hex(), **chosen}, _due(data, entries, chosen))


def _due(data: bytes, entries: Sequence[codec.LogEntry], chosen: Request) -> Expectation:
    """What a broker makes of record data; how it takes several batches that are not sound, or none, is left open."""
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
    return _refused(batch)


def _refused(entry: codec.LogEntry) -> ExpectRejection:
    """The refusal of a batch; the error is that of a checksum where nothing else speaks against the batch."""
    if entry.beside_checksums or not entry.violations:
        return ExpectRejection(None)
    otherwise = ExpectAnyOf() if entry.value is None or entry.remarks else _of_batch(entry.value, {})
    is_alone = isinstance(otherwise, ExpectAppend) and not otherwise.open
    return ExpectRejection("corrupt" if is_alone else None, "corrupt")


def _of_messages(data: bytes, entries: Sequence[codec.LogEntry], chosen: Request) -> Expectation:
    """What becomes of a message set: a broker may keep it, or make it one batch, and serves it as the fetch carries it.

    One that producers do not send is left open: of several wrappers, or of messages of both magics.
    """
    if any(entry.violations for entry in entries):
        return ExpectRejection(None, "malformed" if any(entry.beside_checksums for entry in entries) else "corrupt")
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
    return ExpectAppend(expect.records, tuple(free), open=is_late or is_stamped, most=magic)


def _of_several(entries: Sequence[codec.LogEntry]) -> Expectation:
    """What becomes of several batches in the data of one partition: a broker refuses them, or takes each."""
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
    """What a broker serves of a sound batch.

    It may choose the codec where no setting names one, and chooses the time of LogAppendTime.
    """
    if batch["recordCount"] == 0 or batch["lastOffsetDelta"] != batch["recordCount"] - 1:
        return ExpectAnyOf()  # a producer's batch has records, with an offset each: Apache Kafka refuses others
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
    tells_time = magic == BATCHES and not is_early and "timestampType" in chosen
    return ExpectAppend(records, tuple(free), is_early or _may_be_refused(batch), most=magic, tells_time=tells_time)


def _may_be_refused(batch: Value) -> bool:
    """Whether a broker may refuse a batch that a reader takes.

    Control batches and some bits are the broker's own; a transaction is begun by other requests first; no document
    gives the baseOffset that a producer sends (Apache Kafka refuses others than 0), nor the first sequence of a
    producer that the broker does not know.
    """
    own = batch["isControlBatch"] or batch["hasDeleteHorizonMs"] or batch["timestampType"]
    return bool(own or batch["isTransactional"] or batch["baseOffset"] or batch["baseSequence"] > 0)


# --- the reference --------------------------------------------------------------------------------------


def answer(_: codec.WireType, parts: Request) -> Answer:
    """What a log that ends at offset 1 serves of record data that a producer sends. Raises codec.Unencodable."""
    data: bytes = parts["hex"]
    if len(data) > parts.get(LIMIT, len(data)):
        return {"ok": False, "error": "other", "message": f"{len(data)} bytes, the topic takes {parts[LIMIT]}"}
    read = taken(data)
    if not read.ok:
        first = read.violations[0]
        return {"ok": False, "error": error_class(first), "message": str(first)}
    if read.consumed < len(data) and stored_magic(data) not in LAYOUTS:
        return {"ok": False, "error": "malformed", "message": "bytes behind the batch"}
    served = appended_bytes(read.value, 1, parts)
    magic = max_magic_of_fetch(parts.get("fetchVersion", _FIRST_WITH[BATCHES]))
    served = served if magic == BATCHES else convert(served, magic)
    time = 0 if parts.get("timestampType") == "LogAppendTime" else -1
    value = ANSWERED.render({"logEnd": 1, "baseOffset": 1, "appendTime": time, **_refused_elsewhere(parts)})
    return {"ok": True, "hex": served.hex(), "value": value}


def taken(data: bytes) -> codec.DecodeResult:
    """The only batch of record data, a message set made one; what is wrong where it is not sound.

    Raises codec.Unencodable.
    """
    read = codec.decode("RECORD_BATCH", data)
    if stored_magic(data) in LAYOUTS:
        read = codec.decode("MESSAGE_SET", data)
        return codec.decode("RECORD_BATCH", convert(data, BATCHES, 0)) if read.ok else read
    return read


def _refused_elsewhere(parts: Request) -> Value:
    return {"otherPartitions": [{"baseOffset": -1, "hex": b""}] * OTHERS} if "otherPartitions" in parts else {}
