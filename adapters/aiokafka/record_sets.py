"""The records of aiokafka: those of MemoryRecords, of the builders, and of a consumer."""

import gzip
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import cramjam
from aiokafka.consumer.fetcher import READ_COMMITTED, READ_UNCOMMITTED, PartitionRecords
from aiokafka.errors import CorruptRecordException, KafkaError, UnsupportedCodecError
from aiokafka.producer.message_accumulator import BatchBuilder
from aiokafka.record.control_record import ControlRecord
from aiokafka.record.default_records import DefaultRecordBatch
from aiokafka.record.memory_records import MemoryRecords
from aiokafka.structs import TopicPartition
from kafka_python_records import (
    given_content,
    shown_header,
    shown_message,
    shown_record,
)
from notation import CODECS, TIMESTAMP_TYPES, named

from conformance import Reject, Unsupported

# The documented exceptions of the codec libraries for damaged data, which aiokafka does not wrap.
DAMAGED = (gzip.BadGzipFile, EOFError, zlib.error, cramjam.DecompressionError)

# --- decode -------------------------------------------------------------------------------------------


def _decode_batch(data: bytes) -> dict[str, Any]:
    batch = next(_batches(data), None)
    if batch is None:
        raise Reject("malformed", "no complete batch")
    return _entry(batch)


def _decode_log(data: bytes) -> dict[str, Any]:
    return {"batches": [_entry(batch) for batch in _batches(data)]}


def _decode_message_set(data: bytes) -> list[dict[str, Any]]:
    return [message for batch in _batches(data) for message in _messages(batch)]


def _decode_control_record(key: bytes) -> dict[str, int]:
    record = ControlRecord.parse(key)
    return {"version": record.version, "type": record.type_}


READERS: dict[str, Callable[[bytes], Any]] = {
    "RECORD_BATCH": _decode_batch,
    "LOG": _decode_log,
    "MESSAGE_SET": _decode_message_set,
    "CONTROL_RECORD": _decode_control_record,
}


@contextmanager
def _refusals() -> Iterator[None]:
    """Convert exceptions that an application should catch to rejections; others are crashes."""
    try:
        yield
    except CorruptRecordException as error:
        raise Reject("corrupt", str(error)) from error
    except UnsupportedCodecError as error:
        raise Reject("unsupported-codec", str(error)) from error
    except KafkaError as error:
        raise Reject("other", str(error)) from error
    except DAMAGED as error:
        raise Reject("malformed", f"{error.__class__.__name__}: {error}") from error


def _batches(data: bytes) -> Iterator[Any]:
    """Yield the whole batches with checked checksums, like the library's fetcher: has_next() first."""
    with _refusals():
        records = MemoryRecords(data)
        while records.has_next():
            batch = records.next_batch()
            if not batch.validate_crc():
                raise Reject("corrupt", "validate_crc() is False")
            yield batch


def _entry(batch: Any) -> dict[str, Any]:
    """Return a batch in notation, or a message of magic 0 or 1, whose offset and codec are not public."""
    return _batch(batch) if isinstance(batch, DefaultRecordBatch) else {"messages": _messages(batch)}


def _batch(batch: Any) -> dict[str, Any]:
    value = shown_header(batch)
    with _refusals():
        value["records"] = [shown_record(record) for record in batch]
    return value


def _messages(batch: Any) -> list[dict[str, Any]]:
    with _refusals():
        return [shown_message(record) for record in batch]


# --- encode and size ----------------------------------------------------------------------------------


def _encode_batch(value: dict[str, Any]) -> bytes:
    """Write a batch like create_batch(), append() and the sender. Raises Unsupported for other fields."""
    if int(value["baseOffset"]) != 0 or value["isControlBatch"] or value["timestampType"] != "CreateTime":
        raise Unsupported("the builder takes no base offset, control batch or timestamp type")
    if [int(record["offset"]) for record in value["records"]] != list(range(len(value["records"]))):
        raise Unsupported("the builder counts the offsets itself")
    if any(int(record["timestamp"]) < 0 for record in value["records"]):
        raise Unsupported("a timestamp is the milliseconds since 1970, or None for now; there is none for no timestamp")
    builder = BatchBuilder(
        2**31 - 1, CODECS.index(value["compression"]), is_transactional=int(value["isTransactional"])
    )
    for record in value["records"]:
        key, content, headers = given_content(record)
        builder.append(timestamp=int(record["timestamp"]), key=key, value=content, headers=headers)
    builder._set_producer_state(int(value["producerId"]), value["producerEpoch"], value["baseSequence"])  # noqa: SLF001
    return bytes(builder._build())  # noqa: SLF001


WRITERS: dict[str, Callable[..., bytes]] = {"RECORD_BATCH": _encode_batch}

CONSUMED = "internal: AIOKafkaConsumer.getone > MemoryRecords"
DOORS = {
    "decode": dict.fromkeys(["RECORD_BATCH", "LOG", "MESSAGE_SET"], CONSUMED)
    | {"CONTROL_RECORD": "internal: AIOKafkaConsumer.getone > PartitionRecords > ControlRecord.parse"},
    "encode": {"RECORD_BATCH": "public: AIOKafkaProducer.create_batch > BatchBuilder.append"},
}

# --- read ---------------------------------------------------------------------------------------------

PARTITION = TopicPartition("t", 0)
ISOLATION = {"read_uncommitted": READ_UNCOMMITTED, "read_committed": READ_COMMITTED}


def read(data: bytes, **options: Any) -> dict[str, Any]:
    """Return the records of a fetched partition for getone() and `async for`, and the position after them."""
    partition = PartitionRecords(
        PARTITION,
        MemoryRecords(data),
        [(int(entry["producerId"]), int(entry["firstOffset"])) for entry in options["aborted"]],
        int(options["fetchOffset"]),
        key_deserializer=None,
        value_deserializer=None,
        check_crcs=options.get("checkCrcs", True),
        isolation_level=ISOLATION[options["isolation"]],
    )
    answer: dict[str, Any] = {"records": []}
    try:
        with _refusals():
            for record in partition:
                answer["records"].append(_consumed(record))
    except Reject as refused:
        answer["error"] = refused.error
    return {**answer, "nextOffset": str(partition.next_fetch_offset)}


def _consumed(record: Any) -> dict[str, Any]:
    """Return a ConsumerRecord in notation; its timestamp is None if there is none.

    A type of None is ambiguous: the C extension returns it for magic 0, and for magic 1 with timestamp -1.
    """
    value = {**shown_record(record), "timestamp": "-1" if record.timestamp is None else str(record.timestamp)}
    if record.timestamp_type is not None:
        value["timestampType"] = named(TIMESTAMP_TYPES, record.timestamp_type)
    return value
