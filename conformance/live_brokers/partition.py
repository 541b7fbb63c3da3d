"""Writes to one partition of a broker and fetches from it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import NamedTuple

from msgspec import Struct

from conformance.codec.derived_fields import Values
from conformance.codec.error_codes import ErrorCode, named
from conformance.codec.log import extents
from conformance.codec.record_batch import HEADER_SIZE, OVERHEAD, stored_offset, stored_size
from conformance.definitions.request_frames import MalformedFrame
from conformance.live_brokers.connection import BrokerConnection
from conformance.live_brokers.topics import RETRIABLE, BrokerTopic
from conformance.mock_broker.topic import last_offset
from conformance.process.waiting import POLL_INTERVAL_S, poll
from conformance.targets.probes import plain_log

_BY_ID = 13
"""The first version of Produce and of Fetch with topic ids."""
_READY_TIMEOUT_S = 20.0
"""Seconds in which a request is retried after retriable errors."""
_SERVED_TIMEOUT_S = 5.0
"""Seconds in which `fetch` waits for all records."""
_LARGEST_OFFSET = 1 << 62
"""Offsets from here on are implausible in a new topic."""
_MOST = 64 << 20
"""The default MaxBytes of a fetch."""
MAYBE_STORED = (
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
)
"""After these errors, the batch may or may not be stored."""
NOT_PERMITTED = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: "there is no coordinator",
    ErrorCode.COORDINATOR_NOT_AVAILABLE: "there is no coordinator",
    ErrorCode.NOT_COORDINATOR: "there is no coordinator",
    ErrorCode.TOPIC_AUTHORIZATION_FAILED: "this client may not do it",
    ErrorCode.GROUP_AUTHORIZATION_FAILED: "this client may not do it",
    ErrorCode.CLUSTER_AUTHORIZATION_FAILED: "this client may not do it",
    ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED: "this client may not do it",
    ErrorCode.INVALID_TRANSACTION_TIMEOUT: "the limit of a transaction's time",
}
"""Errors that depend on permissions, settings or the coordinator: they break no requirement."""
_PARTS = {"Produce": ("PartitionResponses", "Index"), "Fetch": ("Partitions", "PartitionIndex")}
"""The response field with the list of partitions, and the field with the partition index."""
_CLASSES = {2: "corrupt", 76: "unsupported-codec", 87: "malformed"}
"""By CORRUPT_MESSAGE, UNSUPPORTED_COMPRESSION_TYPE and INVALID_RECORD."""


class KafkaErrorResponse(Exception):
    """An error code in a response; 0 if the broker closed the connection instead."""

    def __init__(self, code: int, message: str = "") -> None:
        super().__init__(message or error_text(code))
        self.code = code

    @property
    def code_text(self) -> str:
        """The name of the error code, or `no answer`, for reports."""
        return named(self.code) if self.code else "no answer"


class ProduceReceipt(NamedTuple):
    """The broker's response to an accepted write."""

    offset: int
    append_time: int
    """Milliseconds since 1970; -1 for none, and in versions without this field."""


def error_text(code: int) -> str:
    """Return an error code in words."""
    return f"error {named(code)}"


def error_class(code: int) -> str:
    """Return the error class of the line protocol for an error code."""
    return _CLASSES.get(code, "other")


