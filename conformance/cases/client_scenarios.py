"""Client scenarios: the behaviour of the mock broker, and the task of the client.

A new scenario needs one row of SCENARIOS and its vector. The broker uses each entry of a list once;
then it responds normally. `client_checks` has the checks.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from msgspec import Struct, field
from msgspec.structs import replace

from conformance.cases.api_versions_profiles import ApiVersions
from conformance.codec.error_codes import ErrorCode

# --- values of a row ----------------------------------------------------------------------------------

# Fetch responses without records.
NULL, THROTTLED, EMPTY, ABOVE_LAST_STABLE_OFFSET, SESSION_LOST = "null", "throttled", "empty", "undecided", "lost"
# Faults of a Metadata response.
NO_BROKERS, NO_LEADER, PARTITION_ERROR, UNKNOWN, LEADER_ONLY = "no-brokers", "no-leader", "erred", "unknown", "alone"
LEADER_NOT_LISTED = "unlisted"
# Members of a group generation: another member is leader, or the client is leader of two.
FOLLOWER, FOLLOWER_NEWER_VERSION, FOLLOWER_NO_PARTITION, LEADER_OF_TWO = "following", "newer", "idle", "company"
# The client is leader; the subscription metadata of the other member cannot be parsed, or names another topic.
EMPTY_METADATA, MALFORMED_METADATA, OTHER_TOPIC = "silent", "garbled", "apart"
# The client is leader; the other member owned the client's partition in a generation that the client missed.
OWNED_PARTITION_CONFLICT = "claims"
# State of a follower to which the leader sends a client.
REPLICA_IN_SYNC, REPLICA_BEHIND = "serves", "lacks"

NODE_1, NODE_2 = 1, 2
"""Node ids. Most scenarios have only the first node."""
NO_COMMITTED_OFFSET = -1
"""CommittedOffset of a partition without a committed offset."""
EPOCH = 5
"""Epoch of the first leader."""
CLOSE_CONNECTION = 1 << 15
"""Replaces an error code: the broker closes the connection instead of a response."""
RESTART_S = 0.5
"""Seconds in which a restarting broker accepts no connection."""
UNKNOWN_ERROR_CODE = 32000
"""An error code that Kafka does not define."""
TWO_BYTE_NAME, LONGEST_NAME = "n" * 127, "n" * 249
"""Topic names: the shortest one whose compact length takes two bytes, and the longest one that Kafka allows."""
_TELEMETRY_FETCHES = 20
"""Empty fetch responses, so that the client has time to push metrics."""

MESSAGES_IN = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3}
"""Codecs of messages of magic 1, and their numbers."""
EMPTY_FETCHES = 2
"""Empty fetch responses before the records."""
LATEST = -1
"""Timestamp with which ListOffsets requests the last offset."""
CONSUMED_OFFSET = 1
"""Offset of the client when the leader changes or the log is trimmed."""
OFFSET_AFTER_MARKER = 2
"""Offset after a transaction marker that has a newer epoch than the record before it."""
TRIMMED_LOG_OFFSETS = range(10, 12)
"""Offsets that remain after the log was trimmed while the client was at CONSUMED_OFFSET."""
CLIENT_INSTANCE_ID, SUBSCRIPTION_ID = bytes(range(1, 17)), 7
"""ClientInstanceId and SubscriptionId of GetTelemetrySubscriptions responses (KIP-714)."""
REQUESTED_METRIC = "org.apache.kafka.consumer.connection.creation.total"
"""A metric that KIP-714 requires of every consumer."""
SHARED_GENERATIONS = 2
"""Generations in which the client is leader of two: in the first one it may not know the partitions yet."""
OTHER_MEMBER_ID = "another-member"
OTHER_TOPIC_SUFFIX = "-other"
"""The other member subscribes to the client's topic name with this suffix."""
REJECTED_COMMITS = 2
"""OffsetCommit requests that the broker rejects first."""
FATAL_ERROR_BATCH = 1
"""Index of the batch that the broker rejects with a fatal error."""
TRANSACTION_RESULTS = ("commit", "abort", "commit")
"""Results of the transactions, if each batch is a transaction."""
MAX_VERSION_WITHOUT_TV2 = {"Produce": 11, "AddPartitionsToTxn": 3, "EndTxn": 4}
"""Highest versions of transaction requests if the broker does not have transaction.version 2 (KIP-890)."""


# --- rows ---------------------------------------------------------------------------------------------


class LeaderChange(Struct, frozen=True):
    """A change of the leader or its epoch, at the first fetch or write, or at a later fetch."""

    epoch: int = EPOCH + 1
    """Leader epoch of the new leader."""
    is_another: bool = False
    """The topic is recreated, with another topic id."""
    stays: bool = False
    """The same node stays leader in the new epoch; it rejects the old epoch."""
    at: int = 0
    """The leader changes at the fetch of this offset. If it is above 0, each fetch response contains one entry."""


