"""The requests of a client in a scenario: their bodies, names and batches, and verdicts on one request."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from conformance import codec
from conformance.cases.model import Value, Verdict
from conformance.codec.record_batch import BATCH_LAYOUT
from conformance.definitions.request_frames import START, api_of, frame_wire


def at_request(index: int, flaw: Verdict) -> Verdict:
    """Return a verdict with the index of its request in the path."""
    joint = "." if flaw.path else ""
    return Verdict(flaw.kind, flaw.detail, f"[{index}]{joint}{flaw.path}", flaw.requirement, flaw.level)


def fetch_in(data: bytes) -> Mapping[str, Value] | None:
    """Return the body of a request if it is a valid Fetch."""
    return body_in(data, "Fetch")


def body_in(data: bytes, name: str) -> Mapping[str, Value] | None:
    """Return the body of a request if it is a valid request with this name."""
    wire = frame_wire(data) if api_of(data) == name else None
    read = codec.decode(wire, data) if wire is not None else None
    return read.value["Body"] if read is not None and read.ok else None


def request_name(data: bytes) -> str:
    """Return the name of a request and its version, such as `Fetch 12`."""
    _, key, version, _ = START.unpack_from(data)
    return f"{api_of(data) or f'API {key}'} {version}"


def batches_in(requests: Sequence[Value]) -> Iterator[tuple[int, bytes]]:
    """Yield the written batches with their request index, without the leader epoch, which the broker sets."""
    for index, request in enumerate(requests):
        wire = frame_wire(request["hex"]) if api_of(request["hex"]) == "Produce" else None
        read = codec.decode(wire, request["hex"]) if wire is not None else None
        if read is not None and read.ok:
            for row in read.value["Body"]["TopicData"]:
                for part in row["PartitionData"]:
                    yield index, BATCH_LAYOUT.with_field("partitionLeaderEpoch", part["Records"] or b"", -1)


RECORDS = "Body.TopicData[0].PartitionData[0].Records"
"""The path of the batches in a Produce request, for verdicts."""


def producer_text(producer: Sequence[int]) -> str:
    """Return a text with a producer id, its epoch and a sequence."""
    return "producer id {}, epoch {}, sequence {}".format(*producer)
