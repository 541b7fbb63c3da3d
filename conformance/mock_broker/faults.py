"""What the scripted broker does otherwise in each conversation: a row is all that a new one takes beside its case."""

from __future__ import annotations

import math
from collections.abc import Mapping

from msgspec import Struct, field

from conformance.cases.api_versions_profiles import ApiVersions
from conformance.cases.client_scenarios import (
    CONSUMED_OFFSET,
    EMPTY_FETCHES,
    MESSAGES_IN,
    OFFSET_AFTER_MARKER,
    REJECTED_COMMITS,
    REQUESTED_METRIC,
    SHARED_GENERATIONS,
)

# How a fetch may bring nothing, or how topics are described.
NULL, THROTTLED, EMPTY, ABOVE_LAST_STABLE_OFFSET, SESSION_LOST = "null", "throttled", "empty", "undecided", "lost"
NO_BROKERS, NO_LEADER, PARTITION_ERROR, UNKNOWN, LEADER_ONLY = "no-brokers", "no-leader", "erred", "unknown", "alone"
LEADER_NOT_LISTED = "unlisted"
# How a generation of a group is made up: another member leads it, in a newer version too, and leaves nothing to the
# client, or the client leads another member.
FOLLOWER, FOLLOWER_NEWER_VERSION, FOLLOWER_NO_PARTITION, LEADER_OF_TWO = "following", "newer", "idle", "company"
# The same, where what the other member says is no subscription: nothing at all, or cut.
EMPTY_METADATA, MALFORMED_METADATA = "silent", "garbled"
# The same, where that wants another topic.
OTHER_TOPIC = "apart"
# The same, and it had the client's partition in a generation that the client was not in.
OWNED_PARTITION_CONFLICT = "claims"
# What another replica has, to which a fetch is sent: the records, or not the offset.
REPLICA_IN_SYNC, REPLICA_BEHIND = "serves", "lacks"

NODE_1, NODE_2 = 1, 2
"""The ids of the nodes: most conversations have the first one alone."""
NO_COMMITTED_OFFSET = -1
"""The offset of a partition for which none is committed."""
EPOCH = 5
"""That of the first leader, where it is told."""
CLOSE_CONNECTION = 1 << 15
"""What stands for an error where the connection ends in place of an answer, as the node may be gone."""
_AWAY = 0.5
"""Seconds in which a broker that is started again takes no connection."""

_OFFSET_OUT_OF_RANGE, _NOT_LEADER, _REPLICA_NOT_AVAILABLE, _STORAGE_ERROR = 1, 6, 9, 56
_LOADING, _NOT_AVAILABLE, NOT_COORDINATOR = 14, 15, 16
_ILLEGAL_GENERATION, _UNKNOWN_MEMBER, _REBALANCE_IN_PROGRESS, _CONCURRENT_TRANSACTIONS = 22, 25, 27, 51
_INVALID_REQUEST, _REQUEST_TIMED_OUT, _FORBIDDEN, _UNSTABLE = 42, 7, 30, 88
_UNKNOWN_EPOCH, _OFFSET_NOT_AVAILABLE, _INVALID_RECORD = 75, 78, 87
_TOPIC_FORBIDDEN, _INVALID_PRODUCER_EPOCH, _INVALID_TXN_STATE, _ID_FORBIDDEN = 29, 47, 48, 53
_SEVERAL, _LONG, _MANY = 2, 5, 1000
"""Times that an error is told which passes late, or does not pass until the next generation."""
_SLOW = 20
"""Fetches that bring nothing, until a client has told of its metrics."""
_UNKNOWN_SUBSCRIPTION, _TOO_LARGE, _UNSUPPORTED_CODEC = 117, 118, 76
_NOBODY_KNOWS = 32000
_TWO_BYTES, _LONGEST = "n" * 127, "n" * 249
"""Names of topics: the shortest one whose length takes two bytes as a varint, and the longest one that there is."""


