"""Defects of producers: what they write, and do not write, while a broker leads the scenario."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from functools import partial

from conformance import codec
from conformance.cases.client_scenarios import MAX_VERSION_WITHOUT_TV2
from conformance.cases.model import Answer, Request
from conformance.codec.compression import CODEC_NAMES
from conformance.codec.derived_fields import Values
from conformance.codec.legacy_message import LAYOUTS, message_with_checksums
from conformance.codec.message_set import encode_set
from conformance.selftest.known_faults.consumers import client
from conformance.selftest.request_mutators import batches, bodies, each, in_version, sent, with_number
from conformance.selftest.requirement_mutators import change_bytes
from conformance.selftest.seeded_fault import SeededFault


def _messages_with(change: Callable[[Values], Values]) -> Callable[[int, bytes], bytes]:
    """A set of the same messages with other fields."""
    return lambda _, data: encode_set([{**one, **change(one)} for one in codec.decode("MESSAGE_SET", data).value], 1, 0)


def _of_append_time(_: int, data: bytes) -> bytes:
    """The first message of a set alone, which says that the broker gave its time."""
    alone = encode_set(codec.decode("MESSAGE_SET", data).value[:1], 1, 0)
    at = LAYOUTS[1].offset("attributes")
    return message_with_checksums(alone[:at] + bytes([_APPEND_TIME]) + alone[at + 1 :])


def _is_of_gzip(request: Request, _: Answer) -> bool:
    return bool(request.get("magic") == 1 and request.get("compression") == "gzip")


_APPEND_TIME = 8
"""The bit of the attributes that says so."""


def _counted_from_one(_: int, data: bytes) -> bytes:
    """A set of messages as a wrapper of gzip in which the inner offsets begin at 1."""
    messages = codec.decode("MESSAGE_SET", data).value
    inner = [{**one, "offset": 1 + at} for at, one in enumerate(messages)]
    payload = gzip.compress(encode_set(inner, 1, 0), mtime=0)
    plain = encode_set([{**messages[-1], "key": None, "value": payload}], 1, 0)
    at = LAYOUTS[1].offset("attributes")
    return message_with_checksums(plain[:at] + bytes([CODEC_NAMES.index("gzip")]) + plain[at + 1 :])


PRODUCERS = (
    client(
        "gives-up-what-was-refused",
        "response.error-for-the-moment",
        "a producer does not write again what was refused for the moment",
        sent(each("Produce", lambda rows: rows[:1]), "retried", "writes-on", "retried-unchanged"),
    ),
    client(
        "writes-the-first-batch-alone",
        "request.any-name",
        "a producer writes the first batch, once more where it was refused, and no other",
        sent(each("Produce", lambda rows: rows[:2]), "writes", "retried", "retried-unchanged"),
    ),
    client(
        "writes-of-epoch-zero",
        "base-sequence.assigned-by-producer",
        "an idempotent producer writes in epoch 0, whichever the broker gave it",
        sent(batches(with_number("producerEpoch", lambda _, __: 0)), "sequence-numbers"),
    ),
    client(
        "counts-batches",
        "base-sequence.assigned-by-producer",
        "an idempotent producer counts its batches instead of the records in them",
        sent(batches(with_number("baseSequence", lambda at, _: max(0, at - 1))), "sequence-numbers"),
    ),
    client(
        "goes-on-without-what-was-refused",
        "producer.one-sequence-one-batch",
        "a producer sends on, and never again what was refused",
        sent(each("Produce", lambda rows: [rows[0], *rows[2:]]), "no-loss"),
    ),
    client(
        "commits-what-is-aborted",
        "producer.transaction-whole",
        "a producer commits the transactions that the application aborts",
        sent(bodies("EndTxn", lambda _, __: {"Committed": True}), "transaction-complete"),
    ),
    client(
        "leaves-a-gap-between-transactions",
        "producer.transaction-whole",
        "a producer counts a record more at the end of each transaction",
        sent(batches(with_number("baseSequence", lambda at, first: first + at)), "transaction-complete"),
    ),
    client(
        "begins-each-transaction-at-zero",
        "producer.transaction-whole",
        "a producer begins each transaction at sequence 0, in the same epoch",
        sent(batches(with_number("baseSequence", lambda _, __: 0)), "transaction-complete"),
    ),
    client(
        "goes-on-in-the-epoch-before",
        "producer.transaction-whole",
        "a producer writes its next transaction in the epoch in front of the one that the answer to EndTxn told",
        sent(batches(with_number("producerEpoch", lambda at, epoch: epoch - min(at, 1))), "transaction-complete"),
    ),
    client(
        "does-not-end-again",
        "response.error-for-the-moment",
        "a producer does not ask for the end of a transaction again that the broker puts off",
        sent(each("EndTxn", lambda rows: rows[:1]), "ended-again"),
    ),
    client(
        "ends-without-its-batches",
        "response.error-for-the-moment",
        "a producer drops what it has to write in a transaction that the broker is too busy for",
        sent(each("Produce", lambda _: []), "ended"),
    ),
    client(
        "aborts-what-was-put-off",
        "response.error-for-the-moment",
        "a producer aborts a transaction that the broker was too busy for, though the application commits it",
        sent(bodies("EndTxn", lambda _, __: {"Committed": False}), "ended"),
    ),
    client(
        "adds-partitions-as-brokers-do",
        "https://github.com/twmb/franz-go/issues/609",
        "a producer adds partitions to its transaction in the highest version that is offered, which is for brokers",
        sent(
            in_version("AddPartitionsToTxn", MAX_VERSION_WITHOUT_TV2["AddPartitionsToTxn"] + 1), "transaction-version"
        ),
        "producer.transaction-by-feature",
    ),
    client(
        "produces-for-a-newer-kind-of-transaction",
        "producer.transaction-by-feature",
        "a producer writes in the version of Produce that adds partitions by itself, to a broker that tells of none",
        sent(in_version("Produce", MAX_VERSION_WITHOUT_TV2["Produce"] + 1), "transaction-version"),
    ),
    client(
        "inner-offsets-from-one",
        "producer.messages-to-older-broker",
        "a producer counts the messages in a wrapper from 1",
        sent(batches(_counted_from_one), "in-messages"),
        "legacy.compressed-inner-offsets-from-zero",
    ),
    client(
        "gives-messages-an-earlier-time",
        "producer.messages-to-older-broker",
        "a producer of messages gives them another time than the application",
        sent(batches(_messages_with(lambda one: {"timestamp": one["timestamp"] - 1000})), "in-messages"),
    ),
    client(
        "says-that-the-broker-gave-the-time",
        "legacy.producer-timestamp-type-zero",
        "a producer of messages sets the bit for the time of the broker",
        sent(batches(_of_append_time), "in-messages"),
        "producer.messages-to-older-broker",
    ),
    client(
        "cuts-the-last-message",
        "producer.messages-to-older-broker",
        "a producer leaves out the last byte of a set of messages",
        sent(batches(lambda _, data: data[:-1]), "in-messages"),
    ),
    client(
        "writes-a-message-less",
        "producer.messages-to-older-broker",
        "a producer of messages loses the last one",
        sent(batches(lambda _, data: encode_set(codec.decode("MESSAGE_SET", data).value[:-1], 1, 0)), "in-messages"),
    ),
    SeededFault(
        "known/writes-inner-offsets-from-one",
        area="message sets",
        description="a writer counts the messages in a wrapper from 1",
        source="legacy.compressed-inner-offsets-from-zero",
        mutate=change_bytes("MESSAGE_SET", partial(_counted_from_one, 0), _is_of_gzip),
        try_first=("legacy.compressed-inner-offsets-from-zero",),
    ),
)
"""Defects of producers."""
