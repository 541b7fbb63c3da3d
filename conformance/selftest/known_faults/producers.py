"""Faults of producers: wrong or missing requests in a client scenario."""

from __future__ import annotations

import gzip
from functools import partial

from conformance import codec
from conformance.cases.client_scenarios import MAX_VERSION_WITHOUT_TV2
from conformance.cases.model import Answer, Request
from conformance.codec.compression import CODEC_NAMES
from conformance.codec.derived_fields import Values
from conformance.codec.legacy_message import LAYOUTS, message_with_checksums
from conformance.codec.message_set import encode_set
from conformance.selftest.known_faults.consumers import client
from conformance.selftest.mutators import change_bytes, put
from conformance.selftest.mutators.requests import (
    bodies,
    change_requests,
    header_number,
    in_version,
    named,
    produced,
)
from conformance.selftest.seeded_fault import SeededFault


def _messages(data: bytes) -> list[Values]:
    return list(codec.decode("MESSAGE_SET", data).value)


def _earlier_timestamps(_: int, data: bytes) -> bytes:
    return encode_set([{**one, "timestamp": one["timestamp"] - 1000} for one in _messages(data)], 1, 0)


def _with_attributes(attributes: int, data: bytes) -> bytes:
    """Return a message set (one message of magic 1) with other attributes and a correct checksum."""
    return message_with_checksums(put(LAYOUTS[1].offset("attributes"), bytes([attributes]))(data))


def _with_append_time(_: int, data: bytes) -> bytes:
    """Return a set of only the first message, with the attribute bit of LogAppendTime."""
    return _with_attributes(_APPEND_TIME, encode_set(_messages(data)[:1], 1, 0))


def _is_gzip(request: Request, _: Answer) -> bool:
    return bool(request.get("magic") == 1 and request.get("compression") == "gzip")


_APPEND_TIME = 8


def _inner_offsets_from_one(_: int, data: bytes) -> bytes:
    """Return a gzip wrapper of the messages; its inner offsets start at 1 instead of 0."""
    messages = _messages(data)
    inner = [{**one, "offset": 1 + at} for at, one in enumerate(messages)]
    payload = gzip.compress(encode_set(inner, 1, 0), mtime=0)
    plain = encode_set([{**messages[-1], "key": None, "value": payload}], 1, 0)
    return _with_attributes(CODEC_NAMES.index("gzip"), plain)


