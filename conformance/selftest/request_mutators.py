"""How seeded defects bend what a client sends: requests that are left out, repeated, or sent with another body."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import islice

from conformance import codec
from conformance.cases.model import Answer, Request
from conformance.codec.derived_fields import Values
from conformance.codec.record_batch import BATCH_LAYOUT, with_checksums
from conformance.definitions.request_frames import START, api_of, frame_wire, wire_in
from conformance.selftest.mutators import Mutator

Rows = list[Values]
"""The requests that a client sent, in notation."""


def sent(change: Callable[[Rows], Rows], *checks: str) -> Mutator:
    """Send other requests where one of these checks looks at them."""

    def lie(request: Request, answer: Answer) -> Answer:
        is_asked = request["op"] == "send" and request["check"] in checks and answer.get("ok")
        return {**answer, "value": change(answer["value"])} if is_asked else answer

    return lie


def name_of(row: Values) -> str:
    """The name of a request that was sent."""
    return api_of(bytes.fromhex(row["hex"]))


def each(name: str, change: Callable[[Rows], Rows]) -> Callable[[Rows], Rows]:
    """Change the requests of a name, each in its place; those that come to them stand last."""

    def changed(rows: Rows) -> Rows:
        left = iter(change([row for row in rows if name_of(row) == name]))
        placed = [one for row in rows for one in (islice(left, 1) if name_of(row) == name else (row,))]
        return [*placed, *left]

    return changed


def bodies(name: str, change: Callable[[int, Values], Values], version: int | None = None) -> Callable[[Rows], Rows]:
    """Change fields of the bodies of the requests of a name, each told by its place among them; in a version."""
    return each(name, lambda rows: [written(row, partial(change, at), version) for at, row in enumerate(rows)])


def written(row: Values, change: Callable[[Values], Values], version: int | None = None) -> Values:
    """A request with other fields in its body, which are told by it; in a version."""
    data = bytes.fromhex(row["hex"])
    wire = frame_wire(data)
    assert wire is not None
    whole = codec.decode(wire, data).value
    body, header = {**whole["Body"], **change(whole["Body"])}, whole["Header"]
    if version is not None:
        header, wire = {**header, "RequestApiVersion": version}, wire_in(api_of(data), version)
    return {**row, "hex": wire.encode({"Header": header, "Body": body}).hex()}


def partitions(change: Callable[[int], Values]) -> Callable[[int, Values], Values]:
    """Change fields of each partition in a body, told by the place of the request."""
    return lambda at, body: {
        "Topics": tuple(
            {**row, "Partitions": tuple({**part, **change(at)} for part in row["Partitions"])} for row in body["Topics"]
        )
    }


def fetches_at(*offsets: int) -> Callable[[Rows], Rows]:
    """Fetch from these offsets, the last of them first."""

    def begun(row: Values, offset: int) -> Values:
        return written(row, partial(partitions(lambda _: {"FetchOffset": offset}), 0))

    return each("Fetch", lambda rows: [begun(rows[0], offset) for offset in offsets])


def batches(change: Callable[[int, bytes], bytes]) -> Callable[[Rows], Rows]:
    """Write other batches, each told by its place."""

    def changed(at: int, body: Values) -> Values:
        return {
            "TopicData": tuple(
                {
                    **row,
                    "PartitionData": tuple(
                        {**part, "Records": change(at, part["Records"] or b"")} for part in row["PartitionData"]
                    ),
                }
                for row in body["TopicData"]
            )
        }

    return bodies("Produce", changed)


def with_number(name: str, change: Callable[[int, int], int]) -> Callable[[int, bytes], bytes]:
    """A batch with another number in its header, made of the place of the batch and the number."""
    return lambda at, data: (
        with_checksums(BATCH_LAYOUT.with_field(name, data, change(at, BATCH_LAYOUT.read_field(name, data))))
        if data
        else data
    )


def in_version(name: str, version: int) -> Callable[[Rows], Rows]:
    """Send the requests of a name in a version, as far as their headers tell."""

    def changed(row: Values) -> Values:
        data = bytes.fromhex(row["hex"])
        size, key, _, correlation = START.unpack_from(data)
        return {**row, "hex": (START.pack(size, key, version, correlation) + data[START.size :]).hex()}

    return each(name, lambda rows: [changed(row) for row in rows])
