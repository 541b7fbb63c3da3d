"""Version profiles: the lowest and highest version of each request that the mock broker supports.

A profile pins the versions that a client uses.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

ApiVersions = Mapping[str, tuple[int, int]]

MINIMAL: ApiVersions = {
    "ApiVersions": (0, 0),
    "Metadata": (0, 1),  # older clients send version 0 before ApiVersions
    "ListOffsets": (1, 1),
    "Fetch": (4, 4),
    "Produce": (0, 3),  # without Produce, librdkafka assumes that the broker does not support record batches
}
"""The fewest requests and versions with which consumers work."""

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
"""The versions before the flexible ones, with the requests of consumer groups."""

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
"""All versions up to the newest definitions that the suite ships."""

KAFKA_0_10_2: ApiVersions = {
    "ApiVersions": (0, 0),
    "Metadata": (0, 2),
    "ListOffsets": (0, 1),
    "Fetch": (0, 3),
    "Produce": (0, 2),  # clients look for this entry; consumers send no Produce
    "FindCoordinator": (0, 0),
    "JoinGroup": (0, 1),
    "SyncGroup": (0, 0),
    "Heartbeat": (0, 0),
    "LeaveGroup": (0, 0),
    "OffsetCommit": (2, 2),
    "OffsetFetch": (1, 2),
}
"""The requests of a consumer in Apache Kafka 0.10.2, for clients that cannot read record batches."""

_TRANSACTIONS: ApiVersions = {"InitProducerId": (0, 4), "AddPartitionsToTxn": (0, 3), "EndTxn": (0, 4)}


def with_producer_apis(offer: ApiVersions) -> ApiVersions:
    """Return the profile for producers and group members: MINIMAL has no group requests, and no zstd."""
    return {**(NON_FLEXIBLE if offer is MINIMAL else offer), **_TRANSACTIONS}


MIN_ACCEPTED_VERSION: Mapping[str, int] = {"Produce": 3}
"""The lowest version that the broker accepts, of requests whose ApiVersions entry begins lower.

Apache Kafka 4 lists Produce from version 0, as librdkafka before 2.14 compresses no batch otherwise (KAFKA-18659).
It closes the connection after a version below 3."""

VERSION_PROFILES: Mapping[str, ApiVersions] = {"bare": MINIMAL, "low": NON_FLEXIBLE, "full": ALL, "old": KAFKA_0_10_2}
"""Profiles by their names in driver.yaml and `serve-broker --offer`. Each contains all earlier ones, except `old`."""


def profiles_from(offers: str) -> Sequence[str]:
    """Return a profile's name and the names to try after it: larger profiles, then that of old clients."""
    return [*VERSION_PROFILES][[*VERSION_PROFILES].index(offers) :]
