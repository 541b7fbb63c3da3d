"""Deletes the topics of a run, which begin with the prefix of the run, and no others."""

from __future__ import annotations

from collections.abc import Sequence

from conformance.codec.error_codes import ErrorCode
from conformance.live_brokers.bundled_broker import BrokerError
from conformance.live_brokers.connection import BrokerConnection, VersionNotSupported
from conformance.live_brokers.partition import error_text
from conformance.process.waiting import poll

_AT_ONCE = 100
"""The number of topics in one DeleteTopics request."""
_SECONDS = 30.0
"""The timeout of a DeleteTopics request."""
_DELETE_TIMEOUT_S = 60.0
"""Seconds until the last topic is deleted."""
_DELETE_POLL_S = 0.2
_BY_ROW = 6
"""The first version of DeleteTopics with a structure for each topic."""
DELETE_OK = frozenset(
    (
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.THROTTLING_QUOTA_EXCEEDED,
    )
)
"""Errors after which the topics are listed again: the topic is deleted, or the broker is busy."""


def delete_topics(connection: BrokerConnection, prefix: str) -> int:
    """Delete every topic with a prefix, and return their number.

    Raises BrokerError if the broker does not delete them, or as BrokerConnection.ask.
    """
    seen = set[str]()

    def rest() -> list[str]:
        names = _names(connection, prefix)
        seen.update(names)
        for at in range(0, len(names), _AT_ONCE):
            _delete(connection, names[at : at + _AT_ONCE])
        return names

    if names := poll(rest, lambda names: not names, _DELETE_TIMEOUT_S, _DELETE_POLL_S):
        raise BrokerError(f"{len(names)} topics are still there {_DELETE_TIMEOUT_S:g} s after they were deleted")
    return len(seen)


def _names(connection: BrokerConnection, prefix: str) -> list[str]:
    """Return the names of topics with a prefix."""
    version = connection.version("Metadata", low=1, high=12)
    body = {"Topics": None} if version < 4 else {"Topics": None, "AllowAutoTopicCreation": False}
    rows = connection.ask("Metadata", version, body)["Topics"]
    return [row["Name"] for row in rows if row["Name"] is not None and row["Name"].startswith(prefix)]


def _delete(connection: BrokerConnection, names: Sequence[str]) -> None:
    """Send DeleteTopics. Raises BrokerError."""
    try:
        version = connection.version("DeleteTopics", high=6)
    except VersionNotSupported:
        raise BrokerError("it does not offer DeleteTopics") from None
    rows = {"Topics": tuple({"Name": name} for name in names)} if version >= _BY_ROW else {"TopicNames": tuple(names)}
    response = connection.ask("DeleteTopics", version, {**rows, "TimeoutMs": int(_SECONDS * 1000)})
    for row in response["Responses"]:
        if row["ErrorCode"] not in DELETE_OK:
            raise BrokerError(f"{row['Name']} is not deleted: {error_text(row['ErrorCode'])}")