class ProducerTask(Struct, frozen=True):
    """The records that a producer writes in a scenario."""

    transactional: bool = False
    transaction_per_batch: bool = False
    """Each batch is a transaction, with TRANSACTION_RESULTS."""
    message_codec: str = ""
    """Codec of the messages of magic 1 that the producer writes; empty: record batches."""
    without_waiting: bool = False
    """The producer sends each batch without waiting for the one before."""
    one_record: bool = False
    """The task has one record: with two, the client could report the error before or after the second."""
    no_records: bool = False
    fatal_error_batch: int | None = None
    """Index of a batch that the application gives up after a fatal error."""

    @property
    def claims(self) -> tuple[str, ...]:
        """Producer features that a driver must claim for this task."""
        if self.message_codec:
            return "messages", self.message_codec
        if self.transaction_per_batch or self.no_records or self.fatal_error_batch is not None:
            return ("aborts",)
        return ("transactions" if self.transactional else "idempotence",)


BATCHES = ProducerTask()
PIPELINED = ProducerTask(without_waiting=True)
TRANSACTION = ProducerTask(transactional=True)
TRANSACTIONS = ProducerTask(transactional=True, transaction_per_batch=True)


class ClientScenario(Struct, frozen=True):
    """One row: the behaviour of the mock broker, and the task of the client."""

    description: str = ""
    """The behaviour of the broker, in one sentence of docs/live.md."""
    produces: ProducerTask | None = None
    """The client writes this; None: it consumes."""
    topic_name: str = ""
    """Name of the topic, its group, client id and transactional id; empty: a plain name."""
    versions: str = ""
    """Name of the version profile; empty: the client's own."""
    version_overrides: ApiVersions = field(default_factory=dict)
    """Versions of requests that differ from the profile."""
    finalized_features: Mapping[str, int] = field(default_factory=dict)
    """Finalized features in ApiVersions, and their levels."""
    is_tagged: bool = False
    """Responses contain unknown tagged fields."""
    in_pieces: bool = False
    """Responses arrive in several pieces."""
    is_strict: bool = False
    """An unsupported version closes the connection, as in Apache Kafka, and counts as a failure."""
    has_sessions: bool = False
    """The broker keeps fetch sessions."""
    partition_errors: tuple[int, ...] = ()
    """Error codes of fetch and produce responses; 0 for none."""
    empty_fetches: tuple[str, ...] = ()
    """Fetch responses without records, by their reason."""
    metadata_faults: tuple[str, ...] = ()
    """Faults of Metadata responses. LEADER_ONLY ends with the first response after a fetch. PARTITION_ERROR
    begins after all partition errors and adds one partition."""
    has_ids: bool = True
    """Topics have ids; otherwise Metadata returns zeros."""
    aliases: tuple[int, ...] = ()
    """Further node ids that Metadata lists at the address of the first node."""
    response_sizes: tuple[int, ...] = ()
    """Values of the size field in the first fetch responses."""
    in_group: bool = False
    """The client is a member of a group."""
    committed: tuple[int, int] = (NO_COMMITTED_OFFSET, NO_COMMITTED_OFFSET)
    """Committed offset of the group, and its leader epoch."""
    request_errors: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """Error codes of other responses, by request."""
    stop_serving_after_commit: bool = False
    """A fetch above the committed offset returns no records; nor does one above the first offset before a commit."""
    coordinator_moves: bool = False
    """The other node becomes coordinator after NOT_COORDINATOR or CLOSE_CONNECTION."""
    initial_leader: int = NODE_1
    """Node id of the first leader."""
    group_generations: tuple[str, ...] = ()
    """Members of the group generations; after that the client is the only member."""
    dropped_responses: int = 0
    """Number of fetches and writes to which the broker does not respond: it closes the connection."""
    refuse_connections_s: float = 0.0
    """If above 0, the broker then closes all connections and accepts none for this time, in seconds."""
    forgets_offset_of_duplicate: bool = False
    """The broker returns DUPLICATE_SEQUENCE_NUMBER for a retried batch."""
    trims_log: bool = False
    """After the client has read the first record, the log starts at a later offset."""
    truncates_log: bool = False
    """OffsetForLeaderEpoch returns an end offset before the client's offset."""
    leader_change: LeaderChange | None = None
    replica: str = ""
    """State of the follower to which the leader sends clients with a rack; empty: there is none."""
    requested_metrics: tuple[str, ...] = ()
    """RequestedMetrics of GetTelemetrySubscriptions: names, prefixes, or `*`."""
    accepted_codecs: tuple[int, ...] = ()
    """AcceptedCompressionTypes of GetTelemetrySubscriptions."""
    error_is_permanent: bool = False
    """The broker returns the first error each time."""
    may_poll_request: str = ""
    """A client that still sends this request at the timeout is skipped: it may continue after minutes."""
    may_report_error: bool = False
    """The client may report an error to the application instead of continuing."""

    @property
    def has_two_nodes(self) -> bool:
        """The cluster has a second node."""
        return bool((self.leader_change and not self.leader_change.stays) or self.replica or self.coordinator_moves)

    @property
    def serves_one_record_per_fetch(self) -> bool:
        """Each fetch response contains one record, because the leader or the log changes at a later one."""
        return bool(self.trims_log or (self.leader_change and self.leader_change.at))

    @property
    def uses_default_broker(self) -> bool:
        """The broker supports the client's own versions and is one node."""
        return not (self.versions or self.in_pieces or self.has_two_nodes)

    @property
    def needs_full_versions(self) -> bool:
        """The client must work with all versions."""
        return self.versions == "full"


