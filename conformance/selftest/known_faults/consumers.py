"""Faults of consumers and group members: the requests that they send, and omit, in a client scenario."""

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
from conformance.selftest.mutators import Mutator, pad_varint
from conformance.selftest.mutators.requests import (
    SIZE,
    Rows,
    RowsChange,
    bodies,
    change_requests,
    element_fields,
    fetches_at,
    frames,
    named,
    partitions,
    start_number,
    with_body,
)
from conformance.selftest.seeded_fault import SeededFault


def _open_sessions(rows: Rows) -> Rows:
    """End the session with each of three fetches, and open another one."""
    return [
        with_body(row, lambda _, at=at: {"SessionId": at, "SessionEpoch": 0})  # type: ignore[misc]
        for row in rows
        for at in range(3)
    ]


def _assign(change: Callable[[Sequence[Values]], Sequence[Values]]) -> RowsChange:
    """Change the assignments of a group leader."""
    return bodies("SyncGroup", lambda _, body: {"Assignments": tuple(change(body["Assignments"]))})


def _assign_to_all(rows: Sequence[Values]) -> Sequence[Values]:
    return [*rows, {**rows[0], "MemberId": OTHER_MEMBER_ID}]


def _assign_partitions(*numbers: int) -> RowsChange:
    """Assign other partitions of topic `t` than the only one."""
    only, others = (b"t" + struct.pack(f">i{len(part)}i", len(part), *part) for part in ((0,), numbers))
    return bodies(
        "SyncGroup",
        element_fields("Assignments", lambda row: {"Assignment": row["Assignment"].replace(only, others)}),
    )


def _assign_own_topics(rows: Sequence[Values]) -> Sequence[Values]:
    """Assign the topics of the leader to the first member."""
    return [{**rows[0], "Assignment": b""}, {**rows[1], "Assignment": rows[0]["Assignment"]}]


def _commit_back(rows: Rows) -> Rows:
    return [*rows, with_body(rows[-1], partial(partitions(lambda _: {"CommittedOffset": 0}), 0))]


def _stop_in_second_topic(rows: Rows, version: int | None = None) -> Rows:
    """Consume one topic, but do not pass the moved offset of the next one."""

    def fetch(offset: int, topic: str) -> Values:
        name = {"Topic": topic} if version else {"TopicId": topic.encode() * 16}
        partition = {"FetchOffset": offset, "PartitionMaxBytes": 1}
        return with_body(rows[0], lambda _: {"Topics": ({**name, "Partitions": (partition,)},)}, version)

    return [
        *(fetch(offset, "b") for offset in (CONSUMED_OFFSET, CONSUMED_OFFSET)),
        *(fetch(offset, "a") for offset in (CONSUMED_OFFSET + 1, CONSUMED_OFFSET, CONSUMED_OFFSET)),
    ]


def _with_retention(_: int, __: Values) -> Values:
    return {"RetentionTimeMs": 0, "Topics": ({"Name": "t", "Partitions": ({"CommittedOffset": 1},)},)}


def _list_latest(_: int, __: Values) -> Values:
    partition = {"PartitionIndex": 0, "Timestamp": LATEST}
    return {"IsolationLevel": 0, "Topics": ({"Name": "t", "Partitions": (partition,)},)}


def _cut_last_byte(array: str, name: str) -> Callable[[int, Values], Values]:
    """Cut the last byte of a field in each element of an array."""
    return element_fields(array, lambda one: {name: one[name][:-1]})


def _pad_tag_count(_: int, data: bytes) -> bytes:
    return start_number(SIZE, lambda size: size + 1)(pad_varint(data))


_THREADS = "https://github.com"


def client(name: str, source: str, description: str, mutate: Mutator, first: str = "") -> SeededFault:
    """Return the fault of a client. `first` is the requirement whose cases run first, if that is not the source."""
    return SeededFault(f"client/{name}", "requests", description, source, mutate, (first or source,))


