"""Mutators of record batches, records and messages."""

from __future__ import annotations

from collections.abc import Callable

from conformance.codec.derived_fields import Values
from conformance.selftest.mutators import Change, Mutator, change_value, combine, field_change, object_change

DECODED_BATCHES = "RECORD_BATCH LOG"


def batch_fields(change: Callable[[Values], Values]) -> Mutator:
    """Show other fields of each decoded batch."""
    return change_value(DECODED_BATCHES, object_change("|batches", change))


def batch_field(name: str, change: Change) -> Mutator:
    """Show another value of one header field of each decoded batch."""
    return change_value(DECODED_BATCHES, field_change("|batches", name, change))


def batch_records(change: Change) -> Mutator:
    """Show other records of each decoded batch that has records."""
    return batch_fields(lambda batch: {"records": change(batch["records"])} if batch.get("records") else {})


def record_fields(change: Callable[[Values], Values]) -> Mutator:
    """Show other fields of each decoded record."""
    return combine(
        change_value("RECORD", object_change("", change)),
        change_value(DECODED_BATCHES, object_change("records", change)),
    )


def record_field(name: str, change: Change) -> Mutator:
    """Show another value of one field of each decoded record."""
    return record_fields(lambda record: {name: change(record[name])} if name in record else {})


def record_header_field(name: str, change: Change) -> Mutator:
    """Show another value of one field of each decoded record header."""
    return change_value("RECORD RECORD_BATCH LOG", field_change("headers", name, change))


def message_field(name: str, change: Change) -> Mutator:
    """Show another value of one field of each decoded message with magic 0 or 1."""
    return change_value("MESSAGE_SET LOG", field_change("|messages", name, change))


def last_of_each_key(headers: list[Values]) -> list[Values]:
    """Return the headers without those whose key is repeated later."""
    return list({header["key"]: header for header in headers}.values())
