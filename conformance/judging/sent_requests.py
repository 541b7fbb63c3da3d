"""What the judge of a scenario looks at: the requests that a client sent, their bodies, and verdicts on one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from conformance import codec
from conformance.cases.model import Value, Verdict
from conformance.codec.record_batch import BATCH_LAYOUT
from conformance.definitions.request_frames import START, api_of, frame_wire


def at_request(index: int, flaw: Verdict) -> Verdict:
    """The verdict on a request, by its place among those that were sent."""
    joint = "." if flaw.path else ""
    return Verdict(flaw.kind, flaw.detail, f"[{index}]{joint}{flaw.path}", flaw.requirement, flaw.level)


def fetch_in(data: bytes) -> Mapping[str, Value] | None:
    """The body of a request that is a sound Fetch."""
    return body_in(data, "Fetch")


def body_in(data: bytes, name: str) -> Mapping[str, Value] | None:
    """The body of a request that is a sound one of this name."""
    wire = frame_wire(data) if api_of(data) == name else None
    read = codec.decode(wire, data) if wire is not None else None
    return read.value["Body"] if read is not None and read.ok else None


def request_name(data: bytes) -> str:
    """The request and its version, as a message of the suite names it."""
    _, key, version, _ = START.unpack_from(data)
    return f"{api_of(data) or f'API {key}'} {version}"


def batches_in(requests: Sequence[Value]) -> Iterator[tuple[int, bytes]]:
    """The batches that were written, without the leader epoch, which is the broker's."""
    for index, request in enumerate(requests):
        wire = frame_wire(request["hex"]) if api_of(request["hex"]) == "Produce" else None
        read = codec.decode(wire, request["hex"]) if wire is not None else None
        if read is not None and read.ok:
            for row in read.value["Body"]["TopicData"]:
                for part in row["PartitionData"]:
                    yield index, BATCH_LAYOUT.with_field("partitionLeaderEpoch", part["Records"] or b"", -1)


RECORDS = "Body.TopicData[0].PartitionData[0].Records"
"""Where the batches of a Produce stand, as a verdict names it."""


def producer_text(producer: Sequence[int]) -> str:
    """A producer id, its epoch and a sequence, in words."""
    return "producer id {}, epoch {}, sequence {}".format(*producer)
