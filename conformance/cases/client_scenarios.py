"""What a client is brought to do while a broker leads the conversation, and what its requests are judged on."""

from __future__ import annotations

MESSAGES_IN = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3}
"""The codecs of messages of magic 1, by their names."""

CONVERSATIONS = (
    *("consume", "reset", "reset-late", "trimmed", "unavailable", "unknown-error", "null", "throttled", "undecided"),
    *(
        "no-brokers",
        "no-leader",
        "leader-unlisted",
        "topic-erred",
        "misframed",
        "replica",
        "replica-behind",
        "replica-unlisted",
    ),
    *("topic-unknown", "group-topic-unknown", "one-address", "moved-untold", "leader-gone", "truncated"),
    *("coordinator-elsewhere", "coordinator-gone", "called-127", "called-249", "called-shift", "called-constructor"),
    *("called-proto", "group-called-249", "produce-called-249", "produce-called-proto", "transaction-called-249"),
    *("measured", "measured-by-prefix", "measured-compressed", "measured-unmatched", "measured-unwanted"),
    *("measured-anew", "measured-refused", "measured-unasked"),
    *(f"messages-{codec}" for codec in MESSAGES_IN),
    *("moved", "moved-unnoticed", "recreated", "generation-lost", "coordinator-moved"),
    *(
        "validated",
        "validated-late",
        "validation-refused",
        "validated-marked",
        "raised",
        "hung-up",
        "restarted",
        "group-restarted",
    ),
    *("group", "group-newest", "committed", "rebalance", "evicted", "loading", "following", "newer", "idle", "company"),
    *("unstable", "offsets-loading", "offsets-refused", "commit-loading", "company-silent", "company-garbled"),
    "company-apart",
    "company-claims",
    *("pieces", "bare", "tagged", "older", "without-ids", "zero-ids", "session", "session-lost", "session-declined"),
    *("produce", "disk", "answer-lost", "transact", "together", "timed-out", "busy", "not-ready", "ending"),
    *("produce-moved", "produce-gone", "transaction-elsewhere", "transaction-gone"),
    *("produce-newest", "produce-recreated", "transact-newest"),
    *(
        "transactions",
        "transactions-told",
        "transact-nothing",
        "transaction-cut",
        "transaction-given-up",
        "produce-given-up",
        "repetition",
    ),
    *("refused", "fenced", "no-transaction", "no-right"),
)
"""What a client is brought to do, and how the broker leads it meanwhile.

It consumes a topic: the first fetch is refused as the leader has moved (`consume`) or as there is no such offset
(`reset`), the first ones because something is `unavailable` for the moment, by an error code that nobody knows
(`unknown-error`); they bring `null` records, no topic (`throttled`), or nothing as all of it is `undecided`; the
first answers to Metadata have no broker, or no leader, or one that is not listed (`leader-unlisted`), or later an error
(`topic-erred`), or the first one to Fetch
has a size that is none (`misframed`), or the connection ends in place of it (`hung-up`), or all of them, and none is
taken for a moment (`restarted`, and `group-restarted` for a member of a group). With the first fetch another node
leads: in the next epoch (`moved`), in the same (`moved-unnoticed`), or of another topic with the same name
(`recreated`); or from the second record on, where a broker says with OffsetForLeaderEpoch that the place is
`validated`, after errors that pass (`validated-late`) or another one (`validation-refused`), or behind a marker of a
newer epoch (`validated-marked`). Or the same node leads
on in a newer epoch (`raised`). Or fetches are sent to another `replica`, which may be behind (`replica-behind`) or
not listed yet (`replica-unlisted`). A new leader's epoch may be untold (`moved-untold`), the log cut before the place
(`truncated`) or `trimmed`, the old leader gone (`leader-gone`), ListOffsets refused at first (`reset-late`), the
topic unknown (`topic-unknown`, `group-topic-unknown`), and several nodes at `one-address`. Or the topic has a name that
is long, or that means something to JavaScript (`called-…`), and so has a group, a producer or a transaction. Or the
broker wants to be told of the client's metrics (KIP-714): of all (`measured`), `measured-by-prefix`, in a codec
(`measured-compressed`), of one that no client has (`measured-unmatched`), or of none (`measured-unwanted`); it refuses
them, as it wants others by now (`measured-anew`) or has no use for them (`measured-refused`), or refuses to say what it
wants (`measured-unasked`).

As a member of a `group` that has committed nothing, also where everything is offered (`group-newest`), it is first told
to join again (`rebalance`), as it is not known any more (`evicted`), or that its coordinator is not ready (`loading`);
another member assigns to it (`following`), in a `newer` version or nothing at first (`idle`), or it leads another one
(`company`), which may want another topic (`company-apart`), also where it had the client's before (`company-claims`),
or say nothing or what nobody can read (`company-silent`, `company-garbled`). What it has committed is `unstable`,
`offsets-loading` or `offsets-refused` at first, or what it commits is refused (`commit-loading`). While it has nothing
to read, its heartbeats are told that its generation is over (`generation-lost`), or that another node coordinates
(`coordinator-moved`), which is so (`coordinator-elsewhere`), or the node is gone (`coordinator-gone`). Or it begins
where something is `committed`.

Or the answers come in `pieces`; the least is offered (`bare`), or everything, with tagged fields in the answers which
nobody knows (`tagged`), to a client that is newer than the broker (`older`), `without-ids` of topics or with
`zero-ids`, in a fetch `session`, which may be lost, or with sessions declined (`session-declined`).

Or it writes batches, as an idempotent producer where it can be one, the first refused once because the leader has moved
(`produce`) or a `disk` fails, or taken and its `answer-lost`; the same so that none waits for the one before
(`together`), or the first one is `timed-out`; or in a transaction (`transact`), which the broker is at first too `busy`
or `not-ready` for, or which it is slow in `ending`. Or one record alone, which is `refused` for good, or whose
transaction cannot be committed, as its producer was `fenced`, nor partitions added to it (`no-transaction`), nor begun,
as it has `no-right` to its transactional id. Or the first write is refused as another node leads (`produce-moved`), or
the leader is gone (`produce-gone`), and so the coordinator (`transaction-elsewhere`, `transaction-gone`). Or everything
is offered to it (`produce-newest`, `transact-newest`), or the topic is made anew with the first write
(`produce-recreated`). Or the broker knows no batches: it takes messages, in a codec or none (`messages-…`).

Or it writes several `transactions`, one of them aborted, to a broker that may tell of the newer kind
(`transactions-told`), or refuse one batch for good (`transaction-given-up`, and `produce-given-up` where there is no
transaction). Or it writes one without any record (`transact-nothing`), or one for which each first answer is lost
(`transaction-cut`). Or what it wrote is refused as a `repetition`.
"""

