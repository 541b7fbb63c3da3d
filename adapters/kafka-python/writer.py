"""KafkaProducer of kafka-python as an application uses it: send, flush."""

import sys
from contextlib import closing
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "common"))

from driving import Told, batches, in_turn
from kafka import KafkaProducer


def produce(told: Told) -> None:
    """Write batches, each by a flush of its own."""
    asked, topic, rows = told["produce"], told["topic"], batches(told, cannot)
    settings = {"transactional_id": topic} if asked["transactional"] else {"enable_idempotence": asked["idempotent"]}
    settings |= {"compression_type": None if asked["compression"] == "none" else asked["compression"]}
    settings |= {"batch_size": asked["batchBytes"], "max_request_size": asked["batchBytes"]}
    settings |= {"acks": "all", "linger_ms": 500}
    # Releases before 3.0 have no context manager of their own.
    with closing(KafkaProducer(bootstrap_servers=told["bootstrap"], client_id=topic, **settings)) as producer:
        if asked["transactional"]:
            producer.init_transactions()
        for batch, begins, end, is_given_up in in_turn(told, rows):
            if begins:
                producer.begin_transaction()
            sent = [
                producer.send(topic, row["value"], row["key"], row["headers"], told["partition"], row["timestamp"])
                for row in batch
            ]
            producer.flush()
            for each in () if is_given_up else sent:
                each.get()
            if end:
                {"commit": producer.commit_transaction, "abort": producer.abort_transaction}[end]()


def cannot(row: Told) -> str:
    """Say what of a record send() documents that it does not take."""
    if row["key"] is row["value"] is None:
        return "a record without key and value"
    return "a header without a value" if any(value is None for _, value in row["headers"]) else ""
