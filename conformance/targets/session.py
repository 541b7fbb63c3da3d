"""Sends requests to a target, and charges every answer, death and silence to the request that caused it.

Requests are pipelined: several are in flight at once, which is the window. When the target dies or falls silent, it is
started again and gets the unanswered requests one at a time; the request that brings it down again is to blame. If no
request does so alone, the whole window is replayed once, and the last request sent is blamed, with a remark that says
so. A silence that the replay does not repeat blames no request: a busy machine makes any target late. No request is
sent again after that.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Self

from conformance.cases.model import Broke, Outcome, Unsupported
from conformance.errors import TargetError
from conformance.targets import protocol
from conformance.targets.launch import Launch
from conformance.targets.process import TargetProcess
from conformance.targets.protocol import Breakdown, Description, Flood, Gone, ProtocolError, Silent
from conformance.targets.warm import CannotFork, WarmStart

WINDOW = 64
"""Requests in flight at most."""
WINDOW_BYTES = 48_000
"""Bytes in flight at most; a larger request travels alone. Both pipes must never be full at once."""
_STARTS = 3
_SLOW, _SLOW_BYTES = 1.0, 200_000
"""An answer may take so many seconds, and one more for each so many bytes of the request."""
_LAST_PATIENCE = 15.0
"""Seconds in which a target ends whose end is looked at: a large one on a busy machine needs some."""
_PATIENCE = {"timeout": 12, "protocol": 10, "crash": 400, "memory": 25, "slow": 10, "closed output": 4}
"""How many faults of a kind end the conversation: a target that is broken throughout must not cost hours."""
_PATIENCE_WITH_THE_MUTE = {"timeout": 3, "protocol": 3, "crash": 40, "memory": 5}
"""The same for a target that has not answered a single request."""
_IN_PROPORTION = 1000
"""A target may use up its memory over a request from one of so many bytes on that memory has: no codec but a bomb makes
more of a byte (gzip at its best makes 1032)."""


class CannotStart(TargetError):
    """A target that could not be started or described; the message is one line."""


@dataclass(frozen=True, slots=True)
class Allowance:
    """What a target is allowed: seconds per answer and for the start, bytes of memory."""

    timeout: float = 5.0
    startup: float = 30.0
    memory: int = 1024 * 2**20


@dataclass(slots=True)
class Session:
    """A conversation with one target over as many processes as it takes."""

    launch: Launch
    allowance: Allowance = field(default_factory=Allowance)
    warm: WarmStart | None = None
    """What starts it again once it has been started as a program; None: it is started as a program each time."""
    _process: TargetProcess | None = None
    _description: Description | None = None
    _number: int = 0
    _faults: Counter[str] = field(default_factory=Counter)
    _mute: bool = True
    """It has not answered a request since faults are counted."""
    _aborted: bool = False
    gave_up: str = ""
    """Why no further request is sent; empty while requests are sent."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._end(kindly=True)

    def describe(self) -> Description:
        """What the target says of itself. Raises CannotStart."""
        self._ensure()
        assert self._description is not None
        return self._description

    def ask(self, requests: Sequence[bytes]) -> Iterator[Outcome]:
        """The outcomes of requests (bodies without id), in their order. Raises CannotStart."""
        queue = deque(requests)
        while queue:
            if self.gave_up:
                yield Unsupported(self.gave_up)
                queue.popleft()
                continue
            window: list[bytes] = []
            try:
                yield from self._pipeline(queue, window)
            except Breakdown as fault:
                yield from self._settle(window, fault)

    def forget_faults(self) -> None:
        """Start counting faults anew, and ask on where the target was given up."""
        self._faults.clear()
        self._mute = True
        self.gave_up = ""

    def finish(self) -> int | None:
        """End its input, and it with that: the status it exits with, None when it has to be killed."""
        process, self._process = self._process, None
        return process.close(kindly=True, patience=_LAST_PATIENCE) if process is not None else None

    def abort(self) -> None:
        """End it from another thread: a thread that waits for an answer gets an error at once."""
        self._aborted = True
        process = self._process
        if process is not None:
            process.kill()

    # --- a process ----------------------------------------------------------------------------------

    def _ensure(self, *, alive: bool = False) -> TargetProcess:
        if alive and self._process is not None and not self._process.alive:
            # It ended after its last answer: no request is to blame, and the next one must not be.
            self._end()
        if self._process is None:
            self._start()
        assert self._process is not None
        return self._process

    def _start(self) -> None:
        problem = ""
        for _ in range(_STARTS):
            if self._aborted:
                raise CannotStart(f"{self.launch.name}: stopped")
            try:
                self._process = self._begun()
            except OSError as error:
                raise CannotStart(f"{self.launch.name}: {self.launch.command[0]}: {error.strerror}") from None
            if self._aborted:
                # Between the look above and now: `abort` may not have seen this process.
                self._process.kill()
            problem = self._introduce()
            if not problem:
                return
            self._end()
            if self.warm is not None:
                self.warm.decline()
        raise CannotStart(f"{self.launch.name} could not be started in {_STARTS} attempts: {problem}")

    def _introduce(self) -> str:
        """Let it describe itself: what kept it from that, else nothing. Raises CannotStart."""
        try:
            self._description = protocol.description(self._exchange({"op": "describe", "protocol": 1}))
        except ProtocolError as error:
            self._end()
            raise CannotStart(f"{self.launch.name} was not described: {error}") from None
        except Gone as gone:
            return gone.detail
        except Silent:
            return f"no answer to describe within {self.allowance.startup:g} s"
        except Flood as flood:
            return f"describe: {flood}"
        return ""

    def _begun(self) -> TargetProcess:
        """A new process. Raises OSError."""
        if self.warm is not None and self._description is not None:
            with suppress(CannotFork):
                return self.warm.process(self.allowance.memory)
        return TargetProcess(self.launch, self.allowance.memory)

    def _exchange(self, request: dict[str, object]) -> dict[str, object]:
        assert self._process is not None
        self._number += 1
        self._process.send(protocol.with_id(self._number, protocol.body(request)))
        line = self._process.line(time.monotonic() + self.allowance.startup)
        return protocol.fields(line, self._number)

    def _end(self, *, kindly: bool = False) -> None:
        if self._process is not None:
            self._process.close(kindly=kindly)
            self._process = None

    # --- asking -------------------------------------------------------------------------------------

    def _pipeline(self, queue: deque[bytes], window: list[bytes]) -> Iterator[Outcome]:
        """Ask until the queue is empty; `window` always holds what is unanswered."""
        numbers: deque[int] = deque()
        in_flight = 0
        while queue or window:
            process = self._ensure(alive=not window)
            while queue and (not window or (len(window) < WINDOW and in_flight + len(queue[0]) <= WINDOW_BYTES)):
                request = queue.popleft()
                window.append(request)
                in_flight += len(request)
                self._number += 1
                numbers.append(self._number)
                process.send(protocol.with_id(self._number, request))
            asked = time.monotonic()
            line = process.line(asked + self.allowance.timeout)
            took = time.monotonic() - asked
            outcome = protocol.outcome(protocol.fields(line, numbers.popleft()), len(line))
            self._mute = False
            request = window.pop(0)
            in_flight -= len(request)
            yield self._if_slow(request, took) or outcome

    def _if_slow(self, request: bytes, took: float) -> Broke | None:
        """A fault where an answer took far too long, and again takes too long in another process, warm and idle."""
        allowed = _SLOW + len(request) / _SLOW_BYTES
        if took <= allowed or self._aborted or self._faults["slow"] >= _PATIENCE["slow"]:
            return None
        self._faults["slow"] += 1
        with Session(self.launch, self.allowance) as other:
            other._faults["slow"] = _PATIENCE["slow"]  # it does not ask for a second opinion itself
            if any(isinstance(outcome, Broke) for outcome in other.ask([request])):
                return None
            asked = time.monotonic()
            list(other.ask([request]))
            again = time.monotonic() - asked
        if again <= allowed:
            return None
        return Broke("slow", f"took {took:.1f} s, and {again:.1f} s when asked again, for {len(request) // 2} bytes")

    def _settle(self, window: list[bytes], fault: Exception) -> Iterator[Outcome]:
        """The outcomes of a window in which the target broke down."""
        self._end()
        if not window:
            return
        last: Outcome | None = None
        repeated = False
        for request in window:
            try:
                outcome = Unsupported(self.gave_up) if self.gave_up else self._alone(request)
            except CannotStart:
                # It does not start again: only the requests in flight when it broke down can be blamed.
                yield last or self._blame(fault, window[0])
                raise
            repeated |= self._process is None
            if last is not None:
                yield last
            last = outcome
        again = repeated or self._replay(window)
        if not repeated and (again or not isinstance(fault, Silent)):
            last = self._blame(fault, window[-1], last=True, again=again)
        assert last is not None
        yield last

    def _alone(self, request: bytes) -> Outcome:
        try:
            return next(self._pipeline(deque([request]), []))
        except Breakdown as fault:
            self._end()
            return self._blame(fault, request)

    def _replay(self, window: list[bytes]) -> bool:
        """Whether the window brings a fresh process down again."""
        self._end()
        try:
            for _ in self._pipeline(deque(window), []):
                pass
        except Breakdown:
            self._end()
            return True
        return False

    def _blame(self, fault: Exception, request: bytes, *, last: bool = False, again: bool = True) -> Broke:
        broke = _as_outcome(fault, request, self.allowance)
        kind = "closed output" if isinstance(fault, Gone) and fault.lingers else broke.how
        self._faults[kind] += 1
        patience = (_PATIENCE_WITH_THE_MUTE if self._mute else _PATIENCE).get(kind, _PATIENCE[kind])
        if self._faults[kind] >= patience:
            self.gave_up = f"not asked: the target was given up after {self._faults[kind]} faults ({kind})"
        if not last:
            return broke
        remark = " (no question does this alone: blamed on the last one sent"
        remark += ", and again when all were replayed)" if again else "; it did not happen again)"
        return replace(broke, detail=broke.detail + remark, flaky=not again)


def _as_outcome(fault: Exception, request: bytes, allowance: Allowance) -> Broke:
    match fault:
        case Gone(detail=detail, memory=True):
            small = len(request) * _IN_PROPORTION <= allowance.memory
            return Broke("memory", f"{detail}, for a request of {len(request)} bytes", unprovoked=small)
        case Gone(detail=detail):
            return Broke("crash", detail)
        case Silent():
            return Broke("timeout", f"no answer within {allowance.timeout:g} s")
        case _:
            return Broke("protocol", str(fault))
