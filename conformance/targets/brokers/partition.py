"""One partition on a broker: what is written to it and read from it."""

from __future__ import annotations

import time
from dataclasses import dataclass

from conformance.cases.error_codes import named
from conformance.codec.log import extents
from conformance.codec.record_batch import HEADER_SIZE, OVERHEAD, stored_offset, stored_size
from conformance.targets.brokers.connection import Connection
from conformance.targets.brokers.topics import NOT_YET, Topic
from conformance.targets.live.frames import Garbled, Values
from conformance.targets.live.topics import last_offset

_BY_ID = 13
"""The first version of Produce, and of Fetch, that names a topic by its id."""
_PATIENCE = 20.0
"""Seconds for which an error that says "not yet" is asked again."""
_PAUSE = 0.05
_SERVED = 5.0
"""Seconds until all that a broker has taken is served."""
_MOST = 64 << 20
"""Bytes that a fetch asks for."""
UNSURE = (7, 19, 20)
"""Errors that leave open what was stored: it took too long, or too few replicas have it."""
_CLASSES = {2: "corrupt", 76: "unsupported-codec", 87: "malformed"}


class Refusal(Exception):
    """An error that a broker answered; 0 where it closed the connection instead."""

    def __init__(self, code: int, message: str = "") -> None:
        super().__init__(message or said(code))
        self.code = code

    @property
    def told(self) -> str:
        """What reports compare: the code, or that there was none."""
        return named(self.code) if self.code else "no answer"


def said(code: int) -> str:
    """An error in words."""
    return f"error {named(code)}"


def error_class(code: int) -> str:
    """The class of errors that an error of a broker belongs to."""
    return _CLASSES.get(code, "other")


@dataclass(slots=True)
class Partition:
    """The partition of a topic, on the connection to its leader."""

    connection: Connection
    topic: Topic

    def produce(self, data: bytes | None, *, transactional_id: str | None = None, version: int = 0) -> int:
        """Write bytes as a producer does: the offset that the broker tells. Raises Refusal, or as Connection.ask."""
        version = version or self.connection.version("Produce", low=3)
        rows = ({"Index": 0, "Records": data},)
        body = {
            **{"TransactionalId": transactional_id, "Acks": -1, "TimeoutMs": 5_000},
            "TopicData": ({**self._named(version, "Name"), "PartitionData": rows},),
        }
        part = self._settled("Produce", version, body, "Responses", "PartitionResponses")
        if part["ErrorCode"]:
            message = part.get("ErrorMessage")
            raise Refusal(part["ErrorCode"], f"{said(part['ErrorCode'])}{f': {message}' if message else ''}")
        offset: int = part["BaseOffset"]
        return offset

    def fetch(self, offset: int, until: int, isolation: int = 0) -> bytes:
        """The batches that are served from an offset up to another; fewer where a broker serves no more for a while.

        Raises Refusal, or as Connection.ask.
        """
        served, before, deadline = b"", b"", time.monotonic() + _SERVED
        while True:
            part = self.fetched(offset, isolation)
            if part["ErrorCode"]:
                raise Refusal(part["ErrorCode"])
            records: bytes = part["Records"] or b""
            came, following, is_all = batches_until(records, offset, until)
            served += came
            is_stuck = following == offset and records != b"" and records == before
            if is_all or is_stuck or following >= until or time.monotonic() > deadline:
                return served
            before = records
            if following == offset:
                time.sleep(_PAUSE)
            offset = following

    def fetched(self, offset: int, isolation: int = 0, most: int = _MOST, least: int = 1) -> Values:
        """What one fetch brings of the partition: so many bytes at most, at once where `least` is 0.

        Raises as Connection.ask.
        """
        version = self.connection.version("Fetch", low=4)
        part = {"Partition": 0, "CurrentLeaderEpoch": -1, "FetchOffset": offset, "PartitionMaxBytes": most}
        body = {
            **{"ReplicaId": -1, "MaxWaitMs": 500, "MinBytes": least, "MaxBytes": most, "IsolationLevel": isolation},
            **{"SessionId": 0, "SessionEpoch": -1},
            "Topics": ({**self._named(version, "Topic"), "Partitions": (part,)},),
        }
        return self._settled("Fetch", version, body, "Responses", "Partitions")

    def _named(self, version: int, name: str) -> Values:
        return {"TopicId": self.topic.id} if version >= _BY_ID else {name: self.topic.name}

    def _settled(self, request: str, version: int, body: Values, topics: str, parts: str) -> Values:
        """What is answered about the partition, once that is not "not yet"."""
        deadline = time.monotonic() + _PATIENCE
        while True:
            response = self.connection.ask(request, version, body)
            part = _part(request, response, topics, parts)
            if part["ErrorCode"] not in NOT_YET or time.monotonic() > deadline:
                return part
            time.sleep(_PAUSE)


def _part(request: str, response: Values, topics: str, parts: str) -> Values:
    """What a response says of the only partition that was asked for. Raises Garbled."""
    for row in response[topics]:
        for part in row[parts]:
            only: Values = part
            return only
    if response.get("ErrorCode"):
        return {"ErrorCode": response["ErrorCode"]}
    raise Garbled(f"{request}: nothing is said of the partition")


def batches_until(records: bytes, offset: int, until: int) -> tuple[bytes, int, bool]:
    """Of fetched bytes: the batches before an offset, the offset behind them, and whether no more come before it."""
    taken = 0
    for at, end in extents(records):
        is_headed = len(records) - at >= OVERHEAD
        if is_headed and stored_offset(records, at) >= until:
            return records[:taken], offset, True
        if not is_headed or at + OVERHEAD + stored_size(records, at) > len(records):
            break  # cut: it comes with the next fetch
        taken = end
        last = last_offset(records, at) if end - at >= HEADER_SIZE else stored_offset(records, at)
        offset = max(offset, last) + 1
    return records[:taken], offset, False
