"""Shared code of the Python drivers for clients in an event loop, in addition to driving.py."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from typing import Any

from driving import IsRefusal, Line, report, report_end, topics, write_line


async def drive(
    version: str,
    consume: Callable[[Line], AsyncGenerator[Any, None]],
    shown: Callable[[Any], Line],
    *,
    is_refusal: IsRefusal,
    produce: Callable[[Line], Awaitable[object]],
) -> None:
    """Consume the topics of the suite or write to them, one task each, until the input ends."""
    write_line({"version": version})

    async def serve(line: Line) -> None:
        with report_end(line["topic"], is_refusal):
            if "produce" in line:
                await produce(line)
                return
            async with aclosing(consume(line)) as records:
                async for record in records:
                    if report(line["topic"], shown(record)):
                        break

    running, lines = set(), topics()
    while line := await asyncio.get_running_loop().run_in_executor(None, next, lines, None):
        task = asyncio.create_task(serve(line))
        running.add(task)
        task.add_done_callback(running.discard)
