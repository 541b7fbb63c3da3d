"""Which requests are in flight at once, and what the answers to them say."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator, Sequence

import msgspec
from msgspec import Struct

from conformance.cases.model import Accepted, Broke, Outcome
from conformance.cases.packed_cases import AsDue, digest_of_answer
from conformance.errors import CannotStart
from conformance.files.bounded_json import MOST_VALUES, holds_too_many
from conformance.process.errors import Breakdown
from conformance.targets import protocol
from conformance.targets.held import held
from conformance.targets.protocol import Body, ProtocolError

WINDOW = 64
"""Requests in flight at most."""
WINDOW_BYTES = 48_000
"""Bytes in flight at most; a larger request travels alone. Both pipes must never be full at once."""
_ACCEPTS = rb'\{"id": ?%d, ?"ok": ?true, ?"value"'
"""How an answer begins that gives the value of what was read."""
_TOGETHER = 1 << 16
"""Bytes of answers that are read together."""


class Window(Struct):
    """The requests in flight, the first of which is answered next."""

    requests: list[Body] = msgspec.field(default_factory=list)
    _numbers: deque[int] = msgspec.field(default_factory=deque)

    @property
    def has_room(self) -> bool:
        """Whether it is worth while to send more: a write costs as much as judging an answer."""
        return len(self.requests) <= WINDOW // 2

    def admit(self, joining: Sequence[Body], number: int) -> bytes:
        """Take further requests, numbered from `number` on: the lines to be sent."""
        numbers = range(number, number + len(joining))
        self.requests += joining
        self._numbers.extend(numbers)
        return b"".join(map(protocol.with_id, numbers, joining))

    def answered(self, line: bytes) -> Outcome:
        """What a line says of the first request, which is answered with it. Raises ProtocolError or CannotStart."""
        outcome = outcome_of_line(line, self._numbers[0], self.requests[0])
        self.requests.pop(0)
        self._numbers.popleft()
        return outcome

    def further(self, lines: deque[bytes]) -> Iterator[list[Outcome]]:
        """What those lines say that came with another one, and were not waited for. Raises Breakdown or CannotStart."""
        run: list[Outcome] = []
        room = _TOGETHER
        try:
            while self.requests and lines and room > 0 and not self.requests[0].bulk:
                room -= len(lines[0])
                run.append(self.answered(lines.popleft()))
        except (Breakdown, CannotStart):
            yield run  # it is not lost
            raise
        if run:
            yield run


def outcome_of_line(line: bytes, number: int, request: Body) -> Outcome:
    """What a line says that is due for a request of this number. Raises ProtocolError or CannotStart."""
    return held(len(line), lambda: _outcome(line, number, request.due))


def _outcome(line: bytes, number: int, due: bytes) -> Outcome:
    try:
        answer = protocol.fields_of_any_depth(line, number)
    except ProtocolError:
        if not (holds_too_many(line) and re.match(_ACCEPTS % number, line)):
            raise
        detail = f"answered with more than {MOST_VALUES:,} values, {len(line) >> 20} MiB"
        return Broke("memory", detail, answered=Accepted({}, len(line)))
    if due and digest_of_answer({name: entry for name, entry in answer.items() if name != "id"}) == due:
        return AsDue()
    protocol.check(line, answer)
    return protocol.outcome(answer, len(line))


def fitting(queue: deque[Body], window: Sequence[Body]) -> Iterator[Body]:
    """The requests of a queue that may join those in flight, taken from it; one that is measured travels alone."""
    count, size = len(window), sum(map(len, window))
    is_alone = any(request.bulk for request in window)
    while queue and (not count or (count < WINDOW and size + len(queue[0]) <= WINDOW_BYTES)):
        if is_alone or (count and queue[0].bulk):
            return
        request = queue.popleft()
        count, size, is_alone = count + 1, size + len(request), request.bulk > 0
        yield request
