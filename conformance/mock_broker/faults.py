"""What the scripted broker does otherwise in each conversation: a row is all that a new one takes beside its case."""

from __future__ import annotations

import math
from collections.abc import Mapping

from msgspec import Struct, field

from conformance.cases.api_versions_profiles import Offer
from conformance.cases.client_scenarios import COMMITS_REFUSED, GATHERED, HOLLOW, MARKED, MESSAGES_IN, METRIC, PLACE

# How a fetch may bring nothing, or how topics are described.
NULL, THROTTLED, EMPTY, UNDECIDED, LOST = "null", "throttled", "empty", "undecided", "lost"
NO_BROKERS, NO_LEADER, ERRED, UNKNOWN, ALONE = "no-brokers", "no-leader", "erred", "unknown", "alone"
UNLISTED = "unlisted"
# How a generation of a group is made up: another member leads it, in a newer version too, and leaves nothing to the
# client, or the client leads another member.
FOLLOWING, NEWER, IDLE, COMPANY = "following", "newer", "idle", "company"
# The same, where what the other member says is no subscription: nothing at all, or cut.
SILENT, GARBLED = "silent", "garbled"
# The same, where that wants another topic.
APART = "apart"
# The same, and it had the client's partition in a generation that the client was not in.
CLAIMS = "claims"
# What another replica has, to which a fetch is sent: the records, or not the offset.
SERVES, LACKS = "serves", "lacks"

NODE, OTHER = 1, 2
"""The ids of the nodes: most conversations have the first one alone."""
NOTHING = -1
"""The offset of a partition for which none is committed."""
EPOCH = 5
"""That of the first leader, where it is told."""
GONE = 1 << 15
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

    called: str = ""
    """The name of the topic, its group, client and transaction, where it is an uncommon one."""
    offers: str = ""
    """What is offered, by its name; empty for what the client's own broker offers."""
    but: Offer = field(default_factory=dict)
    """The requests that are offered in other versions than that."""
    features: Mapping[str, int] = field(default_factory=dict)
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
    hollow: tuple[str, ...] = ()
    """How fetches bring nothing: by NULL records, without a topic as it has too much to do (THROTTLED), by EMPTY ones,
    as all that is there is UNDECIDED, and LOST, as their session is."""
    described: tuple[str, ...] = ()
    """How Metadata describes the topic: without any broker, its leader or one that is listed, as UNKNOWN, its leader
    ALONE until a fetch came and once more, or, once all refusals are told, with an error beside one partition more."""
    has_ids: bool = True
    """Whether topics have ids; where they have none, Metadata tells zeros."""
    aliases: tuple[int, ...] = ()
    """The ids of further nodes that Metadata lists at the address of the first one, as behind a proxy."""
    misframed: tuple[int, ...] = ()
    """The sizes that the answers to the first fetches have."""
    in_group: bool = False
    """Whether the client is a member of a group."""
    committed: tuple[int, int] = (NOTHING, NOTHING)
    """The offset that the group has committed, and its epoch; NOTHING for none."""
    errors: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """By the request of a group or of a transaction, or about offsets, the errors with which it is answered."""
    holds: bool = False
    """Whether nothing is served behind the offset that the group has committed, or the first one."""
    hands_over: bool = False
    """Whether the other node coordinates once one of these errors says that the first does not, or that it is GONE."""
    led_by: int = NODE
    """The node that leads the topic."""
    gathered: tuple[str, ...] = ()
    """How the generations of the group are made up; behind them the client is its only member."""
    lost: int = 0
    """Writes that are taken, and fetches, whose answers are lost with their connection."""
    away: float = 0.0
    """Seconds from then on in which no connection is taken, as all others end too; 0: that one ends alone. For ever:
    nobody listens any more."""
    forgets: bool = False
    """Whether of a batch that comes again it knows only that it is a repetition, and not where it is."""
    trims: bool = False
    """Whether the log begins further on once a client has come to its second record."""
    cuts: bool = False
    """Whether the new leader says with OffsetForLeaderEpoch that the epoch ends before all that a client has read."""
    moves: LeaderChange | None = None
    """How the topic gets to another node, if it does."""
    replica: str = ""
    """What another replica has, to which the leader sends who names a rack; empty where it sends nobody there."""
    wanted: tuple[str, ...] = ()
    """The metrics that the broker wants of the client: by their names, what those begin with, or `*` for all."""
    accepted: tuple[int, ...] = ()
    """The codecs in which it takes them."""
    for_good: bool = False
    """Whether the first error with which a write or a request is answered comes each time."""
    may_wait: str = ""
    """The request by which a client shows that it still works which has not gone on when the case is over: it may wait
    until it asks for Metadata by itself, which takes minutes."""
    may_tell: bool = False
    """Whether a client does well, too, that tells the application of what it met."""

    @property
    def has_two(self) -> bool:
        """Whether its broker has another node beside it."""
        return bool((self.moves and not self.moves.stays) or self.replica or self.hands_over)

    @property
    def stops(self) -> bool:
        """Whether something becomes of its topic at the second record: each fetch brings one, and more are left."""
        return bool(self.trims or (self.moves and self.moves.at))

    @property
    def is_ordinary(self) -> bool:
        """Whether its broker offers what the client's own does, and is one node; what it answers may differ."""
        return not (self.offers or self.in_pieces or self.has_two)

    @property
    def needs_all(self) -> bool:
        """Whether only a client can be led so that comes through where everything is offered."""
        return self.offers == "full"


