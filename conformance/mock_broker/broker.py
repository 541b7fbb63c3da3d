"""The mock broker: requests in, responses out, in the suite's own message codec; it has no sockets.

Its ApiVersions response fixes the versions that a client uses. A request that it cannot answer invalidates the current
case, because the client may be right. The other modules have the handlers, by groups of requests.
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
from conformance.mock_broker import _fetch_handlers, _group_handlers, produce_handlers
from conformance.mock_broker._fetch_sessions import FetchSessionCache
from conformance.mock_broker.topic import MockTopic

if TYPE_CHECKING:
    from conformance.mock_broker.topic import MockTopic


_SOON_MS = 100
"""Milliseconds between two pushes."""
_AT_MOST = 1 << 20
"""The largest size of the metrics in a push, in bytes."""


def _topic(broker: MockBroker) -> MockTopic:
    """Return the topic of the scenario."""
    return next(iter(broker.topics.values()))


def _subscriptions(broker: MockBroker, _: KafkaRequest) -> Values:
    """Return the client's instance id and the requested metrics.

    A client with an id gets it again, as from Apache Kafka. The definition requires 0, which Kafka's consumer rejects.
    """
    topic = _topic(broker)
    fields = {
        "ClientInstanceId": CLIENT_INSTANCE_ID,
        "SubscriptionId": SUBSCRIPTION_ID,
        "AcceptedCompressionTypes": topic.accepted_codecs,
        "PushIntervalMs": _SOON_MS,
        "TelemetryMaxBytes": _AT_MOST,
        "DeltaTemporality": True,
        "RequestedMetrics": topic.requested_metrics,
    }
    return {"ErrorCode": topic.group.error("GetTelemetrySubscriptions"), **fields}


def _push(broker: MockBroker, _: KafkaRequest) -> Values:
    return {"ErrorCode": _topic(broker).group.error("PushTelemetry")}


ANSWERS: Mapping[str, Callable[[MockBroker, KafkaRequest], Values]] = {
    "GetTelemetrySubscriptions": _subscriptions,
    "PushTelemetry": _push,
}


class ResponseFrame(Struct, frozen=True):
    """A response, and the seconds before it is sent if there are no records yet."""

    frame: bytes
    delay: float = 0.0
    size: int | None = None
    """The value of the size field if it is not the size of the frame."""


class MockBroker(Struct):
    """A node of a cluster, at the address that clients receive. Topics have one partition, most clusters one node."""

    host: str
    port: int
    offered: ApiVersions = field(default_factory=lambda: MINIMAL)
    topics: dict[str, MockTopic] = field(default_factory=dict)
    finalized_features: Mapping[str, int] = field(default_factory=dict)
    """The finalized features in its ApiVersions response, with their levels."""
    api_versions_sent: bool = False
    """True if a client has received its ApiVersions response since the flag was set to False."""
    max_fetch_magic: int = -1
    """The highest magic that the version of the last fetch carries; -1 before the first one."""
    is_tagged: bool = False
    """True if its responses contain unknown tagged fields."""
    is_strict: bool = False
    """True if a request in a version that it does not offer closes the connection and counts against the client."""
    downtime_s: float = 0.0
    """Seconds in which it accepts no connection after it closed all; 0: it closes a single connection only."""
    is_stopped: bool = False
    """True if it has stopped for good; Metadata no longer lists it."""
    aliases: tuple[int, ...] = ()
    """The ids of further nodes that Metadata lists at its address."""
    in_pieces: bool = False
    """True if its responses are sent in several pieces."""
    node: int = NODE_1
    """Its node id."""
    other_nodes: tuple[MockBroker, ...] = ()
    """The other nodes of its cluster."""
    sessions: FetchSessionCache | None = None
    """The clients' fetch sessions; None if it declines sessions."""

    @property
    def nodes(self) -> tuple[MockBroker, ...]:
        """All nodes of its cluster, in the order of their ids."""
        return tuple(sorted((self, *self.other_nodes), key=lambda one: one.node))

    @property
    def bootstrap(self) -> str:
        """The bootstrap address of its cluster, at a node that does not stop."""
        entry = self.nodes[-1] if self.downtime_s == math.inf else self
        return f"{entry.host}:{entry.port}"

    def respond(self, frame: bytes) -> ResponseFrame:
        """Return the response to the frame of a request, both without their size.

        Raises UnhandledRequest, CloseConnection or MalformedFrame.
        """
        name, version, correlation = opening(frame)
        if name not in self.offered:
            raise UnhandledRequest(f"{name} {version}, a request that it does not offer")
        low, high = self.offered[name]
        if not low <= version <= high:
            if name == "ApiVersions":
                # As Apache Kafka since 2.4: the error response lists only ApiVersions, and the client must retry.
                fields = self._versions(ErrorCode.UNSUPPORTED_VERSION, (name,))
                return ResponseFrame(response_frame(correlation, name, 0, fields))
            raise (CloseConnection if self.is_strict else UnhandledRequest)(
                f"{name} {version}, because it offers {low} to {high}"
            )
        if version < MIN_ACCEPTED_VERSION.get(name, low) <= high:
            raise UnhandledRequest(f"{name} {version}, which Apache Kafka 4 offers but rejects")
        request = request_in(frame)
        body = self._answered(request)
        written = response_frame(correlation, name, version, body, is_tagged=self.is_tagged)
        wrong = [topic for topic in self.topics.values() if topic.response_sizes and name == "Fetch"]
        return ResponseFrame(
            written, _fetch_handlers.fetch_delay_s(request, body), wrong[0].response_sizes.pop(0) if wrong else None
        )

    def _answered(self, request: KafkaRequest) -> Values:
        """Return the body of the response."""
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
        fields = (
            {"SupportedFeatures": known, "FinalizedFeatures": levels, "FinalizedFeaturesEpoch": 1} if levels else {}
        )
        return {"ErrorCode": error, "ApiKeys": sorted(rows, key=lambda row: row["ApiKey"]), **fields}


_ANSWERS: Mapping[str, Callable[[MockBroker, KafkaRequest], Values]] = {
    **_fetch_handlers.ANSWERS,
    **_group_handlers.ANSWERS,
    **produce_handlers.ANSWERS,
    **ANSWERS,
}
"""The handlers of requests; each returns the body of the response."""