class LeaderChange(Struct, frozen=True):
    """What becomes of a topic whose leader is another node from the first fetch or write on, or from a later fetch."""

    epoch: int = EPOCH + 1
    """Of the leader; before that it is 5."""
    is_another: bool = False
    """Whether it is another topic of that name, with another id."""
    stays: bool = False
    """Whether the node leads on, in that epoch; it refuses who asks in an older one."""
    at: int = 0
    """The offset whose fetch comes to the node that does not lead any more; each brings one entry alone."""


class ClientScenario(Struct, frozen=True):
    """A conversation as the broker leads it; what stands in a list comes once each, and then everything is as ever."""

    topic_name: str = ""
    """The name of the topic, its group, client and transaction, where it is an uncommon one."""
    offers: str = ""
    """What is offered, by its name; empty for what the client's own broker offers."""
    version_overrides: ApiVersions = field(default_factory=dict)
    """The requests that are offered in other versions than that."""
    finalized_features: Mapping[str, int] = field(default_factory=dict)
    """The finalized features that ApiVersions tells of, and their levels."""
    is_tagged: bool = False
    """Whether its answers hold tagged fields that nobody knows."""
    in_pieces: bool = False
    """Whether its answers come in several pieces."""
    is_strict: bool = False
    """Whether it closes the connection over a version that it does not offer, as Apache Kafka does. Elsewhere such a
    request accuses nobody of what does not come then."""
    has_sessions: bool = False
    """Whether it keeps fetch sessions."""
    refusals: tuple[int, ...] = ()
    """The errors with which fetches and writes are answered; 0 for none."""
    empty_fetches: tuple[str, ...] = ()
    """How fetches bring nothing: by NULL records, without a topic as it has too much to do (THROTTLED), by EMPTY ones,
    as all that is there is ABOVE_LAST_STABLE_OFFSET, and SESSION_LOST, as their session is."""
    metadata_faults: tuple[str, ...] = ()
    """How Metadata describes the topic: without any broker, its leader or one that is listed, as UNKNOWN, its leader
    ALONE until a fetch came and once more, or, once all refusals are told, with an error beside one partition more."""
    has_ids: bool = True
    """Whether topics have ids; where they have none, Metadata tells zeros."""
    aliases: tuple[int, ...] = ()
    """The ids of further nodes that Metadata lists at the address of the first one, as behind a proxy."""
    response_sizes: tuple[int, ...] = ()
    """The sizes that the answers to the first fetches have."""
    in_group: bool = False
    """Whether the client is a member of a group."""
    committed: tuple[int, int] = (NO_COMMITTED_OFFSET, NO_COMMITTED_OFFSET)
    """The offset that the group has committed, and its epoch; NO_COMMITTED_OFFSET for none."""
    errors: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """By the request of a group or of a transaction, or about offsets, the errors with which it is answered."""
    stop_serving_after_commit: bool = False
    """Whether nothing is served behind the offset that the group has committed, or the first one."""
    coordinator_moves: bool = False
    """Whether the other node coordinates after one of these errors, or after CLOSE_CONNECTION."""
    initial_leader: int = NODE_1
    """The node that leads the topic."""
    group_generations: tuple[str, ...] = ()
    """How the generations of the group are made up; behind them the client is its only member."""
    dropped_responses: int = 0
    """Writes that are taken, and fetches, whose answers are lost with their connection."""
    refuse_connections_s: float = 0.0
    """Seconds from then on in which no connection is taken, as all others end too; 0: that one ends alone. For ever:
    nobody listens any more."""
    forgets_offset_of_duplicate: bool = False
    """Whether of a batch that comes again it knows only that it is a repetition, and not where it is."""
    trims_log: bool = False
    """Whether the log begins further on once a client has come to its second record."""
    truncates_log: bool = False
    """Whether the new leader says with OffsetForLeaderEpoch that the epoch ends before all that a client has read."""
    leader_change: LeaderChange | None = None
    """How the topic gets to another node, if it does."""
    replica: str = ""
    """What another replica has, to which the leader sends who names a rack; empty where it sends nobody there."""
    requested_metrics: tuple[str, ...] = ()
    """The metrics that the broker wants of the client: by their names, what those begin with, or `*` for all."""
    accepted_codecs: tuple[int, ...] = ()
    """The codecs in which it takes them."""
    error_is_permanent: bool = False
    """Whether the first error with which a write or a request is answered comes each time."""
    may_poll_request: str = ""
    """The request by which a client shows that it still works which has not gone on when the case is over: it may wait
    until it asks for Metadata by itself, which takes minutes."""
    may_report_error: bool = False
    """Whether a client does well, too, that tells the application of what it met."""

    @property
    def has_two_nodes(self) -> bool:
        """Whether its broker has another node beside it."""
        return bool((self.leader_change and not self.leader_change.stays) or self.replica or self.coordinator_moves)

    @property
    def serves_one_record_per_fetch(self) -> bool:
        """Whether something becomes of its topic at the second record: each fetch brings one, and more are left."""
        return bool(self.trims_log or (self.leader_change and self.leader_change.at))

    @property
    def uses_default_broker(self) -> bool:
        """Whether its broker offers what the client's own does, and is one node; what it answers may differ."""
        return not (self.offers or self.in_pieces or self.has_two_nodes)

    @property
    def needs_full_versions(self) -> bool:
        """Whether only a client can be led so that comes through where everything is offered."""
        return self.offers == "full"


