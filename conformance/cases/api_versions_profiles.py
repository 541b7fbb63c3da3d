"""What the scripted broker offers, which pins the versions that a client uses: lowest and highest of each request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

ApiVersions = Mapping[str, tuple[int, int]]

MINIMAL: ApiVersions = {
    "ApiVersions": (0, 0),
    "Metadata": (0, 1),  # older clients ask in version 0 before they ask for the versions
    "ListOffsets": (1, 1),
    "Fetch": (4, 4),
    "Produce": (0, 3),  # librdkafka takes a broker that does not list it for one without record batches
}
"""The least that consumers work with."""

NON_FLEXIBLE: ApiVersions = {
    "ApiVersions": (0, 2),
    "Metadata": (0, 8),
    "ListOffsets": (1, 5),
    "Fetch": (4, 11),
    "Produce": (0, 8),
    "FindCoordinator": (0, 2),
    "JoinGroup": (0, 5),
    "SyncGroup": (0, 3),
    "Heartbeat": (0, 3),
    "LeaveGroup": (0, 3),
    "OffsetCommit": (2, 7),
    "OffsetFetch": (1, 5),
}
"""The versions before the flexible ones, and groups."""

ALL: ApiVersions = {
    "ApiVersions": (0, 5),
    "Metadata": (0, 13),
    "ListOffsets": (1, 11),
    "Fetch": (4, 18),
    "Produce": (0, 13),
    "FindCoordinator": (0, 6),
    "JoinGroup": (0, 9),
    "SyncGroup": (0, 5),
    "Heartbeat": (0, 4),
    "LeaveGroup": (0, 5),
    "OffsetCommit": (2, 10),
    "OffsetFetch": (1, 10),
}
"""Everything up to the newest definitions that the suite ships."""

KAFKA_0_10_2: ApiVersions = {
    "ApiVersions": (0, 0),
    "Metadata": (0, 2),
    "ListOffsets": (0, 1),
    "Fetch": (0, 3),
    "Produce": (0, 2),  # clients look for it; nothing is written
    "FindCoordinator": (0, 0),
    "JoinGroup": (0, 1),
    "SyncGroup": (0, 0),
    "Heartbeat": (0, 0),
    "LeaveGroup": (0, 0),
    "OffsetCommit": (2, 2),
    "OffsetFetch": (1, 2),
}
"""What Apache Kafka 0.10.2 offered to a consumer: for clients that read no record batches."""

_TRANSACTIONS: ApiVersions = {"InitProducerId": (0, 4), "AddPartitionsToTxn": (0, 3), "EndTxn": (0, 4)}


def with_producer_apis(offer: ApiVersions) -> ApiVersions:
    """What is offered to a client that writes, or joins a group: the least is too little for zstd and for either."""
    return {**(NON_FLEXIBLE if offer is MINIMAL else offer), **_TRANSACTIONS}


MIN_ACCEPTED_VERSION: Mapping[str, int] = {"Produce": 3}
"""The first version that is taken of a request where older ones are offered too. Apache Kafka 4 offers Produce from 0
on, as librdkafka before 2.14 compresses nothing otherwise (KAFKA-18659). It closes the connection when one before 3
comes."""

VERSION_PROFILES: Mapping[str, ApiVersions] = {"bare": MINIMAL, "low": NON_FLEXIBLE, "full": ALL, "old": KAFKA_0_10_2}
"""By the name that a driver.yaml or `serve-broker --offer` gives; but for the last, each holds all those before it."""


def profiles_from(offers: str) -> Sequence[str]:
    """The name of an offer, and those to try after it: the ones that hold more, and what old clients know."""
    return [*VERSION_PROFILES][[*VERSION_PROFILES].index(offers) :]