PLAIN = ClientScenario()
_NEWEST_TRANSACTIONS: Offer = {"AddPartitionsToTxn": (0, 5), "EndTxn": (0, 5)}
"""With the versions for brokers, and those of the transactions that a feature tells of."""


def _validated(*errors: int, at: int = PLACE, may_tell: bool = False, cuts: bool = False) -> ClientScenario:
    """Another node comes to lead, and says with OffsetForLeaderEpoch, after these errors, if the place is valid."""
    return ClientScenario(
        offers="full",
        but={"OffsetForLeaderEpoch": (2, 4)},
        moves=LeaderChange(at=at),
        errors={"OffsetForLeaderEpoch": errors},
        may_tell=may_tell,
        cuts=cuts,
    )


def _measured(
    *wanted: str, accepted: tuple[int, ...] = (0,), asked: tuple[int, ...] = (), pushed: tuple[int, ...] = ()
) -> ClientScenario:
    """Metrics are wanted, and both requests answered by errors at first; the records come late enough for a push."""
    return ClientScenario(
        offers="full",
        but={"GetTelemetrySubscriptions": (0, 0), "PushTelemetry": (0, 0)},
        wanted=wanted,
        accepted=accepted,
        hollow=(EMPTY,) * _SLOW,
        errors={"GetTelemetrySubscriptions": asked, "PushTelemetry": pushed},
    )


