"""KafkaProducer of kafka-python as an application uses it: send, flush."""

import sys
from contextlib import closing
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "common"))

from driving import Line, batches, in_turn
from kafka import KafkaProducer


def produce(line: Line) -> None:
    """Write batches, with a flush after each."""
    options, topic, rows = line["produce"], line["topic"], batches(line, cannot)
    settings = (
        {"transactional_id": topic} if options["transactional"] else {"enable_idempotence": options["idempotent"]}
    )
    settings |= {"compression_type": None if options["compression"] == "none" else options["compression"]}
    settings |= {"batch_size": options["batchBytes"], "max_request_size": options["batchBytes"]}
    settings |= {"acks": "all", "linger_ms": 500}
    # Releases before 3.0 are no context managers.
    with closing(KafkaProducer(bootstrap_servers=line["bootstrap"], client_id=topic, **settings)) as producer:
        if options["transactional"]:
            producer.init_transactions()
        for batch, begins, end, is_given_up in in_turn(line, rows):
            if begins:
                producer.begin_transaction()
            sent = [
                producer.send(topic, row["value"], row["key"], row["headers"], line["partition"], row["timestamp"])
                for row in batch
            ]
            producer.flush()
            for each in () if is_given_up else sent:
                each.get()
            if end:
                {"commit": producer.commit_transaction, "abort": producer.abort_transaction}[end]()


def cannot(row: Line) -> str:
    """Return the part of a record that send() does not accept by its documentation, or ""."""
    if row["key"] is row["value"] is None:
        return "a record without key and value"
    return "a header without a value" if any(value is None for _, value in row["headers"]) else ""
