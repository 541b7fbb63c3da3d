"""Defects of consumers: what they send, and do not send, while a broker leads the scenario."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from functools import partial

from conformance.cases.client_scenarios import (
    CONSUMED_OFFSET,
    LATEST,
    OFFSET_AFTER_MARKER,
    OTHER_MEMBER_ID,
    TRIMMED_LOG_OFFSETS,
)
from conformance.codec.derived_fields import Values
from conformance.selftest.mutators import Mutator
from conformance.selftest.request_mutators import (
    Rows,
    bodies,
    each,
    fetches_at,
    partitions,
    sent,
    written,
)
from conformance.selftest.seeded_fault import SeededFault


def _sessions(rows: Rows) -> Rows:
    """End a session with each of three fetches, and open another one."""
    return [
        written(row, lambda _, at=at: {"SessionId": at, "SessionEpoch": 0})  # type: ignore[misc]
        for row in rows
        for at in range(3)
    ]


def _assigned(change: Callable[[Sequence[Values]], Sequence[Values]]) -> Callable[[Rows], Rows]:
    """Assign otherwise."""
    return bodies("SyncGroup", lambda _, body: {"Assignments": tuple(change(body["Assignments"]))})


def _to_all(rows: Sequence[Values]) -> Sequence[Values]:
    return [*rows, {**rows[0], "MemberId": OTHER_MEMBER_ID}]


def _partitions(*numbers: int) -> Callable[[Sequence[Values]], Sequence[Values]]:
    """Other partitions in the place of the only one of topic `t`."""
    only, others = (b"t" + struct.pack(f">i{len(told)}i", len(told), *told) for told in ((0,), numbers))
    return lambda rows: [{**row, "Assignment": row["Assignment"].replace(only, others)} for row in rows]


def _own_topics(rows: Sequence[Values]) -> Sequence[Values]:
    """What the leader wants, for the member that comes first."""
    return [{**rows[0], "Assignment": b""}, {**rows[1], "Assignment": rows[0]["Assignment"]}]


def _and_back(rows: Rows) -> Rows:
    return [*rows, written(rows[-1], partial(partitions(lambda _: {"CommittedOffset": 0}), 0))]


def _in_two_topics(rows: Rows, version: int | None = None) -> Rows:
    """Come to the end of a topic, and not beyond the place in the next one."""

    def fetched(offset: int, topic: str) -> Values:
        of = {"Topic": topic} if version else {"TopicId": topic.encode() * 16}
        asked = {"FetchOffset": offset, "PartitionMaxBytes": 1}
        return written(rows[0], lambda _: {"Topics": ({**of, "Partitions": (asked,)},)}, version)

    return [
        *(fetched(offset, "b") for offset in (CONSUMED_OFFSET, CONSUMED_OFFSET)),
        *(fetched(offset, "a") for offset in (CONSUMED_OFFSET + 1, CONSUMED_OFFSET, CONSUMED_OFFSET)),
    ]


def _with_retention(_: int, __: Values) -> Values:
    return {"RetentionTimeMs": 0, "Topics": ({"Name": "t", "Partitions": ({"CommittedOffset": 1},)},)}


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


def client(name: str, source: str, says: str, bend: Mutator, first: str = "") -> SeededFault:
    """A row; `first` is the requirement whose cases are tried first, where that is not the source."""
    return SeededFault(f"client/{name}", "requests", says, source, bend, (first or source,))


CLIENTS = (
    client(
        "tags-in-response-headers",
        "tagged.unknown-skipped",
        "a client takes the header of a flexible response for one without tags, and comes to no record",
        sent(each("Fetch", lambda _: []), "progress-past-tags"),
    ),
    client(
        "passes-over-null",
        "response.nothing-to-fetch",
        "a client goes on behind a fetch that brought null",
        sent(each("Fetch", lambda rows: rows[-2:]), "no-skip-after-empty-fetch"),
    ),
    client(
        "takes-a-marker-for-what-was-cut",
        f"{_THREADS}/twmb/franz-go/pull/1530",
        "a client asks where the epoch of its last record ends, not that of the marker behind it, and goes back there",
        sent(fetches_at(OFFSET_AFTER_MARKER, OFFSET_AFTER_MARKER - 1, OFFSET_AFTER_MARKER), "no-rewind-after-marker"),
        "response.place-valid",
    ),
    client(
        "stays-behind-a-marker",
        "response.place-valid",
        "a client asks the new leader whether its place is valid, and asks for that place for ever",
        sent(fetches_at(OFFSET_AFTER_MARKER, OFFSET_AFTER_MARKER), "no-rewind-after-marker"),
    ),
    client(
        "skips-what-was-refused",
        "response.place-valid",
        "a client goes on behind the record whose fetch was refused when the leader moved",
        sent(fetches_at(CONSUMED_OFFSET + 1, CONSUMED_OFFSET), "same-offset-after-move"),
    ),
    client(
        "stays-in-the-second-topic",
        "response.place-valid",
        "a client gets over the first move of a leader, and not over the next one, in another topic",
        sent(each("Fetch", _in_two_topics), "same-offset-after-move"),
    ),
    client(
        "stays-in-the-second-topic-by-name",
        "response.place-valid",
        "a client that fetches in an older version gets over the first move of a leader, and not over the next one",
        sent(each("Fetch", partial(_in_two_topics, version=12)), "same-offset-after-move"),
    ),
    client(
        "begins-at-the-end",
        "response.place-valid",
        "a client begins at the end of the log when the leader moved",
        sent(fetches_at(CONSUMED_OFFSET + 2, CONSUMED_OFFSET, CONSUMED_OFFSET), "same-offset-after-move"),
    ),
    client(
        "begins-anew-in-a-trimmed-log",
        "response.offset-out-of-range",
        "a client goes on in front of where the log begins",
        sent(fetches_at(TRIMMED_LOG_OFFSETS.start - 1), "continue-at-log-start"),
    ),
    client(
        "passes-over-where-a-trimmed-log-begins",
        "response.offset-out-of-range",
        "a client goes on behind the record at which the log begins, as if it had read that",
        sent(fetches_at(TRIMMED_LOG_OFFSETS.start + 1), "continue-at-log-start"),
    ),
    client(
        "cut-passed-over",
        "response.place-cut",
        "a client asks where an epoch ends, and goes on as if the log had not been cut there",
        sent(fetches_at(CONSUMED_OFFSET + 1, CONSUMED_OFFSET, 0), "rewind-after-truncation"),
    ),
    client(
        "opens-a-session-with-each-fetch",
        "fetch.session",
        "a client ends its session with each fetch, and opens another one",
        sent(each("Fetch", _sessions), "in-session"),
    ),
    client(
        "commits-beyond-what-is-there",
        "group.commits-next-offset",
        "a member commits an offset behind the end of the log",
        sent(bodies("OffsetCommit", partitions(lambda _: {"CommittedOffset": 3})), "commits"),
    ),
    client(
        "commits-the-epoch-of-its-first-place",
        f"{_THREADS}/IBM/sarama/issues/3418",
        "a member commits the epoch that it was told of its first place, whatever batch it has read",
        sent(bodies("OffsetCommit", partitions(lambda at: {"CommittedLeaderEpoch": 0} if at else {})), "commits"),
        "group.commits-next-offset",
    ),
    client(
        "commits-back",
        "group.commits-next-offset",
        "a member commits the offset at which it began behind that which it has come to",
        sent(each("OffsetCommit", _and_back), "commits"),
    ),
    client(
        "commits-for-no-time",
        "group.commits-next-offset",
        "a member commits in an older version, where it says that the offset is to be kept for 0 ms",
        sent(bodies("OffsetCommit", _with_retention, 3), "commits"),
    ),
    client(
        "gives-up-a-commit",
        "response.error-for-the-moment",
        "a member commits once more at most, where a commit is refused for the moment",
        sent(each("OffsetCommit", lambda rows: rows[:2]), "commits-again"),
    ),
    client(
        "assigns-to-all",
        "group.leader-shares",
        "a leader assigns the only partition to each member",
        sent(_assigned(_to_all), "assignment"),
    ),
    client(
        "assigns-a-partition-that-is-not-there",
        "group.leader-shares",
        "a leader assigns partitions by their number from 1 on",
        sent(_assigned(_partitions(1)), "assignment"),
    ),
    client(
        "assigns-more-than-there-is",
        "group.leader-shares",
        "a leader assigns a partition besides that is not there",
        sent(_assigned(_partitions(0, 1)), "assignment"),
    ),
    client(
        "assigns-to-no-member",
        "group.leader-shares",
        "a leader assigns a partition to a member by the name of its client, not by its id",
        sent(_assigned(lambda rows: [{**row, "MemberId": "client"} for row in rows]), "assignment"),
    ),
    client(
        "assigns-nothing",
        f"{_THREADS}/segmentio/kafka-go/issues/1196",
        "a leader that cannot read what another member says joins again and again, and assigns nothing",
        sent(_assigned(lambda _: ()), "assignment", "assignment-by-subscription"),
        "group.leader-shares",
    ),
    client(
        "assigns-its-own-topics",
        f"{_THREADS}/tulios/kafkajs/issues/1679",
        "a leader shares out its own topics alone, also to members that do not want them",
        sent(_assigned(_own_topics), "assignment-by-subscription"),
        "group.leader-by-subscription",
    ),
    client(
        "cuts-its-subscription",
        "definitions.write-by-version",
        "a member leaves out the last byte of what it says of itself to the others",
        sent(bodies("JoinGroup", _cut("Protocols", "Metadata")), "well-formed"),
    ),
    client(
        "cuts-assignments",
        "definitions.write-by-version",
        "a leader leaves out the last byte of each assignment",
        sent(bodies("SyncGroup", _cut("Assignments", "Assignment")), "well-formed"),
    ),
    client(
        "pads-the-count-of-tags",
        "uvarint.non-minimal",
        "a client writes the count of tags in two bytes, the second of which is 0",
        sent(each("Heartbeat", _padded), "well-formed"),
        "definitions.write-by-version",
    ),
    client(
        "asks-for-the-end-in-an-old-version",
        "list-offsets.isolation-level",
        "a client asks for the last offset in a version that has no isolation level, where newer ones are offered",
        sent(bodies("ListOffsets", _of_version_1, 1), "isolation-level"),
    ),
    client(
        "pushes-in-another-codec",
        "telemetry.wanted-metrics",
        "a client pushes metrics that are not compressed, and says that they are",
        sent(bodies("PushTelemetry", lambda _, __: {"CompressionType": 1}), "metrics-pushed"),
    ),
    client(
        "pushes-in-no-codec",
        "telemetry.wanted-metrics",
        "a client pushes metrics in a codec that there is not",
        sent(bodies("PushTelemetry", lambda _, __: {"CompressionType": 9}), "metrics-pushed"),
    ),
)
"""Defects of consumers and members of groups."""