NO_FAULTS = ClientScenario()
_NEWEST_TRANSACTIONS: ApiVersions = {"AddPartitionsToTxn": (0, 5), "EndTxn": (0, 5)}
"""With the versions for brokers, and those of the transactions that a feature tells of."""


def _validated(*errors: int, at: int = CONSUMED_OFFSET, may_tell: bool = False, cuts: bool = False) -> ClientScenario:
    """Another node comes to lead, and says with OffsetForLeaderEpoch, after these errors, if the place is valid."""
    return ClientScenario(
        offers="full",
        version_overrides={"OffsetForLeaderEpoch": (2, 4)},
        leader_change=LeaderChange(at=at),
        errors={"OffsetForLeaderEpoch": errors},
        may_report_error=may_tell,
        truncates_log=cuts,
    )


def _measured(
    *wanted: str, accepted: tuple[int, ...] = (0,), asked: tuple[int, ...] = (), pushed: tuple[int, ...] = ()
) -> ClientScenario:
    """Metrics are wanted, and both requests answered by errors at first; the records come late enough for a push."""
    return ClientScenario(
        offers="full",
        version_overrides={"GetTelemetrySubscriptions": (0, 0), "PushTelemetry": (0, 0)},
        requested_metrics=wanted,
        accepted_codecs=accepted,
        empty_fetches=(EMPTY,) * _SLOW,
        errors={"GetTelemetrySubscriptions": asked, "PushTelemetry": pushed},
    )


