"""Fetch sessions of the scripted broker, as Apache Kafka keeps them (KIP-227).

The first fetch of a session names every partition. A later one names only what has changed for the client, and its
answer holds only partitions for which there is something to tell.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from msgspec import Struct, field

from conformance.codec.derived_fields import Values
from conformance.codec.error_codes import ErrorCode

_OPENING, _CLOSING = 0, -1
"""The epochs of a fetch that opens a session, and of one that has none any more."""
_LAST_EPOCH = (1 << 31) - 1

_Key = tuple[str | bytes, int]


class FetchSessionError(Exception):
    """A fetch that belongs to no session; `error` is the code that it is answered with."""

    def __init__(self, error: int) -> None:
        """Answered with this error."""
        super().__init__(f"error {error}")
        self.error = error


class FetchSession(Struct):
    """What a client fetches: the partitions as they were asked for last, and the high watermarks that it was told."""

    id: int
    epoch: int = 0
    """That of the last fetch."""
    asked: dict[_Key, tuple[Values, Values]] = field(default_factory=dict)
    """How a partition's topic is named, and what of it is fetched."""
    told: dict[_Key, int] = field(default_factory=dict)

    def topics(self) -> list[Values]:
        """What is fetched, as a fetch without a session has it."""
        return [{**topic, "Partitions": [part]} for topic, part in self.asked.values()]

    def take(self, body: Values) -> None:
        """Keep what a fetch names, and let go what it wants no more."""
        for row in body["Topics"]:
            topic = {key: value for key, value in row.items() if key != "Partitions"}
            for part in row["Partitions"]:
                self.asked[_topic(row), part["Partition"]] = topic, part
        for row in body["ForgottenTopicsData"]:
            for partition in row["Partitions"]:
                self.asked.pop((_topic(row), partition), None)

    def news(self, responses: list[Values]) -> list[Values]:
        """The rows of an answer that tell a client something: all of them where it opens the session."""
        kept = [{**row, "Partitions": [*self._told_anew(row)]} for row in responses]
        return [row for row in kept if row["Partitions"]]

    def _told_anew(self, row: Values) -> Iterator[Values]:
        for part in row["Partitions"]:
            key = _topic(row), part["PartitionIndex"]
            known = self.told.get(key)
            self.told[key] = part["HighWatermark"]
            if not self.epoch or part["Records"] or part["ErrorCode"] or known != part["HighWatermark"]:
                yield part


class FetchSessionCache:
    """The sessions that clients have opened, by id."""

    def __init__(self) -> None:
        """None is open."""
        self._open: dict[int, FetchSession] = {}
        self._opened = 0

    def lose(self, session: FetchSession) -> None:
        """Forget a session, as a broker does that has no room for more. Raises FetchSessionError."""
        del self._open[session.id]
        raise FetchSessionError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)

    def of(self, body: Values) -> FetchSession | None:
        """The session that a fetch belongs to, opened where it asks for that; None where it wants none.

        Raises FetchSessionError.
        """
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
    """The epoch of the fetch that follows one in a session."""
    return 1 if epoch == _LAST_EPOCH else epoch + 1


def _topic(row: Mapping[str, str | bytes]) -> str | bytes:
    """The topic of a row, by its id from version 13 on."""
    return row["TopicId"] if "TopicId" in row else row["Topic"]