CHECKS = (
    *("framed", "well-formed", "offered", "distinct", "isolated", "onward", "goes-on", "waits", "in-session"),
    *("follows", "commits", "shares", "again", "repeated", "in-sequence", "in-order", "ended", "ended-again"),
    *(
        "tells",
        "keeps",
        "keeps-behind",
        "resumes",
        "goes-back",
        "writes-on",
        "writes",
        "measures",
        "in-messages",
        "commits-again",
    ),
    *("by-feature", "in-turn", "behind-refused", "unbegun", "shares-apart"),
)
"""What requests are judged on: their size; every byte by the definition; the version by those that the broker offers;
the correlation id by those still unanswered; of a Fetch, and of what a ListOffsets or OffsetFetch asks for, the
isolation level that the client was told; that a Fetch goes on behind the first offset, `onward` past tagged fields,
`in-session` in a fetch session, whose fetches are numbered, that a client which names its rack `follows` to another
replica, that it `waits` for records that the first fetches do not bring, `keeps` its place where another node leads, or
`keeps-behind` a marker,
`goes-back` where the log was cut, `resumes` where it begins, and `goes-on` past anything else; that a member of a group
`commits` the offset behind what it has, `commits-again` where that was refused, and `shares` the partitions among all
members where it leads, `shares-apart` by what each of them wants; of batches that the second one comes where another
node leads (`writes-on`), or that all records come at all (`writes`), as messages (`in-messages`), that what was refused
comes `again`, and as it was, that their sequences follow one another, and that in the end all of them are there, in
order; that a transaction has `ended`, and `ended-again` where that was refused, in versions that go `by-feature`, that
several come whole and `in-turn`, also `behind-refused` ones, and that one which is `unbegun` is not ended; and that it
`tells` the application what is refused for good, and `measures` what the broker wants to be told."""

EMPTY_FETCHES = 2
"""Fetches that bring nothing before one that brings the records, where a client has to wait for them."""

LATEST = -1
"""The timestamp with which ListOffsets asks for the last offset."""

CONSUMED_OFFSET = 1
"""The offset that a client has come to when another node comes to lead, which says whether the place is valid."""

OFFSET_AFTER_MARKER = 2
"""The same, behind a marker that was written in a newer epoch than the record before it."""

TRIMMED_LOG_OFFSETS = range(10, 12)
"""The offsets of what is left of a log, where the client had come to PLACE when what stood before went."""

CLIENT_INSTANCE_ID, SUBSCRIPTION_ID = bytes(range(1, 17)), 7
"""The id that a client is given which asks what is wanted of its metrics, and that of what is wanted."""
REQUESTED_METRIC = "org.apache.kafka.consumer.connection.creation.total"
"""A metric that is wanted of it: one of those that KIP-714 gives to every consumer."""

