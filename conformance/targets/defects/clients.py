"""Defects of clients: what they send, and do not send, while a broker leads the conversation."""

from __future__ import annotations

import gzip
from collections.abc import Callable, Sequence

from conformance import codec
from conformance.cases.conversations import ANOTHER, BEGINS, LATEST, OF_CLIENTS, PLACE
from conformance.codec.compression import CODEC_NAMES
from conformance.codec.derivations import Values
from conformance.codec.legacy_message import LAYOUTS, sealed_message
from conformance.codec.message_set import encode_set
from conformance.targets.defects.bending_requests import (
    Rows,
    batches,
    bodies,
    each,
    fetches_at,
    in_version,
    partitions,
    sent,
    with_number,
    written,
)
from conformance.targets.defects.model import SeededDefect
from conformance.targets.lies import Lie


def _sessions(rows: Rows) -> Rows:
    """Open a session with each of three fetches."""
    return [written(row, lambda _: {"SessionId": 0, "SessionEpoch": 0}) for row in rows for _ in range(3)]


def _assigned(change: Callable[[Sequence[Values]], Sequence[Values]]) -> Callable[[Rows], Rows]:
    """Assign otherwise."""
    return bodies("SyncGroup", lambda _, body: {"Assignments": tuple(change(body["Assignments"]))})


def _to_all(rows: Sequence[Values]) -> Sequence[Values]:
    return [*rows, {**rows[0], "MemberId": ANOTHER}]


def _own_topics(rows: Sequence[Values]) -> Sequence[Values]:
    """What the leader wants, for the member that comes first."""
    return [{**rows[0], "Assignment": b""}, {**rows[1], "Assignment": rows[0]["Assignment"]}]


def _with_retention(_: int, __: Values) -> Values:
    return {"RetentionTimeMs": 0, "Topics": ({"Name": "t", "Partitions": ({"CommittedOffset": 1},)},)}


def _counted_from_one(_: int, data: bytes) -> bytes:
    """A set of messages as a wrapper of gzip in which the inner offsets begin at 1."""
    inner = [{**one, "offset": 1 + at} for at, one in enumerate(codec.decode("MESSAGE_SET", data).value)]
    payload = gzip.compress(encode_set(inner, 1, 0), mtime=0)
    plain = encode_set([{**inner[-1], "key": None, "value": payload}], 1, 0)
    at = LAYOUTS[1].offset("attributes")
    return sealed_message(plain[:at] + bytes([CODEC_NAMES.index("gzip")]) + plain[at + 1 :])


def _of_version_1(_: int, __: Values) -> Values:
    asked = {"PartitionIndex": 0, "Timestamp": LATEST}
    return {"IsolationLevel": 0, "Topics": ({"Name": "t", "Partitions": (asked,)},)}


def _cut(array: str, name: str) -> Callable[[int, Values], Values]:
    """The last byte of a field is left out, of each element of an array."""
    return lambda _, body: {array: tuple({**one, name: one[name][:-1]} for one in body[array])}


def _padded(rows: Rows) -> Rows:
    """The count of the last tags has a byte more than it needs."""
    return [{**row, "hex": _longer(bytes.fromhex(row["hex"])).hex()} for row in rows]


def _longer(data: bytes) -> bytes:
    return (len(data) - 3).to_bytes(4, "big") + data[4:-1] + b"\x80\0"


_THREADS = "https://github.com"


def _client(name: str, source: str, says: str, bend: Lie, first: str = "") -> SeededDefect:
    return SeededDefect(f"client/{name}", "requests", says, source, bend, (first or source,))


