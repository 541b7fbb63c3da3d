"""What a client sends while a broker leads the conversation: what is asked of it, and what the reference sends."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator, Mapping
from functools import lru_cache
from itertools import accumulate, repeat

from conformance import codec
from conformance.cases.model import Answer, Question, Request, Sends, Value
from conformance.codec.derivations import ByteLength
from conformance.codec.message_definition import Message, header_version, type_name
from conformance.codec.message_set import encode_set
from conformance.codec.notation import HEX, NUMBER, Fields, ListOf
from conformance.codec.primitives import INT32
from conformance.codec.structure import Field, Layout, wire_of
from conformance.definitions.shipped import shipped_types
from conformance.semantics.visibility import ISOLATIONS

MESSAGES_IN = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3}
"""The codecs of messages of magic 1, by their names."""

CONVERSATIONS = (
    *("consume", "reset", "reset-late", "trimmed", "unavailable", "unknown-error", "null", "throttled", "undecided"),
    *("no-brokers", "no-leader", "topic-erred", "misframed", "replica", "replica-behind", "replica-unlisted"),
    *("topic-unknown", "group-topic-unknown", "one-address", "moved-untold", "leader-gone", "truncated"),
    *("coordinator-elsewhere", "coordinator-gone", "called-127", "called-249", "called-shift", "called-constructor"),
    *("called-proto", "group-called-249", "produce-called-249", "produce-called-proto", "transaction-called-249"),
    *("measured", "measured-by-prefix", "measured-compressed", "measured-unmatched", "measured-unwanted"),
    *("measured-anew", "measured-refused", "measured-unasked"),
    *(f"messages-{codec}" for codec in MESSAGES_IN),
    *("moved", "moved-unnoticed", "recreated", "generation-lost", "coordinator-moved"),
    *("validated", "validated-late", "validation-refused", "raised", "hung-up", "restarted", "group-restarted"),
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
first answers to Metadata have no broker, or no leader, or later an error (`topic-erred`), or the first one to Fetch
has a size that is none (`misframed`), or the connection ends in place of it (`hung-up`), or all of them, and none is
taken for a moment (`restarted`, and `group-restarted` for a member of a group). With the first fetch another node
leads: in the next epoch (`moved`), in the same (`moved-unnoticed`), or of another topic with the same name
(`recreated`); or from the second record on, where a broker says with OffsetForLeaderEpoch that the place is
`validated`, after errors that pass (`validated-late`) or another one (`validation-refused`). Or the same node leads
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
    *("tells", "keeps", "resumes", "goes-back", "writes-on", "writes", "measures", "in-messages", "commits-again"),
    *("by-feature", "in-turn", "behind-refused", "unbegun", "shares-apart"),
)
"""What requests are judged on: their size; every byte by the definition; the version by those that the broker offers;
the correlation id by those still unanswered; of a Fetch, and of what a ListOffsets or OffsetFetch asks for, the
isolation level that the client was told; that a Fetch goes on behind the first offset, `onward` past tagged fields,
`in-session` in a fetch session, whose fetches are numbered, that a client which names its rack `follows` to another
replica, that it `waits` for records that the first fetches do not bring, `keeps` its place where another node leads,
`goes-back` where the log was cut, `resumes` where it begins, and `goes-on` past anything else; that a member of a group
`commits` the offset behind what it has, `commits-again` where that was refused, and `shares` the partitions among all
members where it leads, `shares-apart` by what each of them wants; of batches that the second one comes where another
node leads (`writes-on`), or that all records come at all (`writes`), as messages (`in-messages`), that what was refused
comes `again`, and as it was, that their sequences follow one another, and that in the end all of them are there, in
order; that a transaction has `ended`, and `ended-again` where that was refused, in versions that go `by-feature`, that
several come whole and `in-turn`, also `behind-refused` ones, and that one which is `unbegun` is not ended; and that it
`tells` the application what is refused for good, and `measures` what the broker wants to be told."""

HOLLOW = 2
"""Fetches that bring nothing before one that brings the records, where a client has to wait for them."""

LATEST = -1
"""The timestamp with which ListOffsets asks for the last offset."""

PLACE = 1
"""The offset that a client has come to when another node comes to lead, which says whether the place is valid."""

BEGINS = 10
"""The offset at which a log begins of which the client had come to PLACE when its first records went."""

INSTANCE, SUBSCRIPTION = bytes(range(1, 17)), 7
"""The id that a client is given which asks what is wanted of its metrics, and that of what is wanted."""
METRIC = "org.apache.kafka.consumer.connection.creation.total"
"""A metric that is wanted of it: one of those that KIP-714 gives to every consumer."""

GATHERED = 2
"""Generations of a group in which a client leads another member: in the first it may not know the partitions yet."""

ANOTHER = "another-member"
"""The id of a member of a group that the client is told of."""

OTHER_TOPIC = "-other"
"""What stands behind the name of a group, which is that of the client's topic, in the name of another topic."""

