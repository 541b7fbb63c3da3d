"""Removal of records: by DeleteRecords, by the retention time, and by compaction."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Mapping, Sequence

from msgspec import Struct

from conformance import codec
from conformance.codec.derived_fields import Values
from conformance.codec.error_codes import ErrorCode
from conformance.definitions.request_frames import MalformedFrame
from conformance.live_brokers.partition import KafkaErrorResponse, PartitionClient
from conformance.live_brokers.topics import RETRIABLE
from conformance.process.waiting import poll, wait_until
from conformance.semantics.broker_steps import FILLER_VALUE, Compact, ExpireByRetention, Produce, Step, batch_of

_COMPACTED = {
    **{"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.0", "min.compaction.lag.ms": "0"},
    "delete.retention.ms": str(24 * 3600 * 1000),
}
"""The settings of a compacted topic."""
_NO_TOMBSTONES = {"delete.retention.ms": "0"}
_SHORT = {"cleanup.policy": "delete", "retention.ms": "1"}
"""The settings of a topic with a short retention time."""
_CLEANED_TIMEOUT_S = 30.0
"""Seconds until the log cleaner or the removal of old segments is complete."""
_READY_TIMEOUT_S = 20.0
"""Seconds for retriable errors."""
_YEAR = 365 * 24 * 3600 * 1000
"""Milliseconds: a record that is so much later begins a new segment, and the cleaner handles the older ones."""
EARLIEST, LATEST = -2, -1
"""The timestamps in ListOffsets for the start and the end of the log."""
_NOT_ALLOWED = (ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.POLICY_VIOLATION)
"""Errors for a client or a topic that does not permit DeleteRecords."""


class StepNotPossible(Exception):
    """A step that is impossible with this broker; the message has the reason."""


class WrittenRecord(Struct, frozen=True):
    """A record that the broker accepted."""

    offset: int
    key: str | None
    identity: int
    """The producer id; -1 for none."""
    is_tombstone: bool = False
    is_aborted: bool = False


def settings_of(steps: Iterable[Step]) -> Mapping[str, str]:
    """Return the topic settings for the steps of a scenario."""
    found: dict[str, str] = {}
    for step in steps:
        if isinstance(step, Compact):
            found |= _COMPACTED | (_NO_TOMBSTONES if step.tombstones else {})
        if isinstance(step, ExpireByRetention):
            found |= _SHORT
    return found


def found(partition: PartitionClient, timestamp: int) -> tuple[int, int]:
    """Return the offset and the time of the ListOffsets response for a timestamp.

    Raises KafkaErrorResponse, or as BrokerConnection.ask.
    """
    version = partition.connection.version("ListOffsets", low=1, high=7)
    part = _request_partition(partition, "ListOffsets", version, {"Timestamp": timestamp})
    return part["Offset"], part["Timestamp"]


def delete_records(partition: PartitionClient, before: int) -> int:
    """Delete the records before an offset, and return the new start offset.

    Raises KafkaErrorResponse, StepNotPossible without the permission to delete, or as BrokerConnection.ask.
    """
    version = partition.connection.version("DeleteRecords")
    try:
        start: int = _request_partition(partition, "DeleteRecords", version, {"Offset": before})["LowWatermark"]
    except KafkaErrorResponse as refusal:
        if refusal.code in _NOT_ALLOWED:
            raise StepNotPossible(f"records are not deleted here: {refusal}") from None
        raise
    return start


def _request_partition(partition: PartitionClient, request: str, version: int, wanted: Values) -> Values:
    """Return the partition in the response; retry retriable errors.

    Raises KafkaErrorResponse, or as BrokerConnection.ask.
    """
    row = {"PartitionIndex": partition.index, **wanted}
    body = {"ReplicaId": -1, "TimeoutMs": 5_000, "Topics": ({"Name": partition.topic.name, "Partitions": (row,)},)}

    def response() -> Values:
        answer = partition.connection.ask(request, version, body)
        part: Values | None = next((part for topic in answer["Topics"] for part in topic["Partitions"]), None)
        if part is None:
            raise MalformedFrame(f"{request} response has no entry for the partition")
        return part

    part = poll(response, lambda one: one["ErrorCode"] not in RETRIABLE, _READY_TIMEOUT_S)
    if part["ErrorCode"]:
        raise KafkaErrorResponse(part["ErrorCode"])
    return part


def expire(partition: PartitionClient, end: int) -> None:
    """Wait until all records before the end offset are removed.

    Raises StepNotPossible, KafkaErrorResponse, or as BrokerConnection.ask.
    """

    def is_gone() -> bool:
        return not found(partition, EARLIEST)[0] < end <= found(partition, LATEST)[0]

    if not wait_until(is_gone, _CLEANED_TIMEOUT_S):
        raise StepNotPossible(f"records older than the retention time remained for {_CLEANED_TIMEOUT_S:g} s")


def compact(
    partition: PartitionClient, span: tuple[int, int], written: Collection[WrittenRecord], step: Compact
) -> int:
    """Begin a new segment, wait for the log cleaner, and return the offset after the first batch of the segment.

    `written` are the records between the two offsets of `span`. Raises StepNotPossible, KafkaErrorResponse, or as
    BrokerConnection.ask.
    """
    end = roll(partition, span)
    superseded = _superseded(written, tombstones=step.tombstones)
    stay = {one.offset for one in written} - superseded

    def is_cleaned() -> bool:
        served = {record["offset"] for one in _read(partition, span[0], end) for record in one["records"]}
        # After the loss of a record that must stay, a longer wait is useless.
        return not superseded & served or bool(stay - served)

    if not wait_until(is_cleaned, _CLEANED_TIMEOUT_S):
        raise StepNotPossible(f"the log cleaner did not run within {_CLEANED_TIMEOUT_S:g} s")
    return end


def roll(partition: PartitionClient, span: tuple[int, int]) -> int:
    """Write a batch that begins a new segment because of its late timestamp, and return the offset after it.

    Raises KafkaErrorResponse, or as BrokerConnection.ask.
    """
    latest = max((one["maxTimestamp"] for one in _read(partition, *span)), default=0)
    timestamp = max(latest, int(time.time() * 1000)) + _YEAR
    plain = {"offset": 0, "attributes": 0, "headers": ()}
    record = {**plain, "timestamp": timestamp, "key": FILLER_VALUE, "value": FILLER_VALUE}
    batch = codec.encode("RECORD_BATCH", {**batch_of(Produce(), 0, None), "records": (record,)})
    return partition.produce(batch).offset + 1


def _superseded(written: Collection[WrittenRecord], *, tombstones: bool) -> set[int]:
    """Return the offsets of the records that the log cleaner removes."""
    kept = [one for one in written if not one.is_aborted]
    last = {one.key: one.offset for one in sorted(kept, key=lambda one: one.offset)}
    return {
        one.offset
        for one in written
        if one.is_aborted or one.offset != last[one.key] or (tombstones and one.is_tombstone)
    }


def _read(partition: PartitionClient, start: int, end: int) -> Sequence[Values]:
    """Return the fetched batches between two offsets; none if they cannot be decoded."""
    read = codec.decode("LOG", partition.fetch(start, until=end))
    batches: Sequence[Values] = read.value["batches"] if read.ok else ()
    return batches
