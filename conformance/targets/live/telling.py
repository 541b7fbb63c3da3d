"""Tells a client of a topic, and waits for what comes of it."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Mapping
from itertools import count
from typing import TypeAlias

from conformance.cases.model import Answer
from conformance.targets.live.baseline import ENDLESS
from conformance.targets.live.broker import Broker
from conformance.targets.live.clients import Client, Heard
from conformance.targets.live.outcomes import delivered, silence
from conformance.targets.live.seats import STARTUP, Seat
from conformance.targets.live.topics import Topic

_PATIENCE = 5.0
"""Seconds from the last sign of a client (a fetch, a record) to the end of a topic."""
_LONGEST = 20.0
"""Seconds from the first fetch of a topic to its end."""

Shown: TypeAlias = Callable[[Topic, Heard], Answer]
"""The answer about a topic that is over."""


_numbers = count(1)
"""Of the topics, none of which has the name of another."""


async def tell(
    seat: Seat, broker: Broker, topic: Topic, told: Mapping[str, object], shown: Shown, name: str = "case"
) -> Answer:
    """Tell the client in a seat of a topic, and wait for what comes of it."""
    client, seat.is_spoilt = await seat.ready(), bool(topic.called)
    # All names are equally long: where the bytes of a case lie in an answer is the same in every run.
    name = topic.called or f"{name:-<8}-{os.getpid():08x}-{next(_numbers):06x}"
    broker.topics[name] = topic
    heard = client.ask(name, {"partition": 0, "bootstrap": broker.bootstrap, **told})
    topic.on_fetch = heard.changed.set
    try:
        return await _awaited(seat, client, topic, heard, shown)
    finally:
        client.forget(name)
        del broker.topics[name]


async def _awaited(seat: Seat, client: Client, topic: Topic, heard: Heard, shown: Shown) -> Answer:
    """The answer about a topic, once the client has come to its end, raised, died or fallen silent."""
    asked = seen = time.monotonic()
    while not heard.is_over:
        heard.changed.clear()
        first = topic.first_fetch
        until = asked + STARTUP if first is None else min(seen + _PATIENCE, first + _LONGEST)
        left = until - time.monotonic()
        if answer := _given_up(topic, heard, late=left <= 0):
            await seat.end(client)  # it goes on with the topic, may spin; those beside it are asked again
            return answer
        try:
            await asyncio.wait_for(heard.changed.wait(), left)
            seen = time.monotonic()
        except TimeoutError:
            continue
    if heard.void:
        return {"unsupported": heard.void}
    return {"crash": mishap} if (mishap := client.mishap(heard)) else shown(topic, heard)


def _given_up(topic: Topic, heard: Heard, *, late: bool) -> Answer | None:
    """The answer about a topic whose end is not awaited any more; None where it is."""
    if heard.void:
        return {"unsupported": heard.void}
    if topic.is_endless:
        return {"unsupported": ENDLESS}
    if heard.flooded:
        return delivered(topic, heard, message=f"handed out {len(heard.records)} records and did not stop")
    return {"timeout": silence(topic, heard, STARTUP)} if late else None
