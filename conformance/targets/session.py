"""Sends requests to a target, and attributes every answer, exit and timeout to the request that caused it.

The rules of attribution:

1. Up to WINDOW requests are in flight at once. They are the window.
2. When the target exits or does not answer, it is restarted and gets the unanswered requests one at a time. The
   request that makes it fail again is at fault.
3. If a process does not answer its single request soon, that request is pending, and the next requests go to other
   processes.
4. An exit counts only in a process without an earlier request, because an earlier one may have corrupted memory.
5. If no request makes the target fail alone, the whole window is replayed once. The fault is attributed to the first
   request without an answer, with a remark. A window that was only late is first replayed with the full timeout.
6. A timeout that the replay does not repeat is not attributed: on a busy machine, any target can be late.
7. After these steps, no request is sent again.
"""

from __future__ import annotations

import math
import re
import time
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Self

import msgspec
from msgspec import Struct

from conformance.cases.model import Accepted, NoAnswer, Outcome, Unsupported
from conformance.errors import CannotStart
from conformance.files.bounded_json import MOST_VALUES, holds_too_many
from conformance.process.child_process import GRACE_PERIOD_S, ChildProcess
from conformance.process.errors import AnswerTimeout, OutputTooLong, TargetExited, TargetFailure
from conformance.process.fork_server import ForkServer
from conformance.process.launcher import LaunchSpec
from conformance.targets import protocol
from conformance.targets._pending import (
    MAX_PENDING_PROCESSES,
    POLL_S,
    LazyRequestQueue,
    PendingRequest,
    SlowRequests,
    ordered,
    outcome_or_none,
    reproduces,
)
from conformance.targets.large_answers import compress_large
from conformance.targets.limits import (
    REQUEST_CHARS_PER_SECOND,
    GiveUpLimits,
    ResourceLimits,
    ResourceUse,
    fault_kind,
    fault_outcome,
    resource_violation,
    unattributed,
)
from conformance.targets.protocol import AnswerDelayed, ProtocolError, RequestBody, TargetDescription

WINDOW = 64
"""The maximum number of requests in flight."""
WINDOW_BYTES = 48_000
"""The maximum bytes in flight; a larger request is sent alone. If both pipes were full, both sides would block."""
_ACCEPTED_VALUE = rb'\{"id": ?%d, ?"ok": ?true, ?"value"'
"""The beginning of an answer that accepts the input and contains a value."""
_PARSED_BYTES = 1 << 16
"""The maximum bytes of further answers that are parsed at once."""


class RequestWindow(Struct):
    """The requests in flight; the first one is answered next."""

    requests: list[RequestBody] = msgspec.field(default_factory=list)
    _numbers: deque[int] = msgspec.field(default_factory=deque)

    @property
    def has_room(self) -> bool:
        """Return whether to send more: in blocks of half a window, as a write costs as much as judging an answer."""
        return len(self.requests) <= WINDOW // 2

    def send_lines(self, added: Sequence[RequestBody], number: int) -> bytes:
        """Add requests, numbered from `number` on; return the lines to send."""
        numbers = range(number, number + len(added))
        self.requests += added
        self._numbers.extend(numbers)
        return b"".join(map(RequestBody.with_id, added, numbers))

    def take_outcome(self, line: bytes) -> Outcome:
        """Return the outcome of the first request, and remove it. Raises ProtocolError or CannotStart."""
        outcome = outcome_of_line(line, self._numbers[0])
        self.requests.pop(0)
        self._numbers.popleft()
        return outcome

    def parse_remaining(self, lines: deque[bytes]) -> Iterator[list[Outcome]]:
        """Yield the outcomes of lines that arrived together with an earlier one.

        Raises TargetFailure or CannotStart.
        """
        outcomes: list[Outcome] = []
        remaining = _PARSED_BYTES
        try:
            while self.requests and lines and remaining > 0 and not self.requests[0].measured_bytes:
                remaining -= len(lines[0])
                outcomes.append(self.take_outcome(lines.popleft()))
        except (TargetFailure, CannotStart):
            yield outcomes  # keep the outcomes before the error
            raise
        if outcomes:
            yield outcomes


