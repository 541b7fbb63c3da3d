"""The Consumer of confluent-kafka (librdkafka) as an application uses it: assign, or subscribe and commit; poll."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path += [str(Path(__file__).parent), str(Path(__file__).parents[1] / "common")]

from confluent_kafka import Consumer, KafkaException, TopicPartition, libversion, version
from driving import Line, drive, shown_as
from writer import produce

TYPES = {0: "NoTimestampType", 1: "CreateTime", 2: "LogAppendTime"}
IN_GROUP = {"auto.offset.reset": "earliest", "heartbeat.interval.ms": 100}


def consume(line: Line) -> Iterator[Any]:
    """Yield the messages of poll(), from the offset on or in a group. Raises KafkaException."""
    settings = {
        "bootstrap.servers": line["bootstrap"],
        "group.id": line["topic"],  # required even without joining the group
        "enable.auto.commit": False,
        "isolation.level": line["isolation"],
        "check.crcs": True,
        "fetch.error.backoff.ms": 10,
        "client.rack": "rack",
    }
    consumer = Consumer(settings | (IN_GROUP if "group" in line else {}))
    try:
        if "group" in line:
            consumer.subscribe([line["topic"]])
        else:
            consumer.assign([TopicPartition(line["topic"], line["partition"], int(line["offset"]))])
        while True:
            message = consumer.poll(0.2)
            if message is not None and message.error() is not None:
                raise KafkaException(message.error())
            if message is not None:
                yield message
                if "group" in line:
                    consumer.commit(message, asynchronous=False)
    finally:
        consumer.close()


def shown(message: Any) -> Line:
    """Return a message in the notation of `read`."""
    kind, timestamp = message.timestamp()
    headers = message.headers() or []
    return shown_as(message.offset(), timestamp if kind else -1, TYPES[kind], message.key(), message.value(), headers)


release = f"{version()} (librdkafka {libversion()[0]})"
drive(release, consume, shown, at_once=16, produce=produce, is_refusal=lambda error: isinstance(error, KafkaException))
