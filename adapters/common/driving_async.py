"""What a driver in Python needs whose client runs in an event loop, besides driving.py."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from typing import Any

from driving import IsRefusal, Told, ending, hand, say, topics


async def drive(
    version: str,
    consume: Callable[[Told], AsyncGenerator[Any, None]],
    shown: Callable[[Any], Told],
    *,
    is_refusal: IsRefusal,
    produce: Callable[[Told], Awaitable[object]],
) -> None:
    """Consume the topics that the suite names, or write to them, each in a task of its own, until it ends the input."""
    say({"version": version})

    async def one(told: Told) -> None:
        with ending(told["topic"], is_refusal):
            if "produce" in told:
                await produce(told)
                return
            async with aclosing(consume(told)) as records:
                async for record in records:
                    if hand(told["topic"], shown(record)):
                        break

    running, lines = set(), topics()
    while told := await asyncio.get_running_loop().run_in_executor(None, next, lines, None):
        task = asyncio.create_task(one(told))
        running.add(task)
        task.add_done_callback(running.discard)