KINDS: Mapping[str, ClientScenario] = {
    "consume": ClientScenario(refusals=(_NOT_LEADER,)),
    "reset": ClientScenario(refusals=(_OFFSET_OUT_OF_RANGE,), may_tell=True),
    "reset-late": ClientScenario(
        refusals=(_OFFSET_OUT_OF_RANGE,),
        errors={"ListOffsets": (_NOT_LEADER, _OFFSET_NOT_AVAILABLE)},
        may_tell=True,
    ),
    "trimmed": ClientScenario(trims=True, may_tell=True),
    "unavailable": ClientScenario(refusals=(_REPLICA_NOT_AVAILABLE, _STORAGE_ERROR), may_tell=True),
    "unknown-error": ClientScenario(refusals=(_NOBODY_KNOWS,), may_tell=True),
    "null": ClientScenario(hollow=(NULL,) * HOLLOW),
    "throttled": ClientScenario(hollow=(THROTTLED,) * HOLLOW),
    "undecided": ClientScenario(hollow=(UNDECIDED,) * HOLLOW),
    "no-brokers": ClientScenario(described=(NO_BROKERS,), may_tell=True),
    "no-leader": ClientScenario(described=(NO_LEADER,), may_tell=True),
    "leader-unlisted": ClientScenario(described=(UNLISTED,) * _SEVERAL, may_tell=True),
    "topic-unknown": ClientScenario(described=(UNKNOWN,) * _SEVERAL, may_wait="Heartbeat", may_tell=True),
    "one-address": ClientScenario(aliases=(OTHER, OTHER + 1)),
    "called-127": ClientScenario(called=_TWO_BYTES, offers="full"),
    "called-249": ClientScenario(called=_LONGEST, offers="full"),
    "called-shift": ClientScenario(called="shift"),
    "called-constructor": ClientScenario(called="constructor"),
    "called-proto": ClientScenario(called="__proto__"),
    "group": ClientScenario(in_group=True),
    "group-called-249": ClientScenario(called=_LONGEST, offers="full", in_group=True),
    "group-newest": ClientScenario(offers="full", in_group=True),
    "group-topic-unknown": ClientScenario(
        in_group=True, described=(UNKNOWN,) * _SEVERAL, may_wait="Heartbeat", may_tell=True
    ),
    "topic-erred": ClientScenario(offers="full", refusals=(_NOT_LEADER,), described=(ERRED,), may_tell=True),
    "misframed": ClientScenario(misframed=(-1,), may_tell=True),
    "replica": ClientScenario(offers="full", replica=SERVES),
    "replica-behind": ClientScenario(offers="full", replica=LACKS),
    "replica-unlisted": ClientScenario(offers="full", replica=SERVES, described=(ALONE,), may_wait="Fetch"),
    "moved": ClientScenario(moves=LeaderChange()),
    "moved-unnoticed": ClientScenario(offers="full", moves=LeaderChange(EPOCH)),
    "moved-untold": ClientScenario(offers="full", moves=LeaderChange(-1)),
    "leader-gone": ClientScenario(moves=LeaderChange(), lost=1, away=math.inf, may_tell=True),
    "recreated": ClientScenario(offers="full", moves=LeaderChange(0, is_another=True), may_tell=True),
    "validated": _validated(),
    "validated-marked": _validated(at=MARKED),
    "validated-late": _validated(*(_UNKNOWN_EPOCH,) * _SEVERAL),
    "validation-refused": _validated(_TOPIC_FORBIDDEN, may_tell=True),
    "truncated": _validated(may_tell=True, cuts=True),
    "raised": ClientScenario(offers="full", moves=LeaderChange(stays=True)),
    "hung-up": ClientScenario(lost=_SEVERAL, may_tell=True),
    "restarted": ClientScenario(lost=1, away=_AWAY, may_tell=True),
    "group-restarted": ClientScenario(in_group=True, lost=1, away=_AWAY, may_tell=True),
    "committed": ClientScenario(in_group=True, committed=(0, EPOCH)),
    "rebalance": ClientScenario(in_group=True, errors={"SyncGroup": (_REBALANCE_IN_PROGRESS,)}),
    "evicted": ClientScenario(in_group=True, errors={"SyncGroup": (_UNKNOWN_MEMBER,)}, may_tell=True),
    "loading": ClientScenario(
        in_group=True,
        errors={"FindCoordinator": (_NOT_AVAILABLE,), "JoinGroup": (_LOADING,), "OffsetFetch": (NOT_COORDINATOR,)},
        may_tell=True,
    ),
    "following": ClientScenario(in_group=True, gathered=(FOLLOWING,)),
    "newer": ClientScenario(in_group=True, gathered=(NEWER,)),
    "idle": ClientScenario(in_group=True, gathered=(IDLE,)),
    "generation-lost": ClientScenario(
        in_group=True, gathered=(IDLE,), errors={"Heartbeat": (_ILLEGAL_GENERATION,) * _MANY}
    ),
    "coordinator-moved": ClientScenario(
        in_group=True, gathered=(IDLE,), errors={"Heartbeat": (NOT_COORDINATOR,)}, may_tell=True
    ),
    "coordinator-elsewhere": ClientScenario(
        in_group=True,
        gathered=(IDLE,),
        errors={"Heartbeat": (NOT_COORDINATOR,)},
        hands_over=True,
        may_tell=True,
    ),
    "coordinator-gone": ClientScenario(
        in_group=True,
        gathered=(IDLE,),
        errors={"Heartbeat": (GONE,)},
        hands_over=True,
        led_by=OTHER,
        away=math.inf,
        may_tell=True,
    ),
    "commit-loading": ClientScenario(
        in_group=True,
        errors={"OffsetCommit": (_LOADING,) * COMMITS_REFUSED},
        holds=True,
        may_tell=True,
    ),
    "unstable": ClientScenario(in_group=True, errors={"OffsetFetch": (_UNSTABLE,) * _LONG}, may_tell=True),
    "offsets-loading": ClientScenario(in_group=True, errors={"OffsetFetch": (_LOADING,) * _LONG}, may_tell=True),
    "offsets-refused": ClientScenario(in_group=True, errors={"OffsetFetch": (_FORBIDDEN,)}, may_tell=True),
    "company-silent": ClientScenario(in_group=True, gathered=(SILENT,), may_tell=True),
    "company-garbled": ClientScenario(in_group=True, gathered=(GARBLED,), may_tell=True),
    "company": ClientScenario(in_group=True, gathered=(COMPANY,) * GATHERED),
    "company-claims": ClientScenario(in_group=True, gathered=(APART, CLAIMS)),
    "company-apart": ClientScenario(in_group=True, gathered=(APART,) * GATHERED),
    "pieces": ClientScenario(in_pieces=True),
    "bare": ClientScenario(offers="bare"),
    "tagged": ClientScenario(offers="full", is_tagged=True),
    "older": ClientScenario(
        offers="full", but={"ApiVersions": (0, 2), "Metadata": (0, 9), "Fetch": (4, 12)}, is_strict=True
    ),
    "zero-ids": ClientScenario(offers="full", has_ids=False),
    "without-ids": ClientScenario(offers="full", but={"Metadata": (0, 9)}),
    "session": ClientScenario(offers="full", has_sessions=True, hollow=(EMPTY,)),
    "session-declined": ClientScenario(offers="full", hollow=(EMPTY,) * HOLLOW),
    "session-lost": ClientScenario(offers="full", has_sessions=True, hollow=(EMPTY, LOST)),
    "measured": _measured("*"),
    "measured-by-prefix": _measured(METRIC[:-2], "conformance.none"),
    "measured-compressed": _measured(METRIC, accepted=(4, 3, 2, 1)),
    "measured-unmatched": _measured("conformance.none"),
    "measured-unwanted": _measured(),
    "measured-anew": _measured("*", pushed=(_UNKNOWN_SUBSCRIPTION,) * _SEVERAL),
    "measured-refused": _measured("*", pushed=(_TOO_LARGE, _UNSUPPORTED_CODEC, _INVALID_RECORD)),
    "measured-unasked": _measured("*", asked=(_NOBODY_KNOWS, _INVALID_REQUEST)),
    "produce": ClientScenario(refusals=(_NOT_LEADER,)),
    "produce-called-249": ClientScenario(called=_LONGEST, offers="full"),
    "produce-called-proto": ClientScenario(called="__proto__"),
    **{f"messages-{codec}": ClientScenario(offers="old", may_tell=True) for codec in MESSAGES_IN},
    "disk": ClientScenario(refusals=(_STORAGE_ERROR,)),
    "produce-moved": ClientScenario(moves=LeaderChange(), may_tell=True),
    "produce-gone": ClientScenario(moves=LeaderChange(), lost=1, away=math.inf, may_tell=True),
    "answer-lost": ClientScenario(lost=1),
    "repetition": ClientScenario(lost=1, forgets=True, may_tell=True),
    "together": ClientScenario(refusals=(_NOT_LEADER,)),
    "timed-out": ClientScenario(refusals=(_REQUEST_TIMED_OUT,)),
    "transact": PLAIN,
    "transaction-called-249": ClientScenario(called=_LONGEST, offers="full"),
    "busy": ClientScenario(
        errors={"InitProducerId": (_CONCURRENT_TRANSACTIONS,), "AddPartitionsToTxn": (_CONCURRENT_TRANSACTIONS,)}
    ),
    "not-ready": ClientScenario(errors={"InitProducerId": (_LOADING,)}),
    "transaction-elsewhere": ClientScenario(
        errors={"AddPartitionsToTxn": (NOT_COORDINATOR,)}, hands_over=True, may_tell=True
    ),
    "transaction-gone": ClientScenario(
        errors={"AddPartitionsToTxn": (GONE,)}, hands_over=True, led_by=OTHER, away=math.inf, may_tell=True
    ),
    "ending": ClientScenario(errors={"EndTxn": (_CONCURRENT_TRANSACTIONS,)}),
    "produce-newest": ClientScenario(offers="full", refusals=(_NOT_LEADER,)),
    "produce-recreated": ClientScenario(offers="full", moves=LeaderChange(0, is_another=True), may_tell=True),
    "transact-newest": ClientScenario(offers="full", but=_NEWEST_TRANSACTIONS),
    "transaction-cut": ClientScenario(
        errors={"InitProducerId": (GONE,), "AddPartitionsToTxn": (GONE,), "EndTxn": (GONE,)}, may_tell=True
    ),
    "transactions": PLAIN,
    "transactions-told": ClientScenario(
        offers="full",
        but=_NEWEST_TRANSACTIONS,
        features={"transaction.version": 2},
    ),
    "transaction-given-up": ClientScenario(refusals=(0, _INVALID_RECORD)),
    "produce-given-up": ClientScenario(refusals=(0, _INVALID_RECORD)),
    "transact-nothing": PLAIN,
    "refused": ClientScenario(refusals=(_TOPIC_FORBIDDEN,), for_good=True),
    "fenced": ClientScenario(errors={"EndTxn": (_INVALID_PRODUCER_EPOCH,)}, for_good=True),
    "no-transaction": ClientScenario(errors={"AddPartitionsToTxn": (_INVALID_TXN_STATE,)}, for_good=True),
    "no-right": ClientScenario(errors={"InitProducerId": (_ID_FORBIDDEN,)}, for_good=True),
}
"""By the name of the conversation."""
