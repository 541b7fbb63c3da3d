"""The process of a driver: it gets topics, and writes the records that the client returns to an application.

The driver's program reads one JSON object a line, `{"bootstrap", "topic", "partition", "offset", "isolation"}`, and
opens a new consumer for each. For every record of the consumer it writes
`{"topic", "record": {"offset", "timestamp", …}}` in the notation of `read`. After the record with the key
`conformance.end` it writes `{"topic", "end": true}`; after an error that an application has to catch,
`{"topic", "error": class, "message"}`; after any other error, `{"topic", "crash": message}`.
Its first line is `{"version": …}`.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import psutil
from msgspec import Struct, field

from conformance.cases.model import ERRORS, Answer
from conformance.mock_broker.topic import BEFORE_KEY, END_KEY
from conformance.process.launcher import exit_text, last_stderr_line

CRASH_PREFIX = "the client "
"""The prefix of a crash that ended the client process; any other crash is one that the driver reports."""
_LONGEST_LINE = 32 << 20
_MOST_RECORDS = 40_000
"""The largest number of records that are read of a topic; no case has more."""
_GUARD_KEYS = (BEFORE_KEY.hex(), END_KEY.hex())
"""The keys of guard records."""
_CHUNK = 1 << 14
"""The number of last characters of standard error that are kept."""
_CRASH_LINE = re.compile(
    r"(?i:assert|panic|fatal)"
    r"|^(?:Uncaught |Exception in thread \"[^\"]*\" )?[\w.$]*(?:Error|Exception)(?: \[\w+\])?:"
)
"""A pattern of lines with the reason of a crash, or with an uncaught exception.

