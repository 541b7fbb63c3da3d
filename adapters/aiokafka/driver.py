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
from driving import DAMAGED, Told, shown_as
from driving_async import drive
from writer import produce

# What the library documents; and what the codecs' own libraries document for damaged data: aiokafka lets them pass.
REFUSALS = (KafkaError, ValueError, cramjam.DecompressionError, *DAMAGED)
TYPES = {0: "CreateTime", 1: "LogAppendTime"}
RACK = {"client_rack": "rack"} if "client_rack" in signature(AIOKafkaConsumer).parameters else {}
IN_GROUP = {"auto_offset_reset": "earliest", "enable_auto_commit": False, "heartbeat_interval_ms": 100}


async def consume(told: Told) -> AsyncGenerator[Any, None]:
    """Yield the records that getone() hands out, from the offset on, or as a member of a group."""
    partition = TopicPartition(told["topic"], told["partition"])
    settings = {"bootstrap_servers": told["bootstrap"], "isolation_level": told["isolation"], "group_id": None} | RACK
    consumer = AIOKafkaConsumer(**settings | (IN_GROUP | {"group_id": told["topic"]} if "group" in told else {}))
    try:
        await consumer.start()
        if "group" in told:
            consumer.subscribe([told["topic"]])
        else:
            consumer.assign([partition])
            consumer.seek(partition, int(told["offset"]))
        while True:
            yield await consumer.getone()
            if "group" in told:
                await consumer.commit()
    finally:
        await consumer.stop()


def shown(record: Any) -> Told:
    """Return a ConsumerRecord in the notation of `read`."""
    timestamp = -1 if record.timestamp is None else record.timestamp
    # None stands for magic 0 and for a timestamp that is not there
    kind = None if record.timestamp_type is None else TYPES.get(record.timestamp_type, "other")
    return shown_as(record.offset, timestamp, kind, record.key, record.value, record.headers)


def is_refusal(error: Exception) -> bool:
    """Tell what an application can be expected to catch."""
    return isinstance(error, REFUSALS)


asyncio.run(drive(version("aiokafka"), consume, shown, is_refusal=is_refusal, produce=produce))