CLIENTS = (
    client(
        "tags-in-response-headers",
        "tagged.unknown-skipped",
        "a client ignores the tagged fields in response headers, and finds no records",
        change_requests(named("Fetch", lambda _: []), "progress-past-tags"),
    ),
    client(
        "passes-over-null",
        "response.nothing-to-fetch",
        "a client skips an offset after a fetch response with null records",
        change_requests(named("Fetch", lambda rows: rows[-2:]), "no-skip-after-empty-fetch"),
    ),
    client(
        "takes-a-marker-for-what-was-cut",
        f"{_THREADS}/twmb/franz-go/pull/1530",
        "a client sends the epoch of its last record, not that of the next marker, and goes back",
        change_requests(
            fetches_at(OFFSET_AFTER_MARKER, OFFSET_AFTER_MARKER - 1, OFFSET_AFTER_MARKER), "no-rewind-after-marker"
        ),
        "response.place-valid",
    ),
    client(
        "stays-behind-a-marker",
        "response.place-valid",
        "a client validates its offset at the new leader, but refetches it forever",
        change_requests(fetches_at(OFFSET_AFTER_MARKER, OFFSET_AFTER_MARKER), "no-rewind-after-marker"),
    ),
    client(
        "skips-what-was-refused",
        "response.place-valid",
        "a client skips the record whose fetch was rejected when the leader moved",
        change_requests(fetches_at(CONSUMED_OFFSET + 1, CONSUMED_OFFSET), "same-offset-after-move"),
    ),
    client(
        "stays-in-the-second-topic",
        "response.place-valid",
        "a client handles the first move of a leader, but not the next one, in another topic",
        change_requests(named("Fetch", _stop_in_second_topic), "same-offset-after-move"),
    ),
    client(
        "stays-in-the-second-topic-by-name",
        "response.place-valid",
        "the same client, with an older version of Fetch",
        change_requests(named("Fetch", partial(_stop_in_second_topic, version=12)), "same-offset-after-move"),
    ),
    client(
        "begins-at-the-end",
        "response.place-valid",
        "a client starts at the end of the log when the leader moved",
        change_requests(fetches_at(CONSUMED_OFFSET + 2, CONSUMED_OFFSET, CONSUMED_OFFSET), "same-offset-after-move"),
    ),
    client(
        "begins-anew-in-a-trimmed-log",
        "response.offset-out-of-range",
        "a client continues before the start of the log",
        change_requests(fetches_at(TRIMMED_LOG_OFFSETS.start - 1), "continue-at-log-start"),
    ),
    client(
        "passes-over-where-a-trimmed-log-begins",
        "response.offset-out-of-range",
        "a client skips the first record of a trimmed log",
        change_requests(fetches_at(TRIMMED_LOG_OFFSETS.start + 1), "continue-at-log-start"),
    ),
    client(
        "cut-passed-over",
        "response.place-cut",
        "a client asks for the end of an epoch, but ignores that the log was truncated there",
        change_requests(fetches_at(CONSUMED_OFFSET + 1, CONSUMED_OFFSET, 0), "rewind-after-truncation"),
    ),
    client(
        "opens-a-session-with-each-fetch",
        "fetch.session",
        "a client ends its session with each fetch and opens another one",
        change_requests(named("Fetch", _open_sessions), "in-session"),
    ),
    client(
        "commits-beyond-what-is-there",
        "group.commits-next-offset",
        "a member commits an offset after the end of the log",
        change_requests(bodies("OffsetCommit", partitions(lambda _: {"CommittedOffset": 3})), "commits"),
    ),
    client(
        "commits-the-epoch-of-its-first-place",
        f"{_THREADS}/IBM/sarama/issues/3418",
        "a member commits the epoch of its first offset, whatever batch it consumed",
        change_requests(
            bodies("OffsetCommit", partitions(lambda at: {"CommittedLeaderEpoch": 0} if at else {})), "commits"
        ),
        "group.commits-next-offset",
    ),
    client(
        "commits-back",
        "group.commits-next-offset",
        "a member commits its first offset after a later one",
        change_requests(named("OffsetCommit", _commit_back), "commits"),
    ),
    client(
        "commits-for-no-time",
        "group.commits-next-offset",
        "a member commits in an older version, with a retention time of 0 ms",
        change_requests(bodies("OffsetCommit", _with_retention, 3), "commits"),
    ),
    client(
        "gives-up-a-commit",
        "response.error-for-the-moment",
        "a member retries a rejected commit only once",
        change_requests(named("OffsetCommit", lambda rows: rows[:2]), "commits-again"),
    ),
    client(
        "assigns-to-all",
        "group.leader-shares",
        "a leader assigns the only partition to each member",
        change_requests(_assign(_assign_to_all), "assignment"),
    ),
    client(
        "assigns-a-partition-that-is-not-there",
        "group.leader-shares",
        "a leader numbers partitions from 1",
        change_requests(_assign_partitions(1), "assignment"),
    ),
    client(
        "assigns-more-than-there-is",
        "group.leader-shares",
        "a leader assigns an additional partition that does not exist",
        change_requests(_assign_partitions(0, 1), "assignment"),
    ),
    client(
        "assigns-to-no-member",
        "group.leader-shares",
        "a leader assigns a partition to a client name instead of a member id",
        change_requests(
            bodies("SyncGroup", element_fields("Assignments", lambda _: {"MemberId": "client"})), "assignment"
        ),
    ),
    client(
        "assigns-nothing",
        f"{_THREADS}/segmentio/kafka-go/issues/1196",
        "a leader that cannot parse the metadata of another member rejoins forever and assigns nothing",
        change_requests(_assign(lambda _: ()), "assignment", "assignment-by-subscription"),
        "group.leader-shares",
    ),
    client(
        "assigns-its-own-topics",
        f"{_THREADS}/tulios/kafkajs/issues/1679",
        "a leader assigns only its own topics, also to members without a subscription to them",
        change_requests(_assign(_assign_own_topics), "assignment-by-subscription"),
        "group.leader-by-subscription",
    ),
    client(
        "cuts-its-subscription",
        "definitions.write-by-version",
        "a member omits the last byte of its subscription",
        change_requests(bodies("JoinGroup", _cut_last_byte("Protocols", "Metadata")), "well-formed"),
    ),
    client(
        "cuts-assignments",
        "definitions.write-by-version",
        "a leader omits the last byte of each assignment",
        change_requests(bodies("SyncGroup", _cut_last_byte("Assignments", "Assignment")), "well-formed"),
    ),
    client(
        "pads-the-count-of-tags",
        "uvarint.non-minimal",
        "a client writes the count of tagged fields in two bytes instead of one",
        change_requests(frames("Heartbeat", _pad_tag_count), "well-formed"),
        "definitions.write-by-version",
    ),
    client(
        "asks-for-the-end-in-an-old-version",
        "list-offsets.isolation-level",
        "a client asks for the last offset in a version without isolation level, though newer ones are offered",
        change_requests(bodies("ListOffsets", _list_latest, 1), "isolation-level"),
    ),
    client(
        "pushes-in-another-codec",
        "telemetry.wanted-metrics",
        "a client pushes uncompressed metrics as compressed ones",
        change_requests(bodies("PushTelemetry", lambda _, __: {"CompressionType": 1}), "metrics-pushed"),
    ),
    client(
        "pushes-in-no-codec",
        "telemetry.wanted-metrics",
        "a client pushes metrics with an unknown codec",
        change_requests(bodies("PushTelemetry", lambda _, __: {"CompressionType": 9}), "metrics-pushed"),
    ),
)
