"""KafkaConsumer of kafka-python as an application uses it: assign and seek, or subscribe and commit; poll."""

import sys
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

sys.path += [str(Path(__file__).parent), str(Path(__file__).parents[1] / "common")]

import snappy  # type: ignore[import-untyped]
import zstandard
from driving import DAMAGED, Told, drive, shown_as
from kafka import KafkaConsumer, TopicPartition
from kafka.errors import KafkaError
from writer import produce

AT_ONCE = 8
# What the library documents; and what the codecs' own libraries document for damaged data: kafka-python lets them pass.
REFUSALS = (KafkaError, ValueError, snappy.UncompressError, zstandard.ZstdError, *DAMAGED)
TYPES = {0: "CreateTime", 1: "LogAppendTime"}
RACK = {"client_rack": "rack"} if "client_rack" in KafkaConsumer.DEFAULT_CONFIG else {}
IN_GROUP = {"auto_offset_reset": "earliest", "enable_auto_commit": False, "heartbeat_interval_ms": 100}


def consume(told: Told) -> Iterator[Any]:
    """Yield the records that poll() hands out, from the offset on, or as a member of a group."""
    partition = TopicPartition(told["topic"], told["partition"])
    settings = {"bootstrap_servers": told["bootstrap"], "isolation_level": told["isolation"], "group_id": None} | RACK
    consumer = KafkaConsumer(**settings | (IN_GROUP | {"group_id": told["topic"]} if "group" in told else {}))
    try:
        if "group" in told:
            consumer.subscribe([told["topic"]])
        else:
            consumer.assign([partition])
            consumer.seek(partition, int(told["offset"]))
        while True:
            for record in consumer.poll(timeout_ms=200).get(partition, []):
                yield record
                if "group" in told:
                    consumer.commit()
    finally:
        consumer.close(autocommit=False)


def shown(record: Any) -> Told:
    """Return a ConsumerRecord in the notation of `read`."""
    timestamp = -1 if record.timestamp is None else record.timestamp
    kind = TYPES.get(record.timestamp_type, "NoTimestampType")
    return shown_as(record.offset, timestamp, kind, record.key, record.value, record.headers)


def is_refusal(error: Exception) -> bool:
    """Tell what an application can be expected to catch; lz4 has no error class of its own."""
    lz4 = isinstance(error, RuntimeError) and "LZ4F_" in str(error)
    return lz4 or isinstance(error, REFUSALS)


drive(version("kafka-python"), consume, shown, at_once=AT_ONCE, is_refusal=is_refusal, produce=produce)
