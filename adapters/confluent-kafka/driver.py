"""The Consumer of confluent-kafka (librdkafka) as an application uses it: assign at an offset, poll."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path += [str(Path(__file__).parent), str(Path(__file__).parents[1] / "common")]

from confluent_kafka import Consumer, KafkaException, TopicPartition, libversion, version
from driving import Told, drive, shown_as
from writer import produce

AT_ONCE = 16
TYPES = {0: "NoTimestampType", 1: "CreateTime", 2: "LogAppendTime"}


def consume(told: Told) -> Iterator[Any]:
    """Yield the messages that poll() hands out, from the offset on. Raises KafkaException for an error among them."""
    consumer = Consumer(
        {
            "bootstrap.servers": told["bootstrap"],
            "group.id": told["topic"],  # it asks for one, and never joins it
            "enable.auto.commit": False,
            "isolation.level": told["isolation"],
            "check.crcs": True,
            "fetch.error.backoff.ms": 10,
        }
    )
    try:
        consumer.assign([TopicPartition(told["topic"], told["partition"], int(told["offset"]))])
        while True:
            message = consumer.poll(0.2)
            if message is not None and message.error() is not None:
                raise KafkaException(message.error())
            if message is not None:
                yield message
    finally:
        consumer.close()


def shown(message: Any) -> Told:
    """Return a message in the notation of `read`."""
    kind, timestamp = message.timestamp()
    headers = message.headers() or []
    return shown_as(message.offset(), timestamp if kind else -1, TYPES[kind], message.key(), message.value(), headers)


drive(
    f"{version()} (librdkafka {libversion()[0]})",
    consume,
    shown,
    at_once=AT_ONCE,
    produce=produce,
    is_refusal=lambda error: isinstance(error, KafkaException),
)