COMMITS_REFUSED = 2
"""Times that a commit is refused at first."""

TRANSACTIONAL = (
    *("transact", "transact-newest", "busy", "not-ready", "ending", "transaction-elsewhere", "transaction-gone"),
    *("transactions", "transactions-told", "transaction-given-up", "transact-nothing", "transaction-cut"),
    *("fenced", "no-transaction", "no-right", "transaction-called-249"),
)
"""The conversations in which a client writes in a transaction."""

SEVERAL = ("transactions", "transactions-told", "transaction-given-up")
"""Those in which each batch is a transaction of its own."""
ENDS = ("commit", "abort", "commit")
"""How these end."""

GIVEN_UP = ("transaction-given-up", "produce-given-up")
"""Those in which a batch is refused for good, and given up."""
REFUSED = 1
"""The place of that among the batches."""

PRODUCING = (
    *("produce", "disk", "produce-moved", "produce-gone", "answer-lost", "together", "timed-out", "refused"),
    *("produce-newest", "produce-recreated", "produce-given-up", "repetition"),
    *("produce-called-249", "produce-called-proto"),
    *(f"messages-{codec}" for codec in MESSAGES_IN),
    *TRANSACTIONAL,
)
"""Those in which it writes at all."""

OF_CLIENTS = {"Produce": 11, "AddPartitionsToTxn": 3, "EndTxn": 4}
"""The highest version of a request in a transaction where a broker tells of no feature transaction.version."""

IN_VAIN = ("refused", "fenced", "no-transaction", "no-right")
"""Those in which it writes one record, which is refused."""

AT_ONCE = ("together", "timed-out")
"""Those in which no batch waits for the one before."""

WHOLE = (
    *("waits", "keeps", "goes-back", "writes-on", "writes", "measures", "in-messages"),
    *("commits", "commits-again", "shares", "shares-apart", "in-order"),
    *("ended", "ended-again", "by-feature", "in-turn", "behind-refused", "unbegun"),
)
"""The checks for which an answer holds all requests of a conversation."""

ONWARD = ("onward", "goes-on", "waits", "keeps", "resumes", "goes-back", "in-session", "follows")
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
    "keeps": ("a fetch goes on where it was when the leader moved", "the client does not keep its place"),
    "ended": ("the transaction is written and committed", "a transaction does not come to its end"),
}
"""What is due by a check that looks at more than one request, and what is said of a client that does not stand it."""


def due(check: str) -> str:
    """What is due by a check that looks at more than one request; empty for another check."""
    return _LAPSES[check][0] if check in _LAPSES else ""


def lapse(check: str) -> str:
    """What is said of a client that does not stand a check."""
    return _LAPSES[check][1] if check in _LAPSES else f"a request is not {check}"


SENT = ListOf(Fields({"hex": HEX, "inFlight": ListOf(NUMBER), "offered": ListOf(NUMBER)}), nullable=False)
"""The requests that a client sent: the bytes with their size; the correlation ids that its connection still has to be
answered; and the lowest and highest version that the broker offers, or null where it does not offer the request."""

START = struct.Struct(">ihhi")
"""How every request begins: size, API key, version, correlation id."""

_OWN_FIELDS = START.size - 4
"""Bytes of a request at least, without those of its size."""


# --- frames -------------------------------------------------------------------------------------------


def api_of(data: bytes) -> str:
    """The name of the request that a frame says it is; empty for one that the suite has no definition of."""
    return names().get(START.unpack_from(data)[1], "") if len(data) >= START.size else ""


def frame_wire(data: bytes) -> codec.Wire | None:
    """What a frame is by its API key and version; None where the suite has no definition of that."""
    name = api_of(data)
    version = START.unpack_from(data)[2] if name else 0
    return _frame_wire(name, version) if name and version in _message(name).valid else None


