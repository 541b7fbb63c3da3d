"""The records of aiokafka: what MemoryRecords reads, what the builders write, and what a consumer hands out."""

import gzip
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import cramjam
from aiokafka.consumer.fetcher import READ_COMMITTED, READ_UNCOMMITTED, PartitionRecords
from aiokafka.errors import CorruptRecordException, KafkaError, UnsupportedCodecError
from aiokafka.record.control_record import ControlRecord
from aiokafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder
from aiokafka.record.legacy_records import LegacyRecordBatchBuilder
from aiokafka.record.memory_records import MemoryRecords
from aiokafka.structs import TopicPartition
from kafka_python_records import (
    given_content,
    shown_header,
    shown_message,
    shown_record,
    size_of_messages,
    write_batch,
    write_messages,
)
from notation import TIMESTAMP_TYPES, named

from conformance import Reject, Unsupported

# What the codecs' own libraries document for damaged data; aiokafka lets them pass.
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
    """Tell what an application can be expected to catch from what should never have reached it."""
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
    """Take the whole batches, each with its checksum checked, as the library's fetcher does: has_next() first."""
    with _refusals():
        records = MemoryRecords(data)
        while records.has_next():
            batch = records.next_batch()
            if not batch.validate_crc():
                raise Reject("corrupt", "validate_crc() is False")
            yield batch


def _entry(batch: Any) -> dict[str, Any]:
    """Show a batch, or a message of magic 0 or 1, whose own offset and codec are not public."""
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
    return write_batch(DefaultRecordBatchBuilder, value)


def _encode_message_set(value: list[dict[str, Any]], *, magic: int, compression: str) -> bytes:
    if (magic, compression) == (0, "lz4"):
        raise Unsupported("the library has no lz4 for magic 0")
    try:
        return write_messages(LegacyRecordBatchBuilder, value, magic, compression)
    except UnsupportedCodecError as error:  # zstd
        raise Reject("unsupported-codec", str(error)) from error


WRITERS: dict[str, Callable[..., bytes]] = {"RECORD_BATCH": _encode_batch, "MESSAGE_SET": _encode_message_set}


def _size_of_record(value: dict[str, Any]) -> int:
    if value["attributes"] != 0:
        raise Unsupported("a record has no attributes")
    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=0,
        is_transactional=0,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        batch_size=2**31 - 1,
    )
    builder.append(0, 0, None, None, [])  # so that the record's timestamp counts from 0 and is the delta
    return int(builder.size_in_bytes(value["offsetDelta"], int(value["timestampDelta"]), *given_content(value)))


def _size_of_message_set(value: list[dict[str, Any]], *, magic: int, compression: str) -> int:
    return size_of_messages(LegacyRecordBatchBuilder, value, magic, compression)


SIZES: dict[str, Callable[..., int]] = {"RECORD": _size_of_record, "MESSAGE_SET": _size_of_message_set}


# --- read ---------------------------------------------------------------------------------------------

PARTITION = TopicPartition("t", 0)
ISOLATION = {"read_uncommitted": READ_UNCOMMITTED, "read_committed": READ_COMMITTED}


def read(data: bytes, **asked: Any) -> dict[str, Any]:
    """Return what getone() and `async for` hand out of a fetched partition, and the position they leave."""
    partition = PartitionRecords(
        PARTITION,
        MemoryRecords(data),
        [(int(entry["producerId"]), int(entry["firstOffset"])) for entry in asked["aborted"]],
        int(asked["fetchOffset"]),
        key_deserializer=None,
        value_deserializer=None,
        check_crcs=asked.get("checkCrcs", True),
        isolation_level=ISOLATION[asked["isolation"]],
    )
    answer: dict[str, Any] = {"records": []}
    try:
        with _refusals():
            for record in partition:
                answer["records"].append(_consumed(record))
    except Reject as refused:
        answer["error"] = refused.error
    return {**answer, "nextOffset": partition.next_fetch_offset}


def _consumed(record: Any) -> dict[str, Any]:
    """Show a ConsumerRecord; None is its word for no timestamp.

    A type of None says nothing: the C extension gives it for magic 0, and for magic 1 with timestamp -1.
    """
    value = {**shown_record(record), "timestamp": -1 if record.timestamp is None else record.timestamp}
    if record.timestamp_type is not None:
        value["timestampType"] = named(TIMESTAMP_TYPES, record.timestamp_type)
    return value
