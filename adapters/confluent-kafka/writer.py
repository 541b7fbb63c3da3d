"""The Producer of confluent-kafka (librdkafka) as an application uses it: produce, flush."""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "common"))

from confluent_kafka import KafkaError, KafkaException, Message, Producer
from driving import Line, batches, in_turn


def produce(line: Line) -> None:
    """Write batches, with a flush after each. Raises KafkaException for a delivery error."""
    options, topic = line["produce"], line["topic"]
    rows = batches(line, lambda row: "" if row["timestamp"] else "the timestamp 0, which stands for now")
    settings = (
        {"transactional.id": topic} if options["transactional"] else {"enable.idempotence": options["idempotent"]}
    )
    producer = Producer(
        {
            "bootstrap.servers": line["bootstrap"],
            "client.id": topic,
            "acks": "all",
            "compression.type": options["compression"],
            "linger.ms": 200,
            "batch.size": options["batchBytes"],
            "message.max.bytes": options["batchBytes"],
            **settings,
        }
    )
    failed: list[KafkaException] = []

    def delivered(error: KafkaError | None, _: Message) -> None:
        if error is not None:
            failed.append(KafkaException(error))

    if options["transactional"]:
        producer.init_transactions()
    for batch, begins, end, is_given_up in in_turn(line, rows):
        if begins:
            producer.begin_transaction()
        for row in batch:
            producer.produce(topic, partition=line["partition"], on_delivery=delivered, **row)
        producer.flush()
        if is_given_up:
            failed.clear()
        if end and not failed:
            {"commit": producer.commit_transaction, "abort": producer.abort_transaction}[end]()
    if failed:
        raise failed[0]