def outcome_of_line(line: bytes, number: int) -> Outcome:
    """Return the outcome in the line that answers the request of this number. Raises ProtocolError or CannotStart."""
    return compress_large(len(line), lambda: _outcome(line, number))


def _outcome(line: bytes, number: int) -> Outcome:
    try:
        answer = protocol.fields(line, number)
    except ProtocolError:
        if not (holds_too_many(line) and re.match(_ACCEPTED_VALUE % number, line)):
            raise
        detail = f"answered with more than {MOST_VALUES:,} values, {len(line) >> 20} MiB"
        return NoAnswer("memory", detail, answered=Accepted({}, len(line)))
    return protocol.outcome(answer, len(line))


def take_fitting(queue: deque[RequestBody], window: Sequence[RequestBody]) -> Iterator[RequestBody]:
    """Remove and yield the requests of a queue that may join those in flight; a measured one is sent alone."""
    count, size = len(window), sum(request.size for request in window)
    sent_alone = any(request.measured_bytes for request in window)
    while queue and (not count or (count < WINDOW and size + queue[0].size <= WINDOW_BYTES)):
        if sent_alone or (count and queue[0].measured_bytes):
            return
        request = queue.popleft()
        count, size, sent_alone = count + 1, size + request.size, request.measured_bytes > 0
        yield request


_START_ATTEMPTS = 3
_DESCRIBE = protocol.body({"op": "describe", "protocol": protocol.PROTOCOL})
_EXIT_TIMEOUT_S = 15.0
"""Seconds for the exit of a target whose status is checked: a large one on a busy machine needs some."""
_ALONE_WAIT_S, _FORKED_WAIT_S, _FORKED_TIMEOUT_S = 0.5, 0.25, 0.4
"""Seconds before the next request is sent to another process: if that process has to be started; if it can be forked.
The last is the time after which a forked target is late, plus time for a large request."""


