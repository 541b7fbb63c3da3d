"""Keeps the requests that clients send."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from conformance.cases.model import Value
from conformance.definitions.request_frames import api_of
from conformance.judging.client_requests import failed_checks

MAX_REQUESTS_IN_ANSWER = 8
"""Requests in an answer at most: those that stand out first."""
_FLAWED = 4
"""Requests that are kept of each kind and each check that they do not stand."""


class RequestRecorder:
    """Keeps what clients send: the first requests, if that, and all along what does not stand a check."""

    def __init__(self, room: int = 0) -> None:
        """There is room for so many requests, whatever they are."""
        self._room = room
        self.requests: list[Value] = []
        """What came, as long as there was room."""
        self._flawed: dict[tuple[str, str], list[Value]] = {}
        self.parse_error = ""
        """Why the first request that nobody can read cannot be read; empty while all could be."""
        self.wrong_version_requests: list[Value] = []
        """The first requests in a version beside those that the client was told of."""

    def record(
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
        if len(self.requests) < self._room:
            self.requests.append(row)
        for check in failed_checks(row):
            kept = self._flawed.setdefault((api_of(frame), check), [])
            if len(kept) < _FLAWED:
                kept.append(row)
            if (
                check == "offered"
                and is_told
                and row["offered"]
                and len(self.wrong_version_requests) < MAX_REQUESTS_IN_ANSWER
            ):
                self.wrong_version_requests.append(row)

    def reset(self) -> None:
        """Keep nothing of what came but the versions beside those that the client was told of."""
        self.parse_error, self._flawed = "", {}
        for row in self.wrong_version_requests:
            self._flawed.setdefault((api_of(row["hex"]), "offered"), []).append(row)

    def violating(self, check: str) -> list[Value]:
        """What did not stand a check, a few of each kind of request."""
        return [row for (_, failed), rows in self._flawed.items() if failed == check for row in rows]