@lru_cache(maxsize=512)
def _frame_wire(name: str, version: int) -> codec.Wire:
    types, message = shipped_types(), f"{name}Request"
    header = types.wire(type_name("RequestHeader", header_version(_message(name), version)))
    size = Field("Size", INT32, "request.size", ByteLength("request.size", _OWN_FIELDS))
    body = types.wire(type_name(message, version))
    rule = "definitions.write-by-version"
    return wire_of(Layout(message, (size, Field("Header", header, rule), Field("Body", body, rule))))


@lru_cache(maxsize=1)
def names() -> dict[int, str]:
    """The requests that have a definition, by API key."""
    requests = (message for message in shipped_types().messages.values() if message.kind == "request")
    return {one.api_key: one.name.removesuffix("Request") for one in requests if one.api_key is not None}


def _message(name: str) -> Message:
    return shipped_types().messages[f"{name}Request"]


def frame_at(answer: Answer, path: str) -> bytes:
    """The bytes of the request that the path of a verdict names."""
    index = int(path[1:].partition("]")[0])
    return bytes.fromhex(answer["value"][index]["hex"])


# --- what is asked ------------------------------------------------------------------------------------

PRODUCER = (4711, 3)
"""The producer id and epoch that the broker gives."""
COUNTS = (2, 1, 3)
"""Records of the batches that a client is told to write one after the other."""
TOGETHER = 5
"""Batches that are written together, of a record each."""
_LONG = 600
"""Bytes of the value of such a record: two of them are more than a batch may have."""


def written_for(conversation: str, *, idempotent: bool = True) -> tuple[Value, ...]:
    """The batches that a client is told to write in a conversation, each with the sequence that is due."""
    codec = conversation.removeprefix("messages-")
    if codec != conversation:
        records = tuple({**_record(at), "key": b"%d" % at, "value": b"v" * _LONG} for at in range(COUNTS[-1]))
        (first, *_) = _written(transactional=False, idempotent=False)
        return ({**first, "compression": MESSAGES_IN[codec], "records": records},)
    batches = _written(transactional=conversation in TRANSACTIONAL, idempotent=idempotent)
    if conversation in IN_VAIN:
        # One record: an error that comes between two would be raised, or not, by who is quicker.
        return ({**batches[0], "records": batches[0]["records"][:1]},)
    if conversation == "transact-nothing":
        return ({**batches[0], "records": ()},)
    if conversation in GIVEN_UP:
        refused, behind = batches[REFUSED : REFUSED + 2]
        return (*batches[:REFUSED], refused, {**behind, "baseSequence": refused["baseSequence"]})
    if conversation not in AT_ONCE:
        return batches
    values = [b"%0*d" % (_LONG, number) for number in range(TOGETHER)]
    return tuple(
        {**batches[0], "baseSequence": number, "records": ({**_record(0), "value": value},)}
        for number, value in enumerate(values)
    )


def _written(*, transactional: bool, idempotent: bool) -> tuple[Value, ...]:
    producer, epoch = PRODUCER if idempotent else (-1, -1)
    shared = {
        **{"baseOffset": 0, "partitionLeaderEpoch": -1, "compression": 0, "timestampType": 0, "isControlBatch": False},
        **{"isTransactional": transactional, "producerId": producer, "producerEpoch": epoch},
    }
    starts = accumulate(COUNTS, initial=0) if idempotent else repeat(-1)
    return tuple(
        {**shared, "baseSequence": start, "records": tuple(map(_record, range(count)))}
        for start, count in zip(starts, COUNTS, strict=False)
    )


def _record(offset: int) -> Value:
    return {"offset": offset, "timestamp": 1_700_000_000_000 + offset, "key": b"k", "value": b"v", "headers": ()}


def send_question(parts: Request) -> Question:
    """The question of a `send` request, its parts parsed."""
    return Question(parts, Sends(parts["check"], parts["isolation"], parts.get("of", "")))


def sent(_: codec.Wire, parts: Request) -> Answer:
    """A request of every kind that the suite has a definition of, or of the one that is asked for; or an error."""
    if parts["check"] == "tells":
        return {"ok": False, "error": "other", "message": "it was refused"}
    highest = OF_CLIENTS if parts["conversation"] in TRANSACTIONAL else {}
    rows = [_sent(name, body, highest) for name, body in _wanted(parts)]
    return {"ok": True, "value": SENT.render(rows)}


