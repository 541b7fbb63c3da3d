"""Faults of real software in how a consumer handles transactions and their markers."""

from __future__ import annotations

from functools import partial

from conformance.cases.model import Value
from conformance.codec.derived_fields import Values
from conformance.selftest.mutators import Function, Mutator, replace_function
from conformance.selftest.seeded_fault import SeededFault

_VIEW = "semantics.consumer_view"


def _hides(is_hidden: Function) -> Mutator:
    """Replace the function that finds the batches of aborted transactions."""
    return replace_function(f"{_VIEW}._AbortedTransactionFilter.is_aborted", is_hidden, "read")


def _marker_type(read: Function) -> Mutator:
    """Replace the function that reads the type of a marker."""
    return replace_function(f"{_VIEW}._marker", read, "read")


def _hides_any_producer(original: Function, self: Value, batch: Values, at: int, remarks: list[Value]) -> bool:
    """Hide the transactional batches of all producers inside any aborted transaction."""
    is_hidden = original(self, batch, at, remarks)
    return bool(is_hidden or (batch["isTransactional"] and not batch["isControlBatch"] and self._active))


def _crashes_at_unlisted_abort(original: Function, self: Value, batch: Values, at: int, remarks: list[Value]) -> bool:
    self._activate(batch["baseOffset"])
    if _is_abort(batch) and batch["producerId"] not in self._active:
        raise IndexError("pop from an empty list")
    return bool(original(self, batch, at, remarks))


def _abort_ends_any(original: Function, self: Value, batch: Values, at: int, remarks: list[Value]) -> bool:
    """Remove the next transaction from the list at any ABORT."""
    is_hidden = original(self, batch, at, remarks)
    if _is_abort(batch) and self._coming:
        self._coming.pop(0)
    return bool(is_hidden)


def _begins_after_its_marker(original: Function, self: Value, batch: Values, at: int, remarks: list[Value]) -> bool:
    """Read the list only after a marker. A transaction that has only a marker then never ends."""
    if not batch["isControlBatch"]:
        return bool(original(self, batch, at, remarks))
    self._active.pop(batch["producerId"], None)
    self._activate(batch["baseOffset"])
    return False


def _hides_by_producer(original: Function, self: Value, batch: Values, at: int, remarks: list[Value]) -> bool:
    """Hide every batch of a producer with an aborted transaction, also batches outside transactions."""
    is_hidden = original(self, batch, at, remarks)
    return bool(is_hidden or (not batch["isControlBatch"] and batch["producerId"] in self._active))


def _any_marker_ends(original: Function, self: Value, batch: Values, at: int, remarks: list[Value]) -> bool:
    """End all transactions at any control batch."""
    is_hidden = original(self, batch, at, remarks)
    if batch["isControlBatch"]:
        self._active.clear()
    return bool(is_hidden)


def _is_abort(batch: Values) -> bool:
    key = batch["records"][0]["key"] if batch["isControlBatch"] and batch["records"] else None
    return bool(key and len(key) >= 4 and key[2:4] == b"\0\0")


def _shows_markers_uncommitted(original: Function, self: Value, entry: Value) -> None:
    """Hide markers only under read_committed."""
    original(self, entry if self.transactions is not None else _WithoutControlBit(entry))


class _WithoutControlBit:
    """A log entry whose batch is no control batch."""

    def __init__(self, entry: Value) -> None:
        self.start = entry.start
        self.value = {**entry.value, "isControlBatch": False}


_fault = partial(SeededFault, area="logs")
_PLATFORMATIC = "https://github.com/platformatic/kafka"
_KAFKA = "https://github.com/apache/kafka"

TRANSACTIONS = (
    _fault(
        "known/hides-other-producers",
        description="a reader also hides the committed transaction of another producer",
        source="https://github.com/confluentinc/librdkafka/issues/3020",
        mutate=_hides(_hides_any_producer),
    ),
    _fault(
        "known/first-marker-is-the-abort",
        description="a reader takes any marker as an ABORT",
        source="https://github.com/kafka4beam/brod/pull/659",
        mutate=_hides(_any_marker_ends),
    ),
    _fault(
        "known/dies-of-unlisted-abort",
        description="a reader fails at an ABORT whose transaction is not listed",
        source=f"{_PLATFORMATIC}/issues/391",
        mutate=_hides(_crashes_at_unlisted_abort),
    ),
    _fault(
        "known/abort-uses-up-another",
        description="a reader removes another transaction from the list at the ABORT of an empty one",
        source="https://github.com/confluentinc/librdkafka/pull/3369",
        mutate=_hides(_abort_ends_any),
    ),
    _fault(
        "known/transaction-of-a-marker",
        description="a reader hides later records because of a transaction that has only a marker",
        source="https://github.com/confluentinc/librdkafka/pull/2498",
        mutate=_hides(_begins_after_its_marker),
    ),
    _fault(
        "known/markers-shown-uncommitted",
        description="a reader hides markers only under read_committed",
        source=f"{_PLATFORMATIC}/pull/393",
        mutate=replace_function(f"{_VIEW}._ConsumerViewBuilder._add_batch", _shows_markers_uncommitted, "read"),
    ),
    _fault(
        "known/emptied-marker",
        description="a reader reads the first record of a marker that compaction emptied",
        source=f"{_KAFKA}/pull/5727",
        mutate=_marker_type(lambda original, batch: original(batch) if batch["records"][0] else None),
    ),
    _fault(
        "pair/aborted-and-plain-of-a-producer",
        description="a reader hides plain batches of a producer inside its aborted transaction",
        source="consumer.filters-aborted",
        mutate=_hides(_hides_by_producer),
    ),
    _fault(
        "pair/marker-type-from-its-value",
        description="a reader reads the type of a marker from its value",
        source="control.value-opaque",
        mutate=_marker_type(
            lambda _, batch: (
                int.from_bytes((batch["records"][0]["value"] or b"\0\0")[:2], "big") if batch["records"] else 1
            )
        ),
    ),
    _fault(
        "pair/marker-version-for-type",
        description="a reader reads the version in a marker's key as its type",
        source="control.key-layout",
        mutate=_marker_type(
            lambda _, batch: (
                int.from_bytes((batch["records"][0]["key"] or b"")[:2], "big") if batch["records"] else None
            )
        ),
        survives_because="It takes each marker for an ABORT; others inside an aborted transaction are unspecified.",
    ),
    _fault(
        "pair/marker-type-in-the-last-byte",
        description="a reader reads the type of a marker from the last byte of its key",
        source="control.key-layout",
        mutate=_marker_type(lambda _, batch: (batch["records"][0]["key"] or b"\1")[-1] if batch["records"] else None),
        survives_because="It differs only for a key longer than four bytes, whose meaning is unspecified.",
    ),
)
"""Defects of readers of transactions."""
