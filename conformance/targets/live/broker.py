"""The scripted broker: requests in, responses out, in the suite's own message codec; no socket is known here.

It says in ApiVersions what it speaks, which pins the versions that a client uses. What it cannot answer voids the case
that it came with, and accuses nobody.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from conformance import codec
from conformance.codec.message_definition import Message, header_version, type_name
from conformance.definitions.shipped import shipped_types
from conformance.targets.live.topics import Topic

Values = dict[str, Any]

_UNKNOWN_TOPIC, _UNSUPPORTED_VERSION = 3, 35
_EARLIEST = -2
_NODE = 1
_HEADER = struct.Struct(">hhi")
"""The first fields of every request header: API key, version, correlation id."""

BARE: Mapping[str, tuple[int, int]] = {
    "ApiVersions": (0, 0),
    "Metadata": (1, 1),
    "ListOffsets": (1, 1),
    "Fetch": (4, 4),
    "Produce": (3, 3),  # librdkafka takes a broker that does not list it for one without record batches
}
"""The least that consumers work with: lowest and highest version of each request."""


class Unanswerable(Exception):
    """A request that the broker has no answer to; the message says what it was."""


class Garbled(Exception):
    """Bytes that are no request of Kafka's protocol; the message says why."""


@dataclass(frozen=True, slots=True)
class Response:
    """What goes back, and after how many seconds where there is nothing to tell yet."""

    frame: bytes
    delay: float = 0.0


@dataclass(slots=True)
class Broker:
    """A broker with one node and one partition a topic, on the address that clients are told."""

    host: str
    port: int
    offered: Mapping[str, tuple[int, int]] = field(default_factory=lambda: BARE)
    topics: dict[str, Topic] = field(default_factory=dict)

    def respond(self, frame: bytes) -> Response:
        """The response to the frame of a request, both without their size. Raises Unanswerable or Garbled."""
        if len(frame) < _HEADER.size:
            raise Garbled(f"a request of {len(frame)} bytes")
        key, version, correlation = _HEADER.unpack_from(frame)
        name = _names().get(key)
        if name is None:
            raise Garbled(f"API {key}, which is none")
        if name not in self.offered:
            raise Unanswerable(f"{name} {version}, which was not offered")
        low, high = self.offered[name]
        if not low <= version <= high:
            if name == "ApiVersions":
                return Response(_framed(correlation, "ApiVersionsResponse", 0, self._versions(_UNSUPPORTED_VERSION)))
            raise Unanswerable(f"{name} {version}, where {low} to {high} is offered")
        request = _read(f"{name}Request", version, frame)
        body, delay = _ANSWERS[name](self, request)
        return Response(_framed(correlation, f"{name}Response", version, body), delay)

    def _versions(self, error: int = 0) -> Values:
        keys = {name: key for key, name in _names().items()}
        rows = [
            {"ApiKey": keys[name], "MinVersion": low, "MaxVersion": high} for name, (low, high) in self.offered.items()
        ]
        return {"ErrorCode": error, "ApiKeys": sorted(rows, key=lambda row: row["ApiKey"])}

    def _api_versions(self, _: Values) -> tuple[Values, float]:
        return self._versions(), 0.0

    def _metadata(self, request: Values) -> tuple[Values, float]:
        asked = request["Topics"]
        names = list(self.topics) if asked is None else [row["Name"] for row in asked]
        node = {"NodeId": _NODE, "Host": self.host, "Port": self.port}
        return {"Brokers": [node], "ControllerId": _NODE, "Topics": [self._described(name) for name in names]}, 0.0

    def _described(self, name: str) -> Values:
        known = name in self.topics
        partition = {"PartitionIndex": 0, "LeaderId": _NODE, "ReplicaNodes": [_NODE], "IsrNodes": [_NODE]}
        error = 0 if known else _UNKNOWN_TOPIC
        return {"ErrorCode": error, "Name": name, "Partitions": [{"ErrorCode": 0, **partition}] if known else []}

    def _list_offsets(self, request: Values) -> tuple[Values, float]:
        def one(name: str, row: Values) -> Values:
            topic = self.topics.get(name)
            shown: Values = {"PartitionIndex": row["PartitionIndex"], "ErrorCode": 0 if topic else _UNKNOWN_TOPIC}
            if topic is None:
                return {**shown, "Timestamp": -1, "Offset": -1}
            return {
                **shown,
                "Timestamp": -1,
                "Offset": topic.start if row["Timestamp"] == _EARLIEST else topic.high_watermark,
            }

        return {"Topics": _each(request, "Name", "Partitions", one)}, 0.0

    def _fetch(self, request: Values) -> tuple[Values, float]:
        def one(name: str, row: Values) -> Values:
            topic = self.topics.get(name)
            shown: Values = {"PartitionIndex": row["Partition"], "HighWatermark": -1, "Records": b""}
            if topic is None:
                return {**shown, "ErrorCode": _UNKNOWN_TOPIC}
            records = topic.serve(row["FetchOffset"], request["IsolationLevel"])
            ends = {"HighWatermark": topic.high_watermark, "LastStableOffset": topic.high_watermark}
            listed = topic.aborted if request["IsolationLevel"] else None
            return {**shown, **ends, "ErrorCode": 0, "Records": records, "AbortedTransactions": listed}

        rows = _each(request, "Topic", "Partitions", one)
        empty = not any(part["Records"] for row in rows for part in row["Partitions"])
        return {"Responses": rows}, min(request["MaxWaitMs"], 500) / 1000 if empty else 0.0


_ANSWERS: Mapping[str, Callable[[Broker, Values], tuple[Values, float]]] = {
    "ApiVersions": Broker._api_versions,  # noqa: SLF001 - the table of its own
    "Metadata": Broker._metadata,  # noqa: SLF001
    "ListOffsets": Broker._list_offsets,  # noqa: SLF001
    "Fetch": Broker._fetch,  # noqa: SLF001
}


def _each(request: Values, name: str, rows: str, one: Callable[[str, Values], Values]) -> list[Values]:
    """The answers about all partitions of a request, topic by topic."""
    return [{name: topic[name], rows: [one(topic[name], row) for row in topic[rows]]} for topic in request["Topics"]]


# --- frames -------------------------------------------------------------------------------------------


def _names() -> Mapping[int, str]:
    """The requests that have a definition, by API key."""
    if not _NAMES:
        for message in shipped_types().messages.values():
            if message.kind == "request" and message.api_key is not None:
                _NAMES[message.api_key] = message.name.removesuffix("Request")
    return _NAMES


_NAMES: dict[int, str] = {}


def _message(name: str) -> Message:
    return shipped_types().messages[name]


def _read(name: str, version: int, frame: bytes) -> Values:
    """The body of a request. Raises Garbled."""
    header = codec.decode(_wire("RequestHeader", header_version(_message(name), version)), frame)
    body = codec.decode(_wire(name, version), frame[header.consumed :]) if header.ok else header
    if not body.ok:
        raise Garbled(f"{name} {version}: {body.violations[0]}")
    values: Values = body.value
    return values


def _framed(correlation: int, name: str, version: int, body: Values) -> bytes:
    header = {"CorrelationId": correlation}
    written = codec.encode(_wire("ResponseHeader", header_version(_message(name), version)), header)
    return written + codec.encode(_wire(name, version), body)


def _wire(name: str, version: int) -> codec.Wire:
    return shipped_types().wire(type_name(name, version))
