"""Defects met in the field in how a log is cut into entries: their magics, and the one that is cut off."""

from __future__ import annotations

from functools import partial
from itertools import pairwise

from conformance.codec.derived_fields import Values
from conformance.selftest.codec_mutators import (
    Log,
    entries_of,
    fail_at_cut_tail,
    is_batch,
    stop_at_entry,
)
from conformance.selftest.seeded_fault import SeededFault


def _magic(entry: Values) -> int:
    return int(entry["magic"])


def _falls(log: Log, at: int) -> bool:
    return at > 0 and _magic(log[at]) < _magic(log[at - 1])


def _changes_twice(log: Log, at: int) -> bool:
    magics = [_magic(entry) for entry in log[: at + 1]]
    return sum(one != other for one, other in pairwise(magics)) > 1


def _other_after_wrapper(log: Log, at: int) -> bool:
    return at > 0 and not is_batch(log[at - 1]) and log[at - 1]["compression"] != "none" and is_batch(log[at])


_one = partial(SeededFault, area="logs")
_KAFKA_GO = "https://github.com/segmentio/kafka-go"
_KAFKAJS = "https://github.com/tulios/kafkajs"
_SARAMA = "https://github.com/IBM/sarama"

MAGICS = (
    _one(
        "known/magic-of-the-first",
        description="a reader takes the magic of the first entry for all",
        source="https://github.com/zendesk/ruby-kafka/issues/696",
        mutate=stop_at_entry(lambda log, at: _magic(log[at]) != _magic(log[0])),
    ),
    _one(
        "known/magic-only-rises",
        description="a reader expects the magic only to rise",
        source=f"{_KAFKA_GO}/pull/753",
        mutate=stop_at_entry(_falls),
    ),
    _one(
        "known/magic-changes-once",
        description="a reader expects one change of magic, and a cluster being upgraded writes several",
        source=f"{_KAFKAJS}/pull/246",
        mutate=stop_at_entry(_changes_twice),
    ),
    _one(
        "known/wrapper-then-batch",
        description="a reader takes the wrapper as the whole log, or its magic for the batch behind it",
        source=f"{_KAFKA_GO}/pull/753",
        mutate=stop_at_entry(_other_after_wrapper),
    ),
    _one(
        "known/magic-0-unknown",
        description="a reader does not know magic 0, as in logs from before 0.10",
        source=f"{_KAFKAJS}/pull/143",
        mutate=stop_at_entry(lambda log, at: _magic(log[at]) == 0),
    ),
    _one(
        "known/magic-1-unknown",
        description="a reader does not know magic 1, as in logs from before 0.11",
        source=f"{_SARAMA}/issues/988",
        mutate=stop_at_entry(lambda log, at: _magic(log[at]) == 1),
    ),
)

_DIES = {"crash": "IndexError: index out of range"}


def _magic_at(data: bytes, left: int) -> int:
    """The magic of the entry that is cut off; -1 where it is not there."""
    return data[len(data) - left + 16] if left > 16 else -1


def _follows_a_marker(data: bytes, _: int) -> bool:
    log = entries_of(data.hex())
    return bool(log and log[-1].get("isControlBatch"))


TAILS = (
    _one(
        "known/cut-first-byte",
        description="a reader takes the first byte of a cut entry as an error",
        source="https://github.com/Parsely/pykafka/issues/155",
        mutate=fail_at_cut_tail(lambda _, left: left == 1),
    ),
    _one(
        "known/cut-before-its-size",
        description="a reader reads the size of a cut entry past the end of the bytes",
        source="https://github.com/jdamick/kafka/pull/9",
        mutate=fail_at_cut_tail(lambda _, left: left < 12, _DIES),
    ),
    _one(
        "known/cut-before-its-magic",
        description="a reader looks for the magic of a cut entry past the end of the bytes",
        source=f"{_SARAMA}/pull/1030",
        mutate=fail_at_cut_tail(lambda _, left: 12 <= left < 17, _DIES),
    ),
    _one(
        "known/cut-after-its-size",
        description="a reader takes an entry cut after its size as an error",
        source=f"{_SARAMA}/pull/1030",
        mutate=fail_at_cut_tail(lambda _, left: left == 12),
    ),
    _one(
        "known/cut-message",
        description="a reader takes a cut message as an error",
        source="https://github.com/zendesk/ruby-kafka/issues/133",
        mutate=fail_at_cut_tail(lambda data, left: _magic_at(data, left) in (0, 1)),
    ),
    _one(
        "known/cut-batch",
        description="a reader takes the cut last batch, with which a fetch may end, as an error",
        source=f"{_SARAMA}/pull/998",
        mutate=fail_at_cut_tail(lambda data, left: _magic_at(data, left) == 2),
    ),
    _one(
        "known/cut-batch-with-its-header",
        description="a reader takes a batch cut behind its header as an error",
        source="https://github.com/optiopay/kafka/pull/110",
        mutate=fail_at_cut_tail(lambda data, left: left >= 61 and _magic_at(data, left) == 2),
    ),
    _one(
        "known/cut-batch-decompressed",
        description="a reader decompresses the part of a cut batch that is there",
        source=f"{_KAFKAJS}/pull/182",
        mutate=fail_at_cut_tail(
            lambda data, left: left > 61 and _magic_at(data, left) == 2 and data[len(data) - left + 22] & 7 != 0
        ),
    ),
    _one(
        "known/cut-wrapper-opened",
        description="a reader unpacks a compressed message that is cut off",
        source="https://github.com/kafka-rust/kafka-rust/issues/154",
        mutate=fail_at_cut_tail(
            lambda data, left: left > 17 and _magic_at(data, left) in (0, 1) and data[len(data) - left + 17] & 7 != 0
        ),
    ),
    _one(
        "known/nothing-but-a-cut-message",
        description="a reader takes a set with only a cut message as an error",
        source="https://github.com/okapies/finagle-kafka/issues/3",
        mutate=fail_at_cut_tail(lambda data, left: left == len(data)),
    ),
    _one(
        "known/cut-batch-after-messages",
        description="a reader takes a cut batch after old messages as an error",
        source=f"{_SARAMA}/issues/962",
        mutate=fail_at_cut_tail(lambda data, left: left < len(data) and data[16] < 2 and _magic_at(data, left) == 2),
    ),
    _one(
        "pair/cut-after-a-marker",
        description="a reader fails at a cut entry behind a control batch",
        source="batch.length-wrong-rejected",
        mutate=fail_at_cut_tail(_follows_a_marker),
    ),
)
"""Defects at an entry that is cut off."""
