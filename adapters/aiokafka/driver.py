"""AIOKafkaConsumer as an application uses it: assign, seek, getone."""

import asyncio
import gzip
import json
import sys
import zlib
from importlib.metadata import version
from pathlib import Path
from typing import Any

sys.path += [str(Path(__file__).parent), str(Path(__file__).parents[1] / "common")]

import cramjam
from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import KafkaError
from driving import END, Told, hexed, raised, say
from writer import produce

# What the library documents; and what the codecs' own libraries document for damaged data: aiokafka lets them pass.
REFUSALS = (KafkaError, ValueError, gzip.BadGzipFile, EOFError, zlib.error, cramjam.DecompressionError)
TYPES = {0: "CreateTime", 1: "LogAppendTime"}


async def answer(told: Told) -> None:
    """Say what comes of a topic."""
    try:
        await (produce(told) if "produce" in told else consume(told))
        say({"topic": told["topic"], "end": True})
    except Exception as error:  # noqa: BLE001 - whatever an application would get
        say({"topic": told["topic"], **raised(error, lambda error: isinstance(error, REFUSALS))})


async def consume(told: Told) -> None:
    """Say what getone() hands out, from the offset on to the end of the topic."""
    topic, partition = told["topic"], TopicPartition(told["topic"], told["partition"])
    consumer = AIOKafkaConsumer(bootstrap_servers=told["bootstrap"], isolation_level=told["isolation"], group_id=None)
    try:
        await consumer.start()
        consumer.assign([partition])
        consumer.seek(partition, int(told["offset"]))
        key = None
        while key != END:
            record = await consumer.getone()
            key = record.key
            say({"topic": topic, "record": shown(record)})
    finally:
        await consumer.stop()


def shown(record: Any) -> dict[str, Any]:
    """Return a ConsumerRecord in the notation of `read`."""
    typed = {} if record.timestamp_type is None else {"timestampType": TYPES.get(record.timestamp_type, "other")}
    return {
        "offset": str(record.offset),
        "timestamp": str(-1 if record.timestamp is None else record.timestamp),
        **typed,  # None stands for magic 0 and for a timestamp that is not there
        "key": hexed(record.key),
        "value": hexed(record.value),
        "headers": [{"key": key, "value": hexed(value)} for key, value in record.headers],
    }


async def main() -> None:
    """Consume every topic that the suite names, each in a task of its own."""
    say({"version": version("aiokafka")})
    running = set()
    while line := await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline):
        task = asyncio.create_task(answer(json.loads(line)))
        running.add(task)
        task.add_done_callback(running.discard)


asyncio.run(main())
