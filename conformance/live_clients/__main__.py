"""`python -m conformance.live_clients DRIVER.yaml PYTHON`: a live client behind the line protocol.

It reads requests from standard input, and answers each as soon as the client has finished the case.
"""

import asyncio
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import cast

import msgspec
from msgspec.structs import replace

from conformance.cases.model import Answer
from conformance.live_clients.baseline import BaselineFailed
from conformance.live_clients.bridge import ClientBridge
from conformance.live_clients.driver_process import DriverError
from conformance.targets.manifests import DriverManifest, adapter_in
from conformance.targets.reference import serve as answer_all


def main() -> None:
    """Serve until the input ends; if the client does not start, the reason is the last line of standard error.

    If the client fails the baseline, every request gets that reason, because a restart would not help.
    """
    try:
        driver = cast("DriverManifest", adapter_in(Path(sys.argv[1])))
        asyncio.run(serve(replace(driver, module="", command=driver.program(sys.argv[2]))))
    except BaselineFailed as problem:
        gone = {"targetUnavailable": str(problem)}
        answer_all(sys.stdin.buffer, sys.stdout.buffer, lambda _: gone)
    except (OSError, DriverError) as problem:
        sys.exit(f"the driver did not start: {str(problem) or type(problem).__name__}")


async def serve(driver: DriverManifest) -> None:
    """Answer the requests on standard input until it ends; cases run at once, answers keep the order of requests."""
    live = ClientBridge(driver)
    loop = asyncio.get_running_loop()
    pending: asyncio.Queue[tuple[object, asyncio.Future[Answer]] | None] = asyncio.Queue()
    encoder = msgspec.json.Encoder()

    async def answer(request: Mapping[str, object]) -> Answer:
        if request.get("op") == "describe":
            return await live.describe()
        if request.get("op") == "read":
            return await live.read(request)
        if request.get("op") == "send":
            return await live.send(request)
        if request.get("op") == "encode" and request.get("type") == "RECORD_BATCH":
            return await live.encode(request)
        return {"unsupported": "a live client does not get this request"}

    async def write() -> None:
        while (row := await pending.get()) is not None:
            number, task = row
            line = encoder.encode({"id": number, **await _answered(task)})
            await loop.run_in_executor(None, _out, line + b"\n")

    try:
        await live.start()
        writer = asyncio.create_task(write())
        while line := await loop.run_in_executor(None, sys.stdin.buffer.readline):
            request = msgspec.json.decode(line)
            pending.put_nowait((request.get("id"), asyncio.ensure_future(answer(request))))
        pending.put_nowait(None)
        await writer
    finally:
        await live.close()


async def _answered(task: asyncio.Future[Answer]) -> Answer:
    """Return the answer to a request; a driver that does not start again is a crash in that case.

    A defect of the suite ends the run with its message, so that it does not look like a timeout of the client.
    """
    try:
        return await task
    except (OSError, TimeoutError, DriverError) as problem:
        return {"crash": f"the driver did not start again: {str(problem) or type(problem).__name__}"}
    except Exception as problem:  # noqa: BLE001 - any other error is one of the suite
        return {"targetUnavailable": f"a defect of the suite, in judging it live: {type(problem).__name__}: {problem}"}


def _out(line: bytes) -> None:
    sys.stdout.buffer.write(line)
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
