"""AIOKafkaConsumer as an application uses it: assign and seek, or subscribe and commit; getone."""

import asyncio
import sys
from collections.abc import AsyncGenerator
from importlib.metadata import version
from inspect import signature
from pathlib import Path
from typing import Any

sys.path += [str(Path(__file__).parent), str(Path(__file__).parents[1] / "common")]

import cramjam
from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import KafkaError
from driving import DAMAGED, Line, shown_as
from driving_async import drive
from writer import produce

# The library's documented errors, and those of the codec libraries for damaged data, which aiokafka does not wrap.
REFUSALS = (KafkaError, ValueError, cramjam.DecompressionError, *DAMAGED)
TYPES = {0: "CreateTime", 1: "LogAppendTime"}
RACK = {"client_rack": "rack"} if "client_rack" in signature(AIOKafkaConsumer).parameters else {}
IN_GROUP = {"auto_offset_reset": "earliest", "enable_auto_commit": False, "heartbeat_interval_ms": 100}


async def consume(line: Line) -> AsyncGenerator[Any, None]:
    """Yield the records of getone(), from the offset on or as a member of a group."""
    partition = TopicPartition(line["topic"], line["partition"])
    settings = {"bootstrap_servers": line["bootstrap"], "isolation_level": line["isolation"], "group_id": None} | RACK
    consumer = AIOKafkaConsumer(**settings | (IN_GROUP | {"group_id": line["topic"]} if "group" in line else {}))
    try:
        await consumer.start()
        if "group" in line:
            consumer.subscribe([line["topic"]])
        else:
            consumer.assign([partition])
            consumer.seek(partition, int(line["offset"]))
        while True:
            yield await consumer.getone()
            if "group" in line:
                await consumer.commit()
    finally:
        await consumer.stop()


def shown(record: Any) -> Line:
    """Return a ConsumerRecord in the notation of `read`."""
    timestamp = -1 if record.timestamp is None else record.timestamp
    # None means magic 0 or a missing timestamp
    kind = None if record.timestamp_type is None else TYPES.get(record.timestamp_type, "other")
    return shown_as(record.offset, timestamp, kind, record.key, record.value, record.headers)


def is_refusal(error: Exception) -> bool:
    """Return True for an exception that an application should catch."""
    return isinstance(error, REFUSALS)


asyncio.run(drive(version("aiokafka"), consume, shown, is_refusal=is_refusal, produce=produce))