Most other lines are log lines, which differ from run to run.
"""
_LAST = 1.0
"""Seconds until the end of standard error after the end of the driver."""
_FAREWELL = 2.0
"""The grace period of a driver after the end of its input, in seconds."""
_LOOK, _LOOKS = 0.02, 50
"""The poll interval after a kill in seconds, and the largest number of polls."""


class DriverError(Exception):
    """A driver that breaks its protocol; the message is one line."""


class ClientOutput(Struct):
    """The output of the client for one topic so far: the records of the case, and the guard records."""

    records: list[Answer] = field(default_factory=list)
    guard_records: list[Answer] = field(default_factory=list)
    error: str = ""
    message: str = ""
    crash: str = ""
    invalid_reason: str = ""
    """Why the output is invalid for a reason outside the client; usually empty."""
    ended: bool = False
    died: bool = False
    """Whether the driver process ended before the topic."""
    flooded: bool = False
    """Whether the client returns records without an end."""
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def is_over(self) -> bool:
        """Whether the output is complete."""
        return self.ended or self.died or bool(self.error or self.crash)


class DriverProcess:
    """A running driver. `close` it in any case."""

    def __init__(self, command: Sequence[str], env: Mapping[str, str]) -> None:
        """Store the command; `start` runs it."""
        self._command, self._env = command, env
        self._outputs: dict[str, ClientOutput] = {}
        self._errors = ""
        self.version = ""
        self.is_alive = False
        self.is_used = False
        """Whether it got a topic."""

    async def start(self, seconds: float) -> None:
        """Start the driver and wait for its first line. Raises OSError, TimeoutError or DriverError."""
        self._process = await asyncio.create_subprocess_exec(
            *self._command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={**self._env},
            limit=_LONGEST_LINE,
            start_new_session=True,  # so that a kill reaches its children too
        )
        self.is_alive = True
        self._listener = asyncio.create_task(self._listen())
        assert self._process.stdout is not None
        line = await asyncio.wait_for(self._process.stdout.readline(), seconds)
        if not line:
            await self._finish_stderr()
            raise DriverError(f"the driver ended{last_stderr_line(self._errors)}")
        hello = _line(line)
        self.version = str(hello.get("version", ""))
        self._reader = asyncio.create_task(self._read())

    def ask(self, topic: str, request: Mapping[str, object]) -> ClientOutput:
        """Send a topic to the driver, and return its output, which is filled later."""
        self.is_used = True
        output = self._outputs[topic] = ClientOutput(died=not self.is_alive)
        assert self._process.stdin is not None
        with suppress(ConnectionError):
            self._process.stdin.write(json.dumps({"topic": topic, **request}).encode() + b"\n")
        return output

    def invalidate_cases(self, reason: str) -> None:
        """Mark the output of all running topics as invalid for a reason outside the client."""
        for output in self._outputs.values():
            output.invalid_reason = output.invalid_reason or reason
            output.changed.set()

    def forget(self, topic: str) -> None:
        """Ignore further output for a topic."""
        self._outputs.pop(topic, None)

    async def close(self, *, graceful: bool = False) -> None:
        """End the driver, with a grace period if `graceful`."""
        if not hasattr(self, "_process"):
            return
        assert self._process.stdin is not None
        self._process.stdin.close()
        if graceful:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._process.wait(), _FAREWELL)
        self._kill()
        await self._process.wait()
        if hasattr(self, "_reader"):
            await self._reader
        if hasattr(self, "_listener"):
            self._listener.cancel()
        for _ in range(_LOOKS):  # a killed child may run until its next turn on a CPU
            if not _is_alive(self._process.pid):
                break
            await asyncio.sleep(_LOOK)

    def _kill(self) -> None:
        """Kill the driver and its children; a check of its status here would take it from asyncio."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)

    @property
    def status(self) -> int | None:
        """The exit status of the process; a negative number is a signal."""
        return self._process.returncode

    def crash_text(self, output: ClientOutput) -> str:
        """Return the text of a crash in a topic; empty for none."""
        if output.error == "driver":
            return f"the driver: {output.message}"
        if output.crash or not output.died:
            return output.crash
        before = f"; {len(output.records)} records were handed out before" if output.records else ""
        crash_lines = "\n".join(line for line in self._errors.splitlines() if _CRASH_LINE.search(line))
        return f"{CRASH_PREFIX}{exit_text(self.status)}{last_stderr_line(crash_lines)}{before}"

    async def _listen(self) -> None:
        """Keep the last part of the driver's standard error, and copy all of it to ours."""
        assert self._process.stderr is not None
        while chunk := await self._process.stderr.read(_CHUNK):
            self._errors = (self._errors + chunk.decode("utf-8", "replace"))[-_CHUNK:]
            with suppress(OSError):
                os.write(2, chunk)

    async def _finish_stderr(self) -> None:
        """Wait for the end of standard error, but not forever: a child may keep it open."""
        await asyncio.wait([self._listener], timeout=_LAST)

    async def _read(self) -> None:
        """Read the lines of the driver until it ends."""
        assert self._process.stdout is not None
        try:
            while line := await self._process.stdout.readline():
                self._note(_line(line))
        except (DriverError, ValueError) as problem:
            for output in self._outputs.values():
                output.error, output.message = output.error or "driver", str(problem)
        self.is_alive = False
        self._kill()
        await self._process.wait()
        await self._finish_stderr()
        for output in self._outputs.values():
            output.died = not output.is_over
            output.changed.set()

    def _note(self, line: dict[str, Any]) -> None:
        output = self._outputs.get(str(line.get("topic")))
        if output is None:
            return  # a topic that is already finished
        if "record" in line:
            record = line["record"]
            if not isinstance(record, dict):
                raise DriverError(f"a record is an object, not {str(record)[:60]}")
            output.flooded = len(output.records) + len(output.guard_records) >= _MOST_RECORDS
            if not output.flooded:
                (output.guard_records if record.get("key") in _GUARD_KEYS else output.records).append(record)
            elif output.guard_records:
                output.records, output.guard_records = output.guard_records + output.records, []
        elif "error" in line:
            known = line["error"] in ERRORS
            output.error, output.message = line["error"] if known else "other", str(line.get("message", ""))
        elif "crash" in line:
            output.crash = str(line["crash"]) or "it raised"
        elif "unsupported" in line:
            output.invalid_reason, output.ended = str(line["unsupported"]), True
        elif line.get("end") is True:
            output.ended = True
        else:
            raise DriverError(f"a line of the driver has no known field: {str(line)[:100]}")
        output.changed.set()


def _is_alive(group: int) -> bool:
    """Return whether a process of a group runs; a zombie does not."""
    for pid in psutil.pids():
        with suppress(ProcessLookupError, PermissionError, psutil.Error):
            if os.getpgid(pid) == group and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
                return True
    return False


def _line(text: bytes) -> dict[str, Any]:
    """Return the JSON object of a line. Raises DriverError."""
    try:
        content = json.loads(text)
    except ValueError:
        content = None
    if not isinstance(content, dict):
        raise DriverError(f"a line of the driver is no JSON object: {text[:100]!r}" if text else "the driver ended")
    return content