class PartitionClient(Struct):
    """A partition of a topic, with the connection to its leader."""

    connection: BrokerConnection
    topic: BrokerTopic
    index: int = 0

    def produce(
        self, data: bytes | None, *, transactional_id: str | None = None, version: int | None = None
    ) -> ProduceReceipt:
        """Write bytes and return the receipt. Raises KafkaErrorResponse, or as BrokerConnection.ask."""
        version = self.connection.version("Produce", low=3) if version is None else version
        body = self._written(version, {self.index: data}, transactional_id)
        return _receipt(self._retry_until_ready("Produce", version, body))

    def produce_unanswered(self, data: bytes, version: int) -> bool:
        """Send Produce with acks=0, and return whether a response arrives. Raises as BrokerConnection.ask."""
        return self.connection.send_without_response(
            "Produce", version, {**self._written(version, {self.index: data}, None), "Acks": 0}
        )

    def produce_one_record(self) -> int:
        """Write a plain batch and return its offset.

        Raises KafkaErrorResponse, or as BrokerConnection.ask; MalformedFrame for an implausible offset.
        """
        offset = self.produce(plain_log(2)).offset
        if not 0 <= offset < _LARGEST_OFFSET:
            raise MalformedFrame(f"offset {offset} of a plain batch")
        return offset

    def produce_with(
        self, data: bytes, others: Mapping[int, bytes]
    ) -> Mapping[int, ProduceReceipt | KafkaErrorResponse]:
        """Write bytes to this and to other partitions in one request; return the receipt or error by partition.

        Raises as BrokerConnection.ask.
        """
        version = self.connection.version("Produce", low=3)
        rows = {self.index: data, **others}
        response = self.connection.ask("Produce", version, self._written(version, dict(sorted(rows.items())), None))
        results: dict[int, ProduceReceipt | KafkaErrorResponse] = {}
        for index in rows:
            try:
                results[index] = _receipt(_partition_response("Produce", response, index))
            except KafkaErrorResponse as refusal:
                results[index] = refusal
        return results

    def _written(self, version: int, rows: Mapping[int, bytes | None], transactional_id: str | None) -> Values:
        """Return the body of a Produce request."""
        parts = tuple({"Index": index, "Records": data} for index, data in rows.items())
        return {
            **{"TransactionalId": transactional_id, "Acks": -1, "TimeoutMs": 5_000},
            "TopicData": ({**self._named(version, "Name"), "PartitionData": parts},),
        }

    def fetch(self, offset: int, until: int, isolation: int = 0, version: int | None = None) -> bytes:
        """Return the batches from `offset` to before `until`; fewer if the broker serves no more before the timeout.

        Raises KafkaErrorResponse, or as BrokerConnection.ask.
        """
        served, before, deadline = b"", b"", time.monotonic() + _SERVED_TIMEOUT_S
        while True:
            part = self.fetched(offset, isolation, version=version)
            if part["ErrorCode"]:
                raise KafkaErrorResponse(part["ErrorCode"])
            records: bytes = part["Records"] or b""
            came, following, is_all = batches_until(records, offset, until)
            served += came
            is_stuck = following == offset and records != b"" and records == before
            if is_all or is_stuck or following >= until or time.monotonic() > deadline:
                return served
            before = records
            if following == offset:
                time.sleep(POLL_INTERVAL_S)
            offset = following

    def fetched(
        self, offset: int, isolation: int = 0, most: int = _MOST, least: int = 1, version: int | None = None
    ) -> Values:
        """Fetch, and return the partition's row of the response. Raises as BrokerConnection.ask.

        `most` is MaxBytes. `least` is MinBytes; with 0 the broker responds at once.
        """
        version = self.connection.version("Fetch", low=4) if version is None else version
        part = {"Partition": self.index, "CurrentLeaderEpoch": -1, "FetchOffset": offset, "PartitionMaxBytes": most}
        body = {
            **{"ReplicaId": -1, "MaxWaitMs": 500, "MinBytes": least, "MaxBytes": most, "IsolationLevel": isolation},
            **{"SessionId": 0, "SessionEpoch": -1},
            "Topics": ({**self._named(version, "Topic"), "Partitions": (part,)},),
        }
        return self._retry_until_ready("Fetch", version, body)

    def _named(self, version: int, name: str) -> Values:
        # `Scope` needs the name, also in versions that send only the id.
        return {name: self.topic.name, **({"TopicId": self.topic.id} if version >= _BY_ID else {})}

    def _retry_until_ready(self, request: str, version: int, body: Values) -> Values:
        """Return the partition's row of the response. Repeat the request after retriable errors, until a timeout."""

        def response() -> Values:
            return _partition_response(request, self.connection.ask(request, version, body), self.index)

        return poll(response, lambda part: part["ErrorCode"] not in RETRIABLE, _READY_TIMEOUT_S)


def _partition_response(request: str, response: Values, index: int) -> Values:
    """Return a partition's row, or the error code of the whole response. Raises MalformedFrame if both are missing."""
    parts, name = _PARTS[request]
    for row in response["Responses"]:
        for part in row[parts]:
            one: Values = part
            if one[name] == index:
                return one
    if response.get("ErrorCode"):
        return {"ErrorCode": response["ErrorCode"]}
    raise MalformedFrame(f"{request}: the response has no row for the partition")


def _receipt(part: Values) -> ProduceReceipt:
    """Return the receipt in a partition's row of Produce. Raises KafkaErrorResponse."""
    if part["ErrorCode"]:
        message = part.get("ErrorMessage")
        raise KafkaErrorResponse(
            part["ErrorCode"], f"{error_text(part['ErrorCode'])}{f': {message}' if message else ''}"
        )
    return ProduceReceipt(part["BaseOffset"], part.get("LogAppendTimeMs", -1))


def batches_until(records: bytes, offset: int, until: int) -> tuple[bytes, int, bool]:
    """Return the batches before `until`, the offset after them, and True if a batch from `until` on follows them."""
    taken = 0
    for at, end in extents(records):
        is_headed = len(records) - at >= OVERHEAD
        if is_headed and stored_offset(records, at) >= until:
            return records[:taken], offset, True
        if not is_headed or at + OVERHEAD + stored_size(records, at) > len(records):
            break  # cut off: the next fetch returns it
        taken = end
        last = last_offset(records, at) if end - at >= HEADER_SIZE else stored_offset(records, at)
        offset = max(offset, last) + 1
    return records[:taken], offset, False
