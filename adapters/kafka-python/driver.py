"""KafkaConsumer of kafka-python as an application uses it: assign and seek, or subscribe and commit; poll."""

import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

sys.path += [str(Path(__file__).parent), str(Path(__file__).parents[1] / "common")]

import snappy  # type: ignore[import-untyped]
import zstandard
from driving import DAMAGED, Line, drive, shown_as
from kafka import KafkaConsumer, TopicPartition
from kafka.errors import KafkaError
from writer import produce

AT_ONCE = 8
# The library's documented errors, and those of the codec libraries for damaged data, which kafka-python does not wrap.
REFUSALS = (KafkaError, ValueError, snappy.UncompressError, zstandard.ZstdError, *DAMAGED)
TYPES = {0: "CreateTime", 1: "LogAppendTime"}
RACK = {"client_rack": "rack"} if "client_rack" in KafkaConsumer.DEFAULT_CONFIG else {}
IN_GROUP = {"auto_offset_reset": "earliest", "enable_auto_commit": False, "heartbeat_interval_ms": 100}


def consume(line: Line) -> Iterator[Any]:
    """Yield the records of poll(), from the offset on or as a member of a group."""
    partition = TopicPartition(line["topic"], line["partition"])
    settings = {"bootstrap_servers": line["bootstrap"], "isolation_level": line["isolation"], "group_id": None} | RACK
    consumer = KafkaConsumer(**settings | (IN_GROUP | {"group_id": line["topic"]} if "group" in line else {}))
    try:
        if "group" in line:
            consumer.subscribe([line["topic"]])
        else:
            consumer.assign([partition])
            consumer.seek(partition, int(line["offset"]))
        while True:
            for record in consumer.poll(timeout_ms=200).get(partition, []):
                yield record
                if "group" in line:
                    consumer.commit()
    finally:
        consumer.close(autocommit=False)


def shown(record: Any) -> Line:
    """Return a ConsumerRecord in the notation of `read`."""
    timestamp = -1 if record.timestamp is None else record.timestamp
    kind = TYPES.get(record.timestamp_type, "NoTimestampType")
    return shown_as(record.offset, timestamp, kind, record.key, record.value, record.headers)


def is_refusal(error: Exception) -> bool:
    """Return True for an exception that an application should catch; lz4 has no error class."""
    lz4 = isinstance(error, RuntimeError) and "LZ4F_" in str(error)
    return lz4 or isinstance(error, REFUSALS)


drive(version("kafka-python"), consume, shown, at_once=AT_ONCE, is_refusal=is_refusal, produce=produce)
