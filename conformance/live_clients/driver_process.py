"""A client under a driver: the process that is told of topics, and writes down what an application is handed of each.

The driver's program reads one JSON object a line, `{"bootstrap", "topic", "partition", "offset", "isolation"}`, and
opens a fresh consumer for each. Of every record that the consumer hands out it writes
`{"topic", "record": {"offset", "timestamp", …}}` in the notation of `read`; when the record with the key
`conformance.end` has come, `{"topic", "end": true}`; when the consumer raises what an application is to catch,
`{"topic", "error": class, "message"}`, and when it raises anything else, `{"topic", "crash": message}`.
Its first line says what it is: `{"version": …}`.
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
from conformance.process.launcher import last_stderr_line

CRASH_PREFIX = "died of "
"""How a crash begins that ended the process of the client; any other is one that its driver tells."""
_LONGEST_LINE = 32 << 20
_MOST_RECORDS = 40_000
"""Records of a topic that are listened to; no case is due more."""
_BESIDE = (BEFORE_KEY.hex(), END_KEY.hex())
"""The keys of records that are not those of a case."""
_CHUNK = 1 << 14
"""Characters of standard error that are kept, the last ones."""
_CRASH_LINE = re.compile(
    r"(?i:assert|panic|fatal)"
    r"|^(?:Uncaught |Exception in thread \"[^\"]*\" )?[\w.$]*(?:Error|Exception)(?: \[\w+\])?:"
)
"""What stands in a line that says what a client died of, or how it begins that names what nobody caught.

Most lines are its log, which differs from run to run.
"""
_LAST = 1.0
"""Seconds in which the last of it comes, once the driver has ended."""
_FAREWELL = 2.0
"""Seconds a driver has to exit after the end of its input."""
_LOOK, _LOOKS = 0.02, 50
"""Seconds between two looks at what was killed, and how many there are at most."""


class DriverError(Exception):
    """A driver that does not keep to its protocol; the message is one line."""


class ClientOutput(Struct):
    """What an application was handed of one topic so far: the records of the case, and those beside it."""

    records: list[Answer] = field(default_factory=list)
    guard_records: list[Answer] = field(default_factory=list)
    error: str = ""
    message: str = ""
    crash: str = ""
    invalid_reason: str = ""
    """Why it says nothing of the client; empty as a rule."""
    ended: bool = False
    died: bool = False
    """The driver's process ended first."""
    flooded: bool = False
    """The client goes on and on to hand out records."""
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def is_over(self) -> bool:
        """Whether nothing more is awaited."""
        return self.ended or self.died or bool(self.error or self.crash)


