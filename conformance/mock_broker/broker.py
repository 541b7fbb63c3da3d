"""The scripted broker: requests in, responses out, in the suite's own message codec; no socket is known here.

It says in ApiVersions what it speaks, which pins the versions that a client uses. What it cannot answer voids the case
that it came with, and accuses nobody. The answers stand beside it, by groups of requests.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING

from msgspec import Struct, field

from conformance.cases.api_versions_profiles import MIN_ACCEPTED_VERSION, MINIMAL, ApiVersions
from conformance.cases.client_scenarios import CLIENT_INSTANCE_ID, NODE_1, SUBSCRIPTION_ID
from conformance.codec.derived_fields import Values
from conformance.codec.error_codes import ErrorCode
from conformance.definitions.request_frames import (
    CloseConnection,
    KafkaRequest,
    UnhandledRequest,
    names,
    opening,
    request_in,
    response_frame,
)
from conformance.mock_broker import fetch_handlers, group_handlers, produce_handlers
from conformance.mock_broker.fetch_sessions import FetchSessionCache
from conformance.mock_broker.topic import MockTopic

if TYPE_CHECKING:
    from conformance.mock_broker.topic import MockTopic


_SOON_MS = 100
"""Milliseconds from one push to the next."""
_AT_MOST = 1 << 20
"""Bytes of the metrics of a push."""


def _topic(broker: MockBroker) -> MockTopic:
    """The topic of the scenario."""
    return next(iter(broker.topics.values()))


def _subscriptions(broker: MockBroker, _: KafkaRequest) -> Values:
    """The id that the client has from now on, and the metrics that are wanted of it.

    Who has the id is told it again, as by Apache Kafka; its definition says that 0 is told, which its consumer refuses.
    """
    topic = _topic(broker)
    told = {
        "ClientInstanceId": CLIENT_INSTANCE_ID,
        "SubscriptionId": SUBSCRIPTION_ID,
        "AcceptedCompressionTypes": topic.accepted_codecs,
        "PushIntervalMs": _SOON_MS,
        "TelemetryMaxBytes": _AT_MOST,
        "DeltaTemporality": True,
        "RequestedMetrics": topic.requested_metrics,
    }
    return {"ErrorCode": topic.group.error("GetTelemetrySubscriptions"), **told}


def _push(broker: MockBroker, _: KafkaRequest) -> Values:
    return {"ErrorCode": _topic(broker).group.error("PushTelemetry")}


ANSWERS: Mapping[str, Callable[[MockBroker, KafkaRequest], Values]] = {
    "GetTelemetrySubscriptions": _subscriptions,
    "PushTelemetry": _push,
}


class ResponseFrame(Struct, frozen=True):
    """What goes back, and after how many seconds where there is nothing to tell yet."""

    frame: bytes
    delay: float = 0.0
    size: int | None = None
    """What stands before it instead of its size, if anything."""


class MockBroker(Struct):
    """A node of a cluster with one partition a topic, on the address that clients are told; most have no other node."""

    host: str
    port: int
    offered: ApiVersions = field(default_factory=lambda: MINIMAL)
    topics: dict[str, MockTopic] = field(default_factory=dict)
    finalized_features: Mapping[str, int] = field(default_factory=dict)
    """The finalized features that it tells of, and their levels."""
    api_versions_sent: bool = False
    """Whether a client was answered what is offered, since somebody set this to False."""
    max_fetch_magic: int = -1
    """The highest magic that the version of the last fetch carries; -1 before the first one."""
    is_tagged: bool = False
    """Whether its answers hold tagged fields that nobody knows."""
    is_strict: bool = False
    """Whether a version that it does not offer ends the connection, and accuses the client of what comes of it."""
    downtime_s: float = 0.0
    """Seconds in which it takes no connection once it ended one, as all others end too; 0: that one ends alone."""
    is_stopped: bool = False
    """Whether it ended for good: Metadata tells of it no more."""
    aliases: tuple[int, ...] = ()
    """The ids of further nodes that Metadata lists at its address."""
    in_pieces: bool = False
    """Whether its answers come in several pieces."""
    node: int = NODE_1
    """Its id."""
    other_nodes: tuple[MockBroker, ...] = ()
    """The other nodes of its cluster."""
    sessions: FetchSessionCache | None = None
    """The fetch sessions that clients have; None where it declines them."""

    @property
    def nodes(self) -> tuple[MockBroker, ...]:
        """All nodes of its cluster, by their ids."""
        return tuple(sorted((self, *self.other_nodes), key=lambda one: one.node))

    @property
    def bootstrap(self) -> str:
        """The address at which a client enters its cluster: that of a node which stays."""
        entry = self.nodes[-1] if self.downtime_s == math.inf else self
        return f"{entry.host}:{entry.port}"

    def respond(self, frame: bytes) -> ResponseFrame:
        """The response to the frame of a request, both without their size.

        Raises UnhandledRequest, CloseConnection or Garbled.
        """
        name, version, correlation = opening(frame)
        if name not in self.offered:
            raise UnhandledRequest(f"{name} {version}, which was not offered")
        low, high = self.offered[name]
        if not low <= version <= high:
            if name == "ApiVersions":
                # As Apache Kafka since 2.4: it tells of ApiVersions alone, and the client has to ask again.
                told = self._versions(ErrorCode.UNSUPPORTED_VERSION, (name,))
                return ResponseFrame(response_frame(correlation, name, 0, told))
            raise (CloseConnection if self.is_strict else UnhandledRequest)(
                f"{name} {version}, where {low} to {high} is offered"
            )
        if version < MIN_ACCEPTED_VERSION.get(name, low) <= high:
            raise UnhandledRequest(f"{name} {version}, as Apache Kafka 4, which offers it and does not take it")
        request = request_in(frame)
        body = self._answered(request)
        written = response_frame(correlation, name, version, body, is_tagged=self.is_tagged)
        wrong = [topic for topic in self.topics.values() if topic.response_sizes and name == "Fetch"]
        return ResponseFrame(
            written, fetch_handlers.fetch_delay_s(request, body), wrong[0].response_sizes.pop(0) if wrong else None
        )

    def _answered(self, request: KafkaRequest) -> Values:
        """The body of the response."""
        if request.name == "ApiVersions":
            self.api_versions_sent = True
            return self._versions()
        if request.name not in _ANSWERS:
            raise UnhandledRequest(f"{request.name} {request.version}")
        return _ANSWERS[request.name](self, request)

    def _versions(self, error: int = 0, only: Collection[str] = ()) -> Values:
        keys = {name: key for key, name in names().items()}
        rows = [
            {"ApiKey": keys[name], "MinVersion": low, "MaxVersion": high}
            for name, (low, high) in self.offered.items()
            if name in (only or self.offered)
        ]
        levels = [
            {"Name": name, "MinVersionLevel": level, "MaxVersionLevel": level}
            for name, level in self.finalized_features.items()
        ]
        known = [
            {"Name": name, "MinVersion": 0, "MaxVersion": level} for name, level in self.finalized_features.items()
        ]
        told = {"SupportedFeatures": known, "FinalizedFeatures": levels, "FinalizedFeaturesEpoch": 1} if levels else {}
        return {"ErrorCode": error, "ApiKeys": sorted(rows, key=lambda row: row["ApiKey"]), **told}


_ANSWERS: Mapping[str, Callable[[MockBroker, KafkaRequest], Values]] = {
    **fetch_handlers.ANSWERS,
    **group_handlers.ANSWERS,
    **produce_handlers.ANSWERS,
    **ANSWERS,
}
"""The answer to each request: the body of the response."""
