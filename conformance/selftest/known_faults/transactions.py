"""Defects met in the field in what a consumer makes of transactions and their markers."""

from __future__ import annotations

from functools import partial

from conformance.cases.model import Value
from conformance.codec.derived_fields import Values
from conformance.selftest.codec_mutators import (
    Function,
    wrong,
)
from conformance.selftest.seeded_fault import SeededFault

_HIDES = "semantics.consumer_view._AbortedTransactionFilter.is_aborted"
_ADDS = "semantics.consumer_view._ConsumerViewBuilder._add_batch"


# --- transactions -------------------------------------------------------------------------------------


def _hides_any_producer(right: Function) -> Function:
    """Inside an aborted transaction of somebody, hide the transactional batches of everybody."""

    def hides(self: Value, batch: Values, at: int, remarks: list[Value]) -> bool:
        hidden = right(self, batch, at, remarks)
        return bool(hidden or (batch["isTransactional"] and not batch["isControlBatch"] and self._active))

    return hides


def _refuses_unlisted_abort(right: Function) -> Function:
    """Die of an ABORT of a producer that is not in the list."""

    def hides(self: Value, batch: Values, at: int, remarks: list[Value]) -> bool:
        self._activate(batch["baseOffset"])
        if batch["isControlBatch"] and _type_of(batch) == 0 and batch["producerId"] not in self._active:
            raise IndexError("pop from an empty list")
        return bool(right(self, batch, at, remarks))

    return hides


def _abort_ends_any(right: Function) -> Function:
    """Take the next transaction of the list as ended at any ABORT."""

    def hides(self: Value, batch: Values, at: int, remarks: list[Value]) -> bool:
        hidden = right(self, batch, at, remarks)
        if batch["isControlBatch"] and _type_of(batch) == 0 and self._coming:
            self._coming.pop(0)
        return bool(hidden)

    return hides


def _begins_after_its_marker(right: Function) -> Function:
    """Look at the list only after a marker, so that a transaction which is only its marker never ends."""

    def hides(self: Value, batch: Values, at: int, remarks: list[Value]) -> bool:
        if not batch["isControlBatch"]:
            return bool(right(self, batch, at, remarks))
        self._active.pop(batch["producerId"], None)
        self._activate(batch["baseOffset"])
        return False

    return hides


def _hides_by_producer(right: Function) -> Function:
    """Hide every batch of a producer with an aborted transaction, also those that are not transactional."""

    def hides(self: Value, batch: Values, at: int, remarks: list[Value]) -> bool:
        hidden = right(self, batch, at, remarks)
        return bool(hidden or (not batch["isControlBatch"] and batch["producerId"] in self._active))

    return hides


def _any_marker_ends(right: Function) -> Function:
    """Take every batch with the control bit as the end of the transaction, before looking whether it is hidden."""

    def hides(self: Value, batch: Values, at: int, remarks: list[Value]) -> bool:
        hidden = right(self, batch, at, remarks)
        if batch["isControlBatch"]:
            self._active.clear()
        return bool(hidden)

    return hides


def _type_of(batch: Values) -> int:
    """The type of a marker; -1 where it has no record."""
    key = batch["records"][0]["key"] if batch["records"] else b""
    return int.from_bytes(key[2:4], "big") if key and len(key) >= 4 else -1


def _needs_a_record(right: Function) -> Function:
    """Read the type of a marker from its first record, be there one or not."""
    return lambda batch: right(batch) if batch["records"][0] else None


def _type_of_value(right: Function) -> Function:
    """Read the type of a marker from its value, whose first bytes are a version."""
    del right
    return lambda batch: int.from_bytes((batch["records"][0]["value"] or b"\0\0")[:2], "big") if batch["records"] else 1


def _version_for_type(right: Function) -> Function:
    """Read the type of a marker from the first two bytes of its key, where the version stands."""
    del right
    return lambda batch: int.from_bytes((batch["records"][0]["key"] or b"")[:2], "big") if batch["records"] else None


