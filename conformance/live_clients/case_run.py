"""Sends a topic to a client, waits for its output, and builds the answer."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Mapping
from itertools import count
from typing import TypeAlias

from conformance.cases.model import Answer
from conformance.codec.json_notation import NotationError
from conformance.codec.log import extents
from conformance.live_clients.baseline import NO_END_RECORD_POSSIBLE
from conformance.live_clients.client_pool import STARTUP_TIMEOUT_S, ClientSlot
from conformance.live_clients.driver_process import ClientOutput, DriverProcess
from conformance.live_clients.guard_records import GuardedCase
from conformance.mock_broker.broker import MockBroker
from conformance.mock_broker.topic import MockTopic


def timeout_text(topic: MockTopic, output: ClientOutput, startup: float) -> str:
    """Return the text of a timeout; `startup` is the limit for the first fetch in seconds."""
    if topic.first_fetch is None:
        return f"did not fetch the topic, or write to it, within {startup:g} s"
    refetches = topic.refetch_text(time.monotonic())
    again = f"; it {refetches}" if refetches else ""
    end = "" if topic.end is None else f", served the end of the topic at {topic.end}"
    return f"handed out {len(output.records)} records and did not come to the end of the topic{end}{again}"


def consumer_answer(topic: MockTopic, output: ClientOutput, sides: GuardedCase | None = None) -> Answer:
    """Return the records of the application, the next fetch offset, and any change of the guard records."""
    if topic.end_was_served and not output.error:
        # The client rejected these bytes without an error for the application.
        return records_answer(topic, output, "other", topic.refetch_text(time.monotonic()))
    answer = records_answer(topic, output, output.error, output.message)
    if sides is not None and not output.error:
        answer["value"]["nextOffset"] = str(sides.after["offset"])
        try:
            answer["value"] |= (
                {"guardViolation": touched} if (touched := sides.guard_violation(output.guard_records)) else {}
            )
        except NotationError:
            answer["value"]["records"] = output.guard_records  # the judge reports the wrong notation
    return answer


def records_answer(topic: MockTopic, output: ClientOutput, error: str = "", message: str = "") -> Answer:
    """Return the records of the application; without records, its error."""
    details = {"message": message} if message else {}
    if error and not output.records:
        return {"ok": False, "error": error, **details}
    after = topic.end if topic.end is not None else max(topic.fetches, default=topic.start)
    value: Answer = {"records": output.records, "nextOffset": str(after), **({"error": error} if error else {})}
    return {"ok": True, "value": value, **details}


def with_remark(answer: Answer, how: str) -> Answer:
    """Return the answer with a remark on how the topic was served, in a field that reports show."""
    for fault in ("crash", "timeout"):
        if fault in answer:
            return {**answer, fault: f"{answer[fault]} ({how})"}
    return {**answer, "message": f"{how}; {answer.get('message', '')}".rstrip("; ")}


def produced_batch_answer(topic: MockTopic, output: ClientOutput) -> Answer:
    """Return the batch that the client wrote, as the answer of an encoder; or the error that it raised."""
    if output.error:
        return {"ok": False, "error": output.error, "message": output.message}
    data = b"".join(topic.produced)
    count = len(list(extents(data)))
    if count > 1:
        return {"unsupported": f"the client spread the records over {count} batches"}
    return {"ok": True, "hex": data.hex()}


_IDLE_TIMEOUT_S = 5.0
"""Seconds from the last fetch or record of a client to the timeout."""
_CASE_TIMEOUT_S = 20.0
"""Seconds from the first fetch of a topic to the timeout."""

AnswerBuilder: TypeAlias = Callable[[MockTopic, ClientOutput], Answer]
"""Builds the answer about a finished topic."""


_numbers = count(1)
"""The numbers in topic names, which make them unique."""


async def run_topic(
    slot: ClientSlot,
    broker: MockBroker,
    topic: MockTopic,
    options: Mapping[str, object],
    shown: AnswerBuilder,
    name: str = "case",
) -> Answer:
    """Send a topic to the client in a slot, and return the answer about it."""
    client, slot.must_restart = await slot.ready(), bool(topic.name)
    # All names have the same length, so that a case is at the same byte of a response in every run.
    name = topic.name or f"{name:-<8}-{os.getpid():08x}-{next(_numbers):06x}"
    broker.topics[name] = topic
    output = client.ask(name, {"partition": 0, "bootstrap": broker.bootstrap, **options})
    topic.on_fetch = output.changed.set
    try:
        return await _wait_for_end(slot, client, topic, output, shown)
    finally:
        client.forget(name)
        del broker.topics[name]


async def _wait_for_end(
    slot: ClientSlot, client: DriverProcess, topic: MockTopic, output: ClientOutput, shown: AnswerBuilder
) -> Answer:
    """Return the answer after the end of the topic, an error, a crash or a timeout."""
    start = seen = time.monotonic()
    while not output.is_over:
        output.changed.clear()
        first = topic.first_fetch
        until = start + STARTUP_TIMEOUT_S if first is None else min(seen + _IDLE_TIMEOUT_S, first + _CASE_TIMEOUT_S)
        left = until - time.monotonic()
        if answer := _abort_answer(topic, output, late=left <= 0):
            await slot.end(client)  # it may spin on this topic; the other cases of the process are repeated
            return answer
        try:
            await asyncio.wait_for(output.changed.wait(), left)
            seen = time.monotonic()
        except TimeoutError:
            continue
    if output.invalid_reason:
        return {"unsupported": output.invalid_reason}
    return {"crash": mishap} if (mishap := client.crash_text(output)) else shown(topic, output)


def _abort_answer(topic: MockTopic, output: ClientOutput, *, late: bool) -> Answer | None:
    """Return the answer if the wait for the end of the topic stops now; None if it continues."""
    if output.invalid_reason:
        return {"unsupported": output.invalid_reason}
    if topic.cannot_end:
        return {"unsupported": NO_END_RECORD_POSSIBLE}
    if output.flooded:
        return records_answer(topic, output, message=f"handed out {len(output.records)} records and did not stop")
    return {"timeout": timeout_text(topic, output, STARTUP_TIMEOUT_S)} if late else None
