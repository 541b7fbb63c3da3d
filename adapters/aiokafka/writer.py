"""AIOKafkaProducer as an application uses it: send, wait."""

import asyncio
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "common"))

from aiokafka import AIOKafkaProducer
from driving import Told, batches, in_turn


async def produce(told: Told) -> None:
    """Write batches, each by a flush of its own."""
    asked, topic, rows = told["produce"], told["topic"], batches(told, cannot)
    producer = AIOKafkaProducer(
        bootstrap_servers=told["bootstrap"],
        client_id=topic,
        acks="all",
        compression_type=None if asked["compression"] == "none" else asked["compression"],
        linger_ms=100,
        max_batch_size=asked["batchBytes"],
        max_request_size=asked["batchBytes"],
        enable_idempotence=asked["idempotent"],
        transactional_id=topic if asked["transactional"] else None,
    )
    await producer.start()
    try:
        for batch, begins, end, is_given_up in in_turn(told, rows):
            if begins:
                await producer.begin_transaction()
            sent = [
                await producer.send(
                    topic, row["value"], row["key"], told["partition"], row["timestamp"], row["headers"]
                )
                for row in batch
            ]
            await asyncio.gather(*sent, return_exceptions=is_given_up)
            if end:
                await {"commit": producer.commit_transaction, "abort": producer.abort_transaction}[end]()
    finally:
        await producer.stop()


def cannot(row: Told) -> str:
    """Say what of a record send() documents that it does not take."""
    return "a record without key and value" if row["key"] is row["value"] is None else ""
