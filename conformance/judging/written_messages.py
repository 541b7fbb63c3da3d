"""Judges the messages of magic 0 and 1 that a client writes to a broker which knows no batches."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count

from conformance import codec
from conformance.cases.client_requests import written_for
from conformance.cases.model import PASSED, Kind, Value, Verdict
from conformance.codec.log import extents
from conformance.codec.record_batch import stored_magic
from conformance.judging.sent_requests import RECORDS, at, body_in


def in_messages(requests: Sequence[Value]) -> Verdict:
    """Judge what is written to a broker that knows no batches: sound sets of messages, with all that was given."""
    due = {
        (record["key"], record["value"]): record["timestamp"] for record in written_for("messages-none")[0]["records"]
    }
    found: set[tuple[bytes, bytes]] = set()
    index = 0
    for index, request in enumerate(requests):
        body = body_in(request["hex"], "Produce") or {"TopicData": ()}
        for data in [part["Records"] or b"" for row in body["TopicData"] for part in row["PartitionData"]]:
            flaw, messages = _flaw_of_messages(data)
            if flaw is not None:
                return at(index, flaw)
            for message in messages:
                name = message["key"], message["value"]
                if name not in due or (message["magic"] and message["timestamp"] < due[name]):
                    return at(index, Verdict(Kind.FAIL, "a message is written that nobody gave", RECORDS))
                found.add(name)
    if not requests:
        return Verdict(Kind.SKIP, "unobserved: nothing was written")
    detail = f"{len(found)} of {len(due)} records are written"
    return PASSED if len(found) == len(due) else at(index, Verdict(Kind.FAIL, detail, RECORDS))


_APART = 20
"""Bits of the offsets of messages in one entry at most."""


def _flaw_of_messages(data: bytes) -> tuple[Verdict | None, Sequence[Value]]:
    """What is wrong with a set of messages as a producer writes it, if anything, and the messages.

    The offsets of its entries are free: a broker gives them others, as is done here.
    """
    if any(stored_magic(data, start) > 1 for start, _ in extents(data)):
        return Verdict(Kind.FAIL, "a batch is written, where messages alone are known", RECORDS), ()
    given = ((place << _APART).to_bytes(8, "big") for place in count(1))
    kept = (offset + data[start + 8 : end] for offset, (start, end) in zip(given, extents(data), strict=False))
    read = codec.decode("LOG", b"".join(kept), trail=True)
    for rank, broken in (("", read.violations), ("should", read.remarks)):
        if broken:
            return Verdict(Kind.FAIL, f"no set of messages: {broken[0]}", RECORDS, broken[0].requirement, rank), ()
    entries = read.value["batches"]
    if read.value["partial"]:
        return Verdict(Kind.FAIL, "the last message is cut off", RECORDS), ()
    inner = {span.path: span.value for span in read.spans or ()}
    for place, entry in enumerate(entries):
        counted = [
            inner.get(f"batches[{place}].value[{number}].offset", number) for number in range(len(entry["messages"]))
        ]
        if entry["magic"] and counted != [*range(len(counted))]:
            rule = "legacy.compressed-inner-offsets-from-zero"
            return Verdict(Kind.FAIL, f"the offsets in a wrapper are {counted}, not 0 and on", RECORDS, rule), ()
    messages = [message for entry in entries for message in entry["messages"]]
    if any(message.get("timestampType") for message in messages):
        rule = "legacy.producer-timestamp-type-zero"
        return Verdict(Kind.FAIL, "a producer says that the broker gave the time", RECORDS, rule), ()
    return None, messages