class DriverProcess:
    """A running driver. `close` it, however the work ended."""

    def __init__(self, command: Sequence[str], env: Mapping[str, str]) -> None:
        """Nothing runs before `start`."""
        self._command, self._env = command, env
        self._heard: dict[str, ClientOutput] = {}
        self._errors = ""
        self.version = ""
        self.is_alive = False
        self.was_asked = False
        """Whether it was told of a topic."""

    async def start(self, seconds: float) -> None:
        """Start the driver and wait for its first line. Raises OSError, TimeoutError or DriverError."""
        self._process = await asyncio.create_subprocess_exec(
            *self._command,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={**self._env},
            limit=_LONGEST_LINE,
            start_new_session=True,  # so that it ends with its children
        )
        self.is_alive = True
        self._listener = asyncio.create_task(self._listen())
        assert self._process.stdout is not None
        said = await asyncio.wait_for(self._process.stdout.readline(), seconds)
        if not said:
            await self._hear_out()
            raise DriverError(f"the driver ended{last_stderr_line(self._errors)}")
        hello = _line(said)
        self.version = str(hello.get("version", ""))
        self._reader = asyncio.create_task(self._read())

    def ask(self, topic: str, request: Mapping[str, object]) -> ClientOutput:
        """Tell the driver of a topic; what it says of it comes later."""
        self.was_asked = True
        heard = self._heard[topic] = ClientOutput(died=not self.is_alive)
        assert self._process.stdin is not None
        with suppress(ConnectionError):
            self._process.stdin.write(json.dumps({"topic": topic, **request}).encode() + b"\n")
        return heard

    def invalidate_cases(self, reason: str) -> None:
        """What becomes of the topics that the client is busy with says nothing of it."""
        for heard in self._heard.values():
            heard.invalid_reason = heard.invalid_reason or reason
            heard.changed.set()

    def forget(self, topic: str) -> None:
        """Nothing more is awaited of a topic."""
        self._heard.pop(topic, None)

    async def close(self, *, kindly: bool = False) -> None:
        """End the driver."""
        if not hasattr(self, "_process"):
            return
        assert self._process.stdin is not None
        self._process.stdin.close()
        if kindly:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._process.wait(), _FAREWELL)
        self._kill()
        await self._process.wait()
        if hasattr(self, "_reader"):
            await self._reader
        if hasattr(self, "_listener"):
            self._listener.cancel()
        for _ in range(_LOOKS):  # a busy child dies only when its turn comes
            if not _is_alive(self._process.pid):
                break
            await asyncio.sleep(_LOOK)

    def _kill(self) -> None:
        """Kill the driver with what it started, without asking how it does: that would take its status from asyncio."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)

    @property
    def status(self) -> int | None:
        """The status with which the process ended; a negative number is a signal."""
        return self._process.returncode

    def crash_text(self, heard: ClientOutput) -> str:
        """What a crash over a topic was; empty where there was none."""
        if heard.error == "driver":
            return f"the driver: {heard.message}"
        if heard.crash or not heard.died:
            return heard.crash
        before = f"; {len(heard.records)} records were handed out before" if heard.records else ""
        said = "\n".join(line for line in self._errors.splitlines() if _CRASH_LINE.search(line))
        return f"{CRASH_PREFIX}{_how_it_ended(self.status)}{last_stderr_line(said)}{before}"

    async def _listen(self) -> None:
        """Keep the end of what the driver complains of, and hand all of it on."""
        assert self._process.stderr is not None
        while chunk := await self._process.stderr.read(_CHUNK):
            self._errors = (self._errors + chunk.decode("utf-8", "replace"))[-_CHUNK:]
            with suppress(OSError):
                os.write(2, chunk)

    async def _hear_out(self) -> None:
        """Wait for the end of standard error of a driver that has ended; a child of it may keep that open."""
        await asyncio.wait([self._listener], timeout=_LAST)

    async def _read(self) -> None:
        """Hand out what the driver says, until it ends."""
        assert self._process.stdout is not None
        try:
            while line := await self._process.stdout.readline():
                self._note(_line(line))
        except (DriverError, ValueError) as problem:
            for heard in self._heard.values():
                heard.error, heard.message = heard.error or "driver", str(problem)
        self.is_alive = False
        self._kill()
        await self._process.wait()
        await self._hear_out()
        for heard in self._heard.values():
            heard.died = not heard.is_over
            heard.changed.set()

    def _note(self, said: dict[str, Any]) -> None:
        heard = self._heard.get(str(said.get("topic")))
        if heard is None:
            return  # of a topic that is settled already
        if "record" in said:
            record = said["record"]
            if not isinstance(record, dict):
                raise DriverError(f"a record is an object, not {str(record)[:60]}")
            heard.flooded = len(heard.records) + len(heard.guard_records) >= _MOST_RECORDS
            if not heard.flooded:
                (heard.guard_records if record.get("key") in _BESIDE else heard.records).append(record)
            elif heard.guard_records:
                heard.records, heard.guard_records = heard.guard_records + heard.records, []
        elif "error" in said:
            known = said["error"] in ERRORS
            heard.error, heard.message = said["error"] if known else "other", str(said.get("message", ""))
        elif "crash" in said:
            heard.crash = str(said["crash"]) or "it raised"
        elif "unsupported" in said:
            heard.invalid_reason, heard.ended = str(said["unsupported"]), True
        elif said.get("end") is True:
            heard.ended = True
        else:
            raise DriverError(f"a line of the driver says nothing: {str(said)[:100]}")
        heard.changed.set()


def _is_alive(group: int) -> bool:
    """Whether a process of a group runs; one that is dead may wait to be collected."""
    for pid in psutil.pids():
        with suppress(ProcessLookupError, PermissionError, psutil.Error):
            if os.getpgid(pid) == group and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
                return True
    return False


def _how_it_ended(status: int | None) -> str:
    """The status of a process that ended, in words."""
    if status is not None and status < 0:
        return signal.Signals(-status).name
    return f"exit status {status}"


def _line(text: bytes) -> dict[str, Any]:
    """An object on a line. Raises DriverError."""
    try:
        said = json.loads(text)
    except ValueError:
        said = None
    if not isinstance(said, dict):
        raise DriverError(f"a line of the driver is no JSON object: {text[:100]!r}" if text else "the driver ended")
    return said
