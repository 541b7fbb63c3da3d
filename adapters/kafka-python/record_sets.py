"""The records of kafka-python 3: those of MemoryRecords, of the builders, and of poll()."""

import gzip
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import snappy  # type: ignore[import-untyped]
import zstandard
from kafka.consumer.fetcher import Fetcher
from kafka.consumer.subscription_state import SubscriptionState
from kafka.errors import CorruptRecordError, KafkaError, UnsupportedCodecError
from kafka.protocol.consumer import FetchResponse
from kafka.record import MemoryRecords
from kafka.record.default_records import ControlRecord, DefaultRecordBatch, DefaultRecordBatchBuilder
from kafka.record.legacy_records import LegacyRecordBatchBuilder
from kafka.structs import TopicPartition
from kafka_python_records import (
    shown_header,
    shown_message,
    shown_record,
    size_of_messages,
    write_batch,
    write_messages,
)
from notation import CODECS, TIMESTAMP_TYPES, named

from conformance import Reject

# The documented exceptions of the codec libraries for damaged data, which kafka-python does not wrap.
DAMAGED = (gzip.BadGzipFile, EOFError, zlib.error, snappy.UncompressError, zstandard.ZstdError)

# --- decode -------------------------------------------------------------------------------------------


def _decode_batch(data: bytes) -> tuple[dict[str, Any], int]:
    records = MemoryRecords(data)
    batch = next(_batches(records), None)
    if batch is None:
        raise Reject("malformed", "no complete batch")
    return _entry(batch), batch.size_in_bytes


def _decode_log(data: bytes) -> dict[str, Any]:
    records = MemoryRecords(data)
    batches = [_entry(batch) for batch in _batches(records)]
    return {"batches": batches, "partial": records.size_in_bytes() - records.valid_bytes()}


def _decode_message_set(data: bytes) -> tuple[list[dict[str, Any]], int]:
    records = MemoryRecords(data)
    messages = [message for batch in _batches(records) for message in _messages(batch)]
    return messages, records.valid_bytes()


def _decode_control_record(key: bytes) -> dict[str, int]:
    record = ControlRecord(len(key), 0, 0, 0, key, None, [])
    return {"version": record.version, "type": record.type}


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
    except CorruptRecordError as error:
        raise Reject("corrupt", str(error)) from error
    except UnsupportedCodecError as error:
        raise Reject("unsupported-codec", str(error)) from error
    except KafkaError as error:
        raise Reject("other", str(error)) from error
    except DAMAGED as error:
        raise Reject("malformed", f"{error.__class__.__name__}: {error}") from error
    except RuntimeError as error:  # lz4 has no error class, and the fetcher raises this one for its own bugs
        if "LZ4F_" not in str(error):
            raise
        raise Reject("malformed", f"RuntimeError: {error}") from error


def _batches(records: Any) -> Iterator[Any]:
    """Yield the whole batches with checked checksums, like the library's fetcher."""
    with _refusals():
        while (batch := records.next_batch()) is not None:
            _check(batch)
            yield batch


def _check(entry: Any) -> None:
    if not entry.validate_crc():
        raise Reject("corrupt", "validate_crc() is False")


def _entry(batch: Any) -> dict[str, Any]:
    """Return a batch in notation, or the message of magic 0 or 1 in its place."""
    if isinstance(batch, DefaultRecordBatch):
        return _batch(batch)
    compression = named(CODECS, batch.compression_type)
    return {
        "magic": batch.magic,
        "offset": batch.base_offset,
        "compression": compression,
        "messages": _messages(batch),
    }


def _batch(batch: Any) -> dict[str, Any]:
    value = shown_header(batch) | {
        "batchLength": batch.size_in_bytes - DefaultRecordBatch.AFTER_LEN_OFFSET,
        "partitionLeaderEpoch": batch.leader_epoch,
        "recordCount": batch.records_count,
    }
    with _refusals():
        value["records"] = [shown_record(record) for record in batch]
    return value


def _messages(batch: Any) -> list[dict[str, Any]]:
    with _refusals():
        return [_message(batch.magic, record) for record in batch]


def _message(magic: int, record: Any) -> dict[str, Any]:
    _check(record)
    return {**shown_message(record), "magic": magic}


# --- encode and size ----------------------------------------------------------------------------------