@dataclass(slots=True)
class TargetSession:
    """A session with one target, over as many processes as needed."""

    launch: LaunchSpec
    limits: ResourceLimits = field(default_factory=ResourceLimits)
    fork_server: ForkServer | None = None
    """Forks its processes after the first start; None: each process is started as a program."""
    _process: ChildProcess | None = None
    _description: TargetDescription | None = None
    _number: int = 0
    starts: int = 0
    _slow: SlowRequests = field(init=False)
    faults: GiveUpLimits = field(default_factory=GiveUpLimits)
    _can_remeasure: bool = True
    """If True, an answer that exceeds a resource limit is measured again in another process."""
    _fastest_s: float = math.inf
    """The time of the quickest answer so far."""
    _is_aborted: bool = False

    def __post_init__(self) -> None:
        self._slow = SlowRequests(self.limits.timeout, self._wait_for, self._record_fault)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.finish(timeout=GRACE_PERIOD_S)

    def describe(self) -> TargetDescription:
        """Return the description of the target. Raises CannotStart."""
        self._running_process()
        assert self._description is not None
        return self._description

    def ask(self, requests: Iterable[RequestBody]) -> Iterator[Outcome]:
        """Return the outcomes of requests (bodies without id), in their order. Raises CannotStart."""
        return chain.from_iterable(self.send_in_order(requests))

    def send_in_order(self, requests: Iterable[RequestBody]) -> Iterator[Sequence[Outcome]]:
        """Yield the outcomes in order, as many at once as have arrived."""
        return ordered(self.send_batches(requests))

    def send_batches(self, requests: Iterable[RequestBody]) -> Iterator[Sequence[Outcome | PendingRequest]]:
        """Yield outcomes, and pending requests in the place of missing ones, so that further requests are sent."""
        queue = LazyRequestQueue(requests)
        self._slow.poll(0)
        while queue:
            # The last allowed timeout ends the session: no request may be sent before its result is known.
            while (waiting := len(self._slow.requests)) and waiting >= self.faults.remaining("timeout"):
                self._slow.poll()
            if self.faults.stop_reason:
                yield [Unsupported(self.faults.stop_reason)]
                queue.popleft()
                continue
            window = RequestWindow()
            try:
                yield from self._pipeline(queue, window)
            except TargetFailure as fault:
                yield from (
                    [outcome_or_none(outcome) or outcome] for outcome in self._rerun_one_by_one(window.requests, fault)
                )

    def forget_faults(self) -> None:
        """Reset the counts of faults, and send requests again to a target that was given up."""
        self.faults = GiveUpLimits()

    def finish(self, *, timeout: float = _EXIT_TIMEOUT_S) -> int | None:
        """Close its input, and wait for its exit; return the status, or None if it has to be killed."""
        self._slow.close()
        process, self._process = self._process, None
        return process.close(graceful=True, grace_period=timeout) if process is not None else None

    def abort(self) -> None:
        """End the target from another thread: a thread that waits for an answer gets an error at once."""
        self._is_aborted = True
        for process in (self._process, *(pending.process for pending in [*self._slow.requests])):
            if process is not None:
                process.kill()

    # --- processes ----------------------------------------------------------------------------------

    def _running_process(self, *, alive: bool = False) -> ChildProcess:
        if alive and self._process is not None and not self._process.alive:
            # It exited after its last answer, so no request caused that; the next one must not get the fault.
            self._close_process()
        if self._process is None:
            self._start()
        assert self._process is not None
        return self._process

    def _start(self) -> None:
        problem = ""
        for _ in range(_START_ATTEMPTS):
            if self._is_aborted:
                raise CannotStart(f"{self.launch.name}: stopped")
            self.starts += 1
            try:
                self._process = self._new_process()
            except OSError as error:
                raise CannotStart(f"{self.launch.name}: {self.launch.command[0]}: {error.strerror}") from None
            if self._is_aborted:
                # `abort` may have run between the check above and the start, without this process.
                self._process.kill()
            problem = self._read_description()
            if not problem:
                return
            self._close_process()
            if self.fork_server is not None:
                self.fork_server.disable()
        raise CannotStart(f"{self.launch.name} could not be started in {_START_ATTEMPTS} attempts: {problem}")

    def _read_description(self) -> str:
        """Ask for the description; return the problem, or an empty text. Raises CannotStart."""
        assert self._process is not None
        self._number += 1
        self._process.send(_DESCRIBE.with_id(self._number))
        try:
            line = self._process.line(time.monotonic() + self.limits.startup)
            self._description = protocol.description(protocol.fields(line, self._number))
            self.fork_server = self.fork_server and self.fork_server.enable()
        except ProtocolError as error:
            self._close_process()
            raise CannotStart(f"{self.launch.name} did not describe itself: {error}") from None
        except TargetExited as exited:
            return exited.detail
        except AnswerTimeout:
            return f"no answer to describe within {self.limits.startup:g} s"
        except OutputTooLong as too_long:
            return f"describe: {too_long}"
        return ""

    @property
    def _can_fork(self) -> bool:
        """Return whether a new process can be forked, in almost no time."""
        return self.fork_server is not None and self.fork_server.is_ready

    def _new_process(self) -> ChildProcess:
        """Start or fork a process. Raises OSError."""
        memory = self.limits.memory
        return ChildProcess(self.launch, memory) if self.fork_server is None else self.fork_server.process(memory)

    def _close_process(self) -> None:
        if self._process is not None:
            self._process.close()
            self._process = None

    # --- requests -----------------------------------------------------------------------------------

    def _pipeline(
        self, queue: deque[RequestBody], window: RequestWindow, *, fair: bool = False
    ) -> Iterator[Sequence[Outcome]]:
        """Send requests until the queue is empty; `window` always contains the unanswered ones.

        With `fair`, CPU time of other processes does not count against the timeout; that takes longer to measure.
        """
        before: int | None = None
        while window.requests or queue:
            process = self._running_process(alive=not window.requests)
            if window.has_room and queue and (added := list(take_fitting(queue, window.requests))):
                before = process.start_measuring() if added[0].measured_bytes else None
                process.send(window.send_lines(added, self._number + 1))
                self._number += len(added)
                self._slow.poll(0)
            request = window.requests[0]
            line, took = self._line(process, request, fair=fair)
            cost = ResourceUse(took, process.memory_growth(before)) if took else None
            outcome = window.take_outcome(line)
            self.faults.never_answered = False
            yield [self._check_resources(request, outcome, cost) if cost else outcome]
            yield from window.parse_remaining(process.lines)

    def _line(self, process: ChildProcess, request: RequestBody, *, fair: bool) -> tuple[bytes, float]:
        """Return the next line, and the seconds that the target needed for it.

        Raises TargetFailure; AnswerDelayed if the request should be sent again alone, because others wait for it.
        """
        timeout, since = self.limits.timeout, time.monotonic()
        with suppress(AnswerTimeout):
            line = process.line(since + min(POLL_S, timeout))
            self._fastest_s = 0  # quicker than one poll, so the target is not slow
            return line, time.monotonic() - since if request.measured_bytes else 0
        pending = PendingRequest(_DESCRIBE, 0, process)  # from here on, CPU time of other processes does not count
        fork_timeout = _FORKED_TIMEOUT_S + request.size / REQUEST_CHARS_PER_SECOND
        use_fork_timeout = self._can_fork and timeout > fork_timeout and not fair
        if not (fair or use_fork_timeout):
            return process.line(since + timeout), pending.counted_s()
        try:
            return pending.line(fork_timeout if use_fork_timeout else timeout) or b"", pending.counted_s()
        except AnswerTimeout:
            raise AnswerDelayed if use_fork_timeout else AnswerTimeout from None

    def _check_resources(self, request: RequestBody, outcome: Outcome, cost: ResourceUse) -> Outcome:
        """Return the outcome; a fault if it exceeded a limit, and again in a second process that is warm and idle."""
        fastest, self._fastest_s = self._fastest_s, min(self._fastest_s, cost.seconds)
        violation = resource_violation(request, cost, cost, self.limits, fastest)
        if violation and not self._is_aborted and self._can_remeasure and self.faults.remaining(violation.how) > 0:
            self.faults.add(violation.how)
            confirmed = resource_violation(request, cost, self._measure_again(request), self.limits, fastest)
            return replace(confirmed, answered=outcome) if confirmed else outcome
        return outcome

    def _measure_again(self, request: RequestBody) -> ResourceUse:
        """Return the cost of a request in another process that has answered it before; 0 if that process fails."""
        with TargetSession(self.launch, self.limits, _can_remeasure=False) as other:
            if any(isinstance(outcome, NoAnswer) for outcome in other.ask([request])):
                return ResourceUse(0, 0)
            pending = PendingRequest(request, 0, other._running_process())
            list(other.ask([request]))
            return pending.cost()

    def _rerun_one_by_one(self, window: list[RequestBody], fault: TargetFailure) -> Iterator[Outcome | PendingRequest]:
        """Yield the outcomes of a window in which the target failed, once the request at fault is known."""
        self._close_process()
        outcomes: list[Outcome | PendingRequest] = []
        is_reproduced = False
        try:
            for outcome in map(self._send_alone, window):
                outcomes.append(outcome)
                is_reproduced = is_reproduced or reproduces(outcome, fault)
                if is_reproduced:
                    yield from outcomes
                    outcomes.clear()
        except CannotStart:
            # It does not start again, so only the requests in flight at the fault can be the cause.
            yield from outcomes if outcomes or is_reproduced else [self._record_fault(fault, window[0])]
            raise
        for pending in outcomes:
            if isinstance(pending, PendingRequest):
                pending.wait()
        if outcomes and not any(reproduces(outcome, fault) for outcome in outcomes):
            self._attribute_fault(fault, window, outcomes)
        yield from outcomes

    def _attribute_fault(
        self, fault: TargetFailure, window: list[RequestBody], outcomes: list[Outcome | PendingRequest]
    ) -> None:
        """Attribute the fault of a window to its first unanswered request, if no request fails alone."""
        # A late answer is a fault only if it also misses the full timeout.
        first = self._replay_window(window) if isinstance(fault, AnswerDelayed) else (0, fault)
        if first is None:
            return
        repeated = self._replay_window(window)
        index, fault = repeated or first
        if repeated or not isinstance(fault, AnswerTimeout):
            outcomes[index] = self._record_fault(fault, window[index], alone=False, again=repeated is not None)
        else:
            self.faults.count("silence")

    def _send_alone(self, request: RequestBody) -> Outcome | PendingRequest:
        """Send a request to an idle process; return it without an outcome if no answer arrives soon.

        Raises CannotStart.
        """
        while len(self._slow.requests) >= min(MAX_PENDING_PROCESSES, max(self.faults.remaining("timeout"), 1)):
            self._slow.poll()
        if self.faults.stop_reason:
            return Unsupported(self.faults.stop_reason)
        before, process = self._process, self._running_process(alive=True)
        self._number += 1
        pending = PendingRequest(request, self._number, process, self._slow.poll, is_first=process is not before)
        process.send(request.with_id(self._number))
        if self._wait_for(pending, self.limits.timeout, _FORKED_WAIT_S if self._can_fork else _ALONE_WAIT_S):
            self._close_process()
            if pending.outcome is None:
                again = self._send_alone(request)
                if isinstance(again, PendingRequest) and not again.is_at_fault:
                    self.faults.count("crash")  # no request is at fault, but many such exits end the session
                return again
        elif pending.outcome is None:
            self._slow.add(pending)
            self._process = None
        self._slow.poll(0)
        return pending

    def _wait_for(self, pending: PendingRequest, timeout: float, seconds: float) -> bool:
        """Wait for an outcome, and return whether the process failed; an exit has none if others may have caused it."""
        try:
            line = pending.line(timeout, seconds)
            if line is None:
                return False
            cost = pending.cost()
            outcome = outcome_of_line(line, pending.number)
            self.faults.never_answered = False
        except TargetFailure as fault:
            if isinstance(fault, TargetExited) and not (pending.is_first or pending.was_pending):
                return True
            pending.is_at_fault, pending.outcome = True, self._record_fault(fault, pending.request)
            if isinstance(fault, AnswerTimeout):
                self._slow.mark_timed_out(pending)
            return True
        pending.outcome = self._check_resources(pending.request, outcome, cost)
        return False

    def _replay_window(self, window: list[RequestBody]) -> tuple[int, TargetFailure] | None:
        """Replay a window in a new process; return the number of answers and the fault, or None without a fault."""
        self._close_process()
        answered = 0
        try:
            for outcomes in self._pipeline(deque(window), RequestWindow(), fair=True):
                answered += len(outcomes)
        except TargetFailure as fault:
            self._close_process()
            return answered, fault
        return None

    def _record_fault(
        self, fault: Exception, request: RequestBody, *, alone: bool = True, again: bool = True
    ) -> NoAnswer:
        outcome = fault_outcome(fault, request, self.limits.timeout, self.limits.memory)
        self.faults.count(fault_kind(fault, outcome))
        return outcome if alone else unattributed(outcome, again=again)
