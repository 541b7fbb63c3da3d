"""AIOKafkaProducer as an application uses it: send, wait."""

import asyncio
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "common"))

from aiokafka import AIOKafkaProducer
from driving import Line, batches, in_turn


async def produce(line: Line) -> None:
    """Write batches, with a flush after each."""
    options, topic, rows = line["produce"], line["topic"], batches(line, cannot)
    producer = AIOKafkaProducer(
        bootstrap_servers=line["bootstrap"],
        client_id=topic,
        acks="all",
        compression_type=None if options["compression"] == "none" else options["compression"],
        linger_ms=100,
        max_batch_size=options["batchBytes"],
        max_request_size=options["batchBytes"],
        enable_idempotence=options["idempotent"],
        transactional_id=topic if options["transactional"] else None,
    )
    await producer.start()
    try:
        for batch, begins, end, is_given_up in in_turn(line, rows):
            if begins:
                await producer.begin_transaction()
            sent = [
                await producer.send(
                    topic, row["value"], row["key"], line["partition"], row["timestamp"], row["headers"]
                )
                for row in batch
            ]
            await asyncio.gather(*sent, return_exceptions=is_given_up)
            if end:
                await {"commit": producer.commit_transaction, "abort": producer.abort_transaction}[end]()
    finally:
        await producer.stop()


def cannot(row: Line) -> str:
    """Return the part of a record that send() does not accept by its documentation, or ""."""
    return "a record without key and value" if row["key"] is row["value"] is None else ""
