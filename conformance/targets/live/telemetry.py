"""The scripted broker's answers to clients that tell of their metrics (KIP-714)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from conformance.cases.client_scenarios import INSTANCE, SUBSCRIPTION
from conformance.codec.derived_fields import Values
from conformance.definitions.request_frames import Request

if TYPE_CHECKING:
    from conformance.targets.live.broker import Broker
    from conformance.targets.live.topics import Topic

_SOON_MS = 100
"""Milliseconds from one push to the next."""
_AT_MOST = 1 << 20
"""Bytes of the metrics of a push."""


def _topic(broker: Broker) -> Topic:
    """The topic of the conversation."""
    return next(iter(broker.topics.values()))


def _subscriptions(broker: Broker, _: Request) -> Values:
    """The id that the client has from now on, and the metrics that are wanted of it.

    Who has the id is told it again, as by Apache Kafka; its definition says that 0 is told, which its consumer refuses.
    """
    topic = _topic(broker)
    told = {
        "ClientInstanceId": INSTANCE,
        "SubscriptionId": SUBSCRIPTION,
        "AcceptedCompressionTypes": topic.accepted,
        "PushIntervalMs": _SOON_MS,
        "TelemetryMaxBytes": _AT_MOST,
        "DeltaTemporality": True,
        "RequestedMetrics": topic.wanted,
    }
    return {"ErrorCode": topic.group.error("GetTelemetrySubscriptions"), **told}


def _push(broker: Broker, _: Request) -> Values:
    return {"ErrorCode": _topic(broker).group.error("PushTelemetry")}


ANSWERS: Mapping[str, Callable[[Broker, Request], Values]] = {
    "GetTelemetrySubscriptions": _subscriptions,
    "PushTelemetry": _push,
}
