"""Finds the coordinator of a transactional id and sends requests to it."""

from __future__ import annotations

from collections.abc import Callable

from msgspec import Struct

from conformance.codec.derived_fields import Values
from conformance.codec.error_codes import ErrorCode
from conformance.definitions.request_frames import MalformedFrame
from conformance.live_brokers.connection import BrokerConnection
from conformance.live_brokers.partition import KafkaErrorResponse
from conformance.live_brokers.topics import RETRIABLE
from conformance.process.waiting import poll

_WAITING = RETRIABLE | {
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.CONCURRENT_TRANSACTIONS,
}
"""Retriable errors: no coordinator yet, another coordinator, or a transaction that is not completed."""
_TRANSACTION = 1
"""The key type of a transaction coordinator in FindCoordinator."""
_NAMES_SEVERAL = 4
"""The first version of FindCoordinator with several keys."""
_TIMEOUT_S = 20.0
"""Seconds for retriable errors."""


class CoordinatorLookup(Struct):
    """The coordinators of a cluster."""

    reach: Callable[[str, int], BrokerConnection]
    """Returns the connection to a host and port. Raises BrokerUnreachable."""

    def ask(self, first: BrokerConnection, named: str | None, request: str, body: Values, *, high: int) -> Values:
        """Send a request to the coordinator of a transactional id, or to `first` without an id; retry retriable errors.

        `high` is the highest version of the request. Raises KafkaErrorResponse, or as BrokerConnection.ask.
        """

        def answer() -> Values:
            connection = first if named is None else self._of(first, named)
            return connection.ask(request, connection.version(request, high=high), body)

        def is_final(one: Values) -> bool:
            errors = {code for code in codes(one) if code}
            return not errors <= _WAITING or not errors

        return poll(answer, is_final, _TIMEOUT_S)

    def _of(self, first: BrokerConnection, named: str) -> BrokerConnection:
        version = first.version("FindCoordinator", low=1, high=4)
        body: Values = {"KeyType": _TRANSACTION}
        body |= {"CoordinatorKeys": (named,)} if version >= _NAMES_SEVERAL else {"Key": named}

        def coordinator() -> Values:
            answer = first.ask("FindCoordinator", version, body)
            found: Values | None = next(iter(answer["Coordinators"]), None) if version >= _NAMES_SEVERAL else answer
            if found is None:
                raise MalformedFrame("FindCoordinator response has no entry for the transactional id")
            return found

        found = poll(coordinator, lambda one: one["ErrorCode"] not in _WAITING, _TIMEOUT_S)
        check(found["ErrorCode"])
        return self.reach(found["Host"], found["Port"])


def codes(answer: Values) -> list[int]:
    """Return every error code in the response of a coordinator; 0 for none."""
    topics = answer.get("ResultsByTopicV3AndBelow") or ()
    parts = [part["PartitionErrorCode"] for topic in topics for part in topic["ResultsByPartition"]]
    return [answer.get("ErrorCode", 0), *parts]


def check(code: int) -> None:
    """Raise KafkaErrorResponse for an error."""
    if code:
        raise KafkaErrorResponse(code)