KINDS: Mapping[str, ClientScenario] = {
    "consume": ClientScenario(refusals=(_NOT_LEADER,)),
    "reset": ClientScenario(refusals=(_OFFSET_OUT_OF_RANGE,), may_report_error=True),
    "reset-late": ClientScenario(
        refusals=(_OFFSET_OUT_OF_RANGE,),
        errors={"ListOffsets": (_NOT_LEADER, _OFFSET_NOT_AVAILABLE)},
        may_report_error=True,
    ),
    "trimmed": ClientScenario(trims_log=True, may_report_error=True),
    "unavailable": ClientScenario(refusals=(_REPLICA_NOT_AVAILABLE, _STORAGE_ERROR), may_report_error=True),
    "unknown-error": ClientScenario(refusals=(_NOBODY_KNOWS,), may_report_error=True),
    "null": ClientScenario(empty_fetches=(NULL,) * EMPTY_FETCHES),
    "throttled": ClientScenario(empty_fetches=(THROTTLED,) * EMPTY_FETCHES),
    "undecided": ClientScenario(empty_fetches=(ABOVE_LAST_STABLE_OFFSET,) * EMPTY_FETCHES),
    "no-brokers": ClientScenario(metadata_faults=(NO_BROKERS,), may_report_error=True),
    "no-leader": ClientScenario(metadata_faults=(NO_LEADER,), may_report_error=True),
    "leader-unlisted": ClientScenario(metadata_faults=(LEADER_NOT_LISTED,) * _SEVERAL, may_report_error=True),
    "topic-unknown": ClientScenario(
        metadata_faults=(UNKNOWN,) * _SEVERAL, may_poll_request="Heartbeat", may_report_error=True
    ),
    "one-address": ClientScenario(aliases=(NODE_2, NODE_2 + 1)),
    "called-127": ClientScenario(topic_name=_TWO_BYTES, offers="full"),
    "called-249": ClientScenario(topic_name=_LONGEST, offers="full"),
    "called-shift": ClientScenario(topic_name="shift"),
    "called-constructor": ClientScenario(topic_name="constructor"),
    "called-proto": ClientScenario(topic_name="__proto__"),
    "group": ClientScenario(in_group=True),
    "group-called-249": ClientScenario(topic_name=_LONGEST, offers="full", in_group=True),
    "group-newest": ClientScenario(offers="full", in_group=True),
    "group-topic-unknown": ClientScenario(
        in_group=True, metadata_faults=(UNKNOWN,) * _SEVERAL, may_poll_request="Heartbeat", may_report_error=True
    ),
    "topic-erred": ClientScenario(
        offers="full", refusals=(_NOT_LEADER,), metadata_faults=(PARTITION_ERROR,), may_report_error=True
    ),
    "misframed": ClientScenario(response_sizes=(-1,), may_report_error=True),
    "replica": ClientScenario(offers="full", replica=REPLICA_IN_SYNC),
    "replica-behind": ClientScenario(offers="full", replica=REPLICA_BEHIND),
    "replica-unlisted": ClientScenario(
        offers="full", replica=REPLICA_IN_SYNC, metadata_faults=(LEADER_ONLY,), may_poll_request="Fetch"
    ),
    "moved": ClientScenario(leader_change=LeaderChange()),
    "moved-unnoticed": ClientScenario(offers="full", leader_change=LeaderChange(EPOCH)),
    "moved-untold": ClientScenario(offers="full", leader_change=LeaderChange(-1)),
    "leader-gone": ClientScenario(
        leader_change=LeaderChange(), dropped_responses=1, refuse_connections_s=math.inf, may_report_error=True
    ),
    "recreated": ClientScenario(offers="full", leader_change=LeaderChange(0, is_another=True), may_report_error=True),
    "validated": _validated(),
    "validated-marked": _validated(at=OFFSET_AFTER_MARKER),
    "validated-late": _validated(*(_UNKNOWN_EPOCH,) * _SEVERAL),
    "validation-refused": _validated(_TOPIC_FORBIDDEN, may_tell=True),
    "truncated": _validated(may_tell=True, cuts=True),
    "raised": ClientScenario(offers="full", leader_change=LeaderChange(stays=True)),
    "hung-up": ClientScenario(dropped_responses=_SEVERAL, may_report_error=True),
    "restarted": ClientScenario(dropped_responses=1, refuse_connections_s=_AWAY, may_report_error=True),
    "group-restarted": ClientScenario(
        in_group=True, dropped_responses=1, refuse_connections_s=_AWAY, may_report_error=True
    ),
    "committed": ClientScenario(in_group=True, committed=(0, EPOCH)),
    "rebalance": ClientScenario(in_group=True, errors={"SyncGroup": (_REBALANCE_IN_PROGRESS,)}),
    "evicted": ClientScenario(in_group=True, errors={"SyncGroup": (_UNKNOWN_MEMBER,)}, may_report_error=True),
    "loading": ClientScenario(
        in_group=True,
        errors={"FindCoordinator": (_NOT_AVAILABLE,), "JoinGroup": (_LOADING,), "OffsetFetch": (NOT_COORDINATOR,)},
        may_report_error=True,
    ),
    "following": ClientScenario(in_group=True, group_generations=(FOLLOWER,)),
    "newer": ClientScenario(in_group=True, group_generations=(FOLLOWER_NEWER_VERSION,)),
    "idle": ClientScenario(in_group=True, group_generations=(FOLLOWER_NO_PARTITION,)),
    "generation-lost": ClientScenario(
        in_group=True, group_generations=(FOLLOWER_NO_PARTITION,), errors={"Heartbeat": (_ILLEGAL_GENERATION,) * _MANY}
    ),
    "coordinator-moved": ClientScenario(
        in_group=True,
        group_generations=(FOLLOWER_NO_PARTITION,),
        errors={"Heartbeat": (NOT_COORDINATOR,)},
        may_report_error=True,
    ),
    "coordinator-elsewhere": ClientScenario(
        in_group=True,
        group_generations=(FOLLOWER_NO_PARTITION,),
        errors={"Heartbeat": (NOT_COORDINATOR,)},
        coordinator_moves=True,
        may_report_error=True,
    ),
    "coordinator-gone": ClientScenario(
        in_group=True,
        group_generations=(FOLLOWER_NO_PARTITION,),
        errors={"Heartbeat": (CLOSE_CONNECTION,)},
        coordinator_moves=True,
        initial_leader=NODE_2,
        refuse_connections_s=math.inf,
        may_report_error=True,
    ),
    "commit-loading": ClientScenario(
        in_group=True,
        errors={"OffsetCommit": (_LOADING,) * REJECTED_COMMITS},
        stop_serving_after_commit=True,
        may_report_error=True,
    ),
    "unstable": ClientScenario(in_group=True, errors={"OffsetFetch": (_UNSTABLE,) * _LONG}, may_report_error=True),
    "offsets-loading": ClientScenario(
        in_group=True, errors={"OffsetFetch": (_LOADING,) * _LONG}, may_report_error=True
    ),
    "offsets-refused": ClientScenario(in_group=True, errors={"OffsetFetch": (_FORBIDDEN,)}, may_report_error=True),
    "company-silent": ClientScenario(in_group=True, group_generations=(EMPTY_METADATA,), may_report_error=True),
    "company-garbled": ClientScenario(in_group=True, group_generations=(MALFORMED_METADATA,), may_report_error=True),
    "company": ClientScenario(in_group=True, group_generations=(LEADER_OF_TWO,) * SHARED_GENERATIONS),
    "company-claims": ClientScenario(in_group=True, group_generations=(OTHER_TOPIC, OWNED_PARTITION_CONFLICT)),
    "company-apart": ClientScenario(in_group=True, group_generations=(OTHER_TOPIC,) * SHARED_GENERATIONS),
    "pieces": ClientScenario(in_pieces=True),
    "bare": ClientScenario(offers="bare"),
    "tagged": ClientScenario(offers="full", is_tagged=True),
    "older": ClientScenario(
        offers="full", version_overrides={"ApiVersions": (0, 2), "Metadata": (0, 9), "Fetch": (4, 12)}, is_strict=True
    ),
    "zero-ids": ClientScenario(offers="full", has_ids=False),
    "without-ids": ClientScenario(offers="full", version_overrides={"Metadata": (0, 9)}),
    "session": ClientScenario(offers="full", has_sessions=True, empty_fetches=(EMPTY,)),
    "session-declined": ClientScenario(offers="full", empty_fetches=(EMPTY,) * EMPTY_FETCHES),
    "session-lost": ClientScenario(offers="full", has_sessions=True, empty_fetches=(EMPTY, SESSION_LOST)),
    "measured": _measured("*"),
    "measured-by-prefix": _measured(REQUESTED_METRIC[:-2], "conformance.none"),
    "measured-compressed": _measured(REQUESTED_METRIC, accepted=(4, 3, 2, 1)),
    "measured-unmatched": _measured("conformance.none"),
    "measured-unwanted": _measured(),
    "measured-anew": _measured("*", pushed=(_UNKNOWN_SUBSCRIPTION,) * _SEVERAL),
    "measured-refused": _measured("*", pushed=(_TOO_LARGE, _UNSUPPORTED_CODEC, _INVALID_RECORD)),
    "measured-unasked": _measured("*", asked=(_NOBODY_KNOWS, _INVALID_REQUEST)),
    "produce": ClientScenario(refusals=(_NOT_LEADER,)),
    "produce-called-249": ClientScenario(topic_name=_LONGEST, offers="full"),
    "produce-called-proto": ClientScenario(topic_name="__proto__"),
    **{f"messages-{codec}": ClientScenario(offers="old", may_report_error=True) for codec in MESSAGES_IN},
    "disk": ClientScenario(refusals=(_STORAGE_ERROR,)),
    "produce-moved": ClientScenario(leader_change=LeaderChange(), may_report_error=True),
    "produce-gone": ClientScenario(
        leader_change=LeaderChange(), dropped_responses=1, refuse_connections_s=math.inf, may_report_error=True
    ),
    "answer-lost": ClientScenario(dropped_responses=1),
    "repetition": ClientScenario(dropped_responses=1, forgets_offset_of_duplicate=True, may_report_error=True),
    "together": ClientScenario(refusals=(_NOT_LEADER,)),
    "timed-out": ClientScenario(refusals=(_REQUEST_TIMED_OUT,)),
    "transact": NO_FAULTS,
    "transaction-called-249": ClientScenario(topic_name=_LONGEST, offers="full"),
    "busy": ClientScenario(
        errors={"InitProducerId": (_CONCURRENT_TRANSACTIONS,), "AddPartitionsToTxn": (_CONCURRENT_TRANSACTIONS,)}
    ),
    "not-ready": ClientScenario(errors={"InitProducerId": (_LOADING,)}),
    "transaction-elsewhere": ClientScenario(
        errors={"AddPartitionsToTxn": (NOT_COORDINATOR,)}, coordinator_moves=True, may_report_error=True
    ),
    "transaction-gone": ClientScenario(
        errors={"AddPartitionsToTxn": (CLOSE_CONNECTION,)},
        coordinator_moves=True,
        initial_leader=NODE_2,
        refuse_connections_s=math.inf,
        may_report_error=True,
    ),
    "ending": ClientScenario(errors={"EndTxn": (_CONCURRENT_TRANSACTIONS,)}),
    "produce-newest": ClientScenario(offers="full", refusals=(_NOT_LEADER,)),
    "produce-recreated": ClientScenario(
        offers="full", leader_change=LeaderChange(0, is_another=True), may_report_error=True
    ),
    "transact-newest": ClientScenario(offers="full", version_overrides=_NEWEST_TRANSACTIONS),
    "transaction-cut": ClientScenario(
        errors={
            "InitProducerId": (CLOSE_CONNECTION,),
            "AddPartitionsToTxn": (CLOSE_CONNECTION,),
            "EndTxn": (CLOSE_CONNECTION,),
        },
        may_report_error=True,
    ),
    "transactions": NO_FAULTS,
    "transactions-told": ClientScenario(
        offers="full",
        version_overrides=_NEWEST_TRANSACTIONS,
        finalized_features={"transaction.version": 2},
    ),
    "transaction-given-up": ClientScenario(refusals=(0, _INVALID_RECORD)),
    "produce-given-up": ClientScenario(refusals=(0, _INVALID_RECORD)),
    "transact-nothing": NO_FAULTS,
    "refused": ClientScenario(refusals=(_TOPIC_FORBIDDEN,), error_is_permanent=True),
    "fenced": ClientScenario(errors={"EndTxn": (_INVALID_PRODUCER_EPOCH,)}, error_is_permanent=True),
    "no-transaction": ClientScenario(errors={"AddPartitionsToTxn": (_INVALID_TXN_STATE,)}, error_is_permanent=True),
    "no-right": ClientScenario(errors={"InitProducerId": (_ID_FORBIDDEN,)}, error_is_permanent=True),
}
"""By the name of the conversation."""