SHARED_GENERATIONS = 2
"""Generations of a group in which a client leads another member: in the first it may not know the partitions yet."""

OTHER_MEMBER_ID = "another-member"
"""The id of a member of a group that the client is told of."""

OTHER_TOPIC_SUFFIX = "-other"
"""What stands behind the name of a group, which is that of the client's topic, in the name of another topic."""

REJECTED_COMMITS = 2
"""Times that a commit is refused at first."""

TRANSACTIONAL = (
    *("transact", "transact-newest", "busy", "not-ready", "ending", "transaction-elsewhere", "transaction-gone"),
    *("transactions", "transactions-told", "transaction-given-up", "transact-nothing", "transaction-cut"),
    *("fenced", "no-transaction", "no-right", "transaction-called-249"),
)
"""The conversations in which a client writes in a transaction."""

SEVERAL = ("transactions", "transactions-told", "transaction-given-up")
"""Those in which each batch is a transaction of its own."""
TRANSACTION_RESULTS = ("commit", "abort", "commit")
"""How these end."""

GIVEN_UP = ("transaction-given-up", "produce-given-up")
"""Those in which a batch is refused for good, and given up."""
FATAL_ERROR_BATCH = 1
"""The place of that among the batches."""

EMPTY = ("transact-nothing",)
"""Those in which a transaction has no record."""

PRODUCING = (
    *("produce", "disk", "produce-moved", "produce-gone", "answer-lost", "together", "timed-out", "refused"),
    *("produce-newest", "produce-recreated", "produce-given-up", "repetition"),
    *("produce-called-249", "produce-called-proto"),
    *(f"messages-{codec}" for codec in MESSAGES_IN),
    *TRANSACTIONAL,
)
"""Those in which it writes at all."""

MAX_VERSION_WITHOUT_TV2 = {"Produce": 11, "AddPartitionsToTxn": 3, "EndTxn": 4}
"""The highest version of a request in a transaction where a broker tells of no feature transaction.version."""

IN_VAIN = ("refused", "fenced", "no-transaction", "no-right")
"""Those in which it writes one record, which is refused."""

AT_ONCE = ("together", "timed-out")
"""Those in which no batch waits for the one before."""

WHOLE = (
    *("waits", "keeps", "keeps-behind", "goes-back", "writes-on", "writes", "measures", "in-messages"),
    *("commits", "commits-again", "shares", "shares-apart", "in-order"),
    *("ended", "ended-again", "by-feature", "in-turn", "behind-refused", "unbegun"),
)
"""The checks for which an answer holds all requests of a conversation."""

ONWARD = ("onward", "goes-on", "waits", "keeps", "keeps-behind", "resumes", "goes-back", "in-session", "follows")
"""The checks that the last fetches tell of."""

IN_THE_END = ("writes-on", "writes", "ended", "ended-again", "commits-again")
"""Those that tell whether what a client writes, or commits, gets there."""


_LAPSES = {
    **dict.fromkeys(ONWARD, ("a fetch goes on behind the first offset", "the client does not go on")),
    "resumes": ("a fetch goes on where the log begins", "the client does not go on"),
    "goes-back": ("a fetch goes back to where the log was cut", "the client does not go back"),
    "writes-on": ("the batch behind the first one is written, too", "a batch does not come to the other node"),
    "writes": ("all records are written", "a record is not written"),
    "measures": ("the metric that is wanted is pushed", "a metric that is wanted is not pushed"),
    "in-messages": ("all records come as messages", "messages are not written as they should be"),
    "again": ("what was refused for the moment comes again", "a batch is given up"),
    "commits": ("the offset behind what was handed out is committed", "another offset is committed"),
    "commits-again": ("a commit that was refused comes again", "a commit is given up"),
    "shares": ("each partition is assigned to one member", "a partition is not shared out"),
    "shares-apart": ("each member is assigned the topic that it wants", "a member is not assigned what it wants"),
    "in-order": ("each batch comes, and no other has its sequence", "a batch is lost"),
    "ended-again": ("the end of the transaction is asked for again", "a transaction does not come to its end"),
    "tells": ("the application is told of the error", "a refusal is not told"),
    **dict.fromkeys(
        ("keeps", "keeps-behind"),
        ("a fetch goes on where it was when the leader moved", "the client does not keep its place"),
    ),
    "ended": ("the transaction is written and committed", "a transaction does not come to its end"),
}
"""What is due by a check that looks at more than one request, and what is said of a client that does not stand it."""


def check_expectation(check: str) -> str:
    """What is due by a check that looks at more than one request; empty for another check."""
    return _LAPSES[check][0] if check in _LAPSES else ""


def check_failure(check: str) -> str:
    """What is said of a client that does not stand a check."""
    return _LAPSES[check][1] if check in _LAPSES else f"a request is not {check}"
