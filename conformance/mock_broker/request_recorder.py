"""The recorder of the requests that clients send."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from conformance.cases.model import Value
from conformance.definitions.request_frames import api_of
from conformance.judging.client_requests import failed_checks

MAX_REQUESTS_IN_ANSWER = 8
"""The most requests in an answer; conspicuous ones are first."""
_FLAWED = 4
"""The most requests that are kept for each kind and each check that they violate."""


class RequestRecorder:
    """Records the first requests of a client, if any, and always requests that violate a check."""

    def __init__(self, room: int = 0) -> None:
        """Keep the first `room` requests."""
        self._room = room
        self.requests: list[Value] = []
        """The first requests."""
        self._flawed: dict[tuple[str, str], list[Value]] = {}
        self.parse_error = ""
        """The error of the first malformed request; empty if there was none."""
        self.wrong_version_requests: list[Value] = []
        """The first requests in a version outside of the range that the client had received."""

    def record(
        self,
        frame: bytes,
        in_flight: Iterable[int],
        offered: Mapping[str, tuple[int, int]],
        *,
        versions_sent: bool = False,
    ) -> None:
        """Record a request with its size, and the correlation ids without a response on its connection.

        `versions_sent` is True if the client had received the ApiVersions response.
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
                and versions_sent
                and row["offered"]
                and len(self.wrong_version_requests) < MAX_REQUESTS_IN_ANSWER
            ):
                self.wrong_version_requests.append(row)

    def reset(self) -> None:
        """Remove all requests except those in versions outside of the range that the client had received."""
        self.parse_error, self._flawed = "", {}
        for row in self.wrong_version_requests:
            self._flawed.setdefault((api_of(row["hex"]), "offered"), []).append(row)

    def violating(self, check: str) -> list[Value]:
        """Return requests that violated a check, a few of each kind."""
        return [row for (_, failed), rows in self._flawed.items() if failed == check for row in rows]
