"""Fetch sessions of the mock broker, as Apache Kafka keeps them (KIP-227).

The first fetch of a session contains every partition. A later fetch contains only the client's changes, and its
response contains only changed partitions.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec import Struct, field

from conformance.codec.derived_fields import Values
from conformance.codec.error_codes import ErrorCode

_OPENING, _CLOSING = 0, -1
"""SessionEpoch 0 opens a session; -1 closes the session, if there is one, and opens none."""
_LAST_EPOCH = (1 << 31) - 1

_Key = tuple[str | bytes, int]


class FetchSessionError(Exception):
    """A fetch with an unknown session or a wrong epoch; `error` is the error code of the response."""

    def __init__(self, error: int) -> None:
        super().__init__(f"error {error}")
        self.error = error


class FetchSession(Struct):
    """A client's fetch session: the partitions as last requested, and the high watermarks that the client received."""

    id: int
    epoch: int = 0
    """The epoch of the last fetch."""
    requested: dict[_Key, tuple[Values, Values]] = field(default_factory=dict)
    """By partition: the fields of its topic, and its own row, as in the request."""
    sent_high_watermarks: dict[_Key, int] = field(default_factory=dict)

    def topics(self) -> list[Values]:
        """Return all partitions of the session as the Topics of a full Fetch request."""
        return [{**topic, "Partitions": [part]} for topic, part in self.requested.values()]

    def take(self, body: Values) -> None:
        """Store the partitions of a fetch, and remove the forgotten ones."""
        for row in body["Topics"]:
            topic = {key: value for key, value in row.items() if key != "Partitions"}
            for part in row["Partitions"]:
                self.requested[_topic(row), part["Partition"]] = topic, part
        for row in body["ForgottenTopicsData"]:
            for partition in row["Partitions"]:
                self.requested.pop((_topic(row), partition), None)

    def news(self, responses: list[Values]) -> list[Values]:
        """Return the changed rows of a response, or all of them if it opens the session."""
        kept = [{**row, "Partitions": [*self._changed(row)]} for row in responses]
        return [row for row in kept if row["Partitions"]]

    def _changed(self, row: Values) -> Iterator[Values]:
        for part in row["Partitions"]:
            key = _topic(row), part["PartitionIndex"]
            known = self.sent_high_watermarks.get(key)
            self.sent_high_watermarks[key] = part["HighWatermark"]
            if not self.epoch or part["Records"] or part["ErrorCode"] or known != part["HighWatermark"]:
                yield part


class FetchSessionCache:
    """The sessions that clients have opened, by id."""

    def __init__(self) -> None:
        self._open: dict[int, FetchSession] = {}
        self._opened = 0

    def lose(self, session: FetchSession) -> None:
        """Remove a session, like a broker whose cache is full. Raises FetchSessionError."""
        del self._open[session.id]
        raise FetchSessionError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)

    def of(self, body: Values) -> FetchSession | None:
        """Return the session of a fetch, which may open it; None without a session. Raises FetchSessionError."""
        number, epoch = body.get("SessionId", 0), body.get("SessionEpoch", _CLOSING)
        if epoch in (_OPENING, _CLOSING):
            self._open.pop(number, None)
        if epoch == _CLOSING:
            return None
        if epoch == _OPENING:
            self._opened += 1
            session = self._open[self._opened] = FetchSession(self._opened)
        elif number not in self._open:
            raise FetchSessionError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        else:
            session = self._open[number]
            if epoch != epoch_after(session.epoch):
                raise FetchSessionError(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
            session.epoch = epoch
        session.take(body)
        return session


def epoch_after(epoch: int) -> int:
    """Return the epoch of the next fetch in a session; it is never 0, which would open a new session."""
    return 1 if epoch == _LAST_EPOCH else epoch + 1


def _topic(row: Mapping[str, str | bytes]) -> str | bytes:
    """Return the topic of a row: its id from version 13 on, else its name."""
    return row["TopicId"] if "TopicId" in row else row["Topic"]
