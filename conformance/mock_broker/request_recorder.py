"""Keeps the requests that clients send."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from conformance.cases.model import Value
from conformance.definitions.request_frames import api_of
from conformance.judging.client_requests import flaws_of

TOLD_AT_MOST = 8
"""Requests in an answer at most: those that stand out first."""
_FLAWED = 4
"""Requests that are kept of each kind and each check that they do not stand."""


class RequestRecorder:
    """Keeps what clients send: the first requests, if that, and all along what does not stand a check."""

    def __init__(self, room: int = 0) -> None:
        """There is room for so many requests, whatever they are."""
        self._room = room
        self.heard: list[Value] = []
        """What came, as long as there was room."""
        self._flawed: dict[tuple[str, str], list[Value]] = {}
        self.unread = ""
        """Why the first request that nobody can read cannot be read; empty while all could be."""
        self.heedless: list[Value] = []
        """The first requests in a version beside those that the client was told of."""

    def note(
        self,
        frame: bytes,
        in_flight: Iterable[int],
        offered: Mapping[str, tuple[int, int]],
        *,
        is_told: bool = False,
    ) -> None:
        """A request came, with its size, while these correlation ids were not answered yet on its connection.

        `is_told`: the client had been answered what is offered.
        """
        row = {"hex": frame, "inFlight": tuple(in_flight), "offered": offered.get(api_of(frame))}
        if len(self.heard) < self._room:
            self.heard.append(row)
        for check in flaws_of(row):
            kept = self._flawed.setdefault((api_of(frame), check), [])
            if len(kept) < _FLAWED:
                kept.append(row)
            if check == "offered" and is_told and row["offered"] and len(self.heedless) < TOLD_AT_MOST:
                self.heedless.append(row)

    def begin_anew(self) -> None:
        """Keep nothing of what came but the versions beside those that the client was told of."""
        self.unread, self._flawed = "", {}
        for row in self.heedless:
            self._flawed.setdefault((api_of(row["hex"]), "offered"), []).append(row)

    def flawed(self, check: str) -> list[Value]:
        """What did not stand a check, a few of each kind of request."""
        return [row for (_, failed), rows in self._flawed.items() if failed == check for row in rows]
