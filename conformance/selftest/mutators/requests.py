"""Mutators of requests: what a client sends in a scenario, and how a broker answers."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import islice

import msgspec

from conformance import codec
from conformance.cases.append import BATCHES, OTHERS
from conformance.cases.model import Answer, Request
from conformance.codec.derived_fields import Values
from conformance.codec.record_batch import BATCH_LAYOUT, stored_magic, with_checksums
from conformance.definitions.request_frames import START, api_of, frame_wire, wire_in
from conformance.selftest.mutators import Change, Condition, Mutator, on
from conformance.semantics.broker_steps import parsed_steps
from conformance.semantics.reference_broker import ReferenceBroker

Rows = list[Values]
"""The requests that a client sent, in notation."""
RowsChange = Callable[[Rows], Rows]

# --- client scenarios ---------------------------------------------------------------------------------


def in_scenarios(*names: str) -> Condition:
    """Return a condition on the client scenario or the check of a request; no names allow all."""
    return lambda request, _: not names or request["check"] in names or request["scenario"] in names


def change_requests(change: RowsChange, *names: str) -> Mutator:
    """Send other requests in these client scenarios or checks (none: in all)."""
    return on("send", when=in_scenarios(*names))(lambda _, answer: {**answer, "value": change(answer["value"])})


def change_request(change: Callable[[Values], Values]) -> Mutator:
    """Change fields of each request."""
    return change_requests(lambda rows: [{**row, **change(row)} for row in rows])


def request_name(row: Values) -> str:
    """Return the name of a request."""
    return api_of(bytes.fromhex(row["hex"]))


def named(name: str, change: RowsChange) -> RowsChange:
    """Change the requests with a name. Each keeps its place; additional ones follow at the end."""

    def changed(rows: Rows) -> Rows:
        left = iter(change([row for row in rows if request_name(row) == name]))
        placed = [one for row in rows for one in (islice(left, 1) if request_name(row) == name else (row,))]
        return [*placed, *left]

    return changed


def change_frame(row: Values, change: Change) -> Values:
    """Change the bytes of a request."""
    return {**row, "hex": change(bytes.fromhex(row["hex"])).hex()}


def frames(name: str, change: Callable[[int, bytes], bytes]) -> RowsChange:
    """Change the bytes of the requests with a name, given the index among them."""
    return named(name, lambda rows: [change_frame(row, partial(change, at)) for at, row in enumerate(rows)])


SIZE, VERSION = 0, 2


def start_number(field: int, change: Callable[[int], int]) -> Callable[[bytes], bytes]:
    """Return a change of SIZE or VERSION at the start of a request."""

    def changed(data: bytes) -> bytes:
        numbers = [*START.unpack_from(data)]
        numbers[field] = change(numbers[field])
        return START.pack(*numbers) + data[START.size :]

    return changed


def in_version(name: str, version: int) -> RowsChange:
    """Write another version into the headers of the requests with a name."""
    return frames(name, lambda _, data: start_number(VERSION, lambda _: version)(data))


def with_body(row: Values, change: Callable[[Values], Values], version: int | None = None) -> Values:
    """Change fields in the body of a request, in another version if given."""
    data = bytes.fromhex(row["hex"])
    wire = frame_wire(data)
    assert wire is not None
    whole = codec.decode(wire, data).value
    body, header = {**whole["Body"], **change(whole["Body"])}, whole["Header"]
    if version is not None:
        header, wire = {**header, "RequestApiVersion": version}, wire_in(api_of(data), version)
    return {**row, "hex": wire.encode({"Header": header, "Body": body}).hex()}


def bodies(name: str, change: Callable[[int, Values], Values], version: int | None = None) -> RowsChange:
    """Change fields in the bodies of the requests with a name, given the index among them."""
    return named(name, lambda rows: [with_body(row, partial(change, at), version) for at, row in enumerate(rows)])


def _in_each(array: str, change: Callable[[Values], Values]) -> Callable[[Values], Values]:
    """Change fields of each element of an array of structures."""
    return lambda parent: {array: tuple({**one, **change(one)} for one in parent[array])}


def partitions(change: Callable[[int], Values]) -> Callable[[int, Values], Values]:
    """Change fields of each partition in a body, given the index of the request."""
    return lambda at, body: _in_each("Topics", _in_each("Partitions", lambda _: change(at)))(body)


def element_fields(array: str, change: Callable[[Values], Values]) -> Callable[[int, Values], Values]:
    """Change fields of each element of an array in a body."""
    return lambda _, body: _in_each(array, change)(body)


def fetches_at(*offsets: int) -> RowsChange:
    """Fetch from these offsets."""
    return named(
        "Fetch",
        lambda rows: [
            with_body(rows[0], partial(partitions(lambda _, offset=offset: {"FetchOffset": offset}), 0))  # type: ignore[misc]
            for offset in offsets
        ],
    )


def produced(change: Callable[[int, bytes], bytes]) -> RowsChange:
    """Write other batches, given the index of the Produce request."""

    def changed(at: int, body: Values) -> Values:
        records = _in_each("PartitionData", lambda part: {"Records": change(at, part["Records"] or b"")})
        return _in_each("TopicData", records)(body)

    return bodies("Produce", changed)


def header_number(name: str, change: Callable[[int, int], int]) -> Callable[[int, bytes], bytes]:
    """Return a change of a number in the header of a batch, given the index of the request and the number."""

    def changed(at: int, data: bytes) -> bytes:
        return BATCH_LAYOUT.with_field(name, data, change(at, BATCH_LAYOUT.read_field(name, data)))

    return lambda at, data: with_checksums(changed(at, data)) if data else data


# --- brokers ------------------------------------------------------------------------------------------


def with_broker(broker: Callable[[], ReferenceBroker]) -> Mutator:
    """Run the steps of a broker scenario on another broker."""
    return on("scenario")(
        lambda request, answer: {
            **answer,
            "value": [msgspec.to_builtins(result) for result in broker().play(parsed_steps(request["steps"]))],
        }
    )


def change_other_partitions(result: Callable[[Request], Values]) -> Mutator:
    """Return another result for the other partitions of a Produce request."""
    return on("append", when=lambda request, _: "otherPartitions" in request)(
        lambda request, answer: {**answer, "value": {**answer["value"], "otherPartitions": [result(request)] * OTHERS}}
    )


def store_max_timestamp(time: int, when: Condition | None = None) -> Mutator:
    """Store batches with another maxTimestamp."""

    @on("append", when=when)
    def mutate(_: Request, answer: Answer) -> Answer:
        data = bytes.fromhex(answer["hex"])
        if stored_magic(data) < BATCHES:
            return answer
        return {**answer, "hex": with_checksums(BATCH_LAYOUT.with_field("maxTimestamp", data, time)).hex()}

    return mutate