NO_FAULTS = ClientScenario()
_NEWEST_TRANSACTIONS: ApiVersions = {"AddPartitionsToTxn": (0, 5), "EndTxn": (0, 5)}
"""All versions, also those that are only for brokers or for transaction.version 2."""


def _validated(
    description: str, *errors: int, at: int = CONSUMED_OFFSET, may_report: bool = False, truncates: bool = False
) -> ClientScenario:
    """Return a scenario: another node becomes leader, and OffsetForLeaderEpoch first returns these errors."""
    return ClientScenario(
        description,
        versions="full",
        version_overrides={"OffsetForLeaderEpoch": (2, 4)},
        leader_change=LeaderChange(at=at),
        request_errors={"OffsetForLeaderEpoch": errors},
        may_report_error=may_report,
        truncates_log=truncates,
    )


def _measured(
    description: str,
    *metrics: str,
    accepted: tuple[int, ...] = (0,),
    subscription_errors: tuple[int, ...] = (),
    push_errors: tuple[int, ...] = (),
) -> ClientScenario:
    """Return a scenario: the broker requests metrics, and the telemetry requests first return these errors."""
    return ClientScenario(
        description,
        versions="full",
        version_overrides={"GetTelemetrySubscriptions": (0, 0), "PushTelemetry": (0, 0)},
        requested_metrics=metrics,
        accepted_codecs=accepted,
        empty_fetches=(EMPTY,) * _TELEMETRY_FETCHES,
        request_errors={"GetTelemetrySubscriptions": subscription_errors, "PushTelemetry": push_errors},
    )