def _type_in_one_byte(right: Function) -> Function:
    """Read the type of a marker from the last byte of its key."""
    del right
    return lambda batch: ((batch["records"][0]["key"] or b"\1")[-1]) if batch["records"] else None


def _shows_markers_uncommitted(right: Function) -> Function:
    """Hide markers under read_committed alone."""

    def add(self: Value, entry: Value) -> None:
        if self.transactions is not None:
            right(self, entry)
        else:
            right(self, _WithoutControlBit(entry))

    return add


class _WithoutControlBit:
    """An entry whose batch does not say that it is a control batch."""

    def __init__(self, entry: Value) -> None:
        self.start = entry.start
        self.value = {**entry.value, "isControlBatch": False}


_one = partial(SeededFault, area="logs")
_PLATFORMATIC = "https://github.com/platformatic/kafka"
_KAFKA = "https://github.com/apache/kafka"

TRANSACTIONS = (
    _one(
        "known/hides-other-producers",
        description="a reader hides the committed transaction of another producer too",
        source="https://github.com/confluentinc/librdkafka/issues/3020",
        mutate=wrong(_HIDES, _hides_any_producer, "read"),
    ),
    _one(
        "known/first-marker-is-the-abort",
        description="a reader takes any marker as the ABORT",
        source="https://github.com/kafka4beam/brod/pull/659",
        mutate=wrong(_HIDES, _any_marker_ends, "read"),
    ),
    _one(
        "known/dies-of-unlisted-abort",
        description="a reader fails at an ABORT whose transaction is not in the list",
        source=f"{_PLATFORMATIC}/issues/391",
        mutate=wrong(_HIDES, _refuses_unlisted_abort, "read"),
    ),
    _one(
        "known/abort-uses-up-another",
        description="a reader uses up the entry of another transaction for the ABORT of an empty one",
        source="https://github.com/confluentinc/librdkafka/pull/3369",
        mutate=wrong(_HIDES, _abort_ends_any, "read"),
    ),
    _one(
        "known/transaction-of-a-marker",
        description="a reader hides later records because of a transaction that is only its marker",
        source="https://github.com/confluentinc/librdkafka/pull/2498",
        mutate=wrong(_HIDES, _begins_after_its_marker, "read"),
    ),
    _one(
        "known/markers-shown-uncommitted",
        description="a reader hides markers under read_committed alone",
        source=f"{_PLATFORMATIC}/pull/393",
        mutate=wrong(_ADDS, _shows_markers_uncommitted, "read"),
    ),
    _one(
        "known/emptied-marker",
        description="a reader reads the first record of a marker that compaction emptied",
        source=f"{_KAFKA}/pull/5727",
        mutate=wrong("semantics.consumer_view._marker", _needs_a_record, "read"),
    ),
    _one(
        "pair/aborted-and-plain-of-a-producer",
        description="a reader hides batches that are not transactional, inside an aborted transaction of the producer",
        source="consumer.filters-aborted",
        mutate=wrong(_HIDES, _hides_by_producer, "read"),
    ),
    _one(
        "pair/marker-type-from-its-value",
        description="a reader takes the type of a marker from its value",
        source="control.value-opaque",
        mutate=wrong("semantics.consumer_view._marker", _type_of_value, "read"),
    ),
    _one(
        "pair/marker-version-for-type",
        description="a reader takes the version in a marker's key for its type",
        source="control.key-layout",
        mutate=wrong("semantics.consumer_view._marker", _version_for_type, "read"),
        survives_because="It takes each marker for an ABORT; other markers inside an aborted transaction are open.",
    ),
    _one(
        "pair/marker-type-in-the-last-byte",
        description="a reader takes the last byte of a marker's key for its type, whatever the length of the key",
        source="control.key-layout",
        mutate=wrong("semantics.consumer_view._marker", _type_in_one_byte, "read"),
        survives_because="It differs only where a key is longer than four bytes, and what those mean is open.",
    ),
)
"""Defects of readers of transactions."""