CLIENTS = (
    _client(
        "tags-in-response-headers",
        "tagged.unknown-skipped",
        "a client takes the header of a flexible response for one without tags, and comes to no record",
        sent(each("Fetch", lambda _: []), "onward"),
    ),
    _client(
        "passes-over-null",
        "response.nothing-to-fetch",
        "a client goes on behind a fetch that brought null",
        sent(each("Fetch", lambda rows: rows[-2:]), "waits"),
    ),
    _client(
        "skips-what-was-refused",
        "response.place-valid",
        "a client goes on behind the record whose fetch was refused when the leader moved",
        sent(fetches_at(PLACE + 1, PLACE), "keeps"),
    ),
    _client(
        "begins-at-the-end",
        "response.place-valid",
        "a client begins at the end of the log when the leader moved",
        sent(fetches_at(PLACE + 2, PLACE, PLACE), "keeps"),
    ),
    _client(
        "begins-anew-in-a-trimmed-log",
        "response.offset-out-of-range",
        "a client goes on in front of where the log begins",
        sent(fetches_at(BEGINS - 1), "resumes"),
    ),
    _client(
        "cut-passed-over",
        "response.place-cut",
        "a client asks where an epoch ends, and goes on as if the log had not been cut there",
        sent(fetches_at(PLACE + 1, PLACE, 0), "goes-back"),
    ),
    _client(
        "opens-a-session-with-each-fetch",
        "fetch.session",
        "a client opens a session with each fetch, and is in none",
        sent(each("Fetch", _sessions), "in-session"),
    ),
    _client(
        "commits-beyond-what-is-there",
        "group.commits-next-offset",
        "a member commits an offset behind the end of the log",
        sent(bodies("OffsetCommit", partitions(lambda _: {"CommittedOffset": 3})), "commits"),
    ),
    _client(
        "commits-the-epoch-of-its-first-place",
        f"{_THREADS}/IBM/sarama/issues/3418",
        "a member commits the epoch that it was told of its first place, whatever batch it has read",
        sent(bodies("OffsetCommit", partitions(lambda _: {"CommittedLeaderEpoch": 5})), "commits"),
        "group.commits-next-offset",
    ),
    _client(
        "commits-for-no-time",
        "group.commits-next-offset",
        "a member commits in an older version, where it says that the offset is to be kept for 0 ms",
        sent(bodies("OffsetCommit", _with_retention, 3), "commits"),
    ),
    _client(
        "gives-up-a-commit",
        "response.error-for-the-moment",
        "a member commits once more at most, where a commit is refused for the moment",
        sent(each("OffsetCommit", lambda rows: rows[:2]), "commits-again"),
    ),
    _client(
        "assigns-to-all",
        "group.leader-shares",
        "a leader assigns the only partition to each member",
        sent(_assigned(_to_all), "shares"),
    ),
    _client(
        "assigns-nothing",
        f"{_THREADS}/segmentio/kafka-go/issues/1196",
        "a leader that cannot read what another member says joins again and again, and assigns nothing",
        sent(_assigned(lambda _: ()), "shares", "shares-apart"),
        "group.leader-shares",
    ),
    _client(
        "assigns-its-own-topics",
        f"{_THREADS}/tulios/kafkajs/issues/1679",
        "a leader shares out its own topics alone, also to members that do not want them",
        sent(_assigned(_own_topics), "shares-apart"),
        "group.leader-by-subscription",
    ),
    _client(
        "cuts-its-subscription",
        "definitions.write-by-version",
        "a member leaves out the last byte of what it says of itself to the others",
        sent(bodies("JoinGroup", _cut("Protocols", "Metadata")), "well-formed"),
    ),
    _client(
        "cuts-assignments",
        "definitions.write-by-version",
        "a leader leaves out the last byte of each assignment",
        sent(bodies("SyncGroup", _cut("Assignments", "Assignment")), "well-formed"),
    ),
    _client(
        "pads-the-count-of-tags",
        "uvarint.non-minimal",
        "a client writes the count of tags in two bytes, the second of which is 0",
        sent(each("Heartbeat", _padded), "well-formed"),
        "definitions.write-by-version",
    ),
    _client(
        "asks-for-the-end-in-an-old-version",
        "list-offsets.isolation-level",
        "a client asks for the last offset in a version that has no isolation level, where newer ones are offered",
        sent(bodies("ListOffsets", _of_version_1, 1), "isolated"),
    ),
    _client(
        "pushes-in-another-codec",
        "telemetry.wanted-metrics",
        "a client pushes metrics that are not compressed, and says that they are",
        sent(bodies("PushTelemetry", lambda _, __: {"CompressionType": 1}), "measures"),
    ),
    _client(
        "pushes-in-no-codec",
        "telemetry.wanted-metrics",
        "a client pushes metrics in a codec that there is not",
        sent(bodies("PushTelemetry", lambda _, __: {"CompressionType": 9}), "measures"),
    ),
    _client(
        "gives-up-what-was-refused",
        "response.error-for-the-moment",
        "a producer does not write again what was refused for the moment",
        sent(each("Produce", lambda rows: rows[:1]), "again", "writes-on", "ended-again"),
    ),
    _client(
        "loses-the-last-batch",
        "request.any-name",
        "a producer does not write the last batch",
        sent(each("Produce", lambda rows: rows[:-1]), "writes"),
    ),
    _client(
        "writes-of-epoch-zero",
        "base-sequence.assigned-by-producer",
        "an idempotent producer writes in epoch 0, whichever the broker gave it",
        sent(batches(with_number("producerEpoch", lambda _, __: 0)), "in-sequence"),
    ),
    _client(
        "counts-batches",
        "base-sequence.assigned-by-producer",
        "an idempotent producer counts its batches instead of the records in them",
        sent(batches(with_number("baseSequence", lambda at, _: max(0, at - 1))), "in-sequence"),
    ),
    _client(
        "goes-on-without-what-was-refused",
        "producer.one-sequence-one-batch",
        "a producer sends on, and never again what was refused",
        sent(each("Produce", lambda rows: [rows[0], *rows[2:]]), "in-order"),
    ),
    _client(
        "commits-what-is-aborted",
        "producer.transaction-whole",
        "a producer commits the transactions that the application aborts",
        sent(bodies("EndTxn", lambda _, __: {"Committed": True}), "in-turn"),
    ),
    _client(
        "leaves-a-gap-between-transactions",
        "producer.transaction-whole",
        "a producer counts a record more at the end of each transaction",
        sent(batches(with_number("baseSequence", lambda at, first: first + at)), "in-turn"),
    ),
    _client(
        "begins-each-transaction-at-zero",
        "producer.transaction-whole",
        "a producer begins each transaction at sequence 0, in the same epoch",
        sent(batches(with_number("baseSequence", lambda _, __: 0)), "in-turn"),
    ),
    _client(
        "goes-on-in-the-epoch-before",
        "producer.transaction-whole",
        "a producer writes its next transaction in the epoch in front of the one that the answer to EndTxn told",
        sent(batches(with_number("producerEpoch", lambda at, epoch: epoch - min(at, 1))), "in-turn"),
    ),
    _client(
        "does-not-end-again",
        "response.error-for-the-moment",
        "a producer does not ask for the end of a transaction again that the broker puts off",
        sent(each("EndTxn", lambda rows: rows[:1]), "ended-again"),
    ),
    _client(
        "ends-without-its-batches",
        "response.error-for-the-moment",
        "a producer drops what it has to write in a transaction that the broker is too busy for",
        sent(each("Produce", lambda _: []), "ended"),
    ),
    _client(
        "adds-partitions-as-brokers-do",
        f"{_THREADS}/twmb/franz-go/issues/609",
        "a producer adds partitions to its transaction in the highest version that is offered, which is for brokers",
        sent(in_version("AddPartitionsToTxn", OF_CLIENTS["AddPartitionsToTxn"] + 1), "by-feature"),
        "producer.transaction-by-feature",
    ),
    _client(
        "produces-for-a-newer-kind-of-transaction",
        "producer.transaction-by-feature",
        "a producer writes in the version of Produce that adds partitions by itself, to a broker that tells of none",
        sent(in_version("Produce", OF_CLIENTS["Produce"] + 1), "by-feature"),
    ),
    _client(
        "inner-offsets-from-one",
        "producer.messages-to-older-broker",
        "a producer counts the messages in a wrapper from 1",
        sent(batches(_counted_from_one), "in-messages"),
        "legacy.compressed-inner-offsets-from-zero",
    ),
    _client(
        "cuts-the-last-message",
        "producer.messages-to-older-broker",
        "a producer leaves out the last byte of a set of messages",
        sent(batches(lambda _, data: data[:-1]), "in-messages"),
    ),
    _client(
        "writes-a-message-less",
        "producer.messages-to-older-broker",
        "a producer of messages loses the last one",
        sent(batches(lambda _, data: encode_set(codec.decode("MESSAGE_SET", data).value[:-1], 1, 0)), "in-messages"),
    ),
)
"""Defects of clients that the scripted broker serves."""
