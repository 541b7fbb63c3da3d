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

from conformance import Reject, Unsupported

# What the codecs' own libraries document for damaged data; aiokafka lets them pass.
DAMAGED = (gzip.BadGzipFile, EOFError, zlib.error, cramjam.DecompressionError)

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
TIMESTAMP_TYPES = ("CreateTime", "LogAppendTime")
BATCH_FIELDS = {
    "baseOffset": "base_offset",
    "magic": "magic",
    "crc": "crc",
    "attributes": "attributes",
    "lastOffsetDelta": "last_offset_delta",
    "baseTimestamp": "first_timestamp",
    "maxTimestamp": "max_timestamp",
    "producerId": "producer_id",
    "producerEpoch": "producer_epoch",
    "baseSequence": "base_sequence",
    "isTransactional": "is_transactional",
    "isControlBatch": "is_control_batch",
}

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
    value = {name: getattr(batch, attribute) for name, attribute in BATCH_FIELDS.items()}
    value["compression"] = _named(CODECS, batch.compression_type)
    value["timestampType"] = _named(TIMESTAMP_TYPES, batch.timestamp_type)
    with _refusals():
        value["records"] = [_record(record) for record in batch]
    return value


def _record(record: Any) -> dict[str, Any]:
    headers = [{"key": key, "value": value} for key, value in record.headers]
    return {**_fields(record), "timestamp": record.timestamp, "headers": headers}


def _messages(batch: Any) -> list[dict[str, Any]]:
    with _refusals():
        return [_message(record) for record in batch]


def _message(record: Any) -> dict[str, Any]:
    if record.timestamp_type is None:
        return _fields(record)
    timestamp_type = _named(TIMESTAMP_TYPES, record.timestamp_type)
    return {**_fields(record), "timestamp": record.timestamp, "timestampType": timestamp_type}


def _fields(record: Any) -> dict[str, Any]:
    return {name: getattr(record, name) for name in ("offset", "key", "value")}


def _named(names: tuple[str, ...], number: int) -> str | int:
    """Name a number, or show it as it is where no name fits."""
    return names[number] if 0 <= number < len(names) else number


# --- encode and size ----------------------------------------------------------------------------------


def _encode_batch(value: dict[str, Any]) -> bytes:
    if int(value["baseOffset"]) != 0 or value["isControlBatch"] or value["timestampType"] != "CreateTime":
        raise Unsupported("the builder takes no base offset, control batch or timestamp type")
    builder = _builder(
        compression_type=CODECS.index(value["compression"]),
        is_transactional=int(value["isTransactional"]),
        producer_id=int(value["producerId"]),
        producer_epoch=value["producerEpoch"],
        base_sequence=value["baseSequence"],
    )
    for record in value["records"]:
        builder.append(int(record["offset"]), int(record["timestamp"]), *_content(record))
    return bytes(builder.build())


def _encode_message_set(value: list[dict[str, Any]], *, magic: int, compression: str) -> bytes:
    if (magic, compression) == (0, "lz4"):
        raise Unsupported("the library has no lz4 for magic 0")
    builder = _legacy_builder(magic, compression)
    for message in value:
        builder.append(*_legacy_record(message))
    try:
        return bytes(builder.build())
    except UnsupportedCodecError as error:  # zstd
        raise Reject("unsupported-codec", str(error)) from error


WRITERS: dict[str, Callable[..., bytes]] = {"RECORD_BATCH": _encode_batch, "MESSAGE_SET": _encode_message_set}


def _size_of_record(value: dict[str, Any]) -> int:
    if value["attributes"] != 0:
        raise Unsupported("a record has no attributes")
    builder = _builder(compression_type=0, is_transactional=0, producer_id=-1, producer_epoch=-1, base_sequence=-1)
    builder.append(0, 0, None, None, [])  # so that the record's timestamp counts from 0 and is the delta
    return int(builder.size_in_bytes(value["offsetDelta"], int(value["timestampDelta"]), *_content(value)))


def _size_of_message_set(value: list[dict[str, Any]], *, magic: int, compression: str) -> int:
    if compression != "none":
        raise Unsupported("the size of a compressed set is not known before it is built")
    builder = _legacy_builder(magic, compression)
    return sum(builder.size_in_bytes(*_legacy_record(message)) for message in value)


SIZES: dict[str, Callable[..., int]] = {"RECORD": _size_of_record, "MESSAGE_SET": _size_of_message_set}


def _builder(**fields: int) -> Any:
    return DefaultRecordBatchBuilder(magic=2, batch_size=2**31 - 1, **fields)


def _legacy_builder(magic: int, compression: str) -> Any:
    return LegacyRecordBatchBuilder(magic, CODECS.index(compression), 2**31 - 1)


def _legacy_record(message: dict[str, Any]) -> tuple[int, int | None, bytes | None, bytes | None]:
    if message.get("timestampType", "CreateTime") != "CreateTime":
        raise Unsupported("the builder takes no timestamp type")
    timestamp = int(message["timestamp"]) if "timestamp" in message else None
    return int(message["offset"]), timestamp, _bytes(message["key"]), _bytes(message["value"])


def _content(record: dict[str, Any]) -> tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]]]:
    if any(header["key"] is None for header in record["headers"]):
        raise Unsupported("a header key is a str")
    headers = [(header["key"], _bytes(header["value"])) for header in record["headers"]]
    return _bytes(record["key"]), _bytes(record["value"]), headers


def _bytes(value: str | None) -> bytes | None:
    return None if value is None else bytes.fromhex(value)


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
    found: dict[str, Any] = {"records": []}
    try:
        with _refusals():
            for record in partition:
                found["records"].append(_consumed(record))
    except Reject as refused:
        found["error"] = refused.error
    return {**found, "nextOffset": partition.next_fetch_offset}


def _consumed(record: Any) -> dict[str, Any]:
    """Show a ConsumerRecord; None is its word for no timestamp.

    A type of None says nothing: the C extension gives it for magic 0, and for magic 1 with timestamp -1.
    """
    value = {**_record(record), "timestamp": -1 if record.timestamp is None else record.timestamp}
    if record.timestamp_type is not None:
        value["timestampType"] = _named(TIMESTAMP_TYPES, record.timestamp_type)
    return value
