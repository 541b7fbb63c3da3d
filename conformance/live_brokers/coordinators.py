"""Asks the coordinator of a transactional id, wherever it is."""

from __future__ import annotations

import time
from collections.abc import Callable

from msgspec import Struct

from conformance.codec.derived_fields import Values
from conformance.codec.error_codes import ErrorCode
from conformance.definitions.request_frames import MalformedFrame
from conformance.live_brokers.connection import BrokerConnection
from conformance.live_brokers.partition import KafkaErrorResponse
from conformance.live_brokers.topics import RETRIABLE

_WAITING = RETRIABLE | {
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.CONCURRENT_TRANSACTIONS,
}
"""Errors of a coordinator that say only "not yet": none, not this one, it is still ending the last transaction."""
_TRANSACTION = 1
"""The kind of coordinator that FindCoordinator is asked for."""
_NAMES_SEVERAL = 4
"""The first version of FindCoordinator that takes several names."""
_PATIENCE = 20.0
"""Seconds for which "not yet" is asked again."""
_PAUSE = 0.05


class CoordinatorLookup(Struct):
    """The coordinators of a cluster."""

    reach: Callable[[str, int], BrokerConnection]
    """The connection to a place. Raises BrokerUnreachable."""

    def ask(self, first: BrokerConnection, named: str | None, request: str, body: Values, *, high: int) -> Values:
        """The answer of the coordinator of a transactional id, once it is not "not yet"; of `first` without an id.

        `high` is the highest version of the request. Raises KafkaErrorResponse, or as BrokerConnection.ask.
        """
        deadline = time.monotonic() + _PATIENCE
        while True:
            connection = first if named is None else self._of(first, named)
            answer = connection.ask(request, connection.version(request, high=high), body)
            told = {code for code in codes(answer) if code}
            if not told <= _WAITING or not told or time.monotonic() > deadline:
                return answer
            time.sleep(_PAUSE)

    def _of(self, first: BrokerConnection, named: str) -> BrokerConnection:
        deadline = time.monotonic() + _PATIENCE
        version = first.version("FindCoordinator", low=1, high=4)
        while True:
            body: Values = {"KeyType": _TRANSACTION}
            body |= {"CoordinatorKeys": (named,)} if version >= _NAMES_SEVERAL else {"Key": named}
            answer = first.ask("FindCoordinator", version, body)
            found = next(iter(answer["Coordinators"]), None) if version >= _NAMES_SEVERAL else answer
            if found is None:
                raise MalformedFrame("FindCoordinator: nothing is said of the transactional id")
            if found["ErrorCode"] not in _WAITING or time.monotonic() > deadline:
                check(found["ErrorCode"])
                return self.reach(found["Host"], found["Port"])
            time.sleep(_PAUSE)


def codes(answer: Values) -> list[int]:
    """Every error code of an answer of a coordinator, 0 for none."""
    topics = answer.get("ResultsByTopicV3AndBelow") or ()
    parts = [part["PartitionErrorCode"] for topic in topics for part in topic["ResultsByPartition"]]
    return [answer.get("ErrorCode", 0), *parts]


def check(code: int) -> None:
    """Raise KafkaErrorResponse for an error."""
    if code:
        raise KafkaErrorResponse(code)