SCENARIOS: Mapping[str, ClientScenario] = {
    "consume": ClientScenario(
        "The first fetch returns NOT_LEADER_OR_FOLLOWER.", partition_errors=(ErrorCode.NOT_LEADER_OR_FOLLOWER,)
    ),
    "offset-out-of-range": ClientScenario(
        "The first fetch returns OFFSET_OUT_OF_RANGE.",
        partition_errors=(ErrorCode.OFFSET_OUT_OF_RANGE,),
        may_report_error=True,
    ),
    "list-offsets-retried": ClientScenario(
        "The first fetch returns OFFSET_OUT_OF_RANGE; ListOffsets is rejected twice with a retriable error.",
        partition_errors=(ErrorCode.OFFSET_OUT_OF_RANGE,),
        request_errors={"ListOffsets": (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.OFFSET_NOT_AVAILABLE)},
        may_report_error=True,
    ),
    "log-trimmed": ClientScenario(
        "After the client has read the first record, the log starts at offset 10.",
        trims_log=True,
        may_report_error=True,
    ),
    "retriable-errors": ClientScenario(
        "The first fetches return REPLICA_NOT_AVAILABLE and KAFKA_STORAGE_ERROR.",
        partition_errors=(ErrorCode.REPLICA_NOT_AVAILABLE, ErrorCode.KAFKA_STORAGE_ERROR),
        may_report_error=True,
    ),
    "unknown-error-code": ClientScenario(
        "The first fetch returns an error code that Kafka does not define.",
        partition_errors=(UNKNOWN_ERROR_CODE,),
        may_report_error=True,
    ),
    "null-records": ClientScenario(
        "The first fetches return null records without an error.", empty_fetches=(NULL,) * EMPTY_FETCHES
    ),
    "throttled": ClientScenario(
        "The first fetches return a throttle time and no topic.", empty_fetches=(THROTTLED,) * EMPTY_FETCHES
    ),
    "above-last-stable-offset": ClientScenario(
        "The first fetches return no records, as all offsets are above the last stable offset.",
        empty_fetches=(ABOVE_LAST_STABLE_OFFSET,) * EMPTY_FETCHES,
    ),
    "no-brokers": ClientScenario(
        "The first Metadata response contains no broker.", metadata_faults=(NO_BROKERS,), may_report_error=True
    ),
    "no-leader": ClientScenario(
        "The first Metadata response contains the partition without a leader.",
        metadata_faults=(NO_LEADER,),
        may_report_error=True,
    ),
    "leader-unlisted": ClientScenario(
        "The first two Metadata responses name a leader that is not in their broker list.",
        metadata_faults=(LEADER_NOT_LISTED,) * 2,
        may_report_error=True,
    ),
    "topic-unknown": ClientScenario(
        "The first two Metadata responses return UNKNOWN_TOPIC_OR_PARTITION.",
        metadata_faults=(UNKNOWN,) * 2,
        may_poll_request="Heartbeat",
        may_report_error=True,
    ),
    "one-address": ClientScenario(
        "Metadata lists three nodes at one address, as behind a proxy.", aliases=(NODE_2, NODE_2 + 1)
    ),
    "topic-name-127": ClientScenario(
        "The topic name has 127 characters, the fewest whose compact length takes two bytes.",
        topic_name=TWO_BYTE_NAME,
        versions="full",
    ),
    "topic-name-249": ClientScenario(
        "The topic name has 249 characters, the most that Kafka allows.", topic_name=LONGEST_NAME, versions="full"
    ),
    "topic-name-shift": ClientScenario(
        "The topic is named `shift`, like a method of JavaScript arrays.", topic_name="shift"
    ),
    "topic-name-constructor": ClientScenario(
        "The topic is named `constructor`, like a property of JavaScript objects.", topic_name="constructor"
    ),
    "topic-name-proto": ClientScenario(
        "The topic is named `__proto__`, like a property of JavaScript objects.", topic_name="__proto__"
    ),
    "group": ClientScenario("The client is a member of a group that has committed no offset.", in_group=True),
    "group-name-249": ClientScenario(
        "The group and the topic have a name of 249 characters.",
        topic_name=LONGEST_NAME,
        versions="full",
        in_group=True,
    ),
    "group-all-versions": ClientScenario(
        "The client is a member of a group; the broker supports all versions.", versions="full", in_group=True
    ),
    "group-topic-unknown": ClientScenario(
        "The first two Metadata responses to a group member return UNKNOWN_TOPIC_OR_PARTITION.",
        in_group=True,
        metadata_faults=(UNKNOWN,) * 2,
        may_poll_request="Heartbeat",
        may_report_error=True,
    ),
    "partition-error": ClientScenario(
        "Metadata returns an error for one partition more than the topic has.",
        versions="full",
        partition_errors=(ErrorCode.NOT_LEADER_OR_FOLLOWER,),
        metadata_faults=(PARTITION_ERROR,),
        may_report_error=True,
    ),
    "negative-size": ClientScenario(
        "The size before the first Fetch response is -1.", response_sizes=(-1,), may_report_error=True
    ),
    "replica": ClientScenario(
        "The leader sends the client to a follower in its rack.", versions="full", replica=REPLICA_IN_SYNC
    ),
    "replica-behind": ClientScenario(
        "The leader sends the client to a follower that returns OFFSET_OUT_OF_RANGE.",
        versions="full",
        replica=REPLICA_BEHIND,
    ),
    "replica-unlisted": ClientScenario(
        "The leader sends the client to a follower that Metadata does not list until the second response.",
        versions="full",
        replica=REPLICA_IN_SYNC,
        metadata_faults=(LEADER_ONLY,),
        may_poll_request="Fetch",
    ),
    "leader-moved": ClientScenario(
        "From the first fetch on, another node is leader, in the next epoch.", leader_change=LeaderChange()
    ),
    "leader-moved-same-epoch": ClientScenario(
        "From the first fetch on, another node is leader, in the same epoch.",
        versions="full",
        leader_change=LeaderChange(EPOCH),
    ),
    "leader-moved-no-epoch": ClientScenario(
        "From the first fetch on, another node is leader; Metadata returns leader epoch -1.",
        versions="full",
        leader_change=LeaderChange(-1),
    ),
    "leader-gone": ClientScenario(
        "From the first fetch on, another node is leader, and the old leader accepts no connection.",
        leader_change=LeaderChange(),
        dropped_responses=1,
        refuse_connections_s=math.inf,
        may_report_error=True,
    ),
    "topic-recreated": ClientScenario(
        "The topic is recreated with another topic id, and another node is leader in epoch 0.",
        versions="full",
        leader_change=LeaderChange(0, is_another=True),
        may_report_error=True,
    ),
    "epoch-validated": _validated("Another node becomes leader at offset 1; OffsetForLeaderEpoch confirms the offset."),
    "epoch-validated-after-marker": _validated(
        "Another node becomes leader after a marker of a newer epoch; OffsetForLeaderEpoch confirms the offset.",
        at=OFFSET_AFTER_MARKER,
    ),
    "epoch-validated-late": _validated(
        "Another node becomes leader at offset 1; OffsetForLeaderEpoch returns UNKNOWN_LEADER_EPOCH twice.",
        *(ErrorCode.UNKNOWN_LEADER_EPOCH,) * 2,
    ),
    "epoch-validation-rejected": _validated(
        "Another node becomes leader at offset 1; OffsetForLeaderEpoch returns TOPIC_AUTHORIZATION_FAILED.",
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        may_report=True,
    ),
    "log-truncated": _validated(
        "Another node becomes leader at offset 1; OffsetForLeaderEpoch returns an earlier end offset.",
        may_report=True,
        truncates=True,
    ),
    "leader-epoch-bumped": ClientScenario(
        "The same node stays leader in the next epoch and returns FENCED_LEADER_EPOCH for the old one.",
        versions="full",
        leader_change=LeaderChange(stays=True),
    ),
    "connection-closed": ClientScenario(
        "The broker closes the connection instead of the first two Fetch responses.",
        dropped_responses=2,
        may_report_error=True,
    ),
    "broker-restarted": ClientScenario(
        "The broker closes all connections at the first fetch and accepts none for half a second.",
        dropped_responses=1,
        refuse_connections_s=RESTART_S,
        may_report_error=True,
    ),
    "group-restarted": ClientScenario(
        "The same as `broker-restarted`, for a member of a group.",
        in_group=True,
        dropped_responses=1,
        refuse_connections_s=RESTART_S,
        may_report_error=True,
    ),
    "committed-offset": ClientScenario(
        "The group has committed offset 0 with a leader epoch.", in_group=True, committed=(0, EPOCH)
    ),
    "rebalance": ClientScenario(
        "The first SyncGroup returns REBALANCE_IN_PROGRESS.",
        in_group=True,
        request_errors={"SyncGroup": (ErrorCode.REBALANCE_IN_PROGRESS,)},
    ),
    "unknown-member-id": ClientScenario(
        "The first SyncGroup returns UNKNOWN_MEMBER_ID.",
        in_group=True,
        request_errors={"SyncGroup": (ErrorCode.UNKNOWN_MEMBER_ID,)},
        may_report_error=True,
    ),
    "coordinator-loading": ClientScenario(
        "FindCoordinator, JoinGroup and OffsetFetch each return one retriable coordinator error.",
        in_group=True,
        request_errors={
            "FindCoordinator": (ErrorCode.COORDINATOR_NOT_AVAILABLE,),
            "JoinGroup": (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,),
            "OffsetFetch": (ErrorCode.NOT_COORDINATOR,),
        },
        may_report_error=True,
    ),
    "assigned-by-leader": ClientScenario(
        "Another member is group leader and assigns the partition to the client.",
        in_group=True,
        group_generations=(FOLLOWER,),
    ),
    "newer-assignment-version": ClientScenario(
        "Another member is group leader and assigns the partition in a newer assignment version.",
        in_group=True,
        group_generations=(FOLLOWER_NEWER_VERSION,),
    ),
    "empty-assignment": ClientScenario(
        "Another member is group leader and first assigns no partition to the client.",
        in_group=True,
        group_generations=(FOLLOWER_NO_PARTITION,),
    ),
    "illegal-generation": ClientScenario(
        "The client has no partition; Heartbeat returns ILLEGAL_GENERATION.",
        in_group=True,
        group_generations=(FOLLOWER_NO_PARTITION,),
        request_errors={"Heartbeat": (ErrorCode.ILLEGAL_GENERATION,) * 1000},
    ),
    "coordinator-moved": ClientScenario(
        "The client has no partition; Heartbeat returns NOT_COORDINATOR once.",
        in_group=True,
        group_generations=(FOLLOWER_NO_PARTITION,),
        request_errors={"Heartbeat": (ErrorCode.NOT_COORDINATOR,)},
        may_report_error=True,
    ),
    "coordinator-changed": ClientScenario(
        "Heartbeat returns NOT_COORDINATOR, and FindCoordinator names the other node.",
        in_group=True,
        group_generations=(FOLLOWER_NO_PARTITION,),
        request_errors={"Heartbeat": (ErrorCode.NOT_COORDINATOR,)},
        coordinator_moves=True,
        may_report_error=True,
    ),
    "coordinator-gone": ClientScenario(
        "The coordinator closes its connections, and FindCoordinator names the other node.",
        in_group=True,
        group_generations=(FOLLOWER_NO_PARTITION,),
        request_errors={"Heartbeat": (CLOSE_CONNECTION,)},
        coordinator_moves=True,
        initial_leader=NODE_2,
        refuse_connections_s=math.inf,
        may_report_error=True,
    ),
    "commit-loading": ClientScenario(
        "OffsetCommit returns COORDINATOR_LOAD_IN_PROGRESS twice.",
        in_group=True,
        request_errors={"OffsetCommit": (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,) * REJECTED_COMMITS},
        stop_serving_after_commit=True,
        may_report_error=True,
    ),
    "unstable-offsets": ClientScenario(
        "OffsetFetch returns UNSTABLE_OFFSET_COMMIT several times.",
        in_group=True,
        request_errors={"OffsetFetch": (ErrorCode.UNSTABLE_OFFSET_COMMIT,) * 5},
        may_report_error=True,
    ),
    "offsets-loading": ClientScenario(
        "OffsetFetch returns COORDINATOR_LOAD_IN_PROGRESS several times.",
        in_group=True,
        request_errors={"OffsetFetch": (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,) * 5},
        may_report_error=True,
    ),
    "offsets-rejected": ClientScenario(
        "OffsetFetch returns GROUP_AUTHORIZATION_FAILED once.",
        in_group=True,
        request_errors={"OffsetFetch": (ErrorCode.GROUP_AUTHORIZATION_FAILED,)},
        may_report_error=True,
    ),
    "empty-metadata": ClientScenario(
        "The client is group leader; the subscription metadata of the other member is empty.",
        in_group=True,
        group_generations=(EMPTY_METADATA,),
        may_report_error=True,
    ),
    "malformed-metadata": ClientScenario(
        "The client is group leader; the subscription metadata of the other member is cut off.",
        in_group=True,
        group_generations=(MALFORMED_METADATA,),
        may_report_error=True,
    ),
    "two-members": ClientScenario(
        "The client is group leader of two members that subscribe to one partition.",
        in_group=True,
        group_generations=(LEADER_OF_TWO,) * SHARED_GENERATIONS,
    ),
    "owned-partition-conflict": ClientScenario(
        "The client is group leader; the other member claims the client's partition from a missed generation.",
        in_group=True,
        group_generations=(OTHER_TOPIC, OWNED_PARTITION_CONFLICT),
    ),
    "two-topics": ClientScenario(
        "The client is group leader; the other member subscribes to another topic.",
        in_group=True,
        group_generations=(OTHER_TOPIC,) * SHARED_GENERATIONS,
    ),
    "split-response": ClientScenario("Responses arrive in pieces of 1, 3 and 100 bytes.", in_pieces=True),
    "minimal-versions": ClientScenario(
        "The broker supports only the oldest versions that consumers work with.", versions="bare"
    ),
    "unknown-tags": ClientScenario("Each response contains unknown tagged fields.", versions="full", is_tagged=True),
    "older-broker": ClientScenario(
        "The broker supports older versions of ApiVersions, Metadata and Fetch than the client.",
        versions="full",
        version_overrides={"ApiVersions": (0, 2), "Metadata": (0, 9), "Fetch": (4, 12)},
        is_strict=True,
    ),
    "zero-topic-ids": ClientScenario("The broker returns the zero topic id.", versions="full", has_ids=False),
    "without-topic-ids": ClientScenario(
        "The broker supports only Metadata versions without topic ids.",
        versions="full",
        version_overrides={"Metadata": (0, 9)},
    ),
    "fetch-session": ClientScenario(
        "The broker keeps fetch sessions.", versions="full", has_sessions=True, empty_fetches=(EMPTY,)
    ),
    "fetch-session-declined": ClientScenario(
        "The broker declines fetch sessions; the first fetches return no records.",
        versions="full",
        empty_fetches=(EMPTY,) * EMPTY_FETCHES,
    ),
    "fetch-session-lost": ClientScenario(
        "The broker returns FETCH_SESSION_ID_NOT_FOUND for the fetch session.",
        versions="full",
        has_sessions=True,
        empty_fetches=(EMPTY, SESSION_LOST),
    ),
    "telemetry": _measured("The broker requests all client metrics (`*`).", "*"),
    "telemetry-by-prefix": _measured(
        "The broker requests client metrics by a prefix.", REQUESTED_METRIC[:-2], "conformance.none"
    ),
    "telemetry-compressed": _measured(
        "The broker requests one client metric and accepts all compression codecs.",
        REQUESTED_METRIC,
        accepted=(4, 3, 2, 1),
    ),
    "telemetry-unmatched": _measured("The broker requests a metric that no client has.", "conformance.none"),
    "telemetry-unwanted": _measured("The broker requests no client metrics."),
    "telemetry-unknown-subscription": _measured(
        "PushTelemetry returns UNKNOWN_SUBSCRIPTION_ID twice.",
        "*",
        push_errors=(ErrorCode.UNKNOWN_SUBSCRIPTION_ID,) * 2,
    ),
    "telemetry-rejected": _measured(
        "PushTelemetry returns TELEMETRY_TOO_LARGE, UNSUPPORTED_COMPRESSION_TYPE and INVALID_RECORD.",
        "*",
        push_errors=(ErrorCode.TELEMETRY_TOO_LARGE, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE, ErrorCode.INVALID_RECORD),
    ),
    "telemetry-subscription-rejected": _measured(
        "GetTelemetrySubscriptions returns an error code that Kafka does not define, then INVALID_REQUEST.",
        "*",
        subscription_errors=(UNKNOWN_ERROR_CODE, ErrorCode.INVALID_REQUEST),
    ),
    "produce": ClientScenario(
        "The first write returns NOT_LEADER_OR_FOLLOWER.",
        produces=BATCHES,
        partition_errors=(ErrorCode.NOT_LEADER_OR_FOLLOWER,),
    ),
    "produce-topic-name-249": ClientScenario(
        "The producer writes to a topic with a name of 249 characters.",
        produces=BATCHES,
        topic_name=LONGEST_NAME,
        versions="full",
    ),
    "produce-topic-name-proto": ClientScenario(
        "The producer writes to a topic named `__proto__`.", produces=BATCHES, topic_name="__proto__"
    ),
    **{
        f"messages-{codec}": ClientScenario(
            "The broker supports only Produce versions without record batches.",
            produces=ProducerTask(message_codec=codec),
            versions="old",
            may_report_error=True,
        )
        for codec in MESSAGES_IN
    },
    "kafka-storage-error": ClientScenario(
        "The first write returns KAFKA_STORAGE_ERROR.",
        produces=BATCHES,
        partition_errors=(ErrorCode.KAFKA_STORAGE_ERROR,),
    ),
    "produce-leader-moved": ClientScenario(
        "From the first write on, another node is leader.",
        produces=BATCHES,
        leader_change=LeaderChange(),
        may_report_error=True,
    ),
    "produce-leader-gone": ClientScenario(
        "From the first write on, another node is leader, and the old leader accepts no connection.",
        produces=BATCHES,
        leader_change=LeaderChange(),
        dropped_responses=1,
        refuse_connections_s=math.inf,
        may_report_error=True,
    ),
    "produce-response-lost": ClientScenario(
        "The broker appends the first batch and closes the connection before the response.",
        produces=BATCHES,
        dropped_responses=1,
    ),
    "duplicate-sequence": ClientScenario(
        "The same as `produce-response-lost`; the retried batch returns DUPLICATE_SEQUENCE_NUMBER.",
        produces=BATCHES,
        dropped_responses=1,
        forgets_offset_of_duplicate=True,
        may_report_error=True,
    ),
    "pipelined": ClientScenario(
        "The producer sends batches without waiting; the first returns NOT_LEADER_OR_FOLLOWER.",
        produces=PIPELINED,
        partition_errors=(ErrorCode.NOT_LEADER_OR_FOLLOWER,),
    ),
    "pipelined-timeout": ClientScenario(
        "The producer sends batches without waiting; the first returns REQUEST_TIMED_OUT.",
        produces=PIPELINED,
        partition_errors=(ErrorCode.REQUEST_TIMED_OUT,),
    ),
    "transaction": ClientScenario("The producer writes and commits one transaction.", produces=TRANSACTION),
    "transactional-id-249": ClientScenario(
        "The transactional id and the topic have a name of 249 characters.",
        produces=TRANSACTION,
        topic_name=LONGEST_NAME,
        versions="full",
    ),
    "concurrent-transactions": ClientScenario(
        "InitProducerId and AddPartitionsToTxn return CONCURRENT_TRANSACTIONS once.",
        produces=TRANSACTION,
        request_errors={
            "InitProducerId": (ErrorCode.CONCURRENT_TRANSACTIONS,),
            "AddPartitionsToTxn": (ErrorCode.CONCURRENT_TRANSACTIONS,),
        },
    ),
    "coordinator-not-ready": ClientScenario(
        "InitProducerId returns COORDINATOR_LOAD_IN_PROGRESS once.",
        produces=TRANSACTION,
        request_errors={"InitProducerId": (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,)},
    ),
    "transaction-coordinator-changed": ClientScenario(
        "AddPartitionsToTxn returns NOT_COORDINATOR, and FindCoordinator names the other node.",
        produces=TRANSACTION,
        request_errors={"AddPartitionsToTxn": (ErrorCode.NOT_COORDINATOR,)},
        coordinator_moves=True,
        may_report_error=True,
    ),
    "transaction-coordinator-gone": ClientScenario(
        "The transaction coordinator closes its connections, and FindCoordinator names the other node.",
        produces=TRANSACTION,
        request_errors={"AddPartitionsToTxn": (CLOSE_CONNECTION,)},
        coordinator_moves=True,
        initial_leader=NODE_2,
        refuse_connections_s=math.inf,
        may_report_error=True,
    ),
    "end-txn-retried": ClientScenario(
        "EndTxn returns CONCURRENT_TRANSACTIONS once.",
        produces=TRANSACTION,
        request_errors={"EndTxn": (ErrorCode.CONCURRENT_TRANSACTIONS,)},
    ),
    "produce-all-versions": ClientScenario(
        "The same as `produce`; the broker supports all versions.",
        produces=BATCHES,
        versions="full",
        partition_errors=(ErrorCode.NOT_LEADER_OR_FOLLOWER,),
    ),
    "produce-topic-recreated": ClientScenario(
        "The topic is recreated with the first write, and another node is leader.",
        produces=BATCHES,
        versions="full",
        leader_change=LeaderChange(0, is_another=True),
        may_report_error=True,
    ),
    "transaction-all-versions": ClientScenario(
        "The broker supports the newest transaction requests without the feature transaction.version.",
        produces=TRANSACTION,
        versions="full",
        version_overrides=_NEWEST_TRANSACTIONS,
    ),
    "transaction-connection-closed": ClientScenario(
        "The broker closes the connection once for each request to the transaction coordinator.",
        produces=TRANSACTION,
        request_errors={
            "InitProducerId": (CLOSE_CONNECTION,),
            "AddPartitionsToTxn": (CLOSE_CONNECTION,),
            "EndTxn": (CLOSE_CONNECTION,),
        },
        may_report_error=True,
    ),
    "transactions": ClientScenario(
        "The producer writes three transactions and aborts the second one.", produces=TRANSACTIONS
    ),
    "transactions-v2": ClientScenario(
        "The same as `transactions`, with the feature transaction.version 2.",
        produces=TRANSACTIONS,
        versions="full",
        version_overrides=_NEWEST_TRANSACTIONS,
        finalized_features={"transaction.version": 2},
    ),
    "transaction-fatal-error": ClientScenario(
        "A batch returns INVALID_RECORD, and the producer aborts its transaction.",
        produces=replace(TRANSACTIONS, fatal_error_batch=FATAL_ERROR_BATCH),
        partition_errors=(0, ErrorCode.INVALID_RECORD),
    ),
    "produce-fatal-error": ClientScenario(
        "A batch returns INVALID_RECORD, and the producer gives it up.",
        produces=replace(BATCHES, fatal_error_batch=FATAL_ERROR_BATCH),
        partition_errors=(0, ErrorCode.INVALID_RECORD),
    ),
    "empty-transaction": ClientScenario(
        "The producer commits a transaction without a record.", produces=replace(TRANSACTION, no_records=True)
    ),
    "topic-authorization": ClientScenario(
        "Each write returns TOPIC_AUTHORIZATION_FAILED.",
        produces=replace(BATCHES, one_record=True),
        partition_errors=(ErrorCode.TOPIC_AUTHORIZATION_FAILED,),
        error_is_permanent=True,
    ),
    "producer-fenced": ClientScenario(
        "EndTxn returns INVALID_PRODUCER_EPOCH each time.",
        produces=replace(TRANSACTION, one_record=True),
        request_errors={"EndTxn": (ErrorCode.INVALID_PRODUCER_EPOCH,)},
        error_is_permanent=True,
    ),
    "invalid-txn-state": ClientScenario(
        "AddPartitionsToTxn returns INVALID_TXN_STATE each time.",
        produces=replace(TRANSACTION, one_record=True),
        request_errors={"AddPartitionsToTxn": (ErrorCode.INVALID_TXN_STATE,)},
        error_is_permanent=True,
    ),
    "transactional-id-authorization": ClientScenario(
        "InitProducerId returns TRANSACTIONAL_ID_AUTHORIZATION_FAILED each time.",
        produces=replace(TRANSACTION, one_record=True),
        request_errors={"InitProducerId": (ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,)},
        error_is_permanent=True,
    ),
}
"""By name."""