def _encode_batch(value: dict[str, Any]) -> bytes:
    return write_batch(DefaultRecordBatchBuilder, value)


def _encode_message_set(value: list[dict[str, Any]], *, magic: int, compression: str) -> bytes:
    try:
        return write_messages(LegacyRecordBatchBuilder, value, magic, compression)
    except UnsupportedCodecError as error:  # zstd
        raise Reject("unsupported-codec", str(error)) from error


WRITERS: dict[str, Callable[..., bytes]] = {"RECORD_BATCH": _encode_batch, "MESSAGE_SET": _encode_message_set}


def _size_of_message_set(value: list[dict[str, Any]], *, magic: int, compression: str) -> int:
    return size_of_messages(LegacyRecordBatchBuilder, value, magic, compression)


SIZES: dict[str, Callable[..., int]] = {"MESSAGE_SET": _size_of_message_set}

DOORS = {
    "decode": dict.fromkeys(["RECORD_BATCH", "LOG", "MESSAGE_SET"], "internal: KafkaConsumer.poll > MemoryRecords")
    | {"CONTROL_RECORD": "internal: KafkaConsumer.poll > DefaultRecordBatch > ControlRecord"},
    "encode": {
        "RECORD_BATCH": "internal: KafkaProducer.send > MemoryRecordsBuilder > DefaultRecordBatchBuilder",
        "MESSAGE_SET": "internal: KafkaProducer.send > MemoryRecordsBuilder > LegacyRecordBatchBuilder",
    },
    "size": {
        "MESSAGE_SET": "internal: KafkaProducer.send > LegacyRecordBatchBuilder.append > size_in_bytes",
    },
}


# --- read ---------------------------------------------------------------------------------------------

PARTITION = TopicPartition("t", 0)
NODE = 0
# While the fetcher processes a response, it only needs the broker's version from its client.
CLIENT = SimpleNamespace(_manager=SimpleNamespace(_net=None, broker_version=None))


def read(data: bytes, **settings: Any) -> dict[str, Any]:
    """Return the records of poll() for a fetch response with these bytes, and the position after them."""
    subscriptions = SubscriptionState()
    subscriptions.assign_from_user([PARTITION])
    subscriptions.seek(PARTITION, int(settings["fetchOffset"]))
    fetcher = Fetcher(
        CLIENT, subscriptions, isolation_level=settings["isolation"], check_crcs=settings.get("checkCrcs", True)
    )
    fetched = {PARTITION: int(settings["fetchOffset"])}
    fetcher._handle_fetch_response(NODE, fetched, time.monotonic(), _response(data, settings))  # noqa: SLF001
    answer: dict[str, Any] = {"records": []}
    try:
        with _refusals():
            while polled := fetcher.fetched_records()[0]:  # records before an error are returned before it
                answer["records"] += [_consumed(record) for record in polled[PARTITION]]
    except Reject as refused:
        answer["error"] = refused.error
    return {**answer, "nextOffset": str(subscriptions.position(PARTITION).offset)}


def _response(data: bytes, settings: dict[str, Any]) -> Any:
    """Return a fetch response for only this partition."""
    topic = FetchResponse.FetchableTopicResponse
    partition = topic.PartitionData
    highest = int(settings["highWatermark"])
    aborted = [
        partition.AbortedTransaction(
            version=11, producer_id=int(entry["producerId"]), first_offset=int(entry["firstOffset"])
        )
        for entry in settings["aborted"]
    ]
    content = partition(
        version=11,
        partition_index=PARTITION.partition,
        error_code=0,
        high_watermark=highest,
        last_stable_offset=highest,
        log_start_offset=0,
        aborted_transactions=aborted,
        preferred_read_replica=-1,
        records=data,
    )
    topics = [topic(version=11, topic=PARTITION.topic, partitions=[content])]
    return FetchResponse(version=11, throttle_time_ms=0, error_code=0, session_id=0, responses=topics)


def _consumed(record: Any) -> dict[str, Any]:
    """Return a ConsumerRecord in notation; a missing timestamp or timestamp type is None."""
    timestamp_type = record.timestamp_type
    return {
        **shown_record(record),
        "timestamp": "-1" if record.timestamp is None else str(record.timestamp),
        "timestampType": "NoTimestampType" if timestamp_type is None else named(TIMESTAMP_TYPES, timestamp_type),
    }
