"""The Producer of confluent-kafka (librdkafka) as an application uses it: produce, flush."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "common"))

from confluent_kafka import KafkaError, KafkaException, Message, Producer
from driving import Told, batches, in_turn


def produce(told: Told) -> None:
    """Write batches, each by a flush of its own. Raises KafkaException for the error that a delivery reports."""
    asked, topic = told["produce"], told["topic"]
    rows = batches(told, lambda row: "" if row["timestamp"] else "the timestamp 0, which stands for now")
    settings = {"transactional.id": topic} if asked["transactional"] else {"enable.idempotence": asked["idempotent"]}
    producer = Producer(
        {
            "bootstrap.servers": told["bootstrap"],
            "client.id": topic,
            "acks": "all",
            "compression.type": asked["compression"],
            "linger.ms": 200,
            "batch.size": asked["batchBytes"],
            "message.max.bytes": asked["batchBytes"],
            **settings,
        }
    )
    failed: list[KafkaException] = []

    def delivered(error: KafkaError | None, _: Message) -> None:
        if error is not None:
            failed.append(KafkaException(error))

    if asked["transactional"]:
        producer.init_transactions()
    for batch, begins, end, is_given_up in in_turn(told, rows):
        if begins:
            producer.begin_transaction()
        for row in batch:
            producer.produce(topic, partition=told["partition"], on_delivery=delivered, **row)
        producer.flush()
        if is_given_up:
            failed.clear()
        if end and not failed:
            {"commit": producer.commit_transaction, "abort": producer.abort_transaction}[end]()
    if failed:
        raise failed[0]
