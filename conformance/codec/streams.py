"""A compressed payload as it is opened: what is left of it, what came out so far, and how much more may come.

No more is taken out of a library than the limits allow, whatever a payload claims.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from conformance.codec.cursor import LIMIT_RULE, Cursor, Limits, Openness, Violation

_DENSEST_STREAM = 1 << 15
"""Bytes out per byte in at most: Zstandard's densest block makes 128 KiB of 4 bytes."""
_STEP = 256
"""Bytes fed at first; then twice as many each time, as long as even the densest of them would find room."""


class Stream(Cursor):
    """Reads a payload, gathers what comes out of it, and stops at the limits; findings stand where it begins."""

    __slots__ = ("_begin", "fed", "plain", "room")

    def __init__(self, cursor: Cursor, payload: bytes) -> None:
        super().__init__(payload, cursor.findings, layer=cursor.layer, path=cursor.path)
        self._begin = cursor.pos
        self.fed = 0
        """Where the piece begins that a decompressor was fed last."""
        self.plain: list[bytes] = []
        """What came out, in parts that are not empty."""
        limits: Limits = cursor.findings.limits
        self.room = min(limits.total - cursor.findings.plain, max(1 << 20, limits.ratio * len(payload)))
        """Bytes that may still come out."""

    def make_room(self, size: int) -> None:
        """Stop where so many bytes more would be too many."""
        if size > self.room:
            self.fail(LIMIT_RULE, f"{size - self.room} bytes too many come out of the payload", open=True)

    def put(self, part: bytes) -> None:
        """Take what came out."""
        if not part:
            return
        self.make_room(len(part))
        self.room -= len(part)
        self.findings.plain += len(part)
        self.plain.append(part)

    def rest_on(self, requirement: str) -> None:
        """Note that not every reader can open the payload, and which requirement asks it of all."""
        if requirement not in self.findings.rests_on:
            self.findings.rests_on.append(requirement)

    def pump(self, opener: Any) -> bool:
        """Feed a decompressor to the end of its stream; False when the bytes end before."""
        step = _STEP
        while not opener.eof:
            piece = self.data[self.pos : self.pos + step]
            step = max(_STEP, min(2 * step, self.room // _DENSEST_STREAM))
            if not piece:
                return False
            self.fed = self.pos
            self.pos += len(piece)
            self.put(opener.decompress(piece))
        self.pos -= len(opener.unused_data)
        return True

    @contextmanager
    def refusing(
        self, fault: type[Exception] | tuple[type[Exception], ...], verdict: Callable[[str], tuple[str, bool]]
    ) -> Iterator[None]:
        """What a library raises is a violation: its message tells of which requirement, and whether it is open."""
        try:
            yield
        except fault as error:
            requirement, is_open = verdict(str(error))
            self.fail(requirement, str(error), open=is_open)

    def _violation(self, requirement: str, hint: str, at: int | None, openness: Openness) -> Violation:
        return super()._violation(requirement, hint, self._begin if at is None else at, openness)