PRODUCERS = (
    client(
        "gives-up-what-was-refused",
        "response.error-for-the-moment",
        "a producer does not retry a batch after a retriable error",
        change_requests(named("Produce", lambda rows: rows[:1]), "retried", "writes-on", "retried-unchanged"),
    ),
    client(
        "writes-the-first-batch-alone",
        "request.any-name",
        "a producer writes only the first batch, with one retry",
        change_requests(named("Produce", lambda rows: rows[:2]), "writes", "retried", "retried-unchanged"),
    ),
    client(
        "writes-of-epoch-zero",
        "base-sequence.assigned-by-producer",
        "an idempotent producer writes in epoch 0, whatever the broker assigned",
        change_requests(produced(header_number("producerEpoch", lambda _, __: 0)), "sequence-numbers"),
    ),
    client(
        "counts-batches",
        "base-sequence.assigned-by-producer",
        "an idempotent producer counts batches instead of records",
        change_requests(produced(header_number("baseSequence", lambda at, _: max(0, at - 1))), "sequence-numbers"),
    ),
    client(
        "goes-on-without-what-was-refused",
        "producer.one-sequence-one-batch",
        "a producer continues and never retries the rejected batch",
        change_requests(named("Produce", lambda rows: [rows[0], *rows[2:]]), "no-loss"),
    ),
    client(
        "commits-what-is-aborted",
        "producer.transaction-whole",
        "a producer commits transactions that the application aborts",
        change_requests(bodies("EndTxn", lambda _, __: {"Committed": True}), "transaction-complete"),
    ),
    client(
        "leaves-a-gap-between-transactions",
        "producer.transaction-whole",
        "a producer skips a sequence number after each transaction",
        change_requests(produced(header_number("baseSequence", lambda at, first: first + at)), "transaction-complete"),
    ),
    client(
        "begins-each-transaction-at-zero",
        "producer.transaction-whole",
        "a producer starts each transaction at sequence 0, in the same epoch",
        change_requests(produced(header_number("baseSequence", lambda _, __: 0)), "transaction-complete"),
    ),
    client(
        "goes-on-in-the-epoch-before",
        "producer.transaction-whole",
        "a producer writes its next transaction in the epoch before that of the EndTxn response",
        change_requests(
            produced(header_number("producerEpoch", lambda at, epoch: epoch - min(at, 1))), "transaction-complete"
        ),
    ),
    client(
        "does-not-end-again",
        "response.error-for-the-moment",
        "a producer does not retry EndTxn after a retriable error",
        change_requests(named("EndTxn", lambda rows: rows[:1]), "ended-again"),
    ),
    client(
        "ends-without-its-batches",
        "response.error-for-the-moment",
        "a producer drops the batches of a transaction after a retriable error",
        change_requests(named("Produce", lambda _: []), "ended"),
    ),
    client(
        "aborts-what-was-put-off",
        "response.error-for-the-moment",
        "a producer aborts a transaction after a retriable error, though the application commits it",
        change_requests(bodies("EndTxn", lambda _, __: {"Committed": False}), "ended"),
    ),
    client(
        "adds-partitions-as-brokers-do",
        "https://github.com/twmb/franz-go/issues/609",
        "a producer adds partitions in the highest offered version, which is for brokers",
        change_requests(
            in_version("AddPartitionsToTxn", MAX_VERSION_WITHOUT_TV2["AddPartitionsToTxn"] + 1), "transaction-version"
        ),
        "producer.transaction-by-feature",
    ),
    client(
        "produces-for-a-newer-kind-of-transaction",
        "producer.transaction-by-feature",
        "a producer uses the Produce version of transactions V2, though the broker does not support them",
        change_requests(in_version("Produce", MAX_VERSION_WITHOUT_TV2["Produce"] + 1), "transaction-version"),
    ),
    client(
        "inner-offsets-from-one",
        "producer.messages-to-older-broker",
        "a producer counts the messages in a wrapper from 1",
        change_requests(produced(_inner_offsets_from_one), "in-messages"),
        "legacy.compressed-inner-offsets-from-zero",
    ),
    client(
        "gives-messages-an-earlier-time",
        "producer.messages-to-older-broker",
        "a producer of messages writes other timestamps than the application's",
        change_requests(produced(_earlier_timestamps), "in-messages"),
    ),
    client(
        "says-that-the-broker-gave-the-time",
        "legacy.producer-timestamp-type-zero",
        "a producer of messages sets the attribute bit of LogAppendTime",
        change_requests(produced(_with_append_time), "in-messages"),
        "producer.messages-to-older-broker",
    ),
    client(
        "cuts-the-last-message",
        "producer.messages-to-older-broker",
        "a producer omits the last byte of a message set",
        change_requests(produced(lambda _, data: data[:-1]), "in-messages"),
    ),
    client(
        "writes-a-message-less",
        "producer.messages-to-older-broker",
        "a producer of messages loses the last one",
        change_requests(produced(lambda _, data: encode_set(_messages(data)[:-1], 1, 0)), "in-messages"),
    ),
    SeededFault(
        "known/writes-inner-offsets-from-one",
        area="message sets",
        description="a writer counts the messages in a wrapper from 1",
        source="legacy.compressed-inner-offsets-from-zero",
        mutate=change_bytes("MESSAGE_SET", partial(_inner_offsets_from_one, 0), _is_gzip),
        try_first=("legacy.compressed-inner-offsets-from-zero",),
    ),
)