def _wanted(parts: Request) -> Iterator[tuple[str, Value]]:
    """The requests that are sent, by their names, and their bodies."""
    if parts["check"] == "in-turn":
        for body, end in zip(_bodies("Produce", parts), ENDS, strict=True):
            yield from (("AddPartitionsToTxn", {}), ("Produce", body), ("EndTxn", {"Committed": end == "commit"}))
        return
    for name in names().values():
        if parts.get("of", name) == name and (parts["check"], name) != ("unbegun", "EndTxn"):
            yield from ((name, body) for body in _bodies(name, parts))


def _bodies(name: str, parts: Request) -> list[Value]:
    """The bodies of the requests of a kind: of a producer, the first batch once more."""
    if name == "Fetch":
        onward = _fetch_of(1) if parts["check"] in ONWARD else {}
        if parts["check"] == "in-session":  # of a session that it opened
            onward |= {"SessionId": 1, "SessionEpoch": 1}
        if parts["check"] == "follows":
            onward |= {"RackId": "rack"}
        if parts["check"] in _OFFSETS:
            return [_fetch_of(offset) for offset in _OFFSETS[parts["check"]]]
        before: list[Value] = [{}] * (HOLLOW + 1) if parts["check"] == "waits" else []
        return [*before, {"IsolationLevel": ISOLATIONS.index(parts["isolation"]), **onward}]
    if name == "ListOffsets" and parts["check"] == "isolated":
        level = {"ReplicaId": -1, "IsolationLevel": ISOLATIONS.index(parts["isolation"])}
        return [{**level, "Topics": ({"Partitions": ({"Timestamp": LATEST},)},)}]
    if name == "OffsetFetch" and parts["check"] == "isolated":
        return [{"RequireStable": parts["isolation"] == ISOLATIONS[-1]}]
    if (name, parts["check"]) in _STANDS:
        return _STANDS[name, parts["check"]]
    if name != "Produce" or parts["conversation"] not in PRODUCING:
        return [{}]
    return [{"TopicData": ({"PartitionData": ({"Records": data},)},)} for data in _sets(parts)]


def _sets(parts: Request) -> list[bytes]:
    """What Produce brings, one after the other."""
    batches = [batch for batch in written_for(parts["conversation"]) if batch["records"]]
    if parts["check"] == "in-messages":
        return [encode_set(batch["records"], 1, batch["compression"]) for batch in batches]
    sets = [codec.encode("RECORD_BATCH", batch) for batch in batches]
    return sets if parts["conversation"] in (*TRANSACTIONAL, *GIVEN_UP) else [sets[0], *sets]


_OFFSETS = {"keeps": (PLACE + 1, PLACE, PLACE), "goes-back": (0, PLACE, 0), "resumes": (BEGINS,)}
"""By a check, the offsets of the fetches that stand it: the last one comes first."""


def _fetch_of(offset: int) -> Value:
    return {"Topics": ({"Partitions": ({"FetchOffset": offset},)},)}


_ASSIGNED = bytes.fromhex("0000 00000001 0001 74 00000001 00000000 00000004 ffffffff")
"""Partition 0 of a topic, for a member of a group, and user data."""

_STANDS: Mapping[tuple[str, str], list[Value]] = {
    ("OffsetCommit", "commits"): [{"Topics": ({"Partitions": ({"CommittedOffset": 1},)},)}],
    ("OffsetCommit", "commits-again"): [{}] * (COMMITS_REFUSED + 1),
    ("SyncGroup", "shares"): [{"GenerationId": 1, "Assignments": ({"Assignment": _ASSIGNED},)}],
    ("PushTelemetry", "measures"): [{"Metrics": METRIC.encode()}],
    ("SyncGroup", "shares-apart"): [
        {
            **{"GroupId": "t", "GenerationId": 1, "MemberId": "m"},
            "Assignments": (
                {"MemberId": "m", "Assignment": _ASSIGNED},
                {"MemberId": ANOTHER, "Assignment": _ASSIGNED.replace(b"\0\1t", b"\0\7t" + OTHER_TOPIC.encode())},
            ),
        }
    ],
    ("EndTxn", "ended-again"): [{}, {}],
}
"""By a request and a check, the bodies that stand it."""


def _sent(name: str, body: Value, highest: Mapping[str, int]) -> Value:
    key, version = _message(name).api_key, min(_message(name).valid.high, highest.get(name, math.inf))
    header = {"RequestApiKey": key, "RequestApiVersion": version, "CorrelationId": key, "ClientId": "reference"}
    data = _frame_wire(name, version).encode({"Header": header, "Body": body})
    return {"hex": data, "inFlight": (), "offered": (version, version)}
